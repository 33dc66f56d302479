/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention forward for GPU-class devices: O = softmax(scale Q K^T + bias) V tile by tile through local memory,
 * no N x M buffer. Must not know: vendors, the host's buffers, how the key was chosen. A work-group owns BM = TR NR
 * queries of one head and at most 4 TC NV columns of O, and walks the keys BN = TC NC at a time; a work-item owns NR
 * queries x NC keys of the scores and NR queries x 4 NV columns of O in registers. Key: REAL; TR, TC, NR, NC, NV; DC
 * dims a slice of Q and K, JC keys a slice of V; SLICED 0 or 1 (see multiply_scores); STAGED 1: storage and layout may
 * be any, quantised or paged, 0: all is of type real, and D, Dv, strides and offsets of q, k, v, o are multiples of 4;
 * ALIGNED4, where STAGED is 0: 2: base pointers are aligned to 4 elements, too, 1: not; MASKS 1: intervals, 2: score
 * masks. */
#define INTERVAL (MASKS & 1)
#define SCORE (MASKS & 2)
#define WG (TR * TC)
#define BM (TR * NR)
#define BN (TC * NC)
#define VSTRIDE (TC * NV) /* strides of local tiles count real4s; the odd ones avoid bank conflicts */
#define DSTRIDE (DC / 4 + 1)
#define PSTRIDE (BN / 4 + 1)
#define SCORE_TILES ((BN + BM) * DSTRIDE)
#define WEIGHT_TILES (BM * PSTRIDE + BM * TC / 4)
#define TILES (SCORE_TILES > WEIGHT_TILES ? SCORE_TILES : WEIGHT_TILES)
#define KEY_LOADS (BN / (WG / (DC / 4))) /* real4s that a work-item loads of a slice */
#define QUERY_LOADS (BM / (WG / (DC / 4)))
#define VALUE_LOADS (JC * VSTRIDE / WG)
#if NC % 4 || TC % 4 || JC % 4 || 4 * TC % JC || BN % JC || JC * VSTRIDE % WG || DC % 8 || WG % (DC / 4) || \
    BN % (WG / (DC / 4)) || BM % (WG / (DC / 4)) || TR > JC
#error "attention_tiles: impossible key"
#endif
/* The weight of an excluded key. It is told from other zeros only where its value must be selected away. */
#define EXCLUDED (-R(0.0))

/* exp(x) for x <= 0, 0 from -150 down, NaN stays. In f32 exp2 of the rounded product alone is off by 1e-6 at -12. */
static inline real4 weights_of(real4 x) {
#if REAL == 64
    return exp(x);
#else
    x = select(x, (real4)(-150.0f), x < (real4)(-150.0f));
    const real4 y = x * LOG2E, rest = fma(x, (real4)(1.92596299e-8f), fma(x, (real4)(LOG2E), -y));
    return exp2(y) * fma(rest, (real4)(0.693147181f), (real4)(1.0f));
#endif
}

/* Dims d .. d + DC of BN keys from n on and BM queries from i0 on. Rows past the end repeat the last (they are masked,
 * or never stored). */
static inline void fill_scores(__local real4 *keys, __local real4 *queries, const matrix *K, const matrix *Q, int n,
                               int end, int i0, int N, int d, uint lid) {
    const int row = lid / (DC / 4), col = lid % (DC / 4), step = WG / (DC / 4), place = d + 4 * col;
    real4 k[KEY_LOADS], q[QUERY_LOADS];
#if STAGED
    long at_k[KEY_LOADS], at_q[QUERY_LOADS];
    EACH(x, KEY_LOADS) at_k[x] = row_at(K, min(n + row + step * x, end - 1)) + min(place, K->dims - 4);
    EACH(x, QUERY_LOADS) at_q[x] = row_at(Q, min(i0 + row + step * x, N - 1)) + min(place, K->dims - 4);
    LOAD_QUADS(k, KEY_LOADS, K, at_k);
    LOAD_QUADS(q, QUERY_LOADS, Q, at_q);
    EACH(x, KEY_LOADS) k[x] = place < K->dims ? k[x] : (real4)(R(0.0));
    EACH(x, QUERY_LOADS) q[x] = place < K->dims ? q[x] : (real4)(R(0.0));
#else
    EACH(x, KEY_LOADS) k[x] = load4(K, min(n + row + step * x, end - 1), place);
    EACH(x, QUERY_LOADS) q[x] = load4(Q, min(i0 + row + step * x, N - 1), place);
#endif
    EACH(x, KEY_LOADS) keys[(row + step * x) * DSTRIDE + col] = k[x];
    EACH(x, QUERY_LOADS) queries[(row + step * x) * DSTRIDE + col] = q[x];
}

/* The key that row y of the slice of V from column x0 of the weights on stands for. */
static inline int key_of(int n, int x0, int y) {
    return n + x0 / (4 * TC) * (4 * TC) + x0 % (4 * TC) / 4 + y % 4 * TC + y / 4;
}

/* A slice of V; rows of keys from `end` on are zeros. Raises *poison when a value is no finite number: only then can a
 * weight of zero do harm. */
static inline void fill_values(__local real4 *dst, const matrix *V, int n, int x0, int end, uint lid,
                               __local int *poison) {
    real4 v[VALUE_LOADS], probe = (real4)(R(0.0));
#if STAGED
    long at[VALUE_LOADS];
    EACH(x, VALUE_LOADS) {
        const int y = (lid + WG * x) / VSTRIDE, col = lid + WG * x - y * VSTRIDE;
        at[x] = row_at(V, min(key_of(n, x0, y), end - 1)) + min(4 * col, V->dims - 4);
    }
    LOAD_QUADS(v, VALUE_LOADS, V, at);
#endif
    EACH(x, VALUE_LOADS) {
        const int y = (lid + WG * x) / VSTRIDE, col = lid + WG * x - y * VSTRIDE, j = key_of(n, x0, y);
#if STAGED
        v[x] = j < end && 4 * col < V->dims ? v[x] : (real4)(R(0.0));
#else
        v[x] = load4(V, min(j, end - 1), 4 * col);
        v[x] = j < end ? v[x] : (real4)(R(0.0));
#endif
    }
    EACH(x, VALUE_LOADS) {
        dst[lid + WG * x] = v[x];
        probe = fma(v[x], (real4)(R(0.0)), probe);
    }
    if (MASKS && any(isnan(probe))) /* 0 or NaN; a sum of its parts would crash Oclgrind */
        atomic_or(poison, 1);
}

#if STAGED
/* The same where rows are not whole. */
static inline void fill_scores_apart(__local real4 *keys, __local real4 *queries, const matrix *K, const matrix *Q,
                                     int n, int end, int i0, int N, int d, uint lid) {
    const int col = lid % (DC / 4), step = WG / (DC / 4);
#pragma unroll 1
    for (int row = lid / (DC / 4); row < BN; row += step)
        load_parts((__local real *)(keys + row * DSTRIDE + col), K, min(n + row, end - 1), d + 4 * col);
#pragma unroll 1
    for (int row = lid / (DC / 4); row < BM; row += step)
        load_parts((__local real *)(queries + row * DSTRIDE + col), Q, min(i0 + row, N - 1), d + 4 * col);
}

static inline void fill_values_apart(__local real4 *dst, const matrix *V, int n, int x0, int end, uint lid,
                                     __local int *poison) {
    real4 probe = (real4)(R(0.0));
#pragma unroll 1
    for (uint x = lid; x < JC * VSTRIDE; x += WG) {
        const int y = x / VSTRIDE, col = x - y * VSTRIDE, j = key_of(n, x0, y);
        load_parts((__local real *)(dst + x), V, min(j, end - 1), 4 * col);
        const real4 v = j < end ? dst[x] : (real4)(R(0.0));
        dst[x] = v;
        probe = fma(v, (real4)(R(0.0)), probe);
    }
    if (MASKS && any(isnan(probe)))
        atomic_or(poison, 1);
}
#endif

/* One slice of S += Q K^T: NR + NC real4s read for 4 NR NC multiply-adds. SLICED sums each slice apart: a third of the
 * error. */
static inline void multiply_scores(real s[NR][NC], __local const real4 *q, __local const real4 *k, int quads) {
    real t[NR][NC];
    EACH(r, NR) EACH(c, NC) t[r][c] = SLICED ? R(0.0) : s[r][c];
#pragma unroll 1
    for (int d = 0; d < quads; d++) {
        real4 key[NC];
        EACH(c, NC) key[c] = k[c * TC * DSTRIDE + d];
        EACH(r, NR) {
            const real4 x = q[r * TR * DSTRIDE + d];
            EACH(c, NC) {
                t[r][c] = fma(x.y, key[c].y, fma(x.x, key[c].x, t[r][c]));
                t[r][c] = fma(x.w, key[c].w, fma(x.z, key[c].z, t[r][c]));
            }
        }
    }
    EACH(r, NR) EACH(c, NC) s[r][c] = SLICED ? s[r][c] + t[r][c] : t[r][c];
}

/* One slice of O += P V: NR + 4 NV real4s read for 16 NR NV multiply-adds. */
static inline void multiply_values(real4 o[NR][NV], __local const real4 *p, __local const real4 *v) {
#pragma unroll 1
    for (int x = 0; x < JC / 4; x++) {
        real4 value[4][NV];
        EACH(y, 4) EACH(z, NV) value[y][z] = v[(4 * x + y) * VSTRIDE + z * TC];
        EACH(r, NR) {
            const real4 w = p[r * TR * PSTRIDE + x];
            EACH(z, NV) o[r][z] = fma((real4)(w.y), value[1][z], fma((real4)(w.x), value[0][z], o[r][z]));
            EACH(z, NV) o[r][z] = fma((real4)(w.w), value[3][z], fma((real4)(w.z), value[2][z], o[r][z]));
        }
    }
}

/* The same where a row excludes keys that others see and V is poisoned: values of excluded keys are selected away. */
static inline void select_values(real4 o[NR][NV], __local const real *p, __local const real4 *v) {
#pragma unroll 1
    for (int y = 0; y < JC; y++)
        EACH(r, NR) {
            const real w = p[r * TR * PSTRIDE * 4 + y];
            const int excluded = AS_WHOLE(w) == AS_WHOLE(EXCLUDED);
            EACH(z, NV) o[r][z] = excluded ? o[r][z] : fma((real4)(w), v[y * VSTRIDE + z * TC], o[r][z]);
        }
}

/* Some score masks, `a` with the flags of the others cleared: then no load waits for a test. `more`: after others. */
INLINE void fetch_some(__local real *p, const cla_masks *m, const cla_mask_args *a, int b, int h, int i, int last,
                       int j, int end, int more) {
    cla_masks some = *m;
    some.a = a;
#pragma unroll 2
    for (int r = 0; r < NR; r++) {
        real x[NC];
        EACH(c, NC) x[c] = cla_added_to(&some, b, h, min(i + TR * r, last), min(j + TC * c, end - 1));
        EACH(c, NC) {
            __local real *to = p + 4 * (TR * PSTRIDE * r + TC * (c / 4)) + c % 4;
            *to = more && x[c] != -INFINITY ? *to : x[c];
        }
    }
}

/* What score masks add to the own scores, -inf to exclude, into the place where the own weights will be: that takes no
 * registers. i and j: the first own query and key. */
INLINE void fetch_masks(__local real *p, const cla_masks *m, int b, int h, int i, int last, int j, int end) {
    cla_mask_args a = *m->a;
    a.has_keep = a.has_drop = a.has_segments = 0;
#if !STAGED
    a.bias_type = CLA_REAL_TYPE;
#endif
    fetch_some(p, m, &a, b, h, i, last, j, end, 0); /* zeros where there is neither bias nor slope */
    a.has_bias = a.has_slopes = 0;
    a.has_keep = 1;
    if (m->a->has_keep)
        fetch_some(p, m, &a, b, h, i, last, j, end, 1);
    a.has_keep = 0;
    a.has_drop = 1;
    if (m->a->has_drop)
        fetch_some(p, m, &a, b, h, i, last, j, end, 1);
    a.has_drop = 0;
    a.has_segments = 1;
    if (m->a->has_segments)
        fetch_some(p, m, &a, b, h, i, last, j, end, 1);
}

/* The soft cap, by way of the same place: one tanh in a loop, which could not index registers. */
static inline void cap_scores(real s[NR][NC], __local real4 *p, real cap) {
    EACH(r, NR) EACH(g, NC / 4) p[TR * PSTRIDE * r + TC * g] =
        (real4)(s[r][4 * g], s[r][4 * g + 1], s[r][4 * g + 2], s[r][4 * g + 3]);
#pragma unroll 1
    for (int r = 0; r < NR; r++)
#pragma unroll 1
        for (int g = 0; g < NC / 4; g++) {
            __local real4 *x = p + TR * PSTRIDE * r + TC * g;
            *x = cap * tanh(*x / cap);
        }
    EACH(r, NR) EACH(g, NC / 4) {
        const real4 x = p[TR * PSTRIDE * r + TC * g];
        s[r][4 * g] = x.x;
        s[r][4 * g + 1] = x.y;
        s[r][4 * g + 2] = x.z;
        s[r][4 * g + 3] = x.w;
    }
}

static inline void add_masks(real s[NR][NC], __local const real4 *p) {
    EACH(r, NR) EACH(g, NC / 4) {
        const real4 x = p[TR * PSTRIDE * r + TC * g];
        s[r][4 * g] = x.x == -INFINITY ? -INFINITY : s[r][4 * g] + x.x;
        s[r][4 * g + 1] = x.y == -INFINITY ? -INFINITY : s[r][4 * g + 1] + x.y;
        s[r][4 * g + 2] = x.z == -INFINITY ? -INFINITY : s[r][4 * g + 2] + x.z;
        s[r][4 * g + 3] = x.w == -INFINITY ? -INFINITY : s[r][4 * g + 3] + x.w;
    }
}

static inline void scale_scores(real s[NR][NC], real scale) {
    EACH(r, NR) EACH(c, NC) s[r][c] *= scale;
}

/* Drops keys outside the rows' intervals, where there are `some`; returns whether a key below `end` is excluded, by an
 * interval or by a score of -inf. j: the first own key. */
static inline int drop_scores(real s[NR][NC], int some, __local const int2 *bounds, int j, int end) {
    real low = INFINITY;
    EACH(r, NR) EACH(c, NC) low = fmin(low, s[r][c]);
    int excluded = low == -INFINITY;
    if (some)
        EACH(r, NR) {
#if INTERVAL
            const int2 w = bounds[TR * r] - j;
#else
            const int2 w = (int2)(0, end - j);
#endif
            EACH(c, NC) {
                const int drop = TC * c < w.x || TC * c >= w.y;
                s[r][c] = drop ? -INFINITY : s[r][c];
                excluded |= drop && j + TC * c < end; /* from there on the values are zeros */
            }
        }
    return excluded;
}

/* fmax loses NaN; the weights and l keep it. */
static inline void share_maxima(const real s[NR][NC], __local real *maxima) {
    EACH(r, NR) {
        real high = -INFINITY;
        EACH(c, NC) high = fmax(high, s[r][c]);
        maxima[WG * r] = high;
    }
}

/* Scores become weights relative to the new maximum, what was summed up before shrinks to it. In p, column
 * 4 (TC g + tc) + y stands for key TC (4 g + y) + tc: whole real4s without bank conflicts. */
static inline void soften(real s[NR][NC], real m[NR], real l[NR], real4 o[NR][NV], __local const real4 *maxima,
                          __local real4 *p) {
    EACH(r, NR) {
        real high = m[r];
        EACH(x, TC / 4) {
            const real4 y = maxima[WG / 4 * r + x];
            high = fmax(fmax(high, fmax(y.x, y.y)), fmax(y.z, y.w));
        }
        const real base = high == -INFINITY ? R(0.0) : high, shrink = weights_of((real4)(m[r] - base)).x;
        m[r] = high;
        l[r] *= shrink;
        EACH(z, NV) o[r][z] *= shrink;
        EACH(g, NC / 4) {
            const real4 x = (real4)(s[r][4 * g], s[r][4 * g + 1], s[r][4 * g + 2], s[r][4 * g + 3]);
            const real4 e = weights_of(x - base);
            l[r] = l[r] + e.x + e.y + e.z + e.w;
            p[TR * PSTRIDE * r + TC * g] = select(e, (real4)(EXCLUDED), x == (real4)(-INFINITY));
        }
    }
}

/* Least and greatest x, least and greatest y: some row sees a key of [x, w), all rows see [y, z). */
static inline int4 join_hulls(int4 a, int4 b) {
    return (int4)(min(a.x, b.x), max(a.y, b.y), min(a.z, b.z), max(a.w, b.w));
}

static inline void clear_row(real x[NR], real value) {
    EACH(r, NR) x[r] = value;
}

static inline void clear_scores(real s[NR][NC]) {
    EACH(r, NR) EACH(c, NC) s[r][c] = R(0.0);
}

static inline void clear_values(real4 o[NR][NV]) {
    EACH(r, NR) EACH(z, NV) o[r][z] = (real4)(R(0.0));
}

static inline void share_sums(__local real *sums, const real l[NR]) {
    EACH(r, NR) sums[WG * r] = l[r];
}

static inline void join_sums(real l[NR], __local const real *sums) {
    EACH(r, NR) EACH(x, TC) l[r] += sums[WG * r + x];
}

/* A logit without a value joins each row: sums become relative to the larger of m and it. `scale`: what O is divided
 * by. Without a sink (-inf): 1 / l. */
static inline void finish_rows(real m[NR], real l[NR], real scale[NR], real sink) {
    EACH(r, NR) {
        const real top = sink > m[r] ? sink : m[r], seen = l[r];
        real shrink = R(1.0);
        if (sink != -INFINITY) {
            shrink = m[r] == -INFINITY ? R(0.0) : exp(m[r] - top);
            l[r] = l[r] * shrink + exp(sink - top);
            m[r] = top;
        }
        scale[r] = seen == R(0.0) ? R(0.0) : shrink / l[r];
    }
}

static inline void store_lse(__global real *LSE, long stride, int i, int N, const real m[NR], const real l[NR]) {
    LSE += i * stride;
    EACH(r, NR) {
        if (i + TR * r < N)
            *LSE = m[r] + log(l[r]);
        LSE += TR * stride;
    }
}

/* x % count, from x / count: a division of 64 bits less. */
static inline int rest_of(size_t x, size_t quotient, int count) { return (uint)x - (uint)quotient * (uint)count; }

/* O[b,h,i,:] = sum_j P V, P = softmax over the keys that i sees; LSE[b,h,i] natural.
 *   Groups  tiles x chunks x H x B of WG, counted in this order: tile of rows, chunk of `columns` value columns.
 *   Needs   N, M >= 1; scale finite; columns <= 4 TC NV, a multiple of 4;
 *           absent tensors are NULL, spans too where there is no interval.
 *   Local   bytes of a real x (4 TILES + 4 JC VSTRIDE) + 8 BM + 4 WG + 4.
 *   Barriers a key tile 2 ceil(D / DC) + 1 + 2 BN / JC, in uniform flow: after each fill and after each last read.
 *   Special a score of -inf is excluded; a row that keeps no key gives 0, LSE -inf; NaN and +inf scores give NaN.
 *   Source  Milakov & Gimelshein 2018 (online softmax), Dao 2023 (query tiles outside, key tiles inside). */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles(__global const ELEMENT *restrict Q, __global const ELEMENT *restrict K,
                __global const ELEMENT *restrict V, __global ELEMENT *restrict O, __global real *restrict LSE,
                __global const cla_span *restrict spans,
                __global const uchar *restrict keep, __global const uchar *restrict drop,
                __global const ELEMENT *restrict bias, __global const float *restrict slopes,
                __global const int *restrict q_segments, __global const int *restrict k_segments,
                __global const real *restrict sinks, __global const int *restrict table,
                __global uint *restrict counts, const cla_attention_args a) {
    __local real4 tiles[TILES]; /* slices of K and Q; then the weights and the row maxima */
    __local real4 values[JC * VSTRIDE];
    __local int2 bounds[INTERVAL ? BM : 1];
    __local int excludes[WG];
    __local int poison; /* a value that was read is NaN or infinite; never taken back */
    __local real4 *queries = tiles + BN * DSTRIDE, *maxima = tiles + BM * PSTRIDE;
    const uint lid = get_local_id(0);
    const int tc = lid % TC, tr = lid / TC;
    const size_t id = get_group_id(0), pass = id / a.tiles, head = pass / a.chunks, batch = head / a.H;
    const int tile = rest_of(id, pass, a.tiles), chunk = rest_of(pass, head, a.chunks);
    const int h = rest_of(head, batch, a.H), b = batch;
    const int i0 = (a.long_first ? a.tiles - 1 - tile : tile) * BM, width = min(a.columns, a.Dv - chunk * a.columns);
#if MASKS
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
#endif
#if SCORE
    const int adds =
        a.mask.has_keep | a.mask.has_drop | a.mask.has_bias | a.mask.has_slopes | a.mask.has_segments;
#endif
    long q_row = 0, k_row = 0;
    int N = a.N;
#if INTERVAL
    if (a.ragged) {
        q_row = spans[b].q_row;
        k_row = spans[b].k_row;
        N = spans[b].queries;
    }
#endif
    matrix q = matrix_of(Q, a.q_0 + b * a.q_b + h * a.q_h + q_row * a.q_i, a.q_i, a.q_type, a.D);
    matrix k = matrix_of(K, a.k_0 + b * a.k_b + h / a.group * a.k_h + k_row * a.k_j, a.k_j, a.k_type, a.D);
    matrix v = matrix_of(V, a.v_0 + b * a.v_b + h / a.group * a.v_h + k_row * a.v_j, a.v_j, a.v_type, width);
    v.column = chunk * a.columns;
#if STAGED
    k.page = a.k_page, v.page = a.v_page;
    k.page_size = v.page_size = a.page_size;
    k.table = v.table = table + (long)b * a.pages;
    k.whole &= (a.k_page & 3) == 0;
    v.whole &= ((a.v_page | v.column) & 3) == 0;
#endif
    if (lid == 0)
        poison = 0;
#if INTERVAL
    for (uint row = lid; row < BM; row += WG) /* rows after N are copies of the last, if there is any here */
        bounds[row] = i0 >= N ? (int2)(a.M, 0)
                      : spans ? cla_keys_of(&masks, b, min(i0 + (int)row, N - 1))
                              : (int2)(0, a.M);
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
#if INTERVAL
    int4 hull = bounds[0].xxyy;
    for (int row = 1; row < BM; row++)
        hull = join_hulls(hull, bounds[row].xxyy);
#else
    const int4 hull = (int4)(0, 0, a.M, a.M);
#endif
    const int end = hull.w; /* no key from there on is read */
    real m[NR], l[NR];      /* l: over this work-item's own keys, joined at the end */
    real4 o[NR][NV];
    clear_row(m, -INFINITY);
    clear_row(l, R(0.0));
    clear_values(o);
    for (int n = hull.x / BN * BN; n < end; n += BN) {
        real s[NR][NC];
        clear_scores(s);
        for (int d = 0; d < a.D; d += DC) {
#if STAGED
            if (!k.whole || !q.whole)
                fill_scores_apart(tiles, queries, &k, &q, n, end, i0, N, d, lid);
            else
#endif
                fill_scores(tiles, queries, &k, &q, n, end, i0, N, d, lid);
            barrier(CLK_LOCAL_MEM_FENCE);
            multiply_scores(s, queries + tr * DSTRIDE, tiles + tc * DSTRIDE, min(a.D - d + 3, DC) / 4);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        scale_scores(s, SCALE_OF(a));
#if SCORE
        if (a.mask.softcap > 0.0f)
            cap_scores(s, tiles + tr * PSTRIDE + tc, OF_BITS(a.mask.softcap_bits, a.mask.softcap));
        if (adds) {
            fetch_masks((__local real *)(tiles + tr * PSTRIDE + tc), &masks, b, h, i0 + tr, N - 1, n + tc, end);
            add_masks(s, tiles + tr * PSTRIDE + tc);
        }
#endif
        int excluded = drop_scores(s, n < hull.y || n + BN > hull.z, bounds + tr, n + tc, end);
        share_maxima(s, (__local real *)maxima + lid);
        excludes[lid] = excluded;
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int x = 0; x < TC; x++)
            excluded |= excludes[tr * TC + x];
        soften(s, m, l, o, maxima + tr * (TC / 4), tiles + tr * PSTRIDE + tc);
        for (int x = 0; x < BN; x += JC) {
#if STAGED
            if (width > 0 && !v.whole)
                fill_values_apart(values, &v, n, x, end, lid, &poison);
            else
#endif
                if (width > 0)
                fill_values(values, &v, n, x, end, lid, &poison);
            barrier(CLK_LOCAL_MEM_FENCE);
            if (width > 0 && (excluded & (MASKS ? poison : 1)))
                select_values(o, (__local const real *)(tiles + tr * PSTRIDE) + x, values + tc);
            else if (width > 0)
                multiply_values(o, tiles + tr * PSTRIDE + x / 4, values + tc);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
    }
    share_sums((__local real *)maxima + lid, l);
    barrier(CLK_LOCAL_MEM_FENCE);
    clear_row(l, R(0.0));
    join_sums(l, (__local const real *)maxima + tr * TC);
    real scale[NR];
    finish_rows(m, l, scale, a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : -INFINITY);
    const long place = a.o_0 + b * a.o_b + h * a.o_h + q_row * a.o_i + chunk * a.columns;
    store_rows(O, place, a.o_type, a.o_i, i0 + tr, N, tc, width, scale, o, values + lid * NV);
    if (a.has_lse && chunk == 0 && tc == 0)
        store_lse(LSE + a.lse_0 + b * a.lse_b + h * a.lse_h + q_row * a.lse_i, a.lse_i, i0 + tr, N, m, l);
    if (a.has_counts && lid == 0 && i0 < N) {
        const int first = hull.x / BN, computed = first * BN < end ? (end + BN - 1) / BN - first : 0;
        const int all = ((a.ragged ? spans[b].keys : a.M) + BN - 1) / BN;
        cla_count_blocks(counts, computed, max(all - computed, 0));
    }
}
