/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of the bias of fused attention for GPU-class devices: dBias = P (dP - D), summed over the axes that the bias has
 * not, without an N x M buffer and without atomics. A work-group owns a tile of BM x BN of the result and computes P and
 * dP again of all that is summed into it, tile onto tile, in one order. Key: as tiles_backward.clh; OWN_KEYS 0; MASKS 3.
 * Local    bytes of a real x 4 TILES + 8 BM + 8, and BM BN / 4 with dropout. */

/* What a work-group owns: batches, heads, queries and keys that are summed into it. */
typedef struct {
    int b0, b1, h0, h1, i0, i1, j0, j1;
} bias_share;

static inline void add_scores(real sum[NR][NC], const real s[NR][NC]) {
    EACH(r, NR) EACH(c, NC) sum[r][c] += s[r][c];
}

/* tile[query][key], rows of BN numbers. */
INLINE void spread_scores(__local real *tile, const real s[NR][NC]) {
    EACH(r, NR) EACH(c, NC) tile[BN * TR * r + TC * c] = s[r][c];
}

/* Sums over queries and keys where the bias has not those axes, and stores what is left. */
INLINE void store_bias(__local real *tile, const cla_lanes_bias_args *a, const bias_share *w, __global void *DB,
                       long at, uint lid) {
    const int rows = a->db_i ? min(BM, a->rows - w->i0) : 1, columns = a->db_j ? min(BN, a->columns - w->j0) : 1;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint c = lid; c < (a->db_i ? 0 : BN); c += WG)
        for (int i = 1; i < BM; i++)
            tile[c] += tile[BN * i + c];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = lid; i < (a->db_j ? 0 : rows); i += WG)
        for (int c = 1; c < BN; c++)
            tile[BN * i] += tile[BN * i + c];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int x = lid; x < rows * BN; x += WG) {
        const int i = x / BN, c = x - i * BN;
        if (c < columns)
            cla_store(DB, at + i * a->db_i + c * a->db_j, a->db_type, tile[x]);
    }
}

/* dBias, in the shape of the bias.
 *   Groups  tiles of keys x tiles of queries x heads x batches of the result, of WG.   Needs  N, M >= 1. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles_bias(INPUTS, __global void *restrict DB, const cla_lanes_bias_args a) {
    __local real4 tiles[TILES];
    __local int2 bounds[BM];
    __local uchar left[DROPOUT ? BM * BN / 4 : 1];
    __local int some[2]; /* of meet */
    const cla_attention_args *f = &a.in.forward;
    const uint lid = get_local_id(0);
    const int across = a.db_j ? (a.columns + BN - 1) / BN : 1, down = a.db_i ? (a.rows + BM - 1) / BM : 1;
    const size_t id = CLA_GROUP, row = id / across, head = row / down, batch = head / a.heads;
    const int j0 = rest_of(id, row, across) * BN, i0 = rest_of(row, head, down) * BM;
    const int h = rest_of(head, batch, a.heads), b = batch;
    const bias_share w = {.b0 = b,
                          .b1 = a.db_b ? b + 1 : a.in.B,
                          .h0 = h,
                          .h1 = a.db_h ? h + 1 : f->H,
                          .i0 = i0,
                          .i1 = a.db_i ? i0 + BM : f->N,
                          .j0 = j0,
                          .j1 = a.db_j ? j0 + BN : f->M};
    const cla_masks m = {&f->mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    head_rows x;
    real sum[NR][NC];
    int side = 0;
    if (lid == 0)
        some[0] = some[1] = 0;
    clear_scores(sum);
    for (int batches = w.b0; batches < w.b1; batches++)
        for (int all = w.h0; all < w.h1; all++) {
            find_rows(&x, batches, all, &a.in, Q, K, V, G, STATE, DEL, spans);
            for (int i = w.i0; i < min(w.i1, x.N); i += BM) {
                barrier(CLK_LOCAL_MEM_FENCE);
                fill_bounds(bounds, &m, BM, batches, i, x.N, lid);
                barrier(CLK_LOCAL_MEM_FENCE);
                const int2 hull = hull_of(bounds);
                x.M = hull.y;
                for (int n = max(w.j0, hull.x / BN * BN); n < min(w.j1, hull.y); n += BN) {
                    real s[NR][NC], d[NR][NC];
                    barrier(CLK_LOCAL_MEM_FENCE);
                    meet(s, d, &x, &a.in, &m, i, n, tiles, bounds, left, some, &side, lid, 1);
                    add_scores(sum, s);
                }
            }
        }
    barrier(CLK_LOCAL_MEM_FENCE);
    spread_scores((__local real *)tiles + lid / TC * BN + lid % TC, sum);
    store_bias((__local real *)tiles, &a, &w, DB, a.db_0 + b * a.db_b + h * a.db_h + i0 * a.db_i + j0 * a.db_j, lid);
}
