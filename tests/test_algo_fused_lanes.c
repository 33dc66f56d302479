/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `fused_lanes`: score masks that several heads share are packed once. When, that it is right, and that the
 * bits are those of masks read as they lie. What every algorithm does is tested elsewhere. */
#include "algo_checks.h"

enum { B = 2, H = 3, N = 131, M = 203, D = 16 };
static const char name[] = "fused_lanes", packed[] = "score masks, packed once for all heads";

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

/* ---- when ---- */

typedef struct {
    int64_t keep[4], bias[4]; /* shapes; all 0: none */
    int64_t queries;
    size_t max_workspace;
    bool alibi;
} call;

/* Whether a plan's text holds `text`. */
static bool says(clattn_context *context, const call *c, const char *text) {
    static const float slopes[H] = {0.5f, 0.25f, 0.125f};
    const int64_t q[] = {B, H, c->queries, D}, k[] = {B, H, M, D};
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_buffer_create(context, (size_t)(B * H * N * (M + 2 * D)) * 4, &buffer));
    clattn_attention_args a = {.q = clattn_tensor_buffer(buffer, CLATTN_F32, 4, q),
                               .k = clattn_tensor_buffer(buffer, CLATTN_F32, 4, k),
                               .v = clattn_tensor_buffer(buffer, CLATTN_F32, 4, k),
                               .o = clattn_tensor_buffer(buffer, CLATTN_F32, 4, q),
                               .max_workspace = c->max_workspace,
                               .algorithm = name};
    a.o.offset = (int64_t)B * H * N * (M + D);
    if (c->keep[0])
        a.keep = clattn_tensor_buffer(buffer, CLATTN_BOOL, 4, c->keep);
    if (c->bias[0])
        a.bias = clattn_tensor_buffer(buffer, CLATTN_F32, 4, c->bias);
    if (c->alibi) {
        a.alibi_slopes = slopes;
        a.align = CLATTN_ALIGN_TOP_LEFT;
    }
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    const bool there = strstr(clattn_plan_explain(plan), text) != NULL;
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    return there;
}

Test(algo_fused_lanes, packs_masks_that_heads_share) {
    clattn_context *context = open_device();
    const call yes[] = {{.keep = {1, 1, N, M}, .queries = N},
                        {.keep = {B, 1, N, M}, .queries = N},
                        {.bias = {1, 1, N, M}, .queries = N},
                        {.bias = {B, 1, N, M}, .keep = {B, 1, 1, M}, .queries = N}};
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        cr_expect(says(context, &yes[i], packed), "call %zu does not pack", i);
    clattn_context_destroy(context);
}

Test(algo_fused_lanes, reads_other_masks_as_they_lie) {
    clattn_context *context = open_device();
    const call no[] = {{.queries = N},
                       {.keep = {B, H, N, M}, .queries = N},
                       {.keep = {1, 1, N, M}, .bias = {1, H, N, M}, .queries = N},
                       {.keep = {B, 1, 1, M}, .queries = N},
                       {.keep = {1, 1, N, M}, .queries = N, .alibi = true},
                       {.keep = {1, 1, 7, M}, .queries = 7},
                       {.keep = {1, 1, N, M}, .queries = N, .max_workspace = 4096}};
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
        cr_expect(says(context, &no[i], "algorithm fused_lanes"), "call %zu", i);
        cr_expect(!says(context, &no[i], packed), "call %zu packs", i);
    }
    call small = {.keep = {1, 1, N, M}, .queries = N, .max_workspace = 4096};
    cr_expect(says(context, &small, "no room to pack the score masks"));
    clattn_context_destroy(context);
}

/* ---- results ---- */

Test(algo_fused_lanes, packed_masks_give_what_the_oracle_says, .timeout = 600) {
    clattn_context *context = open_device();
    const oracle_config configs[] = {
        {.B = 2, .H = 3, .N = N, .M = M, .D = 40, .Dv = 24, .keep = {2, 3}, .lse = true, .guard = 13},
        {.B = 2,
         .H = 4,
         .Hk = 2,
         .N = 150,
         .M = 129,
         .D = 64,
         .keep = {4, 11},
         .drop = {4, 9},
         .bias = {2, 3},
         .lse = true,
         .buffers = true,
         .layout = ORACLE_BSHD},
        {.B = 3,
         .H = 2,
         .N = 97,
         .M = 301,
         .D = 33,
         .bias = {4, 11},
         .drop = {2, 3},
         .causal = true,
         .align = CLATTN_ALIGN_BOTTOM_RIGHT,
         .has_window = true,
         .window_left = 90,
         .window_right = 3,
         .lse = true,
         .buffers = true,
         .caller_workspace = true,
         .guard = 5},
        {.H = 6,
         .N = 200,
         .M = 77,
         .D = 100,
         .Dv = 8,
         .bias = {3, 3},
         .keep = {3, 3},
         .softcap = 9,
         .sinks = true,
         .layout = ORACLE_TRANSPOSED,
         .lengths = true,
         .lse = true},
        {.B = 2,
         .H = 5,
         .N = 111,
         .M = 65,
         .D = 16,
         .bias = {2, 3},
         .typed = true,
         .q_type = CLATTN_F16,
         .k_type = CLATTN_BF16,
         .v_type = CLATTN_F16,
         .o_type = CLATTN_F16,
         .bias_type = CLATTN_F16}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        char text[ORACLE_TEXT] = "";
        if (!configs[i].typed) {
            checks_problem(context, name, configs[i]);
            continue;
        }
        oracle_case *c = oracle_make(&configs[i]);
        cr_assert_not_null(c);
        cr_expect(oracle_check(c, context, name, text), "%s", text);
        oracle_free(c);
    }
    clattn_context_destroy(context);
}

/* Rows without keys, NaN and infinities under masks, and additive masks of -inf and finfo.min among them. */
Test(algo_fused_lanes, packed_masks_give_the_bits_of_masks_that_are_read_as_they_lie) {
    static float q[B * H * N * D], k[B * H * M * D], v[B * H * M * D], bias[B * N * M], o[2][B * H * N * D];
    static float lse[2][B * H * N];
    static unsigned char keep[N * M];
    const int64_t rows[] = {B, H, N, D}, keys[] = {B, H, M, D}, scores[] = {B, 1, N, M}, row[] = {B, H, N};
    oracle_random random = {5};
    clattn_context *context = open_device();
    for (int i = 0; i < B * H * N * D; i++)
        q[i] = (float)oracle_below(&random, 2001) / 500 - 2;
    for (int i = 0; i < B * H * M * D; i++) {
        k[i] = (float)oracle_below(&random, 2001) / 500 - 2;
        v[i] = (float)oracle_below(&random, 2001) / 500 - 2;
    }
    for (int i = 0; i < B * N * M; i++) {
        const int64_t kind = oracle_below(&random, 9);
        bias[i] = kind == 0 ? -INFINITY : kind == 1 ? -3.4028235e38f : (float)kind / 4 - 1;
    }
    for (int i = 0; i < N * M; i++) { /* row 7 sees nothing; nobody sees key 11 */
        keep[i] = i / M != 7 && i % M != 11 && oracle_below(&random, 4) > 0;
        if (i / M >= 48 && i / M < 96)
            keep[i] = keep[i] && i % M > 160; /* blocks that nobody of a panel sees */
    }
    k[11 * D] = NAN;
    v[11 * D + 3] = INFINITY;
    for (int pass = 0; pass < 2; pass++) {
        clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, rows),
                                   .k = clattn_tensor_host(k, CLATTN_F32, 4, keys),
                                   .v = clattn_tensor_host(v, CLATTN_F32, 4, keys),
                                   .o = clattn_tensor_host(o[pass], CLATTN_F32, 4, rows),
                                   .lse = clattn_tensor_host(lse[pass], CLATTN_F32, 3, row),
                                   .keep = clattn_tensor_host(keep, CLATTN_BOOL, 4, (int64_t[]){1, 1, N, M}),
                                   .bias = clattn_tensor_host(bias, CLATTN_F32, 4, scores),
                                   .max_workspace = pass ? 256 : 0,
                                   .algorithm = name};
        SUCCEEDS(clattn_attention(context, &a));
    }
    cr_expect_eq(memcmp(o[0], o[1], sizeof o[0]), 0, "outputs differ");
    cr_expect_eq(memcmp(lse[0], lse[1], sizeof lse[0]), 0, "LSE differs");
    for (int d = 0; d < D; d++)
        cr_expect_eq(o[0][7 * D + d], 0, "a row that sees no key is %g", (double)o[0][7 * D + d]);
    for (int i = 0; i < B * H * N * D; i++)
        cr_assert(isfinite(o[0][i]), "output %d is %g", i, (double)o[0][i]);
    clattn_context_destroy(context);
}
