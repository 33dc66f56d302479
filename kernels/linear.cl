/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x W^T + b) for CPU-class devices. A work-item, alone in its group, owns a.rows rows and a.panels panels of NR =
 * NV LANES columns. It lays a.terms terms of a panel of W out as [k][NR] in private memory, whatever the type and
 * strides of W, and takes MR rows of x against it at a time: MR x NV vectors of sums stay in registers. Sums of more
 * terms wait behind the panel until the next ones are laid out.
 * x is of type real, with any strides.
 * Key: REAL; LANES; STAGED 1: w, b and y may be of any type, 0: they are real; MR; NV; ROWS, the most rows, a multiple of
 * MR; ROOM, for a.terms and a row of sums each: for MR of them where a.terms is all of K, else for a.rows.
 * Private memory: (ROOM + 1) NR numbers and 2 ROWS longs. No local memory, no barriers.
 * An element is one sum over k in order, so that its bits do not depend on what it is computed with. */
#define NR (NV * LANES)
#if ROWS % MR
#error "linear: impossible key"
#endif

/* A row of a tile of y is written when its sums are there; until then its lines are on their way. */
INLINE void expect_row(__global void *y, long at, int type) {
#if STAGED
    __global const uchar *p = (__global const uchar *)cla_at(y, at, type);
#else
    __global const uchar *p = (__global const uchar *)((__global real *)y + at);
#endif
    EACH(i, (NR * (int)sizeof(real) + 63) / 64) FETCH(p + 64 * i, 1, 3);
}

/* Terms k .. k + terms - 1 of LANES columns from n on, one by one; zeros for columns that are not there. */
INLINE void take_each(real *to, __global const void *w, const cla_linear_args *a, int n, int k, int terms) {
    for (int c = 0; c < terms; c++)
        for (int i = 0; i < LANES; i++)
            to[c * NR + i] = n + i < a->N ? load_one(w, a->w_0 + (n + i) * a->w_n + (k + c) * a->w_k, a->w_type)
                                          : R(0.0);
}

/* Where W has its terms side by side: transposed in registers. Returns how many terms it took. Columns after the last
 * repeat it, and nobody uses them. */
INLINE int take_rows(real *to, __global const void *w, const cla_linear_args *a, int n, int k0, int terms) {
    long at[LANES];
    int k = 0;
    EACH(i, LANES) at[i] = a->w_0 + min(n + i, a->N - 1) * a->w_n + k0;
#if STAGED
    if (a->w_type >= CLA_Q8_0) {
        const int bytes = BLOCK_BYTES(a->w_type);
        for (; k < terms; k += 32) {
            real scale[LANES], least[LANES];
            EACH(i, LANES) {
                __global const uchar *block = (__global const uchar *)w + ((at[i] + k) >> 5) * bytes;
                scale[i] = half_at(block);
                least[i] = a->w_type == CLA_Q4_1 ? half_at(block + 2) : R(0.0);
            }
            for (int c = 0; c < 32 / LANES; c++) {
                vec x[LANES];
                EACH(i, LANES) {
                    __global const uchar *block = (__global const uchar *)w + ((at[i] + k) >> 5) * bytes;
                    x[i] = fma((vec)(scale[i]), quants_of(block, c, a->w_type), (vec)(least[i]));
                }
                transpose(x);
                EACH(i, LANES) STORE(x[i], 0, to + (k + c * LANES + i) * NR);
            }
        }
        return k;
    }
#endif
    for (; k + LANES <= terms; k += LANES) {
        vec x[LANES];
        EACH(i, LANES) x[i] = load_lanes(w, at[i] + k, a->w_type);
        transpose(x);
        EACH(i, LANES) STORE(x[i], 0, to + (k + i) * NR);
    }
    return k;
}

/* panel[k][NR] = terms k0 .. k0 + terms - 1 of the columns from n0 on. */
INLINE void take_panel(real *panel, __global const void *w, const cla_linear_args *a, int n0, int k0, int terms) {
    for (int j = 0; j < NV; j++) {
        const int n = n0 + j * LANES;
        real *to = panel + j * LANES;
        int k = 0;
        if (a->w_k == 1 && n < a->N)
            k = take_rows(to, w, a, n, k0, terms);
        else if (a->w_n == 1 && n + LANES <= a->N)
            for (; k < terms; k++)
                STORE(load_lanes(w, a->w_0 + n + (k0 + k) * a->w_k, a->w_type), 0, to + k * NR);
        if (k < terms)
            take_each(to + k * NR, w, a, n, k0 + k, terms - k);
    }
}

/* sums[MR][NR] = or, where `more`, += the MR rows of x that start at at[] times the panel; += bias, where there is one. */
INLINE void multiply(real *sums, __global const real *x, const long *at, long step, const real *panel, int terms,
                     int more, const real *bias) {
    vec s[MR][NV];
    EACH(r, MR) EACH(j, NV) s[r][j] = more ? LOAD(j, sums + r * NR) : (vec)(R(0.0));
    for (int k = 0; k < terms; k++, x += step, panel += NR) {
        vec w[NV];
        EACH(j, NV) {
            w[j] = LOAD(j, panel);
#if LANES == 16 /* a panel is read faster than the second cache gives it */
            FETCH(panel + 12 * NR + j * LANES, 0, 3);
#endif
        }
        EACH(r, MR) {
            const vec v = (vec)(x[at[r]]);
            EACH(j, NV) s[r][j] = fma(v, w[j], s[r][j]);
        }
    }
    if (bias)
        EACH(r, MR) EACH(j, NV) s[r][j] += LOAD(j, bias);
    EACH(r, MR) EACH(j, NV) STORE(s[r][j], j, sums + r * NR);
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void linear(__global const real *x, __global const void *w, __global const void *b, __global void *y,
            const cla_linear_args a) {
    real panel[ROOM * NR] __attribute__((aligned(64))), bias[NR] __attribute__((aligned(64)));
    real *sums = panel + a.terms * NR;
    long x_at[ROWS], y_at[ROWS];
    const int group = (int)CLA_GROUP, across = group / a.row_blocks;
    const int m0 = (group - across * a.row_blocks) * a.rows, rows = min(a.rows, a.M - m0);
    const int first = across * a.panels * NR, end = min(a.N, first + a.panels * NR), whole = a.K <= a.terms;
    for (int r = 0; r < (rows + MR - 1) / MR * MR; r++) { /* those after the last repeat it */
        const int row = m0 + min(r, rows - 1);
        x_at[r] = row_at(row, &a, a.x_0, a.x_s0, a.x_s1, a.x_s2);
        y_at[r] = row_at(row, &a, a.y_0, a.y_s0, a.y_s1, a.y_s2);
    }
    for (int n = first; n < end; n += NR) {
        take_bias(bias, b, 0, n, NR, &a);
        for (int k = 0; k < a.K || k == 0; k += a.terms) {
            const int terms = min(a.terms, a.K - k), last = a.K - k <= a.terms;
            take_panel(panel, w, &a, n, k, terms);
            for (int r = 0; r < rows; r += MR) {
                real *s = sums + (whole ? 0 : r * NR);
                if (last && a.y_n == 1)
                    for (int i = 0; i < MR; i++)
                        expect_row(y, y_at[r + i] + n, a.y_type);
                multiply(s, x + k * a.x_k, x_at + r, a.x_k, panel, terms, k > 0, last ? bias : 0);
                if (!last)
                    continue;
                act_lanes(s, MR * NV, a.act);
                for (int i = 0; i < min(MR, rows - r); i++)
                    store_row(s + i * NR, NV, y, y_at[r + i], n, &a);
            }
        }
    }
}
