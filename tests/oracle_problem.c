/* SPDX-License-Identifier: Apache-2.0 */
/* Problems from a config: values, masks as a predicate, and the line that names a problem. */
#include "base/str.h"
#include "oracle_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *oracle_alloc(size_t count, size_t size) {
    void *p = calloc(count ? count : 1, size);
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

void oracle_mask_shape(const oracle_config *config, oracle_mask mask, int64_t shape[4]) {
    shape[0] = mask.axes & ORACLE_BATCH ? config->B : 1;
    shape[1] = mask.axes & ORACLE_HEAD ? config->H : 1;
    shape[2] = mask.axes & ORACLE_QUERY ? config->N : 1;
    shape[3] = mask.axes & ORACLE_KEY ? config->M : 1;
}

/* ---- values ---- */

/* Values that the config's type holds, so that the f64 copy is the same problem. */
static double *normals(const oracle_config *config, oracle_random *random, int64_t count) {
    double *x = oracle_alloc((size_t)count, sizeof *x);
    for (int64_t i = 0; i < count; i++)
        x[i] = config->dtype == CLATTN_F32 ? (double)(float)oracle_normal(random) : oracle_normal(random);
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

/* A length of each batch: all keys, none, or a part. */
static void make_lengths(oracle_case *c, oracle_random *random) {
    const oracle_config *f = &c->config;
    c->key_lengths = oracle_alloc((size_t)f->B, sizeof *c->key_lengths);
    for (int64_t b = 0; b < f->B; b++)
        c->key_lengths[b] = oracle_below(random, 6) == 0 ? f->M : oracle_below(random, f->M + 1);
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
    c->bias = normals(f, random, count);
    for (int64_t i = 0; i < count; i++)
        if (oracle_below(random, 8) == 0)
            c->bias[i] = -INFINITY;
}

/* Every head of every batch gets the values of the first. */
static void share(double *x, int64_t heads, int64_t count) {
    for (int64_t i = 1; i < heads; i++)
        memcpy(x + i * count, x, (size_t)count * sizeof *x);
}

/* NaN at the keys that lengths hide. */
static void poison(oracle_case *c) {
    const oracle_config *f = &c->config;
    int64_t most = 0;
    for (int64_t b = 0; b < f->B; b++)
        most = c->key_lengths[b] > most ? c->key_lengths[b] : most;
    for (int64_t row = 0; row < f->B * f->Hk * f->M; row++) {
        const int64_t length = f->layout == ORACLE_SHARED ? most : c->key_lengths[row / (f->Hk * f->M)];
        for (int64_t d = 0; row % f->M >= length && d < f->D; d++)
            c->k[row * f->D + d] = NAN;
        for (int64_t d = 0; row % f->M >= length && d < f->Dv; d++)
            c->v[row * f->Dv + d] = NAN;
    }
}

static void fill_defaults(oracle_config *f) {
    f->B = f->B ? f->B : 1;
    f->H = f->H ? f->H : 1;
    f->Hk = f->Hk ? f->Hk : f->H;
    f->M = f->M ? f->M : f->N;
    f->Dv = f->Dv ? f->Dv : f->D;
}

oracle_case *oracle_make(const oracle_config *config) {
    oracle_case *c = oracle_alloc(1, sizeof *c);
    oracle_random random = {config->seed};
    c->config = *config;
    oracle_config *f = &c->config;
    fill_defaults(f);
    if (f->lengths)
        make_lengths(c, &random);
    if (f->align == CLATTN_ALIGN_OFFSET)
        make_offsets(c, &random);
    c->q = normals(f, &random, f->B * f->H * f->N * f->D);
    c->k = normals(f, &random, f->B * f->Hk * f->M * f->D);
    c->v = normals(f, &random, f->B * f->Hk * f->M * f->Dv);
    make_masks(c, &random);
    if (f->layout == ORACLE_SHARED) {
        share(c->k, f->B * f->Hk, f->M * f->D);
        share(c->v, f->B * f->Hk, f->M * f->Dv);
    }
    if (f->lengths)
        poison(c);
    c->got = oracle_outputs_alloc(f);
    c->exact = oracle_outputs_alloc(f);
    return c;
}

void oracle_free(oracle_case *c) {
    if (!c)
        return;
    double *const reals[] = {c->q, c->k, c->v, c->bias};
    for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
        free(reals[i]);
    free(c->keep);
    free(c->drop);
    free(c->key_lengths);
    free(c->offsets);
    oracle_outputs_free(&c->exact);
    oracle_outputs_free(&c->got);
    free(c);
}

/* ---- masks ---- */

static int64_t mask_at(const oracle_config *f, oracle_mask mask, int64_t b, int64_t h, int64_t i, int64_t j) {
    int64_t shape[4];
    oracle_mask_shape(f, mask, shape);
    return ((b % shape[0] * shape[1] + h % shape[1]) * shape[2] + i % shape[2]) * shape[3] + j % shape[3];
}

double oracle_bias(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return c->config.bias.rank ? c->bias[mask_at(&c->config, c->config.bias, b, h, i, j)] : 0;
}

bool oracle_sees(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    const oracle_config *f = &c->config;
    const int64_t length = c->key_lengths ? c->key_lengths[b] : f->M;
    int64_t p = i;
    if (f->align == CLATTN_ALIGN_BOTTOM_RIGHT)
        p += length - f->N;
    if (f->align == CLATTN_ALIGN_OFFSET)
        p += c->offsets[b];
    bool seen = j < length;
    if (f->causal && p < j)
        seen = false;
    if (f->has_window && f->window_left != CLATTN_UNLIMITED && p - j > f->window_left)
        seen = false;
    if (f->has_window && f->window_right != CLATTN_UNLIMITED && j - p > f->window_right)
        seen = false;
    if (f->keep.rank && c->keep[mask_at(f, f->keep, b, h, i, j)] == 0)
        seen = false;
    if (f->drop.rank && c->drop[mask_at(f, f->drop, b, h, i, j)] != 0)
        seen = false;
    return seen;
}

/* ---- text ---- */

static void append_mask(cla_str *s, const char *name, oracle_mask mask) {
    if (mask.rank)
        cla_str_append(s, " %s=rank%d:%s%s%s%s", name, mask.rank, mask.axes & ORACLE_BATCH ? "B" : "1",
                       mask.axes & ORACLE_HEAD ? "H" : "1", mask.axes & ORACLE_QUERY ? "N" : "1",
                       mask.axes & ORACLE_KEY ? "M" : "1");
}

const char *oracle_text(const oracle_config *config, char text[ORACLE_TEXT]) {
    static const char *const layouts[] = {"bhsd", "bshd", "packed", "transposed", "shared", "padded"};
    static const char *const aligns[] = {"unset", "top-left", "bottom-right", "offset"};
    const oracle_config *f = config;
    cla_str s = {0};
    cla_str_append(&s, "b%lld h%lld/%lld q%lld k%lld d%lld v%lld %s", (long long)f->B, (long long)f->H,
                   (long long)f->Hk, (long long)f->N, (long long)f->M, (long long)f->D, (long long)f->Dv,
                   clattn_dtype_name(f->dtype));
    cla_str_append(&s, " %s guard=%lld %s seed=%llu%s%s", layouts[f->layout], (long long)f->guard,
                   f->buffers ? "plan" : "call", (unsigned long long)f->seed, f->lse ? " lse" : "",
                   f->weights ? " weights" : "");
    if (f->causal || f->has_window)
        cla_str_append(&s, "%s align=%s", f->causal ? " causal" : "", aligns[f->align]);
    if (f->has_window)
        cla_str_append(&s, " window=%lld,%lld", (long long)f->window_left, (long long)f->window_right);
    if (f->lengths)
        cla_str_append(&s, " lengths");
    append_mask(&s, "keep", f->keep);
    append_mask(&s, "drop", f->drop);
    append_mask(&s, "bias", f->bias);
    if (f->has_scale)
        cla_str_append(&s, " scale=%.17g", f->scale);
    snprintf(text, ORACLE_TEXT, "%s", cla_str_text(&s));
    cla_str_free(&s);
    return text;
}
