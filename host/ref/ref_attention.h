/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: attention in plain loops. Reads masks by itself, so that it can disagree with the kernels' mask code. */
#ifndef CLA_REF_ATTENTION_H
#define CLA_REF_ATTENTION_H

#include <clattn/tensor.h>

/* Tensors of rank 4 with host storage at `host` + offset, or rank 0; lse is [1, B, H, N]. Checked by the caller. */
typedef struct cla_ref_attention {
    clattn_dtype dtype; /* f32 or f64, of all but keep and drop */
    int64_t B, H, Hk, N, M, D, Dv;
    clattn_tensor q, k, v, o, lse, weights, keep, drop, bias;
    double scale;
    bool causal, windowed;
    int64_t left, right;
    const int64_t *key_lengths, *offsets; /* [B], or NULL: M and 0 */
} cla_ref_attention;

/* Sums in double, and in long double for f64 storage. Errors: CLATTN_E_MEMORY. */
clattn_status cla_ref_attention_double(const cla_ref_attention *a);
clattn_status cla_ref_attention_long_double(const cla_ref_attention *a);

#endif
