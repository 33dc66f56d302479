/* SPDX-License-Identifier: Apache-2.0 */
#include "ref/ref_rotary.h"

#include "tensor/dtype.h"

/* One row, by the elements where it starts. */
typedef struct {
    int64_t x, y, cos, sin;
} row_starts;

static double load(const clattn_tensor *t, int64_t row, int64_t d) {
    return cla_load_element(t->host, t->dtype, row + d * t->stride[3]);
}

/* The two dims of pair e. */
static void dims_of(const cla_rotation *a, int64_t e, int64_t dims[2]) {
    dims[0] = a->adjacent ? 2 * e : e;
    dims[1] = a->adjacent ? 2 * e + 1 : e + a->pairs;
}

static void rotate_pair(const cla_rotation *a, const row_starts *r, int64_t e, double y[2]) {
    int64_t dims[2];
    dims_of(a, e, dims);
    const double x1 = load(&a->x, r->x, dims[0]), x2 = load(&a->x, r->x, dims[1]);
    const double c = load(&a->cos, r->cos, e), s = load(&a->sin, r->sin, e);
    y[0] = x1 * c - x2 * s;
    y[1] = x1 * s + x2 * c;
}

static double rotated(const cla_rotation *a, const row_starts *r, int64_t d) {
    double y[2];
    if (d >= 2 * a->pairs)
        return load(&a->x, r->x, d);
    rotate_pair(a, r, a->adjacent ? d / 2 : d % a->pairs, y);
    return y[a->adjacent ? d % 2 : d / a->pairs];
}

static void to_blocks(const cla_rotation *a, const row_starts *r) {
    double x[CLA_BLOCK];
    for (int64_t d = 0; d < a->x.shape[3]; d += CLA_BLOCK) {
        for (int i = 0; i < CLA_BLOCK; i++)
            x[i] = rotated(a, r, d + i);
        cla_store_block(a->y.host, a->y.dtype, r->y + d, x);
    }
}

/* Both dims of a pair are read before either is written: y may be x. */
static void to_elements(const cla_rotation *a, const row_starts *r) {
    for (int64_t e = 0; e < a->pairs; e++) {
        int64_t dims[2];
        double y[2];
        dims_of(a, e, dims);
        rotate_pair(a, r, e, y);
        for (int i = 0; i < 2; i++)
            cla_store_element(a->y.host, a->y.dtype, r->y + dims[i] * a->y.stride[3], y[i]);
    }
    for (int64_t d = 2 * a->pairs; d < a->x.shape[3]; d++)
        cla_store_element(a->y.host, a->y.dtype, r->y + d * a->y.stride[3], load(&a->x, r->x, d));
}

static int64_t angles_at(const cla_rotation *a, const clattn_tensor *t, int64_t b, int64_t i) {
    return t->offset + (a->rows ? a->rows[b * a->x.shape[2] + i] * t->stride[2] : b * t->stride[1] + i * t->stride[2]);
}

void cla_ref_rotate(const cla_rotation *a) {
    const clattn_tensor *x = &a->x, *y = &a->y;
    const int64_t H = x->shape[1], N = x->shape[2], rows = x->shape[0] * H * N;
#pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const int64_t b = row / (H * N), h = row / N % H, i = row % N;
        const int64_t outer = a->places ? a->places[2 * (b * N + i)] : b;
        const int64_t inner = a->places ? a->places[2 * (b * N + i) + 1] : i;
        const row_starts r = {x->offset + b * x->stride[0] + h * x->stride[1] + i * x->stride[2],
                              y->offset + outer * y->stride[0] + h * y->stride[1] + inner * y->stride[2],
                              angles_at(a, &a->cos, b, i), angles_at(a, &a->sin, b, i)};
        if (outer < 0)
            continue;
        if (cla_is_quantised(y->dtype))
            to_blocks(a, &r);
        else
            to_elements(a, &r);
    }
}
