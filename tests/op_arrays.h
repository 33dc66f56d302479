/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of any rank, type and layout in arrays full of NaN, for the tests of operations. */
#ifndef OP_ARRAYS_H
#define OP_ARRAYS_H

#include "oracle.h"
#include "runtime/state.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum op_layout {
    OP_DENSE = 0,
    OP_PADDED, /* 3 elements behind each run of the last axis */
    OP_TURNED, /* the last two axes lie the other way round */
    OP_SPREAD, /* every second element */
    OP_LAYOUTS
} op_layout;

typedef struct op_array {
    clattn_tensor t;
    double *values; /* dense, as the type holds them; of outputs NaN */
    int64_t count;
    unsigned char *data, *before;
    size_t bytes;
    clattn_buffer *buffer; /* NULL: on the host */
} op_array;

/* "gpu": an OpenCL device, whatever it is, that kernels for GPUs are run on. */
static const char *const op_devices[] = {"opencl", "gpu", "cpu"};
enum { OP_DEVICES = 3, OP_GUARD = 32 };

static inline clattn_context *op_open(const char *device) {
    const bool gpu = strcmp(device, "gpu") == 0;
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create(gpu ? "opencl" : device, NULL, &context));
    if (gpu)
        context->info.device_class = CLATTN_DEVICE_GPU;
    return context;
}

static inline int64_t op_place(const clattn_tensor *t, int64_t element) {
    int64_t at = t->offset;
    for (int i = t->rank - 1; i >= 0 && t->shape[i] > 0; i--) {
        at += element % t->shape[i] * t->stride[i];
        element /= t->shape[i];
    }
    return at;
}

static inline int64_t op_lay_out(clattn_tensor *t, op_layout how) {
    int64_t step = how == OP_SPREAD ? 2 : 1;
    for (int k = 0; k < t->rank; k++) {
        const bool turned = how == OP_TURNED && t->rank > 1 && k < 2;
        const int axis = t->rank - 1 - (turned ? 1 - k : k);
        t->stride[axis] = step;
        step = step * (t->shape[axis] > 0 ? t->shape[axis] : 1) + (how == OP_PADDED && k == 0 ? 3 : 0);
    }
    return step;
}

/* `values` NULL: normal ones from `random`, or NaN without one. With a context: in a buffer of it. */
static inline op_array op_make(clattn_context *context, clattn_dtype dtype, int rank, const int64_t *shape,
                               op_layout how, const double *values, oracle_random *random) {
    op_array a = {.t = clattn_tensor_host(NULL, dtype, rank, shape)};
    const int64_t size = op_lay_out(&a.t, how) + 2 * OP_GUARD;
    a.t.offset = OP_GUARD;
    a.count = clattn_tensor_elements(&a.t);
    a.bytes = (size_t)size * clattn_dtype_size(dtype);
    a.values = calloc((size_t)a.count + 1, sizeof *a.values);
    a.data = malloc(a.bytes);
    a.before = malloc(a.bytes);
    memset(a.data, 0xff, a.bytes); /* NaN in every float type */
    for (int64_t i = 0; i < a.count; i++) {
        const double x = values ? values[i] : random ? oracle_normal(random) : (double)NAN;
        const int64_t at = op_place(&a.t, i);
        SUCCEEDS(clattn_convert(a.data + (size_t)at * clattn_dtype_size(dtype), dtype, &x, CLATTN_F64, 1));
        a.values[i] = oracle_decode(dtype, a.data, at);
    }
    memcpy(a.before, a.data, a.bytes);
    if (context) {
        SUCCEEDS(clattn_buffer_create(context, a.bytes, &a.buffer));
        SUCCEEDS(clattn_buffer_upload(a.buffer, 0, a.data, a.bytes));
        a.t.buffer = a.buffer;
    } else {
        a.t.host = a.data;
    }
    return a;
}

/* The bytes as they are now, into data; what lies around the tensor is as it was. */
static inline void op_fetch(op_array *a, const char *what) {
    const size_t size = clattn_dtype_size(a->t.dtype);
    if (a->buffer)
        SUCCEEDS(clattn_buffer_download(a->buffer, 0, a->data, a->bytes));
    unsigned char *now = malloc(a->bytes);
    memcpy(now, a->data, a->bytes);
    for (int64_t i = 0; i < a->count; i++) {
        const size_t at = (size_t)op_place(&a->t, i) * size;
        memcpy(now + at, a->before + at, size);
    }
    cr_expect_eq(memcmp(now, a->before, a->bytes), 0, "%s: something was written outside of the tensor", what);
    free(now);
}

static inline double op_value(const op_array *a, int64_t element) {
    return oracle_decode(a->t.dtype, a->data, op_place(&a->t, element));
}

/* After op_fetch: `most` beside what the type of the output rounds away. */
static inline void op_expect(const op_array *a, int64_t element, double want, double most, const char *what) {
    const double got = op_value(a, element);
    const double subnormal = a->t.dtype == CLATTN_F16 ? 0x1p-24 : 0; /* the least f16 */
    const double allowed = most + oracle_floor(a->t.dtype, fabs(want)) + subnormal;
    const bool right = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= allowed;
    cr_expect(right, "%s, %s: element %lld is %.9g, not %.9g +- %.2g", what, clattn_dtype_name(a->t.dtype),
              (long long)element, got, want, allowed);
}

static inline void op_free(op_array *a) {
    clattn_buffer_destroy(a->buffer);
    free(a->values);
    free(a->data);
    free(a->before);
    *a = (op_array){0};
}

#endif
