/* SPDX-License-Identifier: Apache-2.0 */
/* Operations with their gradients, run alike: inputs by number, one output. */
#ifndef OP_GRADIENTS_H
#define OP_GRADIENTS_H

#include "op_arrays.h"

typedef enum { LINEAR, NORM, ACTIVATE, SOFTMAX, ADD, EMBED, LOSS } operation;
/* Inputs that have gradients. */
enum { INPUTS = 4 };
/* linear: x, w, bias. norm: x, residual, weight, bias. activate: x, up. softmax: x. add: a, b. embed: table, add.
 * loss: logits. */

typedef struct {
    operation op;
    int rank;          /* of y; loss: of logits */
    int64_t shape[5];  /* of y; linear: of x; loss: of logits */
    int64_t N;         /* linear: columns of y; embed: rows of the table */
    int ranks[INPUTS]; /* of inputs that broadcast, from the right; 0: absent, and the default for those that do not */
    int ones;          /* bits: inputs whose first axis has size 1 */
    bool has[INPUTS];  /* optional ones */
    clattn_activation activation;
    clattn_norm_kind kind;
    int axes; /* normalised; softmax: its axis */
    clattn_loss_reduction reduction;
    double smoothing;
    clattn_dtype type, d_type; /* of inputs, of gradients */
    op_layout layout, d_layout;
    bool buffers, accumulate;
} backward_case;

/* Shape of input k; rank 0: absent. */
static inline int input_shape(const backward_case *c, int k, int64_t *shape) {
    static const int counts[] = {
        [LINEAR] = 3, [NORM] = 4, [ACTIVATE] = 2, [SOFTMAX] = 1, [ADD] = 2, [EMBED] = 2, [LOSS] = 1};
    const int last = c->rank - 1;
    if (k >= counts[c->op] || !c->has[k])
        return 0;
    memcpy(shape, c->shape, sizeof c->shape);
    if (c->op == LINEAR && k > 0) {
        shape[0] = c->N, shape[1] = c->shape[last];
        return k == 1 ? 2 : 1;
    }
    if (c->op == EMBED && k == 0) {
        shape[0] = c->N, shape[1] = c->shape[last];
        return 2;
    }
    if (c->ranks[k] > 0) {
        memcpy(shape, c->shape + c->rank - c->ranks[k], (size_t)c->ranks[k] * sizeof *shape);
        if (c->ones >> k & 1)
            shape[0] = 1;
        return c->ranks[k];
    }
    return c->rank;
}

static inline int output_shape(const backward_case *c, int64_t *shape) {
    memcpy(shape, c->shape, sizeof c->shape);
    if (c->op == LOSS)
        shape[0] = 1;
    if (c->op == LINEAR)
        shape[c->rank - 1] = c->N;
    return c->op == LOSS ? 1 : c->rank;
}

/* Ids of rows or classes: some often, some never; of the loss some ignored. Other operations take none. */
static inline clattn_tensor make_ids(const backward_case *c, int64_t *ids) {
    const clattn_tensor t = clattn_tensor_host(ids, CLATTN_I64, c->rank - 1, c->shape);
    const int64_t below = c->op == LOSS ? c->shape[c->rank - 1] : c->N;
    oracle_random random = {3};
    for (int64_t i = 0; below > 0 && i < clattn_tensor_elements(&t); i++)
        ids[i] = i % 5 == 4 ? -7 : i % 3 == 0 ? below / 2 : oracle_below(&random, below);
    return t;
}

static inline void forward(clattn_context *context, const backward_case *c, const clattn_tensor *in,
                           const clattn_tensor *ids, clattn_tensor y) {
    switch (c->op) {
    case LINEAR:
        SUCCEEDS(clattn_linear(
            context,
            &(clattn_linear_args){.x = in[0], .w = in[1], .bias = in[2], .y = y, .activation = c->activation}));
        break;
    case NORM:
        SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.kind = c->kind,
                                                          .x = in[0],
                                                          .residual = in[1],
                                                          .weight = in[2],
                                                          .bias = in[3],
                                                          .y = y,
                                                          .axes = c->axes}));
        break;
    case ACTIVATE:
        SUCCEEDS(clattn_activate(
            context, &(clattn_activate_args){.x = in[0], .up = in[1], .y = y, .activation = c->activation}));
        break;
    case SOFTMAX:
        SUCCEEDS(
            clattn_softmax(context, &(clattn_softmax_args){.x = in[0], .y = y, .has_axis = true, .axis = c->axes}));
        break;
    case ADD:
        SUCCEEDS(clattn_add(context, &(clattn_add_args){.a = in[0], .b = in[1], .y = y}));
        break;
    case EMBED:
        SUCCEEDS(clattn_embed(
            context,
            &(clattn_embed_args){.table = in[0], .ids = *ids, .add = in[1], .y = y, .has_scale = true, .scale = 0.7}));
        break;
    case LOSS:
        SUCCEEDS(clattn_cross_entropy(context, &(clattn_cross_entropy_args){.logits = in[0],
                                                                            .targets = *ids,
                                                                            .loss = y,
                                                                            .reduction = c->reduction,
                                                                            .has_ignore = true,
                                                                            .ignore = -7,
                                                                            .smoothing = c->smoothing,
                                                                            .has_scale = true,
                                                                            .scale = 1.5}));
        break;
    }
}

/* d[k] is the gradient by input k, for which there is `extra`: z of a linear layer, y of a softmax. Of a norm, d[1] is
 * not given, since it is d[0]. */
static inline void backward(clattn_context *context, const backward_case *c, const clattn_tensor *in,
                            const clattn_tensor *ids, clattn_tensor extra, clattn_tensor d_y, const clattn_tensor *d) {
    switch (c->op) {
    case LINEAR:
        SUCCEEDS(clattn_linear_backward(context, &(clattn_linear_backward_args){.x = in[0],
                                                                                .w = in[1],
                                                                                .z = extra,
                                                                                .d_y = d_y,
                                                                                .d_x = d[0],
                                                                                .d_w = d[1],
                                                                                .d_bias = d[2],
                                                                                .activation = c->activation,
                                                                                .accumulate = c->accumulate}));
        break;
    case NORM:
        SUCCEEDS(clattn_norm_backward(context, &(clattn_norm_backward_args){.kind = c->kind,
                                                                            .x = in[0],
                                                                            .residual = in[1],
                                                                            .weight = in[2],
                                                                            .d_y = d_y,
                                                                            .d_x = d[0],
                                                                            .d_weight = d[2],
                                                                            .d_bias = d[3],
                                                                            .axes = c->axes,
                                                                            .accumulate = c->accumulate}));
        break;
    case ACTIVATE:
        SUCCEEDS(clattn_activate_backward(
            context, &(clattn_activate_backward_args){
                         .x = in[0], .up = in[1], .d_y = d_y, .d_x = d[0], .d_up = d[1], .activation = c->activation}));
        break;
    case SOFTMAX:
        SUCCEEDS(clattn_softmax_backward(
            context,
            &(clattn_softmax_backward_args){.y = extra, .d_y = d_y, .d_x = d[0], .has_axis = true, .axis = c->axes}));
        break;
    case ADD:
        for (int k = 0; k < 2; k++)
            SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = d_y, .y = d[k], .accumulate = c->accumulate}));
        break;
    case EMBED:
        SUCCEEDS(clattn_embed_backward(context, &(clattn_embed_backward_args){.ids = *ids,
                                                                              .d_y = d_y,
                                                                              .d_table = d[0],
                                                                              .has_scale = true,
                                                                              .scale = 0.7,
                                                                              .has_padding = true,
                                                                              .padding = -7,
                                                                              .accumulate = c->accumulate}));
        if (d[1].rank > 0)
            SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = d_y, .y = d[1], .accumulate = c->accumulate}));
        break;
    case LOSS:
        SUCCEEDS(clattn_cross_entropy(context, &(clattn_cross_entropy_args){.logits = in[0],
                                                                            .targets = *ids,
                                                                            .d_logits = d[0],
                                                                            .reduction = c->reduction,
                                                                            .has_ignore = true,
                                                                            .ignore = -7,
                                                                            .smoothing = c->smoothing,
                                                                            .has_scale = true,
                                                                            .scale = 1.5}));
        break;
    }
}

/* What backward needs beside the inputs, dense on the host; free its host. */
static inline clattn_tensor make_extra(clattn_context *context, const backward_case *c, const clattn_tensor *in,
                                       clattn_dtype dtype) {
    int64_t shape[5];
    const int rank = output_shape(c, shape);
    clattn_tensor t = clattn_tensor_host(NULL, dtype, rank, shape);
    if (c->op != LINEAR && c->op != SOFTMAX)
        return (clattn_tensor){0};
    t.host = malloc((size_t)clattn_tensor_elements(&t) * sizeof(double) + 1);
    backward_case plain = *c;
    plain.activation = CLATTN_ACTIVATION_NONE;
    forward(context, &plain, in, NULL, t);
    return t;
}

#endif
