/* SPDX-License-Identifier: Apache-2.0 */
/* Runs that give numbers, judged by those of the `cpu` context. Inputs are views of one array of random numbers. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include "sweep.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBERS = 8192 };

typedef struct numbers {
    /* Writes up to NUMBERS numbers. */
    clattn_status (*compute)(clattn_context *context, const char *how, float *out);
    const char *how; /* such as an algorithm, NULL on `cpu` */
    float *got, *want;
} numbers;

static float numbers_in[NUMBERS]; /* filled once */

/* Dense, over numbers from `at` on. */
static inline clattn_tensor numbers_view(float *at, int rank, int64_t n0, int64_t n1, int64_t n2) {
    return clattn_tensor_host(at, CLATTN_F32, rank, (const int64_t[]){n0, n1, n2});
}
static inline clattn_tensor numbers_matrix(int64_t rows, int64_t columns) {
    return numbers_view(numbers_in + 7 * rows, 2, rows, columns, 0);
}
static inline clattn_tensor numbers_vector(int64_t n) { return numbers_view(numbers_in + 11 * n, 1, n, 0, 0); }
/* The next place in an array of results, for a tensor of the shape of another; absent where that is. */
static inline clattn_tensor numbers_out(float **at, clattn_tensor like) {
    clattn_tensor t = like;
    t.host = *at;
    *at += like.rank > 0 ? clattn_tensor_elements(&like) : 0;
    return t;
}

static bool run_numbers(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const numbers *n = data;
    memset(n->got, 0, NUMBERS * sizeof *n->got);
    return succeeded(n->compute(context, n->how, n->got), text);
}

static bool numbers_right(const void *data, char text[ORACLE_TEXT]) {
    const numbers *n = data;
    for (int i = 0; i < NUMBERS; i++)
        if (n->got[i] != n->want[i] && !(fabsf(n->got[i] - n->want[i]) <= 1e-4F * (1 + fabsf(n->want[i])))) {
            snprintf(text, ORACLE_TEXT, "number %d is %g, not %g", i, (double)n->got[i], (double)n->want[i]);
            return false;
        }
    return true;
}

static void sweep_numbers(const char *name, const char *device, const char *how,
                          clattn_status (*compute)(clattn_context *context, const char *how, float *out)) {
    static float got[NUMBERS], want[NUMBERS];
    const numbers n = {.compute = compute, .how = how, .got = got, .want = want};
    clattn_context *context = NULL;
    oracle_random random = {5};
    for (int i = 0; i < NUMBERS; i++)
        numbers_in[i] = (float)oracle_normal(&random) / 3;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    SUCCEEDS(compute(context, NULL, want));
    clattn_context_destroy(context);
    sweep(&(run_of){.name = name, .device = device, .data = &n, .run = run_numbers, .right = numbers_right});
}

#endif
