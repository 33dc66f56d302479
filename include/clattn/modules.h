/* SPDX-License-Identifier: Apache-2.0 */
/* Modules of the Transformer: multi-head attention, feed-forward, stacks of encoder and decoder layers, and decoding
 * with caches. As torch.nn has them, and more general where it costs nothing.
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
 * Async    attn and key_padding both of a float type become one mask on the host, and so does any mask with bias_k or
 *          add_zero_attn, and one of f64 where sums are f32; both boolean, key_padding is inverted there. The call
 *          waits for what goes to the host out of a buffer. */
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
    uint64_t reserved[24];      /* zero: see clattn/version.h */
} clattn_module_masks;

/* ---- multi-head attention ---- */

/* Tensors of rank 0 are absent. Matrices are [out, in], as PyTorch keeps them, or [in, out] where `transposed` is set,
 * as the articles write X W. Float types, matrices that are not transposed also q8_0, q4_0 and q4_1. */
typedef struct clattn_multihead_weights {
    bool transposed; /* matrices are [in, out] */
    clattn_tensor
        in_proj; /* q, k and v packed in this order: [(H + Hk) D + Hk Dv, E], with Dv = D; PyTorch's [3 E, E] */
    clattn_tensor q, k, v;                /* or each: [H D, E], [Hk D, kdim], [Hk Dv, vdim] */
    clattn_tensor in_bias;                /* optional, of all three together */
    clattn_tensor q_bias, k_bias, v_bias; /* or optional, each */
    clattn_tensor out;                    /* [E, H Dv] */
    clattn_tensor out_bias;               /* optional [E] */
    clattn_tensor bias_k,
        bias_v;            /* both or none, [1, 1, Hk D] and [1, 1, Hk Dv], or of rank 1: a key behind the others */
    uint64_t reserved[44]; /* zero: see clattn/version.h */
} clattn_multihead_weights;

/* All zero but heads: torch.nn.MultiheadAttention with batch_first. */
typedef struct clattn_multihead_options {
    int64_t heads;        /* H */
    int64_t key_heads;    /* Hk, of which H is a multiple; 0: H */
    bool add_zero_attn;   /* a key and a value of zeros behind the others */
    bool batch_second;    /* tensors are [N, B, E]: PyTorch's batch_first = False */
    bool has_scale;       /* `scale` is given */
    double scale;         /* 1 / sqrt(D) unless has_scale */
    uint64_t reserved[8]; /* zero: see clattn/version.h */
} clattn_multihead_options;

/* Multi-head attention. */
typedef struct clattn_multihead clattn_multihead;

/* Errors   CLATTN_E_SHAPE (weights that do not fit together, heads that do not divide), CLATTN_E_ARGUMENT (missing, or
 *          given twice), CLATTN_E_MEMORY. *multihead is NULL then. */
CLATTN_API clattn_status clattn_multihead_create(clattn_context *context, const clattn_multihead_weights *weights,
                                                 const clattn_multihead_options *options, clattn_multihead **multihead);
/* Weights by the names of nn.MultiheadAttention: PREFIXin_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight,
 * in_proj_bias, out_proj.weight, out_proj.bias, bias_k, bias_v. */
CLATTN_API clattn_status clattn_multihead_weights_find(const clattn_parameters *parameters, const char *prefix,
                                                       clattn_multihead_weights *weights);
/* Both in one: weights by their names, and the module.
 * Errors   those of clattn_multihead_weights_find (CLATTN_E_ARGUMENT: a weight that is missing) and
 *          clattn_multihead_create. */
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
    bool weights_mean;         /* weights is [B, N, M + x], the mean over the heads */
    clattn_module_masks masks; /* which keys a query sees */
    uint64_t reserved[24];     /* zero: see clattn/version.h */
} clattn_multihead_args;

/* y = concat over the heads of softmax(scale q k^T + masks) v, times W_out, plus bias; q, k, v the projections.
 * Shapes   as above; with batch_second B is the second axis of query, key, value and y. Strides are free.
 * Dtypes   f32, f16, bf16, f64, each tensor its own.
 * Special  see clattn_module_masks. B, N, M may be 0. An output of a module that lies over another, or over what is
 *          read after it is written, is refused (CLATTN_E_ARGUMENT).
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED, CLATTN_E_LIMIT, and the device's.
 * Source   Vaswani et al. 2017 section 3.2.2. */
CLATTN_API clattn_status clattn_multihead_run(clattn_multihead *multihead, const clattn_multihead_args *args);

/* ---- feed-forward ---- */

/* y = W2 act(W1 x + b1) + b2, or gated: y = W2 (act(Wg x + bg) * (W1 x + b1)) + b2. */
typedef struct clattn_feedforward_weights {
    bool transposed;                     /* as for attention */
    clattn_tensor linear1, linear1_bias; /* [F, E], optional [F] */
    clattn_tensor gate, gate_bias;       /* optional [F, E], [F] */
    clattn_tensor linear2, linear2_bias; /* [E, F], optional [E] */
    uint64_t reserved[44];               /* zero: see clattn/version.h */
} clattn_feedforward_weights;

/* All zero, or NULL in its place: ReLU. */
typedef struct clattn_feedforward_options {
    clattn_activation activation; /* none counts as CLATTN_ACTIVATION_RELU, PyTorch's default */
    uint64_t reserved[8];         /* zero: see clattn/version.h */
} clattn_feedforward_options;

/* Two linear layers with an activation between, or three where it is gated. */
typedef struct clattn_feedforward clattn_feedforward;

/* options may be NULL.
 * Errors   CLATTN_E_SHAPE (weights that do not fit together), CLATTN_E_ARGUMENT (missing), CLATTN_E_DTYPE,
 *          CLATTN_E_MEMORY. *feedforward is NULL then. */
CLATTN_API clattn_status clattn_feedforward_create(clattn_context *context, const clattn_feedforward_weights *weights,
                                                   const clattn_feedforward_options *options,
                                                   clattn_feedforward **feedforward);
/* Weights by the names of PyTorch's layers: PREFIXlinear1.weight, linear1.bias, linear2.weight, linear2.bias; biases
 * may lack. A gate has no name there. */
CLATTN_API clattn_status clattn_feedforward_weights_find(const clattn_parameters *parameters, const char *prefix,
                                                         clattn_feedforward_weights *weights);
/* Both in one, as clattn_multihead_load. */
CLATTN_API clattn_status clattn_feedforward_load(clattn_context *context, const clattn_parameters *parameters,
                                                 const char *prefix, const clattn_feedforward_options *options,
                                                 clattn_feedforward **feedforward);
CLATTN_API void clattn_feedforward_destroy(clattn_feedforward *feedforward); /* NULL is allowed */
/* Numbers in its weights. */
CLATTN_API int64_t clattn_feedforward_parameter_count(const clattn_feedforward *feedforward);
/* x [..., E] to y [..., E], rank 1 to 4; y may be x, as the same view. */
CLATTN_API clattn_status clattn_feedforward_run(clattn_feedforward *feedforward, const clattn_tensor *x,
                                                const clattn_tensor *y);

/* ---- encoder ---- */

/* LayerNorm or RMSNorm of the last axis. */
typedef struct clattn_norm_weights {
    clattn_tensor weight, bias; /* each optional, [E] */
    uint64_t reserved[4];       /* zero: see clattn/version.h */
} clattn_norm_weights;

/* Of one encoder or decoder layer. All zero but heads is PyTorch's default layer, batch first. */
typedef struct clattn_layer_options {
    int64_t heads, key_heads;     /* as for attention */
    bool norm_first;              /* x + f(norm(x)); else norm(x + f(x)) */
    clattn_activation activation; /* none counts as CLATTN_ACTIVATION_RELU */
    clattn_norm_kind norm;        /* LayerNorm or RMSNorm */
    double norm_epsilon;          /* 0: 1e-5 */
    bool batch_second;            /* tensors are [N, B, E] */
    uint64_t reserved[16];        /* zero: see clattn/version.h */
} clattn_layer_options;

/* Of one layer, as torch.nn.TransformerEncoderLayer. */
typedef struct clattn_encoder_layer_weights {
    clattn_multihead_weights self_attn;     /* whose keys are the rows themselves */
    clattn_feedforward_weights feedforward; /* behind it */
    clattn_norm_weights norm1, norm2;       /* after, or before, self-attention and feed-forward */
    uint64_t reserved[24];                  /* zero: see clattn/version.h */
} clattn_encoder_layer_weights;

/* Of all layers. */
typedef struct clattn_encoder_weights {
    const clattn_encoder_layer_weights *layers; /* [count]; the struct is copied */
    int64_t count;                              /* 1: a single layer */
    bool has_norm;                              /* a norm behind the last layer, with both weights optional */
    clattn_norm_weights norm;                   /* with has_norm */
    uint64_t reserved[8];                       /* zero: see clattn/version.h */
} clattn_encoder_weights;

/* A stack of layers of self-attention and feed-forward. */
typedef struct clattn_encoder clattn_encoder;

/* Errors   CLATTN_E_SHAPE (weights or layers that do not fit together), CLATTN_E_ARGUMENT (missing, or a count that is
 *          none), CLATTN_E_DTYPE, CLATTN_E_MEMORY; the message names the layer. *encoder is NULL then. */
CLATTN_API clattn_status clattn_encoder_create(clattn_context *context, const clattn_encoder_weights *weights,
                                               const clattn_layer_options *options, clattn_encoder **encoder);
/* Weights by the names of nn.TransformerEncoderLayer (PREFIXself_attn.in_proj_weight ..., PREFIXlinear1.weight ...,
 * PREFIXnorm1.weight ...), or of nn.TransformerEncoder: PREFIXlayers.0.self_attn.in_proj_weight ..., and
 * PREFIXnorm.weight where there is a final norm. */
CLATTN_API clattn_status clattn_encoder_layer_weights_find(const clattn_parameters *parameters, const char *prefix,
                                                           clattn_encoder_layer_weights *weights);
/* Both in one, as clattn_multihead_load, for all layers that there are. */
CLATTN_API clattn_status clattn_encoder_load(clattn_context *context, const clattn_parameters *parameters,
                                             const char *prefix, const clattn_layer_options *options,
                                             clattn_encoder **encoder);
CLATTN_API void clattn_encoder_destroy(clattn_encoder *encoder); /* NULL is allowed */
/* Numbers in the weights of all layers. */
CLATTN_API int64_t clattn_encoder_parameter_count(const clattn_encoder *encoder);
/* Layers of the stack; 0 of NULL. */
CLATTN_API int64_t clattn_encoder_layer_count(const clattn_encoder *encoder);

/* Of clattn_encoder_run. */
typedef struct clattn_encoder_args {
    clattn_tensor x;             /* [B, N, E]; unbatched [N, E] */
    clattn_tensor y;             /* out, of the same shape; may be x, as the same view */
    clattn_module_masks masks;   /* of every layer */
    const clattn_tensor *hidden; /* host array [layers] or NULL: out, each optional, what each layer gives */
    uint64_t reserved[24];       /* zero: see clattn/version.h */
} clattn_encoder_args;

/* Special, dtypes, errors as for clattn_multihead_run. Source  Vaswani et al. 2017 section 3.1; Xiong et al. 2020 for
 * norms before. */
CLATTN_API clattn_status clattn_encoder_run(clattn_encoder *encoder, const clattn_encoder_args *args);

/* ---- decoder ---- */

/* Of one layer, as torch.nn.TransformerDecoderLayer. */
typedef struct clattn_decoder_layer_weights {
    clattn_multihead_weights self_attn, cross_attn; /* PyTorch names the second multihead_attn */
    clattn_feedforward_weights feedforward;         /* behind both */
    clattn_norm_weights norm1, norm2, norm3;        /* of self-attention, cross attention, feed-forward */
    uint64_t reserved[24];                          /* zero: see clattn/version.h */
} clattn_decoder_layer_weights;

/* Of all layers. */
typedef struct clattn_decoder_weights {
    const clattn_decoder_layer_weights *layers; /* [count]; the struct is copied */
    int64_t count;                              /* 1: a single layer */
    bool has_norm;                              /* a norm behind the last layer */
    clattn_norm_weights norm;                   /* with has_norm */
    uint64_t reserved[8];                       /* zero: see clattn/version.h */
} clattn_decoder_weights;

/* A stack of layers of self-attention, cross attention and feed-forward. */
typedef struct clattn_decoder clattn_decoder;

/* Errors   CLATTN_E_SHAPE (weights or layers that do not fit together), CLATTN_E_ARGUMENT (missing, or a count that is
 *          none), CLATTN_E_DTYPE, CLATTN_E_MEMORY; the message names the layer. *decoder is NULL then. */
CLATTN_API clattn_status clattn_decoder_create(clattn_context *context, const clattn_decoder_weights *weights,
                                               const clattn_layer_options *options, clattn_decoder **decoder);
/* As for the encoder: PREFIXself_attn, PREFIXmultihead_attn, PREFIXlinear1 ..., PREFIXnorm3; PREFIXlayers.0. ... */
CLATTN_API clattn_status clattn_decoder_layer_weights_find(const clattn_parameters *parameters, const char *prefix,
                                                           clattn_decoder_layer_weights *weights);
/* Both in one, as clattn_multihead_load, for all layers that there are. */
CLATTN_API clattn_status clattn_decoder_load(clattn_context *context, const clattn_parameters *parameters,
                                             const char *prefix, const clattn_layer_options *options,
                                             clattn_decoder **decoder);
CLATTN_API void clattn_decoder_destroy(clattn_decoder *decoder); /* after its caches; NULL is allowed */
/* Numbers in the weights of all layers. */
CLATTN_API int64_t clattn_decoder_parameter_count(const clattn_decoder *decoder);
/* Layers of the stack; 0 of NULL. */
CLATTN_API int64_t clattn_decoder_layer_count(const clattn_decoder *decoder);

/* What decoding some sequences token by token keeps: keys and values of the targets so far (self), and of the memory
 * (cross), which are found once. */
typedef struct clattn_decoder_cache clattn_decoder_cache;

/* Of clattn_decoder_cache_create. */
typedef struct clattn_decoder_cache_options {
    int64_t batch;        /* B */
    int64_t capacity;     /* targets of a sequence, at most */
    bool has_dtype;       /* else the type of the sums of f32 calls, f32 */
    clattn_dtype dtype;   /* f32, f64, f16 or bf16 */
    uint64_t reserved[8]; /* zero: see clattn/version.h */
} clattn_decoder_cache_options;

/* Errors   CLATTN_E_ARGUMENT, CLATTN_E_DTYPE, CLATTN_E_UNSUPPORTED (bias_k in a self-attention), CLATTN_E_MEMORY,
 *          CLATTN_E_LIMIT, and the device's. */
CLATTN_API clattn_status clattn_decoder_cache_create(clattn_decoder *decoder,
                                                     const clattn_decoder_cache_options *options,
                                                     clattn_decoder_cache **cache);
CLATTN_API void clattn_decoder_cache_destroy(clattn_decoder_cache *cache); /* NULL is allowed */
/* Targets in it; every sequence has as many. */
CLATTN_API int64_t clattn_decoder_cache_length(const clattn_decoder_cache *cache);
/* Forgets targets from `length` on: 0 to begin anew. Errors: CLATTN_E_ARGUMENT (more than there are). */
CLATTN_API clattn_status clattn_decoder_cache_truncate(clattn_decoder_cache *cache, int64_t length);

/* Of clattn_decoder_run. */
typedef struct clattn_decoder_args {
    clattn_tensor x;      /* targets [B, N, E]; unbatched [N, E] */
    clattn_tensor memory; /* [B, M, E], what the encoder gave; with a cache it may be absent after the first call */
    clattn_tensor y;      /* out [B, N, E]; may be x, as the same view */
    clattn_module_masks masks;        /* of self-attention */
    clattn_module_masks memory_masks; /* of cross attention */
    /* The targets come behind those in the cache, and are appended to it: self-attention is causal then, and has the
     * whole length as its M. One pass over all targets, causal, gives the same. */
    clattn_decoder_cache *cache;
    const clattn_tensor *hidden; /* host array [layers] or NULL: out, each optional, what each layer gives */
    uint64_t reserved[24];       /* zero: see clattn/version.h */
} clattn_decoder_args;

/* Special, dtypes, errors as for clattn_multihead_run; CLATTN_E_LIMIT where the cache is full. */
CLATTN_API clattn_status clattn_decoder_run(clattn_decoder *decoder, const clattn_decoder_args *args);

#ifdef __cplusplus
}
#endif
#endif
