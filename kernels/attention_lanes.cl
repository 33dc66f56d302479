/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention for CPU-class devices. One work-item, alone in its group, owns `rows` queries of one head (and `columns`
 * value columns); LANES ARE QUERIES: it transposes its queries once and computes S^T[key][query] = K[key][d] (a scalar)
 * x Q^T[d][W queries], so K is read as it lies, softmax has no horizontal reduction, and key tails are loop bounds.
 * Keys are walked BN at a time; the running maximum is raised only when a score passes it by RAISE.
 * Key: REAL; LANES JV (a panel is W = LANES * JV queries), R1 (keys a block of scores), RO OV (rows x vectors of a block of
 * O); BM BN; DC VC: most dims and value columns; DEEP 1: D may exceed DC; MASKS: bit 0 interval, bit 1 score masks;
 * STAGED 1: storage may be of any type, quantised or paged: keys and values pass through private copies.
 * Private memory: BM (DC + VC) + BN (W (1 + tensor) + LANES or DC + VC) + ... numbers. No local memory, no barriers.
 * Special: a score of -inf is excluded; its value is selected away, which costs only where V holds NaN or Inf. */
#define W (LANES * JV)
#define PANELS (BM / W)
#define RAISE R(5.5)
#if BM % W || W % RO
#error "attention_lanes: impossible key"
#endif

#if STAGED
#define KEYS __private
#else
#define KEYS __global
#endif

typedef struct {
    __global const void *q, *k, *v; /* the tile's first query; the head's first key and value, of the chunk's columns */
    long q_i, k_j, v_j, k_page, v_page;
    __global const int *table; /* of the batch's pages */
    int q_type, k_type, v_type, page_size;
    int b, h, i0, rows, D, cols; /* queries i0 .. i0 + rows; columns of V and O here */
    real scale;
} work;

/* qt[panel][d][W] = Q[i][d0 + d], d < dims; queries past the end repeat the last one and are never stored. */
INLINE void transpose_queries(real *qt, const work *w, int panels, int d0, int dims) {
    for (int i = 0; i < panels * W; i += LANES) {
        real *out = qt + i / W * W * dims + i % W;
        int d = 0;
        for (; d + LANES <= dims; d += LANES) {
            vec x[LANES];
            EACH(a, LANES) x[a] = load_lanes(w->q, (long)min(i + a, w->rows - 1) * w->q_i + d0 + d, w->q_type);
            transpose(x);
            EACH(a, LANES) STORE(x[a], 0, out + (d + a) * W);
        }
        for (; d < dims; d++)
            for (int a = 0; a < LANES; a++)
                out[d * W + a] = load_one(w->q, (long)min(i + a, w->rows - 1) * w->q_i + d0 + d, w->q_type);
    }
}

/* Ranges of keys: of each query (lo, hi), and of each panel: some query sees a key of [some_lo, some_hi), all see
 * [all_lo, all_hi). */
typedef struct {
    whole lo[BM], hi[BM];
    int some_lo[PANELS], some_hi[PANELS], all_lo[PANELS], all_hi[PANELS];
    int first, end; /* of the whole tile */
} ranges;

INLINE void find_ranges(ranges *r, const work *w, const cla_masks *m, int panels) {
    r->first = m->a->M;
    r->end = 0;
    for (int p = 0; p < panels; p++) {
        int4 hull = (int4)(m->a->M, 0, 0, m->a->M);
        for (int i = p * W; i < (p + 1) * W; i++) {
            const int2 keys = cla_keys_of(m, w->b, w->i0 + min(i, w->rows - 1));
            r->lo[i] = keys.x;
            r->hi[i] = keys.y;
            hull = (int4)(min(hull.x, keys.x), max(hull.y, keys.y), max(hull.z, keys.x), min(hull.w, keys.y));
        }
        r->some_lo[p] = hull.x, r->some_hi[p] = hull.y, r->all_lo[p] = hull.z, r->all_hi[p] = hull.w;
        r->first = min(r->first, hull.x);
        r->end = max(r->end, hull.y);
    }
}

/* added[j][W] = what the score masks add to the scores of a panel's queries and keys n + j, j0 <= j < bn. */
INLINE void fill_added(real *added, const cla_masks *m, const work *w, int panel, int n, int j0, int bn) {
    const cla_mask_args *a = m->a;
    const int contiguous = masks_are_rows(a);
    if (!a->has_slopes && !a->has_segments && a->bias_i == 0 && a->keep_i == 0 && a->drop_i == 0) {
        for (int j = j0; j < bn; j++) { /* the same for all queries */
            const vec x = (vec)(cla_added_to(m, w->b, w->h, 0, n + j));
            EACH(b, JV) STORE(x, b, added + j * W);
        }
        return;
    }
    for (int i = 0; i < W; i += LANES) {
        int j = j0;
        for (; contiguous && j + LANES <= bn; j += LANES) {
            vec x[LANES];
            EACH(c, LANES) x[c] = added_row(m, w->b, w->h, w->i0 + min(panel * W + i + c, w->rows - 1), n + j);
            transpose(x);
            EACH(c, LANES) STORE(x[c], 0, added + (j + c) * W + i);
        }
        for (; j < bn; j++)
            for (int c = 0; c < LANES; c++)
                added[j * W + i + c] = cla_added_to(m, w->b, w->h, w->i0 + min(panel * W + i + c, w->rows - 1), n + j);
    }
}

/* R1 keys x W queries of scores, summed over d in order. Keys from `bn` on repeat the last, and land in rows of P that
 * nobody reads. `more`: P holds a partial sum; `last`: scale, mask, raise t. */
INLINE void score_block(real *P, vec t[JV], const real *qp, const work *w, KEYS const real *k, long k_j, int n, int j,
                        int bn, int dims, int more, int last, const ranges *r, int panel, const real *added) {
    vec s[R1][JV];
    KEYS const real *key[R1];
    EACH(a, R1) {
        key[a] = k + (long)min(j + a, bn - 1) * k_j;
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

/* Raises the maxima m to t where t is far above, and shrinks l and the rows of O to match. Each lane decides for itself,
 * so that a row's bits do not depend on its neighbours: their factor is exactly 1. */
INLINE void raise_maxima(real *m, real *l, real *o, int stride, const vec t[JV]) {
    EACH(b, JV) {
        const vec old = LOAD(b, m);
        if (any(t[b] > old + RAISE)) {
            const vec high = select(old, t[b], t[b] > old + RAISE);
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
INLINE void value_block(real *o, int stride, const real *P, KEYS const real *v, long v_j, int j0, int bn) {
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
INLINE void value_column(real *o, int stride, const real *P, KEYS const real *v, long v_j, int j0, int bn) {
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
INLINE void multiply_values(real *o, int stride, const real *P, int cols, KEYS const real *v, long v_j,
                            const real *tail, int rows, int j0, int bn) {
    const int full = cols / LANES * LANES;
    for (int i = 0; i < rows; i += RO) {
        int e = 0;
        for (; e + LANES * OV <= full; e += LANES * OV)
            value_block(o + i * stride + e, stride, P + i, v + e, v_j, j0, bn);
        for (; e < full; e += LANES)
            value_column(o + i * stride + e, stride, P + i, v + e, v_j, j0, bn);
        if (e < cols)
            value_tail(o + i * stride + e, stride, P + i, tail, j0, bn);
    }
}
/* For blocks of keys whose values hold NaN or Inf: a weight of -1 selects the value away. */
INLINE void select_values(real *o, int stride, const real *P, int cols, KEYS const real *v, long v_j, int rows, int j0,
                          int bn) {
    for (int i = 0; i < rows; i++)
        for (int j = j0; j < bn; j++) {
            const real p = P[j * W + i];
            if (p != R(-1.0))
                for (int e = 0; e < cols; e++)
                    o[i * stride + e] = fma(p, v[j * v_j + e], o[i * stride + e]);
        }
}

#if STAGED
/* out[j][dims] = dims elements of rows n + j, j0 <= j < bn, padded with zeros to `stride`. Returns whether NaN or Inf is
 * among them. */
INLINE int stage(real *out, int stride, const work *w, __global const void *p, int type, long row, long page, int n,
                 int j0, int bn, long d0, int dims) {
    vec zero = (vec)(R(0.0));
    for (int j = j0; j < bn; j++) {
        const long at = cla_row_at(w->table, w->page_size, n + j, row, page) + d0;
        int d = 0;
        for (; d + LANES <= dims; d += LANES) {
            const vec x = load_lanes(p, at + d, type);
            zero = fma(x, (vec)(R(0.0)), zero);
            STORE(x, 0, out + j * stride + d);
        }
        for (; d < dims; d++) {
            out[j * stride + d] = load_one(p, at + d, type);
            zero.s0 = fma(out[j * stride + d], R(0.0), zero.s0);
        }
        for (; d < stride; d++)
            out[j * stride + d] = R(0.0);
    }
    return any(isnan(zero));
}
#else
/* Pads the last columns of V to a vector, and looks for NaN and Inf (x * 0 is 0 but for those). */
INLINE int scan_values(real *tail, int cols, __global const real *v, long v_j, int j0, int bn) {
    const int full = cols / LANES * LANES;
    vec zero = (vec)(R(0.0));
    for (int j = j0; j < bn; j++) {
        for (int e = 0; e < full; e += LANES)
            zero = fma(LOAD(0, v + j * v_j + e), (vec)(R(0.0)), zero);
        if (full < cols) {
            for (int e = 0; e < LANES; e++)
                tail[j * LANES + e] = full + e < cols ? v[j * v_j + full + e] : R(0.0);
            zero = fma(LOAD(j, tail), (vec)(R(0.0)), zero);
        }
    }
    return any(isnan(zero));
}
#endif

#if MASKS & 2
/* With a soft cap: what score_block does last, in a pass of its own. */
INLINE void cap_scores(real *P, vec t[JV], const work *w, const cla_mask_args *a, const ranges *r, int panel, int n,
                       int j0, int bn, const real *added) {
    const real cap = OF_BITS(a->softcap_bits, a->softcap);
    for (int j = j0; j < bn; j++)
        for (int b = 0; b < JV; b++) {
            const vec x = LOAD(b, added + j * W);
            vec s = cap * tanh(LOAD(b, P + j * W) * w->scale / cap) + x;
            s = select(s, (vec)(-INFINITY), x == (vec)(-INFINITY));
#if MASKS & 1
            s = select((vec)(-INFINITY), s, ((ivec)(n + j) >= LOAD(b, r->lo + panel * W)) &
                                                ((ivec)(n + j) < LOAD(b, r->hi + panel * W)));
#endif
            t[b] = select(t[b], s, s > t[b]);
            STORE(s, b, P + j * W);
        }
}
#endif

/* Queries of one panel against keys n .. n + bn. `ks`: their staged copy, or room for slices of it. */
INLINE void score_panel(real *P, vec t[JV], real *qt, const work *w, real *ks, const ranges *r, int panel, int n, int j0,
                        int bn, const cla_masks *m, const real *added) {
    const int last = !(m->a->softcap > 0.0f);
#if DEEP
    for (int d0 = 0; d0 < w->D; d0 += DC) { /* the queries again, DC dims at a time: BM is one panel then */
        const int dims = min(DC, w->D - d0);
        transpose_queries(qt, w, 1, d0, dims);
#if STAGED
        stage(ks, dims, w, w->k, w->k_type, w->k_j, w->k_page, n, j0, bn, d0, dims);
        KEYS const real *k = ks;
        const long k_j = dims;
#else
        KEYS const real *k = (__global const real *)w->k + n * w->k_j + d0;
        const long k_j = w->k_j;
#endif
        for (int j = j0; j < bn; j += R1)
            score_block(P, t, qt, w, k, k_j, n, j, bn, dims, d0 > 0, last && d0 + DC >= w->D, r, panel, added);
    }
#else
#if STAGED
    KEYS const real *k = ks;
    const long k_j = w->D;
#else
    KEYS const real *k = (__global const real *)w->k + n * w->k_j;
    const long k_j = w->k_j;
#endif
    for (int j = j0; j < bn; j += R1)
        score_block(P, t, qt + panel * W * w->D, w, k, k_j, n, j, bn, w->D, 0, last, r, panel, added);
#endif
#if MASKS & 2
    if (!last)
        cap_scores(P, t, w, m->a, r, panel, n, j0, bn, added);
#endif
}

typedef struct {
    __global void *o;
    __global real *lse; /* NULL: not asked for */
    long o_i, lse_i;
    int o_type, has_sink;
    real sink;
} outputs;

INLINE void store_tile(const real *o, int stride, const real *m, const real *l, const work *w, const outputs *out) {
    for (int i = 0; i < w->rows; i++) {
        real top = m[i], sum = l[i], shrink = R(1.0);
        if (out->has_sink) { /* a logit without a value */
            top = out->sink > m[i] ? out->sink : m[i];
            shrink = m[i] == -INFINITY ? R(0.0) : exp(m[i] - top);
            sum = l[i] * shrink + exp(out->sink - top);
        }
        const real x = l[i] == R(0.0) ? R(0.0) : shrink / sum;
        int e = 0;
#if !STAGED
        for (; e + LANES <= w->cols; e += LANES)
            STORE(LOAD(0, o + i * stride + e) * x, 0, (__global real *)out->o + i * out->o_i + e);
#endif
        for (; e < w->cols; e++)
            cla_store(out->o, i * out->o_i + e, out->o_type, o[i * stride + e] * x);
        if (out->lse)
            out->lse[i * out->lse_i] = top + log(sum);
    }
}

/* Whether the score masks let any query of the panel see any of the keys. */
INLINE int any_seen(const real *added, int j0, int bn) {
    ivec seen = (ivec)(0);
    for (int x = j0 * JV; x < bn * JV; x++)
        seen |= LOAD(x, added) != (vec)(-INFINITY);
    return any(seen);
}

/* Returns how many blocks of keys it computed, over the panels. */
INLINE int attend(const work *w, const cla_masks *m, const outputs *out) {
    real qt[BM * DC] __attribute__((aligned(64)));
    real o[BM * VC] __attribute__((aligned(64)));
    real P[(BN + R1) * W] __attribute__((aligned(64)));
    real top[BM] __attribute__((aligned(64))), l[BM] __attribute__((aligned(64)));
#if MASKS & 2
    real added[BN * W] __attribute__((aligned(64)));
#else
    const real *added = 0;
#endif
#if STAGED
    real ks[BN * DC] __attribute__((aligned(64))), vs[BN * VC] __attribute__((aligned(64)));
    const real *tail = 0;
#else
    real *ks = 0;
    real tail[BN * LANES] __attribute__((aligned(64)));
#endif
    ranges r;
    int blocks = 0;
    const int panels = (w->rows + W - 1) / W, stride = (w->cols + LANES - 1) / LANES * LANES;
#if !DEEP
    transpose_queries(qt, w, panels, 0, w->D);
#endif
    for (int i = 0; i < panels * W; i++) {
        top[i] = -INFINITY;
        l[i] = R(0.0);
    }
    for (int i = 0; i < panels * W * stride; i += LANES)
        STORE((vec)(R(0.0)), 0, o + i);
    r.first = 0;
    r.end = m->a->M;
#if MASKS & 1
    find_ranges(&r, w, m, panels);
#endif
    /* Blocks start at multiples of BN, whatever the tile's other rows see: when a row's maximum rises depends on it. */
    for (int n = r.first / BN * BN; n < r.end; n += BN) {
        const int from = max(0, r.first - n), keys = min(BN, r.end - n);
#if STAGED
#if !DEEP
        stage(ks, w->D, w, w->k, w->k_type, w->k_j, w->k_page, n, from, keys, 0, w->D);
#endif
        const int special = stage(vs, stride, w, w->v, w->v_type, w->v_j, w->v_page, n, from, keys, 0, w->cols);
        KEYS const real *v = vs;
        const long v_j = stride;
        const int cols = stride;
#else
        KEYS const real *v = (__global const real *)w->v + n * w->v_j;
        const long v_j = w->v_j;
        const int cols = w->cols, special = scan_values(tail, cols, v, v_j, from, keys);
#endif
        for (int p = 0; p < panels; p++) {
            int j0 = from, bn = keys;
#if MASKS & 1
            j0 = max(0, r.some_lo[p] - n);
            bn = min(keys, r.some_hi[p] - n);
#endif
            if (j0 >= bn)
                continue;
            vec t[JV];
            EACH(b, JV) t[b] = (vec)(-INFINITY);
#if MASKS & 2
            fill_added(added, m, w, p, n, j0, bn);
            if (!any_seen(added, j0, bn))
                continue;
#endif
            blocks++;
            score_panel(P, t, qt, w, ks, &r, p, n, j0, bn, m, added);
            real *op = o + p * W * stride;
            raise_maxima(top + p * W, l + p * W, op, stride, t);
            soften(P, top + p * W, l + p * W, j0, bn, special);
            const int rows = min(W, w->rows - p * W);
            if (special)
                select_values(op, stride, P, cols, v, v_j, rows, j0, bn);
            else
                multiply_values(op, stride, P, cols, v, v_j, tail, rows, j0, bn);
        }
    }
    store_tile(o, stride, top, l, w, out);
    return blocks;
}

/* O[b,h,i,:] = sum_j P V over the keys that i sees; LSE[b,h,i] = m + ln l, -inf for a row that sees none.
 *   Groups  tiles * chunks * H * B of one work-item.   Needs  N, M >= 1; last strides of Q K V O are 1.
 *   Source  Milakov & Gimelshein 2018 (online softmax), Dao 2023 (query tiles outside, key tiles inside). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void attention_lanes(__global const void *Q, __global const void *K, __global const void *V, __global void *O,
                     __global real *LSE, __global const cla_span *spans, __global const uchar *keep,
                     __global const uchar *drop, __global const void *bias, __global const float *slopes,
                     __global const int *q_segments, __global const int *k_segments, __global const real *sinks,
                     __global const int *table, __global uint *counts, const cla_attention_args a) {
    /* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
    const long group = get_group_id(0), row = group / a.tiles, head = row / a.chunks;
    const int tile = (int)(group - row * a.tiles), chunk = (int)(row - head * a.chunks);
    const int b = (int)(head / a.H), h = (int)(head - (long)b * a.H);
    const long hk = h / a.group, i0 = (long)(a.long_first ? a.tiles - 1 - tile : tile) * a.rows;
    const long column = (long)chunk * a.columns;
    const cla_masks m = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    long q_row = i0, k_row = 0, N = a.N;
    if (a.ragged) {
        q_row += spans[b].q_row;
        k_row = spans[b].k_row;
        N = spans[b].queries;
    }
    if (i0 >= N)
        return;
    work w;
    w.q = cla_at(Q, a.q_0 + b * a.q_b + h * a.q_h + q_row * a.q_i, a.q_type);
    w.k = cla_at(K, a.k_0 + b * a.k_b + hk * a.k_h + k_row * a.k_j, a.k_type);
    w.v = cla_at(V, a.v_0 + b * a.v_b + hk * a.v_h + k_row * a.v_j + column, a.v_type);
    w.q_i = a.q_i, w.k_j = a.k_j, w.v_j = a.v_j, w.k_page = a.k_page, w.v_page = a.v_page;
    w.q_type = a.q_type, w.k_type = a.k_type, w.v_type = a.v_type, w.page_size = a.page_size;
    w.table = table + (long)b * a.pages;
    w.b = b, w.h = h, w.i0 = (int)i0, w.rows = (int)min((long)a.rows, N - i0), w.D = a.D;
    w.cols = (int)min((long)a.columns, a.Dv - column);
    w.scale = SCALE_OF(a);
    outputs out = {.o_i = a.o_i, .lse_i = a.lse_i, .o_type = a.o_type};
    out.sink = a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : R(0.0);
    out.has_sink = a.mask.has_sinks && out.sink != -INFINITY;
    out.o = (__global void *)cla_at(O, a.o_0 + b * a.o_b + h * a.o_h + q_row * a.o_i + column, a.o_type);
    out.lse = a.has_lse && chunk == 0 ? LSE + a.lse_0 + b * a.lse_b + h * a.lse_h + q_row * a.lse_i : 0;
    const int blocks = attend(&w, &m, &out);
    if (a.has_counts) {
        const int keys = a.ragged ? spans[b].keys : a.M, all = (w.rows + W - 1) / W * ((keys + BN - 1) / BN);
        cla_count_blocks(counts, blocks, all - blocks);
    }
}
