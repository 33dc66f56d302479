/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copy, with conversion to any float type, and fill over [n0, n1, n2, n3]. One work-item owns one element.
 * Key: REAL, WG. No local memory, no barriers. */

/* The four indices of element n. Remainders by hand: Oclgrind does not know the `freeze` that `/` and `%` of the same
 * numbers become. */
static inline long4 indices(long n, const cla_copy_args *a) {
    const long row = n / a->n3, plane = row / a->n2, cube = plane / a->n1;
    return (long4)(cube, plane - cube * a->n1, row - plane * a->n2, n - row * a->n3);
}

static inline long place_of(long4 i, long first, long s0, long s1, long s2, long s3) {
    return first + i.x * s0 + i.y * s1 + i.z * s2 + i.w * s3;
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void copy_strided(__global const void *x, __global void *y, const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    const long4 i = indices(n, &a);
    cla_store(y, place_of(i, a.y_0, a.y_s0, a.y_s1, a.y_s2, a.y_s3), a.y_type,
              cla_load(x, place_of(i, a.x_0, a.x_s0, a.x_s1, a.x_s2, a.x_s3), a.x_type));
}

/* y[b, h, j, :] = row j % page_size of x[table[b][j / page_size], h], for the keys j of batch b; other rows stay. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void copy_pages(__global const void *x, __global void *y, __global const int *table, __global const cla_span *spans,
                const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    const long4 i = indices(n, &a);
    if (i.z >= spans[i.x].keys)
        return;
    const long row = cla_row_at(table + i.x * a.pages, a.page_size, (int)i.z, a.x_s2, a.x_s0);
    cla_store(y, place_of(i, a.y_0, a.y_s0, a.y_s1, a.y_s2, a.y_s3), a.y_type,
              cla_load(x, a.x_0 + i.y * a.x_s1 + row + i.w * a.x_s3, a.x_type));
}

/* A mask of `columns` keys and what excludes the others: -inf, or a.excludes in a mask of bytes. */
__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void copy_short(__global const void *x, __global void *y, const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    const long4 i = indices(n, &a);
    const int there = i.w < a.columns;
    const long at = place_of(i, a.x_0, a.x_s0, a.x_s1, a.x_s2, a.x_s3);
    const long to = place_of(i, a.y_0, a.y_s0, a.y_s1, a.y_s2, a.y_s3);
    if (a.x_type == CLA_U8 || a.x_type == CLA_BOOL)
        ((__global uchar *)y)[to] = there ? ((__global const uchar *)x)[at] : (uchar)a.excludes;
    else
        cla_store(y, to, a.y_type, there ? cla_load(x, at, a.x_type) : -INFINITY);
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void fill_strided(const real value, __global void *y, const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    cla_store(y, place_of(indices(n, &a), a.y_0, a.y_s0, a.y_s1, a.y_s2, a.y_s3), a.y_type, value);
}
