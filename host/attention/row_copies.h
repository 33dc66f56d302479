/* SPDX-License-Identifier: Apache-2.0 */
/* What CLBlast asks of `materialised`: of a device, and of tensors: how far they reach, and copies of those whose rows
 * lie in one another, which BLAS does not take. */
#ifndef CLA_ROW_COPIES_H
#define CLA_ROW_COPIES_H

#include "attention/plan.h"

typedef struct cla_row_copy {
    bool active;
    size_t at; /* bytes in scratch */
} cla_row_copy;

/* Whether the device runs CLBlast's kernels; not: with the reason. */
bool cla_needs_products(const clattn_device_info *device, char *reason, size_t reason_bytes);
/* Whether t, or pack.c's copy of it, reaches further than CLBlast counts; then with the reason. */
bool cla_rows_reach_too_far(const cla_problem *p, const clattn_tensor *t, const char *name, char *reason,
                            size_t reason_bytes);
/* Asks for scratch where t needs a copy, and for the kernel where there is none yet. */
clattn_status cla_row_copy_create(clattn_plan *plan, cla_row_copy *copy, const clattn_tensor *t, const char *name,
                                  cla_kernel **kernel);
/* t itself, or its copy. */
clattn_tensor cla_row_copy_tensor(const clattn_plan *plan, const cla_row_copy *copy, const clattn_tensor *t);
/* Enqueues the copy, if there is one. */
clattn_status cla_row_copy_run(const clattn_plan *plan, const cla_row_copy *copy, cla_kernel *kernel,
                               const clattn_tensor *t);

/* A piece of scratch, in elements of the type of sums. */
static inline int64_t cla_scratch_element(const clattn_plan *plan, size_t bytes) {
    return (int64_t)(bytes / clattn_dtype_size(plan->problem.dtype));
}

#endif
