/* SPDX-License-Identifier: Apache-2.0 */
/* `fused_lanes`: fused attention for CPU-class devices. Chooses register blocks by the device's vectors and tiles by
 * the head dims; attention_lanes.cl does the rest. */
#include "args.h"
#include "attention/plan.h"
#include <stdio.h>

/* What a build is made of: vectors of queries a panel, keys a block of scores, rows and vectors of a block of O; most
 * queries of a tile, keys of a block, head dims. */
typedef struct {
    int lanes, panel_vectors, score_keys, value_rows, value_vectors;
    int rows, keys, dims;
} blocks;

/* Register blocks, by lanes of a vector: with 16 lanes there are 32 registers, else 16. */
static const blocks block_table[] = {
    {.lanes = 16, .panel_vectors = 3, .score_keys = 8, .value_rows = 6, .value_vectors = 4},
    {.lanes = 8, .panel_vectors = 3, .score_keys = 4, .value_rows = 6, .value_vectors = 2},
    {.lanes = 4, .panel_vectors = 3, .score_keys = 4, .value_rows = 6, .value_vectors = 2},
};

/* Sizes of private arrays by the larger head dim: a stack of 100 to 280 KiB. Half as many rows and staged keys in f64.
 * Builds: 4 classes and DEEP, x 4 classes of masks, x staged or not = 40 a type of sums. */
typedef struct {
    int dims; /* up to */
    int rows; /* of the largest tile, with up to 8 lanes and with 16 */
    int wide_rows;
    int keys, staged_keys;
} size_class;
static const size_class class_table[] = {
    {64, 384, 192, 128, 128}, {128, 192, 192, 128, 64}, {256, 96, 96, 64, 32}, {512, 48, 48, 64, 16}};
enum { CLASSES = sizeof class_table / sizeof *class_table };

typedef struct {
    cla_kernel *kernel;
    int rows, keys;
    int64_t tiles, columns, chunks;
} state;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    return cla_needs_opencl(p, device, reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    if (device->device_class == CLATTN_DEVICE_CPU)
        return true;
    snprintf(reason, reason_bytes, "is written for CPUs, and %.100s is none; ask for it by name", device->name);
    return false;
}

/* Storage that the kernel cannot read where it lies, as the type of the sums in one piece. */
static bool is_staged(const cla_problem *p) {
    const clattn_tensor *const all[] = {&p->q, &p->k, &p->v, &p->o, &p->bias};
    if (p->page_size)
        return true;
    for (int i = 0; i < 5; i++)
        if (cla_present(all[i]) && all[i]->dtype != p->dtype)
            return true;
    return false;
}

/* The blocks for a problem; *deep: D takes more than one chunk of dims. */
static blocks choose_blocks(const cla_problem *p, const clattn_device_info *device, bool *deep) {
    const int lanes = cla_vectors_for(device, p->dtype).lanes, half = p->dtype == CLATTN_F64 ? 2 : 1;
    int i = 0, c = 0;
    while (block_table[i].lanes > lanes)
        i++;
    while (c < CLASSES - 1 && (class_table[c].dims < p->D || class_table[c].dims < p->Dv))
        c++;
    blocks x = block_table[i];
    const size_class *size = &class_table[c];
    const int panel = x.lanes * x.panel_vectors, rows = (x.lanes == 16 ? size->wide_rows : size->rows) / half;
    *deep = p->D > size->dims;
    x.rows = *deep ? panel : (int)cla_max(rows / panel, 1) * panel;
    x.keys = is_staged(p) ? size->staged_keys / half : size->keys;
    x.dims = size->dims;
    return x;
}

static cla_key key_for(const cla_problem *p, const blocks *x, bool deep) {
    cla_key key = cla_key_make("attention_lanes.cl", "attention_lanes");
    key.helper = "lanes.clh";
    key.more_helpers[0] = "lanes_tile.clh";
    cla_key_define(&key, "REAL", p->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", x->lanes);
    cla_key_define(&key, "STAGED", is_staged(p));
    cla_key_define(&key, "JV", x->panel_vectors);
    cla_key_define(&key, "R1", x->score_keys);
    cla_key_define(&key, "RO", x->value_rows);
    cla_key_define(&key, "OV", x->value_vectors);
    cla_key_define(&key, "BM", x->rows);
    cla_key_define(&key, "BN", x->keys);
    cla_key_define(&key, "DC", x->dims);
    cla_key_define(&key, "VC", x->dims);
    cla_key_define(&key, "DEEP", deep);
    cla_key_define(&key, "MASKS", (p->interval ? 1 : 0) | (p->score ? 2 : 0));
    return key;
}

/* Queries of a tile: as many as fit, but enough tiles to keep every core busy to the end. */
static int rows_for(const cla_problem *p, const clattn_device_info *device, const blocks *x, int64_t chunks) {
    const int64_t heads = p->B * p->H * chunks, wanted = 16 * (int64_t)device->compute_units;
    int64_t rows = x->rows;
    if (heads * cla_ceil_div(p->N, rows) < wanted)
        rows = cla_ceil_div(p->N, cla_ceil_div(wanted, heads));
    rows = cla_round_up(cla_max(rows, 1), x->lanes * x->panel_vectors);
    return (int)cla_min(rows, x->rows);
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_device_info *device = cla_context_device(plan->context);
    bool deep;
    const blocks x = choose_blocks(p, device, &deep);
    state *s = NULL;
    CLA_TRY(cla_alloc(1, sizeof *s, "fused_lanes", &s));
    plan->state = s;
    s->columns = cla_min(cla_max(p->Dv, 1), x.dims);
    s->chunks = cla_ceil_div(cla_max(p->Dv, 1), x.dims);
    s->rows = rows_for(p, device, &x, s->chunks);
    s->tiles = cla_ceil_div(p->N, s->rows);
    s->keys = x.keys;
    const cla_key key = key_for(p, &x, deep);
    CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->kernel));
    cla_str_append(&plan->text,
                   "tiles: %d queries x %d keys, %d lanes; %lld tiles of a head, %lld chunk(s) of values\n", s->rows,
                   s->keys, x.lanes, (long long)s->tiles, (long long)s->chunks);
done:
    return status;
}

static clattn_status execute(clattn_plan *plan) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    cla_attention_args a;
    cla_fill_attention_args(plan, &a);
    a.rows = s->rows;
    a.tiles = (cl_int)s->tiles;
    a.columns = (cl_int)s->columns;
    a.chunks = (cl_int)s->chunks;
    a.long_first = p->causal;
    return cla_launch_fused(plan, s->kernel, s->tiles * s->chunks * p->H * p->B, NULL, 0, &a);
}

static void destroy(clattn_plan *plan) {
    state *s = plan->state;
    if (!s)
        return;
    cla_kernel_destroy(s->kernel);
    cla_free(s);
    plan->state = NULL;
}

const cla_algorithm cla_algo_fused_lanes = {.name = "fused_lanes",
                                            .summary = "fused, for CPUs through OpenCL: a work-item owns a tile",
                                            .applies = applies,
                                            .suits = suits,
                                            .unit_inner = true,
                                            .blocks = true,
                                            .pages = true,
                                            .create = create,
                                            .execute = execute,
                                            .destroy = destroy};
