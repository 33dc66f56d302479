/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in calls of attention, its backward pass, plans and contexts (R11, cases F10, G11, G13): see faults/sweep.h.
 */
#include "faults/sweep.h"
#include <stdio.h>

typedef struct {
    const char *algorithm; /* NULL: the library's choice */
    oracle_case *c;
    oracle_backward *g; /* NULL: the forward pass */
} attention;

static bool run_attention(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const attention *a = data;
    return a->g ? oracle_backward_run(a->g, context, a->algorithm, a->algorithm, text)
                : oracle_run(a->c, context, a->algorithm, text);
}

static bool attention_right(const void *data, char text[ORACLE_TEXT]) {
    const attention *a = data;
    return a->g ? oracle_backward_compare(a->g, a->algorithm, text) : oracle_compare(a->c, a->algorithm, text);
}

static void sweep_attention(const char *name, const char *device, const char *algorithm, const oracle_config *config,
                            bool backward) {
    char text[ORACLE_TEXT] = "";
    attention a = {.algorithm = algorithm, .c = oracle_make(config)};
    if (backward)
        a.g = oracle_backward_make(a.c);
    cr_assert(backward ? oracle_backward_exact(a.g, text) : oracle_exact(a.c, text), "%s", text);
    sweep(&(run_of){.name = name, .device = device, .data = &a, .run = run_attention, .right = attention_right});
    oracle_backward_free(a.g);
    oracle_free(a.c);
}

/* Copies, tables and outputs beside O; one call on host arrays. */
static const oracle_config one_call = {.H = 2,
                                       .N = 5,
                                       .M = 40,
                                       .D = 8,
                                       .layout = ORACLE_TRANSPOSED,
                                       .lengths = true,
                                       .lse = true,
                                       .keep = {2, ORACLE_QUERY | ORACLE_KEY},
                                       .seed = 3};
/* A plan over buffers, with the pass for weights behind it. */
static const oracle_config plan = {.B = 2,
                                   .H = 4,
                                   .Hk = 2,
                                   .N = 6,
                                   .M = 9,
                                   .D = 5,
                                   .causal = true,
                                   .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                   .lse = true,
                                   .weights = true,
                                   .softcap = 3,
                                   .alibi = true,
                                   .sinks = true,
                                   .bias = {2, ORACLE_QUERY | ORACLE_KEY},
                                   .caller_workspace = true,
                                   .buffers = true};
static const oracle_config gradients = {.B = 2,
                                        .H = 4,
                                        .Hk = 2,
                                        .N = 9,
                                        .M = 7,
                                        .D = 5,
                                        .Dv = 6,
                                        .causal = true,
                                        .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                        .keep = {2, 3},
                                        .bias = {2, 3},
                                        .sinks = true,
                                        .softcap = 3,
                                        .dropout = 0.3};

#define ATTENTION(name, device, algorithm, config, backward)                                                           \
    Test(faults, name) { sweep_attention(#name, device, algorithm, &(config), backward); }
ATTENTION(F10_one_call_of_fused_lanes, "opencl", "fused_lanes", one_call, false)
ATTENTION(F10_one_call_of_fused_split, "opencl", "fused_split", one_call, false)
ATTENTION(F10_one_call_of_fused_tiles, "opencl", "fused_tiles", one_call, false)
ATTENTION(F10_one_call_of_materialised, "opencl", "materialised", one_call, false)
ATTENTION(F10_plan_of_fused_lanes, "opencl", "fused_lanes", plan, false)
ATTENTION(F10_plan_of_fused_split, "opencl", "fused_split", plan, false)
ATTENTION(F10_plan_of_fused_tiles, "opencl", "fused_tiles", plan, false)
ATTENTION(F10_plan_of_materialised, "opencl", "materialised", plan, false)
ATTENTION(F10_backward_of_fused_lanes, "opencl", "fused_lanes", gradients, true)
ATTENTION(F10_backward_of_fused_tiles, "opencl", "fused_tiles", gradients, true)
ATTENTION(F10_backward_of_materialised, "opencl", "materialised", gradients, true)
ATTENTION(memory_of_reference, "cpu", "reference", plan, false)
ATTENTION(memory_of_blas, "cpu", "blas", plan, false)
ATTENTION(memory_of_backward_reference, "cpu", "reference", gradients, true)
ATTENTION(memory_of_backward_blas, "cpu", "blas", gradients, true)
