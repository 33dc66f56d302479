/* SPDX-License-Identifier: Apache-2.0 */
/* The plain evaluation, for one type: QK^T, row softmax and PV in turn, without care. Its error depends on the order of
 * the sums, so there is more than one. Included by two files that define
 *   REAL, EXP, LOG, TANH   the type, and functions of it
 *   ORACLE_PLAIN           the function's full name */
#include "oracle_internal.h"
#include <math.h>
#include <stdlib.h>

enum { LANES = 8 };

/* Sums of numbers that come one after the other: as they come, or as a vector of 8 lanes does it. */
typedef struct {
    REAL lane[LANES];
} sums;

static void add(sums *s, oracle_order order, int64_t at, REAL x) {
    s->lane[order >= ORACLE_IN_LANES && order % 2 == 0 ? at % LANES : 0] += x;
}

static REAL total(const sums *s) {
    REAL x = 0;
    for (int i = LANES - 1; i >= 0; i--)
        x += s->lane[i];
    return x;
}

static int64_t turn(oracle_order order, int64_t at, int64_t count) {
    if (order == ORACLE_BACKWARD)
        return count - 1 - at;
    return order <= ORACLE_IN_LANES ? at : (at + (order - ORACLE_IN_LANES) * (count / 10 + 1)) % count;
}

/* Scores, -inf where excluded. */
static void scores_of(const oracle_case *c, oracle_order order, int64_t b, int64_t h, int64_t i, REAL *s) {
    const oracle_config *f = &c->config;
    const double *q = c->q + ((b * f->H + h) * f->N + i) * f->D;
    const REAL scale = (REAL)(f->has_scale ? f->scale : 1 / sqrt((double)f->D));
    for (int64_t j = 0; j < f->M; j++) {
        const double *k = c->k + ((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->D;
        sums sum = {{0}};
        s[j] = -(REAL)INFINITY;
        if (!oracle_sees(c, b, h, i, j) || oracle_bias(c, b, h, i, j) == -INFINITY)
            continue;
        for (int64_t n = 0; n < f->D; n++) {
            const int64_t d = turn(order, n, f->D);
            add(&sum, order, n, (REAL)q[d] * (REAL)k[d]);
        }
        s[j] = scale * total(&sum);
        if (f->softcap > 0)
            s[j] = (REAL)f->softcap * TANH(s[j] / (REAL)f->softcap);
        if (c->slopes) {
            const int64_t distance = oracle_position(c, b, i) - j;
            s[j] -= (REAL)c->slopes[h] * (REAL)(distance < 0 ? -distance : distance);
        }
        s[j] += (REAL)oracle_bias(c, b, h, i, j);
    }
}

/* Scores become exp(s - m), -1 where excluded. Returns their sum, with the sink. */
static REAL weigh(const oracle_case *c, oracle_order order, int64_t b, int64_t h, int64_t i, REAL *s, REAL *top) {
    const oracle_config *f = &c->config;
    const REAL sink = c->sinks ? (REAL)c->sinks[h] : -(REAL)INFINITY;
    REAL m = sink;
    sums sum = {{0}};
    scores_of(c, order, b, h, i, s);
    for (int64_t j = 0; j < f->M; j++)
        m = s[j] > m ? s[j] : m;
    for (int64_t n = 0; n < f->M; n++) {
        const int64_t j = turn(order, n, f->M);
        s[j] = s[j] == -(REAL)INFINITY ? -1 : EXP(s[j] - m);
        add(&sum, order, n, s[j] == -1 ? 0 : s[j]);
    }
    if (sink > -(REAL)INFINITY)
        add(&sum, order, f->M, EXP(sink - m));
    *top = m;
    return total(&sum);
}

static void row_of(const oracle_case *c, oracle_order order, int64_t b, int64_t h, int64_t i, REAL *s,
                   const oracle_outputs *out) {
    const oracle_config *f = &c->config;
    const int64_t row = (b * f->H + h) * f->N + i;
    const double *v = c->v + (b * f->Hk + h / (f->H / f->Hk)) * f->M * f->Dv;
    REAL m;
    const REAL l = weigh(c, order, b, h, i, s, &m);
    sums sum;
    for (int64_t d = 0; d < f->Dv; d++) {
        sum = (sums){{0}};
        for (int64_t n = 0; n < f->M; n++) {
            const int64_t j = turn(order, n, f->M);
            if (s[j] != -1)
                add(&sum, order, n, s[j] / l * (REAL)oracle_kept(c, b, h, i, j) * (REAL)v[j * f->Dv + d]);
        }
        out->o[row * f->Dv + d] = (double)total(&sum);
    }
    for (int64_t j = 0; out->weights && j < f->M; j++)
        out->weights[row * f->M + j] = s[j] == -1 ? 0 : (double)(s[j] / l);
    if (out->lse)
        out->lse[row] = (double)(m + LOG(l));
}

/* A row of no sequence. */
static void no_row(const oracle_case *c, int64_t row, const oracle_outputs *out) {
    for (int64_t d = 0; d < c->config.Dv; d++)
        out->o[row * c->config.Dv + d] = NAN;
    if (out->lse)
        out->lse[row] = NAN;
}

void ORACLE_PLAIN(const oracle_case *c, oracle_order order, const oracle_outputs *outputs) {
    const oracle_config *f = &c->config;
    REAL *s = oracle_alloc((size_t)f->M, sizeof *s);
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), i = row % f->N;
        if (c->cu_queries && i >= c->cu_queries[b + 1] - c->cu_queries[b])
            no_row(c, row, outputs);
        else
            row_of(c, order, b, row / f->N % f->H, i, s, outputs);
    }
    free(s);
}
