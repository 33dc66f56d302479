/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn check`: replays the packed cases of a file on one algorithm, or on all of them. */
#include "args.h"
#include "check_run.h"
#include "commands.h"
#include "interrupt.h"
#include "job.h"
#include "progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cla_help_check =
    "Usage: clattn check FILE.safetensors [--device D] [--algorithm A|all] [--filter GLOB] [--launch-ms X]\n"
    "\n"
    "Replays the cases that are packed in a file of test vectors, or that `clattn run --dump` wrote, and compares\n"
    "every output: |got - want| <= atol + rtol |want|, with the tolerances of the case.\n"
    "\n"
    "  -d, --device D where to run: opencl, opencl:gpu, opencl:0:0, cpu (`clattn devices` lists them); the best\n"
    "                 device when not given\n"
    "  --algorithm A  one algorithm, or `all`: each algorithm in turn, those for CPUs on `cpu`; when not given,\n"
    "                 what suits the device and the case\n"
    "  --launch-ms X  milliseconds of a launch at most, for a watchdog (500 on GPUs, else no bound; -1: no bound)\n"
    "  --filter GLOB  only the cases whose name matches; * is any text, ? any character\n"
    "\n"
    "It knows ONNX's Attention (opsets 23 to 25), RotaryEmbedding, LayerNormalization, RMSNormalization and Softmax,\n"
    "PyTorch's sdpa and its gradients, multi-head attention, encoder and decoder layers, and dumps; what of them it\n"
    "does not know, an attribute or an input, fails its case. What has no algorithms of attention runs once a device.\n"
    "Queries that see no key, NaN in PyTorch where weights are asked for, must be zeros.\n"
    "\n"
    "Each wrong output is one line with its worst element. What this version or an algorithm cannot do is skipped,\n"
    "and the reason counted. Last line: N passed, N failed, N skipped.\n"
    "Exit status: 0 nothing failed, 1 something failed, 2 wrong use, or no case matched.\n"
    "\n"
    "  clattn check torch.safetensors --algorithm all --filter 'sdpa_causal*'\n";

typedef struct check {
    const char *path, *filter;
    clattn_safetensors *file;
    clattn_context *main, *cpu; /* main may be cpu; cpu is NULL while it is not needed */
    cla_check_target *targets;
    size_t target_count;
} check;

/* * and ? */
static bool matches(const char *glob, const char *text) {
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*glob == '*') {
            star = glob++;
            retry = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    return glob[strspn(glob, "*")] == '\0';
}

static bool is_case(const check *k, size_t i) {
    const char *name = clattn_safetensors_metadata_key(k->file, i);
    const char *text = name ? clattn_safetensors_metadata(k->file, name) : NULL;
    return text && text[strspn(text, " \t\r\n")] == '{' && (!k->filter || matches(k->filter, name));
}

/* ---- targets ---- */

/* Whether an algorithm belongs to a context: it does the plainest problem there. */
static bool at_home(clattn_context *context, size_t algorithm) {
    const int64_t shape[] = {4, 4};
    float zeros[16] = {0}, result[16];
    const clattn_tensor t = clattn_tensor_host(zeros, CLATTN_F32, 2, shape);
    const clattn_attention_args args = {.q = t, .k = t, .v = t, .o = clattn_tensor_host(result, CLATTN_F32, 2, shape)};
    bool applies = false;
    const char *reason;
    return clattn_algorithm_applies(context, &args, algorithm, &applies, &reason) == CLATTN_OK && applies;
}

static void add_target(check *k, clattn_context *context, size_t algorithm) {
    clattn_device_info info = {0};
    clattn_context_info(context, &info);
    cla_check_target *t = &k->targets[k->target_count++];
    *t = (cla_check_target){.context = context, .algorithm = algorithm, .label = "auto"};
    snprintf(t->device, sizeof t->device, "%s", info.spec);
    if (algorithm == CLA_CHECK_NONE)
        t->label = "-";
    else if (algorithm != CLA_CHECK_AUTO)
        t->label = clattn_algorithm_name(algorithm);
}

/* One for each context that is there, for cases without algorithms. */
static void add_targets_without(check *k) {
    const size_t count = k->target_count;
    for (size_t i = 0; i < count; i++) {
        bool seen = false;
        for (size_t j = 0; j < i; j++)
            seen |= k->targets[j].context == k->targets[i].context;
        if (!seen)
            add_target(k, k->targets[i].context, CLA_CHECK_NONE);
    }
}

static int algorithm_index(const char *name, size_t *index) {
    const char *names[64] = {NULL};
    for (size_t i = 0; i < clattn_algorithm_count() && i < 62; i++)
        names[i] = clattn_algorithm_name(i);
    const int found = cla_index_of(name, names);
    *index = found < 0 ? 0 : (size_t)found;
    if (found >= 0)
        return CLA_EXIT_OK;
    const char *near_name = cla_nearest(name, names);
    return cla_fail(CLA_EXIT_USAGE, "check: there is no algorithm '%s'%s%s%s; `clattn devices` lists them", name,
                    near_name ? "; did you mean " : "", near_name ? near_name : "", near_name ? "?" : "");
}

static int open_contexts(check *k, const char *device, bool with_cpu) {
    const int exit_status = cla_open(device, &k->main);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clattn_device_info info = {0};
    clattn_context_info(k->main, &info);
    if (!info.is_opencl) {
        k->cpu = k->main;
    } else if (with_cpu) {
        return cla_open("cpu", &k->cpu);
    }
    return CLA_EXIT_OK;
}

static int make_targets(check *k, const char *device, const char *algorithm) {
    const bool all = algorithm && strcmp(algorithm, "all") == 0;
    size_t index = CLA_CHECK_AUTO;
    int exit_status = CLA_EXIT_OK;
    if (algorithm && !all)
        exit_status = algorithm_index(algorithm, &index);
    if (exit_status == CLA_EXIT_OK)
        exit_status = open_contexts(k, device, all || (algorithm && !device));
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    k->targets = calloc(clattn_algorithm_count() + 3, sizeof *k->targets);
    if (!k->targets)
        return cla_fail(CLA_EXIT_FAILED, "check: out of memory");
    if (!all) {
        const bool elsewhere = algorithm && !device && !at_home(k->main, index) && at_home(k->cpu, index);
        add_target(k, elsewhere ? k->cpu : k->main, index);
    }
    for (size_t i = 0; all && i < clattn_algorithm_count(); i++) {
        const bool on_cpu = at_home(k->cpu, i);
        if (on_cpu || !device || k->main != k->cpu)
            add_target(k, on_cpu ? k->cpu : k->main, i);
    }
    add_targets_without(k);
    return CLA_EXIT_OK;
}

/* ---- running ---- */

static int run_cases(check *k) {
    const size_t count = clattn_safetensors_metadata_count(k->file);
    cla_progress progress = cla_progress_begin("check");
    cla_check_report report = {.progress = &progress};
    size_t found = 0, done = 0;
    for (size_t i = 0; i < count; i++)
        found += is_case(k, i);
    if (found == 0 && k->filter)
        return cla_fail(CLA_EXIT_USAGE, "check: no case of %s matches '%s'", k->path, k->filter);
    if (found == 0)
        return cla_fail(CLA_EXIT_USAGE, "check: %s holds no cases: its metadata has no JSON texts", k->path);
    cla_interrupt_watch();
    for (size_t i = 0; i < count && !cla_interrupted(); i++) {
        if (!is_case(k, i))
            continue;
        cla_check_case c;
        const char *name = clattn_safetensors_metadata_key(k->file, i);
        cla_check_case_open(k->file, name, clattn_safetensors_metadata(k->file, name), &c);
        for (size_t t = 0; t < k->target_count && !cla_interrupted(); t++) {
            cla_progress_step(&progress, (int64_t)done++, (int64_t)(found * k->target_count));
            cla_check_run(&c, &k->targets[t], &report);
        }
        cla_check_case_free(&c);
    }
    cla_progress_end(&progress);
    if (cla_interrupted())
        printf("interrupted: %zu of %zu runs\n", done, found * k->target_count);
    cla_check_report_print(&report);
    const bool failed = report.verdicts[CLA_CHECK_FAILED] > 0 || report.out_of_memory;
    cla_check_report_free(&report);
    return failed ? CLA_EXIT_FAILED : CLA_EXIT_OK;
}

int cla_cmd_check(int argc, char **argv) {
    static const cla_arg_spec specs[] = {{"device", 'd', CLA_ARG_VALUE},
                                         {"algorithm", 0, CLA_ARG_VALUE},
                                         {"filter", 0, CLA_ARG_VALUE},
                                         {"launch-ms", 0, CLA_ARG_VALUE},
                                         {NULL, 0, CLA_ARG_FLAG}};
    cla_args args;
    int exit_status = cla_args_parse("check", argc, argv, specs, 1, 1, "FILE.safetensors", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_launch_option("check", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    check k = {.path = args.words[0], .filter = cla_args_value(&args, "filter")};
    if (clattn_safetensors_open(k.path, &k.file) != CLATTN_OK)
        return cla_fail(CLA_EXIT_USAGE, "check: %s", clattn_last_error());
    exit_status = make_targets(&k, cla_args_value(&args, "device"), cla_args_value(&args, "algorithm"));
    if (exit_status == CLA_EXIT_OK)
        exit_status = run_cases(&k);
    free(k.targets);
    if (k.cpu != k.main)
        clattn_context_destroy(k.cpu);
    clattn_context_destroy(k.main);
    clattn_safetensors_close(k.file);
    return exit_status;
}
