/* SPDX-License-Identifier: Apache-2.0 */
#include "tune_judge.h"

#include "tune_race.h"
#include <stdio.h>
#include <string.h>

#define CHECK_OPERATIONS 4e7 /* what judging a plan on the CPU may take, but for the fewest rows */
enum { LEAST_ROWS = 8 };

clattn_status cla_judge_open(clattn_context *context, const cla_problem_text *problem, cla_judge *judge) {
    *judge = (cla_judge){0};
    clattn_status status = cla_problem_data_create(problem, 1, &judge->data);
    if (status != CLATTN_OK)
        return status;
    clattn_attention_backward_args args = {0};
    clattn_attention_args *a = &judge->data.args;
    const bool wide = problem->dtype == CLATTN_F64 || problem->k_dtype == CLATTN_F64 ||
                      problem->v_dtype == CLATTN_F64 || problem->o_dtype == CLATTN_F64;
    status = clattn_array_create(wide ? CLATTN_F64 : CLATTN_F32, 3, a->o.shape, &judge->lse);
    if (status == CLATTN_OK) {
        a->lse = clattn_tensor_host(judge->lse.data, judge->lse.dtype, 3, a->o.shape);
        status = clattn_array_create(a->o.dtype, a->o.rank, a->o.shape, &judge->right);
    }
    args.forward = *a;
    return status == CLATTN_OK ? cla_job_open(context, &args, &judge->job) : status;
}

void cla_judge_close(cla_judge *judge) {
    cla_job_close(&judge->job);
    clattn_array_free(&judge->lse);
    clattn_array_free(&judge->right);
    cla_problem_data_free(&judge->data);
}

/* NaN: what a run leaves out must not look right. */
static clattn_status spoil(cla_judge *judge) {
    const clattn_tensor *const on_device[] = {&judge->job.args.forward.o, &judge->job.args.forward.lse};
    const clattn_array *const arrays[] = {&judge->data.o, &judge->lse};
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < 2 && status == CLATTN_OK; i++) {
        memset(arrays[i]->data, 0xff, arrays[i]->bytes);
        if (on_device[i]->buffer)
            status = clattn_buffer_upload(on_device[i]->buffer, 0, arrays[i]->data, arrays[i]->bytes);
    }
    return status;
}

static clattn_status fetch(cla_judge *judge) {
    const clattn_tensor *const on_device[] = {&judge->job.args.forward.o, &judge->job.args.forward.lse};
    const clattn_array *const arrays[] = {&judge->data.o, &judge->lse};
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < 2 && status == CLATTN_OK; i++)
        if (on_device[i]->buffer)
            status = clattn_buffer_download(on_device[i]->buffer, 0, arrays[i]->data, arrays[i]->bytes);
    return status;
}

static int64_t rows_to_check(const cla_judge *judge) {
    const clattn_tensor *o = &judge->data.args.o, *k = &judge->data.args.k;
    const double each = (double)k->shape[2] * (double)(k->shape[3] + o->shape[3]) + 1;
    const double all = (double)o->shape[0] * (double)o->shape[1] * (double)o->shape[2];
    const double rows = CHECK_OPERATIONS / each;
    return rows >= all ? CLATTN_ALL_ROWS : rows < LEAST_ROWS ? LEAST_ROWS : (int64_t)rows;
}

bool cla_judge_plan(cla_judge *judge, clattn_context *context, clattn_plan *plan, bool *wrong, char *text,
                    size_t size) {
    clattn_verification v;
    *wrong = false;
    clattn_status status = spoil(judge);
    if (status == CLATTN_OK && cla_race_once(context, plan) < 0) {
        snprintf(text, size, "%s", clattn_last_error());
        return false;
    }
    if (status == CLATTN_OK)
        status = fetch(judge);
    if (status == CLATTN_OK)
        status = clattn_verify(&judge->data.args, rows_to_check(judge), NULL, &v);
    if (status != CLATTN_OK) {
        snprintf(text, size, "%s", clattn_last_error());
        return false;
    }
    if (!v.ok) {
        *wrong = true;
        clattn_verification_text(&v, text, size);
        return false;
    }
    if (!judge->has_right) {
        memcpy(judge->right.data, judge->data.o.data, judge->right.bytes);
        judge->allowed =
            4 * v.verdicts[0].allowed; /* each may be off by as much, and rows that were not checked more */
        judge->has_right = true;
        return true;
    }
    const double d = cla_largest_difference(&judge->data.o, &judge->right);
    if (d <= judge->allowed)
        return true;
    *wrong = true;
    snprintf(text, size, "o is off by %.3g from that of the default, %.3g is allowed", d, judge->allowed);
    return false;
}
