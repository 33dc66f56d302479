/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of the Transformer: multi-head attention, as torch.nn has it, and more general where it costs nothing.
 *
 * Weights are plain structs of borrowed tensors (buffers, or host arrays, which are slower on OpenCL devices), which
 * live as long as the module; clattn_parameters holds such, and the *_load functions find them by PyTorch's names. A
 * module owns scratch, which grows with the calls and is used again. It belongs to one thread at a time, and is
 * destroyed before its context.
 *
 * Calls enqueue, and return at once where all tensors are buffers; a host array among them, or what the text of the
 * masks says, makes them wait. Sums are f32, or f64 where x or a weight is f64; between the parts values are stored in
 * that type. Dropout is none: modules are as in evaluation.
 *
 * Letters: B batch, N rows (queries, targets), M keys (memory), E model dim, H heads, Hk key heads, D head dim, Dv
 * value dim, F inner dim of feed-forward.
 */
#ifndef CLATTN_MODULES_H
#define CLATTN_MODULES_H

#include <clattn/attention.h>
#include <clattn/ops.h>
#include <clattn/parameters.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- masks of a module ---- */

/* All zero: every query sees every key. What is given composes: a key is seen when all of it lets it be seen. A query
 * that sees no key, a dead batch too, has zeros for attention and for weights, and what follows (biases, residuals).
 * bias_k, bias_v and add_zero_attn stand behind the M keys, and are seen by all.
 * Async    attn and key_padding both boolean, or both of a float type, become one mask on the host, and so does any
 *          mask with bias_k or add_zero_attn: where they are buffers, the call waits for them. */
typedef struct clattn_module_masks {
    /* [N, M], [B * H, N, M], or [B|1, H|1, N, M]; unbatched [N, M] or [H, N, M]. bool or u8, or of a float type: it is
     * added to the scores, and -inf excludes. */
    clattn_tensor attn;
    clattn_tensor key_padding; /* [B, M]; unbatched [M]. bool or u8, or of a float type, which is added */
    bool keep; /* boolean masks: nonzero = may be seen. Else nonzero = may NOT be seen, as in torch.nn */
    const int64_t *key_lengths; /* host array [B], NULL = M: keys from key_lengths[b] on are not seen */
    bool causal;                /* key j is seen when j <= i + offset */
    clattn_align align;         /* the offset, where N != M: as in attention */
    const int64_t *offsets;     /* host array [B], with CLATTN_ALIGN_OFFSET */
} clattn_module_masks;

/* ---- multi-head attention ---- */

/* Tensors of rank 0 are absent. Matrices are [out, in], as PyTorch keeps them, or [in, out] where `transposed` is set,
 * as the articles write X W. Float types, matrices that are not transposed also q8_0, q4_0 and q4_1. */
typedef struct clattn_multihead_weights {
    bool transposed;
    clattn_tensor
        in_proj; /* q, k and v packed in this order: [(H + Hk) D + Hk Dv, E], with Dv = D; PyTorch's [3 E, E] */
    clattn_tensor q, k, v;                /* or each: [H D, E], [Hk D, kdim], [Hk Dv, vdim] */
    clattn_tensor in_bias;                /* optional, of all three together */
    clattn_tensor q_bias, k_bias, v_bias; /* or optional, each */
    clattn_tensor out;                    /* [E, H Dv] */
    clattn_tensor out_bias;               /* optional [E] */
    clattn_tensor bias_k,
        bias_v; /* both or none, [1, 1, Hk D] and [1, 1, Hk Dv], or of rank 1: a key behind the others */
} clattn_multihead_weights;

typedef struct clattn_multihead_options {
    int64_t heads;      /* H */
    int64_t key_heads;  /* Hk, of which H is a multiple; 0: H */
    bool add_zero_attn; /* a key and a value of zeros behind the others */
    bool batch_second;  /* tensors are [N, B, E]: PyTorch's batch_first = False */
    bool has_scale;
    double scale; /* 1 / sqrt(D) unless has_scale */
} clattn_multihead_options;

typedef struct clattn_multihead clattn_multihead;

/* Errors   CLATTN_E_SHAPE (weights that do not fit together, heads that do not divide), CLATTN_E_ARGUMENT (missing, or
 *          given twice), CLATTN_E_MEMORY. *multihead is NULL then. */
CLATTN_API clattn_status clattn_multihead_create(clattn_context *context, const clattn_multihead_weights *weights,
                                                 const clattn_multihead_options *options, clattn_multihead **multihead);
/* Weights by the names of nn.MultiheadAttention: PREFIXin_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight,
 * in_proj_bias, out_proj.weight, out_proj.bias, bias_k, bias_v. */
CLATTN_API clattn_status clattn_multihead_weights_find(const clattn_parameters *parameters, const char *prefix,
                                                       clattn_multihead_weights *weights);
CLATTN_API clattn_status clattn_multihead_load(clattn_context *context, const clattn_parameters *parameters,
                                               const char *prefix, const clattn_multihead_options *options,
                                               clattn_multihead **multihead);
CLATTN_API void clattn_multihead_destroy(clattn_multihead *multihead); /* NULL is allowed */
/* Numbers in its weights: 4 E^2 + 4 E in the plain case, whatever H is. */
CLATTN_API int64_t clattn_multihead_parameter_count(const clattn_multihead *multihead);

/* All zero but query and y is self-attention. */
typedef struct clattn_multihead_args {
    clattn_tensor query; /* [B, N, E]; unbatched [N, E] */
    clattn_tensor key;   /* [B, M, kdim]; absent: the query */
    clattn_tensor value; /* [B, M, vdim]; absent: the key */
    clattn_tensor y;     /* out [B, N, E]; may be the query, as the same view, where no key is given */
    /* out, optional, of the type of the sums: [B, H, N, M + x], x the keys behind the others (bias_k, add_zero_attn),
     * unbatched without B. */
    clattn_tensor weights;
    bool weights_mean; /* weights is [B, N, M + x], the mean over the heads */
    clattn_module_masks masks;
} clattn_multihead_args;

/* y = concat over the heads of softmax(scale q k^T + masks) v, times W_out, plus bias; q, k, v the projections.
 * Shapes   as above; with batch_second B is the second axis of query, key, value and y. Strides are free.
 * Dtypes   f32, f16, bf16, f64, each tensor its own.
 * Special  see clattn_module_masks. B, N, M may be 0.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED, CLATTN_E_LIMIT, and the device's.
 * Source   Vaswani et al. 2017 section 3.2.2. */
CLATTN_API clattn_status clattn_multihead_run(clattn_multihead *multihead, const clattn_multihead_args *args);

#ifdef __cplusplus
}
#endif
#endif
