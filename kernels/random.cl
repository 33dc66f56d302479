/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by their place in a stream: number n is one of the four that Philox gives for the counter
 * (n / 4, stream). A work-item owns a.chunk elements of y, counted over all axes.
 * Key: REAL; LANES; STAGED 1: y may be of any type, 0: it is real; WG. No local memory, no barriers. */

/* Four numbers from four words. */
INLINE void numbers_of(uint4 bits, int uniform, float *z) {
    if (uniform) {
        vstore4(convert_float4(bits >> 8) * 0x1p-24f, 0, z);
        return;
    }
    const float r = cla_normal_radius(bits.x), s = cla_normal_radius(bits.z);
    z[0] = r * cla_normal_cosine(bits.y);
    z[1] = r * cla_normal_cosine(bits.y - 0x40000000u);
    z[2] = s * cla_normal_cosine(bits.w);
    z[3] = s * cla_normal_cosine(bits.w - 0x40000000u);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1), vec_type_hint(vec))) void random_numbers(__global void *y, const cla_random_args a) {
    const int length = a.axes.length;
    const long all = a.axes.rows * length;
    const uint2 key = (uint2)((uint)a.seed, (uint)(a.seed >> 32)), stream = (uint2)((uint)a.stream, (uint)(a.stream >> 32));
    long n = (long)get_global_id(0) * a.chunk;
    const long end = min(n + a.chunk, all);
    while (n < end) {
        int at[CLA_MOST_AXES];
        const long row = n / length;
        int i = (int)(n - row * length);
        const int stop = (int)min((long)length, i + (end - n));
        find_row(row, at, &a.axes);
        const long y_at = start_of(&a.y, at, &a.axes);
        ulong place = (ulong)a.first + (ulong)n;
        n += stop - i;
        while (i < stop) {
            float z[4];
            numbers_of(cla_philox((uint4)((uint)(place >> 2), (uint)(place >> 34), stream), key), a.uniform, z);
            for (int j = (int)(place & 3); j < 4 && i < stop; j++, i++, place++)
                store_one((real)z[j], y, y_at + place_in(&a.y, i, &a.axes), a.y.type);
        }
    }
}
