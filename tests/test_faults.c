/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL calls that fail, one at a time: each ends in a named error or a right result, and leaves nothing behind (R11,
 * case F10). The linker's --wrap puts the functions of this file in the place of those that the library calls. */
#include "oracle.h"
#include "testing.h"
#include <CL/cl.h>
#include <stdio.h>

static struct {
    int calls, fail_at; /* the number of the call that fails, from 1; 0: none */
    const char *failed; /* its name */
} seen;

static bool fails(const char *name) {
    if (++seen.calls != seen.fail_at)
        return false;
    seen.failed = name;
    return true;
}

/* ---- in the place of OpenCL's functions ---- */

enum { FAILURE = CL_OUT_OF_RESOURCES };

typedef void(CL_CALLBACK *notify_context)(const char *, const void *, size_t, void *);
typedef void(CL_CALLBACK *notify_program)(cl_program, void *);

#define CREATES(type, name, parameters, arguments)                                                                     \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        if (!fails(#name))                                                                                             \
            return __real_##name arguments;                                                                            \
        if (code)                                                                                                      \
            *code = FAILURE;                                                                                           \
        return NULL;                                                                                                   \
    }
#define RETURNS_CODE(name, parameters, arguments)                                                                      \
    cl_int __real_##name parameters;                                                                                   \
    cl_int __wrap_##name parameters;                                                                                   \
    cl_int __wrap_##name parameters { return fails(#name) ? FAILURE : __real_##name arguments; }

CREATES(cl_context, clCreateContext,
        (const cl_context_properties *properties, cl_uint count, const cl_device_id *devices, notify_context notify,
         void *data, cl_int *code),
        (properties, count, devices, notify, data, code))
CREATES(cl_command_queue, clCreateCommandQueue,
        (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int *code),
        (context, device, properties, code))
CREATES(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *code),
        (context, flags, size, host, code))
CREATES(cl_program, clCreateProgramWithSource,
        (cl_context context, cl_uint count, const char **strings, const size_t *lengths, cl_int *code),
        (context, count, strings, lengths, code))
CREATES(cl_kernel, clCreateKernel, (cl_program program, const char *name, cl_int *code), (program, name, code))
CREATES(void *, clEnqueueMapBuffer,
        (cl_command_queue queue, cl_mem memory, cl_bool blocking, cl_map_flags flags, size_t offset, size_t size,
         cl_uint count, const cl_event *events, cl_event *event, cl_int *code),
        (queue, memory, blocking, flags, offset, size, count, events, event, code))
RETURNS_CODE(clBuildProgram,
             (cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
              notify_program notify, void *data),
             (program, count, devices, options, notify, data))
RETURNS_CODE(clGetKernelWorkGroupInfo,
             (cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what, size_t size, void *value,
              size_t *needed),
             (kernel, device, what, size, value, needed))
cl_int __real_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value);
cl_int __wrap_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value);
/* The first argument of each kernel: the others go the same way. */
cl_int __wrap_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
    return index == 0 && fails("clSetKernelArg") ? FAILURE : __real_clSetKernelArg(kernel, index, size, value);
}
RETURNS_CODE(clEnqueueNDRangeKernel,
             (cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset, const size_t *global,
              const size_t *local, cl_uint count, const cl_event *events, cl_event *event),
             (queue, kernel, dims, offset, global, local, count, events, event))
RETURNS_CODE(clEnqueueFillBuffer,
             (cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size, size_t offset,
              size_t size, cl_uint count, const cl_event *events, cl_event *event),
             (queue, memory, pattern, pattern_size, offset, size, count, events, event))
RETURNS_CODE(clEnqueueCopyBuffer,
             (cl_command_queue queue, cl_mem from, cl_mem to, size_t from_offset, size_t to_offset, size_t size,
              cl_uint count, const cl_event *events, cl_event *event),
             (queue, from, to, from_offset, to_offset, size, count, events, event))
RETURNS_CODE(clEnqueueWriteBuffer,
             (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, const void *data,
              cl_uint count, const cl_event *events, cl_event *event),
             (queue, memory, blocking, offset, size, data, count, events, event))
RETURNS_CODE(clEnqueueReadBuffer,
             (cl_command_queue queue, cl_mem memory, cl_bool blocking, size_t offset, size_t size, void *data,
              cl_uint count, const cl_event *events, cl_event *event),
             (queue, memory, blocking, offset, size, data, count, events, event))
RETURNS_CODE(clEnqueueUnmapMemObject,
             (cl_command_queue queue, cl_mem memory, void *mapped, cl_uint count, const cl_event *events,
              cl_event *event),
             (queue, memory, mapped, count, events, event))
RETURNS_CODE(clFinish, (cl_command_queue queue), (queue))

/* ---- every call of a run ---- */

/* A run on a context of its own, in which call n fails. false when there are fewer calls. */
static bool run(oracle_case *c, const char *algorithm, int n) {
    clattn_context *context = NULL;
    uint64_t bytes = 0, peak = 0;
    char text[ORACLE_TEXT] = "";
    seen.calls = 0;
    seen.fail_at = n;
    seen.failed = NULL;
    clattn_status status = clattn_context_create("opencl", NULL, &context);
    bool ran = false;
    if (status == CLATTN_OK)
        ran = oracle_run(c, context, algorithm, text);
    seen.fail_at = 0;
    clattn_context_trim(context);
    clattn_context_memory(context, &bytes, &peak);
    cr_expect_eq(bytes, 0, "%s, call %d (%s): %llu bytes are left", algorithm, n, seen.failed,
                 (unsigned long long)bytes);
    if (ran)
        cr_expect(oracle_compare(c, algorithm, text), "call %d (%s): %s", n, seen.failed, text);
    else
        cr_expect(strstr(clattn_last_error(), "OpenCL -5 (CL_OUT_OF_RESOURCES)"), "%s, call %d (%s): %s %s", algorithm,
                  n, seen.failed, text, clattn_last_error());
    clattn_context_destroy(context);
    return seen.failed != NULL;
}

static void every_call(const char *algorithm, bool buffers) {
    const oracle_config config = {.H = 2,
                                  .N = 5,
                                  .M = 40,
                                  .D = 8,
                                  .layout = ORACLE_TRANSPOSED,
                                  .lengths = true,
                                  .lse = true,
                                  .keep = {2, ORACLE_QUERY | ORACLE_KEY},
                                  .buffers = buffers,
                                  .seed = 3};
    clattn_context *context = NULL;
    char text[ORACLE_TEXT] = "";
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    oracle_case *c = oracle_make(&config);
    cr_assert(oracle_exact(c, text), "%s", text);
    cr_assert(oracle_check(c, context, algorithm, text), "%s", text);
    int n = 1;
    while (n < 1000 && run(c, algorithm, n))
        n++;
    cr_expect(n > 10 && n < 1000, "%s: %d calls", algorithm, n - 1);
    cr_expect(oracle_check(c, context, algorithm, text), "afterwards: %s", text);
    clattn_context_destroy(context);
    oracle_free(c);
}

Test(faults, F10_each_opencl_call_of_fused_lanes_may_fail) { every_call("fused_lanes", false); }
Test(faults, F10_each_opencl_call_of_fused_split_may_fail) { every_call("fused_split", false); }
Test(faults, F10_each_opencl_call_of_fused_tiles_may_fail) { every_call("fused_tiles", false); }
Test(faults, F10_each_opencl_call_of_materialised_may_fail) { every_call("materialised", false); }
Test(faults, F10_each_opencl_call_of_a_plan_may_fail) { every_call("materialised", true); }
