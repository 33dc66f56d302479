/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of the backward pass of fused attention for GPU-class devices: what precedes the gradients, and dSink.
 * Key: REAL; WG, a power of 2; DC, SLICED: as tiles_backward.clh, so that sums are those of dO V^T. */

/* DEL[b,h,i] = sum_e dO O, in the order of dO V^T: where O is exactly one row of V, dP - D is exactly 0.
 *   Groups  blocks of WG rows x H x B, counted in this order; a work-item a row. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles_prepare(__global const void *restrict O, __global const void *restrict G, __global real *restrict DEL,
                        __global const cla_span *restrict spans, const cla_lanes_inputs in) {
    const cla_attention_args *f = &in.forward;
    const int blocks = (f->N + WG - 1) / WG;
    const long group = CLA_GROUP, row = group / blocks, b = row / f->H, h = row - b * f->H;
    const long q_row = f->ragged ? spans[b].q_row : 0;
    const int i = (int)(group - row * blocks) * WG + (int)get_local_id(0);
    if (i < (f->ragged ? spans[b].queries : f->N)) {
        const long o = f->o_0 + b * f->o_b + h * f->o_h + (q_row + i) * f->o_i;
        const long g = in.g_0 + b * in.g_b + h * in.g_h + (q_row + i) * in.g_i;
        real sum = R(0.0);
        for (int d = 0; d < f->Dv; d += DC) {
            real part = SLICED ? R(0.0) : sum;
            for (int e = d; e < min(d + DC, f->Dv); e++)
                part = fma(cla_load(G, g + e, in.g_type), cla_load(O, o + e, f->o_type), part);
            sum = SLICED ? sum + part : part;
        }
        DEL[in.del_0 + b * in.del_b + h * in.del_h + q_row + i] = sum;
    }
}

/* dSink[h] = -sum of exp(sink - m) / l D over batches and queries.   Groups  H; a work-item has every WGth query. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1))) void
attention_tiles_sinks(__global const real *restrict sinks, __global const real *restrict STATE,
                      __global const real *restrict DEL, __global const cla_span *restrict spans,
                      __global void *restrict DS, const cla_lanes_inputs in, const cla_lanes_result_args to) {
    __local real sums[WG];
    const cla_attention_args *f = &in.forward;
    const int h = (int)CLA_GROUP, lid = (int)get_local_id(0);
    const real sink = sinks[f->mask.sinks_0 + h];
    real total = R(0.0);
    for (int b = 0; b < in.B; b++) {
        const long q_row = f->ragged ? spans[b].q_row : 0;
        const int N = f->ragged ? spans[b].queries : f->N;
        __global const real *state = STATE + f->st_0 + b * f->st_b + h * f->st_h + q_row * f->st_i;
        __global const real *del = DEL + in.del_0 + b * in.del_b + h * in.del_h + q_row;
        real batch = R(0.0);
        for (int i = lid; i < N; i += WG) {
            const real m = state[i * f->st_i], inv = state[i * f->st_i + 1];
            if (inv != R(0.0) && sink != -INFINITY) /* D of a query without keys may be NaN */
                batch = fma(exp(sink - m) * inv, del[i], batch);
        }
        total += batch;
    }
    sums[lid] = total;
    total = cla_reduce_sum(sums, lid, WG);
    if (lid == 0)
        cla_store(DS, to.sinks_0 + h * to.sinks_h, to.sinks_type, total == R(0.0) ? R(0.0) : -total);
}
