/* SPDX-License-Identifier: Apache-2.0 */
#include "case_file.h"

#include "args.h"
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 12 };

typedef struct writer {
    clattn_named_array named[TENSORS_MAX];
    char names[TENSORS_MAX][32];
    size_t count;
} writer;

/* A row-major copy of a view. */
static clattn_status pack(const clattn_tensor *t, clattn_array *array) {
    const clattn_status status = clattn_array_create(t->dtype, t->rank, t->shape, array);
    if (status != CLATTN_OK || clattn_tensor_elements(t) == 0)
        return status;
    const size_t size = clattn_dtype_size(t->dtype);
    int64_t at[CLATTN_MAX_RANK] = {0};
    char *to = array->data;
    for (int axis = 0; axis >= 0; to += size) {
        int64_t index = t->offset;
        for (int i = 0; i < t->rank; i++)
            index += at[i] * t->stride[i];
        memcpy(to, (const char *)t->host + (size_t)index * size, size);
        for (axis = t->rank - 1; axis >= 0 && ++at[axis] == t->shape[axis]; axis--)
            at[axis] = 0;
    }
    return CLATTN_OK;
}

static clattn_status add_tensor(writer *w, const char *name, const clattn_tensor *t) {
    if (t->rank == 0)
        return CLATTN_OK;
    clattn_named_array *n = &w->named[w->count];
    snprintf(w->names[w->count], sizeof w->names[0], CLA_CASE_NAME "/%s", name);
    n->name = w->names[w->count++];
    return pack(t, &n->array);
}

/* ---- JSON: a NULL anywhere leaves something out, which the check at the end of text_of notices ---- */

static cJSON *number_list(const int64_t *numbers, int64_t count) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)numbers[i]);
        cJSON_AddItemToArray(list, cJSON_CreateRaw(text)); /* a double would round */
    }
    return list;
}

static cJSON *attributes(const cla_case *c) {
    static const char *const aligns[] = {"unset", "top-left", "bottom-right", "offset"};
    const clattn_attention_args *a = c->args;
    const int64_t batch = a->q.shape[0];
    const int64_t window[2] = {a->window_left == CLATTN_UNLIMITED ? -1 : a->window_left,
                               a->window_right == CLATTN_UNLIMITED ? -1 : a->window_right};
    cJSON *attrs = cJSON_CreateObject();
    cJSON_AddStringToObject(attrs, "version", clattn_version());
    cJSON_AddStringToObject(attrs, "device", c->device->spec);
    cJSON_AddStringToObject(attrs, "device_name", c->device->name);
    cJSON_AddStringToObject(attrs, "driver", c->device->driver);
    cJSON_AddStringToObject(attrs, "algorithm", c->algorithm);
    cJSON_AddItemToObject(attrs, "scale", a->has_scale ? cJSON_CreateNumber(a->scale) : cJSON_CreateNull());
    cJSON_AddBoolToObject(attrs, "causal", a->causal);
    cJSON_AddStringToObject(attrs, "align", aligns[a->align]);
    cJSON_AddItemToObject(attrs, "offsets", a->offsets ? number_list(a->offsets, batch) : cJSON_CreateNull());
    cJSON_AddItemToObject(attrs, "window", a->has_window ? number_list(window, 2) : cJSON_CreateNull());
    cJSON_AddItemToObject(attrs, "lengths", a->key_lengths ? number_list(a->key_lengths, batch) : cJSON_CreateNull());
    return attrs;
}

static void add_input(cJSON *in, const char *name, const clattn_tensor *t) {
    if (t->rank > 0)
        cJSON_AddItemToArray(in, cJSON_CreateString(name));
}

static void add_output(cJSON *out, const char *name, const cla_case_result *r) {
    if (r->view.rank == 0)
        return;
    cJSON *tolerances = cJSON_AddArrayToObject(out, name);
    cJSON_AddItemToArray(tolerances, cJSON_CreateNumber(r->rtol));
    cJSON_AddItemToArray(tolerances, cJSON_CreateNumber(r->atol));
}

static char *text_of(const cla_case *c) {
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "op", CLA_CASE_OP);
    cJSON_AddNullToObject(root, "opset");
    cJSON_AddItemToObject(root, "attrs", attributes(c));
    cJSON *in = cJSON_AddArrayToObject(root, "in");
    add_input(in, "Q", &c->args->q);
    add_input(in, "K", &c->args->k);
    add_input(in, "V", &c->args->v);
    add_input(in, "keep", &c->args->keep);
    add_input(in, "drop", &c->args->drop);
    add_input(in, "bias", &c->args->bias);
    cJSON *out = cJSON_AddObjectToObject(root, "out");
    add_output(out, "Y", &c->o);
    add_output(out, "LSE", &c->lse);
    add_output(out, "P", &c->weights);
    const bool whole = cJSON_AddStringToObject(root, "note", c->note) != NULL;
    char *text = whole ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

int cla_case_write(const char *path, const cla_case *c) {
    writer w = {.count = 0};
    const struct {
        const char *name;
        const clattn_tensor *t;
    } all[TENSORS_MAX] = {{"Q", &c->args->q},       {"K", &c->args->k},       {"V", &c->args->v},
                          {"keep", &c->args->keep}, {"drop", &c->args->drop}, {"bias", &c->args->bias},
                          {"Y", &c->o.view},        {"LSE", &c->lse.view},    {"P", &c->weights.view},
                          {"Y_got", &c->o.got},     {"LSE_got", &c->lse.got}, {"P_got", &c->weights.got}};
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < TENSORS_MAX && status == CLATTN_OK; i++)
        status = add_tensor(&w, all[i].name, all[i].t);
    char *text = text_of(c);
    int exit_status = CLA_EXIT_OK;
    if (!text)
        exit_status = cla_fail(CLA_EXIT_FAILED, "--dump: out of memory for the case's text");
    else if (status == CLATTN_OK)
        status = clattn_safetensors_write(path, w.named, w.count, &(clattn_metadata_pair){CLA_CASE_NAME, text}, 1);
    if (status != CLATTN_OK)
        exit_status = cla_fail(CLA_EXIT_FAILED, "--dump: %s", clattn_last_error());
    for (size_t i = 0; i < w.count; i++)
        clattn_array_free(&w.named[i].array);
    cJSON_free(text);
    return exit_status;
}
