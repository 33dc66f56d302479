/* SPDX-License-Identifier: Apache-2.0 */
/* Problems for the tests of weights: made from a seed, with every option, and evaluated here in plain loops, in double
 * and as float would do it. Written apart from the library's own code. */
#ifndef WEIGHTS_CASES_H
#define WEIGHTS_CASES_H

#include "oracle.h"
#include "tensor/dtype.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    int64_t B, H, Hk, N, M, D, Dv;
    clattn_dtype q, k, v;
    bool causal, window, keep, drop, bias, alibi, sinks, key_lengths, query_lengths, prefix, segments;
    bool poison; /* NaN at keys that `drop` hides from every query, and at some that only later queries see */
    double softcap;
} weights_config;

typedef struct {
    weights_config f;
    double *q, *k;              /* as the types hold them */
    void *stored[3];            /* q, k, v */
    unsigned char *keep, *drop; /* [B, H, N, M], [N, M] */
    float *bias, *slopes;       /* [H, N, M], [H] */
    void *sinks;                /* [H], of the sums */
    int64_t *key_lengths, *query_lengths, *prefix;
    int32_t *query_segments, *key_segments;
} weights_case;

typedef struct {
    double *form[4]; /* [B, H, N, M]; of clattn_weights_form */
    double *mean;    /* [B, N, M] */
    double *columns; /* [B, H, M] */
    double *entropy; /* [B, H, N] */
} weights_results;

static inline void *weights_room(int64_t count, size_t size) {
    void *p = calloc(count > 0 ? (size_t)count : 1, size);
    cr_assert_not_null(p);
    return p;
}

static inline bool weights_wide(const weights_config *f) {
    return f->q == CLATTN_F64 || f->k == CLATTN_F64 || f->v == CLATTN_F64;
}
static inline clattn_dtype weights_sums(const weights_config *f) { return weights_wide(f) ? CLATTN_F64 : CLATTN_F32; }

/* Normal values in a type, and as they are in it. */
static inline double *weights_values(oracle_random *random, clattn_dtype dtype, int64_t count, void **stored) {
    double *x = weights_room(count, sizeof *x);
    float *single = weights_room(count, sizeof *single);
    *stored = weights_room(count, 8);
    for (int64_t i = 0; i < count; i++) {
        x[i] = dtype == CLATTN_F64 ? oracle_normal(random) : (double)(float)oracle_normal(random);
        single[i] = (float)x[i];
    }
    if (dtype == CLATTN_F64)
        memcpy(*stored, x, (size_t)count * sizeof *x);
    else
        SUCCEEDS(clattn_convert(*stored, dtype, single, CLATTN_F32, (size_t)count));
    if (dtype != CLATTN_F64) {
        SUCCEEDS(clattn_convert(single, CLATTN_F32, *stored, dtype, (size_t)count));
        for (int64_t i = 0; i < count; i++)
            x[i] = (double)single[i];
    }
    free(single);
    return x;
}

/* NaN in the row of a key, whatever the type. */
static inline void weights_spoil(weights_case *c, int64_t row) {
    for (int64_t d = 0; d < c->f.D; d++) {
        c->k[row * c->f.D + d] = NAN;
        cla_store_element(c->stored[1], c->f.k, row * c->f.D + d, NAN);
    }
    for (int64_t d = 0; d < c->f.Dv; d++)
        cla_store_element(c->stored[2], c->f.v, row * c->f.Dv + d, NAN);
}

static inline void weights_masks(weights_case *c, oracle_random *random) {
    const weights_config *f = &c->f;
    const int64_t all = f->B * f->H * f->N * f->M;
    for (int64_t x = 0; f->keep && x < all; x++)
        c->keep[x] = oracle_below(random, 10) < 7;
    for (int64_t j = 0; f->keep && j < f->M; j++) /* query 0 of the last head sees nothing */
        c->keep[((f->B * f->H - 1) * f->N) * f->M + j] = 0;
    for (int64_t x = 0; f->drop && x < f->N * f->M; x++)
        c->drop[x] = oracle_below(random, 4) == 0;
    for (int64_t x = 0; f->bias && x < f->H * f->N * f->M; x++)
        c->bias[x] = oracle_below(random, 9) == 0 ? -INFINITY : (float)oracle_normal(random);
    for (int64_t h = 0; h < f->H; h++)
        cla_store_element(c->sinks, weights_sums(f), h, h == 1 ? -INFINITY : oracle_normal(random));
    for (int64_t b = 0; b < f->B; b++) {
        c->key_lengths[b] = b == 0 ? f->M : oracle_below(random, f->M + 1);
        c->query_lengths[b] = b == 0 ? f->N - f->N / 3 : oracle_below(random, f->N + 1);
        c->prefix[b] = oracle_below(random, f->M / 2 + 1);
        for (int64_t i = 0; i < f->N; i++)
            c->query_segments[b * f->N + i] = (int32_t)(i * 3 / f->N);
        for (int64_t j = 0; j < f->M; j++)
            c->key_segments[b * f->M + j] = (int32_t)(j * 4 / f->M);
    }
    clattn_alibi_slopes(f->H, c->slopes);
    for (int64_t j = 2; f->poison && j < f->M; j += 5) {
        for (int64_t b = 0; b < f->B * f->Hk; b++)
            weights_spoil(c, b * f->M + j);
        for (int64_t i = 0; i < f->N; i++)
            c->drop[i * f->M + j] = j % 3 != 0 || i < f->N - 1;
    }
}

static inline weights_case *weights_make(const weights_config *config) {
    weights_case *c = weights_room(1, sizeof *c);
    oracle_random random = {(uint64_t)(config->N * 1000 + config->M)};
    c->f = *config;
    const weights_config *f = &c->f;
    double *v;
    c->q = weights_values(&random, f->q, f->B * f->H * f->N * f->D, &c->stored[0]);
    c->k = weights_values(&random, f->k, f->B * f->Hk * f->M * f->D, &c->stored[1]);
    v = weights_values(&random, f->v, f->B * f->Hk * f->M * f->Dv, &c->stored[2]);
    free(v);
    c->keep = weights_room(f->B * f->H * f->N * f->M, 1);
    c->drop = weights_room(f->N * f->M, 1);
    c->bias = weights_room(f->H * f->N * f->M, sizeof *c->bias);
    c->slopes = weights_room(f->H, sizeof *c->slopes);
    c->sinks = weights_room(f->H, 8);
    c->key_lengths = weights_room(f->B, 8);
    c->query_lengths = weights_room(f->B, 8);
    c->prefix = weights_room(f->B, 8);
    c->query_segments = weights_room(f->B * f->N, 4);
    c->key_segments = weights_room(f->B * f->M, 4);
    weights_masks(c, &random);
    return c;
}

static inline void weights_free(weights_case *c) {
    void *const all[] = {c->q,         c->k,           c->stored[0],      c->stored[1],
                         c->stored[2], c->keep,        c->drop,           c->bias,
                         c->slopes,    c->sinks,       c->query_segments, c->key_segments,
                         c->prefix,    c->key_lengths, c->query_lengths,  c};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
}

/* ---- what is right ---- */

static inline bool weights_sees(const weights_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const weights_config *f = &c->f;
    const int64_t keys = f->key_lengths ? c->key_lengths[b] : f->M;
    const int64_t queries = f->query_lengths ? c->query_lengths[b] : f->N, p = i + keys - queries;
    if (j >= keys || i >= queries)
        return false;
    if (f->causal && j > p && !(f->prefix && j < c->prefix[b]))
        return false;
    if (f->window && (p - j > 5 || j - p > 3))
        return false;
    if (f->keep && !c->keep[((b * f->H + h) * f->N + i) * f->M + j])
        return false;
    if (f->drop && c->drop[i * f->M + j])
        return false;
    if (f->bias && c->bias[(h * f->N + i) * f->M + j] == -INFINITY)
        return false;
    return !f->segments || c->query_segments[b * f->N + i] == c->key_segments[b * f->M + j];
}

/* Rounds as the type of a plain evaluation does; double is left alone. */
static inline double weights_round(double x, bool single) { return single ? (double)(float)x : x; }
#define ROUND(x) weights_round(x, single)

static inline void weights_scores(const weights_case *c, bool single, int64_t b, int64_t h, int64_t i, int64_t j,
                                  double s[4]) {
    const weights_config *f = &c->f;
    const double *q = c->q + ((b * f->H + h) * f->N + i) * f->D,
                 *k = c->k + ((b * f->Hk + h / (f->H / f->Hk)) * f->M + j) * f->D;
    const int64_t keys = f->key_lengths ? c->key_lengths[b] : f->M;
    const int64_t queries = f->query_lengths ? c->query_lengths[b] : f->N, distance = i + keys - queries - j;
    double sum = 0;
    for (int64_t d = 0; d < f->D; d++)
        sum = ROUND(sum + ROUND(q[d] * k[d]));
    s[1] = ROUND(ROUND(1 / sqrt((double)f->D)) * sum);
    s[2] = f->softcap > 0 ? ROUND(f->softcap * ROUND(tanh(ROUND(s[1] / f->softcap)))) : s[1];
    s[3] = s[2];
    if (f->alibi)
        s[3] = ROUND(s[3] - ROUND((double)c->slopes[h] * fabs((double)distance)));
    if (f->bias)
        s[3] = ROUND(s[3] + (double)c->bias[(h * f->N + i) * f->M + j]);
    if (!weights_sees(c, b, h, i, j))
        s[3] = -INFINITY;
}

static inline void weights_row(const weights_case *c, bool single, int64_t row, const weights_results *r) {
    const weights_config *f = &c->f;
    const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
    const double sink = f->sinks ? cla_load_element(c->sinks, weights_sums(f), h) : -INFINITY;
    double m = sink, l = 0, entropy = 0;
    for (int64_t j = 0; j < f->M; j++) {
        double s[4];
        weights_scores(c, single, b, h, i, j, s);
        for (int x = 1; x < 4; x++)
            r->form[x][row * f->M + j] = s[x];
        m = s[3] > m ? s[3] : m;
    }
    const double *s = r->form[3] + row * f->M;
    double *P = r->form[0] + row * f->M;
    if (sink > -INFINITY)
        l = ROUND(exp(sink - m));
    for (int64_t j = 0; j < f->M; j++) {
        P[j] = s[j] == -INFINITY ? 0 : ROUND(exp(ROUND(s[j] - m)));
        l = ROUND(l + P[j]);
    }
    for (int64_t j = 0; j < f->M; j++) {
        if (s[j] == -INFINITY)
            continue;
        P[j] = ROUND(P[j] / l);
        if (P[j] != 0)
            entropy = ROUND(entropy - ROUND(P[j] * ROUND(log(P[j]))));
        r->columns[(b * f->H + h) * f->M + j] = ROUND(r->columns[(b * f->H + h) * f->M + j] + P[j]);
        r->mean[(b * f->N + i) * f->M + j] = ROUND(r->mean[(b * f->N + i) * f->M + j] + P[j]);
    }
    r->entropy[row] = entropy;
}
#undef ROUND

static inline weights_results weights_evaluate(const weights_case *c, bool single) {
    const weights_config *f = &c->f;
    const int64_t rows = f->B * f->H * f->N;
    weights_results r = {.mean = weights_room(f->B * f->N * f->M, 8),
                         .columns = weights_room(f->B * f->H * f->M, 8),
                         .entropy = weights_room(rows, 8)};
    for (int x = 0; x < 4; x++)
        r.form[x] = weights_room(rows * f->M, 8);
    for (int64_t row = 0; row < rows; row++)
        weights_row(c, single, row, &r);
    for (int64_t x = 0; x < f->B * f->N * f->M; x++)
        r.mean[x] = weights_round(r.mean[x] / (double)f->H, single);
    return r;
}

static inline void weights_results_free(weights_results *r) {
    for (int x = 0; x < 4; x++)
        free(r->form[x]);
    free(r->mean);
    free(r->columns);
    free(r->entropy);
}

/* ---- calls ---- */

static inline clattn_attention_args weights_args(const weights_case *c, const char *algorithm, void *o) {
    const weights_config *f = &c->f;
    const int64_t q[4] = {f->B, f->H, f->N, f->D}, k[4] = {f->B, f->Hk, f->M, f->D}, v[4] = {f->B, f->Hk, f->M, f->Dv};
    const int64_t out[4] = {f->B, f->H, f->N, f->Dv}, keep[4] = {f->B, f->H, f->N, f->M};
    clattn_attention_args a = {.q = clattn_tensor_host(c->stored[0], f->q, 4, q),
                               .k = clattn_tensor_host(c->stored[1], f->k, 4, k),
                               .v = clattn_tensor_host(c->stored[2], f->v, 4, v),
                               .o = clattn_tensor_host(o, weights_sums(f), 4, out),
                               .causal = f->causal,
                               .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                               .has_window = f->window,
                               .window_left = 5,
                               .window_right = 3,
                               .softcap = f->softcap,
                               .alibi_slopes = f->alibi ? c->slopes : NULL,
                               .key_lengths = f->key_lengths ? c->key_lengths : NULL,
                               .query_lengths = f->query_lengths ? c->query_lengths : NULL,
                               .prefix_lengths = f->prefix ? c->prefix : NULL,
                               .query_segments = f->segments ? c->query_segments : NULL,
                               .key_segments = f->segments ? c->key_segments : NULL,
                               .algorithm = algorithm};
    if (f->keep)
        a.keep = clattn_tensor_host(c->keep, CLATTN_BOOL, 4, keep);
    if (f->drop)
        a.drop = clattn_tensor_host(c->drop, CLATTN_U8, 2, keep + 2);
    if (f->bias)
        a.bias = clattn_tensor_host(c->bias, CLATTN_F32, 3, keep + 1);
    if (f->sinks)
        a.sinks = clattn_tensor_host(c->sinks, weights_sums(f), 1, keep + 1);
    return a;
}

#endif
