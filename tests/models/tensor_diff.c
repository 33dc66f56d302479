/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two tensors of files, for the scripts here:
 *   tensor_diff NAME A B MAX_ABS [MIN_COSINE]     A, B: X.npy or FILE.safetensors:TENSOR
 * Same shape, no difference above MAX_ABS, and cosines of rows not below MIN_COSINE. One line; exit status 1 where it
 * does not hold. With B "unit": whether the rows of A have length 1. */
#include <clattn/io.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool load(const char *spec, clattn_array *array) {
    clattn_array stored = {0};
    clattn_status status = clattn_array_load(spec, &stored);
    if (status == CLATTN_OK)
        status = clattn_array_convert(&stored, CLATTN_F64, array);
    if (status != CLATTN_OK)
        printf("FAILED: %s\n", clattn_last_error());
    clattn_array_free(&stored);
    return status == CLATTN_OK;
}

static bool same_shape(const clattn_array *a, const clattn_array *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

/* Whether all of it holds; NaN never does. */
static bool compare(const char *name, const clattn_array *a, const clattn_array *b, double max_abs, double min_cosine) {
    const int64_t n = (int64_t)(a->bytes / sizeof(double)), width = a->rank > 0 ? a->shape[a->rank - 1] : 1;
    const double *x = a->data, *y = b->data;
    double worst = 0, lowest = 1;
    for (int64_t i = 0; i < n; i += width) {
        double xy = 0, xx = 0, yy = 0;
        for (int64_t j = i; j < i + width; j++) {
            const double d = fabs(x[j] - y[j]);
            worst = d <= worst ? worst : d;
            xy += x[j] * y[j];
            xx += x[j] * x[j];
            yy += y[j] * y[j];
        }
        const double cosine = xy / sqrt(xx * yy);
        lowest = cosine >= lowest ? lowest : cosine;
    }
    const bool ok = n > 0 && worst <= max_abs && lowest >= min_cosine;
    printf("%s: %s: max abs %.3g (allowed %.3g), 1 - cosine %.2g\n", ok ? "ok" : "FAILED", name, worst, max_abs,
           1 - lowest);
    return ok;
}

static bool unit_rows(const char *name, const clattn_array *a, double max_abs) {
    const int64_t n = (int64_t)(a->bytes / sizeof(double)), width = a->rank > 0 ? a->shape[a->rank - 1] : 1;
    const double *x = a->data;
    double worst = n > 0 ? 0 : INFINITY;
    for (int64_t i = 0; i < n; i += width) {
        double sum = 0;
        for (int64_t j = i; j < i + width; j++)
            sum += x[j] * x[j];
        const double d = fabs(sqrt(sum) - 1);
        worst = d <= worst ? worst : d;
    }
    printf("%s: %s: lengths differ from 1 by %.3g (allowed %.3g)\n", worst <= max_abs ? "ok" : "FAILED", name, worst,
           max_abs);
    return worst <= max_abs;
}

int main(int argc, char **argv) {
    clattn_array a = {0}, b = {0};
    if (argc != 5 && argc != 6) {
        fprintf(stderr, "usage: %s NAME A B MAX_ABS [MIN_COSINE]\n", argv[0]);
        return 2;
    }
    const double max_abs = strtod(argv[4], NULL), min_cosine = argc > 5 ? strtod(argv[5], NULL) : -1;
    const bool unit = strcmp(argv[3], "unit") == 0;
    bool ok = load(argv[2], &a) && (unit || load(argv[3], &b));
    if (ok && !unit && !same_shape(&a, &b)) {
        printf("FAILED: %s: the shapes differ\n", argv[1]);
        ok = false;
    }
    ok = ok && (unit ? unit_rows(argv[1], &a, max_abs) : compare(argv[1], &a, &b, max_abs, min_cosine));
    clattn_array_free(&a);
    clattn_array_free(&b);
    return ok ? 0 : 1;
}
