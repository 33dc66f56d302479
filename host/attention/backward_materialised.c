/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `materialised`: for a chunk of batches, heads and rows at a time CLBlast makes Q K^T and dO V^T,
 * scores_backward.cl weights P and gradients dS of them, CLBlast dV += P^T dO, dK += dS^T Q and dQ = dS K. The members
 * of a group lie below one another, so that one product sums over them; chunks follow in order. Products get rows of Q,
 * K and dO without what is not finite, which kept weights meet in scores_special (semantics.md, R2 and R3). */
#include "attention/chunks.h"
#include "attention/row_copies.h"
#include "ops/copy.h"
#include "ops/gemm.h"
#include "ops/scores_backward.h"
#include "ops/softmax.h"
#include <stdio.h>
#include <string.h>

/* As in the forward pass: more gains nothing. */
enum { ENOUGH_BYTES = 256 << 20 };

enum { Q, K, V, D_O, READ };

typedef struct {
    cla_gradient_chunks chunks;
    cla_softmax softmax;
    cla_scores scores;
    size_t at[CLA_PIECES]; /* bytes in scratch */
    cla_kernel *copy, *fill;
    cla_row_copy copies[READ];
    bool bias_apart; /* d_bias is stored in another type than it is summed in: sums lie in scratch */
    size_t bias_at;
    cla_scores_buffers buffers; /* of the execution */
    clattn_tensor read[READ];   /* as CLBlast gets them */
} gradients;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    const struct {
        const char *name;
        const clattn_tensor *t;
    } list[] = {{"q", &p->q},     {"k", &p->k},     {"v", &p->v},    {"d_o", &p->d_o},
                {"d_q", &p->d_q}, {"d_k", &p->d_k}, {"d_v", &p->d_v}};
    if (!cla_needs_opencl(p, device, reason, reason_bytes) || !cla_needs_products(device, reason, reason_bytes))
        return false;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (cla_rows_reach_too_far(p, list[i].t, list[i].name, reason, reason_bytes))
            return false;
    if (p->batch_invariant)
        snprintf(reason, reason_bytes,
                 "sums queries in chunks that depend on sizes and memory, and batch_invariant forbids that");
    return !p->batch_invariant;
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p, (void)device, (void)reason, (void)reason_bytes;
    return true;
}

/* ---- creation ---- */

/* Sums of d_bias: itself, or dense in scratch but for axes that it is summed over. */
static clattn_tensor bias_sums(const clattn_plan *plan, const gradients *a) {
    clattn_tensor t = plan->problem.d_bias;
    int64_t elements = 1;
    if (!a->bias_apart)
        return t;
    t.dtype = plan->problem.dtype;
    t.host = NULL;
    t.buffer = plan->scratch;
    t.offset = cla_scratch_element(plan, a->bias_at);
    for (int axis = 3; axis >= 0; axis--) {
        t.stride[axis] = t.stride[axis] == 0 ? 0 : elements;
        elements *= t.shape[axis];
    }
    return t;
}

static clattn_status ask_for_scratch(clattn_plan *plan, gradients *a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    cla_gradient_chunks *c = &a->chunks;
    size_t at = 0;
    char what[120];
    a->bias_apart = cla_present(&p->d_bias) && p->d_bias.dtype != p->dtype;
    if (a->bias_apart)
        CLA_TRY(cla_plan_scratch(plan, clattn_tensor_elements(&p->d_bias) * (int64_t)clattn_dtype_size(p->dtype),
                                 "sums of d_bias", &a->bias_at));
    *c = cla_gradient_chunks_choose(p, cla_min(cla_plan_scratch_left(plan), ENOUGH_BYTES));
    if (cla_gradient_chunks_bytes(c) > ENOUGH_BYTES) /* the smallest there is: the keys of a head alone take as much */
        *c = cla_gradient_chunks_choose(p, cla_plan_scratch_left(plan));
    snprintf(what, sizeof what, "%lld rows of %lld scores and their gradients",
             (long long)(c->of.batches * c->of.heads * c->of.members * c->of.queries), (long long)p->M);
    CLA_TRY(cla_plan_scratch(plan, cla_gradient_chunks_bytes(c), what, &at));
    for (int i = 0; i < CLA_PIECES; i++) {
        a->at[i] = at;
        at += (size_t)c->bytes[i];
    }
    cla_str_append(&plan->text, "chunks of %lld batches, %lld key heads, %lld of %lld heads each, %lld rows\n",
                   (long long)c->of.batches, (long long)c->of.heads, (long long)c->of.members, (long long)p->group,
                   (long long)c->of.queries);
done:
    return status;
}

/* ---- products ---- */

static int64_t piece(const clattn_plan *plan, const gradients *a, int which) {
    return cla_scratch_element(plan, a->at[which]);
}

static const clattn_tensor *given(const cla_problem *p, int which) {
    const clattn_tensor *const list[READ] = {&p->q, &p->k, &p->v, &p->d_o};
    return list[which];
}

/* The chunk's first row of a tensor of queries, or of keys. */
static int64_t query_at(const cla_problem *p, const clattn_tensor *t, const cla_chunk *c) {
    return t->offset + c->b0 * t->stride[0] + (c->hk0 * p->group + c->m0) * t->stride[1] +
           (c->q_row + c->i0) * t->stride[2];
}

static int64_t key_at(const clattn_tensor *t, const cla_chunk *c) {
    return t->offset + c->b0 * t->stride[0] + c->hk0 * t->stride[1] + c->k_row * t->stride[2];
}

/* Q K^T or dO V^T, into a piece [nb, nk, nm, n, M]. */
static cla_gemm pairs_product(const clattn_plan *plan, const gradients *a, const cla_chunk *c, int rows, int keys,
                              int to) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *x = &a->read[rows], *y = &a->read[keys];
    const int64_t matrix = c->n * c->M;
    return (cla_gemm){.dtype = p->dtype,
                      .m = c->n,
                      .n = c->M,
                      .k = x->shape[3],
                      .a = {x->buffer, query_at(p, x, c), x->stride[2], false},
                      .b = {y->buffer, key_at(y, c), y->stride[2], true},
                      .c = {plan->scratch, piece(plan, a, to), c->M, false},
                      .axes = {{c->nb, x->stride[0], y->stride[0], c->nk * c->nm * matrix},
                               {c->nk, p->group * x->stride[1], y->stride[1], c->nm * matrix},
                               {c->nm, x->stride[1], 0, matrix}}};
}

/* dQ = dS K. */
static cla_gemm queries_product(const clattn_plan *plan, const gradients *a, const cla_chunk *c) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *y = &p->d_q;
    const int64_t matrix = c->n * c->M, keys = c->M * p->D;
    return (cla_gemm){.dtype = p->dtype,
                      .m = c->n,
                      .n = p->D,
                      .k = c->M,
                      .a = {plan->scratch, piece(plan, a, CLA_PIECE_G), c->M, false},
                      .b = {plan->scratch, piece(plan, a, CLA_PIECE_K), p->D, false},
                      .c = {y->buffer, query_at(p, y, c), y->stride[2], false},
                      .axes = {{c->nb, c->nk * c->nm * matrix, c->nk * keys, y->stride[0]},
                               {c->nk, c->nm * matrix, keys, p->group * y->stride[1]},
                               {c->nm, matrix, 0, y->stride[1]}}};
}

/* What dK and dV are made of. */
typedef struct {
    int of;                         /* Q or D_O */
    int coefficients, clean, flags; /* pieces */
    const clattn_tensor *result;
} key_sums;

static key_sums sums_of(const cla_problem *p, int of) {
    if (of == Q)
        return (key_sums){Q, CLA_PIECE_G, CLA_PIECE_Q, CLA_PIECE_Q_FLAGS, &p->d_k};
    return (key_sums){D_O, CLA_PIECE_S, CLA_PIECE_O, CLA_PIECE_O_FLAGS, &p->d_v};
}

/* dK += dS^T Q, dV += P^T dO: sums over all members and queries of the chunk. */
static cla_gemm keys_product(const clattn_plan *plan, const gradients *a, const cla_chunk *c, const key_sums *s) {
    const clattn_tensor *y = s->result;
    const int64_t rows = c->nm * c->n, width = y->shape[3];
    return (cla_gemm){.dtype = plan->problem.dtype,
                      .m = c->M,
                      .n = width,
                      .k = rows,
                      .a = {plan->scratch, piece(plan, a, s->coefficients), c->M, true},
                      .b = {plan->scratch, piece(plan, a, s->clean), width, false},
                      .c = {y->buffer, key_at(y, c), y->stride[2], false},
                      .axes = {{c->nb, c->nk * rows * c->M, c->nk * rows * width, y->stride[0]},
                               {c->nk, rows * c->M, rows * width, y->stride[1]}},
                      .add = c->m0 > 0 || c->i0 > 0};
}

static clattn_status check_chunk(const clattn_plan *plan, const gradients *a, const cla_chunk *c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    cla_gemm list[5];
    int count = 0;
    list[count++] = pairs_product(plan, a, c, Q, K, CLA_PIECE_S);
    if (cla_gradients_by_scores(p))
        list[count++] = pairs_product(plan, a, c, D_O, V, CLA_PIECE_G);
    if (cla_present(&p->d_q))
        list[count++] = queries_product(plan, a, c);
    for (int of = Q; of <= D_O; of += D_O - Q) {
        const key_sums s = sums_of(p, of);
        if (cla_present(s.result))
            list[count++] = keys_product(plan, a, c, &s);
    }
    for (int i = 0; i < count; i++)
        CLA_TRY(cla_gemm_check(&list[i]));
done:
    return status;
}

static void place_inputs(const clattn_plan *plan, gradients *a) {
    for (int i = 0; i < READ; i++)
        a->read[i] = cla_row_copy_tensor(plan, &a->copies[i], given(&plan->problem, i));
}

static clattn_status check_products(const clattn_plan *plan, gradients *a) {
    clattn_status status = CLATTN_OK;
    cla_chunk ends[2];
    cla_chunk_ends(&plan->problem, &a->chunks.of, ends);
    place_inputs(plan, a);
    for (int i = 0; i < 2; i++)
        CLA_TRY(check_chunk(plan, a, &ends[i]));
done:
    return status;
}

static clattn_status create_kernels(clattn_plan *plan, gradients *a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const bool wide = p->dtype == CLATTN_F64, keyed = p->d_bias.stride[3] != 0;
    const int masks = (p->interval ? CLA_SOFTMAX_INTERVAL : 0) | (p->score ? CLA_SOFTMAX_SCORE : 0);
    const cla_softmax_key softmax = {
        .dtype = p->dtype, .masks = masks, .keys = p->M, .drops = p->dropout > 0, .backward = true};
    const cla_scores_key scores = {.dtype = p->dtype,
                                   .masks = masks,
                                   .keys = p->M,
                                   .bias = cla_present(&p->d_bias) && keyed,
                                   .rest = (cla_present(&p->d_bias) && !keyed) || cla_present(&p->d_sinks)};
    CLA_TRY(cla_softmax_create(plan->context, &softmax, &a->softmax));
    CLA_TRY(cla_scores_create(plan->context, &scores, &a->scores));
    if (a->bias_apart && !a->copy)
        CLA_TRY(cla_copy_kernel(plan->context, wide, "copy_strided", &a->copy));
    if (cla_present(&p->d_bias) || cla_present(&p->d_sinks))
        CLA_TRY(cla_copy_kernel(plan->context, wide, "fill_strided", &a->fill));
done:
    return status;
}

static clattn_status create(clattn_plan *plan) {
    static const char *const names[READ] = {"q", "k", "v", "d_o"};
    clattn_status status = CLATTN_OK;
    gradients *a = NULL;
    CLA_TRY(cla_alloc(1, sizeof *a, "backward pass of materialised", &a));
    plan->state = a;
    for (int i = 0; i < READ; i++)
        CLA_TRY(cla_row_copy_create(plan, &a->copies[i], given(&plan->problem, i), names[i], &a->copy));
    CLA_TRY(ask_for_scratch(plan, a));
    CLA_TRY(check_products(plan, a));
    CLA_TRY(create_kernels(plan, a));
    CLA_TRY(cla_gemm_test(plan->context, plan->problem.dtype));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    gradients *a = plan->state;
    if (!a)
        return;
    cla_softmax_destroy(&a->softmax);
    cla_scores_destroy(&a->scores);
    cla_kernel_destroy(a->copy);
    cla_kernel_destroy(a->fill);
    cla_free(a);
    plan->state = NULL;
}

/* ---- execution ---- */

static clattn_status multiply(clattn_plan *plan, cla_gemm g) { return cla_gemm_batched(plan->context, &g); }

static cla_scores_args args_of(const clattn_plan *plan, const gradients *a, const cla_chunk *c) {
    const cla_problem *p = &plan->problem;
    cla_scores_args s = {.s_0 = piece(plan, a, CLA_PIECE_S),
                         .g_0 = piece(plan, a, CLA_PIECE_G),
                         .row_0 = piece(plan, a, CLA_PIECE_ROWS),
                         .b0 = (cl_int)c->b0,
                         .h0 = (cl_int)(c->hk0 * p->group + c->m0),
                         .i0 = (cl_int)c->i0,
                         .B = (cl_int)c->nb,
                         .H = (cl_int)(c->nk * c->nm),
                         .N = (cl_int)c->n,
                         .M = (cl_int)c->M,
                         .by_scores = cla_gradients_by_scores(p),
                         .scale = (cl_float)p->scale};
    memcpy(&s.scale_bits, &p->scale, sizeof s.scale_bits);
    cla_fill_mask_args(p, &s.mask);
    return s;
}

/* A piece of weights, or of gradients by them. */
static clattn_status drop(clattn_plan *plan, const gradients *a, const cla_scores_args *s, int which) {
    cla_drop_args d = {.x_0 = piece(plan, a, which),
                       .b0 = s->b0,
                       .h0 = s->h0,
                       .i0 = s->i0,
                       .B = s->B,
                       .H = s->H,
                       .N = s->N,
                       .M = s->M,
                       .quads = (cl_int)cla_ceil_div(s->M, 4)};
    const cla_softmax_buffers buffers = {.scratch = plan->scratch};
    cla_fill_drop_args(&plan->problem, &d);
    return cla_softmax_drop(plan->context, &a->softmax, &buffers, &d);
}

/* Adds the chunk's part of d_bias and d_sinks. */
static clattn_status add_shared(clattn_plan *plan, const gradients *a, const cla_scores_args *s) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    if (cla_present(&p->d_bias)) {
        const clattn_tensor t = bias_sums(plan, a);
        const int64_t *stride = t.stride;
        const cla_scores_sum_args to = {.y_b = stride[0],
                                        .y_h = stride[1],
                                        .y_i = stride[2],
                                        .y_j = stride[3],
                                        .y_0 = t.offset,
                                        .batches = stride[0] ? s->B : 1,
                                        .heads = stride[1] ? s->H : 1,
                                        .rows = stride[2] ? s->N : 1,
                                        .columns = stride[3] ? (cl_int)cla_min(t.shape[3], s->M) : 1};
        CLA_TRY(
            (stride[3] ? cla_scores_bias : cla_scores_rest)(plan->context, &a->scores, &a->buffers, t.buffer, s, &to));
    }
    if (cla_present(&p->d_sinks)) {
        const cla_scores_sum_args to = {
            .y_h = 1, .y_0 = p->d_sinks.offset, .batches = 1, .heads = s->H, .rows = 1, .columns = 1, .of_sinks = 1};
        CLA_TRY(cla_scores_rest(plan->context, &a->scores, &a->buffers, p->d_sinks.buffer, s, &to));
    }
done:
    return status;
}

/* Rows of some heads without what is not finite, for a product. */
static clattn_status clean(clattn_plan *plan, const gradients *a, const clattn_tensor *t, cla_values_args s, int to,
                           int flags, int64_t batches) {
    s.v_b = t->stride[0], s.v_h = t->stride[1], s.v_j = t->stride[2];
    s.columns = (cl_int)t->shape[3];
    s.blocks = (cl_int)cla_ceil_div(s.M, CLA_SOFTMAX_KEYS);
    s.y_0 = piece(plan, a, to);
    s.flag_0 = (cl_long)(a->at[flags] / sizeof(cl_int));
    return cla_softmax_values(plan->context, &a->softmax, t->buffer, plan->scratch, &s, batches * s.H);
}

/* Everything but where x lies, how it is read, and y. */
static cla_special_args special_args(const clattn_plan *plan, const gradients *a, const cla_chunk *c,
                                     const clattn_tensor *x, const clattn_tensor *y, int flags, int coefficients) {
    return (cla_special_args){.x_b = x->stride[0],
                              .x_h = x->stride[1],
                              .x_i = x->stride[2],
                              .y_b = y->stride[0],
                              .y_h = y->stride[1],
                              .y_i = y->stride[2],
                              .c_0 = piece(plan, a, coefficients),
                              .w_0 = piece(plan, a, CLA_PIECE_S),
                              .pairs = c->n * c->M,
                              .flag_0 = (cl_long)(a->at[flags] / sizeof(cl_int)),
                              .B = (cl_int)c->nb,
                              .columns = (cl_int)y->shape[3],
                              .share = 1,
                              .members = 1};
}

static clattn_status differentiate_queries(clattn_plan *plan, const gradients *a, const cla_chunk *c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    cla_special_args s = special_args(plan, a, c, &p->k, &p->d_q, CLA_PIECE_K_FLAGS, CLA_PIECE_G);
    s.x_0 = key_at(&p->k, c);
    s.y_0 = query_at(p, &p->d_q, c);
    s.c_x = 1, s.c_y = c->M;
    s.H = (cl_int)(c->nk * c->nm), s.N = (cl_int)c->n;
    s.X = (cl_int)c->M, s.blocks = (cl_int)cla_ceil_div(c->M, CLA_SOFTMAX_KEYS);
    s.share = (cl_int)c->nm;
    CLA_TRY(multiply(plan, queries_product(plan, a, c)));
    CLA_TRY(cla_scores_special(plan->context, &a->scores, plan->scratch, p->k.buffer, p->d_q.buffer, &s));
done:
    return status;
}

static clattn_status differentiate_keys(clattn_plan *plan, const gradients *a, const cla_chunk *c, const key_sums *k) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_tensor *x = given(p, k->of), *y = k->result;
    const cla_values_args rows = {.v_0 = query_at(p, x, c), .H = (cl_int)(c->nk * c->nm), .M = (cl_int)c->n};
    cla_special_args s = special_args(plan, a, c, x, y, k->flags, k->coefficients);
    s.x_0 = rows.v_0;
    s.y_0 = key_at(y, c);
    s.c_x = c->M, s.c_y = 1;
    s.H = (cl_int)c->nk, s.N = (cl_int)c->M;
    s.X = (cl_int)c->n, s.blocks = (cl_int)cla_ceil_div(c->n, CLA_SOFTMAX_KEYS);
    s.members = (cl_int)c->nm;
    CLA_TRY(clean(plan, a, x, rows, k->clean, k->flags, c->nb));
    CLA_TRY(multiply(plan, keys_product(plan, a, c, k)));
    CLA_TRY(cla_scores_special(plan->context, &a->scores, plan->scratch, x->buffer, y->buffer, &s));
done:
    return status;
}

static clattn_status run_chunk(clattn_plan *plan, const gradients *a, const cla_chunk *c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const cla_scores_args s = args_of(plan, a, c);
    const key_sums by_k = sums_of(p, Q), by_v = sums_of(p, D_O);
    CLA_TRY(multiply(plan, pairs_product(plan, a, c, Q, K, CLA_PIECE_S)));
    if (s.by_scores)
        CLA_TRY(multiply(plan, pairs_product(plan, a, c, D_O, V, CLA_PIECE_G)));
    if (s.by_scores && p->dropout > 0)
        CLA_TRY(drop(plan, a, &s, CLA_PIECE_G));
    CLA_TRY(cla_scores_sums(plan->context, &a->scores, &a->buffers, &s));
    CLA_TRY(add_shared(plan, a, &s));
    CLA_TRY(cla_scores_gradients(plan->context, &a->scores, &a->buffers, &s));
    if (cla_present(&p->d_q))
        CLA_TRY(differentiate_queries(plan, a, c));
    if (cla_present(&p->d_k))
        CLA_TRY(differentiate_keys(plan, a, c, &by_k));
    if (cla_present(&p->d_v) && p->Dv > 0) {
        if (p->dropout > 0)
            CLA_TRY(drop(plan, a, &s, CLA_PIECE_S));
        CLA_TRY(differentiate_keys(plan, a, c, &by_v));
    }
done:
    return status;
}

/* The chunks of one set of key heads, whose keys are cleaned once. */
static clattn_status run_heads(clattn_plan *plan, const gradients *a, cla_chunk c) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const cla_values_args keys = {.v_0 = key_at(&p->k, &c), .H = (cl_int)c.nk, .M = (cl_int)c.M};
    if (c.M == 0 || c.N == 0) /* gradients are zeros already: fill.c */
        return CLATTN_OK;
    if (cla_present(&p->d_q))
        CLA_TRY(clean(plan, a, &p->k, keys, CLA_PIECE_K, CLA_PIECE_K_FLAGS, c.nb));
    for (c.m0 = 0; c.m0 < p->group; c.m0 += a->chunks.of.members)
        for (c.i0 = 0; c.i0 < c.N; c.i0 += a->chunks.of.queries) {
            cla_chunk_cut(p, &a->chunks.of, &c);
            CLA_TRY(run_chunk(plan, a, &c));
        }
done:
    return status;
}

static clattn_status start(clattn_plan *plan, gradients *a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const bool wide = p->dtype == CLATTN_F64;
    const clattn_tensor bias = bias_sums(plan, a);
    a->buffers = (cla_scores_buffers){.scratch = plan->scratch,
                                      .spans = plan->spans,
                                      .keep = p->keep.buffer,
                                      .drop = p->drop.buffer,
                                      .bias = p->bias.buffer,
                                      .slopes = plan->slopes,
                                      .q_segments = plan->q_segments,
                                      .k_segments = plan->k_segments,
                                      .sinks = p->sinks.buffer};
    place_inputs(plan, a);
    for (int i = 0; i < READ; i++)
        CLA_TRY(cla_row_copy_run(plan, &a->copies[i], a->copy, given(p, i)));
    if (a->fill) { /* both may be absent, but not at once */
        CLA_TRY(cla_fill_strided(plan->context, a->fill, wide, &bias, 0.0));
        CLA_TRY(cla_fill_strided(plan->context, a->fill, wide, &p->d_sinks, 0.0));
    }
done:
    return status;
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    gradients *a = plan->state;
    const cla_chunk_sizes *sizes = &a->chunks.of;
    CLA_TRY(start(plan, a));
    for (int64_t b = 0; b < p->B; b += p->ragged ? 1 : sizes->batches)
        for (int64_t hk = 0; hk < p->Hk; hk += sizes->heads)
            CLA_TRY(run_heads(plan, a, cla_chunk_of_heads(p, sizes, b, hk)));
    if (a->bias_apart) {
        const clattn_tensor bias = bias_sums(plan, a);
        CLA_TRY(cla_copy_strided(plan->context, a->copy, &bias, &p->d_bias));
    }
done:
    return status;
}

const cla_algorithm cla_backward_materialised = {.name = "materialised",
                                                 .summary = "CLBlast for all products, gradients of scores between",
                                                 .applies = applies,
                                                 .suits = suits,
                                                 .unit_inner = true,
                                                 .sums_type = true,
                                                 .create = create,
                                                 .execute = execute,
                                                 .destroy = destroy};
