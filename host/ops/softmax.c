/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/softmax.h"

#include "base/error.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"

enum { CPU_GROUP = 32, GPU_GROUP = 64, GPU_GROUP_LONG = 256, LONG_ROW = 1024 };

int64_t cla_softmax_work_group(const clattn_device_info *device, int64_t keys) {
    return cla_group_within(device, device->device_class == CLATTN_DEVICE_CPU ? CPU_GROUP
                                    : keys < LONG_ROW                         ? GPU_GROUP
                                                                              : GPU_GROUP_LONG);
}

static clattn_status make(clattn_context *context, const cla_softmax_key *k, const cla_softmax *softmax,
                          const char *name, cla_kernel **kernel) {
    cla_key key = cla_key_make("softmax.cl", name);
    key.helper = "scores.clh";
    key.more_helpers[0] = "philox.clh";
    cla_key_define(&key, "REAL", k->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "WG", softmax->work_group);
    cla_key_define(&key, "KEYS", CLA_SOFTMAX_KEYS);
    cla_key_define(&key, "MASKS", k->masks);
    cla_key_define_hint(&key, cla_context_device(context));
    return cla_kernel_create(context, &key, (size_t)softmax->work_group, kernel);
}

clattn_status cla_softmax_create(clattn_context *context, const cla_softmax_key *key, cla_softmax *softmax) {
    clattn_status status = CLATTN_OK;
    *softmax = (cla_softmax){.work_group = cla_softmax_work_group(cla_context_device(context), key->keys)};
    CLA_TRY(make(context, key, softmax, "softmax_values", &softmax->values));
    if (key->drops)
        CLA_TRY(make(context, key, softmax, "softmax_drop", &softmax->drop));
    if (key->backward)
        goto done;
    CLA_TRY(make(context, key, softmax, "softmax_rows", &softmax->rows));
    CLA_TRY(make(context, key, softmax, "softmax_outputs", &softmax->outputs));
done:
    if (status != CLATTN_OK)
        cla_softmax_destroy(softmax);
    return status;
}

void cla_softmax_destroy(cla_softmax *softmax) {
    cla_kernel_destroy(softmax->rows);
    cla_kernel_destroy(softmax->values);
    cla_kernel_destroy(softmax->outputs);
    cla_kernel_destroy(softmax->drop);
    *softmax = (cla_softmax){0};
}

clattn_status cla_softmax_rows(clattn_context *context, const cla_softmax *softmax, const cla_softmax_buffers *b,
                               const cla_softmax_args *a, int64_t rows) {
    const cla_arg args[] = {CLA_ARG_BUFFER(b->scratch),
                            CLA_ARG_BUFFER(b->weights),
                            CLA_ARG_BUFFER(b->lse),
                            CLA_ARG_BUFFER(b->state),
                            CLA_ARG_BUFFER(b->spans),
                            CLA_ARG_BUFFER(b->keep),
                            CLA_ARG_BUFFER(b->drop),
                            CLA_ARG_BUFFER(b->bias),
                            CLA_ARG_BUFFER(b->slopes),
                            CLA_ARG_BUFFER(b->q_segments),
                            CLA_ARG_BUFFER(b->k_segments),
                            CLA_ARG_BUFFER(b->sinks),
                            CLA_ARG_VALUE(*a)};
    return cla_launch(context, softmax->rows, rows, args, 13);
}

clattn_status cla_softmax_drop(clattn_context *context, const cla_softmax *softmax, const cla_softmax_buffers *b,
                               const cla_drop_args *a) {
    const int64_t items = (int64_t)a->B * a->H * a->N * a->quads;
    const cla_arg args[] = {CLA_ARG_BUFFER(b->scratch), CLA_ARG_VALUE(*a)};
    return cla_launch(context, softmax->drop, cla_ceil_div(items, softmax->work_group), args, 2);
}

clattn_status cla_softmax_values(clattn_context *context, const cla_softmax *softmax, const clattn_buffer *v,
                                 clattn_buffer *scratch, const cla_values_args *a, int64_t heads) {
    const cla_arg args[] = {CLA_ARG_BUFFER(v), CLA_ARG_BUFFER(scratch), CLA_ARG_BUFFER(scratch), CLA_ARG_VALUE(*a)};
    return cla_launch(context, softmax->values, heads * a->blocks, args, 4);
}

clattn_status cla_softmax_outputs(clattn_context *context, const cla_softmax *softmax, const cla_softmax_buffers *b,
                                  const cla_outputs_args *a) {
    const int64_t elements = (int64_t)a->B * a->H * a->N * a->columns;
    const cla_arg args[] = {CLA_ARG_BUFFER(b->scratch), CLA_ARG_BUFFER(b->scratch), CLA_ARG_BUFFER(b->v),
                            CLA_ARG_BUFFER(b->o), CLA_ARG_VALUE(*a)};
    return cla_launch(context, softmax->outputs, cla_ceil_div(elements, softmax->work_group), args, 5);
}
