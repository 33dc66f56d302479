/* SPDX-License-Identifier: Apache-2.0 */
/* What may come before and after a matrix product of rows.
 *   linear_rows  x of any type and strides becomes real [M, K], dense; a work-item, alone in its group, owns a.rows rows
 *   bias_act     y = act(x + b); a work-item owns LANES columns of a row; x is real with a last stride of 1, and may be y
 * Key: REAL; LANES; STAGED 1; WG of bias_act. No local memory, no barriers. */
__kernel __attribute__((reqd_work_group_size(1, 1, 1), vec_type_hint(vec)))
void linear_rows(__global const void *x, __global real *y, const cla_linear_args a) {
    const int m0 = (int)CLA_GROUP * a.rows;
    for (int m = m0; m < min(m0 + a.rows, a.M); m++) {
        const long at = row_at(m, &a, a.x_0, a.x_s0, a.x_s1, a.x_s2);
        int k = 0;
        if (a.x_k == 1)
            for (; k + LANES <= a.K; k += LANES)
                STORE(load_lanes(x, at + k, a.x_type), 0, y + (long)m * a.K + k);
        for (; k < a.K; k++)
            y[(long)m * a.K + k] = load_one(x, at + k * a.x_k, a.x_type);
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void bias_act(__global const real *x, __global const void *b, __global void *y, const cla_linear_args a) {
    const long at = get_global_id(0);
    const int across = (a.N + LANES - 1) / LANES, m = (int)(at / across), n = (int)(at - (long)m * across) * LANES;
    real bias[LANES], sum[LANES];
    if (m >= a.M)
        return;
    const long x_at = row_at(m, &a, a.x_0, a.x_s0, a.x_s1, a.x_s2);
    take_bias(bias, b, 0, n, LANES, &a);
    for (int i = 0; i < LANES; i++)
        sum[i] = bias[i] + (n + i < a.N ? x[x_at + n + i] : R(0.0));
    act_lanes(sum, 1, a.act);
    store_row(sum, 1, y, row_at(m, &a, a.y_0, a.y_s0, a.y_s1, a.y_s2), n, &a);
}
