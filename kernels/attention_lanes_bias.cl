/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient of the bias of fused attention for CPU-class devices: dBias = P (dP - D), summed over the axes that the bias has
 * not, without an N x M buffer and without atomics. One work-item, alone in its group, owns a tile of BQ x BM of the result
 * and computes P and dP again of all that is summed into it, tile onto tile, in one order; where tiles are few, of one part
 * of that, and attention_lanes_reduce adds the parts.
 * Key: as lanes_backward.clh; MASKS 3.   Private memory: 3 BM DC + 2 BQ DC + 3 BQ W + BQ BM + ... numbers.
 * No local memory, no barriers. */

/* What a work-item owns. */
typedef struct {
    int b0, b1, h0, h1, i0, i1, j0, j1; /* what is summed into it: batches, heads, queries, keys */
    __global void *out;                 /* its first number */
    __global real *room;                /* with DEEP */
} bias_share;

/* Adds the panels of a tile of `keys` keys and a block of `rows` queries to sums[BQ][BM]. */
INLINE void meet_bias(real *sums, const meeting *x, int keys, int rows, int special) {
    for (int panel = 0; panel * W < keys; panel++) {
        const int n = x->j0 + panel * W, here = min(W, keys - panel * W);
        overlap o;
        find_overlap(&o, x, n, here, rows);
        if (o.r0 >= o.r1 || !fill_added(x, n, here, o.r0, o.r1))
            continue;
        meet_panel(x, o.r0, o.r1, n, 1, special, 1);
        for (int i = o.r0; i < o.r1; i++)
            EACH(b, JV) {
                const ivec inside = (ivec)(b * LANES) + KEY_STEPS < (ivec)(here);
                AT(b, sums + i * BM + panel * W) += select((vec)(R(0.0)), AT(b, x->S + i * W), inside);
            }
    }
}

/* Sums over queries and keys where the bias has not those axes, and stores what is left. */
INLINE void store_bias(real *sums, const cla_lanes_bias_args *a, const bias_share *w) {
    const int rows = a->db_i ? min(BQ, a->rows - w->i0) : 1, columns = a->db_j ? min(BM, a->columns - w->j0) : 1;
    for (int i = 1; !a->db_i && i < BQ; i++)
        for (int c = 0; c < BM; c += LANES)
            AT(0, sums + c) += AT(0, sums + i * BM + c);
    for (int i = 0; i < rows; i++) {
        for (int c = 1; !a->db_j && c < BM; c++)
            sums[i * BM] += sums[i * BM + c];
        for (int c = 0; c < columns; c++)
            cla_store(w->out, i * a->db_i + c * a->db_j, a->db_type, sums[i * BM + c]);
    }
}

/* The first of count things that part x of `parts` has. */
INLINE int first_of(int count, int parts, int x) { return (int)((long)count * x / parts); }

/* Of the axes that are summed, what the part has: whole blocks of queries, whole tiles of keys. */
INLINE void take_part(bias_share *s, const cla_lanes_bias_args *a, int part) {
    const cla_attention_args *f = &a->in.forward;
    const int x = part / a->parts_j, j = part - x * a->parts_j, y = x / a->parts_i, i = x - y * a->parts_i;
    const int b = y / a->parts_h, h = y - b * a->parts_h;
    const int blocks = (f->N + BQ - 1) / BQ, tiles = (f->M + BM - 1) / BM;
    if (!a->db_b)
        s->b0 = first_of(a->in.B, a->parts_b, b), s->b1 = first_of(a->in.B, a->parts_b, b + 1);
    if (!a->db_h)
        s->h0 = first_of(f->H, a->parts_h, h), s->h1 = first_of(f->H, a->parts_h, h + 1);
    if (!a->db_i)
        s->i0 = first_of(blocks, a->parts_i, i) * BQ, s->i1 = first_of(blocks, a->parts_i, i + 1) * BQ;
    if (!a->db_j)
        s->j0 = first_of(tiles, a->parts_j, j) * BM, s->j1 = first_of(tiles, a->parts_j, j + 1) * BM;
}

/* A function of its own, since PoCL compiles three times what is inlined into a kernel. Adds what one batch gives. */
static __attribute__((noinline)) void add_batch(real *sums, const cla_lanes_bias_args *a, const cla_masks *m, const batch *w,
                                                const bias_share *s) {
    const cla_attention_args *f = &a->in.forward;
    const int ds = padded(f->D), vs = padded(f->Dv);
#if DEEP
    __global real *kt = s->room, *k = kt + BM * ds, *vt = k + BM * ds, *v = vt + BM * vs;
    __global real *q = v + BM * vs, *g = q + BQ * ds;
#else
    real kt[BM * DC] __attribute__((aligned(64))), vt[BM * DC] __attribute__((aligned(64)));
    real k[BM * DC] __attribute__((aligned(64))), *v = k;
    real q[BQ * DC] __attribute__((aligned(64))), g[BQ * DC] __attribute__((aligned(64)));
#endif
    real P[BQ * W] __attribute__((aligned(64))), S[BQ * W] __attribute__((aligned(64)));
    real added[BQ * W] __attribute__((aligned(64))), top[BQ], inv[BQ], del[BQ];
    int lo[BQ], hi[BQ];
    meeting x = {.q = q, .g = g, .kt = kt, .vt = vt, .P = P, .S = S, .added = added, .top = top, .inv = inv, .del = del,
                 .lo = lo, .hi = hi, .m = m, .a = f, .b = w->b, .ds = ds, .vs = vs, .scale = SCALE_OF(*f)};
    clear_block(&x);
    for (x.j0 = s->j0; x.j0 < min(s->j1, w->M); x.j0 += BM) {
        const int keys = min(BM, w->M - x.j0);
        const int2 seers = seers_of(&x, w, keys);
        int special = 0, hk = -1;
        const int first = max(s->i0, seers.x / BQ * BQ), end = min(s->i1, seers.y);
        for (x.h = s->h0; x.h < s->h1 && first < end; x.h++) {
            if (x.h / f->group != hk) {
                hk = x.h / f->group;
                special = load_tile(&x, w, k, v, hk, keys);
            }
            for (x.i0 = first; x.i0 < end; x.i0 += BQ) {
                const int rows = min(BQ, w->N - x.i0), here = load_block(&x, w, &a->in, rows);
                meet_bias(sums, &x, keys, rows, special | here);
            }
        }
    }
}

/* dBias, in the shape of the bias, or each part's.
 *   Groups  tiles of keys * tiles of queries * heads * batches of the result * parts, of one work-item.
 *   Needs  N, M >= 1. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes_bias(__global const void *Q, __global const void *K, __global const void *V, __global const void *G,
                          __global const real *STATE, __global const real *DEL, __global const cla_span *spans,
                          __global const uchar *keep, __global const uchar *drop, __global const void *bias,
                          __global const float *slopes, __global const int *q_segments, __global const int *k_segments,
                          __global void *DB, __global real *room, const cla_lanes_bias_args a) {
    real sums[BQ * BM] __attribute__((aligned(64)));
    const cla_attention_args *f = &a.in.forward;
    const cla_masks m = {&f->mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    const int across = a.db_j ? (a.columns + BM - 1) / BM : 1, down = a.db_i ? (a.rows + BQ - 1) / BQ : 1;
    const long group = CLA_GROUP, row = group / across, head = row / down;
    const int j = (int)(group - row * across) * BM, i = (int)(row - head * down) * BQ;
    const int batch_at = (int)(head / a.heads), h = (int)(head - (long)batch_at * a.heads);
    const int part = batch_at / a.batches, b = batch_at - part * a.batches;
    bias_share s = {.b0 = b, .b1 = b + 1, .h0 = h, .h1 = h + 1, .i0 = i, .i1 = i + BQ, .j0 = j, .j1 = j + BM};
    s.out = (__global void *)cla_at(
        DB, a.db_0 + part * a.db_part + b * a.db_b + h * a.db_h + i * a.db_i + j * a.db_j, a.db_type);
    s.room = room + a.in.room_0 + group * a.in.room;
    take_part(&s, &a, part);
    for (int c = 0; c < BQ * BM; c += LANES)
        AT(0, sums + c) = (vec)(R(0.0));
    for (int at = s.b0; at < s.b1; at++) {
        batch w;
        find_batch(&w, at, &a.in, Q, K, V, G, STATE, DEL, spans);
        add_batch(sums, &a, &m, &w, &s);
    }
    store_bias(sums, &a, &s);
}
