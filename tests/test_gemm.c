/* SPDX-License-Identifier: Apache-2.0 */
/* The front of CLBlast: values over transposes, strides and axes; how few calls it makes; errors. */
#include "ops/gemm.h"
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

enum { FLOATS = 6000 };

typedef struct {
    clattn_context *context;
    clattn_buffer *a, *b, *c;
    double x[FLOATS], y[FLOATS];
    size_t size;
    clattn_dtype dtype;
} bench;

static clattn_buffer *buffer_of(const bench *t, const double *values) {
    clattn_buffer *buffer = NULL;
    float *narrow = malloc(FLOATS * sizeof *narrow);
    for (int i = 0; i < FLOATS; i++)
        narrow[i] = (float)values[i];
    SUCCEEDS(clattn_buffer_create(t->context, FLOATS * t->size, &buffer));
    SUCCEEDS(
        clattn_buffer_upload(buffer, 0, t->size == 4 ? (void *)narrow : (void *)(uintptr_t)values, FLOATS * t->size));
    free(narrow);
    return buffer;
}

static bench *open_bench(clattn_dtype dtype, bool profile) {
    bench *t = calloc(1, sizeof *t);
    oracle_random random = {5};
    t->dtype = dtype;
    t->size = clattn_dtype_size(dtype);
    if (clattn_context_create("opencl", &(clattn_context_options){.profile = profile}, &t->context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < FLOATS; i++) {
        t->x[i] = (double)(float)oracle_normal(&random);
        t->y[i] = (double)(float)oracle_normal(&random);
    }
    t->a = buffer_of(t, t->x);
    t->b = buffer_of(t, t->y);
    return t;
}

static void close_bench(bench *t) {
    clattn_buffer_destroy(t->a);
    clattn_buffer_destroy(t->b);
    clattn_buffer_destroy(t->c);
    clattn_context_destroy(t->context);
    free(t);
}

static size_t calls_of(clattn_context *context) {
    clattn_profile_entry entries[8];
    size_t count = 0;
    SUCCEEDS(clattn_context_profile(context, entries, 8, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, "clblast_gemm") == 0)
            return entries[i].count;
    return 0;
}

static double element(const double *x, const cla_gemm_matrix *m, int64_t at, int64_t row, int64_t column) {
    return x[m->offset + at + (m->transposed ? column : row) * m->ld + (m->transposed ? row : column)];
}

/* Every element of C against sums in double, and every other one of its buffer against what was there. */
static void check(bench *t, cla_gemm g) {
    static double expected[FLOATS], bound[FLOATS], got[FLOATS];
    static float narrow[FLOATS];
    const double unit = t->size == 4 ? 0x1p-24 : 0x1p-53;
    int64_t n[CLA_GEMM_AXES];
    for (int i = 0; i < FLOATS; i++) {
        expected[i] = g.add ? t->y[i] : NAN; /* or C is not read */
        bound[i] = 0;
    }
    clattn_buffer_destroy(t->c);
    t->c = buffer_of(t, expected);
    g.dtype = t->dtype;
    g.a.buffer = t->a, g.b.buffer = t->b, g.c.buffer = t->c;
    SUCCEEDS(cla_gemm_batched(t->context, &g));
    for (int i = 0; i < CLA_GEMM_AXES; i++)
        n[i] = g.axes[i].size ? g.axes[i].size : 1;
    for (int64_t x = 0; x < n[0] * n[1] * n[2]; x++) {
        const int64_t at[] = {x / n[2] / n[1], x / n[2] % n[1], x % n[2]};
        int64_t a = 0, b = 0, c = 0;
        for (int i = 0; i < CLA_GEMM_AXES; i++)
            a += at[i] * g.axes[i].a, b += at[i] * g.axes[i].b, c += at[i] * g.axes[i].c;
        for (int64_t row = 0; row < g.m; row++)
            for (int64_t column = 0; column < g.n; column++) {
                double sum = 0, size = 0;
                for (int64_t k = 0; k < g.k; k++) {
                    const double p = element(t->x, &g.a, a, row, k) * element(t->y, &g.b, b, k, column);
                    sum += p;
                    size += fabs(p);
                }
                const int64_t to = g.c.offset + c + row * g.c.ld + column;
                bound[to] = 4 * (double)(g.k + g.add) * unit * (size + (g.add ? fabs(expected[to]) : 0));
                expected[to] = g.add ? expected[to] + sum : sum;
            }
    }
    SUCCEEDS(clattn_buffer_download(t->c, 0, t->size == 4 ? (void *)narrow : (void *)got, FLOATS * t->size));
    for (int i = 0; i < FLOATS; i++) {
        const double y = t->size == 4 ? (double)narrow[i] : got[i];
        cr_expect(isnan(expected[i]) ? isnan(y) : fabs(y - expected[i]) <= bound[i], "element %d: %g, expected %g", i,
                  y, expected[i]);
    }
}

static void check_all(clattn_dtype dtype) {
    bench *t = open_bench(dtype, false);
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(t->context, &info));
    if (dtype == CLATTN_F64 && !info.has_f64)
        cr_skip_test("no f64");
    const cla_gemm cases[] = {
        {.m = 1, .n = 1, .k = 1, .a = {.ld = 1}, .b = {.ld = 1}, .c = {.ld = 1}},
        {.m = 5, .n = 7, .k = 3, .a = {.ld = 3}, .b = {.ld = 7}, .c = {.ld = 7}},
        {.m = 33, .n = 35, .k = 40, .a = {.ld = 41, .offset = 3}, .b = {.ld = 40, .transposed = true}, .c = {.ld = 36}},
        {.m = 20, .n = 17, .k = 9, .a = {.ld = 20, .transposed = true}, .b = {.ld = 18}, .c = {.ld = 19, .offset = 5}},
        {.m = 6,
         .n = 4,
         .k = 70,
         .a = {.ld = 6, .transposed = true},
         .b = {.ld = 71, .transposed = true},
         .c = {.ld = 4}},
        /* one stored row: any ld */
        {.m = 1, .n = 40, .k = 8, .a = {.ld = 0}, .b = {.ld = 8, .transposed = true}, .c = {.ld = 2}},
        /* a batch, heads that nest in it, and a member axis that shares b and becomes rows */
        {.m = 4,
         .n = 5,
         .k = 6,
         .a = {.ld = 6},
         .b = {.ld = 6, .transposed = true},
         .c = {.ld = 5},
         .axes = {{2, 144, 90, 120}, {3, 48, 30, 40}, {2, 24, 0, 20}}},
        /* nothing nests: [b, n, h, d], padded, a shared matrix */
        {.m = 4,
         .n = 5,
         .k = 6,
         .a = {.ld = 24},
         .b = {.ld = 12},
         .c = {.ld = 5},
         .axes = {{3, 100, 0, 200}, {2, 12, 6, 61}, {2, 6, 0, 25}}},
        {.m = 3, .n = 5, .k = 6, .a = {.ld = 6}, .b = {.ld = 5}, .c = {.ld = 5}, .axes = {{0}, {4, 0, 30, 15}, {0}}},
        {.m = 1, .n = 9, .k = 6, .a = {.ld = 6}, .b = {.ld = 9}, .c = {.ld = 9}, .axes = {{4, 10, 0, 12}}},
        {.m = 1, .n = 9, .k = 6, .a = {.ld = 6}, .b = {.ld = 9}, .c = {.ld = 9}, .axes = {{4, 3, 0, 12}}},
        /* added to what is there */
        {.m = 20,
         .n = 17,
         .k = 9,
         .a = {.ld = 20, .transposed = true},
         .b = {.ld = 17},
         .c = {.ld = 19, .offset = 5},
         .axes = {{2, 180, 153, 400}},
         .add = true},
        {.m = 5, .n = 7, .k = 0, .a = {.ld = 3}, .b = {.ld = 7}, .c = {.ld = 7}, .add = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check(t, cases[i]);
    close_bench(t);
}

Test(gemm, f32_agrees_with_double_on_every_layout) { check_all(CLATTN_F32); }
Test(gemm, f64_agrees_with_double_on_every_layout) { check_all(CLATTN_F64); }

Test(gemm, axes_that_nest_make_one_call) {
    bench *t = open_bench(CLATTN_F32, true);
    const cla_gemm cases[] = {
        /* dense [2, 3, 4, 6] against [2, 3, 5, 6] */
        {.m = 4,
         .n = 5,
         .k = 6,
         .a = {.ld = 6},
         .b = {.ld = 6, .transposed = true},
         .c = {.ld = 5},
         .axes = {{2, 72, 90, 60}, {3, 24, 30, 20}}},
        /* grouped heads, dense: the group's rows are one matrix, and then all nests */
        {.m = 4,
         .n = 5,
         .k = 6,
         .a = {.ld = 6},
         .b = {.ld = 6, .transposed = true},
         .c = {.ld = 5},
         .axes = {{2, 144, 90, 120}, {3, 48, 30, 40}, {2, 24, 0, 20}}},
        /* grouped heads, one query each, in [b, n, h, d] */
        {.m = 1,
         .n = 5,
         .k = 6,
         .a = {.ld = 36},
         .b = {.ld = 18, .transposed = true},
         .c = {.ld = 5},
         .axes = {{1, 0, 0, 0}, {3, 12, 6, 10}, {2, 6, 0, 5}}},
        /* heads in [b, n, h, d]: a batch of heads, a call a batch */
        {.m = 4,
         .n = 5,
         .k = 6,
         .a = {.ld = 18},
         .b = {.ld = 18, .transposed = true},
         .c = {.ld = 5},
         .axes = {{2, 72, 90, 60}, {3, 6, 6, 20}}},
    };
    const size_t calls[] = {1, 1, 1, 2};
    for (int i = 0; i < 4; i++) {
        clattn_context_profile_reset(t->context);
        check(t, cases[i]);
        cr_expect_eq(calls_of(t->context), calls[i], "case %d: %zu calls", i, calls_of(t->context));
    }
    close_bench(t);
}

/* More than a grid's third dimension takes on some devices. */
Test(gemm, large_batches_are_cut) {
    enum { COUNT = 70000 };
    bench *t = open_bench(CLATTN_F32, true);
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    clattn_buffer *a = NULL, *c = NULL;
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)i;
    SUCCEEDS(clattn_buffer_create(t->context, COUNT * sizeof *x, &a));
    SUCCEEDS(clattn_buffer_create(t->context, COUNT * sizeof *x, &c));
    SUCCEEDS(clattn_buffer_upload(a, 0, x, COUNT * sizeof *x));
    const cla_gemm g = {.m = 1,
                        .n = 1,
                        .k = 1,
                        .a = {a, 0, 1, false},
                        .b = {a, 0, 1, false},
                        .c = {c, 0, 1, false},
                        .axes = {{COUNT, 1, 1, 1}}};
    SUCCEEDS(cla_gemm_batched(t->context, &g));
    SUCCEEDS(clattn_buffer_download(c, 0, y, COUNT * sizeof *y));
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq(y[i], x[i] * x[i], "%d", i);
    cr_expect_eq(calls_of(t->context), 2);
    clattn_buffer_destroy(a);
    clattn_buffer_destroy(c);
    free(x);
    free(y);
    close_bench(t);
}

Test(gemm, nothing_to_do_is_no_call) {
    bench *t = open_bench(CLATTN_F32, true);
    const cla_gemm g = {.m = 0, .n = 3, .k = 2};
    const cla_gemm h = {.m = 2, .n = 0, .k = 2};
    SUCCEEDS(cla_gemm_batched(t->context, &g));
    SUCCEEDS(cla_gemm_batched(t->context, &h));
    SUCCEEDS(cla_gemm_check(&g));
    cr_expect_eq(calls_of(t->context), 0);
    close_bench(t);
}

Test(gemm, errors_name_the_numbers) {
    bench *t = open_bench(CLATTN_F32, false);
    t->c = buffer_of(t, t->x);
    const cla_gemm good = {
        .m = 3, .n = 4, .k = 5, .a = {t->a, 0, 5, false}, .b = {t->b, 0, 4, false}, .c = {t->c, 0, 4, false}};
    cla_gemm g = good;
    SUCCEEDS(cla_gemm_batched(t->context, &g));
    g.a.ld = 4;
    FAILS(cla_gemm_batched(t->context, &g), CLATTN_E_SHAPE, "a has rows of 5 elements, 4 apart");
    g = good, g.axes[1] = (cla_gemm_axis){7, 1, 1, 0};
    FAILS(cla_gemm_batched(t->context, &g), CLATTN_E_SHAPE, "7 matrices share one c");
    g = good, g.dtype = CLATTN_F16;
    FAILS(cla_gemm_batched(t->context, &g), CLATTN_E_DTYPE, "f16");
    g = good, g.b.offset = (int64_t)1 << 31;
    FAILS(cla_gemm_batched(t->context, &g), CLATTN_E_LIMIT, "b reaches to element 2147483667");
    g = good, g.axes[0] = (cla_gemm_axis){3, INT64_MAX / 2, 0, 12};
    FAILS(cla_gemm_check(&g), CLATTN_E_LIMIT, "a reaches");
    /* CLBlast's own */
    g = good, g.a.offset = FLOATS - 14;
    FAILS(cla_gemm_batched(t->context, &g), CLATTN_E_CLBLAST, "CLBlastInsufficientMemoryA");
    cr_expect(strstr(clattn_last_error(), "m 3, n 4, k 5, batch 1"), "%s", clattn_last_error());
    close_bench(t);
}

/* CLBlast's first call crashed when four threads made it. Contexts are opened before: PoCL's first call is not safe. */
static void *first_call(void *argument) {
    bench *t = argument;
    const cla_gemm g = {
        .m = 5, .n = 7, .k = 3, .a = {t->a, 0, 3, false}, .b = {t->b, 0, 7, false}, .c = {t->c, 0, 7, false}};
    for (int i = 0; i < 3; i++)
        if (cla_gemm_batched(t->context, &g) != CLATTN_OK)
            return argument;
    return NULL;
}

Test(gemm, four_threads_may_make_the_first_call) {
    pthread_t threads[4];
    bench *benches[4];
    for (int i = 0; i < 4; i++) {
        benches[i] = open_bench(CLATTN_F32, false);
        benches[i]->c = buffer_of(benches[i], benches[i]->x);
    }
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, first_call, benches[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed = NULL;
        float c[35];
        double sum = 0;
        const bench *t = benches[i];
        pthread_join(threads[i], &failed);
        cr_assert_null(failed);
        SUCCEEDS(clattn_buffer_download(t->c, 0, c, sizeof c));
        for (int k = 0; k < 3; k++)
            sum += t->x[4 * 3 + k] * t->y[k * 7 + 6];
        cr_expect_float_eq((double)c[34], sum, oracle_floor(CLATTN_F32, 10));
        close_bench(benches[i]);
    }
}
