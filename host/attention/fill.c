/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs that no algorithm computes: of calls without a query or a key, and of rows that none looks at. */
#include "attention/plan.h"
#include "ops/copy.h"
#include <math.h>

/* Without the rows behind the last sequence, which stay as they are. */
static clattn_tensor of_sequences(const cla_problem *p, const clattn_tensor *t, int axis, int64_t rows) {
    clattn_tensor r = *t;
    if (p->ragged)
        r.shape[axis] = rows;
    return r;
}

static clattn_status clear_column_sums(clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor sums = of_sequences(p, &p->column_sums, 3, p->key_rows);
    return cla_fill_strided(plan->context, plan->fill, p->dtype == CLATTN_F64, &sums, 0.0);
}

/* Nothing to see, or nobody who sees: all gradients are 0. */
static clattn_status fill_gradients(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_tensor list[] = {of_sequences(p, &p->d_q, 2, p->query_rows), of_sequences(p, &p->d_k, 2, p->key_rows),
                                  of_sequences(p, &p->d_v, 2, p->key_rows), p->d_bias, p->d_sinks};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (cla_present(&list[i]) && clattn_tensor_elements(&list[i]) > 0)
            CLA_TRY(cla_fill_strided(plan->context, plan->fill, p->dtype == CLATTN_F64, &list[i], 0.0));
done:
    return status;
}

/* No key to see: O = 0, LSE = -inf or the sink, weights empty or 0. */
clattn_status cla_fill_only(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const bool wide = p->dtype == CLATTN_F64;
    const clattn_tensor o = of_sequences(p, &p->o, 2, p->query_rows), lse = of_sequences(p, &p->lse, 3, p->query_rows);
    const clattn_tensor entropy = of_sequences(p, &p->entropy, 3, p->query_rows);
    const clattn_tensor state = of_sequences(p, &p->state, 2, p->query_rows);
    if (p->backward)
        return fill_gradients(plan);
    if (cla_problem_no_rows(p))
        return CLATTN_OK;
    CLA_TRY(cla_fill_strided(plan->context, plan->fill, wide, &o, 0.0));
    CLA_TRY(cla_fill_strided(plan->context, plan->fill, wide, &state, 0.0));
    /* Keys that pages do not hold are -inf before the softmax. */
    CLA_TRY(cla_fill_strided(plan->context, plan->fill, wide, &p->weights, p->form ? -INFINITY : 0.0));
    CLA_TRY(clear_column_sums(plan));
    CLA_TRY(cla_fill_strided(plan->context, plan->fill, wide, &entropy, 0.0));
    CLA_TRY(cla_fill_strided(plan->context, plan->fill, wide, &lse, -INFINITY));
    if (cla_present(&p->sinks) && cla_present(&p->lse)) { /* [1, 1, 1, H] seen as [1, B, H, N] */
        clattn_tensor sinks = lse;
        sinks.buffer = p->sinks.buffer, sinks.host = p->sinks.host, sinks.offset = p->sinks.offset;
        sinks.stride[1] = sinks.stride[3] = 0;
        sinks.stride[2] = 1;
        CLA_TRY(cla_copy_strided(plan->context, plan->copy, &sinks, &lse));
    }
done:
    return status;
}

clattn_status cla_fill_sums(clattn_plan *plan) {
    return plan->problem.backward ? fill_gradients(plan) : clear_column_sums(plan);
}
