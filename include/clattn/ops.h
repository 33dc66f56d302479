/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around attention: linear layers and so matrix products, and norms.
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
    clattn_tensor bias; /* optional [N] */
    clattn_tensor y;    /* out [..., N] */
    clattn_activation activation;
    const char *algorithm; /* a clattn_linear_algorithm; NULL: the first that applies and was written for such a call */
} clattn_linear_args;

/* y = activation(x W^T + bias), each row by itself.
 * Shapes   as above; strides are free, but y may not broadcast. y may not lie over x, w or bias. M, N and K may be 0: a
 *          sum of no terms is 0.
 * Dtypes   f32, f16, bf16, f64, each tensor its own, with sums in f32, or in f64 where a tensor is f64; w also q8_0,
 *          q4_0 and q4_1. |error of a sum| <= 4 K 2^-24 sum |x| |w| in f32, with |q d| + |m| for |w| of q4_1; erf
 *          in f32 is within 1.6e-7.
 * Special  NaN and infinity in a row or a column of W reach what they belong to, and nothing else. The same bits in
 *          every run on a device.
 * Async    enqueued; returns at once unless a tensor is a host array on an OpenCL device.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (activation, algorithm, overlap), CLATTN_E_UNSUPPORTED (an
 *          algorithm that does not apply, f64 without cl_khr_fp64), CLATTN_E_LIMIT (scratch, CLBlast's int), and the
 *          device's. y of a failed call is not to be read.
 * Source   Hendrycks & Gimpel 2016 (GELU); Elfwing et al. 2017 (SiLU). */
CLATTN_API clattn_status clattn_linear(clattn_context *context, const clattn_linear_args *args);

/* The ways to compute it: "gemv", "linear", "clblast", "blas", "reference"; NULL past the end. */
CLATTN_API const char *clattn_linear_algorithm(size_t index);
/* Whether one can do it here; *reason (the thread's message, until its next failure) says why not.
 * Errors   those of clattn_linear about args; *applies is false then. */
CLATTN_API clattn_status clattn_linear_applies(clattn_context *context, const clattn_linear_args *args, size_t index,
                                               bool *applies, const char **reason);

typedef enum clattn_norm_kind { CLATTN_NORM_LAYER = 0, CLATTN_NORM_RMS } clattn_norm_kind;

/* All zero but x and y: LayerNorm over the last axis, without weights. */
typedef struct clattn_norm_args {
    clattn_norm_kind kind;
    clattn_tensor x;             /* [..., the normalised axes] */
    clattn_tensor residual;      /* optional, as x: x + residual is normalised */
    clattn_tensor weight, bias;  /* optional; of the normalised axes, or what broadcasts from the right to x */
    clattn_tensor y;             /* out, as x; may be x or residual */
    clattn_tensor sum;           /* out, optional, as x: x + residual; may be x or residual */
    clattn_tensor mean, inv_std; /* out, optional: of each row; x's shape with 1 for the normalised axes, or without
                                    them; RMSNorm has no mean */
    int axes;                    /* so many last axes are normalised; 0: 1 */
    double epsilon;              /* 0: 1e-5. What is too small for the sums' type, such as DBL_MIN, is none */
} clattn_norm_args;

/* LayerNorm or RMSNorm of each row z = x + residual, rounded once, to y's type:
 *   y = (z - mean) inv_std weight + bias,  inv_std = 1 / sqrt(mean of (z - mean)^2 + epsilon)     LayerNorm
 *   y = z inv_std weight + bias,           inv_std = 1 / sqrt(mean of z^2 + epsilon)              RMSNorm
 * Special  NaN in a row makes all of the row NaN, and nothing else; so does infinity in LayerNorm. A row's squares have
 * the range of the sums' type: rows beyond 1e19 in f32 overflow. Rows of no elements have mean 0. Errors
 * CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (kind, epsilon, overlap, a sum without residual),
 *          CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64), CLATTN_E_LIMIT (rows of 2^31 elements), and the device's.
 * Source   Ba et al. 2016; Zhang & Sennrich 2019; ONNX LayerNormalization 17, RMSNormalization 23. */
CLATTN_API clattn_status clattn_norm(clattn_context *context, const clattn_norm_args *args);

#ifdef __cplusplus
}
#endif
#endif
