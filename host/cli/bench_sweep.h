/* SPDX-License-Identifier: Apache-2.0 */
/* The list of problems of `clattn bench`: texts as given, or each at every size of a sweep. */
#ifndef CLA_BENCH_SWEEP_H
#define CLA_BENCH_SWEEP_H

#include "bench_run.h"

/* sweep_text: "n=512:8192", "k=1000:100000:10", or NULL. Sets problems (to be freed), problem_count and swept.
 * Prints one line and returns the exit status when something is wrong. */
int cla_bench_sweep(cla_bench *bench, char *const *texts, int count, const char *sweep_text);

#endif
