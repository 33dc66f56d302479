/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of known failures of attention code (test_cases_*.c): one check, on every algorithm and type.
 *
 * Ids are those of the collection the cases come from; a test's name begins with them. Groups A to E are here and in
 * test_algo_fused_split.c, test_merge.c (A11) and test_determinism.c (D08), group F (CLBlast) in test_cases_clblast.c,
 * group G (drivers) in test_cases_drivers.c and with the code it is about, H (files) with the readers. */
#ifndef CASES_H
#define CASES_H

#include "each_runner.h"
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>

/* Runs it; without the weights where the algorithm does not give them. */
static inline void runs(oracle_case *c, const oracle_runner *runner) {
    char text[ORACLE_TEXT] = "";
    if (c->config.weights && !oracle_applies(c, runner, NULL))
        c->config.weights = false;
    cr_assert(oracle_run(c, runner->context, runner->algorithm, text), "%s", text);
}

/* Runs it and compares with the oracle. */
static inline void agrees(oracle_case *c, const oracle_runner *runner) {
    char text[ORACLE_TEXT] = "";
    cr_assert(oracle_exact(c, text), "%s", text);
    runs(c, runner);
    cr_assert(oracle_compare(c, runner->algorithm, text), "%s", text);
}

/* One problem on every algorithm of both devices, in f32 and f64. */
static inline void all_agree(const oracle_config *config) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    char text[ORACLE_TEXT] = "";
    for (int dtype = CLATTN_F32; dtype <= CLATTN_F64; dtype++) {
        oracle_config typed = *config;
        typed.dtype = (clattn_dtype)dtype;
        oracle_case *c = oracle_make(&typed);
        cr_assert(oracle_exact(c, text), "%s", text);
        for (size_t i = 0; i < n; i++)
            if (dtype == CLATTN_F32 || runners[i].has_f64) {
                runs(c, &runners[i]);
                cr_expect(oracle_compare(c, runners[i].algorithm, text), "%s", text);
                c->config.weights = config->weights;
            }
        oracle_free(c);
    }
    oracle_close(runners, n);
}

/* Sets n values, given as doubles. */
#define SET(to, ...) memcpy((to), (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}))

static inline void set_all(double *to, int64_t n, double value) {
    for (int64_t i = 0; i < n; i++)
        to[i] = value;
}

/* v[0, 0] = the identity, as far as it goes. */
static inline void set_identity(double *v, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < rows * columns; i++)
        v[i] = i / columns == i % columns;
}

/* The first n values differ by no more than that; NaN equals NaN, and 0 no -0 when nothing may differ. */
static inline void expect_values(const oracle_runner *runner, const double *got, const double *want, int64_t n,
                                 double most) {
    for (int64_t i = 0; i < n; i++)
        cr_expect((isnan(want[i]) && isnan(got[i])) || got[i] == want[i] || fabs(got[i] - want[i]) <= most,
                  "%s: value %lld is %.17g, not %.17g", runner->algorithm, (long long)i, got[i], want[i]);
}
#define EXPECT(runner, got, most, ...)                                                                                 \
    expect_values(runner, got, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double),  \
                  most)

/* Bit for bit, but for the payload of a NaN. */
static inline void expect_same(const oracle_runner *runner, const double *got, const double *want, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        cr_expect((isnan(want[i]) && isnan(got[i])) || (got[i] == want[i] && signbit(got[i]) == signbit(want[i])),
                  "%s: value %lld is %a, not %a", runner->algorithm, (long long)i, got[i], want[i]);
}

#endif
