/* SPDX-License-Identifier: Apache-2.0 */
/* `fused_split`: fused attention for few queries and many keys on CPU-class devices, such as decoding. Decides how many
 * rows a work-item takes, and in how many splits the keys go; attention_split.cl does the rest. */
#include "args.h"
#include "attention/plan.h"
#include <limits.h>
#include <stdio.h>

enum {
    MOST = 16,           /* rows of a work-item */
    CAP = 8192,          /* numbers of Q, and of O, that it holds: with the rest 70 to 150 KiB of stack */
    TILE = 64,           /* keys; splits are multiples of it */
    LEAST_KEYS = 256,    /* of a split */
    MOST_SPLITS = 64,    /* that a variant has */
    INVARIANT_KEYS = 512 /* of a split, where it may depend on nothing else */
};
enum { FEW_ROWS = 16, FEW_QUERIES = 4, MANY_KEYS = 32 };

typedef struct {
    cla_kernel *split, *merge;
    int64_t rows, tiles; /* of a work-item; work-items of a key head */
    int64_t columns, chunks;
    int64_t splits, split_keys;
    int64_t part; /* numbers of a split and row in scratch */
    size_t parts_at;
} state;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    return cla_needs_opencl(p, device, reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    if (cla_present(&p->state)) {
        snprintf(reason, reason_bytes, "sums scores in another order than the backward pass");
        return false;
    }
    const int64_t rows = p->N * p->group;
    if (p->batch_invariant)
        snprintf(reason, reason_bytes,
                 "is for few queries, and with batch_invariant their number may not decide; ask for it by name");
    else if (device->device_class != CLATTN_DEVICE_CPU)
        snprintf(
            reason, reason_bytes,
            "is written for CPUs, and %.100s is none; its form for GPUs, tiles with split keys, does not exist yet",
            device->name);
    else if (rows > FEW_ROWS)
        snprintf(reason, reason_bytes, "is for up to %d rows a key head; here are %lld, %lld queries x %lld heads",
                 FEW_ROWS, (long long)rows, (long long)p->N, (long long)p->group);
    else if (p->M < MANY_KEYS)
        snprintf(reason, reason_bytes, "is for %d keys or more; here are %lld", MANY_KEYS, (long long)p->M);
    else
        return true;
    return false;
}

/* Storage of both K and V, which the kernel is compiled for; -1: it looks at run time, and with dropout always, so that
 * builds are few. */
static int storage_of(const cla_problem *p) {
    return p->k.dtype == p->v.dtype && !(p->dropout > 0) ? (int)p->k.dtype : -1;
}

/* Builds: 4 classes of masks x storage (7 types with f64, and any, without and with dropout) = at most 36 a type of
 * sums. */
static cla_key key_for(const cla_problem *p, const clattn_device_info *device, const char *kernel) {
    const cla_vectors vectors = cla_vectors_for(device, p->dtype);
    cla_key key = cla_key_make("attention_split.cl", kernel);
    key.helper = "lanes.clh";
    key.more_helpers[0] = "lanes_dropout.clh";
    cla_key_define(&key, "REAL", p->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", vectors.lanes);
    cla_key_define(&key, "ACC", vectors.registers / 2);
    cla_key_define(&key, "STAGED", 1);
    cla_key_define(&key, "STORAGE", storage_of(p));
    cla_key_define(&key, "MASKS", (p->interval ? 1 : 0) | (p->score ? 2 : 0));
    cla_key_define(&key, "DROPOUT", p->dropout > 0);
    cla_key_define(&key, "MOST", MOST);
    cla_key_define(&key, "CAP", CAP);
    return key;
}

/* As few work-items as hold all rows of a key head, with the columns of O in one chunk if they can be. */
static void cut_rows(const cla_problem *p, state *s) {
    const int64_t all = p->N * p->group, widest = cla_round_up(cla_max(p->D, cla_max(p->Dv, 1)), 16);
    const int64_t most = cla_max(1, cla_min(MOST, CAP / widest));
    s->tiles = cla_ceil_div(all, most);
    s->rows = cla_ceil_div(all, s->tiles);
    s->columns = cla_min(cla_max(p->Dv, 1), CAP);
    s->chunks = cla_ceil_div(cla_max(p->Dv, 1), s->columns);
}

/* Splits help only while there are fewer work-items than cores can be kept busy with. With batch_invariant they begin
 * at fixed keys, whatever the batch. asked: so many at most; 0: that choice. */
static void cut_keys(const cla_problem *p, const clattn_device_info *device, int64_t asked, state *s) {
    const int64_t items = p->B * p->Hk * s->tiles * s->chunks, wanted = 4 * (int64_t)device->compute_units;
    const int64_t enough = items >= wanted ? 1 : cla_min(cla_ceil_div(wanted, items), p->M / LEAST_KEYS);
    const int64_t splits = asked ? asked : enough;
    s->split_keys = p->batch_invariant ? INVARIANT_KEYS : cla_round_up(cla_ceil_div(p->M, cla_max(1, splits)), TILE);
    s->splits = cla_ceil_div(p->M, s->split_keys);
}

/* Numbers of splits, the default first, then powers of two that are possible. Bits depend on them: with batch_invariant
 * there is one way. */
static size_t list_splits(const cla_problem *p, const clattn_device_info *device, int64_t list[CLA_VARIANTS]) {
    state s = {0};
    size_t count = 0;
    if (p->batch_invariant)
        return 0;
    cut_rows(p, &s);
    cut_keys(p, device, 0, &s);
    list[count++] = s.splits;
    for (int64_t splits = 1; splits <= MOST_SPLITS; splits *= 2) {
        cut_keys(p, device, splits, &s);
        if (s.splits == splits && splits != list[0])
            list[count++] = splits;
    }
    return count;
}

static size_t variants(const cla_problem *p, const clattn_device_info *device, cla_variant out[CLA_VARIANTS]) {
    int64_t list[CLA_VARIANTS];
    const size_t count = list_splits(p, device, list);
    for (size_t i = 0; i < count; i++)
        snprintf(out[i].text, sizeof out[i].text, "splits=%lld", (long long)list[i]);
    return count;
}

static clattn_status ask_for_parts(clattn_plan *plan, state *s) {
    const cla_problem *p = &plan->problem;
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype), rows = p->B * p->H * p->N;
    s->part = cla_round_up(p->Dv, 16) + 16;
    if (s->splits == 1)
        return CLATTN_OK;
    if (!p->batch_invariant && plan->variant == 0 &&
        rows * s->splits * s->part * size > cla_plan_scratch_left(plan)) { /* slower, and in no scratch at all */
        cla_str_append(&plan->text, "max_workspace leaves no room for %lld splits of the keys\n", (long long)s->splits);
        s->splits = 1;
        s->split_keys = cla_round_up(p->M, TILE);
        return CLATTN_OK;
    }
    return cla_plan_scratch(plan, rows * s->splits * s->part * size, "sums of splits", &s->parts_at);
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_device_info *device = cla_context_device(plan->context);
    state *s = NULL;
    CLA_TRY(cla_alloc(1, sizeof *s, "fused_split", &s));
    plan->state = s;
    cut_rows(p, s);
    int64_t splits[CLA_VARIANTS] = {0};
    if (plan->variant > 0)
        list_splits(p, device, splits);
    cut_keys(p, device, plan->variant > 0 ? splits[plan->variant] : 0, s);
    CLA_TRY(ask_for_parts(plan, s));
    cla_key key = key_for(p, device, "attention_split");
    CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->split));
    if (s->splits > 1) {
        key = key_for(p, device, "merge_splits");
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->merge));
    }
    cla_str_append(&plan->text,
                   "work-items: %lld rows of a key head x %lld keys; %lld of a head's rows, %lld split(s) of its keys, "
                   "%lld chunk(s) of values\n",
                   (long long)s->rows, (long long)cla_min(p->M, s->split_keys), (long long)s->tiles,
                   (long long)s->splits, (long long)s->chunks);
done:
    return status;
}

static clattn_status merge(clattn_plan *plan, const cla_attention_args *a) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const cla_arg args[] = {CLA_ARG_BUFFER(plan->scratch),
                            CLA_ARG_BUFFER(p->o.buffer),
                            CLA_ARG_BUFFER(p->lse.buffer),
                            CLA_ARG_BUFFER(p->state.buffer),
                            CLA_ARG_BUFFER(plan->spans),
                            CLA_ARG_BUFFER(p->sinks.buffer),
                            CLA_ARG_VALUE(*a)};
    return cla_launch(plan->context, s->merge, s->chunks * p->N * p->H * p->B, args, (int)(sizeof args / sizeof *args));
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    cla_attention_args a;
    cla_fill_attention_args(plan, &a);
    a.rows = (cl_int)s->rows;
    a.tiles = (cl_int)s->tiles;
    a.columns = (cl_int)s->columns;
    a.chunks = (cl_int)s->chunks;
    a.splits = (cl_int)s->splits;
    a.split_keys = (cl_int)s->split_keys;
    a.part = (cl_int)s->part;
    a.part_0 = (cl_long)(s->parts_at / clattn_dtype_size(p->dtype));
    const cla_arg parts = CLA_ARG_BUFFER(plan->scratch);
    CLA_TRY(cla_launch_fused(plan, s->split, s->tiles * s->splits * s->chunks * p->Hk * p->B, &parts, 1, &a));
    if (s->splits > 1)
        CLA_TRY(merge(plan, &a));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    state *s = plan->state;
    if (!s)
        return;
    cla_kernel_destroy(s->split);
    cla_kernel_destroy(s->merge);
    cla_free(s);
    plan->state = NULL;
}

const cla_algorithm cla_algo_fused_split = {.name = "fused_split",
                                            .summary =
                                                "fused, for few queries through OpenCL: keys split over work-items",
                                            .applies = applies,
                                            .suits = suits,
                                            .unit_inner = true,
                                            .blocks = true,
                                            .pages = true,
                                            .variants = variants,
                                            .all_kernels = "splits=2",
                                            .create = create,
                                            .execute = execute,
                                            .destroy = destroy};
