/* SPDX-License-Identifier: Apache-2.0 */
/* Storage types: rounding by the library's own conversion, which test_dtype.c judges, and decoding apart from it. */
#include "oracle_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

clattn_dtype oracle_type_of(const oracle_config *config, int tensor) {
    switch (tensor) {
    case ORACLE_Q:
        return config->q_type;
    case ORACLE_K:
        return config->k_type;
    case ORACLE_V:
        return config->v_type;
    case ORACLE_O:
        return config->o_type;
    case ORACLE_BIAS:
        return config->bias_type;
    case ORACLE_KEEP:
        return CLATTN_BOOL;
    case ORACLE_DROP:
        return CLATTN_U8;
    default:
        return config->dtype;
    }
}

static double half(const unsigned char *bytes) {
    const unsigned bits = bytes[0] | (unsigned)bytes[1] << 8, exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                        : exponent == 0 ? ldexp(fraction, -24)
                                        : ldexp(1024 + fraction, (int)exponent - 25);
    return bits >> 15 ? -size : size;
}

static double in_block(clattn_dtype dtype, const unsigned char *array, int64_t at) {
    const int64_t block = at / 32, i = at % 32;
    if (dtype == CLATTN_Q8_0) {
        const unsigned char *bytes = array + block * 34;
        const int number = bytes[2 + i] < 128 ? bytes[2 + i] : bytes[2 + i] - 256;
        return half(bytes) * number;
    }
    const int before = dtype == CLATTN_Q4_0 ? 2 : 4;
    const unsigned char *bytes = array + block * (before + 16);
    const int nibble = i < 16 ? bytes[before + i] & 15 : bytes[before + i - 16] >> 4;
    return dtype == CLATTN_Q4_0 ? half(bytes) * (nibble - 8) : half(bytes) * nibble + half(bytes + 2);
}

double oracle_decode(clattn_dtype dtype, const void *array, int64_t at) {
    const unsigned char *bytes = array;
    uint32_t word = 0;
    float single;
    double wide;
    switch (dtype) {
    case CLATTN_F64:
        memcpy(&wide, bytes + at * 8, 8);
        return wide;
    case CLATTN_F32:
        memcpy(&single, bytes + at * 4, 4);
        return (double)single;
    case CLATTN_BF16:
        word = ((uint32_t)bytes[at * 2] | (uint32_t)bytes[at * 2 + 1] << 8) << 16;
        memcpy(&single, &word, 4);
        return (double)single;
    case CLATTN_F16:
        return half(bytes + at * 2);
    default:
        return in_block(dtype, bytes, at);
    }
}

void oracle_round(clattn_dtype dtype, double *x, int64_t count) {
    if (dtype == CLATTN_F64)
        return;
    void *stored = oracle_alloc(clattn_dtype_bytes(dtype, (size_t)count), 1);
    if (clattn_convert(stored, dtype, x, CLATTN_F64, (size_t)count) != CLATTN_OK)
        abort();
    for (int64_t i = 0; i < count; i++)
        x[i] = oracle_decode(dtype, stored, i);
    free(stored);
}

double oracle_filler_value(oracle_filler filler) {
    static const double values[] = {
        [ORACLE_NAN] = NAN, [ORACLE_ZERO] = 0, [ORACLE_INFINITY] = INFINITY, [ORACLE_MINUS_INFINITY] = -INFINITY};
    return values[filler];
}

void oracle_spread(oracle_filler filler, clattn_dtype dtype, void *data, size_t bytes) {
    unsigned char element[40], *to = data;
    const size_t size = clattn_dtype_size(dtype), length = clattn_dtype_length(dtype);
    const bool infinite = filler == ORACLE_INFINITY || filler == ORACLE_MINUS_INFINITY;
    memset(element, filler == ORACLE_ZERO ? 0 : 0xff, sizeof element);
    if (infinite && length > 1) { /* an infinite scale */
        element[0] = 0;
        element[1] = filler == ORACLE_INFINITY ? 0x7c : 0xfc;
    } else if (infinite && dtype != CLATTN_BOOL && dtype != CLATTN_U8) {
        const double x = oracle_filler_value(filler);
        if (clattn_convert(element, dtype, &x, CLATTN_F64, 1) != CLATTN_OK)
            abort();
    }
    for (size_t at = 0; at + size <= bytes; at += size)
        memcpy(to + at, element, size);
}
