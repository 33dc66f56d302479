/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_points.h"

#include "ref/ref_linear.h"
#include "ref/ref_rows.h"
#include <math.h>

void cla_ref_points(const cla_points *a) {
    const int64_t step = 4096, parts = (a->length + step - 1) / step; /* rows may be few and long */
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t part = 0; part < a->rows * parts; part++) {
        const int64_t row = part / parts, first = part % parts * step;
        const int64_t end = first + step < a->length ? first + step : a->length;
        const int64_t x = cla_ref_row(&a->x, a->outer, row), y = cla_ref_row(&a->y, a->outer, row);
        const int64_t other = cla_ref_row(&a->other, a->outer, row);
        for (int64_t i = first; i < end; i++) {
            double z = cla_ref_activate(a->activation, cla_ref_load(&a->x, x, a->outer, i));
            if (a->with == CLA_TIMES)
                z *= cla_ref_load(&a->other, other, a->outer, i);
            else if (a->with == CLA_PLUS)
                z += cla_ref_load(&a->other, other, a->outer, i);
            cla_ref_store(&a->y, y, a->outer, i, z);
        }
    }
}

/* A row of nothing but -infinity has the maximum 0 here, so that its sum is 0, and NaN beside it stays NaN. */
static void softmax_row(const cla_softmax_rows_of *a, int64_t row) {
    const int64_t x = cla_ref_row(&a->x, a->outer, row), y = cla_ref_row(&a->y, a->outer, row);
    double most = -(double)INFINITY, sum = 0;
    for (int64_t i = 0; i < a->length; i++) {
        const double v = cla_ref_load(&a->x, x, a->outer, i);
        most = v > most ? v : most;
    }
    most = most == -(double)INFINITY ? 0 : most;
    for (int64_t i = 0; i < a->length; i++)
        sum += exp(cla_ref_load(&a->x, x, a->outer, i) - most);
    for (int64_t i = 0; i < a->length; i++)
        cla_ref_store(&a->y, y, a->outer, i, sum == 0 ? 0 : exp(cla_ref_load(&a->x, x, a->outer, i) - most) / sum);
}

void cla_ref_softmax(const cla_softmax_rows_of *a) {
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t row = 0; row < a->rows; row++)
        softmax_row(a, row);
}
