/* SPDX-License-Identifier: Apache-2.0 */
/* What both passes of `fused_tiles` share: which layouts the kernels for whole fours take, and their keys. */
#ifndef CLA_TILES_KEY_H
#define CLA_TILES_KEY_H

#include "attention/plan.h"
#include "attention/tiles.h"

enum { CLA_TILES_INTERVAL = 1, CLA_TILES_SCORE = 2 }; /* MASKS of the kernels */

/* Offset and strides are multiples of 4. */
bool cla_tiles_fours(const clattn_tensor *t);
/* The forward pass's choice of kernels, of the tensors as they are bound now: storage is of the type of the sums, in
 * multiples of 4. */
bool cla_tiles_by_four(const cla_problem *p);
cla_tiles_problem cla_tiles_problem_of(const cla_problem *p, bool by_four);
bool cla_tiles_suits(const cla_problem *p, const clattn_device_info *device, char *reason, size_t reason_bytes);
/* A key of tiles; what a kernel adds comes after it. */
cla_key cla_tiles_key(const clattn_plan *plan, const cla_tiling *tiling, bool by_four, int masks, const char *file,
                      const char *kernel);

#endif
