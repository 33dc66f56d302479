/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of keys that no query of a tile sees cost nothing: the profile's counts say so. */
#include "algo_checks.h"

enum { B = 1, H = 2, N = 1024, M = 1024, D = 16 };

/* Shares of the blocks that are computed, of all fused kernels that ran. */
static double share_of(clattn_context *context, const char *algorithm) {
    clattn_profile_entry entries[64];
    size_t count = 0;
    uint64_t computed = 0, skipped = 0;
    SUCCEEDS(clattn_context_profile(context, entries, 64, &count));
    for (size_t i = 0; i < count && i < 64; i++) {
        computed += entries[i].computed_blocks;
        skipped += entries[i].skipped_blocks;
    }
    cr_assert_gt(computed + skipped, 0, "%s counts nothing", algorithm);
    return (double)computed / (double)(computed + skipped);
}

static double computed_share(clattn_context *context, const char *algorithm, const clattn_attention_args *masks) {
    static float q[B * H * N * D], k[B * H * M * D], o[B * H * N * D];
    const int64_t shape[] = {B, H, N, D};
    clattn_attention_args a = *masks;
    a.q = clattn_tensor_host(q, CLATTN_F32, 4, shape);
    a.k = a.v = clattn_tensor_host(k, CLATTN_F32, 4, shape);
    a.o = clattn_tensor_host(o, CLATTN_F32, 4, shape);
    a.algorithm = algorithm;
    clattn_context_profile_reset(context);
    SUCCEEDS(clattn_attention(context, &a));
    return share_of(context, algorithm);
}

static void expect_share(clattn_context *context, const char *algorithm, const char *what,
                         const clattn_attention_args *masks, double least, double most) {
    const double share = computed_share(context, algorithm, masks);
    cr_expect(share >= least && share <= most, "%s, %s: %.3f of the blocks are computed, not %.2f to %.2f", algorithm,
              what, share, least, most);
}

/* Every query sees at least `least` of the keys; blocks that stand across the border cost a little more. */
static void check(const char *algorithm, bool by_scores) {
    static unsigned char keep[M];
    static int32_t segments[N];
    static const int64_t lengths[] = {M / 4}, mask_shape[] = {1, M};
    clattn_context *context = NULL;
    const clattn_context_options options = {.profile = true};
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < N; i++)
        segments[i] = i / (N / 4);
    memset(keep, 1, M / 4);
    const clattn_attention_args plain = {0}, causal = {.causal = true},
                                window = {.has_window = true, .window_left = 64, .window_right = 0},
                                length = {.key_lengths = lengths},
                                parts = {.query_segments = segments, .key_segments = segments},
                                mask = {.keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, mask_shape)};
    expect_share(context, algorithm, "no mask", &plain, 1, 1);
    expect_share(context, algorithm, "causal", &causal, 0.5, 0.7);
    expect_share(context, algorithm, "window", &window, 0.04, 0.4);
    expect_share(context, algorithm, "key length", &length, 0.25, 0.26);
    if (by_scores) {
        expect_share(context, algorithm, "segments", &parts, 0.25, 0.5);
        expect_share(context, algorithm, "keep", &mask, 0.25, 0.26);
    }
    clattn_context_destroy(context);
}

/* Of both kernels that compute weights again, one whose groups own keys, one whose groups own queries. */
static double backward_share(clattn_context *context, const clattn_attention_args *masks) {
    enum { ROWS = 256 };
    static float q[B * H * ROWS * D], k[B * H * ROWS * D], o[B * H * ROWS * D], state[B * H * ROWS * 2];
    static float d_q[B * H * ROWS * D], d_k[B * H * ROWS * D], d_v[B * H * ROWS * D];
    const int64_t shape[] = {B, H, ROWS, D}, state_shape[] = {B, H, ROWS, 2};
    clattn_attention_backward_args a = {.forward = *masks, .algorithm = "fused_tiles"};
    a.forward.q = clattn_tensor_host(q, CLATTN_F32, 4, shape);
    a.forward.k = a.forward.v = clattn_tensor_host(k, CLATTN_F32, 4, shape);
    a.forward.o = a.d_o = clattn_tensor_host(o, CLATTN_F32, 4, shape);
    a.forward.state = clattn_tensor_host(state, CLATTN_F32, 4, state_shape);
    a.d_q = clattn_tensor_host(d_q, CLATTN_F32, 4, shape);
    a.d_k = clattn_tensor_host(d_k, CLATTN_F32, 4, shape);
    a.d_v = clattn_tensor_host(d_v, CLATTN_F32, 4, shape);
    SUCCEEDS(clattn_attention(context, &a.forward));
    clattn_context_profile_reset(context);
    SUCCEEDS(clattn_attention_backward(context, &a));
    return share_of(context, "backward pass of fused_tiles");
}

Test(skipping, the_backward_pass_of_fused_tiles_skips_what_masks_hide) {
    enum { ROWS = 256 };
    static unsigned char keep[ROWS];
    static int32_t segments[ROWS];
    static const int64_t mask_shape[] = {1, ROWS};
    clattn_context *context = NULL;
    const clattn_context_options options = {.profile = true};
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < ROWS; i++)
        segments[i] = i / (ROWS / 4);
    memset(keep, 1, ROWS / 4);
    const clattn_attention_args plain = {0}, causal = {.causal = true},
                                parts = {.query_segments = segments, .key_segments = segments},
                                mask = {.keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, mask_shape)};
    cr_expect_eq(backward_share(context, &plain), 1);
    const double below = backward_share(context, &causal), own = backward_share(context, &parts),
                 first = backward_share(context, &mask);
    cr_expect(below >= 0.5 && below <= 0.7, "causal: %.3f", below);
    cr_expect(own >= 0.25 && own <= 0.5, "segments: %.3f", own);
    cr_expect(first >= 0.25 && first <= 0.5, "keep: %.3f", first);
    clattn_context_destroy(context);
}

Test(skipping, fused_lanes_skips_what_no_query_of_a_tile_sees) { check("fused_lanes", true); }
Test(skipping, fused_split_skips_keys_past_the_length) { check("fused_split", false); }
Test(skipping, fused_tiles_skips_what_no_query_of_a_tile_sees) { check("fused_tiles", true); }
