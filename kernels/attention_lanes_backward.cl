/* SPDX-License-Identifier: Apache-2.0 */
/* Backward pass of fused attention for CPU-class devices, without an N x M buffer and without atomics.
 *   P = exp(s - m) / l   D_i = sum_e dO O   dP = dO V^T   dS = scale P (dP - D)   dV = P^T dO   dK = dS^T Q   dQ = dS K
 * One work-item, alone in its group, owns a key head with all its query heads, and of its keys one split: the tiles of BM
 * keys split, split + splits, ... (so that causal work is even). It transposes K and V of a tile once; for each query head
 * and block of BQ queries it computes P and dS [query][key] in private memory, adds to dV and dK of the tile, which are
 * stored when it is done, and to the rows of dQ, which are the split's own. The order of each sum depends on sizes, group,
 * splits and key alone. Key: as lanes_backward.clh.
 * Private memory: 5 BM DC + 3 BQ DC + 2 (3 with any masks) BQ W + ... numbers. No local memory, no barriers.
 * Special: where NaN or Inf is among the rows of a tile or block, terms of excluded keys are selected away one by one. */

typedef struct {
    meeting x;
    TILE real *k, *dk, *dv, *dq; /* rows of ds, ds, vs, ds numbers */
    int wanted;
} differential;

#define SUMS EACH(a, RO) EACH(b, OV) if (b < vectors)

/* y[a][d .. ] += sum of p[t * t_step + a * a_step] x[t][d ..] over t < count, in order. */
INLINE void add_block(TILE real *y, int y_stride, TILE const real *x, int x_stride, const real *p, int t_step, int a_step,
                      int count, const int vectors) {
    vec s[RO * OV];
    SUMS s[a * OV + b] = TILE_AT(b, y + a * y_stride);
    _Pragma("unroll 4") for (int t = 0; t < count; t++, x += x_stride, p += t_step) {
        vec r[OV];
        EACH(b, OV) if (b < vectors) r[b] = TILE_AT(b, x);
        EACH(a, RO) {
            const vec c = (vec)(p[a * a_step]);
            EACH(b, OV) if (b < vectors) s[a * OV + b] = fma(c, r[b], s[a * OV + b]);
        }
    }
    SUMS TILE_AT(b, y + a * y_stride) = s[a * OV + b];
}

/* RO rows of y. */
INLINE void add_rows(TILE real *y, TILE const real *x, int stride, const real *p, int t_step, int a_step, int count) {
    int d = 0;
    for (; d + OV * LANES <= stride; d += OV * LANES)
        add_block(y + d, stride, x + d, stride, p, t_step, a_step, count, OV);
#if OV > 2
    for (; d < stride; d += 2 * LANES)
        add_block(y + d, stride, x + d, stride, p, t_step, a_step, count, 2);
#endif
}

/* Rows c0 .. c1 of y (dV or dK of the panel) += weights^T times rows r0 .. r1 of x (dO or Q). Not inlined, for the
 * compiler's time. */
static __attribute__((noinline)) void add_to_keys(TILE real *y, TILE const real *x, int stride, const real *p,
                                                  const overlap *o) {
    for (int i = o->c0 / RO * RO; i < o->c1; i += RO)
        add_rows(y + i * stride, x + o->r0 * stride, stride, p + o->r0 * W + i, W, 1, o->r1 - o->r0);
}

/* Rows r0 .. r1 of dQ += S times rows c0 .. c1 of K. */
INLINE void add_to_queries(const differential *f, int panel, const overlap *o) {
    const int ds = f->x.ds;
    for (int i = o->r1; i < o->r1 + RO - 1; i++) /* rows that the last block has too many */
        EACH(b, JV) AT(b, f->x.S + i * W) = (vec)(R(0.0));
    for (int i = o->r0; i < o->r1; i += RO)
        add_rows(f->dq + i * ds, f->k + (panel * W + o->c0) * ds, ds, f->x.S + i * W + o->c0, 1, W, o->c1 - o->c0);
}

/* All three sums where NaN or Inf is among the rows: excluded pairs, whose P is -1, enter none. */
INLINE void add_selected(const differential *f, int panel, const overlap *o) {
    const meeting *x = &f->x;
    for (int i = o->r0; i < o->r1; i++)
        for (int c = o->c0; c < o->c1; c++) {
            const real p = x->P[i * W + c], s = x->S[i * W + c];
            const int key = panel * W + c;
            if (p == R(-1.0))
                continue;
            for (int d = 0; d < x->vs; d += LANES)
                TILE_AT(0, f->dv + key * x->vs + d) =
                    fma((vec)(p), TILE_AT(0, x->g + i * x->vs + d), TILE_AT(0, f->dv + key * x->vs + d));
            for (int d = 0; d < x->ds; d += LANES) {
                TILE_AT(0, f->dk + key * x->ds + d) =
                    fma((vec)(s), TILE_AT(0, x->q + i * x->ds + d), TILE_AT(0, f->dk + key * x->ds + d));
                TILE_AT(0, f->dq + i * x->ds + d) =
                    fma((vec)(s), TILE_AT(0, f->k + key * x->ds + d), TILE_AT(0, f->dq + i * x->ds + d));
            }
        }
}

/* The tile's `keys` keys and the block's `rows` queries. */
INLINE void meet(const differential *f, int keys, int rows, int special) {
    const meeting *x = &f->x;
    for (int panel = 0; panel * W < keys; panel++) {
        const int n = x->j0 + panel * W, here = min(W, keys - panel * W);
        overlap o;
        find_overlap(&o, x, n, here, rows);
        if (o.r0 >= o.r1)
            continue;
#if MASKS & 2
        o.whole = 0;
        if (!fill_added(x, n, here, o.r0, o.r1))
            continue;
#endif
        meet_panel(x, o.r0, o.r1, n, special || !o.whole, special, 0);
        if (special) {
            add_selected(f, panel, &o);
            continue;
        }
        if (f->wanted & CLA_WANTS_DV)
            add_to_keys(f->dv + panel * W * x->vs, x->g, x->vs, x->P, &o);
        if (f->wanted & CLA_WANTS_DK)
            add_to_keys(f->dk + panel * W * x->ds, x->q, x->ds, x->S, &o);
        if (f->wanted & CLA_WANTS_DQ)
            add_to_queries(f, panel, &o);
    }
}

/* Rows of sums to global memory. */
static __attribute__((noinline)) void store_sums(TILE const real *x, int stride, __global void *p, long row, int type,
                                                 int rows, int dims) {
    for (int i = 0; i < rows; i++) {
        int d = 0;
        for (; d + LANES <= dims; d += LANES)
            store_lanes(TILE_AT(0, x + i * stride + d), p, i * row + d, type);
        for (; d < dims; d++)
            store_one(x[i * stride + d], p, i * row + d, type);
    }
}
/* Where gradients go: the rows of the batch's first query head that the work-item owns, and of its key head. */
typedef struct {
    __global real *dq;
    __global void *dk, *dv;
    __global real *room; /* with DEEP */
    int hk, split;
} share;

/* A function of its own, since PoCL compiles three times what is inlined into a kernel. */
static __attribute__((noinline)) void differentiate(const cla_lanes_backward_args *a, const cla_masks *m, const batch *w,
                                                    const share *to) {
    const cla_attention_args *f = &a->in.forward;
    const int ds = padded(f->D), vs = padded(f->Dv);
#if DEEP
    __global real *kt = to->room, *k = kt + BM * ds, *dk = k + BM * ds, *vt = dk + BM * ds, *dv = vt + BM * vs;
    __global real *q = dv + BM * vs, *dq = q + BQ * ds, *g = dq + (BQ + RO) * ds;
#else
    real kt[BM * DC] __attribute__((aligned(64))), vt[BM * DC] __attribute__((aligned(64)));
    real k[BM * DC] __attribute__((aligned(64)));
    real dk[BM * DC] __attribute__((aligned(64))), dv[BM * DC] __attribute__((aligned(64)));
    real q[BQ * DC] __attribute__((aligned(64))), g[BQ * DC] __attribute__((aligned(64)));
    real dq[(BQ + RO) * DC] __attribute__((aligned(64)));
#endif
    real P[BQ * W] __attribute__((aligned(64))), S[(BQ + RO) * W] __attribute__((aligned(64)));
    real top[BQ], inv[BQ], del[BQ];
    int lo[BQ], hi[BQ];
#if MASKS & 2
    real added[BQ * W] __attribute__((aligned(64)));
#else
    real *added = 0;
#endif
    differential t = {{.q = q, .g = g, .kt = kt, .vt = vt, .P = P, .S = S, .added = added, .top = top, .inv = inv,
                       .del = del, .lo = lo, .hi = hi, .m = m, .a = f, .b = w->b, .ds = ds, .vs = vs, .scale = SCALE_OF(*f)},
                      k, dk, dv, dq, a->wanted};
    clear(dq, (BQ + RO) * ds);
    clear_block(&t.x);
    for (int h = 0; (a->wanted & CLA_WANTS_DQ) && h < f->group; h++)
        for (int i = 0; i < w->N; i += BQ)
            store_sums(dq, ds, to->dq + h * a->sums_h + i * a->sums_i, a->sums_i, CLA_REAL_TYPE, min(BQ, w->N - i), f->D);
    for (int j0 = to->split * BM; j0 < w->M; j0 += a->splits * BM) {
        const int keys = min(BM, w->M - j0), whole = (keys + W - 1) / W * W;
        t.x.j0 = j0;
        const int2 seers = seers_of(&t.x, w, keys);
        const int special = seers.x < seers.y ? load_tile(&t.x, w, k, dv, to->hk, keys) : 0;
        clear(dk, whole * ds);
        clear(dv, whole * vs);
        for (int h = 0; h < f->group; h++)
            for (int i0 = seers.x / BQ * BQ; i0 < seers.y; i0 += BQ) {
                const int rows = min(BQ, w->N - i0);
                __global real *sums = to->dq + h * a->sums_h + i0 * a->sums_i;
                t.x.h = to->hk * f->group + h;
                t.x.i0 = i0;
                const int here = load_block(&t.x, w, &a->in, rows);
                if (a->wanted & CLA_WANTS_DQ)
                    stage(dq, ds, sums, a->sums_i, CLA_REAL_TYPE, rows, f->D);
                meet(&t, keys, rows, special | here);
                if (a->wanted & CLA_WANTS_DQ)
                    store_sums(dq, ds, sums, a->sums_i, CLA_REAL_TYPE, rows, f->D);
            }
        if (a->wanted & CLA_WANTS_DK)
            store_sums(dk, ds, (__global void *)cla_at(to->dk, j0 * a->dk_j, a->dk_type), a->dk_j, a->dk_type, keys, f->D);
        if (a->wanted & CLA_WANTS_DV)
            store_sums(dv, vs, (__global void *)cla_at(to->dv, j0 * a->dv_j, a->dv_type), a->dv_j, a->dv_type, keys, f->Dv);
    }
}

/* dK and dV of a key head, and dQ of its query heads, or the part of it that the split's keys give (DQ, numbers of the
 * type of the sums at sums_*).
 *   Groups  splits * Hk * B of one work-item.   Needs  N, M >= 1; last strides are 1; D of attention_lanes_prepare in DEL.
 *   Source  Dao 2023 (weights again from what the forward pass keeps of each row). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes_backward(__global const void *Q, __global const void *K, __global const void *V,
                              __global const void *G, __global const real *STATE, __global const real *DEL,
                              __global const cla_span *spans, __global const uchar *keep, __global const uchar *drop,
                              __global const void *bias, __global const float *slopes, __global const int *q_segments,
                              __global const int *k_segments, __global real *DQ, __global void *DK, __global void *DV,
                              __global real *room, const cla_lanes_backward_args a) {
    const cla_attention_args *f = &a.in.forward;
    const int heads = f->H / f->group;
    const long group = CLA_GROUP, row = group / a.splits, b = row / heads, hk = row - b * heads;
    const cla_masks m = {&f->mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    batch w;
    find_batch(&w, (int)b, &a.in, Q, K, V, G, STATE, DEL, spans);
    share to = {.hk = (int)hk, .split = (int)(group - row * a.splits)};
    to.dq = DQ + a.sums_0 + to.split * a.sums_s + b * a.sums_b + hk * f->group * a.sums_h + w.q_row * a.sums_i;
    to.dk = (__global void *)cla_at(DK, a.dk_0 + b * a.dk_b + hk * a.dk_h + w.k_row * a.dk_j, a.dk_type);
    to.dv = (__global void *)cla_at(DV, a.dv_0 + b * a.dv_b + hk * a.dv_h + w.k_row * a.dv_j, a.dv_type);
    to.room = room + a.in.room_0 + group * a.in.room;
    differentiate(&a, &m, &w, &to);
}

/* x[i] = `dims` numbers of each of `rows` rows. */
static __attribute__((noinline)) void stage_lanes(vec *x, __global const void *p, long row, int type, int rows, int dims) {
    for (int i = 0; i < rows; i++) {
        vec y = (vec)(R(0.0));
        if (dims == LANES)
            y = load_lanes(p, i * row, type);
        for (int e = 0; dims < LANES && e < dims; e++)
            ((real *)&y)[e] = load_one(p, i * row + e, type);
        x[i] = y;
    }
}

/* DEL[b,h,i] = sum_e dO O, in the order of dO V^T: where O is exactly one row of V, dP - D is exactly 0.
 *   Groups  blocks * H * B of one work-item, each of which owns CLA_LANES_ROWS rows, LANES at a time, one a lane. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes_prepare(__global const void *O, __global const void *G, __global real *DEL,
                             __global const cla_span *spans, const cla_lanes_backward_args a) {
    const cla_attention_args *f = &a.in.forward;
    const int blocks = (f->N + CLA_LANES_ROWS - 1) / CLA_LANES_ROWS;
    const long group = CLA_GROUP, row = group / blocks, b = row / f->H, h = row - b * f->H;
    const long q_row = f->ragged ? spans[b].q_row : 0;
    const int N = f->ragged ? spans[b].queries : f->N, first = (int)(group - row * blocks) * CLA_LANES_ROWS;
    __global const void *o = cla_at(O, f->o_0 + b * f->o_b + h * f->o_h + q_row * f->o_i, f->o_type);
    __global const void *g = cla_at(G, a.in.g_0 + b * a.in.g_b + h * a.in.g_h + q_row * a.in.g_i, a.in.g_type);
    __global real *del = DEL + a.in.del_0 + b * a.in.del_b + h * a.in.del_h + q_row;
    for (int i0 = first; i0 < min(first + CLA_LANES_ROWS, N); i0 += LANES) {
        const int rows = min(LANES, N - i0);
        vec x[LANES], y[LANES], s = (vec)(R(0.0));
        EACH(i, LANES) x[i] = y[i] = (vec)(R(0.0));
        for (int d = 0; d < f->Dv; d += LANES) {
            const int dims = min(LANES, f->Dv - d);
            stage_lanes(x, cla_at(o, i0 * f->o_i + d, f->o_type), f->o_i, f->o_type, rows, dims);
            stage_lanes(y, cla_at(g, i0 * a.in.g_i + d, a.in.g_type), a.in.g_i, a.in.g_type, rows, dims);
            transpose(x);
            transpose(y);
            EACH(i, LANES) s = fma(y[i], x[i], s);
        }
        store_some(s, del, i0, 1, rows, CLA_REAL_TYPE);
    }
}

/* dQ = the sum of the splits' parts, in their order.   Groups  blocks * H * B of one work-item, of CLA_LANES_ROWS rows each. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes_reduce(__global const real *parts, __global void *DQ, __global const cla_span *spans,
                            const cla_lanes_backward_args a, const cla_lanes_result_args to) {
    const cla_attention_args *f = &a.in.forward;
    const int blocks = (f->N + CLA_LANES_ROWS - 1) / CLA_LANES_ROWS;
    const long group = CLA_GROUP, row = group / blocks, b = row / f->H, h = row - b * f->H;
    const long q_row = f->ragged ? spans[b].q_row : 0;
    const int N = f->ragged ? spans[b].queries : f->N, first = (int)(group - row * blocks) * CLA_LANES_ROWS;
    __global const real *part = parts + a.sums_0 + b * a.sums_b + h * a.sums_h + q_row * a.sums_i;
    __global void *out = (__global void *)cla_at(DQ, to.dq_0 + b * to.dq_b + h * to.dq_h + q_row * to.dq_i, to.dq_type);
    for (int i = first; i < min(first + CLA_LANES_ROWS, N); i++) {
        int d = 0;
        for (; d + LANES <= f->D; d += LANES) {
            vec s = LOAD(0, part + i * a.sums_i + d);
            for (int p = 1; p < a.splits; p++)
                s += LOAD(0, part + p * a.sums_s + i * a.sums_i + d);
            store_lanes(s, out, i * to.dq_i + d, to.dq_type);
        }
        for (; d < f->D; d++) {
            real s = part[i * a.sums_i + d];
            for (int p = 1; p < a.splits; p++)
                s += part[p * a.sums_s + i * a.sums_i + d];
            store_one(s, out, i * to.dq_i + d, to.dq_type);
        }
    }
}

/* dSink[h] = -sum of exp(sink - m) / l D over batches and queries.   Groups  H of one work-item. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes_sinks(__global const real *sinks, __global const real *STATE, __global const real *DEL,
                           __global const cla_span *spans, __global void *DS, const cla_lanes_backward_args a,
                           const cla_lanes_result_args to) {
    const cla_attention_args *f = &a.in.forward;
    const int h = (int)CLA_GROUP;
    const real sink = sinks[f->mask.sinks_0 + h];
    real total = R(0.0);
    for (int b = 0; b < a.in.B; b++) {
        const long q_row = f->ragged ? spans[b].q_row : 0;
        const int N = f->ragged ? spans[b].queries : f->N;
        __global const real *state = STATE + f->st_0 + b * f->st_b + h * f->st_h + q_row * f->st_i;
        __global const real *del = DEL + a.in.del_0 + b * a.in.del_b + h * a.in.del_h + q_row;
        real batch = R(0.0);
        for (int i0 = 0; i0 < N; i0 += CLA_LANES_ROWS) {
            real sum = R(0.0);
            for (int i = i0; i < min(i0 + CLA_LANES_ROWS, N); i++) {
                const real m = state[i * f->st_i], inv = state[i * f->st_i + 1];
                if (inv != R(0.0) && sink != -INFINITY) /* D of a query without keys may be NaN */
                    sum = fma(exp(sink - m) * inv, del[i], sum);
            }
            batch += sum;
        }
        total += batch;
    }
    store_one(total == R(0.0) ? R(0.0) : -total, DS, to.sinks_0 + h * to.sinks_h, to.sinks_type);
}
