/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of one tensor to places in another, pairs of dims rotated on the way: rotary embedding, and appending to a cache.
 * Row (b, h, i) of x goes to (places[b, i].x, h, places[b, i].y) of y, or to (b, h, i); nowhere when the place is
 * negative. Its cosines and sines are row rows[b, i], or (b, i), of theirs.
 * Key: REAL, WG; BY_ROW 1: a work-item owns a row, which suits CPUs, 0: a part of one. No local memory, no barriers. */

typedef struct {
    long x, y, cos, sin; /* elements where the row starts */
    int nowhere;
} row_starts;

/* Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same numbers become. */
static inline row_starts starts_of(long row, __global const int *rows, __global const int2 *places,
                                   const cla_rotary_args *a) {
    row_starts r;
    const long head = row / a->N, b = head / a->H, i = row - head * a->N, h = head - b * a->H;
    const long angles = a->has_rows ? rows[b * a->N + i] : i;
    const long b_of_angles = a->has_rows ? 0 : b;
    const int2 place = a->has_places ? places[b * a->N + i] : (int2)((int)b, (int)i);
    r.x = a->x_0 + b * a->x_b + h * a->x_h + i * a->x_i;
    r.y = a->y_0 + place.x * a->y_b + h * a->y_h + place.y * a->y_i;
    r.cos = a->cos_0 + b_of_angles * a->cos_b + angles * a->cos_i;
    r.sin = a->sin_0 + b_of_angles * a->sin_b + angles * a->sin_i;
    r.nowhere = place.x < 0;
    return r;
}

/* The two dims of pair e. */
static inline int2 dims_of(int e, const cla_rotary_args *a) {
    return a->adjacent ? (int2)(2 * e, 2 * e + 1) : (int2)(e, e + a->pairs);
}

/* Pair e, turned. */
static inline real2 rotated_pair(__global const void *x, __global const void *cosines, __global const void *sines,
                                 const row_starts *r, int e, const cla_rotary_args *a) {
    const int2 d = dims_of(e, a);
    const real x1 = cla_load(x, r->x + d.x * a->x_d, a->x_type), x2 = cla_load(x, r->x + d.y * a->x_d, a->x_type);
    const real c = cla_load(cosines, r->cos + e * a->cos_d, a->cos_type);
    const real s = cla_load(sines, r->sin + e * a->sin_d, a->sin_type);
    return (real2)(x1 * c - x2 * s, x1 * s + x2 * c);
}

/* Part `part` of a row: a pair, or a dim that is not rotated. Reads before it writes: y may be x. */
static inline void move_part(__global const void *x, __global void *y, __global const void *cosines,
                             __global const void *sines, const row_starts *r, int part, const cla_rotary_args *a) {
    if (part >= a->pairs) {
        const int d = part + a->pairs;
        cla_store(y, r->y + d * a->y_d, a->y_type, cla_load(x, r->x + d * a->x_d, a->x_type));
        return;
    }
    const int2 d = dims_of(part, a);
    const real2 z = rotated_pair(x, cosines, sines, r, part, a);
    cla_store(y, r->y + d.x * a->y_d, a->y_type, z.x);
    cla_store(y, r->y + d.y * a->y_d, a->y_type, z.y);
}

#if BY_ROW
/* The same of all parts where everything is of type real, without asking for types at each number. */
static inline void move_real(__global const real *x, __global real *y, __global const real *cosines,
                             __global const real *sines, const cla_rotary_args *a) {
    for (int e = 0; e < a->pairs; e++) {
        const int2 d = dims_of(e, a);
        const real c = cosines[e * a->cos_d], s = sines[e * a->sin_d], x1 = x[d.x * a->x_d], x2 = x[d.y * a->x_d];
        y[d.x * a->y_d] = x1 * c - x2 * s;
        y[d.y * a->y_d] = x1 * s + x2 * c;
    }
    for (int d = 2 * a->pairs; d < a->D; d++)
        y[d * a->y_d] = x[d * a->x_d];
}
#endif

/* Work-item n of a rotation. */
static inline void move_item(__global const void *x, __global void *y, __global const void *cosines,
                             __global const void *sines, __global const int *rows, __global const int2 *places,
                             const cla_rotary_args *a, long n) {
    const int parts = a->D - a->pairs;
#if BY_ROW
    const row_starts r = starts_of(n, rows, places, a);
    if (r.nowhere)
        return;
    if (a->x_type == CLA_REAL_TYPE && a->y_type == CLA_REAL_TYPE &&
        (a->pairs == 0 || (a->cos_type == CLA_REAL_TYPE && a->sin_type == CLA_REAL_TYPE)))
        move_real((__global const real *)x + r.x, (__global real *)y + r.y, (__global const real *)cosines + r.cos,
                  (__global const real *)sines + r.sin, a);
    else
        for (int part = 0; part < parts; part++)
            move_part(x, y, cosines, sines, &r, part, a);
#else
    const long row = n / parts;
    const row_starts r = starts_of(row, rows, places, a);
    if (!r.nowhere)
        move_part(x, y, cosines, sines, &r, (int)(n - row * parts), a);
#endif
}

/* Up to CLA_ROTATIONS of them, whose work-items follow one another. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void rotate_rows(__global const void *x0, __global void *y0, __global const void *x1, __global void *y1,
                 __global const void *x2, __global void *y2, __global const void *cosines, __global const void *sines,
                 __global const int *rows, __global const int2 *places, const cla_rotary_sets a) {
    const long n = get_global_id(0);
    if (n < a.ends[0])
        move_item(x0, y0, cosines, sines, rows, places, &a.set[0], n);
    else if (n < a.ends[1])
        move_item(x1, y1, cosines, sines, rows, places, &a.set[1], n - a.ends[0]);
    else if (n < a.ends[2])
        move_item(x2, y2, cosines, sines, rows, places, &a.set[2], n - a.ends[1]);
}

/* 0 where it would be infinite: the scale is 0 in f16 then. */
static inline float inverse_of(float scale) { return fabs(scale) >= 1.17549435e-38f ? 1.0f / scale : 0.0f; }

/* A block as ggml makes it; NaN or infinity in it makes it NaN. */
static inline void store_block(__global uchar *block, const float *x, int type) {
    float largest = 0.0f;
    int finite = 1;
    for (int d = 0; d < 32; d++) {
        finite &= isfinite(x[d]);
        largest = fabs(x[d]) > fabs(largest) ? x[d] : largest;
    }
    const float scale = type == CLA_Q8_0 ? fabs(largest) / 127.0f : largest / -8.0f;
    const float inverse = finite ? inverse_of(scale) : 0.0f;
    vstore_half_rte(finite ? scale : NAN, 0, (__global half *)block);
    if (type == CLA_Q8_0)
        for (int d = 0; d < 32; d++)
            block[2 + d] = as_uchar((char)(finite ? (int)round(x[d] * inverse) : 0));
    else
        for (int d = 0; d < 16; d++) {
            const int low = finite ? (int)(x[d] * inverse + 8.5f) : 0;
            const int high = finite ? (int)(x[d + 16] * inverse + 8.5f) : 0;
            block[2 + d] = (uchar)(min(low, 15) | min(high, 15) << 4);
        }
}

/* A work-item owns a block of a quantised y; one rotation. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void rotate_to_blocks(__global const void *x, __global void *y, __global const void *cosines,
                      __global const void *sines, __global const int *rows, __global const int2 *places,
                      const cla_rotary_args a) {
    const int parts = a.D / 32;
    const long n = get_global_id(0), row = n / parts;
    const int first = (int)(n - row * parts) * 32;
    if (n >= (long)a.B * a.H * a.N * parts)
        return;
    const row_starts r = starts_of(row, rows, places, &a);
    if (r.nowhere)
        return;
    float block[32];
    for (int i = 0; i < 32; i++) {
        const int d = first + i;
        if (d >= 2 * a.pairs) {
            block[i] = (float)cla_load(x, r.x + d * a.x_d, a.x_type);
        } else {
            const int second = a.adjacent ? d & 1 : d >= a.pairs, e = a.adjacent ? d / 2 : d - second * a.pairs;
            const real2 z = rotated_pair(x, cosines, sines, &r, e, &a);
            block[i] = (float)(second ? z.y : z.x);
        }
    }
    store_block((__global uchar *)cla_at(y, r.y + first, a.y_type), block, a.y_type);
}
