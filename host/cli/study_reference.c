/* SPDX-License-Identifier: Apache-2.0 */
#include "study_reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPSILON 1e-5

const float *cla_reference_weight(const cla_reference *r, const char *prefix, const char *name) {
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < r->count; i++)
        if (strncmp(r->weights[i].name, prefix, length) == 0 && strcmp(r->weights[i].name + length, name) == 0)
            return r->weights[i].array.data;
    return NULL;
}

/* ---- parts ---- */

/* y [n, out] = x [n, in] w^T + b, w [out, in]. */
static void linear(const float *w, const float *b, const double *x, size_t n, size_t in, size_t out, double *y) {
    for (size_t o = 0; o < out; o++)
        for (size_t i = 0; i < n; i++) {
            double sum[4] = {0};
            for (size_t k = 0; k < in; k++)
                sum[k % 4] += (double)w[o * in + k] * x[i * in + k];
            y[i * out + o] = (double)b[o] + ((sum[0] + sum[1]) + (sum[2] + sum[3]));
        }
}

/* x = LayerNorm(x + d) */
static void add_and_norm(const float *w, const float *b, const double *d, size_t n, size_t E, double *x) {
    for (size_t i = 0; i < n; i++) {
        double *row = x + i * E, mean = 0, variance = 0;
        for (size_t e = 0; e < E; e++) {
            row[e] += d[i * E + e];
            mean += row[e] / (double)E;
        }
        for (size_t e = 0; e < E; e++)
            variance += (row[e] - mean) * (row[e] - mean) / (double)E;
        for (size_t e = 0; e < E; e++)
            row[e] = (row[e] - mean) / sqrt(variance + EPSILON) * (double)w[e] + (double)b[e];
    }
}

/* One query q [D] of one head over m keys and values, whose rows lie E apart. */
static void attend(const double *q, const double *k, const double *v, size_t m, size_t D, size_t E, double *p,
                   double *o) {
    double most = -INFINITY, sum = 0;
    for (size_t j = 0; j < m; j++) {
        p[j] = 0;
        for (size_t d = 0; d < D; d++)
            p[j] += q[d] * k[j * E + d];
        p[j] /= sqrt((double)D);
        most = fmax(most, p[j]);
    }
    for (size_t j = 0; j < m; j++)
        sum += p[j] = exp(p[j] - most);
    for (size_t d = 0; d < D; d++) {
        o[d] = 0;
        for (size_t j = 0; j < m; j++)
            o[d] += p[j] / sum * v[j * E + d];
    }
}

/* y [n, E] = attention of x over memory [m, E]; causal: row i sees rows up to i. */
static bool attention(const cla_reference *r, const char *prefix, const double *x, size_t n, const double *memory,
                      size_t m, bool causal, double *y) {
    const size_t E = r->E, D = E / r->H;
    const float *w = cla_reference_weight(r, prefix, "in_proj_weight"),
                *b = cla_reference_weight(r, prefix, "in_proj_bias"),
                *out = cla_reference_weight(r, prefix, "out_proj.weight"),
                *out_bias = cla_reference_weight(r, prefix, "out_proj.bias");
    double *q = calloc(2 * n * E + 2 * m * E + m, sizeof *q);
    const bool ok = w && b && out && out_bias && q;
    if (ok) {
        double *o = q + n * E, *k = o + n * E, *v = k + m * E, *p = v + m * E;
        linear(w, b, x, n, E, E, q);
        linear(w + E * E, b + E, memory, m, E, E, k);
        linear(w + 2 * E * E, b + 2 * E, memory, m, E, E, v);
        for (size_t i = 0; i < n; i++)
            for (size_t h = 0; h < r->H; h++)
                attend(q + i * E + h * D, k + h * D, v + h * D, causal ? i + 1 : m, D, E, p, o + i * E + h * D);
        linear(out, out_bias, o, n, E, E, y);
    }
    free(q);
    return ok;
}

static bool feed_forward(const cla_reference *r, const char *prefix, const double *x, size_t n, double *y) {
    const float *w1 = cla_reference_weight(r, prefix, "linear1.weight"),
                *b1 = cla_reference_weight(r, prefix, "linear1.bias"),
                *w2 = cla_reference_weight(r, prefix, "linear2.weight"),
                *b2 = cla_reference_weight(r, prefix, "linear2.bias");
    double *inner = calloc(n * r->F, sizeof *inner);
    const bool ok = w1 && b1 && w2 && b2 && inner;
    if (ok) {
        linear(w1, b1, x, n, r->E, r->F, inner);
        for (size_t i = 0; i < n * r->F; i++)
            inner[i] = fmax(inner[i], 0);
        linear(w2, b2, inner, n, r->F, r->E, y);
    }
    free(inner);
    return ok;
}

static bool norm(const cla_reference *r, const char *prefix, int number, const double *d, size_t n, double *x) {
    char weight[32], bias[32];
    snprintf(weight, sizeof weight, "norm%d.weight", number);
    snprintf(bias, sizeof bias, "norm%d.bias", number);
    const float *w = cla_reference_weight(r, prefix, weight), *b = cla_reference_weight(r, prefix, bias);
    if (w && b)
        add_and_norm(w, b, d, n, r->E, x);
    return w && b;
}

/* ---- layers ---- */

static const char *join(const char *prefix, const char *part, char text[128]) {
    snprintf(text, 128, "%s%s", prefix, part);
    return text;
}

bool cla_reference_encoder_layer(const cla_reference *r, const char *prefix, double *x, size_t n) {
    char text[128];
    double *y = calloc(n * r->E, sizeof *y);
    const bool ok = y && attention(r, join(prefix, "self_attn.", text), x, n, x, n, false, y) &&
                    norm(r, prefix, 1, y, n, x) && feed_forward(r, prefix, x, n, y) && norm(r, prefix, 2, y, n, x);
    free(y);
    return ok;
}

bool cla_reference_decoder_layer(const cla_reference *r, const char *prefix, double *x, size_t n, const double *memory,
                                 size_t m) {
    char text[128];
    double *y = calloc(n * r->E, sizeof *y);
    const bool ok = y && attention(r, join(prefix, "self_attn.", text), x, n, x, n, true, y) &&
                    norm(r, prefix, 1, y, n, x) &&
                    attention(r, join(prefix, "multihead_attn.", text), x, n, memory, m, false, y) &&
                    norm(r, prefix, 2, y, n, x) && feed_forward(r, prefix, x, n, y) && norm(r, prefix, 3, y, n, x);
    free(y);
    return ok;
}
