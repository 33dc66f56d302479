/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of any type, as numbers; blocks of quantised ones. */
#ifndef CLA_DTYPE_H
#define CLA_DTYPE_H

#include <clattn/tensor.h>

double cla_load_element(const void *p, clattn_dtype dtype, int64_t i);
/* n elements from element i on, side by side, in f32: of F32, F16, BF16 or blocks, which begin and end there. Each as
 * cla_load_element has it, rounded once. */
void cla_load_floats(float *to, const void *p, clattn_dtype dtype, int64_t i, int64_t n);
/* Rounds to nearest even, saturates integers. Not for quantised types. */
void cla_store_element(void *p, clattn_dtype dtype, int64_t i, double x);

static inline bool cla_is_float(clattn_dtype dtype) {
    return dtype == CLATTN_F32 || dtype == CLATTN_F64 || dtype == CLATTN_F16 || dtype == CLATTN_BF16;
}

enum { CLA_BLOCK = 32 }; /* elements of a block of every quantised type */
static inline bool cla_is_quantised(clattn_dtype dtype) {
    return dtype == CLATTN_Q8_0 || dtype == CLATTN_Q4_0 || dtype == CLATTN_Q4_1;
}
/* Quantised types that keys and values may have. */
static inline bool cla_is_quantised_cache(clattn_dtype dtype) { return dtype == CLATTN_Q8_0 || dtype == CLATTN_Q4_0; }
/* Quantises elements i .. i + 31; i is a multiple of 32. As ggml rounds; NaN or infinity makes the whole block NaN. */
void cla_store_block(void *p, clattn_dtype dtype, int64_t i, const double x[CLA_BLOCK]);
/* Bytes of n elements; false when they overflow or are not whole blocks, and *bytes is then unchanged. */
bool cla_dtype_bytes(clattn_dtype dtype, int64_t n, int64_t *bytes);

#endif
