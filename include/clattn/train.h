/* SPDX-License-Identifier: Apache-2.0 */
/* Training: the backward of the operations of clattn/ops.h, the loss, and optimizers. d_t is the gradient of the loss
 * by tensor t, of t's shape.
 *
 * What they have in common, where nothing else is said, is what clattn/ops.h says: rank 1 to 8, any strides, host
 * arrays and buffers mixed, rank 0 is absent; f32, f16, bf16 and f64, each tensor its own, with sums in f32, or in f64
 * where a tensor is f64; enqueued, unless a tensor is a host array on an OpenCL device; no atomics: the same bits in
 * every run on a device. Gradients that are absent are not computed; inputs are those of the forward call.
 *
 * `accumulate`: gradients of parameters (weights, biases, tables) are added to what their tensors hold, as over several
 * batches, or several uses of one weight; else they are written.
 *
 * Letters as in clattn/ops.h; C classes.
 */
#ifndef CLATTN_TRAIN_H
#define CLATTN_TRAIN_H

#include <clattn/modules.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients of operations ---- */

/* Of clattn_linear_backward. What is not needed for the gradients that are asked for may be absent. */
typedef struct clattn_linear_backward_args {
    clattn_tensor x;              /* [..., K], rank 1 to 4; for d_w */
    clattn_tensor w;              /* [N, K], or a view of this shape; for d_x */
    clattn_tensor z;              /* [..., N]: x W^T + bias; with an activation. ReLU takes y as well */
    clattn_tensor d_y;            /* [..., N] */
    clattn_tensor d_x;            /* out, optional [..., K] */
    clattn_tensor d_w;            /* out, optional [N, K], or a view of this shape: as free as w */
    clattn_tensor d_bias;         /* out, optional [N] */
    clattn_activation activation; /* of the forward call */
    bool accumulate;              /* d_w and d_bias */
    const char *algorithm;        /* of both products, a clattn_linear_algorithm; NULL: chosen for each */
    uint64_t reserved[24];        /* zero: see clattn/version.h */
} clattn_linear_backward_args;

/* Of y = activation(z), z = x W^T + bias, not gated; d_z = d_y activation'(z):
 *   d_x = d_z W,  d_w = d_z^T x,  d_bias = the sum of the rows of d_z
 * Special  no rows: d_w and d_bias are zeros, or as they were.
 * Errors   those of clattn_linear; CLATTN_E_ARGUMENT too for an input that is missing, and CLATTN_E_DTYPE for w in
 *          blocks. */
CLATTN_API clattn_status clattn_linear_backward(clattn_context *context, const clattn_linear_backward_args *args);

/* All zero but x, d_y and d_x: LayerNorm over the last axis, without weights. */
typedef struct clattn_norm_backward_args {
    clattn_norm_kind kind;  /* LayerNorm or RMSNorm */
    clattn_tensor x;        /* [..., the normalised axes] */
    clattn_tensor residual; /* optional, as x: x + residual was normalised. Or x is the forward's sum */
    clattn_tensor weight;   /* optional, as in the forward */
    clattn_tensor d_y;      /* as x */
    clattn_tensor d_sum;    /* optional, as x: the gradient by x + residual from elsewhere, added to d_x */
    clattn_tensor d_x;      /* out, optional, as x: by x, and by residual alike; may be d_sum */
    clattn_tensor d_weight; /* out, optional: of what broadcasts from the right to x, and summed to that */
    clattn_tensor d_bias;   /* the same */
    int axes;               /* so many last axes are normalised; 0: 1 */
    double epsilon;         /* 0: 1e-5 */
    bool accumulate;        /* d_weight and d_bias */
    uint64_t reserved[24];  /* zero: see clattn/version.h */
} clattn_norm_backward_args;

/* Of clattn_norm; mean and inv_std are found again. n = (z - mean) inv_std, g = d_y weight:
 *   d_x = inv_std (g - mean of g - n mean of (g n)) + d_sum,  RMSNorm without the mean of g
 *   d_weight = sum of d_y n,  d_bias = sum of d_y
 * Errors   those of clattn_norm. */
CLATTN_API clattn_status clattn_norm_backward(clattn_context *context, const clattn_norm_backward_args *args);

/* Of clattn_activate_backward. */
typedef struct clattn_activate_backward_args {
    clattn_tensor x;              /* [...], rank 1 to 8: the input of the forward call */
    clattn_tensor up;             /* optional, as x: gated */
    clattn_tensor d_y;            /* as x */
    clattn_tensor d_x;            /* out, optional, as x; may be d_y, x or up */
    clattn_tensor d_up;           /* out, optional, with up; may be d_y, x or up, but not d_x */
    clattn_activation activation; /* of the forward call */
    uint64_t reserved[24];        /* zero: see clattn/version.h */
} clattn_activate_backward_args;

/* d_x = d_y up activation'(x),  d_up = d_y activation(x).
 * Special  ReLU has the slope 0 at 0, and what is not finite in d_y is not let through there. The slopes of GELU and
 *          SiLU in f32 are within 4e-7 of the greatest.
 * Errors   those of clattn_activate. */
CLATTN_API clattn_status clattn_activate_backward(clattn_context *context, const clattn_activate_backward_args *args);

/* Of clattn_softmax_backward. */
typedef struct clattn_softmax_backward_args {
    clattn_tensor y;       /* what softmax gave */
    clattn_tensor d_y;     /* as y */
    clattn_tensor d_x;     /* out, as y; may be y or d_y */
    bool has_axis;         /* else the last */
    int axis;              /* negative ones count from the end */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_softmax_backward_args;

/* d_x = y (d_y - the sum of y d_y along the axis).
 * Special  where y is 0 so is d_x, and d_y is not looked at.
 * Errors   those of clattn_softmax. */
CLATTN_API clattn_status clattn_softmax_backward(clattn_context *context, const clattn_softmax_backward_args *args);

/* Of clattn_embed_backward. */
typedef struct clattn_embed_backward_args {
    clattn_tensor ids;     /* [...] of i32 or i64, rank 1 to 7 */
    clattn_tensor d_y;     /* [..., E] */
    clattn_tensor d_table; /* out [V, E] */
    bool has_scale;        /* `scale` is given */
    double scale;          /* else 1 */
    bool has_padding;      /* `padding` is given */
    int64_t padding;       /* the row of this id takes no gradient */
    bool accumulate;       /* d_table */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_embed_backward_args;

/* d_table[v] = scale * the sum of d_y over the ids that are v, in their order. The gradient by clattn_embed's `add` is
 * a clattn_sum. Special  rows of no id are zeros, or as they were. An id that is no row of the table is an error where
 * ids are a host array, and adds nothing where they are in a buffer. Errors   those of clattn_embed; CLATTN_E_LIMIT
 * (2^31 ids). */
CLATTN_API clattn_status clattn_embed_backward(clattn_context *context, const clattn_embed_backward_args *args);

/* Of clattn_sum. */
typedef struct clattn_sum_args {
    clattn_tensor x;       /* rank 1 to 7 */
    clattn_tensor y;       /* out: broadcasts from the right to x's shape */
    bool accumulate;       /* y += */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_sum_args;

/* y = x summed over the axes along which y broadcasts: the gradient by clattn_add's b.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (overlap), CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64),
 *          CLATTN_E_LIMIT, and the device's. */
CLATTN_API clattn_status clattn_sum(clattn_context *context, const clattn_sum_args *args);

/* ---- loss ---- */

/* How rows become one loss. */
typedef enum clattn_loss_reduction { CLATTN_LOSS_MEAN = 0, CLATTN_LOSS_SUM } clattn_loss_reduction;

/* Of clattn_cross_entropy. One of loss, row_losses and d_logits is asked for at least; none is CLATTN_E_ARGUMENT. */
typedef struct clattn_cross_entropy_args {
    clattn_tensor logits;            /* [..., C] */
    clattn_tensor targets;           /* [...] of i32 or i64: the class of each row */
    clattn_tensor loss;              /* out, optional [1] */
    clattn_tensor row_losses;        /* out, optional [...]: each row's, before the reduction */
    clattn_tensor d_logits;          /* out, optional, as logits; may be logits */
    clattn_loss_reduction reduction; /* of the rows to `loss`, and so to d_logits */
    bool has_ignore;                 /* `ignore` is given */
    int64_t ignore;                  /* rows of this target count for nothing: PyTorch's ignore_index, -100 there */
    double smoothing;                /* of labels, in [0, 1]: this share of each is spread over all classes */
    bool has_scale;                  /* `scale` is given */
    double scale; /* times loss and d_logits, not row_losses; else 1. For mixed precision, or parts of a batch */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_cross_entropy_args;

/* row_losses = log of the sum of exp(logits) - (1 - smoothing) logits[target] - smoothing * mean of logits; loss is
 * their mean over the rows that are not ignored, or their sum.
 *   d_logits = (softmax - (1 - smoothing) onehot - smoothing / C) scale / rows
 * Special  rows that are ignored have 0 for loss and gradient; where all are, the mean is 0 (PyTorch: NaN). A target
 *          that is no class is an error where targets are a host array, and makes its row, and loss, NaN in a buffer.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (targets, smoothing, scale, overlap), CLATTN_E_UNSUPPORTED
 *          (f64 without cl_khr_fp64), CLATTN_E_LIMIT, and the device's.
 * Source   Szegedy et al. 2016 (smoothing). */
CLATTN_API clattn_status clattn_cross_entropy(clattn_context *context, const clattn_cross_entropy_args *args);

/* ---- optimizers ---- */

/* Of clattn_gradient_norm. */
typedef struct clattn_gradient_norm_args {
    const clattn_tensor *gradients; /* host array [count] */
    size_t count;                   /* how many gradients, 0 too */
    double max_norm;                /* above 0; 0: `factor` is 1 */
    clattn_tensor norm;             /* out, optional [1] */
    clattn_tensor factor; /* out, optional [1]: min(1, max_norm / (norm + 1e-6)), for the optimizers' gradient_factor */
    uint64_t reserved[24]; /* zero: see clattn/version.h */
} clattn_gradient_norm_args;

/* The norm of all gradients together, as torch.nn.utils.clip_grad_norm_, which changes no gradient here.
 * Special  NaN and infinity in a gradient make the norm such. Squares have the range of the sums' type.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64), and the
 *          device's.
 * Source   Pascanu et al. 2013. */
CLATTN_API clattn_status clattn_gradient_norm(clattn_context *context, const clattn_gradient_norm_args *args);

/* Of clattn_adam_step. All zero but the tensors and step: PyTorch's defaults, without decay. */
typedef struct clattn_adam_args {
    clattn_tensor parameter;        /* changed in place */
    clattn_tensor gradient;         /* as parameter */
    clattn_tensor moment1, moment2; /* as parameter; kept from step to step, best in f32 */
    clattn_tensor gradient_factor;  /* optional [1]: the gradient is multiplied by it */
    int64_t step;                   /* 1, 2, ...; at 1 the moments are taken as zeros and not read */
    double rate;                    /* 0: 1e-3 */
    bool has_betas;                 /* `beta1` and `beta2` are given */
    double beta1, beta2;            /* in [0, 1); else 0.9, 0.999 */
    double epsilon;                 /* 0: 1e-8 */
    double decay;                   /* of weights: rate * decay of the parameter in each step, as AdamW */
    bool decay_gradient;            /* or decay times the parameter is added to the gradient, as PyTorch's Adam */
    uint64_t reserved[24];          /* zero: see clattn/version.h */
} clattn_adam_args;

/* One step, as torch.optim.AdamW, or Adam, without amsgrad:
 *   m1 = beta1 m1 + (1 - beta1) g,  m2 = beta2 m2 + (1 - beta2) g^2
 *   parameter -= rate decay parameter + rate m1 / (1 - beta1^step) / (sqrt(m2 / (1 - beta2^step)) + epsilon)
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (numbers out of range, overlap), CLATTN_E_UNSUPPORTED (f64
 *          without cl_khr_fp64), and the device's.
 * Source   Kingma & Ba 2015; Loshchilov & Hutter 2019. */
CLATTN_API clattn_status clattn_adam_step(clattn_context *context, const clattn_adam_args *args);

/* Of clattn_sgd_step. All zero but parameter, gradient and step: plain descent. */
typedef struct clattn_sgd_args {
    clattn_tensor parameter;       /* changed in place */
    clattn_tensor gradient;        /* as parameter */
    clattn_tensor velocity;        /* as parameter, with momentum; kept from step to step, best in f32 */
    clattn_tensor gradient_factor; /* optional [1]: the gradient is multiplied by it */
    int64_t step;                  /* 1, 2, ...; at 1 velocity becomes the gradient and is not read */
    double rate;                   /* 0: 1e-3 */
    double momentum, dampening;    /* momentum in [0, 1) */
    bool nesterov;                 /* Nesterov's momentum; without dampening */
    double decay;                  /* times the parameter is added to the gradient */
    uint64_t reserved[24];         /* zero: see clattn/version.h */
} clattn_sgd_args;

/* One step, as torch.optim.SGD: g = gradient + decay parameter, velocity = momentum velocity + (1 - dampening) g,
 * parameter -= rate * (velocity, or g + momentum velocity with nesterov, or g without momentum).
 * Errors   those of clattn_adam_step.
 * Source   Sutskever et al. 2013. */
CLATTN_API clattn_status clattn_sgd_step(clattn_context *context, const clattn_sgd_args *args);

/* ---- modules ---- */

/* The backward pass of a module computes its forward pass again from the same inputs, in scratch, so that nothing but
 * inputs is kept between the two. Sums are f64 also where a gradient by an input is. Gradients of weights are structs
 * as those of the weights, of the same shapes and in the same convention, so that clattn_parameters may hold them under
 * the same names; NULL: not wanted. No two of them share memory, but with `accumulate`, where those of shared weights
 * may be the same view. */
typedef struct clattn_feedforward_backward_args {
    clattn_tensor x, d_y;                        /* [..., E] */
    clattn_tensor d_x;                           /* out, optional */
    const clattn_feedforward_weights *gradients; /* out, optional: as the weights; absent ones are not wanted */
    bool accumulate;                             /* gradients of weights are added to */
    uint64_t reserved[24];                       /* zero: see clattn/version.h */
} clattn_feedforward_backward_args;

/* Errors   those of clattn_feedforward_run; CLATTN_E_ARGUMENT too for gradients that are not those of the weights. */
CLATTN_API clattn_status clattn_feedforward_backward(clattn_feedforward *feedforward,
                                                     const clattn_feedforward_backward_args *args);

/* Of clattn_multihead_backward. */
typedef struct clattn_multihead_backward_args {
    clattn_multihead_args forward;             /* its query, key, value and masks, as in the forward call */
    clattn_tensor d_y;                         /* as query */
    clattn_tensor d_query;                     /* out, optional, as query: by key and value too where they are absent */
    clattn_tensor d_key;                       /* out, optional, as key, with one: by value too where that is absent */
    clattn_tensor d_value;                     /* out, optional, as value, with one */
    const clattn_multihead_weights *gradients; /* out, optional: as the weights; absent ones are not wanted */
    bool accumulate;                           /* gradients of weights are added to */
    uint64_t reserved[24];                     /* zero: see clattn/version.h */
} clattn_multihead_backward_args;

/* Errors   those of clattn_multihead_run and clattn_attention_backward; CLATTN_E_ARGUMENT too for gradients that are
 * not those of the weights. */
CLATTN_API clattn_status clattn_multihead_backward(clattn_multihead *multihead,
                                                   const clattn_multihead_backward_args *args);

/* Of clattn_encoder_backward. */
typedef struct clattn_encoder_backward_args {
    clattn_encoder_args
        forward;       /* its x, masks, and hidden: of each layer but the last, and of that with a norm behind */
    clattn_tensor d_y; /* as x */
    clattn_tensor d_x; /* out, optional, as x */
    const clattn_encoder_weights *gradients; /* out, optional: as the weights; absent ones are not wanted */
    bool accumulate;                         /* gradients of weights are added to */
    uint64_t reserved[24];                   /* zero: see clattn/version.h */
} clattn_encoder_backward_args;

/* Errors   those of clattn_encoder_run and clattn_attention_backward; CLATTN_E_ARGUMENT too for gradients that are not
 *          those of the weights, and hidden that is missing. */
CLATTN_API clattn_status clattn_encoder_backward(clattn_encoder *encoder, const clattn_encoder_backward_args *args);

/* Of clattn_decoder_backward. */
typedef struct clattn_decoder_backward_args {
    clattn_decoder_args forward;             /* its x, memory, masks, and hidden, as for the encoder; no cache */
    clattn_tensor d_y;                       /* as x */
    clattn_tensor d_x;                       /* out, optional, as x */
    clattn_tensor d_memory;                  /* out, optional, as memory */
    const clattn_decoder_weights *gradients; /* out, optional: as the weights; absent ones are not wanted */
    bool accumulate;                         /* gradients of weights are added to */
    uint64_t reserved[24];                   /* zero: see clattn/version.h */
} clattn_decoder_backward_args;

/* Errors   as for the encoder; CLATTN_E_UNSUPPORTED with a cache. */
CLATTN_API clattn_status clattn_decoder_backward(clattn_decoder *decoder, const clattn_decoder_backward_args *args);

#ifdef __cplusplus
}
#endif
#endif
