/* SPDX-License-Identifier: Apache-2.0 */
/* A small dense problem whose tensors have any types, for the tests of known failures: values as doubles, run on an
 * algorithm, and the exact answer by `reference` in f64. */
#ifndef MIXED_H
#define MIXED_H

#include "kv_arrays.h"

/* Shapes, types and options are set first, then mixed_fill makes the values. */
typedef struct mixed {
    int64_t B, H, Hk, N, M, D, Dv; /* 0: 1, and Hk = H, Dv = D */
    clattn_dtype q_type, k_type, v_type, o_type;
    double *q, *k, *v; /* [B, H, N, D], [B, Hk, M, D], [B, Hk, M, Dv]; rounded to their types by each run */
    double *o, *lse;   /* of the last run: [B, H, N, Dv], [B, H, N] */
    int padding;       /* a byte that fills k and v from key_lengths on; -1: none */
    bool without_lse;
    clattn_attention_args args; /* options; q, k, v, o, lse and algorithm are filled in */
} mixed;

static inline mixed mixed_typed(clattn_dtype dtype) {
    return (mixed){.q_type = dtype, .k_type = dtype, .v_type = dtype, .o_type = dtype, .padding = -1};
}

static inline void mixed_shapes(const mixed *m, int64_t q[4], int64_t k[4], int64_t v[4], int64_t o[4]) {
    const int64_t all[4][4] = {
        {m->B, m->H, m->N, m->D}, {m->B, m->Hk, m->M, m->D}, {m->B, m->Hk, m->M, m->Dv}, {m->B, m->H, m->N, m->Dv}};
    memcpy(q, all[0], sizeof all[0]);
    memcpy(k, all[1], sizeof all[1]);
    memcpy(v, all[2], sizeof all[2]);
    memcpy(o, all[3], sizeof all[3]);
}

static inline void mixed_fill(mixed *m, uint64_t seed) {
    m->B = m->B ? m->B : 1;
    m->H = m->H ? m->H : 1;
    m->Hk = m->Hk ? m->Hk : m->H;
    m->Dv = m->Dv ? m->Dv : m->D;
    m->q = kv_random(seed, m->B * m->H * m->N * m->D);
    m->k = kv_random(seed + 1, m->B * m->Hk * m->M * m->D);
    m->v = kv_random(seed + 2, m->B * m->Hk * m->M * m->Dv);
    m->o = kv_random(0, m->B * m->H * m->N * m->Dv);
    m->lse = kv_random(0, m->B * m->H * m->N);
}

static inline void mixed_free(mixed *m) {
    free(m->q);
    free(m->k);
    free(m->v);
    free(m->o);
    free(m->lse);
    *m = (mixed){0};
}

static inline bool mixed_is_wide(const mixed *m) {
    return m->q_type == CLATTN_F64 || m->k_type == CLATTN_F64 || m->v_type == CLATTN_F64 || m->o_type == CLATTN_F64 ||
           (m->args.bias.rank && m->args.bias.dtype == CLATTN_F64);
}

/* Fills rows from the batch's key length on with that byte. */
static inline void mixed_pad(const mixed *m, kv_array *a) {
    for (int64_t row = 0; m->padding >= 0 && row < m->B * m->Hk * m->M; row++)
        if (row % m->M >= m->args.key_lengths[row / (m->Hk * m->M)])
            memset(kv_row(a, row), m->padding, clattn_dtype_bytes(a->view.dtype, (size_t)a->view.shape[3]));
}

static inline clattn_status mixed_run(mixed *m, clattn_context *context, const char *algorithm) {
    int64_t q_shape[4], k_shape[4], v_shape[4], o_shape[4];
    mixed_shapes(m, q_shape, k_shape, v_shape, o_shape);
    const int64_t lse_shape[4] = {m->B, m->H, m->N, 1};
    kv_array q = kv_make(NULL, m->q_type, q_shape, KV_DENSE, m->q),
             k = kv_make(NULL, m->k_type, k_shape, KV_DENSE, m->k),
             v = kv_make(NULL, m->v_type, v_shape, KV_DENSE, m->v),
             o = kv_make(NULL, m->o_type, o_shape, KV_DENSE, NULL),
             lse = kv_make(NULL, mixed_is_wide(m) ? CLATTN_F64 : CLATTN_F32, lse_shape, KV_DENSE, NULL);
    clattn_attention_args args = m->args;
    mixed_pad(m, &k);
    mixed_pad(m, &v);
    args.q = q.view, args.k = k.view, args.v = v.view, args.o = o.view;
    if (!m->without_lse) {
        args.lse = lse.view;
        args.lse.rank = 3;
    }
    args.algorithm = algorithm;
    const clattn_status status = clattn_attention(context, &args);
    free(m->o);
    free(m->lse);
    m->o = kv_read(&o);
    m->lse = kv_read(&lse);
    kv_free(&q), kv_free(&k), kv_free(&v), kv_free(&o), kv_free(&lse);
    return status;
}

/* The exact answer into m->o and m->lse: the stored values in f64, on the `cpu` context. Sinks are to be NULL. */
static inline void mixed_exact(mixed *m) {
    const mixed types = *m;
    clattn_context *cpu = kv_open("cpu", NULL);
    kv_round(m->q, m->q_type, m->B * m->H * m->N * m->D);
    kv_round(m->k, m->k_type, m->B * m->Hk * m->M * m->D);
    kv_round(m->v, m->v_type, m->B * m->Hk * m->M * m->Dv);
    m->q_type = m->k_type = m->v_type = m->o_type = CLATTN_F64;
    SUCCEEDS(mixed_run(m, cpu, "reference"));
    m->q_type = types.q_type, m->k_type = types.k_type, m->v_type = types.v_type, m->o_type = types.o_type;
    clattn_context_destroy(cpu);
}

/* What an element of o may be off: the floors of its own type and of the sums. */
static inline double mixed_allowed(const mixed *m) {
    const double largest = kv_largest(m->v, m->B * m->Hk * m->M * m->Dv);
    return oracle_floor(m->o_type, largest) + 2 * oracle_floor(mixed_is_wide(m) ? CLATTN_F64 : CLATTN_F32, largest);
}

#endif
