/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at most: fused multiply-adds in registers, and reading. Knows nothing of attention.
 * Key: REAL 32 (the preludes'; both kernels are f32), LANES 1 2 4 8 16 of a vector, WG, CHAINS of multiply-adds that
 * do not wait for each other; HINT: attributes. A work-item owns its vectors; no local memory, no barriers. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#if LANES == 1
typedef float peak_vector;
#define PEAK_LOAD(i, p) ((p)[i])
#define PEAK_STORE(x, i, p) ((p)[i] = (x))
#else
typedef PASTE(float, LANES) peak_vector;
#define PEAK_LOAD PASTE(vload, LANES)
#define PEAK_STORE PASTE(vstore, LANES)
#endif
#define CHAIN(c) _Pragma("unroll") for (int c = 0; c < CHAINS; c++)
#define UNROLLED 4

/* UNROLLED * CHAINS * steps multiply-adds of a vector in each work-item. Values go to addend / (1 - factor).
 * out [work-items][LANES]: written so that the work is not dropped. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void peak_fma(__global float *out, const cla_peak_args a) {
    const peak_vector factor = (peak_vector)(a.factor), addend = (peak_vector)(a.addend);
    peak_vector x[CHAINS], sum = (peak_vector)(0.0f);
    CHAIN(c) x[c] = (peak_vector)((float)(c + (int)get_local_id(0)));
    for (int step = 0; step < a.steps; step++) {
        _Pragma("unroll") for (int u = 0; u < UNROLLED; u++) { CHAIN(c) x[c] = fma(x[c], factor, addend); }
    }
    CHAIN(c) sum += x[c];
    PEAK_STORE(sum, get_global_id(0), out);
}

/* Each work-group reads its own part of x, `steps` times CHAINS * WG vectors, its work-items side by side. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void peak_read(__global const float *x, __global float *out,
                                                                        const cla_peak_args a) {
    const long part = (long)CHAINS * WG * LANES * a.steps;
    __global const float *p = x + CLA_GROUP * part;
    peak_vector sums[CHAINS], sum = (peak_vector)(0.0f);
    CHAIN(c) sums[c] = (peak_vector)(0.0f);
    for (int step = 0; step < a.steps; step++, p += CHAINS * WG * LANES) {
        CHAIN(c) sums[c] += PEAK_LOAD(c * WG + get_local_id(0), p);
    }
    CHAIN(c) sum += sums[c];
    PEAK_STORE(sum, get_global_id(0), out);
}
