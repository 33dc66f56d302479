/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of what rows.cl computes, and softmax cross-entropy. A work-group owns a.rows rows, one after another; its
 * work-items share each row, LANES elements in turn, and read what they own before they write it.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG.
 * Local memory: WG numbers where WG > 1; barriers around each reduction, which all work-items reach, in no branch: see
 * rows.cl. */

/* d_x, where there is one, and d_y times the normalised row in `terms` [rows, length], where that is wanted. Four passes
 * over a row, in one piece of code since it compiles slowly: its mean; the squares of what is away from it, with the mean's
 * own rounding error; the means of g = d_y weight and of g n; the gradient. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void norm_backward(__global const void *x, __global const void *residual, __global const void *weight,
                   __global const void *d_y, __global const void *d_sum, __global void *d_x, __global real *terms,
                   const cla_norm_back_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first_row = (long)CLA_GROUP * a.rows, end = min(first_row + a.rows, a.axes.rows);
    const real share = R(1.0) / (real)max(length, 1), epsilon = OF_BITS(a.epsilon_bits, a.epsilon);
    for (long row = first_row; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long x_at = start_of(&a.x, at, &a.axes), r_at = start_of(&a.residual, at, &a.axes);
        const long d_at = start_of(&a.d_y, at, &a.axes), w_at = start_of(&a.weight, at, &a.axes);
        const long s_at = start_of(&a.d_sum, at, &a.axes), y_at = start_of(&a.d_x, at, &a.axes);
        real middle = R(0.0), inverse = R(0.0), level = R(0.0), tilt = R(0.0);
        for (int pass = a.rms ? 1 : 0; pass < 4; pass++) {
            vec first = (vec)(R(0.0)), second = (vec)(R(0.0));
            EACH_PART(i, lid, length) {
                const int count = PART_COUNT(i, length);
                vec n = take(x, &a.x, x_at, i, count, &a.axes);
                if (a.residual.how != CLA_ROW_ABSENT)
                    n += take(residual, &a.residual, r_at, i, count, &a.axes);
                n -= middle;
                if (pass < 2) {
                    n = only(n, count);
                    first += n;
                    second = fma(n, n, second);
                    continue;
                }
                vec g = take(d_y, &a.d_y, d_at, i, count, &a.axes);
                n *= inverse;
                if (pass == 3 && a.has_terms && count == LANES)
                    STORE(g * n, 0, terms + row * length + i);
                else if (pass == 3 && a.has_terms)
                    store_some(g * n, terms, row * length + i, 1, count, CLA_REAL_TYPE);
                if (a.weight.how != CLA_ROW_ABSENT)
                    g *= take(weight, &a.weight, w_at, i, count, &a.axes);
                if (pass == 2) {
                    g = only(g, count);
                    first += g;
                    second = fma(g, only(n, count), second);
                } else if (a.d_x.how != CLA_ROW_ABSENT) {
                    g = (g - level - n * tilt) * inverse;
                    if (a.d_sum.how != CLA_ROW_ABSENT)
                        g += take(d_sum, &a.d_sum, s_at, i, count, &a.axes);
                    put(g, d_x, &a.d_x, y_at, i, count, &a.axes);
                }
            }
            if (pass == 3)
                break;
            const real mean = row_sum_unless(a.rms, first, shared, lid) * share, sum = a.rms ? R(0.0) : mean;
            const real product = row_sum(second, shared, lid) * share, rest = product - sum * sum;
            if (pass < 2)
                middle += sum;
            if (pass == 1)
                inverse = R(1.0) / sqrt((rest < R(0.0) ? R(0.0) : rest) + epsilon);
            level = sum;
            tilt = product;
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void softmax_backward(__global const void *y, __global const void *d_y, __global void *d_x,
                      const cla_soft_back_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first = (long)CLA_GROUP * a.rows, end = min(first + a.rows, a.axes.rows);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long y_at = start_of(&a.y, at, &a.axes), d_at = start_of(&a.d_y, at, &a.axes);
        const long x_at = start_of(&a.d_x, at, &a.axes);
        vec sum = (vec)(R(0.0));
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            const vec p = only(take(y, &a.y, y_at, i, count, &a.axes), count);
            const vec term = p * take(d_y, &a.d_y, d_at, i, count, &a.axes);
            sum += select(term, (vec)(R(0.0)), p == R(0.0));
        }
        const real mean = row_sum(sum, shared, lid);
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            const vec p = take(y, &a.y, y_at, i, count, &a.axes);
            const vec d = p * (take(d_y, &a.d_y, d_at, i, count, &a.axes) - mean);
            put(select(d, (vec)(R(0.0)), p == R(0.0)), d_x, &a.d_x, x_at, i, count, &a.axes);
        }
    }
}

/* ---- cross-entropy ---- */

INLINE long target_of(__global const void *targets, const cla_loss_args *a, const int *at) {
    const long place = start_of(&a->targets, at, &a->axes);
    return a->targets.type == CLA_I64 ? ((__global const long *)targets)[place] : ((__global const int *)targets)[place];
}
INLINE int is_ignored(const cla_loss_args *a, long target) { return a->has_ignore && target == a->ignore; }

/* factor[0] = what the losses of rows, and their gradients, are multiplied by. One group. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void count_targets(__global const void *targets, __global real *factor, const cla_loss_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0);
    const real scale = OF_BITS(a.scale_bits, a.scale);
    vec counted = (vec)(R(0.0));
    long rows = 0;
    for (long row = lid; row < a.axes.rows; row += WG) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        rows += !is_ignored(&a, target_of(targets, &a, at));
    }
    counted.s0 = (real)rows;
    const real all = row_sum(counted, shared, lid);
    if (lid == 0)
        factor[0] = !a.mean ? scale : all > R(0.0) ? scale / all : R(0.0);
}

/* Each row's loss into losses[row] and row_losses, and d_logits, which may be logits. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void cross_entropy(__global const void *logits, __global const void *targets, __global const real *factor,
                   __global real *losses, __global void *row_losses, __global void *d_logits, const cla_loss_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first = (long)CLA_GROUP * a.rows, end = min(first + a.rows, a.axes.rows);
    const real smoothing = OF_BITS(a.smoothing_bits, a.smoothing), spread = smoothing / (real)max(length, 1);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long x_at = start_of(&a.logits, at, &a.axes), d_at = start_of(&a.d_logits, at, &a.axes);
        const long target = target_of(targets, &a, at);
        const int ignored = is_ignored(&a, target), known = !ignored && target >= 0 && target < a.classes;
        const int chosen = known ? (int)target : 0;
        vec most = (vec)(-INFINITY), sum = (vec)(R(0.0)), away = (vec)(R(0.0));
        real loss = ignored ? R(0.0) : NAN, inverse = R(0.0);
        const int looked_at = known ? length : 0;
        EACH_PART(i, lid, looked_at) {
            const vec v = take(logits, &a.logits, x_at, i, PART_COUNT(i, length), &a.axes);
            most = select(most, v, v > most);
        }
        real m = row_max(most, shared, lid);
        m = m == -INFINITY ? R(0.0) : m;
        EACH_PART(i, lid, looked_at) {
            const int count = PART_COUNT(i, length);
            const vec v = take(logits, &a.logits, x_at, i, count, &a.axes) - m;
            sum += only(exp_lanes(v), count);
            if (smoothing > R(0.0))
                away += only(v, count);
        }
        const real total = row_sum(sum, shared, lid), all_away = row_sum_unless(smoothing <= R(0.0), away, shared, lid);
        if (known) {
            const real right = load_one(logits, x_at + place_in(&a.logits, chosen, &a.axes), a.logits.type) - m;
            inverse = R(1.0) / total;
            loss = log(total) - (R(1.0) - smoothing) * right;
            if (smoothing > R(0.0))
                loss -= spread * all_away;
        }
        if (lid == 0)
            losses[row] = loss;
        if (lid == 0 && a.row_losses.how != CLA_ROW_ABSENT)
            store_one(loss, row_losses, start_of(&a.row_losses, at, &a.axes), a.row_losses.type);
#if WG > 1
        barrier(CLK_GLOBAL_MEM_FENCE); /* d_logits may be logits, of which one was read by all */
#endif
        if (a.d_logits.how == CLA_ROW_ABSENT)
            continue;
        const real times = factor[0];
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            vec d = (vec)(loss); /* 0, or NaN for a target that is no class */
            if (known) {
                d = fma(exp_lanes(take(logits, &a.logits, x_at, i, count, &a.axes) - m), (vec)(inverse), (vec)(-spread));
                d = select(d, d - (R(1.0) - smoothing), STEPS == (vec)((real)(chosen - i)));
                d *= times;
            }
            put(d, d_logits, &a.d_logits, d_at, i, count, &a.axes);
        }
    }
}

/* loss = factor times the sum of losses. One group. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void total_losses(__global const real *losses, __global const real *factor, __global void *loss,
                  const cla_loss_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0);
    const long rows = a.axes.rows;
    vec sum = (vec)(R(0.0));
    for (long row = lid * LANES; row < rows; row += WG * LANES) {
        const int count = (int)min((long)LANES, rows - row);
        if (count == LANES)
            sum += LOAD(0, losses + row);
        for (int i = 0; i < count && count < LANES; i++)
            sum.s0 += losses[row + i];
    }
    const real all = row_sum(sum, shared, lid);
    if (lid == 0)
        cla_store(loss, a.loss_0, a.loss_type, all * factor[0]);
}
