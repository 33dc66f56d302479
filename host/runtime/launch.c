/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/launch.h"

#include "runtime/kernel.h"
#include "runtime/state.h"
#include <string.h>

clattn_status cla_queue_barrier(clattn_context *context) {
    if (!context->queue || !context->out_of_order)
        return CLATTN_OK;
    return cla_cl_error(clEnqueueBarrierWithWaitList(context->queue, 0, NULL, NULL), "barrier");
}

clattn_status cla_queue_begin(clattn_context *context, cl_uint count, const cl_event *events) {
    if (!context->queue)
        return CLATTN_OK;
    if (count > 0)
        return cla_cl_error(clEnqueueBarrierWithWaitList(context->queue, count, events, NULL),
                            "barrier on your events");
    return cla_queue_barrier(context);
}

clattn_status cla_queue_end(clattn_context *context, cl_event *event) {
    if (!context->queue || !event)
        return CLATTN_OK;
    return cla_cl_error(clEnqueueMarkerWithWaitList(context->queue, 0, NULL, event), "marker");
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

bool cla_context_profiles(const clattn_context *context) { return context->profile != NULL; }

clattn_status cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args, int count) {
    clattn_status status = CLATTN_OK;
    cl_event event = NULL;
    if (groups == 0)
        return CLATTN_OK;
    const size_t local = kernel->work_group, global = (size_t)groups * local;
    CLA_TRY(set_args(kernel, args, count));
    CLA_TRY_CL(clEnqueueNDRangeKernel(context->queue, kernel->kernel, 1, NULL, &global, &local, 0, NULL,
                                      context->profile ? &event : NULL),
               kernel->name);
    if (event)
        cla_profile_add(context, kernel->name, event, kernel->operations, kernel->moved_bytes);
    const unsigned ran = global > CLA_SMALL_ITEMS ? CLA_RAN_LARGE : CLA_RAN_SMALL;
    if (!(kernel->ran & ran))
        cla_program_ran(context, kernel, ran);
    CLA_TRY(cla_queue_barrier(context));
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
    CLA_TRY_CL(
        clEnqueueCopyBuffer(to->context->queue, from->memory, to->memory, from_bytes, to_bytes, bytes, 0, NULL, NULL),
        "copy");
    CLA_TRY(cla_queue_barrier(to->context));
done:
    return status;
}
