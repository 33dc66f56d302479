/* SPDX-License-Identifier: Apache-2.0 */
/* The exact results and what may differ from them. */
#include "oracle_internal.h"
#include <math.h>
#include <stdio.h>

enum { ENOUGH_ROWS = 128 }; /* the worst of fewer is a matter of luck: more orders make up for them */

double oracle_floor(clattn_dtype dtype, double largest) {
    const int bits = dtype == CLATTN_F16 ? 10 : dtype == CLATTN_BF16 ? 7 : 0;
    if (bits > 0)
        return largest > 0 && isfinite(largest)
                   ? fmax(ldexp(1, ilogb(largest) - bits), dtype == CLATTN_F16 ? 0x1p-24 : 0)
                   : 0;
    return (dtype == CLATTN_F64 ? 1e-14 : 1e-6) * largest;
}

/* Largest finite number, in absolute value. */
static double largest_of(const double *x, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(x[i]) && fabs(x[i]) > largest)
            largest = fabs(x[i]);
    return largest;
}

/* The largest error; infinite when plain is not just inexact but elsewhere. */
static double error_of(const double *plain, const double *exact, int64_t count) {
    double error = 0;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(plain[i]) != isnan(exact[i]) || isinf(plain[i]) != isinf(exact[i]))
            return INFINITY;
        if (isfinite(exact[i]) && fabs(plain[i] - exact[i]) > error)
            error = fabs(plain[i] - exact[i]);
    }
    return error;
}

static void add_order(oracle_case *c, oracle_order order) {
    const oracle_config *f = &c->config;
    const int64_t rows = f->B * f->H * f->N;
    oracle_outputs plain = oracle_outputs_alloc(f);
    if (f->dtype == CLATTN_F64)
        oracle_plain_double(c, order, &plain);
    else
        oracle_plain_float(c, order, &plain);
    c->allowed.o = fmax(c->allowed.o, 2 * error_of(plain.o, c->exact.o, rows * f->Dv));
    if (f->lse)
        c->allowed.lse = fmax(c->allowed.lse, 2 * error_of(plain.lse, c->exact.lse, rows));
    if (f->weights)
        c->allowed.weights = fmax(c->allowed.weights, 2 * error_of(plain.weights, c->exact.weights, rows * f->M));
    oracle_outputs_free(&plain);
}

/* Rows that see something. */
static int64_t seeing_rows(const oracle_case *c) {
    int64_t seeing = 0;
    for (int64_t row = 0; row < c->config.B * c->config.H * c->config.N; row++)
        seeing += isfinite(c->exact.o[row * c->config.Dv]) && c->exact.o[row * c->config.Dv] != 0;
    return seeing;
}

bool oracle_exact(oracle_case *c, char text[ORACLE_TEXT]) {
    const oracle_config *f = &c->config;
    char problem[ORACLE_TEXT];
    if (f->dtype == CLATTN_F64)
        oracle_plain_long_double(c, ORACLE_FORWARD, &c->exact);
    else
        oracle_plain_double(c, ORACLE_FORWARD, &c->exact);
    const double o = oracle_floor(f->o_type, largest_of(c->v, f->B * f->Hk * f->M * f->Dv));
    const double lse = f->lse ? oracle_floor(f->dtype, fmax(1, largest_of(c->exact.lse, f->B * f->H * f->N))) : 0;
    const double weights = oracle_floor(f->dtype, 1);
    c->allowed.o = o;
    c->allowed.lse = lse;
    c->allowed.weights = weights;
    const int orders = seeing_rows(c) >= ENOUGH_ROWS ? ORACLE_IN_LANES + 1 : ORACLE_ORDERS;
    for (int order = 0; order < orders; order++)
        add_order(c, (oracle_order)order);
    if (c->allowed.o <= 1000 * o && c->allowed.lse <= 1000 * lse && c->allowed.weights <= 1000 * weights)
        return true;
    snprintf(text, ORACLE_TEXT, "the plain evaluation in %s is useless: %.900s", clattn_dtype_name(f->dtype),
             oracle_text(f, problem));
    return false;
}
