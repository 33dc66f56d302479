/* SPDX-License-Identifier: Apache-2.0 */
/* What stands beside the algorithms of attention: rows without keys, short masks, sums of weights, linear layers,
 * random numbers and the meter. */
#include "oclgrind_parts.h"

#include "oracle.h"
#include "runtime/state.h"
#include <clattn/measure.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* No keys: the fill kernel's zeros and minus infinities, and nothing in the gaps of the outputs. */
void parts_fill(clattn_dtype dtype, tally *t) {
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
    tally_take_log(t);
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
    tally_count(t, right, dtype == CLATTN_F64 ? "fill in f64" : "fill in f32");
}

/* Masks with fewer columns than keys, and equal scores: the first 4 keys have a weight of 1/4. */
void parts_short(clattn_dtype dtype, tally *t) {
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
    tally_take_log(t);
    for (int i = 0; i < N * M; i++) {
        const double want = i % M < SEEN ? 1.0 / SEEN : 0;
        right = right && want == (dtype == CLATTN_F64 ? weights[i] : (double)((float *)weights)[i]);
    }
    tally_count(t, right, dtype == CLATTN_F64 ? "short masks in f64" : "short masks in f32");
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

void parts_sums(const char *algorithm, clattn_dtype dtype, tally *t) {
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
    tally_count(t, same, text);
    tally_take_log(t);
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

void parts_linear(const char *algorithm, clattn_dtype dtype, tally *t) {
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
        tally_take_log(t);
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
        tally_count(t, same, text);
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

void parts_random(tally *t) {
    enum { N = 201 };
    float got[N], right[N];
    const bool same = random_of("opencl", got, N) == CLATTN_OK && random_of("cpu", right, N) == CLATTN_OK &&
                      memcmp(got, right, sizeof got) == 0;
    tally_count(t, same, "the bits of random numbers");
    tally_take_log(t);
}

/* Reading of memory that clEnqueueFillBuffer wrote, which Oclgrind takes for uninitialised: with random numbers. */
void parts_read(tally *t) {
    clattn_context *context = NULL;
    clattn_meter *meter = NULL;
    double gbytes = 0;
    const bool right = clattn_context_create("opencl", NULL, &context) == CLATTN_OK &&
                       clattn_meter_create(context, &meter) == CLATTN_OK &&
                       clattn_meter_read(meter, 1 << 14, &gbytes) == CLATTN_OK;
    tally_count(t, right, clattn_last_error());
    clattn_meter_destroy(meter);
    clattn_context_destroy(context);
    tally_take_log(t);
}

/* What measures the device: a sample of multiply-adds. */
void parts_meter(clattn_context *context, tally *t) {
    clattn_meter *meter = NULL;
    double gflops = 0;
    const bool right = clattn_meter_create(context, &meter) == CLATTN_OK &&
                       clattn_meter_fma(meter, &gflops) == CLATTN_OK && gflops > 0;
    tally_count(t, right, clattn_last_error());
    clattn_meter_destroy(meter);
    tally_take_log(t);
}
