/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: attention in plain loops. Reads masks by itself, so that it can disagree with the kernels' mask code. */
#ifndef CLA_REF_ATTENTION_H
#define CLA_REF_ATTENTION_H

#include "base/dropout.h"
#include <clattn/tensor.h>

/* What the interval masks are made of, for one batch or sequence. */
typedef struct cla_ref_batch {
    int64_t q_row, k_row, queries, keys, offset, prefix;
} cla_ref_batch;

/* What weights hold, as in clattn/attention.h. */
enum { CLA_REF_SOFTMAX, CLA_REF_SCALED, CLA_REF_CAPPED, CLA_REF_MASKED };

/* Tensors of rank 4 with host storage at `host` + offset, or rank 0; lse and entropy are [1, B, H, N], column_sums
 * [1, B, H, M], sinks [1, 1, 1, H], state [B, H, N, 2]. Gradients as in attention/problem.h. Checked by the caller. */
typedef struct cla_ref_attention {
    int64_t B, H, Hk, N, M, D, Dv;
    clattn_tensor q, k, v, o, lse, state, weights, column_sums, entropy, keep, drop, bias, sinks;
    clattn_tensor d_o, d_q, d_k, d_v, d_bias, d_sinks;
    double scale, softcap;
    cla_dropout dropout;           /* bound 0: none */
    bool causal, windowed, ragged; /* ragged: a batch has no rows after its queries */
    int64_t left, right;
    const cla_ref_batch *batches;           /* [B] or NULL: everything from 0, of full length */
    const float *slopes;                    /* [H] or NULL */
    const int32_t *q_segments, *k_segments; /* [B, N], [B, M] or NULL */
    int64_t page_size, table_pages;         /* page_size > 0: k and v are [pages, Hk, page_size, D or Dv] */
    int form;                               /* of weights */
    bool mean;                              /* weights are averaged over the heads */
    const int64_t *rows, *heads;            /* queries and heads that weights are of; NULL: all */
    int64_t row_count, head_count;
    const int32_t *table; /* [B, table_pages]: the page of keys j, by j / page_size */
} cla_ref_attention;

/* Sums in double, or in long double. Errors: CLATTN_E_MEMORY. */
clattn_status cla_ref_attention_double(const cla_ref_attention *a);
clattn_status cla_ref_attention_long_double(const cla_ref_attention *a);
/* The gradients, from Q, K and V alone: neither O nor state is read. */
clattn_status cla_ref_gradients_double(const cla_ref_attention *a);
clattn_status cla_ref_gradients_long_double(const cla_ref_attention *a);

#endif
