/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of y = act(x) up: d_x = d_y up act'(x), d_up = d_y act(x). A work-item owns a.chunk elements, counted over
 * all axes, and reads them before it writes them: d_x and d_up may be inputs.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG. No local memory, no barriers. */

/* s (1 - s) u for the sigmoid s of z with e = exp(-|z|); 0 where that vanishes, even if u is not finite. */
INLINE vec bend(vec e, vec u) {
    const vec one = R(1.0) + e;
    return select(e / (one * one) * u, (vec)(R(0.0)), e == R(0.0));
}
INLINE vec sigmoid_of(vec e, vec z) { return select((vec)(R(1.0)), e, z < R(0.0)) / (R(1.0) + e); }

/* d act'(x) */
INLINE vec times_slope(vec d, vec x, int act) {
    if (act == CLA_ACT_RELU)
        return select(d, (vec)(R(0.0)), x <= R(0.0));
    if (act == CLA_ACT_GELU) {
        const vec density = exp_lanes(R(-0.5) * x * x) * R(0.39894228040143267794);
        const vec part = fma(erf_lanes(x * R(0.70710678118654752440)), (vec)(R(0.5)), (vec)(R(0.5)));
        return d * (part + select(x * density, (vec)(R(0.0)), density == R(0.0)));
    }
    if (act == CLA_ACT_GELU_TANH) {
        const vec x2 = x * x, z = x * fma(x2, (vec)(R(0.07135481627260025)), (vec)(R(1.5957691216057308)));
        const vec e = exp_lanes(-fabs(z)), slope = fma(x2, (vec)(R(0.21406444881780075)), (vec)(R(1.5957691216057308)));
        return d * (sigmoid_of(e, z) + bend(e, x * slope));
    }
    if (act == CLA_ACT_SILU) {
        const vec e = exp_lanes(-fabs(x));
        return d * (sigmoid_of(e, x) + bend(e, x));
    }
    return d;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void points_backward(__global const void *x, __global const void *up, __global const void *d_y, __global void *d_x,
                     __global void *d_up, const cla_point_back_args a) {
    const int length = a.axes.length;
    const long all = a.axes.rows * length;
    long n = (long)get_global_id(0) * a.chunk;
    const long end = min(n + a.chunk, all);
    while (n < end) {
        int at[CLA_MOST_AXES];
        const long row = n / length;
        int i = (int)(n - row * length);
        const int stop = (int)min((long)length, i + (end - n));
        find_row(row, at, &a.axes);
        const long x_at = start_of(&a.x, at, &a.axes), u_at = start_of(&a.up, at, &a.axes);
        const long d_at = start_of(&a.d_y, at, &a.axes);
        const long dx_at = start_of(&a.d_x, at, &a.axes), du_at = start_of(&a.d_up, at, &a.axes);
        n += stop - i;
        for (; i < stop; i += LANES) {
            const int count = PART_COUNT(i, stop);
            const vec v = take(x, &a.x, x_at, i, count, &a.axes), d = take(d_y, &a.d_y, d_at, i, count, &a.axes);
            vec gated = d;
            real z[LANES];
            STORE(v, 0, z);
            if (a.up.how != CLA_ROW_ABSENT)
                gated *= take(up, &a.up, u_at, i, count, &a.axes);
            if (a.d_up.how != CLA_ROW_ABSENT) {
                act_lanes(z, 1, a.act);
                put(d * LOAD(0, z), d_up, &a.d_up, du_at, i, count, &a.axes);
            }
            if (a.d_x.how != CLA_ROW_ABSENT)
                put(times_slope(gated, v, a.act), d_x, &a.d_x, dx_at, i, count, &a.axes);
        }
    }
}
