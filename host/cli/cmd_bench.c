/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn bench`: devices and algorithms against each other, as a size grows. */
#include "args.h"
#include "bench_file.h"
#include "bench_linear.h"
#include "bench_report.h"
#include "bench_sweep.h"
#include "commands.h"
#include "interrupt.h"
#include "job.h"
#include "outputs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const cla_help_bench =
    "Usage: clattn bench 'PROBLEM'... [--file F] [--sweep n=512:8192] [--devices LIST] [--algorithms LIST]\n"
    "                    [--backward] [--repeat N] [--limit SECONDS] [--launch-ms X] [--peak] [--profile]\n"
    "                    [--json F] [--plot F] [--roofline F]\n"
    "\n"
    "Times attention on OpenCL devices and on CPU paths. A problem is one text, in quotes, words in any order:\n"
    "\n"
    "  b2             batch (1)                      h8, h8/2   query heads, and key heads (1)\n"
    "  n1024, q5 k9   queries and keys               d64, v80   query-key dim and value dim (v as d)\n"
    "  f32 f64 f16 bf16   type (f32)                 kv=T, kv=K,V   types of k and v, also q8_0 and q4_0 (the type)\n"
    "  o=T            type of o (the type)           scale=X        (1 / sqrt(d))\n"
    "  causal, causal=A   A: top-left, bottom-right, or the key at which query 0 stands\n"
    "  window=L,R     keys seen left and right; inf: no limit; without causal and with q unlike k, align=A too\n"
    "  softcap=X      a soft cap                     alibi          the usual slopes\n"
    "  keep bias sinks lengths qlengths prefix   random masks, additive masks, sinks, key lengths, query lengths,\n"
    "                 lengths of prefixes that causal does not hide\n"
    "  segments       four segments                  varlen         b sequences of random lengths up to q and k\n"
    "  pages=P        k and v in pages of P keys     invariant      batch_invariant\n"
    "\n"
    "  --sweep L=A:B[:F]  each problem at L = A, A*F, ... up to B, with L one of n q k b h d v; F is 2 if not given\n"
    "  -d, --devices LIST with commas: opencl, opencl:gpu, opencl:0:0, cpu; the best OpenCL device and cpu if not "
    "given\n"
    "  --algorithms LIST  with commas, or `all`; if not given all but `reference`, which then runs only when small\n"
    "  --backward         forward and backward pass, dQ, dK and dV: each run together, and each alone; an algorithm "
    "runs\n"
    "                     both. Operations of the backward pass are 2.5 times those of the forward one where v is d\n"
    "  --repeat N         timed runs of each; 7 if not given, and more of what is quick\n"
    "  --limit SECONDS    for the repeats of one algorithm on one problem; what would take longer is cut short and "
    "said\n"
    "                     (10)\n"
    "  --launch-ms X      milliseconds of a launch at most, for a watchdog (500 on GPUs, else no bound; -1: no bound)\n"
    "  --file FILE        more problems, one a line: [NAME:] [backward] PROBLEM [; goals of bench/peers.py] # "
    "comment;\n"
    "                     with --backward those that say so, else the others\n"
    "  --peak             measures multiply-adds and reading in between; `of peak`: the time that they allow over "
    "ours\n"
    "  --profile          each kernel of each OpenCL device: time, GFLOP/s, GB/s, share of what the peaks allow\n"
    "  --roofline F.svg   its plot: GFLOP/s over operations per byte; needs gnuplot\n"
    "  --json FILE        a list of {problem, device, algorithm, median_ms, min_ms, max_ms, transfers_ms, gflops,\n"
    "                     peak_bytes, cold_ms, ...}, with --backward also forward_ms, backward_ms, forward_gflops,\n"
    "                     backward_gflops\n"
    "  --plot FILE.svg    milliseconds over the swept size; needs gnuplot\n"
    "\n"
    "  --linear           problems are linear layers instead, as in 'm4096 n384 k1536 f32 bias gelu': rows, outputs,\n"
    "                     inputs, type, w=T for the type of w (q8_0, q4_0, q4_1 too), relu gelu gelu_tanh silu; with\n"
    "                     --devices, --algorithms, --repeat, --launch-ms and --json alone\n"
    "\n"
    "median, min, max: executions of a plan on tensors that lie on the device. transfers: one call on host arrays.\n"
    "cold: plan and first run of this process, with the kernel builds that the driver has not kept.\n"
    "peak: tensors and scratch. x blas: how many times as fast as that. Algorithms take turns, so that noise hits all\n"
    "alike; results are compared, and one that is off is a failure (exit status 1). A warning tells where the middle\n"
    "half of the runs lies more than 20 % of the median apart.\n"
    "\n"
    "  clattn bench 'b1 h8 d64 causal' --sweep n=512:8192 --plot scaling.svg\n";

static const cla_arg_spec specs[] = {
    {"sweep", 0, CLA_ARG_VALUE},     {"devices", 'd', CLA_ARG_VALUE}, {"algorithms", 0, CLA_ARG_VALUE},
    {"repeat", 0, CLA_ARG_VALUE},    {"limit", 0, CLA_ARG_VALUE},     {"json", 0, CLA_ARG_VALUE},
    {"plot", 0, CLA_ARG_VALUE},      {"file", 0, CLA_ARG_VALUE},      {"peak", 0, CLA_ARG_FLAG},
    {"profile", 0, CLA_ARG_FLAG},    {"roofline", 0, CLA_ARG_VALUE},  {"backward", 0, CLA_ARG_FLAG},
    {"launch-ms", 0, CLA_ARG_VALUE}, {NULL, 0, CLA_ARG_FLAG}};

/* ---- devices ---- */

static int open_device(cla_bench *bench, const char *spec) {
    if (bench->device_count == CLA_BENCH_DEVICES_MAX)
        return cla_fail(CLA_EXIT_USAGE, "bench: more than %d devices", CLA_BENCH_DEVICES_MAX);
    cla_bench_device *d = &bench->devices[bench->device_count];
    const int exit_status = cla_open(spec, &d->context);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    bench->device_count++;
    clattn_context_info(d->context, &d->info);
    for (size_t i = 0; i + 1 < bench->device_count; i++)
        if (strcmp(bench->devices[i].info.spec, d->info.spec) == 0)
            return cla_fail(CLA_EXIT_USAGE, "bench: --devices: %s and an earlier entry are the same device, %s", spec,
                            d->info.spec);
    return CLA_EXIT_OK;
}

/* Calls take for every part of "a,b,c". */
static int each_part(cla_bench *bench, const char *list, const char *option,
                     int (*take)(cla_bench *bench, const char *part)) {
    char part[256];
    int exit_status = CLA_EXIT_OK;
    for (const char *at = list; exit_status == CLA_EXIT_OK; at++) {
        const size_t length = strcspn(at, ",");
        if (length == 0 || length >= sizeof part)
            return cla_fail(CLA_EXIT_USAGE, "bench: --%s '%s': an entry is %s", option, list,
                            length == 0 ? "empty" : "too long");
        memcpy(part, at, length);
        part[length] = '\0';
        exit_status = take(bench, part);
        at += length;
        if (*at == '\0')
            break;
    }
    return exit_status;
}

static int open_devices(cla_bench *bench, const char *list) {
    if (list)
        return each_part(bench, list, "devices", open_device);
    const int exit_status = open_device(bench, NULL);
    return exit_status == CLA_EXIT_OK && bench->devices[0].info.is_opencl ? open_device(bench, "cpu") : exit_status;
}

static int make_meters(cla_bench *bench) {
    for (size_t i = 0; i < bench->device_count; i++)
        if (bench->devices[i].info.is_opencl &&
            clattn_meter_create(bench->devices[i].context, &bench->devices[i].meter) != CLATTN_OK)
            return cla_fail(CLA_EXIT_FAILED, "bench: --peak: %s", clattn_last_error());
    return CLA_EXIT_OK;
}

/* ---- algorithms ---- */

static int add_algorithm(cla_bench *bench, const char *name) {
    const char *names[64] = {NULL};
    for (size_t i = 0; i < clattn_algorithm_count() && i < 62; i++)
        names[i] = clattn_algorithm_name(i);
    const int index = cla_index_of(name, names);
    const char *near_name = index < 0 ? cla_nearest(name, names) : NULL;
    if (index < 0)
        return cla_fail(CLA_EXIT_USAGE, "bench: there is no algorithm '%s'%s%s%s; `clattn devices` lists them", name,
                        near_name ? "; did you mean " : "", near_name ? near_name : "", near_name ? "?" : "");
    for (size_t i = 0; i < bench->algorithm_count; i++)
        if (bench->algorithms[i] == (size_t)index)
            return cla_fail(CLA_EXIT_USAGE, "bench: --algorithms: %s is there twice", name);
    bench->algorithms[bench->algorithm_count++] = (size_t)index;
    return CLA_EXIT_OK;
}

static int choose_algorithms(cla_bench *bench, const char *list) {
    bench->algorithms = calloc(clattn_algorithm_count() + 1, sizeof *bench->algorithms);
    if (!bench->algorithms)
        return cla_fail(CLA_EXIT_FAILED, "bench: out of memory");
    bench->algorithms_given = list != NULL;
    if (list && strcmp(list, "all") != 0)
        return each_part(bench, list, "algorithms", add_algorithm);
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        bench->algorithms[bench->algorithm_count++] = i;
    return CLA_EXIT_OK;
}

/* ---- all of it ---- */

static int read_numbers(cla_bench *bench, const cla_args *args) {
    const char *repeat = cla_args_value(args, "repeat"), *limit = cla_args_value(args, "limit");
    int64_t repeats = 0;
    bench->limit_seconds = 10;
    if (repeat && (!cla_parse_i64(repeat, &repeats) || repeats < 1 || repeats > CLA_BENCH_REPEATS_MAX))
        return cla_fail(CLA_EXIT_USAGE, "bench: --repeat %s: a number from 1 to %d is needed", repeat,
                        CLA_BENCH_REPEATS_MAX);
    if (limit && (!cla_parse_f64(limit, &bench->limit_seconds) || !(bench->limit_seconds > 0)))
        return cla_fail(CLA_EXIT_USAGE, "bench: --limit %s: a number of seconds above 0 is needed", limit);
    bench->repeats = (int)repeats;
    bench->profile = cla_args_given(args, "profile") || cla_args_given(args, "roofline");
    return CLA_EXIT_OK;
}

static int make_entries(cla_bench *bench) {
    bench->entries =
        calloc(bench->problem_count * bench->device_count * bench->algorithm_count, sizeof *bench->entries);
    if (!bench->entries)
        return cla_fail(CLA_EXIT_FAILED, "bench: out of memory");
    for (size_t p = 0; p < bench->problem_count; p++)
        for (size_t d = 0; d < bench->device_count; d++)
            for (size_t a = 0; a < bench->algorithm_count; a++) {
                cla_bench_entry *e = cla_bench_entry_at(bench, p, d, a);
                e->problem = &bench->problems[p];
                e->device = &bench->devices[d];
                e->algorithm = bench->algorithms[a];
            }
    return CLA_EXIT_OK;
}

/* Exit status 1 when something failed, or nothing could be measured. */
static int measure(cla_bench *bench, size_t *measured) {
    size_t failed = 0, done = 0;
    cla_bench_print_devices(bench);
    for (size_t p = 0; p < bench->problem_count && !cla_interrupted(); p++) {
        if (!cla_bench_run(bench, p))
            return cla_fail(CLA_EXIT_FAILED, "bench: %s: %s", bench->problems[p].text,
                            clattn_last_error()[0] ? clattn_last_error() : "out of memory");
        cla_bench_print_problem(bench, p);
        done += !cla_interrupted();
    }
    for (size_t i = 0; i < bench->problem_count * bench->device_count * bench->algorithm_count; i++) {
        *measured += bench->entries[i].state == CLA_BENCH_MEASURED;
        failed += bench->entries[i].state == CLA_BENCH_FAILED;
    }
    cla_bench_print_left_out(bench);
    cla_bench_print_crossovers(bench);
    if (cla_interrupted())
        printf("interrupted: %zu of %zu problems were measured to the end\n", done, bench->problem_count);
    else if (*measured == 0)
        return cla_fail(CLA_EXIT_FAILED, "bench: nothing was measured");
    return failed > 0 ? CLA_EXIT_FAILED : CLA_EXIT_OK;
}

/* Before the measurement, so that it is not lost to a wrong path. */
static int declare_outputs(cla_outputs *outputs, const cla_args *args) {
    static const char *const names[] = {"json", "plot", "roofline"}, *const options[] = {"--json", "--plot",
                                                                                         "--roofline"};
    int exit_status = CLA_EXIT_OK, index;
    for (int i = 0; i < 3 && exit_status == CLA_EXIT_OK; i++)
        exit_status = cla_outputs_add_file(outputs, options[i], cla_args_value(args, names[i]), &index);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_outputs_check(outputs, NULL, 0);
    for (int i = 1; i < 3 && exit_status == CLA_EXIT_OK; i++)
        if (cla_args_value(args, names[i]))
            exit_status = cla_plot_check("bench", options[i], cla_args_value(args, names[i]));
    return exit_status;
}

static int plot_roofline(const cla_bench *bench, const char *path) {
    const size_t entries = bench->problem_count * bench->device_count * bench->algorithm_count;
    const cla_profile_report **reports = calloc(entries + 1, sizeof *reports);
    size_t count = 0;
    for (size_t i = 0; reports && i < entries; i++)
        if (bench->entries[i].state == CLA_BENCH_MEASURED && bench->entries[i].profile)
            reports[count++] = bench->entries[i].profile;
    int exit_status = !reports     ? cla_fail(CLA_EXIT_FAILED, "bench: out of memory")
                      : count == 0 ? cla_fail(CLA_EXIT_FAILED, "bench: --roofline: nothing was profiled")
                                   : cla_profile_plot(reports, count, "bench: --roofline", path);
    free(reports);
    return exit_status;
}

/* Files are written even when an algorithm failed, or the user ended it: they hold what was measured. */
static int run(cla_bench *bench, cla_outputs *outputs) {
    size_t measured = 0;
    cla_interrupt_watch();
    const int exit_status = measure(bench, &measured);
    int written = CLA_EXIT_OK;
    if (measured == 0 && cla_interrupted())
        return exit_status;
    for (int i = 0; i < outputs->count && written == CLA_EXIT_OK; i++) {
        cla_output *f = &outputs->files[i];
        written = strcmp(f->option, "--json") == 0   ? cla_bench_write_json(bench, f->staged)
                  : strcmp(f->option, "--plot") == 0 ? cla_bench_plot(bench, f->staged)
                                                     : plot_roofline(bench, f->staged);
        f->complete = written == CLA_EXIT_OK;
    }
    if (written == CLA_EXIT_OK)
        written = cla_outputs_commit(outputs);
    return exit_status == CLA_EXIT_OK ? written : exit_status;
}

static void destroy(cla_bench *bench) {
    for (size_t i = 0; i < bench->device_count; i++) {
        clattn_meter_destroy(bench->devices[i].meter);
        clattn_context_destroy(bench->devices[i].context);
    }
    for (size_t i = 0; bench->entries && i < bench->problem_count * bench->device_count * bench->algorithm_count; i++)
        free(bench->entries[i].profile);
    free(bench->problems);
    free(bench->algorithms);
    free(bench->entries);
}

int cla_cmd_bench(int argc, char **argv) {
    cla_args args;
    cla_bench bench = {0};
    cla_outputs outputs = {0};
    cla_bench_file file = {0};
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--linear") == 0)
            return cla_bench_linear(argc, argv);
    int exit_status = cla_args_parse("bench", argc, argv, specs, 0, -1, "'PROBLEM'...", &args);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    bench.backward = cla_args_given(&args, "backward");
    exit_status = cla_launch_option("bench", &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status =
            cla_bench_file_read(cla_args_value(&args, "file"), args.words, args.word_count, bench.backward, &file);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_bench_sweep(&bench, file.texts, file.count, cla_args_value(&args, "sweep"));
    if (exit_status == CLA_EXIT_OK)
        exit_status = read_numbers(&bench, &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = choose_algorithms(&bench, cla_args_value(&args, "algorithms"));
    if (exit_status == CLA_EXIT_OK)
        exit_status = declare_outputs(&outputs, &args);
    if (exit_status == CLA_EXIT_OK)
        exit_status = open_devices(&bench, cla_args_value(&args, "devices"));
    if (exit_status == CLA_EXIT_OK && cla_args_given(&args, "peak"))
        exit_status = make_meters(&bench);
    if (exit_status == CLA_EXIT_OK)
        exit_status = make_entries(&bench);
    if (file.linear > 0 && exit_status == CLA_EXIT_OK)
        printf("%zu linear layers of --file are no attention: not run\n", file.linear);
    if (file.other > 0 && exit_status == CLA_EXIT_OK)
        printf("%zu problems of --file are %s --backward: not run\n", file.other, bench.backward ? "without" : "for");
    if (exit_status == CLA_EXIT_OK)
        exit_status = run(&bench, &outputs);
    cla_outputs_free(&outputs);
    cla_bench_file_free(&file);
    destroy(&bench);
    return exit_status;
}
