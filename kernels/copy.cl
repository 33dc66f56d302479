/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copy and fill over [n0, n1, n2, n3]. One work-item owns one element. Key: ELEMENT bytes (1 2 4 8), WG.
 * No local memory, no barriers. */
#if ELEMENT == 1
typedef uchar element;
#elif ELEMENT == 2
typedef ushort element;
#elif ELEMENT == 4
typedef uint element;
#else
typedef ulong element;
#endif

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void copy_strided(__global const element *x, __global element *y, const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    const long i3 = n % a.n3, i2 = n / a.n3 % a.n2, i1 = n / (a.n3 * a.n2) % a.n1, i0 = n / (a.n3 * a.n2 * a.n1);
    y[a.y_0 + i0 * a.y_s0 + i1 * a.y_s1 + i2 * a.y_s2 + i3 * a.y_s3] =
        x[a.x_0 + i0 * a.x_s0 + i1 * a.x_s1 + i2 * a.x_s2 + i3 * a.x_s3];
}

__kernel __attribute__((reqd_work_group_size(WG, 1, 1)))
void fill_strided(const element value, __global element *y, const cla_copy_args a) {
    const long n = get_global_id(0);
    if (n >= a.n0 * a.n1 * a.n2 * a.n3)
        return;
    const long i3 = n % a.n3, i2 = n / a.n3 % a.n2, i1 = n / (a.n3 * a.n2) % a.n1, i0 = n / (a.n3 * a.n2 * a.n1);
    y[a.y_0 + i0 * a.y_s0 + i1 * a.y_s1 + i2 * a.y_s2 + i3 * a.y_s3] = value;
}
