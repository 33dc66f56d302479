/* SPDX-License-Identifier: Apache-2.0 */
/* What a query does not see reaches no gradient (semantics.md, R2): NaN and infinities there give the same bits as
 * zeros, on every algorithm of the backward pass. And nothing swallows NaN that is seen (R3). */
#include "oracle.h"
#include "testing.h"
#include <math.h>

static bool kept(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) > -INFINITY;
}

static bool is_seen(const oracle_case *c, int64_t b, int64_t hk, int64_t j) {
    const oracle_config *f = &c->config;
    for (int64_t h = hk * (f->H / f->Hk); h < (hk + 1) * (f->H / f->Hk); h++)
        for (int64_t i = 0; i < f->N; i++)
            if (kept(c, b, h, i, j))
                return true;
    return false;
}

/* Filler in keys that nobody sees, queries that see none, and the bias of pairs that masks hide. dO has it already. */
static void spoil(oracle_case *c) {
    const oracle_config *f = &c->config;
    const double x = oracle_filler_value(f->filler);
    for (int64_t row = 0; row < f->B * f->Hk * f->M; row++) {
        const bool seen = is_seen(c, row / (f->Hk * f->M), row / f->M % f->Hk, row % f->M);
        for (int64_t d = 0; d < f->D && !seen; d++)
            c->k[row * f->D + d] = x;
        for (int64_t d = 0; d < f->Dv && !seen; d++)
            c->v[row * f->Dv + d] = x;
    }
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
        bool any = false;
        for (int64_t j = 0; j < f->M; j++) {
            any = any || kept(c, b, h, i, j);
            if (c->bias && !oracle_sees(c, b, h, i, j))
                c->bias[row * f->M + j] = x;
        }
        for (int64_t d = 0; d < f->D && !any; d++)
            c->q[row * f->D + d] = x;
    }
}

static const oracle_config configs[] = {
    {.N = 21, .M = 40, .keep = {4, 15}, .bias = {4, 15}, .softcap = 3},
    {.N = 21, .M = 21, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lengths = true, .query_lengths = true},
    {.N = 30, .M = 20, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .sinks = true, .drop = {2, ORACLE_KEY}},
    {.N = 20,
     .M = 33,
     .has_window = true,
     .window_left = 2,
     .window_right = 1,
     .align = CLATTN_ALIGN_TOP_LEFT,
     .segments = true,
     .alibi = true},
    {.N = 9, .M = 17, .sequences = true, .lengths = true},
};

static oracle_backward *run(const oracle_runner *r, oracle_config f, oracle_filler filler) {
    char text[ORACLE_TEXT];
    f.B = 2, f.H = 4, f.Hk = 2, f.D = 20, f.Dv = 24, f.seed = 11, f.guard = 5;
    f.buffers = f.caller_workspace = true;
    f.filler = filler;
    oracle_backward *g = oracle_backward_make(oracle_make(&f));
    spoil(g->c);
    cr_assert(oracle_backward_run(g, r->context, NULL, r->algorithm, text), "%s", text);
    return g;
}

static void release(oracle_backward *g) {
    oracle_case *c = g->c;
    oracle_backward_free(g);
    oracle_free(c);
}

static int64_t count_of(const oracle_backward *g, int i) {
    const oracle_config *f = &g->c->config;
    const int64_t counts[] = {f->B * f->H * f->N * f->D, f->B * f->Hk * f->M * f->D, f->B * f->Hk * f->M * f->Dv,
                              f->B * f->H * f->N * f->M, f->H};
    return counts[i];
}

static void expect_same(const oracle_runner *r, const oracle_config *config, oracle_filler filler) {
    oracle_backward *clean = run(r, *config, ORACLE_ZERO), *g = run(r, *config, filler);
    char text[ORACLE_TEXT];
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        for (int64_t x = 0; clean->got.of[i] && x < count_of(g, i); x++) {
            const double a = clean->got.of[i][x], b = g->got.of[i][x];
            cr_assert(a == b || (isnan(a) && isnan(b)), "%s, filler %d: gradient %d[%lld] is %g, with zeros %g: %s",
                      r->algorithm, (int)filler, i, (long long)x, b, a, oracle_text(&g->c->config, text));
        }
    release(clean);
    release(g);
}

Test(backward_poison, what_is_not_seen_reaches_no_gradient) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
            for (int dtype = 0; dtype < (runners[r].has_f64 ? 2 : 1); dtype++) {
                oracle_config f = configs[i];
                f.dtype = dtype ? CLATTN_F64 : CLATTN_F32;
                expect_same(&runners[r], &f, ORACLE_NAN);
                expect_same(&runners[r], &f, ORACLE_INFINITY);
            }
    oracle_close(runners, n);
}

/* NaN in one element of Q, K, V or dO of a causal problem: exact says where it goes. */
static void expect_spread(const oracle_runner *r, int tensor) {
    const oracle_config f = {.H = 2, .Hk = 1, .N = 18, .D = 8, .causal = true, .seed = 3};
    char text[ORACLE_TEXT];
    oracle_case *c = oracle_make(&f);
    oracle_backward *g = oracle_backward_make(c);
    double *const all[] = {c->q, c->k, c->v, g->d_o};
    all[tensor][11 * 8 + 3] = NAN;
    cr_assert(oracle_backward_run(g, r->context, NULL, r->algorithm, text), "%s", text);
    for (int i = ORACLE_DQ; i <= ORACLE_DV; i++)
        for (int64_t row = 0; row < (i == ORACLE_DQ ? 36 : 18); row++) {
            /* Query i < 11 sees no key 11; with NaN in query 11 of head 0 alone, keys after 11 see it not. */
            const int64_t at = row % 18;
            const bool by_query = tensor == 0 || tensor == 3;
            const bool hit = i == ORACLE_DQ ? (by_query ? row == 11 : at >= 11) : by_query ? at <= 11 : true;
            bool any = false;
            for (int64_t d = 0; d < 8; d++)
                any = any || isnan(g->got.of[i][row * 8 + d]);
            /* dV of keys depends on neither V nor, but by weights, K. */
            const bool none = i == ORACLE_DV && tensor == 2;
            cr_expect_eq(any, hit && !none, "%s: NaN in tensor %d, gradient %d, row %lld", r->algorithm, tensor, i,
                         (long long)row);
        }
    oracle_backward_free(g);
    oracle_free(c);
}

/* Sinks of one head of two, which share nothing. */
static void expect_of_sink(const oracle_runner *r, double sink, bool nan_in_q, bool nan_in_head, bool nan_in_sink) {
    const oracle_config f = {.H = 2, .Hk = 2, .N = 5, .M = 9, .D = 8, .sinks = true, .seed = 4};
    char text[ORACLE_TEXT];
    oracle_case *c = oracle_make(&f);
    oracle_backward *g = oracle_backward_make(c);
    c->sinks[0] = sink;
    if (nan_in_q)
        c->q[3] = NAN;
    cr_assert(oracle_backward_run(g, r->context, NULL, r->algorithm, text), "%s", text);
    for (int i = ORACLE_DQ; i <= ORACLE_DV; i++)
        for (int64_t x = 0; x < (i == ORACLE_DQ ? 5 : 9) * 8; x++) {
            const bool hit = nan_in_head || (nan_in_q && (i != ORACLE_DQ || x < 8));
            cr_assert_eq(isnan(g->got.of[i][x]), hit, "%s: gradient %d[%lld]", r->algorithm, i, (long long)x);
            cr_assert_not(isnan(g->got.of[i][(i == ORACLE_DQ ? 5 : 9) * 8 + x]), "%s: the other head", r->algorithm);
        }
    const double got = g->got.of[ORACLE_DSINKS][0];
    cr_assert(nan_in_sink ? isnan(got) : got == 0, "%s: sink %g: its gradient is %g", r->algorithm, sink, got);
    oracle_backward_free(g);
    oracle_free(c);
}

Test(backward_poison, sinks_that_are_infinite_give_nan_or_nothing) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++) {
        expect_of_sink(&runners[r], INFINITY, false, true, true);
        expect_of_sink(&runners[r], -INFINITY, false, false, false);
        expect_of_sink(&runners[r], -INFINITY, true, false, false);
    }
    oracle_close(runners, n);
}

Test(backward_poison, what_is_seen_is_not_swallowed) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++)
        for (int tensor = 0; tensor < 4; tensor++)
            expect_spread(&runners[r], tensor);
    oracle_close(runners, n);
}
