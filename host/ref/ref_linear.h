/* SPDX-License-Identifier: Apache-2.0 */
/* What a linear layer comes down to, and its plain loops, in double. */
#ifndef CLA_REF_LINEAR_H
#define CLA_REF_LINEAR_H

#include <clattn/ops.h>

/* Checked by the caller. */
typedef struct cla_linear {
    clattn_tensor x, y; /* [n0, n1, n2, K], [n0, n1, n2, N] */
    clattn_tensor w;    /* [N, K]; where gated [2 N, K] */
    clattn_tensor bias; /* [N], where gated [2 N], or absent */
    int64_t M, N, K;    /* M = n0 n1 n2 */
    clattn_activation activation;
    bool gated;
    clattn_dtype dtype; /* of the sums: f32 or f64 */
} cla_linear;

double cla_ref_activate(clattn_activation activation, double x);
/* Tensors have host storage at `host` + offset. */
void cla_ref_linear(const cla_linear *a);

#endif
