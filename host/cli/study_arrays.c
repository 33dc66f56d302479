/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of an experiment, which live as long as it does. */
#include "args.h"
#include "study.h"
#include "study_data.h"
#include <clattn/ops.h>
#include <math.h>
#include <stdlib.h>

typedef struct cla_study_array {
    clattn_array array;
    struct cla_study_array *next;
} cla_study_array;

static clattn_array *add(cla_study *study) {
    cla_study_array *a = calloc(1, sizeof *a);
    if (!a) {
        cla_fail(CLA_EXIT_FAILED, "study %s: out of memory", study->name);
        return NULL;
    }
    a->next = study->arrays;
    study->arrays = a;
    return &a->array;
}

clattn_array *cla_study_new(cla_study *study, clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_array *a = add(study);
    const clattn_status status = a ? clattn_array_create(dtype, rank, shape, a) : CLATTN_OK;
    if (status != CLATTN_OK)
        cla_study_fail(study, status);
    return status == CLATTN_OK ? a : NULL;
}

bool cla_study_draw(cla_study *study, uint64_t stream, clattn_array *array) {
    const clattn_random_args args = {.y = clattn_array_tensor(array), .seed = study->seed, .stream = stream};
    const clattn_status status = clattn_random(study->context, &args);
    if (status != CLATTN_OK)
        cla_study_fail(study, status);
    return status == CLATTN_OK;
}

static bool is_float(clattn_dtype dtype) { return dtype == CLATTN_F64 || dtype == CLATTN_F32; }

clattn_array *cla_study_tensor(cla_study *study, const char *name, clattn_dtype dtype) {
    clattn_array *a = add(study), stored = {0};
    if (!a || !cla_study_load(name, &stored))
        return NULL;
    if (!is_float(stored.dtype)) {
        *a = stored;
        return a;
    }
    const clattn_status status = clattn_array_convert(&stored, dtype, a);
    clattn_array_free(&stored);
    if (status != CLATTN_OK)
        cla_study_fail(study, status);
    return status == CLATTN_OK ? a : NULL;
}

clattn_array *cla_study_input(cla_study *study, const char *name) {
    return cla_study_tensor(study, name, study->dtype);
}

clattn_array *cla_study_stored(cla_study *study, const char *name) { return cla_study_tensor(study, name, CLATTN_F64); }

clattn_tensor cla_study_view(const clattn_array *array) {
    int64_t shape[4] = {1, 1, 1, 1};
    for (int i = 0; i < array->rank; i++)
        shape[4 - array->rank + i] = array->shape[i];
    return clattn_tensor_host(array->data, array->dtype, 4, shape);
}

double cla_study_at(const clattn_array *array, size_t i) {
    return array->dtype == CLATTN_F64   ? ((const double *)array->data)[i]
           : array->dtype == CLATTN_F32 ? (double)((const float *)array->data)[i]
                                        : (double)NAN;
}

static size_t elements(const clattn_array *a) {
    size_t n = 1;
    for (int i = 0; i < a->rank; i++)
        n *= (size_t)a->shape[i];
    return n;
}

double cla_study_part_difference(const clattn_array *a, size_t first_a, const clattn_array *b, size_t first_b,
                                 size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        const double d = fabs(cla_study_at(a, first_a + i) - cla_study_at(b, first_b + i));
        if (isnan(d))
            return INFINITY;
        most = d > most ? d : most;
    }
    return most;
}

double cla_study_difference(const clattn_array *a, const clattn_array *b) {
    const size_t n = elements(a);
    return elements(b) == n ? cla_study_part_difference(a, 0, b, 0, n) : INFINITY;
}

int cla_study_fail(const cla_study *study, clattn_status status) {
    const char *text = clattn_last_error();
    return cla_fail(CLA_EXIT_FAILED, "study %s: %s", study->name, text[0] ? text : clattn_status_text(status));
}

void cla_study_free(cla_study *study) {
    while (study->arrays) {
        cla_study_array *next = study->arrays->next;
        clattn_array_free(&study->arrays->array);
        free(study->arrays);
        study->arrays = next;
    }
    cla_cost_free(study->cost);
    study->cost = NULL;
    cJSON_Delete(study->rows);
    free(study->figures);
    study->rows = NULL;
    study->figures = NULL;
    study->figure_count = 0;
}
