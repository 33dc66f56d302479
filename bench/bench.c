/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 12 }; /* q k v o keep bias lse state d_o d_q d_k d_v */

struct bench {
    clattn_context *context;
    clattn_meter *meter;
    clattn_device_info info;
};

struct bench_problem {
    bench *owner;
    clattn_attention_backward_args host, placed; /* without d_o `forward` alone */
    clattn_buffer *buffers[TENSORS];
    clattn_plan *plan, *backward; /* backward: NULL without d_o */
    void *o, *state;              /* of the one call with d_o */
    bool is_linear;               /* then these, and no plan */
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

/* With d_o: gradients in the array of o, and arrays of its own for o and state. false: out of memory. */
static bool add_backward(bench_problem *p, const bench_attention *a) {
    const clattn_dtype type = (clattn_dtype)a->o_type;
    const int64_t state[] = {a->B, a->H, a->N, 2};
    clattn_attention_backward_args *b = &p->host;
    clattn_attention_args *f = &b->forward;
    char *at = a->o;
    p->o = calloc(clattn_dtype_bytes(type, (size_t)clattn_tensor_elements(&f->o)) + 1, 1);
    p->state = calloc((size_t)(a->B * a->H * a->N) + 1, 2 * sizeof(double));
    b->d_o = f->o;
    b->d_o.host = a->d_o;
    f->o.host = p->o;
    f->state = clattn_tensor_host(p->state, type == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32, 4, state);
    clattn_tensor *const gradients[] = {&b->d_q, &b->d_k, &b->d_v};
    const clattn_tensor *const of[] = {&f->q, &f->k, &f->v};
    for (int i = 0; i < 3; i++) {
        *gradients[i] = *of[i];
        gradients[i]->host = at;
        at += clattn_dtype_bytes(of[i]->dtype, (size_t)clattn_tensor_elements(of[i]));
    }
    return p->o && p->state;
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
    p->host.forward = args_of(a);
    bool ok = !a->d_o || add_backward(p, a) || !refused("out of memory");
    p->host.algorithm = a->algorithm;
    p->placed = p->host;
    clattn_attention_backward_args *g = &p->placed;
    clattn_attention_args *f = &g->forward;
    clattn_tensor *const tensors[TENSORS] = {&f->q,   &f->k,     &f->v,   &f->o,   &f->keep, &f->bias,
                                             &f->lse, &f->state, &g->d_o, &g->d_q, &g->d_k,  &g->d_v};
    if (ok && !a->call_only)
        ok = (place(p, tensors, TENSORS) && clattn_plan_create(b->context, f, &p->plan) == CLATTN_OK &&
              (!a->d_o || clattn_backward_plan_create(b->context, g, &p->backward) == CLATTN_OK)) ||
             !failed();
    if (ok)
        return p;
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
    clattn_plan_destroy(p->backward);
    free(p->o);
    free(p->state);
    for (int i = 0; i < TENSORS; i++)
        clattn_buffer_destroy(p->buffers[i]);
    free(p);
}

int bench_run(bench_problem *p) {
    clattn_status status =
        p->is_linear ? clattn_linear(p->owner->context, &p->linear_placed) : clattn_plan_execute(p->plan, NULL);
    if (status == CLATTN_OK && p->backward)
        status = clattn_backward_plan_execute(p->backward, NULL);
    if (status == CLATTN_OK)
        status = clattn_context_sync(p->owner->context);
    return status == CLATTN_OK ? 0 : failed();
}

int bench_call(bench_problem *p) {
    clattn_status status = p->is_linear ? clattn_linear(p->owner->context, &p->linear_host)
                                        : clattn_attention(p->owner->context, &p->host.forward);
    if (status == CLATTN_OK && p->host.d_o.rank > 0)
        status = clattn_attention_backward(p->owner->context, &p->host);
    return status == CLATTN_OK ? 0 : failed();
}

/* A buffer's bytes, where there is one. */
static clattn_status fetch(const bench_problem *p, int buffer, void *to) {
    clattn_buffer *from = p->buffers[buffer];
    return from ? clattn_buffer_download(from, 0, to, clattn_buffer_bytes(from)) : CLATTN_OK;
}

int bench_fetch(bench_problem *p) {
    const clattn_attention_backward_args *h = &p->host;
    void *const o = p->is_linear ? p->linear_host.y.host : h->forward.o.host;
    clattn_status status = fetch(p, 3, o);
    if (status == CLATTN_OK)
        status = fetch(p, 6, h->forward.lse.host);
    void *const gradients[] = {h->d_q.host, h->d_k.host, h->d_v.host};
    for (int i = 0; i < 3 && status == CLATTN_OK; i++)
        status = fetch(p, 9 + i, gradients[i]);
    return status == CLATTN_OK ? 0 : failed();
}

int bench_facts(bench_problem *p, char *algorithm, uint64_t size, double *operations, double *moved_bytes) {
    clattn_plan_info info = {.algorithm = "linear"}, backward = {0};
    if ((!p->is_linear && clattn_plan_info_get(p->plan, &info) != CLATTN_OK) ||
        (p->backward && clattn_plan_info_get(p->backward, &backward) != CLATTN_OK))
        return failed();
    info.operations += backward.operations;
    info.moved_bytes += backward.moved_bytes;
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
static double worse(double a, double b) { return isnan(a) || b <= a ? a : b; }

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

/* Of each gradient in turn: the largest error over the largest exact number; the worst of the three. */
static double gradients_error(const bench_problem *got, const bench_problem *exact) {
    const clattn_tensor *const mine[] = {&got->host.d_q, &got->host.d_k, &got->host.d_v}, *const right[] = {
                                                                                              &exact->host.d_q,
                                                                                              &exact->host.d_k,
                                                                                              &exact->host.d_v};
    double worst = 0;
    for (int i = 0; i < 3; i++) {
        const size_t count = (size_t)clattn_tensor_elements(mine[i]);
        const double *x = right[i]->host;
        double *numbers = calloc(count + 1, sizeof *numbers), error = 0;
        if (!numbers || clattn_convert(numbers, CLATTN_F64, mine[i]->host, mine[i]->dtype, count) != CLATTN_OK)
            error = NAN;
        for (size_t j = 0; numbers && j < count; j++)
            error = worse(error, fabs(numbers[j] - x[j]));
        worst = worse(worst, error / largest(right[i]));
        free(numbers);
    }
    return worst;
}

/* The inputs of a problem in f64; false: out of memory. */
static bool widen(const bench_attention *a, bench_attention *wide, void *arrays[6]) {
    const size_t q = (size_t)(a->B * a->H * a->N * a->D), k = (size_t)(a->B * a->Hk * a->M * a->D),
                 v = (size_t)(a->B * a->Hk * a->M * a->Dv), o = (size_t)(a->B * a->H * a->N * a->Dv);
    void *const from[6] = {a->q, a->k, a->v, a->d_o, a->bias, NULL};
    void **const to[6] = {&wide->q, &wide->k, &wide->v, &wide->d_o, &wide->bias, &wide->o};
    const size_t counts[6] = {q, k, v, o, (size_t)(a->N * a->M), q + k + v};
    bool ok = true;
    *wide = *a;
    wide->q_type = wide->k_type = wide->v_type = wide->o_type = wide->bias_type = CLATTN_F64;
    wide->algorithm = NULL;
    wide->call_only = 1;
    for (int i = 0; i < 6 && ok; i++) {
        if (i < 5 && !from[i])
            continue;
        *to[i] = arrays[i] = calloc(counts[i] + 1, sizeof(double));
        ok = arrays[i] && (i == 5 || clattn_convert(arrays[i], CLATTN_F64, from[i], (clattn_dtype)a->q_type,
                                                    counts[i]) == CLATTN_OK);
    }
    return ok;
}

int bench_gradients_error(const bench_attention *a, double *error) {
    bench_attention wide;
    void *arrays[6] = {NULL};
    bench *cpu = bench_open("cpu");
    bench_problem *exact = NULL, got = {.host.forward = args_of(a)};
    bool ok = cpu && (add_backward(&got, a) && widen(a, &wide, arrays) ? true : !refused("out of memory"));
    ok = ok && (exact = bench_attention_open(cpu, &wide)) && bench_call(exact) == 0;
    if (ok)
        *error = gradients_error(&got, exact);
    bench_problem_close(exact);
    bench_close(cpu);
    free(got.o);
    free(got.state);
    for (int i = 0; i < 6; i++)
        free(arrays[i]);
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
