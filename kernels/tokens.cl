/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens to rows, and rows to one: embedding lookup and mean pooling. A work-group owns rows, which its work-items share,
 * LANES columns in turn.
 * Key: REAL; LANES; STAGED 1; WG. Local memory: WG numbers where WG > 1; barriers around the reduction of `pool`. */

/* Row ids[...] of the table, times a.scale, plus add; NaN where the table has no such row. y may be add. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void embed(__global const void *table, __global const void *ids, __global const void *add, __global void *y,
           const cla_embed_args a) {
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long first = (long)CLA_GROUP * a.rows, end = min(first + a.rows, a.axes.rows);
    const real scale = SCALE_OF(a);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long id_at = start_of(&a.ids, at, &a.axes), add_at = start_of(&a.add, at, &a.axes);
        const long y_at = start_of(&a.y, at, &a.axes);
        const long id = a.ids.type == CLA_I64 ? ((__global const long *)ids)[id_at] : ((__global const int *)ids)[id_at];
        const int known = id >= 0 && id < a.entries;
        const long from = a.table.first + (known ? id : 0) * a.table.s[0];
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            vec v = (vec)(NAN);
            if (known && a.table.how == CLA_ROW_LANES && count == LANES) {
                v = load_lanes(table, from + i, a.table.type) * scale;
            } else if (known) {
                real w[LANES];
                for (int j = 0; j < LANES; j++)
                    w[j] = load_one(table, from + (i + min(j, count - 1)) * a.table.s[1], a.table.type);
                v = LOAD(0, w) * scale;
            }
            if (a.add.how != CLA_ROW_ABSENT)
                v += take(add, &a.add, add_at, i, count, &a.axes);
            put(v, y, &a.y, y_at, i, count, &a.axes);
        }
    }
}

#define ROWS_OF_A_SUM 64 /* rows are added up in two steps, so that long texts do not add up rounding errors */

/* Columns i .. i + count - 1 of the mean of rows 0 .. n - 1. */
INLINE vec mean_of(__global const void *x, const cla_pool_args *a, long at, int n, int i, int count) {
    vec sum = (vec)(R(0.0));
    for (int j0 = 0; j0 < n; j0 += ROWS_OF_A_SUM) {
        vec part = (vec)(R(0.0));
        for (int j = j0; j < min(n, j0 + ROWS_OF_A_SUM); j++)
            part += take(x, &a->x, at + j * a->x.s[2], i, count, &a->axes);
        sum += part;
    }
    return sum / (vec)((real)max(n, 1));
}

/* A work-group owns a batch. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void pool(__global const void *x, __global const int *lengths, __global void *y, const cla_pool_args a) {
    SHARED(shared);
    const int lid = (int)get_local_id(0), b = (int)CLA_GROUP, length = a.axes.length;
    const long x_at = a.x.first + b * a.x.s[0], y_at = a.y.first + b * a.y.s[0];
    real factor = R(1.0);
    if (a.normalise) {
        vec squares = (vec)(R(0.0));
        EACH_PART(i, lid, length) {
            const int count = PART_COUNT(i, length);
            const vec v = only(mean_of(x, &a, x_at, lengths[b], i, count), count);
            squares = fma(v, v, squares);
        }
        const real norm = sqrt(row_sum(squares, shared, lid));
        factor = R(1.0) / (norm < R(1e-12) ? R(1e-12) : norm);
    }
    EACH_PART(i, lid, length) {
        const int count = PART_COUNT(i, length);
        put(mean_of(x, &a, x_at, lengths[b], i, count) * factor, y, &a.y, y_at, i, count, &a.axes);
    }
}
