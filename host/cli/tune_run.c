/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_run.h"

#include "progress.h"
#include "samples.h"
#include "tune_judge.h"
#include "tune_race.h"
#include <stdio.h>
#include <string.h>

#define FAR_BEHIND 1.5    /* an algorithm that is slower by that is not worth its kernels' builds unless it is named */
#define HOPELESS 1.1      /* a variant that is slower by that after the first rounds */
#define QUICK_SECONDS 0.2 /* for a first look at an algorithm */
enum { QUICK_RUNS = 10, FIRST_ROUNDS = 3, MORE_ROUNDS = 7, LAST_ROUNDS = 15 };

typedef struct tuning {
    const cla_tune *tune;
    cla_tune_result *result;
    cla_judge judge;
    double end;                       /* of the algorithm at hand */
    clattn_plan *best[CLA_TUNE_ROWS]; /* of each row, its best variant */
} tuning;

static bool is_over(const tuning *t) { return cla_seconds() >= t->end || (t->tune->stopped && t->tune->stopped()); }

static void complain(const char *algorithm, const char *variant, const char *text) {
    fprintf(stderr, "clattn: tune: WRONG RESULT of %s %s, which is not recorded: %s\n", algorithm, variant, text);
}

static clattn_status make_plan(tuning *t, const char *algorithm, const char *variant, clattn_plan **plan) {
    clattn_attention_args args = t->judge.job.args.forward;
    args.algorithm = algorithm;
    args.variant = variant;
    cla_note_begin(-1, "tuning", variant ? variant : algorithm);
    const clattn_status status = clattn_plan_create(t->tune->context, &args, plan);
    cla_note_end();
    return status;
}

/* ---- one algorithm ---- */

/* By the rounds' ratios, which a busy moment cannot sway alone, and by the times as well. */
static bool is_faster(const cla_race *race) {
    return race->rounds > 0 && race->ratio * CLA_TUNE_GAIN < 1 && race->ms[1] * CLA_TUNE_GAIN < race->ms[0];
}

/* Of a few runs, in seconds; negative when one fails. */
static double quickest_of(const tuning *t, clattn_plan *plan) {
    const double end = cla_seconds() + QUICK_SECONDS;
    double quickest = cla_race_once(t->tune->context, plan);
    for (int i = 1; i < QUICK_RUNS && quickest >= 0 && cla_seconds() < end; i++) {
        const double seconds = cla_race_once(t->tune->context, plan);
        quickest = seconds < quickest ? seconds : quickest;
    }
    return quickest;
}

/* Whether the algorithm's default runs and is right. */
static bool start_row(tuning *t, cla_tune_row *row, clattn_plan **plan) {
    clattn_plan_info info;
    bool wrong = false;
    if (make_plan(t, row->name, "default", plan) != CLATTN_OK || clattn_plan_info_get(*plan, &info) != CLATTN_OK) {
        snprintf(row->note, sizeof row->note, "%s", clattn_last_error());
        return false;
    }
    snprintf(row->key, sizeof row->key, "%s", clattn_plan_variant_key(*plan));
    snprintf(row->standard, sizeof row->standard, "%s", info.variant);
    snprintf(row->best, sizeof row->best, "%s", info.variant);
    while (clattn_plan_variant(*plan, (size_t)row->variants))
        row->variants++;
    if (!cla_judge_plan(&t->judge, t->tune->context, *plan, &wrong, row->note, sizeof row->note)) {
        row->wrong += wrong, row->failed += !wrong;
        if (wrong)
            complain(row->name, "by default", row->note);
        return false;
    }
    const double quickest = quickest_of(t, *plan);
    row->default_ms = row->best_ms = 1e3 * quickest;
    return quickest >= 0;
}

/* A variant against the best so far: takes its place, or is given up. */
static void try_variant(tuning *t, cla_tune_row *row, const char *variant, clattn_plan **best, clattn_plan *standard) {
    clattn_plan *plan = NULL;
    char text[256];
    bool wrong = false;
    row->tried++;
    if (make_plan(t, row->name, variant, &plan) != CLATTN_OK) {
        row->failed++;
        snprintf(row->note, sizeof row->note, "%.80s: %.160s", variant, clattn_last_error());
    } else if (!cla_judge_plan(&t->judge, t->tune->context, plan, &wrong, text, sizeof text)) {
        row->wrong += wrong, row->failed += !wrong;
        snprintf(row->note, sizeof row->note, "%.80s: %.160s", variant, text);
        if (wrong)
            complain(row->name, variant, text);
    } else {
        cla_race race = {.context = t->tune->context, .plans = {*best, plan}};
        cla_race_run(&race, FIRST_ROUNDS, t->end);
        if (race.rounds > 0 && race.ratio < HOPELESS)
            cla_race_run(&race, MORE_ROUNDS, t->end);
        if (race.rounds > 0 && race.ratio < 1) {
            clattn_plan *slower = *best;
            *best = plan;
            plan = slower == standard ? NULL : slower;
            snprintf(row->best, sizeof row->best, "%s", variant);
        }
    }
    clattn_plan_destroy(plan);
}

/* The winner of many races may be the luckiest: it meets the default once more, and that decides. */
static clattn_plan *decide(tuning *t, cla_tune_row *row, clattn_plan *best, clattn_plan *standard) {
    cla_race race = {.context = t->tune->context, .plans = {standard, best}};
    if (best == standard)
        return standard;
    cla_race_run(&race, LAST_ROUNDS, t->end);
    row->faster = is_faster(&race);
    if (race.rounds > 0)
        row->default_ms = race.ms[0], row->best_ms = race.ms[1];
    if (!row->faster) {
        snprintf(row->best, sizeof row->best, "%s", row->standard);
        row->best_ms = row->default_ms;
    }
    clattn_plan_destroy(row->faster ? standard : best);
    return row->faster ? best : standard;
}

static void tune_row(tuning *t, cla_tune_row *row, clattn_plan **plan, double fastest_ms) {
    if (!start_row(t, row, plan)) {
        clattn_plan_destroy(*plan);
        *plan = NULL;
        return;
    }
    clattn_plan *standard = *plan, *best = *plan;
    if (!t->tune->algorithms && fastest_ms > 0 && row->default_ms > FAR_BEHIND * fastest_ms) {
        snprintf(row->note, sizeof row->note, "takes %.3g times as long: its variants are not tried unless it is named",
                 row->default_ms / fastest_ms);
        return;
    }
    for (size_t i = 1; i < (size_t)row->variants; i++) {
        if (is_over(t)) {
            t->result->cut = true;
            break;
        }
        char variant[CLA_TUNE_VARIANT];
        snprintf(variant, sizeof variant, "%s", clattn_plan_variant(standard, i));
        try_variant(t, row, variant, &best, standard);
    }
    *plan = decide(t, row, best, standard);
}

/* ---- one problem ---- */

/* The library's own choice, its key, and whether there is one at all. */
static bool find_standard(tuning *t) {
    cla_tune_result *r = t->result;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    const bool ok = make_plan(t, NULL, "default", &plan) == CLATTN_OK && clattn_plan_info_get(plan, &info) == CLATTN_OK;
    if (ok) {
        snprintf(r->key, sizeof r->key, "%s", clattn_plan_algorithm_key(plan));
        snprintf(r->standard, sizeof r->standard, "%s", info.algorithm);
        snprintf(r->best, sizeof r->best, "%s", info.algorithm);
    } else {
        snprintf(r->note, sizeof r->note, "%s", clattn_last_error());
    }
    clattn_plan_destroy(plan);
    return ok;
}

/* CLBlast's kernels take too long to build to be tried unasked. */
static bool is_wanted(const tuning *t, size_t i) {
    bool applies = false;
    const char *reason;
    if (t->tune->algorithms ? !t->tune->algorithms[i] : strcmp(clattn_algorithm_name(i), "materialised") == 0)
        return false;
    return clattn_algorithm_applies(t->tune->context, &t->judge.job.args.forward, i, &applies, &reason) == CLATTN_OK &&
           applies;
}

/* The standard algorithm first: others are measured against it. */
static void list_rows(tuning *t) {
    cla_tune_result *r = t->result;
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < clattn_algorithm_count() && r->row_count < CLA_TUNE_ROWS; i++)
            if ((strcmp(clattn_algorithm_name(i), r->standard) == 0) == (pass == 0) && is_wanted(t, i))
                snprintf(r->rows[r->row_count++].name, CLA_TUNE_NAME, "%s", clattn_algorithm_name(i));
}

/* Whether another algorithm, with its best variant, is faster than the standard one with its own. */
static void choose_algorithm(tuning *t) {
    cla_tune_result *r = t->result;
    double least = 1;
    if (r->row_count == 0 || strcmp(r->rows[0].name, r->standard) != 0 || !t->best[0])
        return;
    r->default_ms = r->best_ms = r->rows[0].best_ms;
    for (size_t i = 1; i < r->row_count; i++) {
        cla_race race = {.context = t->tune->context, .plans = {t->best[0], t->best[i]}};
        if (!t->best[i] || r->rows[i].best_ms > FAR_BEHIND * r->rows[0].best_ms)
            continue;
        cla_race_run(&race, LAST_ROUNDS, t->end);
        if (is_faster(&race) && race.ratio < least) {
            least = race.ratio;
            snprintf(r->best, sizeof r->best, "%s", r->rows[i].name);
            r->default_ms = race.ms[0], r->best_ms = race.ms[1];
        }
    }
}

static void tune_rows(tuning *t) {
    cla_tune_result *r = t->result;
    double fastest = 0;
    for (size_t i = 0; i < r->row_count; i++) {
        const double now = cla_seconds();
        t->end = now + (t->tune->end - now) / (double)(r->row_count - i);
        if (i > 0 && is_over(t)) {
            r->cut = true;
            snprintf(r->rows[i].note, sizeof r->rows[i].note, "not tried: the time is over");
            continue;
        }
        tune_row(t, &r->rows[i], &t->best[i], fastest);
        if (t->best[i] && (fastest == 0 || r->rows[i].best_ms < fastest))
            fastest = r->rows[i].best_ms;
        if (i == 0 && !t->best[0] && strcmp(r->rows[0].name, r->standard) == 0) {
            r->failed = true;
            snprintf(r->note, sizeof r->note, "%s", r->rows[0].note);
            return; /* nothing to compare with */
        }
    }
    choose_algorithm(t);
}

void cla_tune_problem(const cla_tune *tune, const cla_problem_text *problem, cla_tune_result *result) {
    tuning t = {.tune = tune, .result = result, .end = tune->end};
    *result = (cla_tune_result){0};
    if (cla_judge_open(tune->context, problem, &t.judge) != CLATTN_OK) {
        result->failed = true;
        snprintf(result->note, sizeof result->note, "%s", clattn_last_error());
    } else if (!find_standard(&t)) {
        result->failed = true;
    } else {
        list_rows(&t);
        tune_rows(&t);
        if (result->row_count == 0)
            snprintf(result->note, sizeof result->note, "none of the algorithms asked for applies");
    }
    for (size_t i = 0; i < CLA_TUNE_ROWS; i++)
        clattn_plan_destroy(t.best[i]);
    cla_judge_close(&t.judge);
}

clattn_status cla_tune_record(clattn_context *context, const cla_tune_result *r) {
    clattn_status status = CLATTN_OK;
    for (size_t i = 0; i < r->row_count && status == CLATTN_OK; i++) {
        const cla_tune_row *row = &r->rows[i];
        const clattn_tuned entry = {.key = row->key,
                                    .value = row->faster ? row->best : NULL,
                                    .ms = row->best_ms,
                                    .default_ms = row->default_ms};
        if (row->key[0] && row->tried > 0)
            status = clattn_tuning_set(context, &entry);
    }
    const bool other = strcmp(r->best, r->standard) != 0;
    const clattn_tuned entry = {
        .key = r->key, .value = other ? r->best : NULL, .ms = r->best_ms, .default_ms = r->default_ms};
    if (status == CLATTN_OK && r->best_ms > 0 && r->row_count > 1)
        status = clattn_tuning_set(context, &entry);
    return status;
}

/* ---- CLBlast ---- */

static double median_of_runs(const cla_tune *tune, clattn_plan *plan) {
    double seconds[QUICK_RUNS];
    for (int i = 0; i < QUICK_RUNS; i++)
        if ((seconds[i] = cla_race_once(tune->context, plan)) < 0)
            return -1;
    return cla_median(seconds, QUICK_RUNS);
}

static clattn_status set_clblast(const cla_tune *tune, const char *key, const char *value, double ms,
                                 double default_ms) {
    const clattn_tuned entry = {.key = key, .value = value, .ms = ms, .default_ms = default_ms};
    return clattn_tuning_set(tune->context, &entry);
}

/* Sets cannot take turns, since CLBlast compiles anew for each: what wins is measured twice, and both must be faster.
 */
static void try_sets(tuning *t, clattn_plan *plan, cla_tune_row *row) {
    const char *text, *best = NULL;
    double best_seconds = row->default_ms * 1e-3 / CLA_TUNE_GAIN;
    for (size_t i = 0; (text = clattn_tuning_clblast(i)); i++) {
        bool wrong = false;
        row->variants++;
        if (is_over(t)) {
            t->result->cut = true;
            continue;
        }
        row->tried++;
        cla_note_begin(-1, "CLBlast compiles for", text);
        const bool right = set_clblast(t->tune, row->key, text, 0, 0) == CLATTN_OK &&
                           cla_judge_plan(&t->judge, t->tune->context, plan, &wrong, row->note, sizeof row->note);
        cla_note_end();
        row->wrong += wrong, row->failed += !right && !wrong;
        if (wrong)
            complain("CLBlast", text, row->note);
        const double seconds = right ? median_of_runs(t->tune, plan) : -1;
        if (seconds > 0 && seconds < best_seconds) {
            best_seconds = seconds;
            best = text;
        }
    }
    row->variants++; /* the default */
    if (!best || set_clblast(t->tune, row->key, best, 0, 0) != CLATTN_OK || cla_race_once(t->tune->context, plan) < 0)
        return;
    const double again = median_of_runs(t->tune, plan);
    row->faster = again > 0 && again * CLA_TUNE_GAIN < row->default_ms * 1e-3;
    if (row->faster) {
        snprintf(row->best, sizeof row->best, "%s", best);
        row->best_ms = 1e3 * again;
    }
}

void cla_tune_clblast(const cla_tune *tune, const cla_problem_text *problem, cla_tune_result *result) {
    tuning t = {.tune = tune, .result = result, .end = tune->end};
    clattn_plan *plan = NULL;
    *result = (cla_tune_result){.row_count = 1};
    cla_tune_row *row = &result->rows[0];
    bool wrong = false;
    const clattn_dtype sums = problem->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    snprintf(row->name, sizeof row->name, "CLBlast");
    snprintf(row->key, sizeof row->key, "%s", clattn_tuning_clblast_key(sums));
    snprintf(row->standard, sizeof row->standard, "the default");
    snprintf(row->best, sizeof row->best, "the default");
    bool ok = set_clblast(tune, row->key, NULL, 0, 0) == CLATTN_OK &&
              cla_judge_open(tune->context, problem, &t.judge) == CLATTN_OK &&
              make_plan(&t, "materialised", "default", &plan) == CLATTN_OK;
    if (!ok)
        snprintf(row->note, sizeof row->note, "%s", clattn_last_error());
    ok = ok && cla_judge_plan(&t.judge, tune->context, plan, &wrong, row->note, sizeof row->note);
    const double seconds = ok ? median_of_runs(tune, plan) : -1;
    result->failed = seconds < 0;
    row->wrong = wrong;
    row->default_ms = row->best_ms = 1e3 * seconds;
    if (seconds > 0)
        try_sets(&t, plan, row);
    clattn_plan_destroy(plan);
    cla_judge_close(&t.judge);
}
