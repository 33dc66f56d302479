/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_linear.h"

#include "tensor/dtype.h"
#include <math.h>

double cla_ref_activate(clattn_activation activation, double x) {
    switch (activation) {
    case CLATTN_ACTIVATION_NONE:
        break;
    case CLATTN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CLATTN_ACTIVATION_GELU:
        return 0.5 * x * (1 + erf(x * 0.70710678118654752440));
    case CLATTN_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    }
    return x;
}

/* Row j of w times the row of x that starts at element x; + bias. */
static double product(const cla_linear *a, int64_t x, int64_t j) {
    const int64_t w = a->w.offset + j * a->w.stride[0];
    double sum = 0;
    for (int64_t k = 0; k < a->K; k++)
        sum += cla_load_element(a->x.host, a->x.dtype, x + k * a->x.stride[3]) *
               cla_load_element(a->w.host, a->w.dtype, w + k * a->w.stride[1]);
    if (a->bias.rank > 0)
        sum += cla_load_element(a->bias.host, a->bias.dtype, a->bias.offset + j * a->bias.stride[0]);
    return sum;
}

void cla_ref_linear(const cla_linear *a) {
    const int64_t *n = a->x.shape;
#pragma omp parallel for
    for (int64_t row = 0; row < a->M; row++) {
        const int64_t at[] = {row / n[2] / n[1], row / n[2] % n[1], row % n[2]};
        int64_t x = a->x.offset, y = a->y.offset;
        for (int i = 0; i < 3; i++)
            x += at[i] * a->x.stride[i], y += at[i] * a->y.stride[i];
        for (int64_t j = 0; j < a->N; j++) {
            const double z = cla_ref_activate(a->activation, product(a, x, j));
            cla_store_element(a->y.host, a->y.dtype, y + j * a->y.stride[3],
                              a->gated ? z * product(a, x, a->N + j) : z);
        }
    }
}
