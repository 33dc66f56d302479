/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of optimizers, and the norm of gradients. A work-item of a step owns a.chunk elements, counted over all axes.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG.
 * Local memory: WG numbers where WG > 1, for the sums of squares; barriers around each reduction, which all work-items
 * reach. */
#define NUMBER(i) OF_BITS(a.bits[i], a.numbers[i])

/* A loop over the elements of a work-item: rows of the tensors, and a part of each. */
#define EACH_ROW_PART(n, end, at, i, stop)                                                                             \
    for (int i, stop, at[CLA_MOST_AXES]; n < end && find_part(&n, end, at, &i, &stop, &a.axes);)
INLINE int find_part(long *n, long end, int *at, int *i, int *stop, const cla_axes *x) {
    const long row = *n / x->length;
    *i = (int)(*n - row * x->length);
    *stop = (int)min((long)x->length, *i + (end - *n));
    find_row(row, at, x);
    *n += *stop - *i;
    return 1;
}

INLINE real factor_of(__global const void *factor, const cla_step_args *a) {
    return a->has_factor ? cla_load(factor, a->factor_0, a->factor_type) : R(1.0);
}

/* Numbers: beta1, 1 - beta1, beta2, 1 - beta2, the rate over the correction of moment1, 1 over the root of that of
 * moment2, epsilon, decay of the gradient, what is left of the parameter. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void adam_step(__global void *parameter, __global const void *gradient, __global void *moment1, __global void *moment2,
               __global const void *factor, const cla_step_args a) {
    long n = (long)get_global_id(0) * a.chunk;
    const long end = min(n + a.chunk, a.axes.rows * a.axes.length);
    const real times = factor_of(factor, &a);
    EACH_ROW_PART(n, end, at, start, stop) {
        const long p_at = start_of(&a.parameter, at, &a.axes), g_at = start_of(&a.gradient, at, &a.axes);
        const long m_at = start_of(&a.state1, at, &a.axes), v_at = start_of(&a.state2, at, &a.axes);
        for (int i = start; i < stop; i += LANES) {
            const int count = PART_COUNT(i, stop);
            vec p = take(parameter, &a.parameter, p_at, i, count, &a.axes), m = (vec)(R(0.0)), v = m;
            const vec g = fma((vec)(NUMBER(7)), p, take(gradient, &a.gradient, g_at, i, count, &a.axes) * times);
            if (!a.first) {
                m = take(moment1, &a.state1, m_at, i, count, &a.axes) * NUMBER(0);
                v = take(moment2, &a.state2, v_at, i, count, &a.axes) * NUMBER(2);
            }
            m = fma(g, (vec)(NUMBER(1)), m);
            v = fma(g * g, (vec)(NUMBER(3)), v);
            p = p * NUMBER(8) - NUMBER(4) * m / fma(sqrt(v), (vec)(NUMBER(5)), (vec)(NUMBER(6)));
            put(m, moment1, &a.state1, m_at, i, count, &a.axes);
            put(v, moment2, &a.state2, v_at, i, count, &a.axes);
            put(p, parameter, &a.parameter, p_at, i, count, &a.axes);
        }
    }
}

/* Numbers: 0: momentum; 4: the rate; 7: decay; 9: 1 - dampening. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void sgd_step(__global void *parameter, __global const void *gradient, __global void *velocity,
              __global const void *factor, const cla_step_args a) {
    long n = (long)get_global_id(0) * a.chunk;
    const long end = min(n + a.chunk, a.axes.rows * a.axes.length);
    const real times = factor_of(factor, &a);
    EACH_ROW_PART(n, end, at, start, stop) {
        const long p_at = start_of(&a.parameter, at, &a.axes), g_at = start_of(&a.gradient, at, &a.axes);
        const long v_at = start_of(&a.state1, at, &a.axes);
        for (int i = start; i < stop; i += LANES) {
            const int count = PART_COUNT(i, stop);
            const vec p = take(parameter, &a.parameter, p_at, i, count, &a.axes);
            vec g = fma((vec)(NUMBER(7)), p, take(gradient, &a.gradient, g_at, i, count, &a.axes) * times);
            if (a.state1.how != CLA_ROW_ABSENT) {
                vec v = g;
                if (!a.first)
                    v = fma(take(velocity, &a.state1, v_at, i, count, &a.axes), (vec)(NUMBER(0)), g * NUMBER(9));
                put(v, velocity, &a.state1, v_at, i, count, &a.axes);
                g = a.nesterov ? fma(v, (vec)(NUMBER(0)), g) : v;
            }
            put(fma(g, (vec)(-NUMBER(4)), p), parameter, &a.parameter, p_at, i, count, &a.axes);
        }
    }
}

/* sums[a.first + group] = the squares of the a.chunk elements of a group. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void square_sums(__global const void *x, __global real *sums, const cla_squares_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0);
    long n = (long)CLA_GROUP * a.chunk;
    const long end = min(n + a.chunk, a.axes.rows * a.axes.length);
    vec sum = (vec)(R(0.0));
    EACH_ROW_PART(n, end, at, start, stop) {
        const long x_at = start_of(&a.x, at, &a.axes);
        for (int i = start + lid * LANES; i < stop; i += WG * LANES) {
            const int count = PART_COUNT(i, stop);
            const vec v = only(take(x, &a.x, x_at, i, count, &a.axes), count);
            sum = fma(v, v, sum);
        }
    }
    const real all = row_sum(sum, shared, lid);
    if (lid == 0)
        sums[a.first + CLA_GROUP] = all;
}

/* The norm of all gradients, from a.count sums, and the factor that clips it. One group. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void norm_total(__global const real *sums, __global void *norm, __global void *factor, const cla_squares_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0);
    vec sum = (vec)(R(0.0));
    for (int i = lid; i < a.count; i += WG)
        sum.s0 += sums[i];
    const real all = sqrt(row_sum(sum, shared, lid)), most = OF_BITS(a.most_bits, a.most);
    const real clip = most / (all + R(1e-6));
    if (lid == 0 && a.has_norm)
        cla_store(norm, a.norm_0, a.norm_type, all);
    if (lid == 0 && a.has_factor) /* NaN stays */
        cla_store(factor, a.factor_0, a.factor_type, most <= R(0.0) || clip > R(1.0) ? R(1.0) : clip);
}
