/* SPDX-License-Identifier: Apache-2.0 */
/* The module around multi-head attention: what the caller gives becomes [B, rows, columns]. */
#include "base/mem.h"
#include "modules/apart.h"
#include "modules/attend.h"
#include "modules/module.h"
#include <clattn/train.h>

static const char *const module = "multihead";

struct clattn_multihead {
    cla_scratch scratch;
    cla_heads heads;
    bool batch_second;
};

clattn_status clattn_multihead_create(clattn_context *context, const clattn_multihead_weights *weights,
                                      const clattn_multihead_options *options, clattn_multihead **multihead) {
    clattn_status status = CLATTN_OK;
    clattn_multihead *m = NULL;
    CLA_CHECK(multihead, CLATTN_E_ARGUMENT, "multihead_create: multihead is NULL");
    *multihead = NULL;
    CLA_CHECK(context && weights && options, CLATTN_E_ARGUMENT, "multihead_create: %s is NULL",
              !context   ? "context"
              : !weights ? "weights"
                         : "options");
    CLA_TRY(CLA_RESERVED(clattn_multihead_options, options));
    CLA_TRY(cla_alloc(1, sizeof *m, "multihead", &m));
    m->scratch.context = context;
    m->batch_second = options->batch_second;
    status = cla_heads_take(weights, options, &m->heads);
    if (status != CLATTN_OK) {
        cla_error_prefix("%s: ", module);
        goto done;
    }
    *multihead = m;
    m = NULL;
done:
    clattn_multihead_destroy(m);
    return status;
}

void clattn_multihead_destroy(clattn_multihead *multihead) {
    if (!multihead)
        return;
    cla_scratch_free(&multihead->scratch);
    cla_free(multihead);
}

int64_t clattn_multihead_parameter_count(const clattn_multihead *multihead) {
    return multihead ? multihead->heads.parameters : 0;
}

/* ---- a call ---- */

static clattn_status check_rows(const clattn_tensor *rows, const char *name, int64_t batch, int64_t columns) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_CHECK(rows->shape[2] == columns, CLATTN_E_SHAPE, "%s: %s %s: its last axis should be %lld", module, name,
              cla_shape_text(rows, text, sizeof text), (long long)columns);
    CLA_CHECK(rows->shape[0] == batch, CLATTN_E_SHAPE, "%s: %s %s: a batch of %lld, and the query has %lld", module,
              name, cla_shape_text(rows, text, sizeof text), (long long)rows->shape[0], (long long)batch);
done:
    return status;
}

static clattn_status take_inputs(const clattn_multihead *m, const clattn_multihead_args *args, cla_attend *c) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const clattn_tensor *key = cla_present(&args->key) ? &args->key : &args->query;
    const clattn_tensor *value = cla_present(&args->value) ? &args->value : key;
    const clattn_context *context = m->scratch.context;
    CLA_TRY(cla_take_rows(context, &args->query, module, "query", m->batch_second, &c->query));
    CLA_TRY(cla_take_rows(context, key, module, "key", m->batch_second, &c->key));
    CLA_TRY(cla_take_rows(context, value, module, "value", m->batch_second, &c->value));
    CLA_TRY(cla_take_rows(context, &args->y, module, "y", m->batch_second, &c->y));
    CLA_CHECK(key->rank == args->query.rank && value->rank == args->query.rank && args->y.rank == args->query.rank,
              CLATTN_E_SHAPE, "%s: query, key, value and y have ranks %d, %d, %d and %d; all alike", module,
              args->query.rank, key->rank, value->rank, args->y.rank);
    CLA_TRY(check_rows(&c->query, "query", c->query.shape[0], m->heads.E));
    CLA_TRY(check_rows(&c->key, "key", c->query.shape[0], m->heads.kdim));
    CLA_TRY(check_rows(&c->value, "value", c->query.shape[0], m->heads.vdim));
    CLA_TRY(check_rows(&c->y, "y", c->query.shape[0], m->heads.columns));
    CLA_CHECK(c->value.shape[1] == c->key.shape[1], CLATTN_E_SHAPE, "%s: value %s: %lld rows, and the key has %lld",
              module, cla_shape_text(value, text, sizeof text), (long long)c->value.shape[1],
              (long long)c->key.shape[1]);
    CLA_CHECK(c->y.shape[1] == c->query.shape[1], CLATTN_E_SHAPE, "%s: y %s: %lld rows, and the query has %lld", module,
              cla_shape_text(&args->y, text, sizeof text), (long long)c->y.shape[1], (long long)c->query.shape[1]);
done:
    return status;
}

/* [B, H, N, M + extra], or with the mean over the heads [B, 1, N, M + extra]. */
static clattn_status take_weights(const clattn_multihead *m, const clattn_multihead_args *args, cla_attend *c) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const bool unbatched = args->query.rank == 2;
    clattn_tensor t = args->weights;
    if (!cla_present(&t))
        goto done;
    const int rank = 4 - unbatched - args->weights_mean;
    const int64_t keys = c->key.shape[1] + m->heads.extra, heads = args->weights_mean ? 1 : m->heads.H;
    if (t.rank == rank && unbatched)
        t = cla_lead(t);
    if (args->weights.rank == rank && args->weights_mean)
        t = clattn_tensor_split(t, 1, 1);
    CLA_CHECK(args->weights.rank == rank && t.rank == 4 && t.shape[0] == c->query.shape[0] && t.shape[1] == heads &&
                  t.shape[2] == c->query.shape[1] && t.shape[3] == keys,
              CLATTN_E_SHAPE, "%s: weights %s: should be [%s%s%lld, %lld], for %lld keys%s", module,
              cla_shape_text(&args->weights, text, sizeof text), unbatched ? "" : "B, ",
              args->weights_mean ? "" : "H, ", (long long)c->query.shape[1], (long long)keys,
              (long long)c->key.shape[1], m->heads.extra ? " and those behind them" : "");
    c->weights = t;
    c->weights_mean = args->weights_mean;
done:
    return status;
}

/* The type of the sums, and masks. */
static clattn_status take_masks(clattn_multihead *multihead, const clattn_multihead_args *args, cla_attend *c) {
    clattn_status status = CLATTN_OK;
    const cla_heads *h = &multihead->heads;
    if (h->wide || cla_is_wide(&c->query) || cla_is_wide(&c->key) || cla_is_wide(&c->value) || cla_is_wide(&c->y))
        c->dtype = CLATTN_F64;
    const cla_mask_shape shape = {.module = module,
                                  .prefix = "",
                                  .B = c->query.shape[0],
                                  .H = h->H,
                                  .N = c->query.shape[1],
                                  .M = c->key.shape[1],
                                  .extra = h->extra,
                                  .unbatched = args->query.rank == 2,
                                  .wide = c->dtype == CLATTN_F64,
                                  .keep = CLA_SLOT_KEEP,
                                  .bias = CLA_SLOT_BIAS};
    CLA_TRY(cla_masks_take(&args->masks, &shape, &multihead->scratch, &c->masks));
done:
    return status;
}

/* Attention has its weights to itself, and y is behind them; what the result is projected by is still read. */
static clattn_status check_results(const cla_heads *h, const cla_attend *c) {
    clattn_status status = CLATTN_OK;
    cla_apart apart = {0};
    if (!cla_present(&c->weights))
        goto done;
    CLA_TRY(cla_apart_begin(module, 4, &apart));
    cla_apart_add(&apart, &c->weights, "weights", CLA_ROLE_OUTPUT);
    cla_apart_add(&apart, &c->y, "y", CLA_ROLE_LAST);
    cla_apart_add(&apart, &h->out, "out", CLA_ROLE_INPUT);
    cla_apart_add(&apart, &h->out_bias, "out_bias", CLA_ROLE_INPUT);
done:
    return cla_apart_end(&apart, status);
}

clattn_status clattn_multihead_run(clattn_multihead *multihead, const clattn_multihead_args *args) {
    clattn_status status = CLATTN_OK;
    cla_attend c = {.module = module, .dtype = CLATTN_F32};
    CLA_CHECK(multihead && args, CLATTN_E_ARGUMENT, "multihead: %s is NULL", multihead ? "args" : "multihead");
    CLA_TRY(CLA_RESERVED(clattn_multihead_args, args));
    CLA_TRY(take_inputs(multihead, args, &c));
    CLA_TRY(take_weights(multihead, args, &c));
    CLA_TRY(take_masks(multihead, args, &c));
    CLA_TRY(check_results(&multihead->heads, &c));
    CLA_TRY(cla_attend_run(&multihead->heads, &multihead->scratch, &c));
done:
    return status;
}

/* ---- the backward pass ---- */

static clattn_status take_gradient(const clattn_multihead *m, const clattn_tensor *given, const char *name,
                                   const clattn_tensor *as, const char *as_name, clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    if (!cla_present(given))
        goto done;
    CLA_CHECK(cla_present(as), CLATTN_E_ARGUMENT, "%s: %s is wanted, and there is no %s", module, name, as_name);
    CLA_CHECK(cla_same_shape(given, as), CLATTN_E_SHAPE, "%s: %s %s: should have the shape of %s %s", module, name,
              cla_shape_text(given, text, sizeof text), as_name, cla_shape_text(as, other, sizeof other));
    CLA_TRY(cla_check_storage(m->scratch.context, given, module, name));
    *rows = cla_rows_of(given, m->batch_second);
done:
    return status;
}

static clattn_status check_gradients(const cla_attend *c, const clattn_multihead_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_apart apart;
    const cla_role role = args->accumulate ? CLA_ROLE_ADDED : CLA_ROLE_OUTPUT;
    CLA_TRY(cla_apart_begin("multihead_backward", 10 + CLA_APART_HEADS, &apart));
    cla_apart_add(&apart, &args->d_query, "d_query", CLA_ROLE_OUTPUT);
    cla_apart_add(&apart, &args->d_key, "d_key", CLA_ROLE_OUTPUT);
    cla_apart_add(&apart, &args->d_value, "d_value", CLA_ROLE_OUTPUT);
    cla_apart_add(&apart, &c->query, "query", CLA_ROLE_INPUT);
    cla_apart_add(&apart, &c->key, "key", CLA_ROLE_INPUT);
    cla_apart_add(&apart, &c->value, "value", CLA_ROLE_INPUT);
    cla_apart_add_masks(&apart, &c->masks);
    cla_apart_add_heads(&apart, args->gradients, (cla_called){.layer = -1, .part = "gradients."}, role);
done:
    return cla_apart_end(&apart, status);
}

clattn_status clattn_multihead_backward(clattn_multihead *multihead, const clattn_multihead_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_attend_saved saved = {
        .wide = CLA_SLOT_SELF_WIDE, .heads = CLA_SLOT_SELF_HEADS, .state_slot = CLA_SLOT_SELF_STATE};
    cla_attend c = {.module = module, .dtype = CLATTN_F32, .saved = &saved};
    cla_heads gradients;
    CLA_CHECK(multihead && args, CLATTN_E_ARGUMENT, "multihead_backward: %s is NULL", multihead ? "args" : "multihead");
    CLA_TRY(CLA_RESERVED(clattn_multihead_backward_args, args));
    CLA_TRY(CLA_RESERVED(clattn_multihead_args, &args->forward));
    clattn_multihead_args forward = args->forward;
    forward.y = args->d_y;
    forward.weights = (clattn_tensor){0};
    CLA_TRY(take_inputs(multihead, &forward, &c));
    if (cla_is_wide(&args->d_query) || cla_is_wide(&args->d_key) || cla_is_wide(&args->d_value))
        c.dtype = CLATTN_F64;
    cla_attend_back back = {.accumulate = args->accumulate,
                            .d_y = c.y,
                            .key_is_query = !cla_present(&forward.key),
                            .value_is_key = !cla_present(&forward.value)};
    CLA_TRY(take_gradient(multihead, &args->d_query, "d_query", &forward.query, "query", &back.d_query));
    CLA_TRY(take_gradient(multihead, &args->d_key, "d_key", &forward.key, "key", &back.d_key));
    CLA_TRY(take_gradient(multihead, &args->d_value, "d_value", &forward.value, "value", &back.d_value));
    CLA_TRY(take_masks(multihead, &forward, &c));
    c.y = (clattn_tensor){0};
    if (args->gradients)
        status = cla_heads_take_gradients(args->gradients, &multihead->heads, &gradients);
    if (status != CLATTN_OK) {
        cla_error_prefix("multihead_backward: gradients: ");
        goto done;
    }
    back.gradients = args->gradients ? &gradients : NULL;
    CLA_TRY(check_gradients(&c, args));
    CLA_TRY(cla_attend_run(&multihead->heads, &multihead->scratch, &c));
    CLA_TRY(cla_attend_backward(&multihead->heads, &multihead->scratch, &c, &back));
done:
    return status;
}
