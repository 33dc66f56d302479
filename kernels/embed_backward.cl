/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient by a table whose rows were looked up by ids, without atomics: ids to a list of places for each row of the
 * table, in their order, then a sum along each list.
 * Key: REAL; LANES; STAGED 1; WG. No local memory, no barriers. */
#if WG > 1
#define SUMS 1
#else
#define SUMS 4
#endif

/* ids as ints side by side; -1 for what is no row of the table, or padding. A work-item owns a.share of them. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void flat_ids(__global const void *ids, __global int *flat, const cla_embed_back_args a) {
    const long first = (long)get_global_id(0) * a.share, end = min(first + a.share, a.axes.rows);
    for (long row = first; row < end; row++) {
        int at[CLA_MOST_AXES];
        find_row(row, at, &a.axes);
        const long place = start_of(&a.ids, at, &a.axes);
        const long id = a.ids.type == CLA_I64 ? ((__global const long *)ids)[place] : ((__global const int *)ids)[place];
        const int counts = id >= 0 && id < a.entries && !(a.has_padding && id == a.padding);
        flat[row] = counts ? (int)id : -1;
    }
}

/* heads[v] = the first place of id v, or -1, next[t] = the next place of the id at t. A work-item owns a.share rows of the
 * table, and looks at every id. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void id_lists(__global const int *flat, __global int *next, __global int *heads, const cla_embed_back_args a) {
    const long first = (long)get_global_id(0) * a.share, end = min(first + a.share, (long)a.entries);
    for (long v = first; v < end; v++)
        heads[v] = -1;
    for (int t = (int)a.axes.rows - 1; t >= 0 && first < end; t--) {
        const int id = flat[t];
        if (id >= first && id < end) {
            next[t] = heads[id];
            heads[id] = t;
        }
    }
}

#define ROWS_OF_A_SUM 64 /* rows are added up in two steps, so that frequent ids do not add up rounding errors */

/* Columns i0 + j WG LANES of the sum along a list. */
INLINE void list_sum(vec *sum, __global const void *d_y, __global const int *next, const cla_embed_back_args *a, int t,
                     int i0, int end, int vectors) {
    while (t >= 0) {
        vec part[SUMS];
        EACH(j, SUMS) part[j] = (vec)(R(0.0));
        for (int rows = 0; rows < ROWS_OF_A_SUM && t >= 0; rows++) {
            int at[CLA_MOST_AXES];
            find_row(t, at, &a->axes);
            const long d_at = start_of(&a->d_y, at, &a->axes);
            for (int j = 0; j < vectors; j++) {
                const int i = i0 + j * WG * LANES;
                part[j] += take(d_y, &a->d_y, d_at, i, PART_COUNT(i, end), &a->axes);
            }
            t = next[t];
        }
        EACH(j, SUMS) sum[j] += part[j];
    }
}

/* A work-group owns a.share rows of the table and a.columns columns. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void embed_backward(__global const void *d_y, __global const int *next, __global const int *heads,
                    __global void *table, const cla_embed_back_args a) {
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long group = (long)CLA_GROUP, part = group / a.chunks;
    const int first = (int)(group - part * a.chunks) * a.columns, end = min(length, first + a.columns);
    const long from = part * a.share, to = min(from + a.share, (long)a.entries);
    const real scale = SCALE_OF(a);
    for (long v = from; v < to; v++) {
        const int head = heads[v];
        if (head < 0 && a.add)
            continue;
        const long row_at = a.table.first + v * a.table.s[0];
        for (int i0 = first + lid * LANES; i0 < end; i0 += SUMS * WG * LANES) {
            const int vectors = min(SUMS, (end - i0 + WG * LANES - 1) / (WG * LANES));
            vec sum[SUMS];
            EACH(j, SUMS) sum[j] = (vec)(R(0.0));
            list_sum(sum, d_y, next, &a, head, i0, end, vectors);
            for (int j = 0; j < vectors; j++) {
                const int i = i0 + j * WG * LANES, count = PART_COUNT(i, end);
                const long place = row_at + i * a.table.s[1];
                real w[LANES];
                STORE(sum[j] * scale, 0, w);
                for (int c = 0; c < count; c++) {
                    const long c_at = place + c * a.table.s[1];
                    const real old = a.add ? load_one(table, c_at, a.table.type) : R(0.0);
                    store_one(old + w[c], table, c_at, a.table.type);
                }
            }
        }
    }
}
