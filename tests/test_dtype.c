/* SPDX-License-Identifier: Apache-2.0 */
/* Element types: sizes, names and conversion. The 16-bit types are compared, pattern by pattern, with values computed
 * from their definition, and roundings with the nearest two of them. */
#include "testing.h"
#include <clattn/tensor.h>
#include <float.h>
#include <math.h>

static double one(const void *from, clattn_dtype dtype) {
    double x = -1;
    SUCCEEDS(clattn_convert(&x, CLATTN_F64, from, dtype, 1));
    return x;
}

static uint16_t small_of(double x, clattn_dtype dtype) {
    uint16_t bits = 0;
    SUCCEEDS(clattn_convert(&bits, dtype, &x, CLATTN_F64, 1));
    return bits;
}

typedef struct {
    clattn_dtype dtype;
    int mantissa, bias; /* bits, and bias of the exponent */
} small_type;
static const small_type halves = {CLATTN_F16, 10, 15}, brains = {CLATTN_BF16, 7, 127};

/* By IEEE 754's definition. */
static double value_of(small_type t, unsigned bits) {
    const int top = (0x7fff >> t.mantissa), exponent = (int)(bits & 0x7fff) >> t.mantissa;
    const double fraction = (double)(bits & ((1u << t.mantissa) - 1));
    double x = exponent == 0     ? ldexp(fraction, 1 - t.bias - t.mantissa)
               : exponent == top ? (fraction > 0 ? (double)NAN : (double)INFINITY)
                                 : ldexp(fraction + ldexp(1, t.mantissa), exponent - t.bias - t.mantissa);
    return bits & 0x8000 ? -x : x;
}

static void every_pattern(small_type t) {
    for (unsigned bits = 0; bits < 65536; bits++) {
        const uint16_t from = (uint16_t)bits;
        const double want = value_of(t, bits), got = one(&from, t.dtype);
        if (isnan(want)) {
            cr_assert(isnan(got), "%04x", bits);
            cr_assert(isnan(value_of(t, small_of(got, t.dtype))), "%04x", bits);
            continue;
        }
        cr_assert(got == want && signbit(got) == signbit(want), "%04x is %g, not %g", bits, want, got);
        cr_assert_eq(small_of(got, t.dtype), from, "%04x comes back as %04x", bits, small_of(got, t.dtype));
    }
}

Test(dtype, every_half_has_its_value_and_comes_back) { every_pattern(halves); }
Test(dtype, every_bfloat_has_its_value_and_comes_back) { every_pattern(brains); }

/* Just below, at and just above the middle of each pair of neighbours, subnormal ones and the step to infinity too. */
static void every_middle(small_type t) {
    const unsigned infinity = 0x7fffu >> t.mantissa << t.mantissa;
    for (unsigned low = 0; low < infinity; low++) {
        const double a = value_of(t, low);
        /* Infinity stands where the next finite number would be. */
        const double b = low + 1 < infinity ? value_of(t, low + 1) : 2 * a - value_of(t, low - 1);
        const double middle = a / 2 + b / 2;
        const unsigned even = low % 2 == 0 ? low : low + 1;
        cr_assert_eq(small_of(middle, t.dtype), even, "%a", middle);
        cr_assert_eq(small_of(-middle, t.dtype), even | 0x8000, "%a", -middle);
        cr_assert_eq(small_of(nextafter(middle, 0), t.dtype), low, "below %a", middle);
        cr_assert_eq(small_of(nextafter(middle, INFINITY), t.dtype), low + 1, "above %a", middle);
    }
}

Test(dtype, a_half_rounds_to_nearest_and_ties_to_even) { every_middle(halves); }
Test(dtype, a_bfloat_rounds_to_nearest_and_ties_to_even) { every_middle(brains); }

Test(dtype, what_is_too_large_becomes_infinity_and_too_small_zero) {
    cr_expect_eq(small_of(65519.99, CLATTN_F16), 0x7bff);
    cr_expect_eq(small_of(65520, CLATTN_F16), 0x7c00);
    cr_expect_eq(small_of(-1e300, CLATTN_F16), 0xfc00);
    cr_expect_eq(small_of(INFINITY, CLATTN_F16), 0x7c00);
    cr_expect_eq(small_of(0x1p-25, CLATTN_F16), 0);
    cr_expect_eq(small_of(0x1.8p-25, CLATTN_F16), 1);
    cr_expect_eq(small_of(-1e-300, CLATTN_F16), 0x8000);
    cr_expect_eq(small_of(-0.0, CLATTN_F16), 0x8000);
    cr_expect_eq(small_of(FLT_MAX, CLATTN_BF16), 0x7f80);
    cr_expect_eq(small_of(-INFINITY, CLATTN_BF16), 0xff80);
    cr_expect_eq(small_of(5e-324, CLATTN_BF16), 0);
}

Test(dtype, doubles_round_once_on_the_way_to_sixteen_bits) {
    /* By way of float this would first become 1 + 2^-11, a tie, and then 1. */
    cr_expect_eq(small_of(1 + 0x1p-11 + 0x1p-40, CLATTN_F16), 0x3c01);
    cr_expect_eq(small_of(1 + 0x1p-8 + 0x1p-40, CLATTN_BF16), 0x3f81);
}

Test(dtype, integers_saturate_and_nan_becomes_zero) {
    static const double from[] = {1e10, -1e10, NAN, 2.9, -2.9, INFINITY, 1e300, -1e300, 255.5, -0.5};
    int32_t i32[10];
    int64_t i64[10];
    uint8_t u8[10];
    SUCCEEDS(clattn_convert(i32, CLATTN_I32, from, CLATTN_F64, 10));
    SUCCEEDS(clattn_convert(i64, CLATTN_I64, from, CLATTN_F64, 10));
    SUCCEEDS(clattn_convert(u8, CLATTN_U8, from, CLATTN_F64, 10));
    static const int32_t want32[] = {INT32_MAX, INT32_MIN, 0, 2, -2, INT32_MAX, INT32_MAX, INT32_MIN, 255, 0};
    static const int64_t want64[] = {10000000000, -10000000000, 0, 2, -2, INT64_MAX, INT64_MAX, INT64_MIN, 255, 0};
    static const uint8_t want8[] = {255, 0, 0, 2, 0, 255, 255, 0, 255, 0};
    for (int i = 0; i < 10; i++) {
        cr_expect_eq(i32[i], want32[i], "%g gives %d", from[i], i32[i]);
        cr_expect_eq(i64[i], want64[i], "%g gives %lld", from[i], (long long)i64[i]);
        cr_expect_eq(u8[i], want8[i], "%g gives %d", from[i], u8[i]);
    }
}

Test(dtype, wide_integers_narrow_exactly) {
    static const int64_t from[] = {INT64_MAX, INT64_MIN, (int64_t)1 << 31, 2147483647, -2147483648, -5};
    static const int32_t want[] = {INT32_MAX, INT32_MIN, INT32_MAX, 2147483647, INT32_MIN, -5};
    int32_t got[6];
    SUCCEEDS(clattn_convert(got, CLATTN_I32, from, CLATTN_I64, 6));
    cr_assert_arr_eq(got, want, sizeof want);
}

/* Just above a tie, by what a double does not hold. */
Test(dtype, wide_integers_round_once) {
    static const struct {
        clattn_dtype dtype;
        int64_t x;
        double want;
    } cases[] = {{CLATTN_F32, ((int64_t)1 << 60) + ((int64_t)1 << 36) + 1, 0x1.000002p60},
                 {CLATTN_F32, -(((int64_t)1 << 60) + ((int64_t)1 << 36) + 1), -0x1.000002p60},
                 {CLATTN_F32, ((int64_t)1 << 60) + ((int64_t)1 << 36), 0x1p60},
                 {CLATTN_F32, ((int64_t)1 << 60) + 3 * ((int64_t)1 << 36) - 1, 0x1.000002p60},
                 {CLATTN_F32, INT64_MAX, 0x1p63},
                 {CLATTN_F32, INT64_MIN, -0x1p63},
                 {CLATTN_F32, 16777217, 16777216},
                 {CLATTN_BF16, ((int64_t)1 << 60) + ((int64_t)1 << 52) + 1, 0x1.02p60},
                 {CLATTN_BF16, ((int64_t)1 << 60) + ((int64_t)1 << 52), 0x1p60},
                 {CLATTN_F16, 2049, 2048},
                 {CLATTN_F16, INT64_MAX, (double)INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float room = 0;
        SUCCEEDS(clattn_convert(&room, cases[i].dtype, &cases[i].x, CLATTN_I64, 1));
        cr_expect_eq(one(&room, cases[i].dtype), cases[i].want, "%lld", (long long)cases[i].x);
    }
}

Test(dtype, anything_but_zero_is_true) {
    static const double from[] = {0, -0.0, 1, -1, 1e-300, NAN, INFINITY};
    static const uint8_t want[] = {0, 0, 1, 1, 1, 1, 1}, bytes[] = {0, 1, 2, 255};
    uint8_t got[7];
    SUCCEEDS(clattn_convert(got, CLATTN_BOOL, from, CLATTN_F64, 7));
    cr_assert_arr_eq(got, want, sizeof want);
    SUCCEEDS(clattn_convert(got, CLATTN_BOOL, bytes, CLATTN_BOOL, 4));
    cr_assert_arr_eq(got, ((uint8_t[]){0, 1, 1, 1}), 4);
    SUCCEEDS(clattn_convert(got, CLATTN_U8, bytes, CLATTN_BOOL, 4));
    cr_assert_arr_eq(got, ((uint8_t[]){0, 1, 1, 1}), 4);
}

/* f32 by rows, double element by element. Bytes of any value: scales are NaN and infinite too. */
Test(dtype, rows_in_f32_are_their_elements_rounded_once) {
    enum { BLOCKS = 4096, COUNT = 32 * BLOCKS };
    static const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_Q4_1, CLATTN_F16, CLATTN_BF16};
    static uint16_t bytes[COUNT];
    static float rows[COUNT];
    static double exact[COUNT];
    uint32_t random = 1;
    for (int i = 0; i < COUNT; i++)
        bytes[i] = (uint16_t)((random = random * 1664525 + 1013904223) >> 16);
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        SUCCEEDS(clattn_convert(rows, CLATTN_F32, bytes, types[t], COUNT));
        SUCCEEDS(clattn_convert(exact, CLATTN_F64, bytes, types[t], COUNT));
        int wrong = 0;
        for (int i = 0; i < COUNT; i++)
            wrong += isnan(exact[i]) ? !isnan(rows[i]) : rows[i] != (float)exact[i];
        cr_expect_eq(wrong, 0, "%s: %d differ", clattn_dtype_name(types[t]), wrong);
    }
}

Test(dtype, the_same_type_is_copied_bit_by_bit) {
    const uint32_t from[] = {0x7fc12345, 0xff800001, 0x80000000, 1};
    uint32_t got[4];
    SUCCEEDS(clattn_convert(got, CLATTN_F32, from, CLATTN_F32, 4));
    cr_assert_arr_eq(got, from, sizeof from);
}

Test(dtype, sizes_and_names) {
#define DTYPE(name, value, length, bytes, text)                                                                        \
    cr_expect_eq(clattn_dtype_size(name), bytes);                                                                      \
    cr_expect_eq(clattn_dtype_length(name), length);                                                                   \
    cr_expect_eq(clattn_dtype_bytes(name, 64), 64 / length * bytes);                                                   \
    cr_expect_eq(clattn_dtype_bytes(name, 31), length == 1 ? 31 * bytes : 0);                                          \
    cr_expect_str_eq(clattn_dtype_name(name), text);
    CLATTN_DTYPE_LIST(DTYPE)
#undef DTYPE
    cr_expect_eq(clattn_dtype_size((clattn_dtype)11), 0);
    cr_expect_eq(clattn_dtype_length((clattn_dtype)11), 0);
    cr_expect_eq(clattn_dtype_bytes((clattn_dtype)11, 32), 0);
    cr_expect_eq(clattn_dtype_bytes(CLATTN_F64, SIZE_MAX), 0);
    cr_expect_eq(clattn_dtype_size((clattn_dtype)-1), 0);
    cr_expect_str_eq(clattn_dtype_name((clattn_dtype)77), "?");
}

Test(dtype, nothing_to_convert_needs_no_arrays_and_bad_arguments_are_refused) {
    float x = 0;
    SUCCEEDS(clattn_convert(NULL, CLATTN_F32, NULL, CLATTN_F64, 0));
    FAILS(clattn_convert(NULL, CLATTN_F32, &x, CLATTN_F32, 1), CLATTN_E_ARGUMENT, "to is NULL, with 1 elements");
    FAILS(clattn_convert(&x, CLATTN_F32, NULL, CLATTN_F32, 3), CLATTN_E_ARGUMENT, "from is NULL, with 3 elements");
    FAILS(clattn_convert(&x, (clattn_dtype)11, &x, CLATTN_F32, 1), CLATTN_E_DTYPE, "0 to 11");
}
