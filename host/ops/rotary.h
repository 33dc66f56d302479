/* SPDX-License-Identifier: Apache-2.0 */
/* Rotation on a device or the host, and what its angles are. */
#ifndef CLA_ROTARY_H
#define CLA_ROTARY_H

#include "args.h"
#include "ref/ref_rotary.h"
#include "runtime/program.h"
#include <clattn/cache.h>

/* How many pairs of a head dim D the options rotate. */
clattn_status cla_rotary_pairs(const clattn_rotary_options *options, int64_t D, int64_t *pairs);

/* Refuses positions, or offsets of positions, beyond +-2^53; NULL is allowed. */
clattn_status cla_rotary_check_positions(const int64_t *positions, const char *name, int64_t count);

/* Cosines and sines in double, cos then sin, each [rows, pairs] for rows positions; *table is the caller's to free. */
clattn_status cla_rotary_table(const clattn_rotary_options *options, int64_t pairs, const int64_t *positions,
                               int64_t rows, double **table);

/* Up to CLA_ROTATIONS of one kernel, with it and the host arrays that it needs on the device: everything that can fail
 * but the launch. Those that have cosines, sines, rows or places share them. */
typedef struct cla_rotation_job {
    cla_rotation rotations[CLA_ROTATIONS];
    int count;
    cla_kernel *kernel;
    clattn_tensor cos_at, sin_at;
    clattn_buffer *cos, *sin, *rows, *places;
} cla_rotation_job;

/* x and y are on the device; cos and sin too, or are dense host arrays of f64. On the `cpu` context anything is on the
 * host. None is empty, and there is one where a y is of blocks. On failure *job needs no release. */
clattn_status cla_rotation_prepare(clattn_context *context, const cla_rotation *rotations, int count,
                                   cla_rotation_job *job);
clattn_status cla_rotation_launch(clattn_context *context, const cla_rotation_job *job); /* enqueues */
void cla_rotation_release(cla_rotation_job *job);

#endif
