/* SPDX-License-Identifier: Apache-2.0 */
#include "case_file.h"

#include "args.h"
#include "call_facts.h"
#include "json_put.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 17 };

typedef struct writer {
    clattn_named_array named[TENSORS_MAX];
    char names[TENSORS_MAX][32];
    size_t count;
} writer;

static bool is_packed(clattn_dtype dtype) { return clattn_dtype_length(dtype) > 1; }

/* A row-major copy of a view; of blocks their numbers in f32, from which the same blocks can be made. */
static clattn_status pack(const clattn_tensor *t, clattn_array *array) {
    const clattn_dtype dtype = is_packed(t->dtype) ? CLATTN_F32 : t->dtype;
    clattn_status status = clattn_array_create(dtype, t->rank, t->shape, array);
    if (status != CLATTN_OK || clattn_tensor_elements(t) == 0)
        return status;
    const size_t size = clattn_dtype_size(dtype), length = clattn_dtype_length(t->dtype);
    int64_t at[CLATTN_MAX_RANK] = {0};
    char *to = array->data;
    for (int axis = 0; axis >= 0 && status == CLATTN_OK; to += length * size) {
        int64_t index = t->offset;
        for (int i = 0; i < t->rank; i++)
            index += at[i] * t->stride[i];
        const char *from = (const char *)t->host + clattn_dtype_bytes(t->dtype, (size_t)index);
        if (is_packed(t->dtype))
            status = clattn_convert(to, dtype, from, t->dtype, length);
        else
            memcpy(to, from, size);
        at[t->rank - 1] += (int64_t)length - 1;
        for (axis = t->rank - 1; axis >= 0 && ++at[axis] == t->shape[axis]; axis--)
            at[axis] = 0;
    }
    return status;
}

static clattn_status add_tensor(writer *w, const char *name, const clattn_tensor *t) {
    if (t->rank == 0)
        return CLATTN_OK;
    clattn_named_array *n = &w->named[w->count];
    snprintf(w->names[w->count], sizeof w->names[0], CLA_CASE_NAME "/%s", name);
    n->name = w->names[w->count++];
    return pack(t, &n->array);
}

/* ---- JSON; whole: nothing was left out for want of memory ---- */

static cJSON *number_list(const int64_t *numbers, int64_t count, bool *whole) {
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%lld", (long long)numbers[i]);
        cla_json_put(list, NULL, cJSON_CreateRaw(text), whole); /* a double would round */
    }
    return list;
}

static void add_list(cJSON *attrs, const char *name, const int64_t *numbers, int64_t count, bool *whole) {
    cla_json_put(attrs, name, numbers ? number_list(numbers, count, whole) : cJSON_CreateNull(), whole);
}

/* Of K and V that are not in a file's type. */
static void add_type(cJSON *attrs, const char *name, clattn_dtype dtype, bool *whole) {
    cla_json_put(attrs, name, is_packed(dtype) ? cJSON_CreateString(clattn_dtype_name(dtype)) : cJSON_CreateNull(),
                 whole);
}

static cJSON *attributes(const cla_case *c, bool *whole) {
    static const char *const aligns[] = {"unset", "top-left", "bottom-right", "offset"};
    const clattn_attention_args *a = c->args;
    const int64_t batch = a->sequences > 0 ? a->sequences : a->q.shape[0], ends = batch + 1;
    const int64_t window[2] = {a->window_left == CLATTN_UNLIMITED ? -1 : a->window_left,
                               a->window_right == CLATTN_UNLIMITED ? -1 : a->window_right};
    cJSON *attrs = cJSON_CreateObject();
    cla_json_put(attrs, "version", cJSON_CreateString(clattn_version()), whole);
    cla_json_put(attrs, "device", cJSON_CreateString(c->device->spec), whole);
    cla_json_put(attrs, "device_name", cJSON_CreateString(c->device->name), whole);
    cla_json_put(attrs, "driver", cJSON_CreateString(c->device->driver), whole);
    cla_json_put(attrs, "algorithm", cJSON_CreateString(c->algorithm), whole);
    cla_json_put(attrs, "scale", a->has_scale ? cJSON_CreateNumber(a->scale) : cJSON_CreateNull(), whole);
    cla_json_put(attrs, "causal", cJSON_CreateBool(a->causal), whole);
    cla_json_put(attrs, "align", cJSON_CreateString(aligns[a->align]), whole);
    add_list(attrs, "offsets", a->offsets, batch, whole);
    cla_json_put(attrs, "window", a->has_window ? number_list(window, 2, whole) : cJSON_CreateNull(), whole);
    add_list(attrs, "lengths", a->key_lengths, batch, whole);
    add_list(attrs, "query_lengths", a->query_lengths, batch, whole);
    add_list(attrs, "prefix_lengths", a->prefix_lengths, batch, whole);
    add_list(attrs, "cu_queries", a->cu_queries, ends, whole);
    add_list(attrs, "cu_keys", a->cu_keys, ends, whole);
    cla_json_put(attrs, "softcap", cJSON_CreateNumber(a->softcap), whole);
    cla_json_put(attrs, "short_masks", cJSON_CreateBool(a->short_masks), whole);
    cla_json_put(attrs, "batch_invariant", cJSON_CreateBool(a->batch_invariant), whole);
    add_type(attrs, "k_type", a->k.dtype, whole);
    add_type(attrs, "v_type", a->v.dtype, whole);
    return attrs;
}

/* The inputs of a call as tensors, its host arrays too. */
typedef struct input {
    const char *name;
    clattn_tensor t; /* rank 0: not given */
} input;
enum { INPUTS = 11 };

static void inputs_of(const clattn_attention_args *a, input list[INPUTS]) {
    const int64_t batch = a->sequences > 0 ? a->sequences : a->q.shape[0];
    const int64_t keys = a->block_table ? a->table_pages * a->k.shape[2] : a->k.shape[2];
    const int64_t queries[2] = {batch, cla_longest(a->cu_queries, a->sequences, a->q.shape[2])};
    const int64_t columns[2] = {batch, cla_longest(a->cu_keys, a->sequences, keys)}, pages[2] = {batch, a->table_pages};
    const struct {
        const void *data;
        clattn_dtype dtype;
        int rank;
        const int64_t *shape;
    } arrays[] = {{a->alibi_slopes, CLATTN_F32, 1, &a->q.shape[1]},
                  {a->query_segments, CLATTN_I32, 2, queries},
                  {a->key_segments, CLATTN_I32, 2, columns},
                  {a->block_table, CLATTN_I32, 2, pages}};
    const input all[INPUTS] = {{"Q", a->q},           {"K", a->k},         {"V", a->v},
                               {"keep", a->keep},     {"drop", a->drop},   {"bias", a->bias},
                               {"sinks", a->sinks},   {"slopes", {0}},     {"query_segments", {0}},
                               {"key_segments", {0}}, {"block_table", {0}}};
    memcpy(list, all, sizeof all);
    for (int i = 0; i < 4; i++)
        if (arrays[i].data)
            list[7 + i].t = clattn_tensor_host(arrays[i].data, arrays[i].dtype, arrays[i].rank, arrays[i].shape);
}

static void add_output(cJSON *out, const char *name, const cla_case_result *r, bool *whole) {
    if (r->view.rank == 0)
        return;
    cJSON *tolerances = cJSON_AddArrayToObject(out, name);
    cla_json_put(tolerances, NULL, cJSON_CreateNumber(r->rtol), whole);
    cla_json_put(tolerances, NULL, cJSON_CreateNumber(r->atol), whole);
}

static char *text_of(const cla_case *c) {
    bool whole = true;
    cJSON *root = cJSON_CreateObject();
    cla_json_put(root, "op", cJSON_CreateString(CLA_CASE_OP), &whole);
    cla_json_put(root, "opset", cJSON_CreateNull(), &whole);
    cla_json_put(root, "attrs", attributes(c, &whole), &whole);
    cJSON *in = cJSON_AddArrayToObject(root, "in");
    input inputs[INPUTS];
    inputs_of(c->args, inputs);
    for (int i = 0; i < INPUTS; i++)
        if (inputs[i].t.rank > 0)
            cla_json_put(in, NULL, cJSON_CreateString(inputs[i].name), &whole);
    cJSON *out = cJSON_AddObjectToObject(root, "out");
    add_output(out, "Y", &c->o, &whole);
    add_output(out, "LSE", &c->lse, &whole);
    add_output(out, "P", &c->weights, &whole);
    cla_json_put(root, "note", cJSON_CreateString(c->note), &whole);
    char *text = whole ? cJSON_PrintUnformatted(root) : NULL;
    cJSON_Delete(root);
    return text;
}

int cla_case_write(const char *path, const cla_case *c) {
    writer w = {.count = 0};
    const struct {
        const char *name;
        const clattn_tensor *t;
    } results[] = {{"Y", &c->o.view},    {"LSE", &c->lse.view},    {"P", &c->weights.view},
                   {"Y_got", &c->o.got}, {"LSE_got", &c->lse.got}, {"P_got", &c->weights.got}};
    clattn_status status = CLATTN_OK;
    input inputs[INPUTS];
    inputs_of(c->args, inputs);
    for (int i = 0; i < INPUTS && status == CLATTN_OK; i++)
        status = add_tensor(&w, inputs[i].name, &inputs[i].t);
    for (int i = 0; i < TENSORS_MAX - INPUTS && status == CLATTN_OK; i++)
        status = add_tensor(&w, results[i].name, results[i].t);
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
