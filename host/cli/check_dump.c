/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that `clattn run --dump` wrote (format: case_file.h). */
#include "call_facts.h"
#include "case_file.h"
#include "check_case.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool load_inputs(cla_check_case *c, cla_check_job *job) {
    clattn_attention_args *a = &job->args;
    const struct {
        const char *name;
        clattn_tensor *tensor;
        bool optional;
    } inputs[] = {{"Q", &a->q, false},       {"K", &a->k, false},      {"V", &a->v, false},
                  {"keep", &a->keep, true},  {"drop", &a->drop, true}, {"bias", &a->bias, true},
                  {"sinks", &a->sinks, true}};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        if (inputs[i].optional && !cla_check_has_input(c, inputs[i].name))
            continue;
        const clattn_array *array = cla_check_read_raw(c, job, inputs[i].name);
        if (!array)
            return false;
        *inputs[i].tensor = clattn_array_tensor(array);
    }
    if (a->q.rank != 4 || a->k.rank != 4 || a->v.rank != 4)
        return cla_check_error(c, "Q, K and V have ranks %d, %d and %d, not 4", a->q.rank, a->k.rank, a->v.rank);
    return true;
}

/* K or V in the blocks that the run had them in. */
static bool pack_keys(cla_check_case *c, cla_check_job *job, const char *name, clattn_tensor *t) {
    static const char *const names[] = {"q8_0", "q4_0", NULL};
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(c->attrs, name);
    if (!type || cJSON_IsNull(type))
        return true;
    const int index = cJSON_IsString(type) ? cla_index_of(type->valuestring, names) : -1;
    if (index < 0 || t->shape[3] % 32 != 0)
        return cla_check_error(c, "the attribute %s is no type of blocks, or rows are not whole blocks of 32", name);
    const clattn_array *packed = cla_check_new_array(c, job, index == 0 ? CLATTN_Q8_0 : CLATTN_Q4_0, t->rank, t->shape);
    if (!packed)
        return false;
    if (clattn_convert(packed->data, packed->dtype, t->host, t->dtype, (size_t)clattn_tensor_elements(t)) != CLATTN_OK)
        return cla_check_error(c, "%s", clattn_last_error());
    *t = clattn_array_tensor(packed);
    return true;
}

/* Host arrays of the call: [rows, columns], or [columns] where rows is 0; columns < 0: any number. */
static bool load_table(cla_check_case *c, cla_check_job *job, const char *name, clattn_dtype dtype, int64_t rows,
                       int64_t columns, const clattn_array **array) {
    *array = NULL;
    if (!cla_check_has_input(c, name))
        return true;
    const clattn_array *a = cla_check_read_raw(c, job, name);
    if (!a)
        return false;
    const int rank = rows > 0 ? 2 : 1;
    if (a->dtype != dtype || a->rank != rank || (rows > 0 && a->shape[0] != rows) ||
        (columns >= 0 && a->shape[rank - 1] != columns))
        return cla_check_error(c, "%s has another type or shape than the call needs", name);
    *array = a;
    return true;
}

/* A list of whole numbers, one a batch. *numbers stays NULL when the attribute is null or absent. */
static bool numbers(cla_check_case *c, cla_check_job *job, const char *name, int64_t count, const int64_t **numbers) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->attrs, name);
    if (!list || cJSON_IsNull(list))
        return true;
    if (count < 0 && cJSON_IsArray(list)) /* any number of them */
        count = cJSON_GetArraySize(list);
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != count)
        return cla_check_error(c, "the attribute %s is no list of %" PRId64 " numbers", name, count);
    clattn_array *array = cla_check_new_array(c, job, CLATTN_I64, 1, &count);
    if (!array)
        return false;
    const cJSON *item;
    int64_t i = 0;
    cJSON_ArrayForEach(item, list) {
        const double x = cJSON_IsNumber(item) ? item->valuedouble : NAN;
        if (!(fabs(x) < 0x1p53) || x != floor(x))
            return cla_check_error(c, "the attribute %s has an entry that is no whole number", name);
        ((int64_t *)array->data)[i++] = (int64_t)x;
    }
    *numbers = array->data;
    return true;
}

static bool set_align(cla_check_case *c, cla_check_job *job) {
    static const char *const names[] = {"unset", "top-left", "bottom-right", "offset", NULL};
    const char *text;
    if (!cla_check_attr_text(c, "align", "unset", &text))
        return false;
    const int index = cla_index_of(text, names);
    if (index < 0)
        return cla_check_error(c, "the alignment %s is not known", text);
    job->args.align = (clattn_align)index;
    return true;
}

/* Sequences, and what has a row for each. */
static bool set_sequences(cla_check_case *c, cla_check_job *job) {
    clattn_attention_args *a = &job->args;
    const clattn_array *slopes, *queries, *keys, *table;
    const cJSON *ends = cJSON_GetObjectItemCaseSensitive(c->attrs, "cu_queries");
    if (!numbers(c, job, "cu_queries", -1, &a->cu_queries) || !numbers(c, job, "cu_keys", -1, &a->cu_keys))
        return false;
    a->sequences = a->cu_queries ? cJSON_GetArraySize(ends) - 1 : 0;
    const int64_t batch = a->cu_queries ? a->sequences : a->q.shape[0];
    if (!load_table(c, job, "block_table", CLATTN_I32, batch, -1, &table))
        return false;
    a->block_table = table ? table->data : NULL;
    a->table_pages = table ? table->shape[1] : 0;
    if (table && a->k.shape[2] > 0 && a->table_pages > INT64_MAX / a->k.shape[2])
        return cla_check_error(c, "%" PRId64 " pages of %" PRId64 " keys are too many", a->table_pages, a->k.shape[2]);
    const int64_t whole = table ? a->table_pages * a->k.shape[2] : a->k.shape[2];
    if (!load_table(c, job, "slopes", CLATTN_F32, 0, a->q.shape[1], &slopes) ||
        !load_table(c, job, "query_segments", CLATTN_I32, batch,
                    cla_longest(a->cu_queries, a->sequences, a->q.shape[2]), &queries) ||
        !load_table(c, job, "key_segments", CLATTN_I32, batch, cla_longest(a->cu_keys, a->sequences, whole), &keys))
        return false;
    a->alibi_slopes = slopes ? slopes->data : NULL;
    a->query_segments = queries ? queries->data : NULL;
    a->key_segments = keys ? keys->data : NULL;
    return numbers(c, job, "query_lengths", batch, &a->query_lengths) &&
           numbers(c, job, "prefix_lengths", batch, &a->prefix_lengths) &&
           numbers(c, job, "offsets", batch, &a->offsets) && numbers(c, job, "lengths", batch, &a->key_lengths);
}

static bool set_options(cla_check_case *c, cla_check_job *job) {
    clattn_attention_args *a = &job->args;
    const int64_t *window = NULL;
    if (!pack_keys(c, job, "k_type", &a->k) || !pack_keys(c, job, "v_type", &a->v) || !set_sequences(c, job) ||
        !cla_check_attr_real(c, "softcap", 0, &a->softcap) ||
        !cla_check_attr_flag(c, "batch_invariant", &a->batch_invariant) ||
        !cla_check_attr_flag(c, "short_masks", &a->short_masks) || !cla_check_attr_real(c, "scale", NAN, &a->scale) ||
        !cla_check_attr_flag(c, "causal", &a->causal) || !set_align(c, job) || !numbers(c, job, "window", 2, &window))
        return false;
    a->has_scale = !isnan(a->scale);
    a->has_window = window != NULL;
    if (window) {
        a->window_left = window[0] < 0 ? CLATTN_UNLIMITED : window[0];
        a->window_right = window[1] < 0 ? CLATTN_UNLIMITED : window[1];
    }
    return true;
}

static bool want_outputs(cla_check_case *c, cla_check_job *job) {
    clattn_attention_args *a = &job->args;
    const int64_t b = a->q.shape[0], h = a->q.shape[1], n = a->q.shape[2];
    const int64_t m = a->block_table ? a->table_pages * a->k.shape[2] : a->k.shape[2];
    const struct {
        const char *name;
        cla_check_source source;
        clattn_tensor *tensor;
        int rank;
        int64_t shape[4];
    } outputs[] = {{"Y", CLA_CHECK_FROM_O, &a->o, 4, {b, h, n, a->v.shape[3]}},
                   {"LSE", CLA_CHECK_FROM_LSE, &a->lse, 3, {b, h, n}},
                   {"P", CLA_CHECK_FROM_WEIGHTS, &a->weights, 4, {b, h, n, m}}};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, "out"), *one;
    cJSON_ArrayForEach(one, list) {
        if (strcmp(one->string, "Y") != 0 && strcmp(one->string, "LSE") != 0 && strcmp(one->string, "P") != 0)
            return cla_check_error(c, "the output %s is not known", one->string);
    }
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const cJSON *out = cJSON_GetObjectItemCaseSensitive(list, outputs[i].name);
        if (!out && i > 0)
            continue;
        clattn_dtype dtype = job->dtype; /* o in a type of its own, the others in that of the sums */
        if (out && !cla_check_dtype_of(c, outputs[i].name, &dtype))
            return false;
        const clattn_array *got = cla_check_new_array(c, job, dtype, outputs[i].rank, outputs[i].shape);
        if (!got || (out && !cla_check_want(c, job, out, outputs[i].source, got)))
            return false;
        *outputs[i].tensor = clattn_array_tensor(got);
    }
    return true;
}

bool cla_check_build_clattn_run(cla_check_case *c) {
    static const char *const attrs[] = {
        "version",    "device",  "device_name",     "driver",      "algorithm", "scale",         "softcap",
        "causal",     "align",   "offsets",         "window",      "lengths",   "query_lengths", "prefix_lengths",
        "cu_queries", "cu_keys", "batch_invariant", "short_masks", "k_type",    "v_type",        NULL};
    static const char *const inputs[] = {"Q",           "K",     "V",      "keep",           "drop",
                                         "bias",        "sinks", "slopes", "query_segments", "key_segments",
                                         "block_table", NULL};
    clattn_dtype dtype;
    if (!cla_check_known(c, attrs, inputs) || !cla_check_dtype_of(c, "Q", &dtype))
        return false;
    cla_check_job *job = cla_check_job_of(c, dtype);
    return job && load_inputs(c, job) && set_options(c, job) && want_outputs(c, job);
}
