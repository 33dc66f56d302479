/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor is a strided view: type, shape, strides, offset and a borrowed buffer or host array. It owns nothing.
 * Layout is strides, never an enum: [b, n, h, d], packed QKV and caches are views. */
#ifndef CLATTN_TENSOR_H
#define CLATTN_TENSOR_H

#include <clattn/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, length, bytes, text): the one list of types. `length` elements take `bytes` bytes. Types of
 * blocks pack more than one: q8_0 and q4_0 are read by attention as k and v and written by clattn_cache_append; these
 * and q4_1 are read by clattn_linear as w. clattn_convert knows all. Blocks have the bytes of ggml's. */
#define CLATTN_DTYPE_LIST(X)                                                                                           \
    X(CLATTN_F32, 0, 1, 4, "f32")                                                                                      \
    X(CLATTN_F64, 1, 1, 8, "f64")                                                                                      \
    X(CLATTN_F16, 2, 1, 2, "f16")                                                                                      \
    X(CLATTN_BF16, 3, 1, 2, "bf16")                                                                                    \
    X(CLATTN_I32, 4, 1, 4, "i32")                                                                                      \
    X(CLATTN_I64, 5, 1, 8, "i64")                                                                                      \
    X(CLATTN_U8, 6, 1, 1, "u8")                                                                                        \
    X(CLATTN_BOOL, 7, 1, 1, "bool")                                                                                    \
    X(CLATTN_Q8_0, 8, 32, 34, "q8_0")  /* f16 scale, 32 int8 */                                                        \
    X(CLATTN_Q4_0, 9, 32, 18, "q4_0")  /* f16 scale, 32 nibbles from -8, the first 16 in the low ones */               \
    X(CLATTN_Q4_1, 10, 32, 20, "q4_1") /* f16 scale d, f16 minimum m, 32 nibbles q as in q4_0: q d + m */

/* How elements are stored. */
typedef enum clattn_dtype {
#define CLATTN_DTYPE_ENUM(name, value, length, bytes, text) name = value,
    CLATTN_DTYPE_LIST(CLATTN_DTYPE_ENUM)
#undef CLATTN_DTYPE_ENUM
} clattn_dtype;

#define CLATTN_MAX_RANK 8 /* axes of a tensor, at most */

/* A view. All zero is no tensor. */
typedef struct clattn_tensor {
    clattn_dtype dtype;              /* of all elements */
    int rank;                        /* 0: no tensor */
    int64_t shape[CLATTN_MAX_RANK];  /* elements along each axis, from 0 up */
    int64_t stride[CLATTN_MAX_RANK]; /* elements; 0 broadcasts. Of blocks: 1 on the last axis, else multiples of 32 */
    int64_t offset;                  /* elements, to the first one */
    clattn_buffer *buffer;           /* either a buffer of the context */
    void *host;                      /* or an array of the caller's, aligned as its type, written only as an output */
} clattn_tensor;

/* Bytes of one element, of a block where elements are packed; 0 for a number that is no dtype. */
CLATTN_API size_t clattn_dtype_size(clattn_dtype dtype);
/* Elements of a block: 32 for q8_0, q4_0 and q4_1, 1 for the others, 0 for a number that is no dtype. */
CLATTN_API size_t clattn_dtype_length(clattn_dtype dtype);
/* Bytes of n elements, one after another; 0 where n is no multiple of the block's length, or too large. */
CLATTN_API size_t clattn_dtype_bytes(clattn_dtype dtype, size_t n);
/* "f32"; "?" for a number that is no dtype. */
CLATTN_API const char *clattn_dtype_name(clattn_dtype dtype);
/* Converts n elements; floats round to nearest even, integers saturate, bool is 0 or 1. Ranges may not overlap.
 * Blocks round as ggml's do, by way of f32: q8_0 has scale max |x| / 127, q4_0 the x of largest magnitude / -8,
 * q4_1 (max x - min x) / 15 and the minimum.
 * A block with NaN or infinity in it is NaN altogether.
 * Errors  CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (NULL), CLATTN_E_SHAPE (n is no multiple of a block's 32). */
CLATTN_API clattn_status clattn_convert(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype,
                                        size_t n);

/* Row-major views of contiguous data. A shape of CLATTN_MAX_RANK numbers at most. */
CLATTN_API clattn_tensor clattn_tensor_host(const void *data, clattn_dtype dtype, int rank, const int64_t *shape);
/* The same of a buffer of a context, from its first byte. */
CLATTN_API clattn_tensor clattn_tensor_buffer(clattn_buffer *buffer, clattn_dtype dtype, int rank,
                                              const int64_t *shape);
/* Axis i of the result is axis axes[i] of t. */
CLATTN_API clattn_tensor clattn_tensor_permute(clattn_tensor t, const int *axes);
/* Elements [begin, begin + count) of an axis. */
CLATTN_API clattn_tensor clattn_tensor_slice(clattn_tensor t, int axis, int64_t begin, int64_t count);
/* Splits an axis of size outer * inner in two, [outer, inner]: E into [H, D]. */
CLATTN_API clattn_tensor clattn_tensor_split(clattn_tensor t, int axis, int64_t outer);
/* Product of the shape; -1 when it overflows or the rank is not valid; 0 of NULL. */
CLATTN_API int64_t clattn_tensor_elements(const clattn_tensor *t);

#ifdef __cplusplus
}
#endif
#endif
