/* SPDX-License-Identifier: Apache-2.0 */
/* What a norm of rows comes down to, and its plain loops, in double. */
#ifndef CLA_REF_NORM_H
#define CLA_REF_NORM_H

#include <clattn/ops.h>

/* Checked by the caller. Tensors that are there share their axes; the first `outer` count rows. */
typedef struct cla_norm {
    clattn_norm_kind kind;
    clattn_tensor x, residual, weight, bias, y, sum, mean, inv_std;
    int outer;
    int64_t rows, length; /* of a row */
    double epsilon;
    clattn_dtype dtype; /* of the sums: f32 or f64 */
} cla_norm;

/* Tensors have host storage at `host` + offset. */
void cla_ref_norm(const cla_norm *a);

#endif
