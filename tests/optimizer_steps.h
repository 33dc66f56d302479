/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimizers in tests: torch.optim's formulas in double. */
#ifndef OPTIMIZER_STEPS_H
#define OPTIMIZER_STEPS_H

#include "op_arrays.h"

typedef struct {
    bool adam;
    int rank;
    int64_t shape[3];
    clattn_dtype parameter, gradient, state;
    op_layout layout, state_layout;
    double rate, beta1, beta2, epsilon, decay, momentum, dampening, factor; /* factor 0: none */
    bool has_betas, decay_gradient, nesterov, buffers;
} step_case;

typedef struct {
    double parameter, first, second;
} state;

/* What step number `step` makes of a parameter with this gradient. */
static inline state step_of(const step_case *c, int step, state s, double g) {
    const double rate = c->rate > 0 ? c->rate : 1e-3, b1 = c->has_betas ? c->beta1 : 0.9;
    const double b2 = c->has_betas ? c->beta2 : 0.999, epsilon = c->epsilon > 0 ? c->epsilon : 1e-8;
    g *= c->factor > 0 ? c->factor : 1;
    if (c->adam && !c->decay_gradient)
        s.parameter -= rate * c->decay * s.parameter;
    else
        g += c->decay * s.parameter;
    if (c->adam) {
        s.first = b1 * s.first + (1 - b1) * g;
        s.second = b2 * s.second + (1 - b2) * g * g;
        s.parameter -= rate * s.first / (1 - pow(b1, step)) / (sqrt(s.second / (1 - pow(b2, step))) + epsilon);
        return s;
    }
    s.first = step == 1 ? g : c->momentum * s.first + (1 - c->dampening) * g;
    s.parameter -= rate * (c->momentum == 0 ? g : c->nesterov ? g + c->momentum * s.first : s.first);
    return s;
}

#endif
