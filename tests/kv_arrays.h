/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays of any type and layout, from doubles and back, for the tests of rotary embedding, caches, pages and blocks. */
#ifndef KV_ARRAYS_H
#define KV_ARRAYS_H

#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

enum { KV_FILLER = 0xa5 }; /* each byte that no element is in; NaN in no type */

typedef enum kv_layout {
    KV_DENSE = 0, /* [b, h, n, d] */
    KV_ROWS,      /* [b, n, h, d] */
    KV_PADDED,    /* dense, 32 elements behind each row */
    KV_LAYOUTS
} kv_layout;

typedef struct kv_array {
    clattn_tensor view; /* [B, H, N, D] */
    void *data;
    size_t bytes;
    clattn_buffer *buffer; /* NULL: on the host */
} kv_array;

static inline int64_t kv_count(const int64_t shape[4]) { return shape[0] * shape[1] * shape[2] * shape[3]; }

static inline double *kv_random(uint64_t seed, int64_t count) {
    oracle_random random = {seed};
    double *x = malloc((size_t)(count > 0 ? count : 1) * sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = oracle_normal(&random);
    return x;
}

/* The row of a view where (b, h, n, 0) lies, in bytes. */
static inline char *kv_row(const kv_array *a, int64_t row) {
    const int64_t H = a->view.shape[1], N = a->view.shape[2], b = row / (H * N), h = row / N % H, n = row % N;
    const int64_t at = a->view.offset + b * a->view.stride[0] + h * a->view.stride[1] + n * a->view.stride[2];
    return (char *)a->data + clattn_dtype_bytes(a->view.dtype, (size_t)at);
}

/* values [B, H, N, D], or NULL for nothing but filler. With a context, in a buffer of it. */
static inline kv_array kv_make(clattn_context *context, clattn_dtype dtype, const int64_t shape[4], kv_layout layout,
                               const double *values) {
    const int64_t pad = layout == KV_PADDED ? 32 : 0, D = shape[3];
    const int64_t rows = shape[0] * shape[1] * shape[2], offset = 64;
    kv_array a = {.view = clattn_tensor_host(NULL, dtype, 4, shape)};
    a.bytes = clattn_dtype_bytes(dtype, (size_t)(rows * (D + pad) + 2 * offset));
    a.data = malloc(a.bytes);
    memset(a.data, KV_FILLER, a.bytes);
    a.view.offset = offset;
    a.view.stride[2] = layout == KV_ROWS ? shape[1] * D : D + pad;
    a.view.stride[1] = layout == KV_ROWS ? D : shape[2] * (D + pad);
    a.view.stride[0] = shape[1] * shape[2] * (D + pad);
    for (int64_t row = 0; values && row < rows; row++)
        SUCCEEDS(clattn_convert(kv_row(&a, row), dtype, values + row * D, CLATTN_F64, (size_t)D));
    if (context) {
        SUCCEEDS(clattn_buffer_create(context, a.bytes, &a.buffer));
        SUCCEEDS(clattn_buffer_upload(a.buffer, 0, a.data, a.bytes));
        a.view.buffer = a.buffer;
    } else {
        a.view.host = a.data;
    }
    return a;
}

/* The array's bytes as they are now, into data. */
static inline void kv_fetch(kv_array *a) {
    if (a->buffer)
        SUCCEEDS(clattn_buffer_download(a->buffer, 0, a->data, a->bytes));
}

/* The elements as they are now; the caller's to free. */
static inline double *kv_read(kv_array *a) {
    const int64_t D = a->view.shape[3], rows = kv_count(a->view.shape) / (D > 0 ? D : 1);
    double *x = malloc((size_t)(rows * D + 1) * sizeof *x);
    kv_fetch(a);
    for (int64_t row = 0; row < rows; row++)
        SUCCEEDS(clattn_convert(x + row * D, CLATTN_F64, kv_row(a, row), a->view.dtype, (size_t)D));
    return x;
}

static inline void kv_free(kv_array *a) {
    clattn_buffer_destroy(a->buffer);
    free(a->data);
    *a = (kv_array){0};
}

/* Values as they are after storage in that type. */
static inline void kv_round(double *x, clattn_dtype dtype, int64_t count) {
    void *stored = malloc(clattn_dtype_bytes(dtype, (size_t)count) + 1);
    SUCCEEDS(clattn_convert(stored, dtype, x, CLATTN_F64, (size_t)count));
    SUCCEEDS(clattn_convert(x, CLATTN_F64, stored, dtype, (size_t)count));
    free(stored);
}

static inline double kv_largest(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(x[i]));
    return largest;
}

static inline clattn_context *kv_open(const char *device, bool *has_f64) {
    clattn_context *context = NULL;
    clattn_device_info info;
    SUCCEEDS(clattn_context_create(device, NULL, &context));
    SUCCEEDS(clattn_context_info(context, &info));
    if (has_f64)
        *has_f64 = info.has_f64;
    return context;
}

#endif
