/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts whose device is lost: what tells it, and what they answer from then on. */
#include "runtime/state.h"

#define REMEDY "destroy this context with its plans and buffers and make a new one"

enum { NVIDIA_ILLEGAL_ACCESS = -9999 }; /* of any call once a kernel has read or written where it may not */

/* A driver tells what became of commands when it is waited for: -5 and -14 then mean that some were ended, while -5
 * from a call that only enqueues means that one command finds no room. */
static bool tells_loss(cl_int code, bool waited) {
    switch (code) {
    case CL_DEVICE_NOT_AVAILABLE:
    case CL_INVALID_COMMAND_QUEUE:
    case NVIDIA_ILLEGAL_ACCESS:
        return true;
    case CL_OUT_OF_RESOURCES:
    case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST:
    case CL_INVALID_DEVICE:
    case CL_INVALID_CONTEXT:
        return waited;
    default:
        return false;
    }
}

void cla_context_settle(clattn_context *context) {
    const cl_int code = context->queue ? clFinish(context->queue) : CL_SUCCESS;
    if (tells_loss(code, true))
        atomic_store(&context->lost, code);
}

static clattn_status status_of(clattn_context *context, cl_int code, bool waited, const char *what) {
    if (!tells_loss(code, waited))
        return cla_cl_error(code, what);
    atomic_store(&context->lost, code);
    return cla_error(CLATTN_E_DEVICE_LOST,
                     "%s: OpenCL %d (%s): the device is lost, perhaps since a kernel ran too long (launch_ms) or the "
                     "driver failed; " REMEDY,
                     what, (int)code, cla_cl_name(code));
}

clattn_status cla_enqueued(clattn_context *context, cl_int code, const char *what) {
    return status_of(context, code, false, what);
}

clattn_status cla_waited(clattn_context *context, cl_int code, const char *what) {
    return status_of(context, code, true, what);
}

clattn_status cla_context_usable(const clattn_context *context) {
    const cl_int code = atomic_load(&context->lost);
    if (code == CL_SUCCESS)
        return CLATTN_OK;
    return cla_error(CLATTN_E_DEVICE_LOST, "%s was lost to this context by an earlier failure, OpenCL %d (%s); " REMEDY,
                     context->info.name, (int)code, cla_cl_name(code));
}
