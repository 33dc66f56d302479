/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn tune`: which algorithm and which of its variants is the fastest here, written where plans look for it. */
#include "commands.h"
#include "interrupt.h"
#include "job.h"
#include "progress.h"
#include "tune_run.h"
#include <stdio.h>
#include <string.h>

const char *const cla_help_tune =
    "Usage: clattn tune ['PROBLEM'...] [--device D] [--limit SECONDS] [--launch-ms X] [--algorithms LIST]\n"
    "                    [--out FILE]\n"
    "       clattn tune --show [--device D]\n"
    "\n"
    "Finds the fastest algorithm, and the fastest of its variants, for classes of calls on an OpenCL device, and "
    "writes\n"
    "what is faster than the default by 3 % and more into the record, which all later plans on that device follow.\n"
    "A variant that does not build, or gives a wrong result, is never recorded. `clattn run --explain` says what a\n"
    "call follows; without a record, or on calls of other classes, defaults hold.\n"
    "\n"
    "  PROBLEM            as in `clattn bench --help`; usual ones if none is given. What is found holds for all calls\n"
    "                     with the same types, masks and group, and sizes with the same next power of two\n"
    "  -d, --device D     the best OpenCL device if not given\n"
    "  --launch-ms X      milliseconds of a launch at most, for a watchdog (500 on GPUs, else no bound; -1: no bound)\n"
    "  --limit SECONDS    for all of it; if not given, 60 for one problem and 30 for each of more. What was found by\n"
    "                     then is kept, also after Ctrl-C, and the last line says what was left\n"
    "  --algorithms LIST  with commas; if not given those that are near the fastest, and never `materialised`, whose\n"
    "                     kernels take long to build\n"
    "  --out FILE         write there, and not into the record that plans on this machine read\n"
    "  --clblast          instead: CLBlast's parameters for the device, on the products of `materialised`; each set "
    "is\n"
    "                     compiled anew, so give it minutes\n"
    "  --show             what the record says for the device, and which of its lines are passed over\n"
    "\n"
    "The record is CLATTN_TUNING_FILE, else tuning.txt in the cache's folder: a text of one line an entry, made to be\n"
    "read; remove lines, or the file, to undo. Results on a tuned device may differ in the last bits from those "
    "before.\n"
    "\n"
    "  clattn tune 'h32/8 q1 k4096 d128 f16' --limit 20\n";

static const cla_arg_spec specs[] = {{"device", 'd', CLA_ARG_VALUE},   {"limit", 0, CLA_ARG_VALUE},
                                     {"algorithms", 0, CLA_ARG_VALUE}, {"out", 0, CLA_ARG_VALUE},
                                     {"show", 0, CLA_ARG_FLAG},        {"clblast", 0, CLA_ARG_FLAG},
                                     {"launch-ms", 0, CLA_ARG_VALUE},  {NULL, 0, CLA_ARG_FLAG}};

static char *usual[] = {
    "h8 n2048 d64",        "h8 n2048 d64 causal",       "h8 n2048 d128", "b8 h12 n128 d64", "h32 q1 k4096 d128",
    "h32/8 q1 k4096 d128", "h32/8 q1 k4096 d128 kv=f16"};
enum { USUAL = sizeof usual / sizeof *usual, MOST_ALGORITHMS = 64 };
#define SECONDS_ALONE 60.0
#define SECONDS_OF_MORE 30.0

typedef struct job {
    clattn_context *context;
    clattn_device_info device;
    char *const *texts;
    int count;
    double limit; /* of all; 0: each problem has its own time, so that none goes without */
    const char *out;
    bool wanted[MOST_ALGORITHMS];
    bool algorithms_given, clblast;
} job;

/* ---- arguments ---- */

static int read_algorithms(job *j, const char *list) {
    const char *names[MOST_ALGORITHMS + 1] = {NULL};
    for (size_t i = 0; i < clattn_algorithm_count() && i < MOST_ALGORITHMS; i++)
        names[i] = clattn_algorithm_name(i);
    for (const char *at = list; list; at++) {
        char part[64];
        const size_t length = strcspn(at, ",");
        snprintf(part, sizeof part, "%.*s", (int)(length < sizeof part ? length : sizeof part - 1), at);
        const int index = cla_index_of(part, names);
        const char *near_name = index < 0 ? cla_nearest(part, names) : NULL;
        if (index < 0)
            return cla_fail(CLA_EXIT_USAGE, "tune: there is no algorithm '%s'%s%s%s; `clattn devices` lists them", part,
                            near_name ? "; did you mean " : "", near_name ? near_name : "", near_name ? "?" : "");
        j->wanted[index] = true;
        at += length;
        if (*at == '\0')
            break;
    }
    j->algorithms_given = list != NULL;
    return CLA_EXIT_OK;
}

static int read_problems(const job *j) {
    for (int i = 0; i < j->count; i++) {
        cla_problem_text problem;
        char error[512];
        if (!cla_problem_text_parse(j->texts[i], &problem, error, sizeof error))
            return cla_fail(CLA_EXIT_USAGE, "tune: problem \"%.100s\": %s", j->texts[i], error);
        if (problem.invariant)
            return cla_fail(CLA_EXIT_USAGE, "tune: problem \"%.100s\": calls with `invariant` follow no record",
                            j->texts[i]);
    }
    return CLA_EXIT_OK;
}

static int read_args(job *j, const cla_args *args) {
    const char *limit = cla_args_value(args, "limit");
    static char *products[] = {"h8 n512 d64"};
    const bool clblast = cla_args_given(args, "clblast");
    j->texts = args->word_count ? args->words : clblast ? products : usual;
    j->count = args->word_count ? args->word_count : clblast ? 1 : USUAL;
    j->out = cla_args_value(args, "out");
    j->clblast = clblast;
    if (limit && (!cla_parse_f64(limit, &j->limit) || !(j->limit > 0)))
        return cla_fail(CLA_EXIT_USAGE, "tune: --limit %s: a number of seconds above 0 is needed", limit);
    if (clblast && j->count > 1)
        return cla_fail(CLA_EXIT_USAGE,
                        "tune: --clblast with %d problems: it takes one, since a program cannot take CLBlast's "
                        "parameters back; one entry serves all products of a type",
                        j->count);
    const int exit_status = read_problems(j);
    return exit_status == CLA_EXIT_OK ? read_algorithms(j, cla_args_value(args, "algorithms")) : exit_status;
}

static int open_device(job *j, const char *spec) {
    const int exit_status = cla_open(spec, &j->context);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clattn_context_info(j->context, &j->device);
    return CLA_EXIT_OK;
}

static void print_device(const job *j) {
    printf("device %s: %s (%s, %s)\n", j->device.spec, j->device.name, j->device.platform, j->device.driver);
}

/* ---- what there is ---- */

static int show(job *j) {
    clattn_tuned entry;
    const char *file = clattn_tuning_file(j->context), *skipped = clattn_tuning_skipped(j->context);
    size_t count = 0;
    print_device(j);
    printf("record %s\n", *file ? file : "none: CLATTN_TUNING_FILE or CLATTN_CACHE_DIR is off");
    for (; clattn_tuning_entry(j->context, count, &entry); count++)
        printf("  %s: %s, %.4g ms against %.4g ms by default\n", entry.key, entry.value, entry.ms, entry.default_ms);
    if (count == 0)
        printf("  nothing about this device: defaults hold\n");
    for (const char *at = skipped; *at; at += strcspn(at, "\n") + 1)
        printf("  passed over: %.*s\n", (int)strcspn(at, "\n"), at);
    return CLA_EXIT_OK;
}

/* ---- measuring ---- */

static void print_row(const cla_tune_row *row) {
    if (row->best_ms <= 0) {
        printf("  %-13s %10s %10s %7s  %s\n", row->name, "-", "-", "-", row->note);
        return;
    }
    printf("  %-13s %10.4g %10.4g %6.2fx  ", row->name, row->default_ms, row->best_ms, row->default_ms / row->best_ms);
    printf("%s", row->faster ? row->best : row->standard[0] ? "the default" : "one way only");
    if (row->tried > 0)
        printf(" (%d of %d others tried", row->tried, row->variants - 1);
    if (row->failed > 0)
        printf(", %d failed", row->failed);
    if (row->wrong > 0)
        printf(", %d WRONG", row->wrong);
    printf("%s%s%s\n", row->tried > 0 ? ")" : "", row->note[0] ? "; " : "", row->note);
}

static void print_result(const cla_tune_result *r) {
    for (size_t i = 0; i < r->row_count; i++)
        print_row(&r->rows[i]);
    if (strcmp(r->best, r->standard) != 0)
        printf("  %s instead of %s: %.4g ms against %.4g ms\n", r->best, r->standard, r->best_ms, r->default_ms);
    if (r->note[0])
        printf("  %s: %s\n", r->failed ? "failed" : "not tuned", r->note);
    if (r->cut)
        printf("  the time ended before all was tried; --limit SECONDS, of all problems together, gives more\n");
    fflush(stdout);
}

/* Anything wrong, or failed. */
static bool is_bad(const cla_tune_result *r) {
    bool bad = r->failed;
    for (size_t i = 0; i < r->row_count; i++)
        bad = bad || r->rows[i].wrong > 0;
    return bad;
}

/* When problem i has to end: with a limit, its share of what is left of it, before `now` when nothing is. */
static double end_of(const job *j, int i, double start, double now) {
    return j->limit > 0 ? now + (start + j->limit - now) / (j->count - i)
                        : now + (j->count > 1 ? SECONDS_OF_MORE : SECONDS_ALONE);
}

static int measure(job *j) {
    cla_tune tune = {.context = j->context, .stopped = cla_interrupted};
    const double start = cla_seconds();
    const char *to = j->out ? j->out : clattn_tuning_file(j->context);
    int exit_status = CLA_EXIT_OK, tuned = 0, cut = 0;
    clattn_status status = clattn_tuning_save(j->context, to); /* what cannot be written is said before the minutes */
    if (status != CLATTN_OK)
        return cla_fail_status(status, "tune");
    tune.algorithms = j->algorithms_given ? j->wanted : NULL;
    print_device(j);
    printf("  %-13s %10s %10s %7s  %s\n", "algorithm", "default ms", "best ms", "gain", "variant");
    cla_interrupt_watch();
    for (int i = 0; i < j->count && !cla_interrupted(); i++) {
        cla_tune_result result;
        cla_problem_text problem;
        char text[CLA_PROBLEM_TEXT_MAX], error[512];
        const double now = cla_seconds();
        tune.end = end_of(j, i, start, now);
        if (now >= tune.end)
            break;
        cla_problem_text_parse(j->texts[i], &problem, error, sizeof error);
        printf("%s\n", cla_problem_text_print(&problem, text, sizeof text));
        fflush(stdout);
        if (j->clblast)
            cla_tune_clblast(&tune, &problem, &result);
        else
            cla_tune_problem(&tune, &problem, &result);
        print_result(&result);
        status = cla_tune_record(j->context, &result);
        if (status == CLATTN_OK) /* after each, so that nothing is lost */
            status = clattn_tuning_save(j->context, to);
        if (status != CLATTN_OK)
            return cla_fail_status(status, "tune");
        exit_status = is_bad(&result) ? CLA_EXIT_FAILED : exit_status;
        tuned++;
        cut += result.cut;
    }
    printf("record %s\n", to);
    if (tuned < j->count || cut > 0)
        printf("%s; %d of %d problems were not tuned, and %d not to the end\n",
               cla_interrupted() ? "interrupted" : "the time is over", j->count - tuned, j->count, cut);
    return exit_status;
}

int cla_cmd_tune(int argc, char **argv) {
    cla_args args;
    job j = {0};
    int exit_status = cla_args_parse("tune", argc, argv, specs, 0, -1, "['PROBLEM'...]", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = read_args(&j, &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_launch_option("tune", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = open_device(&j, cla_args_value(&args, "device"));
    if (exit_status == CLA_EXIT_OK && cla_args_given(&args, "show"))
        exit_status = show(&j);
    else if (exit_status == CLA_EXIT_OK && !j.device.is_opencl)
        exit_status = cla_fail(CLA_EXIT_USAGE, "tune: %s has nothing to tune; OpenCL devices do", j.device.spec);
    else if (exit_status == CLA_EXIT_OK && !j.out && !*clattn_tuning_file(j.context))
        exit_status = cla_fail(CLA_EXIT_USAGE, "tune: there is no record to write to: CLATTN_TUNING_FILE or "
                                               "CLATTN_CACHE_DIR is off; --out FILE writes another");
    else if (exit_status == CLA_EXIT_OK)
        exit_status = measure(&j);
    clattn_context_destroy(j.context);
    return exit_status;
}
