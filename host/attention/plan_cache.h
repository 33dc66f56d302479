/* SPDX-License-Identifier: Apache-2.0 */
/* Plans and scratch that a context keeps between calls of clattn_attention. Threads may share a context: what one has
 * taken, the others do not see. Nothing that is kept refers to a buffer or array of the caller's. */
#ifndef CLA_PLAN_CACHE_H
#define CLA_PLAN_CACHE_H

#include "attention/plan.h"

/* A plan for the problem and what is asked for by name, bound to the problem's tensors and with
 * scratch, made if none is kept. Takes what the problem owns, on failure too: *problem is then empty. */
clattn_status cla_plan_take(clattn_context *context, cla_problem *problem, const cla_asked *asked, clattn_plan **out);
/* Back, when its work is enqueued. */
void cla_plan_give_back(clattn_plan *plan, const cla_asked *asked);
/* Plans kept now. */
int cla_plan_kept(clattn_context *context);

#endif
