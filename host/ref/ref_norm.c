/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_norm.h"

#include "ref/ref_rows.h"
#include <math.h>

/* Row starts of the tensors. */
typedef struct {
    int64_t x, residual, weight, bias, y, sum;
} row_starts;

static double element(const cla_norm *a, const row_starts *r, int64_t i) {
    const double x = cla_ref_load(&a->x, r->x, a->outer, i);
    return a->residual.rank > 0 ? x + cla_ref_load(&a->residual, r->residual, a->outer, i) : x;
}

static void norm_row(const cla_norm *a, int64_t row) {
    const row_starts r = {cla_ref_row(&a->x, a->outer, row),      cla_ref_row(&a->residual, a->outer, row),
                          cla_ref_row(&a->weight, a->outer, row), cla_ref_row(&a->bias, a->outer, row),
                          cla_ref_row(&a->y, a->outer, row),      cla_ref_row(&a->sum, a->outer, row)};
    const double n = a->length > 0 ? (double)a->length : 1;
    double mean = 0, squares = 0;
    for (int64_t i = 0; a->kind == CLATTN_NORM_LAYER && i < a->length; i++)
        mean += element(a, &r, i) / n;
    for (int64_t i = 0; i < a->length; i++) {
        const double d = element(a, &r, i) - mean;
        squares += d * d;
    }
    const double inverse = 1 / sqrt(squares / n + a->epsilon);
    for (int64_t i = 0; i < a->length; i++) {
        const double z = element(a, &r, i);
        double y = (z - mean) * inverse;
        if (a->weight.rank > 0)
            y *= cla_ref_load(&a->weight, r.weight, a->outer, i);
        if (a->bias.rank > 0)
            y += cla_ref_load(&a->bias, r.bias, a->outer, i);
        if (a->sum.rank > 0)
            cla_ref_store(&a->sum, r.sum, a->outer, i, z);
        cla_ref_store(&a->y, r.y, a->outer, i, y);
    }
    if (a->mean.rank > 0)
        cla_store_element(a->mean.host, a->mean.dtype, cla_ref_row(&a->mean, a->outer, row), mean);
    if (a->inv_std.rank > 0)
        cla_store_element(a->inv_std.host, a->inv_std.dtype, cla_ref_row(&a->inv_std, a->outer, row), inverse);
}

void cla_ref_norm(const cla_norm *a) {
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++)
        norm_row(a, row);
}
