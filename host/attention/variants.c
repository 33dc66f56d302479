/* SPDX-License-Identifier: Apache-2.0 */
/* Which of an algorithm's ways a plan takes. */
#include "attention/plan.h"
#include <string.h>

const char *clattn_plan_variant(const clattn_plan *plan, size_t index) {
    return plan && index < plan->variant_count ? plan->variants[index].text : NULL;
}

static bool is_default(const char *variant) { return !variant || strcmp(variant, "default") == 0; }

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

clattn_status cla_variants_choose(clattn_plan *plan, const char *asked) {
    clattn_status status = CLATTN_OK;
    const char *why = "the default";
    CLA_TRY(list_variants(plan));
    if (!is_default(asked)) {
        const size_t found = find(plan, asked);
        if (found == plan->variant_count)
            return none_such(plan, asked);
        plan->variant = found;
        why = "asked for";
    }
    if (plan->variant_count > 0)
        cla_str_append(&plan->text, "variant %s: %s; %zu in all\n", plan->variants[plan->variant].text, why,
                       plan->variant_count);
done:
    return status;
}
