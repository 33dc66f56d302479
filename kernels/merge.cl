/* SPDX-License-Identifier: Apache-2.0 */
/* Joins up to MERGE_PARTS partial results of attention, and a state before them, by log-sum-exp. A work-group owns a row,
 * [b, h, i], and its work-items every WG-th column. A state is dense: for each row Dv sums, then maximum and sum of
 * weights. Key: REAL, WG. No local memory; one barrier, between the last read of what work-item 0 writes and that. */

/* Parts with LSE = -inf are empty: their O is not read. All empty: O = 0, LSE = -inf. NaN stays in its row or lane. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void merge_parts(__global const void *o0, __global const void *o1, __global const void *o2, __global const void *o3,
                 __global const real *lse0, __global const real *lse1, __global const real *lse2,
                 __global const real *lse3, __global void *O, __global real *LSE, __global real *states,
                 const cla_merge_args a) {
    __global const void *const o[MERGE_PARTS] = {o0, o1, o2, o3};
    __global const real *const lse[MERGE_PARTS] = {lse0, lse1, lse2, lse3};
    /* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
    const int lid = (int)get_local_id(0);
    const long row = CLA_GROUP, head = row / a.N, b = head / a.H, i = row - head * a.N, h = head - b * a.H;
    __global real *state = states + row * (a.Dv + 2);
    real weight[MERGE_PARTS], top = a.continues ? state[a.Dv] : -INFINITY, sum = R(0.0), shrink = R(0.0);
    const real old = top;
    for (int x = 0; x < a.count; x++) {
        const cla_merge_part *p = &a.parts[x];
        weight[x] = lse[x][p->lse_0 + b * p->lse_b + h * p->lse_h + i * p->lse_i];
        top = weight[x] > top ? weight[x] : top;
    }
    const real base = top == -INFINITY ? R(0.0) : top;
    if (a.continues) {
        shrink = old == top ? R(1.0) : exp(old - base);
        sum = shrink * state[a.Dv + 1];
    }
    for (int x = 0; x < a.count; x++) {
        weight[x] = weight[x] == -INFINITY ? R(-1.0) : exp(weight[x] - base);
        sum += weight[x] == R(-1.0) ? R(0.0) : weight[x];
    }
    barrier(CLK_GLOBAL_MEM_FENCE);
    for (int d = lid; d < a.Dv; d += WG) {
        real y = a.continues ? shrink * state[d] : R(0.0);
        for (int x = 0; x < a.count; x++) {
            const cla_merge_part *p = &a.parts[x];
            if (weight[x] != R(-1.0))
                y = fma(weight[x], cla_load(o[x], p->o_0 + b * p->o_b + h * p->o_h + i * p->o_i + d * p->o_d, p->o_type), y);
        }
        if (a.last)
            cla_store(O, a.out.o_0 + b * a.out.o_b + h * a.out.o_h + i * a.out.o_i + d * a.out.o_d, a.out.o_type,
                      sum == R(0.0) ? R(0.0) : y / sum);
        else
            state[d] = y;
    }
    if (lid == 0 && !a.last) {
        state[a.Dv] = top;
        state[a.Dv + 1] = sum;
    } else if (lid == 0 && a.has_lse) {
        LSE[a.out.lse_0 + b * a.out.lse_b + h * a.out.lse_h + i * a.out.lse_i] = top + log(sum);
    }
}
