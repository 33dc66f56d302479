/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of attention: gradients of a loss, from the one by O. Letters as in clattn/attention.h.
 *
 *   dV = P^T dO,   dP = dO V^T,   dS = P (dP - D_i),   D_i = sum over Dv of dO O
 *   dQ = scale dS' K,   dK = scale dS'^T Q,   dS' = dS (1 - (s_cap / softcap)^2) with a soft cap, else dS
 *   dBias = dS,   dSink[h] = -sum over b, i of P_sink D_i,   P_sink = exp(sink - m) / l
 *   with dropout: O = (P R) V and dP = R (dO V^T), dV = (P R)^T dO; R is 0 or 1 / (1 - p)
 */
#ifndef CLATTN_BACKWARD_H
#define CLATTN_BACKWARD_H

#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gradients that are not wanted have rank 0; one is wanted at least. Ranks are those of the tensors in `forward`. Each
 * gradient may have another float type than its tensor, f64 only where the sums are f64. */
typedef struct clattn_attention_backward_args {
    /* The forward call: its q, k, v, o and state, all inputs here, and its options. Of it are not read: lse, weights
     * and what says how they should be, column_sums, entropy, algorithm, variant, self_check. */
    clattn_attention_args forward;
    clattn_tensor d_o;     /* [B, H, N, Dv]: the gradient by O */
    clattn_tensor d_q;     /* out, optional [B, H, N, D] */
    clattn_tensor d_k;     /* out, optional [B, Hk, M, D]: summed over the query heads of a group */
    clattn_tensor d_v;     /* out, optional [B, Hk, M, Dv]: the same */
    clattn_tensor d_bias;  /* out, optional, of the shape of bias: summed over the axes that broadcast */
    clattn_tensor d_sinks; /* out, optional [H], type of the sums */
    const char *algorithm; /* a clattn_backward_algorithm_name; NULL: the first that applies and was written for this */
    const char *variant;   /* as in clattn_attention_args */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_attention_backward_args;

/* One call: checks, chooses, computes. Host arrays and buffers as in clattn_attention.
 * Shapes   those above. With sequences one after another, rows behind the last one are not written. A gradient may not
 *          lie over an input or another gradient.
 * Dtypes   q, k, v, o, bias as in the forward pass; d_o and the gradients: f32, f16, bf16, or f64 with sums in f64.
 * Special  what a query does not see is selected away, as in the forward pass: NaN there, and in dO of queries that see
 *          no key, reaches nothing. Such a query has dQ = 0, a key that no query sees dK = dV = 0. P is computed again,
 *          on OpenCL devices from state, which may be of any forward algorithm, on `cpu` from q and k alone. The same
 *          bits in every run.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE (a gradient of what is stored in integers or blocks), CLATTN_E_ARGUMENT (no
 *          state, no gradient wanted, dropout outside [0, 1)), CLATTN_E_UNSUPPORTED (keys in pages, f64 without
 *          cl_khr_fp64), CLATTN_E_LIMIT, and the device's.
 * Source   Dao et al. 2022 (FlashAttention), algorithm 4; dropout: Salmon et al. 2011 (Philox4x32-10). */
CLATTN_API clattn_status clattn_attention_backward(clattn_context *context, const clattn_attention_backward_args *args);

/* A plan of the backward pass, for clattn_plan_explain, clattn_plan_info_get, clattn_plan_variant,
 * clattn_plan_set_workspace and clattn_plan_destroy.
 * Errors   those of clattn_attention_backward. *plan is NULL then. */
CLATTN_API clattn_status clattn_backward_plan_create(clattn_context *context,
                                                     const clattn_attention_backward_args *args, clattn_plan **plan);
/* As clattn_plan_execute: tensors with the same layout, of which dropout_seed and dropout_offset are read too, or NULL.
 * Errors   those of clattn_plan_execute, and CLATTN_E_ARGUMENT (a plan of the forward pass). */
CLATTN_API clattn_status clattn_backward_plan_execute(clattn_plan *plan, const clattn_attention_backward_args *tensors);

/* ---- the algorithm table of the backward pass: as that of clattn/attention.h ---- */

/* How many there are, in the order in which they are tried. */
CLATTN_API size_t clattn_backward_algorithm_count(void);
CLATTN_API const char *clattn_backward_algorithm_name(size_t index);    /* NULL past the end */
CLATTN_API const char *clattn_backward_algorithm_summary(size_t index); /* one line; NULL past the end */
/* As clattn_algorithm_applies. Errors   those of clattn_attention_backward about args; *applies is false then. */
CLATTN_API clattn_status clattn_backward_algorithm_applies(clattn_context *context,
                                                           const clattn_attention_backward_args *args, size_t index,
                                                           bool *applies, const char **reason);

#ifdef __cplusplus
}
#endif
#endif
