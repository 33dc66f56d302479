/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan is made of. For attention.c and the algorithms. */
#ifndef CLA_PLAN_H
#define CLA_PLAN_H

#include "attention/algos.h"
#include "base/error.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"

typedef struct cla_pack cla_pack;       /* pack.c */
typedef struct cla_weights cla_weights; /* weights.c */

enum { CLA_CLASS_KEY = 256 };

struct clattn_plan {
    clattn_context *context;
    cla_problem problem; /* its tensors are those of the next execution: rebinding changes buffers and offsets only */
    const cla_algorithm *algorithm; /* NULL: nothing to compute but a fill */
    void *state;                    /* the algorithm's */
    cla_variant *variants;          /* of the algorithm, for this problem; NULL: it has one way */
    size_t variant_count, variant;  /* variant: the index of the one that is taken; 0: the default */
    bool tuned;                     /* the tuner's record chose the algorithm or the variant */
    unsigned refused;               /* bit i: algorithm i of the table failed on this device */
    unsigned tuning_changes;        /* of that record, when the plan was made */
    char variant_key[CLA_CLASS_KEY], algorithm_key[CLA_CLASS_KEY]; /* what they are recorded under */
    cla_kernel *fill, *copy;                                       /* where algorithm is NULL */
    cla_pack *pack;         /* copies of tensors whose last stride is not 1; NULL: none */
    cla_weights *weights;   /* a pass after the algorithm's; NULL: none */
    clattn_buffer *scratch; /* one buffer for all; pieces start at cla_plan_scratch's offsets */
    bool owns_scratch;
    size_t workspace_bytes; /* of the one scratch buffer */
    size_t hidden_bytes;    /* other allocations that the plan causes: the arrays below */
    size_t largest_hidden;  /* the largest of them */
    /* Host arrays of the problem, on the device; NULL where there are none, and on the `cpu` context. */
    clattn_buffer *spans;                   /* cla_span [B] */
    clattn_buffer *slopes;                  /* float [H] */
    clattn_buffer *q_segments, *k_segments; /* int [B, N] and [B, M] */
    clattn_buffer *table;                   /* int [B, pages of the block table] */
    cla_str text;                           /* explain */
};

/* Asks for a piece of scratch; *offset_bytes is a multiple of 256. Only in create. */
clattn_status cla_plan_scratch(clattn_plan *plan, int64_t bytes, const char *what, size_t *offset_bytes);
/* Bytes of scratch that may still be asked for, within max_workspace and the device's largest allocation. */
int64_t cla_plan_scratch_left(const clattn_plan *plan);

/* variants.c. Of a call's arguments. Errors  CLATTN_E_ARGUMENT (a variant without its algorithm). */
clattn_status cla_variant_check(const char *algorithm, const char *variant);
/* Whether the tuner recorded an algorithm for such a call, which names none and no variant. */
bool cla_algorithm_tuned(clattn_plan *plan, const char *name, const char *variant, cla_tuned *tuned);
/* Lists the algorithm's variants for the tensors that are bound, and takes the one asked for; NULL: the recorded one,
 * else the default; "default".
 * Errors  CLATTN_E_ARGUMENT (no such variant here; it names those there are). */
clattn_status cla_variants_choose(clattn_plan *plan, const char *asked);
/* "WHAT f32 d64 v64 q128 ...": the class of calls that a problem is one of. */
void cla_class_key(const cla_problem *p, const char *what, char key[CLA_CLASS_KEY]);

/* explain.c: lines for plan->text. */
void cla_explain_restrictions(clattn_plan *plan); /* which keys are seen, and how scores are made */
void cla_explain_storage(clattn_plan *plan, const cla_problem *given); /* once the algorithm's tensors are bound */
void cla_explain_costs(clattn_plan *plan);
/* Bytes of a tensor, 0 of an absent one, what broadcasts counted once; of keys in pages what is in use. */
double cla_tensor_bytes(const cla_problem *p, const clattn_tensor *t);

/* A host array on the device: what is in no scratch. Nothing to do without one, and on the `cpu` context. */
clattn_status cla_plan_upload(clattn_plan *plan, const char *what, const void *data, int64_t count, size_t size,
                              clattn_buffer **buffer);

/* fill.c, by plan->fill and plan->copy: all outputs where there is nothing to compute; before an algorithm those that
 * it adds to or leaves out in parts, column sums and gradients of sequences. Enqueued. */
clattn_status cla_fill_only(clattn_plan *plan);
clattn_status cla_fill_sums(clattn_plan *plan);

/* fused.c, for the fused algorithms. Arguments of their kernels, for the tensors as they are bound now; tiles and
 * chunks are left to the caller. */
struct cla_attention_args;
void cla_fill_attention_args(const clattn_plan *plan, struct cla_attention_args *args);
struct cla_mask_args;
void cla_fill_mask_args(const cla_problem *p, struct cla_mask_args *args);
struct cla_drop_args; /* what dropout is, with p > 0; where is left to the caller */
void cla_fill_drop_args(const cla_problem *p, struct cla_drop_args *args);
/* Enqueues a kernel whose arguments are the tensors, masks and tables in the order of attention_lanes.cl, then `more`
 * (at most CLA_FUSED_MORE), then *args, whose has_counts it sets. */
enum { CLA_FUSED_MORE = 2 };
clattn_status cla_launch_fused(const clattn_plan *plan, cla_kernel *kernel, int64_t groups, const cla_arg *more,
                               int more_count, struct cla_attention_args *args);
/* Of the fused algorithms' backward pass (bias arguments and groups of fused_tiles' alone). Rows of the queries of a
 * head, and of all heads and batches; sequences lie one after another. Arguments of their kernels, for tensors as they
 * are bound now, with the sums of dO O of each row at del_at bytes of the scratch; those of dBias but for its inputs;
 * work-groups of tiles of dBias. */
int64_t cla_rows_of_head(const cla_problem *p);
int64_t cla_rows_of_all(const cla_problem *p);
struct cla_lanes_inputs;
struct cla_lanes_bias_args;
void cla_fill_backward_inputs(const clattn_plan *plan, size_t del_at, struct cla_lanes_inputs *in);
void cla_fill_bias_args(const cla_problem *p, struct cla_lanes_bias_args *a);
int64_t cla_count_bias_groups(const cla_problem *p, int queries, int keys);
/* Enqueues a kernel whose arguments are the tensors that gradients are made of, in the order of
 * attention_lanes_backward.cl, then `more` (at most CLA_GRADIENTS_MORE), then a struct. */
enum { CLA_GRADIENTS_MORE = 4 };
clattn_status cla_launch_gradients(const clattn_plan *plan, cla_kernel *kernel, int64_t groups,
                                   const clattn_buffer *const *more, int more_count, cla_arg value);
/* Vectors of a CPU-class device: lanes of the type of sums (16, 8 or 4), and how many registers hold one. */
typedef struct cla_vectors {
    int lanes, registers;
} cla_vectors;
cla_vectors cla_vectors_for(const clattn_device_info *device, clattn_dtype dtype);

/* pack.c: gives q, k, v and o (and bias) a last stride of 1 and the type of the sums, and k and v one piece without
 * blocks, where an algorithm needs it. */
clattn_status cla_pack_create(clattn_plan *plan);
/* Between bind and unbind plan->problem holds the copies, with their strides. */
void cla_pack_bind(clattn_plan *plan);
void cla_pack_unbind(clattn_plan *plan);
clattn_status cla_pack_inputs(clattn_plan *plan);  /* enqueues the copies in */
clattn_status cla_pack_outputs(clattn_plan *plan); /* and out */
void cla_pack_destroy(clattn_plan *plan);

/* What a call asks for by name; NULL and NULL: nothing. */
typedef struct cla_asked {
    const char *algorithm, *variant;
} cla_asked;
/* A plan without scratch for a problem that is checked already, and which it takes over: *problem is empty then. */
clattn_status cla_plan_make(clattn_context *context, cla_problem *problem, const cla_asked *asked, clattn_plan **plan);
/* To the tensors of a problem of the same layouts. Errors: CLATTN_E_ARGUMENT (buffers of another context). */
clattn_status cla_plan_bind(clattn_plan *plan, cla_problem *problem);
void cla_plan_unbind(clattn_plan *plan); /* from all tensors */
/* Plans, executes and forgets a problem that is checked already, which keeps what it owns; without a self-test. */
clattn_status cla_plan_run_once(clattn_context *context, const cla_problem *p, const cla_asked *asked);

/* probe.c: whether the plan's kernels are right on the device, where the context tests itself. The first plan of a kind
 * runs them on a small problem and waits. Errors: CLATTN_E_VERIFY, and those of planning and running it. */
clattn_status cla_plan_self_test(clattn_plan *plan);

/* weights.c, on OpenCL: weights, column sums and entropy that the algorithm does not write itself. */
clattn_status cla_weights_create(clattn_plan *plan);  /* before the algorithm, which may take all scratch left */
clattn_status cla_weights_execute(clattn_plan *plan); /* enqueues; the tensors are those of the algorithm */
void cla_weights_destroy(clattn_plan *plan);
/* Whether `weights` are the pass's, not the algorithm's. */
bool cla_weights_by_pass(const clattn_plan *plan);

/* The reference on tensors with host storage; `wide`: sums in long double, for judging f64. */
clattn_status cla_reference_run(const cla_problem *p, bool wide);

/* Shared refusals, for `applies`. */
bool cla_needs_opencl(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes);
bool cla_needs_cpu(const clattn_device_info *device, char *reason, size_t reason_bytes);
/* And for `suits`, of what is written for OpenCL devices that are CPUs. */
bool cla_suits_cpus(const clattn_device_info *device, char *reason, size_t reason_bytes);

#endif
