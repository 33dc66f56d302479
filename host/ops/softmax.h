/* SPDX-License-Identifier: Apache-2.0 */
/* Masked row softmax over a scratch buffer of scores, and what goes with it around two matrix products (softmax.cl).
 * OpenCL only. */
#ifndef CLA_SOFTMAX_H
#define CLA_SOFTMAX_H

#include "args.h"
#include "runtime/program.h"
#include <clattn/tensor.h>

enum { CLA_SOFTMAX_KEYS = 256 }; /* keys of a block of values, which has one flag */
enum { CLA_SOFTMAX_INTERVAL = 1, CLA_SOFTMAX_SCORE = 2 };

typedef struct cla_softmax {
    cla_kernel *rows, *values, *outputs, *drop; /* those that are not asked for: NULL */
    int64_t work_group;
} cla_softmax;

/* What kernels are built for. */
typedef struct cla_softmax_key {
    clattn_dtype dtype;
    int masks;     /* the classes of masks present */
    int64_t keys;  /* how long rows are, for the size of work-groups */
    bool drops;    /* weights are dropped */
    bool backward; /* what the backward pass calls: values, drop */
} cla_softmax_key;

/* Of the kernels: rows of so many keys share one. Few sizes, since each is a build. */
int64_t cla_softmax_work_group(const clattn_device_info *device, int64_t keys);
clattn_status cla_softmax_create(clattn_context *context, const cla_softmax_key *key, cla_softmax *softmax);
void cla_softmax_destroy(cla_softmax *softmax); /* takes a zeroed one */

typedef struct cla_softmax_buffers {
    clattn_buffer *scratch;
    const clattn_buffer *v, *spans, *keep, *drop, *bias, *slopes, *q_segments, *k_segments, *sinks; /* absent: NULL */
    clattn_buffer *o, *lse, *state, *weights;
} cla_softmax_buffers;

/* Rows of scores to weights:
 *   w[b,h,i,j] = power * exp(s - m_i), s = cap(scale * x[b,h,i,j]) + added, m_i = max_j s; excluded: -0.0
 * with their sums; the caller's weights divided by them, LSE and state too. A row that sees no key has the sum 0. */
clattn_status cla_softmax_rows(clattn_context *context, const cla_softmax *softmax, const cla_softmax_buffers *buffers,
                               const cla_softmax_args *args, int64_t rows);
/* Weights, or gradients by them, times 0 or 1 / (1 - p). Excluded ones stay so. */
clattn_status cla_softmax_drop(clattn_context *context, const cla_softmax *softmax, const cla_softmax_buffers *buffers,
                               const cla_drop_args *args);
/* Finite values, the others as 0, with a flag for each block of keys. heads: in all batches of the chunk. */
clattn_status cla_softmax_values(clattn_context *context, const cla_softmax *softmax, const clattn_buffer *v,
                                 clattn_buffer *scratch, const cla_values_args *args, int64_t heads);
/* Divides the product by the sums, and puts in the values that are not finite where kept weights meet them. */
clattn_status cla_softmax_outputs(clattn_context *context, const cla_softmax *softmax,
                                  const cla_softmax_buffers *buffers, const cla_outputs_args *args);

#endif
