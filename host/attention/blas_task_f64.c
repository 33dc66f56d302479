/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `blas` in double. */
#include "attention/blas_backward.h"
#include "attention/blas_task.h"

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define REAL double
#define LOG log
#define TANH tanh
#define GEMM cblas_dgemm
#define GEMV cblas_dgemv
#define CLA_BLAS_RUN cla_blas_run_f64
#define CLA_BLAS_MERGE cla_blas_merge_f64
#define CLA_BLAS_STORE cla_blas_store_f64

static inline double exp_shifted(double x, uint32_t shift) {
    union {
        uint64_t whole;
        double real;
    } power = {.whole = (uint64_t)(1023 - shift) << 52};
    return exp(x) * power.real;
}

/* The weight of a score: exp(s - m) * 2^-shift, or -0.0 for an excluded key, whatever m is. */
static inline double weight_of(double s, double m, uint32_t shift) {
    return s == -INFINITY ? -0.0 : exp_shifted(s - m, shift);
}

#define CLA_BLAS_GRADIENTS cla_blas_gradients_f64
#define CLA_BLAS_KEYS cla_blas_keys_f64
#define CLA_BLAS_SINKS cla_blas_sinks_f64
#define CLA_BLAS_BIAS cla_blas_bias_f64
#include "attention/blas_task_real.h"

#include "attention/blas_backward_real.h"
