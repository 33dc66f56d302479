/* SPDX-License-Identifier: Apache-2.0 */
#include "study_weights.h"

#include "layer_tensors.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_STREAM 100000 /* beyond those of `scale` */

static void add(cla_weights *w, const char *prefix, const char *name, const clattn_array *array) {
    assert(w->count < CLA_WEIGHTS_MAX);
    clattn_named_array *n = &w->named[w->count];
    snprintf(w->names[w->count], sizeof w->names[0], "%s%s", prefix, name);
    *n = (clattn_named_array){w->names[w->count], *array};
    w->count++;
}

bool cla_weights_stored(cla_study *study, const char *set, const char *prefix, bool decoder, cla_weights *weights) {
    for (size_t i = 0; i < CLA_LAYER_TENSORS; i++) {
        char name[96];
        if (cla_layer_tensors[i].of_decoder && !decoder)
            continue;
        snprintf(name, sizeof name, "%s/%s", set, cla_layer_tensors[i].name);
        const clattn_array *a = cla_study_tensor(study, name, CLATTN_F32);
        if (!a)
            return false;
        add(weights, prefix, cla_layer_tensors[i].name, a);
    }
    return true;
}

bool cla_weights_drawn(cla_study *study, const char *prefix, bool decoder, int64_t E, int64_t F, cla_weights *weights) {
    for (size_t i = 0; i < CLA_LAYER_TENSORS; i++) {
        const int64_t shape[2] = {cla_layer_tensors[i].rows_E * E + cla_layer_tensors[i].rows_F * F,
                                  cla_layer_tensors[i].columns_E * E + cla_layer_tensors[i].columns_F * F};
        const int rank = shape[1] > 0 ? 2 : 1;
        if (cla_layer_tensors[i].of_decoder && !decoder)
            continue;
        clattn_array *a = cla_study_new(study, CLATTN_F32, rank, shape);
        if (!a || !cla_study_draw(study, FIRST_STREAM + weights->count, a))
            return false;
        const size_t count = a->bytes / sizeof(float);
        const double spread = rank == 2 ? 1 / sqrt((double)shape[1]) : 0.1;
        float *x = a->data;
        for (size_t j = 0; j < count; j++)
            x[j] = (float)((cla_layer_tensors[i].is_scale ? 1 : 0) + spread * (double)x[j]);
        add(weights, prefix, cla_layer_tensors[i].name, a);
    }
    return true;
}
