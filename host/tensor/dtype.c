/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sizes, names, conversion on the host. Knows no device. */
#include "tensor/dtype.h"

#include "base/error.h"
#include "base/mem.h"
#include <clattn/tensor.h>
#include <math.h>
#include <string.h>

#define DTYPE_COUNT 8

size_t clattn_dtype_size(clattn_dtype dtype) {
#define SIZE(name, value, bytes, text) [value] = bytes,
    static const size_t sizes[DTYPE_COUNT] = {CLATTN_DTYPE_LIST(SIZE)};
#undef SIZE
    return (unsigned)dtype < DTYPE_COUNT ? sizes[dtype] : 0;
}

const char *clattn_dtype_name(clattn_dtype dtype) {
#define NAME(name, value, bytes, text) [value] = text,
    static const char *const names[DTYPE_COUNT] = {CLATTN_DTYPE_LIST(NAME)};
#undef NAME
    return (unsigned)dtype < DTYPE_COUNT ? names[dtype] : "?";
}

static float float_of_bits(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static float half_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 31)
        return float_of_bits(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0)
        return (sign ? -1.0f : 1.0f) * ldexpf((float)mantissa, -24);
    return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
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
    }
    return 0;
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
    }
}

clattn_status clattn_convert(void *to, clattn_dtype to_dtype, const void *from, clattn_dtype from_dtype, size_t n) {
    const size_t size = clattn_dtype_size(from_dtype);
    if (size == 0 || clattn_dtype_size(to_dtype) == 0)
        return cla_error(CLATTN_E_DTYPE, "convert: %d to %d is not between dtypes", (int)from_dtype, (int)to_dtype);
    if (n > 0 && (!to || !from))
        return cla_error(CLATTN_E_ARGUMENT, "convert: %s is NULL, with %zu elements to convert", to ? "from" : "to", n);
    if (to_dtype == from_dtype && to_dtype != CLATTN_BOOL) {
        if (n > 0)
            memcpy(to, from, n * size);
        return CLATTN_OK;
    }
    if (from_dtype == CLATTN_I64 && to_dtype == CLATTN_I32) /* exact, though not by way of double */
        for (size_t i = 0; i < n; i++) {
            const int64_t x = ((const int64_t *)from)[i];
            ((int32_t *)to)[i] = (int32_t)cla_max(INT32_MIN, cla_min(INT32_MAX, x));
        }
    else
        for (size_t i = 0; i < n; i++)
            cla_store_element(to, to_dtype, (int64_t)i, cla_load_element(from, from_dtype, (int64_t)i));
    return CLATTN_OK;
}
