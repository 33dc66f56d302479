/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures, group C: heads, shapes and strides. */
#include "cases.h"
#include "oracle_internal.h"
#include <stdlib.h>

/* ---- grouped heads ---- */

static void c01(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .H = 4, .Hk = 2, .N = 1, .D = 1};
    oracle_case *c = oracle_make(&config);
    SET(c->v, 10, 20);
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 10, 10, 20, 20);
    oracle_free(c);
}
Test(cases, C01_neighbouring_query_heads_share_a_key_head) { on_each(c01); }

/* [1, heads, 2, 4] for Q and O, [1, key heads, 2, 4] for K and V. */
static clattn_status with_heads(const oracle_runner *r, clattn_dtype dtype, int64_t heads, int64_t key_heads) {
    static double values[5 * 2 * 4], out[5 * 2 * 4];
    const int64_t q[] = {1, heads, 2, 4}, k[] = {1, key_heads, 2, 4};
    const clattn_attention_args args = {.q = clattn_tensor_host(values, dtype, 4, q),
                                        .k = clattn_tensor_host(values, dtype, 4, k),
                                        .v = clattn_tensor_host(values, dtype, 4, k),
                                        .o = clattn_tensor_host(out, dtype, 4, q),
                                        .algorithm = r->algorithm};
    return clattn_attention(r->context, &args);
}

static void c03(const oracle_runner *r, clattn_dtype dtype) {
    FAILS(with_heads(r, dtype, 5, 2), CLATTN_E_SHAPE, "k: 2 key heads do not divide 5 query heads");
    FAILS(with_heads(r, dtype, 4, 0), CLATTN_E_SHAPE, "k: 0 key heads do not divide 4 query heads");
    SUCCEEDS(with_heads(r, dtype, 0, 2));
    SUCCEEDS(with_heads(r, dtype, 0, 0));
}
Test(cases, C03_heads_that_do_not_divide_are_an_error_and_no_heads_are_none) { on_each(c03); }

static void c04(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = {.dtype = dtype, .H = 4, .Hk = 2, .N = 3, .D = 8, .seed = 40};
    oracle_case *dense = oracle_make(&config);
    config.layout = ORACLE_BSHD;
    oracle_case *interleaved = oracle_make(&config);
    agrees(dense, r);
    agrees(interleaved, r);
    expect_same(r, interleaved->got.o, dense->got.o, 4 * 3 * 8);
    oracle_free(dense);
    oracle_free(interleaved);
}
Test(cases, C04_heads_are_grouped_along_the_head_axis_in_every_layout) { on_each(c04); }

/* ---- strides ---- */

/* A copy of a dense rank 4 tensor with its axes in that order in memory, outermost first. */
static clattn_tensor stored(const clattn_tensor *t, const int order[4], void *storage) {
    clattn_tensor r = *t;
    const size_t size = clattn_dtype_size(t->dtype);
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        r.stride[order[i]] = stride;
        stride *= t->shape[order[i]];
    }
    r.host = storage;
    for (int64_t n = 0; n < oracle_elements(t->shape); n++) {
        int64_t at = 0, rest = n;
        for (int i = 3; i >= 0; i--) {
            at += rest % t->shape[i] * r.stride[i];
            rest /= t->shape[i];
        }
        memcpy((char *)storage + (size_t)at * size, (const char *)t->host + (size_t)n * size, size);
    }
    return r;
}

/* The n-th of 256 ways to choose four axes; false when one is chosen twice. */
static bool order_of(int n, int order[4]) {
    int chosen = 0;
    for (int i = 0; i < 4; i++) {
        order[i] = n >> 2 * i & 3;
        chosen |= 1 << order[i];
    }
    return chosen == 15;
}

/* All 24 ways to store q, k, v, o and a full mask, against the dense one. */
static void c05(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype,
                                  .H = 16,
                                  .N = 62,
                                  .D = 128,
                                  .keep = {4, ORACLE_BATCH | ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY},
                                  .seed = 50};
    static const int tensors[] = {ORACLE_Q, ORACLE_K, ORACLE_V, ORACLE_O, ORACLE_KEEP};
    oracle_case *c = oracle_make(&config);
    oracle_arrays arrays;
    void *storage[ORACLE_TENSORS] = {NULL};
    agrees(c, r);
    double *dense = c->got.o;
    c->got.o = oracle_alloc(16 * 62 * 128, sizeof *dense);
    oracle_arrays_make(c, &arrays);
    for (int t = 0; t < ORACLE_TENSORS; t++)
        storage[t] = oracle_alloc(16 * 62 * 128, sizeof(double));
    for (int n = 0, order[4]; n < 256; n++) {
        if (!order_of(n, order))
            continue;
        clattn_attention_args args = arrays.args;
        args.algorithm = r->algorithm;
        for (int i = 0; i < 5; i++) {
            clattn_tensor *t = oracle_args_tensor(&args, tensors[i]);
            *t = stored(t, order, storage[tensors[i]]);
        }
        SUCCEEDS(clattn_attention(r->context, &args));
        for (int64_t m = 0, row = 0; row < 16 * 62; row++)
            for (int64_t d = 0; d < 128; d++, m++) {
                const int64_t at = row / 62 * args.o.stride[1] + row % 62 * args.o.stride[2] + d * args.o.stride[3];
                c->got.o[m] = dtype == CLATTN_F64 ? ((double *)args.o.host)[at] : (double)((float *)args.o.host)[at];
            }
        expect_same(r, c->got.o, dense, 16 * 62 * 128);
    }
    for (int t = 0; t < ORACLE_TENSORS; t++)
        free(storage[t]);
    free(dense);
    oracle_arrays_free(&arrays);
    oracle_free(c);
}
Test(cases, C05_every_order_of_axes_in_memory_gives_the_same_bits) { on_each(c05); }

static void c07(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = {.dtype = dtype,
                            .B = 2,
                            .H = 4,
                            .N = 5,
                            .M = 7,
                            .D = 8,
                            .layout = ORACLE_SHARED,
                            .keep = {2, ORACLE_QUERY | ORACLE_KEY},
                            .seed = 70};
    oracle_case *shared = oracle_make(&config);
    config.layout = ORACLE_BHSD;
    config.keep = (oracle_mask){4, ORACLE_BATCH | ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY};
    oracle_case *copied = oracle_make(&config);
    memcpy(copied->q, shared->q, 2 * 4 * 5 * 8 * sizeof(double));
    memcpy(copied->k, shared->k, 2 * 4 * 7 * 8 * sizeof(double));
    memcpy(copied->v, shared->v, 2 * 4 * 7 * 8 * sizeof(double));
    for (int64_t i = 0; i < 8 * 35; i++)
        copied->keep[i] = shared->keep[i % 35];
    agrees(shared, r);
    agrees(copied, r);
    expect_same(r, shared->got.o, copied->got.o, 2 * 4 * 5 * 8);
    oracle_arrays arrays;
    oracle_arrays_make(copied, &arrays);
    arrays.args.o.stride[1] = 0;
    arrays.args.algorithm = r->algorithm;
    FAILS(clattn_attention(r->context, &arrays.args), CLATTN_E_SHAPE, "o: its strides make elements share a place");
    oracle_arrays_free(&arrays);
    oracle_free(shared);
    oracle_free(copied);
}
Test(cases, C07_inputs_may_broadcast_by_stride_0_and_outputs_may_not) { on_each(c07); }

/* ---- head dims ---- */

static void c08(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t dims[] = {1, 2, 3, 5, 7, 9, 15, 17, 31, 33, 40, 59, 63, 65, 72, 80, 96, 100, 127, 129, 224};
    for (size_t n = 0; n < sizeof dims / sizeof *dims; n++) {
        const oracle_config config = {
            .dtype = dtype, .H = 2, .N = 19, .M = 35, .D = dims[n], .guard = 64, .lse = true, .seed = 80 + n};
        oracle_case *c = oracle_make(&config);
        agrees(c, r);
        oracle_free(c);
    }
}
Test(cases, C08_every_head_dim_is_right_and_writes_nothing_else) { on_each(c08); }

static void c09(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t dims[] = {257, 320, 512, 1024};
    for (size_t n = 0; n < 4; n++) {
        const oracle_config config = {.dtype = dtype, .H = 8, .N = 1, .M = 1024, .D = dims[n], .seed = 90 + n};
        oracle_case *c = oracle_make(&config);
        agrees(c, r);
        oracle_free(c);
    }
}
Test(cases, C09_head_dims_above_256_are_right) { on_each(c09); }

/* ---- sizes of zero ---- */

typedef struct {
    int64_t B, H, N, M, Dv;
} sizes;

enum { ROOM = 2 * 2 * 3 * 4 };

/* Runs with q, k and v of ones and outputs of 7 beforehand. As a plan on buffers, or in one call. */
static void run_sizes(const oracle_runner *r, clattn_dtype dtype, sizes s, bool buffers, double *o, double *lse) {
    const int64_t shapes[5][4] = {
        {s.B, s.H, s.N, 5}, {s.B, s.H, s.M, 5}, {s.B, s.H, s.M, s.Dv}, {s.B, s.H, s.N, s.Dv}, {s.B, s.H, s.N, 0}};
    static const int ranks[5] = {4, 4, 4, 4, 3};
    clattn_attention_args args = {.algorithm = r->algorithm};
    clattn_tensor *tensors[] = {&args.q, &args.k, &args.v, &args.o, &args.lse};
    double values[5][ROOM * 2];
    unsigned char data[5][sizeof values[0]];
    clattn_buffer *made[5] = {NULL};
    clattn_plan *plan = NULL;
    for (int t = 0; t < 5; t++) {
        set_all(values[t], ROOM * 2, t < 3 ? 1 : 7);
        SUCCEEDS(clattn_convert(data[t], dtype, values[t], CLATTN_F64, ROOM * 2));
        *tensors[t] = clattn_tensor_host(data[t], dtype, ranks[t], shapes[t]);
        if (!buffers)
            continue;
        const size_t bytes = (size_t)clattn_tensor_elements(tensors[t]) * clattn_dtype_size(dtype);
        SUCCEEDS(clattn_buffer_create(r->context, bytes, &made[t]));
        SUCCEEDS(clattn_buffer_upload(made[t], 0, data[t], bytes));
        *tensors[t] = clattn_tensor_buffer(made[t], dtype, ranks[t], shapes[t]);
    }
    if (buffers) {
        SUCCEEDS(clattn_plan_create(r->context, &args, &plan));
        SUCCEEDS(clattn_plan_execute(plan, NULL));
        SUCCEEDS(clattn_buffer_download(made[3], 0, data[3], clattn_buffer_bytes(made[3])));
        SUCCEEDS(clattn_buffer_download(made[4], 0, data[4], clattn_buffer_bytes(made[4])));
    } else {
        SUCCEEDS(clattn_attention(r->context, &args));
    }
    clattn_plan_destroy(plan);
    for (int t = 0; t < 5; t++)
        clattn_buffer_destroy(made[t]);
    SUCCEEDS(clattn_convert(o, CLATTN_F64, data[3], dtype, ROOM));
    SUCCEEDS(clattn_convert(lse, CLATTN_F64, data[4], dtype, ROOM));
}

static void c11(const oracle_runner *r, clattn_dtype dtype) {
    double o[ROOM], lse[ROOM];
    for (int zeros = 0; zeros < 32; zeros++)
        for (int buffers = 0; buffers < 2; buffers++) {
            const sizes s = {zeros & 1 ? 0 : 2, zeros & 2 ? 0 : 2, zeros & 4 ? 0 : 3, zeros & 8 ? 0 : 3,
                             zeros & 16 ? 0 : 4};
            const int64_t rows = s.B * s.H * s.N;
            run_sizes(r, dtype, s, buffers, o, lse);
            for (int64_t i = 0; i < ROOM; i++) {
                cr_expect_eq(o[i],
                             i >= rows * s.Dv ? 7
                             : s.M == 0       ? 0
                                              : 1,
                             "%s, zeros %d: o[%d] is %g", r->algorithm, zeros, (int)i, o[i]);
                /* Scores are 5 / sqrt(5), of 3 keys. */
                const double want = i >= rows ? 7 : s.M == 0 ? -INFINITY : sqrt(5) + log(3);
                cr_expect(lse[i] == want || fabs(lse[i] - want) < oracle_floor(dtype, 4),
                          "%s, zeros %d: lse[%d] is %.17g", r->algorithm, zeros, (int)i, lse[i]);
            }
        }
}
Test(cases, C11_C13_sizes_of_zero_alone_and_together_succeed) { on_each(c11); }

static void c12(const oracle_runner *r, clattn_dtype dtype) {
    static double values[20];
    const int64_t empty[] = {1, 1, 5, 0}, full[] = {1, 1, 5, 4};
    const clattn_attention_args args = {.q = clattn_tensor_host(values, dtype, 4, empty),
                                        .k = clattn_tensor_host(values, dtype, 4, empty),
                                        .v = clattn_tensor_host(values, dtype, 4, full),
                                        .o = clattn_tensor_host(values, dtype, 4, full),
                                        .algorithm = r->algorithm};
    FAILS(clattn_attention(r->context, &args), CLATTN_E_SHAPE, "q [1, 1, 5, 0]: head dim 0");
}
Test(cases, C12_a_head_dim_of_zero_is_an_error) { on_each(c12); }

/* ---- scale ---- */

static clattn_status with_scale(const oracle_runner *r, oracle_case *c, double scale) {
    oracle_arrays arrays;
    oracle_arrays_make(c, &arrays);
    arrays.args.has_scale = true;
    arrays.args.scale = scale;
    arrays.args.algorithm = r->algorithm;
    const clattn_status status = clattn_attention(r->context, &arrays.args);
    oracle_arrays_free(&arrays);
    return status;
}

static void c14(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .N = 4, .M = 6, .D = 16, .Dv = 3, .seed = 140};
    oracle_case *c = oracle_make(&config);
    double unset[12];
    agrees(c, r);
    memcpy(unset, c->got.o, sizeof unset);
    c->config.has_scale = true;
    c->config.scale = 0.25;
    agrees(c, r);
    expect_same(r, c->got.o, unset, 12);
    c->config.scale = -1;
    agrees(c, r);
    c->config.scale = 0;
    agrees(c, r);
    for (int64_t i = 0; i < 12; i++) {
        double mean = 0;
        for (int64_t j = 0; j < 6; j++)
            mean += c->v[j * 3 + i % 3] / 6;
        EXPECT(r, c->got.o + i, c->allowed.o, mean);
    }
    FAILS(with_scale(r, c, INFINITY), CLATTN_E_ARGUMENT, "scale: inf is not a finite number");
    FAILS(with_scale(r, c, NAN), CLATTN_E_ARGUMENT, "scale:");
    if (dtype == CLATTN_F32)
        FAILS(with_scale(r, c, 1e300), CLATTN_E_ARGUMENT, "scale: 1e+300 is not a finite number of type f32");
    oracle_free(c);
}
Test(cases, C14_a_scale_of_zero_is_zero_and_only_an_unset_one_is_the_default) { on_each(c14); }
