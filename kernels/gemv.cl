/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x W^T + b) for few rows of x, on CPU-class devices: W is read as it is stored, and once from memory. LANES ARE
 * TERMS: a work-item, alone in its group, owns a.panels times LANES columns and takes the rows of x against LANES of them
 * in blocks of TOKENS, RB columns at a time; then LANES sums are added up together by a tree. W has its terms side by
 * side, and x, of type real, too.
 * Key: REAL; LANES; STAGED 1; STORAGE: type of W; TOKENS 1 2 4 8: rows of x together.
 * Private memory: TOKENS LANES vectors and a few. No local memory, no barriers.
 * The sum of an element depends on its own row and column alone, not on TOKENS. */
#if LANES == 16 /* of 32 registers, else 16 */
#define RB (TOKENS == 8 ? 2 : 4)
#else
#define RB (TOKENS == 8 ? 1 : TOKENS == 4 ? 2 : 4)
#endif

/* The last, partial vector of terms, from k on: zeros for what is not there. */
INLINE vec some_terms(__global const void *p, long at, int count, int type) {
    real x[LANES];
    for (int i = 0; i < LANES; i++)
        x[i] = i < count ? load_one(p, at + i, type) : R(0.0);
    return LOAD(0, x);
}

/* Terms of a step of every loop over them, in vectors and in bytes: a block, or a vector. */
#if STORAGE >= CLA_Q8_0
#define PARTS (32 / LANES)
#define STEP_BYTES BLOCK_BYTES(STORAGE)
#else
#define PARTS 1
#define STEP_BYTES ((STORAGE == CLA_F64 ? 8 : STORAGE == CLA_F32 ? 4 : 2) * LANES)
#endif

#define FAR 4096 /* bytes that are fetched ahead, at least */

/* What follows RB columns is most likely the next RB: their lines, one after another, while these are read. */
INLINE void expect(__global const uchar *next, int step) {
    EACH(i, (RB * STEP_BYTES + 63) / 64) FETCH(next + (long)step * (RB * STEP_BYTES) + 64 * i, 0, 3);
}

#if STORAGE >= CLA_Q8_0
/* s[TOKENS] += products of a block with 32 terms of the rows of x at x[]. What is summed with what is the same whatever
 * TOKENS. */
INLINE void add_block(vec s[TOKENS], __global const uchar *block, __global const real *const x[TOKENS]) {
    /* Four halves are converted at once: one would be a call. Loads that lie over those of q would be taken apart. */
#if STORAGE == CLA_Q4_1
    const ushort4 bits = (ushort4)(vload2(0, (__global const ushort *)block), 0, 0);
#else
    const ushort4 bits = (ushort4)(*(__global const ushort *)block, 0, 0, 0);
#endif
    const float4 halves = vload_half4(0, (const half *)&bits);
    const vec scale = (vec)((real)halves.s0);
    vec q[PARTS];
    EACH(c, PARTS) q[c] = quants_of(block, c, STORAGE);
#if STORAGE == CLA_Q4_1
    EACH(c, PARTS) q[c] = fma(scale, q[c], (vec)((real)halves.s1));
    EACH(t, TOKENS) EACH(c, PARTS) s[t] = fma(q[c], LOAD(c, x[t]), s[t]);
#else
    EACH(t, TOKENS) {
        vec sum = q[0] * LOAD(0, x[t]);
        EACH(c, PARTS - 1) sum = fma(q[c + 1], LOAD(c + 1, x[t]), sum);
        s[t] = fma(scale, sum, s[t]);
    }
#endif
}
#endif

/* s[RB][TOKENS] = products of RB columns of W, which start at w_at[], with the rows of x at x_at[]. */
INLINE void multiply(vec s[RB][TOKENS], __global const real *x, const long *x_at, __global const void *w,
                     const long *w_at, long w_n, int K) {
    const long rows_ahead = RB * (1 + FAR / ((long)RB * STEP_BYTES * (K / (PARTS * LANES) + 1)));
    __global const uchar *next = (__global const uchar *)cla_at(w, w_at[0] + rows_ahead * w_n, STORAGE);
    EACH(r, RB) EACH(t, TOKENS) s[r][t] = (vec)(R(0.0));
#if STORAGE >= CLA_Q8_0
    __global const uchar *row[RB];
    EACH(r, RB) row[r] = (__global const uchar *)w + (w_at[r] >> 5) * STEP_BYTES;
    for (int i = 0; i < K >> 5; i++) {
        __global const real *terms[TOKENS];
        expect(next, i);
        EACH(t, TOKENS) terms[t] = x + x_at[t] + i * 32;
        EACH(r, RB) add_block(s[r], row[r] + (long)i * STEP_BYTES, terms);
    }
#else
    int k = 0;
    for (; k + LANES <= K; k += LANES) {
        vec u[RB];
        expect(next, k / LANES);
        EACH(r, RB) u[r] = load_lanes(w, w_at[r] + k, STORAGE);
        EACH(t, TOKENS) {
            const vec v = LOAD(0, x + x_at[t] + k);
            EACH(r, RB) s[r][t] = fma(u[r], v, s[r][t]);
        }
    }
    if (k < K)
        EACH(r, RB) EACH(t, TOKENS)
            s[r][t] = fma(some_terms(w, w_at[r] + k, K - k, STORAGE),
                          some_terms(x, x_at[t] + k, K - k, CLA_REAL_TYPE), s[r][t]);
#endif
}

/* Rows m0 .. of LANES columns from n on. */
INLINE void take_rows(__global const real *x, __global const void *w, const real *bias, __global void *y,
                      const cla_linear_args *a, int m0, int n) {
    const int rows = min(TOKENS, a->M - m0);
    vec sums[TOKENS][LANES];
    real sum[LANES];
    long x_at[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        x_at[t] = row_at(m0 + min(t, rows - 1), a, a->x_0, a->x_s0, a->x_s1, a->x_s2);
    for (int r = 0; r < LANES; r += RB) {
        vec s[RB][TOKENS];
        long w_at[RB];
        EACH(i, RB) w_at[i] = a->w_0 + min(n + r + i, a->N - 1) * a->w_n;
        multiply(s, x, x_at, w, w_at, a->w_n, a->K);
        EACH(i, RB) EACH(t, TOKENS) sums[t][r + i] = s[i][t];
    }
    for (int t = 0; t < rows; t++) {
        reduce_lanes(sums[t]);
        STORE(sums[t][0] + LOAD(0, bias), 0, sum);
        act_lanes(sum, 1, a->act);
        store_row(sum, 1, y, row_at(m0 + t, a, a->y_0, a->y_s0, a->y_s1, a->y_s2), n, a);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemv(__global const real *x, __global const void *w, __global const void *b, __global void *y,
          const cla_linear_args a) {
    const int group = (int)get_group_id(0), across = group / a.row_blocks;
    const int first = across * a.panels * LANES, end = min(a.N, first + a.panels * LANES);
    const int m0 = (group - across * a.row_blocks) * a.rows, m1 = min(a.M, m0 + a.rows);
    for (int n = first; n < end; n += LANES) {
        real bias[LANES];
        take_bias(bias, b, n, LANES, &a);
        for (int m = m0; m < m1; m += TOKENS)
            take_rows(x, w, bias, y, &a, m, n);
    }
}
