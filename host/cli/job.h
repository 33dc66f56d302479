/* SPDX-License-Identifier: Apache-2.0 */
/* One attention call on host arrays, on any device: buffers, plan, execution, and the results back in the arrays. */
#ifndef CLA_JOB_H
#define CLA_JOB_H

#include "args.h"
#include <clattn/backward.h>

typedef struct cla_job_report {
    char algorithm[48]; /* that ran */
    double seconds;     /* from the start of the execution to its end, without transfers */
    size_t compiled;    /* programs from source: PoCL compiles when they run, within those seconds */
} cla_job_report;

enum { CLA_JOB_TENSORS = 17 };

/* A call's tensors on a device; those of the backward pass have rank 0 where there is none. */
typedef struct cla_job {
    clattn_attention_backward_args args;     /* with buffers in place of the host arrays; as given on `cpu` */
    clattn_tensor *tensors[CLA_JOB_TENSORS]; /* members of args: inputs, then outputs */
    void *host[CLA_JOB_TENSORS];
    clattn_buffer *buffers[CLA_JOB_TENSORS];
} cla_job;

/* Buffers that hold what the host arrays of args do; *job is to be closed whatever the status, and stays where it is.
 * Returns the library's status; nothing is printed when it fails. */
clattn_status cla_job_open(clattn_context *context, const clattn_attention_backward_args *args, cla_job *job);
void cla_job_close(cla_job *job);

/* Every tensor of args is a host array. explain prints the plan on stderr.
 * report may be NULL. Returns the library's status; nothing is printed when it fails. */
clattn_status cla_job_run(clattn_context *context, const clattn_attention_args *args, bool explain,
                          cla_job_report *report);

/* Opens a device, with a note on a terminal. Prints one line and returns the exit status when that fails. */
int cla_open(const char *device, clattn_context **context);
/* --launch-ms, which the verb's table has: the bound of launches in all contexts that are opened from then on. */
int cla_launch_option(const char *verb, const cla_args *args);

#endif
