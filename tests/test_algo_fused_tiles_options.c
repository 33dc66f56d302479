/* SPDX-License-Identifier: Apache-2.0 */
/* fused_tiles against the oracle: options and storage, in both kinds of kernels: for storage of the type of the sums in
 * multiples of 4, and for any other. Sizes around the tiles of this device. */
#include "attention/plan.h"
#include "oracle.h"
#include "runtime/state.h"
#include "testing.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
enum { BY_FOUR, ANY, KERNELS };

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    return context;
}

/* Fills in sizes, heads, layout and seed from n. */
static oracle_config sized(oracle_config c, int n) {
    static const int64_t sizes[][2] = {{1, 70}, {33, 64}, {40, 129}, {65, 3}, {31, 200}, {64, 65}};
    static const int64_t heads[][2] = {{2, 1}, {1, 1}, {4, 2}, {3, 3}};
    c.N = sizes[n % COUNT(sizes)][0], c.M = sizes[n % COUNT(sizes)][1];
    c.H = heads[n % COUNT(heads)][0], c.Hk = heads[n % COUNT(heads)][1];
    c.B = 1 + n % 2;
    c.guard = 32;
    c.buffers = n % 3 != 0;
    c.filler = (oracle_filler)(n % 4);
    c.lse = true;
    c.seed = 100 + (uint64_t)n;
    return c;
}

static void check(clattn_context *context, const oracle_config *config) {
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(config);
    cr_assert_not_null(c);
    cr_expect(oracle_check(c, context, "fused_tiles", text), "%s", text);
    oracle_free(c);
}

/* In both kernels, and in f64. */
static void check_option(const oracle_config *options, int count) {
    clattn_context *context = open_device();
    for (int i = 0; i < count; i++)
        for (int kernel = 0; kernel < KERNELS; kernel++)
            for (int n = 0; n < 3; n++) {
                oracle_config c = sized(options[i], 3 * i + n + kernel);
                c.dtype = kernel == ANY && n == 2 && context->info.has_f64 ? CLATTN_F64 : CLATTN_F32;
                c.D = kernel == ANY ? 37 : 40, c.Dv = kernel == ANY ? 51 : 64;
                c.layout = c.sequences ? n % 2 ? ORACLE_BSHD : ORACLE_BHSD : (oracle_layout)(n % ORACLE_LAYOUTS);
                check(context, &c);
            }
    clattn_context_destroy(context);
}

/* ---- options ---- */

Test(fused_tiles_options, soft_caps) {
    const oracle_config options[] = {
        {.softcap = 0.7},
        {.softcap = 3, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {.softcap = 2, .keep = {4, 15}, .bias = {2, 3}, .has_scale = true, .scale = 40},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, alibi) {
    const oracle_config options[] = {
        {.alibi = true, .align = CLATTN_ALIGN_OFFSET},
        {.alibi = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .causal = true, .lengths = true},
        {.alibi = true, .align = CLATTN_ALIGN_TOP_LEFT, .bias = {4, 15}, .drop = {2, 1}, .softcap = 5},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, sinks) {
    const oracle_config options[] = {
        {.sinks = true},
        {.sinks = true, .lengths = true, .query_lengths = true},
        {.sinks = true, .keep = {4, 11}, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, lengths_and_prefixes) {
    const oracle_config options[] = {
        {.query_lengths = true},
        {.query_lengths = true, .lengths = true, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {.prefix = true, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
        {.prefix = true, .causal = true, .align = CLATTN_ALIGN_OFFSET, .has_window = true, .window_left = 20},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, dropout) {
    const oracle_config options[] = {
        {.dropout = 0.3},
        {.dropout = 0.1, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lengths = true, .sinks = true},
        {.dropout = 0.75, .keep = {4, 15}, .bias = {2, 3}, .softcap = 3},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, segments) {
    const oracle_config options[] = {
        {.segments = true},
        {.segments = true, .lengths = true, .softcap = 1, .sinks = true},
    };
    check_option(options, COUNT(options));
}

Test(fused_tiles_options, sequences_one_after_another) {
    const oracle_config options[] = {
        {.sequences = true},
        {.sequences = true, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .sinks = true},
        {.sequences = true, .segments = true, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT, .softcap = 2},
    };
    check_option(options, COUNT(options));
}

/* ---- storage ---- */

static const clattn_dtype types[] = {CLATTN_F16, CLATTN_BF16, CLATTN_F32, CLATTN_F64};

/* The options that each type of storage meets. */
static const oracle_config mixed[] = {
    {.lse = true},
    {.causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
    {.bias = {4, 15}},
    {.bias = {2, 1}, .keep = {4, 3}, .sinks = true, .softcap = 3},
    {.sequences = true, .segments = true},
};

static void check_types(oracle_config c, int n, clattn_context *context) {
    c = sized(c, n);
    c.typed = true;
    c.D = n % 2 ? 40 : 38, c.Dv = n % 2 ? 64 : 33;
    c.layout = n % 3 == 0 && !c.sequences ? ORACLE_PADDED : n % 3 == 1 ? ORACLE_BSHD : ORACLE_BHSD;
    check(context, &c);
}

Test(fused_tiles_options, each_type_of_storage) {
    clattn_context *context = open_device();
    for (int t = 0; t < COUNT(types); t++)
        for (int n = 0; n < 6; n++) {
            oracle_config c = mixed[n % COUNT(mixed)];
            if (types[t] == CLATTN_F64 && !context->info.has_f64)
                continue;
            c.q_type = c.k_type = c.v_type = c.o_type = c.bias_type = types[t];
            check_types(c, n, context);
        }
    clattn_context_destroy(context);
}

Test(fused_tiles_options, types_that_differ) {
    clattn_context *context = open_device();
    oracle_random random = {5};
    for (int n = 0; n < 24; n++) {
        oracle_config c = mixed[n % COUNT(mixed)];
        const int count = context->info.has_f64 && n % 4 == 3 ? 4 : 3;
        c.q_type = types[oracle_below(&random, count)];
        c.k_type = types[oracle_below(&random, count)];
        c.v_type = types[oracle_below(&random, count)];
        c.o_type = types[oracle_below(&random, count)];
        c.bias_type = types[oracle_below(&random, count)];
        check_types(c, n, context);
    }
    clattn_context_destroy(context);
}

Test(fused_tiles_options, keys_in_blocks) {
    static const clattn_dtype blocks[][2] = {
        {CLATTN_Q8_0, CLATTN_Q8_0}, {CLATTN_Q4_0, CLATTN_Q4_0}, {CLATTN_Q8_0, CLATTN_Q4_0}, {CLATTN_F16, CLATTN_Q8_0}};
    clattn_context *context = open_device();
    for (int i = 0; i < COUNT(blocks); i++)
        for (int n = 0; n < 4; n++) {
            oracle_config c = sized(mixed[(n + i) % COUNT(mixed)], n);
            c.typed = true;
            c.k_type = blocks[i][0], c.v_type = blocks[i][1];
            c.o_type = n % 2 ? CLATTN_F16 : CLATTN_F32;
            c.q_type = n / 2 ? CLATTN_BF16 : CLATTN_F32;
            c.D = n % 2 ? 64 : 32, c.Dv = n == 3 ? 288 : 64; /* 288: two chunks, which blocks lie across */
            c.page_size = n == 2 ? 5 : 0;
            check(context, &c);
        }
    clattn_context_destroy(context);
}

Test(fused_tiles_options, keys_in_pages) {
    static const int64_t pages[] = {1, 3, 16, 64, 100};
    clattn_context *context = open_device();
    for (int i = 0; i < COUNT(pages); i++)
        for (int n = 0; n < 4; n++) {
            oracle_config c = sized(mixed[n == 2 ? 4 : n], i + n);
            c.page_size = pages[i];
            c.D = n == 1 ? 45 : 40, c.Dv = n == 1 ? 35 : 64;
            if (n == 3)
                c.typed = true, c.k_type = c.v_type = c.q_type = CLATTN_F16, c.softcap = 2;
            check(context, &c);
        }
    clattn_context_destroy(context);
}

/* Nothing is copied beforehand. */
Test(fused_tiles_options, storage_is_read_as_it_lies) {
    clattn_context *context = open_device();
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    const int64_t q[] = {1, 2, 3, 32}, pages[] = {4, 2, 8, 32}, lengths[] = {11};
    const int32_t table[] = {2, 0};
    SUCCEEDS(clattn_buffer_create(context, 65536, &buffer));
    clattn_attention_args a = {.algorithm = "fused_tiles",
                               .q = clattn_tensor_buffer(buffer, CLATTN_F16, 4, q),
                               .k = clattn_tensor_buffer(buffer, CLATTN_Q4_0, 4, pages),
                               .v = clattn_tensor_buffer(buffer, CLATTN_Q8_0, 4, pages),
                               .o = clattn_tensor_buffer(buffer, CLATTN_BF16, 4, q),
                               .block_table = table,
                               .table_pages = 2,
                               .key_lengths = lengths};
    a.k.offset = a.v.offset = 8192;
    a.o.offset = 16384;
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    const char *text = clattn_plan_explain(plan);
    cr_expect(strstr(text, "k q4_0 read as it lies, v q8_0 read as it lies, o bf16 written as it lies"), "%s", text);
    cr_expect(strstr(text, "2 a batch at most: read as they lie"), "%s", text);
    cr_expect_null(strstr(text, "scratch:"), "%s", text);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

/* ---- bits ---- */

/* A batch's rows are the same bits alone and beside others that bring masks, odd layouts and other lengths. */
Test(fused_tiles_options, batch_invariant_rows_keep_their_bits) {
    clattn_context *context = open_device();
    char text[ORACLE_TEXT] = "";
    const oracle_config plain = {.H = 2, .N = 40, .M = 130, .D = 40, .Dv = 64, .lse = true, .batch_invariant = true};
    oracle_config other = plain;
    other.layout = ORACLE_PADDED; /* the kernel of any storage */
    other.keep = (oracle_mask){2, 0};
    oracle_case *alone = oracle_make(&plain), *beside = oracle_make(&other);
    beside->keep[0] = 1;
    const size_t o = (size_t)(2 * 40 * 64), rows = 2 * 40;
    memcpy(beside->q, alone->q, rows * 40 * sizeof(double));
    memcpy(beside->k, alone->k, 2 * 130 * 40 * sizeof(double));
    memcpy(beside->v, alone->v, 2 * 130 * 64 * sizeof(double));
    cr_assert(oracle_run(alone, context, "fused_tiles", text), "%s", text);
    cr_assert(oracle_run(beside, context, "fused_tiles", text), "%s", text);
    cr_expect_eq(memcmp(alone->got.o, beside->got.o, o * sizeof(double)), 0);
    cr_expect_eq(memcmp(alone->got.lse, beside->got.lse, rows * sizeof(double)), 0);
    oracle_free(alone);
    oracle_free(beside);
    clattn_context_destroy(context);
}
