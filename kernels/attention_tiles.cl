/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention forward for GPU-class devices: O = softmax(scale Q K^T + bias) V tile by tile through local memory,
 * no N x M buffer. Must not know: vendors, the host's buffers, how the key was chosen. A work-group owns BM = TR NR
 * queries of one head and at most 4 TC NV columns of O, and walks the keys BN = TC NC at a time; a work-item owns NR
 * queries x NC keys of the scores and NR queries x 4 NV columns of O in registers. Key: REAL; TR, TC, NR, NC, NV; DC
 * dims a slice of Q and K, JC keys a slice of V; SLICED 0 or 1 (see multiply_scores); STAGED 1: storage and layout may
 * be any, quantised or paged, 0: all is of type real, and D, Dv, strides and offsets of q, k, v, o are multiples of 4;
 * ALIGNED4, where STAGED is 0: 2: base pointers are aligned to 4 elements, too, 1: not; MASKS 1: intervals, 2: score
 * masks; DROPOUT. */
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

/* Drops keys outside the rows' intervals, where there are `some`; returns whether a key below `end` is excluded, by an
 * interval or by a score of -inf. j: the first own key. */
INLINE int drop_scores(real s[NR][NC], int some, __local const int2 *bounds, int j, int end) {
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

/* fmax loses NaN; the weights and l keep it. Returns whether a score is more than -inf. */
static inline int share_maxima(const real s[NR][NC], __local real *maxima) {
    int kept = 0;
    EACH(r, NR) {
        real high = -INFINITY;
        EACH(c, NC) high = fmax(high, s[r][c]);
        EACH(c, NC) kept |= s[r][c] != -INFINITY;
        maxima[WG * r] = high;
    }
    return kept;
}

#if DROPOUT
#if BM * BN > 2 * REAL * JC * VSTRIDE
#error "attention_tiles: no room for what dropout leaves"
#endif
/* What the weights of own row r and of keys TC (4 g + y) + tc are multiplied by; `left`: of the own row 0 and key 0. */
INLINE real4 kept_factors(__local const uchar *left, int r, int g, uint bit, real kept) {
    left += TR * r * DRAWN_FOURS + TC * g;
    return (real4)(left[0] >> bit & 1 ? kept : R(0.0), left[TC / 4] >> bit & 1 ? kept : R(0.0),
                   left[TC / 2] >> bit & 1 ? kept : R(0.0), left[3 * TC / 4] >> bit & 1 ? kept : R(0.0));
}
#endif

/* Scores become weights relative to the new maximum, what was summed up before shrinks to it. In p, column
 * 4 (TC g + tc) + y stands for key TC (4 g + y) + tc: whole real4s without bank conflicts. With DROPOUT l sums what p
 * has no more; left, bit and kept as above. */
static inline void soften(real s[NR][NC], real m[NR], real l[NR], real4 o[NR][NV], __local const real4 *maxima,
                          __local real4 *p, __local const uchar *left, uint bit, real kept) {
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
            real4 e = weights_of(x - base);
            l[r] = l[r] + e.x + e.y + e.z + e.w;
#if DROPOUT
            e *= kept_factors(left, r, g, bit, kept);
#endif
            p[TR * PSTRIDE * r + TC * g] = select(e, (real4)(EXCLUDED), x == (real4)(-INFINITY));
        }
    }
}

/* Least and greatest x, least and greatest y: some row sees a key of [x, w), all rows see [y, z). */
static inline int4 join_hulls(int4 a, int4 b) {
    return (int4)(min(a.x, b.x), max(a.y, b.y), min(a.z, b.z), max(a.w, b.w));
}

static inline void share_sums(__local real *sums, const real l[NR]) {
    EACH(r, NR) sums[WG * r] = l[r];
}

static inline void join_sums(real l[NR], __local const real *sums) {
    EACH(r, NR) EACH(x, TC) l[r] += sums[WG * r + x];
}

/* A logit without a value joins each row: sums become relative to the larger of m and it. `scale`: what O is divided
 * by. Without a sink (-inf): 1 / l. Returns bit r where row r keeps no key; beside a large sink `scale` may be 0 too. */
static inline int finish_rows(real m[NR], real l[NR], real scale[NR], real sink) {
    int none = 0;
    EACH(r, NR) {
        const real top = sink > m[r] ? sink : m[r], seen = l[r];
        real shrink = R(1.0);
        if (sink != -INFINITY) {
            shrink = m[r] == -INFINITY ? R(0.0) : exp(m[r] - top);
            l[r] = seen == R(0.0) ? R(1.0) : l[r] * shrink + exp(sink - top); /* LSE of no key: the sink, infinite too */
            m[r] = seen == R(0.0) ? sink : top;
        }
        scale[r] = seen == R(0.0) ? R(0.0) : shrink / l[r];
        none |= (seen == R(0.0)) << r;
    }
    return none;
}

static inline void store_lse(__global real *LSE, long stride, int i, int N, const real m[NR], const real l[NR]) {
    LSE += i * stride;
    EACH(r, NR) {
        if (i + TR * r < N)
            *LSE = m[r] + log(l[r]);
        LSE += TR * stride;
    }
}

static inline void store_state(__global real *STATE, long stride, int i, int N, const real m[NR], const real l[NR],
                               int none) {
    STATE += i * stride;
    EACH(r, NR) {
        if (i + TR * r < N)
            cla_store_state(STATE, m[r], l[r], none >> r & 1);
        STATE += TR * stride;
    }
}

/* O[b,h,i,:] = sum_j P V, P = softmax over the keys that i sees; LSE[b,h,i] natural; STATE[b,h,i] = (m, 1 / l).
 *   Groups  tiles x chunks x H x B of WG, counted in this order: tile of rows, chunk of `columns` value columns.
 *   Needs   N, M >= 1; scale finite; columns <= 4 TC NV, a multiple of 4;
 *           absent tensors are NULL, spans too where there is no interval.
 *   Local   bytes of a real x (4 TILES + 4 JC VSTRIDE) + 8 BM + 4 WG + 20.
 *   Barriers a key tile 2 ceil(D / DC) + 1 + 2 BN / JC, one more with score masks and with dropout, in uniform flow: after each
 *           fill and after each last read.
 *   Special a score of -inf is excluded; a row that keeps no key gives 0, LSE -inf; NaN and +inf scores give NaN.
 *   Source  Milakov & Gimelshein 2018 (online softmax), Dao 2023 (query tiles outside, key tiles inside). */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles(__global const ELEMENT *restrict Q, __global const ELEMENT *restrict K,
                __global const ELEMENT *restrict V, __global ELEMENT *restrict O, __global real *restrict LSE,
                __global real *restrict STATE, __global const cla_span *restrict spans,
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
#if SCORE
    __local int sees[2], keeps[2]; /* some score of the tile is left after masks of bits; after all; by turns */
#endif
    __local real4 *queries = tiles + BN * DSTRIDE, *maxima = tiles + BM * PSTRIDE;
    __local uchar *left = (__local uchar *)values; /* with DROPOUT, until values are read */
    const uint lid = get_local_id(0);
    const int tc = lid % TC, tr = lid / TC;
    const size_t id = CLA_GROUP, pass = id / a.tiles, head = pass / a.chunks, batch = head / a.H;
    const int tile = rest_of(id, pass, a.tiles), chunk = rest_of(pass, head, a.chunks);
    const int h = rest_of(head, batch, a.H), b = batch;
    const int i0 = (a.long_first ? a.tiles - 1 - tile : tile) * BM, width = min(a.columns, a.Dv - chunk * a.columns);
#if MASKS
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
#endif
#if SCORE
    const int hides = a.mask.has_keep | a.mask.has_drop | a.mask.has_segments;
    const int adds = a.mask.has_bias | a.mask.has_slopes;
    int side = 0, computed = 0; /* which of two flags; blocks of keys */
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
#if SCORE
    if (lid < 2)
        sees[lid] = keeps[lid] = 0;
#endif
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
#if PREFETCH
    real4 next_k[KEY_LOADS], next_q[QUERY_LOADS], next_v[VALUE_LOADS];
    if (hull.x < end && FAST(k, q)) {
        take_keys(next_k, &k, hull.x / BN * BN, end, 0, lid);
        take_queries(next_q, &q, i0, N, 0, lid);
    }
#endif
    for (int n = hull.x / BN * BN; n < end; n += BN) {
        real s[NR][NC];
        int dims = a.D, live = 1; /* both 0 where masks leave no key of the tile */
        clear_scores(s);
#if DROPOUT
        draw_left(left, &a, b, h, i0, n, lid);
#endif
#if SCORE
        kept_bits kept = ALL_BITS;
        if (hides)
            kept = kept_of(&masks, b, h, i0 + tr, N - 1, n + tc, end);
        if (hides && kept)
            atomic_or(&sees[side], 1);
        barrier(CLK_LOCAL_MEM_FENCE);
        dims = hides && !sees[side] ? 0 : dims;
        if (lid == 0)
            sees[1 - side] = keeps[1 - side] = 0;
#endif
        for (int d = 0; d < dims; d += DC) {
            if (FAST(k, q)) {
#if PREFETCH
                put_keys(tiles, next_k, lid);
                put_queries(queries, next_q, lid);
#else
                fill_keys(tiles, &k, n, end, d, lid);
                fill_queries(queries, &q, i0, N, d, lid);
#endif
            }
#if STAGED
            else {
                fill_rows_apart(tiles, BN, &k, n, end - 1, d, lid);
                fill_rows_apart(queries, BM, &q, i0, N - 1, d, lid);
            }
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
#if PREFETCH
            if (d + DC < dims && FAST(k, q)) {
                take_keys(next_k, &k, n, end, d + DC, lid);
                take_queries(next_q, &q, i0, N, d + DC, lid);
            }
            if (d + DC >= dims && width > 0 && FAST(v, v))
                take_values(next_v, &v, n, 0, end, lid);
#endif
            multiply_scores(s, queries + tr * DSTRIDE, tiles + tc * DSTRIDE, min(a.D - d + 3, DC) / 4);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
        scale_scores(s, SCALE_OF(a));
#if SCORE
        if (a.mask.softcap > 0.0f && dims > 0)
            cap_scores(s, tiles + tr * PSTRIDE + tc, OF_BITS(a.mask.softcap_bits, a.mask.softcap));
        if (adds && dims > 0) {
            fetch_added((__local real *)(tiles + tr * PSTRIDE + tc), &masks, b, h, i0 + tr, N - 1, n + tc, end);
            add_fetched(s, tiles + tr * PSTRIDE + tc);
        }
        if (hides)
            drop_bits(s, kept);
#endif
        int excluded = drop_scores(s, n < hull.y || n + BN > hull.z, bounds + tr, n + tc, end);
#if SCORE
        if (share_maxima(s, (__local real *)maxima + lid))
            atomic_or(&keeps[side], 1);
#else
        share_maxima(s, (__local real *)maxima + lid);
#endif
        excludes[lid] = excluded;
        barrier(CLK_LOCAL_MEM_FENCE);
#if SCORE
        computed += dims > 0;
        live = keeps[side];
        side = 1 - side;
#endif
        if (live) {
            for (int x = 0; x < TC; x++)
                excluded |= excludes[tr * TC + x];
            soften(s, m, l, o, maxima + tr * (TC / 4), tiles + tr * PSTRIDE + tc, left + tr * (BN / 4) + tc / 4, tc % 4,
                   OF_BITS(a.kept_bits, a.kept));
        }
#if DROPOUT
        barrier(CLK_LOCAL_MEM_FENCE);
#endif
        for (int x = 0; x < (live ? BN : 0); x += JC) {
            if (width > 0 && FAST(v, v)) {
#if !PREFETCH
                real4 next_v[VALUE_LOADS];
                take_values(next_v, &v, n, x, end, lid);
#endif
                put_values(values, next_v, lid, &poison);
            }
#if STAGED
            else if (width > 0)
                fill_values_apart(values, &v, n, x, end, lid, &poison);
#endif
            barrier(CLK_LOCAL_MEM_FENCE);
#if PREFETCH
            if (x + JC < BN && width > 0 && FAST(v, v))
                take_values(next_v, &v, n, x + JC, end, lid);
            if (x + JC >= BN && FAST(k, q) && n + BN < end) {
                take_keys(next_k, &k, n + BN, end, 0, lid);
                take_queries(next_q, &q, i0, N, 0, lid);
            }
#endif
            if (width > 0 && (excluded & (MASKS ? poison : 1)))
                select_values(o, (__local const real *)(tiles + tr * PSTRIDE) + x, values + tc);
            else if (width > 0)
                multiply_values(o, tiles + tr * PSTRIDE + x / 4, values + tc);
            barrier(CLK_LOCAL_MEM_FENCE);
        }
#if PREFETCH
        if (!live && FAST(k, q) && n + BN < end) { /* nothing took them */
            take_keys(next_k, &k, n + BN, end, 0, lid);
            take_queries(next_q, &q, i0, N, 0, lid);
        }
#endif
    }
    share_sums((__local real *)maxima + lid, l);
    barrier(CLK_LOCAL_MEM_FENCE);
    clear_row(l, R(0.0));
    join_sums(l, (__local const real *)maxima + tr * TC);
    real scale[NR];
    const int none = finish_rows(m, l, scale, a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : -INFINITY);
    const long place = a.o_0 + b * a.o_b + h * a.o_h + q_row * a.o_i + chunk * a.columns;
    store_rows(O, place, a.o_type, a.o_i, i0 + tr, N, tc, width, scale, o, values + lid * NV);
    if (a.has_lse && chunk == 0 && tc == 0)
        store_lse(LSE + a.lse_0 + b * a.lse_b + h * a.lse_h + q_row * a.lse_i, a.lse_i, i0 + tr, N, m, l);
    if (a.has_state && chunk == 0 && tc == 0)
        store_state(STATE + a.st_0 + b * a.st_b + h * a.st_h + q_row * a.st_i, a.st_i, i0 + tr, N, m, l, none);
    if (a.has_counts && lid == 0 && i0 < N) {
#if !SCORE
        const int first = hull.x / BN, computed = first * BN < end ? (end + BN - 1) / BN - first : 0;
#endif
        const int all = ((a.ragged ? spans[b].keys : a.M) + BN - 1) / BN;
        cla_count_blocks(counts, computed, max(all - computed, 0));
    }
}
