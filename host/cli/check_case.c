/* SPDX-License-Identifier: Apache-2.0 */
/* Cases: the JSON description, attributes, tensors, and the table of ops. */
#include "check_case.h"

#include "call_facts.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool cla_check_error(cla_check_case *c, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(c->error, sizeof c->error, format, list);
    va_end(list);
    return false;
}

/* The first reason stays. */
void cla_check_skip(cla_check_case *c, const char *format, ...) {
    if (c->skip[0])
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(c->skip, sizeof c->skip, format, list);
    va_end(list);
}

static const cJSON *attr(const cla_check_case *c, const char *name) {
    const cJSON *a = cJSON_GetObjectItemCaseSensitive(c->attrs, name);
    return !a || cJSON_IsNull(a) ? NULL : a;
}

bool cla_check_attr_real(cla_check_case *c, const char *name, double unset, double *value) {
    const cJSON *a = attr(c, name);
    *value = !a ? unset : cJSON_IsBool(a) ? cJSON_IsTrue(a) : a->valuedouble;
    if (a && !cJSON_IsNumber(a) && !cJSON_IsBool(a))
        return cla_check_error(c, "the attribute %s is not a number", name);
    return true;
}

bool cla_check_attr_int(cla_check_case *c, const char *name, int64_t unset, int64_t *value) {
    double x;
    *value = unset;
    if (!attr(c, name))
        return true;
    if (!cla_check_attr_real(c, name, 0, &x))
        return false;
    if (!(fabs(x) < 0x1p53) || x != floor(x))
        return cla_check_error(c, "the attribute %s is %g, not a whole number", name, x);
    *value = (int64_t)x;
    return true;
}

bool cla_check_attr_flag(cla_check_case *c, const char *name, bool *value) {
    int64_t x;
    if (!cla_check_attr_int(c, name, 0, &x))
        return false;
    *value = x == 1;
    return x == 0 || x == 1 || cla_check_error(c, "the attribute %s is %" PRId64 ", not 0 or 1", name, x);
}

bool cla_check_attr_text(cla_check_case *c, const char *name, const char *unset, const char **value) {
    const cJSON *a = attr(c, name);
    *value = cJSON_IsString(a) ? a->valuestring : unset;
    return !a || cJSON_IsString(a) || cla_check_error(c, "the attribute %s is not a text", name);
}

static bool is_in(const char *name, const char *const *list) {
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

bool cla_check_known(cla_check_case *c, const char *const *attrs, const char *const *inputs) {
    const cJSON *x;
    cJSON_ArrayForEach(x, c->attrs) {
        if (!cJSON_IsNull(x) && (!x->string || !is_in(x->string, attrs)))
            return cla_check_error(c, "the attribute %s is not known", x->string ? x->string : "without a name");
    }
    cJSON_ArrayForEach(x, cJSON_GetObjectItemCaseSensitive(c->json, "in")) {
        if (cJSON_IsString(x) && !*x->valuestring) /* as ONNX names one that is left out */
            continue;
        if (!cJSON_IsString(x) || !is_in(x->valuestring, inputs))
            return cla_check_error(c, "the input %s is not known",
                                   cJSON_IsString(x) ? x->valuestring : "without a name");
    }
    return true;
}

bool cla_check_has_input(const cla_check_case *c, const char *name) {
    const cJSON *input;
    cJSON_ArrayForEach(input, cJSON_GetObjectItemCaseSensitive(c->json, "in")) {
        if (cJSON_IsString(input) && strcmp(input->valuestring, name) == 0)
            return true;
    }
    return false;
}

bool cla_check_dtype_of(cla_check_case *c, const char *tensor, clattn_dtype *dtype) {
    char name[CLA_CHECK_TEXT];
    size_t index;
    clattn_safetensors_entry entry;
    snprintf(name, sizeof name, "%s/%s", c->name, tensor);
    if (!clattn_safetensors_find(c->file, name, &index) || !clattn_safetensors_entry_at(c->file, index, &entry))
        return cla_check_error(c, "there is no tensor %s", name);
    *dtype = entry.dtype;
    return true;
}

cla_check_job *cla_check_job_of(cla_check_case *c, clattn_dtype dtype) {
    for (size_t i = 0; i < c->job_count; i++)
        if (c->jobs[i].dtype == dtype && !c->jobs[i].replaced.q)
            return &c->jobs[i];
    if (c->job_count == CLA_CHECK_JOBS) {
        cla_check_error(c, "more than %d types of results", CLA_CHECK_JOBS);
        return NULL;
    }
    c->jobs[c->job_count].dtype = dtype;
    return &c->jobs[c->job_count++];
}

/* The next free array of a job, or NULL. It counts once it is filled. */
static clattn_array *free_array(cla_check_case *c, cla_check_job *job) {
    if (job->array_count < CLA_CHECK_ARRAYS)
        return &job->arrays[job->array_count];
    cla_check_error(c, "more than %d tensors", CLA_CHECK_ARRAYS);
    return NULL;
}

clattn_array *cla_check_new_array(cla_check_case *c, cla_check_job *job, clattn_dtype dtype, int rank,
                                  const int64_t *shape) {
    clattn_array *array = free_array(c, job);
    if (!array)
        return NULL;
    if (clattn_array_create(dtype, rank, shape, array) != CLATTN_OK) {
        cla_check_error(c, "%s", clattn_last_error());
        return NULL;
    }
    job->array_count++;
    return array;
}

clattn_array *cla_check_read_raw(cla_check_case *c, cla_check_job *job, const char *name) {
    clattn_array *array = free_array(c, job);
    if (!array)
        return NULL;
    const size_t size = strlen(c->name) + strlen(name) + 2;
    char *path = malloc(size);
    if (!path) {
        cla_check_error(c, "out of memory for a name of %zu bytes", size);
        return NULL;
    }
    snprintf(path, size, "%s/%s", c->name, name);
    const clattn_status status = clattn_safetensors_read(c->file, path, array);
    free(path);
    if (status != CLATTN_OK) {
        cla_check_error(c, "%s", clattn_last_error());
        return NULL;
    }
    job->array_count++;
    return array;
}

bool cla_check_convert(cla_check_case *c, clattn_array *array, clattn_dtype dtype) {
    clattn_array converted;
    if (array->dtype == dtype)
        return true;
    if (clattn_array_convert(array, dtype, &converted) != CLATTN_OK)
        return cla_check_error(c, "%s", clattn_last_error());
    clattn_array_free(array);
    *array = converted;
    return true;
}

clattn_array *cla_check_read(cla_check_case *c, cla_check_job *job, const char *name) {
    clattn_array *array = cla_check_read_raw(c, job, name);
    if (!array || !cla_is_float(array->dtype))
        return array;
    return cla_check_convert(c, array, job->dtype) ? array : NULL;
}

bool cla_check_same_shape(const clattn_array *a, const clattn_array *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* [rtol, atol] */
static bool tolerances(cla_check_case *c, const cJSON *out, cla_check_output *output) {
    const cJSON *rtol = cJSON_GetArrayItem(out, 0), *atol = cJSON_GetArrayItem(out, 1);
    if (!cJSON_IsNumber(rtol) || !cJSON_IsNumber(atol) || !(rtol->valuedouble >= 0) || !(atol->valuedouble >= 0))
        return cla_check_error(c, "%s: its tolerances are not [rtol, atol]", out->string);
    output->rtol = rtol->valuedouble;
    output->atol = atol->valuedouble;
    return true;
}

bool cla_check_want(cla_check_case *c, cla_check_job *job, const cJSON *out, cla_check_source source,
                    const clattn_array *got) {
    if (job->output_count == CLA_CHECK_OUTPUTS)
        return cla_check_error(c, "more than %d outputs", CLA_CHECK_OUTPUTS);
    cla_check_output *output = &job->outputs[job->output_count];
    const clattn_array *want = cla_check_read_raw(c, job, out->string);
    if (!want || !tolerances(c, out, output))
        return false;
    if (!cla_check_same_shape(got, want))
        return cla_check_error(c, "%s: its shape does not follow from those of the inputs", out->string);
    output->name = out->string;
    output->source = source;
    output->got = got;
    output->want = want;
    job->output_count++;
    return true;
}

bool cla_check_set_mask(cla_check_case *c, cla_check_job *job, const clattn_array *mask) {
    clattn_tensor t = clattn_array_tensor(mask);
    if (mask->dtype != CLATTN_BOOL && !cla_is_float(mask->dtype))
        return cla_check_error(c, "the mask is %s, neither bool nor of a float type", clattn_dtype_name(mask->dtype));
    if (t.rank == 1)
        t = clattn_tensor_split(t, 0, 1);
    *(mask->dtype == CLATTN_BOOL ? &job->args.keep : &job->args.bias) = t;
    return true;
}

static const struct {
    const char *op;
    bool (*build)(cla_check_case *c);
    bool by_algorithm;
} builders[] = {{"sdpa", cla_check_build_sdpa, true},
                {"sdpa_weights", cla_check_build_sdpa, true},
                {"sdpa_grad", cla_check_build_grad, true},
                {"sdpa_mask_1e9", cla_check_build_sdpa, true},
                {"Attention", cla_check_build_attention, true},
                {"RotaryEmbedding", cla_check_build_rotary, false},
                {"LayerNormalization", cla_check_build_layer_norm, false},
                {"RMSNormalization", cla_check_build_rms_norm, false},
                {"Softmax", cla_check_build_softmax, false},
                {"mha", cla_check_build_mha, false},
                {"encoder_layer", cla_check_build_encoder, false},
                {"decoder_layer", cla_check_build_decoder, false},
                {"mha_causal_probe", cla_check_build_causal_probe, false},
                {"mha_permutation_pe", cla_check_build_permutation, false},
                {"clattn_run", cla_check_build_clattn_run, true}};

bool cla_check_case_open(clattn_safetensors *file, const char *name, const char *description, cla_check_case *c) {
    *c = (cla_check_case){.name = name, .op = "?", .file = file};
    c->json = cJSON_Parse(description);
    const cJSON *op = cJSON_GetObjectItemCaseSensitive(c->json, "op");
    if (!cJSON_IsString(op))
        return cla_check_error(c, "its description is not a JSON text with an op");
    c->op = op->valuestring;
    c->attrs = cJSON_GetObjectItemCaseSensitive(c->json, "attrs");
    for (size_t i = 0; i < sizeof builders / sizeof *builders; i++) {
        if (strcmp(c->op, builders[i].op) != 0)
            continue;
        c->by_algorithm = builders[i].by_algorithm;
        const cJSON *out = cJSON_GetObjectItemCaseSensitive(c->json, "out");
        if (!cJSON_IsObject(out) || !out->child)
            return cla_check_error(c, "its description names no outputs");
        return builders[i].build(c);
    }
    cla_check_skip(c, "op %s comes with a later version", c->op);
    return true;
}

void cla_check_case_free(cla_check_case *c) {
    for (size_t i = 0; i < c->job_count; i++)
        for (size_t j = 0; j < c->jobs[i].array_count; j++)
            clattn_array_free(&c->jobs[i].arrays[j]);
    cJSON_Delete(c->json);
    *c = (cla_check_case){0};
}
