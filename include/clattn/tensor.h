/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor is a strided view: type, shape, strides, offset and a borrowed buffer or host array. It owns nothing.
 * Layout is strides, never an enum: [b, n, h, d], packed QKV and caches are views. */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include <clattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, bytes, text): the one list of types. */
#define CLATTN_DTYPE_LIST(X)                                                                                           \
    X(CLATTN_F32, 0, 4, "f32")                                                                                         \
    X(CLATTN_F64, 1, 8, "f64")                                                                                         \
    X(CLATTN_F16, 2, 2, "f16")                                                                                         \
    X(CLATTN_BF16, 3, 2, "bf16")                                                                                       \
    X(CLATTN_I32, 4, 4, "i32")                                                                                         \
    X(CLATTN_I64, 5, 8, "i64")                                                                                         \
    X(CLATTN_U8, 6, 1, "u8")                                                                                           \
    X(CLATTN_BOOL, 7, 1, "bool")

typedef enum clattn_dtype {
#define CLATTN_DTYPE_ENUM(name, value, bytes, text) name = value,
    CLATTN_DTYPE_LIST(CLATTN_DTYPE_ENUM)
#undef CLATTN_DTYPE_ENUM
} clattn_dtype;

#define CLATTN_MAX_RANK 8

typedef struct clattn_tensor {
    clattn_dtype dtype;
    int rank; /* 0: no tensor */
    int64_t shape[CLATTN_MAX_RANK];
    int64_t stride[CLATTN_MAX_RANK]; /* elements; 0 broadcasts */
    int64_t offset;                  /* elements, to the first one */
    clattn_buffer *buffer;           /* either a buffer of the context */
    void *host;                      /* or an array of the caller's, not written unless it is an output */
} clattn_tensor;

/* Bytes of one element, 0 for a number that is no dtype. */
CLATTN_API size_t clattn_dtype_size(clattn_dtype dtype);
/* "f32"; "?" for a number that is no dtype. */
CLATTN_API const char *clattn_dtype_name(clattn_dtype dtype);
/* Converts n elements; floats round to nearest even, integers saturate, bool is 0 or 1. Ranges may not overlap. */
CLATTN_API clattn_status clattn_convert(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype,
                                        size_t n);

/* Row-major views of contiguous data. A shape of CLATTN_MAX_RANK numbers at most. */
CLATTN_API clattn_tensor clattn_tensor_host(const void *data, clattn_dtype dtype, int rank, const int64_t *shape);
CLATTN_API clattn_tensor clattn_tensor_buffer(clattn_buffer *buffer, clattn_dtype dtype, int rank,
                                              const int64_t *shape);
/* Axis i of the result is axis axes[i] of t. */
CLATTN_API clattn_tensor clattn_tensor_permute(clattn_tensor t, const int *axes);
/* Elements [begin, begin + count) of an axis. */
CLATTN_API clattn_tensor clattn_tensor_slice(clattn_tensor t, int axis, int64_t begin, int64_t count);
/* Splits an axis of size outer * inner in two, [outer, inner]: E into [H, D]. */
CLATTN_API clattn_tensor clattn_tensor_split(clattn_tensor t, int axis, int64_t outer);
/* Product of the shape; -1 when it overflows or the rank is not valid. */
CLATTN_API int64_t clattn_tensor_elements(const clattn_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
