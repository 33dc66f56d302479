/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn run`: load, compute, verify, draw, write; all files or none. */
#include "args.h"
#include "case_file.h"
#include "commands.h"
#include "heatmap.h"
#include "job.h"
#include "outputs.h"
#include "run_data.h"
#include "run_profile.h"
#include "run_verify.h"
#include "run_words.h"

#include <clattn/lint.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct run {
    cla_run_options options;
    cla_run_data data;
    clattn_context *context;
    clattn_device_info device;
    bool infinite; /* an input, which was said */
    cla_job_report report;
    cla_verification verification;
    cla_labels queries, keys;
    cla_profile_report profile;
    cla_outputs outputs;
    int o, lse, weights, column_sums, entropy, heatmap, dump, profile_json, roofline; /* places in outputs */
} run;

/* ---- before the work ---- */

static int declare_outputs(run *r) {
    const cla_run_options *o = &r->options;
    const char *const inputs[] = {o->q,
                                  o->k,
                                  o->v,
                                  o->keep,
                                  o->drop,
                                  o->bias,
                                  o->sinks,
                                  o->lengths,
                                  o->query_lengths,
                                  o->prefix_lengths,
                                  o->offsets,
                                  o->cu_queries,
                                  o->cu_keys,
                                  o->slopes,
                                  o->query_segments,
                                  o->key_segments,
                                  o->block_table,
                                  o->weights_rows,
                                  o->weights_heads};
    int exit_status;
    if ((exit_status = cla_outputs_add(&r->outputs, "-o", o->output, "o", &r->o)) != CLA_EXIT_OK ||
        (exit_status = cla_outputs_add(&r->outputs, "--lse", o->lse, "lse", &r->lse)) != CLA_EXIT_OK ||
        (exit_status = cla_outputs_add(&r->outputs, "--weights", o->weights, "weights", &r->weights)) != CLA_EXIT_OK ||
        (exit_status = cla_outputs_add(&r->outputs, "--column-sums", o->column_sums, "column_sums", &r->column_sums)) !=
            CLA_EXIT_OK ||
        (exit_status = cla_outputs_add(&r->outputs, "--entropy", o->entropy, "entropy", &r->entropy)) != CLA_EXIT_OK ||
        (exit_status = cla_outputs_add_file(&r->outputs, "--heatmap", o->heatmap, &r->heatmap)) != CLA_EXIT_OK ||
        (o->heatmap && (exit_status = cla_svg_check("run", "--heatmap", o->heatmap)) != CLA_EXIT_OK) ||
        (exit_status = cla_outputs_add_file(&r->outputs, "--dump", o->dump, &r->dump)) != CLA_EXIT_OK ||
        (exit_status = cla_outputs_add_file(&r->outputs, "--profile-json", o->profile_json, &r->profile_json)) !=
            CLA_EXIT_OK ||
        (exit_status = cla_outputs_add_file(&r->outputs, "--roofline", o->roofline, &r->roofline)) != CLA_EXIT_OK ||
        (o->roofline && (exit_status = cla_plot_check("run", "--roofline", o->roofline)) != CLA_EXIT_OK))
        return exit_status;
    return cla_outputs_check(&r->outputs, inputs, sizeof inputs / sizeof inputs[0]);
}

static int load_labels(run *r) {
    if (!r->options.labels)
        return CLA_EXIT_OK;
    const clattn_attention_args *a = &r->data.args;
    const int64_t keys = a->block_table ? a->table_pages * a->k.shape[2] : a->k.shape[2];
    return cla_labels_load(r->options.labels, a->q.shape[2], keys, &r->queries, &r->keys);
}

/* user: the run. */
static void print_warning(void *user, const clattn_warning *warning) {
    run *r = user;
    char text[1000];
    r->infinite |= warning->kind == CLATTN_LINT_F16_INFINITE;
    fprintf(stderr, "clattn: warning: %s\n", cla_run_words(&r->options, warning->text, text, sizeof text));
}

/* What cannot be computed at all is said when it is computed. */
static void lint(run *r) {
    if (!r->options.no_lint)
        clattn_lint(&r->data.args, print_warning, r);
}

/* With --verify the verdict says it. */
static void warn_of_nan(const run *r) {
    if (r->options.no_lint || r->options.verify || r->infinite)
        return;
    const cla_odd_results odd = cla_odd_results_of(&r->data.o);
    if (odd.count > 0 && odd.nan == odd.count)
        fprintf(stderr, "clattn: warning: all %lld results are NaN: look for NaN or infinities in Q, K, V or --bias\n",
                (long long)odd.count);
}

/* ---- the work ---- */

static int compute(run *r) {
    const clattn_status status = cla_job_run(r->context, &r->data.args, r->options.explain, &r->report);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_run_fail(&r->options, status, NULL);
}

static int draw(run *r) {
    if (r->heatmap < 0)
        return CLA_EXIT_OK;
    const clattn_attention_args *a = &r->data.args;
    clattn_array weights = {0};
    clattn_tensor view = a->weights;
    int exit_status = CLA_EXIT_OK;
    if (!cla_whole_weights(a)) {
        const clattn_status status = cla_run_data_weights(r->context, a, r->options.batch, &weights);
        if (status != CLATTN_OK)
            exit_status = cla_run_fail(&r->options, status, "--heatmap");
        view = clattn_array_tensor(&weights);
    } else {
        view = clattn_tensor_slice(view, 0, r->options.batch, 1);
    }
    if (exit_status == CLA_EXIT_OK) {
        char subtitle[400];
        snprintf(subtitle, sizeof subtitle, "batch %lld, %lld head%s, %lld %s \xc3\x97 %lld key%s, %s",
                 (long long)r->options.batch, (long long)view.shape[1], view.shape[1] == 1 ? "" : "s",
                 (long long)view.shape[2], view.shape[2] == 1 ? "query" : "queries", (long long)view.shape[3],
                 view.shape[3] == 1 ? "" : "s", clattn_dtype_name(view.dtype));
        cla_heatmap map = {.weights = view,
                           .title = "Attention weights",
                           .subtitle = subtitle,
                           .queries = r->queries.items ? &r->queries : NULL,
                           .keys = r->keys.items ? &r->keys : NULL};
        map.weights.rank = 3; /* [1, H, N, M] without its batch */
        for (int i = 0; i < 3; i++) {
            map.weights.shape[i] = view.shape[i + 1];
            map.weights.stride[i] = view.stride[i + 1];
        }
        exit_status = cla_heatmap_write(r->outputs.files[r->heatmap].staged, &map);
        r->outputs.files[r->heatmap].complete = exit_status == CLA_EXIT_OK;
    }
    clattn_array_free(&weights);
    return exit_status;
}

static bool is_profiled(const run *r) { return r->options.profile || r->options.profile_json || r->options.roofline; }

static int check_profiled(const run *r) {
    const cla_run_options *o = &r->options;
    if (!is_profiled(r) || r->device.is_opencl)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE, "run: --%s: %s runs no kernels; name an OpenCL device with --device",
                    o->profile        ? "profile"
                    : o->profile_json ? "profile-json"
                                      : "roofline",
                    r->device.spec);
}

static int profile(run *r) {
    cla_output *json = r->profile_json < 0 ? NULL : &r->outputs.files[r->profile_json];
    cla_output *plot = r->roofline < 0 ? NULL : &r->outputs.files[r->roofline];
    return is_profiled(r) ? cla_run_profile(&r->device, &r->data.args, json, plot, &r->profile) : CLA_EXIT_OK;
}

/* ---- the case ---- */

/* A result and its tolerance: that of the verification, or without one a usual one. When the run was wrong the exact
 * result, rounded to its type in *rounded. */
static clattn_status case_result(const run *r, int index, const clattn_tensor *view, clattn_array *rounded,
                                 cla_case_result *result) {
    const clattn_verdict *d = &r->verification.found.verdicts[index];
    const double rtol = view->dtype == CLATTN_F64    ? 1e-12
                        : view->dtype == CLATTN_F16  ? 1e-3
                        : view->dtype == CLATTN_BF16 ? 8e-3
                                                     : 1e-5;
    *result = (cla_case_result){.view = *view, .rtol = rtol, .atol = view->dtype == CLATTN_F64 ? 1e-13 : 4e-6};
    if (view->rank == 0 || !d->tensor)
        return CLATTN_OK;
    result->rtol = 0;
    result->atol = d->allowed;
    if (d->ok)
        return CLATTN_OK;
    const clattn_status status = clattn_array_convert(&r->verification.exact[index], view->dtype, rounded);
    result->got = *view;
    result->view = clattn_array_tensor(rounded);
    return status;
}

static int dump(run *r) {
    if (r->dump < 0)
        return CLA_EXIT_OK;
    const clattn_attention_args *a = &r->data.args;
    const bool verified = r->verification.done;
    const char *note = !verified ? "results of this run; tolerances are usual ones, --verify measures them"
                       : r->verification.found.ok
                           ? "results of this run, verified"
                           : "this run was wrong: Y, LSE and P are the exact results, *_got its own";
    cla_case c = {.args = a, .device = &r->device, .algorithm = r->report.algorithm, .note = note};
    clattn_array rounded[CLATTN_VERDICTS] = {{0}};
    clattn_status status = case_result(r, 0, &a->o, &rounded[0], &c.o);
    if (status == CLATTN_OK)
        status = case_result(r, 1, &a->lse, &rounded[1], &c.lse);
    if (status == CLATTN_OK && cla_whole_weights(a)) /* a case has no others */
        status = case_result(r, 2, &a->weights, &rounded[2], &c.weights);
    int exit_status = CLA_EXIT_OK;
    if (status != CLATTN_OK)
        exit_status = cla_fail_status(status, "--dump");
    else
        exit_status = cla_case_write(r->outputs.files[r->dump].staged, &c);
    r->outputs.files[r->dump].complete = exit_status == CLA_EXIT_OK;
    for (int i = 0; i < CLATTN_VERDICTS; i++)
        clattn_array_free(&rounded[i]);
    return exit_status;
}

/* ---- after the work ---- */

static void print_tensor(const char *name, const clattn_array *array, const char *spec) {
    char text[200];
    if (spec)
        printf("%-8s %s %s in %s\n", name, clattn_dtype_name(array->dtype),
               cla_dims_text(array->rank, array->shape, text, sizeof text), spec);
}

static void print_summary(const run *r) {
    const cla_run_options *o = &r->options;
    print_tensor("o", &r->data.o, o->output);
    print_tensor("lse", &r->data.lse, o->lse);
    print_tensor("weights", &r->data.weights, o->weights);
    print_tensor("sums", &r->data.column_sums, o->column_sums);
    print_tensor("entropy", &r->data.entropy, o->entropy);
    if (o->heatmap)
        printf("%-8s batch %lld in %s\n", "heat map", (long long)o->batch, o->heatmap);
    if (o->dump)
        printf("%-8s in %s; `clattn check %s` replays it\n", "case", o->dump, o->dump);
    const bool seconds = r->report.seconds >= 1;
    printf("%-8s %s on %s (%s), %.3g %s", "by", r->report.algorithm, r->device.spec, r->device.name,
           r->report.seconds * (seconds ? 1 : 1e3), seconds ? "s" : "ms");
    if (seconds && r->report.compiled > 0)
        printf(", in which the device's compiler built %zu %s", r->report.compiled,
               r->report.compiled == 1 ? "program" : "programs");
    puts("");
}

/* A result that verification found wrong is not written; the case that shows it is. */
static int finish(run *r) {
    const bool wrong = r->options.verify && !r->verification.found.ok;
    int exit_status = dump(r);
    if (exit_status == CLA_EXIT_OK && !wrong) {
        if ((exit_status = draw(r)) != CLA_EXIT_OK || (exit_status = profile(r)) != CLA_EXIT_OK)
            return exit_status;
        cla_outputs_set(&r->outputs, r->o, &r->data.o);
        cla_outputs_set(&r->outputs, r->lse, &r->data.lse);
        cla_outputs_set(&r->outputs, r->weights, &r->data.weights);
        cla_outputs_set(&r->outputs, r->column_sums, &r->data.column_sums);
        cla_outputs_set(&r->outputs, r->entropy, &r->data.entropy);
        exit_status = cla_outputs_stage(&r->outputs);
    }
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_outputs_commit(&r->outputs);
    if (wrong)
        return exit_status == CLA_EXIT_OK ? cla_verify_report(&r->verification) : exit_status;
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    print_summary(r);
    if (is_profiled(r))
        cla_profile_print(&r->profile);
    return r->options.verify ? cla_verify_report(&r->verification) : CLA_EXIT_OK;
}

static int work(run *r) {
    int exit_status;
    if ((exit_status = declare_outputs(r)) != CLA_EXIT_OK ||
        (exit_status = cla_run_data_load(&r->options, &r->data)) != CLA_EXIT_OK ||
        (exit_status = load_labels(r)) != CLA_EXIT_OK ||
        (exit_status = cla_open(r->options.device, &r->context)) != CLA_EXIT_OK)
        return exit_status;
    clattn_context_info(r->context, &r->device);
    if ((exit_status = check_profiled(r)) != CLA_EXIT_OK)
        return exit_status;
    lint(r);
    if ((exit_status = compute(r)) != CLA_EXIT_OK)
        return exit_status;
    warn_of_nan(r);
    const int64_t rows = r->dump < 0 ? r->options.verify_rows : CLATTN_ALL_ROWS; /* a case holds all expected results */
    if (r->options.verify &&
        (exit_status = cla_verify(&r->data.args, &r->data.o, rows, &r->verification)) != CLA_EXIT_OK)
        return exit_status;
    return finish(r);
}

int cla_cmd_run(int argc, char **argv) {
    run *r = calloc(1, sizeof *r);
    if (!r)
        return cla_fail(CLA_EXIT_FAILED, "run: out of memory");
    int exit_status = cla_run_options_parse(argc, argv, &r->options);
    if (exit_status == CLA_EXIT_OK)
        exit_status = work(r);
    cla_outputs_free(&r->outputs);
    cla_verify_free(&r->verification);
    cla_labels_free(&r->queries);
    cla_labels_free(&r->keys);
    cla_run_data_free(&r->data);
    clattn_context_destroy(r->context);
    free(r);
    return exit_status;
}
