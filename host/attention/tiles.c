/* SPDX-License-Identifier: Apache-2.0 */
/* The table of tiles. Where it comes from: registers and spills of offline compilers (ptxas, gfx90a, Intel), and
 * occupancy computed from them; no time was measured. 8 x 4 scores a work-item need no spill on any of them and read
 * one real4 for 10.7 multiply-adds; 4 x 4 suit devices whose local memory, not registers, decides, and unknown ones. */
#include "attention/tiles.h"

#include "base/mem.h"
#include <string.h>

enum {
    WARP32 = 1,  /* groups of 32 work-items, 48 KiB or more of local memory a processor takes */
    WAVE64 = 2,  /* groups of 64, 64 KiB a processor: only more work-items a group fill it */
    XE = 4,      /* groups of 8 to 32, 128 registers: 8 x 4 scores only where nothing else takes them */
    UNKNOWN = 8, /* also every device that is no GPU */
    ANY = 15
};
/* The stack of a CPU thread that work-items' private memory may take. */
enum { STACK_BYTES = 256 * 1024 };

typedef struct {
    int columns; /* 4 tc nv: the widest V that one pass takes */
    int profiles;
    cla_tile tile; /* tr tc nr nc dc jc nv sliced */
} row;

/* A profile finds one tile for each class of columns (two for 64: D up to 64 needs no sums of its own for a slice), 7
 * at most, then the last three, from which any width is made in chunks: 10 tiles, CLA_TILES_MOST. */
static const row rows32[] = {
    {32, WARP32 | WAVE64 | XE, {16, 8, 4, 8, 32, 32, 1, true}},
    {32, UNKNOWN, {16, 8, 4, 4, 32, 32, 1, true}},
    {64, WARP32 | XE, {8, 16, 8, 4, 32, 32, 1, false}},
    {64, WAVE64, {16, 16, 4, 4, 32, 32, 1, false}},
    {64, WARP32 | XE, {8, 16, 8, 4, 32, 32, 1, true}},
    {64, WAVE64, {16, 16, 4, 4, 32, 32, 1, true}},
    {64, UNKNOWN, {8, 16, 4, 4, 32, 32, 1, true}},
    {96, ANY, {16, 8, 4, 4, 32, 16, 3, true}},
    {128, WARP32, {8, 16, 8, 4, 32, 16, 2, true}},
    {128, WAVE64, {16, 16, 4, 4, 32, 16, 2, true}},
    {128, XE | UNKNOWN, {8, 16, 4, 4, 32, 16, 2, true}},
    {192, ANY, {8, 16, 4, 4, 32, 16, 3, true}},
    {256, ANY, {8, 32, 4, 4, 32, 8, 2, true}},
};
/* For devices that refuse the above: work-groups of 64, 32 and 16; 13.6, 6.1 and 3.7 KiB. */
static const row small32[] = {
    {64, ANY, {8, 8, 4, 4, 32, 16, 2, true}},
    {64, ANY, {4, 8, 4, 4, 16, 8, 2, true}},
    {32, ANY, {4, 4, 4, 4, 16, 8, 2, true}},
};
static const row rows64[] = {
    {32, ANY, {16, 8, 4, 4, 16, 16, 1, true}},
    {64, ANY, {8, 16, 4, 4, 16, 16, 1, true}},
    {128, ANY, {8, 16, 4, 4, 16, 8, 2, true}},
};
static const row small64[] = {
    /* 15.6, 9.8 and 6.2 KiB */
    {64, ANY, {8, 8, 4, 4, 16, 8, 2, true}},
    {32, ANY, {4, 8, 4, 4, 16, 8, 1, true}},
    {16, ANY, {4, 4, 4, 4, 16, 8, 1, true}},
};
#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))

static int profile_of(const clattn_device_info *device) {
    if (device->device_class != CLATTN_DEVICE_GPU)
        return UNKNOWN;
    if (strstr(device->vendor, "NVIDIA"))
        return WARP32;
    if (strstr(device->vendor, "Advanced Micro Devices") || strstr(device->vendor, "AMD"))
        return strstr(device->name, "gfx9") ? WAVE64 : WARP32;
    return strstr(device->vendor, "Intel") ? XE : UNKNOWN;
}

static int64_t local_bytes(const cla_tile *t, int64_t size) {
    const int64_t wg = t->tr * t->tc, bm = t->tr * t->nr, bn = t->tc * t->nc;
    const int64_t scores = (bm + bn) * (t->dc / 4 + 1), weights = bm * (bn / 4 + 1) + bm * t->tc / 4;
    return 4 * size * (cla_max(scores, weights) + t->jc * t->tc * t->nv) + 8 * bm + 4 * wg + 4;
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

static void fill(const cla_tile *t, int columns, int64_t size, int64_t Dv, cla_tiling *tiling) {
    *tiling = (cla_tiling){.tile = *t,
                           .work_group = t->tr * t->tc,
                           .rows = t->tr * t->nr,
                           .keys = t->tc * t->nc,
                           .local_bytes = local_bytes(t, size)};
    cut(Dv, columns, &tiling->chunks, &tiling->columns);
}

/* The row of the narrowest class that takes the chunks. */
static const row *class_row(const row *rows, int count, int profile, int64_t D, int64_t Dv) {
    int chunks, columns;
    cut(Dv, rows[count - 1].columns, &chunks, &columns);
    for (int i = 0; i < count; i++)
        if ((rows[i].profiles & profile) && columns <= rows[i].columns && (rows[i].tile.sliced || D <= 64))
            return &rows[i];
    return NULL;
}

bool cla_tiles_choose(const clattn_device_info *device, clattn_dtype dtype, bool lean, int64_t D, int64_t Dv, int rank,
                      cla_tiling *tiling) {
    const int found = profile_of(device), profile = lean && found == XE ? UNKNOWN : found;
    const bool wide = dtype == CLATTN_F64;
    const int64_t size = wide ? 8 : 4;
    const row *small = wide ? small64 : small32, *list[1 + COUNT(small32)], *best = NULL;
    list[0] = class_row(wide ? rows64 : rows32, wide ? COUNT(rows64) : COUNT(rows32), profile, D, Dv);
    for (int i = 0; i < COUNT(small32); i++)
        list[1 + i] = &small[i];
    for (int i = 0; i < COUNT(list) && !best; i++)
        if (list[i] && fits(device, &list[i]->tile, size) && rank-- == 0)
            best = list[i];
    if (!best)
        return false;
    fill(&best->tile, best->columns, size, Dv, tiling);
    return true;
}

int cla_tiles_list(const clattn_device_info *device, clattn_dtype dtype, bool lean, int64_t D, int64_t Dv,
                   cla_tiling list[CLA_TILES_ROWS]) {
    const bool wide = dtype == CLATTN_F64;
    const row *const tables[] = {wide ? rows64 : rows32, wide ? small64 : small32};
    const int counts[] = {wide ? COUNT(rows64) : COUNT(rows32), wide ? COUNT(small64) : COUNT(small32)};
    int count = cla_tiles_choose(device, dtype, lean, D, Dv, 0, &list[0]) ? 1 : 0;
    for (int t = 0; t < 2; t++)
        for (int i = 0; i < counts[t] && count > 0 && count < CLA_TILES_ROWS; i++) {
            const row *r = &tables[t][i];
            bool known = !(r->tile.sliced || D <= 64) || !fits(device, &r->tile, wide ? 8 : 4);
            for (int k = 0; k < count && !known; k++)
                known = memcmp(&list[k].tile, &r->tile, sizeof r->tile) == 0;
            if (!known)
                fill(&r->tile, r->columns, wide ? 8 : 4, Dv, &list[count++]);
        }
    return count;
}
