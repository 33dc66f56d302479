/* SPDX-License-Identifier: Apache-2.0 */
/* Problems from a config: values, lengths, tables. */
#include "oracle_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void *oracle_alloc(size_t count, size_t size) {
    void *p = count < PTRDIFF_MAX ? calloc(count ? count : 1, size) : NULL;
    if (!p)
        abort();
    return p;
}

int64_t oracle_elements(const int64_t shape[4]) { return shape[0] * shape[1] * shape[2] * shape[3]; }

oracle_outputs oracle_outputs_alloc(const oracle_config *config) {
    const size_t rows = (size_t)(config->B * config->H * config->N);
    oracle_outputs r = {.o = oracle_alloc(rows * (size_t)config->Dv, sizeof *r.o)};
    if (config->lse)
        r.lse = oracle_alloc(rows, sizeof *r.lse);
    if (config->weights)
        r.weights = oracle_alloc(rows * (size_t)config->M, sizeof *r.weights);
    return r;
}

void oracle_outputs_free(oracle_outputs *outputs) {
    free(outputs->o);
    free(outputs->lse);
    free(outputs->weights);
    *outputs = (oracle_outputs){0};
}

oracle_mask oracle_next_mask(int *turn) {
    const int n = (*turn)++ * 5 % 28;
    return n < 4    ? (oracle_mask){2, (unsigned)n}
           : n < 12 ? (oracle_mask){3, (unsigned)n - 4}
                    : (oracle_mask){4, (unsigned)n - 12};
}

void oracle_mask_shape(const oracle_config *config, oracle_mask mask, int64_t shape[4]) {
    shape[0] = mask.axes & ORACLE_BATCH ? config->B : 1;
    shape[1] = mask.axes & ORACLE_HEAD ? config->H : 1;
    shape[2] = mask.axes & ORACLE_QUERY ? config->N : 1;
    shape[3] = !(mask.axes & ORACLE_KEY) ? 1 : config->short_masks ? config->M - config->M / 3 : config->M;
}

/* ---- values ---- */

/* Values of that type. */
static double *normals(oracle_random *random, clattn_dtype dtype, int64_t count) {
    double *x = oracle_alloc((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = oracle_normal(random);
    oracle_round(dtype, x, count);
    return x;
}

static unsigned char *coins(oracle_random *random, int64_t count, double share) {
    unsigned char *x = oracle_alloc((size_t)count, 1);
    for (int64_t i = 0; i < count; i++)
        x[i] = oracle_uniform(random) < share ? (unsigned char)(1 + oracle_below(random, 255)) : 0;
    return x;
}

static int64_t mask_elements(const oracle_config *config, oracle_mask mask) {
    int64_t shape[4];
    oracle_mask_shape(config, mask, shape);
    return oracle_elements(shape);
}

/* A length of each batch: all, none, or a part. */
static int64_t *make_lengths(const oracle_config *f, oracle_random *random, int64_t most) {
    int64_t *lengths = oracle_alloc((size_t)f->B, sizeof *lengths);
    for (int64_t b = 0; b < f->B; b++)
        lengths[b] = oracle_below(random, 6) == 0 ? most : oracle_below(random, most + 1);
    return lengths;
}

static void make_offsets(oracle_case *c, oracle_random *random) {
    const oracle_config *f = &c->config;
    c->offsets = oracle_alloc((size_t)f->B, sizeof *c->offsets);
    for (int64_t b = 0; b < f->B; b++)
        c->offsets[b] = oracle_below(random, f->N + f->M + 1) - f->N;
}

static void make_masks(oracle_case *c, oracle_random *random) {
    const oracle_config *f = &c->config;
    if (f->keep.rank)
        c->keep = coins(random, mask_elements(f, f->keep), 0.7);
    if (f->drop.rank)
        c->drop = coins(random, mask_elements(f, f->drop), 0.3);
    if (!f->bias.rank)
        return;
    const int64_t count = mask_elements(f, f->bias);
    c->bias = normals(random, f->bias_type, count);
    for (int64_t i = 0; i < count; i++)
        if (oracle_below(random, 8) == 0)
            c->bias[i] = -INFINITY;
}

/* Cumulative lengths of B sequences, one of them as long as it may be; *rows has some more. */
static int64_t *make_cumulative(const oracle_config *f, oracle_random *random, int64_t longest, int64_t *rows) {
    int64_t *cu = oracle_alloc((size_t)f->B + 1, sizeof *cu);
    const int64_t which = f->B > 0 ? oracle_below(random, f->B) : 0;
    for (int64_t b = 0; b < f->B; b++)
        cu[b + 1] = cu[b] + (b == which ? longest : oracle_below(random, longest + 1));
    *rows = cu[f->B] + oracle_below(random, 3);
    return cu;
}

static int32_t *make_segments(const oracle_config *f, oracle_random *random, int64_t length) {
    static const int32_t ids[] = {7, INT32_MIN, 0};
    int32_t *segments = oracle_alloc((size_t)(f->B * length), sizeof *segments);
    for (int64_t i = 0; i < f->B * length; i++)
        segments[i] = ids[oracle_below(random, 3)];
    return segments;
}

/* Random pages for the keys in use, which all batches have in common where K and V are shared; the other entries are
 * none. */
static void make_table(oracle_case *c, oracle_random *random) {
    const oracle_config *f = &c->config;
    const bool shared = f->layout == ORACLE_SHARED;
    c->table_pages = f->M / f->page_size;
    const int64_t entries = f->B * c->table_pages;
    c->pages = entries + 3;
    int32_t *order = oracle_alloc((size_t)c->pages, sizeof *order);
    for (int64_t i = 0; i < c->pages; i++) {
        const int64_t j = oracle_below(random, i + 1);
        order[i] = order[j];
        order[j] = (int32_t)i;
    }
    c->block_table = oracle_alloc((size_t)entries, sizeof *c->block_table);
    for (int64_t e = 0; e < entries; e++) {
        const bool used = e % c->table_pages * f->page_size < c->key_lengths[e / c->table_pages];
        c->block_table[e] = used ? order[shared ? e % c->table_pages : e] : (int32_t)(-1 - 7 * e);
    }
    free(order);
}

static void make_options(oracle_case *c, oracle_random *random) {
    const oracle_config *f = &c->config;
    if (f->alibi) {
        c->slopes = oracle_alloc((size_t)f->H, sizeof *c->slopes);
        for (int64_t h = 0; h < f->H; h++)
            c->slopes[h] = (float)(oracle_uniform(random) - 0.3) / 2;
    }
    if (f->sinks) {
        c->sinks = normals(random, f->dtype, f->H);
        if (f->H > 1 && oracle_below(random, 4) == 0)
            c->sinks[oracle_below(random, f->H)] = -INFINITY;
    }
    if (f->query_lengths)
        c->query_lengths = make_lengths(f, random, f->N);
    if (f->prefix)
        c->prefix_lengths = make_lengths(f, random, f->M);
    if (f->segments) {
        c->query_segments = make_segments(f, random, f->N);
        c->key_segments = make_segments(f, random, f->M);
    }
    if (f->sequences)
        c->cu_queries = make_cumulative(f, random, f->N, &c->query_rows);
    if (f->sequences && !f->page_size)
        c->cu_keys = make_cumulative(f, random, f->M, &c->key_rows);
    if (f->page_size)
        make_table(c, random);
}

/* Every head of every batch gets the values of the first. */
static void share(double *x, int64_t heads, int64_t count) {
    for (int64_t i = 1; i < heads; i++)
        memcpy(x + i * count, x, (size_t)count * sizeof *x);
}

/* Filler at the keys that lengths hide. */
static void poison(oracle_case *c) {
    const oracle_config *f = &c->config;
    const double filler = oracle_filler_value(f->filler);
    int64_t most = 0;
    for (int64_t b = 0; b < f->B; b++)
        most = oracle_keys(c, b) > most ? oracle_keys(c, b) : most;
    for (int64_t row = 0; row < f->B * f->Hk * f->M; row++) {
        const int64_t length = f->layout == ORACLE_SHARED ? most : oracle_keys(c, row / (f->Hk * f->M));
        for (int64_t d = 0; row % f->M >= length && d < f->D; d++)
            c->k[row * f->D + d] = filler;
        for (int64_t d = 0; row % f->M >= length && d < f->Dv; d++)
            c->v[row * f->Dv + d] = filler;
    }
}

static void fill_defaults(oracle_config *f) {
    clattn_dtype *const types[] = {&f->q_type, &f->k_type, &f->v_type, &f->o_type, &f->bias_type};
    if (f->typed)
        f->dtype = CLATTN_F32;
    for (int i = 0; i < 5; i++)
        if (!f->typed)
            *types[i] = f->dtype;
        else if (*types[i] == CLATTN_F64 && (i < 4 || f->bias.rank))
            f->dtype = CLATTN_F64;
    f->B = f->B ? f->B : 1;
    f->H = f->H ? f->H : 1;
    f->Hk = f->Hk ? f->Hk : f->H;
    f->M = f->M ? f->M : f->N;
    f->Dv = f->Dv ? f->Dv : f->D;
    if (f->page_size) {
        f->lengths = true;
        f->M = (f->M + f->page_size - 1) / f->page_size * f->page_size;
    }
}

oracle_case *oracle_make(const oracle_config *config) {
    oracle_case *c = oracle_alloc(1, sizeof *c);
    oracle_random random = {config->seed};
    c->config = *config;
    oracle_config *f = &c->config;
    fill_defaults(f);
    if (f->lengths)
        c->key_lengths = make_lengths(f, &random, f->M);
    if (f->align == CLATTN_ALIGN_OFFSET)
        make_offsets(c, &random);
    c->q = normals(&random, f->q_type, f->B * f->H * f->N * f->D);
    c->k = normals(&random, f->k_type, f->B * f->Hk * f->M * f->D);
    c->v = normals(&random, f->v_type, f->B * f->Hk * f->M * f->Dv);
    make_masks(c, &random);
    if (f->layout == ORACLE_SHARED) {
        share(c->k, f->B * f->Hk, f->M * f->D);
        share(c->v, f->B * f->Hk, f->M * f->Dv);
    }
    make_options(c, &random);
    if (f->lengths)
        poison(c);
    c->got = oracle_outputs_alloc(f);
    c->exact = oracle_outputs_alloc(f);
    return c;
}

void oracle_free(oracle_case *c) {
    if (!c)
        return;
    void *const arrays[] = {c->q,
                            c->k,
                            c->v,
                            c->bias,
                            c->keep,
                            c->drop,
                            c->key_lengths,
                            c->offsets,
                            c->query_lengths,
                            c->prefix_lengths,
                            c->slopes,
                            c->sinks,
                            c->query_segments,
                            c->key_segments,
                            c->cu_queries,
                            c->cu_keys,
                            c->block_table};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        free(arrays[i]);
    oracle_outputs_free(&c->exact);
    oracle_outputs_free(&c->got);
    free(c);
}
