/* SPDX-License-Identifier: Apache-2.0 */
#include "samples.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cla_median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double cla_spread(const double *values, int count) {
    const double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
    return count < 5 || !(median > 0) ? 0 : (values[count - 1 - count / 4] - values[count / 4]) / median;
}
