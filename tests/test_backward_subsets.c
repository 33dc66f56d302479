/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass on every algorithm where some gradients are asked for and others are not, where there is nothing to
 * see, and what `blas` does with numbers that are not finite. */
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>

enum {
    Q = 1 << ORACLE_DQ,
    K = 1 << ORACLE_DK,
    V = 1 << ORACLE_DV,
    BIAS = 1 << ORACLE_DBIAS,
    SINKS = 1 << ORACLE_DSINKS
};
static const unsigned sets[] = {Q, K, V, BIAS, SINKS, Q | V, K | BIAS, V | SINKS, Q | K | V | BIAS | SINKS};

static void check(const oracle_runner *r, const oracle_config *config, size_t count, const unsigned *wanted) {
    char text[ORACLE_TEXT] = "";
    const char *reason = "";
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    cr_assert(oracle_exact(c, text) && oracle_backward_exact(g, text), "%s", text);
    for (size_t s = 0; s < count; s++) {
        for (int i = 0; i < ORACLE_GRADIENTS; i++)
            g->without[i] = !(wanted[s] >> i & 1);
        if (!oracle_backward_applies(g, r, &reason))
            continue;
        cr_expect(oracle_backward_run(g, r->context, NULL, r->algorithm, text) &&
                      oracle_backward_compare(g, r->algorithm, text),
                  "%s, gradients %x: %s", r->algorithm, wanted[s], text);
    }
    oracle_backward_free(g);
    oracle_free(c);
}

/* In one problem, so that each algorithm builds few kernels. */
Test(backward_subsets, each_gradient_alone_and_with_others, .timeout = 600) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    const oracle_config f = {.B = 2,
                             .H = 4,
                             .Hk = 2,
                             .N = 9,
                             .M = 21,
                             .D = 8,
                             .softcap = 2,
                             .dropout = 0.25,
                             .sinks = true,
                             .bias = {.rank = 4, .axes = ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY},
                             .seed = 11};
    for (size_t r = 0; r < n; r++)
        check(&runners[r], &f, sizeof sets / sizeof *sets, sets);
    oracle_close(runners, n);
}

/* On algorithms whose kernels do not know these sizes. */
Test(backward_subsets, of_calls_with_little_in_them, .timeout = 600) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    static const oracle_config configs[] = {
        {.H = 2, .N = 7, .M = 700, .D = 8, .Dv = 5, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .seed = 1},
        {.dtype = CLATTN_F64,
         .B = 2,
         .H = 2,
         .Hk = 1,
         .N = 5,
         .M = 9,
         .D = 4,
         .softcap = 3,
         .sinks = true,
         .seed = 2,
         .bias = {.rank = 2, .axes = ORACLE_KEY}},
        {.dtype = CLATTN_F64, .H = 2, .N = 5, .M = 9, .D = 4, .dropout = 0.5, .lengths = true, .seed = 3},
        {.B = 3,
         .H = 2,
         .N = 6,
         .M = 6,
         .D = 8,
         .sequences = true,
         .causal = true,
         .align = CLATTN_ALIGN_BOTTOM_RIGHT,
         .seed = 4},
        {.H = 2, .N = 9, .M = 3, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .seed = 5}, /* queries that
                                                                                                            see none */
        {.H = 2,
         .N = 4,
         .M = 9,
         .D = 8,
         .alibi = true,
         .causal = true,
         .align = CLATTN_ALIGN_TOP_LEFT,
         .short_masks = true,
         .seed = 6,
         .bias = {.rank = 2, .axes = ORACLE_QUERY | ORACLE_KEY}},
        {.H = 2, .N = 9, .M = 30, .D = 4, .bias = {.rank = 2, .axes = 0}, .seed = 7},
    };
    static const unsigned wanted[] = {Q | K | V | BIAS | SINKS, V, K | BIAS, Q};
    for (size_t r = 0; r < n; r++)
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
            if (!strstr(runners[r].algorithm, "fused"))
                check(&runners[r], &configs[i], i + 1 < sizeof configs / sizeof *configs ? 4 : 1, wanted);
    oracle_close(runners, n);
}

/* ---- no values, or no keys ---- */

typedef struct {
    float q[2 * 3 * 4], k[2 * 5 * 4], v[2 * 5 * 4], o[2 * 3 * 4], state[2 * 3 * 2], d_o[2 * 3 * 4], d_q[2 * 3 * 4],
        d_k[2 * 5 * 4], d_v[2 * 5 * 4];
} arrays;

static clattn_attention_backward_args call_of(arrays *a, int64_t N, int64_t M, int64_t Dv) {
    const int64_t q[] = {1, 2, N, 4}, k[] = {1, 2, M, 4}, v[] = {1, 2, M, Dv}, o[] = {1, 2, N, Dv}, s[] = {1, 2, N, 2};
    for (size_t i = 0; i < sizeof *a / sizeof(float); i++)
        ((float *)a)[i] = (float)(i % 13) / 8;
    return (clattn_attention_backward_args){.forward = {.q = clattn_tensor_host(a->q, CLATTN_F32, 4, q),
                                                        .k = clattn_tensor_host(a->k, CLATTN_F32, 4, k),
                                                        .v = clattn_tensor_host(a->v, CLATTN_F32, 4, v),
                                                        .o = clattn_tensor_host(a->o, CLATTN_F32, 4, o),
                                                        .state = clattn_tensor_host(a->state, CLATTN_F32, 4, s)},
                                            .d_o = clattn_tensor_host(a->d_o, CLATTN_F32, 4, o),
                                            .d_q = clattn_tensor_host(a->d_q, CLATTN_F32, 4, q),
                                            .d_k = clattn_tensor_host(a->d_k, CLATTN_F32, 4, k),
                                            .d_v = clattn_tensor_host(a->d_v, CLATTN_F32, 4, v)};
}

/* Without columns of V nothing depends on q and k: their gradients are 0. */
Test(backward_subsets, without_values_or_keys_gradients_are_zeros, .timeout = 600) {
    static const int64_t sizes[][3] = {{3, 5, 0}, {3, 0, 4}, {0, 5, 4}};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++)
        for (int i = 0; i < 3; i++) {
            arrays a;
            const int64_t N = sizes[i][0], M = sizes[i][1];
            clattn_attention_backward_args args = call_of(&a, N, M, sizes[i][2]);
            if (strstr(runners[r].algorithm, "fused") && i == 0)
                continue; /* a kernel of its own for each width */
            args.algorithm = runners[r].algorithm;
            SUCCEEDS(clattn_attention(runners[r].context, &args.forward));
            SUCCEEDS(clattn_attention_backward(runners[r].context, &args));
            for (int64_t x = 0; x < 2 * N * 4; x++)
                cr_expect_eq(a.d_q[x], 0, "%s, case %d: d_q[%d] is %g", runners[r].algorithm, i, (int)x,
                             (double)a.d_q[x]);
            for (int64_t x = 0; x < 2 * M * 4; x++)
                cr_expect_eq(a.d_k[x], 0, "%s, case %d: d_k[%d] is %g", runners[r].algorithm, i, (int)x,
                             (double)a.d_k[x]);
        }
    oracle_close(runners, n);
}

/* ---- on the host ---- */

/* NaN and infinity reach by `blas` what they reach by `reference`. */
Test(backward_subsets, what_is_not_finite_spreads_by_blas_as_by_the_reference) {
    clattn_context *cpu = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    for (int turn = 0; turn < 16; turn++) {
        const oracle_config f = {.dtype = turn & 8 ? CLATTN_F64 : CLATTN_F32,
                                 .H = 2,
                                 .Hk = 1,
                                 .N = 18,
                                 .D = 8,
                                 .causal = true,
                                 .dropout = turn & 4 ? 0.5 : 0,
                                 .seed = 3};
        char text[ORACLE_TEXT] = "";
        oracle_backward *g[2];
        for (int i = 0; i < 2; i++) {
            oracle_case *c = oracle_make(&f);
            g[i] = oracle_backward_make(c);
            double *const all[] = {c->q, c->k, c->v, g[i]->d_o};
            all[turn % 4][11 * 8 + 3] = turn & 1 ? NAN : INFINITY;
            cr_assert(oracle_backward_run(g[i], cpu, "reference", i ? "reference" : "blas", text), "%s", text);
        }
        for (int i = ORACLE_DQ; i <= ORACLE_DV; i++)
            for (int64_t x = 0; x < (i == ORACLE_DQ ? 36 : 18) * 8; x++)
                cr_expect(!isfinite(g[0]->got.of[i][x]) == !isfinite(g[1]->got.of[i][x]),
                          "turn %d: gradient %d, %d is %g, by the reference %g", turn, i, (int)x, g[0]->got.of[i][x],
                          g[1]->got.of[i][x]);
        for (int i = 0; i < 2; i++) {
            oracle_case *c = g[i]->c;
            oracle_backward_free(g[i]);
            oracle_free(c);
        }
    }
    clattn_context_destroy(cpu);
}

/* Blocks of fewer rows, and fewer threads, where scratch is short; a named error where it is too short for any. */
Test(backward_subsets, blas_within_little_scratch) {
    clattn_context *cpu = NULL;
    char text[ORACLE_TEXT] = "";
    int ran = 0, refused = 0;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    oracle_config f = {.B = 1, .H = 2, .Hk = 1, .N = 200, .M = 40, .D = 8, .softcap = 2, .seed = 8};
    for (size_t bytes = 1 << 19; bytes >= 1 << 10; bytes = bytes * 2 / 3) {
        f.max_workspace = bytes;
        oracle_case *c = oracle_make(&f);
        oracle_backward *g = oracle_backward_make(c);
        cr_assert(oracle_exact(c, text) && oracle_backward_exact(g, text), "%s", text);
        if (oracle_backward_run(g, cpu, NULL, "blas", text)) {
            ran++;
            cr_expect_eq(refused, 0, "more scratch was too little");
            cr_expect(oracle_backward_compare(g, "blas", text), "%zu bytes: %s", bytes, text);
        } else {
            refused++;
            cr_expect(strstr(text, "CLATTN_E_LIMIT"), "%zu bytes: %s", bytes, text);
        }
        oracle_backward_free(g);
        oracle_free(c);
    }
    cr_expect(ran > 2 && refused > 0);
    clattn_context_destroy(cpu);
}
