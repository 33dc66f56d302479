/* SPDX-License-Identifier: Apache-2.0 */
/* The trials of `scale` and `gradient`: one query against 16 keys, all N(0, 1), drawn on the device in f32. */
#ifndef CLA_STUDY_TRIALS_H
#define CLA_STUDY_TRIALS_H

#include "study.h"

enum { CLA_TRIALS = 4000, CLA_TRIAL_KEYS = 16, CLA_TRIAL_DIMS = 5 };
extern const int64_t cla_trial_dims[CLA_TRIAL_DIMS]; /* d_k */

/* Of 100 000 trials, with the standard error of a figure of 4000, and what the article prints. */
typedef struct cla_population {
    double value, error;
    const char *article; /* NULL: nothing */
} cla_population;

/* The mean norm of the softmax's Jacobian for each d_k: without the scale, and with it. */
extern const cla_population cla_jacobian_norms[CLA_TRIAL_DIMS][2];

/* So many trials fit in a chunk. */
int64_t cla_trial_chunk(int64_t d_k);
/* [trials, 1, rows, columns] of f32 at the start of a buffer. */
clattn_tensor cla_trial_view(const clattn_buffer *buffer, int64_t trials, int64_t rows, int64_t columns);
/* Queries [count, 1, 1, d_k] and keys [count, 1, 16, d_k] of trials from `first` on: the same whatever the chunks. */
clattn_status cla_trials_draw(const cla_study *study, int64_t first, clattn_tensor q, clattn_tensor k);
/* |diag(p) - p p^T| (Frobenius) of a row of 16 weights. */
double cla_jacobian_norm(const float *p);
/* Adds the figure "d_k N: NAME": within four standard errors. */
void cla_trial_figure(cla_study *study, int64_t d_k, const char *name, const cla_population *population, double got);

#endif
