/* SPDX-License-Identifier: Apache-2.0 */
/* Versions, and how structs grow. Programs that were built with this version go on to work, unchanged, with every later
 * library of the same soname (libclattn.so.0).
 *
 * Structs that a caller fills are set to zero, and then what is wanted: `{.q = ...}` does both. All zero is the plain
 * case of every option. They end in `reserved`, which fields of later versions take their place from, so that sizes,
 * and so arrays and structs in structs, stay as they are:
 *   an older program, a newer library   the program's zeros there are the plain case of what it does not know
 *   a newer program, an older library   a field that is set and that the library does not know is refused:
 *                                       CLATTN_E_UNSUPPORTED, by the name of the struct and the place
 * Structs that the library fills have zeros there. Fixed for good are clattn_tensor, clattn_partial, clattn_array,
 * clattn_named_array, clattn_metadata_pair and clattn_gguf_string, which have no `reserved`; enumerators and functions
 * are only added. */
#ifndef CLATTN_VERSION_H
#define CLATTN_VERSION_H

#include <clattn/status.h>

/* Of the header: incompatible */
#define CLATTN_VERSION_MAJOR 0
/* Of the header: new things */
#define CLATTN_VERSION_MINOR 1
/* Of the header: faults mended */
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
