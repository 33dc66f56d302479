/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/row_copies.h"

#include "ops/copy.h"
#include "ops/gemm_sets.h"
#include <limits.h>
#include <stdio.h>

bool cla_needs_products(const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (cla_gemm_fits(device))
        return true;
    snprintf(reason, reason_bytes, "needs work-groups of 64, for CLBlast, and %.100s has %llu", device->name,
             (unsigned long long)device->max_work_group);
    return false;
}

/* What of a tensor CLBlast will get: pack.c copies those of other types or last strides, without gaps. */
static clattn_tensor as_multiplied(const cla_problem *p, const clattn_tensor *t, bool gathered) {
    clattn_tensor r = *t;
    int64_t elements = 1;
    if (!gathered && t->dtype == p->dtype && (t->stride[3] == 1 || t->shape[3] <= 1))
        return r;
    r.dtype = p->dtype;
    r.offset = 0;
    if (gathered)
        r.shape[0] = p->B, r.shape[2] = p->M;
    for (int axis = 3; axis >= 0; axis--) {
        const bool broadcast = !gathered && axis < 3 && t->stride[axis] == 0;
        r.stride[axis] = broadcast ? 0 : elements;
        if (!broadcast && !cla_mul(elements, r.shape[axis], &elements))
            elements = INT64_MAX;
    }
    return r;
}

bool cla_rows_reach_too_far(const cla_problem *p, const clattn_tensor *t, const char *name, char *reason,
                            size_t reason_bytes) {
    if (!cla_present(t))
        return false;
    const clattn_tensor r = as_multiplied(p, t, p->page_size > 0 && t == &p->k);
    int64_t first, end;
    if (cla_view_range(&r, name, &first, &end) == CLATTN_OK && end <= INT_MAX)
        return false;
    snprintf(reason, reason_bytes, "CLBlast counts elements to %d, and %s reaches further", INT_MAX, name);
    return true;
}

/* Dense, but for axes that are shared. */
static clattn_tensor dense(const clattn_tensor *t) {
    clattn_tensor r = *t;
    r.stride[3] = 1;
    r.stride[2] = t->shape[3];
    r.stride[1] = t->stride[1] == 0 ? 0 : t->shape[2] * t->shape[3];
    r.stride[0] = t->stride[0] == 0 ? 0 : (t->stride[1] == 0 ? 1 : t->shape[1]) * t->shape[2] * t->shape[3];
    return r;
}

static int64_t elements_of(const clattn_tensor *t) {
    return (t->stride[0] == 0 ? 1 : t->shape[0]) * (t->stride[1] == 0 ? 1 : t->shape[1]) * t->shape[2] * t->shape[3];
}

clattn_status cla_row_copy_create(clattn_plan *plan, cla_row_copy *copy, const clattn_tensor *t, const char *name,
                                  cla_kernel **kernel) {
    clattn_status status = CLATTN_OK;
    char what[64];
    if (t->shape[2] <= 1 || t->stride[2] >= t->shape[3])
        return CLATTN_OK;
    const clattn_tensor d = dense(t);
    snprintf(what, sizeof what, "a copy of %s with rows apart", name);
    if (!*kernel)
        CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "copy_strided", kernel));
    CLA_TRY(cla_plan_scratch(plan, elements_of(&d) * (int64_t)clattn_dtype_size(t->dtype), what, &copy->at));
    copy->active = true;
done:
    return status;
}

clattn_tensor cla_row_copy_tensor(const clattn_plan *plan, const cla_row_copy *copy, const clattn_tensor *t) {
    if (!copy->active)
        return *t;
    clattn_tensor r = dense(t);
    r.buffer = plan->scratch;
    r.offset = cla_scratch_element(plan, copy->at);
    return r;
}

clattn_status cla_row_copy_run(const clattn_plan *plan, const cla_row_copy *copy, cla_kernel *kernel,
                               const clattn_tensor *t) {
    if (!copy->active)
        return CLATTN_OK;
    clattn_tensor x = *t, y = cla_row_copy_tensor(plan, copy, t);
    for (int axis = 0; axis < 2; axis++)
        if (y.stride[axis] == 0)
            x.shape[axis] = y.shape[axis] = 1;
    return cla_copy_strided(plan->context, kernel, &x, &y);
}
