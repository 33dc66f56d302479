/* SPDX-License-Identifier: Apache-2.0 */
/* Interop: your context, queue, memory objects and events. Wrapped objects are retained and released. */
#ifndef CLATTN_OPENCL_H
#define CLATTN_OPENCL_H

#ifndef CL_TARGET_OPENCL_VERSION
#define CL_TARGET_OPENCL_VERSION 120
#endif
#include <CL/cl.h>
#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context over your queue, in order or out of order (work is then chained by barriers). Asking for a
 * profile needs a queue with CL_QUEUE_PROFILING_ENABLE.
 * Errors   CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED (a profile on a queue without it), CLATTN_E_MEMORY,
 *          CLATTN_E_OPENCL. *out is NULL then. */
CLATTN_API clattn_status clattn_context_from_opencl(cl_context context, cl_command_queue queue,
                                                    const clattn_context_options *options, clattn_context **out);
/* A buffer over your memory object (all of it; sub-buffers are fine).
 * Special  buffers over the same memory (one object, a sub-buffer and its whole, sub-buffers that meet, objects over
 *          one host array) are known to share it: calls refuse an output over another tensor as they do in one buffer.
 *          Calls refuse an output in an object of CL_MEM_READ_ONLY, and an input, or what is changed or added to, in
 *          one of CL_MEM_WRITE_ONLY, by name (CLATTN_E_ARGUMENT).
 * Errors   CLATTN_E_ARGUMENT (of another cl_context), CLATTN_E_UNSUPPORTED (the `cpu` context), CLATTN_E_OPENCL. */
CLATTN_API clattn_status clattn_buffer_from_opencl(clattn_context *context, cl_mem memory, clattn_buffer **buffer);
/* The memory object of a buffer, not retained; NULL on the `cpu` context. */
CLATTN_API cl_mem clattn_buffer_opencl(const clattn_buffer *buffer);
/* clattn_plan_execute after your events; *event (may be NULL) completes with the result and is yours to release.
 * Special  on the `cpu` context there are no events: yours are not waited for, *event is NULL, the result is there.
 * Errors   those of clattn_plan_execute; *event is NULL then. */
CLATTN_API clattn_status clattn_plan_enqueue(clattn_plan *plan, const clattn_attention_args *tensors,
                                             cl_uint event_count, const cl_event *events, cl_event *event);

#ifdef __cplusplus
}
#endif
#endif
