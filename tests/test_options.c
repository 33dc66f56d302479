/* SPDX-License-Identifier: Apache-2.0 */
/* Each option and storage type alone and in some company, on every algorithm, against the oracle. The grid
 * (test_grid.c) has all pairs of them; here a failure names the option. */
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>

static void agree(const oracle_config *config) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    oracle_case *c = oracle_make(config);
    char text[ORACLE_TEXT] = "";
    int ran = 0;
    cr_assert(oracle_exact(c, text), "%s", text);
    for (size_t i = 0; i < n; i++) {
        if (c->config.dtype == CLATTN_F64 && !runners[i].has_f64)
            continue;
        cr_expect(oracle_run(c, runners[i].context, runners[i].algorithm, text) &&
                      oracle_compare(c, runners[i].algorithm, text),
                  "%s", text);
        ran++;
    }
    cr_expect_gt(ran, 1);
    oracle_free(c);
    oracle_close(runners, n);
}

static void all_agree(const oracle_config *configs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        oracle_config config = configs[i];
        config.seed = i + 1;
        config.guard = 13;
        config.lse = true;
        agree(&config);
        if (config.typed)
            continue;
        config.dtype = CLATTN_F64;
        config.buffers = true;
        agree(&config);
    }
}

#define AGREE(...)                                                                                                     \
    do {                                                                                                               \
        static const oracle_config configs[] = {__VA_ARGS__};                                                          \
        all_agree(configs, sizeof configs / sizeof *configs);                                                          \
    } while (0)
/* Sizes that fill no tile. */
#define SIZES .B = 2, .H = 4, .Hk = 2, .N = 9, .M = 70, .D = 32, .Dv = 64
#define CAUSAL .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT
#define TYPED .typed = true

Test(options, a_soft_cap) { AGREE({SIZES, .softcap = 0.7}, {SIZES, .softcap = 5, .bias = {4, 15}, CAUSAL}); }

Test(options, slopes_by_distance) {
    AGREE({SIZES, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT}, {SIZES, .alibi = true, CAUSAL, .lengths = true},
          {SIZES, .alibi = true, .align = CLATTN_ALIGN_OFFSET, .softcap = 3});
}

Test(options, sinks) {
    AGREE({SIZES, .sinks = true}, {SIZES, .sinks = true, CAUSAL, .lengths = true},
          {SIZES, .sinks = true, .keep = {2, 3}});
}

Test(options, query_lengths) {
    AGREE({SIZES, .query_lengths = true}, {SIZES, .query_lengths = true, .lengths = true, CAUSAL, .sinks = true});
}

Test(options, prefixes_that_all_queries_see) {
    AGREE({SIZES, .prefix = true, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
          {SIZES, .prefix = true, CAUSAL, .lengths = true, .has_window = true, .window_left = 20, .window_right = 30});
}

Test(options, segments) { AGREE({SIZES, .segments = true}, {SIZES, .segments = true, CAUSAL, .query_lengths = true}); }

Test(options, sequences_one_after_another) {
    AGREE({SIZES, .sequences = true}, {SIZES, .sequences = true, CAUSAL, .sinks = true},
          {SIZES, .sequences = true, .lengths = true, .layout = ORACLE_BSHD},
          {SIZES, .sequences = true, .segments = true, .layout = ORACLE_PACKED, .alibi = true, CAUSAL},
          {SIZES, .sequences = true, .layout = ORACLE_TRANSPOSED}, {SIZES, .sequences = true, .layout = ORACLE_SHARED});
}

Test(options, masks_shorter_than_the_keys) {
    AGREE({SIZES, .short_masks = true, .keep = {4, 15}},
          {SIZES, .short_masks = true, .drop = {2, 3}, .bias = {4, 9}, .page_size = 16, .layout = ORACLE_TRANSPOSED},
          {SIZES, .short_masks = true, .bias = {2, 1}, CAUSAL, .sinks = true},
          {SIZES, .short_masks = true, .drop = {3, 6}});
}

Test(options, pages) {
    AGREE({SIZES, .page_size = 16}, {SIZES, .page_size = 1, CAUSAL}, {SIZES, .page_size = 33, .layout = ORACLE_BSHD},
          {SIZES, .page_size = 7, .layout = ORACLE_PACKED, .bias = {4, 15}},
          {SIZES, .page_size = 64, .layout = ORACLE_TRANSPOSED}, {SIZES, .page_size = 5, .layout = ORACLE_SHARED},
          {SIZES, .page_size = 8, .sequences = true, CAUSAL});
}

Test(options, storage_in_16_bits) {
    AGREE({SIZES, TYPED, .q_type = CLATTN_F16, .k_type = CLATTN_F16, .v_type = CLATTN_F16, .o_type = CLATTN_F16},
          {SIZES, TYPED, .q_type = CLATTN_BF16, .k_type = CLATTN_BF16, .v_type = CLATTN_BF16, .o_type = CLATTN_BF16,
           CAUSAL},
          {SIZES, TYPED, .q_type = CLATTN_F16, .k_type = CLATTN_BF16, .v_type = CLATTN_F32, .o_type = CLATTN_F16,
           .bias_type = CLATTN_BF16, .bias = {3, 7}},
          {SIZES, TYPED, .q_type = CLATTN_F32, .k_type = CLATTN_F16, .v_type = CLATTN_BF16, .o_type = CLATTN_BF16,
           .bias_type = CLATTN_F16, .bias = {4, 15}, .layout = ORACLE_TRANSPOSED, .weights = true});
}

Test(options, one_tensor_in_f64_makes_the_sums_f64) {
    AGREE({SIZES, TYPED, .q_type = CLATTN_F64}, {SIZES, TYPED, .k_type = CLATTN_F64, .o_type = CLATTN_BF16},
          {SIZES, TYPED, .v_type = CLATTN_F64, .q_type = CLATTN_F16}, {SIZES, TYPED, .o_type = CLATTN_F64},
          {SIZES, TYPED, .bias_type = CLATTN_F64, .bias = {2, 3}, .sinks = true});
}

Test(options, quantised_keys_and_values) {
    AGREE({SIZES, TYPED, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q8_0},
          {SIZES, TYPED, .k_type = CLATTN_Q4_0, .v_type = CLATTN_Q4_0, .layout = ORACLE_PACKED, CAUSAL},
          {SIZES, TYPED, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q4_0, .layout = ORACLE_PADDED, .lengths = true},
          {SIZES, TYPED, .k_type = CLATTN_Q4_0, .v_type = CLATTN_F16, .q_type = CLATTN_F16, .page_size = 16},
          {SIZES, TYPED, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q8_0, .o_type = CLATTN_F64, .sequences = true,
           .page_size = 3});
}

Test(options, batch_invariant) {
    AGREE({SIZES, .batch_invariant = true, CAUSAL}, {SIZES, .batch_invariant = true, .sinks = true, .page_size = 16},
          {SIZES, TYPED, .k_type = CLATTN_F16, .batch_invariant = true, .softcap = 2});
}

Test(options, scratch_full_of_nan) {
    AGREE({SIZES, .buffers = true, .caller_workspace = true, CAUSAL},
          {SIZES, TYPED, .k_type = CLATTN_Q8_0, .o_type = CLATTN_F16, .layout = ORACLE_TRANSPOSED, .buffers = true,
           .caller_workspace = true, .page_size = 16},
          {.N = 1, .M = 2000, .D = 16, .buffers = true, .caller_workspace = true, .lengths = true});
}

/* Semantics R1: O = 0 in a row that sees no key, and LSE is the sink. */
Test(options, a_row_without_keys_is_zero_whatever_its_sink_is) {
    enum { H = 3, N = 2, M = 40, D = 4 };
    float x[H * N * D], k[M * D], o[H * N * D], lse[H * N], sinks[H] = {NAN, INFINITY, 1.5f};
    const unsigned char keep[M] = {0};
    const int64_t q[] = {1, H, N, D}, ks[] = {1, 1, M, D}, heads[] = {H}, mask[] = {1, M};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    for (int i = 0; i < H * N * D; i++)
        x[i] = 1;
    for (int i = 0; i < M * D; i++)
        k[i] = 1;
    for (size_t r = 0; r < count; r++) {
        const clattn_attention_args a = {.q = clattn_tensor_host(x, CLATTN_F32, 4, q),
                                         .k = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                         .v = clattn_tensor_host(k, CLATTN_F32, 4, ks),
                                         .o = clattn_tensor_host(o, CLATTN_F32, 4, q),
                                         .lse = clattn_tensor_host(lse, CLATTN_F32, 3, q),
                                         .keep = clattn_tensor_host((void *)(uintptr_t)keep, CLATTN_BOOL, 2, mask),
                                         .sinks = clattn_tensor_host(sinks, CLATTN_F32, 1, heads),
                                         .algorithm = runners[r].algorithm};
        cr_assert_eq(clattn_attention(runners[r].context, &a), CLATTN_OK, "%s", clattn_last_error());
        for (int i = 0; i < H * N * D; i++)
            cr_expect_eq(o[i], 0, "%s: o[%d] is %g", runners[r].algorithm, i, (double)o[i]);
        for (int i = 2 * N; i < 3 * N; i++)
            cr_expect_float_eq(lse[i], 1.5f, 1e-6, "%s: lse %g", runners[r].algorithm, (double)lse[i]);
    }
    oracle_close(runners, count);
}
