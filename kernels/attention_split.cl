/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention for few queries and many keys on CPU-class devices. One work-item, alone in its group, owns a range of
 * keys (a split) for up to MOST rows that share a key head: LANES ARE HEAD DIMS. Dot products of LANES keys are reduced
 * together by a tree of shuffles; softmax is online over tiles of TK keys; K and V are read once for all rows.
 * With one split it writes O; else it leaves (O, m, l) in scratch, which merge_splits joins in order.
 * Key: REAL; LANES; ACC 8 16: vectors of sums that stay in registers; STAGED 1; STORAGE: type of K
 * and V, -1: any; MASKS: bit 0 interval, bit 1 score masks; DROPOUT; MOST, CAP: rows, and numbers of Q and of O, that it holds.
 * Private memory: 2 CAP + MOST TK + 4 LANES^2 + ... numbers. No local memory, no barriers.
 * A row's bits depend on its own keys and the splits alone: tiles start at multiples of TK, and rows share loads only. */
#define TK 64
#define RB 4 /* rows together, or 2, or 1 */
#if TK % LANES || CAP % LANES
#error "attention_split: impossible key"
#endif
#define TOGETHER(count, most) (ACC / (count) < (most) ? ACC / (count) : (most)) /* vectors for each of `count` rows */
#define K_TYPE(w) (STORAGE < 0 ? (w)->k_type : STORAGE)
#define V_TYPE(w) (STORAGE < 0 ? (w)->v_type : STORAGE)
#define AHEAD 16 /* keys: how far K and V are prefetched */
#define SUB 16   /* keys whose values stay in cache while rows and columns take several passes over them */
/* The weight of an excluded key, told from other zeros only where its value must be selected away. */
#define EXCLUDED (-R(0.0))

typedef struct {
    __global const void *q, *k, *v; /* first query of the batch; first key and value of the key head, chunk's columns */
    long q_h, q_i, k_j, v_j, k_page, v_page;
    __global const int *table; /* of the batch's pages */
    int q_type, k_type, v_type, page_size;
    int b, rows, D, cols, stride; /* columns of V and O here; numbers between rows of sums */
    int h[MOST], i[MOST];         /* of each row; h counts from q's head */
    int lo[MOST], hi[MOST];       /* the keys that it sees */
    int first, end;               /* of all rows, within the split */
    real scale;
} work;

/* The last, partial vector of n elements from p: the last LANES of them, zeros in the lanes that another vector holds
 * already; of fewer than LANES, those and zeros. Reads nothing else. */
INLINE vec load_tail(__global const void *p, long at, int n, int type) {
    if (n >= LANES)
        return select((vec)(R(0.0)), load_lanes(p, at + n - LANES, type), STEPS >= (vec)((real)(LANES - n % LANES)));
    real x[LANES];
    for (int e = 0; e < LANES; e++)
        x[e] = e < n ? load_one(p, at + e, type) : R(0.0);
    return LOAD(0, x);
}

/* The rows at[0 .. rows] of p, `dims` elements from element `from` of each, ahead of their use. */
static inline void prefetch_rows(__global const void *p, const long *at, int rows, int from, int dims, int type) {
    const long bytes = (__global const char *)cla_at(p, dims, type) - (__global const char *)p;
#pragma nounroll
    for (int r = 0; r < rows; r++) {
        __global const char *row = (__global const char *)cla_at(p, at[r] + from, type);
#pragma nounroll
        for (long x = 0; x < bytes; x += 64)
            FETCH(row + x, 0, 3);
    }
}

/* q[r][dims, padded] = Q[row r][d0 ..]. */
INLINE void load_queries(real *q, int stride, const work *w, int d0, int dims) {
    for (int r = 0; r < w->rows; r++) {
        const long at = w->h[r] * w->q_h + w->i[r] * w->q_i + d0;
        int d = 0;
        for (; d + LANES <= dims; d += LANES)
            STORE(load_lanes(w->q, at + d, w->q_type), 0, q + r * stride + d);
        if (d < dims)
            STORE(load_tail(w->q, at, dims, w->q_type), 0, q + r * stride + d);
    }
}

/* Products of `count` rows with LANES keys, `keys` at a time (both constants), that lie at at[], over dims; added to P
 * where `more`. */
INLINE void score_keys(real *P, const real *q, int stride, const int count, const int keys, const work *w,
                       const long *at, int d0, int dims, int more, int ahead) {
    vec x[RB][LANES];
    for (int c = 0; c < LANES; c += keys) {
        vec s[8][RB];
        EACH(a, keys) EACH(r, count) s[a][r] = (vec)(R(0.0));
        if (ahead)
            prefetch_rows(w->k, at + c + AHEAD, keys, d0, dims, K_TYPE(w));
        int d = 0;
        for (; d + LANES <= dims; d += LANES)
            EACH(a, keys) {
                const vec y = load_lanes(w->k, at[c + a] + d0 + d, K_TYPE(w));
                EACH(r, count) s[a][r] = fma(y, LOAD(0, q + r * stride + d), s[a][r]);
            }
        if (d < dims)
            EACH(a, keys) {
                const vec y = load_tail(w->k, at[c + a] + d0, dims, K_TYPE(w));
                EACH(r, count) s[a][r] = fma(y, LOAD(0, q + r * stride + d), s[a][r]);
            }
        EACH(a, keys) EACH(r, count) x[r][c + a] = s[a][r];
    }
    EACH(r, count) {
        reduce_lanes(x[r]);
        STORE(more ? LOAD(0, P + r * TK) + x[r][0] : x[r][0], 0, P + r * TK);
    }
}
/* The same for the rows r .. r + count of a tile, and keys from its key j on. */
INLINE void score_rows(real *P, const real *q, int stride, const int count, int r, int j, const work *w, const long *at,
                       int d0, int dims) {
    score_keys(P + r * TK + j, q + r * stride, stride, count, TOGETHER(count, LANES < 8 ? LANES : 8), w, at + j, d0,
               dims, d0 > 0, r == 0);
}

/* P[r][j] = Q K^T for the keys of groups [g0, g1) of LANES. */
INLINE void score_tile(real *P, real *q, const work *w, const long *at, int g0, int g1) {
    for (int d0 = 0; d0 < w->D; d0 += CAP) { /* more than once only with a single row */
        const int dims = min(CAP, w->D - d0), stride = (dims + LANES - 1) / LANES * LANES;
        if (w->D > CAP)
            load_queries(q, stride, w, d0, dims);
        for (int j = g0 * LANES; j < g1 * LANES; j += LANES) {
            int r = 0;
            for (; r + 4 <= w->rows; r += 4)
                score_rows(P, q, stride, 4, r, j, w, at, d0, dims);
            if (r + 2 <= w->rows) {
                score_rows(P, q, stride, 2, r, j, w, at, d0, dims);
                r += 2;
            }
            if (r < w->rows)
                score_rows(P, q, stride, 1, r, j, w, at, d0, dims);
        }
    }
}

#if MASKS & 2
/* What score masks add to LANES scores from key j on; -inf for keys that no row here sees. */
INLINE vec added_keys(const cla_masks *m, const work *w, int h, int i, int j) {
    real x[LANES];
    if (masks_are_rows(m->a) && j + LANES <= m->a->M)
        return added_row(m, w->b, h, i, j);
    for (int c = 0; c < LANES; c++)
        x[c] = j + c >= w->first && j + c < w->end ? cla_added_to(m, w->b, h, i, j + c) : -INFINITY;
    return LOAD(0, x);
}
#endif

/* Finished scores of row r, and the largest of them: NaN is left to the weights. n: first key of the tile. */
INLINE real mask_row(real *P, const work *w, const cla_masks *m, int h0, int r, int n, int g0, int g1) {
    const int lo = w->lo[r] - n, hi = w->hi[r] - n;
    vec t = (vec)(-INFINITY);
    for (int g = g0; g < g1; g++) {
        vec s = LOAD(g, P) * w->scale;
#if MASKS & 2
        const real cap = OF_BITS(m->a->softcap_bits, m->a->softcap);
        const vec x = added_keys(m, w, h0 + w->h[r], w->i[r], n + g * LANES);
        if (cap > R(0.0))
            s = cap * tanh(s / cap);
        s = select(s + x, (vec)(-INFINITY), x == (vec)(-INFINITY));
#endif
        if (g * LANES < lo || (g + 1) * LANES > hi) {
            const vec j = STEPS + (real)(g * LANES);
            s = select((vec)(-INFINITY), s, (j >= (vec)((real)lo)) & (j < (vec)((real)hi)));
        }
        t = select(t, s, s > t);
        STORE(s, g, P);
    }
    real x[LANES], most = -INFINITY;
    STORE(t, 0, x);
    EACH(c, LANES) most = x[c] > most ? x[c] : most;
    return most;
}

/* Scores of a row to weights relative to its new maximum; shrinks what was summed up before. Whether some are excluded. */
INLINE int soften_row(real *P, real *o, const work *w, real *m, vec *l, real most, int g0, int g1) {
    if (most > *m) {
        const vec shrink = exp_lanes((vec)(*m - most));
        *m = most;
        *l *= shrink;
        for (int e = 0; e < w->stride; e += LANES)
            STORE(LOAD(0, o + e) * shrink, 0, o + e);
    }
    const real base = *m == -INFINITY ? R(0.0) : *m;
    vec sum = *l;
    ivec excluded = (ivec)(0);
    for (int g = g0; g < g1; g++) {
        const vec s = LOAD(g, P);
        const vec e = exp_lanes(s - base);
        const ivec out = s == (vec)(-INFINITY);
        excluded |= out;
        sum += e;
        STORE(select(e, (vec)(EXCLUDED), out), g, P);
    }
    *l = sum;
    return any(excluded);
}

#if DROPOUT
/* Drops weights of query i of head h in the tile of keys n ..., and multiplies others; an excluded one stays so. */
INLINE void drop_row(real *P, const cla_attention_args *a, int b, int h, int i, int n, int g0, int g1) {
    for (int g = g0 / 4 * 4; g < g1; g += 4) {
        vec z[4];
        kept_keys(z, a, n + g * LANES, i, h, b);
        EACH(c, 4)
            if (g + c >= g0 && g + c < g1)
                STORE(LOAD(g + c, P) * z[c], g + c, P);
    }
}
#endif

/* `vectors` vectors of sums of `count` rows (both constants), in registers over the keys j0 .. bn. `tail`: the last one. */
INLINE void value_block(real *o, const real *P, const work *w, const int count, const int vectors, const int tail, int e,
                        const long *at, int j0, int bn, int ahead) {
    vec s[RB][8];
    EACH(r, count) EACH(c, vectors) s[r][c] = LOAD(c, o + r * w->stride + e);
    for (int j = j0; j < bn; j++) {
        vec x[8];
        if (ahead)
            prefetch_rows(w->v, at + j + AHEAD, 1, 0, w->cols, V_TYPE(w));
        EACH(c, vectors) x[c] = tail ? load_tail(w->v, at[j], w->cols, V_TYPE(w))
                                     : load_lanes(w->v, at[j] + e + c * LANES, V_TYPE(w));
        EACH(r, count) {
            const vec p = (vec)(P[r * TK + j]);
            EACH(c, vectors) s[r][c] = fma(p, x[c], s[r][c]);
        }
    }
    EACH(r, count) EACH(c, vectors) STORE(s[r][c], c, o + r * w->stride + e);
}

/* All columns of `count` rows (a constant). */
INLINE void value_rows(real *o, const real *P, const work *w, const int count, const long *at, int j0, int bn, int ahead) {
    const int most = TOGETHER(count, 8), full = w->cols / LANES * LANES;
    int e = 0;
    for (; e + most * LANES <= full; e += most * LANES)
        value_block(o, P, w, count, most, 0, e, at, j0, bn, ahead && e == 0);
    for (; e < full; e += LANES)
        value_block(o, P, w, count, 1, 0, e, at, j0, bn, ahead && e == 0);
    if (e < w->cols)
        value_block(o, P, w, count, 1, 1, e, at, j0, bn, ahead && e == 0);
}

/* O += P V. */
INLINE void multiply_values(real *o, const real *P, const work *w, const long *at, int j0, int bn) {
    int r = 0;
    for (; r + 4 <= w->rows; r += 4)
        value_rows(o + r * w->stride, P + r * TK, w, 4, at, j0, bn, r == 0);
    if (r + 2 <= w->rows) {
        value_rows(o + r * w->stride, P + r * TK, w, 2, at, j0, bn, r == 0);
        r += 2;
    }
    if (r < w->rows)
        value_rows(o + r * w->stride, P + r * TK, w, 1, at, j0, bn, r == 0);
}

/* Whether a value is NaN or Inf: x * 0 is 0 but for those. */
INLINE int scan_values(const work *w, const long *at, int j0, int bn) {
    vec zero = (vec)(R(0.0));
    for (int j = j0; j < bn; j++) {
        int e = 0;
        for (; e + LANES <= w->cols; e += LANES)
            zero = fma(load_lanes(w->v, at[j] + e, V_TYPE(w)), (vec)(R(0.0)), zero);
        if (e < w->cols)
            zero = fma(load_tail(w->v, at[j], w->cols, V_TYPE(w)), (vec)(R(0.0)), zero);
    }
    return any(isnan(zero));
}

/* For tiles with excluded keys, and values that are not finite: those are selected away. */
INLINE void select_values(real *o, const real *P, const work *w, const long *at, int j0, int bn) {
    for (int r = 0; r < w->rows; r++)
        for (int j = j0; j < bn; j++) {
            const real p = P[r * TK + j];
            if (AS_WHOLE(p) == AS_WHOLE(EXCLUDED))
                continue;
            int e = 0;
            for (; e + LANES <= w->cols; e += LANES) {
                const vec x = load_lanes(w->v, at[j] + e, V_TYPE(w));
                STORE(fma((vec)(p), x, LOAD(0, o + r * w->stride + e)), 0, o + r * w->stride + e);
            }
            if (e < w->cols) {
                const vec x = load_tail(w->v, at[j], w->cols, V_TYPE(w));
                STORE(fma((vec)(p), x, LOAD(0, o + r * w->stride + e)), 0, o + r * w->stride + e);
            }
        }
}

/* Rows [first, end) of keys against all rows of queries. Returns in how many blocks. */
INLINE int attend(real *o, real *m, vec *l, const work *w, const cla_masks *masks, const cla_attention_args *a, int h0) {
    real q[CAP] __attribute__((aligned(64)));
    real P[MOST * TK] __attribute__((aligned(64)));
    long k_at[TK + AHEAD], v_at[TK + AHEAD];
    int blocks = 0;
    if (w->D <= CAP)
        load_queries(q, (w->D + LANES - 1) / LANES * LANES, w, 0, w->D);
    for (int n = w->first / TK * TK; n < w->end; n += TK, blocks++) {
        const int j0 = max(0, w->first - n), bn = min(TK, w->end - n);
        const int g0 = j0 / LANES, g1 = (bn + LANES - 1) / LANES;
        int excluded = 0;
        for (int j = g0 * LANES; j < g1 * LANES + AHEAD; j++) { /* others repeat a key that is seen */
            const int key = clamp(n + j, w->first, w->end - 1);
            k_at[j] = cla_row_at(w->table, w->page_size, key, w->k_j, w->k_page);
            v_at[j] = cla_row_at(w->table, w->page_size, key, w->v_j, w->v_page);
        }
        score_tile(P, q, w, k_at, g0, g1);
        for (int r = 0; r < w->rows; r++) {
            const real most = mask_row(P + r * TK, w, masks, h0, r, n, g0, g1);
            excluded |= soften_row(P + r * TK, o + r * w->stride, w, &m[r], &l[r], most, g0, g1);
#if DROPOUT
            drop_row(P + r * TK, a, w->b, h0 + w->h[r], w->i[r], n, g0, g1);
#endif
        }
        if (excluded && scan_values(w, v_at, j0, bn))
            select_values(o, P, w, v_at, j0, bn);
        else
            for (int j = j0; j < bn; j += SUB)
                multiply_values(o, P, w, v_at, j, min(bn, j + SUB));
    }
    return blocks;
}

/* The keys that each row sees, and their hull. */
INLINE void find_ranges(work *w, const cla_masks *m, int from, int to) {
    w->first = to;
    w->end = from;
    for (int r = 0; r < w->rows; r++) {
        int2 keys = (int2)(0, m->a->M);
#if MASKS & 1
        keys = cla_keys_of(m, w->b, w->i[r]);
#endif
        w->lo[r] = keys.x;
        w->hi[r] = keys.y;
        w->first = min(w->first, max(keys.x, from));
        w->end = max(w->end, min(keys.y, to));
    }
}

typedef struct {
    __global void *o;
    __global real *lse, *state; /* NULL: not asked for */
    int o_type, cols;
    real sink; /* -inf: none */
} outputs;

/* A finished row: sums o relative to m, and l. The last, partial vector of o is laid out as load_tail does. */
INLINE void store_row(const real *o, real m, real l, const outputs *out) {
    real top = m, sum = l, shrink = R(1.0);
    if (out->sink != -INFINITY) { /* a logit without a value */
        top = out->sink > m ? out->sink : m;
        shrink = m == -INFINITY ? R(0.0) : exp(m - top);
        sum = l * shrink + exp(out->sink - top);
    }
    const real x = l == R(0.0) ? R(0.0) : shrink / sum;
    int e = 0;
    for (; e + LANES <= out->cols; e += LANES) {
        if (out->o_type == CLA_REAL_TYPE)
            STORE(LOAD(0, o + e) * x, 0, (__global real *)out->o + e);
        else
            for (int c = e; c < e + LANES; c++)
                cla_store(out->o, c, out->o_type, o[c] * x);
    }
    const int shift = out->cols >= LANES ? LANES - out->cols % LANES : 0;
    for (; e < out->cols; e++)
        cla_store(out->o, e, out->o_type, o[e + shift] * x);
    if (out->lse)
        *out->lse = l == R(0.0) ? out->sink : top + log(sum); /* the sink as it is, infinite too */
    if (out->state)
        cla_store_state(out->state, top, sum, l == R(0.0));
}

/* Not inlined by force: Oclgrind does not know what LLVM makes of a forced struct. */
static inline outputs outputs_of(__global void *O, __global real *LSE, __global real *STATE,
                                 __global const real *sinks, const cla_attention_args *a, int b, int h, int i,
                                 int chunk) {
    const long column = (long)chunk * a->columns;
    outputs out = {.o_type = a->o_type, .cols = (int)min((long)a->columns, a->Dv - column)};
    out.sink = a->mask.has_sinks ? sinks[a->mask.sinks_0 + h] : -INFINITY;
    out.o = (__global void *)cla_at(O, a->o_0 + b * a->o_b + h * a->o_h + i * a->o_i + column, a->o_type);
    out.lse = a->has_lse && chunk == 0 ? LSE + a->lse_0 + b * a->lse_b + h * a->lse_h + i * a->lse_i : 0;
    out.state = a->has_state && chunk == 0 ? STATE + a->st_0 + b * a->st_b + h * a->st_h + i * a->st_i : 0;
    return out;
}

/* Where a split of row (b, h, i) leaves its sums, `cols` of each chunk; m and l come last. */
INLINE __global real *part_of(__global real *parts, const cla_attention_args *a, int b, int h, int i, int split) {
    return parts + a->part_0 + ((((long)b * a->H + h) * a->N + i) * a->splits + split) * a->part;
}

/* O[b,h,i,:] = sum_j P V over the keys that i sees; LSE[b,h,i] = m + ln l, -inf for a row that sees none; STATE[b,h,i] =
 * (m, 1 / l), zeros for such a row.
 *   Groups  tiles (of rows of a key head: head, then query) * splits * chunks * H / group * B of one work-item.
 *   Needs   N, M >= 1; last strides of Q K V O are 1; D <= CAP or rows = 1; columns <= CAP / rows, of several chunks a
 *           multiple of LANES.
 *   Source  Dao et al. 2023 (Flash-Decoding), Milakov & Gimelshein 2018 (online softmax). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_split(__global const void *Q, __global const void *K, __global const void *V, __global void *O,
                     __global real *LSE, __global real *STATE, __global const cla_span *spans, __global const uchar *keep,
                     __global const uchar *drop, __global const void *bias, __global const float *slopes,
                     __global const int *q_segments, __global const int *k_segments, __global const real *sinks,
                     __global const int *table, __global uint *counts, __global real *parts,
                     const cla_attention_args a) {
    /* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
    const int heads = a.H / a.group;
    const long group = CLA_GROUP, x = group / a.tiles, y = x / a.splits, z = y / a.chunks;
    const int tile = (int)(group - x * a.tiles), split = (int)(x - y * a.splits), chunk = (int)(y - z * a.chunks);
    const int b = (int)(z / heads), hk = (int)(z - (long)b * heads), h0 = hk * a.group;
    const long column = (long)chunk * a.columns, from = (long)split * a.split_keys;
    const cla_masks m = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    long q_row = 0, k_row = 0;
    int N = a.N;
    if (a.ragged) {
        q_row = spans[b].q_row;
        k_row = spans[b].k_row;
        N = spans[b].queries;
    }
    work w;
    w.rows = (int)min((long)a.rows, (long)a.group * N - (long)tile * a.rows);
    if (w.rows <= 0)
        return;
    w.q = cla_at(Q, a.q_0 + b * a.q_b + h0 * a.q_h + q_row * a.q_i, a.q_type);
    w.k = cla_at(K, a.k_0 + b * a.k_b + hk * a.k_h + k_row * a.k_j, a.k_type);
    w.v = cla_at(V, a.v_0 + b * a.v_b + hk * a.v_h + k_row * a.v_j + column, a.v_type);
    w.q_h = a.q_h, w.q_i = a.q_i, w.k_j = a.k_j, w.v_j = a.v_j, w.k_page = a.k_page, w.v_page = a.v_page;
    w.q_type = a.q_type, w.k_type = a.k_type, w.v_type = a.v_type, w.page_size = a.page_size;
    w.table = table + (long)b * a.pages;
    w.b = b, w.D = a.D, w.cols = (int)min((long)a.columns, a.Dv - column);
    w.stride = (w.cols + LANES - 1) / LANES * LANES;
    w.scale = SCALE_OF(a);
    real o[CAP] __attribute__((aligned(64))), top[MOST], sum[MOST];
    vec l[MOST];
    for (int r = 0; r < w.rows; r++) {
        const long row = (long)tile * a.rows + r;
        const int h = (int)(row / N);
        w.h[r] = h;
        w.i[r] = (int)(row - (long)h * N);
        top[r] = -INFINITY;
        l[r] = (vec)(R(0.0));
    }
    for (int e = 0; e < w.rows * w.stride; e += LANES)
        STORE((vec)(R(0.0)), 0, o + e);
    find_ranges(&w, &m, (int)min(from, (long)a.M), (int)min(from + a.split_keys, (long)a.M));
    const int blocks = attend(o, top, l, &w, &m, &a, h0);
    if (a.has_counts) {
        const long keys = min(a.ragged ? (long)spans[b].keys : (long)a.M, from + a.split_keys) - from;
        cla_count_blocks(counts, blocks, max(0, (int)((keys + TK - 1) / TK) - blocks));
    }
    for (int r = 0; r < w.rows; r++) {
        real lanes[LANES];
        STORE(l[r], 0, lanes);
        sum[r] = R(0.0);
        for (int c = 0; c < LANES; c++)
            sum[r] += lanes[c];
    }
    for (int r = 0; r < w.rows; r++) {
        const int h = h0 + w.h[r];
        if (a.splits == 1) {
            const outputs out = outputs_of(O, LSE, STATE, sinks, &a, b, h, (int)q_row + w.i[r], chunk);
            store_row(o + r * w.stride, top[r], sum[r], &out);
            continue;
        }
        __global real *part = part_of(parts, &a, b, h, w.i[r], split);
        for (int e = 0; e < w.stride && sum[r] != R(0.0); e += LANES)
            STORE(LOAD(0, o + r * w.stride + e), 0, part + column + e);
        if (chunk == 0) {
            part[a.part - 2] = top[r];
            part[a.part - 1] = sum[r];
        }
    }
}

/* Joins the splits of a row in their order: O = sum_s exp(m_s - top) O_s / sum_s exp(m_s - top) l_s. Splits that saw no
 * key (l = 0) left no sums, and are not read.
 *   Groups  chunks * N * H * B of one work-item. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void merge_splits(__global const real *parts, __global void *O, __global real *LSE, __global real *STATE,
                  __global const cla_span *spans, __global const real *sinks, const cla_attention_args a) {
    const long group = CLA_GROUP, row = group / a.chunks, head = row / a.N, b = head / a.H;
    const int chunk = (int)(group - row * a.chunks), i = (int)(row - head * a.N), h = (int)(head - b * a.H);
    if (a.ragged && i >= spans[b].queries)
        return;
    const int q_row = a.ragged ? (int)spans[b].q_row : 0;
    const outputs out = outputs_of(O, LSE, STATE, sinks, &a, (int)b, h, q_row + i, chunk);
    const int stride = (out.cols + LANES - 1) / LANES * LANES;
    __global const real *first = part_of((__global real *)parts, &a, (int)b, h, i, 0) + (long)chunk * a.columns;
    __global const real *ends = part_of((__global real *)parts, &a, (int)b, h, i, 1) - 2;
    real o[CAP] __attribute__((aligned(64))), top = -INFINITY, sum = R(0.0);
    for (int s = 0; s < a.splits; s++) {
        const real m = ends[(long)s * a.part];
        top = m > top ? m : top;
    }
    for (int e = 0; e < stride; e += LANES)
        STORE((vec)(R(0.0)), 0, o + e);
    for (int s = 0; s < a.splits; s++) {
        const real m = ends[(long)s * a.part], l = ends[(long)s * a.part + 1];
        if (l == R(0.0))
            continue;
        const real c = m == top ? R(1.0) : exp(m - top);
        sum = fma(c, l, sum);
        for (int e = 0; e < stride; e += LANES)
            STORE(fma(LOAD(0, first + (long)s * a.part + e), (vec)(c), LOAD(0, o + e)), 0, o + e);
    }
    store_row(o, top, sum, &out);
}
