/* SPDX-License-Identifier: Apache-2.0 */
/* Elements of rows of tensors that are walked together (tensor/walk.h), as doubles. */
#ifndef CLA_REF_ROWS_H
#define CLA_REF_ROWS_H

#include "tensor/dtype.h"
#include "tensor/walk.h"

/* Where a row starts; 0 for a tensor that is absent. */
static inline int64_t cla_ref_row(const clattn_tensor *t, int outer, int64_t row) {
    return t->rank > 0 ? t->offset + cla_walk_step(t, 0, outer, row) : 0;
}

static inline int64_t cla_ref_place(const clattn_tensor *t, int64_t at, int outer, int64_t i) {
    return at + (t->rank - outer == 1 ? i * t->stride[outer] : cla_walk_step(t, outer, t->rank, i));
}

/* Element i of the row that starts at `at`. */
static inline double cla_ref_load(const clattn_tensor *t, int64_t at, int outer, int64_t i) {
    const int64_t place = cla_ref_place(t, at, outer, i);
    return t->dtype == CLATTN_F32 ? (double)((const float *)t->host)[place]
                                  : cla_load_element(t->host, t->dtype, place);
}

static inline void cla_ref_store(const clattn_tensor *t, int64_t at, int outer, int64_t i, double x) {
    const int64_t place = cla_ref_place(t, at, outer, i);
    if (t->dtype == CLATTN_F32)
        ((float *)t->host)[place] = (float)x;
    else
        cla_store_element(t->host, t->dtype, place, x);
}

#endif
