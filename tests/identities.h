/* SPDX-License-Identifier: Apache-2.0 */
/* Problems made from parts of another one, and comparison of what an algorithm gives on both. */
#ifndef IDENTITIES_H
#define IDENTITIES_H

#include "each_runner.h"
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <string.h>

/* ---- parts of a problem ---- */

/* Rows [first, first + rows) of each of `heads` matrices of from_rows rows, to the matrices of another array. */
static inline void take_rows(double *to, int64_t to_rows, const double *from, int64_t from_rows, int64_t heads,
                             int64_t width, int64_t first) {
    for (int64_t h = 0; h < heads; h++)
        memcpy(to + h * to_rows * width, from + (h * from_rows + first) * width,
               (size_t)(to_rows * width) * sizeof *to);
}

static inline void take_heads(oracle_case *c, const oracle_case *from) {
    if (c->slopes)
        memcpy(c->slopes, from->slopes, (size_t)c->config.H * sizeof *c->slopes);
    if (c->sinks)
        memcpy(c->sinks, from->sinks, (size_t)c->config.H * sizeof *c->sinks);
}

/* A mask or bias that has all keys, without those before j0. */
static inline oracle_case *keys_between(const oracle_case *whole, int64_t j0, int64_t j1) {
    const oracle_config *w = &whole->config;
    oracle_config config = *w;
    config.M = j1 - j0;
    config.align = CLATTN_ALIGN_OFFSET;
    config.sinks = w->sinks && j0 == 0; /* in one part only */
    oracle_case *c = oracle_make(&config);
    const oracle_config *f = &c->config;
    memcpy(c->q, whole->q, (size_t)(f->B * f->H * f->N * f->D) * sizeof *c->q);
    take_rows(c->k, f->M, whole->k, w->M, f->B * f->Hk, f->D, j0);
    take_rows(c->v, f->M, whole->v, w->M, f->B * f->Hk, f->Dv, j0);
    take_heads(c, whole);
    for (int64_t b = 0; b < f->B; b++) {
        const int64_t left = oracle_keys(whole, b) - j0;
        c->offsets[b] = oracle_position(whole, b, 0) - j0;
        if (c->key_lengths)
            c->key_lengths[b] = left < 0 ? 0 : left < f->M ? left : f->M;
    }
    const int64_t rows = f->B * f->H * f->N;
    for (int64_t row = 0; f->bias.rank && row < rows; row++)
        memcpy(c->bias + row * f->M, whole->bias + row * w->M + j0, (size_t)f->M * sizeof *c->bias);
    for (int64_t row = 0; f->keep.rank && row < rows; row++)
        memcpy(c->keep + row * f->M, whole->keep + row * w->M + j0, (size_t)f->M);
    return c;
}

/* One of the sequences that lie one after another; both lengths are above 0. */
static inline oracle_case *sequence_of(const oracle_case *all, int64_t s) {
    const oracle_config *a = &all->config;
    oracle_config config = *a;
    config.sequences = false;
    config.B = 1;
    config.N = all->cu_queries[s + 1] - all->cu_queries[s];
    config.M = all->cu_keys[s + 1] - all->cu_keys[s];
    oracle_case *c = oracle_make(&config);
    const oracle_config *f = &c->config;
    take_rows(c->q, f->N, all->q + s * f->H * a->N * f->D, a->N, f->H, f->D, 0);
    take_rows(c->k, f->M, all->k + s * f->Hk * a->M * f->D, a->M, f->Hk, f->D, 0);
    take_rows(c->v, f->M, all->v + s * f->Hk * a->M * f->Dv, a->M, f->Hk, f->Dv, 0);
    take_heads(c, all);
    if (c->key_lengths)
        c->key_lengths[0] = oracle_keys(all, s);
    if (c->query_segments) {
        memcpy(c->query_segments, all->query_segments + s * a->N, (size_t)f->N * sizeof(int32_t));
        memcpy(c->key_segments, all->key_segments + s * a->M, (size_t)f->M * sizeof(int32_t));
    }
    return c;
}

/* Every query head with a key head of its own. */
static inline oracle_case *with_replicated_heads(const oracle_case *grouped) {
    const oracle_config *g = &grouped->config;
    oracle_config config = *g;
    const int64_t group = g->H / g->Hk, keys = g->M * g->D, values = g->M * g->Dv;
    config.Hk = g->H;
    oracle_case *c = oracle_make(&config);
    memcpy(c->q, grouped->q, (size_t)(g->B * g->H * g->N * g->D) * sizeof *c->q);
    for (int64_t h = 0; h < g->B * g->H; h++) {
        memcpy(c->k + h * keys, grouped->k + h / group * keys, (size_t)keys * sizeof *c->k);
        memcpy(c->v + h * values, grouped->v + h / group * values, (size_t)values * sizeof *c->v);
    }
    take_heads(c, grouped);
    return c;
}

/* The last query of each head, which bottom-right puts at the last key. */
static inline oracle_case *last_query_of(const oracle_case *prompt) {
    const oracle_config *p = &prompt->config;
    oracle_config config = *p;
    config.N = 1;
    oracle_case *c = oracle_make(&config);
    const oracle_config *f = &c->config;
    take_rows(c->q, 1, prompt->q, p->N, f->B * f->H, f->D, p->N - 1);
    memcpy(c->k, prompt->k, (size_t)(f->B * f->Hk * f->M * f->D) * sizeof *c->k);
    memcpy(c->v, prompt->v, (size_t)(f->B * f->Hk * f->M * f->Dv) * sizeof *c->v);
    take_heads(c, prompt);
    return c;
}

/* ---- comparison ---- */

static inline void solve(oracle_case *c, const oracle_runner *r) {
    char text[ORACLE_TEXT] = "";
    cr_assert(oracle_exact(c, text), "%s", text);
    cr_assert(oracle_run(c, r->context, r->algorithm, text), "%s", text);
    cr_assert(oracle_compare(c, r->algorithm, text), "%s", text);
}

/* No further apart than that; the same bits for 0. */
static inline void expect_near(const oracle_runner *r, const char *what, const double *got, const double *want,
                               int64_t count, double most) {
    int64_t wrong = 0, at = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool nan = isnan(got[i]) && isnan(want[i]);
        const bool equal = got[i] == want[i] && signbit(got[i]) == signbit(want[i]);
        if (!nan && !equal && !(fabs(got[i] - want[i]) <= most && most > 0)) {
            at = wrong++ ? at : i;
        }
    }
    cr_expect_eq(wrong, 0, "%s: %s: %d of %d values differ; number %d is %.17g, not %.17g (%g allowed)", r->algorithm,
                 what, (int)wrong, (int)count, (int)at, got[at], want[at], most);
}

/* Rows [0, rows) of head `head` (counted over batches) of x and from `first` on of head `other` of y. */
static inline void expect_rows(const oracle_runner *r, const char *what, const oracle_case *x, int64_t head,
                               const oracle_case *y, int64_t other, int64_t first, bool bits) {
    const int64_t rows = x->config.N, Dv = x->config.Dv, at = other * y->config.N + first;
    expect_near(r, what, x->got.o + head * rows * Dv, y->got.o + at * Dv, rows * Dv,
                bits ? 0 : x->allowed.o + y->allowed.o);
    expect_near(r, what, x->got.lse + head * rows, y->got.lse + at, rows, bits ? 0 : x->allowed.lse + y->allowed.lse);
}

/* All of two problems of the same size. */
static inline void expect_all(const oracle_runner *r, const char *what, const oracle_case *x, const oracle_case *y,
                              bool bits) {
    for (int64_t h = 0; h < x->config.B * x->config.H; h++)
        expect_rows(r, what, x, h, y, h, 0, bits);
}

#endif
