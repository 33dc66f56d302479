/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `blas` in float. */
#include "attention/blas_backward.h"
#include "attention/blas_task.h"

#include <cblas.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define REAL float
#define LOG logf
#define TANH tanhf
#define GEMM cblas_sgemm
#define GEMV cblas_sgemv
#define CLA_BLAS_RUN cla_blas_run_f32
#define CLA_BLAS_MERGE cla_blas_merge_f32
#define CLA_BLAS_STORE cla_blas_store_f32

static inline uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float real_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* exp(x) * 2^-shift for x <= 0, within 1.5e-7; 0 at -inf and where the result is below every number, NaN at NaN.
 * exp(x) = 2^n exp(r), n whole, r in ln 2 [-.5, .5]; Chebyshev's polynomial for exp(r). Selection is by bits, since a
 * choice between expressions keeps gcc from making vector code, and n stays a float (NaN converts to nothing): adding
 * 1.5 * 2^23 leaves it in the low bits. The power is kept 2^64 too high until the end, and x below reach is replaced:
 * no subnormal number slows the processor. */
static inline float exp_shifted(float x, uint32_t shift) {
    const uint32_t reached = 0U - (uint32_t) !(x < -104.5f);
    const float y = real_of(bits_of(x) & reached), rounder = 12582912.0f;
    const float sum = y * 1.44269504f + rounder, n = sum - rounder;
    const float r = (y - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.392625083e-3f;
    p = p * r + 8.363232884e-3f;
    p = p * r + 4.166655421e-2f;
    p = p * r + 1.666657667e-1f;
    p = p * r + 0.5f;
    p = (p * r * r + r) + 1.0f;
    const float power = real_of((bits_of(sum) << 23) + ((127U + 64U - shift) << 23));
    return real_of(bits_of(p * power * 0x1p-64f) & reached);
}

/* The weight of a score: exp(s - m) * 2^-shift, or -0.0 for an excluded key, whatever m is. */
static inline float weight_of(float s, float m, uint32_t shift) {
    const uint32_t kept = 0U - (uint32_t)(s != -INFINITY);
    return real_of((bits_of(exp_shifted(s - m, shift)) & kept) | (0x80000000U & ~kept));
}

#define CLA_BLAS_GRADIENTS cla_blas_gradients_f32
#define CLA_BLAS_KEYS cla_blas_keys_f32
#define CLA_BLAS_SINKS cla_blas_sinks_f32
#define CLA_BLAS_BIAS cla_blas_bias_f32
#include "attention/blas_task_real.h"

#include "attention/blas_backward_real.h"
