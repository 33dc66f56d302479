/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms. Choosing, explain, tests, bench and tuner read the same one. */
#ifndef CLA_ALGOS_H
#define CLA_ALGOS_H

#include "attention/problem.h"
#include "base/str.h"
#include "runtime/tuning.h"

/* One way to compute a problem, as a short text of words: "splits=4". */
enum { CLA_VARIANT = 80, CLA_VARIANTS = 32 };
typedef struct cla_variant {
    char text[CLA_VARIANT];
} cla_variant;

typedef struct cla_algorithm {
    const char *name, *summary;
    /* Whether it can; why not goes to reason, as a sentence without a stop. */
    bool (*applies)(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes);
    /* Whether it was written for such a device and problem. Others take it only by name or for want of another. */
    bool (*suits)(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes);
    bool unit_inner; /* q, k, v and o need a last stride of 1: the plan copies where it is not */
    bool sums_type;  /* q, k, v, o and bias need the type of the sums: the plan converts */
    bool blocks;     /* reads quantised k and v; else the plan converts */
    bool pages;      /* reads k and v in pages; else the plan gathers them */
    bool weights;    /* writes the weights of all queries and heads in any form, without a pass of weights.c */
    bool long_rows;  /* has kernels of its own for rows of 1024 keys and more */
    /* Ways that give right results and differ in speed, the default first, at most CLA_VARIANTS; returns how many.
     * create and execute follow plan->variant, an index. Tensors are those of create. NULL: there is one way. */
    size_t (*variants)(const cla_problem *p, const clattn_device_info *device, cla_variant out[CLA_VARIANTS]);
    /* The variant that takes all kernels that any of them does, for a self-test; NULL: each has its own. */
    const char *all_kernels;
    /* Makes plan->state, asks for scratch with cla_plan_scratch, adds lines to plan->text. */
    clattn_status (*create)(clattn_plan *plan);
    clattn_status (*execute)(clattn_plan *plan); /* enqueues only */
    void (*destroy)(clattn_plan *plan);          /* takes a state of NULL */
} cla_algorithm;

extern const cla_algorithm cla_algo_fused_split, cla_algo_fused_lanes, cla_algo_fused_tiles, cla_algo_materialised,
    cla_algo_blas, cla_algo_reference;
extern const cla_algorithm cla_backward_fused_lanes, cla_backward_fused_tiles, cla_backward_materialised,
    cla_backward_blas, cla_backward_reference;

enum { CLA_REASON = 256 };

const cla_algorithm *cla_algorithm_at(bool backward, size_t index); /* of one of two tables; NULL past the end */
/* The one that was tuned (NULL: none), if it applies; the first that applies and suits, else the last that applies; or
 * the one named. Unnamed, none whose bit is in `refused`. The reasons of all others go to text.
 * Errors  CLATTN_E_ARGUMENT (no such name), CLATTN_E_UNSUPPORTED (with the reason). */
clattn_status cla_algorithm_choose(const cla_problem *p, const clattn_device_info *device, const char *name,
                                   const cla_tuned *tuned, unsigned refused, cla_str *text,
                                   const cla_algorithm **algorithm);

#endif
