/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_tokens.h"

#include "ref/ref_rows.h"
#include <math.h>

int64_t cla_ref_id(const clattn_tensor *ids, int outer, int64_t row) {
    const int64_t at = cla_ref_row(ids, outer, row);
    return ids->dtype == CLATTN_I64 ? ((const int64_t *)ids->host)[at] : ((const int32_t *)ids->host)[at];
}

void cla_ref_embed(const cla_embed *a) {
    const clattn_tensor *t = &a->table;
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++) {
        const int64_t id = cla_ref_id(&a->ids, a->outer, row), y = cla_ref_row(&a->y, a->outer, row);
        const int64_t add = cla_ref_row(&a->add, a->outer, row);
        const bool known = id >= 0 && id < t->shape[0];
        const int64_t from = t->offset + (known ? id * t->stride[0] : 0);
        for (int64_t i = 0; i < a->length; i++) {
            double z = known ? a->scale * cla_load_element(t->host, t->dtype, from + i * t->stride[1]) : (double)NAN;
            if (a->add.rank > 0)
                z += cla_ref_load(&a->add, add, a->outer, i);
            cla_ref_store(&a->y, y, a->outer, i, z);
        }
    }
}

static double mean_of(const cla_pool *a, int64_t b, int64_t e) {
    const clattn_tensor *x = &a->x;
    const int64_t n = a->lengths[b], at = x->offset + b * x->stride[0] + e * x->stride[2];
    double sum = 0;
    for (int64_t j = 0; j < n; j++)
        sum += cla_load_element(x->host, x->dtype, at + j * x->stride[1]);
    return n > 0 ? sum / (double)n : 0;
}

void cla_ref_pool(const cla_pool *a) {
    const clattn_tensor *y = &a->y;
    const int64_t E = y->shape[1];
#pragma omp parallel for
    for (int64_t b = 0; b < y->shape[0]; b++) {
        double squares = 0, norm = 1;
        for (int64_t e = 0; e < E && a->normalise; e++) {
            const double mean = mean_of(a, b, e);
            squares += mean * mean;
        }
        if (a->normalise)
            norm = sqrt(squares) < 1e-12 ? 1e-12 : sqrt(squares);
        for (int64_t e = 0; e < E; e++)
            cla_store_element(y->host, y->dtype, y->offset + b * y->stride[0] + e * y->stride[1],
                              mean_of(a, b, e) / norm);
    }
}
