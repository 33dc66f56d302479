/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `materialised`: chunks of every kind, rows that share their place, limits; NaN and infinities in
 * several blocks of rows; the same bits in each run. */
#include "attention/chunks.h"
#include "oracle.h"
#include "testing.h"
#include <clattn/backward.h>
#include <math.h>
#include <stdlib.h>

static const char name[] = "materialised";

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

static void check(clattn_context *context, const oracle_config *config) {
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    cr_expect(oracle_backward_exact(g, text) && oracle_backward_run(g, context, NULL, name, text) &&
                  oracle_backward_compare(g, name, text),
              "%s", text);
    oracle_backward_free(g);
    oracle_free(c);
}

/* ---- chunks ---- */

static cla_problem sized(int64_t B, int64_t H, int64_t Hk, int64_t N, int64_t M, int64_t D) {
    const clattn_tensor there = {.rank = 4};
    cla_problem p = {.B = B, .H = H, .Hk = Hk, .group = H / Hk, .N = N, .M = M, .D = D, .Dv = D};
    p.d_q = p.d_k = p.d_v = there;
    return p;
}

/* A key head of [2, 4 / 2, 6, 33, 8] takes 1280 bytes for its keys, 256 for their flag, and 12 rows of 352. */
enum { PIECES = 9 * 256, KEYS = 1280 + 256, HEAD = KEYS + 12 * 352 };
static const struct {
    size_t limit;
    cla_chunk_sizes sizes;
} cuts[] = {{PIECES + 4 * HEAD, {2, 2, 2, 6}},    {PIECES + 4 * HEAD - 1, {1, 2, 2, 6}},
            {PIECES + HEAD, {1, 1, 2, 6}},        {PIECES + HEAD - 1, {1, 1, 1, 6}},
            {PIECES + KEYS + 1800, {1, 1, 1, 3}}, {PIECES + KEYS + 352, {1, 1, 1, 1}}};

Test(backward_materialised, chunks_are_the_largest_that_fit) {
    const cla_problem p = sized(2, 4, 2, 6, 33, 8);
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const cla_gradient_chunks c = cla_gradient_chunks_choose(&p, (int64_t)cuts[i].limit);
        cr_expect(memcmp(&c.of, &cuts[i].sizes, sizeof c.of) == 0, "limit %zu: %d %d %d %d", cuts[i].limit,
                  (int)c.of.batches, (int)c.of.heads, (int)c.of.members, (int)c.of.queries);
        cr_expect_leq(cla_gradient_chunks_bytes(&c), (int64_t)cuts[i].limit);
    }
    oracle_random random = {1};
    for (int i = 0; i < 20000; i++) {
        const int64_t hk = 1 + oracle_below(&random, 5);
        cla_problem q =
            sized(1 + oracle_below(&random, 4), hk * (1 + oracle_below(&random, 5)), hk, 1 + oracle_below(&random, 300),
                  1 + oracle_below(&random, 3000), 1 + oracle_below(&random, 100));
        q.d_q.rank = i % 3 ? 4 : 0;
        q.d_k.rank = i % 4 ? 4 : 0;
        const int64_t least = PIECES + q.M * q.D * 4 + 4 * q.M + 256 + 4 * (2 * q.M + 4 + 2 * q.D) + 8;
        const int64_t limit = least + oracle_below(&random, (int64_t)1 << oracle_below(&random, 30));
        const cla_gradient_chunks c = cla_gradient_chunks_choose(&q, limit);
        cr_assert_leq(cla_gradient_chunks_bytes(&c), limit);
        cr_assert(c.of.batches >= 1 && c.of.heads >= 1 && c.of.members >= 1 && c.of.queries >= 1);
        cr_assert(c.of.batches <= q.B && c.of.heads <= q.Hk && c.of.members <= q.group && c.of.queries <= q.N);
    }
}

Test(backward_materialised, chunks_of_any_size_agree_with_the_oracle, .timeout = 300) {
    clattn_context *context = open_device();
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        oracle_config c = {.B = 2,
                           .H = 4,
                           .Hk = 2,
                           .N = 6,
                           .M = 33,
                           .D = 8,
                           .bias = {4, i % 2 ? 6 : 11},
                           .sinks = true,
                           .dropout = 0.2,
                           .max_workspace = cuts[i].limit,
                           .seed = i};
        check(context, &c);
        c.bias = (oracle_mask){2, 3};
        c.typed = true; /* the bias and the sums of d_bias lie in scratch */
        c.bias_type = CLATTN_BF16;
        c.max_workspace += 2 * 1024;
        check(context, &c);
    }
    clattn_context_destroy(context);
}

Test(backward_materialised, more_rows_than_a_block_agree_with_the_oracle, .timeout = 300) {
    clattn_context *context = open_device();
    const oracle_config list[] = {
        {.H = 2, .Hk = 1, .N = 300, .M = 270, .D = 20, .Dv = 12, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {.N = 70, .M = 600, .D = 64, .has_scale = true, .scale = 1.2, .bias = {2, ORACLE_KEY}, .softcap = 20},
        {.B = 3, .H = 2, .N = 90, .M = 100, .D = 9, .sequences = true, .buffers = true, .guard = 7, .sinks = true}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        check(context, &list[i]);
    clattn_context_destroy(context);
}

Test(backward_materialised, what_does_not_fit_is_an_error_by_name) {
    clattn_context *context = open_device();
    const oracle_config small = {.N = 6, .M = 33, .D = 8, .max_workspace = 2000}, invariant = {.batch_invariant = true};
    char text[ORACLE_TEXT] = "";
    const oracle_config *const list[] = {&small, &invariant};
    const char *const expected[] = {"rows of 33 scores and their gradients", "batch_invariant forbids that"};
    for (int i = 0; i < 2; i++) {
        oracle_config f = *list[i];
        f.N = f.D = 6;
        oracle_case *c = oracle_make(&f);
        oracle_backward *g = oracle_backward_make(c);
        cr_expect(!oracle_backward_run(g, context, NULL, name, text) && strstr(text, expected[i]), "%s", text);
        oracle_backward_free(g);
        oracle_free(c);
    }
    clattn_context_destroy(context);
}

/* ---- rows that share their place ---- */

/* The gradient of a sum is one number for all of O; here V is one row for all keys of a head. */
Test(backward_materialised, rows_that_share_their_place_are_copied) {
    enum { H = 2, N = 5, M = 7, D = 4 };
    const int64_t q[] = {1, H, N, D}, k[] = {1, H, M, D}, s[] = {1, H, N, 2};
    static float in[H * M * D], out[2][3][H * M * D], o[H * N * D], state[H * N * 2], one = 0.5F;
    clattn_context *contexts[] = {open_device(), NULL};
    oracle_random random = {4};
    SUCCEEDS(clattn_context_create("cpu", NULL, &contexts[1]));
    for (int i = 0; i < H * M * D; i++)
        in[i] = (float)oracle_normal(&random);
    for (int i = 0; i < 2; i++) {
        clattn_attention_backward_args a = {.forward = {.q = clattn_tensor_host(in, CLATTN_F32, 4, q),
                                                        .k = clattn_tensor_host(in, CLATTN_F32, 4, k),
                                                        .v = clattn_tensor_host(in, CLATTN_F32, 4, k),
                                                        .o = clattn_tensor_host(o, CLATTN_F32, 4, q),
                                                        .state = clattn_tensor_host(state, CLATTN_F32, 4, s)},
                                            .d_o = clattn_tensor_host(&one, CLATTN_F32, 4, q),
                                            .d_q = clattn_tensor_host(out[i][0], CLATTN_F32, 4, q),
                                            .d_k = clattn_tensor_host(out[i][1], CLATTN_F32, 4, k),
                                            .d_v = clattn_tensor_host(out[i][2], CLATTN_F32, 4, k),
                                            .algorithm = i ? "reference" : name};
        a.forward.v.stride[2] = 1; /* key j has the values j .. j + D */
        for (int axis = 0; axis < 4; axis++)
            a.d_o.stride[axis] = 0;
        SUCCEEDS(clattn_attention(contexts[i], &a.forward));
        SUCCEEDS(clattn_attention_backward(contexts[i], &a));
        clattn_context_destroy(contexts[i]);
    }
    for (int t = 0; t < 3; t++)
        for (int i = 0; i < H * M * D; i++)
            cr_expect(fabsf(out[0][t][i] - out[1][t][i]) <= oracle_floor(CLATTN_F32, 8), "%d, %d: %g, not %g", t, i,
                      (double)out[0][t][i], (double)out[1][t][i]);
}

/* ---- bits ---- */

static const oracle_config several = {.H = 4, .Hk = 2, .N = 300, .M = 280, .D = 12, .keep = {2, 3}};
static const int64_t counts[] = {4 * 300 * 12, 2 * 280 * 12, 2 * 280 * 12};

Test(backward_materialised, each_run_has_the_same_bits, .timeout = 300) {
    clattn_context *context = open_device();
    char text[ORACLE_TEXT] = "";
    double *kept[3];
    oracle_case *c = oracle_make(&several);
    oracle_backward *g = oracle_backward_make(c);
    for (int run = 0; run < 4; run++) {
        cr_assert(oracle_backward_run(g, context, NULL, name, text), "%s", text);
        for (int i = 0; i < 3; i++) {
            const size_t bytes = (size_t)counts[i] * sizeof(double);
            if (run == 0)
                kept[i] = memcpy(malloc(bytes), g->got.of[i], bytes);
            else
                cr_expect_arr_eq(g->got.of[i], kept[i], bytes, "gradient %d", i);
        }
    }
    for (int i = 0; i < 3; i++)
        free(kept[i]);
    oracle_backward_free(g);
    oracle_free(c);
    clattn_context_destroy(context);
}

/* ---- NaN and infinities ---- */

static double *row_of(oracle_backward *g, int tensor, int64_t row) {
    double *const all[] = {g->c->q, g->c->k, g->c->v, g->d_o};
    return all[tensor] + row * 12;
}

/* In two blocks of rows, with masks and a cap: they reach what they reach by the reference. */
Test(backward_materialised, what_is_not_finite_reaches_what_sees_it_and_nothing_else, .timeout = 300) {
    clattn_context *contexts[] = {open_device(), NULL};
    SUCCEEDS(clattn_context_create("cpu", NULL, &contexts[1]));
    for (int turn = 0; turn < 8; turn++) {
        const int tensor = turn / 2;
        char text[ORACLE_TEXT] = "";
        oracle_config f = several;
        oracle_backward *g[2];
        f.softcap = turn % 2 ? 5 : 0;
        for (int i = 0; i < 2; i++) {
            g[i] = oracle_backward_make(oracle_make(&f));
            row_of(g[i], tensor, 17)[3] = turn % 2 ? -INFINITY : NAN;
            row_of(g[i], tensor, 260)[turn] = INFINITY;
            cr_assert(oracle_backward_run(g[i], contexts[i], NULL, i ? "reference" : name, text), "%s", text);
        }
        for (int i = 0; i < 3; i++)
            for (int64_t x = 0; x < counts[i]; x++)
                cr_assert(!isfinite(g[1]->got.of[i][x]) == !isfinite(g[0]->got.of[i][x]),
                          "tensor %d, cap %g: gradient %d of row %d, %d is %g, by the reference %g", tensor, f.softcap,
                          i, (int)x / 12, (int)x % 12, g[0]->got.of[i][x], g[1]->got.of[i][x]);
        for (int i = 0; i < 2; i++) {
            oracle_case *c = g[i]->c;
            oracle_backward_free(g[i]);
            oracle_free(c);
        }
    }
    clattn_context_destroy(contexts[0]);
    clattn_context_destroy(contexts[1]);
}
