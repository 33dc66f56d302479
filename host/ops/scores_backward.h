/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of scores between the matrix products of a backward pass (scores_backward.cl). OpenCL only. */
#ifndef CLA_SCORES_BACKWARD_H
#define CLA_SCORES_BACKWARD_H

#include "args.h"
#include "runtime/program.h"
#include <clattn/tensor.h>

typedef struct cla_scores {
    cla_kernel *sums, *gradients, *bias, *rest, *special; /* those that are not asked for: NULL */
    int64_t work_group;
} cla_scores;

/* What kernels are built for. */
typedef struct cla_scores_key {
    clattn_dtype dtype;
    int masks;       /* the classes of masks present, as for cla_softmax_create */
    int64_t keys;    /* how long rows are */
    bool bias, rest; /* those kernels are called */
} cla_scores_key;

clattn_status cla_scores_create(clattn_context *context, const cla_scores_key *key, cla_scores *scores);
void cla_scores_destroy(cla_scores *scores); /* takes a zeroed one */

typedef struct cla_scores_buffers {
    clattn_buffer *scratch;
    const clattn_buffer *spans, *keep, *drop, *bias, *slopes, *q_segments, *k_segments, *sinks; /* absent: NULL */
} cla_scores_buffers;

/* Of each row of the chunk: its maximum, 1 / sum, sum of P dP and the weight of the sink. */
clattn_status cla_scores_sums(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *buffers,
                              const cla_scores_args *args);
/* s becomes P, with -0.0 where a key is excluded, and g the gradient of s. */
clattn_status cla_scores_gradients(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *buffers,
                                   const cla_scores_args *args);
/* Adds what the chunk gives to a d_bias that has keys; before cla_scores_gradients. */
clattn_status cla_scores_bias(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *buffers,
                              clattn_buffer *sums, const cla_scores_args *args, const cla_scores_sum_args *to);
/* The same to d_sinks, or to a d_bias that is one number for all keys. */
clattn_status cla_scores_rest(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *buffers,
                              clattn_buffer *sums, const cla_scores_args *args, const cla_scores_sum_args *to);
/* Adds the terms of a product whose rows are not finite, where kept weights meet them. */
clattn_status cla_scores_special(clattn_context *context, const cla_scores *scores, const clattn_buffer *scratch,
                                 const clattn_buffer *rows, clattn_buffer *y, const cla_special_args *args);

#endif
