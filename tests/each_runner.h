/* SPDX-License-Identifier: Apache-2.0 */
/* A check on every algorithm of this machine. */
#ifndef EACH_RUNNER_H
#define EACH_RUNNER_H

#include "oracle.h"
#include <criterion/criterion.h>

typedef void (*runner_check)(const oracle_runner *runner, clattn_dtype dtype);

/* On every algorithm of `opencl` and `cpu`, in f32 and f64. */
static inline void on_each(runner_check check) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++) {
        check(&runners[i], CLATTN_F32);
        if (runners[i].has_f64)
            check(&runners[i], CLATTN_F64);
    }
    oracle_close(runners, n);
}

#endif
