/* SPDX-License-Identifier: Apache-2.0 */
/* The tuner on one problem whose variants are right, wrong, failing or slow as a test says: what is wrong or fails is
 * never recorded, and only what is faster is. */
#define _XOPEN_SOURCE 700
#include "tune_run.h"

#include "attention/plan.h"
#include "progress.h"
#include "samples.h"
#include "testing.h"
#include "tune_race.h"
#include <stdlib.h>
#include <time.h>

/* ---- what the linker puts in the place of the library's ---- */

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
clattn_status __real_clattn_plan_execute(clattn_plan *plan, const clattn_attention_args *tensors);
clattn_status __wrap_clattn_plan_execute(clattn_plan *plan, const clattn_attention_args *tensors);

static const char *wrong, *failing; /* variants: "splits=2" */
static const char *fast;            /* the only one that does not take some time more; NULL: none does */
static bool spoil_all;
static int wrong_runs;

static bool is(const clattn_plan *plan, const char *variant) {
    return variant && plan->variant_count && strcmp(plan->variants[plan->variant].text, variant) == 0;
}

clattn_status __wrap_clattn_plan_execute(clattn_plan *plan, const clattn_attention_args *tensors) {
    const struct timespec moment = {.tv_nsec = 6000000};
    const float bad = 0.75F;
    if (is(plan, failing))
        return cla_error(CLATTN_E_OPENCL, "the test lets it fail");
    if (fast && !is(plan, fast))
        nanosleep(&moment, NULL);
    clattn_status status = __real_clattn_plan_execute(plan, tensors);
    if (status == CLATTN_OK && plan->problem.o.buffer && (spoil_all || is(plan, wrong))) {
        wrong_runs++;
        status = clattn_buffer_upload((clattn_buffer *)plan->problem.o.buffer, 3 * sizeof bad, &bad, sizeof bad);
    }
    return status;
}
/* NOLINTEND(bugprone-reserved-identifier) */

/* ---- a problem that fused_split has several ways for ---- */

static clattn_context *context;
static bool *only_split;

static cla_tune_result tune(const bool *algorithms, double seconds);
static char standard[CLA_TUNE_VARIANT]; /* the device's default */
static const char *other;               /* another variant that it has */

static void begin(void) {
    setenv("CLATTN_TUNING_FILE", "off", 1);
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    only_split = calloc(clattn_algorithm_count(), sizeof *only_split);
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        only_split[i] = strcmp(clattn_algorithm_name(i), "fused_split") == 0;
    const cla_tune_result r = tune(only_split, 0);
    cr_assert_eq(r.row_count, 1, "%s", r.note);
    strcpy(standard, r.rows[0].standard);
    other = strcmp(standard, "splits=2") == 0 ? "splits=4" : "splits=2";
}

static void end(void) {
    free(only_split);
    clattn_context_destroy(context);
}

static cla_tune_result tune(const bool *algorithms, double seconds) {
    static cla_tune_result result;
    cla_problem_text problem;
    char error[300];
    const cla_tune t = {.context = context, .end = cla_seconds() + seconds, .algorithms = algorithms};
    cr_assert(cla_problem_text_parse("h2 q1 k2048 d16", &problem, error, sizeof error), "%s", error);
    cla_tune_problem(&t, &problem, &result);
    SUCCEEDS(cla_tune_record(context, &result));
    return result;
}

/* What is recorded under a key; "" if nothing is. */
static const char *recorded(const char *key) {
    clattn_tuned entry;
    for (size_t i = 0; clattn_tuning_entry(context, i, &entry); i++)
        if (strcmp(entry.key, key) == 0)
            return entry.value;
    return "";
}

static const char key[] = "fused_split f32 d16 v16 q1 k2048 heads2 group1";

Test(tune, what_is_faster_is_recorded, .init = begin, .fini = end) {
    fast = other;
    const cla_tune_result r = tune(only_split, 60);
    cr_assert_eq(r.row_count, 1, "%s", r.note);
    const cla_tune_row *row = &r.rows[0];
    cr_assert_gt(row->variants, 2);
    cr_expect_eq(row->tried, row->variants - 1);
    cr_expect_str_eq(row->key, key);
    cr_expect(row->faster && strcmp(row->best, other) == 0, "best: %s", row->best);
    cr_expect_gt(row->default_ms, 2 * row->best_ms);
    cr_expect_str_eq(recorded(key), other);
    cr_expect_not(r.failed || r.cut);
}

Test(tune, G18_a_wrong_variant_is_never_recorded, .init = begin, .fini = end) {
    fast = wrong = other;
    const cla_tune_result r = tune(only_split, 60);
    cr_expect_gt(wrong_runs, 0);
    cr_expect_eq(r.rows[0].wrong, 1);
    cr_expect_str_neq(r.rows[0].best, other);
    cr_expect_str_neq(recorded(key), other);
    cr_expect(strstr(r.rows[0].note, ": o is wrong"), "%s", r.rows[0].note);
}

Test(tune, a_failing_variant_is_never_recorded, .init = begin, .fini = end) {
    fast = failing = other;
    const cla_tune_result r = tune(only_split, 60);
    cr_expect_eq(r.rows[0].failed, 1);
    cr_expect_eq(r.rows[0].wrong, 0);
    cr_expect_str_neq(recorded(key), other);
    cr_expect(strstr(r.rows[0].note, ": the test lets it fail"), "%s", r.rows[0].note);
}

Test(tune, a_default_that_is_wrong_ends_it, .init = begin, .fini = end) {
    spoil_all = true;
    const cla_tune_result r = tune(only_split, 60);
    cr_expect(r.failed);
    cr_expect_eq(r.rows[0].wrong, 1);
    cr_expect_eq(r.rows[0].tried, 0);
    cr_expect_str_eq(recorded(key), "");
}

Test(tune, a_record_that_is_not_faster_any_more_goes, .init = begin, .fini = end) {
    const clattn_tuned old = {.key = key, .value = other, .ms = 1, .default_ms = 2};
    SUCCEEDS(clattn_tuning_set(context, &old));
    fast = standard;
    const cla_tune_result r = tune(only_split, 60);
    cr_expect_not(r.rows[0].faster);
    cr_expect_str_eq(recorded(key), "");
}

Test(tune, the_time_is_kept_to, .init = begin, .fini = end) {
    const cla_tune_result r = tune(only_split, 0);
    cr_expect(r.cut);
    cr_expect_eq(r.rows[0].tried, 0);
    cr_expect_str_eq(recorded(key), "");
}

Test(tune, an_algorithm_that_does_not_apply_is_said, .init = begin, .fini = end) {
    bool none[64] = {false};
    const cla_tune_result r = tune(none, 60);
    cr_expect_eq(r.row_count, 0);
    cr_expect_str_eq(r.note, "none of the algorithms asked for applies");
}

Test(tune, medians) {
    double odd[] = {3, 1, 2}, even[] = {4, 1, 3, 2};
    cr_expect_eq(cla_median(odd, 3), 2);
    cr_expect_eq(cla_median(even, 4), 2.5);
}
