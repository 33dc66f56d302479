/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/launch.h"

#include "base/mem.h"
#include "runtime/kernel.h"
#include "runtime/state.h"
#include <float.h>
#include <math.h>
#include <string.h>

clattn_status cla_queue_barrier(clattn_context *context) {
    const clattn_status status = cla_context_usable(context);
    if (status != CLATTN_OK || !context->queue || !context->out_of_order)
        return status;
    return cla_enqueued(context, clEnqueueBarrierWithWaitList(context->queue, 0, NULL, NULL), "barrier");
}

clattn_status cla_queue_begin(clattn_context *context, cl_uint count, const cl_event *events) {
    const clattn_status status = cla_context_usable(context);
    if (status != CLATTN_OK || !context->queue)
        return status;
    if (count > 0)
        return cla_enqueued(context, clEnqueueBarrierWithWaitList(context->queue, count, events, NULL),
                            "barrier on your events");
    return cla_queue_barrier(context);
}

clattn_status cla_queue_end(clattn_context *context, cl_event *event) {
    if (!context->queue || !event)
        return CLATTN_OK;
    return cla_enqueued(context, clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event), "marker");
}

int64_t cla_group_within(const clattn_device_info *device, int64_t most) {
    int64_t group = most;
    while (group > 1 && (uint64_t)group > device->max_work_group)
        group /= 2;
    return group;
}

static clattn_status set_args(cla_kernel *kernel, const cla_arg *args, int count) {
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < count; i++) {
        const cla_arg *a = &args[i];
        const cl_mem memory = a->buffer ? a->buffer->memory : NULL;
        const cl_int code = a->bytes > 0
                                ? clSetKernelArg(kernel->kernel, (cl_uint)i, a->bytes, a->value)
                                : clSetKernelArg(kernel->kernel, (cl_uint)i, sizeof memory, memory ? &memory : NULL);
        CLA_TRY_CL(code, kernel->name);
    }
done:
    return status;
}

void cla_kernel_cost(cla_kernel *kernel, double operations, double moved_bytes) {
    kernel->operations = operations;
    kernel->moved_bytes = moved_bytes;
}

bool cla_costs_wanted(const clattn_context *context) { return context->profile != NULL || context->launch_seconds > 0; }

/* ---- the bound of a launch ---- */

/* What a compute unit does at least in a second: an execution unit of a GPU beside a CPU has 16 lanes and less, a
 * multiprocessor of a card 64 and more. A slow estimate costs a few launches more, a fast one the watchdog. */
#define UNIT_OPERATIONS 4e9
#define CARD_UNIT_OPERATIONS 16e9
#define UNIT_BYTES 1e9

static double operations_a_second(const clattn_device_info *device) {
    const bool card = device->device_class == CLATTN_DEVICE_GPU && !device->unified_memory;
    return (card ? CARD_UNIT_OPERATIONS : UNIT_OPERATIONS) * device->compute_units;
}

double cla_launch_operations(const clattn_context *context) {
    return context->launch_seconds > 0 ? context->launch_seconds * operations_a_second(&context->info) : INFINITY;
}

/* As many as compute units side by side take about as long as one. */
static int64_t groups_at_once(const clattn_context *context, const cla_kernel *kernel, int64_t groups) {
    if (!(context->launch_seconds > 0))
        return groups;
    const double units = context->info.compute_units;
    const double seconds =
        fmax(kernel->operations / operations_a_second(&context->info), kernel->moved_bytes / (UNIT_BYTES * units));
    const double most = fmax((double)groups * context->launch_seconds / fmax(seconds, DBL_MIN), units);
    return most < (double)groups ? (int64_t)most : groups;
}

/* `groups` of all of them, from `first` on. */
static clattn_status launch_part(clattn_context *context, cla_kernel *kernel, int64_t first, int64_t groups,
                                 double share) {
    clattn_status status = CLATTN_OK;
    cl_event event = NULL;
    const size_t local = kernel->work_group, global = (size_t)groups * local, offset = (size_t)first * local;
    CLA_TRY(cla_enqueued(context,
                         clEnqueueNDRangeKernel(context->queue, kernel->kernel, 1, first > 0 ? &offset : NULL, &global,
                                                &local, 0, NULL, context->profile ? &event : NULL),
                         kernel->name));
    if (event)
        cla_profile_add(context, kernel->name, event, kernel->operations * share, kernel->moved_bytes * share);
    const unsigned ran = global > CLA_SMALL_ITEMS ? CLA_RAN_LARGE : CLA_RAN_SMALL;
    if (!(kernel->ran & ran))
        cla_program_ran(context, kernel, ran);
    if (share < 1) /* drivers may hand several launches over as one */
        CLA_TRY(cla_enqueued(context, clFlush(context->queue), kernel->name));
    CLA_TRY(cla_queue_barrier(context));
done:
    return status;
}

clattn_status cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args, int count) {
    clattn_status status = CLATTN_OK;
    if (groups == 0)
        return CLATTN_OK;
    const int64_t most = groups_at_once(context, kernel, groups);
    CLA_TRY(cla_context_usable(context));
    CLA_TRY(set_args(kernel, args, count));
    for (int64_t first = 0; first < groups; first += most) {
        const int64_t part = cla_min(most, groups - first);
        CLA_TRY(launch_part(context, kernel, first, part, (double)part / (double)groups));
    }
done:
    return status;
}

clattn_status cla_copy_bytes(clattn_buffer *to, size_t to_bytes, const clattn_buffer *from, size_t from_bytes,
                             size_t bytes) {
    clattn_status status = CLATTN_OK;
    if (bytes == 0)
        goto done;
    if (to->host) {
        memcpy((char *)to->host + to_bytes, (const char *)from->host + from_bytes, bytes);
        goto done;
    }
    CLA_TRY(cla_context_usable(to->context));
    CLA_TRY(cla_enqueued(
        to->context,
        clEnqueueCopyBuffer(to->context->queue, from->memory, to->memory, from_bytes, to_bytes, bytes, 0, NULL, NULL),
        "copy"));
    CLA_TRY(cla_queue_barrier(to->context));
done:
    return status;
}
