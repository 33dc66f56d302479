/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of oclgrind_run.c: operations on rows, elements, tokens and caches, for test_faults_modules.c too; problems for
 * single algorithms; the list of kernels. */
#ifndef OCLGRIND_OPS_H
#define OCLGRIND_OPS_H

#include "oracle.h"
#include <stdbool.h>

/* Each problem on a new device context, and on `cpu`; told(data, same results, text) after each, when its context is
 * gone. */
void ops_check(void (*told)(void *data, bool right, const char *text), void *data);

typedef struct more_problem {
    const char *algorithm;
    oracle_config config;
    bool backward;
    bool unwritten; /* rows that nobody sees are copied and looked at as they lie: for races alone */
} more_problem;
const more_problem *more_at(size_t index); /* NULL behind the last */

/* From here on kernels are listed instead of built and launched. */
void list_begin(void);
bool list_is_on(void);
/* Prints what was listed where `keys`, and the kernels of the library that were not; returns how many those are. */
int list_end(bool keys);

/* One of them; NULL past the end. */
const char *ops_name(size_t index);
/* By the kernels for CPU-class devices, or those for others; the context's info says which from then on. */
clattn_status ops_run(clattn_context *context, size_t index, bool as_cpu);
/* Whether the last run's results are those of `cpu`. */
bool ops_right(size_t index);

#endif
