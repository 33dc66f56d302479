/* SPDX-License-Identifier: Apache-2.0 */
/* Encoder and decoder layers by plain loops in double, beside modules_oracle.h. */
#ifndef LAYERS_ORACLE_H
#define LAYERS_ORACLE_H

#include "modules_oracle.h"

typedef struct {
    double *weight, *bias; /* [E], or NULL */
} plain_norm;

typedef struct {
    plain_heads self, cross;
    double *linear1, *linear1_bias, *gate, *gate_bias, *linear2, *linear2_bias; /* [F, E], [E, F]; gate may be NULL */
    plain_norm norms[3]; /* of self-attention, cross attention, feed-forward */
} plain_layer;

/* What layers of a test have in common. */
typedef struct {
    int64_t E, H, F;
    bool decoder, norm_first, no_bias, gated, rms, transposed;
    int64_t Hk; /* 0: H */
    clattn_activation activation;
    double epsilon;
} plain_stack;

static inline double plain_activation(clattn_activation activation, double x) {
    switch (activation) {
    case CLATTN_ACTIVATION_GELU:
        return x / 2 * (1 + erf(x / sqrt(2)));
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case CLATTN_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case CLATTN_ACTIVATION_NONE:
    case CLATTN_ACTIVATION_RELU:
        break;
    }
    return x < 0 ? 0 : x;
}

/* y = norm(x + residual); residual may be NULL, y may be x. */
static inline void plain_normalise(const plain_stack *s, const plain_norm *n, const double *x, const double *residual,
                                   double *y, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        double z[512], mean = 0, squares = 0;
        for (int64_t e = 0; e < s->E; e++)
            mean += z[e] = x[r * s->E + e] + (residual ? residual[r * s->E + e] : 0);
        mean = s->rms ? 0 : mean / (double)s->E;
        for (int64_t e = 0; e < s->E; e++)
            squares += (z[e] - mean) * (z[e] - mean);
        const double inverse = 1 / sqrt(squares / (double)s->E + (s->epsilon > 0 ? s->epsilon : 1e-5));
        for (int64_t e = 0; e < s->E; e++)
            y[r * s->E + e] = (z[e] - mean) * inverse * (n->weight ? n->weight[e] : 1) + (n->bias ? n->bias[e] : 0);
    }
}

static inline void plain_feed(pool *p, const plain_stack *s, const plain_layer *l, const double *x, double *y,
                              int64_t rows) {
    double *inner = pool_block(p, (size_t)(rows * s->F) * sizeof *inner);
    plain_linear(x, l->linear1, l->linear1_bias, inner, rows, s->E, s->F);
    if (l->gate) {
        double *gate = pool_block(p, (size_t)(rows * s->F) * sizeof *gate);
        plain_linear(x, l->gate, l->gate_bias, gate, rows, s->E, s->F);
        for (int64_t i = 0; i < rows * s->F; i++)
            inner[i] *= plain_activation(s->activation, gate[i]);
    } else {
        for (int64_t i = 0; i < rows * s->F; i++)
            inner[i] = plain_activation(s->activation, inner[i]);
    }
    plain_linear(inner, l->linear2, l->linear2_bias, y, rows, s->F, s->E);
}

/* One part of a layer: attention (self: the memory is what it normalises), or feed-forward where heads is NULL. */
static inline void plain_part(pool *p, const plain_stack *s, const plain_layer *l, const plain_heads *heads,
                              const plain_call *call, const plain_norm *norm, double *x, int64_t rows) {
    const size_t bytes = (size_t)(rows * s->E) * sizeof *x;
    double *in = pool_block(p, bytes), *out = pool_block(p, bytes);
    memcpy(in, x, bytes);
    if (s->norm_first)
        plain_normalise(s, norm, x, NULL, in, rows);
    if (heads) {
        plain_call c = *call;
        c.query = in;
        c.key = c.value = call->key ? call->key : in;
        double *weights = pool_block(p, (size_t)(c.B * heads->H * c.N * c.M) * sizeof *weights);
        plain_attend(p, heads, &c, out, weights);
    } else {
        plain_feed(p, s, l, in, out, rows);
    }
    if (!s->norm_first)
        plain_normalise(s, norm, out, x, x, rows);
    for (int64_t i = 0; i < rows * s->E && s->norm_first; i++)
        x[i] += out[i];
}

/* x [B, N, E] becomes what the layer gives. cross: with its key, the memory. */
static inline void plain_layer_run(pool *p, const plain_stack *s, const plain_layer *l, const plain_call *self,
                                   const plain_call *cross, double *x) {
    const int64_t rows = self->B * self->N;
    plain_part(p, s, l, &l->self, self, &l->norms[0], x, rows);
    if (s->decoder)
        plain_part(p, s, l, &l->cross, cross, &l->norms[1], x, rows);
    plain_part(p, s, l, NULL, NULL, &l->norms[2], x, rows);
}

/* ---- weights ---- */

static inline void make_norm(pool *p, const plain_stack *s, plain_norm *n, clattn_norm_weights *w) {
    n->weight = pool_random(p, s->E, 0.3);
    for (int64_t e = 0; e < s->E; e++)
        n->weight[e] += 1;
    oracle_round(p->dtype, n->weight, s->E);
    n->bias = s->no_bias ? NULL : pool_random(p, s->E, 0.5);
    *w = (clattn_norm_weights){.weight = vector(p, n->weight, s->E), .bias = vector(p, n->bias, s->E)};
}

static inline void make_feed(pool *p, const plain_stack *s, plain_layer *l, clattn_feedforward_weights *w) {
    const double inner = 1 / sqrt((double)s->F), outer = 1 / sqrt((double)s->E);
    l->linear1 = pool_random(p, s->F * s->E, outer);
    l->linear2 = pool_random(p, s->E * s->F, inner);
    l->gate = s->gated ? pool_random(p, s->F * s->E, outer) : NULL;
    l->linear1_bias = s->no_bias ? NULL : pool_random(p, s->F, 0.5);
    l->linear2_bias = s->no_bias ? NULL : pool_random(p, s->E, 0.5);
    l->gate_bias = s->gated && !s->no_bias ? pool_random(p, s->F, 0.5) : NULL;
    *w = (clattn_feedforward_weights){.transposed = s->transposed,
                                      .linear1 = matrix(p, l->linear1, s->F, s->E, s->transposed),
                                      .linear1_bias = vector(p, l->linear1_bias, s->F),
                                      .gate_bias = vector(p, l->gate_bias, s->F),
                                      .linear2 = matrix(p, l->linear2, s->E, s->F, s->transposed),
                                      .linear2_bias = vector(p, l->linear2_bias, s->E)};
    if (s->gated)
        w->gate = matrix(p, l->gate, s->F, s->E, s->transposed);
}

/* cross_attn and norm3 are left alone for an encoder. */
static inline void make_layer(pool *p, const plain_stack *s, plain_layer *l, clattn_decoder_layer_weights *w) {
    const heads_kind kind = {.no_bias = s->no_bias, .transposed = s->transposed, .Hk = s->Hk};
    *l = (plain_layer){0};
    make_heads(p, s->E, s->H, &kind, &l->self, &w->self_attn);
    if (s->decoder)
        make_heads(p, s->E, s->H, &kind, &l->cross, &w->cross_attn);
    make_feed(p, s, l, &w->feedforward);
    make_norm(p, s, &l->norms[0], &w->norm1);
    if (s->decoder)
        make_norm(p, s, &l->norms[1], &w->norm2);
    make_norm(p, s, &l->norms[2], s->decoder ? &w->norm3 : &w->norm2);
}

static inline clattn_layer_options options_of(const plain_stack *s) {
    return (clattn_layer_options){.heads = s->H,
                                  .key_heads = s->Hk,
                                  .norm_first = s->norm_first,
                                  .activation = s->activation,
                                  .norm = s->rms ? CLATTN_NORM_RMS : CLATTN_NORM_LAYER,
                                  .norm_epsilon = s->epsilon};
}

static inline double plain_causal(const void *ignored, int64_t b, int64_t h, int64_t i, int64_t j) {
    (void)ignored, (void)b, (void)h;
    return j <= i ? 0 : -INFINITY;
}

/* Keys from lengths[b] on are hidden. */
static inline double plain_lengths(const void *lengths, int64_t b, int64_t h, int64_t i, int64_t j) {
    (void)h, (void)i;
    return j < ((const int64_t *)lengths)[b] ? 0 : -INFINITY;
}

#endif
