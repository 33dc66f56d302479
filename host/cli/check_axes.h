/* SPDX-License-Identifier: Apache-2.0 */
/* The axes of sdpa before the last two, as torch.matmul broadcasts them, brought to the four that attention takes. */
#ifndef CLA_CHECK_AXES_H
#define CLA_CHECK_AXES_H

#include "check_case.h"

typedef struct cla_check_axes {
    int rank;                      /* the largest of Q, K and V */
    int64_t size[CLATTN_MAX_RANK]; /* of batches, then query heads: rank - 2 of them */
    int64_t key_heads;
} cla_check_axes;

/* Of Q, K and V in their logical order of axes; gqa: heads of keys and values are groups, else they broadcast. */
bool cla_check_axes_of(cla_check_case *c, bool gqa, const clattn_tensor *q, const clattn_tensor *k,
                       const clattn_tensor *v, cla_check_axes *axes);
/* The shape [size..., rows, columns] of all axes. */
bool cla_check_axes_shape(cla_check_case *c, const cla_check_axes *axes, int64_t rows, int64_t columns, int64_t *shape);
/* Q, K or V with all axes, of rank 4 at most: a view, or a copy that the job owns. */
bool cla_check_widen(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, bool key, clattn_tensor *t);
/* A mask whose batches are more than one axis. */
bool cla_check_widen_mask(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, clattn_tensor *mask);
/* A whole array with all axes as attention takes it. */
clattn_tensor cla_check_fold(const clattn_array *array);
/* The gradient by a tensor of that logical shape, and what attention writes, which cla_check_add_up makes it of. */
bool cla_check_new_gradient(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, bool key,
                            const clattn_tensor *of, clattn_array **gradient, clattn_tensor *written);
/* false: clattn_last_error says why. */
bool cla_check_add_up(const cla_check_sum *sum);

#endif
