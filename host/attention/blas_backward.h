/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces that the backward pass of `blas` works in: a block of queries of one head against all keys that they see,
 * whose weights and their gradients lie in a thread's scratch. Written once for both types in blas_backward_real.h. */
#ifndef CLA_BLAS_BACKWARD_H
#define CLA_BLAS_BACKWARD_H

#include "attention/problem.h"
#include "base/dropout.h"
#include "tensor/view.h"

/* Sizes, and where a thread's scratch holds what; in elements. */
typedef struct cla_blas_blocks {
    int64_t rows;                /* queries of a block */
    int64_t q, o, k, v, clean_k; /* rows of Q, dO, K and V; K without what is not finite */
    int64_t s, ds, slope, kept;  /* [rows, M]: weights, gradients, slopes of the soft cap; a row of dropout */
    int64_t t, scratch;          /* a product [rows, D]; the size */
    int64_t sums;                /* of one key head: dK [M, D], dV [M, Dv], and of each of its heads the sink's */
    bool by_scores;              /* the gradients of scores are needed, not only dV */
    cla_dropout dropout;         /* of the execution */
} cla_blas_blocks;

/* Blocks first, first + step, ... of the queries of a key head's group. */
typedef struct cla_blas_queries {
    int64_t b, hk, first, step;
} cla_blas_queries;

/* The heads and queries of some elements of d_bias. */
typedef struct cla_blas_pairs {
    int64_t b0, b1, h0, h1, i0, i1;
} cla_blas_pairs;

/* Writes the rows of d_q; sums of the key head go to `sums`, which is cleared first. */
void cla_blas_gradients_f32(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_queries *task,
                            float *scratch, float *sums);
void cla_blas_gradients_f64(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_queries *task,
                            double *scratch, double *sums);
/* d_k and d_v of a key head: the sums of its parts in their order, one after another. */
void cla_blas_keys_f32(const cla_problem *p, const cla_blas_blocks *a, int64_t b, int64_t hk, int64_t parts,
                       float *sums);
void cla_blas_keys_f64(const cla_problem *p, const cla_blas_blocks *a, int64_t b, int64_t hk, int64_t parts,
                       double *sums);
/* d_sinks, from the sums of all key heads, added up. `stride`: from one to the next. */
void cla_blas_sinks_f32(const cla_problem *p, const cla_blas_blocks *a, int64_t stride, const float *sums);
void cla_blas_sinks_f64(const cla_problem *p, const cla_blas_blocks *a, int64_t stride, const double *sums);
/* to: dense, of the shape of d_bias; the task's pairs are added. */
void cla_blas_bias_f32(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_pairs *task, float *scratch,
                       float *to);
void cla_blas_bias_f64(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_pairs *task, double *scratch,
                       double *to);

#endif
