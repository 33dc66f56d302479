/* SPDX-License-Identifier: Apache-2.0 */
/* The encoder: a stack of layers without cross attention. */
#include "base/mem.h"
#include "modules/module.h"
#include "modules/stack.h"
#include <clattn/train.h>

static const char *const module = "encoder";

struct clattn_encoder {
    cla_stack stack;
};

static cla_layer_parts part(const void *weights, int64_t i) {
    const clattn_encoder_layer_weights *w = &((const clattn_encoder_weights *)weights)->layers[i];
    return (cla_layer_parts){
        .self_attn = &w->self_attn, .feedforward = &w->feedforward, .norm1 = &w->norm1, .norm2 = &w->norm2};
}

static cla_stack_weights stack_weights(const clattn_encoder_weights *weights) {
    return (cla_stack_weights){.weights = weights,
                               .part = part,
                               .count = weights->count,
                               .has_norm = weights->has_norm,
                               .norm = &weights->norm};
}

static clattn_status check_reserved(const clattn_encoder_weights *weights) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(CLA_RESERVED(clattn_encoder_weights, weights));
    for (int64_t i = 0; i < weights->count && weights->count <= CLA_STACK_LAYERS; i++)
        CLA_TRY(CLA_RESERVED(clattn_encoder_layer_weights, &weights->layers[i]));
done:
    return status;
}

clattn_status clattn_encoder_create(clattn_context *context, const clattn_encoder_weights *weights,
                                    const clattn_layer_options *options, clattn_encoder **encoder) {
    clattn_status status = CLATTN_OK;
    clattn_encoder *e = NULL;
    CLA_CHECK(encoder, CLATTN_E_ARGUMENT, "encoder_create: encoder is NULL");
    *encoder = NULL;
    CLA_CHECK(context && weights && weights->layers && options, CLATTN_E_ARGUMENT, "encoder_create: %s is NULL",
              !context   ? "context"
              : !weights ? "weights"
              : !options ? "options"
                         : "layers");
    CLA_TRY(check_reserved(weights));
    CLA_TRY(cla_alloc(1, sizeof *e, module, &e));
    const cla_stack_weights stack = stack_weights(weights);
    CLA_TRY(cla_stack_take(context, module, &stack, options, &e->stack));
    *encoder = e;
    e = NULL;
done:
    clattn_encoder_destroy(e);
    return status;
}

void clattn_encoder_destroy(clattn_encoder *encoder) {
    if (encoder)
        cla_stack_free(&encoder->stack);
    cla_free(encoder);
}

int64_t clattn_encoder_parameter_count(const clattn_encoder *encoder) {
    return encoder ? encoder->stack.parameters : 0;
}

int64_t clattn_encoder_layer_count(const clattn_encoder *encoder) { return encoder ? encoder->stack.count : 0; }

/* The type of the sums, f64 at least where wide says so, and masks. */
static clattn_status take_call(cla_stack *s, const clattn_encoder_args *args, bool wide, cla_stack_call *call) {
    clattn_status status = CLATTN_OK;
    clattn_tensor rows;
    CLA_TRY(cla_stack_rows(s, &args->x, &args->y, &rows));
    call->dtype = wide || s->wide || cla_is_wide(&args->x) || cla_is_wide(&args->y) ? CLATTN_F64 : CLATTN_F32;
    const cla_mask_shape shape = {.module = module,
                                  .prefix = "",
                                  .B = rows.shape[0],
                                  .H = s->layers[0].self.H,
                                  .N = rows.shape[1],
                                  .M = rows.shape[1],
                                  .extra = s->layers[0].self.extra,
                                  .unbatched = args->x.rank == 2,
                                  .wide = call->dtype == CLATTN_F64,
                                  .keep = CLA_SLOT_KEEP,
                                  .bias = CLA_SLOT_BIAS};
    CLA_TRY(cla_masks_take(&args->masks, &shape, &s->scratch, &call->masks));
done:
    return status;
}

clattn_status clattn_encoder_run(clattn_encoder *encoder, const clattn_encoder_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(encoder && args, CLATTN_E_ARGUMENT, "encoder: %s is NULL", encoder ? "args" : "encoder");
    CLA_TRY(CLA_RESERVED(clattn_encoder_args, args));
    cla_stack *s = &encoder->stack;
    cla_stack_call call = {.x = args->x, .y = args->y, .hidden = args->hidden};
    CLA_TRY(take_call(s, args, false, &call));
    CLA_TRY(cla_stack_run(s, &call));
done:
    return status;
}

clattn_status clattn_encoder_backward(clattn_encoder *encoder, const clattn_encoder_backward_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(encoder && args, CLATTN_E_ARGUMENT, "encoder_backward: %s is NULL", encoder ? "args" : "encoder");
    CLA_TRY(CLA_RESERVED(clattn_encoder_backward_args, args));
    CLA_TRY(CLA_RESERVED(clattn_encoder_args, &args->forward));
    clattn_encoder_args forward = args->forward;
    forward.y = args->d_y;
    cla_stack *s = &encoder->stack;
    cla_stack_call call = {.x = forward.x, .y = forward.y, .hidden = forward.hidden};
    cla_stack_back back = {.accumulate = args->accumulate, .d_y = args->d_y, .d_x = args->d_x};
    cla_stack_weights gradients;
    CLA_TRY(take_call(s, &forward, cla_is_wide(&args->d_x), &call));
    if (args->gradients) {
        CLA_CHECK(args->gradients->layers, CLATTN_E_ARGUMENT, "encoder_backward: gradients have no layers");
        CLA_TRY(check_reserved(args->gradients));
        gradients = stack_weights(args->gradients);
        back.gradients = &gradients;
    }
    CLA_TRY(cla_stack_backward(s, &call, &back));
done:
    return status;
}
