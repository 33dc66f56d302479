/* SPDX-License-Identifier: Apache-2.0 */
/* Fused attention for CPU-class devices. One work-item, alone in its group, owns `rows` queries of one head (and `columns`
 * value columns); LANES ARE QUERIES: it transposes its queries once and computes S^T[key][query] = K[key][d] (a scalar)
 * x Q^T[d][W queries], so K is read as it lies, softmax has no horizontal reduction, and key tails are loop bounds.
 * Keys are walked BN at a time; the running maximum is raised only when a score passes it by RAISE. A tile with all its
 * keys in one block keeps no running state: its outputs are stored from registers.
 * Key: REAL; LANES JV (a panel is W = LANES * JV queries), R1 (keys a block of scores), RO OV (rows x vectors of a block of
 * O); BM BN; DC VC: most dims and value columns; DEEP 1: D may exceed DC; MASKS: bit 0 interval, bit 1 score masks,
 * bit 2 those as pack_added left them, once for all heads;
 * STAGED 1: storage may be of any type, quantised or paged: keys and values pass through private copies; DROPOUT.
 * Private memory: BM (DC + VC) + BN (W (1 + tensor) + LANES or DC + VC) + ... numbers. No local memory, no barriers.
 * Special: a score of -inf is excluded; its value is selected away. That is done only in tiles whose outputs are not
 * finite, which are computed once more for it. */
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

#if MASKS & 2
/* With a soft cap: what score_block does last, in a pass of its own. */
INLINE void cap_scores(real *P, vec t[JV], const work *w, const cla_mask_args *a, const ranges *r, int panel, int n,
                       int j0, int bn, ADDED const real *added) {
    const real cap = OF_BITS(a->softcap_bits, a->softcap);
    for (int j = j0; j < bn; j++)
        for (int b = 0; b < JV; b++) {
            const vec x = LOAD(b, added + j * W);
            vec s = cap * tanh(LOAD(b, P + j * W) * w->scale / cap) + x;
            s = select(s, (vec)(-INFINITY), x == (vec)(-INFINITY));
#if MASKS & 1
            s = select((vec)(-INFINITY), s,
                       ((ivec)(n + j) >= LOAD(b, r->lo + panel * W)) & ((ivec)(n + j) < LOAD(b, r->hi + panel * W)));
#endif
            t[b] = select(t[b], s, s > t[b]);
            STORE(s, b, P + j * W);
        }
}
#endif

/* Queries of one panel, at qp or transposed into it, against keys n .. n + bn. `ks`: their staged copy, or room for
 * slices of it. */
INLINE void score_panel(real *P, vec t[JV], real *qp, const work *w, real *ks, const ranges *r, int panel, int n,
                        int j0, int bn, const cla_masks *m, ADDED const real *added) {
    const int last = !(m->a->softcap > 0.0f);
    score_job x = {.q = qp, .k_j = w->k_j, .n = n, .j0 = j0, .bn = bn, .panel = panel, .r = r, .added = added, .w = w};
    x.scale = w->scale;
    x.shares = (w->rows + W - 1) / W;
    for (int d0 = 0; d0 < w->D; d0 += DEEP ? DC : w->D) {
        x.dims = DEEP ? min(DC, w->D - d0) : w->D;
        x.more = d0 > 0;
        x.last = last && d0 + x.dims >= w->D;
#if DEEP
        transpose_queries(qp, w, panel * W, 1, d0, x.dims); /* again, DC dims at a time */
#endif
#if STAGED
#if DEEP
        stage(ks, x.dims, w, w->k, w->k_type, w->k_j, w->k_page, n, j0, bn, d0, x.dims);
#endif
        x.k = ks;
        x.k_j = x.dims;
#else
        x.k = (__global const real *)w->k + n * w->k_j + d0;
#endif
        if (JV > 1 && w->rows - panel * W <= LANES)
            score_keys(P, t, &x, NARROW, 1);
        else
            score_keys(P, t, &x, R1, JV);
    }
#if MASKS & 2
    if (!last)
        cap_scores(P, t, w, m->a, r, panel, n, j0, bn, added);
#endif
}

typedef struct {
    __global void *o;
    __global real *lse, *state; /* NULL: not asked for */
    long o_i, lse_i, st_i;
    int o_type, has_sink;
    real sink; /* -inf: none; LSE of a row that sees no key */
} outputs;

/* factor[i] = what sums of P V of row i of a panel are multiplied by. Stores LSE and state. */
INLINE void finish_rows(real *factor, const real *m, const real *l, int i0, int rows, const outputs *out) {
    EACH(b, JV) {
        vec top = AT(b, m), sum = AT(b, l), shrink = (vec)(R(1.0));
        if (out->has_sink) { /* a logit without a value */
            const vec sink = (vec)(out->sink), high = select(top, sink, sink > top);
            shrink = select(exp(top - high), (vec)(R(0.0)), top == (vec)(-INFINITY));
            sum = sum * shrink + exp(sink - high);
            top = high;
        }
        AT(b, factor) = select(shrink / sum, (vec)(R(0.0)), AT(b, l) == (vec)(R(0.0)));
        if (out->lse && b * LANES < rows) {
            real lse[LANES] __attribute__((aligned(64)));
            AT(0, lse) = select(top + log(sum), (vec)(out->sink), AT(b, l) == (vec)(R(0.0)));
            for (int a = 0; a < min(LANES, rows - b * LANES); a++)
                out->lse[(i0 + b * LANES + a) * out->lse_i] = lse[a];
        }
        if (out->state && b * LANES < rows) {
            real tops[LANES] __attribute__((aligned(64))), sums[LANES] __attribute__((aligned(64)));
            AT(0, tops) = top;
            AT(0, sums) = sum;
            for (int a = 0; a < min(LANES, rows - b * LANES); a++)
                cla_store_state(out->state + (i0 + b * LANES + a) * out->st_i, tops[a], sums[a],
                                l[b * LANES + a] == R(0.0));
        }
    }
}

INLINE void store_rows(const real *o, int stride, const real *factor, int cols, int i0, int rows, const outputs *out,
                       vec *check) {
    for (int i = 0; i < rows; i++) {
        const real x = factor[i];
        int e = 0;
        for (; e + LANES <= cols; e += LANES) {
            const vec y = AT(0, o + i * stride + e) * x;
            *check += y;
            store_outputs(y, out->o, (i0 + i) * out->o_i + e, out->o_type);
        }
        for (; e < cols; e++) {
            const real y = o[i * stride + e] * x;
            (*check).s0 += y;
            cla_store(out->o, (i0 + i) * out->o_i + e, out->o_type, y);
        }
    }
}

/* Whether the score masks let any query of the panel see any of the keys. */
INLINE int any_seen(ADDED const real *added, int j0, int bn) {
    int seen = 0;
    for (int x = j0 * JV; x < bn * JV && !seen; x++)
        seen = any(LOAD(x, added) != (vec)(-INFINITY));
    return seen;
}

/* Weights of a panel relative to its running maxima: P, m and l after keys n + j0 .. n + bn; l before dropout. */
INLINE void weigh_panel(real *P, const work *w, const cla_masks *m, const ranges *r, int panel, real *qp, real *ks,
                        ADDED const real *added, real *top, real *l, real *o, int stride, int n, int j0, int bn,
                        int special) {
    vec t[JV];
    EACH(b, JV) t[b] = (vec)(-INFINITY);
    score_panel(P, t, qp, w, ks, r, panel, n, j0, bn, m, added);
    raise_maxima(top, l, o, stride, t);
    if (!special && JV > 1 && w->rows - panel * W <= LANES)
        soften_narrow(P, top, l, j0, bn);
    else
        soften(P, top, l, j0, bn, special);
#if DROPOUT
    drop_weights(P, w, panel, n, j0, bn);
#endif
}

/* *blocks: how many blocks of keys it computed, over the panels. Returns whether all outputs are finite. `careful`:
 * values of excluded keys are selected away in blocks that hold NaN or Inf; else they make NaN of the outputs. A function
 * of its own, since PoCL compiles three times what is inlined into a kernel. */
static __attribute__((noinline)) int attend_once(const work *w, const cla_masks *m, const outputs *out, int careful,
                                                 int *blocks) {
    real qt[BM * DC] __attribute__((aligned(64)));
    real o[BM * VC] __attribute__((aligned(64)));
    real P[(BN + SPARE) * W] __attribute__((aligned(64)));
    real top[BM] __attribute__((aligned(64))), l[BM] __attribute__((aligned(64))),
        factor[W] __attribute__((aligned(64)));
#if (MASKS & 6) == 2
    real added[BN * W] __attribute__((aligned(64)));
#else
    ADDED const real *added = 0;
#endif
#if STAGED
    real ks[BN * DC] __attribute__((aligned(64))), vs[BN * VC] __attribute__((aligned(64)));
    const real *tail = 0;
#else
    real *ks = 0;
    real tail[BN * LANES] __attribute__((aligned(64)));
#endif
    ranges r;
    vec check = (vec)(R(0.0));
    const int panels = (w->rows + W - 1) / W, stride = (w->cols + LANES - 1) / LANES * LANES;
    r.first = 0;
    r.end = m->a->M;
#if MASKS & 1
    find_ranges(&r, w, m, panels);
#endif
    /* Blocks start at multiples of BN, whatever the tile's other rows see: when a row's maximum rises depends on it. */
    const int start = r.first / BN * BN, single = r.first < r.end && r.end <= start + BN &&
                                                  (!STAGED || (out->o_type == CLA_REAL_TYPE && w->cols == stride));
    for (int i = 0; i < panels * W; i++) {
        top[i] = -INFINITY;
        l[i] = R(0.0);
    }
    for (int i = 0; !single && i < panels * W * stride; i += LANES)
        AT(0, o + i) = (vec)(R(0.0));
    /* Of a narrow last panel one vector of scores is computed; the others are of no query, but numbers. */
    for (int i = 0; w->rows - (panels - 1) * W <= LANES && i < (min(BN, r.end - start) + SPARE) * JV; i++)
        AT(i, P) = (vec)(R(0.0));
#if !DEEP
    if (!single)
        transpose_queries(qt, w, 0, panels, 0, w->D);
#endif
    for (int n = start; n < r.end; n += BN) {
        const int from = max(0, r.first - n), keys = min(BN, r.end - n);
#if STAGED
#if !DEEP
        stage(ks, w->D, w, w->k, w->k_type, w->k_j, w->k_page, n, from, keys, 0, w->D);
#endif
        stage(vs, stride, w, w->v, w->v_type, w->v_j, w->v_page, n, from, keys, 0, w->cols);
        KEYS const real *v = vs;
        const long v_j = stride;
        const int cols = stride;
#else
        KEYS const real *v = (__global const real *)w->v + n * w->v_j;
        const long v_j = w->v_j;
        const int cols = w->cols;
        pad_values(tail, cols, v, v_j, from, keys);
#endif
        const int special = careful && are_special(v, v_j, cols, from, keys);
        for (int p = 0; p < panels; p++) {
            const int rows = min(W, w->rows - p * W);
            real *qp = qt, *op = o + p * W * stride, *mp = top + p * W, *lp = l + p * W;
            int j0 = from, bn = keys;
#if MASKS & 1
            j0 = max(0, r.some_lo[p] - n);
            bn = min(keys, r.some_hi[p] - n);
#endif
            int seen = j0 < bn;
#if MASKS & 2
            if (seen) {
#if MASKS & 4
                added = w->added + ((long)(w->i0 / W + p) * w->M + n) * W;
#else
                fill_added(added, m, w, p, n, j0, bn);
#endif
                seen = any_seen(added, j0, bn);
            }
#endif
            if (seen) {
#if !DEEP
                if (single)
                    transpose_queries(qt, w, p * W, 1, 0, w->D);
                else
                    qp = qt + p * W * w->D;
#endif
                weigh_panel(P, w, m, &r, p, qp, ks, added, mp, lp, op, stride, n, j0, bn, special);
                *blocks += 1;
            } else if (!single)
                continue;
            if (single)
                finish_rows(factor, mp, lp, p * W, rows, out);
            value_job x = {op, stride, rows, j0, seen ? bn : j0, P, single ? factor : 0, 0, out->o_i, &check};
            x.out = (__global real *)out->o + p * W * out->o_i;
            if (!special) {
                multiply_values(&x, cols, v, v_j, tail);
                continue;
            }
            for (int i = 0; single && i < W * stride; i += LANES)
                AT(0, op + i) = (vec)(R(0.0));
            select_values(op, stride, P, cols, v, v_j, rows, x.j0, x.bn);
            if (single)
                store_rows(op, stride, factor, w->cols, p * W, rows, out, &check);
        }
    }
    for (int p = 0; !single && p < panels; p++) {
        const int rows = min(W, w->rows - p * W);
        finish_rows(factor, top + p * W, l + p * W, p * W, rows, out);
        store_rows(o + p * W * stride, stride, factor, w->cols, p * W, rows, out, &check);
    }
    return !any(isnan(check - check));
}

/* The last tile, the first, the last but one ...: tiles that see more keys than others lie everywhere in the order.
 * Some implementations hand halves of the groups to threads. */
INLINE int spread(int tile, int tiles) { return tile & 1 ? tile >> 1 : tiles - 1 - (tile >> 1); }

/* O[b,h,i,:] = sum_j P V over the keys that i sees; LSE[b,h,i] = m + ln l, -inf for a row that sees none; STATE[b,h,i] =
 * (m, 1 / l), zeros for such a row.
 *   Groups  tiles * chunks * H * B of one work-item.   Needs  N, M >= 1; last strides of Q K V O are 1.
 *   Source  Milakov & Gimelshein 2018 (online softmax), Dao 2023 (query tiles outside, key tiles inside). */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void attention_lanes(__global const void *Q, __global const void *K, __global const void *V, __global void *O,
                     __global real *LSE, __global real *STATE, __global const cla_span *spans, __global const uchar *keep,
                     __global const uchar *drop, __global const void *bias, __global const float *slopes,
                     __global const int *q_segments, __global const int *k_segments, __global const real *sinks,
                     __global const int *table, __global uint *counts,
#if MASKS & 4
                     __global const real *packed,
#endif
                     const cla_attention_args a) {
    /* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
    const long group = CLA_GROUP, row = group / a.tiles, head = row / a.chunks;
    const int tile = (int)(group - row * a.tiles), chunk = (int)(row - head * a.chunks);
    const int b = (int)(head / a.H), h = (int)(head - (long)b * a.H);
    const long hk = h / a.group, i0 = (long)(a.long_first ? spread(tile, a.tiles) : tile) * a.rows;
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
    w.b = b, w.h = h, w.i0 = (int)i0, w.rows = (int)min((long)a.rows, N - i0), w.M = a.M, w.D = a.D;
    w.cols = (int)min((long)a.columns, a.Dv - column);
    w.scale = SCALE_OF(a);
    w.a = &a;
#if MASKS & 4
    w.added = packed + a.added_0 + b * a.added_b;
#endif
    outputs out = {.o_i = a.o_i, .lse_i = a.lse_i, .st_i = a.st_i, .o_type = a.o_type};
    out.sink = a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : -INFINITY;
    out.has_sink = out.sink != -INFINITY;
    out.o = (__global void *)cla_at(O, a.o_0 + b * a.o_b + h * a.o_h + q_row * a.o_i + column, a.o_type);
    out.lse = a.has_lse && chunk == 0 ? LSE + a.lse_0 + b * a.lse_b + h * a.lse_h + q_row * a.lse_i : 0;
    out.state = a.has_state && chunk == 0 ? STATE + a.st_0 + b * a.st_b + h * a.st_h + q_row * a.st_i : 0;
    w.o = (__global real *)out.o, w.o_i = a.o_i;
    w.next_q = w.next_k = w.next_v = 0;
#if !STAGED
    if (a.tiles == 1 && a.chunks == 1 && !a.ragged && a.M <= BN && group + 1 < (long)get_num_groups(0)) {
        const int h1 = h + 1 < a.H ? h + 1 : 0, b1 = h1 == 0 ? b + 1 : b, hk1 = h1 / a.group;
        w.next_q = (__global const real *)Q + a.q_0 + b1 * a.q_b + h1 * a.q_h;
        w.next_k = (__global const real *)K + a.k_0 + b1 * a.k_b + hk1 * a.k_h;
        w.next_v = (__global const real *)V + a.v_0 + b1 * a.v_b + hk1 * a.v_h;
    }
#endif
    int blocks = 0;
    if (!attend_once(&w, &m, &out, 0, &blocks)) {
        blocks = 0;
        attend_once(&w, &m, &out, 1, &blocks);
    }
    if (a.has_counts) {
        const int keys = a.ragged ? spans[b].keys : a.M, all = (w.rows + W - 1) / W * ((keys + BN - 1) / BN);
        cla_count_blocks(counts, blocks, all - blocks);
    }
}

#if MASKS & 4
/* packed[b][panel][j][W] = what the score masks add to the scores of a panel's queries and key j, in all heads. Queries
 * past the end repeat the last one.
 *   Groups  panels * blocks of BN keys * batches that differ, of one work-item.   Private memory  BN W numbers.
 *   Needs   no slopes, no segments; head strides of 0. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void pack_added(__global const uchar *keep, __global const uchar *drop, __global const void *bias,
                __global real *packed, const cla_attention_args a) {
    real added[BN * W] __attribute__((aligned(64)));
    const int panels = (a.N + W - 1) / W, blocks = (a.M + BN - 1) / BN;
    const long group = CLA_GROUP, row = group / blocks, b = row / panels;
    const int n = (int)(group - row * blocks) * BN, keys = min(BN, a.M - n), panel = (int)(row - b * panels);
    const cla_masks m = {&a.mask, 0, keep, drop, bias, 0, 0, 0};
    __global real *out = packed + a.added_0 + b * a.added_b + ((long)panel * a.M + n) * W;
    work w;
    w.b = (int)b, w.h = 0, w.i0 = 0, w.rows = a.N;
    fill_added(added, &m, &w, panel, n, 0, keys);
    for (int x = 0; x < keys * JV; x++)
        STORE(AT(x, added), x, out);
}
#endif
