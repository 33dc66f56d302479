/* SPDX-License-Identifier: Apache-2.0 */
/* Feed-forward: two linear layers with an activation between them, or a gate. */
#include "base/mem.h"
#include "modules/feed.h"
#include "modules/module.h"

static void count(cla_feed *f, const clattn_feedforward_weights *w) {
    const clattn_tensor *const all[] = {&w->linear1,   &w->linear1_bias, &w->gate,
                                        &w->gate_bias, &w->linear2,      &w->linear2_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        f->parameters += cla_count_of(all[i]);
        f->wide |= cla_is_wide(all[i]);
    }
}

clattn_status cla_feed_take(const clattn_feedforward_weights *w, clattn_activation activation, cla_feed *feed) {
    clattn_status status = CLATTN_OK;
    char text[200];
    cla_feed f = {.activation = activation == CLATTN_ACTIVATION_NONE ? CLATTN_ACTIVATION_RELU : activation};
    CLA_TRY(CLA_RESERVED(clattn_feedforward_weights, w));
    CLA_TRY(cla_take_matrix(&w->linear1, "linear1", w->transposed, &f.linear1));
    CLA_TRY(cla_take_matrix(&w->linear2, "linear2", w->transposed, &f.linear2));
    f.F = f.linear1.shape[0];
    f.E = f.linear1.shape[1];
    f.columns = f.linear2.shape[0];
    CLA_CHECK(f.linear2.shape[1] == f.F, CLATTN_E_SHAPE,
              "linear2 %s: has %lld inputs; should have %lld, as linear1 has outputs",
              cla_shape_text(&w->linear2, text, sizeof text), (long long)f.linear2.shape[1], (long long)f.F);
    if (cla_present(&w->gate)) {
        CLA_TRY(cla_take_matrix(&w->gate, "gate", w->transposed, &f.gate));
        CLA_CHECK(f.gate.shape[0] == f.F && f.gate.shape[1] == f.E, CLATTN_E_SHAPE,
                  "gate %s: should have the shape of linear1, %lld outputs of %lld inputs",
                  cla_shape_text(&w->gate, text, sizeof text), (long long)f.F, (long long)f.E);
    }
    CLA_CHECK(cla_present(&w->gate) || !cla_present(&w->gate_bias), CLATTN_E_ARGUMENT,
              "gate_bias is given, and no gate");
    CLA_TRY(cla_check_vector(&w->linear1_bias, "linear1_bias", f.F));
    CLA_TRY(cla_check_vector(&w->gate_bias, "gate_bias", f.F));
    CLA_TRY(cla_check_vector(&w->linear2_bias, "linear2_bias", f.columns));
    f.linear1_bias = w->linear1_bias;
    f.gate_bias = w->gate_bias;
    f.linear2_bias = w->linear2_bias;
    count(&f, w);
    *feed = f;
done:
    return status;
}

static clattn_status linear(clattn_context *context, const char *name, const clattn_linear_args *args) {
    const clattn_status status = clattn_linear(context, args);
    if (status != CLATTN_OK)
        cla_error_prefix("%s: ", name);
    return status;
}

/* Rows between the layers, one or, with a gate, two tensors in the slot. */
static clattn_status take_inner(const cla_feed *f, cla_scratch *scratch, clattn_dtype dtype, const clattn_tensor *x,
                                clattn_tensor inner[2]) {
    clattn_status status = CLATTN_OK;
    clattn_tensor shape = *x, pool;
    const int last = x->rank - 1;
    CLA_CHECK(x->rank >= 1 && x->rank <= 4, CLATTN_E_SHAPE, "x: rank %d; it has rank 1 to 4", x->rank);
    shape.shape[last] = f->F;
    const int64_t elements = clattn_tensor_elements(&shape);
    CLA_CHECK(elements >= 0 && elements <= INT64_MAX / 4, CLATTN_E_SHAPE, "x: more elements than 64 bits count");
    const int64_t begin = (elements + 31) / 32 * 32, all = cla_present(&f->gate) ? begin + elements : elements;
    CLA_TRY(cla_scratch_take(scratch, CLA_SLOT_WIDE, dtype, 1, &all, &pool));
    for (int i = 0; i < 2; i++)
        inner[i] = clattn_tensor_buffer(pool.buffer, dtype, x->rank, shape.shape);
    inner[1].offset = begin;
done:
    return status;
}

clattn_status cla_feed_run(const cla_feed *f, cla_scratch *scratch, clattn_dtype dtype, const clattn_tensor *x,
                           const clattn_tensor *y) {
    clattn_status status = CLATTN_OK;
    clattn_tensor inner[2];
    clattn_linear_args first = {.x = *x, .w = f->linear1, .bias = f->linear1_bias};
    CLA_TRY(take_inner(f, scratch, dtype, x, inner));
    first.y = inner[0];
    if (cla_present(&f->gate)) {
        const clattn_linear_args gate = {.x = *x, .w = f->gate, .bias = f->gate_bias, .y = inner[1]};
        const clattn_activate_args act = {.x = inner[1], .up = inner[0], .y = inner[0], .activation = f->activation};
        CLA_TRY(linear(scratch->context, "gate", &gate));
        CLA_TRY(linear(scratch->context, "linear1", &first));
        CLA_TRY(clattn_activate(scratch->context, &act));
    } else {
        first.activation = f->activation;
        CLA_TRY(linear(scratch->context, "linear1", &first));
    }
    const clattn_linear_args second = {.x = inner[0], .w = f->linear2, .bias = f->linear2_bias, .y = *y};
    CLA_TRY(linear(scratch->context, "linear2", &second));
done:
    return status;
}

/* ---- the module ---- */

clattn_status clattn_feedforward_create(clattn_context *context, const clattn_feedforward_weights *weights,
                                        const clattn_feedforward_options *options, clattn_feedforward **feedforward) {
    clattn_status status = CLATTN_OK;
    clattn_feedforward *f = NULL;
    CLA_CHECK(feedforward, CLATTN_E_ARGUMENT, "feedforward_create: feedforward is NULL");
    *feedforward = NULL;
    CLA_CHECK(context && weights, CLATTN_E_ARGUMENT, "feedforward_create: %s is NULL", context ? "weights" : "context");
    if (options)
        CLA_TRY(CLA_RESERVED(clattn_feedforward_options, options));
    CLA_TRY(cla_alloc(1, sizeof *f, "feedforward", &f));
    f->scratch.context = context;
    status = cla_feed_take(weights, options ? options->activation : CLATTN_ACTIVATION_NONE, &f->feed);
    if (status != CLATTN_OK) {
        cla_error_prefix("feedforward: ");
        goto done;
    }
    *feedforward = f;
    f = NULL;
done:
    clattn_feedforward_destroy(f);
    return status;
}

void clattn_feedforward_destroy(clattn_feedforward *feedforward) {
    if (!feedforward)
        return;
    cla_scratch_free(&feedforward->scratch);
    cla_free(feedforward);
}

int64_t clattn_feedforward_parameter_count(const clattn_feedforward *feedforward) {
    return feedforward ? feedforward->feed.parameters : 0;
}

clattn_status clattn_feedforward_run(clattn_feedforward *feedforward, const clattn_tensor *x, const clattn_tensor *y) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(feedforward && x && y, CLATTN_E_ARGUMENT, "feedforward: an argument is NULL");
    const bool wide = feedforward->feed.wide || cla_is_wide(x) || cla_is_wide(y);
    status = cla_feed_run(&feedforward->feed, &feedforward->scratch, wide ? CLATTN_F64 : CLATTN_F32, x, y);
    if (status != CLATTN_OK)
        cla_error_prefix("feedforward: ");
done:
    return status;
}
