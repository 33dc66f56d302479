/* SPDX-License-Identifier: Apache-2.0 */
#include "study_weights.h"

#include "study_random.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FIRST_STREAM 100000 /* beyond those of `scale` */

/* Sizes in E and F: rows E + rows F, columns alike; no columns: a vector. */
static const struct {
    const char *name;
    int rows_E, rows_F, columns_E, columns_F;
    double mean;
    bool of_decoder;
} tensors[] = {
    {"self_attn.in_proj_weight", 3, 0, 1, 0, 0, false},
    {"self_attn.in_proj_bias", 3, 0, 0, 0, 0, false},
    {"self_attn.out_proj.weight", 1, 0, 1, 0, 0, false},
    {"self_attn.out_proj.bias", 1, 0, 0, 0, 0, false},
    {"multihead_attn.in_proj_weight", 3, 0, 1, 0, 0, true},
    {"multihead_attn.in_proj_bias", 3, 0, 0, 0, 0, true},
    {"multihead_attn.out_proj.weight", 1, 0, 1, 0, 0, true},
    {"multihead_attn.out_proj.bias", 1, 0, 0, 0, 0, true},
    {"linear1.weight", 0, 1, 1, 0, 0, false},
    {"linear1.bias", 0, 1, 0, 0, 0, false},
    {"linear2.weight", 1, 0, 0, 1, 0, false},
    {"linear2.bias", 1, 0, 0, 0, 0, false},
    {"norm1.weight", 1, 0, 0, 0, 1, false},
    {"norm1.bias", 1, 0, 0, 0, 0, false},
    {"norm2.weight", 1, 0, 0, 0, 1, false},
    {"norm2.bias", 1, 0, 0, 0, 0, false},
    {"norm3.weight", 1, 0, 0, 0, 1, true},
    {"norm3.bias", 1, 0, 0, 0, 0, true},
};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static void add(cla_weights *w, const char *prefix, const char *name, const clattn_array *array) {
    assert(w->count < CLA_WEIGHTS_MAX);
    clattn_named_array *n = &w->named[w->count];
    snprintf(w->names[w->count], sizeof w->names[0], "%s%s", prefix, name);
    *n = (clattn_named_array){w->names[w->count], *array};
    w->count++;
}

bool cla_weights_stored(cla_study *study, const char *set, const char *prefix, bool decoder, cla_weights *weights) {
    for (size_t i = 0; i < TENSORS; i++) {
        char name[96];
        if (tensors[i].of_decoder && !decoder)
            continue;
        snprintf(name, sizeof name, "%s/%s", set, tensors[i].name);
        const clattn_array *a = cla_study_tensor(study, name, CLATTN_F32);
        if (!a)
            return false;
        add(weights, prefix, tensors[i].name, a);
    }
    return true;
}

bool cla_weights_drawn(cla_study *study, const char *prefix, bool decoder, int64_t E, int64_t F, cla_weights *weights) {
    for (size_t i = 0; i < TENSORS; i++) {
        const int64_t shape[2] = {tensors[i].rows_E * E + tensors[i].rows_F * F,
                                  tensors[i].columns_E * E + tensors[i].columns_F * F};
        const int rank = shape[1] > 0 ? 2 : 1;
        if (tensors[i].of_decoder && !decoder)
            continue;
        const clattn_array *a = cla_study_new(study, CLATTN_F32, rank, shape);
        if (!a)
            return false;
        const size_t count = a->bytes / sizeof(float);
        const double spread = rank == 2 ? 1 / sqrt((double)shape[1]) : 0.1;
        float *x = a->data;
        cla_random_normals(study->seed, FIRST_STREAM + weights->count, 0, count, x);
        for (size_t j = 0; j < count; j++)
            x[j] = (float)(tensors[i].mean + spread * (double)x[j]);
        add(weights, prefix, tensors[i].name, a);
    }
    return true;
}
