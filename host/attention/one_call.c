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
    const cla_staged tensors[] = {
        {&p->o, CLA_OUT},       {&p->lse, CLA_OUT}, {&p->weights, CLA_OUT}, {&p->column_sums, CLA_OUT},
        {&p->entropy, CLA_OUT}, {&p->q, CLA_IN},    {&p->k, CLA_IN},        {&p->v, CLA_IN},
        {&p->keep, CLA_IN},     {&p->drop, CLA_IN}, {&p->bias, CLA_IN},     {&p->sinks, CLA_IN}};
    clattn_status status = cla_staging_begin(context, tensors, sizeof tensors / sizeof *tensors, &staging);
    if (status == CLATTN_OK)
        status = run(context, p, asked);
    return cla_staging_end(&staging, status);
}

clattn_status clattn_attention(clattn_context *context, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    cla_problem p = {0};
    const cla_algorithm *algorithm = NULL;
    cla_str text = {0};
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "attention: %s is NULL", context ? "args" : "context");
    const cla_asked asked = {args->algorithm, args->variant};
    CLA_CHECK(!args->caller_workspace, CLATTN_E_ARGUMENT, "caller_workspace: is for plans; use max_workspace here");
    CLA_TRY(cla_problem_init(&p, args)); /* before any array is touched */
    CLA_TRY(cla_variant_check(args->algorithm, args->variant));
    if (cla_problem_no_rows(&p)) /* nothing to write: the device is left alone */
        status = cla_algorithm_choose(&p, cla_context_device(context), args->algorithm, NULL, &text, &algorithm);
    else
        status = cla_context_is_cpu(context) ? run(context, &p, &asked) : run_staged(context, &p, &asked);
done:
    cla_str_free(&text);
    cla_problem_free(&p);
    return status;
}

clattn_status clattn_algorithm_applies(clattn_context *context, const clattn_attention_args *args, size_t index,
                                       bool *applies, const char **reason) {
    char text[CLA_REASON] = "";
    clattn_status status = CLATTN_OK;
    cla_problem p = {0};
    if (reason)
        *reason = "";
    CLA_CHECK(context && args && applies, CLATTN_E_ARGUMENT, "algorithm_applies: an argument is NULL");
    *applies = false;
    const cla_algorithm *algorithm = cla_algorithm_at(index);
    CLA_CHECK(algorithm, CLATTN_E_ARGUMENT, "algorithm_applies: there is no algorithm %zu", index);
    CLA_TRY(cla_problem_init(&p, args));
    *applies = algorithm->applies(&p, cla_context_device(context), text, sizeof text);
    if (!*applies && reason) { /* the thread has one text */
        cla_error(CLATTN_E_UNSUPPORTED, "%s", text);
        *reason = clattn_last_error();
    }
done:
    cla_problem_free(&p);
    return status;
}
