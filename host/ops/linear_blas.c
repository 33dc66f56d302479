/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers by OpenBLAS on the `cpu` context; what it cannot read or write passes through dense arrays. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/linear.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <cblas.h>
#include <limits.h>
#include <math.h>

/* A matrix as BLAS takes it: rows `ld` elements apart. */
typedef struct {
    void *data; /* its first element */
    int64_t ld;
    bool transposed;
    void *scratch;
} matrix;

static void *place(const clattn_tensor *t) { return (char *)t->host + (size_t)t->offset * clattn_dtype_size(t->dtype); }

/* The step between rows of three axes where it is one and BLAS takes it; 0 where not. */
static int64_t row_step(const clattn_tensor *t) {
    int64_t step = 0, rows = 1;
    for (int i = 2; i >= 0; i--) {
        if (t->shape[i] == 1)
            continue;
        if (rows == 1)
            step = t->stride[i];
        else if (t->stride[i] != rows * step)
            return 0;
        rows *= t->shape[i];
    }
    step = rows == 1 ? cla_max(t->shape[3], 1) : step;
    return t->stride[3] == 1 && step >= t->shape[3] && step <= INT_MAX ? step : 0;
}

/* Where row `row` of three axes starts. */
static int64_t row_start(const clattn_tensor *t, int64_t row) {
    const int64_t plane = row / t->shape[2];
    return t->offset + plane / t->shape[1] * t->stride[0] + plane % t->shape[1] * t->stride[1] +
           row % t->shape[2] * t->stride[2];
}

static clattn_status make_dense(const cla_linear *a, int64_t rows, int64_t columns, matrix *m) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(cla_alloc((size_t)(rows * columns), clattn_dtype_size(a->dtype), "linear", &m->scratch));
    m->data = m->scratch;
    m->ld = cla_max(columns, 1);
done:
    return status;
}

/* t [.., rows, columns] in place, or copied. */
static clattn_status take(const cla_linear *a, const clattn_tensor *t, int64_t rows, int64_t columns, matrix *m) {
    clattn_status status = CLATTN_OK;
    m->ld = t->dtype == a->dtype ? row_step(t) : 0;
    if (m->ld > 0) {
        m->data = place(t);
        goto done;
    }
    CLA_TRY(make_dense(a, rows, columns, m));
    const bool whole = t->stride[3] == 1 && a->dtype == CLATTN_F32;
#pragma omp parallel for if (rows * columns > 4096)
    for (int64_t row = 0; row < rows; row++) {
        const int64_t from = row_start(t, row);
        if (whole)
            cla_load_floats((float *)m->data + row * columns, t->host, t->dtype, from, columns);
        for (int64_t c = 0; c < columns && !whole; c++)
            cla_store_element(m->data, a->dtype, row * columns + c,
                              cla_load_element(t->host, t->dtype, from + c * t->stride[3]));
    }
done:
    return status;
}

static clattn_status take_weights(const cla_linear *a, matrix *m) {
    const clattn_tensor *w = &a->w;
    const clattn_tensor lifted = cla_view_lift(w);
    m->transposed = true;
    if (w->dtype == a->dtype && w->stride[0] == 1 && w->stride[1] >= a->N && w->stride[1] <= INT_MAX && a->K > 1) {
        *m = (matrix){.data = place(w), .ld = w->stride[1]}; /* [K, N] as it lies */
        return CLATTN_OK;
    }
    return take(a, &lifted, a->N, a->K, m);
}

static void multiply(const cla_linear *a, const matrix *x, const matrix *w, const matrix *y) {
    const CBLAS_TRANSPOSE t = w->transposed ? CblasTrans : CblasNoTrans;
    const int M = (int)a->M, N = (int)a->N, K = (int)a->K;
    if (a->dtype == CLATTN_F64)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, t, M, N, K, 1.0, x->data, (int)x->ld, w->data, (int)w->ld, 0.0,
                    y->data, (int)y->ld);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, t, M, N, K, 1.0F, x->data, (int)x->ld, w->data, (int)w->ld, 0.0F,
                    y->data, (int)y->ld);
}

static float activate(clattn_activation activation, float x) {
    switch (activation) {
    case CLATTN_ACTIVATION_NONE:
        break;
    case CLATTN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CLATTN_ACTIVATION_GELU:
        return 0.5F * x * (1 + erff(x * 0.70710678F));
    case CLATTN_ACTIVATION_GELU_TANH:
        return 0.5F * x * (1 + tanhf(0.79788456F * (x + 0.044715F * x * x * x)));
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + expf(-x));
    }
    return x;
}

/* A row of f32 where it lies, by loops that compilers make vectors of. bias: NULL for none. */
static void finish_floats(clattn_activation activation, const float *bias, float *y, int64_t count) {
    for (int64_t n = 0; n < count && bias; n++)
        y[n] += bias[n];
    if (activation == CLATTN_ACTIVATION_RELU)
        for (int64_t n = 0; n < count; n++)
            y[n] = y[n] < 0 ? 0 : y[n];
    else
        for (int64_t n = 0; n < count && activation != CLATTN_ACTIVATION_NONE; n++)
            y[n] = activate(activation, y[n]);
}

static void finish(const cla_linear *a, const matrix *product) {
    const clattn_tensor *b = &a->bias, *y = &a->y;
    const bool has_bias = cla_present(b);
    if (!product->data || (!product->scratch && !has_bias && a->activation == CLATTN_ACTIVATION_NONE))
        return;
    const bool floats =
        a->dtype == CLATTN_F32 && !product->scratch && (!has_bias || (b->dtype == CLATTN_F32 && b->stride[0] == 1));
    const float *const biases = has_bias && floats ? place(b) : NULL;
#pragma omp parallel for if (a->M * a->N > 4096)
    for (int64_t row = 0; row < a->M; row++) {
        if (floats)
            finish_floats(a->activation, biases, (float *)product->data + row * product->ld, a->N);
        for (int64_t n = 0, to = row_start(y, row); n < a->N && !floats; n++) {
            const double bias = has_bias ? cla_load_element(b->host, b->dtype, b->offset + n * b->stride[0]) : 0;
            const int64_t at = row * product->ld + n;
            const double z = a->dtype == CLATTN_F64
                                 ? cla_ref_activate(a->activation, ((const double *)product->data)[at] + bias)
                                 : (double)activate(a->activation, ((const float *)product->data)[at] + (float)bias);
            cla_store_element(y->host, y->dtype, to + n * y->stride[3], z);
        }
    }
}

clattn_status cla_linear_blas(clattn_context *context, const cla_linear *a) {
    clattn_status status = CLATTN_OK;
    matrix x = {0}, w = {0}, y = {0};
    (void)context;
    y.ld = a->y.dtype == a->dtype ? row_step(&a->y) : 0;
    if (y.ld > 0)
        y.data = place(&a->y);
    else
        CLA_TRY(make_dense(a, a->M, a->N, &y));
    if (a->K > 0) {
        CLA_TRY(take(a, &a->x, a->M, a->K, &x));
        CLA_TRY(take_weights(a, &w));
        multiply(a, &x, &w, &y);
    } else {
        for (int64_t i = 0; i < a->M * a->N; i++)
            cla_store_element(y.data, a->dtype, i / a->N * y.ld + i % a->N, 0);
    }
    finish(a, &y);
done:
    cla_free(x.scratch);
    cla_free(w.scratch);
    cla_free(y.scratch);
    return status;
}
