/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures, group A: masks, NaN and infinities. */
#include "cases.h"
#include "runtime/program.h"
#include <clattn/opencl.h>
#include <float.h>

#define MASK_QK ((oracle_mask){2, ORACLE_QUERY | ORACLE_KEY})

/* ---- a row that sees nothing ---- */

/* Rows 0 to 4 of 6 see the keys up to their own, row 5 none; or the first N of these rows. */
static oracle_case *dead_row(clattn_dtype dtype, int64_t N) {
    const oracle_config config = {.dtype = dtype,
                                  .H = 2,
                                  .N = N,
                                  .M = 10,
                                  .D = 8,
                                  .guard = 16,
                                  .lse = true,
                                  .weights = true,
                                  .has_scale = true,
                                  .scale = 0.125,
                                  .keep = MASK_QK,
                                  .seed = 1};
    oracle_config whole = config;
    whole.N = 6;
    oracle_case *c = oracle_make(&config), *all = oracle_make(&whole);
    for (int64_t h = 0; h < 2; h++) {
        memcpy(c->q + h * N * 8, all->q + h * 6 * 8, (size_t)N * 8 * sizeof *c->q);
        memcpy(c->k + h * 80, all->k + h * 80, 80 * sizeof *c->k);
        memcpy(c->v + h * 80, all->v + h * 80, 80 * sizeof *c->v);
    }
    for (int64_t i = 0; i < N; i++)
        for (int64_t j = 0; j < 10; j++)
            c->keep[i * 10 + j] = i < 5 && j <= i;
    oracle_free(all);
    return c;
}

/* "Without" the row: cut off, and seeing everything. A product by a BLAS may order its sums by the number of rows. */
static void a01(const oracle_runner *r, clattn_dtype dtype) {
    const bool by_blas = strcmp(r->algorithm, "blas") == 0 || strcmp(r->algorithm, "materialised") == 0;
    oracle_case *c = dead_row(dtype, 6), *cut = dead_row(dtype, 5), *open = dead_row(dtype, 6);
    memset(open->keep + 50, 1, 10);
    agrees(c, r);
    agrees(cut, r);
    agrees(open, r);
    for (int64_t h = 0; h < 2; h++) {
        const double *o = c->got.o + h * 48, *lse = c->got.lse + h * 6;
        EXPECT(r, o + 40, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        EXPECT(r, lse + 5, 0, -INFINITY);
        expect_same(r, o, open->got.o + h * 48, 40);
        expect_same(r, lse, open->got.lse + h * 6, 5);
        if (!by_blas)
            expect_same(r, o, cut->got.o + h * 40, 40);
        if (!by_blas)
            expect_same(r, lse, cut->got.lse + h * 5, 5);
    }
    oracle_free(c);
    oracle_free(cut);
    oracle_free(open);
}
Test(cases, A01_a_fully_masked_row_is_zero_and_the_others_do_not_change) { on_each(a01); }

/* As A01, by a bias with one value in row 5. */
static oracle_case *biased_row(clattn_dtype dtype, double value) {
    const oracle_config config = {
        .dtype = dtype, .H = 2, .N = 6, .M = 10, .D = 8, .lse = true, .bias = MASK_QK, .seed = 2};
    oracle_case *c = oracle_make(&config);
    for (int64_t i = 0; i < 60; i++)
        c->bias[i] = i < 50 ? (i % 10 > i / 10 ? -INFINITY : 0) : value;
    return c;
}

static void a02(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = biased_row(dtype, -FLT_MAX);
    agrees(c, r);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t d = 0; d < 8; d++) {
            double mean = 0;
            for (int64_t j = 0; j < 10; j++)
                mean += c->v[(h * 10 + j) * 8 + d] / 10;
            EXPECT(r, c->got.o + h * 48 + 40 + d, 1e-6, mean);
        }
    oracle_free(c);
}
Test(cases, A02_a_row_of_the_least_finite_number_is_the_mean_of_the_values) { on_each(a02); }

static void a03(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = biased_row(dtype, 2 * -(double)FLT_MAX);
    for (int64_t j = 0; j < 10; j++) {
        c->bias[50 + j] = -INFINITY; /* what the sum of two such masks is in f32 */
        c->bias[40 + j] = j % 4 == 1 ? -INFINITY : 0;
    }
    agrees(c, r);
    EXPECT(r, c->got.o + 40, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    oracle_free(c);
}
Test(cases, A03_a_mask_that_was_added_twice_excludes) { on_each(a03); }

static void a03_twice(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = {.dtype = dtype, .N = 9, .D = 8, .causal = true, .seed = 3};
    oracle_case *causal = oracle_make(&config);
    config.keep = MASK_QK;
    oracle_case *both = oracle_make(&config);
    config.drop = MASK_QK;
    oracle_case *thrice = oracle_make(&config);
    for (int64_t i = 0; i < 81; i++) {
        both->keep[i] = thrice->keep[i] = i % 9 <= i / 9;
        thrice->drop[i] = i % 9 > i / 9;
    }
    runs(causal, r);
    runs(both, r);
    runs(thrice, r);
    expect_same(r, both->got.o, causal->got.o, 72);
    expect_same(r, thrice->got.o, causal->got.o, 72);
    oracle_free(causal);
    oracle_free(both);
    oracle_free(thrice);
}
Test(cases, A03_masks_that_exclude_the_same_keys_give_the_bits_of_one) { on_each(a03_twice); }

/* ---- NaN ---- */

static void a06(const oracle_runner *r, clattn_dtype dtype) {
    static const double bad[] = {NAN, -NAN, INFINITY, -INFINITY};
    const oracle_config config = {.dtype = dtype, .N = 2, .D = 4, .lse = true, .keep = MASK_QK};
    oracle_case *c = oracle_make(&config);
    double lse[2];
    for (int i = 0; i < 8; i++)
        c->q[i] = c->k[i] = c->v[i] = i;
    for (int i = 0; i < 4; i++)
        c->keep[i] = i % 2 == 0;
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 0, 1, 2, 3, 0, 1, 2, 3);
    memcpy(lse, c->got.lse, sizeof lse);
    for (int i = 0; i < 8; i++) {
        double *place = i < 4 ? &c->k[4] : &c->v[4], old = *place;
        *place = bad[i % 4];
        agrees(c, r);
        EXPECT(r, c->got.o, 0, 0, 1, 2, 3, 0, 1, 2, 3);
        expect_same(r, c->got.lse, lse, 2);
        *place = old;
    }
    oracle_free(c);
}
Test(cases, A06_nan_and_infinity_under_a_mask_stay_there) { on_each(a06); }

static const int64_t cache_lengths[4] = {32, 64, 96, 48};

static oracle_case *cache(clattn_dtype dtype, double unused) {
    const oracle_config config = {
        .dtype = dtype, .B = 4, .N = 1, .M = 128, .D = 64, .lse = true, .lengths = true, .seed = 4};
    oracle_config full = config;
    full.lengths = false;
    oracle_case *c = oracle_make(&config), *values = oracle_make(&full);
    memcpy(c->key_lengths, cache_lengths, sizeof cache_lengths);
    memcpy(c->q, values->q, 4 * 64 * sizeof *c->q);
    for (int64_t i = 0; i < 4 * 128 * 64; i++) {
        const bool used = i / 64 % 128 < cache_lengths[i / (64 * 128)];
        c->k[i] = used ? values->k[i] : unused;
        c->v[i] = used ? values->v[i] : unused;
    }
    oracle_free(values);
    return c;
}

/* The cache of one batch, cut to its length. */
static oracle_case *cut_cache(const oracle_case *whole, int64_t b) {
    const oracle_config config = {
        .dtype = whole->config.dtype, .N = 1, .M = cache_lengths[b], .D = 64, .lse = true, .lengths = true};
    oracle_case *c = oracle_make(&config);
    c->key_lengths[0] = cache_lengths[b];
    memcpy(c->q, whole->q + b * 64, 64 * sizeof *c->q);
    memcpy(c->k, whole->k + b * 128 * 64, (size_t)cache_lengths[b] * 64 * sizeof *c->k);
    memcpy(c->v, whole->v + b * 128 * 64, (size_t)cache_lengths[b] * 64 * sizeof *c->v);
    return c;
}

static void a07(const oracle_runner *r, clattn_dtype dtype) {
    static const double unused[] = {NAN, -NAN, INFINITY};
    for (int n = 0; n < 3; n++) {
        oracle_case *c = cache(dtype, unused[n]);
        agrees(c, r);
        for (int64_t b = 0; b < 4; b++) {
            oracle_case *cut = cut_cache(c, b);
            agrees(cut, r);
            expect_same(r, c->got.o + b * 64, cut->got.o, 64);
            expect_same(r, c->got.lse + b, cut->got.lse, 1);
            oracle_free(cut);
        }
        oracle_free(c);
    }
}
Test(cases, A07_unused_slots_of_a_cache_may_hold_anything) { on_each(a07); }

static void a08(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .N = 2, .D = 4, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT};
    oracle_case *c = oracle_make(&config);
    SET(c->v, 1, 2, 3, 4, 5, 6, 7, 8);
    c->k[4] = NAN;
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 1, 2, 3, 4, NAN, NAN, NAN, NAN);
    c->k[4] = 1;
    c->v[4] = NAN;
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 1, 2, 3, 4, NAN);
    for (int d = 5; d < 8; d++)
        cr_expect(isfinite(c->got.o[d]), "%s: lane %d", r->algorithm, d - 4);
    oracle_free(c);
}
Test(cases, A08_nan_in_a_key_of_the_future_reaches_only_later_rows) { on_each(a08); }

/* ---- tiles ---- */

static void a09(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t keys[] = {15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129, 192, 257};
    for (size_t n = 0; n < sizeof keys / sizeof *keys; n++)
        for (int third = 0; third < 3; third++) {
            const int64_t M = keys[n];
            const oracle_config config = {
                .dtype = dtype, .N = 3, .M = M, .D = 16, .lse = true, .keep = {2, ORACLE_KEY}, .seed = 5 + n};
            oracle_case *c = oracle_make(&config);
            for (int64_t j = 0; j < M; j++)
                c->keep[j] = j * 3 / M != third;
            agrees(c, r);
            oracle_free(c);
        }
}
Test(cases, A09_a_tile_without_keys_leaves_no_nan) { on_each(a09); }

static void a12(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype,
                                  .N = 5,
                                  .M = 2,
                                  .D = 4,
                                  .lse = true,
                                  .causal = true,
                                  .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                  .seed = 6};
    oracle_case *c = oracle_make(&config);
    agrees(c, r);
    EXPECT(r, c->got.lse, 0, -INFINITY, -INFINITY, -INFINITY);
    EXPECT(r, c->got.o, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    oracle_free(c);
}
Test(cases, A12_the_lse_of_an_empty_row_is_minus_infinity) { on_each(a12); }

static void a13(const oracle_runner *r, clattn_dtype dtype) {
    static const struct {
        double k0, k1, o, lse;
    } cases[] = {{INFINITY, 1, NAN, NAN}, {-INFINITY, 1, 20, 1}, {-INFINITY, -INFINITY, 0, -INFINITY}};
    const oracle_config config = {.dtype = dtype, .N = 1, .M = 2, .D = 1, .lse = true, .has_scale = true, .scale = 1};
    oracle_case *c = oracle_make(&config);
    SET(c->q, 1);
    SET(c->v, 10, 20);
    for (int n = 0; n < 3; n++) {
        SET(c->k, cases[n].k0, cases[n].k1);
        runs(c, r);
        EXPECT(r, c->got.o, 0, cases[n].o);
        if (n > 0) /* +inf - (+inf) in some order: NaN or +inf */
            EXPECT(r, c->got.lse, 0, cases[n].lse);
    }
    oracle_free(c);
}
Test(cases, A13_infinite_scores_follow_ieee_and_minus_infinity_excludes) { on_each(a13); }

/* ---- options of the compiler ---- */

static void probe(const clattn_device_info *info, const char *options) {
    static const char *text = "__kernel void probe(__global int *out, float x) { out[0] = isnan(x - x); }";
    const float minus_infinity = -INFINITY;
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    cl_context cl;
    cl_device_id device;
    cl_int code, got = -1;
    SUCCEEDS(clattn_context_create(info->spec, NULL, &context));
    SUCCEEDS(clattn_buffer_create(context, sizeof got, &buffer));
    cl_mem memory = clattn_buffer_opencl(buffer);
    clGetMemObjectInfo(memory, CL_MEM_CONTEXT, sizeof cl, &cl, NULL);
    clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, 0, &code);
    cl_program program = clCreateProgramWithSource(cl, 1, &text, NULL, &code);
    cr_assert_eq(clBuildProgram(program, 1, &device, options, NULL, NULL), CL_SUCCESS);
    cl_kernel kernel = clCreateKernel(program, "probe", &code);
    clSetKernelArg(kernel, 0, sizeof memory, &memory);
    clSetKernelArg(kernel, 1, sizeof minus_infinity, &minus_infinity);
    cr_assert_eq(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, (const size_t[]){1}, NULL, 0, NULL, NULL), CL_SUCCESS);
    cr_assert_eq(clFinish(queue), CL_SUCCESS);
    SUCCEEDS(clattn_buffer_download(buffer, 0, &got, sizeof got));
    cr_expect_eq(got, 1, "%s: isnan(-inf - -inf) is %d with %s", info->name, got, options);
    clReleaseKernel(kernel);
    clReleaseProgram(program);
    clReleaseCommandQueue(queue);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

Test(cases, A14_kernels_are_built_with_nan_and_infinity) {
    const cla_key key = cla_key_make("copy.cl", "copy_strided");
    clattn_device_info devices[16];
    size_t count = 0;
    cr_assert_null(strstr(key.options, "fast"));
    cr_assert_null(strstr(key.options, "finite"));
    cr_assert_null(strstr(key.options, "unsafe"));
    SUCCEEDS(clattn_devices(devices, 16, &count));
    for (size_t i = 0; i < count && i < 16; i++)
        if (devices[i].is_opencl && devices[i].usable)
            probe(&devices[i], key.options);
}

/* ---- what a mask means ---- */

static void a16(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = {.dtype = dtype, .N = 1, .M = 2, .D = 2, .keep = MASK_QK};
    for (int n = 0; n < 3; n++) {
        config.keep = n == 0 ? MASK_QK : (oracle_mask){0};
        config.drop = n == 1 ? MASK_QK : (oracle_mask){0};
        config.bias = n == 2 ? MASK_QK : (oracle_mask){0};
        oracle_case *c = oracle_make(&config);
        set_all(c->q, 2, 0);
        set_identity(c->v, 2, 2);
        if (n == 2)
            SET(c->bias, 1, 0);
        else
            memcpy(n == 0 ? c->keep : c->drop, n == 0 ? "\1\0" : "\0\1", 2);
        runs(c, r);
        if (n == 2)
            EXPECT(r, c->got.o, 1e-6, 0.7310585786300049, 0.2689414213699951);
        else
            EXPECT(r, c->got.o, 0, 1, 0);
        oracle_free(c);
    }
}
Test(cases, A16_keep_drop_and_bias_say_their_polarity_by_name) { on_each(a16); }

static void a17(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_mask shapes[] = {{2, ORACLE_KEY},
                                         {2, ORACLE_QUERY},
                                         {2, ORACLE_QUERY | ORACLE_KEY},
                                         {4, ORACLE_BATCH | ORACLE_KEY},
                                         {4, ORACLE_HEAD | ORACLE_QUERY},
                                         {4, ORACLE_BATCH | ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY},
                                         {3, ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY}};
    for (size_t n = 0; n < 3 * sizeof shapes / sizeof *shapes; n++) {
        oracle_config config = {.dtype = dtype, .B = 2, .H = 4, .N = 5, .M = 7, .D = 8, .seed = 7 + n};
        oracle_mask *masks[] = {&config.keep, &config.drop, &config.bias};
        *masks[n % 3] = shapes[n / 3];
        oracle_case *c = oracle_make(&config);
        agrees(c, r);
        oracle_free(c);
    }
}
Test(cases, A17_masks_broadcast_from_the_right) { on_each(a17); }

static void a19(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .N = 2, .D = 1, .lse = true, .causal = true, .keep = MASK_QK};
    oracle_case *c = oracle_make(&config);
    memcpy(c->keep, "\0\1\1\1", 4);
    set_all(c->q, 2, 0);
    SET(c->v, 1, 3);
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 0, 2);
    EXPECT(r, c->got.lse, 0, -INFINITY);
    oracle_free(c);
}
Test(cases, A19_causal_and_a_mask_leave_what_both_leave) { on_each(a19); }

static void a20(const oracle_runner *r, clattn_dtype dtype) {
    for (int64_t n = 1; n <= 8; n += 7) {
        const oracle_config config = {.dtype = dtype, .H = 2, .N = n, .D = 16, .weights = true, .seed = 8};
        oracle_case *c = oracle_make(&config);
        agrees(c, r);
        for (int64_t i = 0; c->config.weights && i < 2 * n * n; i++)
            cr_expect_gt(c->got.weights[i], 0, "%s", r->algorithm);
        oracle_free(c);
    }
}
Test(cases, A20_nothing_is_causal_that_was_not_said_to_be) { on_each(a20); }
