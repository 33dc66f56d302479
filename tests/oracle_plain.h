/* SPDX-License-Identifier: Apache-2.0 */
/* The plain evaluation, for one type: QK^T, row softmax and PV in order, without care. Included by two files that
 * define REAL, EXP, LOG   the type, and functions of it ORACLE_PLAIN     the function's full name */
#include "oracle_internal.h"
#include <math.h>
#include <stdlib.h>

/* Scores, -inf where excluded. */
static void scores_of(const oracle_case *c, int64_t b, int64_t h, int64_t i, REAL *s) {
    const oracle_config *f = &c->config;
    const double *q = c->q + ((b * f->H + h) * f->N + i) * f->D;
    const REAL scale = (REAL)(f->has_scale ? f->scale : 1 / sqrt((double)f->D));
    for (int64_t j = 0; j < f->M; j++) {
        const double *k = c->k + ((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->D;
        REAL sum = 0;
        for (int64_t d = 0; d < f->D; d++)
            sum += (REAL)q[d] * (REAL)k[d];
        s[j] = scale * sum + (REAL)oracle_bias(c, b, h, i, j);
        if (!oracle_sees(c, b, h, i, j) || oracle_bias(c, b, h, i, j) == -INFINITY)
            s[j] = -(REAL)INFINITY;
    }
}

static void row_of(const oracle_case *c, int64_t b, int64_t h, int64_t i, REAL *s, const oracle_outputs *out) {
    const oracle_config *f = &c->config;
    const int64_t row = (b * f->H + h) * f->N + i;
    REAL m = -(REAL)INFINITY, l = 0;
    scores_of(c, b, h, i, s);
    for (int64_t j = 0; j < f->M; j++)
        m = s[j] > m ? s[j] : m;
    for (int64_t j = 0; j < f->M; j++) {
        s[j] = s[j] == -(REAL)INFINITY ? -1 : EXP(s[j] - m);
        l += s[j] == -1 ? 0 : s[j];
    }
    for (int64_t d = 0; d < f->Dv; d++) {
        REAL sum = 0;
        for (int64_t j = 0; j < f->M; j++)
            if (s[j] != -1)
                sum += s[j] / l * (REAL)c->v[((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->Dv + d];
        out->o[row * f->Dv + d] = (double)sum;
    }
    for (int64_t j = 0; out->weights && j < f->M; j++)
        out->weights[row * f->M + j] = s[j] == -1 ? 0 : (double)(s[j] / l);
    if (out->lse)
        out->lse[row] = (double)(m + LOG(l));
}

void ORACLE_PLAIN(const oracle_case *c, const oracle_outputs *outputs) {
    const oracle_config *f = &c->config;
    REAL *s = oracle_alloc((size_t)f->M, sizeof *s);
    for (int64_t row = 0; row < f->B * f->H * f->N; row++)
        row_of(c, row / (f->H * f->N), row / f->N % f->H, row % f->N, s, outputs);
    free(s);
}
