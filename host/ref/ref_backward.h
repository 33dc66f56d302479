/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of operations over rows and elements, and sums over rows: what they come down to, and their plain loops, in
 * double. Tensors share their axes; the first `outer` count rows. All have host storage at `host` + offset. Checked by
 * the caller. */
#ifndef CLA_REF_BACKWARD_H
#define CLA_REF_BACKWARD_H

#include <clattn/train.h>

/* y = the sum over rows of x. */
typedef struct cla_sums {
    clattn_tensor x, y;
    int outer;
    int64_t rows, length;
    bool add;           /* to what y holds */
    clattn_dtype dtype; /* of the sums */
} cla_sums;
void cla_ref_sums(const cla_sums *a);

/* d_x, and d_y times the normalised x; each where it is there. */
typedef struct cla_norm_back {
    clattn_norm_kind kind;
    clattn_tensor x, residual, weight, d_y, d_sum, d_x;
    clattn_tensor terms; /* of x's shape, dense and of the sums' type */
    int outer;
    int64_t rows, length;
    double epsilon;
    clattn_dtype dtype;
} cla_norm_back;
void cla_ref_norm_back(const cla_norm_back *a);

typedef struct cla_points_back {
    clattn_tensor x, up, d_y, d_x, d_up;
    clattn_activation activation;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype;
} cla_points_back;
/* d activation'(x); of ReLU 0 where x is not above 0, whatever d is. */
double cla_ref_slope(clattn_activation activation, double d, double x);
void cla_ref_points_back(const cla_points_back *a);

typedef struct cla_softmax_back {
    clattn_tensor y, d_y, d_x;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype;
} cla_softmax_back;
void cla_ref_softmax_back(const cla_softmax_back *a);

typedef struct cla_embed_back {
    clattn_tensor ids, d_y; /* share their axes, of which the first `outer` count rows */
    clattn_tensor table;    /* [V, E] */
    int outer;
    int64_t rows, length;
    double scale;
    bool has_padding, add;
    int64_t padding;
    clattn_dtype dtype;
} cla_embed_back;
clattn_status cla_ref_embed_back(const cla_embed_back *a);

typedef struct cla_loss {
    clattn_tensor logits, targets, row_losses, d_logits; /* share their axes */
    clattn_tensor loss;                                  /* [1], or absent */
    int outer;
    int64_t rows, length;
    bool mean, has_ignore;
    int64_t ignore;
    double smoothing, scale;
    clattn_dtype dtype;
} cla_loss;
clattn_status cla_ref_cross_entropy(const cla_loss *a);

#endif
