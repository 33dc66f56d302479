/* SPDX-License-Identifier: Apache-2.0 */
/* Judging results by the CPU's: what attention.c asks, and how verify.c computes again. */
#ifndef CLA_SELF_CHECK_H
#define CLA_SELF_CHECK_H

#include "attention/problem.h"
#include <clattn/verify.h>

/* clattn_verify for a checked problem, whose work is enqueued. */
clattn_status cla_verify_problem(const cla_problem *p, int64_t rows, const clattn_tensor *exact,
                                 clattn_verification *result);
/* The same as a status: CLATTN_E_VERIFY with the text. */
clattn_status cla_self_check(const cla_problem *p, int64_t rows);

/* ---- verify_eval.c ---- */

/* A problem whose tensors are all on the host. */
typedef struct cla_host_problem {
    cla_problem problem; /* host arrays of the original, or copies */
    void *copies[CLA_TENSORS];
    cla_batch *batches; /* where short masks make keys fewer */
} cla_host_problem;

/* Waits for the device. Free it also when this fails. */
clattn_status cla_host_problem_init(const cla_problem *p, cla_host_problem *host);
void cla_host_problem_free(cla_host_problem *host);

/* The outputs of one evaluation, dense and with the axes of the problem's, or NULL; in the order of the verdicts. */
typedef struct cla_evaluation {
    clattn_tensor tensors[CLATTN_VERDICTS];
    void *data[CLATTN_VERDICTS];
} cla_evaluation;

/* By the reference in f64; `given`: NULL or tensors to use in place of new ones. */
clattn_status cla_evaluate_exact(const cla_problem *p, const clattn_tensor *given, cla_evaluation *e);
/* By `blas` in the type of the sums. */
clattn_status cla_evaluate_plain(clattn_context *cpu, const cla_problem *p, cla_evaluation *e);
void cla_evaluation_free(cla_evaluation *e);

/* Weights are P of all rows and heads. */
static inline bool cla_plain_weights(const cla_problem *p) {
    return p->form == CLATTN_WEIGHTS_SOFTMAX && !p->mean && !p->form_queries && !p->form_heads;
}
/* The outputs, in the order of the verdicts. */
void cla_outputs_of(cla_problem *p, clattn_tensor *list[CLATTN_VERDICTS]);
/* One row of a problem on the host as a problem of its own; batch holds its interval. Outputs are left to the caller.
 */
void cla_problem_row(const cla_problem *p, int64_t b, int64_t h, int64_t i, cla_batch *batch, cla_problem *row);
/* Row j of the keys or values of a batch and key head: its first element in t. */
int64_t cla_key_element(const cla_problem *p, const clattn_tensor *t, int64_t b, int64_t hk, int64_t j);

#endif
