/* SPDX-License-Identifier: Apache-2.0 */
/* The one call: host arrays become buffers, in place where the device shares the host's memory, then a plan that is
 * kept from an earlier call or made, its execution, and one wait. */
#include "attention/plan.h"
#include "attention/plan_cache.h"
#include "ops/staging.h"

static clattn_status run(clattn_context *context, cla_problem *p, const cla_asked *asked) {
    clattn_status status = CLATTN_OK;
    clattn_plan *plan = NULL;
    CLA_TRY(cla_plan_take(context, p, asked, &plan));
    CLA_TRY(clattn_plan_execute(plan, NULL));
    cla_plan_give_back(plan, asked);
    plan = NULL;
done:
    clattn_plan_destroy(plan);
    return status;
}

static clattn_status run_staged(clattn_context *context, cla_problem *p, const cla_asked *asked) {
    cla_staging staging;
    cla_staged tensors[CLA_TENSORS];
    for (int i = 0; i < CLA_TENSORS; i++) /* behind the last sequence there may be rows that nobody writes */
        tensors[i] = (cla_staged){cla_tensor_of(p, i), !cla_tensor_written(p, i) ? CLA_IN
                                                       : p->ragged               ? CLA_INOUT
                                                                                 : CLA_OUT};
    clattn_status status = cla_staging_begin(context, tensors, CLA_TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, p, asked);
    return cla_staging_end(&staging, status);
}

/* Takes what the problem owns. */
static clattn_status call(clattn_context *context, cla_problem *p, const cla_asked *asked, bool caller_workspace) {
    clattn_status status = CLATTN_OK;
    const cla_algorithm *algorithm = NULL;
    cla_str text = {0};
    CLA_CHECK(!caller_workspace, CLATTN_E_ARGUMENT, "caller_workspace: is for plans; use max_workspace here");
    CLA_TRY(cla_variant_check(asked->algorithm, asked->variant));
    if (cla_problem_no_rows(p) && !p->backward) /* nothing to write: the device is left alone */
        status = cla_algorithm_choose(p, cla_context_device(context), asked->algorithm, NULL, 0, &text, &algorithm);
    else
        status = cla_context_is_cpu(context) ? run(context, p, asked) : run_staged(context, p, asked);
done:
    cla_str_free(&text);
    cla_problem_free(p);
    return status;
}

clattn_status clattn_attention(clattn_context *context, const clattn_attention_args *args) {
    cla_problem p = {0};
    if (!context || !args)
        return cla_error(CLATTN_E_ARGUMENT, "attention: %s is NULL", context ? "args" : "context");
    const cla_asked asked = {args->algorithm, args->variant};
    const clattn_status status = cla_problem_init(&p, args); /* before any array is touched */
    return status == CLATTN_OK ? call(context, &p, &asked, args->caller_workspace) : status;
}

clattn_status clattn_attention_backward(clattn_context *context, const clattn_attention_backward_args *args) {
    cla_problem p = {0};
    if (!context || !args)
        return cla_error(CLATTN_E_ARGUMENT, "attention_backward: %s is NULL", context ? "args" : "context");
    const cla_asked asked = {args->algorithm, args->variant};
    const clattn_status status = cla_problem_init_backward(&p, args);
    return status == CLATTN_OK ? call(context, &p, &asked, args->forward.caller_workspace) : status;
}

/* Of a problem that it frees; the algorithm is one of the table of its pass. */
static clattn_status judge(clattn_context *context, cla_problem *p, size_t index, bool *applies, const char **reason) {
    char text[CLA_REASON] = "";
    clattn_status status = CLATTN_OK;
    const cla_algorithm *algorithm = cla_algorithm_at(p->backward, index);
    CLA_CHECK(algorithm, CLATTN_E_ARGUMENT, "algorithm_applies: there is no algorithm %zu", index);
    *applies = algorithm->applies(p, cla_context_device(context), text, sizeof text);
    if (!*applies && reason) { /* the thread has one text */
        cla_error(CLATTN_E_UNSUPPORTED, "%s", text);
        *reason = clattn_last_error();
    }
done:
    cla_problem_free(p);
    return status;
}

clattn_status clattn_algorithm_applies(clattn_context *context, const clattn_attention_args *args, size_t index,
                                       bool *applies, const char **reason) {
    cla_problem p = {0};
    if (reason)
        *reason = "";
    if (!context || !args || !applies)
        return cla_error(CLATTN_E_ARGUMENT, "algorithm_applies: an argument is NULL");
    *applies = false;
    const clattn_status status = cla_problem_init(&p, args);
    return status == CLATTN_OK ? judge(context, &p, index, applies, reason) : status;
}

clattn_status clattn_backward_algorithm_applies(clattn_context *context, const clattn_attention_backward_args *args,
                                                size_t index, bool *applies, const char **reason) {
    cla_problem p = {0};
    if (reason)
        *reason = "";
    if (!context || !args || !applies)
        return cla_error(CLATTN_E_ARGUMENT, "algorithm_applies: an argument is NULL");
    *applies = false;
    const clattn_status status = cla_problem_init_backward(&p, args);
    return status == CLATTN_OK ? judge(context, &p, index, applies, reason) : status;
}
