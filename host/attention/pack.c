/* SPDX-License-Identifier: Apache-2.0 */
/* Copies for algorithms that need a last stride of 1, or the type of the sums: q, k, v and bias before, o after. Most
 * layouts, such as [b, n, h, d] and packed QKV, need none. */
#include "attention/plan.h"
#include "ops/copy.h"
#include <stdio.h>

enum { Q, K, V, BIAS, O, PACKED };
static const char *const names[PACKED] = {"q", "k", "v", "bias", "o"};

struct cla_pack {
    cla_kernel *copy;
    bool active[PACKED];
    size_t at_bytes[PACKED];
    clattn_tensor original[PACKED]; /* while the copies are bound */
};

static clattn_tensor *tensor_at(cla_problem *p, int i) {
    clattn_tensor *const list[PACKED] = {&p->q, &p->k, &p->v, &p->bias, &p->o};
    return list[i];
}

static bool needs_copy(const clattn_plan *plan, const clattn_tensor *t, int i) {
    if (!cla_present(t))
        return false;
    if (plan->algorithm->sums_type && t->dtype != plan->problem.dtype)
        return true;
    return i != BIAS && plan->algorithm->unit_inner && t->stride[3] != 1 && t->shape[3] > 1;
}

/* Broadcast axes stay so, but for the last one of all but bias; the others are dense. */
static clattn_tensor dense(const clattn_plan *plan, const clattn_tensor *t, int i, int64_t *elements) {
    clattn_tensor r = *t;
    *elements = 1;
    if (plan->algorithm->sums_type)
        r.dtype = plan->problem.dtype;
    for (int axis = 3; axis >= 0; axis--) {
        const bool broadcast = t->stride[axis] == 0 && (axis < 3 || i == BIAS);
        r.stride[axis] = broadcast ? 0 : *elements;
        *elements *= broadcast ? 1 : t->shape[axis];
    }
    return r;
}

clattn_status cla_pack_create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < PACKED; i++) {
        const clattn_tensor *t = tensor_at(&plan->problem, i);
        if (!needs_copy(plan, t, i))
            continue;
        if (!plan->pack) {
            CLA_TRY(cla_alloc(1, sizeof *plan->pack, "pack", &plan->pack));
            CLA_TRY(
                cla_copy_kernel(plan->context, plan->problem.dtype == CLATTN_F64, "copy_strided", &plan->pack->copy));
        }
        int64_t elements;
        const clattn_tensor d = dense(plan, t, i, &elements);
        char what[64];
        snprintf(what, sizeof what, "a copy of %s: %s", names[i],
                 d.dtype == t->dtype ? "its last stride is not 1" : "its type is not that of the sums");
        CLA_TRY(cla_plan_scratch(plan, elements * (int64_t)clattn_dtype_size(d.dtype), what, &plan->pack->at_bytes[i]));
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
            int64_t elements;
            *t = dense(plan, t, i, &elements);
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
    for (int axis = 0; axis < 4; axis++)
        if (to.stride[axis] == 0)
            from.shape[axis] = to.shape[axis] = 1;
    return cla_copy_strided(plan->context, plan->pack->copy, &from, &to);
}

clattn_status cla_pack_inputs(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const int inputs = plan->problem.ragged ? PACKED : O; /* rows of o after the last sequence stay as they are */
    for (int i = 0; plan->pack && i < inputs; i++)
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
