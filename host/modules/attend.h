/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention inside of modules: checked weights, and a call whose tensors are [B, rows, columns]. */
#ifndef CLA_ATTEND_H
#define CLA_ATTEND_H

#include "modules/masks.h"

typedef struct cla_heads {
    clattn_tensor in_proj;                         /* [H D + Hk (D + Dv), E] where it was given so, or absent */
    clattn_tensor packed, packed_bias;             /* the same where one product has one bias */
    clattn_tensor kv, kv_bias;                     /* its rows of k and v */
    clattn_tensor q, q_bias, k, k_bias, v, v_bias; /* [out, in] */
    clattn_tensor out, out_bias;
    clattn_tensor last_k, last_v; /* bias_k and bias_v: [Hk D], [Hk Dv] */
    int64_t H, Hk, D, Dv;
    int64_t E, kdim, vdim, columns; /* of queries, keys, values and the result */
    int64_t extra;                  /* keys behind those of the call */
    bool zeros, has_scale, wide;    /* wide: a weight is f64 */
    double scale;
    int64_t parameters;
} cla_heads;

/* `options` of which batch_second is not looked at. */
clattn_status cla_heads_take(const clattn_multihead_weights *weights, const clattn_multihead_options *options,
                             cla_heads *heads);

/* Keys and values as they are stored: rows of [Hk D | Hk Dv]. */
static inline int64_t cla_heads_row(const cla_heads *h) { return h->Hk * (h->D + h->Dv); }

/* What the backward pass needs of a forward one, in three slots. */
typedef struct cla_attend_saved {
    cla_slot wide, heads, state_slot;
    bool together;               /* q and kv are parts of the same rows */
    clattn_tensor rows;          /* those, [B, N, H D + Hk (D + Dv)] */
    clattn_tensor q, kv;         /* rows of [H D] and of [Hk D | Hk Dv] */
    clattn_tensor result, state; /* [B, N, H Dv], [B, H, N, 2] */
} cla_attend_saved;

typedef struct cla_attend {
    const char *module;              /* for messages */
    clattn_dtype dtype;              /* of the sums, and of scratch */
    clattn_tensor query, key, value; /* [B, N, E], [B, M, kdim], [B, M, vdim]; key absent: all keys are in the store */
    clattn_tensor y;                 /* [B, N, columns]; absent: only what is saved is wanted */
    clattn_tensor weights;           /* [B, H|1, N, M + extra], or absent */
    bool weights_mean;
    clattn_tensor store; /* [B, rows, cla_heads_row], or absent: where keys and values are kept */
    int64_t stored;      /* rows in it; those of the call are written behind them */
    cla_masks masks;
    cla_attend_saved *saved; /* out, or NULL; with a store there is none */
} cla_attend;

/* Writes the projected keys and values of the call behind those that are stored, and then bias_k, bias_v and zeros. */
clattn_status cla_attend_store(const cla_heads *heads, clattn_context *context, const cla_attend *call);
/* The attention. Uses CLA_SLOT_WIDE and CLA_SLOT_HEADS. */
clattn_status cla_attend_run(const cla_heads *heads, cla_scratch *scratch, const cla_attend *call);

/* What attention is called with. */
clattn_attention_args cla_attend_args(const cla_heads *heads, const cla_attend *call, const clattn_tensor *q,
                                      const clattn_tensor *kv, const clattn_tensor *result);
/* [B, H, rows, D] of columns first .. first + H D of [B, rows, columns]. */
clattn_tensor cla_as_heads(const clattn_tensor *rows, int64_t first, int64_t H, int64_t D);

/* attend_backward.c. Gradients that are absent are not wanted. */
typedef struct cla_attend_back {
    const cla_heads *gradients; /* NULL: none */
    bool accumulate;
    clattn_tensor d_y, d_query;
    clattn_tensor d_key, d_value;    /* by key and value where they are others */
    bool key_is_query, value_is_key; /* they are not: their gradients are added to that of the query, or key */
    bool adds_key;                   /* d_key is added to */
} cla_attend_back;
clattn_status cla_attend_backward(const cla_heads *heads, cla_scratch *scratch, const cla_attend *call,
                                  const cla_attend_back *back);
/* The gradients of weights, of the same shapes and given in the same way; absent ones are not wanted. */
clattn_status cla_heads_take_gradients(const clattn_multihead_weights *given, const cla_heads *heads,
                                       cla_heads *gradients);

#endif
