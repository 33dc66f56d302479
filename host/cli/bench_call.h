/* SPDX-License-Identifier: Apache-2.0 */
/* What `clattn bench` times: a call's tensors on the host and on a device, and whether two algorithms agree on what it
 * gives. Forward alone, or forward and backward with the gradients by q, k and v. */
#ifndef CLA_BENCH_CALL_H
#define CLA_BENCH_CALL_H

#include "problem_data.h"
#include <clattn/backward.h>

enum { CLA_BENCH_TENSORS = 12, CLA_BENCH_RESULTS = 3 };

/* On the host. */
typedef struct cla_bench_call {
    bool backward;
    cla_problem_data data;
    clattn_array state, d_o, d_q, d_k, d_v; /* rank 0 without backward */
    clattn_attention_backward_args args;    /* without backward `forward` alone */
} cla_bench_call;

/* false: out of memory; clattn_last_error says so. To be freed whatever comes back. */
bool cla_bench_call_create(const cla_problem_text *problem, bool backward, cla_bench_call *call);
void cla_bench_call_free(cla_bench_call *call);

/* Of an algorithm of the table of the forward pass, in both passes. */
void cla_bench_call_choose(clattn_attention_backward_args *args, size_t algorithm);
/* Whether it applies to both; *reason as clattn_algorithm_applies gives it. */
clattn_status cla_bench_call_applies(clattn_context *context, const cla_bench_call *call,
                                     const clattn_attention_backward_args *args, size_t algorithm, bool *applies,
                                     const char **reason);

/* On a device, for all algorithms. */
typedef struct cla_bench_place {
    clattn_attention_backward_args args;
    clattn_buffer *buffers[CLA_BENCH_TENSORS];
    size_t bytes;
} cla_bench_place;

/* false: clattn_last_error says why. To be freed whatever comes back. */
bool cla_bench_place_create(clattn_context *context, const cla_bench_call *call, cla_bench_place *place);
void cla_bench_place_free(cla_bench_place *place);
/* NaN wherever a run is to write: what it leaves out must not look right. */
bool cla_bench_place_spoil(const cla_bench_place *place, const cla_bench_call *call);

/* What the first algorithm of a problem gave. */
typedef struct cla_bench_agreement {
    clattn_array results[CLA_BENCH_RESULTS];
    const char *name; /* NULL: none has run yet */
} cla_bench_agreement;

/* A time means nothing when the result is wrong: looks for NaN, which no result of numbers has and what was not written
 * keeps, and compares what lies in `place` with the first one's, or keeps it as that. false: text says why not. */
bool cla_bench_agrees(const cla_bench_place *place, const char *name, cla_bench_agreement *first, char *text,
                      size_t size);
void cla_bench_agreement_free(cla_bench_agreement *first);

#endif
