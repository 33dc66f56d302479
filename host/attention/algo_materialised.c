/* SPDX-License-Identifier: Apache-2.0 */
/* `materialised`: QK^T by CLBlast into a buffer of scores, row softmax with masks in place, PV by CLBlast; a chunk of
 * batches, heads and rows at a time. V goes through scratch without what is not finite, so that a weight of 0 times it
 * is 0; kept weights meet the rest in softmax_outputs (semantics.md, R2 and R3). */
#include "attention/chunks.h"
#include "attention/plan.h"
#include "ops/copy.h"
#include "ops/gemm.h"
#include "ops/softmax.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

/* More scores than this in flight gain nothing: a device is full long before. */
enum { ENOUGH_BYTES = 256 << 20 };

enum { Q, K, COPIES };

typedef struct {
    cla_chunks chunks;
    cla_softmax softmax;
    size_t scores_at, values_at, sums_at, flags_at; /* bytes in scratch */
    cla_kernel *copy;
    struct {
        bool active; /* rows lie in one another, which BLAS does not take */
        size_t at;
    } copies[COPIES];
    cla_softmax_buffers buffers; /* of the execution */
    clattn_tensor q, k;          /* as CLBlast gets them */
} materialised;

/* One chunk: queries [i0, i0 + n) of N, of the heads hk * group + [m0, m0 + nm), for nb batches and nk key heads, with
 * M keys. Rows start at q_row and k_row: one sequence of several, else 0. */
typedef struct {
    int64_t b0, nb, hk0, nk, m0, nm, i0, n;
    int64_t N, M, q_row, k_row;
} chunk;

static bool reaches_too_far(const clattn_tensor *t, const char *name, char *reason, size_t reason_bytes) {
    int64_t first, end;
    if (cla_view_range(t, name, &first, &end) == CLATTN_OK && end <= INT_MAX)
        return false;
    snprintf(reason, reason_bytes, "CLBlast counts elements to %d, and %s reaches further", INT_MAX, name);
    return true;
}

/* What of a tensor CLBlast will get: pack.c copies those of other types or last strides, without gaps. */
static clattn_tensor as_multiplied(const cla_problem *p, const clattn_tensor *t, bool gathered) {
    clattn_tensor r = *t;
    int64_t elements = 1;
    if (!gathered && t->dtype == p->dtype && (t->stride[3] == 1 || t->shape[3] <= 1))
        return r;
    r.dtype = p->dtype;
    r.offset = 0;
    if (gathered)
        r.shape[0] = p->B, r.shape[2] = p->M;
    for (int axis = 3; axis >= 0; axis--) {
        const bool broadcast = !gathered && axis < 3 && t->stride[axis] == 0;
        r.stride[axis] = broadcast ? 0 : elements;
        if (!broadcast && !cla_mul(elements, r.shape[axis], &elements))
            elements = INT64_MAX;
    }
    return r;
}

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    const clattn_tensor q = as_multiplied(p, &p->q, false), k = as_multiplied(p, &p->k, p->page_size > 0),
                        o = as_multiplied(p, &p->o, false);
    return cla_needs_opencl(p, device, reason, reason_bytes) && !reaches_too_far(&q, "q", reason, reason_bytes) &&
           !reaches_too_far(&k, "k", reason, reason_bytes) && !reaches_too_far(&o, "o", reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

/* ---- creation ---- */

/* Dense, but for axes that are shared. */
static clattn_tensor dense(const clattn_tensor *t) {
    clattn_tensor r = *t;
    r.stride[3] = 1;
    r.stride[2] = t->shape[3];
    r.stride[1] = t->stride[1] == 0 ? 0 : t->shape[2] * t->shape[3];
    r.stride[0] = t->stride[0] == 0 ? 0 : (t->stride[1] == 0 ? 1 : t->shape[1]) * t->shape[2] * t->shape[3];
    return r;
}

static int64_t elements_of(const clattn_tensor *t) {
    return (t->stride[0] == 0 ? 1 : t->shape[0]) * (t->stride[1] == 0 ? 1 : t->shape[1]) * t->shape[2] * t->shape[3];
}

static clattn_status ask_for_copy(clattn_plan *plan, materialised *a, int which, const clattn_tensor *t) {
    clattn_status status = CLATTN_OK;
    if (t->shape[2] <= 1 || t->stride[2] >= t->shape[3])
        return CLATTN_OK;
    const clattn_tensor d = dense(t);
    if (!a->copy)
        CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "copy_strided", &a->copy));
    CLA_TRY(cla_plan_scratch(plan, elements_of(&d) * (int64_t)clattn_dtype_size(t->dtype),
                             which == Q ? "a copy of q with rows apart" : "a copy of k with rows apart",
                             &a->copies[which].at));
    a->copies[which].active = true;
done:
    return status;
}

static clattn_status ask_for_chunk(clattn_plan *plan, materialised *a) {
    clattn_status status = CLATTN_OK;
    const int64_t left = cla_plan_scratch_left(plan);
    cla_chunks *c = &a->chunks;
    size_t at = 0;
    *c = cla_chunks_choose(&plan->problem, cla_min(left, ENOUGH_BYTES));
    if (cla_chunks_bytes(c) > ENOUGH_BYTES) /* the smallest there is: what do all the columns of V take? */
        *c = cla_chunks_choose(&plan->problem, left);
    char what[120];
    snprintf(what, sizeof what, "%lld rows of %lld scores and %lld columns of v",
             (long long)(c->batches * c->heads * c->members * c->queries), (long long)plan->problem.M,
             (long long)c->columns);
    CLA_TRY(cla_plan_scratch(plan, cla_chunks_bytes(c), what, &at));
    a->scores_at = at;
    a->values_at = a->scores_at + (size_t)c->scores;
    a->sums_at = a->values_at + (size_t)c->values;
    a->flags_at = a->sums_at + (size_t)c->sums;
    cla_str_append(&plan->text, "chunks of %lld batches, %lld key heads, %lld of %lld heads each, %lld rows\n",
                   (long long)c->batches, (long long)c->heads, (long long)c->members, (long long)plan->problem.group,
                   (long long)c->queries);
done:
    return status;
}

/* ---- products ---- */

static int64_t element_at(const clattn_plan *plan, size_t bytes) {
    return (int64_t)(bytes / clattn_dtype_size(plan->problem.dtype));
}

/* q or k as CLBlast gets it: itself, or its copy. */
static clattn_tensor placed(const clattn_plan *plan, const materialised *a, int which, const clattn_tensor *from) {
    if (!a->copies[which].active)
        return *from;
    clattn_tensor r = dense(from);
    r.buffer = plan->scratch;
    r.offset = element_at(plan, a->copies[which].at);
    return r;
}

static cla_gemm scores_product(const clattn_plan *plan, const materialised *a, const chunk *c) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *q = &a->q, *k = &a->k;
    const int64_t matrix = c->n * c->M, head = c->hk0 * p->group + c->m0, i = c->q_row + c->i0;
    return (cla_gemm){
        .dtype = p->dtype,
        .m = c->n,
        .n = c->M,
        .k = p->D,
        .a = {q->buffer, q->offset + c->b0 * q->stride[0] + head * q->stride[1] + i * q->stride[2], q->stride[2],
              false},
        .b = {k->buffer, k->offset + c->b0 * k->stride[0] + c->hk0 * k->stride[1] + c->k_row * k->stride[2],
              k->stride[2], true},
        .c = {plan->scratch, element_at(plan, a->scores_at), c->M, false},
        .axes = {{c->nb, q->stride[0], k->stride[0], c->nk * c->nm * matrix},
                 {c->nk, p->group * q->stride[1], k->stride[1], c->nm * matrix},
                 {c->nm, q->stride[1], 0, matrix}},
    };
}

static cla_gemm values_product(const clattn_plan *plan, const materialised *a, const chunk *c, int64_t d0, int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *o = &p->o;
    const int64_t matrix = c->n * c->M, values = c->M * nd, head = c->hk0 * p->group + c->m0, i = c->q_row + c->i0;
    return (cla_gemm){
        .dtype = p->dtype,
        .m = c->n,
        .n = nd,
        .k = c->M,
        .a = {plan->scratch, element_at(plan, a->scores_at), c->M, false},
        .b = {plan->scratch, element_at(plan, a->values_at), nd, false},
        .c = {o->buffer, o->offset + c->b0 * o->stride[0] + head * o->stride[1] + i * o->stride[2] + d0, o->stride[2],
              false},
        .axes = {{c->nb, c->nk * c->nm * matrix, c->nk * values, o->stride[0]},
                 {c->nk, c->nm * matrix, values, p->group * o->stride[1]},
                 {c->nm, matrix, 0, o->stride[1]}},
    };
}

static clattn_status check_chunk(const clattn_plan *plan, const materialised *a, const chunk *c) {
    clattn_status status = CLATTN_OK;
    const int64_t Dv = plan->problem.Dv, columns = cla_max(1, a->chunks.columns), last = (Dv - 1) / columns * columns;
    const cla_gemm scores = scores_product(plan, a, c);
    CLA_TRY(cla_gemm_check(&scores));
    for (int64_t d = 0; d < Dv; d = d < last ? last : Dv) {
        const cla_gemm values = values_product(plan, a, c, d, cla_min(columns, Dv - d));
        CLA_TRY(cla_gemm_check(&values));
    }
done:
    return status;
}

/* What CLBlast would refuse is refused with the plan: products of the first chunk, which is the largest, and the last,
 * which reaches furthest. */
static clattn_status check_products(const clattn_plan *plan, materialised *a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const cla_chunks *s = &a->chunks;
    const cla_batch *x = p->ragged ? &p->batches[p->B - 1] : NULL;
    const int64_t batches = x ? 1 : s->batches, N = x ? x->queries : p->N;
    const chunk first = {.nb = batches, .nk = s->heads, .nm = s->members, .n = s->queries, .M = p->M};
    chunk last = {.b0 = (p->B - 1) / batches * batches,
                  .hk0 = (p->Hk - 1) / s->heads * s->heads,
                  .m0 = (p->group - 1) / s->members * s->members,
                  .i0 = cla_max(0, N - 1) / s->queries * s->queries,
                  .M = x ? x->keys : p->M,
                  .q_row = x ? x->q_row : 0,
                  .k_row = x ? x->k_row : 0};
    last.nb = p->B - last.b0, last.nk = p->Hk - last.hk0, last.nm = p->group - last.m0, last.n = N - last.i0;
    a->q = placed(plan, a, Q, &p->q);
    a->k = placed(plan, a, K, &p->k);
    CLA_TRY(check_chunk(plan, a, &first));
    CLA_TRY(check_chunk(plan, a, &last));
done:
    return status;
}

/* What the keys of a row are counted for: with batch_invariant that of no batch. CLBlast sums in one order of k at
 * every size, since only its direct kernel is used, and keys past a row's end add zeros. */
static int64_t longest_row(const cla_problem *p) { return p->batch_invariant ? INT32_MAX : p->M; }

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int masks = (p->interval ? CLA_SOFTMAX_INTERVAL : 0) | (p->score ? CLA_SOFTMAX_SCORE : 0);
    materialised *a = NULL;
    CLA_TRY(cla_alloc(1, sizeof *a, "algorithm materialised", &a));
    plan->state = a;
    CLA_TRY(ask_for_copy(plan, a, Q, &p->q));
    CLA_TRY(ask_for_copy(plan, a, K, &p->k));
    CLA_TRY(ask_for_chunk(plan, a));
    CLA_TRY(check_products(plan, a));
    CLA_TRY(cla_softmax_create(plan->context, p->dtype, masks, longest_row(p), &a->softmax));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    materialised *a = plan->state;
    if (!a)
        return;
    cla_softmax_destroy(&a->softmax);
    cla_kernel_destroy(a->copy);
    cla_free(a);
    plan->state = NULL;
}

/* ---- execution ---- */

/* Enqueues the copy of q or k, if there is one. */
static clattn_status settle(clattn_plan *plan, const materialised *a, int which, const clattn_tensor *from,
                            const clattn_tensor *to) {
    if (!a->copies[which].active)
        return CLATTN_OK;
    clattn_tensor x = *from, y = *to;
    for (int axis = 0; axis < 2; axis++)
        if (y.stride[axis] == 0)
            x.shape[axis] = y.shape[axis] = 1;
    return cla_copy_strided(plan->context, a->copy, &x, &y);
}

static clattn_status multiply_scores(clattn_plan *plan, const materialised *a, const chunk *c) {
    const cla_gemm g = scores_product(plan, a, c);
    return cla_gemm_batched(plan->context, &g);
}

static clattn_status weigh(clattn_plan *plan, const materialised *a, const chunk *c) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *w = &p->weights, *lse = &p->lse, *state = &p->state;
    const int64_t heads = c->nk * c->nm;
    cla_softmax_args s = {.s_b = heads * c->n * c->M,
                          .s_h = c->n * c->M,
                          .s_i = c->M,
                          .s_0 = element_at(plan, a->scores_at),
                          .w_b = w->stride[0],
                          .w_h = w->stride[1],
                          .w_i = w->stride[2],
                          .w_j = w->stride[3],
                          .w_0 = w->offset,
                          .lse_b = lse->stride[1],
                          .lse_h = lse->stride[2],
                          .lse_i = lse->stride[3],
                          .lse_0 = lse->offset + c->q_row * lse->stride[3],
                          .st_b = state->stride[0],
                          .st_h = state->stride[1],
                          .st_i = state->stride[2],
                          .st_0 = state->offset + c->q_row * state->stride[2],
                          .sum_0 = element_at(plan, a->sums_at),
                          .b0 = (cl_int)c->b0,
                          .h0 = (cl_int)(c->hk0 * p->group + c->m0),
                          .i0 = (cl_int)c->i0,
                          .H = (cl_int)heads,
                          .N = (cl_int)c->n,
                          .M = (cl_int)c->M,
                          .has_weights = cla_present(w) && !cla_weights_by_pass(plan),
                          .has_lse = cla_present(lse),
                          .has_state = cla_present(state),
                          .form = (cl_int)p->form,
                          .paged = p->table != NULL,
                          .scale = (cl_float)p->scale,
                          .power = 1};
    memcpy(&s.scale_bits, &p->scale, sizeof s.scale_bits);
    cla_fill_mask_args(p, &s.mask);
    for (int64_t sum = 1; sum < longest_row(p); sum *= 2)
        s.power /= 2;
    return cla_softmax_rows(plan->context, &a->softmax, &a->buffers, &s, c->nb * heads * c->n);
}

static cl_int blocks_of(const chunk *c) { return (cl_int)cla_ceil_div(c->M, CLA_SOFTMAX_KEYS); }

/* Columns [d0, d0 + nd) of the chunk's values, without what is not finite. */
static clattn_status clean_values(clattn_plan *plan, const materialised *a, const chunk *c, int64_t d0, int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *v = &p->v;
    const cla_values_args s = {.v_b = v->stride[0],
                               .v_h = v->stride[1],
                               .v_j = v->stride[2],
                               .v_0 = v->offset + c->b0 * v->stride[0] + c->hk0 * v->stride[1] +
                                      c->k_row * v->stride[2] + d0,
                               .y_0 = element_at(plan, a->values_at),
                               .flag_0 = (cl_long)(a->flags_at / sizeof(cl_int)),
                               .H = (cl_int)c->nk,
                               .M = (cl_int)c->M,
                               .columns = (cl_int)nd,
                               .blocks = blocks_of(c)};
    return cla_softmax_values(plan->context, &a->softmax, &a->buffers, &s, c->nb * c->nk);
}

static clattn_status multiply_values(clattn_plan *plan, const materialised *a, const chunk *c, int64_t d0, int64_t nd) {
    const cla_gemm g = values_product(plan, a, c, d0, nd);
    return cla_gemm_batched(plan->context, &g);
}

static clattn_status finish(clattn_plan *plan, const materialised *a, const chunk *c, int64_t d0, int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *v = &p->v, *o = &p->o;
    const int64_t head = c->hk0 * p->group + c->m0, i = c->q_row + c->i0;
    const cla_outputs_args s = {.s_0 = element_at(plan, a->scores_at),
                                .v_b = v->stride[0],
                                .v_h = v->stride[1],
                                .v_j = v->stride[2],
                                .v_0 = v->offset + c->b0 * v->stride[0] + c->hk0 * v->stride[1] +
                                       c->k_row * v->stride[2] + d0,
                                .o_b = o->stride[0],
                                .o_h = o->stride[1],
                                .o_i = o->stride[2],
                                .o_0 = o->offset + c->b0 * o->stride[0] + head * o->stride[1] + i * o->stride[2] + d0,
                                .sum_0 = element_at(plan, a->sums_at),
                                .flag_0 = (cl_long)(a->flags_at / sizeof(cl_int)),
                                .B = (cl_int)c->nb,
                                .H = (cl_int)(c->nk * c->nm),
                                .N = (cl_int)c->n,
                                .M = (cl_int)c->M,
                                .Hk = (cl_int)c->nk,
                                .group = (cl_int)c->nm,
                                .columns = (cl_int)nd,
                                .blocks = blocks_of(c)};
    return cla_softmax_outputs(plan->context, &a->softmax, &a->buffers, &s);
}

static clattn_status run_chunk(clattn_plan *plan, const materialised *a, const chunk *c) {
    clattn_status status = CLATTN_OK;
    const int64_t Dv = plan->problem.Dv, columns = a->chunks.columns;
    if (c->M > 0)
        CLA_TRY(multiply_scores(plan, a, c));
    CLA_TRY(weigh(plan, a, c));
    for (int64_t d = 0; d < Dv; d += columns) {
        const int64_t nd = cla_min(columns, Dv - d);
        if (nd < Dv && c->M > 0)
            CLA_TRY(clean_values(plan, a, c, d, nd));
        CLA_TRY(multiply_values(plan, a, c, d, nd)); /* zeros without a key */
        CLA_TRY(finish(plan, a, c, d, nd));
    }
done:
    return status;
}

/* The chunks of one set of key heads, whose values are cleaned once where they fit. */
static clattn_status run_heads(clattn_plan *plan, const materialised *a, chunk c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    if (p->Dv > 0 && c.M > 0 && a->chunks.columns == p->Dv)
        CLA_TRY(clean_values(plan, a, &c, 0, p->Dv));
    for (c.m0 = 0; c.m0 < p->group; c.m0 += a->chunks.members)
        for (c.i0 = 0; c.i0 < c.N; c.i0 += a->chunks.queries) {
            c.nm = cla_min(a->chunks.members, p->group - c.m0);
            c.n = cla_min(a->chunks.queries, c.N - c.i0);
            CLA_TRY(run_chunk(plan, a, &c));
        }
done:
    return status;
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    materialised *a = plan->state;
    a->buffers = (cla_softmax_buffers){.scratch = plan->scratch,
                                       .v = p->v.buffer,
                                       .spans = plan->spans,
                                       .keep = p->keep.buffer,
                                       .drop = p->drop.buffer,
                                       .bias = p->bias.buffer,
                                       .slopes = plan->slopes,
                                       .q_segments = plan->q_segments,
                                       .k_segments = plan->k_segments,
                                       .sinks = p->sinks.buffer,
                                       .o = p->o.buffer,
                                       .lse = p->lse.buffer,
                                       .state = p->state.buffer,
                                       .weights = p->weights.buffer};
    a->q = placed(plan, a, Q, &p->q);
    a->k = placed(plan, a, K, &p->k);
    CLA_TRY(settle(plan, a, Q, &p->q, &a->q));
    CLA_TRY(settle(plan, a, K, &p->k, &a->k));
    const int64_t batches = p->ragged ? 1 : a->chunks.batches; /* sequences one at a time */
    for (int64_t b = 0; b < p->B; b += batches)
        for (int64_t hk = 0; hk < p->Hk; hk += a->chunks.heads) {
            chunk c = {.b0 = b,
                       .nb = cla_min(batches, p->B - b),
                       .hk0 = hk,
                       .nk = cla_min(a->chunks.heads, p->Hk - hk),
                       .N = p->N,
                       .M = p->M};
            if (p->ragged) {
                const cla_batch *x = &p->batches[b];
                c.N = x->queries, c.M = x->keys, c.q_row = x->q_row, c.k_row = x->k_row;
            }
            CLA_TRY(run_heads(plan, a, c));
        }
done:
    return status;
}

const cla_algorithm cla_algo_materialised = {.name = "materialised",
                                             .summary = "CLBlast for both products, row softmax between: gives weights",
                                             .applies = applies,
                                             .suits = suits,
                                             .unit_inner = true,
                                             .sums_type = true,
                                             .weights = true,
                                             .create = create,
                                             .execute = execute,
                                             .destroy = destroy};
