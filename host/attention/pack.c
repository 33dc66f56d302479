/* SPDX-License-Identifier: Apache-2.0 */
/* Copies for algorithms that need a last stride of 1, the type of the sums, or keys in one piece without blocks: q, k,
 * v and bias before, o after; of the backward pass o and its gradient before, the gradients after. Most layouts, such
 * as [b, n, h, d] and packed QKV, need none. Masks with fewer columns than keys are widened for all algorithms. */
#include "args.h"
#include "attention/plan.h"
#include "base/mem.h"
#include "ops/copy.h"
#include "tensor/dtype.h"
#include <stdio.h>

enum { Q, K, V, BIAS, KEEP, DROP, O, D_O, D_Q, D_K, D_V, PACKED };
static const char *const names[PACKED] = {"q", "k", "v", "bias", "keep", "drop", "o", "d_o", "d_q", "d_k", "d_v"};

struct cla_pack {
    cla_kernel *copy, *gather, *widen;
    bool active[PACKED];
    bool gathers; /* k and v out of their pages, both or none */
    size_t at_bytes[PACKED];
    clattn_tensor original[PACKED]; /* while the copies are bound */
    int64_t page_size;
};

static clattn_tensor *tensor_at(cla_problem *p, int i) {
    clattn_tensor *const list[PACKED] = {&p->q, &p->k,   &p->v,   &p->bias, &p->keep, &p->drop,
                                         &p->o, &p->d_o, &p->d_q, &p->d_k,  &p->d_v};
    return list[i];
}

static bool is_output(const clattn_plan *plan, int i) { return plan->problem.backward ? i >= D_Q : i == O; }

/* Whether a mask has fewer columns than there are keys. */
static bool is_short(const cla_problem *p, const clattn_tensor *t, int i) {
    return (i == BIAS || i == KEEP || i == DROP) && cla_present(t) && t->shape[3] < p->M;
}

/* Why it needs a copy, apart from pages; NULL when it needs none. */
static const char *reason_for(clattn_plan *plan, int i) {
    const cla_algorithm *algorithm = plan->algorithm;
    const clattn_tensor *t = tensor_at(&plan->problem, i);
    if (!cla_present(t))
        return NULL;
    if (is_short(&plan->problem, t, i))
        return "it is shorter than the keys";
    if (i == KEEP || i == DROP)
        return NULL;
    if (cla_is_quantised(t->dtype) && !algorithm->blocks)
        return "it is quantised";
    if (algorithm->sums_type && t->dtype != plan->problem.dtype)
        return "its type is not that of the sums";
    const bool apart = t->stride[3] != 1 && t->shape[3] > 1;
    return i != BIAS && algorithm->unit_inner && apart ? "its last stride is not 1" : NULL;
}

/* Whether k and v must leave their pages. */
static bool must_gather(clattn_plan *plan) {
    return plan->problem.page_size > 0 &&
           (!plan->algorithm->pages || reason_for(plan, K) != NULL || reason_for(plan, V) != NULL);
}

/* Broadcast axes stay so, but for the last one of all but bias; the others are dense. */
static clattn_tensor dense(const clattn_plan *plan, const clattn_tensor *t, int i, int64_t *elements) {
    const bool gathers = plan->pack->gathers && (i == K || i == V);
    clattn_tensor r = *t;
    *elements = 1;
    const bool bytes = i == KEEP || i == DROP, widened = is_short(&plan->problem, t, i);
    if (!bytes && (plan->algorithm->sums_type || cla_is_quantised(t->dtype)))
        r.dtype = plan->problem.dtype;
    if (gathers) {
        r.shape[0] = plan->problem.B;
        r.shape[2] = plan->problem.M;
    }
    if (widened)
        r.shape[3] = plan->problem.M;
    for (int axis = 3; axis >= 0; axis--) {
        const bool own = (gathers && (axis == 0 || axis == 2)) || (widened && axis == 3);
        const bool broadcast = t->stride[axis] == 0 && !own && (axis < 3 || i == BIAS);
        r.stride[axis] = broadcast ? 0 : *elements;
        if (!broadcast && !cla_mul(*elements, r.shape[axis], elements))
            *elements = INT64_MAX; /* no scratch is that large */
    }
    return r;
}

static clattn_status ask_for(clattn_plan *plan, int i, const char *why) {
    clattn_status status = CLATTN_OK;
    cla_pack *pack = plan->pack;
    int64_t elements, bytes;
    const clattn_tensor d = dense(plan, tensor_at(&plan->problem, i), i, &elements);
    const bool fits = cla_mul(elements, (int64_t)clattn_dtype_size(d.dtype), &bytes);
    char what[64];
    snprintf(what, sizeof what, "a copy of %s: %s", names[i], why);
    CLA_TRY(cla_plan_scratch(plan, fits ? bytes : INT64_MAX, what, &pack->at_bytes[i]));
    pack->active[i] = true;
done:
    return status;
}

clattn_status cla_pack_create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const bool wide = plan->problem.dtype == CLATTN_F64, gathers = must_gather(plan);
    for (int i = 0; i < PACKED; i++) {
        const char *why = gathers && (i == K || i == V) ? "it lies in pages" : reason_for(plan, i);
        if (!why)
            continue;
        if (!plan->pack) {
            CLA_TRY(cla_alloc(1, sizeof *plan->pack, "pack", &plan->pack));
            plan->pack->gathers = gathers;
            CLA_TRY(cla_copy_kernel(plan->context, wide, "copy_strided", &plan->pack->copy));
            if (gathers)
                CLA_TRY(cla_copy_kernel(plan->context, wide, "copy_pages", &plan->pack->gather));
        }
        if (is_short(&plan->problem, tensor_at(&plan->problem, i), i) && !plan->pack->widen)
            CLA_TRY(cla_copy_kernel(plan->context, wide, "copy_short", &plan->pack->widen));
        CLA_TRY(ask_for(plan, i, why));
    }
done:
    return status;
}

void cla_pack_bind(clattn_plan *plan) {
    cla_pack *pack = plan->pack;
    for (int i = 0; pack && i < PACKED; i++)
        if (pack->active[i]) {
            clattn_tensor *t = tensor_at(&plan->problem, i);
            pack->original[i] = *t;
            int64_t elements;
            *t = dense(plan, t, i, &elements);
            t->host = NULL;
            t->buffer = plan->scratch;
            t->offset = (int64_t)(pack->at_bytes[i] / clattn_dtype_size(t->dtype));
        }
    if (pack && pack->gathers) {
        pack->page_size = plan->problem.page_size;
        plan->problem.page_size = 0;
    }
}

void cla_pack_unbind(clattn_plan *plan) {
    cla_pack *pack = plan->pack;
    for (int i = 0; pack && i < PACKED; i++)
        if (pack->active[i])
            *tensor_at(&plan->problem, i) = pack->original[i];
    if (pack && pack->gathers)
        plan->problem.page_size = pack->page_size;
}

/* The keys in use, out of their pages: [pages, Hk, page_size, D] to [B, Hk, M, D]. */
static clattn_status gather(clattn_plan *plan, const clattn_tensor *from, const clattn_tensor *to) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t size = plan->pack->page_size;
    if (!cla_context_is_cpu(plan->context)) {
        const cla_paging paging = {size, p->table_pages, plan->table, plan->spans};
        return cla_copy_pages(plan->context, plan->pack->gather, from, to, &paging);
    }
    for (int64_t b = 0; b < p->B; b++)
        for (int64_t j = 0; j < p->batches[b].keys; j += size) {
            const int64_t keys = cla_min(size, p->batches[b].keys - j), page = p->table[b * p->table_pages + j / size];
            const clattn_tensor x = clattn_tensor_slice(clattn_tensor_slice(*from, 0, page, 1), 2, 0, keys);
            const clattn_tensor y = clattn_tensor_slice(clattn_tensor_slice(*to, 0, b, 1), 2, j, keys);
            CLA_TRY(cla_copy_strided(plan->context, NULL, &x, &y));
        }
done:
    return status;
}

/* A broadcast axis is copied once. */
static clattn_status copy_in(clattn_plan *plan, int i) {
    const cla_pack *pack = plan->pack;
    clattn_tensor from = pack->original[i], to = *tensor_at(&plan->problem, i);
    if (clattn_tensor_elements(&to) == 0) /* its strides say nothing */
        return CLATTN_OK;
    for (int axis = 0; axis < 4; axis++)
        if (to.stride[axis] == 0)
            from.shape[axis] = to.shape[axis] = 1;
    if (pack->gathers && (i == K || i == V))
        return gather(plan, &from, &to);
    return from.shape[3] < to.shape[3] ? cla_copy_short(plan->context, pack->widen, &from, &to, i == DROP)
                                       : cla_copy_strided(plan->context, pack->copy, &from, &to);
}

clattn_status cla_pack_inputs(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; plan->pack && i < PACKED; i++)
        if (plan->pack->active[i] && !is_output(plan, i))
            CLA_TRY(copy_in(plan, i));
done:
    return status;
}

static clattn_status copy_out(clattn_plan *plan, int i) {
    const cla_problem *p = &plan->problem;
    clattn_tensor from = *tensor_at(&plan->problem, i), to = plan->pack->original[i];
    if (p->ragged) { /* rows after the last sequence stay as they are */
        const int64_t rows = i == D_K || i == D_V ? p->key_rows : p->query_rows;
        from = clattn_tensor_slice(from, 2, 0, rows);
        to = clattn_tensor_slice(to, 2, 0, rows);
    }
    return cla_copy_strided(plan->context, plan->pack->copy, &from, &to);
}

clattn_status cla_pack_outputs(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; plan->pack && i < PACKED; i++)
        if (plan->pack->active[i] && is_output(plan, i))
            CLA_TRY(copy_out(plan, i));
done:
    return status;
}

void cla_pack_destroy(clattn_plan *plan) {
    if (!plan->pack)
        return;
    cla_kernel_destroy(plan->pack->copy);
    cla_kernel_destroy(plan->pack->gather);
    cla_kernel_destroy(plan->pack->widen);
    cla_free(plan->pack);
    plan->pack = NULL;
}
