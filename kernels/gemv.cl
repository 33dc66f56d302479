/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x W^T + b), or that gate times x W'^T + b' whose rows follow those of W, for few rows of x on CPU-class devices: W is read as it is stored, and once from memory. LANES ARE
 * TERMS: a work-item, alone in its group, owns a.panels times LANES columns and takes the rows of x against LANES of them
 * in blocks of TOKENS, RB columns at a time; then LANES sums are added up together by a tree. W has its terms side by
 * side, and x, of type real, too.
 * Key: REAL; LANES; STAGED 1; STORAGE: type of W; TOKENS 1 2 4 8: rows of x together.
 * Private memory: TOKENS LANES vectors, a KiB and a few. No local memory, no barriers.
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

#define FAR (STORAGE >= CLA_Q8_0 ? 8192 : 2048) /* bytes that are fetched ahead, at least */

/* What follows RB columns is most likely the next RB: their lines, one after another, while these are read. */
INLINE void expect(__global const uchar *next, int step) {
    EACH(i, (RB * STEP_BYTES + 63) / 64) FETCH(next + (long)step * (RB * STEP_BYTES) + 64 * i, 0, 3);
}

#if STORAGE >= CLA_Q8_0
#define HALVES (STORAGE == CLA_Q4_1 ? 2 : 1) /* of a block: its scale, its minimum */
#define BLOCKS 32                            /* whose halves are converted together */

/* The halves of `count` blocks of each of RB rows: [block][row][half]. Converting one would be a call, so that they are
 * gathered first, which also brings the blocks nearer. */
INLINE void take_halves(float *to, __global const uchar *const row[RB], int count) {
    ushort bits[BLOCKS * RB * HALVES + 16] __attribute__((aligned(64)));
    const int all = count * RB * HALVES;
    for (int i = 0; i < count; i++)
        EACH(r, RB) {
#if HALVES == 2
            vstore2(vload2(0, (__global const ushort *)(row[r] + (long)i * STEP_BYTES)), i * RB + r, bits);
#else
            bits[i * RB + r] = *(__global const ushort *)(row[r] + (long)i * STEP_BYTES);
#endif
        }
    vstore16((ushort16)(0), 0, bits + all);
    for (int i = 0; i < all; i += 16)
        vstore16(vload_half16(0, (const half *)(bits + i)), 0, to + i);
}

/* A block of 4-bit numbers holds sixteen values, which a vector of sixteen can look up in a register. clang has that;
 * OpenCL's shuffle is a call. */
#if LANES == 16 && REAL == 32 && STORAGE != CLA_Q8_0 && defined(POCL_DEVICE_ADDRESS_BITS)
#if __has_builtin(__builtin_shufflevector)
#define LOOK_UP(values, indices) __builtin_shufflevector(values, indices)
#endif
#endif

/* w[PARTS] = the 32 terms of a block of 4-bit numbers. */
INLINE void take_nibbles(vec w[PARTS], __global const uchar *block, const float *halves) {
    const vec scale = (vec)((real)halves[0]);
#ifdef LOOK_UP
    const uint16 x = convert_uint16(LOAD(0, block + STEP_BYTES - 16));
    const vec values = STORAGE == CLA_Q4_1 ? fma(scale, STEPS, (vec)(halves[HALVES - 1])) : scale * (STEPS - 8.0f);
    w[0] = LOOK_UP(values, x);
    w[1] = LOOK_UP(values, x >> 4);
#else
    EACH(c, PARTS) w[c] = quants_of(block, c, STORAGE);
    EACH(c, PARTS) w[c] = STORAGE == CLA_Q4_1 ? fma(scale, w[c], (vec)((real)halves[HALVES - 1])) : scale * w[c];
#endif
}

/* s[TOKENS] += products of a block with 32 terms of the rows of x at x[]. What is summed with what is the same whatever
 * TOKENS. */
INLINE void add_block(vec s[TOKENS], __global const uchar *block, const float *halves,
                      __global const real *const x[TOKENS]) {
    vec w[PARTS];
#if STORAGE == CLA_Q8_0
    EACH(c, PARTS) w[c] = quants_of(block, c, STORAGE);
    EACH(t, TOKENS) {
        vec sum = w[0] * LOAD(0, x[t]);
        EACH(c, PARTS - 1) sum = fma(w[c + 1], LOAD(c + 1, x[t]), sum);
        s[t] = fma((vec)((real)halves[0]), sum, s[t]);
    }
#else
    take_nibbles(w, block, halves);
    EACH(t, TOKENS) EACH(c, PARTS) s[t] = fma(w[c], LOAD(c, x[t]), s[t]);
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
    float halves[BLOCKS * RB * HALVES + 16] __attribute__((aligned(64)));
    const int blocks = K >> 5;
    for (int first = 0; first < blocks; first += BLOCKS) {
        __global const uchar *row[RB];
        const int count = min(BLOCKS, blocks - first);
        EACH(r, RB) row[r] = (__global const uchar *)w + ((w_at[r] >> 5) + first) * STEP_BYTES;
        take_halves(halves, row, count);
        for (int i = 0; i < count; i++) {
            __global const real *terms[TOKENS];
            expect(next, first + i);
            EACH(t, TOKENS) terms[t] = x + x_at[t] + (first + i) * 32;
            EACH(r, RB) add_block(s[r], row[r] + (long)i * STEP_BYTES, halves + (i * RB + r) * HALVES, terms);
        }
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

/* sums[t] = row t of the products with LANES rows of W from row n on, none behind the last one. */
INLINE void take_columns(vec sums[TOKENS], __global const real *x, const long *x_at, __global const void *w,
                         const cla_linear_args *a, int n, int last) {
    vec each[TOKENS][LANES];
    for (int r = 0; r < LANES; r += RB) {
        vec s[RB][TOKENS];
        long w_at[RB];
        EACH(i, RB) w_at[i] = a->w_0 + min(n + r + i, last) * a->w_n;
        multiply(s, x, x_at, w, w_at, a->w_n, a->K);
        EACH(i, RB) EACH(t, TOKENS) each[t][r + i] = s[i][t];
    }
    for (int t = 0; t < TOKENS; t++) {
        reduce_lanes(each[t]);
        sums[t] = each[t][0];
    }
}

/* Rows m0 .. of LANES columns from n on; bias: theirs, then those of what they gate. */
INLINE void take_rows(__global const real *x, __global const void *w, const real *bias, __global void *y,
                      const cla_linear_args *a, int m0, int n) {
    const int rows = min(TOKENS, a->M - m0);
    vec sums[2][TOKENS];
    real sum[LANES];
    long x_at[TOKENS];
    for (int t = 0; t < TOKENS; t++)
        x_at[t] = row_at(m0 + min(t, rows - 1), a, a->x_0, a->x_s0, a->x_s1, a->x_s2);
    for (int part = 0; part <= a->gated; part++)
        take_columns(sums[part], x, x_at, w, a, part * a->N + n, (part + 1) * a->N - 1);
    for (int t = 0; t < rows; t++) {
        STORE(sums[0][t] + LOAD(0, bias), 0, sum);
        act_lanes(sum, 1, a->act);
        if (a->gated)
            STORE(LOAD(0, sum) * (sums[1][t] + LOAD(1, bias)), 0, sum);
        store_row(sum, 1, y, row_at(m0 + t, a, a->y_0, a->y_s0, a->y_s1, a->y_s2), n, a);
    }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void gemv(__global const real *x, __global const void *w, __global const void *b, __global void *y,
          const cla_linear_args a) {
    const int group = (int)CLA_GROUP, across = group / a.row_blocks;
    const int first = across * a.panels * LANES, end = min(a.N, first + a.panels * LANES);
    const int m0 = (group - across * a.row_blocks) * a.rows, m1 = min(a.M, m0 + a.rows);
    for (int n = first; n < end; n += LANES) {
        real bias[2 * LANES];
        for (int part = 0; part <= a.gated; part++)
            take_bias(bias + part * LANES, b, part * a.N, n, LANES, &a);
        for (int m = m0; m < m1; m += TOKENS)
            take_rows(x, w, bias, y, &a, m, n);
    }
}
