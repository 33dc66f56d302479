/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of multi-head attention: packed or separate, in one convention, with sizes that fit together. */
#include "modules/attend.h"

#include "modules/module.h"

static clattn_status check_one_way(const clattn_multihead_weights *w) {
    clattn_status status = CLATTN_OK;
    const bool packed = cla_present(&w->in_proj);
    const bool any = cla_present(&w->q) || cla_present(&w->k) || cla_present(&w->v);
    CLA_CHECK(packed || any, CLATTN_E_ARGUMENT,
              "projections of queries, keys and values are missing: give in_proj, or q, k and v");
    CLA_CHECK(!packed || !any, CLATTN_E_ARGUMENT, "both in_proj and q, k or v are given; give one");
    CLA_CHECK(!cla_present(&w->in_bias) ||
                  !(cla_present(&w->q_bias) || cla_present(&w->k_bias) || cla_present(&w->v_bias)),
              CLATTN_E_ARGUMENT, "both in_bias and q_bias, k_bias or v_bias are given; give one");
    CLA_CHECK(cla_present(&w->bias_k) == cla_present(&w->bias_v), CLATTN_E_ARGUMENT,
              "only one of bias_k and bias_v is given");
done:
    return status;
}

/* Rows first .. first + count of a matrix or vector. */
static clattn_tensor part(const clattn_tensor *t, int64_t first, int64_t count) {
    return cla_present(t) ? clattn_tensor_slice(*t, 0, first, count) : (clattn_tensor){0};
}

static clattn_status take_packed(const clattn_multihead_weights *w, cla_heads *h) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const int64_t columns = h->H + 2 * h->Hk;
    CLA_TRY(cla_take_matrix(&w->in_proj, "in_proj", w->transposed, &h->packed));
    h->in_proj = h->packed;
    CLA_CHECK(h->packed.shape[0] % columns == 0, CLATTN_E_SHAPE,
              "in_proj %s: its %lld outputs do not divide by %lld heads of queries, keys and values",
              cla_shape_text(&w->in_proj, text, sizeof text), (long long)h->packed.shape[0], (long long)columns);
    h->D = h->Dv = h->packed.shape[0] / columns;
    h->E = h->kdim = h->vdim = h->packed.shape[1];
    const int64_t q = h->H * h->D, k = h->Hk * h->D;
    h->q = part(&h->packed, 0, q);
    h->k = part(&h->packed, q, k);
    h->v = part(&h->packed, q + k, k);
    h->kv = part(&h->packed, q, 2 * k);
done:
    return status;
}

static clattn_status take_separate(const clattn_multihead_weights *w, cla_heads *h) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_TRY(cla_take_matrix(&w->q, "q", w->transposed, &h->q));
    CLA_TRY(cla_take_matrix(&w->k, "k", w->transposed, &h->k));
    CLA_TRY(cla_take_matrix(&w->v, "v", w->transposed, &h->v));
    CLA_CHECK(h->q.shape[0] % h->H == 0, CLATTN_E_SHAPE, "q %s: its %lld outputs do not divide by %lld heads",
              cla_shape_text(&w->q, text, sizeof text), (long long)h->q.shape[0], (long long)h->H);
    h->D = h->q.shape[0] / h->H;
    CLA_CHECK(h->k.shape[0] == h->Hk * h->D, CLATTN_E_SHAPE,
              "k %s: has %lld outputs; should have %lld, %lld heads of %lld", cla_shape_text(&w->k, text, sizeof text),
              (long long)h->k.shape[0], (long long)(h->Hk * h->D), (long long)h->Hk, (long long)h->D);
    CLA_CHECK(h->v.shape[0] % h->Hk == 0, CLATTN_E_SHAPE, "v %s: its %lld outputs do not divide by %lld heads",
              cla_shape_text(&w->v, text, sizeof text), (long long)h->v.shape[0], (long long)h->Hk);
    h->Dv = h->v.shape[0] / h->Hk;
    h->E = h->q.shape[1];
    h->kdim = h->k.shape[1];
    h->vdim = h->v.shape[1];
done:
    return status;
}

static clattn_status take_biases(const clattn_multihead_weights *w, cla_heads *h) {
    clattn_status status = CLATTN_OK;
    const int64_t q = h->H * h->D, k = h->Hk * h->D, v = h->Hk * h->Dv;
    CLA_TRY(cla_check_vector(&w->in_bias, "in_bias", q + k + v));
    CLA_TRY(cla_check_vector(&w->q_bias, "q_bias", q));
    CLA_TRY(cla_check_vector(&w->k_bias, "k_bias", k));
    CLA_TRY(cla_check_vector(&w->v_bias, "v_bias", v));
    CLA_TRY(cla_check_vector(&w->out_bias, "out_bias", h->columns));
    const bool apart = cla_present(&w->q_bias) || cla_present(&w->k_bias) || cla_present(&w->v_bias);
    h->packed_bias = w->in_bias;
    h->kv_bias = part(&w->in_bias, q, k + v);
    h->q_bias = apart ? w->q_bias : part(&w->in_bias, 0, q);
    h->k_bias = apart ? w->k_bias : part(&w->in_bias, q, k);
    h->v_bias = apart ? w->v_bias : part(&w->in_bias, q + k, v);
    h->out_bias = w->out_bias;
    if (apart) /* one product has one bias */
        h->packed = h->kv = (clattn_tensor){0};
done:
    return status;
}

/* [.., 1, count] as [count]. */
static clattn_status take_last(const clattn_tensor *given, const char *name, int64_t count, clattn_tensor *last) {
    clattn_status status = CLATTN_OK;
    char text[200];
    if (!cla_present(given))
        goto done;
    CLA_TRY(cla_view_check(given, name));
    const int axis = given->rank - 1;
    CLA_CHECK(given->shape[axis] == count && clattn_tensor_elements(given) == count, CLATTN_E_SHAPE,
              "%s %s: should be [1, 1, %lld] or [%lld]", name, cla_shape_text(given, text, sizeof text),
              (long long)count, (long long)count);
    *last = *given;
    last->rank = 1;
    last->shape[0] = count;
    last->stride[0] = given->stride[axis];
done:
    return status;
}

static void count(cla_heads *h, const clattn_multihead_weights *w) {
    const clattn_tensor *const all[] = {&w->in_proj, &w->q,      &w->k,   &w->v,        &w->in_bias, &w->q_bias,
                                        &w->k_bias,  &w->v_bias, &w->out, &w->out_bias, &w->bias_k,  &w->bias_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        h->parameters += cla_count_of(all[i]);
        h->wide |= cla_is_wide(all[i]);
    }
}

clattn_status cla_heads_take(const clattn_multihead_weights *weights, const clattn_multihead_options *options,
                             cla_heads *heads) {
    clattn_status status = CLATTN_OK;
    char text[200];
    cla_heads h = {.H = options->heads, .Hk = options->key_heads ? options->key_heads : options->heads};
    CLA_TRY(CLA_RESERVED(clattn_multihead_weights, weights));
    CLA_CHECK(h.H > 0 && h.Hk > 0 && h.H <= INT32_MAX && h.Hk <= INT32_MAX && h.H % h.Hk == 0, CLATTN_E_SHAPE,
              "%lld heads and %lld key heads; heads are a multiple of key heads", (long long)options->heads,
              (long long)options->key_heads);
    CLA_TRY(check_one_way(weights));
    CLA_TRY(cla_present(&weights->in_proj) ? take_packed(weights, &h) : take_separate(weights, &h));
    CLA_CHECK(h.D > 0, CLATTN_E_SHAPE, "the heads have no dims: the projections have no outputs");
    CLA_TRY(cla_take_matrix(&weights->out, "out", weights->transposed, &h.out));
    CLA_CHECK(h.out.shape[1] == h.H * h.Dv, CLATTN_E_SHAPE,
              "out %s: has %lld inputs; should have %lld, %lld heads of %lld",
              cla_shape_text(&weights->out, text, sizeof text), (long long)h.out.shape[1], (long long)(h.H * h.Dv),
              (long long)h.H, (long long)h.Dv);
    h.columns = h.out.shape[0];
    CLA_TRY(take_biases(weights, &h));
    CLA_TRY(take_last(&weights->bias_k, "bias_k", h.Hk * h.D, &h.last_k));
    CLA_TRY(take_last(&weights->bias_v, "bias_v", h.Hk * h.Dv, &h.last_v));
    h.zeros = options->add_zero_attn;
    h.extra = cla_present(&h.last_k) + h.zeros;
    h.has_scale = options->has_scale;
    h.scale = options->scale;
    count(&h, weights);
    *heads = h;
done:
    return status;
}

/* Parts of what was given together. */
static void part_gradients(const cla_heads *h, cla_heads *g) {
    const int64_t q = h->H * h->D, k = h->Hk * h->D, v = h->Hk * h->Dv;
    if (cla_present(&h->in_proj)) {
        g->q = part(&g->in_proj, 0, q);
        g->k = part(&g->in_proj, q, k);
        g->v = part(&g->in_proj, q + k, v);
        g->kv = part(&g->in_proj, q, k + v);
        g->packed = g->in_proj;
    }
    if (cla_present(&h->packed_bias)) {
        g->q_bias = part(&g->packed_bias, 0, q);
        g->k_bias = part(&g->packed_bias, q, k);
        g->v_bias = part(&g->packed_bias, q + k, v);
        g->kv_bias = part(&g->packed_bias, q, k + v);
    }
}

clattn_status cla_heads_take_gradients(const clattn_multihead_weights *given, const cla_heads *h,
                                       cla_heads *gradients) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    const bool turned = given->transposed, joined = cla_present(&h->in_proj),
               joined_bias = cla_present(&h->packed_bias);
    cla_heads g = {0};
    CLA_TRY(CLA_RESERVED(clattn_multihead_weights, given));
    CLA_TRY(cla_take_gradient(&given->in_proj, &h->in_proj, "in_proj", turned, &g.in_proj));
    CLA_TRY(cla_take_gradient(&given->q, joined ? &none : &h->q, "q", turned, &g.q));
    CLA_TRY(cla_take_gradient(&given->k, joined ? &none : &h->k, "k", turned, &g.k));
    CLA_TRY(cla_take_gradient(&given->v, joined ? &none : &h->v, "v", turned, &g.v));
    CLA_TRY(cla_take_gradient(&given->in_bias, &h->packed_bias, "in_bias", false, &g.packed_bias));
    CLA_TRY(cla_take_gradient(&given->q_bias, joined_bias ? &none : &h->q_bias, "q_bias", false, &g.q_bias));
    CLA_TRY(cla_take_gradient(&given->k_bias, joined_bias ? &none : &h->k_bias, "k_bias", false, &g.k_bias));
    CLA_TRY(cla_take_gradient(&given->v_bias, joined_bias ? &none : &h->v_bias, "v_bias", false, &g.v_bias));
    CLA_TRY(cla_take_gradient(&given->out, &h->out, "out", turned, &g.out));
    CLA_TRY(cla_take_gradient(&given->out_bias, &h->out_bias, "out_bias", false, &g.out_bias));
    CLA_TRY(take_last(&given->bias_k, "bias_k", h->Hk * h->D, &g.last_k));
    CLA_TRY(take_last(&given->bias_v, "bias_v", h->Hk * h->Dv, &g.last_v));
    CLA_TRY(cla_check_gradient(&g.last_k, &h->last_k, "bias_k"));
    CLA_TRY(cla_check_gradient(&g.last_v, &h->last_v, "bias_v"));
    part_gradients(h, &g);
    *gradients = g;
done:
    return status;
}
