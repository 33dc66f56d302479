/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_optimizer.h"

#include "base/mem.h"
#include "ref/ref_rows.h"
#include <math.h>

typedef struct {
    int64_t parameter, gradient, state1, state2;
} starts;

static void adam(const cla_step *a, const starts *s, double g, double p, int64_t i) {
    const double *n = a->numbers;
    const double m0 = a->first ? 0 : cla_ref_load(&a->state1, s->state1, a->outer, i);
    const double v0 = a->first ? 0 : cla_ref_load(&a->state2, s->state2, a->outer, i);
    const double m = n[CLA_STEP_KEEP1] * m0 + n[CLA_STEP_TAKE1] * g;
    const double v = n[CLA_STEP_KEEP2] * v0 + n[CLA_STEP_TAKE2] * g * g;
    p = p * n[CLA_STEP_LEFT] - n[CLA_STEP_RATE] * m / (sqrt(v) * n[CLA_STEP_ROOT] + n[CLA_STEP_EPSILON]);
    cla_ref_store(&a->state1, s->state1, a->outer, i, m);
    cla_ref_store(&a->state2, s->state2, a->outer, i, v);
    cla_ref_store(&a->parameter, s->parameter, a->outer, i, p);
}

static void sgd(const cla_step *a, const starts *s, double g, double p, int64_t i) {
    const double *n = a->numbers;
    if (a->state1.rank > 0) {
        const double old = a->first ? 0 : cla_ref_load(&a->state1, s->state1, a->outer, i);
        const double v = a->first ? g : n[CLA_STEP_KEEP1] * old + n[CLA_STEP_DAMPED] * g;
        cla_ref_store(&a->state1, s->state1, a->outer, i, v);
        g = a->nesterov ? g + n[CLA_STEP_KEEP1] * v : v;
    }
    cla_ref_store(&a->parameter, s->parameter, a->outer, i, p - n[CLA_STEP_RATE] * g);
}

void cla_ref_step(const cla_step *a) {
    const clattn_tensor *f = &a->factor;
    const double factor = f->rank > 0 ? cla_load_element(f->host, f->dtype, f->offset) : 1;
    const int64_t step = 4096, parts = (a->length + step - 1) / step; /* rows may be few and long */
#pragma omp parallel for if (a->rows * a->length > 4096)
    for (int64_t part = 0; part < a->rows * parts; part++) {
        const int64_t row = part / parts, first = part % parts * step;
        const int64_t end = first + step < a->length ? first + step : a->length;
        const starts s = {cla_ref_row(&a->parameter, a->outer, row), cla_ref_row(&a->gradient, a->outer, row),
                          cla_ref_row(&a->state1, a->outer, row), cla_ref_row(&a->state2, a->outer, row)};
        for (int64_t i = first; i < end; i++) {
            const double p = cla_ref_load(&a->parameter, s.parameter, a->outer, i);
            const double g =
                cla_ref_load(&a->gradient, s.gradient, a->outer, i) * factor + a->numbers[CLA_STEP_DECAY] * p;
            if (a->adam)
                adam(a, &s, g, p, i);
            else
                sgd(a, &s, g, p, i);
        }
    }
}

enum { PARTS = 256 };

double cla_ref_squares(const clattn_tensor *x, int outer, int64_t rows, int64_t length) {
    const int64_t count = rows * length, share = (count + PARTS - 1) / PARTS;
    double sums[PARTS], all = 0;
#pragma omp parallel for if (count > 4096)
    for (int part = 0; part < PARTS; part++) {
        const int64_t end = cla_min((part + 1) * share, count);
        double sum = 0;
        for (int64_t n = part * share, stop; n < end; n = stop) {
            const int64_t row = n / length, start = row * length, at = cla_ref_row(x, outer, row);
            stop = cla_min(end, start + length);
            for (int64_t i = n - start; i < stop - start; i++) {
                const double v = cla_ref_load(x, at, outer, i);
                sum += v * v;
            }
        }
        sums[part] = sum;
    }
    for (int part = 0; part < PARTS; part++) /* in one order, whatever threads there are */
        all += sums[part];
    return all;
}
