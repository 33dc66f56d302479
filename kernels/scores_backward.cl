/* SPDX-License-Identifier: Apache-2.0 */
/* What the backward pass of `materialised` does between its matrix products, a chunk of rows at a time. Scratch holds
 * s = Q K^T and g = dO V^T (with dropout times what softmax_drop says), dense [B, H, N, M]; in place they become the
 * weights P and the gradients of s. Weights come from s alone, maximum and sum again, so that they add up to 1 whoever
 * computed the forward pass. Before: scores.clh.
 * Key: REAL, WG, KEYS (rows of a block with one flag), MASKS (scores.clh); HINT: attributes.
 *   scores_sums       a work-group owns a row; WG reals of local memory
 *   scores_gradients  a work-group owns a row; no local memory, no barriers, as the others:
 *   scores_bias       a work-item owns an element of dBias
 *   scores_rest       a work-item owns an element of dSink, or of a dBias that is the same for all keys
 *   scores_special    a work-item owns an element of a product
 * Every work-item reaches every barrier. What is summed over rows is added by its owner, in order. */

/* A row's numbers. */
enum { TOP, INVERSE, DELTA, BY_SINK };

/* Where a row lies: batch, head and query of the chunk. */
typedef struct {
    int b, h, i;
} place;
static inline void find_place(place *x, const cla_scores_args *a, long row) {
    const long head = row / a->N; /* remainders by hand: Oclgrind does not know what LLVM makes of / and % together */
    x->i = (int)(row - head * a->N);
    x->b = (int)(head / a->H);
    x->h = (int)(head - (long)x->b * a->H);
}

/* Of each row: m, 1 / l, sum of P dP, and the sink's weight; zeros where it sees no key. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void scores_sums(__global real *scratch, __global const cla_span *spans, __global const uchar *keep,
                 __global const uchar *drop, __global const void *bias, __global const float *slopes,
                 __global const int *q_segments, __global const int *k_segments, __global const real *sinks,
                 const cla_scores_args a) {
    __local real shared[WG];
    const int lid = (int)get_local_id(0);
    const long row = CLA_GROUP;
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    place x;
    find_place(&x, &a, row);
    const int b = a.b0 + x.b, h = a.h0 + x.h, i = a.i0 + x.i;
    const int2 seen = keys_seen(&masks, b, i, a.M);
    const real sink = a.mask.has_sinks ? sinks[a.mask.sinks_0 + h] : -INFINITY;
    __global const real *s = scratch + a.s_0 + row * a.M, *g = scratch + a.g_0 + row * a.M;
    real m = -INFINITY, l = R(0.0), delta = R(0.0);
    for (int j = lid; j < a.M; j += WG) {
        const real y = masked_score(&masks, SCALE_OF(a) * s[j], b, h, i, j, seen);
        m = y > m ? y : m;
    }
    shared[lid] = m;
    const real most = cla_reduce_max(shared, lid, WG);
    m = sink > most ? sink : most;
    for (int from = lid; from < a.M; from += SHORT_SUM * WG) {
        const int end = a.M - from < SHORT_SUM * WG ? a.M : from + SHORT_SUM * WG;
        real part = R(0.0), by_weights = R(0.0);
        for (int j = from; j < end; j += WG) {
            const real y = masked_score(&masks, SCALE_OF(a) * s[j], b, h, i, j, seen);
            const real e = EXP(y - m);
            part += y == -INFINITY ? R(0.0) : e;
            if (a.by_scores && y != -INFINITY)
                by_weights += e * g[j];
        }
        l += part;
        delta += by_weights;
    }
    shared[lid] = l;
    l = cla_reduce_sum(shared, lid, WG);
    shared[lid] = delta;
    delta = cla_reduce_sum(shared, lid, WG);
    const int none = most == -INFINITY && l == R(0.0);
    const real by_sink = sink == -INFINITY ? R(0.0) : EXP(sink - m);
    const real inverse = R(1.0) / (l + by_sink);
    if (lid == 0) {
        __global real *numbers = scratch + a.row_0 + row * CLA_ROW_NUMBERS;
        numbers[TOP] = none ? R(0.0) : m;
        numbers[INVERSE] = none ? R(0.0) : inverse;
        numbers[DELTA] = none ? R(0.0) : delta * inverse;
        numbers[BY_SINK] = none || sink == -INFINITY ? R(0.0) : by_sink * inverse;
    }
}

/* s becomes P, g the gradient of s: scale (1 - tanh^2) P (dP - delta); excluded ones -0.0 and 0. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void scores_gradients(__global real *scratch, __global const cla_span *spans, __global const uchar *keep,
                      __global const uchar *drop, __global const void *bias, __global const float *slopes,
                      __global const int *q_segments, __global const int *k_segments, const cla_scores_args a) {
    const long row = CLA_GROUP;
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    place x;
    find_place(&x, &a, row);
    const int b = a.b0 + x.b, h = a.h0 + x.h, i = a.i0 + x.i;
    const int2 seen = keys_seen(&masks, b, i, a.M);
    __global const real *numbers = scratch + a.row_0 + row * CLA_ROW_NUMBERS;
    const real top = numbers[TOP], inverse = numbers[INVERSE], delta = numbers[DELTA], scale = SCALE_OF(a);
    __global real *s = scratch + a.s_0 + row * a.M, *g = scratch + a.g_0 + row * a.M;
    for (int j = (int)get_local_id(0); j < a.M; j += WG) {
        const real scaled = scale * s[j], y = masked_score(&masks, scaled, b, h, i, j, seen);
        const int excluded = y == -INFINITY;
        const real p = EXP(y - top) * inverse;
        s[j] = excluded ? -R(0.0) : p;
        if (a.by_scores) {
            real slope = scale;
#if SCORE
            const real cap = OF_BITS(a.mask.softcap_bits, a.mask.softcap);
            if (cap > R(0.0)) {
                const real t = tanh(scaled / cap);
                slope *= R(1.0) - t * t;
            }
#endif
            const real by_score = p * (g[j] - delta) * slope;
            g[j] = excluded ? R(0.0) : by_score;
        }
    }
}

/* dBias += P (dP - delta), summed over the axes that it has not; it has keys. Before scores_gradients. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void scores_bias(__global const real *scratch, __global const cla_span *spans, __global const uchar *keep,
                 __global const uchar *drop, __global const void *bias, __global const float *slopes,
                 __global const int *q_segments, __global const int *k_segments, __global real *sums,
                 const cla_scores_args a, const cla_scores_sum_args to) {
    const long n = get_global_id(0), row = n / to.columns, head = row / to.rows, batch = head / to.heads;
    const int j = (int)(n - row * to.columns), i0 = (int)(row - head * to.rows), h0 = (int)(head - batch * to.heads);
    if (batch >= to.batches)
        return;
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    const int b1 = to.y_b ? (int)batch + 1 : a.B, h1 = to.y_h ? h0 + 1 : a.H, i1 = to.y_i ? i0 + 1 : a.N;
    real all = R(0.0);
    for (int b = (int)batch; b < b1; b++)
        for (int h = h0; h < h1; h++)
            for (int from = i0; from < i1; from += SHORT_SUM) {
                real part = R(0.0);
                for (int i = from; i < min(i1, from + SHORT_SUM); i++) {
                    const long at = ((long)b * a.H + h) * a.N + i;
                    const int2 seen = keys_seen(&masks, a.b0 + b, a.i0 + i, a.M);
                    const real y = masked_score(&masks, SCALE_OF(a) * scratch[a.s_0 + at * a.M + j], a.b0 + b, a.h0 + h,
                                                a.i0 + i, j, seen);
                    __global const real *numbers = scratch + a.row_0 + at * CLA_ROW_NUMBERS;
                    const real p = EXP(y - numbers[TOP]) * numbers[INVERSE];
                    const real by_score = p * (scratch[a.g_0 + at * a.M + j] - numbers[DELTA]);
                    part += y == -INFINITY ? R(0.0) : by_score;
                }
                all += part;
            }
    sums[to.y_0 + (a.b0 + batch) * to.y_b + (a.h0 + h0) * to.y_h + (long)(a.i0 + i0) * to.y_i + j * to.y_j] += all;
}

/* dSink -= the sink's weight times delta; or dBias of all keys += the same: sum_j P (dP - delta) = delta (1 - sum_j P). */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void scores_rest(__global const real *scratch, __global real *sums, const cla_scores_args a,
                 const cla_scores_sum_args to) {
    const long n = get_global_id(0), head = n / to.rows, batch = head / to.heads;
    const int i0 = (int)(n - head * to.rows), h0 = (int)(head - batch * to.heads);
    if (batch >= to.batches)
        return;
    const int b1 = to.y_b ? (int)batch + 1 : a.B, h1 = to.y_h ? h0 + 1 : a.H, i1 = to.y_i ? i0 + 1 : a.N;
    real all = R(0.0);
    for (int b = (int)batch; b < b1; b++)
        for (int h = h0; h < h1; h++)
            for (int from = i0; from < i1; from += SHORT_SUM) {
                real part = R(0.0);
                for (int i = from; i < min(i1, from + SHORT_SUM); i++) {
                    const long at = ((long)b * a.H + h) * a.N + i;
                    __global const real *numbers = scratch + a.row_0 + at * CLA_ROW_NUMBERS;
                    const real weight = numbers[BY_SINK], rest = weight * numbers[DELTA];
                    part += to.of_sinks ? (weight == R(0.0) ? R(0.0) : -rest) : rest;
                }
                all += part;
            }
    sums[to.y_0 + (a.b0 + batch) * to.y_b + (a.h0 + h0) * to.y_h + (long)(a.i0 + i0) * to.y_i] += all;
}

/* y[i] += c[x, i] x for the rows x that are not finite, which the product got as zeros, where the weight is kept. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void scores_special(__global const real *scratch, __global const int *flags, __global const real *rows,
                    __global real *y, const cla_special_args a) {
    const long n = get_global_id(0), row = n / a.columns, head = row / a.N, batch = head / a.H;
    const int d = (int)(n - row * a.columns), i = (int)(row - head * a.N), h = (int)(head - batch * a.H);
    if (batch >= a.B)
        return;
    __global real *out = y + a.y_0 + batch * a.y_b + h * a.y_h + i * a.y_i + d;
    real sum = R(0.0);
    int found = 0;
    for (int m = 0; m < a.members; m++) {
        const int of_q = h * a.members + m, of_x = of_q / a.share;
        const long at = (batch * a.H * a.members + of_q) * a.pairs + i * a.c_y;
        __global const int *flag = flags + a.flag_0 + (batch * (a.H * a.members / a.share) + of_x) * a.blocks;
        __global const real *x = rows + a.x_0 + batch * a.x_b + of_x * a.x_h + d;
        for (int block = 0; block < a.blocks; block++) {
            const int end = flag[block] ? min(a.X, (block + 1) * KEYS) : 0;
            for (int r = block * KEYS; r < end; r++) {
                const real value = x[r * a.x_i];
                if (isfinite(value) || EXCLUDED(scratch[a.w_0 + at + r * a.c_x]))
                    continue;
                sum += scratch[a.c_0 + at + r * a.c_x] * value;
                found = 1;
            }
        }
    }
    if (found)
        *out += sum;
}
