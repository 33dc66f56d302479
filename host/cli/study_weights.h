/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of Transformer layers by PyTorch's names, stored or drawn. */
#ifndef CLA_STUDY_WEIGHTS_H
#define CLA_STUDY_WEIGHTS_H

#include "study.h"

enum { CLA_WEIGHTS_MAX = 192 };

typedef struct cla_weights {
    clattn_named_array named[CLA_WEIGHTS_MAX]; /* f32; the arrays are the study's */
    char names[CLA_WEIGHTS_MAX][64];
    size_t count;
} cla_weights;

/* Those add a layer; false: no memory, and a line was printed. */

/* "PREFIXself_attn.in_proj_weight" and so on, from "SET/self_attn.in_proj_weight". */
bool cla_weights_stored(cla_study *study, const char *set, const char *prefix, bool decoder, cla_weights *weights);
/* Drawn: matrices N(0, 1 / fan-in), biases N(0, 0.01), norms N(1, 0.01). Each tensor has a stream of its own. */
bool cla_weights_drawn(cla_study *study, const char *prefix, bool decoder, int64_t E, int64_t F, cla_weights *weights);

#endif
