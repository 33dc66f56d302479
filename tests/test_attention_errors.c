/* SPDX-License-Identifier: Apache-2.0 */
/* What attention refuses, on both kinds of device: each message names the tensor and the numbers. */
#include "testing.h"
#include <clattn/clattn.h>
#include <math.h>

enum { B = 2, H = 4, HK = 2, N = 5, M = 7, D = 8, DV = 6 };
static double room[8192], out[8192]; /* more than any tensor here reaches */

static clattn_tensor host4(int64_t b, int64_t h, int64_t s, int64_t d) {
    return clattn_tensor_host(room, CLATTN_F32, 4, (const int64_t[]){b, h, s, d});
}

static clattn_attention_args valid(void) {
    return (clattn_attention_args){.q = host4(B, H, N, D),
                                   .k = host4(B, HK, M, D),
                                   .v = host4(B, HK, M, DV),
                                   .o = clattn_tensor_host(out, CLATTN_F32, 4, (const int64_t[]){B, H, N, DV})};
}

/* By the one call and by a plan, on every kind of device. */
static void refused(clattn_attention_args args, clattn_status code, const char *part) {
    static const char *const devices[] = {"cpu", "opencl"};
    for (int i = 0; i < 2; i++) {
        clattn_context *context = NULL;
        if (clattn_context_create(devices[i], NULL, &context) != CLATTN_OK)
            continue;
        clattn_plan *plan = (clattn_plan *)room;
        FAILS(clattn_attention(context, &args), code, part);
        FAILS(clattn_plan_create(context, &args, &plan), code, part);
        cr_expect_null(plan);
        clattn_context_destroy(context);
    }
}

Test(attention_errors, missing_arguments) {
    clattn_context *context = NULL;
    clattn_attention_args args = valid();
    clattn_plan *plan = NULL;
    bool applies;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    FAILS(clattn_attention(NULL, &args), CLATTN_E_ARGUMENT, "attention: context is NULL");
    FAILS(clattn_attention(context, NULL), CLATTN_E_ARGUMENT, "attention: args is NULL");
    FAILS(clattn_plan_create(context, &args, NULL), CLATTN_E_ARGUMENT, "plan_create: plan is NULL");
    FAILS(clattn_plan_create(NULL, &args, &plan), CLATTN_E_ARGUMENT, "plan_create: context is NULL");
    FAILS(clattn_plan_create(context, NULL, &plan), CLATTN_E_ARGUMENT, "plan_create: args is NULL");
    FAILS(clattn_plan_execute(NULL, NULL), CLATTN_E_ARGUMENT, "plan_execute: plan is NULL");
    FAILS(clattn_plan_info_get(NULL, NULL), CLATTN_E_ARGUMENT, "plan_info_get: plan is NULL");
    FAILS(clattn_plan_set_workspace(NULL, NULL), CLATTN_E_ARGUMENT, "plan_set_workspace: plan is NULL");
    FAILS(clattn_algorithm_applies(context, &args, 0, NULL, NULL), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_algorithm_applies(context, &args, 99, &applies, NULL), CLATTN_E_ARGUMENT, "there is no algorithm 99");
    cr_assert_str_eq(clattn_plan_explain(NULL), "");
    clattn_plan_destroy(NULL);
    clattn_context_destroy(context);
}

Test(attention_errors, a_tensor_that_is_missing_is_named) {
    for (int i = 0; i < 4; i++) {
        clattn_attention_args args = valid();
        *(clattn_tensor *[]){&args.q, &args.k, &args.v, &args.o}[i] = (clattn_tensor){0};
        refused(args, CLATTN_E_ARGUMENT,
                (const char *[]){"q: is missing", "k: is missing", "v: is missing", "o: is missing"}[i]);
    }
}

Test(attention_errors, ranks_are_two_to_four_and_the_same) {
    clattn_attention_args args = valid();
    args.q.rank = 1;
    refused(args, CLATTN_E_SHAPE, "q: rank 1; attention takes rank 2");
    args.q.rank = 5;
    refused(args, CLATTN_E_SHAPE, "q: rank 5; attention takes rank 2");
    args = valid();
    args.v.rank = 3;
    refused(args, CLATTN_E_SHAPE, "v: rank 3, but q has rank 4");
    args = valid();
    args.k = clattn_tensor_slice(args.k, 2, 5, 5);
    refused(args, CLATTN_E_SHAPE, "k: rank -1");
}

Test(attention_errors, storage_is_one_buffer_or_one_array) {
    clattn_attention_args args = valid();
    args.k.host = NULL;
    refused(args, CLATTN_E_ARGUMENT, "k: has neither a buffer nor a host array");
    args = valid();
    args.v.buffer = (clattn_buffer *)room;
    refused(args, CLATTN_E_ARGUMENT, "v: has both a buffer and a host array");
}

Test(attention_errors, types_that_attention_does_not_take_are_named) {
    static const int64_t blocks[] = {B, H, N, 32};
    clattn_attention_args args = valid();
    args.k.dtype = CLATTN_I32;
    refused(args, CLATTN_E_DTYPE, "k: is i32; attention takes f32, f64, f16 and bf16: convert it");
    args = valid();
    args.q = clattn_tensor_host(room, CLATTN_Q8_0, 4, blocks);
    refused(args, CLATTN_E_DTYPE, "q: is q8_0; attention takes f32, f64, f16 and bf16, and q8_0 and q4_0 as k and v");
    args = valid();
    args.k = clattn_tensor_host(room, CLATTN_Q4_1, 4, blocks);
    refused(args, CLATTN_E_DTYPE, "k: is q4_1; attention takes f32, f64, f16 and bf16, and q8_0 and q4_0 as k and v");
    args = valid();
    args.o = clattn_tensor_host(out, CLATTN_Q4_0, 4, blocks);
    refused(args, CLATTN_E_DTYPE, "o: is q4_0; attention takes f32, f64, f16 and bf16, and q8_0 and q4_0 as k and v");
    args = valid();
    args.q.dtype = (clattn_dtype)31;
    refused(args, CLATTN_E_DTYPE, "q: 31 is no dtype");
    args = valid();
    args.keep = clattn_tensor_host(out, (clattn_dtype)31, 2, (const int64_t[]){N, M});
    refused(args, CLATTN_E_DTYPE, "keep: 31 is no dtype");
    args = valid();
    args.sinks = clattn_tensor_host(out, (clattn_dtype)-1, 1, (const int64_t[]){H});
    refused(args, CLATTN_E_DTYPE, "sinks: -1 is no dtype");
    args = valid();
    args.k.dtype = CLATTN_Q8_0;
    refused(args, CLATTN_E_SHAPE, "k: q8_0 is in blocks of 32 along the last axis, and its size 8");
    args = valid();
    args.bias = host4(1, 1, N, M);
    args.bias.dtype = CLATTN_BOOL;
    refused(args, CLATTN_E_DTYPE, "bias: is bool; an additive mask is of a float type");
    args = valid();
    args.keep = host4(1, 1, N, M);
    refused(args, CLATTN_E_DTYPE, "keep: is f32; a mask of yes and no is bool or u8");
    args = valid();
    args.drop = host4(1, 1, N, M);
    args.drop.dtype = CLATTN_I32;
    refused(args, CLATTN_E_DTYPE, "drop: is i32; a mask of yes and no is bool or u8");
}

/* f64 where anything is f64, else f32. */
Test(attention_errors, outputs_and_sinks_of_another_type_than_the_sums_are_named) {
    clattn_attention_args args = valid();
    args.lse = clattn_tensor_host(out + 4096, CLATTN_F64, 3, (const int64_t[]){B, H, N});
    refused(args, CLATTN_E_DTYPE, "lse: is f64, but the sums here are f32, and so is it");
    args.lse.dtype = CLATTN_F16;
    refused(args, CLATTN_E_DTYPE, "lse: is f16, but the sums here are f32");
    args.lse.dtype = CLATTN_F32;
    args.k.dtype = CLATTN_F64;
    refused(args, CLATTN_E_DTYPE, "lse: is f32, but the sums here are f64");
    args = valid();
    args.weights = host4(B, H, N, M);
    args.weights.dtype = CLATTN_F64;
    refused(args, CLATTN_E_DTYPE, "weights: is f64, but the sums here are f32");
    args = valid();
    args.sinks = clattn_tensor_host(room, CLATTN_F16, 1, (const int64_t[]){H});
    refused(args, CLATTN_E_DTYPE, "sinks: are f16, but the sums here are f32");
}

Test(attention_errors, shapes_that_do_not_fit_are_named_with_both_numbers) {
    clattn_attention_args args = valid();
    args.k.shape[0] = 3;
    refused(args, CLATTN_E_SHAPE, "k, v: batch 3 and 2, but q has 2");
    args = valid();
    args.v.shape[0] = 1;
    refused(args, CLATTN_E_SHAPE, "k, v: batch 2 and 1, but q has 2");
    args = valid();
    args.k.shape[3] = 9;
    refused(args, CLATTN_E_SHAPE, "k [2, 2, 7, 9]: head dim 9, but q has 8");
    args = valid();
    args.v.shape[2] = 6;
    refused(args, CLATTN_E_SHAPE, "k [2, 2, 7, 8] and v [2, 2, 6, 6]: heads or keys differ");
    args = valid();
    args.v.shape[1] = 1;
    refused(args, CLATTN_E_SHAPE, "k [2, 2, 7, 8] and v [2, 1, 7, 6]: heads or keys differ");
    args = valid();
    args.o.shape[3] = 8;
    refused(args, CLATTN_E_SHAPE, "o [2, 4, 5, 8]: should be [2, 4, 5, 6]");
    args = valid();
    args.k.shape[1] = args.v.shape[1] = 3;
    refused(args, CLATTN_E_SHAPE, "k: 3 key heads do not divide 4 query heads");
    args = valid();
    args.lse = clattn_tensor_host(room, CLATTN_F32, 3, (const int64_t[]){B, H, M});
    refused(args, CLATTN_E_SHAPE, "lse [2, 4, 7]: should be [2, 4, 5]");
    args = valid();
    args.weights = host4(B, H, M, N);
    refused(args, CLATTN_E_SHAPE, "weights [2, 4, 7, 5]: should be [2, 4, 5, 7]");
}

Test(attention_errors, sizes_that_kernels_cannot_count_are_refused) {
    clattn_attention_args args = valid();
    const int64_t many = (int64_t)1 << 31;
    args.k.shape[2] = args.v.shape[2] = many;
    args.k.stride[2] = args.v.stride[2] = 0;
    refused(args, CLATTN_E_SHAPE, "M 2147483648");
}

Test(attention_errors, masks_that_do_not_broadcast_are_named) {
    clattn_attention_args args = valid();
    args.keep = clattn_tensor_host(room, CLATTN_BOOL, 3, (const int64_t[]){2, 5, 7});
    refused(args, CLATTN_E_SHAPE,
            "keep [2, 5, 7]: does not broadcast from the right to [2, 4, 5, 7]: 2 is neither 1 nor 4");
    args = valid();
    args.bias = clattn_tensor_host(room, CLATTN_F32, 1, (const int64_t[]){7});
    refused(args, CLATTN_E_SHAPE, "bias [7]: rank 1; masks have rank 2 to 4, so write [1, M] for one row");
    args = valid();
    args.drop = clattn_tensor_host(room, CLATTN_U8, 5, (const int64_t[]){1, 1, 1, 5, 7});
    refused(args, CLATTN_E_SHAPE, "drop [1, 1, 1, 5, 7]: rank 5");
    args.drop = clattn_tensor_host(room, CLATTN_U8, 2, (const int64_t[]){5, 6});
    refused(args, CLATTN_E_SHAPE, "drop [5, 6]: does not broadcast");
}

Test(attention_errors, an_alignment_is_never_guessed) {
    static const int64_t offsets[B] = {0, 0};
    clattn_attention_args args = valid();
    args.causal = true;
    refused(args, CLATTN_E_ARGUMENT, "align: causal with 5 queries and 7 keys needs an alignment");
    args = valid();
    args.has_window = true;
    refused(args, CLATTN_E_ARGUMENT, "align: a window with 5 queries and 7 keys needs an alignment");
    args.align = (clattn_align)9;
    refused(args, CLATTN_E_ARGUMENT, "align: 9 is none of the alignments");
    args.align = CLATTN_ALIGN_OFFSET;
    refused(args, CLATTN_E_ARGUMENT, "offsets: are missing, and align is CLATTN_ALIGN_OFFSET");
    args.align = CLATTN_ALIGN_TOP_LEFT;
    args.offsets = offsets;
    refused(args, CLATTN_E_ARGUMENT, "offsets: are read only with CLATTN_ALIGN_OFFSET");
}

Test(attention_errors, windows_lengths_and_scales_out_of_range) {
    static const int64_t lengths[][B] = {{7, -1}, {8, 7}};
    static const double scales[] = {INFINITY, -INFINITY, NAN, 1e39};
    clattn_attention_args args = valid();
    args.has_window = true;
    args.align = CLATTN_ALIGN_TOP_LEFT;
    args.window_left = -1;
    args.window_right = 3;
    refused(args, CLATTN_E_ARGUMENT, "window: -1,3");
    args = valid();
    args.key_lengths = lengths[0];
    refused(args, CLATTN_E_SHAPE, "key_lengths: batch 1 has -1, outside 0 to 7");
    args.key_lengths = lengths[1];
    refused(args, CLATTN_E_SHAPE, "key_lengths: batch 0 has 8, outside 0 to 7");
    for (int i = 0; i < 4; i++) {
        args = valid();
        args.has_scale = true;
        args.scale = scales[i];
        refused(args, CLATTN_E_ARGUMENT, "is not a finite number of type f32");
    }
}

Test(attention_errors, caps_slopes_and_sinks_out_of_range) {
    static const double caps[] = {-1, INFINITY, NAN, 1e39, 1e-50};
    static const float slopes[H] = {1, 2, INFINITY, 3};
    clattn_attention_args args = valid();
    for (int i = 0; i < 5; i++) {
        args.softcap = caps[i];
        refused(args, CLATTN_E_ARGUMENT, "it is 0 (none) or a number above that f32 holds");
    }
    args = valid();
    args.alibi_slopes = slopes;
    refused(args, CLATTN_E_ARGUMENT, "alibi_slopes: head 2 has inf, not a finite number");
    args.alibi_slopes = (const float[H]){1, 2, 0, 3};
    args.align = CLATTN_ALIGN_OFFSET;
    args.offsets = (const int64_t[B]){INT32_MAX, -(int64_t)INT32_MAX - 1};
    refused(args, CLATTN_E_ARGUMENT,
            "offsets: batch 1 has -2147483648; with ALiBi they go from -2147483647 to 2147483647");
    args = valid();
    args.sinks = clattn_tensor_host(room, CLATTN_F32, 1, (const int64_t[]){HK});
    refused(args, CLATTN_E_SHAPE, "sinks [2]: should be [4], one a query head");
    args.sinks = clattn_tensor_host(room, CLATTN_F32, 2, (const int64_t[]){1, H});
    refused(args, CLATTN_E_SHAPE, "sinks [1, 4]: should be [4]");
    args.sinks = clattn_tensor_host(room, CLATTN_F32, 1, (const int64_t[]){H});
    args.sinks.stride[0] = 2;
    refused(args, CLATTN_E_SHAPE, "sinks: have stride 2");
}

Test(attention_errors, lengths_prefixes_and_segments_that_do_not_go_together) {
    static const int64_t none[B] = {0, 0}, minus[B] = {0, -1}, over[B] = {6, 5}, beyond[B] = {0, 8};
    static const int32_t segments[B * M] = {0};
    clattn_attention_args args = valid();
    args.query_lengths = minus;
    refused(args, CLATTN_E_SHAPE, "query_lengths: batch 1 has -1, outside 0 to 5");
    args.query_lengths = over;
    refused(args, CLATTN_E_SHAPE, "query_lengths: batch 0 has 6, outside 0 to 5");
    args = valid();
    args.prefix_lengths = none;
    refused(args, CLATTN_E_ARGUMENT, "prefix_lengths: loosen causal, which is not set");
    args.causal = true;
    args.align = CLATTN_ALIGN_TOP_LEFT;
    args.prefix_lengths = beyond;
    refused(args, CLATTN_E_SHAPE, "prefix_lengths: batch 1 has 8, outside 0 to 7");
    args = valid();
    args.query_segments = segments;
    refused(args, CLATTN_E_ARGUMENT, "key_segments: are missing; give both or none");
    args = valid();
    args.key_segments = segments;
    refused(args, CLATTN_E_ARGUMENT, "query_segments: are missing; give both or none");
    args = valid();
    args.alibi_slopes = (const float *)room;
    refused(args, CLATTN_E_ARGUMENT, "align: ALiBi with 5 queries and 7 keys needs an alignment");
}

Test(attention_errors, sequences_are_counted_from_0_and_fit) {
    static const int64_t good_q[] = {0, 2, 5}, good_k[] = {0, 3, 7}, from_1[] = {1, 2, 5}, falls[] = {0, 5, 2};
    static const int64_t over[] = {0, 2, 6}, lengths[] = {1, 1};
    const clattn_attention_args two = valid();
    clattn_attention_args args = two;
    args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.o.shape[0] = 1;
    args.sequences = 2;
    args.cu_queries = good_q;
    args.cu_keys = good_k;
    const clattn_attention_args good = args;
#define REFUSED(change, code, part)                                                                                    \
    args = good;                                                                                                       \
    change;                                                                                                            \
    refused(args, code, part)
    REFUSED(args.sequences = 0, CLATTN_E_ARGUMENT, "sequences: is 0, and cumulative lengths are given");
    REFUSED(args.sequences = -1, CLATTN_E_ARGUMENT, "sequences: -1 is negative");
    REFUSED(args.cu_keys = NULL, CLATTN_E_ARGUMENT, "cu_keys: is NULL, with 2 sequences");
    REFUSED(args.cu_queries = NULL, CLATTN_E_ARGUMENT, "cu_queries: is NULL, with 2 sequences");
    REFUSED(args.cu_queries = from_1, CLATTN_E_ARGUMENT, "cu_queries: starts with 1, not 0");
    REFUSED(args.cu_keys = falls, CLATTN_E_ARGUMENT, "cu_keys: falls from 5 to 2 at sequence 1");
    REFUSED(args.cu_queries = over, CLATTN_E_SHAPE, "cu_queries: ends at 6, and the tensor has 5 rows");
    REFUSED(args.query_lengths = lengths, CLATTN_E_ARGUMENT, "query_lengths: cu_queries says the lengths");
    REFUSED(args.q.shape[0] = args.k.shape[0] = args.v.shape[0] = args.o.shape[0] = 2, CLATTN_E_SHAPE,
            "q: batch 2; sequences one after another have a batch of 1");
    REFUSED(args.keep = clattn_tensor_host(room, CLATTN_BOOL, 2, (const int64_t[]){1, 1}), CLATTN_E_UNSUPPORTED,
            "sequences: cannot be combined with weights, keep, drop or bias");
#undef REFUSED
}

Test(attention_errors, outputs_may_not_overlap_themselves) {
    clattn_attention_args args = valid();
    args.o.stride[1] = 0;
    refused(args, CLATTN_E_SHAPE, "o: its strides make elements share a place");
    args = valid();
    args.o.stride[2] = DV - 1;
    refused(args, CLATTN_E_SHAPE, "o: its strides make elements share a place");
    args = valid();
    args.lse = clattn_tensor_host(room, CLATTN_F32, 3, (const int64_t[]){B, H, N});
    args.lse.stride[0] = 0;
    refused(args, CLATTN_E_SHAPE, "lse: its strides make elements share a place");
    args = valid();
    args.weights = host4(B, H, N, M);
    args.weights.stride[3] = 0;
    refused(args, CLATTN_E_SHAPE, "weights: its strides make elements share a place");
}

Test(attention_errors, outputs_may_not_lie_over_inputs_or_each_other) {
    clattn_attention_args args = valid();
    args.o = host4(B, H, N, DV);
    refused(args, CLATTN_E_ARGUMENT, "o: lies over q");
    args = valid();
    args.lse = clattn_tensor_host((float *)out + B * H * N * DV - 1, CLATTN_F32, 3, (const int64_t[]){B, H, N});
    refused(args, CLATTN_E_ARGUMENT, "o: lies over lse");
    args = valid();
    args.q.stride[2] = D + DV; /* rows of q and o in turn are fine, but not in the same place */
    args.q.stride[1] = args.q.stride[2] * N;
    args.q.stride[0] = args.q.stride[1] * H;
    args.v = args.k = clattn_tensor_host(out, CLATTN_F32, 4, (const int64_t[]){B, HK, M, D});
    args.o = args.q;
    refused(args, CLATTN_E_ARGUMENT, "o: lies over q");
}

Test(attention_errors, an_algorithm_is_named_right_or_not_at_all) {
    clattn_context *cpu = NULL, *opencl = NULL;
    clattn_attention_args args = valid();
    args.algorithm = "fused";
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    FAILS(clattn_attention(cpu, &args), CLATTN_E_ARGUMENT,
          "algorithm \"fused\": there is none; the algorithms are fused_split, fused_lanes, fused_tiles, ");
    args.algorithm = "materialised";
    FAILS(clattn_attention(cpu, &args), CLATTN_E_UNSUPPORTED, "algorithm materialised: runs on OpenCL devices");
    clattn_context_destroy(cpu);
    if (clattn_context_create("opencl", NULL, &opencl) != CLATTN_OK)
        return;
    args.algorithm = "blas";
    FAILS(clattn_attention(opencl, &args), CLATTN_E_UNSUPPORTED, "algorithm blas: runs on the cpu context");
    clattn_context_destroy(opencl);
}

/* ---- buffers ---- */

Test(attention_errors, a_view_that_leaves_its_buffer_is_refused_with_both_sizes) {
    static const char *const devices[] = {"cpu", "opencl"};
    for (int i = 0; i < 2; i++) {
        clattn_context *context = NULL;
        clattn_buffer *buffer = NULL;
        clattn_attention_args args = valid();
        if (clattn_context_create(devices[i], NULL, &context) != CLATTN_OK)
            continue;
        SUCCEEDS(clattn_buffer_create(context, B * HK * M * D * 4 - 1, &buffer));
        args.k = clattn_tensor_buffer(buffer, CLATTN_F32, 4, (const int64_t[]){B, HK, M, D});
        FAILS(clattn_attention(context, &args), CLATTN_E_SHAPE, "k: reaches to byte 896 of a buffer of 895");
        args = valid();
        args.k.host = NULL;
        args.k.buffer = buffer;
        args.k.offset = 1;
        FAILS(clattn_attention(context, &args), CLATTN_E_SHAPE, "k: reaches to byte 900 of a buffer of 895");
        clattn_buffer_destroy(buffer);
        clattn_context_destroy(context);
    }
}

Test(attention_errors, a_plan_on_a_device_wants_buffers_of_its_context) {
    clattn_context *context = NULL, *other = NULL;
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = (clattn_plan *)room;
    clattn_attention_args args = valid();
    SUCCEEDS(clattn_context_create("cpu", NULL, &other));
    SUCCEEDS(clattn_buffer_create(other, 4096, &buffer));
    if (clattn_context_create("opencl", NULL, &context) == CLATTN_OK) {
        FAILS(clattn_plan_create(context, &args, &plan), CLATTN_E_ARGUMENT,
              "q: is a host array, and a plan on an OpenCL device needs buffers");
        cr_expect_null(plan);
    } else {
        SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    }
    args.q.host = NULL;
    args.q.buffer = buffer;
    FAILS(clattn_attention(context, &args), CLATTN_E_ARGUMENT, "q: its buffer belongs to another context");
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
    clattn_context_destroy(other);
}
