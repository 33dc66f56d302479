/* SPDX-License-Identifier: Apache-2.0 */
/* Interval masks on the host: causal, window and key lengths, as a range of keys for each query. */
#ifndef CLA_MASK_H
#define CLA_MASK_H

#include "attention/problem.h"

/* Sequences one after another: sets B, N and M from their lengths. Nothing to do without them. */
clattn_status cla_sequences_take(cla_problem *p, const clattn_attention_args *args);
/* Fills the interval part of a problem whose sizes are known. */
clattn_status cla_intervals_take(cla_problem *p, const clattn_attention_args *args);

#endif
