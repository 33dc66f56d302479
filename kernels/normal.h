/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of N(0, 1) from random bits by Box and Muller, in f32, for C and OpenCL C. The same bits everywhere: nothing
 * but integers and what IEEE 754 rounds in one way, and no product beside a sum that a compiler could fuse. */
#ifndef CLA_NORMAL_H
#define CLA_NORMAL_H

#ifdef __OPENCL_VERSION__
#define CLA_AS_INT as_int
#define CLA_AS_FLOAT as_float
#define CLA_FMA fma
#else
#include <math.h>
#include <string.h>
#define CLA_FMA fmaf
static inline int CLA_AS_INT(float x) {
    int bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
static inline float CLA_AS_FLOAT(int bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
#endif

/* Square root of x > 0, within one unit in the last place. */
static inline float cla_normal_root(float x) {
    const float half_x = -0.5f * x;
    float y = CLA_AS_FLOAT(0x5f375a86 - CLA_AS_INT(x) / 2); /* about 1 / sqrt(x) */
    for (int i = 0; i < 3; i++) {
        const float square = y * y;
        y = y * CLA_FMA(half_x, square, 1.5f);
    }
    const float root = x * y, half_y = 0.5f * y;
    return CLA_FMA(CLA_FMA(-root, root, x), half_y, root);
}

/* sqrt(-2 ln u), u = (bits + 1/2) 2^-32. The polynomial, of ln(1 + f), is that of Cephes' logf. */
static inline float cla_normal_radius(unsigned bits) {
    const float u = (float)bits + 0.5f, below_1 = (float)~bits + 0.5f; /* times 2^-32 */
    const int near_1 = bits > 0xC0000000u;
    const int e = (CLA_AS_INT(u) + (0x3f800000 - 0x3f3504f3)) / 0x800000 - 127; /* u / 2^e is in [1/sqrt 2, sqrt 2) */
    const float n = near_1 ? 0.0f : (float)(e - 32);
    const float f = near_1 ? -0x1p-32f * below_1 : CLA_AS_FLOAT(CLA_AS_INT(u) - e * 0x800000) - 1.0f, z = f * f;
    float p = 7.0376836292e-2f;
    p = CLA_FMA(p, f, -1.1514610310e-1f);
    p = CLA_FMA(p, f, 1.1676998740e-1f);
    p = CLA_FMA(p, f, -1.2420140846e-1f);
    p = CLA_FMA(p, f, 1.4249322787e-1f);
    p = CLA_FMA(p, f, -1.6668057665e-1f);
    p = CLA_FMA(p, f, 2.0000714765e-1f);
    p = CLA_FMA(p, f, -2.4999993993e-1f);
    p = CLA_FMA(p, f, 3.3333331174e-1f);
    const float cubic = f * z;
    p = CLA_FMA(n, -2.12194440e-4f, p * cubic);
    p = CLA_FMA(-0.5f, z, p) + f;
    p = CLA_FMA(n, 0.693359375f, p);
    return cla_normal_root(-2.0f * p);
}

/* Cosine of `bits` turns of 2^-32; its sine is that of a quarter turn less. The polynomials are Cephes'. */
static inline float cla_normal_cosine(unsigned bits) {
    const unsigned quarter = (bits + 0x20000000u) >> 30;
    const float t = (float)(int)(bits - (quarter << 30)) * 1.4629180792671596e-9f, z = t * t; /* within pi / 4 */
    float odd = CLA_FMA(-1.9515295891e-4f, z, 8.3321608736e-3f),
          even = CLA_FMA(2.443315711809948e-5f, z, -1.388731625493765e-3f);
    odd = CLA_FMA(odd, z, -1.6666654611e-1f) * z;
    odd = CLA_FMA(odd, t, t);
    even = CLA_FMA(even, z, 4.166664568298827e-2f) * z;
    even = CLA_FMA(CLA_FMA(1.0f, even, -0.5f), z, 1.0f);
    const float x = (quarter & 1u) != 0u ? odd : even;
    return quarter == 1u || quarter == 2u ? -x : x;
}

#endif
