/* SPDX-License-Identifier: Apache-2.0 */
#include "study_trials.h"

#include <clattn/ops.h>
#include <math.h>
#include <stdio.h>

enum { CHUNK = 1 << 22 }; /* numbers of keys */

const int64_t cla_trial_dims[CLA_TRIAL_DIMS] = {4, 16, 64, 256, 1024};

const cla_population cla_jacobian_norms[CLA_TRIAL_DIMS][2] = {{{.32296, .00111, ".3221"}, {.29717, .00050, ".2967"}},
                                                              {{.27721, .00230, ".2805"}, {.30289, .00038, ".3024"}},
                                                              {{.17564, .00274, ".1732"}, {.30458, .00033, ".3042"}},
                                                              {{.09868, .00244, ".0987"}, {.30512, .00032, ".3049"}},
                                                              {{.05242, .00193, ".0504"}, {.30517, .00031, ".3053"}}};

int64_t cla_trial_chunk(int64_t d_k) {
    const int64_t fitting = CHUNK / (CLA_TRIAL_KEYS * d_k);
    return fitting < CLA_TRIALS ? fitting : CLA_TRIALS;
}

clattn_tensor cla_trial_view(const clattn_buffer *buffer, int64_t trials, int64_t rows, int64_t columns) {
    return clattn_tensor_buffer((clattn_buffer *)buffer, CLATTN_F32, 4, (const int64_t[]){trials, 1, rows, columns});
}

static clattn_status draw(const cla_study *study, uint64_t stream, int64_t first, clattn_tensor y) {
    return clattn_random(
        study->context, &(clattn_random_args){.y = y, .seed = study->seed, .stream = stream, .first = (uint64_t)first});
}

clattn_status cla_trials_draw(const cla_study *study, int64_t first, clattn_tensor q, clattn_tensor k) {
    const int64_t d_k = q.shape[3];
    const clattn_status status = draw(study, 2 * (uint64_t)d_k, first * d_k, q);
    return status == CLATTN_OK ? draw(study, 2 * (uint64_t)d_k + 1, first * CLA_TRIAL_KEYS * d_k, k) : status;
}

/* |diag(p) - p p^T|^2 = sum p^2 - 2 sum p^3 + (sum p^2)^2 */
double cla_jacobian_norm(const float *p) {
    double p2 = 0, p3 = 0;
    for (size_t j = 0; j < CLA_TRIAL_KEYS; j++) {
        const double x = (double)p[j];
        p2 += x * x;
        p3 += x * x * x;
    }
    return sqrt(fmax(0, p2 - 2 * p3 + p2 * p2));
}

void cla_trial_figure(cla_study *study, int64_t d_k, const char *name, const cla_population *population, double got) {
    char text[96];
    snprintf(text, sizeof text, "d_k %lld: %s", (long long)d_k, name);
    cla_study_figure(study, text, population->article, population->value, got, 4 * population->error);
}
