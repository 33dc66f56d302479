/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn study`: the experiments of the source articles, one or all of them, their figures beside ours. */
#include "args.h"
#include "commands.h"
#include "interrupt.h"
#include "job.h"
#include "kernel_profile.h"
#include "option_values.h"
#include "outputs.h"
#include "study.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cla_help_study =
    "Usage: clattn study NAME|all [--device D] [--type T] [--seed N] [--to N] [--limit SECONDS] [--plot FILE]\n"
    "                    [--json FILE] [--launch-ms X]\n"
    "\n"
    "Repeats the experiments of the articles on attention that this program started from, on a device, and puts the\n"
    "figures that the articles print beside its own; docs/study.md says what each shows.\n"
    "\n"
    "  sdpa      five tokens: the weights and the output of the article\n"
    "  batched   a mask that replaces scores by -1e9, and one that excludes them\n"
    "  scale     why scores are divided by sqrt(d_k): 4000 trials for each d_k\n"
    "  heads     four heads, weights of each, and parameters for 1, 4 and 16\n"
    "  order     without positions the order of tokens does not matter; with them it does\n"
    "  causal    what later tokens change, without and with the causal mask\n"
    "  cost      time and memory as n doubles, on the device and on the CPU\n"
    "  stack     an encoder and a decoder of six layers: PyTorch's layers, masks, caches\n"
    "  gradient  what reaches Q as d_k grows, and what comes through 1 to 24 layers, without and with residual\n"
    "            connections and LayerNorm\n"
    "  all       one after the other\n"
    "\n"
    "  -d, --device D    opencl, opencl:gpu, opencl:0:0, cpu (`clattn devices` lists them); the best if not given\n"
    "  --type T          f64 or f32; if not given f64 where the device has it. Bounds are those of the type; "
    "scale\n"
    "                    and cost, and the trials of gradient, always run in f32\n"
    "  --seed N          of the random numbers of scale, stack and gradient (1)\n"
    "  --to N            cost: the largest n; if not given as far as time and memory allow\n"
    "  --limit SECONDS   cost: for the runs of one algorithm at one n above 4096 (3)\n"
    "  --plot FILE.svg   the curves of scale, cost or gradient; with all, FILE-scale.svg and so on; needs gnuplot\n"
    "  --launch-ms X     milliseconds of a launch at most, for a watchdog (500 on GPUs, else no bound; -1: no bound)\n"
    "  --json FILE       a list of {experiment, device, type, agrees, figures: [{figure, article, wanted, ours, "
    "...}]}\n"
    "\n"
    "wanted: the answer that is stored, or exact; off by: how far ours is from it. A figure is OFF where that is more\n"
    "than allowed.\n"
    "Exit status: 0 every figure agrees, 1 one is off or an experiment could not be run, 2 wrong use.\n"
    "\n"
    "  clattn study scale --plot scale.svg\n";

static const cla_arg_spec specs[] = {
    {"device", 'd', CLA_ARG_VALUE}, {"type", 0, CLA_ARG_VALUE},      {"seed", 0, CLA_ARG_VALUE},
    {"limit", 0, CLA_ARG_VALUE},    {"to", 0, CLA_ARG_VALUE},        {"plot", 0, CLA_ARG_VALUE},
    {"json", 0, CLA_ARG_VALUE},     {"launch-ms", 0, CLA_ARG_VALUE}, {NULL, 0, CLA_ARG_FLAG}};

/* The one table of experiments. */
static const cla_experiment experiments[] = {
    {"sdpa", "five tokens, d_k = 8, d_v = 4", false, cla_study_sdpa, NULL},
    {"batched", "four tokens, d = 8, without a mask and with two kinds", false, cla_study_batched, NULL},
    {"scale", "4000 trials of a query against 16 keys, all N(0, 1)", true, cla_study_scale, cla_study_plot_scale},
    {"heads", "four heads of six tokens, d = 16", false, cla_study_heads, NULL},
    {"order", "seven tokens in another order, without and with positions", false, cla_study_order, NULL},
    {"causal", "tokens 5, 6 and 7 of 8 are changed", false, cla_study_causal, NULL},
    {"cost", "one head, d = 64, as n doubles", true, cla_study_cost, cla_study_plot_cost},
    {"stack", "encoder and decoder of six layers, d = 512, h = 8", false, cla_study_stack, NULL},
    {"gradient", "what reaches Q as d_k grows, and the input as layers do", false, cla_study_gradient,
     cla_study_plot_gradient},
};
enum { EXPERIMENTS = sizeof experiments / sizeof *experiments };

typedef struct job {
    bool chosen[EXPERIMENTS];
    bool all;
    cla_study options; /* what every experiment starts from */
    bool type_given;
    cla_outputs outputs;
    int plots[EXPERIMENTS], json; /* places in outputs; -1: none */
    cJSON *list;                  /* NULL: no JSON is wanted */
    size_t agree, off, skipped, failed;
} job;

/* ---- arguments ---- */

static int choose(job *j, const char *name) {
    const char *names[EXPERIMENTS + 2] = {NULL};
    for (size_t i = 0; i < EXPERIMENTS; i++)
        names[i] = experiments[i].name;
    names[EXPERIMENTS] = "all";
    const int index = cla_index_of(name, names);
    const char *near_name = index < 0 ? cla_nearest(name, names) : NULL;
    if (index < 0)
        return cla_fail(CLA_EXIT_USAGE, "study: there is no experiment '%s'%s%s%s; `clattn study --help` lists them",
                        name, near_name ? "; did you mean " : "", near_name ? near_name : "", near_name ? "?" : "");
    j->all = index == EXPERIMENTS;
    for (int i = 0; i < EXPERIMENTS; i++)
        j->chosen[i] = j->all || i == index;
    return CLA_EXIT_OK;
}

static int read_options(job *j, const cla_args *args) {
    const char *type = cla_args_value(args, "type"), *seed = cla_args_value(args, "seed"),
               *limit = cla_args_value(args, "limit"), *largest = cla_args_value(args, "to");
    int64_t number = 1;
    j->options.limit = 3;
    j->options.largest = INT64_MAX;
    j->type_given = type != NULL;
    if (type && cla_index_of(type, cla_study_type_names) < 0)
        return cla_fail(CLA_EXIT_USAGE, "study: --type %s: f64 or f32 is needed", type);
    j->options.dtype = type && strcmp(type, "f32") == 0 ? CLATTN_F32 : CLATTN_F64;
    if (seed && (!cla_parse_i64(seed, &number) || number < 0))
        return cla_fail(CLA_EXIT_USAGE, "study: --seed %s: a number from 0 on is needed", seed);
    j->options.seed = (uint64_t)number;
    if (largest && (!cla_parse_i64(largest, &j->options.largest) || j->options.largest < 512))
        return cla_fail(CLA_EXIT_USAGE, "study: --to %s: a number from 512 on is needed", largest);
    if (limit && (!cla_parse_f64(limit, &j->options.limit) || !(j->options.limit > 0)))
        return cla_fail(CLA_EXIT_USAGE, "study: --limit %s: a number of seconds above 0 is needed", limit);
    return CLA_EXIT_OK;
}

/* With `all` a name for each: "x.svg" becomes "x-scale.svg". */
static int declare_plot(job *j, int i, const char *path) {
    char name[4096];
    const size_t stem = strlen(path) - strlen(".svg");
    if (strlen(path) + 32 > sizeof name)
        return cla_fail(CLA_EXIT_USAGE, "study: --plot: the name is too long");
    snprintf(name, sizeof name, "%.*s-%s.svg", (int)stem, path, experiments[i].name);
    return cla_outputs_add_file(&j->outputs, "--plot", j->all ? name : path, &j->plots[i]);
}

/* Before the work, so that it is not lost to a wrong path. */
static int declare_outputs(job *j, const cla_args *args) {
    const char *plot = cla_args_value(args, "plot");
    bool drawn = false;
    int exit_status = cla_outputs_add_file(&j->outputs, "--json", cla_args_value(args, "json"), &j->json);
    if (exit_status == CLA_EXIT_OK && plot)
        exit_status = cla_plot_check("study", "--plot", plot);
    for (int i = 0; i < EXPERIMENTS && exit_status == CLA_EXIT_OK && plot; i++)
        if (j->chosen[i] && experiments[i].plot) {
            exit_status = declare_plot(j, i, plot);
            drawn = true;
        }
    if (exit_status == CLA_EXIT_OK && plot && !drawn)
        return cla_fail(CLA_EXIT_USAGE, "study: --plot: %s has no curves; scale, cost and gradient have",
                        args->words[0]);
    return exit_status == CLA_EXIT_OK ? cla_outputs_check(&j->outputs, NULL, 0) : exit_status;
}

static int open_device(job *j, const char *spec) {
    cla_study *s = &j->options;
    const int exit_status = cla_open(spec, &s->context);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clattn_context_info(s->context, &s->device);
    if (s->dtype == CLATTN_F64 && !s->device.has_f64 && j->type_given)
        return cla_fail(CLA_EXIT_FAILED, "study: --type f64: %s has no cl_khr_fp64", s->device.spec);
    printf("device %s: %s\n", s->device.spec, s->device.name);
    if (!s->device.has_f64)
        printf("it has no f64: all runs in f32, within the bounds of f32\n");
    return CLA_EXIT_OK;
}

/* ---- running ---- */

static int draw(job *j, int i, const cla_study *s) {
    if (j->plots[i] < 0)
        return CLA_EXIT_OK;
    cla_output *f = &j->outputs.files[j->plots[i]];
    const int exit_status = experiments[i].plot(s, f->staged);
    f->complete = exit_status == CLA_EXIT_OK;
    return exit_status;
}

static int report(job *j, int i, cla_study *s) {
    if (j->all || !s->skipped[0])
        cla_study_print(s);
    cJSON *object = j->list && !s->out_of_memory ? cla_study_json(s) : NULL;
    const bool listed = !j->list || (object && cJSON_AddItemToArray(j->list, object));
    if (!listed)
        cJSON_Delete(object);
    if (s->out_of_memory || !listed)
        return cla_fail(CLA_EXIT_FAILED, "study %s: out of memory", s->name);
    if (s->skipped[0])
        j->skipped++;
    else if (cla_study_off(s) > 0)
        j->off++;
    else
        j->agree++;
    if (s->skipped[0])
        return j->all ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "study %s: %s", s->name, s->skipped);
    return draw(j, i, s);
}

static void run(job *j, int i) {
    cla_study s = j->options;
    s.name = experiments[i].name;
    if (experiments[i].in_f32 || !s.device.has_f64)
        s.dtype = CLATTN_F32;
    printf("\n%s: %s, in %s\n", s.name, experiments[i].summary, clattn_dtype_name(s.dtype));
    fflush(stdout);
    int exit_status = experiments[i].run(&s);
    if (exit_status == CLA_EXIT_OK)
        exit_status = report(j, i, &s);
    if (exit_status != CLA_EXIT_OK)
        j->failed++;
    cla_study_free(&s);
}

static int write_json(job *j) {
    if (j->json < 0 || (cla_interrupted() && cJSON_GetArraySize(j->list) == 0))
        return CLA_EXIT_OK;
    cla_output *f = &j->outputs.files[j->json];
    char *text = cJSON_Print(j->list);
    if (!text)
        return cla_fail(CLA_EXIT_FAILED, "study: --json: out of memory");
    FILE *file = fopen(f->staged, "wb");
    bool ok = file && fprintf(file, "%s\n", text) > 0 && !ferror(file);
    if (file)
        ok = fclose(file) == 0 && ok;
    cJSON_free(text);
    f->complete = ok;
    return ok ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "study: --json: %s: %s", f->path, strerror(errno));
}

/* Files are written even when a figure is off: they show it. */
static int run_all(job *j) {
    if (j->json >= 0 && !(j->list = cJSON_CreateArray()))
        return cla_fail(CLA_EXIT_FAILED, "study: out of memory");
    cla_interrupt_watch();
    for (int i = 0; i < EXPERIMENTS && !cla_interrupted(); i++)
        if (j->chosen[i])
            run(j, i);
    if (cla_interrupted())
        printf("\ninterrupted\n");
    if (j->all)
        printf("\n%zu agree, %zu off, %zu failed, %zu skipped\n", j->agree, j->off, j->failed, j->skipped);
    int exit_status = write_json(j);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_outputs_commit(&j->outputs);
    return j->off + j->failed > 0 ? CLA_EXIT_FAILED : exit_status;
}

int cla_cmd_study(int argc, char **argv) {
    cla_args args;
    job j = {.json = -1};
    for (int i = 0; i < EXPERIMENTS; i++)
        j.plots[i] = -1;
    int exit_status = cla_args_parse("study", argc, argv, specs, 1, 1, "NAME or all", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = choose(&j, args.words[0]);
    if (exit_status == CLA_EXIT_OK)
        exit_status = read_options(&j, &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = declare_outputs(&j, &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_launch_option("study", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = open_device(&j, cla_args_value(&args, "device"));
    if (exit_status == CLA_EXIT_OK)
        exit_status = run_all(&j);
    cJSON_Delete(j.list);
    cla_outputs_free(&j.outputs);
    clattn_context_destroy(j.options.context);
    return exit_status;
}
