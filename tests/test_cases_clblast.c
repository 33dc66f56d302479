/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures, group F: CLBlast, through its only caller, ops/gemm.c. The linker's --wrap puts functions of this
 * file in the place of CLBlast's: they look at the arguments, fail on demand, and else call the real ones. */
#define _XOPEN_SOURCE 700
#include "mixed.h"
#include "ops/gemm.h"
#include <cblas.h>
#include <clattn/opencl.h>
#include <clblast_c.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- in the place of CLBlast's functions ---- */

static struct {
    int calls, other_factors; /* other: alpha is not 1, or beta not 0 */
    int fail_at;              /* the number of the call that fails, from 1; 0: none */
    int fail_with;
    int override_with; /* what setting parameters gives; 0: the real call */
} seen;

static bool fails(double alpha, double beta) {
    seen.calls++;
    seen.other_factors += alpha != 1 || beta != 0;
    return seen.calls == seen.fail_at;
}

#define PARAMETERS(type)                                                                                               \
    CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k, type alpha,          \
        cl_mem a, size_t a0, size_t lda, size_t step_a, cl_mem b, size_t b0, size_t ldb, size_t step_b, type beta,     \
        cl_mem c, size_t c0, size_t ldc, size_t step_c, size_t count, cl_command_queue *queue, cl_event *event
#define ARGUMENTS                                                                                                      \
    layout, ta, tb, m, n, k, alpha, a, a0, lda, step_a, b, b0, ldb, step_b, beta, c, c0, ldc, step_c, count, queue,    \
        event

CLBlastStatusCode __real_CLBlastSgemmStridedBatched(PARAMETERS(float));
CLBlastStatusCode __wrap_CLBlastSgemmStridedBatched(PARAMETERS(float));
CLBlastStatusCode __wrap_CLBlastSgemmStridedBatched(PARAMETERS(float)) {
    if (fails((double)alpha, (double)beta))
        return (CLBlastStatusCode)seen.fail_with;
    return __real_CLBlastSgemmStridedBatched(ARGUMENTS);
}

CLBlastStatusCode __real_CLBlastDgemmStridedBatched(PARAMETERS(double));
CLBlastStatusCode __wrap_CLBlastDgemmStridedBatched(PARAMETERS(double));
CLBlastStatusCode __wrap_CLBlastDgemmStridedBatched(PARAMETERS(double)) {
    if (fails(alpha, beta))
        return (CLBlastStatusCode)seen.fail_with;
    return __real_CLBlastDgemmStridedBatched(ARGUMENTS);
}

CLBlastStatusCode __real_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values);
CLBlastStatusCode __wrap_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values);
CLBlastStatusCode __wrap_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values) {
    if (seen.override_with)
        return (CLBlastStatusCode)seen.override_with;
    return __real_CLBlastOverrideParameters(device, kernel, precision, count, names, values);
}

/* ---- products ---- */

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

static clattn_buffer *buffer_of(clattn_context *context, const float *x, int64_t count) {
    clattn_buffer *buffer = NULL;
    SUCCEEDS(clattn_buffer_create(context, (size_t)count * sizeof *x, &buffer));
    SUCCEEDS(clattn_buffer_upload(buffer, 0, x, (size_t)count * sizeof *x));
    return buffer;
}

static float *all(int64_t count, float value) {
    float *x = malloc((size_t)count * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = value;
    return x;
}

/* C = A B of ones over a C of NaN. `count` matrices, rows of C `gap` elements longer. */
static void ones(clattn_context *context, int64_t m, int64_t n, int64_t k, int64_t count, int64_t gap) {
    const int64_t a_count = count * m * k, b_count = count * k * n, ld = n + gap, c_count = count * m * ld + gap;
    float *a = all(a_count + 1, 1), *b = all(b_count + 1, 1), *c = all(c_count, NAN);
    clattn_buffer *x = buffer_of(context, a, a_count + 1), *y = buffer_of(context, b, b_count + 1),
                  *z = buffer_of(context, c, c_count);
    const cla_gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .a = {x, 0, k, false},
                        .b = {y, 0, n, false},
                        .c = {z, gap, ld, false},
                        .axes = {{count, m * k, k * n, m * ld}}};
    SUCCEEDS(cla_gemm_batched(context, &g));
    SUCCEEDS(clattn_buffer_download(z, 0, c, (size_t)c_count * sizeof *c));
    int64_t wrong = 0;
    for (int64_t i = 0; i < c_count; i++) {
        const bool inside = i >= gap && (i - gap) % ld < n;
        wrong += inside ? c[i] != (float)k : !isnan(c[i]);
    }
    cr_expect_eq(wrong, 0, "m %d, n %d, k %d, %d matrices: %d elements are wrong", (int)m, (int)n, (int)k, (int)count,
                 (int)wrong);
    clattn_buffer_destroy(x);
    clattn_buffer_destroy(y);
    clattn_buffer_destroy(z);
    free(a);
    free(b);
    free(c);
}

Test(cases, F01_nan_in_c_does_not_reach_the_product) {
    static const int64_t sizes[][3] = {{3, 3, 3}, {64, 64, 64}, {130, 70, 50}, {600, 600, 600}};
    clattn_context *context = open_device();
    for (int n = 0; n < 4; n++) {
        const int64_t *s = sizes[n];
        ones(context, s[0], s[1], s[2], 1, 0);
        ones(context, s[0], s[1], s[2], n < 3 ? 3 : 2, 0);
        ones(context, s[0], s[1], s[2], n < 3 ? 3 : 2, 5);
    }
    cr_expect_gt(seen.calls, 0);
    cr_expect_eq(seen.other_factors, 0);
    clattn_context_destroy(context);
}

/* CLBlast reads A when alpha is 0. The scale is never alpha: a scale of 0 is a mean, and calls CLBlast with 1. */
Test(cases, F02_a_scale_of_zero_is_no_alpha_of_zero) {
    clattn_context *context = open_device();
    mixed m = mixed_typed(CLATTN_F32);
    m.H = 2, m.N = 6, m.M = 9, m.D = 5;
    m.args.has_scale = true;
    m.args.scale = 0;
    mixed_fill(&m, 2);
    SUCCEEDS(mixed_run(&m, context, "materialised"));
    for (int i = 0; i < 2 * 6 * 5; i++) {
        double mean = 0;
        for (int j = 0; j < 9; j++)
            mean += m.v[(i / 30 * 9 + j) * 5 + i % 5] / 9;
        cr_expect_float_eq(m.o[i], mean, 1e-6, "%d: %g, not %g", i, m.o[i], mean);
    }
    cr_expect_geq(seen.calls, 2);
    cr_expect_eq(seen.other_factors, 0);
    mixed_free(&m);
    clattn_context_destroy(context);
}

/* No matrices are B = 0 of a call, C11. */
Test(cases, F03_sizes_of_zero_never_reach_clblast) {
    clattn_context *context = open_device();
    ones(context, 0, 5, 4, 1, 0);
    ones(context, 5, 0, 4, 1, 3);
    ones(context, 5, 7, 0, 1, 0);
    ones(context, 5, 7, 0, 3, 2);
    cr_expect_eq(seen.calls, 0);
    ones(context, 5, 7, 1, 3, 2);
    cr_expect_eq(seen.calls, 1);
    clattn_context_destroy(context);
}

/* A factor of each matrix goes into A, since there is no alpha and beta of each. What describes the product may be
 * overwritten at once. */
Test(cases, F05_each_matrix_of_a_batch_has_its_own_factor) {
    static const float factors[] = {1, 2, 0, 1}, expected[] = {3, 6, 0, 3};
    clattn_context *context = open_device();
    float *a = all(4 * 15, 1), *b = all(21, 1), *c = all(4 * 35, NAN);
    for (int i = 0; i < 60; i++)
        a[i] = factors[i / 15];
    clattn_buffer *x = buffer_of(context, a, 60), *y = buffer_of(context, b, 21), *z = buffer_of(context, c, 140);
    cla_gemm g = {.m = 5,
                  .n = 7,
                  .k = 3,
                  .a = {x, 0, 3, false},
                  .b = {y, 0, 7, false},
                  .c = {z, 105, 7, false},
                  .axes = {{4, 15, 0, 35}}};
    g.c.offset = 0;
    SUCCEEDS(cla_gemm_batched(context, &g));
    memset(&g, 0xff, sizeof g);
    SUCCEEDS(clattn_buffer_download(z, 0, c, 140 * sizeof *c));
    for (int i = 0; i < 140; i++)
        cr_expect_eq(c[i], expected[i / 35], "%d: %g", i, c[i]);
    clattn_buffer_destroy(x);
    clattn_buffer_destroy(y);
    clattn_buffer_destroy(z);
    free(a);
    free(b);
    free(c);
    clattn_context_destroy(context);
}

/* ---- F06: sizes around which tuned kernels have been wrong ---- */

Test(cases, F06_large_squares_agree_with_a_blas) {
    static const int sizes[] = {255, 256, 257, 1125, 1140, 1148, 1150, 1151, 1152, 1156, 1187, 1250};
    enum { MOST = 1250 * 1250 };
    clattn_context *context = open_device();
    float *x = malloc(MOST * sizeof *x), *y = malloc(MOST * sizeof *y), *z = malloc(MOST * sizeof *z),
          *want = malloc(MOST * sizeof *want);
    oracle_random random = {6};
    for (int i = 0; i < MOST; i++) {
        x[i] = (float)oracle_uniform(&random) - 0.5F;
        y[i] = (float)oracle_uniform(&random) - 0.5F;
    }
    clattn_buffer *a = buffer_of(context, x, MOST), *b = buffer_of(context, y, MOST), *c = buffer_of(context, z, MOST);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int n = sizes[s];
        const cla_gemm g = {
            .m = n, .n = n, .k = n, .a = {a, 0, n, false}, .b = {b, 0, n, false}, .c = {c, 0, n, false}};
        SUCCEEDS(cla_gemm_batched(context, &g));
        SUCCEEDS(clattn_buffer_download(c, 0, z, (size_t)(n * n) * sizeof *z));
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, n, n, 1, x, n, y, n, 0, want, n);
        double worst = 0;
        for (int i = 0; i < n * n; i++) {
            const double error = fabs((double)z[i] - (double)want[i]);
            worst = error <= worst ? worst : error; /* NaN too */
        }
        cr_expect(worst <= 1e-5 * n, "size %d: off by %g", n, worst);
    }
    clattn_buffer_destroy(a);
    clattn_buffer_destroy(b);
    clattn_buffer_destroy(c);
    free(x);
    free(y);
    free(z);
    free(want);
    clattn_context_destroy(context);
}

/* ---- F07: several threads make the first call ---- */

enum { THREADS = 4, M = 33, N = 65, K = 40 };

typedef enum { ONE_CONTEXT, QUEUES, CONTEXTS } sharing;

typedef struct {
    sharing way;
    pthread_barrier_t *start;
    clattn_context *context; /* with ONE_CONTEXT */
    cl_context cl;           /* with QUEUES: of all threads */
    cl_device_id device;
    bool right;
} worker;

static clattn_context *context_of(worker *w) {
    clattn_context *context = w->context;
    cl_int code = CL_SUCCESS;
    if (w->way == QUEUES) {
        cl_command_queue queue = clCreateCommandQueue(w->cl, w->device, 0, &code);
        if (code != CL_SUCCESS || clattn_context_from_opencl(w->cl, queue, NULL, &context) != CLATTN_OK)
            return NULL;
        clReleaseCommandQueue(queue);
    }
    if (w->way == CONTEXTS && clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        return NULL;
    return context;
}

static void *work(void *argument) {
    worker *w = argument;
    float a[M * K], b[K * N], c[M * N];
    clattn_buffer *x = NULL, *y = NULL, *z = NULL;
    pthread_barrier_wait(w->start);
    clattn_context *context = context_of(w);
    if (!context || clattn_buffer_create(context, sizeof a, &x) || clattn_buffer_create(context, sizeof b, &y) ||
        clattn_buffer_create(context, sizeof c, &z))
        return NULL;
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i / K);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % N);
    const cla_gemm g = {.m = M, .n = N, .k = K, .a = {x, 0, K, false}, .b = {y, 0, N, false}, .c = {z, 0, N, false}};
    if (clattn_buffer_upload(x, 0, a, sizeof a) || clattn_buffer_upload(y, 0, b, sizeof b) ||
        cla_gemm_batched(context, &g) || clattn_buffer_download(z, 0, c, sizeof c))
        return NULL;
    w->right = true;
    for (int i = 0; i < M * N; i++)
        w->right = w->right && c[i] == (float)(K * (i / N) * (i % N));
    clattn_buffer_destroy(x);
    clattn_buffer_destroy(y);
    clattn_buffer_destroy(z);
    if (w->way != ONE_CONTEXT)
        clattn_context_destroy(context);
    return NULL;
}

/* In a process of its own, whose caches are cold: 0 when all threads are right. */
static int race(sharing way) {
    worker workers[THREADS];
    pthread_t threads[THREADS];
    pthread_barrier_t start;
    cl_context cl = NULL;
    cl_platform_id platform;
    cl_device_id device = NULL;
    clattn_context *context = NULL;
    int wrong = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    if (way == ONE_CONTEXT && clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        return 2;
    if (way == QUEUES) {
        clGetPlatformIDs(1, &platform, NULL);
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL);
        cl = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.way = way, .start = &start, .context = context, .cl = cl, .device = device};
        pthread_create(&threads[i], NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        wrong |= !workers[i].right;
    }
    return wrong;
}

Test(cases, F07_four_threads_may_make_the_first_call) {
    clattn_device_info devices[2];
    size_t count = 0;
    for (int n = 0; n < 12; n++) {
        const pid_t child = fork();
        if (child == 0) {
            alarm(120); /* a deadlock ends too */
            _exit(race((sharing)(n % 3)));
        }
        int status = -1;
        waitpid(child, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2)
            cr_skip_test("no OpenCL device");
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "process %d, way %d: status %d", n, n % 3, status);
    }
    SUCCEEDS(clattn_devices(devices, 2, &count)); /* only now: the processes begin without a driver */
}

/* ---- F10: a failure in CLBlast ---- */

static const struct {
    int code;
    clattn_status status;
    const char *text;
} failures[] = {
    {-54, CLATTN_E_OPENCL, "OpenCL -54 (CL_INVALID_WORK_GROUP_SIZE)"},
    {-57, CLATTN_E_OPENCL, "OpenCL -57 (CL_INVALID_EVENT_WAIT_LIST)"},
    {-5, CLATTN_E_MEMORY, "OpenCL -5 (CL_OUT_OF_RESOURCES)"},
    {-4, CLATTN_E_MEMORY, "OpenCL -4 (CL_MEM_OBJECT_ALLOCATION_FAILURE)"},
    {-2039, CLATTN_E_CLBLAST, "CLBlast -2039 (CLBlastUnexpectedError)"},
    {-2045, CLATTN_E_CLBLAST, "CLBlast -2045 (CLBlastNoHalfPrecision)"},
    {-1017, CLATTN_E_CLBLAST, "CLBlast -1017 (CLBlastInvalidDimension)"},
    {-2041, CLATTN_E_CLBLAST, "CLBlast -2041 (CLBlastDatabaseError)"},
};
enum { FAILURES = sizeof failures / sizeof *failures };

/* Each call of each of them, in f32 and f64; then the same call without a failure. */
Test(cases, F10_a_failing_product_is_a_named_error) {
    clattn_context *context = open_device();
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(context, &info));
    for (int wide = 0; wide <= info.has_f64; wide++) {
        mixed m = mixed_typed(wide ? CLATTN_F64 : CLATTN_F32);
        m.H = 2, m.N = 5, m.M = 11, m.D = 4;
        mixed_fill(&m, 10);
        double good[2 * 5 * 4];
        seen.calls = seen.fail_at = 0;
        SUCCEEDS(mixed_run(&m, context, "materialised"));
        const int calls = seen.calls;
        cr_expect_eq(calls, 2);
        memcpy(good, m.o, sizeof good);
        for (int n = 0; n < FAILURES; n++)
            for (int at = 1; at <= calls; at++) {
                seen.calls = 0, seen.fail_at = at, seen.fail_with = failures[n].code;
                FAILS(mixed_run(&m, context, "materialised"), failures[n].status, failures[n].text);
                seen.fail_at = 0;
                SUCCEEDS(mixed_run(&m, context, "materialised"));
                cr_expect_arr_eq(m.o, good, sizeof good);
            }
        mixed_free(&m);
    }
    clattn_context_destroy(context);
}

Test(cases, F10_parameters_that_cannot_be_set_are_a_named_error_and_set_again) {
    clattn_context *context = open_device();
    mixed m = mixed_typed(CLATTN_F32);
    m.N = 5, m.M = 11, m.D = 4;
    mixed_fill(&m, 11);
    seen.override_with = CLBlastInvalidOverrideKernel;
    for (int n = 0; n < 2; n++)
        FAILS(mixed_run(&m, context, "materialised"), CLATTN_E_CLBLAST, "CLBlast -2048 (CLBlastInvalidOverrideKernel)");
    cr_expect_eq(seen.calls, 0);
    seen.override_with = 0;
    SUCCEEDS(mixed_run(&m, context, "materialised"));
    mixed_free(&m);
    clattn_context_destroy(context);
}
