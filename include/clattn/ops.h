/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around attention: linear layers and so matrix products, norms, activations, sums, softmax on any axis, look-up
 * of embeddings, mean pooling, sinusoidal positions and random numbers.
 *
 * Letters: B batch, N rows (of linear layers: columns of the result), E model dim, V rows of a table; M rows and K
 * terms of a sum of linear layers.
 *
 * What they have in common, where nothing else is said. Tensors have rank 1 to 8 and any strides, and are host arrays
 * or buffers, mixed; rank 0 is absent; an output may not broadcast or overlap itself, nor lie over another tensor of
 * the call unless it is said that it may be that very view. Dtypes are f32, f16, bf16 and f64, each tensor its own;
 * sums are f32, or f64 where a tensor is f64. Calls are enqueued and return at once unless a tensor is a host array on
 * an OpenCL device. Sizes may be 0: there is nothing to write then. The same bits in every run on a device.
 */
#ifndef CLATTN_OPS_H
#define CLATTN_OPS_H

#include <clattn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(name, value, text): the one list of activations. */
#define CLATTN_ACTIVATION_LIST(X)                                                                                      \
    X(CLATTN_ACTIVATION_NONE, 0, "none")           /* x */                                                             \
    X(CLATTN_ACTIVATION_RELU, 1, "relu")           /* max(x, 0) */                                                     \
    X(CLATTN_ACTIVATION_GELU, 2, "gelu")           /* x (1 + erf(x / sqrt 2)) / 2 */                                   \
    X(CLATTN_ACTIVATION_GELU_TANH, 3, "gelu_tanh") /* x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2 */             \
    X(CLATTN_ACTIVATION_SILU, 4, "silu")           /* x / (1 + exp(-x)) */

/* What a linear layer, or clattn_activate, does to each number. */
typedef enum clattn_activation {
#define CLATTN_ACTIVATION_ENUM(name, value, text) name = value,
    CLATTN_ACTIVATION_LIST(CLATTN_ACTIVATION_ENUM)
#undef CLATTN_ACTIVATION_ENUM
} clattn_activation;

/* "gelu"; "?" for a number that is no activation. */
CLATTN_API const char *clattn_activation_name(clattn_activation activation);

/* All zero but x, w and y is a matrix product. Tensors of rank 0 are absent. */
typedef struct clattn_linear_args {
    clattn_tensor x; /* [..., K], rank 1 to 4 */
    clattn_tensor w; /* [N, K], as PyTorch keeps it; a matrix [K, N] is a view of this shape: clattn_tensor_permute */
    clattn_tensor bias;           /* optional [N] */
    clattn_tensor y;              /* out [..., N] */
    clattn_activation activation; /* one of CLATTN_ACTIVATION_LIST */
    bool gated;                   /* w is [2 N, K] and bias [2 N]: of a gate, then of what it gates */
    const char *algorithm; /* a clattn_linear_algorithm; NULL: the first that applies and was written for such a call */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_linear_args;

/* y = activation(x W^T + bias), each row by itself; gated, with W and bias in halves:
 *   y = activation(x W1^T + bias1) * (x W2^T + bias2), SwiGLU with SILU, GEGLU with GELU
 * Shapes   as above; strides are free, but y may not broadcast. y may not lie over x, w or bias. M, N and K may be 0: a
 *          sum of no terms is 0.
 * Dtypes   f32, f16, bf16, f64, each tensor its own, with sums in f32, or in f64 where a tensor is f64; w also q8_0,
 *          q4_0 and q4_1. |error of a sum| <= 4 K 2^-24 sum |x| |w| in f32, with |q d| + |m| for |w| of q4_1; erf
 *          in f32 is within 1.6e-7.
 * Special  NaN and infinity in a row or a column of W reach what they belong to, and nothing else. The same bits in
 *          every run on a device.
 * Async    enqueued; returns at once unless a tensor is a host array on an OpenCL device.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (activation, algorithm, overlap), CLATTN_E_UNSUPPORTED (an
 *          algorithm that does not apply, f64 without cl_khr_fp64), CLATTN_E_LIMIT (scratch, CLBlast's int),
 *          CLATTN_E_VERIFY (self_test of the context: CLBlast is wrong), and the device's. y of a failed call is not to
 *          be read.
 * Source   Hendrycks & Gimpel 2016 (GELU); Elfwing et al. 2017 (SiLU); Shazeer 2020 (gated). */
CLATTN_API clattn_status clattn_linear(clattn_context *context, const clattn_linear_args *args);

/* The ways to compute it: "gemv", "linear", "clblast", "blas", "reference"; NULL past the end. */
CLATTN_API const char *clattn_linear_algorithm(size_t index);
/* Whether one can do it here; *reason (the thread's message, until its next failure) says why not.
 * Errors   those of clattn_linear about args; *applies is false then. */
CLATTN_API clattn_status clattn_linear_applies(clattn_context *context, const clattn_linear_args *args, size_t index,
                                               bool *applies, const char **reason);

/* Which norm. */
typedef enum clattn_norm_kind { CLATTN_NORM_LAYER = 0, CLATTN_NORM_RMS } clattn_norm_kind;

/* All zero but x and y: LayerNorm over the last axis, without weights. */
typedef struct clattn_norm_args {
    clattn_norm_kind kind;       /* LayerNorm or RMSNorm */
    clattn_tensor x;             /* [..., the normalised axes] */
    clattn_tensor residual;      /* optional, as x: x + residual is normalised */
    clattn_tensor weight, bias;  /* optional; of the normalised axes, or what broadcasts from the right to x */
    clattn_tensor y;             /* out, as x; may be x or residual */
    clattn_tensor sum;           /* out, optional, as x: x + residual; may be x or residual */
    clattn_tensor mean, inv_std; /* out, optional: of each row; x's shape with 1 for the normalised axes, or without
                                    them; RMSNorm has no mean */
    int axes;                    /* so many last axes are normalised; 0: 1 */
    double epsilon;              /* 0: 1e-5. What is too small for the sums' type, such as DBL_MIN, is none */
    uint64_t reserved[24];       /* zero: see clattn/version.h */
} clattn_norm_args;

/* LayerNorm or RMSNorm of each row z = x + residual, rounded once, to y's type:
 *   y = (z - mean) inv_std weight + bias,  inv_std = 1 / sqrt(mean of (z - mean)^2 + epsilon)     LayerNorm
 *   y = z inv_std weight + bias,           inv_std = 1 / sqrt(mean of z^2 + epsilon)              RMSNorm
 * Special  NaN in a row makes all of the row NaN, and nothing else; so does infinity in LayerNorm. A row's squares have
 *          the range of the sums' type: rows beyond 1e19 in f32 overflow. Rows of no elements have mean 0.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (kind, epsilon, overlap, a sum without residual),
 *          CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64), CLATTN_E_LIMIT (rows of 2^31 elements), and the device's.
 * Source   Ba et al. 2016; Zhang & Sennrich 2019; ONNX LayerNormalization 17, RMSNormalization 23. */
CLATTN_API clattn_status clattn_norm(clattn_context *context, const clattn_norm_args *args);

/* Of clattn_embed. All zero but table, ids and y: rows of the table. */
typedef struct clattn_embed_args {
    clattn_tensor table;   /* [V, E]; also of blocks: q8_0 and what else clattn_linear's w may be */
    clattn_tensor ids;     /* [...] of i32 or i64, rank 1 to 7 */
    clattn_tensor add;     /* optional, broadcasts from the right to y; may be y */
    clattn_tensor y;       /* out [..., E] */
    bool has_scale;        /* `scale` is given */
    double scale;          /* else 1 */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_embed_args;

/* y = scale * table[ids] + add.
 * Special  an id that is no row of the table is an error where ids are a host array; in a buffer it makes its row of y
 *          NaN.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (an id outside the table, overlap), CLATTN_E_UNSUPPORTED
 *          (f64 without cl_khr_fp64), and the device's. */
CLATTN_API clattn_status clattn_embed(clattn_context *context, const clattn_embed_args *args);

/* Of clattn_add. */
typedef struct clattn_add_args {
    clattn_tensor a;       /* [...], rank 1 to 8 */
    clattn_tensor b;       /* broadcasts from the right to a's shape */
    clattn_tensor y;       /* out, as a; may be a, or b where that has a's shape */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_add_args;

/* y = a + b.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (overlap), CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64),
 *          and the device's. */
CLATTN_API clattn_status clattn_add(clattn_context *context, const clattn_add_args *args);

/* Of clattn_activate. All zero but x and y is a copy. */
typedef struct clattn_activate_args {
    clattn_tensor x;              /* [...], rank 1 to 8 */
    clattn_tensor up;             /* optional, as x: gated */
    clattn_tensor y;              /* out, as x; may be x or up */
    clattn_activation activation; /* one of CLATTN_ACTIVATION_LIST */
    uint64_t reserved[24];        /* zero: see clattn/version.h */
} clattn_activate_args;

/* y = activation(x), or activation(x) * up: SwiGLU with SILU, GEGLU with GELU.
 * Special  NaN stays NaN; GELU and SiLU of -infinity are NaN, as 0 times infinity is, RELU's is 0. erf in f32 is within
 *          1.6e-7.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (activation, overlap), CLATTN_E_UNSUPPORTED (f64 without
 *          cl_khr_fp64), and the device's.
 * Source   Hendrycks & Gimpel 2016; Elfwing et al. 2017; Shazeer 2020 (gated). */
CLATTN_API clattn_status clattn_activate(clattn_context *context, const clattn_activate_args *args);

/* Of clattn_pool. */
typedef struct clattn_pool_args {
    clattn_tensor x;        /* [B, N, E] */
    clattn_tensor y;        /* out [B, E] */
    const int64_t *lengths; /* host array [B], each 0 to N; NULL: N */
    bool normalise;         /* y to unit length; below a length of 1e-12 it is divided by that */
    uint64_t reserved[24];  /* zero: see clattn/version.h */
} clattn_pool_args;

/* y[b] = mean of the first lengths[b] rows of x[b]; zeros where there are none. Rows behind are not read.
 * Special  NaN and infinity reach their column, with normalise their row.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (lengths, overlap), CLATTN_E_UNSUPPORTED (f64 without
 *          cl_khr_fp64), and the device's.
 * Source   Reimers & Gurevych 2019. */
CLATTN_API clattn_status clattn_pool(clattn_context *context, const clattn_pool_args *args);

/* Of clattn_positions. */
typedef struct clattn_positions_args {
    clattn_tensor y;      /* out [N, E] */
    int64_t start;        /* position of the first row; within +-2^53 */
    double base;          /* above 0; 0: 10000 */
    uint64_t reserved[8]; /* zero: see clattn/version.h */
} clattn_positions_args;

/* y[i, 2 c] = sin((start + i) base^(-2 c / E)), y[i, 2 c + 1] = cos of the same angle, found by the host in long
 * double.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (start, base), and the device's.
 * Source   Vaswani et al. 2017, 3.5. */
CLATTN_API clattn_status clattn_positions(clattn_context *context, const clattn_positions_args *args);

/* What clattn_random draws from. */
typedef enum clattn_distribution {
    CLATTN_DISTRIBUTION_NORMAL = 0, /* N(0, 1) */
    CLATTN_DISTRIBUTION_UNIFORM     /* [0, 1), multiples of 2^-24 */
} clattn_distribution;

/* Each seed has 2^64 streams of 2^64 numbers. */
typedef struct clattn_random_args {
    clattn_tensor y;                  /* out */
    clattn_distribution distribution; /* normal or uniform */
    uint64_t seed, stream;            /* which stream */
    uint64_t first; /* the number of y's first element in the stream; the others follow in the order of the axes */
    uint64_t reserved[8]; /* zero: see clattn/version.h */
} clattn_random_args;

/* y = random numbers by their place: number n of a stream depends on seed, stream and n alone, so that parts can be
 * made in any order, and has the same bits on every device, `cpu` too. Dtypes   the numbers are those of f32,
 * converted. Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (distribution), CLATTN_E_UNSUPPORTED (f64
 * without cl_khr_fp64), and the device's. Source   Salmon et al. 2011 (Philox4x32-10, counter n / 4 and stream, key
 * seed); Box & Muller 1958. */
CLATTN_API clattn_status clattn_random(clattn_context *context, const clattn_random_args *args);

/* Of clattn_softmax. */
typedef struct clattn_softmax_args {
    clattn_tensor x;       /* [...], rank 1 to 8 */
    clattn_tensor y;       /* out, as x; may be x */
    bool has_axis;         /* else the last */
    int axis;              /* negative ones count from the end */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_softmax_args;

/* y = exp(x - m) / sum of exp(x - m) along the axis, m the largest x.
 * Special  -infinity gives 0, and a row of nothing else is all zeros, as in attention (PyTorch gives NaN). NaN or
 *          +infinity makes all of its row NaN.
 * Errors   CLATTN_E_SHAPE (rank, axis), CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (overlap), CLATTN_E_UNSUPPORTED (f64 without
 *          cl_khr_fp64), CLATTN_E_LIMIT, and the device's.
 * Source   ONNX Softmax 13. */
CLATTN_API clattn_status clattn_softmax(clattn_context *context, const clattn_softmax_args *args);

#ifdef __cplusplus
}
#endif
#endif
