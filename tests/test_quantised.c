/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of q8_0, q4_0 and q4_1: their bytes, against ggml's loops written again; their views; attention over them. */
#define _DEFAULT_SOURCE
#include "kv_arrays.h"
#include "tensor/view.h"
#include <float.h>
#include <sys/mman.h>

/* ---- bytes ---- */

static uint16_t half_of(float x) {
    uint16_t bits;
    SUCCEEDS(clattn_convert(&bits, CLATTN_F16, &x, CLATTN_F32, 1));
    return bits;
}

/* quantize_row_q8_0_ref of ggml, one block. */
static void block_8(const float *x, unsigned char *out) {
    float amax = 0;
    for (int i = 0; i < 32; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    const float d = amax / 127, id = d != 0 ? 1.0f / d : 0;
    const uint16_t half = half_of(d);
    memcpy(out, &half, 2);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (unsigned char)(int)roundf(x[i] * id);
}

/* quantize_row_q4_0_ref of ggml, one block. */
static void block_4(const float *x, unsigned char *out) {
    float amax = 0, max = 0;
    for (int i = 0; i < 32; i++)
        if (amax < fabsf(x[i])) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    const float d = max / -8, id = d != 0 ? 1.0f / d : 0;
    const uint16_t half = half_of(d);
    memcpy(out, &half, 2);
    for (int i = 0; i < 16; i++) {
        const int low = (signed char)(x[i] * id + 8.5f), high = (signed char)(x[16 + i] * id + 8.5f);
        out[2 + i] = (unsigned char)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

/* quantize_row_q4_1_ref of ggml, one block. */
static void block_4_from(const float *x, unsigned char *out) {
    float min = FLT_MAX, max = -FLT_MAX;
    for (int i = 0; i < 32; i++) {
        min = x[i] < min ? x[i] : min;
        max = x[i] > max ? x[i] : max;
    }
    const float d = (max - min) / 15, id = d != 0 ? 1.0f / d : 0;
    const uint16_t halves[] = {half_of(d), half_of(min)};
    memcpy(out, halves, 4);
    for (int i = 0; i < 16; i++) {
        const int low = (signed char)((x[i] - min) * id + 0.5f), high = (signed char)((x[16 + i] - min) * id + 0.5f);
        out[4 + i] = (unsigned char)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

Test(quantised, blocks_have_the_bytes_of_ggml) {
    enum { BLOCKS = 200 };
    float x[32 * BLOCKS];
    unsigned char got[34 * BLOCKS], want[34 * BLOCKS];
    oracle_random random = {21};
    for (int i = 0; i < 32 * BLOCKS; i++)
        x[i] = (float)(oracle_normal(&random) * exp2((double)(i / 32 % 40) - 20));
    for (int i = 0; i < 32; i++) {
        x[i] = 0;                             /* nothing but zeros */
        x[32 + i] = i == 7 ? -3.0f : 0;       /* one number */
        x[64 + i] = i % 2 ? 1.5f : -1.5f;     /* equal magnitudes: the first has its say */
        x[96 + i] = (float)(i - 16) / 16 * 8; /* ties */
    }
    SUCCEEDS(clattn_convert(got, CLATTN_Q8_0, x, CLATTN_F32, 32 * BLOCKS));
    for (int b = 0; b < BLOCKS; b++)
        block_8(x + 32 * b, want + 34 * b);
    cr_expect_arr_eq(got, want, 34 * BLOCKS);
    SUCCEEDS(clattn_convert(got, CLATTN_Q4_0, x, CLATTN_F32, 32 * BLOCKS));
    for (int b = 0; b < BLOCKS; b++)
        block_4(x + 32 * b, want + 18 * b);
    cr_expect_arr_eq(got, want, 18 * BLOCKS);
    SUCCEEDS(clattn_convert(got, CLATTN_Q4_1, x, CLATTN_F32, 32 * BLOCKS));
    for (int b = 0; b < BLOCKS; b++)
        block_4_from(x + 32 * b, want + 20 * b);
    cr_expect_arr_eq(got, want, 20 * BLOCKS);
}

Test(quantised, values_come_back_within_a_step) {
    double x[256], y[256];
    unsigned char stored[8 * 34];
    oracle_random random = {5};
    for (int i = 0; i < 256; i++)
        x[i] = oracle_normal(&random);
    const struct {
        clattn_dtype dtype;
        double
            steps; /* of the largest magnitude; half of one is lost, and a whole one at the end without an opposite */
        double lost;
    } types[] = {{CLATTN_Q8_0, 127, 0.5}, {CLATTN_Q4_0, 8, 1}, {CLATTN_Q4_1, 7.5, 0.5}};
    for (int t = 0; t < 3; t++) {
        SUCCEEDS(clattn_convert(stored, types[t].dtype, x, CLATTN_F64, 256));
        SUCCEEDS(clattn_convert(y, CLATTN_F64, stored, types[t].dtype, 256));
        for (int i = 0; i < 256; i++) {
            const double largest = kv_largest(x + i / 32 * 32, 32);
            cr_expect_leq(fabs(x[i] - y[i]),
                          largest / types[t].steps * types[t].lost + 2 * oracle_floor(CLATTN_F16, largest), "%s %d",
                          clattn_dtype_name(types[t].dtype), i);
        }
    }
}

Test(quantised, stored_blocks_read_as_scale_times_number) {
    unsigned char eight[34] = {0x00, 0x38}, four[18] = {0x00, 0xb8}; /* 0.5 and -0.5 */
    unsigned char from[20] = {0x00, 0x38, 0x00, 0xc2};               /* 0.5 and -3 */
    float x[32];
    for (int i = 0; i < 32; i++)
        eight[2 + i] = (unsigned char)(i - 16);
    for (int i = 0; i < 16; i++)
        four[2 + i] = from[4 + i] = (unsigned char)(i | (15 - i) << 4);
    SUCCEEDS(clattn_convert(x, CLATTN_F32, eight, CLATTN_Q8_0, 32));
    for (int i = 0; i < 32; i++)
        cr_expect_eq(x[i], (float)(i - 16) / 2);
    SUCCEEDS(clattn_convert(x, CLATTN_F32, four, CLATTN_Q4_0, 32));
    for (int i = 0; i < 32; i++)
        cr_expect_eq(x[i], -(float)((i < 16 ? i : 15 - (i - 16)) - 8) / 2);
    SUCCEEDS(clattn_convert(x, CLATTN_F32, from, CLATTN_Q4_1, 32));
    for (int i = 0; i < 32; i++)
        cr_expect_eq(x[i], (float)(i < 16 ? i : 15 - (i - 16)) / 2 - 3);
}

Test(quantised, a_block_with_a_number_that_is_none_is_all_nan) {
    const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_Q4_1};
    const float bad[] = {NAN, INFINITY, -INFINITY};
    float x[96], y[96];
    unsigned char stored[3 * 34];
    for (int n = 0; n < 9; n++) {
        for (int i = 0; i < 96; i++)
            x[i] = i == 40 ? bad[n / 3] : (float)i;
        SUCCEEDS(clattn_convert(stored, types[n % 3], x, CLATTN_F32, 96));
        SUCCEEDS(clattn_convert(y, CLATTN_F32, stored, types[n % 3], 96));
        for (int i = 0; i < 96; i++)
            cr_expect_eq(isnan(y[i]) != 0, i / 32 == 1, "%d: %g", i, (double)y[i]);
    }
}

Test(quantised, blocks_are_whole) {
    float x[64] = {0};
    unsigned char stored[68], copy[68];
    FAILS(clattn_convert(stored, CLATTN_Q8_0, x, CLATTN_F32, 33), CLATTN_E_SHAPE,
          "33 elements are not whole blocks of 32");
    FAILS(clattn_convert(x, CLATTN_F32, stored, CLATTN_Q4_0, 16), CLATTN_E_SHAPE, "as q4_0 has");
    memset(stored, 7, sizeof stored);
    SUCCEEDS(clattn_convert(copy, CLATTN_Q8_0, stored, CLATTN_Q8_0, 64));
    cr_expect_arr_eq(copy, stored, sizeof copy);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_Q8_0, 96), 102);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_Q4_0, 96), 54);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_Q4_0, 95), 0);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_Q4_1, 96), 60);
}

Test(quantised, views_begin_and_end_with_a_block) {
    const int64_t shape[] = {2, 3, 64}, odd[] = {2, 3, 40};
    const int axes[] = {2, 1, 0};
    unsigned char data[4] = {0};
    const clattn_tensor t = clattn_tensor_host(data, CLATTN_Q4_0, 3, shape);
    int64_t first, end;
    SUCCEEDS(cla_view_check(&t, "k"));
    SUCCEEDS(cla_view_bytes(&t, "k", &first, &end));
    cr_expect_eq(first, 0);
    cr_expect_eq(end, 2 * 3 * 2 * 18);
    const clattn_tensor part = clattn_tensor_slice(clattn_tensor_slice(t, 2, 32, 32), 1, 1, 2);
    SUCCEEDS(cla_view_check(&part, "k"));
    SUCCEEDS(cla_view_bytes(&part, "k", &first, &end));
    cr_expect_eq(first, 3 * 18);
    cr_expect_eq(end, 12 * 18);
    clattn_tensor bad = clattn_tensor_host(data, CLATTN_Q4_0, 3, odd);
    FAILS(cla_view_check(&bad, "k"), CLATTN_E_SHAPE, "k: q4_0 is in blocks of 32 along the last axis, and its size 40");
    bad = clattn_tensor_slice(t, 2, 16, 32);
    FAILS(cla_view_check(&bad, "k"), CLATTN_E_SHAPE, "offset 16");
    bad = clattn_tensor_permute(clattn_tensor_slice(t, 1, 0, 3), axes);
    bad.shape[2] = 32;
    FAILS(cla_view_check(&bad, "k"), CLATTN_E_SHAPE, "axis 0 has 1");
    bad = t;
    bad.stride[1] = 80;
    FAILS(cla_view_check(&bad, "k"), CLATTN_E_SHAPE, "axis 1 has 80");
}

/* ---- attention ---- */

typedef struct {
    int64_t B, H, Hk, N, M, D, Dv;
    clattn_dtype k, v, q, o;
    bool causal, lengths, bias, buffers;
    kv_layout layout;
} config;

static double *ones_and_minus_infinity(int64_t count) {
    double *x = kv_random(77, count);
    for (int64_t i = 0; i < count; i += 5)
        x[i] = -INFINITY;
    return x;
}

/* With k and v as the config says, or in f32, from the same numbers. */
static double *attend(const oracle_runner *r, const config *c, bool quantised, double *lse_out) {
    const int64_t q[4] = {c->B, c->H, c->N, c->D}, k[4] = {c->B, c->Hk, c->M, c->D}, v[4] = {c->B, c->Hk, c->M, c->Dv};
    const int64_t o[4] = {c->B, c->H, c->N, c->Dv}, lse[4] = {1, c->B, c->H, c->N}, bias[4] = {1, c->H, c->N, c->M};
    int64_t lengths[8];
    clattn_context *owner = c->buffers ? r->context : NULL;
    double *values[4] = {kv_random(1, kv_count(q)), kv_random(2, kv_count(k)), kv_random(3, kv_count(v)),
                         ones_and_minus_infinity(kv_count(bias))};
    kv_round(values[1], c->k, kv_count(k));
    kv_round(values[2], c->v, kv_count(v));
    kv_array arrays[] = {kv_make(owner, c->q, q, KV_ROWS, values[0]),
                         kv_make(owner, quantised ? c->k : CLATTN_F32, k, c->layout, values[1]),
                         kv_make(owner, quantised ? c->v : CLATTN_F32, v, c->layout, values[2]),
                         kv_make(owner, c->o, o, KV_ROWS, NULL),
                         kv_make(owner, CLATTN_F32, lse, KV_DENSE, NULL),
                         kv_make(owner, CLATTN_F32, bias, KV_DENSE, values[3])};
    for (int64_t b = 0; b < c->B; b++)
        lengths[b] = c->M - 3 * b - 1;
    clattn_attention_args a = {.q = arrays[0].view,
                               .k = arrays[1].view,
                               .v = arrays[2].view,
                               .o = arrays[3].view,
                               .lse = arrays[4].view,
                               .causal = c->causal,
                               .align = c->causal ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_UNSET,
                               .key_lengths = c->lengths ? lengths : NULL,
                               .algorithm = r->algorithm};
    if (c->bias)
        a.bias = arrays[5].view;
    if (c->buffers) {
        clattn_plan *plan = NULL;
        SUCCEEDS(clattn_plan_create(r->context, &a, &plan));
        cr_expect(!quantised || strstr(clattn_plan_explain(plan), "q4_0") || strstr(clattn_plan_explain(plan), "q8_0"),
                  "%s", clattn_plan_explain(plan));
        SUCCEEDS(clattn_plan_execute(plan, NULL));
        clattn_plan_destroy(plan);
    } else {
        SUCCEEDS(clattn_attention(r->context, &a));
    }
    double *result = kv_read(&arrays[3]), *sums = kv_read(&arrays[4]);
    memcpy(lse_out, sums, (size_t)kv_count(lse) * sizeof *sums);
    free(sums);
    for (int i = 0; i < 6; i++)
        kv_free(&arrays[i]);
    for (int i = 0; i < 4; i++)
        free(values[i]);
    return result;
}

static void agree(const oracle_runner *r, const config *c) {
    const int64_t rows = c->B * c->H * c->N, count = rows * c->Dv;
    double *lse[2] = {malloc((size_t)rows * sizeof(double)), malloc((size_t)rows * sizeof(double))};
    double *want = attend(r, c, false, lse[0]), *got = attend(r, c, true, lse[1]);
    /* Both within the tolerance of the exact answer. */
    const double most = 2 * (oracle_floor(CLATTN_F32, 4) + oracle_floor(c->o, kv_largest(want, count)));
    for (int64_t i = 0; i < count; i++)
        cr_assert(got[i] == want[i] || fabs(got[i] - want[i]) <= most, "%s: %s, %s: %lld is %.9g, not %.9g",
                  r->algorithm, clattn_dtype_name(c->k), clattn_dtype_name(c->v), (long long)i, got[i], want[i]);
    for (int64_t i = 0; i < rows; i++)
        cr_assert(lse[0][i] == lse[1][i] || fabs(lse[0][i] - lse[1][i]) <= 2 * oracle_floor(CLATTN_F32, 8));
    free(want);
    free(got);
    free(lse[0]);
    free(lse[1]);
}

Test(quantised, keys_and_values_in_blocks_are_those_that_the_blocks_hold) {
    static const config configs[] = {
        {2, 4, 2, 5, 70, 64, 64, CLATTN_Q8_0, CLATTN_Q8_0, CLATTN_F32, CLATTN_F32, true, false, false, true, KV_DENSE},
        {1, 4, 1, 3, 33, 32, 96, CLATTN_Q4_0, CLATTN_Q8_0, CLATTN_F32, CLATTN_F32, false, true, true, false, KV_ROWS},
        {2, 2, 2, 1, 150, 128, 128, CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_F16, CLATTN_F32, false, true, false, true,
         KV_ROWS},
        {1, 2, 1, 9, 17, 96, 32, CLATTN_Q4_0, CLATTN_Q4_0, CLATTN_F32, CLATTN_F16, true, false, false, true, KV_PADDED},
        {1, 1, 1, 4, 40, 64, 20, CLATTN_Q4_0, CLATTN_F16, CLATTN_BF16, CLATTN_F32, false, false, true, true, KV_DENSE},
        {1, 2, 2, 2, 12, 21, 64, CLATTN_F32, CLATTN_Q8_0, CLATTN_F32, CLATTN_F32, false, false, false, true, KV_DENSE},
    };
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    cr_assert_gt(count, 0);
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
            agree(&runners[n], &configs[i]);
    oracle_close(runners, count);
}

Test(quantised, head_dims_above_every_tile_are_read_too) {
    static const config deep = {1,           1,          1,          2,    40,    544,   640,  CLATTN_Q8_0,
                                CLATTN_Q4_0, CLATTN_F32, CLATTN_F32, true, false, false, true, KV_DENSE};
    const oracle_runner r = {kv_open("opencl", NULL), "fused_lanes", false, true};
    agree(&r, &deep);
    clattn_context_destroy(r.context);
}

/* 0xff is NaN as a scale, and so is every value of the block. */
Test(quantised, nan_in_unused_slots_changes_no_bit) {
    enum { M = 80, USED = 37, D = 32, H = 2 };
    unsigned char k[H * M * 34], v[H * M * 18];
    float q[H * D], o[2][H * D];
    double *values = kv_random(9, H * M * D);
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    const int64_t one[] = {1, H, 1, D}, many[] = {1, H, M, D}, used = USED;
    for (int i = 0; i < H * D; i++)
        q[i] = (float)values[i];
    for (size_t n = 0; n < count; n++) {
        for (int way = 0; way < 2; way++) {
            SUCCEEDS(clattn_convert(k, CLATTN_Q8_0, values, CLATTN_F64, H * M * D));
            SUCCEEDS(clattn_convert(v, CLATTN_Q4_0, values, CLATTN_F64, H * M * D));
            for (int h = 0; h < H && way; h++) {
                memset(k + (h * M + USED) * 34, 0xff, (M - USED) * 34);
                memset(v + (h * M + USED) * 18, 0xff, (M - USED) * 18);
            }
            const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, one),
                                             .k = clattn_tensor_host(k, CLATTN_Q8_0, 4, many),
                                             .v = clattn_tensor_host(v, CLATTN_Q4_0, 4, many),
                                             .o = clattn_tensor_host(o[way], CLATTN_F32, 4, one),
                                             .key_lengths = &used,
                                             .algorithm = runners[n].algorithm};
            SUCCEEDS(clattn_attention(runners[n].context, &a));
        }
        cr_expect_arr_eq(o[0], o[1], sizeof o[0], "%s", runners[n].algorithm);
    }
    oracle_close(runners, count);
    free(values);
}

/* Rows 2^31 + 32 elements apart, in memory that is never touched between them. */
Test(quantised, rows_beyond_32_bits_are_found) {
    enum { M = 2, D = 32 };
    const int64_t apart = ((int64_t)1 << 31) + 32, shape[] = {1, 1, M, D}, one[] = {1, 1, 1, D};
    const clattn_dtype types[] = {CLATTN_Q4_0, CLATTN_Q8_0};
    double *values = kv_random(15, M * D);
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    float q[D], o[2][D];
    for (int i = 0; i < D; i++)
        q[i] = (float)values[i];
    for (int t = 0; t < 2; t++) {
        unsigned char close[M * 34];
        const size_t bytes = clattn_dtype_bytes(types[t], (size_t)(apart + D));
        char *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        cr_assert_neq(far, MAP_FAILED);
        SUCCEEDS(clattn_convert(close, types[t], values, CLATTN_F64, M * D));
        SUCCEEDS(clattn_convert(far, types[t], values, CLATTN_F64, D));
        SUCCEEDS(
            clattn_convert(far + clattn_dtype_bytes(types[t], (size_t)apart), types[t], values + D, CLATTN_F64, D));
        for (size_t n = 0; n < count; n++) {
            for (int way = 0; way < 2; way++) {
                clattn_tensor k = clattn_tensor_host(way ? (void *)far : (void *)close, types[t], 4, shape);
                k.stride[2] = way ? apart : D;
                const clattn_attention_args a = {.q = clattn_tensor_host(q, CLATTN_F32, 4, one),
                                                 .k = k,
                                                 .v = k,
                                                 .o = clattn_tensor_host(o[way], CLATTN_F32, 4, one),
                                                 .algorithm = runners[n].algorithm};
                SUCCEEDS(clattn_attention(runners[n].context, &a));
            }
            cr_expect_arr_eq(o[1], o[0], sizeof o[0], "%s %s", runners[n].algorithm, clattn_dtype_name(types[t]));
        }
        munmap(far, bytes);
    }
    oracle_close(runners, count);
    free(values);
}

Test(quantised, queries_outputs_and_parts_of_blocks_are_refused) {
    float x[4096] = {0};
    const int64_t shape[] = {1, 1, 4, 64}, odd[] = {1, 1, 4, 40};
    clattn_context *context = kv_open("cpu", NULL);
    const clattn_tensor f = clattn_tensor_host(x, CLATTN_F32, 4, shape),
                        q8 = clattn_tensor_host(x, CLATTN_Q8_0, 4, shape);
    clattn_attention_args a = {.q = q8, .k = f, .v = f, .o = f};
    FAILS(clattn_attention(context, &a), CLATTN_E_DTYPE, "q: is q8_0");
    a = (clattn_attention_args){.q = f, .k = q8, .v = f, .o = q8};
    FAILS(clattn_attention(context, &a), CLATTN_E_DTYPE, "o: is q8_0");
    a = (clattn_attention_args){.q = clattn_tensor_host(x, CLATTN_F32, 4, odd),
                                .k = clattn_tensor_host(x, CLATTN_Q4_0, 4, odd),
                                .v = f,
                                .o = f};
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE,
          "k: q4_0 is in blocks of 32 along the last axis, and its size 40");
    clattn_buffer *small = NULL;
    SUCCEEDS(clattn_buffer_create(context, 8 * 34 - 1, &small));
    a = (clattn_attention_args){.q = f, .k = clattn_tensor_buffer(small, CLATTN_Q8_0, 4, shape), .v = f, .o = f};
    FAILS(clattn_attention(context, &a), CLATTN_E_SHAPE, "k: reaches to byte 272 of a buffer of 271");
    clattn_buffer_destroy(small);
    clattn_context_destroy(context);
}
