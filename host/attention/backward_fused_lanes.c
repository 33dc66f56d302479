/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `fused_lanes`: fused gradients for CPU-class devices. Chooses register blocks by the device's
 * vectors, tiles by the head dims, splits of keys by the cores; attention_lanes_backward.cl and attention_lanes_bias.cl
 * do the rest. */
#include "args.h"
#include "attention/plan.h"

/* What a build is made of, by lanes of a vector and the larger head dim: vectors of keys a panel, queries a block of
 * scores, rows and vectors of a block of sums; most keys of a tile, most queries of a block. A stack of 100 to 760 KiB;
 * half as many keys and queries in f64. Builds: 4 classes x none, interval, any masks, those with dropout, and DEEP
 * with any masks x dropout = 18 a type of sums, and 10 for the bias. */
typedef struct {
    int lanes, dims; /* dims: up to */
    int panel_vectors, score_rows, sum_rows, sum_vectors;
    int keys, queries;
} blocks;
static const blocks block_table[] = {
    {16, 64, 4, 6, 4, 4, 256, 96},  {16, 128, 4, 6, 4, 4, 256, 48}, {16, 256, 2, 12, 4, 4, 32, 24},
    {16, 512, 1, 12, 4, 4, 16, 12}, {8, 64, 3, 4, 6, 2, 96, 48},    {8, 128, 3, 4, 6, 2, 48, 48},
    {8, 256, 3, 4, 6, 2, 24, 24},   {8, 512, 2, 4, 4, 2, 16, 12},   {4, 64, 3, 4, 6, 2, 96, 48},
    {4, 128, 3, 4, 6, 2, 48, 48},   {4, 256, 3, 4, 6, 2, 24, 24},   {4, 512, 3, 4, 6, 2, 12, 12},
};
enum { CLASSES = 4, FEW_KEYS = 128 }; /* a tile's, where there are no more than one would take: splits need several */

typedef struct {
    cla_kernel *prepare, *backward, *reduce, *sinks, *bias, *add_parts; /* NULL where there is nothing to do */
    int keys, queries;
    int64_t splits;
    bool in_place;                            /* sums of dQ are dQ */
    size_t del_at, sums_at, room_at, bias_at; /* in scratch, bytes */
    int64_t room, groups, bias_groups;        /* room: numbers of a work-item */
    int64_t bias_axes[4], bias_parts[4];      /* of the gradient of the bias, and of what is summed into it */
} state;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    return cla_needs_opencl(p, device, reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    return cla_suits_cpus(device, reason, reason_bytes);
}

/* The blocks for a problem; *deep: rows of a tile do not fit on a stack, and lie in scratch. */
static blocks choose_blocks(const cla_problem *p, const clattn_device_info *device, bool *deep) {
    const int lanes = cla_vectors_for(device, p->dtype).lanes, half = p->dtype == CLATTN_F64 ? 2 : 1;
    int i = 0, c = 0;
    while (block_table[i].lanes > lanes)
        i++;
    while (c < CLASSES - 1 && (block_table[i + c].dims < p->D || block_table[i + c].dims < p->Dv))
        c++;
    blocks x = block_table[i + c];
    if (p->M <= x.keys && x.keys > FEW_KEYS && !p->batch_invariant)
        x.keys = FEW_KEYS;
    const int panel = x.lanes * x.panel_vectors;
    *deep = cla_max(p->D, p->Dv) > x.dims / (c == CLASSES - 1 ? half : 1);
    x.keys = (int)cla_max(x.keys / half / panel, 1) * panel;
    x.queries = (int)cla_max(x.queries / half / x.score_rows, 1) * x.score_rows;
    return x;
}

static cla_key key_for(const cla_problem *p, const blocks *x, bool deep, const char *file, const char *kernel) {
    const bool any = p->score || p->dropout > 0 || deep;
    cla_key key = cla_key_make(file, kernel);
    key.helper = "lanes.clh";
    key.more_helpers[0] = "lanes_dropout.clh";
    key.more_helpers[1] = "lanes_backward.clh";
    cla_key_define(&key, "REAL", p->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", x->lanes);
    cla_key_define(&key, "STAGED", 1);
    cla_key_define(&key, "JV", x->panel_vectors);
    cla_key_define(&key, "R1", x->score_rows);
    cla_key_define(&key, "RO", x->sum_rows);
    cla_key_define(&key, "OV", x->sum_vectors);
    cla_key_define(&key, "BM", x->keys);
    cla_key_define(&key, "BQ", x->queries);
    cla_key_define(&key, "DC", x->dims);
    cla_key_define(&key, "DEEP", deep);
    cla_key_define(&key, "DROPOUT", p->dropout > 0);
    cla_key_define(&key, "MASKS", any ? 3 : p->interval ? 1 : 0);
    return key;
}

/* One where the key heads keep all cores busy; else enough for two rounds of work, as far as there are tiles. Bits of
 * dQ depend on them: with batch_invariant they are those of a head alone. */
static int64_t splits_for(const cla_problem *p, const clattn_device_info *device, const state *s) {
    const int64_t heads = p->batch_invariant ? 1 : p->B * p->Hk, cores = cla_max(device->compute_units, 1);
    if (heads >= 4 * cores || heads % cores == 0)
        return 1;
    return cla_min(cla_ceil_div(2 * cores, heads), cla_ceil_div(p->M, s->keys));
}

/* Numbers in scratch: of dQ of each split, and with DEEP of tiles of each work-item. */
static int64_t sums_numbers(const cla_problem *p, int64_t splits) {
    const bool in_place = !cla_present(&p->d_q) || (splits == 1 && p->d_q.dtype == p->dtype);
    return in_place ? 0 : splits * cla_rows_of_all(p) * p->D;
}
static bool wants_tensors(const cla_problem *p) {
    return cla_present(&p->d_q) || cla_present(&p->d_k) || cla_present(&p->d_v);
}
static int64_t room_numbers(const cla_problem *p, const state *s, int64_t splits) {
    return cla_max(wants_tensors(p) ? splits * p->Hk * p->B : 0, s->bias_groups) * s->room;
}

static int64_t product(const int64_t x[4]) { return x[0] * x[1] * x[2] * x[3]; }
static int64_t bias_numbers(const state *s) {
    const int64_t parts = product(s->bias_parts);
    return parts == 1 ? 0 : parts * product(s->bias_axes);
}

/* Of all scratch, in whole pieces of cla_plan_scratch. */
static int64_t scratch_bytes(const cla_problem *p, const state *s, int64_t splits) {
    const int64_t numbers[] = {cla_rows_of_all(p), sums_numbers(p, splits), room_numbers(p, s, splits),
                               bias_numbers(s)};
    int64_t bytes = 0;
    for (int i = 0; i < 4; i++)
        bytes += cla_round_up(numbers[i] * (int64_t)clattn_dtype_size(p->dtype), 256);
    return bytes;
}

/* Each split costs the memory of dQ once more: so many as there is room for. */
static void choose_splits(clattn_plan *plan, state *s) {
    const cla_problem *p = &plan->problem;
    const int64_t wanted = splits_for(p, cla_context_device(plan->context), s), left = cla_plan_scratch_left(plan);
    s->splits = wanted;
    while (s->splits > 1 && !p->batch_invariant && scratch_bytes(p, s, s->splits) > left)
        s->splits--;
    if (s->splits < wanted)
        cla_str_append(&plan->text, "max_workspace leaves no room for %lld splits of the keys\n", (long long)wanted);
    s->in_place = sums_numbers(p, s->splits) == 0;
    s->groups = s->splits * p->Hk * p->B;
}

static clattn_status ask_for_scratch(clattn_plan *plan, state *s) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype);
    CLA_TRY(cla_plan_scratch(plan, cla_rows_of_all(p) * size, "sums of dO O of each query", &s->del_at));
    if (s->room > 0)
        CLA_TRY(cla_plan_scratch(plan, room_numbers(p, s, s->splits) * size, "rows of tiles of each work-item",
                                 &s->room_at));
    if (!s->in_place)
        CLA_TRY(cla_plan_scratch(plan, sums_numbers(p, s->splits) * size, "gradients of queries of each split of keys",
                                 &s->sums_at));
    if (bias_numbers(s) > 0)
        CLA_TRY(cla_plan_scratch(plan, bias_numbers(s) * size, "parts of the gradient of the bias", &s->bias_at));
done:
    return status;
}

/* Work-items for the gradient of the bias: its tiles, and where those are too few for the cores, parts of the axes that
 * are summed into it. */
static void choose_bias_parts(const clattn_plan *plan, state *s) {
    const cla_problem *p = &plan->problem;
    const clattn_tensor *t = &p->d_bias;
    const int64_t all[4] = {p->B, p->H, cla_ceil_div(p->N, s->queries), cla_ceil_div(p->M, s->keys)};
    for (int axis = 0; axis < 4; axis++) {
        s->bias_axes[axis] = t->stride[axis] ? t->shape[axis] : 1;
        s->bias_parts[axis] = 1;
    }
    if (!cla_present(t))
        return;
    s->bias_groups = s->bias_axes[0] * s->bias_axes[1] * cla_ceil_div(s->bias_axes[2], s->queries) *
                     cla_ceil_div(s->bias_axes[3], s->keys);
    if (s->bias_groups == 0 || p->batch_invariant || s->room > 0 || t->stride[3] > 1) /* parts are added in rows */
        return;
    int64_t wanted = cla_ceil_div(4 * cla_max(cla_context_device(plan->context)->compute_units, 1), s->bias_groups);
    for (int axis = 0; axis < 4; axis++)
        if (t->stride[axis] == 0) {
            s->bias_parts[axis] = cla_min(wanted, all[axis]);
            wanted = cla_ceil_div(wanted, s->bias_parts[axis]);
        }
    if (scratch_bytes(p, s, 1) > cla_plan_scratch_left(plan))
        for (int axis = 0; axis < 4; axis++)
            s->bias_parts[axis] = 1;
    s->bias_groups *= product(s->bias_parts);
}

static clattn_status create_kernels(clattn_plan *plan, state *s, const blocks *x, bool deep) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    static const char file[] = "attention_lanes_backward.cl";
    cla_key key = key_for(p, x, deep, file, "attention_lanes_prepare");
    CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->prepare));
    key = key_for(p, x, deep, file, "attention_lanes_backward");
    if (wants_tensors(p))
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->backward));
    key = key_for(p, x, deep, file, "attention_lanes_reduce");
    if (!s->in_place)
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->reduce));
    key = key_for(p, x, deep, file, "attention_lanes_sinks");
    if (cla_present(&p->d_sinks))
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->sinks));
    key = key_for(p, x, deep, "attention_lanes_bias.cl", "attention_lanes_bias");
    if (cla_present(&p->d_bias))
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->bias));
    key = key_for(p, x, deep, file, "attention_lanes_reduce");
    if (bias_numbers(s) > 0)
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->add_parts));
done:
    return status;
}

/* For the profile: operations of the products, and each tensor read or written once. */
static void state_costs(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const clattn_tensor *const inputs[] = {&p->q, &p->k, &p->v, &p->d_o, &p->state, &p->keep, &p->drop, &p->bias};
    const double size = (double)clattn_dtype_size(p->dtype), rows = (double)cla_rows_of_all(p), del = rows * size;
    const double pairs = 2 * cla_problem_pairs(p), D = (double)p->D, Dv = (double)p->Dv;
    const double sums = (double)sums_numbers(p, s->splits) * size, dq = cla_tensor_bytes(p, &p->d_q);
    const double parts = (double)bias_numbers(s);
    double in = del;
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++)
        in += cla_tensor_bytes(p, inputs[i]);
    cla_kernel_cost(s->prepare, 2 * rows * Dv, cla_tensor_bytes(p, &p->o) + cla_tensor_bytes(p, &p->d_o) + del);
    if (s->backward)
        cla_kernel_cost(s->backward,
                        pairs *
                            (D * (1 + cla_present(&p->d_q) + cla_present(&p->d_k)) + Dv * (1 + cla_present(&p->d_v))),
                        in + (s->in_place ? dq : sums) + cla_tensor_bytes(p, &p->d_k) + cla_tensor_bytes(p, &p->d_v));
    if (s->reduce)
        cla_kernel_cost(s->reduce, (double)(s->splits - 1) * rows * D, sums + dq);
    if (s->sinks)
        cla_kernel_cost(s->sinks, 4 * rows, del + cla_tensor_bytes(p, &p->state) + 2 * cla_tensor_bytes(p, &p->sinks));
    if (s->bias)
        cla_kernel_cost(s->bias, pairs * (D + Dv),
                        in + (s->add_parts ? parts * size : cla_tensor_bytes(p, &p->d_bias)));
    if (s->add_parts)
        cla_kernel_cost(s->add_parts, parts, parts * size + cla_tensor_bytes(p, &p->d_bias));
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_device_info *device = cla_context_device(plan->context);
    bool deep;
    const blocks x = choose_blocks(p, device, &deep);
    state *s = NULL;
    CLA_TRY(cla_alloc(1, sizeof *s, "fused_lanes backward", &s));
    plan->state = s;
    s->keys = x.keys;
    s->queries = x.queries;
    if (deep) {
        const int64_t ds = cla_round_up(p->D, 2 * x.lanes), vs = cla_round_up(p->Dv, 2 * x.lanes);
        s->room = x.keys * (3 * ds + 2 * vs) + x.queries * (2 * ds + vs) + x.sum_rows * ds;
    }
    choose_bias_parts(plan, s);
    choose_splits(plan, s);
    CLA_TRY(create_kernels(plan, s, &x, deep));
    CLA_TRY(ask_for_scratch(plan, s));
    if (cla_costs_wanted(plan->context))
        state_costs(plan);
    cla_str_append(&plan->text, "tiles: %d keys x %d queries, %d lanes; %lld split(s) of the keys of a head\n", s->keys,
                   s->queries, x.lanes, (long long)s->splits);
done:
    return status;
}

static void fill_inputs(const clattn_plan *plan, cla_lanes_inputs *in) {
    const state *s = plan->state;
    cla_fill_backward_inputs(plan, s->del_at, in);
    in->room = s->room;
    in->room_0 = (cl_long)(s->room_at / clattn_dtype_size(plan->problem.dtype));
}

static void fill_args(const clattn_plan *plan, cla_lanes_backward_args *a) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const clattn_tensor *dq = &p->d_q, *dk = &p->d_k, *dv = &p->d_v;
    const int64_t rows = cla_rows_of_head(p);
    *a =
        (cla_lanes_backward_args){.splits = (cl_int)s->splits,
                                  .wanted = (cla_present(dq) ? CLA_WANTS_DQ : 0) |
                                            (cla_present(dk) ? CLA_WANTS_DK : 0) | (cla_present(dv) ? CLA_WANTS_DV : 0),
                                  .dk_type = (cl_int)dk->dtype,
                                  .dv_type = (cl_int)dv->dtype};
    a->dk_b = dk->stride[0], a->dk_h = dk->stride[1], a->dk_j = dk->stride[2], a->dk_0 = dk->offset;
    a->dv_b = dv->stride[0], a->dv_h = dv->stride[1], a->dv_j = dv->stride[2], a->dv_0 = dv->offset;
    a->sums_b = dq->stride[0], a->sums_h = dq->stride[1], a->sums_i = dq->stride[2], a->sums_0 = dq->offset;
    if (!s->in_place) {
        a->sums_0 = (cl_long)(s->sums_at / clattn_dtype_size(p->dtype));
        a->sums_i = p->D;
        a->sums_h = rows * p->D;
        a->sums_b = p->ragged ? 0 : p->H * a->sums_h;
        a->sums_s = cla_rows_of_all(p) * p->D;
    }
    fill_inputs(plan, &a->in);
}

/* Over all rows of queries, CLA_LANES_ROWS a work-item: what precedes the gradients, and joins them. */
static int64_t row_groups(const cla_problem *p) { return cla_ceil_div(p->N, CLA_LANES_ROWS) * p->H * p->B; }

static clattn_status prepare(const clattn_plan *plan, const cla_lanes_backward_args *a) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const cla_arg args[] = {CLA_ARG_BUFFER(p->o.buffer), CLA_ARG_BUFFER(p->d_o.buffer), CLA_ARG_BUFFER(plan->scratch),
                            CLA_ARG_BUFFER(plan->spans), CLA_ARG_VALUE(*a)};
    return cla_launch(plan->context, s->prepare, row_groups(p), args, (int)(sizeof args / sizeof *args));
}

/* In one piece, or parts of it, dense, in scratch. */
static cla_lanes_bias_args bias_args(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const clattn_tensor *t = &p->d_bias;
    cla_lanes_bias_args a = {.db_b = t->stride[0],
                             .db_h = t->stride[1],
                             .db_i = t->stride[2],
                             .db_j = t->stride[3],
                             .db_0 = t->offset,
                             .batches = (cl_int)s->bias_axes[0],
                             .heads = (cl_int)s->bias_axes[1],
                             .rows = (cl_int)s->bias_axes[2],
                             .columns = (cl_int)s->bias_axes[3],
                             .parts_b = (cl_int)s->bias_parts[0],
                             .parts_h = (cl_int)s->bias_parts[1],
                             .parts_i = (cl_int)s->bias_parts[2],
                             .parts_j = (cl_int)s->bias_parts[3],
                             .db_type = (cl_int)t->dtype};
    if (s->add_parts) {
        a.db_i = t->stride[2] ? a.columns : 0;
        a.db_h = t->stride[1] ? (cl_long)a.rows * a.columns : 0;
        a.db_b = t->stride[0] ? (cl_long)a.heads * a.rows * a.columns : 0;
        a.db_0 = (cl_long)(s->bias_at / clattn_dtype_size(p->dtype));
        a.db_part = product(s->bias_axes);
        a.db_type = (cl_int)p->dtype;
    }
    fill_inputs(plan, &a.in);
    return a;
}

/* As parts of dQ are added, in their order. */
static clattn_status add_parts(const clattn_plan *plan, const cla_lanes_bias_args *from) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const clattn_tensor *t = &p->d_bias;
    const cl_long row = from->columns, head = from->rows * row;
    cla_lanes_backward_args a = {.splits = (cl_int)product(s->bias_parts),
                                 .sums_s = from->db_part,
                                 .sums_b = from->heads * head,
                                 .sums_h = head,
                                 .sums_i = row,
                                 .sums_0 = from->db_0};
    const cla_lanes_result_args to = {.dq_b = t->stride[0],
                                      .dq_h = t->stride[1],
                                      .dq_i = t->stride[2],
                                      .dq_0 = t->offset,
                                      .dq_type = (cl_int)t->dtype};
    a.in.forward.N = from->rows;
    a.in.forward.H = from->heads;
    a.in.forward.D = from->columns;
    const cla_arg args[] = {CLA_ARG_BUFFER(plan->scratch), CLA_ARG_BUFFER(t->buffer), CLA_ARG_BUFFER(plan->spans),
                            CLA_ARG_VALUE(a), CLA_ARG_VALUE(to)};
    return cla_launch(plan->context, s->add_parts,
                      cla_ceil_div(from->rows, CLA_LANES_ROWS) * from->heads * from->batches, args,
                      (int)(sizeof args / sizeof *args));
}

static clattn_status differentiate_bias(const clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const state *s = plan->state;
    const cla_lanes_bias_args a = bias_args(plan);
    const clattn_buffer *const more[] = {s->add_parts ? plan->scratch : plan->problem.d_bias.buffer, plan->scratch};
    CLA_TRY(cla_launch_gradients(plan, s->bias, s->bias_groups, more, 2, CLA_ARG_VALUE(a)));
    if (s->add_parts)
        CLA_TRY(add_parts(plan, &a));
done:
    return status;
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    cla_lanes_backward_args a;
    const cla_lanes_result_args to = {.dq_b = p->d_q.stride[0],
                                      .dq_h = p->d_q.stride[1],
                                      .dq_i = p->d_q.stride[2],
                                      .dq_0 = p->d_q.offset,
                                      .sinks_h = p->d_sinks.stride[3],
                                      .sinks_0 = p->d_sinks.offset,
                                      .dq_type = (cl_int)p->d_q.dtype,
                                      .sinks_type = (cl_int)p->d_sinks.dtype};
    fill_args(plan, &a);
    CLA_TRY(prepare(plan, &a));
    const clattn_buffer *const sums = s->in_place ? p->d_q.buffer : plan->scratch;
    const clattn_buffer *const outputs[] = {sums, p->d_k.buffer, p->d_v.buffer, plan->scratch};
    if (s->backward)
        CLA_TRY(cla_launch_gradients(plan, s->backward, s->groups, outputs, 4, CLA_ARG_VALUE(a)));
    if (s->reduce) {
        const cla_arg args[] = {CLA_ARG_BUFFER(plan->scratch), CLA_ARG_BUFFER(p->d_q.buffer),
                                CLA_ARG_BUFFER(plan->spans), CLA_ARG_VALUE(a), CLA_ARG_VALUE(to)};
        CLA_TRY(cla_launch(plan->context, s->reduce, row_groups(p), args, (int)(sizeof args / sizeof *args)));
    }
    if (s->sinks) {
        const cla_arg args[] = {CLA_ARG_BUFFER(p->sinks.buffer),
                                CLA_ARG_BUFFER(p->state.buffer),
                                CLA_ARG_BUFFER(plan->scratch),
                                CLA_ARG_BUFFER(plan->spans),
                                CLA_ARG_BUFFER(p->d_sinks.buffer),
                                CLA_ARG_VALUE(a),
                                CLA_ARG_VALUE(to)};
        CLA_TRY(cla_launch(plan->context, s->sinks, p->H, args, (int)(sizeof args / sizeof *args)));
    }
    if (s->bias)
        CLA_TRY(differentiate_bias(plan));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    state *s = plan->state;
    if (!s)
        return;
    cla_kernel *const kernels[] = {s->prepare, s->backward, s->reduce, s->sinks, s->bias, s->add_parts};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        cla_kernel_destroy(kernels[i]);
    cla_free(s);
    plan->state = NULL;
}

const cla_algorithm cla_backward_fused_lanes = {.name = "fused_lanes",
                                                .summary =
                                                    "fused, for CPUs through OpenCL: a work-item owns keys of a head",
                                                .applies = applies,
                                                .suits = suits,
                                                .unit_inner = true,
                                                .create = create,
                                                .execute = execute,
                                                .destroy = destroy};
