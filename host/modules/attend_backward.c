/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of multi-head attention: of the result's projection, of attention on views of rows as heads, and of
 * the projections of queries, keys and values. */
#include "modules/attend.h"
#include "modules/module.h"
#include <clattn/backward.h>
#include <clattn/train.h>

typedef struct {
    const cla_heads *h;
    cla_scratch *scratch;
    const cla_attend *c;
    const cla_attend_back *b;
    clattn_tensor d_result;          /* [B, N, H Dv] */
    clattn_tensor d_rows, d_q, d_kv; /* as what was saved */
} backward;

/* One projection: its weight, where its gradient goes, and whether it is added there. */
typedef struct {
    const char *what;
    const clattn_tensor *x, *w;
    clattn_tensor d_y;
    const clattn_tensor *d_w, *d_bias; /* both NULL: not wanted */
    const clattn_tensor *d_x;          /* absent: not wanted */
    bool add;
} projection;

static clattn_status project_back(const backward *r, const projection *p) {
    clattn_status status = CLATTN_OK;
    clattn_context *context = r->scratch->context;
    clattn_linear_backward_args args = {.x = *p->x, .w = *p->w, .d_y = p->d_y, .accumulate = r->b->accumulate};
    const bool wanted = cla_present(p->d_x);
    if (p->d_w)
        args.d_w = *p->d_w, args.d_bias = *p->d_bias;
    if (wanted && p->add)
        CLA_TRY(cla_scratch_take(r->scratch, CLA_SLOT_D_MORE, r->c->dtype, 3, p->x->shape, &args.d_x));
    else
        args.d_x = *p->d_x;
    CLA_TRY(clattn_linear_backward(context, &args));
    if (wanted && p->add)
        CLA_TRY(clattn_add(context, &(clattn_add_args){.a = *p->d_x, .b = args.d_x, .y = *p->d_x}));
done:
    if (status != CLATTN_OK)
        cla_error_prefix("%s: %s: ", r->c->module, p->what);
    return status;
}

static clattn_status result_back(backward *r) {
    clattn_status status = CLATTN_OK;
    const cla_attend_saved *saved = r->c->saved;
    const cla_heads *g = r->b->gradients;
    CLA_TRY(cla_scratch_take(r->scratch, CLA_SLOT_D_HEADS, r->c->dtype, 3, saved->result.shape, &r->d_result));
    const projection p = {.what = "projection of the result",
                          .x = &saved->result,
                          .w = &r->h->out,
                          .d_y = r->b->d_y,
                          .d_w = g ? &g->out : NULL,
                          .d_bias = g ? &g->out_bias : NULL,
                          .d_x = &r->d_result};
    CLA_TRY(project_back(r, &p));
done:
    return status;
}

/* Gradients lie as what was saved does. */
static clattn_status attention_back(backward *r) {
    clattn_status status = CLATTN_OK;
    const cla_attend_saved *saved = r->c->saved;
    const cla_heads *h = r->h;
    clattn_tensor d_rows[2] = {{0}};
    if (saved->together) {
        const int64_t q = h->H * h->D;
        CLA_TRY(cla_scratch_take(r->scratch, CLA_SLOT_D_WIDE, r->c->dtype, 3, saved->rows.shape, &r->d_rows));
        r->d_q = clattn_tensor_slice(r->d_rows, 2, 0, q);
        r->d_kv = clattn_tensor_slice(r->d_rows, 2, q, cla_heads_row(h));
    } else {
        const int64_t most = clattn_tensor_elements(&saved->q) > clattn_tensor_elements(&saved->kv)
                                 ? clattn_tensor_elements(&saved->q)
                                 : clattn_tensor_elements(&saved->kv);
        CLA_TRY(cla_scratch_take_many(r->scratch, CLA_SLOT_D_WIDE, r->c->dtype, 1, &most, 2, d_rows));
        r->d_q = clattn_tensor_buffer(d_rows[0].buffer, r->c->dtype, 3, saved->q.shape);
        r->d_kv = clattn_tensor_buffer(d_rows[1].buffer, r->c->dtype, 3, saved->kv.shape);
        r->d_kv.offset = d_rows[1].offset;
    }
    clattn_attention_backward_args args = {.forward = cla_attend_args(h, r->c, &saved->q, &saved->kv, &saved->result),
                                           .d_o = cla_as_heads(&r->d_result, 0, h->H, h->Dv),
                                           .d_q = cla_as_heads(&r->d_q, 0, h->H, h->D),
                                           .d_k = cla_as_heads(&r->d_kv, 0, h->Hk, h->D),
                                           .d_v = cla_as_heads(&r->d_kv, h->Hk * h->D, h->Hk, h->Dv)};
    args.forward.state = saved->state;
    CLA_TRY(clattn_attention_backward(r->scratch->context, &args));
done:
    if (status != CLATTN_OK)
        cla_error_prefix("%s: attention: ", r->c->module);
    return status;
}

/* bias_k and bias_v stand behind the M keys, for all batches. */
static clattn_status extra_back(const backward *r, int64_t M) {
    clattn_status status = CLATTN_OK;
    const cla_heads *h = r->h, *g = r->b->gradients;
    if (!g || !cla_present(&h->last_k))
        goto done;
    const clattn_tensor row = clattn_tensor_slice(r->d_kv, 1, M, 1);
    const clattn_sum_args sums[] = {
        {.x = clattn_tensor_slice(row, 2, 0, h->Hk * h->D), .y = g->last_k, .accumulate = r->b->accumulate},
        {.x = clattn_tensor_slice(row, 2, h->Hk * h->D, h->Hk * h->Dv),
         .y = g->last_v,
         .accumulate = r->b->accumulate}};
    for (int i = 0; i < 2; i++)
        if (cla_present(&sums[i].y))
            CLA_TRY(clattn_sum(r->scratch->context, &sums[i]));
done:
    return status;
}

/* Keys and values: by one product where their weights lie together and both are of the same rows. */
static clattn_status keys_back(const backward *r) {
    clattn_status status = CLATTN_OK;
    const cla_heads *h = r->h, *g = r->b->gradients;
    const cla_attend_back *b = r->b;
    const int64_t M = r->c->key.shape[1];
    const clattn_tensor d_kv = clattn_tensor_slice(r->d_kv, 1, 0, M);
    const clattn_tensor *d_key = b->key_is_query ? &b->d_query : &b->d_key;
    const bool add = b->key_is_query || b->adds_key;
    projection k = {"projection of keys", &r->c->key, &h->k, .d_x = d_key, .add = add};
    projection v = {"projection of values", &r->c->value, &h->v, .d_x = &b->d_value};
    k.d_y = clattn_tensor_slice(d_kv, 2, 0, h->Hk * h->D);
    v.d_y = clattn_tensor_slice(d_kv, 2, h->Hk * h->D, h->Hk * h->Dv);
    if (b->value_is_key)
        v.d_x = d_key, v.add = true;
    if (g)
        k.d_w = &g->k, k.d_bias = &g->k_bias, v.d_w = &g->v, v.d_bias = &g->v_bias;
    if (cla_present(&h->kv) && b->value_is_key) { /* gradients lie as weights do */
        k.w = &h->kv, k.d_y = d_kv;
        if (g)
            k.d_w = &g->kv, k.d_bias = &g->kv_bias;
        CLA_TRY(project_back(r, &k));
    } else {
        CLA_TRY(project_back(r, &k));
        CLA_TRY(project_back(r, &v));
    }
    CLA_TRY(extra_back(r, M));
done:
    return status;
}

clattn_status cla_attend_backward(const cla_heads *h, cla_scratch *scratch, const cla_attend *c,
                                  const cla_attend_back *b) {
    clattn_status status = CLATTN_OK;
    const cla_heads *g = b->gradients;
    backward r = {.h = h, .scratch = scratch, .c = c, .b = b};
    CLA_TRY(result_back(&r));
    CLA_TRY(attention_back(&r));
    const bool at_once = c->saved->together && cla_present(&h->packed);
    projection q = {"projection of queries", &c->query, &h->q, .d_y = r.d_q, .d_x = &b->d_query};
    if (g)
        q.d_w = &g->q, q.d_bias = &g->q_bias;
    if (at_once && b->key_is_query && b->value_is_key) {
        q.w = &h->packed, q.d_y = r.d_rows;
        if (g)
            q.d_w = &g->packed, q.d_bias = &g->packed_bias;
        CLA_TRY(project_back(&r, &q));
        goto done;
    }
    CLA_TRY(project_back(&r, &q));
    CLA_TRY(keys_back(&r));
done:
    return status;
}
