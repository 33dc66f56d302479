/* SPDX-License-Identifier: Apache-2.0 */
/* Layers one after another, and a norm behind them: what encoders and decoders share. */
#ifndef CLA_STACK_H
#define CLA_STACK_H

#include "modules/layer.h"

enum { CLA_STACK_LAYERS = 65536 }; /* at most */

typedef struct cla_stack {
    const char *module; /* "encoder" */
    cla_scratch scratch;
    clattn_layer_options options;
    cla_layer *layers;
    int64_t count, E;
    bool has_norm, wide;
    clattn_norm_weights norm;
    int64_t parameters;
} cla_stack;

/* part(weights, i) gives the parts of layer i. */
typedef cla_layer_parts (*cla_part_of)(const void *weights, int64_t i);
typedef struct cla_stack_weights {
    const void *weights;
    cla_part_of part;
    int64_t count;
    bool has_norm;
    const clattn_norm_weights *norm;
} cla_stack_weights;

/* *stack is zeroed; cla_stack_free after a failure too. */
clattn_status cla_stack_take(clattn_context *context, const char *module, const cla_stack_weights *weights,
                             const clattn_layer_options *options, cla_stack *stack);
void cla_stack_free(cla_stack *stack);

typedef struct cla_stack_call {
    clattn_dtype dtype;
    clattn_tensor x, y;   /* as the caller gives them */
    clattn_tensor memory; /* [B, M, its dim], or absent */
    cla_masks masks, memory_masks;
    const clattn_tensor *hidden;                 /* [layers] or NULL */
    const clattn_tensor *stores, *memory_stores; /* [layers] or NULL */
    int64_t stored;
} cla_stack_call;

/* Checks x and y, and gives x as [B, N, E]. */
clattn_status cla_stack_rows(const cla_stack *stack, const clattn_tensor *x, const clattn_tensor *y,
                             clattn_tensor *rows);
/* x and y are checked, as d_y is in the backward pass. */
clattn_status cla_stack_run(cla_stack *stack, const cla_stack_call *call);

/* stack_backward.c. `call` is that of the forward pass but for y; hidden are what layers gave, of all whose output a
 * layer, or the norm, takes. */
typedef struct cla_stack_back {
    const cla_stack_weights *gradients; /* as weights are; NULL: none */
    bool accumulate;
    clattn_tensor d_y, d_x; /* as the caller gives them; d_x may be absent */
    clattn_tensor d_memory; /* [B, M, its dim], or absent */
} cla_stack_back;
clattn_status cla_stack_backward(cla_stack *stack, const cla_stack_call *call, const cla_stack_back *back);
/* As [B, N, E], of x's shape. */
clattn_status cla_stack_like(const cla_stack *stack, const clattn_tensor *given, const char *name,
                             const clattn_tensor *x, clattn_tensor *rows);

#endif
