/* SPDX-License-Identifier: Apache-2.0 */
/* Checks that the tests of one algorithm share: tables of problems against the oracle, and poison under masks. */
#ifndef ALGO_CHECKS_H
#define ALGO_CHECKS_H

#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static inline clattn_context *checks_open(const char *device) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create(device, NULL, &context));
    return context;
}

/* One problem, in f32 and, where it can, in f64. */
static inline void checks_problem(clattn_context *context, const char *algorithm, oracle_config config) {
    clattn_device_info info;
    char text[ORACLE_TEXT] = "";
    SUCCEEDS(clattn_context_info(context, &info));
    for (int t = 0; t < 2; t++) {
        config.dtype = t == 0 ? CLATTN_F32 : CLATTN_F64;
        if (t == 1 && !info.has_f64)
            continue;
        oracle_case *c = oracle_make(&config);
        cr_assert_not_null(c);
        cr_expect(oracle_check(c, context, algorithm, text), "%s", text);
        oracle_free(c);
    }
}

/* Sizes around every block's edge, with every layout and kind of mask in turn. */
static inline void checks_spread(clattn_context *context, const char *algorithm, const int64_t *sizes, int count,
                                 uint64_t seed) {
    static const int64_t heads[][2] = {{1, 1}, {4, 2}, {3, 1}, {2, 2}}, dims[] = {1, 5, 16, 33, 64};
    oracle_random random = {seed};
    for (int n = 0; n < count; n++)
        for (int m = 0; m < count; m++) {
            const int64_t *h = heads[oracle_below(&random, 4)];
            oracle_config c = {.B = 1 + oracle_below(&random, 2),
                               .H = h[0],
                               .Hk = h[1],
                               .N = sizes[n],
                               .M = sizes[m],
                               .D = dims[oracle_below(&random, 5)],
                               .Dv = dims[oracle_below(&random, 5)],
                               .layout = (oracle_layout)oracle_below(&random, ORACLE_LAYOUTS),
                               .guard = 13,
                               .lse = true,
                               .weights = oracle_below(&random, 2) == 1,
                               .buffers = oracle_below(&random, 2) == 1,
                               .seed = oracle_next(&random)};
            c.causal = oracle_below(&random, 3) == 0;
            c.has_window = oracle_below(&random, 4) == 0;
            c.window_left = oracle_below(&random, 40);
            c.window_right = oracle_below(&random, 40);
            c.align = (clattn_align)(CLATTN_ALIGN_TOP_LEFT + oracle_below(&random, 3));
            c.lengths = oracle_below(&random, 3) == 0;
            const oracle_mask masks[] = {{2, 3}, {3, 5}, {4, 9}, {4, 15}, {2, 1}, {4, 14}};
            if (oracle_below(&random, 3) == 0)
                c.keep = masks[oracle_below(&random, 6)];
            if (oracle_below(&random, 4) == 0)
                c.drop = masks[oracle_below(&random, 6)];
            if (oracle_below(&random, 3) == 0)
                c.bias = masks[oracle_below(&random, 6)];
            checks_problem(context, algorithm, c);
        }
}

/* The outputs of two runs where `same` says so: equal bits, but for the sign of zero. */
static inline bool checks_equal(double a, double b) { return a == b || (isnan(a) && isnan(b)); }

/* Puts bad into V at one key: lane 0 of the queries that see it, and nothing else, may change. */
static inline void checks_poison_value(clattn_context *context, const char *algorithm, const oracle_config *config,
                                       double bad) {
    oracle_case *clean = oracle_make(config), *c = oracle_make(config);
    const oracle_config *f = &c->config;
    char text[ORACLE_TEXT] = "";
    const int64_t j = f->M / 2, group = f->H / f->Hk;
    clean->v[j * f->Dv] = 3;
    c->v[j * f->Dv] = bad;
    cr_assert(oracle_run(clean, context, algorithm, text), "%s", text);
    cr_assert(oracle_run(c, context, algorithm, text), "%s", text);
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
        const bool met =
            b == 0 && h / group == 0 && oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) > -INFINITY;
        for (int64_t d = 0; d < f->Dv; d++) {
            const double got = c->got.o[row * f->Dv + d], was = clean->got.o[row * f->Dv + d];
            if (met && d == 0)
                cr_expect(isnan(bad) ? isnan(got) : !isfinite(got), "row %d lane 0 is %g", (int)row, got);
            else
                cr_expect(checks_equal(got, was), "row %d lane %d: %.17g was %.17g", (int)row, (int)d, got, was);
        }
        if (f->lse)
            cr_expect(checks_equal(c->got.lse[row], clean->got.lse[row]));
    }
    oracle_free(clean);
    oracle_free(c);
}

/* Puts NaN into K at one key: the queries that see it become NaN altogether, the others stay. */
static inline void checks_poison_key(clattn_context *context, const char *algorithm, const oracle_config *config) {
    oracle_case *clean = oracle_make(config), *c = oracle_make(config);
    const oracle_config *f = &c->config;
    char text[ORACLE_TEXT] = "";
    const int64_t j = f->M / 2, group = f->H / f->Hk;
    c->k[j * f->D] = NAN;
    cr_assert(oracle_run(clean, context, algorithm, text), "%s", text);
    cr_assert(oracle_run(c, context, algorithm, text), "%s", text);
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
        const bool met =
            b == 0 && h / group == 0 && oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) > -INFINITY;
        for (int64_t d = 0; d < f->Dv; d++) {
            const double got = c->got.o[row * f->Dv + d], was = clean->got.o[row * f->Dv + d];
            cr_expect(met ? isnan(got) : checks_equal(got, was), "row %d lane %d: %.17g was %.17g", (int)row, (int)d,
                      got, was);
        }
        for (int64_t x = 0; f->weights && x < f->M; x++) {
            const double got = c->got.weights[row * f->M + x], was = clean->got.weights[row * f->M + x];
            const bool kept = oracle_sees(c, b, h, i, x) && oracle_bias(c, b, h, i, x) > -INFINITY;
            cr_expect(met && kept ? isnan(got) : checks_equal(got, was), "weight %d of row %d: %g was %g", (int)x,
                      (int)row, got, was);
            cr_expect(kept || (got == 0 && !signbit(got)), "weight %d of row %d is excluded, and %g", (int)x, (int)row,
                      got);
        }
    }
    oracle_free(clean);
    oracle_free(c);
}

static inline void checks_poison(clattn_context *context, const char *algorithm) {
    const oracle_config configs[] = {
        {.N = 5, .M = 9, .D = 4, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true, .weights = true},
        {.B = 2, .H = 4, .Hk = 2, .N = 37, .M = 41, .D = 8, .Dv = 20, .keep = {4, 15}, .lse = true, .weights = true},
        {.H = 2, .N = 19, .M = 600, .D = 16, .bias = {3, 7}, .lse = true, .layout = ORACLE_BSHD},
        {.H = 3, .Hk = 1, .N = 1, .M = 1100, .D = 8, .drop = {3, 5}},
        {.N = 2, .M = 3, .D = 1, .drop = {2, 3}},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        checks_poison_value(context, algorithm, &configs[i], NAN);
        checks_poison_value(context, algorithm, &configs[i], INFINITY);
        checks_poison_value(context, algorithm, &configs[i], -INFINITY);
        checks_poison_key(context, algorithm, &configs[i]);
    }
}

/* A plain call on dense host arrays of rank 4. */
typedef struct checks_call {
    int64_t N, M, D, Dv;
    const float *q, *k, *v;
    const unsigned char *keep; /* [N, M] */
    const float *bias;         /* [N, M] */
    float *o, *lse, *weights;
} checks_call;

static inline clattn_attention_args checks_args(const checks_call *c) {
    const int64_t q[] = {1, 1, c->N, c->D}, k[] = {1, 1, c->M, c->D}, v[] = {1, 1, c->M, c->Dv};
    const int64_t o[] = {1, 1, c->N, c->Dv}, w[] = {1, 1, c->N, c->M}, mask[] = {c->N, c->M};
    clattn_attention_args a = {.q = clattn_tensor_host(c->q, CLATTN_F32, 4, q),
                               .k = clattn_tensor_host(c->k, CLATTN_F32, 4, k),
                               .v = clattn_tensor_host(c->v, CLATTN_F32, 4, v),
                               .o = clattn_tensor_host(c->o, CLATTN_F32, 4, o)};
    if (c->lse)
        a.lse = clattn_tensor_host(c->lse, CLATTN_F32, 3, o);
    if (c->weights)
        a.weights = clattn_tensor_host(c->weights, CLATTN_F32, 4, w);
    if (c->keep)
        a.keep = clattn_tensor_host(c->keep, CLATTN_BOOL, 2, mask);
    if (c->bias)
        a.bias = clattn_tensor_host(c->bias, CLATTN_F32, 2, mask);
    return a;
}

/* Exact answers: the rules for rows without keys, infinite scores and two keys. */
static inline void checks_rules(clattn_context *context, const char *algorithm) {
    const float two[2] = {10, 20}, one[1] = {1};
    float o[2], lse[2], w[4];
    const struct {
        float keys[2], bias[2], o;
    } cases[] = {
        {{-INFINITY, 1}, {0, 0}, 20},
        {{INFINITY, 1}, {0, 0}, NAN},
        {{-INFINITY, -INFINITY}, {0, 0}, 0},
        {{NAN, 1}, {-INFINITY, 0}, 20},
        {{NAN, 1}, {0, 0}, NAN},
        {{1, 1}, {-INFINITY, -INFINITY}, 0},
        {{1, 1}, {-3.4028235e38f, 0}, 20},
        {{1, 1}, {-3.4028235e38f, -3.4028235e38f}, 15},
        {{INFINITY, 1}, {-INFINITY, 0}, 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const checks_call c = {1, 2, 1, 1, one, cases[i].keys, two, NULL, cases[i].bias, o, lse, w};
        clattn_attention_args a = checks_args(&c);
        a.algorithm = algorithm;
        SUCCEEDS(clattn_attention(context, &a));
        cr_expect(checks_equal(o[0], cases[i].o), "case %d: %g, expected %g", (int)i, o[0], cases[i].o);
        cr_expect(cases[i].o != 0 || (lse[0] == -INFINITY && w[0] == 0 && w[1] == 0));
    }
}

/* Two keys pin the exponential: O is e / (1 + e), with e = exp(-x). */
static inline void checks_exponential(clattn_context *context, const char *algorithm) {
    const float q[1] = {1}, v[2] = {1, 0};
    for (int i = 0; i <= 850; i++) {
        const float k[2] = {-(float)i / 10, 0};
        float o[1];
        const checks_call c = {1, 2, 1, 1, q, k, v, NULL, NULL, o, NULL, NULL};
        clattn_attention_args a = checks_args(&c);
        a.algorithm = algorithm;
        SUCCEEDS(clattn_attention(context, &a));
        const double e = exp((double)k[0]), exact = e / (1 + e);
        cr_expect(fabs(o[0] - exact) <= 3e-7 * exact, "x %g: %.9g, exact %.9g", k[0], o[0], exact);
    }
}

/* Zero scores and values of 1: O is 1, however long the row. */
static inline void checks_long_row(clattn_context *context, const char *algorithm) {
    enum { M = 70000, D = 4 };
    float *ones = malloc(M * D * sizeof *ones), *w = malloc(M * sizeof *w), q[D] = {0}, o[D], lse[1];
    for (int i = 0; i < M * D; i++)
        ones[i] = 1;
    for (int weights = 0; weights < 2; weights++) {
        const checks_call c = {1, M, D, D, q, ones, ones, NULL, NULL, o, lse, weights ? w : NULL};
        clattn_attention_args a = checks_args(&c);
        a.algorithm = algorithm;
        SUCCEEDS(clattn_attention(context, &a));
        cr_expect_float_eq(o[0], 1, oracle_floor(CLATTN_F32, 1));
        cr_expect_float_eq(lse[0], log(M), oracle_floor(CLATTN_F32, log(M)));
    }
    cr_expect_float_eq(w[M - 1] * M, 1, oracle_floor(CLATTN_F32, 1));
    free(ones);
    free(w);
}

/* Rows that overlap, as no BLAS takes them. */
static inline void checks_shared_rows(clattn_context *context, const char *algorithm) {
    enum { M = 9, D = 4 };
    float x[64], o[2][M * D], dense[M * D];
    const int64_t shape[] = {1, 1, M, D};
    oracle_random random = {7};
    for (int i = 0; i < 64; i++)
        x[i] = (float)oracle_normal(&random);
    /* Rows of a sliding window, and one row for all. */
    for (int64_t step = 0; step < 3; step += 2) {
        for (int i = 0; i < M * D; i++)
            dense[i] = x[i / D * step + i % D];
        for (int way = 0; way < 2; way++) {
            clattn_tensor t = clattn_tensor_host(way ? x : dense, CLATTN_F32, 4, shape);
            if (way)
                t.stride[2] = step;
            const clattn_attention_args a = {
                .q = t, .k = t, .v = t, .o = clattn_tensor_host(o[way], CLATTN_F32, 4, shape), .algorithm = algorithm};
            SUCCEEDS(clattn_attention(context, &a));
        }
        cr_expect_eq(memcmp(o[0], o[1], sizeof o[0]), 0);
    }
}

/* Dv = 0. */
static inline void checks_without_values(clattn_context *context, const char *algorithm) {
    const float q[2] = {0, 0}, k[2] = {5, 6};
    float o[1], lse[2], w[4];
    const checks_call c = {2, 2, 1, 0, q, k, q, NULL, NULL, o, lse, w};
    clattn_attention_args a = checks_args(&c);
    a.algorithm = algorithm;
    SUCCEEDS(clattn_attention(context, &a));
    cr_expect_float_eq(lse[1], log(2), oracle_floor(CLATTN_F32, 1));
    cr_expect_eq(w[3], 0.5f);
}

#endif
