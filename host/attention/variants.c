/* SPDX-License-Identifier: Apache-2.0 */
/* Which of an algorithm's ways a plan takes: the one asked for, the one that the tuner recorded for calls of its class,
 * or the default. */
#include "attention/plan.h"
#include "tensor/dtype.h"
#include <clattn/tune.h>
#include <stdio.h>
#include <string.h>

const char *clattn_plan_variant(const clattn_plan *plan, size_t index) {
    return plan && index < plan->variant_count ? plan->variants[index].text : NULL;
}

const char *clattn_plan_variant_key(const clattn_plan *plan) {
    return plan && plan->variant_count ? plan->variant_key : "";
}

const char *clattn_plan_algorithm_key(const clattn_plan *plan) { return plan ? plan->algorithm_key : ""; }

/* ---- classes of calls ---- */

static long long power_of_two(int64_t size) {
    int64_t power = 1;
    while (power < size)
        power *= 2;
    return power;
}

/* Dims in steps that kernels' blocks have. */
static long long dims(int64_t dim) { return dim <= 128 ? cla_round_up(dim, 16) : cla_round_up(dim, 64); }

/* What times of different calls are alike by. Sizes are powers of two up. */
void cla_class_key(const cla_problem *p, const char *what, char key[CLA_CLASS_KEY]) {
    const bool same = p->q.dtype == p->k.dtype && p->q.dtype == p->v.dtype && p->q.dtype == p->o.dtype;
    char types[64];
    if (same)
        snprintf(types, sizeof types, "%s", clattn_dtype_name(p->q.dtype));
    else
        snprintf(types, sizeof types, "%s/%s/%s/%s", clattn_dtype_name(p->q.dtype), clattn_dtype_name(p->k.dtype),
                 clattn_dtype_name(p->v.dtype), clattn_dtype_name(p->o.dtype));
    snprintf(key, CLA_CLASS_KEY, "%s %s d%lld v%lld q%lld k%lld heads%lld group%lld%s%s%s%s%s%s%s", what, types,
             dims(p->D), dims(p->Dv), power_of_two(p->N), power_of_two(p->M), power_of_two(p->B * p->H),
             (long long)p->group, p->causal ? " causal" : "", p->windowed ? " window" : "",
             p->interval && !p->causal && !p->windowed ? " lengths" : "", p->score ? " score" : "",
             p->ragged ? " varlen" : "", p->page_size ? " pages" : "", p->backward ? " backward" : "");
}

/* Whether plans of this problem may follow the record: bits that may depend on nothing else may not on sizes either. */
static bool may_follow(const cla_problem *p, const char *variant) {
    return !p->batch_invariant && !(variant && *variant);
}

bool cla_algorithm_tuned(clattn_plan *plan, const char *name, const char *variant, cla_tuned *tuned) {
    cla_class_key(&plan->problem, "algorithm", plan->algorithm_key);
    return may_follow(&plan->problem, variant) && !(name && *name) &&
           cla_tuning_find(plan->context, plan->algorithm_key, tuned);
}

/* ---- variants ---- */

static bool is_default(const char *variant) { return !variant || !*variant || strcmp(variant, "default") == 0; }

clattn_status cla_variant_check(const char *algorithm, const char *variant) {
    if (is_default(variant) || (algorithm && *algorithm))
        return CLATTN_OK;
    return cla_error(CLATTN_E_ARGUMENT, "variant \"%.60s\": is one of an algorithm's, so name the algorithm too",
                     variant);
}

static clattn_status list_variants(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    if (plan->algorithm->variants) {
        CLA_TRY(cla_alloc(CLA_VARIANTS, sizeof *plan->variants, "variants", &plan->variants));
        plan->variant_count =
            plan->algorithm->variants(&plan->problem, cla_context_device(plan->context), plan->variants);
    }
done:
    return status;
}

/* The index of a text, or variant_count. */
static size_t find(const clattn_plan *plan, const char *text) {
    size_t i = 0;
    while (i < plan->variant_count && strcmp(plan->variants[i].text, text) != 0)
        i++;
    return i;
}

static clattn_status none_such(const clattn_plan *plan, const char *asked) {
    cla_str names = {0};
    for (size_t i = 0; i < plan->variant_count; i++)
        cla_str_append(&names, "%s\"%s\"", i ? ", " : "; for this call it has ", plan->variants[i].text);
    const clattn_status status =
        cla_error(CLATTN_E_ARGUMENT, "variant \"%.60s\": %s has none such%s", asked, plan->algorithm->name,
                  plan->variant_count ? cla_str_text(&names) : ", and one way only");
    cla_str_free(&names);
    return status;
}

/* The record's, if there is one that this call has. */
static void follow_record(clattn_plan *plan) {
    cla_tuned tuned;
    cla_str *text = &plan->text;
    if (!cla_tuning_find(plan->context, plan->variant_key, &tuned))
        return;
    const size_t found = find(plan, tuned.value);
    if (found == plan->variant_count) {
        cla_str_append(text, "the tuner's record for %s, \"%.80s\", is impossible here\n", plan->variant_key,
                       tuned.value);
        return;
    }
    plan->variant = found;
    plan->tuned = true;
    cla_str_append(text, "variant %s: tuned, %.4g ms against %.4g ms by default; %zu in all\n", tuned.value, tuned.ms,
                   tuned.default_ms, plan->variant_count);
}

clattn_status cla_variants_choose(clattn_plan *plan, const char *asked) {
    clattn_status status = CLATTN_OK;
    const bool follows = may_follow(&plan->problem, asked);
    bool said = false;
    CLA_TRY(list_variants(plan));
    if (!is_default(asked)) {
        plan->variant = find(plan, asked);
        if (plan->variant == plan->variant_count)
            return none_such(plan, asked);
    } else if (follows && plan->variant_count > 0) {
        follow_record(plan);
        said = plan->variant > 0;
    }
    if (plan->variant_count > 0 && !said)
        cla_str_append(&plan->text, "variant %s: %s; %zu in all\n", plan->variants[plan->variant].text,
                       is_default(asked) ? "the default" : "asked for", plan->variant_count);
    if (follows && cla_tuning_skipped_count(plan->context) > 0)
        cla_str_append(&plan->text, "of the tuner's record %s %zu line(s) were passed over: see `clattn tune --show`\n",
                       clattn_tuning_file(plan->context), cla_tuning_skipped_count(plan->context));
done:
    return status;
}
