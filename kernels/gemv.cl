/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x W^T + b) for few rows of x, on CPU-class devices: W is read once, as it is stored. LANES ARE TERMS: a
 * work-item, alone in its group, owns a.panels times LANES columns; RB of them share the reads of x, and LANES sums are
 * added up together by a tree. W has its terms side by side, and x, of type real, too.
 * Key: REAL; LANES; STAGED 1; STORAGE: type of W; TOKENS 1 2 4 8: rows of x together.
 * Private memory: TOKENS LANES vectors and a few. No local memory, no barriers.
 * The sum of an element depends on its own row and column alone, not on TOKENS. */
#define RB (TOKENS == 1 ? 4 : TOKENS == 2 ? 4 : TOKENS == 4 ? 2 : 1)

/* The last, partial vector of terms, from k on: zeros for what is not there. */
INLINE vec some_terms(__global const void *p, long at, int count, int type) {
    real x[LANES];
    for (int i = 0; i < LANES; i++)
        x[i] = i < count ? load_one(p, at + i, type) : R(0.0);
    return LOAD(0, x);
}

/* Bytes of a step of every loop over terms: a block, or a vector. */
#if STORAGE >= CLA_Q8_0
#define STEP_BYTES BLOCK_BYTES(STORAGE)
#elif STORAGE == CLA_F64
#define STEP_BYTES (8 * LANES)
#elif STORAGE == CLA_F32
#define STEP_BYTES (4 * LANES)
#else
#define STEP_BYTES (2 * LANES)
#endif

/* What follows RB columns is most likely the next RB: their lines, one after another, while these are read. */
INLINE void expect(__global const uchar *next, int step) {
    EACH(i, (RB * STEP_BYTES + 63) / 64) FETCH(next + (long)step * (RB * STEP_BYTES) + 64 * i, 0, 3);
}

/* s[RB][TOKENS] = products of RB columns of W, which start at w_at[], with the rows of x at x_at[]. */
INLINE void multiply(vec s[RB][TOKENS], __global const real *x, const long *x_at, __global const void *w,
                     const long *w_at, int K) {
    int k = 0;
    __global const uchar *next = (__global const uchar *)cla_at(w, 2 * w_at[RB - 1] - w_at[0], STORAGE);
    EACH(r, RB) EACH(t, TOKENS) s[r][t] = (vec)(R(0.0));
#if STORAGE >= CLA_Q8_0
    __global const uchar *row[RB];
    EACH(r, RB) row[r] = (__global const uchar *)w + (w_at[r] >> 5) * BLOCK_BYTES(STORAGE);
    for (long at = 0; k < K; k += 32, at += STEP_BYTES) {
        expect(next, k >> 5);
        EACH(r, RB) {
            const vec scale = (vec)(half_at(row[r] + at));
            vec q[32 / LANES];
            EACH(c, 32 / LANES) q[c] = quants_of(row[r] + at, c, STORAGE);
#if STORAGE == CLA_Q4_1
            const vec least = (vec)(half_at(row[r] + at + 2));
            EACH(c, 32 / LANES) q[c] = fma(scale, q[c], least);
            EACH(t, TOKENS) EACH(c, 32 / LANES) s[r][t] = fma(q[c], LOAD(c, x + x_at[t] + k), s[r][t]);
#else
            EACH(t, TOKENS) {
                vec sum = (vec)(R(0.0));
                EACH(c, 32 / LANES) sum = fma(q[c], LOAD(c, x + x_at[t] + k), sum);
                s[r][t] = fma(scale, sum, s[r][t]);
            }
#endif
        }
    }
#else
    for (; k + LANES <= K; k += LANES) {
        vec v[TOKENS];
        expect(next, k / LANES);
        EACH(t, TOKENS) v[t] = LOAD(0, x + x_at[t] + k);
        EACH(r, RB) {
            const vec u = load_lanes(w, w_at[r] + k, STORAGE);
            EACH(t, TOKENS) s[r][t] = fma(u, v[t], s[r][t]);
        }
    }
    if (k < K)
        EACH(r, RB) EACH(t, TOKENS)
            s[r][t] = fma(some_terms(w, w_at[r] + k, K - k, STORAGE),
                          some_terms(x, x_at[t] + k, K - k, CLA_REAL_TYPE), s[r][t]);
#endif
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void gemv(__global const real *x, __global const void *w, __global const void *b, __global void *y,
          const cla_linear_args a) {
    const int group = (int)get_group_id(0), across = group / a.row_blocks;
    const int m0 = (group - across * a.row_blocks) * TOKENS, rows = min(TOKENS, a.M - m0);
    const int first = across * a.panels * LANES, end = min(a.N, first + a.panels * LANES);
    long x_at[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        x_at[t] = row_at(m0 + min(t, rows - 1), &a, a.x_0, a.x_s0, a.x_s1, a.x_s2);
    for (int n = first; n < end; n += LANES) {
        vec sums[TOKENS][LANES];
        real bias[LANES], sum[LANES];
        for (int r = 0; r < LANES; r += RB) {
            vec s[RB][TOKENS];
            long w_at[RB];
            EACH(i, RB) w_at[i] = a.w_0 + min(n + r + i, a.N - 1) * a.w_n;
            multiply(s, x, x_at, w, w_at, a.K);
            EACH(i, RB) EACH(t, TOKENS) sums[t][r + i] = s[i][t];
        }
        take_bias(bias, b, n, LANES, &a);
        for (int t = 0; t < rows; t++) {
            reduce_lanes(sums[t]);
            STORE(sums[t][0] + LOAD(0, bias), 0, sum);
            act_lanes(sum, 1, a.act);
            store_row(sum, 1, y, row_at(m0 + t, &a, a.y_0, a.y_s0, a.y_s1, a.y_s2), n, &a);
        }
    }
}
