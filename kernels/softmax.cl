/* SPDX-License-Identifier: Apache-2.0 */
/* What `materialised` does around its matrix products, a chunk of rows at a time. Scratch holds the chunk's scores
 * [B, H, N, M], dense, which become weights in place (scores.clh). Before: scores.clh, philox.clh.
 * Key: REAL, WG, KEYS (keys of a block of values), MASKS (scores.clh); HINT: attributes.
 *   softmax_rows     a work-group owns a row; WG reals of local memory
 *   softmax_drop     a work-item owns four keys of a row; no local memory, no barriers
 *   softmax_values   a work-group owns KEYS keys of a head's values; WG reals of local memory
 *   softmax_outputs  a work-item owns an element of O; no local memory, no barriers
 * Every work-item reaches every barrier. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void softmax_rows(__global real *scratch, __global real *weights, __global real *lse, __global real *state,
                  __global const cla_span *spans, __global const uchar *keep, __global const uchar *drop, __global const void *bias,
                  __global const float *slopes, __global const int *q_segments, __global const int *k_segments,
                  __global const real *sinks, const cla_softmax_args a) {
    __local real shared[WG];
    const int lid = (int)get_local_id(0);
    const long row = CLA_GROUP;
    const long head = row / a.N; /* remainders by hand: Oclgrind does not know what LLVM makes of / and % together */
    const int i = (int)(row - head * a.N), b = (int)(head / a.H), h = (int)(head - (long)b * a.H);
    __global real *s = scratch + a.s_0 + b * a.s_b + h * a.s_h + i * a.s_i;
    const cla_masks masks = {&a.mask, spans, keep, drop, bias, slopes, q_segments, k_segments};
    const real sink = a.mask.has_sinks ? sinks[a.mask.sinks_0 + a.h0 + h] : -INFINITY;
    const int2 seen = keys_seen(&masks, a.b0 + b, a.i0 + i, a.M);
    real m = -INFINITY, l = R(0.0);
    __global real *w = weights + a.w_0 + (a.b0 + b) * a.w_b + (a.h0 + h) * a.w_h + (a.i0 + i) * a.w_i;
    const int form = a.has_weights ? a.form : CLA_FORM_SOFTMAX;
    for (int j = lid; j < a.M; j += WG) {
        real x = SCALE_OF(a) * s[j];
        if (form == CLA_FORM_SCALED || form == CLA_FORM_CAPPED) {
            const int known = !a.paged || j < spans[a.b0 + b].keys;
            w[j * a.w_j] = !known ? -INFINITY : form == CLA_FORM_CAPPED ? cla_cap(&a.mask, x) : x;
        }
        x = masked_score(&masks, x, a.b0 + b, a.h0 + h, a.i0 + i, j, seen);
        s[j] = x;
        if (form == CLA_FORM_MASKED)
            w[j * a.w_j] = x;
        m = x > m ? x : m;
    }
    shared[lid] = m;
    const real most = cla_reduce_max(shared, lid, WG);
    m = sink > most ? sink : most;
    for (int from = lid; from < a.M; from += SHORT_SUM * WG) {
        const int end = a.M - from < SHORT_SUM * WG ? a.M : from + SHORT_SUM * WG;
        real part = R(0.0);
        for (int j = from; j < end; j += WG) {
            const real x = s[j];
            const real e = x == -INFINITY ? -R(0.0) : EXP(x - m) * (real)a.power;
            s[j] = e;
            part += e;
        }
        l += part;
    }
    shared[lid] = l;
    l = cla_reduce_sum(shared, lid, WG);
    const int none = most == -INFINITY && l == R(0.0); /* no key seen: O = 0, whatever the sink is */
    if (sink != -INFINITY) /* a logit without a value */
        l += EXP(sink - m) * (real)a.power;
    if (lid == 0) {
        scratch[a.sum_0 + row] = none ? R(0.0) : l;
        if (a.has_lse) /* no key seen: the sink as it is, infinite too */
            lse[a.lse_0 + (a.b0 + b) * a.lse_b + (a.h0 + h) * a.lse_h + (a.i0 + i) * a.lse_i] =
                none ? sink : m + log(l / (real)a.power);
        if (a.has_state)
            cla_store_state(state + a.st_0 + (a.b0 + b) * a.st_b + (a.h0 + h) * a.st_h + (a.i0 + i) * a.st_i, m,
                            l / (real)a.power, none);
    }
    if (a.has_weights && form == CLA_FORM_SOFTMAX) {
        for (int j = lid; j < a.M; j += WG) {
            const real e = s[j];
            w[j * a.w_j] = EXCLUDED(e) ? R(0.0) : e / l;
        }
    }
}

/* x[b,h,i,j] *= 0 where dropout drops the weight, else 1 / (1 - p): weights before the product with V, or gradients by
 * them. An excluded weight stays one. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void softmax_drop(__global real *scratch, const cla_drop_args a) {
    const long n = get_global_id(0), row = n / a.quads, head = row / a.N;
    const int quad = (int)(n - row * a.quads), i = (int)(row - head * a.N), b = (int)(head / a.H);
    const int h = (int)(head - (long)b * a.H);
    if (row >= (long)a.B * a.H * a.N)
        return;
    const uint4 counter = (uint4)((uint)quad, (uint)(a.i0 + i), (uint)(a.h0 + h), (uint)(a.b0 + b));
    const uint4 found = cla_philox(counter, (uint2)((uint)a.key, (uint)((ulong)a.key >> 32)));
    const uint words[4] = {found.x, found.y, found.z, found.w};
    const real kept = OF_BITS(a.kept_bits, a.kept);
    __global real *x = scratch + a.x_0 + row * a.M + 4 * (long)quad;
    for (int c = 0; c < 4; c++)
        if (4 * quad + c < a.M)
            x[c] *= words[c] < (uint)a.bound ? R(0.0) : kept;
}

/* y = v where it is finite, else 0, so that a weight of 0 times it is 0. A flag for each block says whether there was
 * something else. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void softmax_values(__global const real *v, __global real *scratch, __global int *flags, const cla_values_args a) {
    __local real shared[WG];
    const int lid = (int)get_local_id(0);
    const long group = CLA_GROUP, head = group / a.blocks, b = head / a.H;
    const int first = (int)(group - head * a.blocks) * KEYS, rows = min(KEYS, a.M - first);
    const int row_step = WG / a.columns, column_step = WG - row_step * a.columns;
    __global const real *x = v + a.v_0 + b * a.v_b + (head - b * a.H) * a.v_h + first * a.v_j;
    __global real *y = scratch + a.y_0 + (head * a.M + first) * a.columns;
    real found = R(0.0);
    int j = lid / a.columns, d = lid - j * a.columns;
    while (j < rows) {
        const real value = x[j * a.v_j + d];
        const int finite = isfinite(value);
        found = finite ? found : R(1.0);
        y[(long)j * a.columns + d] = finite ? value : R(0.0);
        j += row_step;
        d += column_step;
        j += d >= a.columns;
        d -= d >= a.columns ? a.columns : 0;
    }
    shared[lid] = found;
    found = cla_reduce_max(shared, lid, WG);
    if (lid == 0)
        flags[a.flag_0 + group] = found > R(0.0);
}

/* O / sum of weights; before that, what kept weights make of values that are not finite. */
HINT __kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void softmax_outputs(__global const real *scratch, __global const int *flags, __global const real *v, __global real *o,
                     const cla_outputs_args a) {
    const long n = get_global_id(0), row = n / a.columns;
    const int d = (int)(n - row * a.columns);
    if (row >= (long)a.B * a.H * a.N)
        return;
    const long head = row / a.N;
    const int i = (int)(row - head * a.N), b = (int)(head / a.H), h = (int)(head - (long)b * a.H), hk = h / a.group;
    __global const int *flag = flags + a.flag_0 + ((long)b * a.Hk + hk) * a.blocks;
    __global const real *w = scratch + a.s_0 + row * a.M;
    __global const real *x = v + a.v_0 + b * a.v_b + hk * a.v_h + d;
    __global real *out = o + a.o_0 + b * a.o_b + h * a.o_h + i * a.o_i + d;
    const real l = scratch[a.sum_0 + row];
    real sum = *out;
    for (int block = 0; block < a.blocks; block++) {
        const int end = flag[block] ? min(a.M, (block + 1) * KEYS) : 0;
        for (int j = block * KEYS; j < end; j++) {
            const real value = x[j * a.v_j];
            if (!isfinite(value) && !EXCLUDED(w[j]))
                sum += w[j] * value;
        }
    }
    *out = l == R(0.0) ? R(0.0) : sum / l;
}
