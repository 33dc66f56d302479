/* SPDX-License-Identifier: Apache-2.0 */
#include "modules/stack.h"

#include "modules/apart.h"

#include "base/mem.h"
#include "modules/module.h"
#include <stdio.h>
#include <string.h>

clattn_status cla_stack_take(clattn_context *context, const char *module, const cla_stack_weights *weights,
                             const clattn_layer_options *options, cla_stack *s) {
    clattn_status status = CLATTN_OK;
    int64_t i = -1;
    s->module = module;
    s->scratch.context = context;
    CLA_TRY(CLA_RESERVED(clattn_layer_options, options));
    s->options = *options;
    CLA_CHECK(weights->count >= 1 && weights->count <= CLA_STACK_LAYERS, CLATTN_E_ARGUMENT,
              "%s: %lld layers; from 1 to %d", module, (long long)weights->count, CLA_STACK_LAYERS);
    CLA_TRY(cla_alloc((size_t)weights->count, sizeof *s->layers, "layers", &s->layers));
    s->count = weights->count;
    for (i = 0; i < s->count; i++) {
        const cla_layer_parts parts = weights->part(weights->weights, i);
        CLA_TRY(cla_layer_take(&parts, options, &s->layers[i]));
        CLA_CHECK(s->layers[i].self.E == s->layers[0].self.E, CLATTN_E_SHAPE,
                  "takes %lld columns, and the first layer gives %lld", (long long)s->layers[i].self.E,
                  (long long)s->layers[0].self.E);
        CLA_CHECK(s->layers[i].self.extra == s->layers[0].self.extra &&
                      s->layers[i].cross.extra == s->layers[0].cross.extra,
                  CLATTN_E_SHAPE, "has other keys behind the given ones (bias_k) than the first layer");
        s->parameters += s->layers[i].parameters;
        s->wide |= s->layers[i].wide;
    }
    i = -1;
    s->E = s->layers[0].self.E;
    s->has_norm = weights->has_norm;
    if (s->has_norm) {
        CLA_TRY(CLA_RESERVED(clattn_norm_weights, weights->norm));
        s->norm = *weights->norm;
        CLA_TRY(cla_check_vector(&s->norm.weight, "norm: weight", s->E));
        CLA_TRY(cla_check_vector(&s->norm.bias, "norm: bias", s->E));
        s->parameters += cla_count_of(&s->norm.weight) + cla_count_of(&s->norm.bias);
        s->wide |= cla_is_wide(&s->norm.weight) || cla_is_wide(&s->norm.bias);
    }
done:
    if (status != CLATTN_OK && i >= 0)
        cla_error_prefix("%s: layer %lld: ", module, (long long)i);
    return status;
}

void cla_stack_free(cla_stack *stack) {
    cla_scratch_free(&stack->scratch);
    cla_free(stack->layers);
    *stack = (cla_stack){0};
}

/* ---- a call ---- */

clattn_status cla_stack_like(const cla_stack *s, const clattn_tensor *given, const char *name, const clattn_tensor *x,
                             clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    CLA_TRY(cla_take_rows(s->scratch.context, given, s->module, name, s->options.batch_second, rows));
    CLA_CHECK(cla_same_shape(given, x), CLATTN_E_SHAPE, "%s: %s %s: should have the shape of x %s", s->module, name,
              cla_shape_text(given, text, sizeof text), cla_shape_text(x, other, sizeof other));
done:
    return status;
}

clattn_status cla_stack_rows(const cla_stack *s, const clattn_tensor *x, const clattn_tensor *y, clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    char text[200];
    clattn_tensor ignored;
    CLA_TRY(cla_take_rows(s->scratch.context, x, s->module, "x", s->options.batch_second, rows));
    CLA_CHECK(rows->shape[2] == s->E, CLATTN_E_SHAPE, "%s: x %s: its last axis should be %lld", s->module,
              cla_shape_text(x, text, sizeof text), (long long)s->E);
    CLA_TRY(cla_stack_like(s, y, "y", x, &ignored));
done:
    return status;
}

static clattn_status run_layer(cla_stack *s, const cla_stack_call *call, int64_t i, const clattn_tensor *x,
                               const clattn_tensor *y) {
    clattn_status status = CLATTN_OK;
    char module[64];
    snprintf(module, sizeof module, "%s: layer %lld", s->module, (long long)i);
    cla_layer_call one = {.module = module,
                          .dtype = call->dtype,
                          .x = *x,
                          .y = *y,
                          .memory = call->memory,
                          .masks = call->masks,
                          .memory_masks = call->memory_masks,
                          .stored = call->stored};
    if (call->stores)
        one.store = call->stores[i];
    if (call->memory_stores)
        one.memory_store = call->memory_stores[i];
    if (call->hidden && cla_present(&call->hidden[i]))
        CLA_TRY(cla_stack_like(s, &call->hidden[i], "hidden", &call->x, &one.also));
    CLA_TRY(cla_layer_run(&s->layers[i], &s->options, &s->scratch, &one));
done:
    return status;
}

/* What a layer gives is written while the next ones still read weights, masks and memory. */
static clattn_status check_hidden(const cla_stack *s, const cla_stack_call *call) {
    clattn_status status = CLATTN_OK;
    cla_apart apart = {0};
    if (!call->hidden)
        goto done;
    CLA_TRY(cla_apart_begin(s->module, (size_t)s->count * (1 + CLA_APART_LAYER) + CLA_APART_NORM + 8, &apart));
    const clattn_tensor *last = &call->hidden[s->count - 1];
    for (int64_t i = 0; i < s->count; i++) {
        cla_apart_add_one(&apart, &call->hidden[i], (cla_called){.layer = i, .part = ""}, "hidden", CLA_ROLE_OUTPUT);
        cla_apart_add_layer(&apart, &s->layers[i], i);
    }
    cla_apart_add_norm(&apart, &s->norm, (cla_called){-1, "weights.norm."}, CLA_ROLE_INPUT);
    if (s->has_norm || !cla_present(last) || !cla_same_view(last, &call->y)) /* else it is y */
        cla_apart_add(&apart, &call->y, "y", CLA_ROLE_LAST);
    cla_apart_add(&apart, &call->memory, "memory", CLA_ROLE_INPUT);
    cla_apart_add_masks(&apart, &call->masks);
    cla_apart_add_masks(&apart, &call->memory_masks);
done:
    return cla_apart_end(&apart, status);
}

clattn_status cla_stack_run(cla_stack *s, const cla_stack_call *call) {
    clattn_status status = CLATTN_OK;
    const bool batch_second = s->options.batch_second;
    const clattn_tensor x = cla_rows_of(&call->x, batch_second), y = cla_rows_of(&call->y, batch_second);
    clattn_tensor rows;
    CLA_TRY(check_hidden(s, call));
    if (s->count > 1 || s->has_norm)
        CLA_TRY(cla_scratch_take(&s->scratch, CLA_SLOT_ROWS, call->dtype, 3, x.shape, &rows));
    for (int64_t i = 0; i < s->count; i++) {
        const bool last = i == s->count - 1 && !s->has_norm;
        CLA_TRY(run_layer(s, call, i, i == 0 ? &x : &rows, last ? &y : &rows));
    }
    if (s->has_norm)
        CLA_TRY(cla_norm_run(&s->norm, &s->options, s->scratch.context, s->module, "norm",
                             &(cla_norm_call){.x = rows, .y = y}));
done:
    return status;
}
