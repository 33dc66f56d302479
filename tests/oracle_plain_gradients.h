/* SPDX-License-Identifier: Apache-2.0 */
/* The plain backward pass, for one type: P again, dP = dO V^T, dS = P (dP - D), then the products, with whole matrices.
 * Included after oracle_plain.h by the files that define its macros and
 *   ORACLE_PLAIN_GRADIENTS   the function's full name */

/* Of one head: [N, M]; excluded: P = -1. */
typedef struct {
    REAL *p, *ds;
} matrices;

/* Row i of P and dS, before the scale and the cap; the row's share of the sink. */
static REAL gradient_row(const oracle_backward *g, oracle_order order, bool stored, int64_t b, int64_t h, int64_t i,
                         const matrices *x) {
    const oracle_case *c = g->c;
    const oracle_config *f = &c->config;
    const double *v = c->v + (b * f->Hk + h / (f->H / f->Hk)) * f->M * f->Dv;
    const double *by_o = g->d_o + ((b * f->H + h) * f->N + i) * f->Dv;
    REAL *p = x->p + i * f->M, *ds = x->ds + i * f->M, m;
    const REAL l = weigh(c, order, b, h, i, p, &m);
    sums delta = {{0}}, sum;
    bool seen = false;
    for (int64_t j = 0; j < f->M; j++) {
        seen = seen || p[j] != -1;
        p[j] = p[j] == -1 ? -1 : p[j] / l;
    }
    if (!seen)
        return 0;
    for (int64_t d = 0; d < f->Dv; d++) {
        sum = (sums){{0}};
        for (int64_t n = 0; n < f->M; n++) {
            const int64_t j = turn(order, n, f->M);
            if (p[j] != -1)
                add(&sum, order, n, p[j] * (REAL)oracle_kept(c, b, h, i, j) * (REAL)v[j * f->Dv + d]);
        }
        double o = (double)total(&sum);
        if (stored)
            oracle_round(f->o_type, &o, 1);
        add(&delta, order, d, (REAL)by_o[d] * (stored ? (REAL)o : total(&sum)));
    }
    for (int64_t j = 0; j < f->M; j++) {
        if (p[j] == -1)
            continue;
        sum = (sums){{0}};
        for (int64_t n = 0; n < f->Dv; n++) {
            const int64_t d = turn(order, n, f->Dv);
            add(&sum, order, n, (REAL)by_o[d] * (REAL)v[j * f->Dv + d]);
        }
        ds[j] = p[j] * ((REAL)oracle_kept(c, b, h, i, j) * total(&sum) - total(&delta));
    }
    const REAL sink = c->sinks ? (REAL)c->sinks[h] : -(REAL)INFINITY;
    return sink > -(REAL)INFINITY ? -EXP(sink - m) / l * total(&delta) : 0;
}

/* The factor of a score's gradient that the soft cap makes. */
static REAL slope_of_cap(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const oracle_config *f = &c->config;
    const double *q = c->q + ((b * f->H + h) * f->N + i) * f->D;
    const double *k = c->k + ((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->D;
    REAL s = 0;
    for (int64_t d = 0; d < f->D; d++)
        s += (REAL)q[d] * (REAL)k[d];
    const REAL t = TANH((REAL)(f->has_scale ? f->scale : 1 / sqrt((double)f->D)) * s / (REAL)f->softcap);
    return 1 - t * t;
}

static void add_to_bias(const oracle_case *c, int64_t b, int64_t h, const matrices *x, double *bias) {
    const oracle_config *f = &c->config;
    int64_t shape[4];
    oracle_mask_shape(f, f->bias, shape);
    for (int64_t i = 0; i < f->N; i++)
        for (int64_t j = 0; j < f->M; j++)
            if (x->p[i * f->M + j] != -1) {
                const int64_t row = (b % shape[0] * shape[1] + h % shape[1]) * shape[2] + i % shape[2];
                double *to = &bias[row * shape[3] + j % shape[3]];
                *to = (double)((REAL)*to + x->ds[i * f->M + j]);
            }
}

/* A row of dQ. */
static void query_gradient(const oracle_backward *g, oracle_order order, int64_t b, int64_t h, int64_t i,
                           const matrices *x, double *out) {
    const oracle_config *f = &g->c->config;
    const double *k = g->c->k + (b * f->Hk + h / (f->H / f->Hk)) * f->M * f->D;
    for (int64_t d = 0; d < f->D; d++) {
        sums sum = {{0}};
        for (int64_t n = 0; n < f->M; n++) {
            const int64_t j = turn(order, n, f->M);
            if (x->p[i * f->M + j] != -1)
                add(&sum, order, n, x->ds[i * f->M + j] * (REAL)k[j * f->D + d]);
        }
        out[((b * f->H + h) * f->N + i) * f->D + d] = (double)total(&sum);
    }
}

/* Rows of dK and dV get what head h adds. */
static void key_gradients(const oracle_backward *g, oracle_order order, int64_t b, int64_t h, int64_t j,
                          const matrices *x, const oracle_gradients *out) {
    const oracle_config *f = &g->c->config;
    const int64_t row = (b * f->Hk + h / (f->H / f->Hk)) * f->M + j, first = (b * f->H + h) * f->N;
    for (int64_t e = 0; e < f->D + f->Dv; e++) {
        const bool key = e < f->D;
        const int64_t d = key ? e : e - f->D, width = key ? f->D : f->Dv;
        const double *from = (key ? g->c->q : g->d_o) + first * width + d;
        double *to = out->of[key ? ORACLE_DK : ORACLE_DV];
        sums sum = {{0}};
        for (int64_t n = 0; to && n < f->N; n++) {
            const int64_t i = turn(order, n, f->N), at = i * f->M + j;
            if (x->p[at] != -1)
                add(&sum, order, n,
                    (key ? x->ds[at] : x->p[at] * (REAL)oracle_kept(g->c, b, h, i, j)) * (REAL)from[i * width]);
        }
        if (to)
            to[row * width + d] = (double)((REAL)to[row * width + d] + total(&sum));
    }
}

static void one_head(const oracle_backward *g, oracle_order order, bool stored, int64_t b, int64_t h, const matrices *x,
                     const oracle_gradients *out) {
    const oracle_config *f = &g->c->config;
    const REAL scale = (REAL)(f->has_scale ? f->scale : 1 / sqrt((double)f->D));
    for (int64_t i = 0; i < f->N; i++) {
        const REAL sink = gradient_row(g, order, stored, b, h, i, x);
        if (out->of[ORACLE_DSINKS])
            out->of[ORACLE_DSINKS][h] = (double)((REAL)out->of[ORACLE_DSINKS][h] + sink);
    }
    if (out->of[ORACLE_DBIAS])
        add_to_bias(g->c, b, h, x, out->of[ORACLE_DBIAS]);
    for (int64_t at = 0; at < f->N * f->M; at++)
        if (x->p[at] != -1)
            x->ds[at] *= scale * (f->softcap > 0 ? slope_of_cap(g->c, b, h, at / f->M, at % f->M) : 1);
    for (int64_t i = 0; i < f->N; i++)
        query_gradient(g, order, b, h, i, x, out->of[ORACLE_DQ]);
    for (int64_t j = 0; j < f->M; j++)
        key_gradients(g, order, b, h, j, x, out);
}

void ORACLE_PLAIN_GRADIENTS(const oracle_backward *g, oracle_order order, bool stored, const oracle_gradients *out) {
    const oracle_config *f = &g->c->config;
    const size_t pairs = (size_t)(f->N * f->M);
    matrices x = {.p = oracle_alloc(pairs, sizeof *x.p), .ds = oracle_alloc(pairs, sizeof *x.ds)};
    for (int64_t b = 0; b < f->B; b++)
        for (int64_t h = 0; h < f->H; h++)
            one_head(g, order, stored, b, h, &x, out);
    free(x.p);
    free(x.ds);
}
