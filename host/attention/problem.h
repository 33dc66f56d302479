/* SPDX-License-Identifier: Apache-2.0 */
/* A checked descriptor of one attention call: every shape and type error comes from cla_problem_init, and nothing after
 * it checks shapes again. */
#ifndef CLA_PROBLEM_H
#define CLA_PROBLEM_H

#include <clattn/attention.h>

typedef struct cla_problem {
    int64_t B, H, Hk, N, M, D, Dv;
    int64_t group; /* H / Hk */
    clattn_dtype dtype;
    /* Rank 4, canonical axes; strides of broadcast axes are 0. Rank 0: absent. */
    clattn_tensor q, k, v, o, weights, keep, drop, bias;
    clattn_tensor lse; /* [1 (stride 0), B, H, N]: rank 4 too, axes 1 to 3 */
    double scale;
    bool causal, windowed;
    int64_t left, right;   /* of the window, at most 2^32 */
    int64_t *key_lengths;  /* [B], owned; NULL without interval masks */
    int64_t *offsets;      /* [B], owned, position of query 0; within +-2^31 */
    bool interval, tensor; /* classes of masks present */
    size_t max_workspace;
} cla_problem;

/* On failure *problem is empty and needs no free. */
clattn_status cla_problem_init(cla_problem *problem, const clattn_attention_args *args);
void cla_problem_free(cla_problem *problem);

/* Keys [*lo, *hi) that the interval masks let query i of batch b see; lo = hi = 0 when there are none. */
void cla_problem_keys(const cla_problem *p, int64_t b, int64_t i, int64_t *lo, int64_t *hi);
/* How many (query, key) pairs the interval masks let through, over batch and heads. */
double cla_problem_pairs(const cla_problem *p);
/* The storage behind a tensor on the `cpu` context, at its offset. */
void *cla_tensor_data(const clattn_tensor *t);
/* No query, or no key: nothing to compute but a fill. */
static inline bool cla_problem_no_rows(const cla_problem *p) { return p->B == 0 || p->H == 0 || p->N == 0; }

#endif
