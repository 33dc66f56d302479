/* SPDX-License-Identifier: Apache-2.0 */
/* Rows from one tensor to places in another, rotated on the way: what rotary embedding and cache append come down to.
 * The plain loops, in double. */
#ifndef CLA_REF_ROTARY_H
#define CLA_REF_ROTARY_H

#include <clattn/tensor.h>

/* Checked by the caller. */
typedef struct cla_rotation {
    clattn_tensor x;        /* [B, H, N, D] */
    clattn_tensor y;        /* [B, H, N, D], or what places point into; may be x, may be quantised */
    int64_t pairs;          /* the first 2 * pairs dims are rotated, the others copied */
    bool adjacent;          /* a pair is 2 d and 2 d + 1; else d and d + pairs */
    clattn_tensor cos, sin; /* [1, B, N, pairs], or [1, 1, rows, pairs] with `rows`; rank 0 without pairs */
    const int32_t *rows;    /* [B, N]: rows of cos and sin; NULL: b and i */
    const int32_t *places;  /* [B, N, 2]: indices of y's first and third axis, -1: nowhere; NULL: b and i */
} cla_rotation;

/* Tensors have host storage at `host` + offset. */
void cla_ref_rotate(const cla_rotation *a);

#endif
