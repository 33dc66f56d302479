/* SPDX-License-Identifier: Apache-2.0 */
/* `blas`: OpenBLAS and OpenMP on the `cpu` context. Blocks of query rows, in parallel, meet blocks of keys: product,
 * online softmax, product (blas_task_real.h). Keys that no row of a block sees are skipped. */
#include "attention/blas_task.h"
#include "attention/plan.h"
#include "base/openmp.h"
#include "tensor/dtype.h"
#include <limits.h>
#include <stdio.h>

enum { ROWS = 128, KEYS = 512, LEAST_ROWS = 16, LEAST_KEYS = 64, LEAST_PART = 256, FIXED_ROWS = 32 };

typedef struct {
    cla_blas_layout layout;
    int threads;
    int64_t members, queries;            /* of a block of rows: heads of one group, and queries of each */
    int64_t member_blocks, query_blocks; /* of a key head */
    int64_t tasks;                       /* blocks of rows in all */
    int64_t parts;                       /* each block's keys are split in so many, where there are few blocks */
    size_t scratch_at, states_at;        /* bytes: a scratch a thread; a state a thread, or a part when split */
    int64_t *row_of, *head_of;           /* of the layout, owned */
} blas;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (!cla_needs_cpu(device, reason, reason_bytes))
        return false;
    if (p->D > INT_MAX / ROWS || p->Dv > INT_MAX / ROWS) {
        snprintf(reason, reason_bytes, "BLAS counts in int, and head dims of %lld and %lld are too large for it",
                 (long long)p->D, (long long)p->Dv);
        return false;
    }
    if (p->dropout > 0 && cla_problem_weighs(p)) {
        snprintf(reason, reason_bytes, "drops weights where they lie, and what is asked for is made of those before");
        return false;
    }
    return true;
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

/* BLAS takes strides from the row's length up. */
static bool must_copy(const clattn_tensor *t) {
    return t->shape[2] > 1 && (t->stride[2] < t->shape[3] || t->stride[2] > INT_MAX);
}

static void cut_rows(const cla_problem *p, blas *a) {
    const int64_t rows = a->layout.rows;
    a->members = p->N >= rows ? 1 : cla_min(p->group, rows / p->N);
    a->member_blocks = cla_ceil_div(p->group, a->members);
    a->query_blocks = cla_ceil_div(p->N, rows);
    a->queries = cla_ceil_div(p->N, a->query_blocks);
    a->tasks = p->B * p->Hk * a->member_blocks * a->query_blocks;
    a->layout.rows = a->members * a->queries;
}

static void place(const cla_problem *p, cla_blas_layout *l) {
    l->q = 0;
    l->k = l->q + l->rows * p->D;
    l->v = l->k + (l->copy_keys ? l->keys * p->D : 0);
    l->s = l->v + l->keys * p->Dv;
    l->t = l->s + l->rows * l->keys;
    l->x = l->t + l->rows * p->Dv;
    l->y = l->x + (l->fixed ? l->rows * CLA_BLAS_FIXED : 0);
    l->scratch = cla_round_up(l->y + (l->fixed ? CLA_BLAS_FIXED * cla_max(p->D, p->Dv) : 0), 16);
    l->o = 0;
    l->m = l->rows * p->Dv;
    l->l = l->m + l->rows;
    l->state = cla_round_up(l->l + l->rows, 16);
}

static int64_t bytes_of(const cla_problem *p, const blas *a) {
    const int64_t states = a->parts > 1 ? a->tasks * a->parts : a->threads;
    return (a->threads * a->layout.scratch + states * a->layout.state) * (int64_t)clattn_dtype_size(p->dtype);
}

static int64_t log2_above(int64_t n) {
    int64_t k = 0;
    while (((int64_t)1 << k) < n)
        k++;
    return k;
}

/* batch_invariant: nothing but types and head dims decides. A thread more than there is work for keeps OpenBLAS from
 * starting its own, and cutting by them. */
static void choose_fixed(const cla_problem *p, blas *a) {
    cla_blas_layout *l = &a->layout;
    l->fixed = true;
    l->shift = 31;
    l->keys = cla_problem_weighs(p) ? p->M : CLA_BLAS_FIXED;
    l->rows = a->queries = FIXED_ROWS;
    a->members = a->parts = 1;
    a->member_blocks = p->group;
    a->query_blocks = cla_ceil_div(p->N, FIXED_ROWS);
    a->tasks = p->B * p->Hk * a->member_blocks * a->query_blocks;
    place(p, l);
}

/* Blocks small enough that every thread has some, and parts of keys where rows are too few for that. */
static void choose(const cla_problem *p, int64_t rows, int64_t keys, blas *a) {
    cla_blas_layout *l = &a->layout;
    l->copy_keys = must_copy(&p->k);
    l->copy_values = must_copy(&p->v);
    l->shift = log2_above(p->M);
    l->keys = cla_min(p->M, keys);
    for (l->rows = rows, cut_rows(p, a); a->tasks < 2 * a->threads && rows > LEAST_ROWS; cut_rows(p, a))
        l->rows = rows /= 2;
    a->parts = 1;
    if (!cla_problem_weighs(p) && a->tasks < a->threads)
        a->parts = cla_max(1, cla_min(cla_ceil_div(a->threads, a->tasks), p->M / LEAST_PART));
    a->threads = (int)cla_max(1, cla_min(a->threads, a->tasks * a->parts));
    place(p, l);
}

/* Where each of `size` queries or heads is among the `count` of a list; NULL without one. */
static clattn_status places(const int64_t *list, int64_t count, int64_t size, int64_t **place) {
    if (!list)
        return CLATTN_OK;
    const clattn_status status = cla_alloc((size_t)size, sizeof **place, "places of weights", place);
    for (int64_t i = 0; status == CLATTN_OK && i < size; i++)
        (*place)[i] = -1;
    for (int64_t x = 0; status == CLATTN_OK && x < count; x++)
        (*place)[list[x]] = x;
    return status;
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const bool whole_rows = cla_problem_weighs(p);
    int64_t rows = ROWS, keys = whole_rows ? p->M : KEYS;
    blas *a = NULL;
    CLA_TRY(cla_alloc(1, sizeof *a, "algorithm blas", &a));
    plan->state = a;
    if (whole_rows)
        rows = cla_max(LEAST_ROWS, cla_min(ROWS, (int64_t)ROWS * 2048 / p->M));
    CLA_TRY(places(p->form_queries, p->row_count, p->N, &a->row_of));
    CLA_TRY(places(p->form_heads, p->head_count, p->H, &a->head_of));
    a->layout.row_of = a->row_of;
    a->layout.head_of = a->head_of;
    a->threads = omp_get_max_threads();
    if (p->batch_invariant)
        choose_fixed(p, a);
    for (bool fits = p->batch_invariant; !fits;) {
        a->threads = omp_get_max_threads();
        choose(p, rows, keys, a);
        fits = bytes_of(p, a) <= cla_plan_scratch_left(plan);
        if (!fits && rows > 1)
            rows /= 2;
        else if (!fits && !whole_rows && keys > LEAST_KEYS)
            keys /= 2;
        else
            break;
    }
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype);
    CLA_TRY(cla_plan_scratch(plan, bytes_of(p, a), "blocks of scores, one a thread", &a->scratch_at));
    a->states_at = a->scratch_at + (size_t)(a->threads * a->layout.scratch * size);
    cla_str_append(&plan->text,
                   "%lld blocks of %lld rows (%lld heads x %lld queries) by %lld keys, %lld parts; %d threads\n",
                   (long long)a->tasks, (long long)a->layout.rows, (long long)a->members, (long long)a->queries,
                   (long long)a->layout.keys, (long long)a->parts, a->threads);
done:
    return status;
}

/* Block x of rows, with the hull of what its rows see; of all keys where unmasked scores are asked for. */
static cla_blas_task task_at(const cla_problem *p, const blas *a, int64_t x, cla_blas_pass pass) {
    const bool raw = p->form == CLATTN_WEIGHTS_SCALED || p->form == CLATTN_WEIGHTS_CAPPED;
    cla_blas_task t = {.j0 = p->M, .j1 = 0, .pass = pass};
    /* Under causal masks later rows see more: they start first. */
    const int64_t block = a->query_blocks - 1 - x % a->query_blocks;
    const int64_t member = x / a->query_blocks % a->member_blocks;
    t.hk = x / (a->query_blocks * a->member_blocks) % p->Hk;
    t.b = x / (a->query_blocks * a->member_blocks * p->Hk);
    const int64_t queries = p->ragged ? p->batches[t.b].queries : p->N;
    t.i0 = cla_min(queries, block * a->queries);
    t.i1 = cla_min(queries, t.i0 + a->queries);
    t.m0 = member * a->members;
    t.m1 = cla_min(p->group, t.m0 + a->members);
    for (int64_t i = t.i0; i < t.i1; i++) {
        int64_t lo, hi;
        cla_problem_keys(p, t.b, i, &lo, &hi);
        if (lo < hi) {
            t.j0 = cla_min(t.j0, lo);
            t.j1 = cla_max(t.j1, hi);
        }
    }
    if (t.j0 >= t.j1 || (raw && pass == CLA_BLAS_ROWS))
        t.j0 = t.j1 = 0;
    if (raw && pass == CLA_BLAS_ROWS && t.i0 < t.i1)
        t.j1 = p->M;
    if (a->layout.fixed)
        t.j0 -= t.j0 % CLA_BLAS_FIXED;
    return t;
}

static void run_task(const clattn_plan *plan, const cla_blas_task *t, int thread, int64_t state, bool store) {
    const cla_problem *p = &plan->problem;
    const blas *a = plan->state;
    char *base = cla_buffer_host(plan->scratch);
    const size_t size = clattn_dtype_size(p->dtype);
    void *scratch = base + a->scratch_at + (size_t)(thread * a->layout.scratch) * size;
    void *mine = base + a->states_at + (size_t)(state * a->layout.state) * size;
    if (p->dtype == CLATTN_F64) {
        cla_blas_run_f64(p, &a->layout, t, scratch, mine);
        if (store)
            cla_blas_store_f64(p, &a->layout, t, scratch, mine);
    } else {
        cla_blas_run_f32(p, &a->layout, t, scratch, mine);
        if (store)
            cla_blas_store_f32(p, &a->layout, t, scratch, mine);
    }
}

/* Part y of the keys of a block of rows. */
static void run_part(const clattn_plan *plan, int64_t x, int64_t y, int thread) {
    const blas *a = plan->state;
    cla_blas_task t = task_at(&plan->problem, a, x, CLA_BLAS_ROWS);
    const int64_t keys = t.j1 - t.j0, begin = t.j0 + keys * y / a->parts, end = t.j0 + keys * (y + 1) / a->parts;
    t.j0 = begin;
    t.j1 = end;
    run_task(plan, &t, thread, x * a->parts + y, false);
}

static void merge_parts(const clattn_plan *plan, int64_t x) {
    const cla_problem *p = &plan->problem;
    const blas *a = plan->state;
    const cla_blas_task t = task_at(p, a, x, CLA_BLAS_ROWS);
    const size_t size = clattn_dtype_size(p->dtype);
    void *states =
        (char *)cla_buffer_host(plan->scratch) + a->states_at + (size_t)(x * a->parts * a->layout.state) * size;
    if (p->dtype == CLATTN_F64) {
        cla_blas_merge_f64(p, &a->layout, &t, a->parts, states);
        cla_blas_store_f64(p, &a->layout, &t, NULL, states);
    } else {
        cla_blas_merge_f32(p, &a->layout, &t, a->parts, states);
        cla_blas_store_f32(p, &a->layout, &t, NULL, states);
    }
}

static void run_tasks(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const blas *a = plan->state;
#pragma omp parallel num_threads(a->threads)
    {
        const int thread = omp_get_thread_num();
        if (a->parts == 1) {
#pragma omp for schedule(dynamic, 1)
            for (int64_t x = 0; x < a->tasks; x++) {
                const cla_blas_task t = task_at(p, a, x, CLA_BLAS_ROWS);
                run_task(plan, &t, thread, thread, true);
            }
        } else {
#pragma omp for schedule(dynamic, 1)
            for (int64_t x = 0; x < a->tasks * a->parts; x++)
                run_part(plan, x / a->parts, x % a->parts, thread);
#pragma omp for schedule(dynamic, 1)
            for (int64_t x = 0; x < a->tasks; x++)
                merge_parts(plan, x);
        }
    }
}

/* The mean over heads: a thread owns the queries of a block, and adds the heads in order. */
static void run_mean(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const blas *a = plan->state;
    const int64_t blocks = p->Hk * a->member_blocks; /* of heads */
#pragma omp parallel for num_threads(a->threads) schedule(dynamic, 1)
    for (int64_t x = 0; x < p->B * a->query_blocks; x++)
        for (int64_t n = 0; n < blocks; n++) {
            const int64_t b = x / a->query_blocks, block = x % a->query_blocks;
            const cla_blas_task t = task_at(p, a, (b * blocks + n) * a->query_blocks + block, CLA_BLAS_MEAN);
            run_task(plan, &t, omp_get_thread_num(), omp_get_thread_num(), true);
        }
}

/* Column sums: a thread owns some heads of a key head, and adds the blocks of queries in order. */
static void run_columns(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const blas *a = plan->state;
#pragma omp parallel for num_threads(a->threads) schedule(dynamic, 1)
    for (int64_t x = 0; x < p->B * p->Hk * a->member_blocks; x++)
        for (int64_t block = a->query_blocks - 1; block >= 0; block--) {
            const cla_blas_task t = task_at(p, a, x * a->query_blocks + block, CLA_BLAS_COLUMNS);
            run_task(plan, &t, omp_get_thread_num(), omp_get_thread_num(), true);
        }
}

static void scale_weights(const cla_problem *p, double factor) {
    const clattn_tensor *w = &p->weights;
    void *data = cla_tensor_data(w);
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t i = 0; i < p->row_count; i++)
            for (int64_t j = 0; j < p->M; j++) {
                const int64_t at = b * w->stride[0] + i * w->stride[2] + j * w->stride[3];
                cla_store_element(data, w->dtype, at, factor == 0 ? 0 : factor * cla_load_element(data, w->dtype, at));
            }
}

/* Sums start at 0; of sequences, the keys of some. */
static void clear_columns(const cla_problem *p) {
    const clattn_tensor *c = &p->column_sums;
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t h = 0; h < p->H; h++)
            for (int64_t j = 0; j < (p->ragged ? p->batches[b].keys : p->M); j++) {
                const int64_t row = p->ragged ? p->batches[b].k_row : 0;
                cla_store_element(cla_tensor_data(c), c->dtype,
                                  b * c->stride[1] + h * c->stride[2] + (row + j) * c->stride[3], 0);
            }
}

static clattn_status execute(clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    blas *a = plan->state;
    a->layout.dropout = cla_dropout_of(p->dropout, p->dropout_key);
    run_tasks(plan);
    if (cla_present(&p->weights) && p->mean) {
        scale_weights(p, 0);
        run_mean(plan);
        scale_weights(p, 1.0 / (double)p->head_count);
    }
    if (cla_present(&p->column_sums)) {
        clear_columns(p);
        run_columns(plan);
    }
    return CLATTN_OK;
}

static void destroy(clattn_plan *plan) {
    blas *a = plan->state;
    if (!a)
        return;
    cla_free(a->row_of);
    cla_free(a->head_of);
    cla_free(a);
    plan->state = NULL;
}

const cla_algorithm cla_algo_blas = {.name = "blas",
                                     .summary = "OpenBLAS and OpenMP on the CPU, in blocks of rows and keys",
                                     .applies = applies,
                                     .suits = suits,
                                     .unit_inner = true,
                                     .sums_type = true,
                                     .weights = true,
                                     .create = create,
                                     .execute = execute,
                                     .destroy = destroy};
