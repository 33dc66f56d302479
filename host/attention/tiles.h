/* SPDX-License-Identifier: Apache-2.0 */
/* Which tiles `fused_tiles` uses: one table, by device profile, width of V and limits. Knows sizes only, no OpenCL. */
#ifndef CLA_TILES_H
#define CLA_TILES_H

#include <clattn/context.h>
#include <clattn/tensor.h>

/* The part of a kernel key that tiles decide; names as in attention_tiles.cl. */
typedef struct cla_tile {
    int tr, tc, nr, nc, dc, jc, nv;
    bool sliced;
} cla_tile;

/* What a choice means for a problem. */
typedef struct cla_tiling {
    cla_tile tile;
    int work_group;
    int rows, keys;      /* of a tile: BM, BN */
    int chunks, columns; /* value chunks of a row, value columns of a chunk */
    int64_t local_bytes; /* with every kind of mask */
} cla_tiling;

/* The choice number `rank` (0: the best) among those that fit the device; false past the last. lean: the
 * kernel needs registers for score masks or storage of any type, or may need them. A device meets at most
 * CLA_TILES_MOST different tiles of a type with lean, and as many without. */
bool cla_tiles_choose(const clattn_device_info *device, clattn_dtype dtype, bool lean, int64_t D, int64_t Dv, int rank,
                      cla_tiling *tiling);
enum { CLA_TILES_MOST = 10 };

/* All choices that fit, for the tuner: the best first, then every other row of the table. Returns how many. */
enum { CLA_TILES_ROWS = 24 };
int cla_tiles_list(const clattn_device_info *device, clattn_dtype dtype, bool lean, int64_t D, int64_t Dv,
                   cla_tiling list[CLA_TILES_ROWS]);

#endif
