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
 * Builds: 4 classes x 6 classes of masks, and DEEP x 4, x staged or not = 56 a type of sums. */
typedef struct {
    int dims; /* up to */
    int rows; /* of the largest tile, with up to 8 lanes and with 16 */
    int wide_rows;
    int keys, staged_keys;
} size_class;
static const size_class class_table[] = {
    {64, 384, 192, 128, 128}, {128, 192, 192, 128, 64}, {256, 96, 96, 64, 32}, {512, 48, 48, 64, 16}};
enum { CLASSES = sizeof class_table / sizeof *class_table };

/* Score masks are packed where several heads read them, unless there is little to gain or it takes too much scratch:
 * more than [8192, 8192] in f32 with its queries rounded up to panels. */
enum { PACKED_BYTES = 272 << 20, LEAST_PAIRS = 1 << 16 };

typedef struct {
    cla_kernel *kernel, *pack; /* pack: NULL where masks are read as they lie */
    int rows, keys;
    int64_t tiles, columns, chunks;
    int64_t pack_groups, packed_b; /* packed_b: numbers of a batch, 0 where all share them */
    size_t packed_at;
} state;

static bool applies(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    return cla_needs_opencl(p, device, reason, reason_bytes);
}

static bool suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes) {
    (void)p;
    return cla_suits_cpus(device, reason, reason_bytes);
}

/* Storage that the kernel cannot read where it lies, as the type of the sums in one piece. */
static bool is_staged(const cla_problem *p) {
    const clattn_tensor *const all[] = {&p->q, &p->k, &p->v, &p->o, &p->bias};
    if (p->page_size || p->dropout > 0) /* dropout is built for any storage, so that builds are few */
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

static cla_key key_for(const cla_problem *p, const blocks *x, bool deep, bool packed, const char *kernel) {
    cla_key key = cla_key_make("attention_lanes.cl", kernel);
    key.helper = "lanes.clh";
    key.more_helpers[0] = "lanes_dropout.clh";
    key.more_helpers[1] = "lanes_tile.clh";
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
    cla_key_define(&key, "DROPOUT", p->dropout > 0);
    cla_key_define(&key, "MASKS", (p->interval ? 1 : 0) | (p->score ? 2 : 0) | (packed ? 4 : 0));
    return key;
}

/* Queries of a tile: as many as fit, but enough tiles to keep every core busy to the end. */
static int rows_for(const cla_problem *p, const clattn_device_info *device, const blocks *x, int64_t chunks) {
    const int64_t heads = p->B * p->H * chunks, wanted = 16 * (int64_t)device->compute_units;
    int64_t rows = x->rows;
    if (heads * cla_ceil_div(p->N, rows) < wanted)
        rows = cla_ceil_div(p->N, cla_ceil_div(wanted, heads));
    rows = cla_round_up(cla_max(cla_min(rows, p->N), 1), x->lanes * x->panel_vectors);
    return (int)cla_min(rows, x->rows);
}

/* Queries of tiles, the default first, then one panel, two, four and so on. Neither programs nor bits depend on them.
 */
static size_t list_rows(const cla_problem *p, const clattn_device_info *device, int list[CLA_VARIANTS]) {
    bool deep;
    size_t count = 0;
    const blocks x = choose_blocks(p, device, &deep);
    const int panel = x.lanes * x.panel_vectors;
    const int64_t most = cla_min(x.rows, cla_round_up(p->N, panel));
    list[count++] = rows_for(p, device, &x, cla_ceil_div(cla_max(p->Dv, 1), x.dims));
    for (int rows = panel; rows <= most; rows *= 2)
        if (rows != list[0])
            list[count++] = rows;
    return count;
}

static size_t variants(const cla_problem *p, const clattn_device_info *device, cla_variant out[CLA_VARIANTS]) {
    int list[CLA_VARIANTS];
    const size_t count = list_rows(p, device, list);
    for (size_t i = 0; i < count; i++)
        snprintf(out[i].text, sizeof out[i].text, "rows=%d", list[i]);
    return count;
}

/* What the masks that change scores vary with. */
typedef struct {
    bool batches, heads, queries;
} variety;

static variety variety_of(const cla_problem *p) {
    const clattn_tensor *const masks[] = {&p->keep, &p->drop, &p->bias};
    variety x = {0};
    for (int i = 0; i < 3; i++)
        if (cla_present(masks[i])) {
            x.batches |= masks[i]->stride[0] != 0;
            x.heads |= masks[i]->stride[1] != 0;
            x.queries |= masks[i]->stride[2] != 0;
        }
    x.heads |= p->slopes != NULL;
    return x;
}

/* Asks for scratch for packed score masks, where packing pays. Else the kernel reads them as they lie, with the same
 * bits. */
static clattn_status ask_for_packed(clattn_plan *plan, state *s, const blocks *x, bool *packed) {
    const cla_problem *p = &plan->problem;
    const variety differ = variety_of(p);
    const int panel = x->lanes * x->panel_vectors;
    *packed = false;
    if (!differ.queries || differ.heads || p->q_segments || p->H * (differ.batches ? 1 : p->B) < 2 ||
        p->B * p->H * p->N < cla_ceil_div(LEAST_PAIRS, p->M))
        return CLATTN_OK;
    const int64_t planes = differ.batches ? p->B : 1, panels = cla_ceil_div(p->N, panel);
    const int64_t size = (int64_t)clattn_dtype_size(p->dtype),
                  most = cla_min(PACKED_BYTES, cla_plan_scratch_left(plan));
    if (planes * panels > most / (panel * size) / p->M) {
        cla_str_append(&plan->text, "no room to pack the score masks once for all heads\n");
        return CLATTN_OK;
    }
    *packed = true;
    s->packed_b = differ.batches ? panels * p->M * panel : 0;
    s->pack_groups = planes * panels * cla_ceil_div(p->M, x->keys);
    return cla_plan_scratch(plan, planes * panels * p->M * panel * size, "score masks, packed once for all heads",
                            &s->packed_at);
}

static clattn_status create(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const clattn_device_info *device = cla_context_device(plan->context);
    bool deep, packed = false;
    const blocks x = choose_blocks(p, device, &deep);
    state *s = NULL;
    CLA_TRY(cla_alloc(1, sizeof *s, "fused_lanes", &s));
    plan->state = s;
    s->columns = cla_min(cla_max(p->Dv, 1), x.dims);
    s->chunks = cla_ceil_div(cla_max(p->Dv, 1), x.dims);
    int rows[CLA_VARIANTS];
    list_rows(p, device, rows);
    s->rows = rows[plan->variant];
    s->tiles = cla_ceil_div(p->N, s->rows);
    s->keys = x.keys;
    if (!deep)
        CLA_TRY(ask_for_packed(plan, s, &x, &packed));
    cla_key key = key_for(p, &x, deep, packed, "attention_lanes");
    CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->kernel));
    if (packed) {
        key = key_for(p, &x, deep, packed, "pack_added");
        CLA_TRY(cla_kernel_create(plan->context, &key, 1, &s->pack));
    }
    cla_str_append(&plan->text,
                   "tiles: %d queries x %d keys, %d lanes; %lld tiles of a head, %lld chunk(s) of values\n", s->rows,
                   s->keys, x.lanes, (long long)s->tiles, (long long)s->chunks);
done:
    return status;
}

static clattn_status pack(const clattn_plan *plan, const cla_attention_args *a) {
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    const cla_arg args[] = {CLA_ARG_BUFFER(p->keep.buffer), CLA_ARG_BUFFER(p->drop.buffer),
                            CLA_ARG_BUFFER(p->bias.buffer), CLA_ARG_BUFFER(plan->scratch), CLA_ARG_VALUE(*a)};
    return cla_launch(plan->context, s->pack, s->pack_groups, args, (int)(sizeof args / sizeof *args));
}

static clattn_status execute(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const state *s = plan->state;
    cla_attention_args a;
    cla_fill_attention_args(plan, &a);
    a.rows = s->rows;
    a.tiles = (cl_int)s->tiles;
    a.columns = (cl_int)s->columns;
    a.chunks = (cl_int)s->chunks;
    a.long_first = p->causal;
    a.added_0 = (cl_long)(s->packed_at / clattn_dtype_size(p->dtype));
    a.added_b = s->packed_b;
    if (s->pack)
        CLA_TRY(pack(plan, &a));
    const cla_arg packed = CLA_ARG_BUFFER(plan->scratch);
    CLA_TRY(cla_launch_fused(plan, s->kernel, s->tiles * s->chunks * p->H * p->B, &packed, s->pack ? 1 : 0, &a));
done:
    return status;
}

static void destroy(clattn_plan *plan) {
    state *s = plan->state;
    if (!s)
        return;
    cla_kernel_destroy(s->kernel);
    cla_kernel_destroy(s->pack);
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
                                            .variants = variants,
                                            .all_kernels = "default",
                                            .create = create,
                                            .execute = execute,
                                            .destroy = destroy};
