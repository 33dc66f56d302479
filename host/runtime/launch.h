/* SPDX-License-Identifier: Apache-2.0 */
/* Enqueueing: kernels over one dimension of work-groups. Knows nothing of attention. */
#ifndef CLA_LAUNCH_H
#define CLA_LAUNCH_H

#include "runtime/program.h"
#include <CL/cl.h>

typedef struct cla_arg {
    const clattn_buffer *buffer; /* a __global pointer, NULL when `bytes` is 0 too */
    const void *value;           /* or a value of `bytes` bytes */
    size_t bytes;
} cla_arg;
#define CLA_ARG_BUFFER(b) ((cla_arg){.buffer = (b)})
#define CLA_ARG_VALUE(v) ((cla_arg){.value = &(v), .bytes = sizeof(v)})

/* Work-items of a group: `most`, a power of 2, halved until the device takes so many. */
int64_t cla_group_within(const clattn_device_info *device, int64_t most);
/* What a launch computes and moves at least, for the profile and for the bound of launches; 0: not known. Of the next
 * launches too. */
void cla_kernel_cost(cla_kernel *kernel, double operations, double moved_bytes);
/* Whether kernels are timed, or launches bounded, so that a cost is of use. */
bool cla_costs_wanted(const clattn_context *context);
/* Multiplications and additions that a launch may have by the bound; infinite without one. */
double cla_launch_operations(const clattn_context *context);
/* groups work-groups of the size the kernel was made with, in several launches where the cost is above the bound:
 * kernels take their number from CLA_GROUP (real.clh) or get_global_id. groups = 0 does nothing. */
clattn_status cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args, int count);
/* Everything enqueued after it follows everything enqueued before it. Nothing to do on an in-order queue, but it tells
 * whether the device is lost. */
clattn_status cla_queue_barrier(clattn_context *context);
/* The caller's events come first; then *event (may be NULL) marks the end of all that was enqueued. */
clattn_status cla_queue_begin(clattn_context *context, cl_uint count, const cl_event *events);
clattn_status cla_queue_end(clattn_context *context, cl_event *event);
/* Where a kernel counts the blocks of keys that it computes and skips (cla_count_blocks in kernels/mask.clh), for the
 * profile; NULL where the context does not profile. */
clattn_status cla_profile_counts(clattn_context *context, const cla_kernel *kernel, clattn_buffer **counts);
/* Copies between buffers of the context. */
clattn_status cla_copy_bytes(clattn_buffer *to, size_t to_bytes, const clattn_buffer *from, size_t from_bytes,
                             size_t bytes);

#endif
