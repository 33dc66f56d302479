/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs, and what is common to them: help, version, and that what was printed arrived. */
#include "args.h"
#include "commands.h"
#include "interrupt.h"
#include "option_values.h"

#include <clattn/version.h>
#include <stdio.h>
#include <string.h>

typedef struct verb {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
    const char *const *help, *const *more; /* more: NULL, or the rest: ISO C lets a literal have 4095 characters */
} verb;

static const verb verbs[] = {
    {"run", "attention of three tensor files", cla_cmd_run, &cla_help_run, &cla_help_run_more},
    {"check", "replay packed test cases", cla_cmd_check, &cla_help_check, NULL},
    {"bench", "time devices and algorithms against each other", cla_cmd_bench, &cla_help_bench, NULL},
    {"tune", "find and record what is fastest here", cla_cmd_tune, &cla_help_tune, NULL},
    {"study", "the experiments of the articles, their figures beside ours", cla_cmd_study, &cla_help_study, NULL},
    {"devices", "what can compute here, and how", cla_cmd_devices, &cla_help_devices, NULL},
    {"doctor", "what is wrong with this machine's OpenCL, and how to mend it", cla_cmd_doctor, &cla_help_doctor, NULL},
    {"inspect", "what is in an npy, safetensors or GGUF file", cla_cmd_inspect, &cla_help_inspect, NULL},
};
enum { VERB_COUNT = sizeof verbs / sizeof verbs[0] };

static void print_help(FILE *to) {
    fprintf(to, "clattn %s: Transformer attention on OpenCL devices and CPUs\n\nUsage: clattn VERB ...\n\n",
            clattn_version());
    for (size_t i = 0; i < VERB_COUNT; i++)
        fprintf(to, "  %-9s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(to,
            "\n`clattn VERB --help` tells a verb's options, `clattn help --layout` the words that one takes;\n"
            "`clattn --version` the version.\n"
            "Exit status: 0 right, 1 a wrong result or a failed job, 2 wrong use; 130 or 143 ended by Ctrl-C or\n"
            "SIGTERM, upon which bench, tune, study and check stop where they are and write what they have so\n"
            "far; a second one ends them at once.\n"
            "Environment: CLATTN_DEVICE is the device where --device is not given; CLATTN_CACHE_DIR the folder in\n"
            "which compiled kernels are kept (default ~/.cache/clattn), or off; CLATTN_TUNING_FILE the\n"
            "record of `clattn tune` (default tuning.txt there), or off; CLATTN_LAUNCH_MS about how many\n"
            "milliseconds a device may be busy at a stretch, for its watchdog (default 500 on GPUs, -1: no bound),\n"
            "where --launch-ms is not given; CLATTN_SELF_TEST whether kernels are tested before they are\n"
            "used, on (default for GPUs) or off.\n");
}

static const verb *find_verb(const char *name) {
    for (size_t i = 0; i < VERB_COUNT; i++)
        if (strcmp(verbs[i].name, name) == 0)
            return &verbs[i];
    return NULL;
}

static int fail_verb(const char *name) {
    const char *names[VERB_COUNT + 1];
    for (size_t i = 0; i < VERB_COUNT; i++)
        names[i] = verbs[i].name;
    names[VERB_COUNT] = NULL;
    const char *near_name = cla_nearest(name, names);
    if (near_name)
        return cla_fail(CLA_EXIT_USAGE, "there is no verb '%s'; did you mean `clattn %s`?", name, near_name);
    return cla_fail(CLA_EXIT_USAGE, "there is no verb '%s'; `clattn --help` lists them", name);
}

static bool wants_help(int argc, char **argv) {
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int dispatch(int argc, char **argv) {
    const char *first = argc > 0 ? argv[0] : "";
    if (argc == 0) {
        print_help(stderr);
        return CLA_EXIT_USAGE;
    }
    if (strcmp(first, "--version") == 0) {
        printf("clattn %s\n", clattn_version());
        return CLA_EXIT_OK;
    }
    const bool help = strcmp(first, "help") == 0;
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || (help && argc == 1)) {
        print_help(stdout);
        return CLA_EXIT_OK;
    }
    const char *name = help ? argv[1] : first;
    const verb *v = find_verb(name);
    if (help && cla_option_values_print(name, stdout))
        return CLA_EXIT_OK;
    if (!v)
        return fail_verb(name);
    if (help || wants_help(argc - 1, argv + 1)) {
        fputs(*v->help, stdout);
        if (v->more)
            fputs(*v->more, stdout);
        return CLA_EXIT_OK;
    }
    return v->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    cla_interrupt_begin();
    const int exit_status = cla_interrupt_exit(dispatch(argc - 1, argv + 1));
    if ((fflush(stdout) != 0 || ferror(stdout)) && exit_status == CLA_EXIT_OK)
        return cla_fail(CLA_EXIT_FAILED, "standard output cannot be written: is the disk full?");
    return exit_status;
}
