/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over rows, and rows as columns.
 * `sums`, without atomics: y[block] = the sum of the a.block rows of a block of x. A work-group owns a block and
 * a.columns columns, SUMS vectors of a work-item at a time; it adds up the sums of PART rows, since errors grow with the
 * length of a sum. Sums of blocks are added up by a second launch, whose x they are.
 * `turn_rows`: y [N, M], dense and of type real, = x [M, N]. A work-item owns LANES columns of a.block rows.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG. No local memory, no barriers. */
#if WG > 1
#define SUMS 1
#else
#define SUMS 8
#endif
#define PART 64

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void sums(__global const void *x, __global void *y, const cla_sums_args a) {
    const int lid = (int)get_local_id(0), length = a.axes.length;
    const long group = (long)CLA_GROUP, block = group / a.chunks;
    const int first = (int)(group - block * a.chunks) * a.columns, end = min(length, first + a.columns);
    const long row0 = block * a.block, row1 = min(row0 + a.block, a.axes.rows);
    for (int i0 = first + lid * LANES; i0 < end; i0 += SUMS * WG * LANES) {
        const int vectors = min(SUMS, (end - i0 + WG * LANES - 1) / (WG * LANES));
        vec sum[SUMS];
        EACH(j, SUMS) sum[j] = (vec)(R(0.0));
        for (long part = row0; part < row1; part += PART) {
            const long stop = min(part + PART, row1);
            vec of_part[SUMS];
            EACH(j, SUMS) of_part[j] = (vec)(R(0.0));
            for (long row = part; row < stop; row++) {
                int at[CLA_MOST_AXES];
                find_row(row, at, &a.axes);
                const long x_at = start_of(&a.x, at, &a.axes);
                for (int j = 0; j < vectors; j++) {
                    const int i = i0 + j * WG * LANES;
                    of_part[j] += take(x, &a.x, x_at, i, PART_COUNT(i, end), &a.axes);
                }
            }
            EACH(j, SUMS) sum[j] += of_part[j];
        }
        for (int j = 0; j < vectors; j++) {
            const int i = i0 + j * WG * LANES, count = PART_COUNT(i, end);
            const long y_at = a.y.first + block * a.y_step;
            if (a.add)
                sum[j] += take(y, &a.y, y_at, i, count, &a.axes);
            put(sum[j], y, &a.y, y_at, i, count, &a.axes);
        }
    }
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void turn_rows(__global const void *x, __global real *y, const cla_sums_args a) {
    const long item = get_global_id(0), down = (a.axes.rows + a.block - 1) / a.block, across = item / down;
    const long m0 = (item - across * down) * a.block, end = min(m0 + a.block, a.axes.rows), n = across * LANES;
    const int columns = (int)min((long)LANES, a.axes.length - n);
    for (long m = m0; m < end && columns > 0; m += LANES) {
        const int rows = (int)min((long)LANES, end - m);
        const long at = a.x.first + m * a.x.s[0] + n * a.x.s[1], to = n * a.axes.rows + m;
        if (rows == LANES && columns == LANES && a.x.how == CLA_ROW_LANES) {
            vec v[LANES];
            EACH(i, LANES) v[i] = load_lanes(x, at + i * a.x.s[0], a.x.type);
            transpose(v);
            EACH(i, LANES) STORE(v[i], 0, y + to + i * a.axes.rows);
        } else {
            for (int j = 0; j < columns; j++)
                for (int i = 0; i < rows; i++)
                    y[to + j * a.axes.rows + i] = load_one(x, at + i * a.x.s[0] + j * a.x.s[1], a.x.type);
        }
    }
}
