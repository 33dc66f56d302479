/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of a stack: of the norm behind it, and of its layers from the last to the first. */
#include "modules/apart.h"
#include "modules/module.h"
#include "modules/stack.h"
#include <clattn/train.h>
#include <stdio.h>

/* What layer i takes, or the norm behind them all: i = count. */
static clattn_tensor input_of(const cla_stack *s, const cla_stack_call *call, int64_t i) {
    return cla_rows_of(i == 0 ? &call->x : &call->hidden[i - 1], s->options.batch_second);
}

/* What layer i gave. */
static clattn_status check_hidden(const cla_stack *s, const cla_stack_call *call, int64_t i) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows;
    CLA_CHECK(call->hidden && cla_present(&call->hidden[i]), CLATTN_E_ARGUMENT,
              "%s: hidden: what layer %lld gave is missing; the backward pass needs it", s->module, (long long)i);
    CLA_TRY(cla_stack_like(s, &call->hidden[i], "hidden", &call->x, &rows));
done:
    return status;
}

static clattn_status norm_back(const cla_stack *s, const cla_stack_call *call, const cla_stack_back *back,
                               const clattn_tensor *d_y, const clattn_tensor *d_x) {
    clattn_status status = CLATTN_OK;
    clattn_norm_backward_args args = {.kind = s->options.norm,
                                      .x = input_of(s, call, s->count),
                                      .weight = s->norm.weight,
                                      .d_y = *d_y,
                                      .d_x = *d_x,
                                      .epsilon = s->options.norm_epsilon,
                                      .accumulate = back->accumulate};
    if (back->gradients && back->gradients->has_norm)
        args.d_weight = back->gradients->norm->weight, args.d_bias = back->gradients->norm->bias;
    CLA_TRY(clattn_norm_backward(s->scratch.context, &args));
done:
    return status;
}

/* Those of a layer's weights. */
static clattn_status gradients_of(const cla_stack *s, const cla_stack_back *back, int64_t i, cla_layer *gradients) {
    const cla_layer_parts parts = back->gradients->part(back->gradients->weights, i);
    const clattn_status status = cla_layer_take_gradients(&parts, &s->layers[i], gradients);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: layer %lld: gradients: ", s->module, (long long)i);
    return status;
}

static void add_parts(cla_apart *apart, const cla_layer_parts *parts, int64_t i, cla_role role) {
    cla_apart_add_heads(apart, parts->self_attn, (cla_called){i, "self_attn."}, role);
    cla_apart_add_heads(apart, parts->cross_attn, (cla_called){i, "cross_attn."}, role);
    cla_apart_add_feed(apart, parts->feedforward, (cla_called){i, "feedforward."}, role);
    cla_apart_add_norm(apart, parts->norm1, (cla_called){i, "norm1."}, role);
    cla_apart_add_norm(apart, parts->norm2, (cla_called){i, "norm2."}, role);
    cla_apart_add_norm(apart, parts->norm3, (cla_called){i, "norm3."}, role);
}

/* Gradients of a layer, and d_memory, are written while those before it still read. */
static clattn_status check_apart(const cla_stack *s, const cla_stack_call *call, const cla_stack_back *back) {
    clattn_status status = CLATTN_OK;
    cla_apart apart;
    const cla_role role = back->accumulate ? CLA_ROLE_ADDED : CLA_ROLE_OUTPUT;
    const int64_t layer = 2 * CLA_APART_HEADS + CLA_APART_FEED + 3 * CLA_APART_NORM + 1 + CLA_APART_LAYER;
    CLA_TRY(cla_apart_begin(s->module, (size_t)(s->count * layer + CLA_APART_NORM + 12), &apart));
    cla_apart_add(&apart, &back->d_x, "d_x", CLA_ROLE_LAST);
    cla_apart_add(&apart, &back->d_memory, "d_memory", CLA_ROLE_OUTPUT);
    cla_apart_add(&apart, &back->d_y, "d_y", CLA_ROLE_INPUT);
    cla_apart_add(&apart, &call->x, "x", CLA_ROLE_INPUT);
    cla_apart_add(&apart, &call->memory, "memory", CLA_ROLE_INPUT);
    cla_apart_add_masks(&apart, &call->masks);
    cla_apart_add_masks(&apart, &call->memory_masks);
    for (int64_t i = 0; i < s->count; i++) {
        if (i < s->count - 1 || s->has_norm)
            cla_apart_add_one(&apart, &call->hidden[i], (cla_called){i, ""}, "hidden", CLA_ROLE_INPUT);
        cla_apart_add_layer(&apart, &s->layers[i], i);
        if (back->gradients) {
            const cla_layer_parts parts = back->gradients->part(back->gradients->weights, i);
            add_parts(&apart, &parts, i, role);
        }
    }
    if (back->gradients && back->gradients->has_norm)
        cla_apart_add_norm(&apart, back->gradients->norm, (cla_called){-1, "norm."}, role);
done:
    return cla_apart_end(&apart, status);
}

/* Before anything is written. */
static clattn_status check(const cla_stack *s, const cla_stack_call *call, const cla_stack_back *back) {
    clattn_status status = CLATTN_OK;
    cla_layer gradients;
    CLA_CHECK(!back->gradients || back->gradients->count == s->count, CLATTN_E_ARGUMENT,
              "%s: gradients of %lld layers; there are %lld", s->module, (long long)back->gradients->count,
              (long long)s->count);
    CLA_CHECK(!back->gradients || !back->gradients->has_norm || s->has_norm, CLATTN_E_ARGUMENT,
              "%s: gradients have those of a norm behind the last layer", s->module);
    for (int64_t i = 0; i < s->count; i++) {
        if (i < s->count - 1 || s->has_norm)
            CLA_TRY(check_hidden(s, call, i));
        if (back->gradients)
            CLA_TRY(gradients_of(s, back, i, &gradients));
    }
    if (s->has_norm && back->gradients && back->gradients->has_norm)
        CLA_TRY(cla_norm_take_gradient(back->gradients->norm, &s->norm, "norm"));
    CLA_TRY(check_apart(s, call, back));
done:
    return status;
}

static clattn_status layer_back(cla_stack *s, const cla_stack_call *call, const cla_stack_back *back, int64_t i,
                                const clattn_tensor *d_y, const clattn_tensor *d_x) {
    clattn_status status = CLATTN_OK;
    char module[64];
    cla_layer gradients;
    cla_layer_call one = {.dtype = call->dtype,
                          .x = input_of(s, call, i),
                          .memory = call->memory,
                          .masks = call->masks,
                          .memory_masks = call->memory_masks};
    cla_layer_back layer = {.accumulate = back->accumulate,
                            .d_y = *d_y,
                            .d_x = *d_x,
                            .d_memory = back->d_memory,
                            .adds_memory = i != s->count - 1};
    snprintf(module, sizeof module, "%s: layer %lld", s->module, (long long)i);
    one.module = module;
    if (back->gradients) {
        CLA_TRY(gradients_of(s, back, i, &gradients));
        layer.gradients = &gradients;
    }
    CLA_TRY(cla_layer_backward(&s->layers[i], &s->options, &s->scratch, &one, &layer));
done:
    return status;
}

clattn_status cla_stack_backward(cla_stack *s, const cla_stack_call *call, const cla_stack_back *back) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor d_y = cla_rows_of(&back->d_y, s->options.batch_second);
    clattn_tensor d_x = {0}, rows;
    if (cla_present(&back->d_x))
        CLA_TRY(cla_stack_like(s, &back->d_x, "d_x", &call->x, &d_x));
    CLA_TRY(check(s, call, back));
    CLA_TRY(cla_scratch_take(&s->scratch, CLA_SLOT_D_ROWS, call->dtype, 3, d_y.shape, &rows));
    if (s->has_norm)
        CLA_TRY(norm_back(s, call, back, &d_y, &rows));
    for (int64_t i = s->count - 1; i >= 0; i--) {
        const bool first = i == s->count - 1 && !s->has_norm;
        CLA_TRY(layer_back(s, call, back, i, first ? &d_y : &rows, i == 0 && cla_present(&d_x) ? &d_x : &rows));
    }
done:
    return status;
}
