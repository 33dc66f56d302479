/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 7 }; /* q k v o keep bias lse */

struct bench {
    clattn_context *context;
    clattn_meter *meter;
    clattn_device_info info;
};

struct bench_problem {
    bench *owner;
    clattn_attention_args host, placed;
    clattn_buffer *buffers[TENSORS];
    clattn_plan *plan;
    bool is_linear; /* then these, and no plan */
    clattn_linear_args linear_host, linear_placed;
};

static _Thread_local char message[600];

static int failed(void) {
    snprintf(message, sizeof message, "%s", clattn_last_error());
    return 1;
}

static int refused(const char *text) {
    snprintf(message, sizeof message, "%s", text);
    return 1;
}

const char *bench_message(void) { return message; }

/* ---- device ---- */

bench *bench_open(const char *device) {
    bench *b = calloc(1, sizeof *b);
    if (!b) {
        refused("out of memory");
        return NULL;
    }
    if (clattn_context_create(device, NULL, &b->context) == CLATTN_OK &&
        clattn_context_info(b->context, &b->info) == CLATTN_OK)
        return b;
    failed();
    bench_close(b);
    return NULL;
}

void bench_close(bench *b) {
    if (!b)
        return;
    clattn_meter_destroy(b->meter);
    clattn_context_destroy(b->context);
    free(b);
}

const char *bench_device(bench *b) { return b->info.name; }

int bench_peak(bench *b, uint64_t bytes, double *gflops, double *gbytes) {
    const bool ok = (b->meter || clattn_meter_create(b->context, &b->meter) == CLATTN_OK) &&
                    clattn_meter_fma(b->meter, gflops) == CLATTN_OK &&
                    clattn_meter_read(b->meter, bytes, gbytes) == CLATTN_OK;
    return ok ? 0 : failed();
}

/* ---- numbers ---- */

/* splitmix64 (Steele, Lea & Flood 2014) */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The sum of four uniform numbers of 16 bits, whose variance is 4 / 12. */
static float near_normal(uint64_t *state) {
    const uint64_t z = next_random(state);
    const double sum =
        (double)(z & 0xffff) + (double)(z >> 16 & 0xffff) + (double)(z >> 32 & 0xffff) + (double)(z >> 48);
    return (float)((sum * 0x1p-16 - 2) * 1.7320508075688772);
}

int bench_fill(void *to, int dtype, uint64_t count, uint64_t seed) {
    const size_t length = clattn_dtype_length((clattn_dtype)dtype);
    uint64_t state = seed;
    if (dtype == CLATTN_BOOL || dtype == CLATTN_U8) {
        for (uint64_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = next_random(&state) >> 61 != 0;
        return 0;
    }
    if (length == 0 || count % length != 0)
        return refused("no such type, or no whole blocks");
    for (uint64_t done = 0; done < count;) {
        float chunk[1024];
        const uint64_t left = count - done, n = left < 1024 ? left : 1024;
        for (uint64_t i = 0; i < n; i++)
            chunk[i] = near_normal(&state);
        if (bench_convert((char *)to + clattn_dtype_bytes((clattn_dtype)dtype, done), dtype, chunk, CLATTN_F32, n))
            return 1;
        done += n;
    }
    return 0;
}

int bench_convert(void *to, int to_dtype, const void *from, int from_dtype, uint64_t count) {
    return clattn_convert(to, (clattn_dtype)to_dtype, from, (clattn_dtype)from_dtype, count) == CLATTN_OK ? 0
                                                                                                          : failed();
}

/* ---- attention ---- */

static clattn_attention_args args_of(const bench_attention *a) {
    const int64_t q[] = {a->B, a->H, a->N, a->D}, k[] = {a->B, a->Hk, a->M, a->D}, v[] = {a->B, a->Hk, a->M, a->Dv};
    const int64_t o[] = {a->B, a->H, a->N, a->Dv}, mask[] = {a->N, a->M};
    clattn_attention_args args = {.q = clattn_tensor_host(a->q, (clattn_dtype)a->q_type, 4, q),
                                  .k = clattn_tensor_host(a->k, (clattn_dtype)a->k_type, 4, k),
                                  .v = clattn_tensor_host(a->v, (clattn_dtype)a->v_type, 4, v),
                                  .o = clattn_tensor_host(a->o, (clattn_dtype)a->o_type, 4, o),
                                  .causal = a->causal != 0,
                                  .has_window = a->windowed != 0,
                                  .window_left = a->left < 0 ? CLATTN_UNLIMITED : a->left,
                                  .window_right = a->right < 0 ? CLATTN_UNLIMITED : a->right,
                                  .has_scale = a->scale > 0,
                                  .scale = a->scale,
                                  .algorithm = a->algorithm};
    if (a->keep)
        args.keep = clattn_tensor_host(a->keep, CLATTN_BOOL, 2, mask);
    if (a->bias)
        args.bias = clattn_tensor_host(a->bias, (clattn_dtype)a->bias_type, 2, mask);
    if (a->lse)
        args.lse = clattn_tensor_host(a->lse, CLATTN_F32, 3, o);
    if (a->causal || a->windowed)
        args.align = a->bottom_right ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_TOP_LEFT;
    return args;
}

/* Buffers that hold what the arrays do, in their place. */
static bool place(bench_problem *p, clattn_tensor *const *tensors, int count) {
    for (int i = 0; i < count; i++) {
        clattn_tensor *t = tensors[i];
        const size_t bytes = clattn_dtype_bytes(t->dtype, (size_t)clattn_tensor_elements(t));
        if (t->rank == 0)
            continue;
        if (clattn_buffer_create(p->owner->context, bytes, &p->buffers[i]) != CLATTN_OK ||
            clattn_buffer_upload(p->buffers[i], 0, t->host, bytes) != CLATTN_OK)
            return false;
        *t = clattn_tensor_buffer(p->buffers[i], t->dtype, t->rank, t->shape);
    }
    return true;
}

bench_problem *bench_attention_open(bench *b, const bench_attention *a) {
    bench_problem *p = calloc(1, sizeof *p);
    if (!p) {
        refused("out of memory");
        return NULL;
    }
    p->owner = b;
    p->host = p->placed = args_of(a);
    clattn_attention_args *at = &p->placed;
    clattn_tensor *const tensors[TENSORS] = {&at->q, &at->k, &at->v, &at->o, &at->keep, &at->bias, &at->lse};
    if (a->call_only ||
        (place(p, tensors, TENSORS) && clattn_plan_create(b->context, &p->placed, &p->plan) == CLATTN_OK))
        return p;
    failed();
    bench_problem_close(p);
    return NULL;
}

bench_problem *bench_linear_open(bench *b, int64_t M, int64_t N, int64_t K, int gelu, void *x, void *w, void *bias,
                                 void *y) {
    const int64_t of_x[] = {M, K}, of_w[] = {N, K}, of_y[] = {M, N};
    bench_problem *p = calloc(1, sizeof *p);
    if (!p) {
        refused("out of memory");
        return NULL;
    }
    p->owner = b;
    p->is_linear = true;
    p->linear_host = (clattn_linear_args){.x = clattn_tensor_host(x, CLATTN_F32, 2, of_x),
                                          .w = clattn_tensor_host(w, CLATTN_F32, 2, of_w),
                                          .y = clattn_tensor_host(y, CLATTN_F32, 2, of_y),
                                          .activation = gelu ? CLATTN_ACTIVATION_GELU : CLATTN_ACTIVATION_NONE};
    if (bias)
        p->linear_host.bias = clattn_tensor_host(bias, CLATTN_F32, 1, &N);
    p->linear_placed = p->linear_host;
    clattn_linear_args *a = &p->linear_placed;
    clattn_tensor *const tensors[] = {&a->x, &a->w, &a->bias, &a->y};
    if (place(p, tensors, 4))
        return p;
    failed();
    bench_problem_close(p);
    return NULL;
}

void bench_problem_close(bench_problem *p) {
    if (!p)
        return;
    clattn_plan_destroy(p->plan);
    for (int i = 0; i < TENSORS; i++)
        clattn_buffer_destroy(p->buffers[i]);
    free(p);
}

int bench_run(bench_problem *p) {
    clattn_status status =
        p->is_linear ? clattn_linear(p->owner->context, &p->linear_placed) : clattn_plan_execute(p->plan, NULL);
    if (status == CLATTN_OK)
        status = clattn_context_sync(p->owner->context);
    return status == CLATTN_OK ? 0 : failed();
}

int bench_call(bench_problem *p) {
    const clattn_status status = p->is_linear ? clattn_linear(p->owner->context, &p->linear_host)
                                              : clattn_attention(p->owner->context, &p->host);
    return status == CLATTN_OK ? 0 : failed();
}

int bench_fetch(bench_problem *p) {
    void *const out = p->is_linear ? p->linear_host.y.host : p->host.o.host, *const lse = p->host.lse.host;
    clattn_status status = clattn_buffer_download(p->buffers[3], 0, out, clattn_buffer_bytes(p->buffers[3]));
    if (status == CLATTN_OK && p->buffers[6])
        status = clattn_buffer_download(p->buffers[6], 0, lse, clattn_buffer_bytes(p->buffers[6]));
    return status == CLATTN_OK ? 0 : failed();
}

int bench_facts(bench_problem *p, char *algorithm, uint64_t size, double *operations, double *moved_bytes) {
    clattn_plan_info info = {.algorithm = "linear"};
    if (!p->is_linear && clattn_plan_info_get(p->plan, &info) != CLATTN_OK)
        return failed();
    if (p->is_linear) {
        const clattn_linear_args *a = &p->linear_host;
        info.operations = 2.0 * (double)a->x.shape[0] * (double)a->w.shape[0] * (double)a->w.shape[1];
        for (int i = 0; i < 4; i++)
            info.moved_bytes += (double)clattn_buffer_bytes(p->buffers[i]);
    }
    snprintf(algorithm, size, "%s", info.algorithm);
    *operations = info.operations;
    *moved_bytes = info.moved_bytes;
    return 0;
}

/* ---- errors ---- */

static double largest(const clattn_tensor *t) {
    const size_t count = (size_t)clattn_tensor_elements(t), length = clattn_dtype_length(t->dtype);
    double most = 0;
    for (size_t done = 0; done < count;) {
        double chunk[1024];
        const size_t left = count - done, n = left < 1024 ? left : 1024;
        if (n % length != 0 ||
            clattn_convert(chunk, CLATTN_F64, (const char *)t->host + clattn_dtype_bytes(t->dtype, done), t->dtype,
                           n) != CLATTN_OK)
            return NAN;
        for (size_t i = 0; i < n; i++)
            most = fmax(most, fabs(chunk[i]));
        done += n;
    }
    return most;
}

/* The same call on rows [begin, begin + count) of the queries, in double. */
static clattn_status exact_rows(const bench_attention *a, int64_t begin, int64_t count, int64_t *offsets,
                                double *exact) {
    clattn_context *context = NULL;
    clattn_attention_args args = args_of(a);
    const int64_t shape[] = {a->B, a->H, count, a->Dv};
    args.q = clattn_tensor_slice(args.q, 2, begin, count);
    args.o = clattn_tensor_host(exact, CLATTN_F64, 4, shape);
    args.lse = (clattn_tensor){0};
    args.algorithm = "reference";
    for (int64_t i = 0; i < a->B; i++)
        offsets[i] = begin + (a->bottom_right ? a->M - a->N : 0);
    if (args.align != CLATTN_ALIGN_UNSET) {
        args.align = CLATTN_ALIGN_OFFSET;
        args.offsets = offsets;
    }
    if (a->keep)
        args.keep = clattn_tensor_slice(args.keep, 0, begin, count);
    if (a->bias)
        args.bias = clattn_tensor_slice(args.bias, 0, begin, count);
    clattn_status status = clattn_context_create("cpu", NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &args);
    clattn_context_destroy(context);
    return status;
}

/* The larger; what is not finite stays. */
static double worse(double a, double b) { return !(b <= a) ? b : a; }

int bench_attention_error(const bench_attention *a, int64_t begin, int64_t count, double *error) {
    double *exact = calloc((size_t)(a->B * a->H * count * a->Dv) + 1, sizeof *exact);
    double *row = calloc((size_t)a->Dv + 1, sizeof *row);
    int64_t *offsets = calloc((size_t)a->B + 1, sizeof *offsets);
    const clattn_attention_args args = args_of(a);
    bool ok = exact && row && offsets;
    if (!ok)
        refused("out of memory");
    else if (exact_rows(a, begin, count, offsets, exact) != CLATTN_OK)
        ok = !failed();
    double worst = 0;
    for (int64_t r = 0; ok && r < a->B * a->H * count; r++) {
        const int64_t at = ((r / count) * a->N + begin + r % count) * a->Dv;
        const char *from = (const char *)a->o + clattn_dtype_bytes(args.o.dtype, (size_t)at);
        if (bench_convert(row, CLATTN_F64, from, a->o_type, (uint64_t)a->Dv))
            ok = false;
        for (int64_t d = 0; d < a->Dv; d++)
            worst = worse(worst, fabs(row[d] - exact[r * a->Dv + d]));
    }
    *error = worst / largest(&args.v);
    free(exact);
    free(row);
    free(offsets);
    return ok ? 0 : 1;
}

int bench_linear_error(int64_t M, int64_t N, int64_t K, int gelu, const float *x, const float *w, const float *bias,
                       const float *y, int64_t begin, int64_t count, double *error) {
    double worst = 0, most = 0;
    for (int64_t i = begin; i < begin + count && i < M; i++)
        for (int64_t j = 0; j < N; j++) {
            double sum = bias ? (double)bias[j] : 0;
            for (int64_t k = 0; k < K; k++)
                sum += (double)x[i * K + k] * (double)w[j * K + k];
            sum = gelu ? 0.5 * sum * (1 + erf(sum * 0.70710678118654752440)) : sum;
            worst = worse(worst, fabs((double)y[i * N + j] - sum));
            most = fmax(most, fabs(sum));
        }
    *error = worst / most;
    return 0;
}
