/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that `clattn run --dump` wrote (format: case_file.h). */
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
    } inputs[] = {{"Q", &a->q, false},      {"K", &a->k, false},      {"V", &a->v, false},
                  {"keep", &a->keep, true}, {"drop", &a->drop, true}, {"bias", &a->bias, true}};
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

/* A list of whole numbers, one a batch. *numbers stays NULL when the attribute is null or absent. */
static bool numbers(cla_check_case *c, cla_check_job *job, const char *name, int64_t count, const int64_t **numbers) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->attrs, name);
    if (!list || cJSON_IsNull(list))
        return true;
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
    const char *text = cla_check_attr_text(c, "align", "unset");
    const int index = cla_index_of(text, names);
    if (index < 0)
        return cla_check_error(c, "the alignment %s is not known", text);
    job->args.align = (clattn_align)index;
    return true;
}

static bool set_options(cla_check_case *c, cla_check_job *job) {
    clattn_attention_args *a = &job->args;
    const int64_t batch = a->q.shape[0];
    const int64_t *window = NULL;
    int64_t causal;
    if (!cla_check_attr_real(c, "scale", NAN, &a->scale) || !cla_check_attr_int(c, "causal", 0, &causal) ||
        !set_align(c, job) || !numbers(c, job, "offsets", batch, &a->offsets) ||
        !numbers(c, job, "lengths", batch, &a->key_lengths) || !numbers(c, job, "window", 2, &window))
        return false;
    a->has_scale = !isnan(a->scale);
    a->causal = causal != 0;
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
    const struct {
        const char *name;
        cla_check_source source;
        clattn_tensor *tensor;
        int rank;
        int64_t shape[4];
    } outputs[] = {{"Y", CLA_CHECK_FROM_O, &a->o, 4, {b, h, n, a->v.shape[3]}},
                   {"LSE", CLA_CHECK_FROM_LSE, &a->lse, 3, {b, h, n}},
                   {"P", CLA_CHECK_FROM_WEIGHTS, &a->weights, 4, {b, h, n, a->k.shape[2]}}};
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(c->json, "out");
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        const cJSON *out = cJSON_GetObjectItemCaseSensitive(list, outputs[i].name);
        if (!out && i > 0)
            continue;
        const clattn_array *got = cla_check_new_array(c, job, job->dtype, outputs[i].rank, outputs[i].shape);
        if (!got || (out && !cla_check_want(c, job, out, outputs[i].source, got)))
            return false;
        *outputs[i].tensor = clattn_array_tensor(got);
    }
    return true;
}

bool cla_check_build_clattn_run(cla_check_case *c) {
    clattn_dtype dtype;
    if (!cla_check_dtype_of(c, "Q", &dtype))
        return false;
    if (dtype != CLATTN_F32 && dtype != CLATTN_F64) {
        cla_check_skip(c, "f16 and bf16 come with a later version");
        return true;
    }
    cla_check_job *job = cla_check_job_of(c, dtype);
    return job && load_inputs(c, job) && set_options(c, job) && want_outputs(c, job);
}
