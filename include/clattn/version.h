/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/status.h>

#define CLATTN_VERSION_MAJOR 0
#define CLATTN_VERSION_MINOR 1
#define CLATTN_VERSION_PATCH 0

#ifdef __cplusplus
extern "C" {
#endif
/* "0.1.0": the version of the library that runs, which may differ from the header's. */
CLATTN_API const char *clattn_version(void);
#ifdef __cplusplus
}
#endif
#endif
