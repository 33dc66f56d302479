/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: NaN and infinity, activations over the whole line, equal bits, buffers, choice, errors. */
#include "linear_cases.h"
#include "testing.h"

/* ---- numbers that are none, and bits ---- */

static clattn_context *open_device(const char *device) {
    clattn_context *context = NULL;
    if (clattn_context_create(device, NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

/* A NaN in a row of x, and an infinity in a row of w. */
static void check_poison(clattn_context *context, const char *algorithm, int rows, clattn_activation activation) {
    enum { N = 30, K = 37, BAD_ROW = 1, BAD_COLUMN = 25 };
    float x[40 * K], w[N * K], clean[40 * N], y[40 * N];
    const int64_t xs[] = {rows, K}, ws[] = {N, K}, ys[] = {rows, N};
    for (int i = 0; i < rows * K; i++)
        x[i] = (float)(i % 11) * 0.125F - 0.5F;
    for (int i = 0; i < N * K; i++)
        w[i] = (float)(i % 7) * 0.25F - 0.6F;
    clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, xs),
                               .w = clattn_tensor_host(w, CLATTN_F32, 2, ws),
                               .y = clattn_tensor_host(clean, CLATTN_F32, 2, ys),
                               .activation = activation,
                               .algorithm = algorithm};
    SUCCEEDS(clattn_linear(context, &args));
    x[BAD_ROW * K + K - 1] = NAN;
    w[BAD_COLUMN * K + 3] = INFINITY;
    args.y.host = y;
    SUCCEEDS(clattn_linear(context, &args));
    for (int i = 0; i < rows * N; i++) {
        const int row = i / N, column = i % N;
        if (row == BAD_ROW)
            cr_expect(isnan(y[i]), "%s: row %d column %d: %g", algorithm, row, column, (double)y[i]);
        else if (column == BAD_COLUMN)
            cr_expect(!isfinite(y[i]) || (y[i] == 0 && activation == CLATTN_ACTIVATION_RELU), "%s: row %d: %g",
                      algorithm, row, (double)y[i]);
        else
            cr_expect_eq(memcmp(&y[i], &clean[i], sizeof y[i]), 0, "%s: row %d column %d: %g, was %g", algorithm, row,
                         column, (double)y[i], (double)clean[i]);
    }
}

Test(linear_calls, nan_and_infinity_reach_their_row_and_column_alone) {
    clattn_context *context = open_device("opencl");
    static const char *const names[] = {"gemv", "linear", "clblast"};
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 5; a++) {
            check_poison(context, names[i], 3, (clattn_activation)a);
            check_poison(context, names[i], 40, (clattn_activation)a);
        }
    clattn_context_destroy(context);
}

/* The activation of a column of numbers, as f32 kernels compute it: w is 1. */
static void activate(clattn_context *context, const char *algorithm, clattn_activation activation, const float *x,
                     float *y, int64_t n) {
    const float one = 1;
    const int64_t shape[] = {n, 1}, ws[] = {1, 1};
    const clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                     .w = clattn_tensor_host(&one, CLATTN_F32, 2, ws),
                                     .y = clattn_tensor_host(y, CLATTN_F32, 2, shape),
                                     .activation = activation,
                                     .algorithm = algorithm};
    SUCCEEDS(clattn_linear(context, &args));
}

Test(linear_calls, activations_over_the_whole_line) {
    enum { COUNT = 4096 };
    static const char *const names[] = {"gemv", "linear", "clblast"};
    static float x[COUNT], y[COUNT];
    clattn_context *context = open_device("opencl");
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)((i % 2 ? 1 : -1) * exp(i * 0.006 - 18)); /* 1.5e-8 to 700 */
    for (int i = 0; i < 3; i++)
        for (int a = 1; a < 5; a++) {
            activate(context, names[i], (clattn_activation)a, x, y, COUNT);
            const linear_case t = {.activation = (clattn_activation)a};
            for (int j = 0; j < COUNT; j++) {
                const double want = (double)exact_activation((clattn_activation)a, (long double)x[j]);
                const double most = allowed(&t, CLATTN_F32, 0, (double)x[j], want);
                cr_assert(fabs((double)y[j] - want) <= most, "%s %s(%.9g) = %.9g, expected %.9g +- %.2g", names[i],
                          clattn_activation_name((clattn_activation)a), (double)x[j], (double)y[j], want, most);
            }
        }
    clattn_context_destroy(context);
}

/* A row's bits do not depend on the others, nor a column's. */
Test(linear_calls, bits_of_an_element_depend_on_its_row_and_column_alone) {
    enum { M = 70, N = 75, K = 83 };
    static float x[M * K], w[N * K], all[M * N], part[M * N], again[M * N];
    clattn_context *context = open_device("opencl");
    oracle_random random = {3};
    for (int i = 0; i < M * K; i++)
        x[i] = (float)oracle_normal(&random);
    for (int i = 0; i < N * K; i++)
        w[i] = (float)oracle_normal(&random);
    const int64_t xs[] = {M, K}, ws[] = {N, K}, ys[] = {M, N};
    static const char *const names[] = {"gemv", "linear"};
    for (int i = 0; i < 2; i++) {
        clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, xs),
                                   .w = clattn_tensor_host(w, CLATTN_F32, 2, ws),
                                   .y = clattn_tensor_host(all, CLATTN_F32, 2, ys),
                                   .activation = CLATTN_ACTIVATION_GELU,
                                   .algorithm = names[i]};
        SUCCEEDS(clattn_linear(context, &args));
        args.y.host = again;
        SUCCEEDS(clattn_linear(context, &args));
        cr_expect_eq(memcmp(all, again, sizeof all), 0, "%s: other bits in another run", names[i]);
        for (int rows = 1; rows < 24; rows += 3) { /* from a row in the middle, and columns of its own */
            clattn_linear_args some = args;
            some.x = clattn_tensor_slice(args.x, 0, 11, rows);
            some.w = clattn_tensor_slice(args.w, 0, 5, N - 5 - rows);
            some.y = clattn_tensor_host(part, CLATTN_F32, 2, (const int64_t[]){rows, N - 5 - rows});
            SUCCEEDS(clattn_linear(context, &some));
            for (int r = 0; r < rows; r++)
                cr_expect_eq(
                    memcmp(part + r * (N - 5 - rows), all + (11 + r) * N + 5, (size_t)(N - 5 - rows) * sizeof *part), 0,
                    "%s: row %d of %d", names[i], r, rows);
        }
    }
    clattn_context_destroy(context);
}

/* ---- buffers, ranks, choice, errors ---- */

typedef struct {
    clattn_context *context;
    clattn_buffer *buffers[3];
    clattn_linear_args args;
    float x[4 * 6], w[5 * 6], y[4 * 5];
} small;

static void open_small(small *s, const char *device) {
    const int64_t xs[] = {4, 6}, ws[] = {5, 6}, ys[] = {4, 5};
    void *const data[] = {s->x, s->w, s->y};
    const size_t bytes[] = {sizeof s->x, sizeof s->w, sizeof s->y};
    s->context = open_device(device);
    for (int i = 0; i < 24; i++)
        s->x[i] = (float)i;
    for (int i = 0; i < 30; i++)
        s->w[i] = (float)(i % 4);
    for (int i = 0; i < 3; i++) {
        SUCCEEDS(clattn_buffer_create(s->context, bytes[i], &s->buffers[i]));
        SUCCEEDS(clattn_buffer_upload(s->buffers[i], 0, data[i], bytes[i]));
    }
    s->args = (clattn_linear_args){.x = clattn_tensor_buffer(s->buffers[0], CLATTN_F32, 2, xs),
                                   .w = clattn_tensor_buffer(s->buffers[1], CLATTN_F32, 2, ws),
                                   .y = clattn_tensor_buffer(s->buffers[2], CLATTN_F32, 2, ys)};
}

static void close_small(small *s) {
    for (int i = 0; i < 3; i++)
        clattn_buffer_destroy(s->buffers[i]);
    clattn_context_destroy(s->context);
}

static void check_small(small *s) {
    float y[20];
    SUCCEEDS(clattn_linear(s->context, &s->args));
    SUCCEEDS(clattn_buffer_download(s->buffers[2], 0, y, sizeof y));
    for (int i = 0; i < 20; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++)
            sum += s->x[i / 5 * 6 + k] * s->w[i % 5 * 6 + k];
        cr_expect_eq(y[i], sum, "%d: %g, expected %g", i, (double)y[i], (double)sum);
    }
}

Test(linear_calls, buffers_on_every_device_and_algorithm) {
    static const char *const devices[] = {"opencl", "cpu"};
    for (int d = 0; d < 2; d++) {
        small s;
        open_small(&s, devices[d]);
        check_small(&s);
        for (size_t i = 0; clattn_linear_algorithm(i); i++) {
            bool yes;
            const char *reason;
            SUCCEEDS(clattn_linear_applies(s.context, &s.args, i, &yes, &reason));
            s.args.algorithm = clattn_linear_algorithm(i);
            if (yes)
                check_small(&s);
            else
                FAILS(clattn_linear(s.context, &s.args), CLATTN_E_UNSUPPORTED, reason);
            s.args.algorithm = NULL;
        }
        close_small(&s);
    }
}

Test(linear_calls, a_row_of_rank_one) {
    clattn_context *context = open_device("cpu");
    const float x[] = {1, 2}, w[] = {3, 4, 5, 6, 7, 8}, b[] = {1, 0, -50};
    float y[3];
    const clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 1, (const int64_t[]){2}),
                                     .w = clattn_tensor_host(w, CLATTN_F32, 2, (const int64_t[]){3, 2}),
                                     .bias = clattn_tensor_host(b, CLATTN_F32, 1, (const int64_t[]){3}),
                                     .y = clattn_tensor_host(y, CLATTN_F32, 1, (const int64_t[]){3}),
                                     .activation = CLATTN_ACTIVATION_RELU};
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect(y[0] == 12 && y[1] == 17 && y[2] == 0, "%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
    clattn_context_destroy(context);
}

static size_t runs_of(clattn_context *context, const char *kernel) {
    clattn_profile_entry entries[8];
    size_t count = 0, runs = 0;
    SUCCEEDS(clattn_context_profile(context, entries, 8, &count));
    for (size_t i = 0; i < count && i < 8; i++)
        if (strcmp(entries[i].name, kernel) == 0)
            runs = entries[i].count;
    clattn_context_profile_reset(context);
    return runs;
}

Test(linear_calls, cpus_take_our_kernels_and_few_rows_gemv) {
    static float x[40 * 8], w[8 * 8], y[40 * 8];
    clattn_context *context = NULL;
    clattn_device_info info;
    if (clattn_context_create("opencl", &(clattn_context_options){.profile = true}, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    SUCCEEDS(clattn_context_info(context, &info));
    const bool own = info.device_class == CLATTN_DEVICE_CPU;
    clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, (const int64_t[]){40, 8}),
                               .w = clattn_tensor_host(w, CLATTN_F32, 2, (const int64_t[]){8, 8}),
                               .y = clattn_tensor_host(y, CLATTN_F32, 2, (const int64_t[]){40, 8})};
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "linear" : "clblast_gemm"), 1);
    args.x.shape[0] = args.y.shape[0] = 8;
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "gemv" : "clblast_gemm"), 1);
    args.w.stride[0] = 1, args.w.stride[1] = 8;
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "linear" : "clblast_gemm"), 1);
    clattn_context_destroy(context);
}

Test(linear_calls, errors_name_tensors_and_numbers) {
    small s;
    float b[5] = {0};
    open_small(&s, "cpu");
    const clattn_linear_args good = s.args;
    clattn_linear_args a = good;
    FAILS(clattn_linear(NULL, &a), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_linear(s.context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    a.w = (clattn_tensor){0};
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "w: is missing");
    a = good, a.w.shape[1] = 5;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "x [4, 6]: its last axis should be 5, as w [5, 5] has it");
    a = good, a.y.shape[1] = 6;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y: reaches to byte");
    a = good, a.y.shape[1] = 4;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y [4, 4]: should be x [4, 6] with a last axis of 5");
    a = good, a.y.shape[0] = 3;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y [3, 5]: should be x [4, 6]");
    a = good, a.w.rank = 3, a.w.shape[2] = 1, a.w.stride[2] = 1;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "w [5, 6, 1]: should be [N, K]");
    a = good, a.gated = true;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "w [5, 6]: gated, it has rows of the gate");
    a.w.shape[0] = 4;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y [4, 5]: should be x [4, 6] with a last axis of 2");
    a = good, a.x.dtype = CLATTN_I32;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_DTYPE, "x: is i32");
    a = good, a.bias = clattn_tensor_host(b, CLATTN_F32, 1, (const int64_t[]){4});
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "bias [4]: should be [5]");
    a.bias = clattn_tensor_host(b, CLATTN_F32, 2, (const int64_t[]){1, 5});
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "bias [1, 5]: should be [5]");
    a = good, a.y.stride[0] = 0;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y: its strides make elements share a place");
    a = good, a.y.buffer = a.x.buffer;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with x");
    a = good, a.y.buffer = a.w.buffer;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with w");
    a = good, a.bias = a.y, a.bias.rank = 1, a.bias.shape[0] = 5, a.bias.stride[0] = 1;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with bias");
    a = good, a.activation = (clattn_activation)9;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "9 is no activation");
    a = good, a.algorithm = "gemm";
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT,
          "algorithm \"gemm\": there are gemv, linear, clblast, blas, reference");
    a = good, a.algorithm = "linear";
    FAILS(clattn_linear(s.context, &a), CLATTN_E_UNSUPPORTED, "algorithm linear: runs on OpenCL devices");
    bool yes;
    FAILS(clattn_linear_applies(s.context, &good, 99, &yes, NULL), CLATTN_E_ARGUMENT, "not so many");
    FAILS(clattn_linear_applies(s.context, &good, 0, NULL, NULL), CLATTN_E_ARGUMENT, "applies is NULL");
    cr_expect_str_eq(clattn_activation_name(CLATTN_ACTIVATION_GELU_TANH), "gelu_tanh");
    cr_expect_str_eq(clattn_activation_name((clattn_activation)-1), "?");
    close_small(&s);
}
