/* SPDX-License-Identifier: Apache-2.0 */
/* `materialised`: QK^T by CLBlast into a buffer of scores, row softmax with masks in place, PV by CLBlast; a chunk of
 * batches, heads and rows at a time. V goes through scratch without what is not finite, so that a weight of 0 times it
 * is 0; kept weights meet the rest in softmax_outputs (semantics.md, R2 and R3). */
#include "attention/chunks.h"
#include "attention/row_copies.h"
#include "ops/gemm.h"
#include "ops/softmax.h"
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
    cla_row_copy copies[COPIES];
    cla_softmax_buffers buffers; /* of the execution */
    clattn_tensor q, k;          /* as CLBlast gets them */
} materialised;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    return cla_needs_opencl(p, device, reason, reason_bytes) && cla_needs_products(device, reason, reason_bytes) &&
           !cla_rows_reach_too_far(p, &p->q, "q", reason, reason_bytes) &&
           !cla_rows_reach_too_far(p, &p->k, "k", reason, reason_bytes) &&
           !cla_rows_reach_too_far(p, &p->o, "o", reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

/* ---- creation ---- */

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
             (long long)(c->of.batches * c->of.heads * c->of.members * c->of.queries), (long long)plan->problem.M,
             (long long)c->columns);
    CLA_TRY(cla_plan_scratch(plan, cla_chunks_bytes(c), what, &at));
    a->scores_at = at;
    a->values_at = a->scores_at + (size_t)c->scores;
    a->sums_at = a->values_at + (size_t)c->values;
    a->flags_at = a->sums_at + (size_t)c->sums;
    cla_str_append(&plan->text, "chunks of %lld batches, %lld key heads, %lld of %lld heads each, %lld rows\n",
                   (long long)c->of.batches, (long long)c->of.heads, (long long)c->of.members,
                   (long long)plan->problem.group, (long long)c->of.queries);
done:
    return status;
}

/* ---- products ---- */

static cla_gemm scores_product(const clattn_plan *plan, const materialised *a, const cla_chunk *c) {
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
        .c = {plan->scratch, cla_scratch_element(plan, a->scores_at), c->M, false},
        .axes = {{c->nb, q->stride[0], k->stride[0], c->nk * c->nm * matrix},
                 {c->nk, p->group * q->stride[1], k->stride[1], c->nm * matrix},
                 {c->nm, q->stride[1], 0, matrix}},
    };
}

static cla_gemm values_product(const clattn_plan *plan, const materialised *a, const cla_chunk *c, int64_t d0,
                               int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *o = &p->o;
    const int64_t matrix = c->n * c->M, values = c->M * nd, head = c->hk0 * p->group + c->m0, i = c->q_row + c->i0;
    return (cla_gemm){
        .dtype = p->dtype,
        .m = c->n,
        .n = nd,
        .k = c->M,
        .a = {plan->scratch, cla_scratch_element(plan, a->scores_at), c->M, false},
        .b = {plan->scratch, cla_scratch_element(plan, a->values_at), nd, false},
        .c = {o->buffer, o->offset + c->b0 * o->stride[0] + head * o->stride[1] + i * o->stride[2] + d0, o->stride[2],
              false},
        .axes = {{c->nb, c->nk * c->nm * matrix, c->nk * values, o->stride[0]},
                 {c->nk, c->nm * matrix, values, p->group * o->stride[1]},
                 {c->nm, matrix, 0, o->stride[1]}},
    };
}

static clattn_status check_chunk(const clattn_plan *plan, const materialised *a, const cla_chunk *c) {
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
    cla_chunk ends[2];
    cla_chunk_ends(p, &a->chunks.of, ends);
    a->q = cla_row_copy_tensor(plan, &a->copies[Q], &p->q);
    a->k = cla_row_copy_tensor(plan, &a->copies[K], &p->k);
    for (int i = 0; i < 2; i++)
        CLA_TRY(check_chunk(plan, a, &ends[i]));
done:
    return status;
}

/* What the keys of a row are counted for: with batch_invariant that of no batch. CLBlast sums in one order of k at
 * every size, since only its direct kernel is used, and keys past a row's end add zeros. */
static int64_t longest_row(const cla_problem *p) { return p->batch_invariant ? INT32_MAX : p->M; }

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const cla_softmax_key key = {.dtype = p->dtype,
                                 .masks = (p->interval ? CLA_SOFTMAX_INTERVAL : 0) | (p->score ? CLA_SOFTMAX_SCORE : 0),
                                 .keys = longest_row(p),
                                 .drops = p->dropout > 0};
    materialised *a = NULL;
    CLA_TRY(cla_alloc(1, sizeof *a, "algorithm materialised", &a));
    plan->state = a;
    CLA_TRY(cla_row_copy_create(plan, &a->copies[Q], &p->q, "q", &a->copy));
    CLA_TRY(cla_row_copy_create(plan, &a->copies[K], &p->k, "k", &a->copy));
    CLA_TRY(ask_for_chunk(plan, a));
    CLA_TRY(check_products(plan, a));
    CLA_TRY(cla_softmax_create(plan->context, &key, &a->softmax));
    CLA_TRY(cla_gemm_test(plan->context, p->dtype));
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

static clattn_status multiply_scores(clattn_plan *plan, const materialised *a, const cla_chunk *c) {
    const cla_gemm g = scores_product(plan, a, c);
    return cla_gemm_batched(plan->context, &g);
}

static clattn_status weigh(clattn_plan *plan, const materialised *a, const cla_chunk *c) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *w = &p->weights, *lse = &p->lse, *state = &p->state;
    const int64_t heads = c->nk * c->nm;
    cla_softmax_args s = {.s_b = heads * c->n * c->M,
                          .s_h = c->n * c->M,
                          .s_i = c->M,
                          .s_0 = cla_scratch_element(plan, a->scores_at),
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
                          .sum_0 = cla_scratch_element(plan, a->sums_at),
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

/* Weights are dropped once the caller has its own. */
static clattn_status drop_weights(clattn_plan *plan, const materialised *a, const cla_chunk *c) {
    const cla_problem *p = &plan->problem;
    cla_drop_args s = {.x_0 = cla_scratch_element(plan, a->scores_at),
                       .b0 = (cl_int)c->b0,
                       .h0 = (cl_int)(c->hk0 * p->group + c->m0),
                       .i0 = (cl_int)c->i0,
                       .B = (cl_int)c->nb,
                       .H = (cl_int)(c->nk * c->nm),
                       .N = (cl_int)c->n,
                       .M = (cl_int)c->M,
                       .quads = (cl_int)cla_ceil_div(c->M, 4)};
    cla_fill_drop_args(p, &s);
    return cla_softmax_drop(plan->context, &a->softmax, &a->buffers, &s);
}

static cl_int blocks_of(const cla_chunk *c) { return (cl_int)cla_ceil_div(c->M, CLA_SOFTMAX_KEYS); }

/* Columns [d0, d0 + nd) of the chunk's values, without what is not finite. */
static clattn_status clean_values(clattn_plan *plan, const materialised *a, const cla_chunk *c, int64_t d0,
                                  int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *v = &p->v;
    const cla_values_args s = {.v_b = v->stride[0],
                               .v_h = v->stride[1],
                               .v_j = v->stride[2],
                               .v_0 = v->offset + c->b0 * v->stride[0] + c->hk0 * v->stride[1] +
                                      c->k_row * v->stride[2] + d0,
                               .y_0 = cla_scratch_element(plan, a->values_at),
                               .flag_0 = (cl_long)(a->flags_at / sizeof(cl_int)),
                               .H = (cl_int)c->nk,
                               .M = (cl_int)c->M,
                               .columns = (cl_int)nd,
                               .blocks = blocks_of(c)};
    return cla_softmax_values(plan->context, &a->softmax, p->v.buffer, plan->scratch, &s, c->nb * c->nk);
}

static clattn_status multiply_values(clattn_plan *plan, const materialised *a, const cla_chunk *c, int64_t d0,
                                     int64_t nd) {
    const cla_gemm g = values_product(plan, a, c, d0, nd);
    return cla_gemm_batched(plan->context, &g);
}

static clattn_status finish(clattn_plan *plan, const materialised *a, const cla_chunk *c, int64_t d0, int64_t nd) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *v = &p->v, *o = &p->o;
    const int64_t head = c->hk0 * p->group + c->m0, i = c->q_row + c->i0;
    const cla_outputs_args s = {.s_0 = cla_scratch_element(plan, a->scores_at),
                                .v_b = v->stride[0],
                                .v_h = v->stride[1],
                                .v_j = v->stride[2],
                                .v_0 = v->offset + c->b0 * v->stride[0] + c->hk0 * v->stride[1] +
                                       c->k_row * v->stride[2] + d0,
                                .o_b = o->stride[0],
                                .o_h = o->stride[1],
                                .o_i = o->stride[2],
                                .o_0 = o->offset + c->b0 * o->stride[0] + head * o->stride[1] + i * o->stride[2] + d0,
                                .sum_0 = cla_scratch_element(plan, a->sums_at),
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

static clattn_status run_chunk(clattn_plan *plan, const materialised *a, const cla_chunk *c) {
    clattn_status status = CLATTN_OK;
    const int64_t Dv = plan->problem.Dv, columns = a->chunks.columns;
    if (c->M > 0)
        CLA_TRY(multiply_scores(plan, a, c));
    CLA_TRY(weigh(plan, a, c));
    if (plan->problem.dropout > 0)
        CLA_TRY(drop_weights(plan, a, c));
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
static clattn_status run_heads(clattn_plan *plan, const materialised *a, cla_chunk c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    if (p->Dv > 0 && c.M > 0 && a->chunks.columns == p->Dv)
        CLA_TRY(clean_values(plan, a, &c, 0, p->Dv));
    for (c.m0 = 0; c.m0 < p->group; c.m0 += a->chunks.of.members)
        for (c.i0 = 0; c.i0 < c.N; c.i0 += a->chunks.of.queries) {
            cla_chunk_cut(p, &a->chunks.of, &c);
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
    a->q = cla_row_copy_tensor(plan, &a->copies[Q], &p->q);
    a->k = cla_row_copy_tensor(plan, &a->copies[K], &p->k);
    CLA_TRY(cla_row_copy_run(plan, &a->copies[Q], a->copy, &p->q));
    CLA_TRY(cla_row_copy_run(plan, &a->copies[K], a->copy, &p->k));
    const cla_chunk_sizes *sizes = &a->chunks.of;
    for (int64_t b = 0; b < p->B; b += p->ragged ? 1 : sizes->batches)
        for (int64_t hk = 0; hk < p->Hk; hk += sizes->heads)
            CLA_TRY(run_heads(plan, a, cla_chunk_of_heads(p, sizes, b, hk)));
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
                                             .long_rows = true,
                                             .create = create,
                                             .execute = execute,
                                             .destroy = destroy};
