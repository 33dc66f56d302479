/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that clattn and CLBlast call, in OpenCL's place. A call that fails does nothing, but for those that
 * release or wait: what they are for is done, so that nothing is lost or still runs by this library's fault. */
#define _GNU_SOURCE
#include "internal.h"
#include <clblast_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REAL(function) ((__typeof__(&function))real_function(#function))
#define CALLER __builtin_return_address(0)

static void set(cl_int *code, cl_int value) {
    if (code)
        *code = value;
}

static cl_int made(cl_int code, void *object, object_kind kind, const void *by, bool over_host) {
    if (code == CL_SUCCESS)
        object_made(object, kind, by, over_host);
    return code;
}

/* An enqueued command and its event, where one was asked for. */
static cl_int enqueued(cl_int code, cl_event *event, const void *by) {
    if (code == CL_SUCCESS)
        object_enqueued();
    return made(code, event ? *event : NULL, OBJECT_EVENT, by, false);
}

/* ---- platforms and devices ---- */

cl_int clGetPlatformIDs(cl_uint count, cl_platform_id *platforms, cl_uint *found) {
    const cl_int code = faults_limited.no_platform ? -1001 : faults_code("clGetPlatformIDs");
    return code ? code : REAL(clGetPlatformIDs)(count, platforms, found);
}

cl_int clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t size, void *value, size_t *needed) {
    const cl_int code = faults_code("clGetPlatformInfo");
    return code ? code : REAL(clGetPlatformInfo)(platform, what, size, value, needed);
}

cl_int clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id *devices,
                      cl_uint *found) {
    const cl_int code = faults_limited.no_device ? CL_DEVICE_NOT_FOUND : faults_code("clGetDeviceIDs");
    return code ? code : REAL(clGetDeviceIDs)(platform, type, count, devices, found);
}

cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed) {
    cl_int code = faults_code("clGetDeviceInfo");
    size_t bytes = 0;
    if (code == CL_SUCCESS)
        code = REAL(clGetDeviceInfo)(device, what, size, value, &bytes);
    if (code == CL_SUCCESS && needed)
        *needed = bytes;
    if (code == CL_SUCCESS && value)
        limit_device_info(what, bytes, value);
    return code;
}

/* ---- contexts and queues ---- */

cl_context clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *data,
                           cl_int *out) {
    cl_context context = NULL;
    cl_int code = faults_code("clCreateContext");
    if (code == CL_SUCCESS)
        context = REAL(clCreateContext)(properties, count, devices, notify, data, &code);
    set(out, made(code, context, OBJECT_CONTEXT, CALLER, false));
    return context;
}

cl_int clRetainContext(cl_context context) {
    cl_int code = faults_code("clRetainContext");
    if (code == CL_SUCCESS)
        code = REAL(clRetainContext)(context);
    if (code == CL_SUCCESS)
        object_retained(context);
    return code;
}

cl_int clReleaseContext(cl_context context) {
    const cl_int code = faults_code("clReleaseContext"), real = REAL(clReleaseContext)(context);
    object_released(context);
    return code ? code : real;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id device, cl_command_queue_properties properties,
                                      cl_int *out) {
    cl_command_queue queue = NULL;
    cl_int code = faults_code("clCreateCommandQueue");
    if (code == CL_SUCCESS)
        queue = REAL(clCreateCommandQueue)(context, device, properties, &code);
    set(out, made(code, queue, OBJECT_QUEUE, CALLER, false));
    return queue;
}

cl_int clRetainCommandQueue(cl_command_queue queue) {
    cl_int code = faults_code("clRetainCommandQueue");
    if (code == CL_SUCCESS)
        code = REAL(clRetainCommandQueue)(queue);
    if (code == CL_SUCCESS)
        object_retained(queue);
    return code;
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
    const cl_int code = faults_code("clReleaseCommandQueue"), real = REAL(clReleaseCommandQueue)(queue);
    object_released(queue);
    return code ? code : real;
}

cl_int clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what, size_t size, void *value,
                             size_t *needed) {
    const cl_int code = faults_code("clGetCommandQueueInfo");
    return code ? code : REAL(clGetCommandQueueInfo)(queue, what, size, value, needed);
}

cl_int clFinish(cl_command_queue queue) {
    const cl_int code = faults_wait_code("clFinish", true), real = REAL(clFinish)(queue);
    object_waited();
    return code ? code : real;
}

/* ---- buffers ---- */

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *out) {
    cl_mem memory = NULL;
    cl_int code = faults_code("clCreateBuffer");
    if (code == CL_SUCCESS)
        code = limit_buffer(size);
    if (code == CL_SUCCESS)
        memory = REAL(clCreateBuffer)(context, flags, size, host, &code);
    set(out, made(code, memory, OBJECT_BUFFER, CALLER, (flags & CL_MEM_USE_HOST_PTR) != 0));
    return memory;
}

cl_int clRetainMemObject(cl_mem memory) {
    cl_int code = faults_code("clRetainMemObject");
    if (code == CL_SUCCESS)
        code = REAL(clRetainMemObject)(memory);
    if (code == CL_SUCCESS)
        object_retained(memory);
    return code;
}

cl_int clReleaseMemObject(cl_mem memory) {
    const cl_int code = faults_code("clReleaseMemObject"), real = REAL(clReleaseMemObject)(memory);
    object_released(memory);
    return code ? code : real;
}

cl_int clGetMemObjectInfo(cl_mem memory, cl_mem_info what, size_t size, void *value, size_t *needed) {
    const cl_int code = faults_code("clGetMemObjectInfo");
    return code ? code : REAL(clGetMemObjectInfo)(memory, what, size, value, needed);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
                           void *data, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_wait_code("clEnqueueReadBuffer", blocking);
    if (code != CL_SUCCESS)
        return code;
    code = REAL(clEnqueueReadBuffer)(queue, memory, blocking, offset, size, data, count, events, event);
    code = enqueued(code, event, CALLER);
    if (code == CL_SUCCESS && blocking)
        object_waited();
    return code;
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size,
                            const void *data, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_wait_code("clEnqueueWriteBuffer", blocking);
    if (code != CL_SUCCESS)
        return code;
    code = REAL(clEnqueueWriteBuffer)(queue, memory, blocking, offset, size, data, count, events, event);
    code = enqueued(code, event, CALLER);
    if (code == CL_SUCCESS && blocking)
        object_waited();
    return code;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset,
                           size_t size, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_code("clEnqueueCopyBuffer");
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueCopyBuffer)(queue, from, to, from_offset, to_offset, size, count, events, event);
    return enqueued(code, event, CALLER);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size,
                           size_t offset, size_t size, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_code("clEnqueueFillBuffer");
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueFillBuffer)(queue, memory, pattern, pattern_size, offset, size, count, events, event);
    return enqueued(code, event, CALLER);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset,
                         size_t size, cl_uint count, const cl_event *events, cl_event *event, cl_int *out) {
    void *mapped = NULL;
    cl_int code = faults_wait_code("clEnqueueMapBuffer", blocking);
    if (code == CL_SUCCESS)
        mapped = REAL(clEnqueueMapBuffer)(queue, memory, blocking, flags, offset, size, count, events, event, &code);
    set(out, enqueued(code, event, CALLER));
    if (code == CL_SUCCESS && blocking)
        object_waited();
    return mapped;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory, void *mapped, cl_uint count,
                               const cl_event *events, cl_event *event) {
    cl_int code = faults_code("clEnqueueUnmapMemObject");
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueUnmapMemObject)(queue, memory, mapped, count, events, event);
    return enqueued(code, event, CALLER);
}

/* ---- programs and kernels ---- */

cl_program clCreateProgramWithSource(cl_context context, cl_uint count, const char **strings, const size_t *lengths,
                                     cl_int *out) {
    cl_program program = NULL;
    cl_int code = faults_code("clCreateProgramWithSource");
    if (code == CL_SUCCESS)
        program = REAL(clCreateProgramWithSource)(context, count, strings, lengths, &code);
    set(out, made(code, program, OBJECT_PROGRAM, CALLER, false));
    return program;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries, cl_int *loaded,
                                     cl_int *out) {
    cl_program program = NULL;
    cl_int code = faults_code("clCreateProgramWithBinary");
    if (code == CL_SUCCESS)
        program = REAL(clCreateProgramWithBinary)(context, count, devices, lengths, binaries, loaded, &code);
    set(out, made(code, program, OBJECT_PROGRAM, CALLER, false));
    return program;
}

cl_int clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *data) {
    const cl_int code = faults_code("clBuildProgram");
    return code ? code : REAL(clBuildProgram)(program, count, devices, options, notify, data);
}

cl_int clReleaseProgram(cl_program program) {
    const cl_int code = faults_code("clReleaseProgram"), real = REAL(clReleaseProgram)(program);
    object_released(program);
    return code ? code : real;
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *value, size_t *needed) {
    const cl_int code = faults_code("clGetProgramInfo");
    return code ? code : REAL(clGetProgramInfo)(program, what, size, value, needed);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t size,
                             void *value, size_t *needed) {
    const cl_int code = faults_code("clGetProgramBuildInfo");
    return code ? code : REAL(clGetProgramBuildInfo)(program, device, what, size, value, needed);
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *out) {
    cl_kernel kernel = NULL;
    cl_int code = faults_code("clCreateKernel");
    if (code == CL_SUCCESS)
        kernel = REAL(clCreateKernel)(program, name, &code);
    set(out, made(code, kernel, OBJECT_KERNEL, CALLER, false));
    return kernel;
}

cl_int clReleaseKernel(cl_kernel kernel) {
    const cl_int code = faults_code("clReleaseKernel"), real = REAL(clReleaseKernel)(kernel);
    object_released(kernel);
    return code ? code : real;
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size,
                                void *value, size_t *needed) {
    cl_int code = faults_code("clGetKernelWorkGroupInfo");
    if (code == CL_SUCCESS)
        code = REAL(clGetKernelWorkGroupInfo)(kernel, device, what, size, value, needed);
    if (code == CL_SUCCESS && value)
        limit_kernel_info(what, size, value);
    return code;
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    cl_int code = faults_code("clSetKernelArg");
    if (code == CL_SUCCESS)
        code = REAL(clSetKernelArg)(kernel, index, size, value);
    if (code == CL_SUCCESS)
        object_local_argument(kernel, index, value ? 0 : size);
    return code;
}

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint count, const cl_event *events,
                              cl_event *event) {
    cl_int code = faults_code("clEnqueueNDRangeKernel");
    if (code == CL_SUCCESS)
        code = limit_launch(queue, kernel, dims, local);
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueNDRangeKernel)(queue, kernel, dims, offset, global, local, count, events, event);
    return enqueued(code, event, CALLER);
}

/* ---- events ---- */

cl_int clEnqueueBarrierWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_code("clEnqueueBarrierWithWaitList");
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueBarrierWithWaitList)(queue, count, events, event);
    return enqueued(code, event, CALLER);
}

cl_int clEnqueueMarkerWithWaitList(cl_command_queue queue, cl_uint count, const cl_event *events, cl_event *event) {
    cl_int code = faults_code("clEnqueueMarkerWithWaitList");
    if (code == CL_SUCCESS)
        code = REAL(clEnqueueMarkerWithWaitList)(queue, count, events, event);
    return enqueued(code, event, CALLER);
}

cl_int clWaitForEvents(cl_uint count, const cl_event *events) {
    const cl_int code = faults_wait_code("clWaitForEvents", true), real = REAL(clWaitForEvents)(count, events);
    return code ? code : real;
}

cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t size, void *value, size_t *needed) {
    const cl_int code = faults_code("clGetEventProfilingInfo");
    return code ? code : REAL(clGetEventProfilingInfo)(event, what, size, value, needed);
}

cl_int clReleaseEvent(cl_event event) {
    const cl_int code = faults_code("clReleaseEvent"), real = REAL(clReleaseEvent)(event);
    object_released(event);
    return code ? code : real;
}

/* ---- CLBlast ---- */

CLBlastStatusCode CLBlastSgemmStridedBatched(const CLBlastLayout layout, const CLBlastTranspose a_transpose,
                                             const CLBlastTranspose b_transpose, const size_t m, const size_t n,
                                             const size_t k, const float alpha, const cl_mem a_buffer,
                                             const size_t a_offset, const size_t a_ld, const size_t a_stride,
                                             const cl_mem b_buffer, const size_t b_offset, const size_t b_ld,
                                             const size_t b_stride, const float beta, cl_mem c_buffer,
                                             const size_t c_offset, const size_t c_ld, const size_t c_stride,
                                             const size_t batch_count, cl_command_queue *queue, cl_event *event) {
    const int code = faults_code("CLBlastSgemmStridedBatched");
    return code ? (CLBlastStatusCode)code
                : REAL(CLBlastSgemmStridedBatched)(layout, a_transpose, b_transpose, m, n, k, alpha, a_buffer, a_offset,
                                                   a_ld, a_stride, b_buffer, b_offset, b_ld, b_stride, beta, c_buffer,
                                                   c_offset, c_ld, c_stride, batch_count, queue, event);
}

CLBlastStatusCode CLBlastDgemmStridedBatched(const CLBlastLayout layout, const CLBlastTranspose a_transpose,
                                             const CLBlastTranspose b_transpose, const size_t m, const size_t n,
                                             const size_t k, const double alpha, const cl_mem a_buffer,
                                             const size_t a_offset, const size_t a_ld, const size_t a_stride,
                                             const cl_mem b_buffer, const size_t b_offset, const size_t b_ld,
                                             const size_t b_stride, const double beta, cl_mem c_buffer,
                                             const size_t c_offset, const size_t c_ld, const size_t c_stride,
                                             const size_t batch_count, cl_command_queue *queue, cl_event *event) {
    const int code = faults_code("CLBlastDgemmStridedBatched");
    return code ? (CLBlastStatusCode)code
                : REAL(CLBlastDgemmStridedBatched)(layout, a_transpose, b_transpose, m, n, k, alpha, a_buffer, a_offset,
                                                   a_ld, a_stride, b_buffer, b_offset, b_ld, b_stride, beta, c_buffer,
                                                   c_offset, c_ld, c_stride, batch_count, queue, event);
}

CLBlastStatusCode CLBlastOverrideParameters(const cl_device_id device, const char *kernel,
                                            const CLBlastPrecision precision, const size_t count, const char **names,
                                            const size_t *values) {
    const int code = faults_code("CLBlastOverrideParameters");
    return code ? (CLBlastStatusCode)code
                : REAL(CLBlastOverrideParameters)(device, kernel, precision, count, names, values);
}

/* ---- of any program: LD_PRELOAD=libfaults.so CLATTN_FAULTS="group=16 local=16384" PROGRAM ---- */

static size_t number_after(const char *text, const char *word) {
    const char *at = strstr(text, word);
    return at ? (size_t)strtoull(at + strlen(word), NULL, 10) : 0;
}

static void tell(void) {
    char live[200], of_clblast[200];
    const faults_seen seen = faults_now();
    faults_live(false, live, sizeof live);
    faults_live(true, of_clblast, sizeof of_clblast);
    fprintf(stderr, "faults: %d calls, %s fails; %d refused; left: %s; by CLBlast: %s\n", seen.calls,
            seen.failed ? seen.failed : "nothing", seen.refused, live, of_clblast);
}

/* Words: group=, kernel=, local=, alloc= and a number; no_fp64, no_platform, no_device, gpu; at=N, the call that fails,
 * with -CODE and lasting; tell, of what is left at the end. */
__attribute__((constructor)) static void from_environment(void) {
    const char *text = getenv("CLATTN_FAULTS");
    if (!text)
        return;
    const char *const code = strstr(text, " -");
    faults_limit(&(faults_limits){.work_group = number_after(text, "group="),
                                  .kernel_work_group = number_after(text, "kernel="),
                                  .local_bytes = number_after(text, "local="),
                                  .alloc_bytes = number_after(text, "alloc="),
                                  .no_fp64 = strstr(text, "no_fp64"),
                                  .no_platform = strstr(text, "no_platform"),
                                  .no_device = strstr(text, "no_device"),
                                  .gpu = strstr(text, "gpu")});
    faults_arm(&(faults_plan){
        .at = (int)number_after(text, "at="), .code = code ? atoi(code + 1) : 0, .lasting = strstr(text, "lasting")});
    if (strstr(text, "tell"))
        atexit(tell);
}
