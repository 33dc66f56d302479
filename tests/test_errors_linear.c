/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers and what lies under them at the edges of sizes, strides and types: products that nobody can count,
 * rows that BLAS cannot step between, matrices that CLBlast cannot read in place. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "errors.h"
#include "modules/scratch.h"
#include "op_arrays.h"
#include "ops/gemm.h"
#include "ops/gemm_sets.h"
#include <clattn/clattn.h>
#include <sys/mman.h>

#define F32 CLATTN_F32

static const int64_t most = 2147400000; /* of an axis: a little below 2^31 */

/* ---- too large ---- */

Test(errors_linear, products_that_cannot_be_counted) {
    clattn_context *context = op_open("cpu");
    bool applies = true;
    fill_slots();
#define LINEAR(code, part, ...)                                                                                        \
    REFUSED(clattn_linear_args, clattn_linear(context, &a), code, part,                                                \
            ARGS(.x = mat(0, 3, 4), .w = mat(1, 6, 4), .y = mat(2, 3, 6)), __VA_ARGS__)
    LINEAR(CLATTN_E_SHAPE, "y [1, 3, 6]: should be x [3, 4]", a.y = cube(2, 1, 3, 6));
    LINEAR(CLATTN_E_SHAPE, "more than 2147418111 rows", a.x = four(0, 65536, 65536, 1, 0),
           a.y = four(2, 65536, 65536, 1, 0), a.w = mat(1, 0, 0));
    LINEAR(CLATTN_E_SHAPE, "more than 2147418111 rows", a.x = four(0, most, most, most, 0),
           a.y = four(2, most, most, most, 0), a.w = mat(1, 0, 0));
    LINEAR(CLATTN_E_MEMORY, "1073741824 rows of 2147352576 numbers are too many", a.gated = true,
           a.x = repeated(2, 1 << 30, 1, 1), a.w = repeated(2, 2147352576, 1, 1), a.y = vast(2, 1 << 30, 1073676288, 1),
           a.algorithm = "blas");
    LINEAR(CLATTN_E_SHAPE, "bias []: should be [6]", a.bias = clattn_tensor_slice(vec(0, 6), 0, 1, 6));
#define APPLIES(code, part, ...)                                                                                       \
    REFUSED(clattn_linear_args, clattn_linear_applies(context, &a, 0, &applies, NULL), code, part,                     \
            ARGS(.x = mat(0, 3, 4), .w = mat(1, 6, 4), .y = mat(2, 3, 6)), __VA_ARGS__)
    FAILS(clattn_linear_applies(NULL, NULL, 0, &applies, NULL), CLATTN_E_ARGUMENT, "context is NULL");
    cr_expect_not(applies);
    FAILS(clattn_linear_applies(context, NULL, 0, &applies, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    APPLIES(CLATTN_E_ARGUMENT, "w: is missing", a.w.rank = 0);
#define BACK(code, part, ...)                                                                                          \
    REFUSED(clattn_linear_backward_args, clattn_linear_backward(context, &a), code, part,                              \
            ARGS(.d_y = mat(0, 3, 4), .d_bias = vec(1, 4)), __VA_ARGS__)
    BACK(CLATTN_E_SHAPE, "more than 2147418111 rows", a.d_y = four(0, most, most, most, 0), a.d_bias = vec(1, 0));
    BACK(CLATTN_E_LIMIT, "scratch of more elements", a.d_y = a.z = as_type(repeated(2, most, most, 1), CLATTN_F16),
         a.d_bias = vast(1, most, 1, 1), a.activation = CLATTN_ACTIVATION_RELU);
    expect_unwritten();
    clattn_context_destroy(context);
}

Test(errors_linear, scratch_that_cannot_be_counted) {
    clattn_context *context = op_open("cpu");
    cla_scratch scratch = {.context = context};
    clattn_tensor t[2];
    const int64_t two_to_the[][2] = {{1LL << 30, 1LL << 31}, {1LL << 32, 1LL << 32}, {1LL << 28, 1LL << 29}};
    for (int i = 0; i < 2; i++)
        FAILS(cla_scratch_take(&scratch, CLA_SLOT_ROWS, F32, 2, two_to_the[i], t), CLATTN_E_SHAPE,
              "scratch of rank 2: more elements than 64 bits count");
    for (int i = 0; i < 3; i++)
        FAILS(cla_scratch_take_many(&scratch, CLA_SLOT_ROWS, F32, 2, two_to_the[i], 2, t), CLATTN_E_SHAPE,
              "scratch of rank 2: more elements than 64 bits count");
    cla_scratch_free(&scratch);
    clattn_context_destroy(context);
}

/* Rows of a few columns, more than there are numbers for what they become. */
Test(errors_linear, rows_of_modules_that_cannot_be_counted) {
    clattn_context *context = op_open("cpu");
    const int64_t far = 1 << 30, longest = (int64_t)1 << 40;
    const clattn_multihead_options one = {.heads = 1};
    clattn_multihead *queries = NULL, *keys = NULL, *behind = NULL, *whole = NULL;
    SUCCEEDS(clattn_multihead_create(
        context,
        &(clattn_multihead_weights){.q = mat(0, 8, 1), .k = mat(0, 8, 1), .v = mat(0, 1, 1), .out = mat(0, 1, 1)}, &one,
        &queries));
    SUCCEEDS(clattn_multihead_create(
        context,
        &(clattn_multihead_weights){.q = mat(0, 2, 1), .k = mat(0, 2, 1), .v = mat(0, 6, 1), .out = mat(0, 1, 6)}, &one,
        &keys));
    SUCCEEDS(clattn_multihead_create(context,
                                     &(clattn_multihead_weights){.q = mat(0, 1, 1),
                                                                 .k = mat(0, 1, 1),
                                                                 .v = mat(0, 1, 1),
                                                                 .out = mat(0, 1, 1),
                                                                 .bias_k = vec(0, 1),
                                                                 .bias_v = vec(0, 1)},
                                     &one, &behind));
    SUCCEEDS(clattn_multihead_create(
        context, &(clattn_multihead_weights){.in_proj = mat(0, 24, 1), .out = mat(0, 1, 8)}, &one, &whole));
    const clattn_tensor rows = repeated(3, far, far, 1), y = vast(3, far, far, 1);
    clattn_tensor other = rows;
    other.host = slots[1];
#define ROWS(module, part, ...)                                                                                        \
    FAILS(clattn_multihead_run(module, &(clattn_multihead_args){__VA_ARGS__}), CLATTN_E_SHAPE, part)
    ROWS(queries, "multihead: more elements than 64 bits count", .query = rows, .key = other, .y = y);
    ROWS(keys, "multihead: more elements than 64 bits count", .query = rows, .key = other, .y = y);
    ROWS(whole, "scratch of rank 3: more elements than 64 bits count", .query = rows, .y = y);
    const clattn_tensor line = repeated(3, 1, longest, 1);
    ROWS(behind, "multihead: mask: more elements than 64 bits count", .query = line, .y = vast(3, 1, longest, 1),
         .masks = {.causal = true});
    clattn_multihead_destroy(whole);
    clattn_multihead_destroy(behind);
    clattn_multihead_destroy(keys);
    clattn_multihead_destroy(queries);
    clattn_context_destroy(context);
}

/* ---- products of matrices ---- */

static cla_gemm product(void) {
    return (cla_gemm){.dtype = F32, .m = 2, .n = 3, .k = 4, .a = {.ld = 4}, .b = {.ld = 3}, .c = {.ld = 3}};
}

Test(errors_linear, matrices_that_clblast_cannot_count) {
#define GEMM(code, part, ...)                                                                                          \
    do {                                                                                                               \
        cla_gemm g = product();                                                                                        \
        __VA_ARGS__;                                                                                                   \
        FAILS(cla_gemm_check(&g), code, part);                                                                         \
    } while (0)
    GEMM(CLATTN_E_SHAPE, "c has rows of 3 elements, 2 apart", g.c.ld = 2);
    GEMM(CLATTN_E_SHAPE, "b has rows of 3 elements, 2 apart", g.b.ld = 2);
    GEMM(CLATTN_E_LIMIT, "a reaches to element -1", g.a.ld = INT64_MAX, g.m = 3);
    GEMM(CLATTN_E_LIMIT, "b reaches to element -1", g.b.offset = INT64_MAX);
    GEMM(CLATTN_E_LIMIT, "c reaches to element -1", g.m = 1, g.c.offset = INT64_MAX);
    GEMM(CLATTN_E_LIMIT, "a reaches to element -1", g.axes[0] = (cla_gemm_axis){3, INT64_MAX, 1, 6});
    GEMM(CLATTN_E_LIMIT, "a reaches to element -1", g.axes[0] = (cla_gemm_axis){2, INT64_MAX, 1, 6});
    GEMM(CLATTN_E_LIMIT, "with rows 2147483648 apart", g.m = 1, g.k = (int64_t)1 << 31);
#define GOOD(...)                                                                                                      \
    do {                                                                                                               \
        cla_gemm g = product();                                                                                        \
        __VA_ARGS__;                                                                                                   \
        SUCCEEDS(cla_gemm_check(&g));                                                                                  \
    } while (0)
    GOOD((void)g);
    GOOD(g.m = 0, g.c.ld = 0);
    GOOD(g.n = 0, g.c.ld = 0);
    GOOD(g.k = 0, g.a.ld = g.b.ld = 0);
    /* Axes that do not become rows of one matrix: their rows would be too long for it. */
    GOOD(g.a.transposed = true, g.a.ld = 2, g.axes[0] = (cla_gemm_axis){2, 8, 0, 6});
    GOOD(g.m = 1, g.axes[0] = (cla_gemm_axis){2, 4, 0, 2});
    GOOD(g.m = 1, g.axes[0] = (cla_gemm_axis){2, 3, 0, 3});
}

Test(errors_linear, the_parameters_of_products_are_those_of_the_class) {
    clattn_context *cpu = op_open("opencl"), *gpu = op_open("gpu");
    cpu->info.device_class = CLATTN_DEVICE_CPU;
    gpu->info.max_work_group = 1024;
    cr_expect_not_null(cla_gemm_set_for(cpu, F32));
    cr_expect_null(cla_gemm_set_for(gpu, F32));
    gpu->info.max_work_group = 16;
    cr_expect_eq(cla_gemm_set_for(gpu, F32) != NULL, cla_gemm_fits(&gpu->info));
    clattn_context_destroy(cpu);
    clattn_context_destroy(gpu);
}

/* ---- strides and types ---- */

/* y = x W^T, each one of a view that is given, by an algorithm. */
static void check_views(clattn_context *context, const char *algorithm, const clattn_tensor *x,
                        const clattn_tensor *w) {
    const int64_t M = x->shape[0], N = w->shape[0], K = w->shape[1];
    const clattn_tensor y = mat(SLOTS - 1, M, N);
    const clattn_linear_args args = {.x = *x, .w = *w, .y = y, .algorithm = algorithm};
    SUCCEEDS(clattn_linear(context, &args));
    for (int64_t i = 0; i < M * N; i++) {
        double want = 0;
        for (int64_t k = 0; k < K; k++)
            want += oracle_decode(x->dtype, x->host, x->offset + i / N * x->stride[0] + k * x->stride[1]) *
                    oracle_decode(w->dtype, w->host, w->offset + i % N * w->stride[0] + k * w->stride[1]);
        cr_expect_float_eq((double)slots[SLOTS - 1][i], want, 8 * oracle_floor(F32, 8), "%s, element %d: %g, not %g",
                           algorithm, (int)i, (double)slots[SLOTS - 1][i], want);
    }
}

static clattn_tensor stepped(int slot, int64_t rows, int64_t columns, int64_t row_step, int64_t step) {
    clattn_tensor t = mat(slot, rows, columns);
    t.stride[0] = row_step, t.stride[1] = step;
    return t;
}

static void fill_numbers(void) {
    for (int i = 0; i < SLOT; i++) {
        slots[0][i] = (float)(i % 7 - 3);
        slots[1][i] = (float)(i % 5 - 2);
    }
}

Test(errors_linear, rows_that_clblast_cannot_read_in_place) {
    clattn_context *context = op_open("opencl");
    fill_numbers();
    const clattn_tensor x = mat(0, 3, 4), column = mat(0, 3, 1);
    const clattn_tensor w[] = {
        stepped(1, 1, 4, 0, 1), /* one row, whose step is never taken */
        stepped(1, 5, 4, 0, 1), /* the same row again and again */
        stepped(1, 5, 4, 3, 1), /* rows that overlap */
        stepped(1, 5, 4, 1, 6), /* [K, N] as it lies */
        stepped(1, 5, 4, 1, 2), /* columns that overlap */
        stepped(1, 5, 4, 1, 0), /* the same column */
    };
    for (size_t i = 0; i < sizeof w / sizeof *w; i++)
        check_views(context, "clblast", &x, &w[i]);
    const clattn_tensor one = stepped(1, 5, 1, 1, 0);
    check_views(context, "clblast", &column, &one);
    clattn_context_destroy(context);
}

/* Sums of no terms, whatever the type of x: nothing is multiplied, and nothing read. */
Test(errors_linear, no_terms) {
    static const char *const ways[] = {"linear", "gemv", "clblast", "clblast", "blas", "reference"};
    for (int i = 0; i < 6; i++) {
        clattn_context *context = op_open(i == 3 ? "gpu" : i < 3 ? "opencl" : "cpu");
        if (i < 2)
            context->info.device_class = CLATTN_DEVICE_CPU;
        fill_slots();
        SUCCEEDS(clattn_linear(context, &(clattn_linear_args){.x = as_type(mat(0, 3, 0), CLATTN_F16),
                                                              .w = mat(1, 6, 0),
                                                              .bias = vec(2, 6),
                                                              .y = mat(3, 3, 6),
                                                              .activation = CLATTN_ACTIVATION_RELU,
                                                              .algorithm = ways[i]}));
        for (int k = 0; k < 18; k++)
            cr_expect_eq(slots[3][k], 0.5F, "%s: %g", ways[i], (double)slots[3][k]);
        clattn_context_destroy(context);
    }
}

/* Rows further apart than BLAS counts, in an array that is mostly not there. */
Test(errors_linear, rows_far_apart) {
    const int64_t apart = ((int64_t)1 << 31) + 64;
    const size_t bytes = (size_t)(apart + 64) * sizeof(float);
    clattn_context *context = op_open("cpu");
    float *far = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    cr_assert_neq((void *)far, MAP_FAILED);
    for (int i = 0; i < 4; i++) {
        far[i] = (float)i;
        far[apart + i] = (float)(2 - i);
    }
    fill_numbers();
    clattn_tensor x = mat(0, 2, 4), w = mat(0, 4, 2);
    const clattn_tensor near_x = mat(1, 3, 2), near_w = mat(1, 3, 4);
    x.host = w.host = far;
    x.stride[0] = apart;
    w.stride[0] = 1, w.stride[1] = apart;
    check_views(context, "blas", &x, &near_w);
    check_views(context, "blas", &near_x, &w);
    munmap(far, bytes);
    clattn_context_destroy(context);
}

/* Host arrays that overlap are one buffer, in which each begins at a whole element. */
Test(errors_linear, arrays_that_overlap_between_elements) {
    clattn_context *context = op_open("opencl");
    fill_slots();
    clattn_tensor halves = as_type(mat(0, 3, 4), CLATTN_F16);
    halves.host = (char *)slots[0] + 2;
    clattn_tensor later = mat(0, 3, 4);
    later.host = slots[0] + 1;
    FAILS(clattn_norm(context, &(clattn_norm_args){.x = later, .residual = halves, .y = mat(1, 3, 4)}),
          CLATTN_E_ARGUMENT, "begins 2 bytes into an array that another one overlaps: not at a whole element");
    expect_unwritten();
    clattn_context_destroy(context);
}
