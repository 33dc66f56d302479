/* SPDX-License-Identifier: Apache-2.0 */
/* Layers. Rows of E pass through two slots: a part reads one and writes the other, or the same where it has read all
 * that it needs before it writes. */
#include "modules/layer.h"

#include "modules/module.h"
#include <stdio.h>

/* ---- weights ---- */

static clattn_status take_heads(const clattn_multihead_weights *weights, const clattn_layer_options *options,
                                const char *name, cla_heads *heads) {
    const clattn_multihead_options attention = {.heads = options->heads, .key_heads = options->key_heads};
    const clattn_status status = cla_heads_take(weights, &attention, heads);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: ", name);
    return status;
}

static clattn_status take_norm(const clattn_norm_weights *given, const char *name, int64_t E, cla_layer *layer,
                               clattn_norm_weights *norm) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(CLA_RESERVED(clattn_norm_weights, given));
    CLA_TRY(cla_check_vector(&given->weight, "weight", E));
    CLA_TRY(cla_check_vector(&given->bias, "bias", E));
    *norm = *given;
    layer->parameters += cla_count_of(&given->weight) + cla_count_of(&given->bias);
    layer->wide |= cla_is_wide(&given->weight) || cla_is_wide(&given->bias);
done:
    if (status != CLATTN_OK)
        cla_error_prefix("%s: ", name);
    return status;
}

static clattn_status check_sizes(const cla_layer *l) {
    clattn_status status = CLATTN_OK;
    const cla_heads *s = &l->self, *c = &l->cross;
    CLA_CHECK(s->columns == s->E && s->kdim == s->E && s->vdim == s->E, CLATTN_E_SHAPE,
              "self_attn: queries, keys, values and the result have %lld, %lld, %lld and %lld columns; all alike",
              (long long)s->E, (long long)s->kdim, (long long)s->vdim, (long long)s->columns);
    CLA_CHECK(!l->has_cross || (c->E == s->E && c->columns == s->E), CLATTN_E_SHAPE,
              "cross_attn: takes %lld and gives %lld columns; self_attn has %lld", (long long)c->E,
              (long long)c->columns, (long long)s->E);
    CLA_CHECK(!l->has_cross || c->kdim == c->vdim, CLATTN_E_SHAPE,
              "cross_attn: keys are of %lld columns and values of %lld; both are the memory", (long long)c->kdim,
              (long long)c->vdim);
    CLA_CHECK(l->feed.E == s->E && l->feed.columns == s->E, CLATTN_E_SHAPE,
              "feedforward: takes %lld and gives %lld columns; self_attn has %lld", (long long)l->feed.E,
              (long long)l->feed.columns, (long long)s->E);
done:
    return status;
}

clattn_status cla_layer_take(const cla_layer_parts *parts, const clattn_layer_options *options, cla_layer *layer) {
    clattn_status status = CLATTN_OK;
    cla_layer l = {.has_cross = parts->cross_attn != NULL};
    CLA_TRY(take_heads(parts->self_attn, options, "self_attn", &l.self));
    if (l.has_cross)
        CLA_TRY(take_heads(parts->cross_attn, options, "cross_attn", &l.cross));
    status = cla_feed_take(parts->feedforward, options->activation, &l.feed);
    if (status != CLATTN_OK) {
        cla_error_prefix("feedforward: ");
        goto done;
    }
    CLA_TRY(check_sizes(&l));
    l.parameters = l.self.parameters + l.cross.parameters + l.feed.parameters;
    l.wide = l.self.wide || l.cross.wide || l.feed.wide;
    CLA_TRY(take_norm(parts->norm1, "norm1", l.self.E, &l, &l.norms[0]));
    CLA_TRY(take_norm(parts->norm2, "norm2", l.self.E, &l, &l.norms[l.has_cross ? 1 : 2]));
    if (l.has_cross)
        CLA_TRY(take_norm(parts->norm3, "norm3", l.self.E, &l, &l.norms[2]));
    *layer = l;
done:
    return status;
}

/* ---- a call ---- */

clattn_status cla_norm_run(const clattn_norm_weights *weights, const clattn_layer_options *options,
                           clattn_context *context, const char *module, const char *name, const cla_norm_call *call) {
    const clattn_norm_args args = {.kind = options->norm,
                                   .x = call->x,
                                   .residual = call->residual,
                                   .sum = call->sum,
                                   .y = call->y,
                                   .weight = weights->weight,
                                   .bias = weights->bias,
                                   .epsilon = options->norm_epsilon};
    const clattn_status status = clattn_norm(context, &args);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: %s: ", module, name);
    return status;
}

typedef struct {
    const cla_layer *layer;
    const clattn_layer_options *options;
    cla_scratch *scratch;
    const cla_layer_call *call;
    clattn_tensor a, b; /* [B, N, E] */
} running;

static clattn_status self_attention(const running *r, const clattn_tensor *x, const clattn_tensor *y) {
    const cla_layer_call *c = r->call;
    char module[100];
    snprintf(module, sizeof module, "%s: self-attention", c->module);
    const cla_attend call = {.module = module,
                             .dtype = c->dtype,
                             .query = *x,
                             .key = *x,
                             .value = *x,
                             .y = *y,
                             .store = c->store,
                             .stored = c->stored,
                             .masks = c->masks};
    return cla_attend_run(&r->layer->self, r->scratch, &call);
}

static clattn_status cross_attention(const running *r, const clattn_tensor *x, const clattn_tensor *y) {
    const cla_layer_call *c = r->call;
    char module[100];
    snprintf(module, sizeof module, "%s: cross attention", c->module);
    cla_attend call = {.module = module, .dtype = c->dtype, .query = *x, .y = *y, .masks = c->memory_masks};
    if (cla_present(&c->memory_store)) {
        call.store = c->memory_store;
        call.stored = c->memory_store.shape[1];
    } else {
        call.key = call.value = c->memory;
    }
    return cla_attend_run(&r->layer->cross, r->scratch, &call);
}

static clattn_status feed_forward(const running *r, const clattn_tensor *x, const clattn_tensor *y) {
    const clattn_status status = cla_feed_run(&r->layer->feed, r->scratch, r->call->dtype, x, y);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: feed-forward: ", r->call->module);
    return status;
}

static clattn_status norm(const running *r, int which, const cla_norm_call *call) {
    static const char *const names[] = {"norm of self-attention", "norm of cross attention", "norm of feed-forward"};
    return cla_norm_run(&r->layer->norms[which], r->options, r->scratch->context, r->call->module, names[which], call);
}

/* norm(x + f(x)) */
static clattn_status run_norms_after(const running *r) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor *rows = &r->a, *other = &r->b;
    CLA_TRY(self_attention(r, &r->call->x, rows));
    CLA_TRY(norm(r, 0, &(cla_norm_call){.x = *rows, .residual = r->call->x, .y = *rows}));
    if (r->layer->has_cross) {
        CLA_TRY(cross_attention(r, rows, other));
        CLA_TRY(norm(r, 1, &(cla_norm_call){.x = *other, .residual = *rows, .y = *other}));
        rows = &r->b;
        other = &r->a;
    }
    CLA_TRY(feed_forward(r, rows, other));
    if (cla_present(&r->call->also))
        CLA_TRY(norm(r, 2, &(cla_norm_call){.x = *other, .residual = *rows, .y = r->call->also}));
    CLA_TRY(norm(r, 2, &(cla_norm_call){.x = *other, .residual = *rows, .y = r->call->y}));
done:
    return status;
}

static clattn_status add(const running *r, const clattn_tensor *y) {
    const clattn_add_args args = {.a = r->b, .b = r->a, .y = *y};
    const clattn_status status = clattn_add(r->scratch->context, &args);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: residual: ", r->call->module);
    return status;
}

/* x + f(norm(x)): b holds the sum so far, a what is normalised. */
static clattn_status run_norms_before(const running *r) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(norm(r, 0, &(cla_norm_call){.x = r->call->x, .y = r->a}));
    CLA_TRY(self_attention(r, &r->a, &r->b));
    if (r->layer->has_cross) {
        CLA_TRY(norm(r, 1, &(cla_norm_call){.x = r->b, .residual = r->call->x, .sum = r->b, .y = r->a}));
        CLA_TRY(cross_attention(r, &r->a, &r->a));
        CLA_TRY(norm(r, 2, &(cla_norm_call){.x = r->a, .residual = r->b, .sum = r->b, .y = r->a}));
    } else {
        CLA_TRY(norm(r, 2, &(cla_norm_call){.x = r->b, .residual = r->call->x, .sum = r->b, .y = r->a}));
    }
    CLA_TRY(feed_forward(r, &r->a, &r->a));
    if (cla_present(&r->call->also))
        CLA_TRY(add(r, &r->call->also));
    CLA_TRY(add(r, &r->call->y));
done:
    return status;
}

clattn_status cla_layer_run(const cla_layer *layer, const clattn_layer_options *options, cla_scratch *scratch,
                            const cla_layer_call *call) {
    clattn_status status = CLATTN_OK;
    running r = {.layer = layer, .options = options, .scratch = scratch, .call = call};
    CLA_TRY(cla_scratch_take(scratch, CLA_SLOT_A, call->dtype, 3, call->x.shape, &r.a));
    CLA_TRY(cla_scratch_take(scratch, CLA_SLOT_B, call->dtype, 3, call->x.shape, &r.b));
    CLA_TRY(options->norm_first ? run_norms_before(&r) : run_norms_after(&r));
done:
    return status;
}
