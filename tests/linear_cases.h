/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers in tests: what a case is, exact activations, and what is allowed. */
#ifndef LINEAR_CASES_H
#define LINEAR_CASES_H

#include "oracle.h"
#include <math.h>

typedef enum { DENSE = 0, PADDED, TURNED, SPREAD, SHARED } layout;

typedef struct {
    int64_t n0, n1, n2, N, K; /* n0, n1 0: 1 */
    clattn_activation activation;
    bool bias, gated;
    layout x, w, y;
    clattn_dtype x_type, w_type, bias_type, y_type;
} linear_case;

static inline long double exact_activation(clattn_activation activation, long double x) {
    switch (activation) {
    case CLATTN_ACTIVATION_NONE:
        break;
    case CLATTN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CLATTN_ACTIVATION_GELU:
        return x / 2 * (1 + erfl(x / sqrtl(2)));
    case CLATTN_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + expl(-x));
    }
    return x;
}

/* The header's bound of a sum, and half an erf's times x, or what the exponential and the division round away. */
static inline double allowed(const linear_case *t, clattn_dtype sums, double terms, double z, double y) {
    const double unit = sums == CLATTN_F64 ? 0x1p-53 : 0x1p-24;
    const double erf_error = sums == CLATTN_F64 ? 4 * unit : 1.6e-7 + 4 * unit;
    double most = 4 * (double)(t->K + 1) * unit * terms;
    if (t->activation != CLATTN_ACTIVATION_NONE)
        most = 1.2 * most + fabs(z) * (t->activation == CLATTN_ACTIVATION_GELU ? erf_error / 2 + unit : 8 * unit);
    return most + (t->y_type == sums ? 2 * unit * fabs(y) : oracle_floor(t->y_type, fabs(y)));
}

#endif
