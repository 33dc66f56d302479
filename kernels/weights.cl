/* SPDX-License-Identifier: Apache-2.0 */
/* Weights for the caller after a fused kernel, and what is made of them, without a buffer of N x M: scores are computed
 * again from Q and K, a tile of TQ queries x TK keys at a time, in local memory; LANES ARE KEYS.
 *   weights_sums     a group owns a tile of rows: the maximum and sum of each, and its entropy
 *   weights_rows     a group owns a tile of the output, in any form; all heads of it, in order, for the mean
 *   weights_columns  a group owns TK keys of a head and a chunk of queries, whose tiles it adds in order
 *   weights_add      a work-item adds the chunks of one column, in order
 * Key: REAL; LANES; STAGED 1; WG; TQ TK; DS: dims of a slice of Q and K; RQ RV: rows x vectors of a block of scores;
 * HINT: attributes.
 * Local memory: TQ DS + DS TK + TQ TK numbers and 3 TQ ints; TQ TK numbers more in weights_rows, 3 TQ LANES in
 * weights_sums, TK in weights_columns.
 * Every work-item reaches every barrier: what decides about them is the same in all of a group. A row's bits depend on
 * its own keys alone: tiles of keys start at multiples of TK, and lanes are joined in order. */
#define BLOCK_KEYS (LANES * RV)
#if TQ % RQ || TK % BLOCK_KEYS || DS % LANES
#error "weights: impossible key"
#endif
#if REAL == 64
#define WHOLE_STEPS PASTE(convert_long, LANES)(STEPS)
#else
#define WHOLE_STEPS PASTE(convert_int, LANES)(STEPS)
#endif
#define NONE (vec)(-INFINITY)

typedef struct {
    __local real *q, *k, *s;    /* [TQ][DS], [DS][TK], [TQ][TK] */
    __local int *row, *lo, *hi; /* of each row of the tile: its query, and the keys that it sees */
} room;

/* A tile of rows of one head. */
typedef struct {
    const cla_weights_args *a;
    const cla_masks *m;
    __global const void *q, *k; /* first query and key of the head, of the sequence */
    __global const int *table;
    int b, h, rows;  /* queries of the tile */
    int first, end;  /* the keys that some row sees */
    int stored;      /* keys that there are */
} tile;

static inline long first_row(const cla_weights_args *a, __global const cla_span *spans, int b, int keys) {
    return !a->ragged ? 0 : keys ? spans[b].k_row : spans[b].q_row;
}

/* The rows of tile n of head h; a barrier comes after it. None where a sequence has ended. */
static inline void take_rows(tile *t, const room *l, __global const int *queries, int n) {
    const cla_weights_args *a = t->a;
    const int count = a->ragged ? t->m->spans[t->b].queries : a->queries;
    t->rows = min(TQ, count - n * TQ);
    for (int r = get_local_id(0); r < t->rows; r += WG) {
        const int i = a->has_queries ? queries[n * TQ + r] : n * TQ + r;
        const int2 seen = a->interval ? cla_keys_of(t->m, t->b, i) : (int2)(0, a->M);
        l->row[r] = i;
        l->lo[r] = seen.x;
        l->hi[r] = seen.y;
    }
}

static inline void take_hull(tile *t, const room *l) {
    t->first = t->a->M;
    t->end = 0;
    for (int r = 0; r < t->rows; r++) {
        t->first = min(t->first, l->lo[r]);
        t->end = max(t->end, l->hi[r]);
    }
}

static inline void take_head(tile *t, __global const void *Q, __global const void *K, int h) {
    const cla_weights_args *a = t->a;
    __global const cla_span *spans = t->m->spans;
    t->h = h;
    t->q = cla_at(Q, a->q_0 + t->b * a->q_b + h * a->q_h + first_row(a, spans, t->b, 0) * a->q_i, a->q_type);
    t->k = cla_at(K, a->k_0 + t->b * a->k_b + h / a->group * a->k_h + first_row(a, spans, t->b, 1) * a->k_j, a->k_type);
    t->stored = a->paged || a->ragged ? spans[t->b].keys : a->M;
}

/* ---- scores ---- */

/* Rows [0, rows) of Q, dims [d0, d0 + dims), up to whole blocks: the last row again. */
static inline void stage_queries(const tile *t, const room *l, int d0, int dims) {
    const int all = (t->rows + RQ - 1) / RQ * RQ * (DS / LANES);
    for (int x = get_local_id(0); x < all; x += WG) {
        const int r = x / (DS / LANES), d = (x - r * (DS / LANES)) * LANES;
        const long at = l->row[min(r, t->rows - 1)] * t->a->q_i + d0;
        __local real *to = l->q + r * DS;
        if (d + LANES <= dims)
            STORE(load_lanes(t->q, at + d, t->a->q_type), 0, to + d);
        else
            for (int e = d; e < dims; e++)
                to[e] = load_one(t->q, at + e, t->a->q_type);
    }
}

/* Keys n .. n + TK, transposed; keys past the end repeat the last. */
static inline void stage_keys(const tile *t, const room *l, int n, int d0, int dims) {
    const cla_weights_args *a = t->a;
    for (int x = get_local_id(0); x < (TK / LANES) * (DS / LANES); x += WG) {
        const int g = x / (DS / LANES), d = (x - g * (DS / LANES)) * LANES, j = g * LANES;
        long at[LANES];
        for (int c = 0; c < LANES && d < dims; c++)
            at[c] = cla_row_at(t->table, a->page_size, min(n + j + c, t->stored - 1), a->k_j, a->k_page) + d0;
        if (d + LANES <= dims) {
            vec y[LANES];
            EACH(c, LANES) y[c] = load_lanes(t->k, at[c] + d, a->k_type);
            transpose(y);
            EACH(c, LANES) STORE(y[c], 0, l->k + (d + c) * TK + j);
        } else {
            for (int e = d; e < dims; e++)
                for (int c = 0; c < LANES; c++)
                    l->k[e * TK + j + c] = load_one(t->k, at[c] + e, a->k_type);
        }
    }
}

/* S = Q K^T, unscaled, of the tile's rows and keys n .. n + TK, each slice of D summed apart. Ends with a barrier. */
static inline void multiply(const tile *t, const room *l, int n) {
    const int blocks = (t->rows + RQ - 1) / RQ * (TK / BLOCK_KEYS);
    for (int d0 = 0; d0 < t->a->D; d0 += DS) {
        const int dims = min(DS, t->a->D - d0);
        stage_queries(t, l, d0, dims);
        stage_keys(t, l, n, d0, dims);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int x = get_local_id(0); x < blocks; x += WG) {
            const int y = x / (TK / BLOCK_KEYS), r = y * RQ, j = (x - y * (TK / BLOCK_KEYS)) * BLOCK_KEYS;
            __local const real *q = l->q + r * DS, *k = l->k + j;
            __local real *out = l->s + r * TK + j;
            vec s[RQ][RV];
            EACH(c, RQ) EACH(e, RV) s[c][e] = (vec)(R(0.0));
            for (int d = 0; d < dims; d++) {
                vec key[RV];
                EACH(e, RV) key[e] = LOAD(e, k + d * TK);
                EACH(c, RQ) {
                    const vec z = (vec)(q[c * DS + d]);
                    EACH(e, RV) s[c][e] = fma(z, key[e], s[c][e]);
                }
            }
            EACH(c, RQ) EACH(e, RV)
                STORE(d0 ? LOAD(e, out + c * TK) + s[c][e] : s[c][e], e, out + c * TK);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
}

/* What score masks add to LANES scores from key j on. */
static inline vec added_lanes(const tile *t, int i, int j) {
    const cla_mask_args *a = t->m->a;
    if (!a->has_keep && !a->has_drop && !a->has_bias && !a->has_slopes && !a->has_segments)
        return (vec)(R(0.0));
    if (masks_are_rows(a) && j + LANES <= a->M)
        return added_row(t->m, t->b, t->h, i, j);
    real x[LANES];
    for (int c = 0; c < LANES; c++)
        x[c] = j + c < a->M ? cla_added_to(t->m, t->b, t->h, i, j + c) : R(0.0);
    return LOAD(0, x);
}

/* Scores of row r of the tile in a form before the softmax, from key n + j on. */
static inline vec form_scores(const tile *t, const room *l, int form, int r, int n, int j) {
    const real cap = OF_BITS(t->a->mask.softcap_bits, t->a->mask.softcap);
    vec s = LOAD(0, l->s + r * TK + j) * SCALE_OF(*t->a);
    const ivec key = (ivec)(n + j) + WHOLE_STEPS;
    if (form != CLA_FORM_SCALED && cap > R(0.0))
        s = cap * tanh(s / cap);
    if (form != CLA_FORM_MASKED)
        return select(NONE, s, key < (ivec)(t->stored));
    const vec x = added_lanes(t, l->row[r], n + j);
    s = select(s + x, NONE, x == NONE);
    return select(NONE, s, (key >= (ivec)(l->lo[r])) & (key < (ivec)(l->hi[r])));
}

/* P of them. */
static inline vec weigh(const tile *t, const room *l, __global const real *sums, int r, int n, int j) {
    const long row = t->a->sum_0 / 2 + ((long)t->b * t->a->H + t->h) * t->a->N + l->row[r];
    const vec s = form_scores(t, l, CLA_FORM_MASKED, r, n, j);
    return select(exp_lanes(s - sums[2 * row]) / sums[2 * row + 1], (vec)(R(0.0)), s == NONE);
}

/* ---- sums of rows ---- */

/* Of each lane: maximum m, sum l of exp(s - m), and t of exp(s - m) (m - s). */
static inline void add_to_row(const tile *t, const room *l, __local real *state, int r, int n) {
    __local real *s = l->s + r * TK;
    const vec m = LOAD(0, state);
    vec top = m, sum = LOAD(1, state), spread = LOAD(2, state);
    for (int j = 0; j < TK; j += LANES) {
        const vec x = form_scores(t, l, CLA_FORM_MASKED, r, n, j);
        STORE(x, 0, s + j);
        top = select(top, x, x > top);
    }
    const vec base = select(top, (vec)(R(0.0)), top == NONE);
    const vec shrink = select(exp_lanes(m - base), (vec)(R(1.0)), m == top);
    spread = (spread + sum * select(base - m, (vec)(R(0.0)), m == NONE)) * shrink;
    sum *= shrink;
    for (int j = 0; j < TK; j += LANES) {
        const vec x = LOAD(0, s + j), e = exp_lanes(x - base);
        sum += e;
        spread += select(e * (base - x), (vec)(R(0.0)), e == (vec)(R(0.0)));
    }
    STORE(top, 0, state);
    STORE(sum, 1, state);
    STORE(spread, 2, state);
}

/* The lanes of a row together, and its sink. Returns its entropy. */
static inline real join_lanes(__local const real *state, real sink, __global real *sums) {
    const vec top = LOAD(0, state);
    real m = sink > -INFINITY ? sink : -INFINITY, l = R(0.0), spread = R(0.0), shrink[LANES], gap[LANES];
    int seen = 0; /* a key, whose score is a number */
    for (int c = 0; c < LANES; c++) {
        m = state[c] > m ? state[c] : m;
        seen |= state[c] > -INFINITY;
    }
    STORE(select(exp_lanes(top - m), (vec)(R(1.0)), top == (vec)(m)), 0, shrink);
    STORE(select((vec)(m) - top, (vec)(R(0.0)), top == NONE), 0, gap);
    for (int c = 0; c < LANES; c++) {
        l += state[LANES + c] * shrink[c];
        spread += (state[2 * LANES + c] + state[LANES + c] * gap[c]) * shrink[c];
    }
    const real keys = l;
    if (sink != -INFINITY) /* a logit without a key */
        l += exp(sink - m);
    sums[0] = m;
    sums[1] = l;
    return !seen && keys == R(0.0) ? R(0.0) : (keys * log(l) + spread) / l;
}

#define INPUTS                                                                                                         \
    __global const void *Q, __global const void *K, __global const cla_span *spans, __global const uchar *keep,        \
        __global const uchar *drop, __global const void *bias, __global const float *slopes,                           \
        __global const int *q_segments, __global const int *k_segments, __global const int *table,                     \
        __global const int *heads, __global const int *queries
#define ROOM                                                                                                           \
    __local real qs[TQ * DS], ks[DS * TK], scores[TQ * TK];                                                            \
    __local int rows[TQ], los[TQ], his[TQ];                                                                            \
    const room l = {qs, ks, scores, rows, los, his};                                                                   \
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments}

/* Groups: row tiles of a head, heads, batches. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void weights_sums(INPUTS, __global const real *sinks, __global real *sums, __global real *entropy,
                  const cla_weights_args a) {
    ROOM;
    __local real state[TQ * 3 * LANES];
    const int lid = (int)get_local_id(0);
    const long group = CLA_GROUP, head = group / a.row_tiles;
    tile t = {.a = &a, .m = &masks, .b = (int)(head / a.heads)};
    const int slot = (int)(head - (long)t.b * a.heads), h = a.has_heads ? heads[slot] : slot;
    t.table = table + (long)t.b * a.pages;
    take_rows(&t, &l, queries, (int)(group - head * a.row_tiles));
    take_head(&t, Q, K, h);
    for (int r = lid; r < t.rows; r += WG) {
        STORE(NONE, 0, state + r * 3 * LANES);
        STORE((vec)(R(0.0)), 1, state + r * 3 * LANES);
        STORE((vec)(R(0.0)), 2, state + r * 3 * LANES);
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    take_hull(&t, &l);
    for (int n = t.first / TK * TK; n < t.end; n += TK) {
        multiply(&t, &l, n);
        for (int r = lid; r < t.rows; r += WG)
            add_to_row(&t, &l, state + r * 3 * LANES, r, n);
    }
    for (int r = lid; r < t.rows; r += WG) {
        const long row = a.sum_0 / 2 + ((long)t.b * a.H + h) * a.N + rows[r];
        const real x = join_lanes(state + r * 3 * LANES, a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : -INFINITY,
                                  sums + 2 * row);
        if (a.has_entropy)
            entropy[a.e_0 + t.b * a.e_b + h * a.e_h + (first_row(&a, spans, t.b, 0) + rows[r]) * a.e_i] = x;
    }
}

/* Groups: key tiles, row tiles, heads (one with the mean), batches. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void weights_rows(INPUTS, __global const real *sums, __global real *weights, const cla_weights_args a) {
    ROOM;
    __local real mean[TQ * TK];
    const int lid = (int)get_local_id(0), slots = a.mean ? 1 : a.heads;
    const long group = CLA_GROUP, strip = group / a.key_tiles, head = strip / a.row_tiles;
    const int n = (int)(group - strip * a.key_tiles) * TK, row_tile = (int)(strip - head * a.row_tiles);
    tile t = {.a = &a, .m = &masks, .b = (int)(head / slots)};
    const int slot = (int)(head - (long)t.b * slots), masked = a.form == CLA_FORM_SOFTMAX || a.form == CLA_FORM_MASKED;
    __global real *out = weights + a.w_0 + t.b * a.w_b + slot * a.w_h + (long)row_tile * TQ * a.w_i + n * a.w_j;
    t.table = table + (long)t.b * a.pages;
    take_rows(&t, &l, queries, row_tile);
    barrier(CLK_LOCAL_MEM_FENCE);
    take_hull(&t, &l);
    for (int y = slot; y < (a.mean ? a.heads : slot + 1); y++) {
        const int last = y + 1 == (a.mean ? a.heads : slot + 1);
        take_head(&t, Q, K, a.has_heads ? heads[y] : y);
        const int empty = n >= t.stored || (masked && (n >= t.end || n + TK <= t.first));
        if (!empty)
            multiply(&t, &l, n);
        for (int x = lid; x < t.rows * (TK / LANES); x += WG) {
            const int r = x / (TK / LANES), j = (x - r * (TK / LANES)) * LANES;
            vec w = empty ? (vec)(a.form == CLA_FORM_SOFTMAX ? R(0.0) : -INFINITY)
                    : a.form == CLA_FORM_SOFTMAX ? weigh(&t, &l, sums, r, n, j)
                                                 : form_scores(&t, &l, a.form, r, n, j);
            if (a.mean) {
                w += y == 0 ? (vec)(R(0.0)) : LOAD(0, mean + r * TK + j);
                STORE(w, 0, mean + r * TK + j);
                w /= (real)a.heads;
            }
            real part[LANES];
            STORE(w, 0, part);
            if (last && a.w_j == 1 && n + j + LANES <= a.M)
                STORE(w, 0, out + r * a.w_i + j);
            else
                for (int c = 0; c < LANES && last && n + j + c < a.M; c++)
                    out[r * a.w_i + (j + c) * a.w_j] = part[c];
        }
    }
}

/* Groups: chunks of queries, key tiles, heads, batches. With one chunk it writes the column sums, else to scratch. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void weights_columns(INPUTS, __global const real *sums, __global real *columns, __global real *parts,
                     const cla_weights_args a) {
    ROOM;
    __local real total[TK];
    const int lid = (int)get_local_id(0);
    const long group = CLA_GROUP, strip = group / a.chunks, head = strip / a.key_tiles;
    const int n = (int)(strip - head * a.key_tiles) * TK, chunk = (int)(group - strip * a.chunks);
    tile t = {.a = &a, .m = &masks, .b = (int)(head / a.H)};
    t.table = table + (long)t.b * a.pages;
    take_head(&t, Q, K, (int)(head - (long)t.b * a.H));
    for (int x = lid; x < TK / LANES; x += WG)
        STORE((vec)(R(0.0)), x, total);
    for (int y = chunk * a.chunk_tiles; y < min((chunk + 1) * a.chunk_tiles, a.row_tiles); y++) {
        take_rows(&t, &l, queries, y);
        barrier(CLK_LOCAL_MEM_FENCE);
        take_hull(&t, &l);
        const int seen = n < t.end && n + TK > t.first;
        if (seen)
            multiply(&t, &l, n);
        for (int x = lid; x < t.rows * (TK / LANES) && seen; x += WG) {
            const int r = x / (TK / LANES), j = (x - r * (TK / LANES)) * LANES;
            STORE(weigh(&t, &l, sums, r, n, j), 0, l.s + r * TK + j);
        }
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int x = lid; x < TK / LANES && seen; x += WG) {
            vec sum = (vec)(R(0.0));
            for (int r = 0; r < t.rows; r++)
                sum += LOAD(x, l.s + r * TK);
            STORE(LOAD(x, total) + sum, x, total);
        }
    }
    barrier(CLK_LOCAL_MEM_FENCE);
    const int keys = a.ragged ? spans[t.b].keys : a.M;
    for (int j = lid; j < min(TK, keys - n); j += WG)
        if (a.chunks > 1)
            parts[a.part_0 + (head * a.chunks + chunk) * a.M + n + j] = total[j];
        else
            columns[a.c_0 + t.b * a.c_b + t.h * a.c_h + (first_row(&a, spans, t.b, 1) + n + j) * a.c_j] = total[j];
}

/* A work-item for each of [B, H, M]. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void weights_add(__global const real *parts, __global const cla_span *spans, __global real *columns,
                 const cla_weights_args a) {
    const long at = get_global_id(0), head = at / a.M;
    const int j = (int)(at - head * a.M), b = (int)(head / a.H), h = (int)(head - (long)b * a.H);
    if (b >= a.B || j >= (a.ragged ? spans[b].keys : a.M))
        return;
    real sum = R(0.0);
    for (int c = 0; c < a.chunks; c++)
        sum += parts[a.part_0 + (head * a.chunks + c) * a.M + j];
    columns[a.c_0 + b * a.c_b + h * a.c_h + (first_row(&a, spans, b, 1) + j) * a.c_j] = sum;
}
