/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention for CPU-class devices. One work-item, alone in its group, owns `rows` queries of one head (and `columns`
 * value columns); LANES ARE QUERIES: it transposes its queries once and computes S^T[key][query] = K[key][d] (a scalar)
 * x Q^T[d][W queries], so K is read as it lies, softmax has no horizontal reduction, and key tails are loop bounds.
 * Keys are walked BN at a time; the running maximum is raised only when a score passes it by RAISE.
 * Key: REAL; LANES JV (a panel is W = LANES * JV queries), R1 (keys a block of scores), RO OV (rows x vectors of a block of
 * O); BM BN; DC VC: most dims and value columns; DEEP 1: D may exceed DC; MASKS: bit 0 interval, bit 1 tensor masks.
 * Private memory: BM (DC + VC) + BN (W (1 + tensor) + LANES) + ... numbers. No local memory, no barriers.
 * Special: a score of -inf is excluded; its value is selected away, which costs only where V holds NaN or Inf. */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
typedef PASTE(real, LANES) vec;
#if REAL == 64
typedef PASTE(long, LANES) ivec;
#define IVEC_OF_BYTES PASTE(convert_long, LANES)
#else
typedef PASTE(int, LANES) ivec;
#define IVEC_OF_BYTES PASTE(convert_int, LANES)
#endif
#define LOAD PASTE(vload, LANES)
#define STORE PASTE(vstore, LANES)
#define W (LANES * JV)
#define PANELS (BM / W)
#define RAISE R(5.5)
#define EACH(x, count) _Pragma("unroll") for (int x = 0; x < (count); x++)
#define INLINE static inline __attribute__((always_inline))
#if BM % W || W % RO
#error "attention_lanes: impossible key"
#endif

typedef struct {
    __global const real *q, *k, *v;          /* this head's first element */
    __global const uchar *keep, *drop;
    __global const real *bias;
    long q_i, k_j, v_j;
    int b, h, i0, rows, D, cols;             /* queries i0 .. i0 + rows; columns of V and O here */
    real scale;
} work;

/* exp(x) for x <= RAISE: exactly 0 from -88 down, NaN stays. 1e-7 relative. */
INLINE vec exp_lanes(vec x) {
#if REAL == 64
    return exp(x);
#else
    x = select(x, (vec)(-88.0f), (vec)(-88.0f) > x);
    const vec r = fma(x, (vec)(1.44269504f), (vec)(12582912.0f + 127.0f)); /* the low bits hold 127 + n */
    const vec n = r - (12582912.0f + 127.0f);
    const vec f = fma(x, (vec)(1.92596299e-8f), fma(x, (vec)(1.44269504f), -n));
    vec p = (vec)(1.5345811e-4f);
    p = fma(p, f, (vec)(1.33999321e-3f));
    p = fma(p, f, (vec)(9.61848907e-3f));
    p = fma(p, f, (vec)(5.55032864e-2f));
    p = fma(p, f, (vec)(2.40226462e-1f));
    p = fma(p, f, (vec)(6.93147182e-1f));
    p = fma(p, f, (vec)(1.0f));
    return p * PASTE(as_float, LANES)(PASTE(as_int, LANES)(r) << 23);
#endif
}

/* x[LANES][LANES] transposed in registers, by log2 LANES perfect shuffles. */
#if LANES == 16
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3, a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#define HIGH(a, b) (vec)(a.s8, b.s8, a.s9, b.s9, a.sa, b.sa, a.sb, b.sb, a.sc, b.sc, a.sd, b.sd, a.se, b.se, a.sf, b.sf)
#elif LANES == 8
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1, a.s2, b.s2, a.s3, b.s3)
#define HIGH(a, b) (vec)(a.s4, b.s4, a.s5, b.s5, a.s6, b.s6, a.s7, b.s7)
#elif LANES == 4
#define LOW(a, b) (vec)(a.s0, b.s0, a.s1, b.s1)
#define HIGH(a, b) (vec)(a.s2, b.s2, a.s3, b.s3)
#endif
INLINE void shuffle_once(vec *y, const vec *x) {
    EACH(i, LANES / 2) {
        y[2 * i] = LOW(x[i], x[i + LANES / 2]);
        y[2 * i + 1] = HIGH(x[i], x[i + LANES / 2]);
    }
}
INLINE void transpose(vec *x) {
    vec y[LANES];
    shuffle_once(y, x);
    shuffle_once(x, y);
#if LANES > 4
    shuffle_once(y, x);
#if LANES == 8
    EACH(i, LANES) x[i] = y[i];
#else
    shuffle_once(x, y);
#endif
#endif
}

/* qt[panel][d][W] = Q[i][d0 + d], d < dims; queries past the end repeat the last one and are never stored. */
INLINE void transpose_queries(real *qt, const work *w, int panels, int d0, int dims) {
    for (int i = 0; i < panels * W; i += LANES) {
        real *out = qt + i / W * W * dims + i % W;
        int d = 0;
        for (; d + LANES <= dims; d += LANES) {
            vec x[LANES];
            EACH(a, LANES) x[a] = LOAD(0, w->q + (long)min(i + a, w->rows - 1) * w->q_i + d0 + d);
            transpose(x);
            EACH(a, LANES) STORE(x[a], 0, out + (d + a) * W);
        }
        for (; d < dims; d++)
            for (int a = 0; a < LANES; a++)
                out[d * W + a] = w->q[(long)min(i + a, w->rows - 1) * w->q_i + d0 + d];
    }
}

/* Ranges of keys: of each query (lo, hi), and of each panel: some query sees a key of [some_lo, some_hi), all see
 * [all_lo, all_hi). */
typedef struct {
    whole lo[BM], hi[BM];
    int some_lo[PANELS], some_hi[PANELS], all_lo[PANELS], all_hi[PANELS];
    int first, end; /* of the whole tile */
} ranges;

INLINE void find_ranges(ranges *r, const work *w, const cla_mask_args *m, __global const int2 *spans, int panels) {
    r->first = m->M;
    r->end = 0;
    for (int p = 0; p < panels; p++) {
        int4 hull = (int4)(m->M, 0, 0, m->M);
        for (int i = p * W; i < (p + 1) * W; i++) {
            const int2 keys = cla_keys_of(m, spans, w->b, w->i0 + min(i, w->rows - 1));
            r->lo[i] = keys.x;
            r->hi[i] = keys.y;
            hull = (int4)(min(hull.x, keys.x), max(hull.y, keys.y), max(hull.z, keys.x), min(hull.w, keys.y));
        }
        r->some_lo[p] = hull.x, r->some_hi[p] = hull.y, r->all_lo[p] = hull.z, r->all_hi[p] = hull.w;
        r->first = min(r->first, hull.x);
        r->end = max(r->end, hull.y);
    }
}

/* LANES values of one row of the tensor masks, keys next to each other in memory. */
INLINE vec bias_row(const cla_mask_args *m, const work *w, long i, long j) {
    vec x = (vec)(R(0.0));
    if (m->has_bias)
        x = LOAD(0, w->bias + i * m->bias_i + j);
    if (m->has_keep)
        x = select((vec)(-INFINITY), x, IVEC_OF_BYTES(LOAD(0, w->keep + i * m->keep_i + j)) != 0);
    if (m->has_drop)
        x = select(x, (vec)(-INFINITY), IVEC_OF_BYTES(LOAD(0, w->drop + i * m->drop_i + j)) != 0);
    return x;
}

/* added[j][W] = what the tensor masks add to the scores of a panel's queries and keys n + j, j0 <= j < bn. */
INLINE void fill_added(real *added, const cla_mask_args *m, const work *w, int panel, int n, int j0, int bn) {
    const int contiguous = (!m->has_bias || m->bias_j == 1) && (!m->has_keep || m->keep_j == 1) &&
                           (!m->has_drop || m->drop_j == 1);
    if (m->bias_i == 0 && m->keep_i == 0 && m->drop_i == 0) { /* the same for all queries */
        for (int j = j0; j < bn; j++) {
            const vec x = (vec)(cla_bias_of(m, w->keep, w->drop, w->bias, 0, 0, 0, n + j));
            EACH(b, JV) STORE(x, b, added + j * W);
        }
        return;
    }
    for (int i = 0; i < W; i += LANES) {
        int j = j0;
        for (; contiguous && j + LANES <= bn; j += LANES) {
            vec x[LANES];
            EACH(a, LANES) x[a] = bias_row(m, w, w->i0 + min(panel * W + i + a, w->rows - 1), n + j);
            transpose(x);
            EACH(a, LANES) STORE(x[a], 0, added + (j + a) * W + i);
        }
        for (; j < bn; j++)
            for (int a = 0; a < LANES; a++)
                added[j * W + i + a] = cla_bias_of(m, w->keep, w->drop, w->bias, 0, 0,
                                                   w->i0 + min(panel * W + i + a, w->rows - 1), n + j);
    }
}

/* R1 keys x W queries of scores, summed over d in order. Keys from `bn` on repeat the last, and land in rows of P that
 * nobody reads. `more`: P holds a partial sum; `last`: scale, mask, raise t. */
INLINE void score_block(real *P, vec t[JV], const real *qp, const work *w, __global const real *k, int n, int j, int bn,
                        int dims, int more, int last, const ranges *r, int panel, const real *added) {
    vec s[R1][JV];
    __global const real *key[R1];
    EACH(a, R1) {
        key[a] = k + (long)min(j + a, bn - 1) * w->k_j;
        EACH(b, JV) s[a][b] = more ? LOAD(b, P + (j + a) * W) : (vec)(R(0.0));
    }
    for (int d = 0; d < dims; d++) {
        vec q[JV];
        EACH(b, JV) q[b] = LOAD(b, qp + d * W);
        EACH(a, R1) {
            const vec x = (vec)(key[a][d]);
            EACH(b, JV) s[a][b] = fma(x, q[b], s[a][b]);
        }
    }
    if (last) {
#if MASKS & 2
        EACH(a, R1) EACH(b, JV) {
            const vec x = LOAD(b, added + min(j + a, bn - 1) * W);
            s[a][b] = select(fma(s[a][b], (vec)(w->scale), x), (vec)(-INFINITY), x == (vec)(-INFINITY));
        }
#else
        EACH(a, R1) EACH(b, JV) s[a][b] *= w->scale;
#endif
#if MASKS & 1
        if (n + j < r->all_lo[panel] || n + min(j + R1, bn) > r->all_hi[panel])
            EACH(b, JV) {
                const ivec lo = LOAD(b, r->lo + panel * W), hi = LOAD(b, r->hi + panel * W);
                EACH(a, R1) {
                    const ivec x = (ivec)(n + min(j + a, bn - 1));
                    s[a][b] = select((vec)(-INFINITY), s[a][b], (x >= lo) & (x < hi));
                }
            }
#endif
        EACH(a, R1) EACH(b, JV) t[b] = select(t[b], s[a][b], s[a][b] > t[b]); /* NaN is left to the weights */
    }
    EACH(a, R1) EACH(b, JV) STORE(s[a][b], b, P + (j + a) * W);
}

/* Raises the maxima m to t where t is far above, and shrinks l and the rows of O to match. */
INLINE void raise_maxima(real *m, real *l, real *o, int stride, const vec t[JV]) {
    EACH(b, JV) {
        const vec old = LOAD(b, m);
        if (any(t[b] > old + RAISE)) {
            const vec high = select(old, t[b], t[b] > old);
            const vec shrink = select(exp_lanes(old - high), (vec)(R(1.0)), high == (vec)(-INFINITY));
            STORE(high, b, m);
            STORE(LOAD(b, l) * shrink, b, l);
            if (any(old > (vec)(-INFINITY))) {
                real c[LANES];
                STORE(shrink, 0, c);
                for (int a = 0; a < LANES; a++)
                    for (int e = 0; e < stride; e += LANES)
                        STORE(LOAD(0, o + (LANES * b + a) * stride + e) * c[a], 0, o + (LANES * b + a) * stride + e);
            }
        }
    }
}

/* Scores become weights relative to m, and l their sum. `mark`: excluded ones become -1. */
INLINE void soften(real *P, const real *m, real *l, int j0, int bn, int mark) {
    vec base[JV], sum[JV];
    EACH(b, JV) {
        base[b] = LOAD(b, m);
        base[b] = select(base[b], (vec)(R(0.0)), base[b] == (vec)(-INFINITY));
        sum[b] = LOAD(b, l);
    }
    for (int j = j0; j < bn; j++)
        EACH(b, JV) {
            const vec s = LOAD(b, P + j * W);
            const vec e = exp_lanes(s - base[b]);
            sum[b] += e;
            STORE(mark ? select(e, (vec)(R(-1.0)), s == (vec)(-INFINITY)) : e, b, P + j * W);
        }
    EACH(b, JV) STORE(sum[b], b, l);
}

/* RO rows x OV vectors of O += P V, in registers over the keys j0 .. bn. */
INLINE void value_block(real *o, int stride, const real *P, __global const real *v, long v_j, int j0, int bn) {
    vec s[RO][OV];
    EACH(a, RO) EACH(b, OV) s[a][b] = LOAD(b, o + a * stride);
    for (int j = j0; j < bn; j++) {
        vec x[OV];
        EACH(b, OV) x[b] = LOAD(b, v + j * v_j);
        EACH(a, RO) {
            const vec p = (vec)(P[j * W + a]);
            EACH(b, OV) s[a][b] = fma(p, x[b], s[a][b]);
        }
    }
    EACH(a, RO) EACH(b, OV) STORE(s[a][b], b, o + a * stride);
}
/* The same, one vector wide. */
INLINE void value_column(real *o, int stride, const real *P, __global const real *v, long v_j, int j0, int bn) {
    vec s[RO];
    EACH(a, RO) s[a] = LOAD(0, o + a * stride);
    for (int j = j0; j < bn; j++) {
        const vec x = LOAD(0, v + j * v_j);
        EACH(a, RO) s[a] = fma((vec)(P[j * W + a]), x, s[a]);
    }
    EACH(a, RO) STORE(s[a], 0, o + a * stride);
}
/* The last, partial vector, from its padded copy. */
INLINE void value_tail(real *o, int stride, const real *P, const real *tail, int j0, int bn) {
    vec s[RO];
    EACH(a, RO) s[a] = LOAD(0, o + a * stride);
    for (int j = j0; j < bn; j++) {
        const vec x = LOAD(j, tail);
        EACH(a, RO) s[a] = fma((vec)(P[j * W + a]), x, s[a]);
    }
    EACH(a, RO) STORE(s[a], 0, o + a * stride);
}
INLINE void multiply_values(real *o, int stride, const real *P, const work *w, __global const real *v,
                            const real *tail, int rows, int j0, int bn) {
    const int full = w->cols / LANES * LANES;
    for (int i = 0; i < rows; i += RO) {
        int e = 0;
        for (; e + LANES * OV <= full; e += LANES * OV)
            value_block(o + i * stride + e, stride, P + i, v + e, w->v_j, j0, bn);
        for (; e < full; e += LANES)
            value_column(o + i * stride + e, stride, P + i, v + e, w->v_j, j0, bn);
        if (e < w->cols)
            value_tail(o + i * stride + e, stride, P + i, tail, j0, bn);
    }
}
/* For blocks of keys whose values hold NaN or Inf: a weight of -1 selects the value away. */
INLINE void select_values(real *o, int stride, const real *P, const work *w, __global const real *v, int rows, int j0,
                          int bn) {
    for (int i = 0; i < rows; i++)
        for (int j = j0; j < bn; j++) {
            const real p = P[j * W + i];
            if (p != R(-1.0))
                for (int e = 0; e < w->cols; e++)
                    o[i * stride + e] = fma(p, v[j * w->v_j + e], o[i * stride + e]);
        }
}

/* Pads the last columns of V to a vector, and looks for NaN and Inf (x * 0 is 0 but for those). */
INLINE int scan_values(real *tail, const work *w, __global const real *v, int bn) {
    const int full = w->cols / LANES * LANES;
    vec zero = (vec)(R(0.0));
    for (int j = 0; j < bn; j++) {
        for (int e = 0; e < full; e += LANES)
            zero = fma(LOAD(0, v + j * w->v_j + e), (vec)(R(0.0)), zero);
        if (full < w->cols) {
            for (int e = 0; e < LANES; e++)
                tail[j * LANES + e] = full + e < w->cols ? v[j * w->v_j + full + e] : R(0.0);
            zero = fma(LOAD(j, tail), (vec)(R(0.0)), zero);
        }
    }
    return any(isnan(zero));
}

/* Queries of one panel against keys n .. n + bn. */
INLINE void score_panel(real *P, vec t[JV], real *qt, const work *w, const ranges *r, int panel, int n, int j0, int bn,
                        const real *added) {
    __global const real *k = w->k + n * w->k_j;
#if DEEP
    for (int d0 = 0; d0 < w->D; d0 += DC) { /* the queries again, DC dims at a time: BM is one panel then */
        const int dims = min(DC, w->D - d0);
        transpose_queries(qt, w, 1, d0, dims);
        for (int j = j0; j < bn; j += R1)
            score_block(P, t, qt, w, k + d0, n, j, bn, dims, d0 > 0, d0 + DC >= w->D, r, panel, added);
    }
#else
    for (int j = j0; j < bn; j += R1)
        score_block(P, t, qt + panel * W * w->D, w, k, n, j, bn, w->D, 0, 1, r, panel, added);
#endif
}

INLINE void store_tile(const real *o, int stride, const real *m, const real *l, const work *w, __global real *O, long o_i,
                       __global real *LSE, long lse_i) {
    for (int i = 0; i < w->rows; i++) {
        const real x = l[i] == R(0.0) ? R(0.0) : R(1.0) / l[i];
        int e = 0;
        for (; e + LANES <= w->cols; e += LANES)
            STORE(LOAD(0, o + i * stride + e) * x, 0, O + i * o_i + e);
        for (; e < w->cols; e++)
            O[i * o_i + e] = o[i * stride + e] * x;
        if (LSE)
            LSE[i * lse_i] = m[i] + log(l[i]);
    }
}

INLINE void attend(const work *w, const cla_mask_args *mask, __global const int2 *spans, __global real *O, long o_i,
                   __global real *LSE, long lse_i) {
    real qt[BM * DC] __attribute__((aligned(64)));
    real o[BM * VC] __attribute__((aligned(64)));
    real P[(BN + R1) * W] __attribute__((aligned(64)));
    real m[BM] __attribute__((aligned(64))), l[BM] __attribute__((aligned(64)));
    real tail[BN * LANES] __attribute__((aligned(64)));
#if MASKS & 2
    real added[BN * W] __attribute__((aligned(64)));
#else
    const real *added = 0;
#endif
    ranges r;
    const int panels = (w->rows + W - 1) / W, stride = (w->cols + LANES - 1) / LANES * LANES;
#if !DEEP
    transpose_queries(qt, w, panels, 0, w->D);
#endif
    for (int i = 0; i < panels * W; i++) {
        m[i] = -INFINITY;
        l[i] = R(0.0);
    }
    for (int i = 0; i < panels * W * stride; i += LANES)
        STORE((vec)(R(0.0)), 0, o + i);
    r.first = 0;
    r.end = mask->M;
#if MASKS & 1
    find_ranges(&r, w, mask, spans, panels);
#endif
    for (int n = r.first; n < r.end; n += BN) {
        __global const real *v = w->v + n * w->v_j;
        const int keys = min(BN, r.end - n), special = scan_values(tail, w, v, keys);
        for (int p = 0; p < panels; p++) {
            int j0 = 0, bn = keys;
#if MASKS & 1
            j0 = max(0, r.some_lo[p] - n);
            bn = min(keys, r.some_hi[p] - n);
#endif
            if (j0 >= bn)
                continue;
            vec t[JV];
            EACH(b, JV) t[b] = (vec)(-INFINITY);
#if MASKS & 2
            fill_added(added, mask, w, p, n, j0, bn);
#endif
            score_panel(P, t, qt, w, &r, p, n, j0, bn, added);
            real *op = o + p * W * stride;
            raise_maxima(m + p * W, l + p * W, op, stride, t);
            soften(P, m + p * W, l + p * W, j0, bn, special);
            const int rows = min(W, w->rows - p * W);
            if (special)
                select_values(op, stride, P, w, v, rows, j0, bn);
            else
                multiply_values(op, stride, P, w, v, tail, rows, j0, bn);
        }
    }
    store_tile(o, stride, m, l, w, O, o_i, LSE, lse_i);
}

/* O[b,h,i,:] = sum_j P V over the keys that i sees; LSE[b,h,i] = m + ln l, -inf for a row that sees none.
 *   Groups  tiles * chunks * H * B of one work-item.   Needs  N, M >= 1; last strides of Q K V O are 1.
 *   Source  Milakov & Gimelshein 2018 (online softmax), Dao 2023 (query tiles outside, key tiles inside). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_lanes(__global const real *Q, __global const real *K, __global const real *V, __global real *O,
                     __global real *LSE, __global const int2 *spans, __global const uchar *keep,
                     __global const uchar *drop, __global const real *bias, const cla_attention_args a) {
    /* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
    const long group = get_group_id(0), row = group / a.tiles, head = row / a.chunks;
    const int tile = (int)(group - row * a.tiles), chunk = (int)(row - head * a.chunks);
    const int b = (int)(head / a.H), h = (int)(head - (long)b * a.H);
    const long hk = h / a.group, i0 = (long)(a.long_first ? a.tiles - 1 - tile : tile) * a.rows;
    const long column = (long)chunk * a.columns;
    cla_mask_args mask = a.mask;
    work w;
    w.q = Q + a.q_0 + b * a.q_b + h * a.q_h + i0 * a.q_i;
    w.k = K + a.k_0 + b * a.k_b + hk * a.k_h;
    w.v = V + a.v_0 + b * a.v_b + hk * a.v_h + column;
    w.keep = keep + mask.keep_0 + b * mask.keep_b + h * mask.keep_h;
    w.drop = drop + mask.drop_0 + b * mask.drop_b + h * mask.drop_h;
    w.bias = bias + mask.bias_0 + b * mask.bias_b + h * mask.bias_h;
    mask.keep_0 = mask.drop_0 = mask.bias_0 = 0;
    w.q_i = a.q_i, w.k_j = a.k_j, w.v_j = a.v_j;
    w.b = b, w.h = h, w.i0 = (int)i0, w.rows = (int)min((long)a.rows, a.N - i0), w.D = a.D;
    w.cols = (int)min((long)a.columns, a.Dv - column);
    w.scale = SCALE_OF(a);
    attend(&w, &mask, spans, O + a.o_0 + b * a.o_b + h * a.o_h + i0 * a.o_i + column, a.o_i,
           a.has_lse && chunk == 0 ? LSE + a.lse_0 + b * a.lse_b + h * a.lse_h + i0 * a.lse_i : (__global real *)0,
           a.lse_i);
}
