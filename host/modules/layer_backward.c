/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of a layer: its forward pass again, which leaves what the gradients need, and then its parts from
 * the last to the first. Rows of E lie in one slot. */
#include "modules/layer.h"
#include "modules/module.h"
#include <clattn/train.h>
#include <stdio.h>

/* ---- gradients of weights ---- */

clattn_status cla_norm_take_gradient(const clattn_norm_weights *gradient, const clattn_norm_weights *weights,
                                     const char *name) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(CLA_RESERVED(clattn_norm_weights, gradient));
    CLA_TRY(cla_check_gradient(&gradient->weight, &weights->weight, "weight"));
    CLA_TRY(cla_check_gradient(&gradient->bias, &weights->bias, "bias"));
done:
    if (status != CLATTN_OK)
        cla_error_prefix("%s: ", name);
    return status;
}

static clattn_status take_heads(const clattn_multihead_weights *given, const cla_heads *heads, const char *name,
                                cla_heads *gradients) {
    const clattn_status status = cla_heads_take_gradients(given, heads, gradients);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: ", name);
    return status;
}

clattn_status cla_layer_take_gradients(const cla_layer_parts *parts, const cla_layer *layer, cla_layer *gradients) {
    clattn_status status = CLATTN_OK;
    cla_layer g = {.has_cross = layer->has_cross};
    CLA_TRY(take_heads(parts->self_attn, &layer->self, "self_attn", &g.self));
    if (layer->has_cross)
        CLA_TRY(take_heads(parts->cross_attn, &layer->cross, "cross_attn", &g.cross));
    status = cla_feed_take_gradients(parts->feedforward, &layer->feed, &g.feed);
    if (status != CLATTN_OK) {
        cla_error_prefix("feedforward: ");
        goto done;
    }
    g.norms[0] = *parts->norm1;
    g.norms[layer->has_cross ? 1 : 2] = *parts->norm2;
    if (layer->has_cross)
        g.norms[2] = *parts->norm3;
    for (int i = 0; i < 3; i++)
        CLA_TRY(cla_norm_take_gradient(&g.norms[i], &layer->norms[i], "norm"));
    *gradients = g;
done:
    return status;
}

/* ---- parts ---- */

/* Rows: what each part takes, the sum before or behind it, and gradients. Parts: self-attention, cross attention,
 * feed-forward. */
enum { SELF, CROSS, FEED, PARTS };
enum { ROWS = 9 };

typedef struct {
    const cla_layer *layer;
    const clattn_layer_options *options;
    cla_scratch *scratch;
    const cla_layer_call *call;
    const cla_layer_back *back;
    clattn_tensor in[PARTS];  /* what a part takes: x of self-attention with norms behind */
    clattn_tensor sum[PARTS]; /* norms behind: x + f(x), which is normalised. Before: what is normalised for the part */
    clattn_tensor out, d, other; /* what a part gives; the gradient so far, and another */
    cla_attend_saved self, cross;
    cla_feed_saved feed;
    char modules[2][100];
} running;

static cla_attend attend_call(running *r, int part, const clattn_tensor *y) {
    const cla_layer_call *c = r->call;
    const bool self = part == SELF;
    cla_attend call = {.module = r->modules[part], .dtype = c->dtype, .query = r->in[part], .y = *y};
    call.key = call.value = self ? r->in[part] : c->memory;
    call.masks = self ? c->masks : c->memory_masks;
    call.saved = self ? &r->self : &r->cross;
    return call;
}

static clattn_status run_attention(running *r, int part) {
    const cla_attend call = attend_call(r, part, &r->out);
    return cla_attend_run(part == SELF ? &r->layer->self : &r->layer->cross, r->scratch, &call);
}

/* From d_y to d_query; that of the memory too. */
static clattn_status attention_back(running *r, int part, const clattn_tensor *d_y, const clattn_tensor *d_query) {
    const clattn_tensor none = {0};
    const cla_layer *g = r->back->gradients;
    const cla_attend call = attend_call(r, part, &none);
    cla_attend_back back = {.accumulate = r->back->accumulate,
                            .d_y = *d_y,
                            .d_query = *d_query,
                            .key_is_query = part == SELF,
                            .value_is_key = true};
    if (g)
        back.gradients = part == SELF ? &g->self : &g->cross;
    if (part == CROSS)
        back.d_key = r->back->d_memory, back.adds_key = r->back->adds_memory;
    return cla_attend_backward(part == SELF ? &r->layer->self : &r->layer->cross, r->scratch, &call, &back);
}

static clattn_status feed_back(running *r, const clattn_tensor *d_y, const clattn_tensor *d_x) {
    const cla_layer *g = r->back->gradients;
    const clattn_status status = cla_feed_backward(&r->layer->feed, g ? &g->feed : NULL, r->back->accumulate,
                                                   r->scratch, r->call->dtype, &r->in[FEED], &r->feed, d_y, d_x);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: feed-forward: ", r->call->module);
    return status;
}

/* x + residual, where there is one, to sum, and its norm to y. */
static clattn_status run_norm(running *r, int part, const clattn_tensor *x, const clattn_tensor *residual,
                              const clattn_tensor *sum, const clattn_tensor *y) {
    const cla_norm_call call = {.x = *x, .residual = *residual, .sum = *sum, .y = *y};
    return cla_norm_run(&r->layer->norms[part], r->options, r->scratch->context, r->call->module, "norm", &call);
}

static clattn_status norm_back(running *r, int part, const clattn_tensor *x, const clattn_tensor *d_y,
                               const clattn_tensor *d_sum, const clattn_tensor *d_x) {
    const cla_layer *g = r->back->gradients;
    clattn_norm_backward_args args = {.kind = r->options->norm,
                                      .x = *x,
                                      .weight = r->layer->norms[part].weight,
                                      .d_y = *d_y,
                                      .d_sum = *d_sum,
                                      .d_x = *d_x,
                                      .epsilon = r->options->norm_epsilon,
                                      .accumulate = r->back->accumulate};
    if (g)
        args.d_weight = g->norms[part].weight, args.d_bias = g->norms[part].bias;
    const clattn_status status = clattn_norm_backward(r->scratch->context, &args);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: norm: ", r->call->module);
    return status;
}

static clattn_status add(running *r, const clattn_tensor *a, const clattn_tensor *b, const clattn_tensor *y) {
    return clattn_add(r->scratch->context, &(clattn_add_args){.a = *a, .b = *b, .y = *y});
}

/* ---- the layer ---- */

/* norm(x + f(x)) */
static clattn_status norms_after(running *r) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    const clattn_tensor *d_y = &r->back->d_y;
    const bool cross = r->layer->has_cross;
    r->in[SELF] = r->call->x;
    CLA_TRY(run_attention(r, SELF));
    CLA_TRY(run_norm(r, SELF, &r->out, &r->in[SELF], &r->sum[SELF], cross ? &r->in[CROSS] : &r->in[FEED]));
    if (cross) {
        CLA_TRY(run_attention(r, CROSS));
        CLA_TRY(run_norm(r, CROSS, &r->out, &r->in[CROSS], &r->sum[CROSS], &r->in[FEED]));
    }
    CLA_TRY(cla_feed_save(&r->layer->feed, r->scratch, r->call->dtype, &r->in[FEED], &r->out, &r->feed));
    CLA_TRY(add(r, &r->out, &r->in[FEED], &r->sum[FEED]));
    CLA_TRY(norm_back(r, FEED, &r->sum[FEED], d_y, &none, &r->d));
    CLA_TRY(feed_back(r, &r->d, &r->other));
    CLA_TRY(add(r, &r->d, &r->other, &r->other));
    if (cross) {
        CLA_TRY(norm_back(r, CROSS, &r->sum[CROSS], &r->other, &none, &r->d));
        CLA_TRY(attention_back(r, CROSS, &r->d, &r->other));
        CLA_TRY(add(r, &r->d, &r->other, &r->other));
    }
    CLA_TRY(norm_back(r, SELF, &r->sum[SELF], &r->other, &none, &r->d));
    CLA_TRY(attention_back(r, SELF, &r->d, &r->other));
    CLA_TRY(add(r, &r->d, &r->other, &r->back->d_x));
done:
    return status;
}

/* x + f(norm(x)) */
static clattn_status norms_before(running *r) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    const clattn_tensor *d_y = &r->back->d_y;
    const bool cross = r->layer->has_cross;
    r->sum[SELF] = r->call->x;
    CLA_TRY(run_norm(r, SELF, &r->sum[SELF], &none, &none, &r->in[SELF]));
    CLA_TRY(run_attention(r, SELF));
    if (cross) {
        CLA_TRY(run_norm(r, CROSS, &r->out, &r->sum[SELF], &r->sum[CROSS], &r->in[CROSS]));
        CLA_TRY(run_attention(r, CROSS));
    }
    CLA_TRY(run_norm(r, FEED, &r->out, &r->sum[cross ? CROSS : SELF], &r->sum[FEED], &r->in[FEED]));
    CLA_TRY(cla_feed_save(&r->layer->feed, r->scratch, r->call->dtype, &r->in[FEED], &none, &r->feed));
    CLA_TRY(feed_back(r, d_y, &r->other));
    CLA_TRY(norm_back(r, FEED, &r->sum[FEED], &r->other, d_y, &r->d));
    if (cross) {
        CLA_TRY(attention_back(r, CROSS, &r->d, &r->other));
        CLA_TRY(norm_back(r, CROSS, &r->sum[CROSS], &r->other, &r->d, &r->d));
    }
    CLA_TRY(attention_back(r, SELF, &r->d, &r->other));
    CLA_TRY(norm_back(r, SELF, &r->sum[SELF], &r->other, &r->d, &r->back->d_x));
done:
    return status;
}

clattn_status cla_layer_backward(const cla_layer *layer, const clattn_layer_options *options, cla_scratch *scratch,
                                 const cla_layer_call *call, const cla_layer_back *back) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows[ROWS];
    running r = {.layer = layer, .options = options, .scratch = scratch, .call = call, .back = back};
    r.self =
        (cla_attend_saved){.wide = CLA_SLOT_SELF_WIDE, .heads = CLA_SLOT_SELF_HEADS, .state_slot = CLA_SLOT_SELF_STATE};
    r.cross = (cla_attend_saved){
        .wide = CLA_SLOT_CROSS_WIDE, .heads = CLA_SLOT_CROSS_HEADS, .state_slot = CLA_SLOT_CROSS_STATE};
    snprintf(r.modules[SELF], sizeof r.modules[SELF], "%s: self-attention", call->module);
    snprintf(r.modules[CROSS], sizeof r.modules[CROSS], "%s: cross attention", call->module);
    CLA_TRY(cla_scratch_take_many(scratch, CLA_SLOT_LAYER, call->dtype, 3, call->x.shape, ROWS, rows));
    for (int i = 0; i < PARTS; i++)
        r.in[i] = rows[i], r.sum[i] = rows[PARTS + i];
    r.out = rows[2 * PARTS], r.d = rows[2 * PARTS + 1], r.other = rows[2 * PARTS + 2];
    CLA_TRY(options->norm_first ? norms_before(&r) : norms_after(&r));
done:
    return status;
}
