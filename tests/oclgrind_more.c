/* SPDX-License-Identifier: Apache-2.0 */
/* Problems for single algorithms: kernels and variants of kernels that those of oclgrind_run.c leave out. */
#include "oclgrind_ops.h"

static const more_problem problems[] = {
    /* tiles that this device would not choose: slices fetched ahead, and 2 x 4 scores; none is ahead with score masks
     */
    {.algorithm = "fused_tiles",
     .config = {.N = 5,
                .M = 70,
                .D = 8,
                .guard = 16,
                .buffers = true,
                .lse = true,
                .variant = "tr=8 tc=16 nr=8 nc=4 dc=32 jc=32 nv=1 sliced=0 ahead=1"}},
    {.algorithm = "fused_tiles",
     .config = {.B = 2,
                .H = 4,
                .Hk = 2,
                .N = 9,
                .M = 33,
                .D = 8,
                .causal = true,
                .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                .lse = true,
                .variant = "tr=16 tc=16 nr=4 nc=4 dc=32 jc=32 nv=1 sliced=0 ahead=1"}},
    {.algorithm = "fused_tiles",
     .config = {.H = 2,
                .N = 8,
                .M = 12,
                .D = 8,
                .keep = {4, 15},
                .guard = 16,
                .buffers = true,
                .lse = true,
                .variant = "tr=16 tc=16 nr=2 nc=4 dc=32 jc=32 nv=1 sliced=1 ahead=0"}},
    {.algorithm = "fused_tiles",
     .config = {.H = 2,
                .N = 7,
                .M = 20,
                .D = 8,
                .bias = {2, 3},
                .lse = true,
                .dropout = 0.3,
                .variant = "tr=16 tc=16 nr=2 nc=4 dc=32 jc=32 nv=1 sliced=1 ahead=0"}},
    /* keys split over work-items, and merged */
    {.algorithm = "fused_split",
     .config = {.H = 2, .Hk = 1, .N = 2, .M = 300, .D = 8, .lse = true, .variant = "splits=2"}},
/* pages of blocks, 16-bit rows around them */
#define PAGED                                                                                                          \
    .typed = true, .q_type = CLATTN_F16, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q4_0, .o_type = CLATTN_BF16, .H = 2,  \
    .Hk = 1, .N = 3, .M = 20, .D = 32, .page_size = 8
    {.algorithm = "fused_split", .config = {PAGED}},
    {.algorithm = "fused_lanes", .config = {PAGED}},
    {.algorithm = "fused_tiles", .config = {PAGED}},
    /* pages that are gathered first */
    {.algorithm = "materialised", .config = {.H = 2, .N = 3, .M = 20, .D = 8, .page_size = 8}, .unwritten = true},
    /* score masks that are packed once for all heads, from so many pairs on */
    {.algorithm = "fused_lanes", .config = {.H = 64, .N = 16, .M = 64, .D = 1, .keep = {2, 3}}},
    /* more dims than a chunk */
    {.algorithm = "fused_lanes", .config = {.N = 3, .M = 5, .D = 520, .Dv = 4}},
    /* gradients of rows in multiples of 4, without masks and with intervals */
    {.algorithm = "fused_tiles",
     .config = {.H = 2, .Hk = 1, .N = 5, .M = 9, .D = 8, .buffers = true},
     .backward = true},
    {.algorithm = "fused_tiles", .config = {.N = 9, .M = 9, .D = 8, .causal = true, .buffers = true}, .backward = true},
};

const more_problem *more_at(size_t index) {
    return index < sizeof problems / sizeof *problems ? &problems[index] : NULL;
}
