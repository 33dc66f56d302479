/* SPDX-License-Identifier: Apache-2.0 */
/* The pass after an algorithm on OpenCL that gives weights, in any form and of any rows, their mean over heads, column
 * sums and entropy: weights.cl computes the scores again, so that there is no N x M buffer but the one asked for. */
#include "args.h"
#include "attention/plan.h"
#include <string.h>

/* Tiles by the lanes of a vector, and for devices that are no CPU. */
typedef struct {
    int lanes, group, rows, keys, dims, block_rows, block_vectors;
} tiling;
static const tiling cpu_table[] = {
    {16, 1, 48, 64, 64, 6, 4},
    {8, 1, 48, 64, 64, 6, 2},
    {4, 1, 48, 64, 64, 6, 2},
};
static const tiling gpu_tiles = {4, 64, 32, 32, 32, 4, 1}, gpu_tiles_f64 = {4, 64, 32, 32, 16, 4, 1};
static const tiling small_tiles = {4, 1, 12, 32, 16, 6, 2}; /* where local memory is too small for the others */
enum { CHUNK_TILES = 16 };

typedef enum { SUMS, ROWS, COLUMNS, ADD, KERNELS } kernel_name;
static const char *const kernel_names[KERNELS] = {"weights_sums", "weights_rows", "weights_columns", "weights_add"};

struct cla_weights {
    tiling tile;
    cla_kernel *kernels[KERNELS];
    int64_t chunks;                 /* of queries, for column sums */
    bool of_all;                    /* the sums of all rows are needed, not only of those listed */
    size_t sums_at, parts_at;       /* bytes in scratch */
    clattn_buffer *heads, *queries; /* int lists, or NULL */
};

bool cla_weights_by_pass(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    return cla_present(&p->weights) && !cla_context_is_cpu(plan->context) &&
           (!plan->algorithm->weights || p->mean || p->form_queries || p->form_heads);
}

static bool is_needed(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    return cla_weights_by_pass(plan) ||
           (!cla_context_is_cpu(plan->context) && (cla_present(&p->column_sums) || cla_present(&p->entropy)));
}

/* Of the kernel that takes most. */
static uint64_t local_bytes(const tiling *t, clattn_dtype dtype) {
    const int scores = t->rows * t->keys, states = 3 * t->rows * t->lanes;
    const int numbers = t->rows * t->dims + t->dims * t->keys + scores + (scores > states ? scores : states);
    return clattn_dtype_size(dtype) * (uint64_t)numbers + 3 * sizeof(cl_int) * (uint64_t)t->rows;
}

static tiling tiling_for(const clattn_device_info *device, clattn_dtype dtype) {
    const tiling *cpu = cpu_table;
    while (cpu->lanes > cla_vectors_for(device, dtype).lanes)
        cpu++;
    const bool is_cpu = device->device_class == CLATTN_DEVICE_CPU;
    const tiling *t = is_cpu || device->max_work_group < (uint64_t)gpu_tiles.group ? cpu
                      : dtype == CLATTN_F64                                        ? &gpu_tiles_f64
                                                                                   : &gpu_tiles;
    return local_bytes(t, dtype) <= device->local_bytes ? *t : small_tiles;
}

static clattn_status make_kernel(clattn_plan *plan, cla_weights *w, kernel_name which) {
    const tiling *t = &w->tile;
    cla_key key = cla_key_make("weights.cl", kernel_names[which]);
    key.helper = "lanes.clh";
    cla_key_define(&key, "REAL", plan->problem.dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", t->lanes);
    cla_key_define(&key, "STAGED", 1);
    cla_key_define(&key, "WG", t->group);
    cla_key_define(&key, "TQ", t->rows);
    cla_key_define(&key, "TK", t->keys);
    cla_key_define(&key, "DS", t->dims);
    cla_key_define(&key, "RQ", t->block_rows);
    cla_key_define(&key, "RV", t->block_vectors);
    cla_key_define_hint(&key, cla_context_device(plan->context));
    return cla_kernel_create(plan->context, &key, (size_t)t->group, &w->kernels[which]);
}

static clattn_status upload_list(clattn_plan *plan, const char *what, const int64_t *list, int64_t count,
                                 clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    cl_int *narrow = NULL;
    if (!list || count == 0)
        goto done;
    CLA_TRY(cla_alloc((size_t)count, sizeof *narrow, "rows of weights", &narrow));
    for (int64_t i = 0; i < count; i++)
        narrow[i] = (cl_int)list[i];
    CLA_TRY(cla_plan_upload(plan, what, narrow, count, sizeof *narrow, buffer));
done:
    cla_free(narrow);
    return status;
}

static clattn_status ask_for_scratch(clattn_plan *plan, cla_weights *w) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), heads = p->B * p->H;
    int64_t parts = 0, sums = 0;
    const bool counted = cla_mul(heads, p->N, &sums) && cla_mul(sums, 2 * size, &sums);
    if (w->kernels[SUMS])
        CLA_TRY(cla_plan_scratch(plan, counted ? sums : INT64_MAX, "the maximum and sum of each row of weights",
                                 &w->sums_at));
    w->chunks = cla_ceil_div(p->N, CHUNK_TILES * w->tile.rows);
    if (!w->kernels[COLUMNS] || w->chunks == 1)
        goto done;
    const bool fits = cla_mul(heads, w->chunks, &parts) && cla_mul(parts, p->M, &parts) && cla_mul(parts, size, &parts);
    if (!p->batch_invariant && (!fits || parts > cla_plan_scratch_left(plan) / 2)) { /* slower, and in no scratch */
        w->chunks = 1;
        goto done;
    }
    CLA_TRY(cla_plan_scratch(plan, fits ? parts : INT64_MAX, "column sums of chunks of queries", &w->parts_at));
    CLA_TRY(make_kernel(plan, w, ADD));
done:
    return status;
}

clattn_status cla_weights_create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const bool rows = cla_weights_by_pass(plan), columns = cla_present(&p->column_sums);
    cla_weights *w = NULL;
    if (!is_needed(plan))
        goto done;
    CLA_TRY(cla_alloc(1, sizeof *w, "weights", &w));
    plan->weights = w;
    w->tile = tiling_for(cla_context_device(plan->context), p->dtype);
    w->of_all = columns || cla_present(&p->entropy);
    cla_str_append(&plan->text, "weights: a pass of their own over q and k, tiles of %d queries x %d keys, %d lanes\n",
                   w->tile.rows, w->tile.keys, w->tile.lanes);
    if (w->of_all || (rows && p->form == CLATTN_WEIGHTS_SOFTMAX))
        CLA_TRY(make_kernel(plan, w, SUMS));
    if (rows)
        CLA_TRY(make_kernel(plan, w, ROWS));
    if (columns)
        CLA_TRY(make_kernel(plan, w, COLUMNS));
    CLA_TRY(upload_list(plan, "the heads of weights", p->form_heads, p->head_count, &w->heads));
    CLA_TRY(upload_list(plan, "the queries of weights", p->form_queries, p->row_count, &w->queries));
    CLA_TRY(ask_for_scratch(plan, w));
done:
    return status;
}

void cla_weights_destroy(clattn_plan *plan) {
    cla_weights *w = plan->weights;
    if (!w)
        return;
    for (int i = 0; i < KERNELS; i++)
        cla_kernel_destroy(w->kernels[i]);
    clattn_buffer_destroy(w->heads);
    clattn_buffer_destroy(w->queries);
    cla_free(w);
    plan->weights = NULL;
}

/* ---- execution ---- */

static void fill_outputs(const cla_problem *p, cla_weights_args *a) {
    const clattn_tensor *w = &p->weights, *c = &p->column_sums, *e = &p->entropy;
    a->w_b = w->stride[0], a->w_h = w->stride[1], a->w_i = w->stride[2], a->w_j = w->stride[3], a->w_0 = w->offset;
    a->c_b = c->stride[1], a->c_h = c->stride[2], a->c_j = c->stride[3], a->c_0 = c->offset;
    a->e_b = e->stride[1], a->e_h = e->stride[2], a->e_i = e->stride[3], a->e_0 = e->offset;
    a->form = (cl_int)p->form;
    a->mean = p->mean;
    a->has_entropy = cla_present(e);
}

/* Everything but which rows. */
static cla_weights_args common_args(const clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const cla_weights *w = plan->weights;
    const size_t size = clattn_dtype_size(p->dtype);
    cla_attention_args x;
    cla_fill_attention_args(plan, &x);
    cla_weights_args a = {.q_b = x.q_b,
                          .q_h = x.q_h,
                          .q_i = x.q_i,
                          .q_0 = x.q_0,
                          .k_b = x.k_b,
                          .k_h = x.k_h,
                          .k_j = x.k_j,
                          .k_0 = x.k_0,
                          .k_page = x.k_page,
                          .sum_0 = (cl_long)(w->sums_at / size),
                          .part_0 = (cl_long)(w->parts_at / size),
                          .mask = x.mask,
                          .scale_bits = x.scale_bits,
                          .B = (cl_int)p->B,
                          .H = x.H,
                          .group = x.group,
                          .N = x.N,
                          .M = x.M,
                          .D = x.D,
                          .interval = p->interval,
                          .ragged = p->ragged,
                          .paged = p->table != NULL,
                          .key_tiles = (cl_int)cla_ceil_div(p->M, w->tile.keys),
                          .chunks = (cl_int)w->chunks,
                          .q_type = x.q_type,
                          .k_type = x.k_type,
                          .page_size = x.page_size,
                          .pages = x.pages,
                          .scale = x.scale};
    fill_outputs(p, &a);
    return a;
}

/* Which rows a kernel works on: those listed, or all. */
static void choose_rows(const clattn_plan *plan, bool all, cla_weights_args *a) {
    const cla_problem *p = &plan->problem;
    const cla_weights *w = plan->weights;
    a->has_heads = !all && w->heads;
    a->has_queries = !all && w->queries;
    a->heads = (cl_int)(all ? p->H : p->head_count);
    a->queries = (cl_int)(all ? p->N : p->row_count);
    a->row_tiles = (cl_int)cla_ceil_div(a->queries, w->tile.rows);
    a->chunk_tiles = (cl_int)(w->chunks > 1 ? CHUNK_TILES : a->row_tiles);
}

enum { INPUTS = 12 };
static clattn_status launch(clattn_plan *plan, kernel_name which, int64_t groups, const cla_arg *rest, int count,
                            const cla_weights_args *a) {
    const cla_problem *p = &plan->problem;
    const cla_weights *w = plan->weights;
    const cla_arg inputs[INPUTS] = {
        CLA_ARG_BUFFER(p->q.buffer),    CLA_ARG_BUFFER(p->k.buffer),      CLA_ARG_BUFFER(plan->spans),
        CLA_ARG_BUFFER(p->keep.buffer), CLA_ARG_BUFFER(p->drop.buffer),   CLA_ARG_BUFFER(p->bias.buffer),
        CLA_ARG_BUFFER(plan->slopes),   CLA_ARG_BUFFER(plan->q_segments), CLA_ARG_BUFFER(plan->k_segments),
        CLA_ARG_BUFFER(plan->table),    CLA_ARG_BUFFER(w->heads),         CLA_ARG_BUFFER(w->queries)};
    cla_arg args[INPUTS + 4];
    memcpy(args, inputs, sizeof inputs);
    memcpy(args + INPUTS, rest, (size_t)count * sizeof *rest);
    args[INPUTS + count] = CLA_ARG_VALUE(*a);
    return cla_launch(plan->context, w->kernels[which], groups, args, INPUTS + count + 1);
}

static clattn_status run_sums(clattn_plan *plan, cla_weights_args a) {
    const cla_problem *p = &plan->problem;
    const cla_arg rest[] = {CLA_ARG_BUFFER(p->sinks.buffer), CLA_ARG_BUFFER(plan->scratch),
                            CLA_ARG_BUFFER(p->entropy.buffer)};
    choose_rows(plan, plan->weights->of_all, &a);
    if (cla_costs_wanted(plan->context))
        cla_kernel_cost(plan->weights->kernels[SUMS], 2 * cla_problem_pairs(p) * (double)p->D, 0);
    return launch(plan, SUMS, p->B * a.heads * a.row_tiles, rest, 3, &a);
}

static clattn_status run_rows(clattn_plan *plan, cla_weights_args a) {
    const cla_problem *p = &plan->problem;
    const cla_arg rest[] = {CLA_ARG_BUFFER(plan->weights->kernels[SUMS] ? plan->scratch : NULL),
                            CLA_ARG_BUFFER(p->weights.buffer)};
    choose_rows(plan, false, &a);
    cla_kernel_cost(plan->weights->kernels[ROWS],
                    2.0 * (double)p->B * a.heads * a.queries * (double)p->M * (double)p->D, 0);
    return launch(plan, ROWS, p->B * (a.mean ? 1 : a.heads) * a.row_tiles * a.key_tiles, rest, 2, &a);
}

static clattn_status run_columns(clattn_plan *plan, cla_weights_args a) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const cla_weights *w = plan->weights;
    const cla_arg rest[] = {CLA_ARG_BUFFER(plan->scratch), CLA_ARG_BUFFER(p->column_sums.buffer),
                            CLA_ARG_BUFFER(plan->scratch)};
    choose_rows(plan, true, &a);
    if (cla_costs_wanted(plan->context))
        cla_kernel_cost(w->kernels[COLUMNS], 2 * cla_problem_pairs(p) * (double)p->D, 0);
    CLA_TRY(launch(plan, COLUMNS, p->B * p->H * a.key_tiles * a.chunks, rest, 3, &a));
    if (a.chunks == 1)
        goto done;
    const cla_arg args[] = {CLA_ARG_BUFFER(plan->scratch), CLA_ARG_BUFFER(plan->spans),
                            CLA_ARG_BUFFER(p->column_sums.buffer), CLA_ARG_VALUE(a)};
    CLA_TRY(cla_launch(plan->context, w->kernels[ADD], cla_ceil_div(p->B * p->H * p->M, w->tile.group), args, 4));
done:
    return status;
}

clattn_status cla_weights_execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_weights *w = plan->weights;
    if (!w)
        goto done;
    const cla_weights_args a = common_args(plan);
    if (w->kernels[SUMS])
        CLA_TRY(run_sums(plan, a));
    if (w->kernels[ROWS])
        CLA_TRY(run_rows(plan, a));
    if (w->kernels[COLUMNS])
        CLA_TRY(run_columns(plan, a));
done:
    return status;
}
