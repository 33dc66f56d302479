/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimizers and the norm of gradients: what they come down to, and their plain loops, in double. Tensors
 * share their axes and have host storage at `host` + offset. Checked by the caller. */
#ifndef CLA_REF_OPTIMIZER_H
#define CLA_REF_OPTIMIZER_H

#include <clattn/train.h>

/* Numbers of a step, in the order that optimizer.cl knows. */
typedef enum cla_step_number {
    CLA_STEP_KEEP1 = 0, /* beta1, or momentum */
    CLA_STEP_TAKE1,     /* 1 - beta1 */
    CLA_STEP_KEEP2,     /* beta2 */
    CLA_STEP_TAKE2,     /* 1 - beta2 */
    CLA_STEP_RATE,      /* over the correction of moment1 */
    CLA_STEP_ROOT,      /* 1 / sqrt(1 - beta2^step) */
    CLA_STEP_EPSILON,
    CLA_STEP_DECAY,  /* times the parameter is added to the gradient */
    CLA_STEP_LEFT,   /* of the parameter, before the step */
    CLA_STEP_DAMPED, /* 1 - dampening */
    CLA_STEP_COUNT
} cla_step_number;

typedef struct cla_step {
    clattn_tensor parameter, gradient, state1, state2; /* state2: Adam; state1: Adam, or momentum */
    clattn_tensor factor;                              /* [1], or absent */
    double numbers[CLA_STEP_COUNT];
    bool adam, first, nesterov;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype; /* what is computed in */
} cla_step;
void cla_ref_step(const cla_step *a);

/* The sum of the squares of a tensor, of which the first `outer` axes count rows. */
double cla_ref_squares(const clattn_tensor *x, int outer, int64_t rows, int64_t length);

#endif
