/* SPDX-License-Identifier: Apache-2.0 */
/* One layer of an encoder or a decoder: self-attention, perhaps cross attention, and feed-forward, each with a residual
 * and a norm. */
#ifndef CLA_LAYER_H
#define CLA_LAYER_H

#include "modules/attend.h"
#include "modules/feed.h"

typedef struct cla_layer {
    cla_heads self, cross;
    bool has_cross;
    cla_feed feed;
    clattn_norm_weights norms[3]; /* of self-attention, cross attention, feed-forward */
    bool wide;
    int64_t parameters;
} cla_layer;

/* What layers of both kinds are made of; cross_attn and norm3 NULL: an encoder's. */
typedef struct cla_layer_parts {
    const clattn_multihead_weights *self_attn, *cross_attn;
    const clattn_feedforward_weights *feedforward;
    const clattn_norm_weights *norm1, *norm2, *norm3;
} cla_layer_parts;

clattn_status cla_layer_take(const cla_layer_parts *parts, const clattn_layer_options *options, cla_layer *layer);

typedef struct cla_layer_call {
    const char *module; /* for messages: "encoder: layer 3" */
    clattn_dtype dtype;
    clattn_tensor x, y;   /* [B, N, E]; y may be x */
    clattn_tensor also;   /* the result once more, or absent */
    clattn_tensor memory; /* [B, M, its dim]; absent: no cross attention, or all is in the store */
    cla_masks masks, memory_masks;
    clattn_tensor store; /* of self-attention, or absent */
    int64_t stored;
    clattn_tensor memory_store; /* of cross attention, or absent: its keys and values */
} cla_layer_call;

clattn_status cla_layer_run(const cla_layer *layer, const clattn_layer_options *options, cla_scratch *scratch,
                            const cla_layer_call *call);

/* layer_backward.c: the forward pass again, but for y, and then back. */
typedef struct cla_layer_back {
    const cla_layer *gradients; /* taken as weights are; NULL: none */
    bool accumulate;
    clattn_tensor d_y, d_x; /* [B, N, E]; d_x may be d_y */
    clattn_tensor d_memory; /* or absent */
    bool adds_memory;       /* d_memory is added to */
} cla_layer_back;
clattn_status cla_layer_backward(const cla_layer *layer, const clattn_layer_options *options, cla_scratch *scratch,
                                 const cla_layer_call *call, const cla_layer_back *back);
clattn_status cla_layer_take_gradients(const cla_layer_parts *parts, const cla_layer *layer, cla_layer *gradients);
clattn_status cla_norm_take_gradient(const clattn_norm_weights *gradient, const clattn_norm_weights *weights,
                                     const char *name);

/* y = norm(x), with the options' kind and epsilon. residual, sum: as clattn_norm has them. */
typedef struct cla_norm_call {
    clattn_tensor x, residual, sum, y;
} cla_norm_call;
clattn_status cla_norm_run(const clattn_norm_weights *weights, const clattn_layer_options *options,
                           clattn_context *context, const char *module, const char *name, const cla_norm_call *call);

#endif
