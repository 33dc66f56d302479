/* SPDX-License-Identifier: Apache-2.0 */
/* Which tiles `fused_tiles` uses: one table, by device profile, width of V and limits. Knows sizes only, no OpenCL. */
#ifndef CLA_TILES_H
#define CLA_TILES_H

#include <clattn/context.h>
#include <clattn/tensor.h>

/* The part of a kernel key that tiles decide; names as in attention_tiles.cl, `ahead` its PREFETCH. */
typedef struct cla_tile {
    int tr, tc, nr, nc, dc, jc, nv;
    bool sliced, ahead;
} cla_tile;

typedef struct cla_tiles_problem {
    clattn_dtype dtype; /* of the sums */
    bool lean;          /* the kernel needs registers for score masks or storage of any type, or may need them */
    bool interval;      /* it has interval masks */
    int64_t D, Dv;
} cla_tiles_problem;

/* What a choice means for a problem. */
typedef struct cla_tiling {
    cla_tile tile;
    int row; /* of the table */
    int work_group;
    int rows, keys;      /* of a tile: BM, BN */
    int chunks, columns; /* value chunks of a row, value columns of a chunk */
    bool many_registers; /* to be asked of the driver, where registers and work-items in flight are exchanged */
    int64_t local_bytes; /* with every kind of mask */
} cla_tiling;

/* The choice number `rank` (0: the best) among those that fit the device; false past the last. */
bool cla_tiles_choose(const clattn_device_info *device, const cla_tiles_problem *p, int rank, cla_tiling *tiling);

/* The same for the backward pass: results of `columns` columns, with the slices of sums of the forward pass. */
bool cla_tiles_choose_backward(const clattn_device_info *device, const cla_tiles_problem *p, const cla_tile *forward,
                               int64_t columns, int rank, cla_tiling *tiling);

/* All choices that fit, for the tuner: the best first, then every other row of the table. Returns how many. */
enum { CLA_TILES_ROWS = 36 };
int cla_tiles_list(const clattn_device_info *device, const cla_tiles_problem *p, cla_tiling list[CLA_TILES_ROWS]);

#endif
