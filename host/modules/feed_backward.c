/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of feed-forward. */
#include "modules/apart.h"
#include "modules/feed.h"
#include "modules/module.h"
#include <clattn/train.h>

clattn_status cla_feed_take_gradients(const clattn_feedforward_weights *given, const cla_feed *f, cla_feed *gradients) {
    clattn_status status = CLATTN_OK;
    const bool turned = given->transposed;
    cla_feed g = {0};
    CLA_TRY(CLA_RESERVED(clattn_feedforward_weights, given));
    CLA_TRY(cla_take_gradient(&given->linear1, &f->linear1, "linear1", turned, &g.linear1));
    CLA_TRY(cla_take_gradient(&given->linear1_bias, &f->linear1_bias, "linear1_bias", false, &g.linear1_bias));
    CLA_TRY(cla_take_gradient(&given->gate, &f->gate, "gate", turned, &g.gate));
    CLA_TRY(cla_take_gradient(&given->gate_bias, &f->gate_bias, "gate_bias", false, &g.gate_bias));
    CLA_TRY(cla_take_gradient(&given->linear2, &f->linear2, "linear2", turned, &g.linear2));
    CLA_TRY(cla_take_gradient(&given->linear2_bias, &f->linear2_bias, "linear2_bias", false, &g.linear2_bias));
    *gradients = g;
done:
    return status;
}

clattn_status cla_feed_save(const cla_feed *f, cla_scratch *scratch, clattn_dtype dtype, const clattn_tensor *x,
                            const clattn_tensor *y, cla_feed_saved *saved) {
    clattn_status status = CLATTN_OK;
    clattn_tensor inner = *x, parts[4] = {{0}};
    CLA_CHECK(x->rank >= 1 && x->rank <= 4, CLATTN_E_SHAPE, "x: rank %d; it has rank 1 to 4", x->rank);
    inner.shape[x->rank - 1] = f->F;
    const bool gated = cla_present(&f->gate);
    CLA_TRY(cla_scratch_take_many(scratch, CLA_SLOT_INNER, dtype, x->rank, inner.shape, gated ? 4 : 3, parts));
    *saved = (cla_feed_saved){.z = parts[0], .act = parts[1], .d_act = parts[2], .gate = parts[3]};
    CLA_TRY(clattn_linear(scratch->context,
                          &(clattn_linear_args){.x = *x, .w = f->linear1, .bias = f->linear1_bias, .y = saved->z}));
    clattn_activate_args act = {.x = saved->z, .y = saved->act, .activation = f->activation};
    if (gated) {
        CLA_TRY(clattn_linear(scratch->context,
                              &(clattn_linear_args){.x = *x, .w = f->gate, .bias = f->gate_bias, .y = saved->gate}));
        act.x = saved->gate;
        act.up = saved->z;
    }
    CLA_TRY(clattn_activate(scratch->context, &act));
    if (cla_present(y))
        CLA_TRY(
            clattn_linear(scratch->context,
                          &(clattn_linear_args){.x = saved->act, .w = f->linear2, .bias = f->linear2_bias, .y = *y}));
done:
    return status;
}

/* d_x of the second of two products of x is added to the first's. */
static clattn_status add_gate(const cla_feed *f, const cla_feed *g, bool accumulate, cla_scratch *scratch,
                              clattn_dtype dtype, const clattn_tensor *x, const clattn_tensor *d_gate,
                              const clattn_tensor *d_x) {
    clattn_status status = CLATTN_OK;
    clattn_linear_backward_args args = {.x = *x, .w = f->gate, .d_y = *d_gate, .accumulate = accumulate};
    if (cla_present(d_x))
        CLA_TRY(cla_scratch_take(scratch, CLA_SLOT_D_MORE, dtype, x->rank, x->shape, &args.d_x));
    if (g)
        args.d_w = g->gate, args.d_bias = g->gate_bias;
    CLA_TRY(clattn_linear_backward(scratch->context, &args));
    if (cla_present(d_x))
        CLA_TRY(clattn_add(scratch->context, &(clattn_add_args){.a = *d_x, .b = args.d_x, .y = *d_x}));
done:
    return status;
}

clattn_status cla_feed_backward(const cla_feed *f, const cla_feed *g, bool accumulate, cla_scratch *scratch,
                                clattn_dtype dtype, const clattn_tensor *x, cla_feed_saved *saved,
                                const clattn_tensor *d_y, const clattn_tensor *d_x) {
    clattn_status status = CLATTN_OK;
    const bool gated = cla_present(&f->gate);
    clattn_linear_backward_args second = {
        .x = saved->act, .w = f->linear2, .d_y = *d_y, .d_x = saved->d_act, .accumulate = accumulate};
    clattn_linear_backward_args first = {.x = *x,
                                         .w = f->linear1,
                                         .z = saved->z,
                                         .d_y = saved->d_act,
                                         .d_x = *d_x,
                                         .activation = gated ? CLATTN_ACTIVATION_NONE : f->activation,
                                         .accumulate = accumulate};
    if (g) {
        second.d_w = g->linear2, second.d_bias = g->linear2_bias;
        first.d_w = g->linear1, first.d_bias = g->linear1_bias;
    }
    CLA_TRY(clattn_linear_backward(scratch->context, &second));
    if (gated) /* gradients in place of the gate and of act's */
        CLA_TRY(
            clattn_activate_backward(scratch->context, &(clattn_activate_backward_args){.x = saved->gate,
                                                                                        .up = saved->z,
                                                                                        .d_y = saved->d_act,
                                                                                        .d_x = saved->gate,
                                                                                        .d_up = saved->d_act,
                                                                                        .activation = f->activation}));
    CLA_TRY(clattn_linear_backward(scratch->context, &first));
    if (gated)
        CLA_TRY(add_gate(f, g, accumulate, scratch, dtype, x, &saved->gate, d_x));
done:
    return status;
}

/* Of one product clattn_linear_backward sees what meets; here are two or three. */
static clattn_status check_gradients(const clattn_feedforward_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_apart apart;
    const cla_role role = args->accumulate ? CLA_ROLE_ADDED : CLA_ROLE_OUTPUT;
    CLA_TRY(cla_apart_begin("gradients", 2 + CLA_APART_FEED, &apart));
    cla_apart_add(&apart, &args->d_x, "d_x", CLA_ROLE_LAST);
    cla_apart_add(&apart, &args->x, "x", CLA_ROLE_INPUT);
    cla_apart_add_feed(&apart, args->gradients, (cla_called){.layer = -1, .part = ""}, role);
done:
    return cla_apart_end(&apart, status);
}

clattn_status clattn_feedforward_backward(clattn_feedforward *feedforward,
                                          const clattn_feedforward_backward_args *args) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    cla_feed_saved saved;
    cla_feed gradients;
    CLA_CHECK(feedforward && args, CLATTN_E_ARGUMENT, "feedforward_backward: %s is NULL",
              feedforward ? "args" : "feedforward");
    CLA_TRY(CLA_RESERVED(clattn_feedforward_backward_args, args));
    const cla_feed *f = &feedforward->feed;
    const bool wide = f->wide || cla_is_wide(&args->x) || cla_is_wide(&args->d_y) || cla_is_wide(&args->d_x);
    const clattn_dtype dtype = wide ? CLATTN_F64 : CLATTN_F32;
    if (args->gradients)
        CLA_TRY(cla_feed_take_gradients(args->gradients, f, &gradients));
    CLA_TRY(check_gradients(args));
    CLA_TRY(cla_feed_save(f, &feedforward->scratch, dtype, &args->x, &none, &saved));
    CLA_TRY(cla_feed_backward(f, args->gradients ? &gradients : NULL, args->accumulate, &feedforward->scratch, dtype,
                              &args->x, &saved, &args->d_y, &args->d_x));
done:
    if (status != CLATTN_OK)
        cla_error_prefix("feedforward_backward: ");
    return status;
}
