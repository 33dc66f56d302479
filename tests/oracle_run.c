/* SPDX-License-Identifier: Apache-2.0 */
/* Running an algorithm on a problem, and judging what comes out. */
#include "oracle_internal.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- running ---- */

/* As much as the plan asks for, full of filler. */
clattn_status oracle_give_workspace(clattn_context *context, const oracle_config *config, clattn_plan *plan,
                                    clattn_buffer **workspace) {
    clattn_plan_info info;
    clattn_status status = clattn_plan_info_get(plan, &info);
    if (status == CLATTN_OK)
        status = clattn_buffer_create(context, info.workspace_bytes, workspace);
    if (status != CLATTN_OK)
        return status;
    void *filler = oracle_alloc(info.workspace_bytes, 1);
    oracle_spread(config->filler, config->dtype, filler, info.workspace_bytes);
    status = clattn_buffer_upload(*workspace, 0, filler, info.workspace_bytes);
    free(filler);
    return status == CLATTN_OK ? clattn_plan_set_workspace(plan, *workspace) : status;
}

/* Uploads the arrays, and lets args point at the buffers. */
clattn_status oracle_arrays_place(clattn_context *context, oracle_arrays *arrays, clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; status == CLATTN_OK && i < arrays->count; i++) {
        oracle_array *a = &arrays->list[i];
        status = clattn_buffer_create(context, a->bytes, &a->buffer);
        if (status == CLATTN_OK)
            status = clattn_buffer_upload(a->buffer, 0, a->data, a->bytes);
    }
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (arrays->view[t].rank) {
            clattn_tensor *tensor = oracle_args_tensor(args, t);
            tensor->host = NULL;
            tensor->buffer = arrays->list[arrays->of[t]].buffer;
        }
    return status;
}

static clattn_status over_buffers(const oracle_config *config, oracle_arrays *arrays, clattn_context *context) {
    clattn_attention_args args = arrays->args;
    clattn_plan *plan = NULL;
    clattn_buffer *workspace = NULL;
    clattn_status status = oracle_arrays_place(context, arrays, &args);
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &args, &plan);
    if (status == CLATTN_OK && args.caller_workspace)
        status = oracle_give_workspace(context, config, plan, &workspace);
    if (status == CLATTN_OK)
        status = clattn_plan_execute(plan, NULL);
    for (int i = 0; status == CLATTN_OK && i < arrays->count; i++)
        status = clattn_buffer_download(arrays->list[i].buffer, 0, arrays->list[i].data, arrays->list[i].bytes);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(workspace);
    return status;
}

static const char *named(const char *algorithm) { return algorithm ? algorithm : "(chosen)"; }

bool oracle_run(oracle_case *c, clattn_context *context, const char *algorithm, char text[ORACLE_TEXT]) {
    static const char *const names[ORACLE_TENSORS] = {"q",       "k",    "v",    "o",    "lse",
                                                      "weights", "keep", "drop", "bias", "sinks"};
    oracle_arrays arrays;
    char problem[ORACLE_TEXT];
    size_t at = 0;
    oracle_arrays_make(c, &arrays);
    arrays.args.algorithm = algorithm;
    const clattn_status status =
        c->config.buffers ? over_buffers(&c->config, &arrays, context) : clattn_attention(context, &arrays.args);
    if (status != CLATTN_OK)
        snprintf(text, ORACLE_TEXT, "%s on %.400s: %s: %.400s", named(algorithm), oracle_text(&c->config, problem),
                 clattn_status_name(status), clattn_last_error());
    const int damaged = status == CLATTN_OK ? oracle_arrays_damage(&arrays, &at) : -1;
    int tensor = 0;
    while (damaged >= 0 && tensor < ORACLE_TENSORS - 1 && !(arrays.view[tensor].rank && arrays.of[tensor] == damaged))
        tensor++;
    if (damaged >= 0)
        snprintf(text, ORACLE_TEXT, "%s on %.400s: byte %zu of the array of %s, %zu bytes, has changed",
                 named(algorithm), oracle_text(&c->config, problem), at, names[tensor], arrays.list[damaged].bytes);
    if (status == CLATTN_OK)
        oracle_arrays_take(c, &arrays, &c->got);
    oracle_arrays_free(&arrays);
    return status == CLATTN_OK && damaged < 0;
}

size_t oracle_variants(oracle_case *c, clattn_context *context, const char *algorithm,
                       char variants[ORACLE_VARIANTS][ORACLE_VARIANT], char text[ORACLE_TEXT]) {
    oracle_arrays arrays;
    clattn_plan *plan = NULL;
    size_t count = 0;
    oracle_arrays_make(c, &arrays);
    clattn_attention_args args = arrays.args;
    args.algorithm = algorithm;
    clattn_status status = oracle_arrays_place(context, &arrays, &args);
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &args, &plan);
    for (const char *v; status == CLATTN_OK && count < ORACLE_VARIANTS && (v = clattn_plan_variant(plan, count));)
        snprintf(variants[count++], ORACLE_VARIANT, "%s", v);
    if (status != CLATTN_OK)
        snprintf(text, ORACLE_TEXT, "%s: %.400s", named(algorithm), clattn_last_error());
    clattn_plan_destroy(plan);
    oracle_arrays_free(&arrays);
    return count;
}

/* ---- judging ---- */

/* Index of the worst element; its badness is infinite where NaN or infinities differ. */
static int64_t worst(const double *got, const double *exact, int64_t count, double *error) {
    int64_t at = 0;
    *error = 0;
    for (int64_t i = 0; i < count; i++) {
        const bool special = !isfinite(got[i]) || !isfinite(exact[i]);
        const bool same = isnan(got[i]) ? isnan(exact[i]) : got[i] == exact[i];
        const double e = special ? (same ? 0 : INFINITY) : fabs(got[i] - exact[i]);
        if (e > *error) {
            *error = e;
            at = i;
        }
    }
    return at;
}

static bool compare(const oracle_case *c, const char *algorithm, const char *name, const double *got,
                    const double *exact, int64_t last, double allowed, char text[ORACLE_TEXT]) {
    const oracle_config *f = &c->config;
    char problem[ORACLE_TEXT];
    double error;
    const int64_t rows = f->B * f->H * f->N, at = worst(got, exact, rows * last, &error), row = at / last;
    if (error <= allowed)
        return true;
    snprintf(text, ORACLE_TEXT, "%s on %.500s: %s[%lld, %lld, %lld, %lld] is %.17g, exact %.17g, error %.3g > %.3g",
             named(algorithm), oracle_text(f, problem), name, (long long)(row / (f->H * f->N)),
             (long long)(row / f->N % f->H), (long long)(row % f->N), (long long)(at % last), got[at], exact[at], error,
             allowed);
    return false;
}

bool oracle_compare(const oracle_case *c, const char *algorithm, char text[ORACLE_TEXT]) {
    const oracle_config *f = &c->config;
    return compare(c, algorithm, "o", c->got.o, c->exact.o, f->Dv, c->allowed.o, text) &&
           (!f->lse || compare(c, algorithm, "lse", c->got.lse, c->exact.lse, 1, c->allowed.lse, text)) &&
           (!f->weights ||
            compare(c, algorithm, "weights", c->got.weights, c->exact.weights, f->M, c->allowed.weights, text));
}

bool oracle_check(oracle_case *c, clattn_context *context, const char *algorithm, char text[ORACLE_TEXT]) {
    return oracle_exact(c, text) && oracle_run(c, context, algorithm, text) && oracle_compare(c, algorithm, text);
}

/* ---- runners ---- */

bool oracle_applies(oracle_case *c, const oracle_runner *runner, const char **reason) {
    oracle_arrays arrays;
    bool applies = false;
    oracle_arrays_make(c, &arrays);
    for (size_t i = 0; i < clattn_algorithm_count(); i++)
        if (strcmp(clattn_algorithm_name(i), runner->algorithm) == 0 &&
            clattn_algorithm_applies(runner->context, &arrays.args, i, &applies, reason) != CLATTN_OK && reason)
            *reason = clattn_last_error();
    oracle_arrays_free(&arrays);
    return applies;
}

size_t oracle_open_each(oracle_runner runners[ORACLE_RUNNERS], const char *(*name)(size_t index),
                        bool (*takes)(void *data, const oracle_runner *runner), void *data) {
    static const char *const devices[] = {"opencl", "cpu"};
    size_t count = 0;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
        for (size_t i = 0; name(i) && count < ORACLE_RUNNERS; i++) {
            oracle_runner *r = &runners[count];
            clattn_device_info info;
            *r = (oracle_runner){.algorithm = name(i)};
            if (clattn_context_create(devices[d], NULL, &r->context) != CLATTN_OK)
                break;
            clattn_context_info(r->context, &info);
            r->has_f64 = info.has_f64;
            r->is_opencl = info.is_opencl;
            if (takes(data, r))
                count++;
            else
                clattn_context_destroy(r->context);
        }
    return count;
}

static bool takes(void *data, const oracle_runner *runner) { return oracle_applies(data, runner, NULL); }

size_t oracle_open(oracle_runner runners[ORACLE_RUNNERS]) {
    const oracle_config tiny = {.N = 1, .D = 1};
    oracle_case *c = oracle_make(&tiny);
    const size_t count = oracle_open_each(runners, clattn_algorithm_name, takes, c);
    oracle_free(c);
    return count;
}

void oracle_close(oracle_runner runners[ORACLE_RUNNERS], size_t count) {
    for (size_t i = 0; i < count; i++)
        clattn_context_destroy(runners[i].context);
}
