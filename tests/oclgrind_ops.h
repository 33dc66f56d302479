/* SPDX-License-Identifier: Apache-2.0 */
/* A part of oclgrind_run.c: operations on rows, elements, tokens and caches. */
#ifndef OCLGRIND_OPS_H
#define OCLGRIND_OPS_H

#include <stdbool.h>

/* Each problem on a new device context, and on `cpu`; told(data, same results, text) after each, when its context is
 * gone. */
void ops_check(void (*told)(void *data, bool right, const char *text), void *data);

#endif
