/* SPDX-License-Identifier: Apache-2.0 */
/* The outputs of a problem. A part of problem.c. */
#ifndef CLA_RESULTS_H
#define CLA_RESULTS_H

#include "attention/problem.h"

/* Checks the outputs and the options of weights, once the sizes are known. */
clattn_status cla_results_take(cla_problem *p, const clattn_attention_args *args);
/* Whether the state, if there is one, lies as kernels read and write it. */
clattn_status cla_state_check(const cla_problem *p);

#endif
