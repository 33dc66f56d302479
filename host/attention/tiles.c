/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tiles, and the choice among them. Registers, spills and occupancy are those of docs/devices.md, which
 * tools/compile_offline.sh makes with the compilers of seven GPUs; no time was measured on any. 8 x 4 scores a
 * work-item read one real4 of local memory for 10.7 multiply-adds, 4 x 4 for 8; 8 x 8 for 16, on the edge of the
 * registers. */
#include "attention/tiles.h"

#include "base/mem.h"
#include <string.h>

/* Classes of devices, and whose first choice a row is. */
enum {
    WARP32 = 1,   /* groups of 32 work-items, 48 KiB or more of local memory a processor takes */
    WAVE64 = 2,   /* groups of 64, 64 KiB a processor: only more work-items a group fill it */
    XE = 4,       /* groups of 8 to 32, and 256 registers where they are asked for */
    XE_128 = 8,   /* the same with 128 */
    UNKNOWN = 16, /* also every device that is no GPU */
    BUT_XE = WARP32 | WAVE64 | UNKNOWN,
    BUT_WAVE64 = WARP32 | XE | XE_128 | UNKNOWN,
    CPU = 32, /* of the backward pass alone */
    LAST = 64 /* after the first choice, in this order: for devices that refuse it */
};
/* The stack of a CPU thread that work-items' private memory may take. */
enum { STACK_BYTES = 256 * 1024 };

typedef struct {
    int bytes;       /* of a sum: 4 or 8 */
    int columns;     /* the widest V that one pass takes here, at most 4 tc nv */
    int plain, lean; /* first choice of these classes; 0: only a tuner takes it */
    cla_tile tile;   /* tr tc nr nc dc jc nv sliced ahead */
} row;

/* In ascending columns; a V wider than the widest row of a class goes in chunks. Not sliced: D <= 64. A device meets at
 * most 12 tiles that are not lean in 2 kinds of kernels (by masks), and 9 lean ones in 4: 60 programs; a test counts
 * them. */
static const row rows[] = {
    {4, 32, WARP32 | XE, 0, {16, 8, 4, 8, 32, 32, 1, true, false}},
    {4, 32, WAVE64 | UNKNOWN, BUT_XE, {16, 8, 4, 4, 32, 32, 1, true, false}},
    {4, 64, WARP32, 0, {8, 16, 8, 4, 32, 32, 1, false, true}},
    {4, 64, XE, 0, {8, 16, 8, 4, 32, 32, 1, false, false}},
    {4, 64, WAVE64, 0, {16, 16, 4, 4, 32, 32, 1, false, true}},
    {4, 64, WAVE64, WAVE64, {16, 16, 4, 4, 32, 32, 1, true, false}},
    {4, 64, WARP32 | XE | UNKNOWN, WARP32 | UNKNOWN, {8, 16, 4, 4, 32, 32, 1, true, false}},
    {4, 64, XE_128, XE | XE_128, {16, 16, 2, 4, 32, 32, 1, true, false}}, /* no array in memory on these */
    {4, 64, 0, 0, {8, 8, 8, 8, 32, 32, 2, false, false}},
    {4, 64, 0, 0, {16, 8, 8, 8, 32, 32, 2, false, false}}, /* 48.7 KiB */
    {4, 64, 0, 0, {8, 16, 8, 4, 32, 32, 1, true, false}},
    {4, 64, 0, 0, {8, 16, 8, 4, 32, 16, 1, false, false}},
    {4, 80, 0, 0, {8, 20, 8, 4, 40, 16, 1, true, false}}, /* D and Dv of 80 without padding */
    {4, 96, BUT_XE, BUT_XE, {16, 8, 4, 4, 32, 16, 3, true, false}},
    {4, 128, WARP32, 0, {8, 16, 8, 4, 32, 16, 2, true, false}},
    {4, 128, WAVE64, WAVE64, {16, 16, 4, 4, 32, 16, 2, true, true}},
    {4, 128, XE | UNKNOWN, WARP32 | UNKNOWN, {8, 16, 4, 4, 32, 16, 2, true, false}},
    {4, 128, XE_128, XE | XE_128, {16, 16, 2, 4, 32, 16, 2, true, false}},
    {4, 128, 0, 0, {8, 16, 4, 4, 32, 16, 2, true, true}},
    {4, 128, 0, 0, {4, 16, 8, 8, 32, 16, 2, true, false}},
    {4, 128, 0, 0, {8, 16, 8, 8, 32, 16, 2, true, false}},  /* 47 KiB */
    {4, 128, 0, 0, {16, 16, 8, 4, 32, 16, 2, true, false}}, /* 54 KiB */
    {4, 192, BUT_XE | XE, BUT_XE, {8, 16, 4, 4, 32, 16, 3, true, false}},
    {4, 256, BUT_XE | XE, BUT_XE, {8, 32, 4, 4, 32, 8, 2, true, false}},
    {4, 256, XE_128, XE_128, {16, 16, 2, 4, 32, 16, 4, true, false}},
    {4, 256, 0, 0, {4, 32, 8, 4, 32, 8, 2, true, false}},
    /* work-groups of 64, 32 and 16; 13.6, 6.1 and 3.7 KiB */
    {4, 64, LAST, LAST, {8, 8, 4, 4, 32, 16, 2, true, false}},
    {4, 64, LAST, LAST, {4, 8, 4, 4, 16, 8, 2, true, false}},
    {4, 32, LAST, LAST, {4, 4, 4, 4, 16, 8, 2, true, false}},
    {8, 32, BUT_XE, BUT_XE, {16, 8, 4, 4, 16, 16, 1, true, false}},
    {8, 32, XE | XE_128, XE | XE_128, {16, 8, 2, 4, 16, 16, 1, true, false}},
    {8, 64, BUT_XE, BUT_XE, {8, 16, 4, 4, 16, 16, 1, true, false}},
    {8, 128, BUT_XE, 0, {8, 16, 4, 4, 16, 8, 2, true, false}}, /* with score masks or any storage it spills */
    /* 15.6, 9.8 and 6.2 KiB */
    {8, 64, LAST, LAST, {8, 8, 4, 4, 16, 8, 2, true, false}},
    {8, 32, LAST, LAST, {4, 8, 4, 4, 16, 8, 1, true, false}},
    {8, 16, LAST, LAST, {4, 4, 4, 4, 16, 8, 1, true, false}},
};
_Static_assert(sizeof rows / sizeof *rows == CLA_TILES_ROWS, "the table of tiles has CLA_TILES_ROWS rows");

/* The same of the backward pass, which keeps two blocks of sums beside the scores and their gradients; slices of dims
 * are the forward pass's. Wider results go in chunks, each of which computes the scores again. */
static const row backward_rows[] = {
    {4, 32, CPU, CPU, {16, 8, 2, 4, 0, 16, 1, false, false}}, /* little code, since PoCL takes long for much */
    {8, 32, CPU, CPU, {16, 8, 2, 4, 0, 16, 1, false, false}},
    {4, 32, BUT_XE | XE, BUT_XE, {16, 8, 4, 4, 0, 32, 1, false, false}},
    {4, 64, WAVE64, WAVE64, {16, 16, 4, 4, 0, 32, 1, false, false}},
    {4, 64, WARP32 | XE | UNKNOWN, WARP32 | UNKNOWN, {8, 16, 4, 4, 0, 32, 1, false, false}},
    {4, 64, XE_128, XE | XE_128, {16, 16, 2, 4, 0, 32, 1, false, false}},
    {4, 128, WAVE64, WAVE64, {16, 16, 4, 4, 0, 16, 2, false, false}},
    {4, 128, WARP32 | XE | UNKNOWN, WARP32 | XE | UNKNOWN, {8, 16, 4, 4, 0, 16, 2, false, false}},
    {4, 128, XE_128, XE_128, {16, 16, 2, 4, 0, 16, 2, false, false}},
    {4, 256, BUT_XE | XE, BUT_XE | XE, {8, 32, 4, 4, 0, 8, 2, false, false}},
    {4, 64, LAST, LAST, {8, 8, 4, 4, 0, 16, 2, false, false}},
    {4, 64, LAST, LAST, {4, 8, 4, 4, 0, 8, 2, false, false}},
    {4, 32, LAST, LAST, {4, 4, 4, 4, 0, 8, 2, false, false}},
    {8, 32, WAVE64, WAVE64, {16, 8, 4, 4, 0, 16, 1, false, false}},
    {8, 32, BUT_WAVE64, BUT_WAVE64, {16, 8, 2, 4, 0, 16, 1, false, false}}, /* with 4 rows it spills */
    {8, 64, WAVE64, WAVE64, {8, 16, 4, 4, 0, 16, 1, false, false}},
    {8, 64, LAST, LAST, {8, 8, 4, 4, 0, 8, 2, false, false}},
    {8, 32, LAST, LAST, {4, 8, 4, 4, 0, 8, 1, false, false}},
    {8, 16, LAST, LAST, {4, 4, 4, 4, 0, 8, 1, false, false}},
};
enum { BACKWARD_ROWS = sizeof backward_rows / sizeof *backward_rows };

/* The classes whose first choice a row is for the problem. */
static int whose(const row *r, const cla_tiles_problem *p) { return p->lean ? r->lean : r->plain; }

static int class_of(const clattn_device_info *device) {
    if (device->device_class != CLATTN_DEVICE_GPU)
        return UNKNOWN;
    if (strstr(device->vendor, "NVIDIA"))
        return WARP32;
    if (strstr(device->vendor, "Advanced Micro Devices") || strstr(device->vendor, "AMD"))
        return strstr(device->name, "gfx9") ? WAVE64 : WARP32;
    return !strstr(device->vendor, "Intel") ? UNKNOWN : device->unified_memory ? XE_128 : XE;
}

static int64_t local_bytes(const cla_tile *t, int64_t size) {
    const int64_t wg = t->tr * t->tc, bm = t->tr * t->nr, bn = t->tc * t->nc;
    const int64_t scores = (bm + bn) * (t->dc / 4 + 1), weights = bm * (bn / 4 + 1) + bm * t->tc / 4;
    return cla_round_up(4 * size * (cla_max(scores, weights) + t->jc * t->tc * t->nv) + 8 * bm + 4 * wg + 20, 4 * size);
}

/* Private memory that lives over barriers, which CPUs keep for the whole work-group at once. */
static int64_t stack_bytes(const cla_tile *t, int64_t size) {
    return size * t->tr * t->tc * (t->nr * t->nc + 4 * t->nr * t->nv + 2 * t->nr + 16);
}

static bool fits(const clattn_device_info *device, const cla_tile *t, int64_t size) {
    return (uint64_t)local_bytes(t, size) <= device->local_bytes &&
           (uint64_t)(t->tr * t->tc) <= device->max_work_group &&
           (device->device_class != CLATTN_DEVICE_CPU || stack_bytes(t, size) <= STACK_BYTES);
}

/* Chunks of equal width, a multiple of 4; one even where V has no column, for the LSE. */
static void cut(int64_t Dv, int columns, int *chunks, int *chunk_columns) {
    *chunks = (int)cla_max(1, cla_ceil_div(Dv, columns));
    *chunk_columns = (int)cla_round_up(cla_ceil_div(Dv, *chunks), 4);
}

static void fill(const clattn_device_info *device, const cla_tiles_problem *p, const row *r, cla_tiling *tiling) {
    const cla_tile *t = &r->tile;
    *tiling = (cla_tiling){.tile = *t,
                           .row = (int)(r - rows),
                           .work_group = t->tr * t->tc,
                           .rows = t->tr * t->nr,
                           .keys = t->tc * t->nc,
                           .many_registers = class_of(device) == XE,
                           .local_bytes = local_bytes(t, r->bytes)};
    tiling->tile.ahead = t->ahead && !p->lean && !(p->interval && t->nr * t->nc > 16); /* or it spills */
    cut(p->Dv, r->columns, &tiling->chunks, &tiling->columns);
}

/* Rows of the type and of the device's limits that may be chosen, the best first. */
static int list_rows(const clattn_device_info *device, const cla_tiles_problem *p, const row **list) {
    const int bytes = p->dtype == CLATTN_F64 ? 8 : 4, class = class_of(device);
    int chunks, columns, widest = 4, count = 0;
    const row *first = NULL, *smaller = NULL;
    for (int i = 0; i < CLA_TILES_ROWS; i++)
        if (rows[i].bytes == bytes && (whose(&rows[i], p) & class))
            widest = rows[i].columns;
    cut(p->Dv, widest, &chunks, &columns);
    for (int i = 0; i < CLA_TILES_ROWS; i++) {
        const row *r = &rows[i];
        if (r->bytes != bytes || columns > r->columns || !(r->tile.sliced || p->D <= 64))
            continue;
        if (!first && (whose(r, p) & class))
            first = r;
        if (!smaller && (r->lean & UNKNOWN))
            smaller = r;
    }
    if (first)
        list[count++] = first;
    if (first && smaller && first->tile.nr * first->tile.nc > smaller->tile.nr * smaller->tile.nc)
        list[count++] = smaller; /* half the registers */
    for (int i = 0; i < CLA_TILES_ROWS; i++)
        if (rows[i].bytes == bytes && rows[i].plain == LAST)
            list[count++] = &rows[i];
    return count;
}

bool cla_tiles_choose(const clattn_device_info *device, const cla_tiles_problem *p, int rank, cla_tiling *tiling) {
    const int64_t size = p->dtype == CLATTN_F64 ? 8 : 4;
    const row *list[CLA_TILES_ROWS + 2], *best = NULL;
    const int count = list_rows(device, p, list);
    for (int i = 0; i < count && !best; i++)
        if (fits(device, &list[i]->tile, size) && rank-- == 0)
            best = list[i];
    if (!best)
        return false;
    fill(device, p, best, tiling);
    return true;
}

static bool same(const cla_tile *a, const cla_tile *b) {
    return a->tr == b->tr && a->tc == b->tc && a->nr == b->nr && a->nc == b->nc && a->dc == b->dc && a->jc == b->jc &&
           a->nv == b->nv && a->sliced == b->sliced && a->ahead == b->ahead;
}

int cla_tiles_list(const clattn_device_info *device, const cla_tiles_problem *p, cla_tiling list[CLA_TILES_ROWS]) {
    int count = cla_tiles_choose(device, p, 0, &list[0]) ? 1 : 0;
    for (int i = 0; i < CLA_TILES_ROWS && count > 0; i++) {
        const row *r = &rows[i];
        const int bytes = p->dtype == CLATTN_F64 ? 8 : 4;
        bool known = r->bytes != bytes || !(r->tile.sliced || p->D <= 64) || !fits(device, &r->tile, bytes);
        if (known)
            continue;
        fill(device, p, r, &list[count]);
        for (int k = 0; k < count && !known; k++)
            known = same(&list[k].tile, &list[count].tile);
        count += !known;
    }
    return count;
}

/* ---- the backward pass ---- */

static int64_t backward_bytes(const cla_tile *t, int64_t size) {
    const int64_t bm = t->tr * t->nr, bn = t->tc * t->nc;
    const int64_t scores = (bm + bn) * (t->dc / 4 + 1), weights = bm * (bn / 4 + 1) + bm * t->tc / 4;
    return cla_round_up(4 * size * (cla_max(scores, weights) + t->jc * t->tc * t->nv) + 8 * cla_max(bm, bn) + 12,
                        4 * size);
}

/* Whether the work-group divides slices of dims and the device has room. */
static bool fits_backward(const clattn_device_info *device, const cla_tile *t, int64_t size) {
    const int wg = t->tr * t->tc, step = wg / (t->dc / 4);
    const int64_t stack = size * wg * (2 * t->nr * t->nc + 8 * t->nr * t->nv + 4 * t->nr + 32);
    return wg % (t->dc / 4) == 0 && t->tr * t->nr % step == 0 && t->tc * t->nc % step == 0 &&
           (uint64_t)backward_bytes(t, size) <= device->local_bytes && (uint64_t)wg <= device->max_work_group &&
           (device->device_class != CLATTN_DEVICE_CPU || stack <= STACK_BYTES);
}

bool cla_tiles_choose_backward(const clattn_device_info *device, const cla_tiles_problem *p, const cla_tile *forward,
                               int64_t columns, int rank, cla_tiling *tiling) {
    const int size = p->dtype == CLATTN_F64 ? 8 : 4;
    const int class = device->device_class == CLATTN_DEVICE_CPU ? CPU : class_of(device);
    int chunks, width, widest = 4;
    bool first = true;
    for (int i = 0; i < BACKWARD_ROWS; i++)
        if (backward_rows[i].bytes == size && whose(&backward_rows[i], p) & class)
            widest = backward_rows[i].columns;
    cut(columns, widest, &chunks, &width);
    for (int i = 0; i < BACKWARD_ROWS; i++) {
        const row *r = &backward_rows[i];
        cla_tile t = r->tile;
        t.dc = forward->dc;
        t.sliced = forward->sliced;
        const bool listed = r->plain == LAST || (whose(r, p) & class && width <= r->columns && first);
        if (r->bytes != size || !listed)
            continue;
        first = false;
        if (!fits_backward(device, &t, size) || rank-- > 0)
            continue;
        *tiling = (cla_tiling){.tile = t,
                               .row = i,
                               .work_group = t.tr * t.tc,
                               .rows = t.tr * t.nr,
                               .keys = t.tc * t.nc,
                               .many_registers = class == XE,
                               .local_bytes = backward_bytes(&t, size)};
        cut(columns, r->columns, &tiling->chunks, &tiling->columns);
        return true;
    }
    return false;
}
