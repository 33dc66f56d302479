/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel's key follows from types, classes of head dims and of masks, and the kind of call; sizes are small here. */
#include "devices_build.h"
#include "problem_data.h"
#include "progress.h"

#include <clattn/clattn.h>
#include <stdio.h>
#include <string.h>

static const char *const shapes[] = {"h4 n256", "h4 n32", "h4 q1 k1024"}; /* long, short, decoding */
static const char *const masks[] = {"", "causal=bottom-right", "keep"};
/* With the first so many of the masks. */
static const struct {
    const char *words;
    size_t masks;
} kinds[] = {{"d64 f32", 3}, {"d128 f32", 3}, {"d64 f16", 2}, {"d128 f16", 2}, {"d32 f32", 1}, {"d96 f32", 1}};
/* Beside those. */
static const char *const others[] = {"h4/2 q1 k1024 d128 f32 kv=q8_0", "h4/2 q1 k1024 d128 f32 pages=16"};
#define COUNT(x) (sizeof(x) / sizeof *(x))
enum { TEXT = 120, PROBLEMS = 48 };

static size_t list_problems(char list[PROBLEMS][TEXT]) {
    size_t n = 0;
    for (size_t k = 0; k < COUNT(kinds); k++)
        for (size_t m = 0; m < kinds[k].masks; m++)
            for (size_t x = 0; x < COUNT(shapes) && n < PROBLEMS; x++)
                snprintf(list[n++], TEXT, "%s %s %s", shapes[x], kinds[k].words, masks[m]);
    for (size_t i = 0; i < COUNT(others) && n < PROBLEMS; i++)
        snprintf(list[n++], TEXT, "%s", others[i]);
    return n;
}

/* What a device cannot do is counted, and no error. */
static clattn_status count_call(clattn_status status, const char *text, cla_build_report *report) {
    report->problems++;
    if (status == CLATTN_OK)
        return status;
    if (status == CLATTN_E_UNSUPPORTED || status == CLATTN_E_LIMIT) {
        report->refused++;
        return CLATTN_OK;
    }
    snprintf(report->error, sizeof report->error, "%.90s: %.200s", text, clattn_last_error());
    return status;
}

static clattn_status run_problem(clattn_context *context, const char *text, cla_build_report *report) {
    cla_problem_text problem;
    cla_problem_data data = {0};
    char error[200];
    if (!cla_problem_text_parse(text, &problem, error, sizeof error)) {
        snprintf(report->error, sizeof report->error, "%.200s", error);
        return CLATTN_E_ARGUMENT;
    }
    clattn_status status = cla_problem_data_create(&problem, 1, &data);
    if (status == CLATTN_OK)
        status = clattn_attention(context, &data.args);
    cla_problem_data_free(&data);
    return count_call(status, text, report);
}

bool cla_devices_build(const clattn_device_info *device, cla_build_report *report) {
    char list[PROBLEMS][TEXT];
    const double start = cla_seconds();
    const size_t problems = list_problems(list), count = problems + cla_devices_build_ops();
    clattn_context *context = NULL;
    *report = (cla_build_report){0};
    clattn_status status = clattn_context_create(device->spec, NULL, &context);
    if (status != CLATTN_OK)
        snprintf(report->error, sizeof report->error, "%s", clattn_last_error());
    cla_progress progress = cla_progress_begin("building kernels");
    for (size_t i = 0; i < count && status == CLATTN_OK; i++) {
        status = i < problems ? run_problem(context, list[i], report)
                              : count_call(cla_devices_build_op(context, i - problems), "operations", report);
        cla_progress_step(&progress, (int64_t)i + 1, (int64_t)count);
    }
    cla_progress_end(&progress);
    clattn_context_programs(context, &report->compiled, &report->restored);
    snprintf(report->folder, sizeof report->folder, "%s", clattn_context_cache_folder(context));
    clattn_context_destroy(context); /* saves */
    report->seconds = cla_seconds() - start;
    return status == CLATTN_OK;
}
