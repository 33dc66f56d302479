/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "job.h"

#include "progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = CLA_JOB_TENSORS, INPUTS = 8 }; /* the inputs come first */

/* Elements from the start of the array to the last one of the view: 0 when it is empty. */
static size_t extent(const clattn_tensor *view) {
    if (view->rank <= 0 || clattn_tensor_elements(view) <= 0)
        return 0;
    int64_t last = view->offset;
    for (int i = 0; i < view->rank; i++)
        last += (view->shape[i] - 1) * view->stride[i];
    return (size_t)last + 1;
}

static size_t view_bytes(const clattn_tensor *view) { return clattn_dtype_bytes(view->dtype, extent(view)); }

/* Buffers in place of the host arrays, with what these hold: gaps of an output's view come back as they were. */
static clattn_status to_device(clattn_context *context, cla_job *j) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < TENSORS && status == CLATTN_OK; i++) {
        clattn_tensor *t = j->tensors[i];
        if (t->rank == 0)
            continue;
        j->host[i] = t->host;
        t->host = NULL;
        status = clattn_buffer_create(context, view_bytes(t), &j->buffers[i]);
        t->buffer = j->buffers[i];
        if (status == CLATTN_OK)
            status = clattn_buffer_upload(t->buffer, 0, j->host[i], view_bytes(t));
    }
    return status;
}

static clattn_status from_device(cla_job *j) {
    clattn_status status = CLATTN_OK;
    for (int i = INPUTS; i < TENSORS && status == CLATTN_OK; i++)
        if (j->buffers[i])
            status = clattn_buffer_download(j->buffers[i], 0, j->host[i], view_bytes(j->tensors[i]));
    return status;
}

/* Rough: for the note on a terminal only. */
static double expected_seconds(const clattn_plan_info *info) {
    return info->operations / (strcmp(info->algorithm, "reference") == 0 ? 5e8 : 2e10);
}

static clattn_status execute(clattn_context *context, clattn_plan *plan, cla_job_report *report) {
    clattn_plan_info info;
    clattn_status status = clattn_plan_info_get(plan, &info);
    if (status != CLATTN_OK)
        return status;
    cla_note_begin(expected_seconds(&info), "computing with", info.algorithm);
    const double start = cla_seconds();
    status = clattn_plan_execute(plan, NULL);
    if (status == CLATTN_OK)
        status = clattn_context_sync(context);
    cla_note_end();
    if (report) {
        snprintf(report->algorithm, sizeof report->algorithm, "%s", info.algorithm);
        report->seconds = cla_seconds() - start;
        clattn_context_programs(context, &report->compiled, NULL);
    }
    return status;
}

clattn_status cla_job_open(clattn_context *context, const clattn_attention_backward_args *args, cla_job *job) {
    clattn_device_info device;
    *job = (cla_job){.args = *args};
    clattn_attention_backward_args *b = &job->args;
    clattn_attention_args *a = &b->forward;
    clattn_tensor *const tensors[TENSORS] = {&a->q,       &a->k,     &a->v,   &a->keep, &a->drop,    &a->bias,
                                             &a->sinks,   &b->d_o,   &a->o,   &a->lse,  &a->weights, &a->column_sums,
                                             &a->entropy, &a->state, &b->d_q, &b->d_k,  &b->d_v};
    memcpy(job->tensors, tensors, sizeof tensors);
    const clattn_status status = clattn_context_info(context, &device);
    return status == CLATTN_OK && device.is_opencl ? to_device(context, job) : status;
}

void cla_job_close(cla_job *job) {
    for (int i = 0; i < TENSORS; i++)
        clattn_buffer_destroy(job->buffers[i]);
}

clattn_status cla_job_run(clattn_context *context, const clattn_attention_args *args, bool explain,
                          cla_job_report *report) {
    cla_job j;
    clattn_plan *plan = NULL;
    clattn_device_info device;
    const clattn_attention_backward_args forward = {.forward = *args};
    clattn_status status = cla_job_open(context, &forward, &j);
    if (status == CLATTN_OK)
        status = clattn_context_info(context, &device);
    if (status == CLATTN_OK) {
        if (device.is_opencl)
            cla_note_begin(-1, "building kernels (longest the first time) for", device.name);
        status = clattn_plan_create(context, &j.args.forward, &plan);
        cla_note_end();
    }
    if (status == CLATTN_OK && explain)
        fprintf(stderr, "%s", clattn_plan_explain(plan));
    if (status == CLATTN_OK)
        status = execute(context, plan, report);
    if (status == CLATTN_OK)
        status = from_device(&j);
    clattn_plan_destroy(plan);
    cla_job_close(&j);
    return status;
}

int cla_open(const char *device, clattn_context **context) {
    const clattn_status status = clattn_context_create(device, NULL, context);
    const char *text = clattn_last_error();
    const bool named = strncmp(text, "device ", 7) == 0 || strncmp(text, "CLATTN_", 7) == 0; /* what is wrong */
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_fail_status(status, named ? NULL : "device");
}

int cla_launch_option(const char *verb, const cla_args *args) {
    const char *text = cla_args_value(args, "launch-ms");
    double ms;
    if (!text)
        return CLA_EXIT_OK;
    if (!cla_parse_f64(text, &ms))
        return cla_fail(CLA_EXIT_USAGE, "%s: --launch-ms %s: a number of milliseconds is needed, or -1 for no bound",
                        verb, text);
    return setenv("CLATTN_LAUNCH_MS", text, 1) == 0 ? CLA_EXIT_OK
                                                    : cla_fail(CLA_EXIT_FAILED, "%s: out of memory", verb);
}
