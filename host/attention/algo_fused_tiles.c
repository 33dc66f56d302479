/* SPDX-License-Identifier: Apache-2.0 */
/* `fused_tiles`: for GPUs. A work-group owns a tile of queries; keys and values pass through its local memory; softmax
 * is online, so that no N x M buffer exists. See kernels/attention_tiles.cl.
 *
 * Builds of a type of sums on one device, over all problems: at most 60, and 9 with dropout. For storage of that type
 * in multiples of 4, 12 tiles x 2 kinds of masks, and 9 lean ones x 2 kinds with score masks; for any other storage 9
 * x 2. See tiles.c. */
#include "args.h"
#include "attention/tiles_key.h"
#include <stdio.h>

typedef struct {
    cla_tiling tiling;
    cla_kernel *kernel; /* NULL until tensors that need it are bound */
} variant;
typedef struct {
    cla_tiling asked; /* tiles that the plan's variant says; no rows: the table's choice */
    variant by_four;  /* for storage of the type of the sums, laid out in multiples of 4 */
    variant any;      /* for all storage */
} tiles_state;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    cla_tiling tiling;
    const cla_tiles_problem tiled = {.dtype = p->dtype, .lean = true, .D = p->D, .Dv = p->Dv};
    if (!cla_needs_opencl(p, device, reason, reason_bytes))
        return false;
    if (!cla_tiles_choose(device, &tiled, 0, &tiling))
        snprintf(reason, reason_bytes,
                 "needs work-groups of 16 and %d bytes of local memory, and %.100s has %llu and %llu",
                 p->dtype == CLATTN_F64 ? 6356 : 3796, device->name, (unsigned long long)device->max_work_group,
                 (unsigned long long)device->local_bytes);
    else
        return true;
    return false;
}

bool cla_tiles_suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    if (device->device_class == CLATTN_DEVICE_GPU)
        return true;
    snprintf(reason, reason_bytes, "is written for GPUs; %.100s is %s: ask for it by name", device->name,
             device->device_class == CLATTN_DEVICE_CPU ? "a CPU" : "none");
    return false;
}

/* ---- kernels ---- */

bool cla_tiles_fours(const clattn_tensor *t) {
    bool yes = t->offset % 4 == 0;
    for (int i = 0; i < 3; i++)
        yes = yes && (t->shape[i] <= 1 || t->stride[i] % 4 == 0);
    return yes;
}

/* Offsets may change between executions. Dropout is built for any storage, so that builds are few. */
bool cla_tiles_by_four(const cla_problem *p) {
    const clattn_tensor *const all[] = {&p->q, &p->k, &p->v, &p->o, &p->bias};
    for (int i = 0; i < 5; i++)
        if (cla_present(all[i]) && all[i]->dtype != p->dtype)
            return false;
    return p->page_size == 0 && !(p->dropout > 0) && p->D % 4 == 0 && p->Dv % 4 == 0 && cla_tiles_fours(&p->q) &&
           cla_tiles_fours(&p->k) && cla_tiles_fours(&p->v) && cla_tiles_fours(&p->o);
}

/* 1 asks no alignment of base pointers: where memory is shared, a host array is used in place, wherever it begins. */
static int alignment_key(const clattn_plan *plan) {
    const clattn_device_info *device = cla_context_device(plan->context);
    return device->device_class == CLATTN_DEVICE_CPU || device->unified_memory ? 1 : 2;
}

cla_key cla_tiles_key(const clattn_plan *plan, const cla_tiling *tiling, bool by_four, int masks, const char *file,
                      const char *kernel) {
    const cla_problem *p = &plan->problem;
    const cla_tile *t = &tiling->tile;
    cla_key key = cla_key_make(file, kernel);
    key.helper = "tiles.clh";
    key.more_helpers[0] = "philox.clh";
    key.more_helpers[1] = "tiles_math.clh";
    cla_key_define(&key, "REAL", p->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "TR", t->tr);
    cla_key_define(&key, "TC", t->tc);
    cla_key_define(&key, "NR", t->nr);
    cla_key_define(&key, "NC", t->nc);
    cla_key_define(&key, "DC", t->dc);
    cla_key_define(&key, "JC", t->jc);
    cla_key_define(&key, "NV", t->nv);
    cla_key_define(&key, "SLICED", t->sliced);
    cla_key_define(&key, "PREFETCH", t->ahead);
    cla_key_define(&key, "MASKS", masks);
    cla_key_define(&key, "STAGED", !by_four);
    cla_key_define(&key, "ALIGNED4", by_four ? alignment_key(plan) : 0);
    cla_key_define_hint(&key, cla_context_device(plan->context));
    if (tiling->many_registers)
        cla_key_add(&key, "-cl-intel-256-GRF-per-thread");
    return key;
}

static clattn_status make_kernel(const clattn_plan *plan, const cla_tiling *tiling, bool by_four, cla_kernel **kernel) {
    const cla_problem *p = &plan->problem;
    int masks = (p->interval ? CLA_TILES_INTERVAL : 0) | (p->score ? CLA_TILES_SCORE : 0);
    if (!by_four && (masks || p->dropout > 0))
        masks = CLA_TILES_INTERVAL | CLA_TILES_SCORE; /* two kinds are enough there, and one with dropout */
    cla_key key = cla_tiles_key(plan, tiling, by_four, masks, "attention_tiles.cl", "attention_tiles");
    cla_key_define(&key, "DROPOUT", p->dropout > 0);
    return cla_kernel_create(plan->context, &key, (size_t)tiling->work_group, kernel);
}

/* Bits depend on the tile: with batch_invariant, neither masks nor the layout choose it. */
cla_tiles_problem cla_tiles_problem_of(const cla_problem *p, bool by_four) {
    return (cla_tiles_problem){.dtype = p->dtype,
                               .lean = !by_four || p->score || p->batch_invariant,
                               .interval = p->interval,
                               .D = p->D,
                               .Dv = p->Dv};
}

static int list_tilings(const cla_problem *p, const clattn_device_info *device, cla_tiling list[CLA_TILES_ROWS]) {
    const cla_tiles_problem tiled = cla_tiles_problem_of(p, cla_tiles_by_four(p));
    return cla_tiles_list(device, &tiled, list);
}

static size_t variants(const cla_problem *p, const clattn_device_info *device, cla_variant out[CLA_VARIANTS]) {
    cla_tiling list[CLA_TILES_ROWS];
    const int count = list_tilings(p, device, list);
    for (int i = 0; i < count; i++) {
        const cla_tile *t = &list[i].tile;
        snprintf(out[i].text, sizeof out[i].text, "tr=%d tc=%d nr=%d nc=%d dc=%d jc=%d nv=%d sliced=%d ahead=%d", t->tr,
                 t->tc, t->nr, t->nc, t->dc, t->jc, t->nv, t->sliced, t->ahead);
    }
    return (size_t)count;
}

/* The best tiles whose kernel the device takes: a driver may allow a kernel less than the device has. */
static clattn_status make_variant(const clattn_plan *plan, bool by_four, variant *v) {
    const clattn_device_info *device = cla_context_device(plan->context);
    const cla_problem *p = &plan->problem;
    const tiles_state *state = plan->state;
    const cla_tiles_problem tiled = cla_tiles_problem_of(p, by_four);
    clattn_status status = CLATTN_E_LIMIT;
    if (state->asked.rows > 0) {
        v->tiling = state->asked;
        v->tiling.tile.ahead = v->tiling.tile.ahead && by_four;
        return make_kernel(plan, &v->tiling, by_four, &v->kernel);
    }
    /* Drivers that lack registers or memory for a kernel say so in any of three ways. */
    for (int rank = 0; status == CLATTN_E_LIMIT || status == CLATTN_E_BUILD || status == CLATTN_E_MEMORY; rank++) {
        if (!cla_tiles_choose(device, &tiled, rank, &v->tiling))
            break; /* the last message stands */
        status = make_kernel(plan, &v->tiling, by_four, &v->kernel);
    }
    return status;
}

/* The variant for the tensors that are bound. Those of creation decide which one is made then; another is made only for
 * tensors, bound later, that begin where whole vectors cannot. */
static clattn_status variant_for_bound(clattn_plan *plan, const variant **chosen) {
    tiles_state *state = plan->state;
    const bool by_four = cla_tiles_by_four(&plan->problem) && (state->by_four.kernel || !state->any.kernel);
    variant *v = by_four ? &state->by_four : &state->any;
    *chosen = v;
    return v->kernel ? CLATTN_OK : make_variant(plan, by_four, v);
}

/* ---- plan ---- */

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    tiles_state *state = NULL;
    const variant *v = NULL;
    CLA_TRY(cla_alloc(1, sizeof *state, "fused_tiles", &state));
    plan->state = state;
    if (plan->variant > 0) {
        cla_tiling list[CLA_TILES_ROWS];
        list_tilings(&plan->problem, cla_context_device(plan->context), list);
        state->asked = list[plan->variant];
    }
    CLA_TRY(variant_for_bound(plan, &v));
    const cla_tiling *t = &v->tiling;
    cla_str_append(&plan->text, "tiles: %d queries x %d keys, slices of %d dims and %d values; work-group %d x %d\n",
                   t->rows, t->keys, t->tile.dc, t->tile.jc, t->tile.tr, t->tile.tc);
    cla_str_append(&plan->text, "local memory: at most %lld bytes\n", (long long)t->local_bytes);
    cla_str_append(&plan->text, "value columns: %d %s of %d\n", t->chunks, t->chunks == 1 ? "chunk" : "chunks",
                   t->columns);
    if (v == &state->any)
        cla_str_append(&plan->text,
                       "loads: of any storage; %s with strides, offsets, D and Dv in multiples of 4 is faster\n",
                       clattn_dtype_name(plan->problem.dtype));
done:
    return status;
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const variant *v = NULL;
    cla_attention_args a;
    if (p->Dv == 0 && !cla_present(&p->lse) && !cla_present(&p->state))
        goto done;
    CLA_TRY(variant_for_bound(plan, &v));
    const cla_tiling *t = &v->tiling;
    cla_fill_attention_args(plan, &a);
    a.rows = t->rows;
    a.tiles = (cl_int)cla_ceil_div(p->N, t->rows);
    a.columns = t->columns;
    a.chunks = t->chunks;
    a.long_first = p->causal;
    CLA_TRY(cla_launch_fused(plan, v->kernel, (int64_t)a.tiles * a.chunks * p->H * p->B, NULL, 0, &a));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    tiles_state *state = plan->state;
    if (!state)
        return;
    cla_kernel_destroy(state->by_four.kernel);
    cla_kernel_destroy(state->any.kernel);
    cla_free(state);
    plan->state = NULL;
}

const cla_algorithm cla_algo_fused_tiles = {
    .name = "fused_tiles",
    .summary = "one pass over keys and values in the local memory of a GPU's work-groups, no N x M buffer",
    .applies = applies,
    .suits = cla_tiles_suits,
    .unit_inner = true,
    .blocks = true,
    .pages = true,
    .variants = variants,
    .create = create,
    .execute = execute,
    .destroy = destroy};
