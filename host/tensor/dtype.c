/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sizes, names, conversion on the host. Knows no device. */
#include "tensor/dtype.h"

#include "base/error.h"
#include "base/mem.h"
#include <assert.h>
#include <clattn/tensor.h>
#include <float.h>
#include <math.h>
#include <string.h>

#define DTYPE_COUNT 11

size_t clattn_dtype_size(clattn_dtype dtype) {
#define SIZE(name, value, length, bytes, text) [value] = bytes,
    static const size_t sizes[DTYPE_COUNT] = {CLATTN_DTYPE_LIST(SIZE)};
#undef SIZE
    return (unsigned)dtype < DTYPE_COUNT ? sizes[dtype] : 0;
}

size_t clattn_dtype_length(clattn_dtype dtype) {
#define LENGTH(name, value, length, bytes, text) [value] = length,
    static const size_t lengths[DTYPE_COUNT] = {CLATTN_DTYPE_LIST(LENGTH)};
#undef LENGTH
    return (unsigned)dtype < DTYPE_COUNT ? lengths[dtype] : 0;
}

bool cla_dtype_bytes(clattn_dtype dtype, int64_t n, int64_t *bytes) {
    const int64_t length = (int64_t)clattn_dtype_length(dtype);
    return length > 0 && n >= 0 && n % length == 0 && cla_mul(n / length, (int64_t)clattn_dtype_size(dtype), bytes);
}

size_t clattn_dtype_bytes(clattn_dtype dtype, size_t n) {
    int64_t bytes = 0;
    return n <= INT64_MAX && cla_dtype_bytes(dtype, (int64_t)n, &bytes) && (uint64_t)bytes <= SIZE_MAX ? (size_t)bytes
                                                                                                       : 0;
}

const char *clattn_dtype_name(clattn_dtype dtype) {
#define NAME(name, value, length, bytes, text) [value] = text,
    static const char *const names[DTYPE_COUNT] = {CLATTN_DTYPE_LIST(NAME)};
#undef NAME
    return (unsigned)dtype < DTYPE_COUNT ? names[dtype] : "?";
}

static float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Without a branch, so that rows become vectors: a product puts the exponent right, but for that of infinity and NaN.
 */
static float half_to_float(uint16_t h) {
    const uint32_t none = ((h & 0x7c00U) + 0x400) & 0x8000;
    const float x = float_of_bits((uint32_t)(h & 0x7fff) << 13) * 0x1p112F;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return float_of_bits((bits + (none << 15) - (none << 12)) | (uint32_t)(h & 0x8000) << 16);
}

/* Straight from double, so that nothing is rounded twice. `bits` mantissa bits, exponents from `low` to `high`. */
static uint16_t double_to_small(double x, int bits, int low, int high) {
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    const int top = high - low + 2; /* the exponent field of infinity */
    if (isnan(x))
        return (uint16_t)(sign | top << bits | 1 << (bits - 1));
    if (x == 0.0)
        return sign;
    int e;
    frexp(x, &e);
    e -= 1;
    const int scale = (e < low ? low : e) - bits; /* one unit in the last place is 2^scale */
    double units = isinf(x) ? 0.0 : nearbyint(ldexp(fabs(x), -scale));
    if (isinf(x) || ldexp(units, scale) >= ldexp(1.0, high + 1))
        return (uint16_t)(sign | top << bits);
    if (e < low)
        return (uint16_t)(sign | (int)units); /* subnormal; a carry makes the least normal number */
    return (uint16_t)(sign | (((e - low) << bits) + (int)units));
}

/* ---- blocks ---- */

enum { BLOCK = CLA_BLOCK };

static double load_of_block(const uint8_t *block, clattn_dtype dtype, int i) {
    uint16_t half[2]; /* the scale, and the minimum of q4_1 */
    memcpy(half, block, sizeof half);
    const double scale = (double)half_to_float(half[0]);
    if (dtype == CLATTN_Q8_0)
        return scale * (int8_t)block[2 + i];
    const uint8_t *x = block + clattn_dtype_size(dtype) - BLOCK / 2;
    const int q = i < BLOCK / 2 ? x[i] & 15 : x[i - BLOCK / 2] >> 4;
    return dtype == CLATTN_Q4_0 ? scale * (q - 8) : scale * q + (double)half_to_float(half[1]);
}

/* 0 where it would be infinite: the scale is 0 in f16 then. */
static float inverse_of(float scale) { return fabsf(scale) >= FLT_MIN ? 1.0f / scale : 0; }

/* ggml's quantize_row_q8_0_ref: the largest magnitude becomes 127. */
static void quantise_8(const float x[BLOCK], float largest, float *scale, uint8_t *out) {
    *scale = fabsf(largest) / 127.0f;
    const float inverse = inverse_of(*scale);
    for (int i = 0; i < BLOCK; i++)
        out[i] = (uint8_t)(int8_t)roundf(x[i] * inverse);
}

/* ggml's quantize_row_q4_0_ref: the largest magnitude becomes -8, which has no opposite. */
static void quantise_4(const float x[BLOCK], float largest, float *scale, uint8_t *out) {
    *scale = largest / -8.0f;
    const float inverse = inverse_of(*scale);
    for (int i = 0; i < BLOCK / 2; i++) {
        const int low = (int)(x[i] * inverse + 8.5f), high = (int)(x[i + BLOCK / 2] * inverse + 8.5f);
        out[i] = (uint8_t)((low < 15 ? low : 15) | (high < 15 ? high : 15) << 4);
    }
}

/* 15 for what is larger, or infinity times 0. */
static unsigned nibble(float x) { return x < 14.5f ? (unsigned)(x + 0.5f) : 15; }

/* ggml's quantize_row_q4_1_ref: the minimum becomes 0, the maximum 15. */
static void quantise_4_from(const float x[BLOCK], float *scale, uint8_t *out) {
    float least = x[0], most = x[0];
    for (int i = 1; i < BLOCK; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
    }
    *scale = (most - least) / 15.0f;
    const float inverse = inverse_of(*scale);
    const uint16_t half = double_to_small(least, 10, -14, 15);
    memcpy(out, &half, sizeof half);
    for (int i = 0; i < BLOCK / 2; i++)
        out[2 + i] = (uint8_t)(nibble((x[i] - least) * inverse) | nibble((x[i + BLOCK / 2] - least) * inverse) << 4);
}

void cla_store_block(void *p, clattn_dtype dtype, int64_t i, const double x[CLA_BLOCK]) {
    uint8_t *block = (uint8_t *)p + i / BLOCK * (int64_t)clattn_dtype_size(dtype);
    float single[BLOCK], largest = 0, scale = 0;
    bool finite = true;
    for (int d = 0; d < BLOCK; d++) {
        single[d] = (float)x[d];
        finite = finite && isfinite(single[d]);
        if (fabsf(single[d]) > fabsf(largest))
            largest = single[d];
    }
    memset(block, 0, clattn_dtype_size(dtype));
    if (!finite)
        scale = NAN;
    else if (dtype == CLATTN_Q8_0)
        quantise_8(single, largest, &scale, block + 2);
    else if (dtype == CLATTN_Q4_1)
        quantise_4_from(single, &scale, block + 2);
    else
        quantise_4(single, largest, &scale, block + 2);
    const uint16_t half = double_to_small(scale, 10, -14, 15);
    memcpy(block, &half, sizeof half);
}

/* ---- elements ---- */

double cla_load_element(const void *p, clattn_dtype dtype, int64_t i) {
    switch (dtype) {
    case CLATTN_F32:
        return ((const float *)p)[i];
    case CLATTN_F64:
        return ((const double *)p)[i];
    case CLATTN_F16:
        return half_to_float(((const uint16_t *)p)[i]);
    case CLATTN_BF16:
        return float_of_bits((uint32_t)((const uint16_t *)p)[i] << 16);
    case CLATTN_I32:
        return ((const int32_t *)p)[i];
    case CLATTN_I64:
        return (double)((const int64_t *)p)[i];
    case CLATTN_U8:
        return ((const uint8_t *)p)[i];
    case CLATTN_BOOL:
        return ((const uint8_t *)p)[i] != 0;
    case CLATTN_Q8_0:
    case CLATTN_Q4_0:
    case CLATTN_Q4_1:
        return load_of_block((const uint8_t *)p + i / BLOCK * (int64_t)clattn_dtype_size(dtype), dtype,
                             (int)(i % BLOCK));
    }
    return 0;
}

/* A product of a scale and a quant is exact in f32, so that a sum is rounded once. */
static void load_block(float to[BLOCK], const uint8_t *block, clattn_dtype dtype) {
    uint16_t half[2]; /* the scale, and the minimum of q4_1 */
    memcpy(half, block, sizeof half);
    const float scale = half_to_float(half[0]);
    if (dtype == CLATTN_Q8_0) {
        for (int i = 0; i < BLOCK; i++)
            to[i] = scale * (float)(int8_t)block[2 + i];
        return;
    }
    const bool has_least = dtype == CLATTN_Q4_1;
    const uint8_t *x = block + clattn_dtype_size(dtype) - BLOCK / 2;
    const float least = has_least ? half_to_float(half[1]) : 0;
    const int middle = has_least ? 0 : 8;
    for (int i = 0; i < BLOCK / 2; i++) {
        to[i] = scale * (float)((x[i] & 15) - middle);
        to[i + BLOCK / 2] = scale * (float)((x[i] >> 4) - middle);
    }
    for (int i = 0; i < BLOCK && has_least; i++)
        to[i] += least;
}

void cla_load_floats(float *to, const void *p, clattn_dtype dtype, int64_t i, int64_t n) {
    const uint16_t *small = (const uint16_t *)p + i;
    if (cla_is_quantised(dtype)) {
        const int64_t size = (int64_t)clattn_dtype_size(dtype);
        for (int64_t d = 0; d < n; d += BLOCK)
            load_block(to + d, (const uint8_t *)p + (i + d) / BLOCK * size, dtype);
    } else if (dtype == CLATTN_F16) {
        for (int64_t d = 0; d < n; d++)
            to[d] = half_to_float(small[d]);
    } else if (dtype == CLATTN_BF16) {
        for (int64_t d = 0; d < n; d++)
            to[d] = float_of_bits((uint32_t)small[d] << 16);
    } else {
        memcpy(to, (const float *)p + i, (size_t)n * sizeof *to);
    }
}

static double clamp(double x, double low, double high) { return isnan(x) ? 0 : x < low ? low : x > high ? high : x; }

void cla_store_element(void *p, clattn_dtype dtype, int64_t i, double x) {
    switch (dtype) {
    case CLATTN_F32:
        ((float *)p)[i] = (float)x;
        break;
    case CLATTN_F64:
        ((double *)p)[i] = x;
        break;
    case CLATTN_F16:
        ((uint16_t *)p)[i] = double_to_small(x, 10, -14, 15);
        break;
    case CLATTN_BF16:
        ((uint16_t *)p)[i] = double_to_small(x, 7, -126, 127);
        break;
    case CLATTN_I32:
        ((int32_t *)p)[i] = (int32_t)clamp(x, INT32_MIN, INT32_MAX);
        break;
    case CLATTN_I64:
        ((int64_t *)p)[i] = x >= 0x1p63 ? INT64_MAX : (int64_t)clamp(x, -0x1p63, 0x1.fffffffffffffp62);
        break;
    case CLATTN_U8:
        ((uint8_t *)p)[i] = (uint8_t)clamp(x, 0, 255);
        break;
    case CLATTN_BOOL:
        ((uint8_t *)p)[i] = x != 0;
        break;
    case CLATTN_Q8_0:
    case CLATTN_Q4_0:
    case CLATTN_Q4_1:
        assert(false && "blocks are stored whole: cla_store_block");
        break;
    }
}

static void convert_to_blocks(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype, size_t n) {
    double x[BLOCK];
    for (size_t i = 0; i < n; i += BLOCK) {
        for (int d = 0; d < BLOCK; d++)
            x[d] = cla_load_element(from, from_dtype, (int64_t)i + d);
        cla_store_block(to, to_dtype, (int64_t)i, x);
    }
}

/* A double that every shorter float type rounds to what it would round x to: what does not fit makes it odd. */
static double odd_double(int64_t x) {
    const uint64_t size = x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
    uint64_t kept = size;
    int shift = 0;
    while (kept >> DBL_MANT_DIG) {
        kept >>= 1;
        shift++;
    }
    kept |= kept << shift != size;
    return ldexp(x < 0 ? -(double)kept : (double)kept, shift);
}

clattn_status clattn_convert(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype, size_t n) {
    const size_t lengths[] = {clattn_dtype_length(from_dtype), clattn_dtype_length(to_dtype)};
    if (lengths[0] == 0 || lengths[1] == 0)
        return cla_error(CLATTN_E_DTYPE, "convert: %d to %d is not between dtypes", (int)from_dtype, (int)to_dtype);
    if (n > 0 && (!to || !from))
        return cla_error(CLATTN_E_ARGUMENT, "convert: %s is NULL, with %zu elements to convert", to ? "from" : "to", n);
    for (int i = 0; i < 2; i++)
        if (n % lengths[i] != 0)
            return cla_error(CLATTN_E_SHAPE, "convert: %zu elements are not whole blocks of %zu, as %s has", n,
                             lengths[i], clattn_dtype_name(i ? to_dtype : from_dtype));
    if (to_dtype == from_dtype && to_dtype != CLATTN_BOOL) {
        if (n > 0)
            memcpy(to, from, n / lengths[0] * clattn_dtype_size(to_dtype));
        return CLATTN_OK;
    }
    if (lengths[1] > 1) {
        convert_to_blocks(to, to_dtype, from, from_dtype, n);
        return CLATTN_OK;
    }
    if (from_dtype == CLATTN_I64 && to_dtype == CLATTN_I32) /* exact, though not by way of double */
        for (size_t i = 0; i < n; i++) {
            const int64_t x = ((const int64_t *)from)[i];
            ((int32_t *)to)[i] = (int32_t)cla_max(INT32_MIN, cla_min(INT32_MAX, x));
        }
    else if (from_dtype == CLATTN_I64 && (to_dtype == CLATTN_F32 || to_dtype == CLATTN_F16 || to_dtype == CLATTN_BF16))
        for (size_t i = 0; i < n; i++)
            cla_store_element(to, to_dtype, (int64_t)i, odd_double(((const int64_t *)from)[i]));
    else if (to_dtype == CLATTN_F32 && (lengths[0] > 1 || from_dtype == CLATTN_F16 || from_dtype == CLATTN_BF16))
        cla_load_floats(to, from, from_dtype, 0, (int64_t)n);
    else
        for (size_t i = 0; i < n; i++)
            cla_store_element(to, to_dtype, (int64_t)i, cla_load_element(from, from_dtype, (int64_t)i));
    return CLATTN_OK;
}
