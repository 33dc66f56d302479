/* SPDX-License-Identifier: Apache-2.0 */
/* A checked descriptor of one attention call: every shape and type error comes from cla_problem_init, and nothing after
 * it checks shapes again. */
#ifndef CLA_PROBLEM_H
#define CLA_PROBLEM_H

#include <clattn/backward.h>
#include <stddef.h>

/* Kernels count rows and columns in int, with room for a tile past the end. */
#define CLA_LARGEST_SIZE (INT32_MAX - 65536)

/* One batch, or one sequence, of the interval masks. */
typedef struct cla_batch {
    int64_t q_row, k_row;  /* where its rows start: sequences one after another, else 0 */
    int64_t queries, keys; /* lengths */
    int64_t offset;        /* position of query 0; within +-2^31 */
    int64_t prefix;        /* keys before it are seen in spite of causal */
} cla_batch;

typedef struct cla_problem {
    int64_t B, H, Hk, N, M, D, Dv;
    int64_t group;      /* H / Hk */
    clattn_dtype dtype; /* of the sums, of lse and of weights: f32 or f64 */
    /* Rank 4, canonical axes; strides of broadcast axes are 0. Rank 0: absent. */
    clattn_tensor q, k, v, o, weights, keep, drop, bias;
    clattn_tensor lse, entropy; /* [1 (stride 0), B, H, N]: rank 4 too, axes 1 to 3 */
    clattn_tensor column_sums;  /* [1 (stride 0), B, H, M], the same */
    clattn_tensor sinks;        /* [1, 1, 1, H] */
    clattn_tensor state;        /* [B, H, N, 2], last stride 1; an input of the backward pass */
    /* Of the backward pass. d_bias [B|1, H|1, N|1, M|1], strides of broadcast axes are 0; with short_masks it may have
     * fewer columns than M, and a single one that is none of all keys has stride 1. d_sinks [1, 1, 1, H]. */
    clattn_tensor d_o, d_q, d_k, d_v, d_bias, d_sinks;
    bool backward; /* o and state are inputs, outputs are gradients */
    clattn_weights_form form;
    bool mean; /* weights are averaged over the heads */
    bool causal, windowed;
    int64_t query_rows, key_rows; /* ragged: of all sequences; later rows of the tensors are nobody's */
    bool ragged; /* sequences one after another: a batch has no rows after batches[b].queries, and axis 0 of
                    q, k, v, o and axis 1 of lse, entropy, column_sums have size 1 and stride 0 */
    int64_t *form_queries, *form_heads; /* which rows of weights there are: owned, or NULL for all */
    int64_t row_count, head_count;      /* rows and heads that weights are of */
    double scale, softcap;
    double dropout;                   /* p as it is taken, a multiple of 2^-32; 0: none */
    uint64_t dropout_key;             /* of Philox, from seed and offset */
    int64_t left, right;              /* of the window, at most 2^32 */
    cla_batch *batches;               /* [B], owned; NULL where neither interval masks nor ALiBi need it */
    float *slopes;                    /* [H], owned, or NULL */
    int32_t *q_segments, *k_segments; /* [B, N] and [B, M], owned, or NULL */
    int64_t page_size;                /* 0: k and v are in one piece; else [pages, Hk, page_size, D or Dv] */
    int64_t table_pages;
    int32_t *table; /* [B, table_pages], owned, or NULL; 0 past the keys of a batch */
    size_t max_workspace;
    int64_t self_check;   /* rows */
    bool short_masks;     /* keep, drop and bias may have fewer columns than M, in shape[3]: pack.c widens them */
    bool interval, score; /* classes of masks present: ranges of keys; anything that works on single scores */
    bool batch_invariant; /* bits of a row depend on its own keys, types and head dims alone */
} cla_problem;

/* Its tensors, in one order, by name. */
enum { CLA_TENSORS = 19 };
typedef enum cla_written { CLA_NEVER, CLA_FORWARD, CLA_BACKWARD } cla_written;
typedef struct cla_tensor_field {
    const char *name;
    size_t offset;       /* of the field */
    cla_written written; /* in which pass; in the other it is read */
} cla_tensor_field;
extern const cla_tensor_field cla_tensor_fields[CLA_TENSORS];
static inline clattn_tensor *cla_tensor_of(cla_problem *p, int i) {
    return (clattn_tensor *)(void *)((char *)p + cla_tensor_fields[i].offset);
}
static inline const clattn_tensor *cla_tensor_read(const cla_problem *p, int i) {
    return (const clattn_tensor *)(const void *)((const char *)p + cla_tensor_fields[i].offset);
}

/* Whether a pass writes tensor i. */
static inline bool cla_tensor_written(const cla_problem *p, int i) {
    return cla_tensor_fields[i].written == (p->backward ? CLA_BACKWARD : CLA_FORWARD);
}

/* On failure *problem is empty and needs no free. */
clattn_status cla_problem_init(cla_problem *problem, const clattn_attention_args *args);
clattn_status cla_problem_init_backward(cla_problem *problem, const clattn_attention_backward_args *args);
void cla_problem_free(cla_problem *problem);

/* Keys [*lo, *hi) that the interval masks let query i of batch b see; lo = hi = 0 when there are none. */
void cla_problem_keys(const cla_problem *p, int64_t b, int64_t i, int64_t *lo, int64_t *hi);
/* How many (query, key) pairs the interval masks let through, over batch and heads. */
double cla_problem_pairs(const cla_problem *p);
/* The storage behind a tensor on the `cpu` context, at its offset. */
void *cla_tensor_data(const clattn_tensor *t);
/* No query, or no key: nothing to compute but a fill. */
static inline bool cla_problem_no_rows(const cla_problem *p) { return p->B == 0 || p->H == 0 || p->N == 0; }
static inline bool cla_problem_no_keys(const cla_problem *p) { return p->M == 0 || p->k.shape[0] == 0; }

/* Weights are asked for, or what is made of them. */
static inline bool cla_problem_weighs(const cla_problem *p) {
    return p->weights.rank > 0 || p->column_sums.rank > 0 || p->entropy.rank > 0;
}

#endif
