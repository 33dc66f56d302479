/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of fused attention for GPU-class devices, without an N x M buffer and without atomics on results:
 *   OWN_KEYS 1  dV = P^T dO and dK = dS^T Q: a work-group owns BM keys of a key head, and the queries of all heads of its
 *               group pass;
 *   OWN_KEYS 0  dQ = dS K: it owns BM queries of a head, and keys pass.
 * At most 4 TC NV columns of the results at a time; each chunk of them computes P and dS again. The order of each sum
 * depends on sizes and key alone. Key: as tiles_backward.clh.
 * Local    bytes of a real x (4 TILES + 4 JC VSTRIDE) + 8 max(BM, BN) + 12.
 * Barriers a pair of tiles 2 ceil(D / DC) + 2 ceil(Dv / DC) + 2 BN / JC (4 for keys) + 1, one more with score masks and
 *          with dropout, in uniform flow. A pair of which masks leave nothing has none of its loops'.
 * Special  where NaN or Inf is among rows, terms of excluded pairs are selected away one by one.
 * Source   Dao 2023 (weights again from what the forward pass keeps of each row). */

#if BM * BN > 2 * REAL * JC * VSTRIDE
#error "attention_tiles_backward: no room for what dropout leaves"
#endif

static inline int width_of(int dims, int first, int columns) { return max(min(columns, dims - first), 0); }

#if OWN_KEYS
/* Groups tiles x chunks x Hk x B of WG, counted in this order.   Needs  N, M >= 1, D of attention_tiles_prepare in DEL. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles_keys(INPUTS, __global ELEMENT *restrict DK, __global ELEMENT *restrict DV,
                     __global uint *restrict counts, const cla_tiles_backward_args a) {
    __local real4 tiles[TILES];
    __local real4 values[JC * VSTRIDE];
    __local int2 bounds[INTERVAL ? BN : 1];
    __local uchar *left = (__local uchar *)values; /* with dropout */
    __local int some[2]; /* of meet */
    __local int poison;  /* a value that was read is NaN or infinite; never taken back */
    const cla_attention_args *f = &a.in.forward;
    const uint lid = get_local_id(0);
    const int tc = lid % TC, tr = lid / TC, heads = f->H / f->group;
    const size_t id = CLA_GROUP, pass = id / f->tiles, head = pass / f->chunks, batch = head / heads;
    const int hk = rest_of(head, batch, heads), b = batch, first = rest_of(pass, head, f->chunks) * f->columns;
    const int j0 = rest_of(id, pass, f->tiles) * BM, k_width = width_of(f->D, first, f->columns);
    const int v_width = width_of(f->Dv, first, f->columns);
    const cla_masks m = {&f->mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    const int has_k = (a.wanted & CLA_WANTS_DK) && k_width > 0, has_v = (a.wanted & CLA_WANTS_DV) && v_width > 0;
    head_rows x;
    real4 dk[NR][NV], dv[NR][NV];
    real one[NR];
    clear_values(dk);
    clear_values(dv);
    clear_row(one, R(1.0));
    find_rows(&x, b, hk * f->group, &a.in, Q, K, V, G, STATE, DEL, spans);
    const int M = x.M;
    int2 seers = (int2)(0, x.N);
#if INTERVAL
    if (spans)
        seers = cla_queries_of(&m, b, j0, j0 + BM);
#endif
    const int end = j0 < M ? seers.y : 0;
    int side = 0, computed = 0; /* blocks */
    if (lid == 0)
        poison = some[0] = some[1] = 0;
    for (int h = hk * f->group; h < (hk + 1) * f->group; h++) {
        find_rows(&x, b, h, &a.in, Q, K, V, G, STATE, DEL, spans);
        const matrix up = columns_of(&x.g, first, v_width), q = columns_of(&x.q, first, k_width);
        for (int i = seers.x / BN * BN; i < end; i += BN) {
            real s[NR][NC], d[NR][NC];
            barrier(CLK_LOCAL_MEM_FENCE);
#if INTERVAL
            fill_bounds(bounds, &m, BN, b, i, x.N, lid);
#endif
            const int live = meet(s, d, &x, &a.in, &m, i, j0, tiles, bounds, left, some, &side, lid, 0);
            put_weights(tiles + tr * PSTRIDE + tc, d);
            add_products(dv, tiles + tr * PSTRIDE, &up, i, x.N, values, &poison, live && has_v, lid);
            put_weights(tiles + tr * PSTRIDE + tc, s);
            add_products(dk, tiles + tr * PSTRIDE, &q, i, x.N, values, &poison, live && has_k, lid);
            computed += live;
        }
    }
    long k_row = 0;
#if INTERVAL
    if (f->ragged)
        k_row = spans[b].k_row;
#endif
    if (has_k)
        store_rows(DK, a.x_0 + b * a.x_b + hk * a.x_h + k_row * a.x_i + first, a.x_type, a.x_i, j0 + tr, M, tc, k_width,
                   one, dk, values + lid * NV);
    if (has_v)
        store_rows(DV, a.y_0 + b * a.y_b + hk * a.y_h + k_row * a.y_i + first, a.y_type, a.y_i, j0 + tr, M, tc, v_width,
                   one, dv, values + lid * NV);
    if (f->has_counts && lid == 0 && j0 < M)
        cla_count_blocks(counts, computed, (x.N + BN - 1) / BN * f->group - computed);
}
#else
/* Groups tiles x chunks x H x B of WG, counted in this order.   Needs  as above. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles_queries(INPUTS, __global ELEMENT *restrict DQ, __global uint *restrict counts,
                        const cla_tiles_backward_args a) {
    __local real4 tiles[TILES];
    __local real4 values[JC * VSTRIDE];
    __local int2 bounds[INTERVAL ? BM : 1];
    __local uchar *left = (__local uchar *)values; /* with dropout */
    __local int some[2], poison;
    const cla_attention_args *f = &a.in.forward;
    const uint lid = get_local_id(0);
    const int tc = lid % TC, tr = lid / TC;
    const size_t id = CLA_GROUP, pass = id / f->tiles, head = pass / f->chunks, batch = head / f->H;
    const int h = rest_of(head, batch, f->H), b = batch, first = rest_of(pass, head, f->chunks) * f->columns;
    const int tile = rest_of(id, pass, f->tiles), i0 = (f->long_first ? f->tiles - 1 - tile : tile) * BM;
    const int width = width_of(f->D, first, f->columns);
    const cla_masks m = {&f->mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    head_rows x;
    real4 dq[NR][NV];
    real one[NR];
    int2 hull = (int2)(0, f->M);
    int side = 0, computed = 0;
    clear_values(dq);
    clear_row(one, R(1.0));
    find_rows(&x, b, h, &a.in, Q, K, V, G, STATE, DEL, spans);
    const int blocks = (x.M + BN - 1) / BN;
    if (lid == 0)
        poison = some[0] = some[1] = 0;
#if INTERVAL
    fill_bounds(bounds, &m, BM, b, i0, x.N, lid);
    barrier(CLK_LOCAL_MEM_FENCE);
    hull = hull_of(bounds);
#endif
    const matrix k = columns_of(&x.k, first, width);
    x.M = hull.y; /* no key from there on is read */
    for (int n = hull.x / BN * BN; n < hull.y; n += BN) {
        real s[NR][NC], d[NR][NC];
        barrier(CLK_LOCAL_MEM_FENCE);
        const int live = meet(s, d, &x, &a.in, &m, i0, n, tiles, bounds, left, some, &side, lid, 0);
        put_weights(tiles + tr * PSTRIDE + tc, s);
        add_products(dq, tiles + tr * PSTRIDE, &k, n, hull.y, values, &poison, live, lid);
        computed += live;
    }
    long q_row = 0;
#if INTERVAL
    if (f->ragged)
        q_row = spans[b].q_row;
#endif
    store_rows(DQ, a.x_0 + b * a.x_b + h * a.x_h + q_row * a.x_i + first, a.x_type, a.x_i, i0 + tr, x.N, tc, width, one, dq,
               values + lid * NV);
    if (f->has_counts && lid == 0 && i0 < x.N)
        cla_count_blocks(counts, computed, blocks - computed);
}
#endif
