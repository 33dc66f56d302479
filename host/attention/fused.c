/* SPDX-License-Identifier: Apache-2.0 */
/* What the fused algorithms share: the arguments of their kernels, in one order, and the vectors of a device. */
#include "args.h"
#include "attention/plan.h"
#include "base/dropout.h"
#include <string.h>

void cla_fill_mask_args(const cla_problem *p, cla_mask_args *a) {
    *a = (cla_mask_args){.left = p->left,
                         .right = p->right,
                         .N = (cl_int)p->N,
                         .M = (cl_int)p->M,
                         .causal = p->causal,
                         .windowed = p->windowed,
                         .bias_type = (cl_int)p->bias.dtype,
                         .has_slopes = p->slopes != NULL,
                         .has_segments = p->q_segments != NULL,
                         .has_sinks = cla_present(&p->sinks),
                         .softcap = (cl_float)p->softcap};
    memcpy(&a->softcap_bits, &p->softcap, sizeof a->softcap_bits);
    a->has_keep = cla_present(&p->keep);
    a->has_drop = cla_present(&p->drop);
    a->has_bias = cla_present(&p->bias);
    a->keep_b = p->keep.stride[0], a->keep_h = p->keep.stride[1], a->keep_i = p->keep.stride[2];
    a->keep_j = p->keep.stride[3], a->keep_0 = p->keep.offset;
    a->drop_b = p->drop.stride[0], a->drop_h = p->drop.stride[1], a->drop_i = p->drop.stride[2];
    a->drop_j = p->drop.stride[3], a->drop_0 = p->drop.offset;
    a->bias_b = p->bias.stride[0], a->bias_h = p->bias.stride[1], a->bias_i = p->bias.stride[2];
    a->bias_j = p->bias.stride[3], a->bias_0 = p->bias.offset;
    a->sinks_0 = p->sinks.offset;
}

void cla_fill_drop_args(const cla_problem *p, cla_drop_args *a) {
    const cla_dropout drop = cla_dropout_of(p->dropout, p->dropout_key);
    memcpy(&a->key, &drop.key, sizeof a->key);
    memcpy(&a->bound, &drop.bound, sizeof a->bound);
    memcpy(&a->kept_bits, &drop.kept, sizeof a->kept_bits);
    a->kept = (cl_float)drop.kept;
}

void cla_fill_attention_args(const clattn_plan *plan, cla_attention_args *a) {
    const cla_problem *p = &plan->problem;
    *a = (cla_attention_args){.N = (cl_int)p->N,
                              .M = (cl_int)p->M,
                              .D = (cl_int)p->D,
                              .Dv = (cl_int)p->Dv,
                              .H = (cl_int)p->H,
                              .group = (cl_int)p->group,
                              .has_lse = cla_present(&p->lse),
                              .has_state = cla_present(&p->state),
                              .ragged = p->ragged,
                              .q_type = (cl_int)p->q.dtype,
                              .k_type = (cl_int)p->k.dtype,
                              .v_type = (cl_int)p->v.dtype,
                              .o_type = (cl_int)p->o.dtype,
                              .scale = (cl_float)p->scale};
    memcpy(&a->scale_bits, &p->scale, sizeof a->scale_bits);
    a->q_b = p->q.stride[0], a->q_h = p->q.stride[1], a->q_i = p->q.stride[2], a->q_0 = p->q.offset;
    a->k_b = p->k.stride[0], a->k_h = p->k.stride[1], a->k_j = p->k.stride[2], a->k_0 = p->k.offset;
    a->v_b = p->v.stride[0], a->v_h = p->v.stride[1], a->v_j = p->v.stride[2], a->v_0 = p->v.offset;
    a->o_b = p->o.stride[0], a->o_h = p->o.stride[1], a->o_i = p->o.stride[2], a->o_0 = p->o.offset;
    a->lse_b = p->lse.stride[1], a->lse_h = p->lse.stride[2], a->lse_i = p->lse.stride[3], a->lse_0 = p->lse.offset;
    a->st_b = p->state.stride[0], a->st_h = p->state.stride[1], a->st_i = p->state.stride[2];
    a->st_0 = p->state.offset;
    if (p->page_size) {
        a->page_size = (cl_int)p->page_size;
        a->pages = (cl_int)p->table_pages;
        a->k_page = p->k.stride[0], a->v_page = p->v.stride[0];
        a->k_b = a->v_b = 0;
    }
    if (p->dropout > 0) {
        cla_drop_args drop;
        cla_fill_drop_args(p, &drop);
        a->dropout_key = drop.key;
        a->dropout_bound = drop.bound;
        a->kept_bits = drop.kept_bits;
        a->kept = drop.kept;
    }
    cla_fill_mask_args(p, &a->mask);
}

enum { BUFFERS = 16 };
clattn_status cla_launch_fused(const clattn_plan *plan, cla_kernel *kernel, int64_t groups, const cla_arg *more,
                               int more_count, cla_attention_args *a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    clattn_buffer *counts = NULL;
    CLA_TRY(cla_profile_counts(plan->context, kernel, &counts));
    a->has_counts = counts != NULL;
    if (cla_costs_wanted(plan->context)) {
        clattn_plan_info info = {0};
        CLA_TRY(clattn_plan_info_get(plan, &info));
        cla_kernel_cost(kernel, info.operations, info.moved_bytes);
    }
    const clattn_buffer *const buffers[BUFFERS] = {p->q.buffer,      p->k.buffer,     p->v.buffer,  p->o.buffer,
                                                   p->lse.buffer,    p->state.buffer, plan->spans,  p->keep.buffer,
                                                   p->drop.buffer,   p->bias.buffer,  plan->slopes, plan->q_segments,
                                                   plan->k_segments, p->sinks.buffer, plan->table,  counts};
    cla_arg args[BUFFERS + CLA_FUSED_MORE + 1];
    for (int i = 0; i < BUFFERS; i++)
        args[i] = CLA_ARG_BUFFER(buffers[i]);
    for (int i = 0; i < more_count; i++)
        args[BUFFERS + i] = more[i];
    args[BUFFERS + more_count] = CLA_ARG_VALUE(*a);
    CLA_TRY(cla_launch(plan->context, kernel, groups, args, BUFFERS + more_count + 1));
done:
    return status;
}

/* ---- the backward pass ---- */

int64_t cla_rows_of_head(const cla_problem *p) { return p->ragged ? p->query_rows : p->N; }
int64_t cla_rows_of_all(const cla_problem *p) { return (p->ragged ? 1 : p->B) * p->H * cla_rows_of_head(p); }

void cla_fill_backward_inputs(const clattn_plan *plan, size_t del_at, cla_lanes_inputs *in) {
    const cla_problem *p = &plan->problem;
    const int64_t rows = cla_rows_of_head(p);
    *in = (cla_lanes_inputs){.g_b = p->d_o.stride[0],
                             .g_h = p->d_o.stride[1],
                             .g_i = p->d_o.stride[2],
                             .g_0 = p->d_o.offset,
                             .del_b = p->ragged ? 0 : p->H * rows,
                             .del_h = rows,
                             .del_0 = (cl_long)(del_at / clattn_dtype_size(p->dtype)),
                             .g_type = (cl_int)p->d_o.dtype,
                             .B = (cl_int)p->B};
    cla_fill_attention_args(plan, &in->forward);
}

void cla_fill_bias_args(const cla_problem *p, cla_lanes_bias_args *a) {
    const clattn_tensor *t = &p->d_bias;
    *a = (cla_lanes_bias_args){.db_b = t->stride[0],
                               .db_h = t->stride[1],
                               .db_i = t->stride[2],
                               .db_j = t->stride[3],
                               .db_0 = t->offset,
                               .batches = t->stride[0] ? (cl_int)p->B : 1,
                               .heads = t->stride[1] ? (cl_int)p->H : 1,
                               .rows = t->stride[2] ? (cl_int)p->N : 1,
                               .columns = (cl_int)t->shape[3],
                               .db_type = (cl_int)t->dtype};
}

int64_t cla_count_bias_groups(const cla_problem *p, int queries, int keys) {
    const clattn_tensor *t = &p->d_bias;
    if (!cla_present(t))
        return 0;
    return (t->stride[0] ? p->B : 1) * (t->stride[1] ? p->H : 1) * (t->stride[2] ? cla_ceil_div(p->N, queries) : 1) *
           (t->stride[3] ? cla_ceil_div(t->shape[3], keys) : 1);
}

enum { INPUTS = 13 };
clattn_status cla_launch_gradients(const clattn_plan *plan, cla_kernel *kernel, int64_t groups,
                                   const clattn_buffer *const *more, int more_count, cla_arg value) {
    const cla_problem *p = &plan->problem;
    const clattn_buffer *const inputs[INPUTS] = {
        p->q.buffer,    p->k.buffer,    p->v.buffer,    p->d_o.buffer, p->state.buffer,  plan->scratch,   plan->spans,
        p->keep.buffer, p->drop.buffer, p->bias.buffer, plan->slopes,  plan->q_segments, plan->k_segments};
    cla_arg args[INPUTS + CLA_GRADIENTS_MORE + 1];
    for (int i = 0; i < INPUTS; i++)
        args[i] = CLA_ARG_BUFFER(inputs[i]);
    for (int i = 0; i < more_count; i++)
        args[INPUTS + i] = CLA_ARG_BUFFER(more[i]);
    args[INPUTS + more_count] = value;
    return cla_launch(plan->context, kernel, groups, args, INPUTS + more_count + 1);
}

cla_vectors cla_vectors_for(const clattn_device_info *device, clattn_dtype dtype) {
    const int width = (int)device->vector_floats / (dtype == CLATTN_F64 ? 2 : 1);
    return (cla_vectors){.lanes = width >= 16  ? 16
                                  : width >= 8 ? 8
                                               : 4,
                         .registers = device->vector_floats >= 16 ? 32 : 16};
}
