/* SPDX-License-Identifier: Apache-2.0 */
/* y = act(x), act(x) * other or act(x) + other. A work-item owns a.chunk elements, counted over all axes, and reads them
 * before it writes them: y may be x or other.
 * Key: REAL; LANES; STAGED 1: storage may be of any type, 0: all of it is real; WG. No local memory, no barriers. */
#define BLOCK 4 /* vectors at a time */

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec)))
void pointwise(__global const void *x, __global const void *other, __global void *y, const cla_point_args a) {
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
        const long x_at = start_of(&a.x, at, &a.axes), o_at = start_of(&a.other, at, &a.axes);
        const long y_at = start_of(&a.y, at, &a.axes);
        n += stop - i;
        for (; i < stop; i += BLOCK * LANES) {
            real v[BLOCK * LANES];
            const int vectors = min(BLOCK, (stop - i + LANES - 1) / LANES);
            for (int j = 0; j < vectors; j++)
                STORE(take(x, &a.x, x_at, i + j * LANES, PART_COUNT(i + j * LANES, stop), &a.axes), j, v);
            act_lanes(v, vectors, a.act);
            for (int j = 0; j < vectors; j++) {
                const int from = i + j * LANES, count = PART_COUNT(from, stop);
                vec z = LOAD(j, v);
                if (a.with == CLA_WITH_PRODUCT)
                    z *= take(other, &a.other, o_at, from, count, &a.axes);
                else if (a.with == CLA_WITH_SUM)
                    z += take(other, &a.other, o_at, from, count, &a.axes);
                put(z, y, &a.y, y_at, from, count, &a.axes);
            }
        }
    }
}
