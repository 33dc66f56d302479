/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a plan gives right results: rows computed again on the CPU, and the whole output beside the default's. */
#ifndef CLA_TUNE_JUDGE_H
#define CLA_TUNE_JUDGE_H

#include "job.h"
#include "problem_data.h"
#include <clattn/verify.h>

typedef struct cla_judge {
    cla_problem_data data;   /* its args have lse too */
    cla_job job;             /* the same on the device */
    clattn_array lse, right; /* right: o of the plan that was judged first */
    bool has_right;
    double allowed; /* between two right results */
} cla_judge;

/* Tensors of the problem on the device. *judge is to be closed whatever the status, and stays where it is. */
clattn_status cla_judge_open(clattn_context *context, const cla_problem_text *problem, cla_judge *judge);
void cla_judge_close(cla_judge *judge);
/* Runs the plan once. false: it fails or is wrong, and text says how; *wrong tells which. */
bool cla_judge_plan(cla_judge *judge, clattn_context *context, clattn_plan *plan, bool *wrong, char *text, size_t size);

#endif
