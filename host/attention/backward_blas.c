/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `blas`: blocks of queries meet the keys that they see, whole rows at a time: two products give
 * weights and their gradients, three more those of V, K and Q (blas_backward_real.h). A thread owns a key head with its
 * whole group, or, where there are few, every n-th block of its queries, with sums of dK and dV of its own; they are
 * added in order. d_bias is a pass of its own, so that it too is added in order whatever broadcasts. */
#include "attention/blas_backward.h"
#include "attention/plan.h"
#include "base/openmp.h"
#include "tensor/dtype.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 128, LEAST_ROWS = 8, SCORES = 1 << 17 }; /* scores of a block: half a MiB in f32 */

typedef struct {
    cla_blas_blocks blocks;
    int threads;
    int64_t splits;
    size_t scratch_at, sums_at, bias_at; /* bytes */
} backward;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (!cla_needs_cpu(device, reason, reason_bytes))
        return false;
    if (p->D > INT_MAX / ROWS || p->Dv > INT_MAX / ROWS)
        snprintf(reason, reason_bytes, "BLAS counts in int, and head dims of %lld and %lld are too large for it",
                 (long long)p->D, (long long)p->Dv);
    else if (p->batch_invariant)
        snprintf(reason, reason_bytes, "BLAS sums in an order that depends on sizes, and batch_invariant forbids that");
    else
        return true;
    return false;
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

/* ---- creation ---- */

static int64_t take(int64_t *end, int64_t count) {
    const int64_t at = *end;
    *end = cla_round_up(at + count, 16);
    return at;
}

static void lay_out(const cla_problem *p, cla_blas_blocks *a, int64_t rows) {
    int64_t end = 0;
    a->rows = cla_min(rows, p->N);
    a->q = take(&end, a->rows * p->D);
    a->o = take(&end, a->rows * p->Dv);
    a->k = take(&end, p->M * p->D);
    a->v = take(&end, p->M * p->Dv);
    a->clean_k = take(&end, p->M * p->D);
    a->s = take(&end, a->rows * p->M);
    a->ds = take(&end, a->rows * p->M);
    a->slope = take(&end, p->softcap > 0 ? a->rows * p->M : 0);
    a->kept = take(&end, p->M);
    a->t = take(&end, a->rows * p->D);
    a->scratch = end;
    a->sums = cla_round_up(p->M * (p->D + p->Dv) + p->group, 16);
}

static int64_t bias_elements(const cla_problem *p) {
    return cla_present(&p->d_bias) ? clattn_tensor_elements(&p->d_bias) : 0;
}

/* Numbers in scratch. */
static int64_t numbers(const cla_problem *p, const backward *a) {
    return a->threads * a->blocks.scratch + p->B * p->Hk * a->splits * a->blocks.sums + bias_elements(p);
}

/* Blocks of rows that stay near the core, and enough tasks that every thread has some; less of both where scratch is
 * short. */
static void choose(const clattn_plan *plan, backward *a) {
    const cla_problem *p = &plan->problem;
    const int64_t heads = p->B * p->Hk, left = cla_plan_scratch_left(plan) / (int64_t)clattn_dtype_size(p->dtype);
    int64_t rows = cla_max(LEAST_ROWS, cla_min(ROWS, SCORES / p->M));
    a->threads = omp_get_max_threads();
    lay_out(p, &a->blocks, rows);
    a->splits = heads >= 2 * a->threads || a->threads == 1 ? 1 : cla_ceil_div(2 * a->threads, heads);
    a->splits = cla_max(1, cla_min(a->splits, p->group * cla_ceil_div(p->N, a->blocks.rows)));
    while (numbers(p, a) > left && a->splits > 1)
        a->splits--;
    while (numbers(p, a) > left && rows > 1)
        lay_out(p, &a->blocks, rows /= 2);
    while (numbers(p, a) > left && a->threads > 1)
        a->threads--;
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype);
    backward *a = NULL;
    CLA_TRY(cla_alloc(1, sizeof *a, "backward pass of blas", &a));
    plan->state = a;
    choose(plan, a);
    a->blocks.by_scores =
        cla_present(&p->d_q) || cla_present(&p->d_k) || cla_present(&p->d_bias) || cla_present(&p->d_sinks);
    CLA_TRY(cla_plan_scratch(plan, a->threads * a->blocks.scratch * size, "keys, and blocks of weights, one a thread",
                             &a->scratch_at));
    CLA_TRY(cla_plan_scratch(plan, p->B * p->Hk * a->splits * a->blocks.sums * size, "sums of dK and dV", &a->sums_at));
    if (cla_present(&p->d_bias))
        CLA_TRY(cla_plan_scratch(plan, bias_elements(p) * size, "sums of d_bias", &a->bias_at));
    cla_str_append(&plan->text, "blocks of %lld queries by all keys; %lld key heads, each in %lld parts; %d threads\n",
                   (long long)a->blocks.rows, (long long)(p->B * p->Hk), (long long)a->splits, a->threads);
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    cla_free(plan->state);
    plan->state = NULL;
}

/* ---- execution ---- */

static void *at_bytes(const clattn_plan *plan, size_t bytes) { return (char *)cla_buffer_host(plan->scratch) + bytes; }

static void *scratch_of(const clattn_plan *plan, const backward *a, int thread) {
    return at_bytes(plan,
                    a->scratch_at + (size_t)(thread * a->blocks.scratch) * clattn_dtype_size(plan->problem.dtype));
}

/* Sums of part `split` of key head `head` of all batches. */
static void *sums_of(const clattn_plan *plan, const backward *a, int64_t head, int64_t split) {
    return at_bytes(plan, a->sums_at + (size_t)((head * a->splits + split) * a->blocks.sums) *
                                           clattn_dtype_size(plan->problem.dtype));
}

static void run_heads(const clattn_plan *plan, const backward *a) {
    const cla_problem *p = &plan->problem;
#pragma omp parallel num_threads(a->threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (int64_t x = 0; x < p->B * p->Hk * a->splits; x++) {
            const int64_t head = x / a->splits, split = x % a->splits;
            const cla_blas_queries task = {head / p->Hk, head % p->Hk, split, a->splits};
            void *scratch = scratch_of(plan, a, omp_get_thread_num()), *sums = sums_of(plan, a, head, split);
            if (p->dtype == CLATTN_F64)
                cla_blas_gradients_f64(p, &a->blocks, &task, scratch, sums);
            else
                cla_blas_gradients_f32(p, &a->blocks, &task, scratch, sums);
        }
#pragma omp for schedule(dynamic, 1)
        for (int64_t head = 0; head < p->B * p->Hk; head++)
            if (p->dtype == CLATTN_F64)
                cla_blas_keys_f64(p, &a->blocks, head / p->Hk, head % p->Hk, a->splits, sums_of(plan, a, head, 0));
            else
                cla_blas_keys_f32(p, &a->blocks, head / p->Hk, head % p->Hk, a->splits, sums_of(plan, a, head, 0));
    }
}

/* Task x of d_bias: what of it depends on the axes that broadcast is added by one thread. An axis of queries is cut in
 * blocks. */
static cla_blas_pairs bias_task(const cla_problem *p, const backward *a, int64_t x, int64_t *tasks) {
    const int64_t *stride = p->d_bias.stride;
    const int64_t batches = stride[0] ? p->B : 1, heads = stride[1] ? p->H : 1;
    const int64_t blocks = stride[2] ? cla_ceil_div(p->N, a->blocks.rows) : 1;
    const int64_t block = x % blocks, h = x / blocks % heads, b = x / (blocks * heads);
    cla_blas_pairs t = {0, p->B, 0, p->H, 0, p->N};
    *tasks = batches * heads * blocks;
    if (stride[0])
        t.b0 = b, t.b1 = b + 1;
    if (stride[1])
        t.h0 = h, t.h1 = h + 1;
    if (stride[2])
        t.i0 = block * a->blocks.rows, t.i1 = cla_min(p->N, t.i0 + a->blocks.rows);
    return t;
}

static void store_bias(const cla_problem *p, const void *sums) {
    const clattn_tensor *t = &p->d_bias;
    for (int64_t x = 0; x < bias_elements(p); x++) {
        const int64_t row = x / t->shape[3], head = row / t->shape[2];
        cla_store_element(cla_tensor_data(t), t->dtype,
                          head / t->shape[1] * t->stride[0] + head % t->shape[1] * t->stride[1] +
                              row % t->shape[2] * t->stride[2] + x % t->shape[3] * t->stride[3],
                          cla_load_element(sums, p->dtype, x));
    }
}

static void run_bias(const clattn_plan *plan, const backward *a) {
    const cla_problem *p = &plan->problem;
    void *sums = at_bytes(plan, a->bias_at);
    int64_t tasks;
    memset(sums, 0, (size_t)bias_elements(p) * clattn_dtype_size(p->dtype));
    bias_task(p, a, 0, &tasks);
#pragma omp parallel for num_threads(a->threads) schedule(dynamic, 1)
    for (int64_t x = 0; x < tasks; x++) {
        int64_t all;
        const cla_blas_pairs task = bias_task(p, a, x, &all);
        void *scratch = scratch_of(plan, a, omp_get_thread_num());
        if (p->dtype == CLATTN_F64)
            cla_blas_bias_f64(p, &a->blocks, &task, scratch, sums);
        else
            cla_blas_bias_f32(p, &a->blocks, &task, scratch, sums);
    }
    store_bias(p, sums);
}

static void run_sinks(const clattn_plan *plan, const backward *a) {
    const cla_problem *p = &plan->problem;
    const int64_t stride = a->splits * a->blocks.sums;
    if (p->dtype == CLATTN_F64)
        cla_blas_sinks_f64(p, &a->blocks, stride, sums_of(plan, a, 0, 0));
    else
        cla_blas_sinks_f32(p, &a->blocks, stride, sums_of(plan, a, 0, 0));
}

static clattn_status execute(clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    backward *a = plan->state;
    a->blocks.dropout = cla_dropout_of(p->dropout, p->dropout_key);
    run_heads(plan, a);
    if (cla_present(&p->d_bias))
        run_bias(plan, a);
    if (cla_present(&p->d_sinks))
        run_sinks(plan, a);
    return CLATTN_OK;
}

const cla_algorithm cla_backward_blas = {.name = "blas",
                                         .summary = "OpenBLAS and OpenMP on the CPU, in blocks of queries and keys",
                                         .applies = applies,
                                         .suits = suits,
                                         .unit_inner = true,
                                         .sums_type = true,
                                         .create = create,
                                         .execute = execute,
                                         .destroy = destroy};
