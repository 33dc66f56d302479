/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes, types, defaults and mask bits of an attention call. Knows no device and no algorithm. */
#include "attention/problem.h"

#include "attention/gradients.h"
#include "attention/mask.h"
#include "attention/pages.h"
#include "attention/results.h"
#include "base/dropout.h"
#include "base/error.h"
#include "base/mem.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <math.h>
#include <string.h>

enum { TEXT = 200 };

#define FIELD(name, written)                                                                                           \
    { #name, offsetof(cla_problem, name), written }
const cla_tensor_field cla_tensor_fields[CLA_TENSORS] = {FIELD(q, CLA_NEVER),
                                                         FIELD(k, CLA_NEVER),
                                                         FIELD(v, CLA_NEVER),
                                                         FIELD(o, CLA_FORWARD),
                                                         FIELD(lse, CLA_FORWARD),
                                                         FIELD(weights, CLA_FORWARD),
                                                         FIELD(column_sums, CLA_FORWARD),
                                                         FIELD(entropy, CLA_FORWARD),
                                                         FIELD(keep, CLA_NEVER),
                                                         FIELD(drop, CLA_NEVER),
                                                         FIELD(bias, CLA_NEVER),
                                                         FIELD(sinks, CLA_NEVER),
                                                         FIELD(state, CLA_FORWARD),
                                                         FIELD(d_o, CLA_NEVER),
                                                         FIELD(d_q, CLA_BACKWARD),
                                                         FIELD(d_k, CLA_BACKWARD),
                                                         FIELD(d_v, CLA_BACKWARD),
                                                         FIELD(d_bias, CLA_BACKWARD),
                                                         FIELD(d_sinks, CLA_BACKWARD)};
#undef FIELD

/* The type of the sums: f64 where anything is f64. */
static clattn_dtype sums_of(const clattn_attention_args *args) {
    const clattn_tensor *const all[] = {&args->q, &args->k, &args->v, &args->o, &args->bias};
    for (int i = 0; i < 5; i++)
        if (all[i]->rank > 0 && all[i]->dtype == CLATTN_F64)
            return CLATTN_F64;
    return CLATTN_F32;
}

/* Checks one of q, k, v, o and lifts it to rank 4. */
static clattn_status take_main(const clattn_tensor *t, const char *name, int rank, clattn_tensor *out) {
    if (t->rank == 0)
        return cla_error(CLATTN_E_ARGUMENT, "%s: is missing", name);
    if (t->rank < 2 || t->rank > 4)
        return cla_error(CLATTN_E_SHAPE,
                         "%s: rank %d; attention takes rank 2 [seq, dim], 3 [head, seq, dim] or 4 [batch, "
                         "head, seq, dim]",
                         name, t->rank);
    if (t->rank != rank)
        return cla_error(CLATTN_E_SHAPE, "%s: rank %d, but q has rank %d; give all of q, k, v, o the same rank", name,
                         t->rank, rank);
    clattn_status status = cla_view_check(t, name);
    if (status != CLATTN_OK)
        return status;
    const bool key = *name == 'k' || *name == 'v';
    if (!cla_is_float(t->dtype) && !(cla_is_quantised_cache(t->dtype) && key))
        return cla_error(CLATTN_E_DTYPE, "%s: is %s; attention takes f32, f64, f16 and bf16%s: convert it", name,
                         clattn_dtype_name(t->dtype),
                         cla_is_quantised(t->dtype) ? ", and q8_0 and q4_0 as k and v" : "");
    *out = cla_view_lift(t);
    return cla_view_storage(NULL, t, name, *name == 'o' ? 0 : CLA_READ); /* o: written, or read by the backward pass */
}

static clattn_status take_shapes(cla_problem *p, const clattn_attention_args *args) {
    char text[TEXT], other[TEXT];
    const clattn_tensor *q = &p->q, *k = &p->k, *v = &p->v, *o = &p->o;
#define SHAPE(t) cla_shape_text(t, text, TEXT)
    p->B = q->shape[0], p->H = q->shape[1], p->N = q->shape[2], p->D = q->shape[3];
    p->Hk = k->shape[1], p->M = k->shape[2], p->Dv = v->shape[3];
    const clattn_status status = cla_pages_shape(p, args);
    if (status != CLATTN_OK)
        return status;
    if (!p->page_size && (k->shape[0] != p->B || v->shape[0] != p->B))
        return cla_error(CLATTN_E_SHAPE, "k, v: batch %lld and %lld, but q has %lld", (long long)k->shape[0],
                         (long long)v->shape[0], (long long)p->B);
    if (k->shape[3] != p->D)
        return cla_error(CLATTN_E_SHAPE, "k %s: head dim %lld, but q has %lld", SHAPE(k), (long long)k->shape[3],
                         (long long)p->D);
    if (v->shape[1] != p->Hk || v->shape[2] != k->shape[2])
        return cla_error(CLATTN_E_SHAPE, "k %s and v %s: heads or keys differ", SHAPE(k),
                         cla_shape_text(v, other, TEXT));
    if (o->shape[0] != p->B || o->shape[1] != p->H || o->shape[2] != p->N || o->shape[3] != p->Dv)
        return cla_error(CLATTN_E_SHAPE, "o %s: should be [%lld, %lld, %lld, %lld], from q and v", SHAPE(o),
                         (long long)p->B, (long long)p->H, (long long)p->N, (long long)p->Dv);
    if (p->D == 0)
        return cla_error(CLATTN_E_SHAPE, "q %s: head dim 0 leaves nothing to compare", SHAPE(q));
    if (p->H > 0 && (p->Hk == 0 || p->H % p->Hk != 0))
        return cla_error(CLATTN_E_SHAPE, "k: %lld key heads do not divide %lld query heads", (long long)p->Hk,
                         (long long)p->H);
    p->group = p->Hk > 0 ? p->H / p->Hk : 1;
    if (p->N > CLA_LARGEST_SIZE || p->M > CLA_LARGEST_SIZE || p->D > CLA_LARGEST_SIZE || p->Dv > CLA_LARGEST_SIZE)
        return cla_error(CLATTN_E_SHAPE, "q, k, v: sizes above %d are not supported: N %lld, M %lld, D %lld, Dv %lld",
                         CLA_LARGEST_SIZE, (long long)p->N, (long long)p->M, (long long)p->D, (long long)p->Dv);
    if (p->B > CLA_LARGEST_SIZE || p->H > CLA_LARGEST_SIZE)
        return cla_error(CLATTN_E_SHAPE, "q: sizes above %d are not supported: B %lld, H %lld", CLA_LARGEST_SIZE,
                         (long long)p->B, (long long)p->H);
#undef SHAPE
    return CLATTN_OK;
}

static clattn_status take_mask(const clattn_tensor *t, const char *name, const cla_problem *p, clattn_tensor *out) {
    const int64_t want[4] = {p->B, p->H, p->N, p->M};
    char text[TEXT];
    if (t->rank == 0)
        return CLATTN_OK;
    clattn_status status = cla_view_check(t, name);
    if (status != CLATTN_OK)
        return status;
    if (t->rank < 2 || t->rank > 4)
        return cla_error(CLATTN_E_SHAPE, "%s %s: rank %d; masks have rank 2 to 4, so write [1, M] for one row", name,
                         cla_shape_text(t, text, TEXT), t->rank);
    *out = cla_view_lift(t);
    for (int i = 0; i < 4; i++) {
        if (p->short_masks && i == 3 && out->shape[3] < want[3])
            continue;
        if (out->shape[i] != want[i] && out->shape[i] != 1)
            return cla_error(
                CLATTN_E_SHAPE,
                "%s %s: does not broadcast from the right to [%lld, %lld, %lld, %lld]: %lld is neither 1 nor "
                "%lld%s",
                name, cla_shape_text(t, text, TEXT), (long long)p->B, (long long)p->H, (long long)p->N, (long long)p->M,
                (long long)out->shape[i], (long long)want[i],
                i == 3 && out->shape[3] < want[3] ? "; with short_masks the missing keys are not seen" : "");
        if (out->shape[i] == 1)
            out->stride[i] = 0;
        out->shape[i] = want[i];
    }
    return cla_view_storage(NULL, t, name, CLA_READ);
}

static clattn_status take_masks(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    const struct {
        const clattn_tensor *t;
        const char *name;
        clattn_tensor *out;
    } booleans[] = {{&args->keep, "keep", &p->keep}, {&args->drop, "drop", &p->drop}};
    for (int i = 0; i < 2; i++) {
        CLA_TRY(take_mask(booleans[i].t, booleans[i].name, p, booleans[i].out));
        CLA_CHECK(booleans[i].t->rank == 0 || booleans[i].t->dtype == CLATTN_BOOL || booleans[i].t->dtype == CLATTN_U8,
                  CLATTN_E_DTYPE, "%s: is %s; a mask of yes and no is bool or u8, an additive one is `bias`",
                  booleans[i].name, clattn_dtype_name(booleans[i].t->dtype));
    }
    CLA_TRY(take_mask(&args->bias, "bias", p, &p->bias));
    CLA_CHECK(args->bias.rank == 0 || cla_is_float(args->bias.dtype), CLATTN_E_DTYPE,
              "bias: is %s; an additive mask is of a float type, one of yes and no is `keep` or `drop`",
              clattn_dtype_name(args->bias.dtype));
    p->score = args->keep.rank > 0 || args->drop.rank > 0 || args->bias.rank > 0 || p->slopes || p->q_segments ||
               p->softcap > 0;
done:
    return status;
}

static clattn_status take_scale(cla_problem *p, const clattn_attention_args *args) {
    p->scale = args->has_scale ? args->scale : 1.0 / sqrt((double)p->D);
    p->softcap = args->softcap;
    if (!isfinite(p->scale) || (p->dtype != CLATTN_F64 && !isfinite((float)p->scale)))
        return cla_error(CLATTN_E_ARGUMENT, "scale: %g is not a finite number of type %s", p->scale,
                         clattn_dtype_name(p->dtype));
    if (!(p->softcap >= 0) || !isfinite((float)p->softcap) || (p->softcap > 0 && (float)p->softcap == 0))
        return cla_error(CLATTN_E_ARGUMENT, "softcap: %g; it is 0 (none) or a number above that f32 holds", p->softcap);
    return CLATTN_OK;
}

static clattn_status take_slopes(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    if (!args->alibi_slopes)
        return CLATTN_OK;
    CLA_TRY(cla_alloc((size_t)p->H, sizeof *p->slopes, "alibi_slopes", &p->slopes));
    for (int64_t h = 0; h < p->H; h++) {
        CLA_CHECK(isfinite(args->alibi_slopes[h]), CLATTN_E_ARGUMENT,
                  "alibi_slopes: head %lld has %g, not a finite number", (long long)h, (double)args->alibi_slopes[h]);
        p->slopes[h] = args->alibi_slopes[h];
    }
done:
    return status;
}

static clattn_status take_segments(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK((args->query_segments != NULL) == (args->key_segments != NULL), CLATTN_E_ARGUMENT,
              "%s_segments: are missing; give both or none", args->query_segments ? "key" : "query");
    if (!args->query_segments)
        return CLATTN_OK;
    const size_t queries = (size_t)(p->B * p->N), keys = (size_t)(p->B * p->M);
    CLA_TRY(cla_alloc(queries, sizeof(int32_t), "query_segments", &p->q_segments));
    CLA_TRY(cla_alloc(keys, sizeof(int32_t), "key_segments", &p->k_segments));
    memcpy(p->q_segments, args->query_segments, queries * sizeof(int32_t));
    memcpy(p->k_segments, args->key_segments, keys * sizeof(int32_t));
done:
    return status;
}

static clattn_status take_sinks(cla_problem *p, const clattn_attention_args *args) {
    const clattn_tensor *t = &args->sinks;
    char text[TEXT];
    if (t->rank == 0)
        return CLATTN_OK;
    clattn_status status = cla_view_check(t, "sinks");
    if (status != CLATTN_OK)
        return status;
    if (t->rank != 1 || t->shape[0] != p->H)
        return cla_error(CLATTN_E_SHAPE, "sinks %s: should be [%lld], one a query head", cla_shape_text(t, text, TEXT),
                         (long long)p->H);
    if (t->dtype != p->dtype)
        return cla_error(CLATTN_E_DTYPE, "sinks: are %s, but the sums here are %s", clattn_dtype_name(t->dtype),
                         clattn_dtype_name(p->dtype));
    if (t->stride[0] != 1 && p->H > 1)
        return cla_error(CLATTN_E_SHAPE, "sinks: have stride %lld; give them one after another",
                         (long long)t->stride[0]);
    p->sinks = cla_view_lift(t);
    return cla_view_storage(NULL, t, "sinks", CLA_READ);
}

/* Which weights are dropped follows from one number of 64 bits: each offset moves it far. */
static clattn_status take_dropout(cla_problem *p, const clattn_attention_args *args) {
    if (!(args->dropout >= 0 && args->dropout < 1))
        return cla_error(CLATTN_E_ARGUMENT, "dropout: %g; it is a probability from 0 (none) to below 1", args->dropout);
    p->dropout = cla_dropout_probability(args->dropout);
    p->dropout_key = args->dropout_seed + UINT64_C(0x9E3779B97F4A7C15) * args->dropout_offset;
    return CLATTN_OK;
}

/* Everything after the shapes. */
static clattn_status take_options(cla_problem *p, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(!p->ragged ||
                  (args->weights.rank == 0 && args->keep.rank == 0 && args->drop.rank == 0 && args->bias.rank == 0),
              CLATTN_E_UNSUPPORTED, "sequences: cannot be combined with weights, keep, drop or bias");
    if (!p->backward)
        CLA_TRY(cla_results_take(p, args));
    CLA_TRY(take_scale(p, args));
    CLA_TRY(take_dropout(p, args));
    CLA_TRY(take_slopes(p, args));
    CLA_TRY(take_segments(p, args));
    CLA_TRY(take_sinks(p, args));
    CLA_TRY(take_masks(p, args));
    CLA_TRY(cla_intervals_take(p, args));
    CLA_TRY(cla_pages_take(p, args));
done:
    return status;
}

static clattn_status init(cla_problem *problem, const clattn_attention_args *args,
                          const clattn_attention_backward_args *gradients) {
    clattn_status status = CLATTN_OK;
    cla_problem p = {.backward = gradients != NULL};
    const int rank = args->q.rank;
    CLA_TRY(CLA_RESERVED(clattn_attention_args, args));
    if (gradients)
        CLA_TRY(CLA_RESERVED(clattn_attention_backward_args, gradients));
    CLA_TRY(take_main(&args->q, "q", rank, &p.q));
    CLA_TRY(take_main(&args->k, "k", rank, &p.k));
    CLA_TRY(take_main(&args->v, "v", rank, &p.v));
    CLA_TRY(take_main(&args->o, "o", rank, &p.o));
    p.dtype = sums_of(args);
    p.short_masks = args->short_masks;
    CLA_TRY(take_shapes(&p, args));
    CLA_TRY(cla_sequences_take(&p, args));
    CLA_TRY(take_options(&p, args));
    if (gradients)
        CLA_TRY(cla_gradients_take(&p, gradients));
    CLA_CHECK(args->self_check >= 0, CLATTN_E_ARGUMENT, "self_check: %lld rows; give 0 (none) or more",
              (long long)args->self_check);
    CLA_CHECK(args->self_check == 0 || p.dropout == 0, CLATTN_E_UNSUPPORTED,
              "self_check: rows are not computed again with dropout");
    p.self_check = args->self_check;
    p.max_workspace = args->max_workspace;
    p.batch_invariant = args->batch_invariant;
    *problem = p;
    p = (cla_problem){0};
done:
    cla_problem_free(&p);
    if (status != CLATTN_OK)
        *problem = (cla_problem){0};
    return status;
}

clattn_status cla_problem_init(cla_problem *problem, const clattn_attention_args *args) {
    return init(problem, args, NULL);
}

clattn_status cla_problem_init_backward(cla_problem *problem, const clattn_attention_backward_args *args) {
    clattn_attention_args forward = args->forward; /* without its other results */
    forward.lse = forward.weights = forward.column_sums = forward.entropy = (clattn_tensor){0};
    forward.weights_form = CLATTN_WEIGHTS_SOFTMAX;
    forward.weights_mean = false;
    forward.weights_queries = forward.weights_heads = NULL;
    forward.weights_query_count = forward.weights_head_count = 0;
    forward.self_check = 0;
    return init(problem, &forward, args);
}

void cla_problem_free(cla_problem *problem) {
    cla_free(problem->batches);
    cla_free(problem->slopes);
    cla_free(problem->q_segments);
    cla_free(problem->k_segments);
    cla_free(problem->table);
    cla_free(problem->form_queries);
    cla_free(problem->form_heads);
    *problem = (cla_problem){0};
}

void clattn_alibi_slopes(int64_t H, float *slopes) {
    int64_t power = 1;
    while (power * 2 <= H)
        power *= 2;
    for (int64_t h = 0; h < H; h++)
        slopes[h] = (float)(h < power ? exp2(-8.0 * (double)(h + 1) / (double)power)
                                      : exp2(-4.0 * (double)(2 * (h - power) + 1) / (double)power));
}
