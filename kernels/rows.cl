/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed of rows by themselves: LayerNorm, RMSNorm, softmax. A work-group owns a.rows rows, one after another;
 * its work-items share each row, LANES elements in turn, and read what they own before they write it: outputs may be
 * inputs.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG.
 * Local memory: WG numbers where WG > 1; barriers around each reduction, which all work-items reach. None is in a branch,
 * though all would take the same: PoCL then builds all that follows for both, and takes seconds longer. */

/* x + residual */
INLINE vec take_sum(__global const void *x, __global const void *residual, const cla_norm_args *a, long x_at, long r_at,
                    int i, int count) {
    const vec z = take(x, &a->x, x_at, i, count, &a->axes);
    return a->residual.how == CLA_ROW_ABSENT ? z : z + take(residual, &a->residual, r_at, i, count, &a->axes);
}

/* The mean's own rounding error is found with the squares, and taken out of both. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void norm_rows(__global const void *x, __global const void *residual, __global const void *weight,
               __global const void *bias, __global void *y, __global void *sum, __global void *mean,
               __global void *inv_std, const cla_norm_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first = (long)CLA_GROUP * a.rows, end = min(first + a.rows, a.axes.rows);
    const real share = R(1.0) / (real)max(length, 1), epsilon = OF_BITS(a.epsilon_bits, a.epsilon);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long x_at = start_of(&a.x, at, &a.axes), r_at = start_of(&a.residual, at, &a.axes);
        vec off = (vec)(R(0.0)), squares = (vec)(R(0.0));
        if (!a.rms)
            EACH_PART(i, lid, length) {
                const int count = PART_COUNT(i, length);
                off += only(take_sum(x, residual, &a, x_at, r_at, i, count), count);
            }
        const real middle = row_sum_unless(a.rms, off, shared, lid) * share; /* 0 of RMSNorm */
        off = (vec)(R(0.0));
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            const vec d = only(take_sum(x, residual, &a, x_at, r_at, i, count) - middle, count);
            off += d;
            squares = fma(d, d, squares);
        }
        const real mean_square = row_sum(squares, shared, lid) * share;
        const real all_off = row_sum_unless(a.rms, off, shared, lid) * share;
        const real rest = a.rms ? R(0.0) : all_off;
        real variance = a.rms ? mean_square : mean_square - rest * rest;
        variance = variance < R(0.0) ? R(0.0) : variance;
        const real inverse = R(1.0) / sqrt(variance + epsilon);
        const long y_at = start_of(&a.y, at, &a.axes), sum_at = start_of(&a.sum, at, &a.axes);
        const long w_at = start_of(&a.weight, at, &a.axes), b_at = start_of(&a.bias, at, &a.axes);
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            const vec z = take_sum(x, residual, &a, x_at, r_at, i, count);
            vec v = (z - middle - rest) * inverse;
            if (a.sum.how != CLA_ROW_ABSENT)
                put(z, sum, &a.sum, sum_at, i, count, &a.axes);
            if (a.weight.how != CLA_ROW_ABSENT)
                v *= take(weight, &a.weight, w_at, i, count, &a.axes);
            if (a.bias.how != CLA_ROW_ABSENT)
                v += take(bias, &a.bias, b_at, i, count, &a.axes);
            put(v, y, &a.y, y_at, i, count, &a.axes);
        }
        if (lid == 0 && a.mean.how != CLA_ROW_ABSENT)
            store_one(middle + rest, mean, start_of(&a.mean, at, &a.axes), a.mean.type);
        if (lid == 0 && a.inv_std.how != CLA_ROW_ABSENT)
            store_one(inverse, inv_std, start_of(&a.inv_std, at, &a.axes), a.inv_std.type);
    }
}

/* A row of nothing but -infinity has the maximum 0 here, so that its sum is 0 and NaN beside it stays NaN. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void softmax_axis(__global const void *x, __global void *y, const cla_soft_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first = (long)CLA_GROUP * a.rows, end = min(first + a.rows, a.axes.rows);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long x_at = start_of(&a.x, at, &a.axes), y_at = start_of(&a.y, at, &a.axes);
        vec most = (vec)(-INFINITY), sum = (vec)(R(0.0));
        EACH_PART(i, lid, length) {
            const vec v = take(x, &a.x, x_at, i, PART_COUNT(i, length), &a.axes);
            most = select(most, v, v > most);
        }
        real m = row_max(most, shared, lid);
        m = m == -INFINITY ? R(0.0) : m;
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            sum += only(exp_lanes(take(x, &a.x, x_at, i, count, &a.axes) - m), count);
        }
        const real total = row_sum(sum, shared, lid), inverse = total == R(0.0) ? R(0.0) : R(1.0) / total;
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            put(exp_lanes(take(x, &a.x, x_at, i, count, &a.axes) - m) * inverse, y, &a.y, y_at, i, count, &a.axes);
        }
    }
}
