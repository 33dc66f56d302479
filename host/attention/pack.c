/* SPDX-License-Identifier: Apache-2.0 */
/* Copies for kernels that need a last stride of 1: q, k and v before, o after. Most layouts, such as [b, n, h, d] and
 * packed QKV, need none. */
#include "attention/plan.h"
#include "ops/copy.h"
#include <stdio.h>

enum { Q, K, V, O, PACKED };
static const char *const names[PACKED] = {"q", "k", "v", "o"};

struct cla_pack {
    cla_kernel *copy;
    bool active[PACKED];
    size_t at_bytes[PACKED];
    clattn_tensor original[PACKED]; /* while the copies are bound */
};

static clattn_tensor *tensor_at(cla_problem *p, int i) {
    clattn_tensor *const list[PACKED] = {&p->q, &p->k, &p->v, &p->o};
    return list[i];
}

/* Broadcast axes stay so; the others are dense. */
static clattn_tensor dense(const clattn_tensor *t) {
    clattn_tensor r = *t;
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        const bool broadcast = t->stride[i] == 0;
        r.stride[i] = broadcast && i < 3 ? 0 : stride;
        if (!broadcast || i == 3)
            stride *= t->shape[i];
    }
    return r;
}

static int64_t dense_elements(const clattn_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < 4; i++)
        n *= t->stride[i] == 0 ? 1 : t->shape[i];
    return n;
}

clattn_status cla_pack_create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < PACKED; i++) {
        const clattn_tensor *t = tensor_at(&plan->problem, i);
        if (t->stride[3] == 1 || t->shape[3] <= 1)
            continue;
        if (!plan->pack) {
            CLA_TRY(cla_alloc(1, sizeof *plan->pack, "pack", &plan->pack));
            CLA_TRY(cla_copy_kernel(plan->context, plan->problem.dtype, "copy_strided", &plan->pack->copy));
        }
        const clattn_tensor d = dense(t);
        char what[64];
        snprintf(what, sizeof what, "a copy of %s with a last stride of 1", names[i]);
        CLA_TRY(cla_plan_scratch(plan, dense_elements(&d) * (int64_t)clattn_dtype_size(d.dtype), what,
                                 &plan->pack->at_bytes[i]));
        plan->pack->active[i] = true;
    }
done:
    return status;
}

void cla_pack_bind(clattn_plan *plan) {
    for (int i = 0; plan->pack && i < PACKED; i++)
        if (plan->pack->active[i]) {
            clattn_tensor *t = tensor_at(&plan->problem, i);
            plan->pack->original[i] = *t;
            *t = dense(t);
            t->host = NULL;
            t->buffer = plan->scratch;
            t->offset = (int64_t)(plan->pack->at_bytes[i] / clattn_dtype_size(t->dtype));
        }
}

void cla_pack_unbind(clattn_plan *plan) {
    for (int i = 0; plan->pack && i < PACKED; i++)
        if (plan->pack->active[i])
            *tensor_at(&plan->problem, i) = plan->pack->original[i];
}

/* A broadcast axis is copied once. */
static clattn_status copy_in(clattn_plan *plan, int i) {
    clattn_tensor from = plan->pack->original[i], to = *tensor_at(&plan->problem, i);
    for (int axis = 0; axis < 3; axis++)
        if (to.stride[axis] == 0)
            from.shape[axis] = to.shape[axis] = 1;
    return cla_copy_strided(plan->context, plan->pack->copy, &from, &to);
}

clattn_status cla_pack_inputs(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; plan->pack && i < O; i++)
        if (plan->pack->active[i])
            CLA_TRY(copy_in(plan, i));
done:
    return status;
}

clattn_status cla_pack_outputs(clattn_plan *plan) {
    if (!plan->pack || !plan->pack->active[O])
        return CLATTN_OK;
    return cla_copy_strided(plan->context, plan->pack->copy, &plan->problem.o, &plan->pack->original[O]);
}

void cla_pack_destroy(clattn_plan *plan) {
    if (!plan->pack)
        return;
    cla_kernel_destroy(plan->pack->copy);
    cla_free(plan->pack);
    plan->pack = NULL;
}
