/* SPDX-License-Identifier: Apache-2.0 */
/* Host arrays of one call as buffers: in place where the device shares the host's memory, else copied in and out. */
#ifndef CLA_STAGING_H
#define CLA_STAGING_H

#include <clattn/tensor.h>

enum { CLA_STAGED = 20 }; /* tensors of a call */

/* A stretch of host memory that one or more tensors lie in. Overlapping stretches are one: two buffers over the same
 * bytes would be undefined. */
typedef struct cla_stretch {
    char *begin, *end;
    bool written, read;
    clattn_buffer *buffer;
} cla_stretch;

typedef struct cla_staging {
    clattn_context *context;
    cla_stretch stretches[CLA_STAGED];
    size_t count;
} cla_staging;

typedef enum cla_use {
    CLA_IN = 0,
    CLA_OUT,  /* written everywhere */
    CLA_INOUT /* read too, or written in places */
} cla_use;

typedef struct cla_staged {
    clattn_tensor *tensor; /* rank 0: absent. Checked. */
    cla_use use;
} cla_staged;

/* Gives tensors with a host array a buffer instead. Nothing to do on the `cpu` context. cla_staging_end must follow,
 * even on failure. */
clattn_status cla_staging_begin(clattn_context *context, const cla_staged *tensors, size_t count, cla_staging *staging);
/* When the work is enqueued: brings written stretches back and waits, unless nothing was staged or `status` is a
 * failure, which is returned. */
clattn_status cla_staging_end(cla_staging *staging, clattn_status status);

#endif
