/* SPDX-License-Identifier: Apache-2.0 */
/* Tiny problems for Oclgrind, which interprets kernels and tells races and reads of uninitialised memory: every OpenCL
 * algorithm, type and class of masks, in few keys, since builds take most of the time.
 *   oclgrind --data-races --log FILE oclgrind_run [ops | random | more [ALGORITHM...] | ALGORITHM...]
 * FILE must stay empty; exit status 1 on wrong results. No test framework, which would fork. Random numbers are a run
 * of their own: Oclgrind 21.10, looking for uninitialised memory, crashes on their kernel.
 *   oclgrind oclgrind_run list [keys]
 * builds and runs no kernel: exit status 1 where a kernel of the library is in none of these problems. */
#include "oclgrind_ops.h"
#include "oracle.h"
#include "runtime/state.h"
#include <clattn/measure.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    int passed, failed;
    FILE *reports; /* of Oclgrind, gathered */
} tally;

static void count(tally *t, bool right, const char *text) {
    if (right || list_is_on())
        t->passed++;
    else
        t->failed++;
    if (!right)
        printf("FAILED %s\n", text);
}

/* Layouts in multiples of 4 and others, tiles that are full, cut and more than one, rows that see nothing. */
static const oracle_config problems[] = {
    /* no mask */
    {.N = 5, .M = 7, .D = 8, .guard = 16, .buffers = true, .lse = true, .weights = true},
    {.H = 2, .N = 67, .M = 9, .D = 13, .Dv = 1, .guard = 3, .layout = ORACLE_PADDED, .lse = true},
    {.N = 3, .M = 33, .D = 68, .Dv = 68, .guard = 16, .buffers = true},
    /* intervals */
    {.B = 2, .H = 4, .Hk = 2, .N = 9, .M = 33, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
    {.N = 33, .D = 8, .has_window = true, .window_left = 3, .window_right = 1, .layout = ORACLE_BSHD, .weights = true},
    {.B = 3, .H = 2, .N = 4, .M = 8, .D = 8, .lengths = true, .layout = ORACLE_PACKED, .lse = true},
    /* tensors */
    {.H = 2, .N = 8, .M = 12, .D = 8, .keep = {4, 15}, .guard = 16, .buffers = true, .lse = true, .weights = true},
    {.B = 2, .N = 6, .M = 10, .D = 8, .drop = {3, 5}, .layout = ORACLE_SHARED},
    {.H = 2, .N = 7, .M = 20, .D = 8, .bias = {2, 3}, .lse = true, .dropout = 0.3},
    /* pairs, and copies to a last stride of 1 */
    {.N = 8, .D = 8, .causal = true, .bias = {2, 3}, .guard = 16, .lse = true},
    {.B = 2,
     .H = 2,
     .Hk = 1,
     .N = 6,
     .M = 9,
     .D = 5,
     .lengths = true,
     .keep = {2, 1},
     .lse = true,
     .weights = true,
     .layout = ORACLE_TRANSPOSED},
    {.N = 5,
     .M = 33,
     .D = 1,
     .Dv = 40,
     .has_window = true,
     .window_left = 8,
     .window_right = CLATTN_UNLIMITED,
     .align = CLATTN_ALIGN_OFFSET,
     .drop = {2, 3},
     .bias = {4, 9}},
};

/* NaN in V at a key that a mask hides from some queries: the kernels' other way through the values. */
static const oracle_config poisoned[] = {
    {.N = 6, .D = 8, .guard = 16, .causal = true, .lse = true},
    {.N = 6, .M = 8, .D = 8, .guard = 16, .buffers = true, .drop = {2, 3}},
};

/* Every context empties Oclgrind's log. So what a context has left there is read when it is gone, and written back at
 * the end. */
static const char *log_path(void) { return getenv("OCLGRIND_LOG"); }

static void take_log(tally *t) {
    char line[400];
    bool empty = true;
    FILE *f = log_path() ? fopen(log_path(), "r") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        empty = empty && *line == '\n';
        fputs(line, t->reports);
    }
    if (f)
        fclose(f);
    if (!empty)
        count(t, false, "Oclgrind reports something on the last problem");
}

static void write_log(const tally *t) {
    char line[400];
    FILE *f = log_path() ? fopen(log_path(), "w") : NULL;
    rewind(t->reports);
    while (f && fgets(line, sizeof line, t->reports))
        fputs(line, f);
    if (f)
        fclose(f);
}

/* In a context of its own: what Oclgrind knows of a buffer's bytes it takes for those of the next one in that place. */
static void check(oracle_case *c, const char *algorithm, tally *t) {
    char text[ORACLE_TEXT] = "no context";
    oracle_runner runner = {.algorithm = algorithm};
    bool right = false;
    if (clattn_context_create("opencl", NULL, &runner.context) == CLATTN_OK) {
        right = oracle_check(c, runner.context, runner.algorithm, text);
    }
    count(t, right, text);
    clattn_context_destroy(runner.context);
    take_log(t);
}

static void check_all(const char *algorithm, clattn_dtype dtype, const oracle_config *configs, size_t n, bool poison,
                      tally *t) {
    for (size_t i = 0; i < n; i++) {
        oracle_config config = configs[i];
        config.dtype = dtype;
        config.seed = i;
        oracle_case *c = oracle_make(&config);
        if (poison)
            c->v[c->config.M / 2 * c->config.Dv] = NAN;
        check(c, algorithm, t);
        oracle_free(c);
    }
}

/* Gradients: of everything, in several chunks; of sequences, by a seed that gives none without keys, whose zeros in
 * `materialised` are clEnqueueFillBuffer's (see check_read); in buffers, since Oclgrind takes host arrays that are
 * used in place for uninitialised. In the last one NaN in Q, K and dO, whose results nobody judges. */
static const oracle_config backward_problems[] = {
    {.B = 2,
     .H = 4,
     .Hk = 2,
     .N = 9,
     .M = 7,
     .D = 5,
     .Dv = 6,
     .causal = true,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .keep = {2, 3},
     .bias = {2, 3},
     .sinks = true,
     .softcap = 3,
     .dropout = 0.3},
    {.B = 2,
     .H = 2,
     .N = 5,
     .M = 9,
     .D = 8,
     .seed = 4,
     .sequences = true,
     .alibi = true,
     .align = CLATTN_ALIGN_TOP_LEFT},
    {.H = 2, .Hk = 1, .N = 6, .M = 40, .D = 8, .bias = {4, 6}, .sinks = true},
};

static void check_gradients(const oracle_config *config, const char *algorithm, bool poison, tally *t) {
    char text[ORACLE_TEXT] = "no context";
    clattn_context *context = NULL;
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    bool right = poison || oracle_backward_exact(g, text);
    if (poison)
        c->q[3] = c->k[config->D + 1] = g->d_o[2] = NAN;
    right = right && clattn_context_create("opencl", NULL, &context) == CLATTN_OK &&
            oracle_backward_run(g, context, algorithm, algorithm, text) &&
            (poison || oracle_backward_compare(g, algorithm, text));
    count(t, right, text);
    clattn_context_destroy(context);
    take_log(t);
    oracle_backward_free(g);
    oracle_free(c);
}

static bool asked_for(const char *name, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return argc < 2;
}

/* Problems for single algorithms: all, or those of the algorithms that are named. */
static void check_more(int argc, char **argv, bool unwritten, tally *t) {
    for (size_t i = 0; more_at(i); i++) {
        const more_problem *p = more_at(i);
        if (p->unwritten != unwritten || !asked_for(p->algorithm, argc, argv))
            continue;
        if (p->backward) {
            check_gradients(&p->config, p->algorithm, false, t);
            continue;
        }
        oracle_case *c = oracle_make(&p->config);
        check(c, p->algorithm, t);
        oracle_free(c);
    }
}

static void check_backward(const char *algorithm, clattn_dtype dtype, tally *t) {
    const size_t all = sizeof backward_problems / sizeof *backward_problems;
    for (size_t i = 0; i < all; i++) {
        oracle_config config = backward_problems[i];
        config.dtype = dtype;
        config.buffers = true;
        check_gradients(&config, algorithm, i == all - 1, t);
    }
}

/* No keys: the fill kernel's zeros and minus infinities, and nothing in the gaps of the outputs. */
static void check_fill(clattn_dtype dtype, tally *t) {
    clattn_context *context = NULL;
    enum { N = 5, D = 4, GAP = 3, WIDE = D + GAP };
    const int64_t q[] = {1, 1, N, D}, k[] = {1, 1, 0, D}, lse[] = {1, 1, N};
    double in_data[N * D] = {0}, o_data[N * WIDE], lse_data[N * 2];
    const size_t size = clattn_dtype_size(dtype);
    unsigned char gap[sizeof(double)];
    bool right;
    memset(o_data, 0x55, sizeof o_data);
    memset(lse_data, 0x55, sizeof lse_data);
    memset(gap, 0x55, sizeof gap);
    clattn_attention_args a = {.q = clattn_tensor_host(in_data, dtype, 4, q),
                               .k = clattn_tensor_host(in_data, dtype, 4, k),
                               .v = clattn_tensor_host(in_data, dtype, 4, k),
                               .o = clattn_tensor_host(o_data, dtype, 4, q),
                               .lse = clattn_tensor_host(lse_data, dtype, 3, lse)};
    a.o.stride[2] = WIDE;
    a.lse.stride[2] = 2;
    right = clattn_context_create("opencl", NULL, &context) == CLATTN_OK && clattn_attention(context, &a) == CLATTN_OK;
    clattn_context_destroy(context);
    take_log(t);
    for (int i = 0; i < N; i++) {
        const char *l = (const char *)lse_data + (size_t)(2 * i) * size;
        right = right && (dtype == CLATTN_F64 ? *(const double *)(const void *)l == -INFINITY
                                              : *(const float *)(const void *)l == -INFINITY);
        right = right && (i == N - 1 || memcmp(l + size, gap, size) == 0);
        for (int d = 0; d < (i == N - 1 ? D : WIDE); d++) {
            static const unsigned char zero[sizeof(double)];
            right = right && memcmp((char *)o_data + (size_t)(i * WIDE + d) * size, d < D ? zero : gap, size) == 0;
        }
    }
    count(t, right, dtype == CLATTN_F64 ? "fill in f64" : "fill in f32");
}

/* Masks with fewer columns than keys, and equal scores: the first 4 keys have a weight of 1/4. */
static void check_short(clattn_dtype dtype, tally *t) {
    enum { N = 3, M = 7, D = 4, SEEN = 4 };
    const int64_t q[] = {1, 1, N, D}, k[] = {1, 1, M, D}, w[] = {1, 1, N, M};
    const int64_t keep[] = {1, SEEN}, drop[] = {N, M - 1}, bias[] = {N, SEEN + 1};
    double zeros[M * D] = {0}, o[N * D], weights[N * M];
    unsigned char kept[SEEN] = {1, 1, 1, 1}, dropped[N * (M - 1)] = {0};
    clattn_context *context = NULL;
    const clattn_attention_args a = {.q = clattn_tensor_host(zeros, dtype, 4, q),
                                     .k = clattn_tensor_host(zeros, dtype, 4, k),
                                     .v = clattn_tensor_host(zeros, dtype, 4, k),
                                     .o = clattn_tensor_host(o, dtype, 4, q),
                                     .weights = clattn_tensor_host(weights, dtype, 4, w),
                                     .keep = clattn_tensor_host(kept, CLATTN_BOOL, 2, keep),
                                     .drop = clattn_tensor_host(dropped, CLATTN_U8, 2, drop),
                                     .bias = clattn_tensor_host(zeros, dtype, 2, bias),
                                     .short_masks = true};
    bool right =
        clattn_context_create("opencl", NULL, &context) == CLATTN_OK && clattn_attention(context, &a) == CLATTN_OK;
    clattn_context_destroy(context);
    take_log(t);
    for (int i = 0; i < N * M; i++) {
        const double want = i % M < SEEN ? 1.0 / SEEN : 0;
        right = right && want == (dtype == CLATTN_F64 ? weights[i] : (double)((float *)weights)[i]);
    }
    count(t, right, dtype == CLATTN_F64 ? "short masks in f64" : "short masks in f32");
}

/* The mean of weights over heads, column sums and entropy, by a device and by the reference. */
static bool sums_of(const char *device, const char *algorithm, clattn_dtype dtype, double *o, double *out) {
    enum { H = 2, N = 37, M = 40, D = 5 };
    const int64_t q[] = {1, H, N, D}, k[] = {1, 1, M, D}, mean[] = {1, 1, N, M}, columns[] = {1, H, M};
    const int64_t rows[] = {1, H, N}, list[] = {36, 3, 20};
    const size_t size = clattn_dtype_size(dtype);
    float numbers[H * N * D + M * D];
    double inputs[H * N * D + M * D];
    unsigned char keep[M];
    clattn_context *context = NULL;
    oracle_random random = {5};
    for (int i = 0; i < H * N * D + M * D; i++)
        numbers[i] = (float)oracle_normal(&random);
    for (int j = 0; j < M; j++)
        keep[j] = j % 5 != 2;
    char *x = (char *)inputs, *y = (char *)out;
    clattn_attention_args a = {.q = clattn_tensor_host(x, dtype, 4, q),
                               .k = clattn_tensor_host(x + H * N * D * size, dtype, 4, k),
                               .v = clattn_tensor_host(x + H * N * D * size, dtype, 4, k),
                               .o = clattn_tensor_host(o, dtype, 4, q),
                               .weights = clattn_tensor_host(y, dtype, 4, mean),
                               .column_sums = clattn_tensor_host(y + N * M * size, dtype, 3, columns),
                               .entropy = clattn_tensor_host(y + (N * M + H * M) * size, dtype, 3, rows),
                               .weights_mean = true,
                               .keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, (const int64_t[]){1, M}),
                               .causal = true,
                               .align = CLATTN_ALIGN_TOP_LEFT,
                               .algorithm = algorithm};
    a.weights.shape[2] = a.weights_query_count = 3;
    a.weights_queries = list;
    bool right = clattn_convert(inputs, dtype, numbers, CLATTN_F32, H * N * D + M * D) == CLATTN_OK &&
                 clattn_context_create(device, NULL, &context) == CLATTN_OK &&
                 clattn_attention(context, &a) == CLATTN_OK;
    clattn_context_destroy(context);
    return right;
}

static void check_sums(const char *algorithm, clattn_dtype dtype, tally *t) {
    enum { ALL = 37 * 40 + 2 * 40 + 2 * 37 };
    static double o[2 * 37 * 5], got[ALL], right[ALL];
    char text[ORACLE_TEXT];
    memset(got, 0, sizeof got);
    memset(right, 0, sizeof right);
    bool same = sums_of("opencl", algorithm, dtype, o, got) && sums_of("cpu", "reference", dtype, o, right);
    for (int i = 0; i < ALL; i++)
        same = same && (dtype == CLATTN_F64 ? fabs(got[i] - right[i]) < 1e-12
                                            : fabsf(((float *)got)[i] - ((float *)right)[i]) < 1e-5f);
    snprintf(text, sizeof text, "%s, sums of weights in %s: %s", algorithm, clattn_dtype_name(dtype),
             clattn_last_error());
    count(t, same, text);
    take_log(t);
}

/* Linear layers by one of their algorithms and by the reference; false where it does not apply. */
typedef struct {
    int64_t M, N, K;
    clattn_dtype x, w, y;
    clattn_activation activation;
} layer;
enum { LAYER_MOST = 9 * 64 + 26 * 64 + 26 + 9 * 26 };

/* In a buffer: Oclgrind takes host arrays that are used in place for uninitialised. */
static clattn_status upload(clattn_context *context, clattn_tensor *t, size_t bytes) {
    clattn_status status = clattn_buffer_create(context, bytes, &t->buffer);
    if (status == CLATTN_OK)
        status = clattn_buffer_upload(t->buffer, 0, t->host, bytes);
    t->host = NULL;
    return status;
}

static clattn_status layer_of(const char *device, const char *algorithm, const layer *l, double y[LAYER_MOST],
                              bool *applies) {
    const int64_t xs[] = {l->M, l->K}, ws[] = {l->N, l->K}, ys[] = {l->M, l->N};
    float numbers[LAYER_MOST];
    double x[LAYER_MOST], w[LAYER_MOST];
    clattn_context *context = NULL;
    oracle_random random = {3};
    size_t index = 0;
    for (int i = 0; i < LAYER_MOST; i++)
        numbers[i] = (float)oracle_normal(&random) / 4;
    clattn_linear_args a = {.x = clattn_tensor_host(x, l->x, 2, xs),
                            .w = clattn_tensor_host(w, l->w, 2, ws),
                            .bias = clattn_tensor_host(numbers, CLATTN_F32, 1, &l->N),
                            .y = clattn_tensor_host(y, l->y, 2, ys),
                            .activation = l->activation,
                            .algorithm = algorithm};
    clattn_status status = clattn_convert(x, l->x, numbers, CLATTN_F32, (size_t)(l->M * l->K));
    if (status == CLATTN_OK)
        status = clattn_convert(w, l->w, numbers + 9 * 64, CLATTN_F32, (size_t)(l->N * l->K));
    if (status == CLATTN_OK)
        status = clattn_context_create(device, NULL, &context);
    const bool on_device = strcmp(device, "opencl") == 0;
    clattn_tensor *const tensors[] = {&a.x, &a.w, &a.bias, &a.y};
    const size_t sizes[] = {sizeof x, sizeof w, sizeof numbers, sizeof(double[LAYER_MOST])};
    if (status == CLATTN_OK && on_device) { /* our kernels are for such devices */
        context->info.device_class = CLATTN_DEVICE_CPU;
        context->info.vector_floats = 8;
    }
    for (int i = 0; i < 4 && status == CLATTN_OK && on_device; i++)
        status = upload(context, tensors[i], sizes[i]);
    while (clattn_linear_algorithm(index) && strcmp(clattn_linear_algorithm(index), algorithm) != 0)
        index++;
    if (status == CLATTN_OK)
        status = clattn_linear_applies(context, &a, index, applies, NULL);
    if (status == CLATTN_OK && *applies)
        status = clattn_linear(context, &a);
    if (status == CLATTN_OK && *applies && on_device)
        status = clattn_buffer_download(a.y.buffer, 0, y, sizes[3]);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(tensors[i]->buffer);
    clattn_context_destroy(context);
    return status;
}

static void check_linear(const char *algorithm, clattn_dtype dtype, tally *t) {
    const layer layers[] = {
        {3, 21, 40, dtype, dtype, dtype, CLATTN_ACTIVATION_GELU},
        {9, 26, 37, dtype, dtype, dtype, CLATTN_ACTIVATION_NONE},
        {5, 9, 64, dtype, CLATTN_Q8_0, CLATTN_F32, CLATTN_ACTIVATION_SILU},
        {9, 26, 64, CLATTN_F16, CLATTN_Q4_1, dtype, CLATTN_ACTIVATION_RELU},
        {1, 26, 64, dtype, CLATTN_Q4_0, CLATTN_BF16, CLATTN_ACTIVATION_GELU_TANH},
    };
    /* Builds take the time: once is enough for what comes after CLBlast, and for the same text in f64. */
    const bool once = strcmp(algorithm, "clblast") == 0 || dtype == CLATTN_F64;
    const size_t most = once ? 1 : sizeof layers / sizeof *layers;
    for (size_t i = 0; i < most; i++) {
        const layer *l = &layers[i];
        static double got[LAYER_MOST], right[LAYER_MOST];
        char text[ORACLE_TEXT];
        bool applies = false, yes = false;
        bool same = layer_of("opencl", algorithm, l, got, &applies) == CLATTN_OK;
        take_log(t);
        if (same && !applies)
            continue;
        same = same && layer_of("cpu", "reference", l, right, &yes) == CLATTN_OK && yes;
        const double unit = l->y == CLATTN_BF16 ? 0x1p-7 : l->y == CLATTN_F16 ? 0x1p-10 : 1e-5;
        for (int64_t j = 0; same && j < l->M * l->N; j++) {
            const double want = oracle_decode(l->y, right, j);
            same = fabs(oracle_decode(l->y, got, j) - want) <= unit * (1 + fabs(want));
        }
        snprintf(text, sizeof text, "linear layer %d by %s in %s: %s", (int)i, algorithm, clattn_dtype_name(dtype),
                 clattn_last_error());
        count(t, same, text);
    }
}

static clattn_status random_of(const char *device, float *x, int64_t n) {
    clattn_context *context = NULL;
    clattn_status status = clattn_context_create(device, NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_random(context, &(clattn_random_args){.y = clattn_tensor_host(x, CLATTN_F32, 1, &n),
                                                              .seed = UINT64_C(0x123456789abcdef),
                                                              .stream = UINT64_C(0xfedcba987654321),
                                                              .first = ((uint64_t)1 << 34) - 30});
    clattn_context_destroy(context);
    return status;
}

static void check_random(tally *t) {
    enum { N = 201 };
    float got[N], right[N];
    const bool same = random_of("opencl", got, N) == CLATTN_OK && random_of("cpu", right, N) == CLATTN_OK &&
                      memcmp(got, right, sizeof got) == 0;
    count(t, same, "the bits of random numbers");
    take_log(t);
}

/* Reading of memory that clEnqueueFillBuffer wrote, which Oclgrind takes for uninitialised: with random numbers. */
static void check_read(tally *t) {
    clattn_context *context = NULL;
    clattn_meter *meter = NULL;
    double gbytes = 0;
    const bool right = clattn_context_create("opencl", NULL, &context) == CLATTN_OK &&
                       clattn_meter_create(context, &meter) == CLATTN_OK &&
                       clattn_meter_read(meter, 1 << 14, &gbytes) == CLATTN_OK;
    count(t, right, clattn_last_error());
    clattn_meter_destroy(meter);
    clattn_context_destroy(context);
    take_log(t);
}

/* What measures the device: a sample of multiply-adds. */
static void check_meter(clattn_context *context, tally *t) {
    clattn_meter *meter = NULL;
    double gflops = 0;
    const bool right = clattn_meter_create(context, &meter) == CLATTN_OK &&
                       clattn_meter_fma(meter, &gflops) == CLATTN_OK && gflops > 0;
    count(t, right, clattn_last_error());
    clattn_meter_destroy(meter);
    take_log(t);
}

static void check_type(clattn_context *context, clattn_dtype dtype, int argc, char **argv, tally *t) {
    const oracle_config tiny = {.dtype = dtype, .N = 1, .D = 1};
    oracle_case *c = oracle_make(&tiny);
    for (size_t i = 0; i < clattn_algorithm_count(); i++) {
        const oracle_runner runner = {.context = context, .algorithm = clattn_algorithm_name(i)};
        if (!oracle_applies(c, &runner, NULL) || !asked_for(runner.algorithm, argc, argv))
            continue;
        const int before = t->passed;
        check_all(runner.algorithm, dtype, problems, sizeof problems / sizeof *problems, false, t);
        check_all(runner.algorithm, dtype, poisoned, sizeof poisoned / sizeof *poisoned, true, t);
        check_sums(runner.algorithm, dtype, t);
        printf("%s %s: %d passed\n", runner.algorithm, clattn_dtype_name(dtype), t->passed - before);
        fflush(stdout);
    }
    for (size_t i = 0; i < clattn_backward_algorithm_count(); i++) {
        const char *name = clattn_backward_algorithm_name(i);
        const oracle_runner runner = {.context = context, .algorithm = name};
        oracle_backward *g = oracle_backward_make(c);
        if (oracle_backward_applies(g, &runner, NULL) && asked_for(name, argc, argv))
            check_backward(name, dtype, t);
        oracle_backward_free(g);
    }
    for (size_t i = 0; clattn_linear_algorithm(i); i++)
        if (asked_for(clattn_linear_algorithm(i), argc, argv))
            check_linear(clattn_linear_algorithm(i), dtype, t);
    check_fill(dtype, t);
    check_short(dtype, t);
    oracle_free(c);
}

static void take_op(void *data, bool right, const char *text) {
    tally *t = data;
    count(t, right, text);
    take_log(t);
}

static void list_all(clattn_context *context, bool keys, tally *t) {
    list_begin();
    ops_check(take_op, t);
    check_more(1, NULL, false, t);
    check_more(1, NULL, true, t);
    check_random(t);
    check_read(t);
    for (int f64 = 0; f64 < 2; f64++)
        check_type(context, f64 ? CLATTN_F64 : CLATTN_F32, 1, NULL, t);
    check_meter(context, t);
    t->failed += list_end(keys);
}

int main(int argc, char **argv) {
    clattn_context *context = NULL;
    clattn_device_info info;
    tally t = {.reports = tmpfile()};
    if (!t.reports || clattn_context_create("opencl", NULL, &context) != CLATTN_OK ||
        clattn_context_info(context, &info) != CLATTN_OK) {
        printf("FAILED %s\n0 passed, 1 failed\n", t.reports ? clattn_last_error() : "no temporary file");
        return 1;
    }
    printf("device: %s\n", info.name);
    if (argc > 1 && strcmp(argv[1], "list") == 0) {
        list_all(context, argc > 2, &t);
        goto done;
    }
    if (argc == 2 && strcmp(argv[1], "ops") == 0) {
        ops_check(take_op, &t);
        goto done;
    }
    if (argc == 2 && strcmp(argv[1], "random") == 0) {
        check_random(&t);
        check_read(&t);
        check_more(1, NULL, true, &t);
        goto done;
    }
    if (argc > 1 && strcmp(argv[1], "more") == 0) {
        check_more(argc - 1, argv + 1, false, &t);
        goto done;
    }
    check_type(context, CLATTN_F32, argc, argv, &t);
    check_meter(context, &t);
    if (info.has_f64)
        check_type(context, CLATTN_F64, argc, argv, &t);
done:
    clattn_context_destroy(context);
    write_log(&t);
    fclose(t.reports);
    printf("%d passed, %d failed\n", t.passed, t.failed);
    return t.failed > 0;
}
