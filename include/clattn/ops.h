/* SPDX-License-Identifier: Apache-2.0 */
/* Layers around attention: linear layers, with an activation, and so matrix products.
 *
 * Letters: M rows of all axes but the last, N columns of the result, K terms of a sum.
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
 * Dtypes   f32, f16, bf16, f64, each tensor its own, with sums in f32, or in f64 where a tensor is f64; w also q8_0 and
 *          q4_0. |error of a sum| <= 4 K 2^-24 sum |x| |w| in f32; erf in f32 is within 1.6e-7.
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

#ifdef __cplusplus
}
#endif
#endif
