/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention: projections, attention on views of their rows as heads, and the projection of the result.
 * Nothing is copied: keys and values lie side by side in the rows that one product writes. */
#include "modules/attend.h"

#include "modules/module.h"

static clattn_status linear(clattn_context *context, const cla_attend *c, const char *what, const clattn_tensor *x,
                            const clattn_tensor *w, const clattn_tensor *bias, const clattn_tensor *y) {
    const clattn_linear_args args = {.x = *x, .w = *w, .bias = *bias, .y = *y};
    const clattn_status status = clattn_linear(context, &args);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: %s: ", c->module, what);
    return status;
}

clattn_tensor cla_as_heads(const clattn_tensor *rows, int64_t first, int64_t H, int64_t D) {
    static const int swap[] = {0, 2, 1, 3};
    return clattn_tensor_permute(clattn_tensor_split(clattn_tensor_slice(*rows, 2, first, H * D), 2, H), swap);
}

/* ---- keys and values ---- */

/* Into rows [B, M, Hk D + Hk Dv]. */
static clattn_status project_keys(const cla_heads *h, clattn_context *context, const cla_attend *c,
                                  const clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    if (cla_present(&h->kv) && cla_same_view(&c->key, &c->value)) {
        CLA_TRY(linear(context, c, "projection of keys and values", &c->key, &h->kv, &h->kv_bias, rows));
        goto done;
    }
    const clattn_tensor k = clattn_tensor_slice(*rows, 2, 0, h->Hk * h->D);
    const clattn_tensor v = clattn_tensor_slice(*rows, 2, h->Hk * h->D, h->Hk * h->Dv);
    CLA_TRY(linear(context, c, "projection of keys", &c->key, &h->k, &h->k_bias, &k));
    CLA_TRY(linear(context, c, "projection of values", &c->value, &h->v, &h->v_bias, &v));
done:
    return status;
}

/* A row that is the same for all batches, or zeros: what a sum of no terms is with that as its bias. */
static clattn_status append(clattn_context *context, const cla_attend *c, const clattn_tensor *row,
                            const clattn_tensor *to) {
    const int64_t x_shape[] = {to->shape[0], to->shape[1], 0}, w_shape[] = {to->shape[2], 0};
    const clattn_tensor x = clattn_tensor_buffer(NULL, to->dtype, 3, x_shape);
    const clattn_tensor w = clattn_tensor_buffer(NULL, to->dtype, 2, w_shape);
    return linear(context, c, "keys behind the others", &x, &w, row, to);
}

/* bias_k and bias_v, then zeros, behind M rows. */
static clattn_status append_extra(const cla_heads *h, clattn_context *context, const cla_attend *c,
                                  const clattn_tensor *rows, int64_t M) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    const clattn_tensor k = clattn_tensor_slice(*rows, 2, 0, h->Hk * h->D);
    const clattn_tensor v = clattn_tensor_slice(*rows, 2, h->Hk * h->D, h->Hk * h->Dv);
    for (int i = 0; i < 2; i++) {
        if (i == 0 ? !cla_present(&h->last_k) : !h->zeros)
            continue;
        const clattn_tensor row_k = clattn_tensor_slice(k, 1, M, 1), row_v = clattn_tensor_slice(v, 1, M, 1);
        CLA_TRY(append(context, c, i == 0 ? &h->last_k : &none, &row_k));
        CLA_TRY(append(context, c, i == 0 ? &h->last_v : &none, &row_v));
        M++;
    }
done:
    return status;
}

clattn_status cla_attend_store(const cla_heads *h, clattn_context *context, const cla_attend *c) {
    clattn_status status = CLATTN_OK;
    const int64_t M = c->key.shape[1];
    const clattn_tensor rows = clattn_tensor_slice(c->store, 1, c->stored, M);
    CLA_TRY(project_keys(h, context, c, &rows));
    CLA_TRY(append_extra(h, context, c, &c->store, c->stored + M));
done:
    return status;
}

/* ---- one call ---- */

typedef struct {
    clattn_tensor q;  /* rows of [H D] */
    clattn_tensor kv; /* rows of [Hk D | Hk Dv] */
} projected;

static bool is_self(const cla_attend *c) {
    return cla_present(&c->key) && cla_same_view(&c->query, &c->key) && cla_same_view(&c->query, &c->value);
}

/* Self-attention: rows of [H D | Hk D | Hk Dv], by one product where the weights are packed. */
static clattn_status project_rows(const cla_heads *h, cla_scratch *scratch, const cla_attend *c, projected *p) {
    clattn_status status = CLATTN_OK;
    const int64_t q = h->H * h->D, row = cla_heads_row(h);
    const int64_t shape[] = {c->query.shape[0], c->query.shape[1], q + row};
    clattn_tensor rows = {0};
    CLA_TRY(cla_scratch_take(scratch, c->saved ? c->saved->wide : CLA_SLOT_WIDE, c->dtype, 3, shape, &rows));
    if (c->saved)
        c->saved->rows = rows;
    p->q = clattn_tensor_slice(rows, 2, 0, q);
    p->kv = clattn_tensor_slice(rows, 2, q, row);
    if (cla_present(&h->packed)) {
        CLA_TRY(linear(scratch->context, c, "projection of queries, keys and values", &c->query, &h->packed,
                       &h->packed_bias, &rows));
    } else {
        CLA_TRY(linear(scratch->context, c, "projection of queries", &c->query, &h->q, &h->q_bias, &p->q));
        CLA_TRY(project_keys(h, scratch->context, c, &p->kv));
    }
done:
    return status;
}

/* Queries, and behind them in the slot keys and values where they are not kept elsewhere. */
static clattn_status project_apart(const cla_heads *h, cla_scratch *scratch, const cla_attend *c, projected *p) {
    clattn_status status = CLATTN_OK;
    const int64_t B = c->query.shape[0], N = c->query.shape[1], M = cla_present(&c->key) ? c->key.shape[1] : 0;
    const int64_t q_shape[] = {B, N, h->H * h->D}, kv_shape[] = {B, M + h->extra, cla_heads_row(h)};
    const bool kept = cla_present(&c->store);
    const clattn_tensor q = clattn_tensor_buffer(NULL, c->dtype, 3, q_shape);
    const clattn_tensor kv = clattn_tensor_buffer(NULL, c->dtype, 3, kv_shape);
    const int64_t begin = (clattn_tensor_elements(&q) + 31) / 32 * 32;
    const int64_t all = begin + (kept ? 0 : clattn_tensor_elements(&kv));
    clattn_tensor pool = {0};
    CLA_CHECK(clattn_tensor_elements(&q) >= 0 && clattn_tensor_elements(&kv) >= 0, CLATTN_E_SHAPE,
              "%s: more elements than 64 bits count", c->module);
    CLA_TRY(cla_scratch_take(scratch, c->saved ? c->saved->wide : CLA_SLOT_WIDE, c->dtype, 1, &all, &pool));
    p->q = clattn_tensor_buffer(pool.buffer, c->dtype, 3, q_shape);
    CLA_TRY(linear(scratch->context, c, "projection of queries", &c->query, &h->q, &h->q_bias, &p->q));
    if (kept) {
        if (cla_present(&c->key))
            CLA_TRY(cla_attend_store(h, scratch->context, c));
        p->kv = clattn_tensor_slice(c->store, 1, 0, c->stored + M);
        goto done;
    }
    p->kv = clattn_tensor_buffer(pool.buffer, c->dtype, 3, kv_shape);
    p->kv.offset = begin;
    const clattn_tensor given = clattn_tensor_slice(p->kv, 1, 0, M);
    CLA_TRY(project_keys(h, scratch->context, c, &given));
    CLA_TRY(append_extra(h, scratch->context, c, &p->kv, M));
done:
    return status;
}

clattn_attention_args cla_attend_args(const cla_heads *h, const cla_attend *c, const clattn_tensor *q,
                                      const clattn_tensor *kv, const clattn_tensor *result) {
    clattn_attention_args args = {.q = cla_as_heads(q, 0, h->H, h->D),
                                  .k = cla_as_heads(kv, 0, h->Hk, h->D),
                                  .v = cla_as_heads(kv, h->Hk * h->D, h->Hk, h->Dv),
                                  .o = cla_as_heads(result, 0, h->H, h->Dv),
                                  .has_scale = h->has_scale,
                                  .scale = h->scale};
    cla_masks_apply(&c->masks, &args);
    return args;
}

static clattn_status save(const cla_heads *h, cla_scratch *scratch, const cla_attend *c, bool together,
                          const projected *p, const clattn_tensor *result, clattn_tensor *state) {
    clattn_status status = CLATTN_OK;
    cla_attend_saved *saved = c->saved;
    const int64_t shape[] = {c->query.shape[0], h->H, c->query.shape[1], 2};
    CLA_TRY(cla_scratch_take(scratch, saved->state_slot, c->dtype, 4, shape, state));
    saved->together = together;
    saved->q = p->q, saved->kv = p->kv;
    saved->result = *result;
    saved->state = *state;
done:
    return status;
}

clattn_status cla_attend_run(const cla_heads *h, cla_scratch *scratch, const cla_attend *c) {
    clattn_status status = CLATTN_OK;
    const int64_t shape[] = {c->query.shape[0], c->query.shape[1], h->H * h->Dv};
    const bool together = is_self(c) && h->extra == 0 && !cla_present(&c->store);
    clattn_tensor result = {0};
    projected p = {0};
    CLA_TRY(together ? project_rows(h, scratch, c, &p) : project_apart(h, scratch, c, &p));
    CLA_TRY(cla_scratch_take(scratch, c->saved ? c->saved->heads : CLA_SLOT_HEADS, c->dtype, 3, shape, &result));
    clattn_attention_args args = cla_attend_args(h, c, &p.q, &p.kv, &result);
    args.weights = c->weights;
    args.weights_mean = c->weights_mean;
    if (c->saved)
        CLA_TRY(save(h, scratch, c, together, &p, &result, &args.state));
    status = clattn_attention(scratch->context, &args);
    if (status != CLATTN_OK) {
        cla_error_prefix("%s: attention: ", c->module);
        goto done;
    }
    if (cla_present(&c->y))
        CLA_TRY(linear(scratch->context, c, "projection of the result", &result, &h->out, &h->out_bias, &c->y));
done:
    return status;
}
