/* SPDX-License-Identifier: Apache-2.0 */
/* What the backward pass reads beyond the forward pass, and what it writes. A part of problem.c. */
#ifndef CLA_GRADIENTS_H
#define CLA_GRADIENTS_H

#include "attention/problem.h"

/* Checks state, d_o and the gradients, once everything else is known. */
clattn_status cla_gradients_take(cla_problem *p, const clattn_attention_backward_args *args);

#endif
