/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL of the test's own, which the linker puts in the place of the loader: it computes nothing and compiles
 * nothing, counts what it gave out, and lets one of its calls, or of the host's memory, fail. */
#ifndef MADE_OPENCL_H
#define MADE_OPENCL_H

#include "base/error.h"
#include "base/str.h"
#include "io_testing.h"
#include "runtime/kernel.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <time.h>

static struct {
    long calls, at;          /* number `at` fails */
    long live;               /* objects that are held */
    long double clock, step; /* seconds of the next question */
    cl_ulong cache;          /* bytes of the device's cache */
    cl_uint devices;         /* of each program; the context's own is the last, where it is one of them */
    bool foreign, unsized;   /* it is none of them; there is no binary */
    cl_uint units, width;
    cl_ulong local;   /* bytes of local memory that kernels take */
    bool unavailable; /* the device */
    cl_int build;     /* what building gives */
    const char *log;
    cl_command_queue_properties queue;
} it;

static bool fails(void) { return it.calls++ == it.at; }
static cl_int code_now(void) { return fails() ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS; }
static void reset(void) {
    memset(&it, 0, sizeof it);
    it.at = -1, it.step = 1, it.devices = 1, it.units = 4, it.width = 8;
}

/* ---- OpenCL ---- */

static char things[8]; /* platform, other device, device, context, queue, and what is made */
enum { PLATFORM, OTHER, DEVICE, CONTEXT, QUEUE, MADE };

static void *made(cl_int *code) {
    *code = code_now();
    it.live += *code == CL_SUCCESS;
    return *code == CL_SUCCESS ? &things[MADE] : NULL;
}
static cl_int taken(void) {
    const cl_int code = code_now();
    it.live += code == CL_SUCCESS;
    return code;
}
static cl_int given_back(void) {
    it.live--;
    return CL_SUCCESS;
}
static cl_int give(const void *from, size_t bytes, size_t room, void *value, size_t *size) {
    if (fails())
        return CL_OUT_OF_HOST_MEMORY;
    if (size)
        *size = bytes;
    if (value)
        memcpy(value, from, bytes < room ? bytes : room);
    return CL_SUCCESS;
}
#define GIVE(type, x) give(&(type){x}, sizeof(type), room, value, size)

#define INFO void *value, size_t *size
#define EVENTS cl_uint count, const cl_event *events, cl_event *event
cl_int __wrap_clGetPlatformIDs(cl_uint room, cl_platform_id *list, cl_uint *count) {
    if (room > 0 && list)
        list[0] = (cl_platform_id)&things[PLATFORM];
    if (count)
        *count = 1;
    return code_now();
}
cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, INFO) {
    (void)platform, (void)what;
    return give("p", 2, room, value, size);
}
cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *list,
                             cl_uint *count) {
    (void)platform, (void)type;
    if (room > 0 && list)
        list[0] = (cl_device_id)&things[DEVICE];
    if (count)
        *count = 1;
    return code_now();
}
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, INFO) {
    (void)device;
    switch (what) {
    case CL_DEVICE_PLATFORM:
        return GIVE(cl_platform_id, (cl_platform_id)&things[PLATFORM]);
    case CL_DEVICE_TYPE:
        return GIVE(cl_device_type, CL_DEVICE_TYPE_GPU);
    case CL_DEVICE_AVAILABLE:
        return GIVE(cl_bool, !it.unavailable);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return GIVE(cl_bool, CL_TRUE);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return GIVE(cl_bool, CL_FALSE);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return GIVE(cl_uint, it.units);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return GIVE(cl_uint, it.width);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return GIVE(size_t, 256);
    case CL_DEVICE_GLOBAL_MEM_CACHE_SIZE:
        return GIVE(cl_ulong, it.cache);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return GIVE(cl_ulong, (cl_ulong)1 << 32);
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return GIVE(cl_ulong, 1 << 15);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return GIVE(cl_device_local_mem_type, CL_LOCAL);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return GIVE(cl_device_fp_config, CL_FP_FMA);
    default:
        return give("v", 2, room, value, size);
    }
}
cl_context __wrap_clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                                  void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                                  cl_int *code) {
    (void)properties, (void)count, (void)devices, (void)notify, (void)user;
    return made(code) ? (cl_context)&things[CONTEXT] : NULL;
}
cl_int __wrap_clRetainContext(cl_context context) { return (void)context, taken(); }
cl_int __wrap_clReleaseContext(cl_context context) { return (void)context, given_back(); }
cl_command_queue __wrap_clCreateCommandQueue(cl_context context, cl_device_id device,
                                             cl_command_queue_properties properties, cl_int *code) {
    (void)context, (void)device, (void)properties;
    return made(code) ? (cl_command_queue)&things[QUEUE] : NULL;
}
cl_int __wrap_clRetainCommandQueue(cl_command_queue queue) { return (void)queue, taken(); }
cl_int __wrap_clReleaseCommandQueue(cl_command_queue queue) { return (void)queue, given_back(); }
cl_int __wrap_clGetCommandQueueInfo(cl_command_queue queue, cl_command_queue_info what, size_t room, INFO) {
    (void)queue;
    if (what == CL_QUEUE_DEVICE)
        return GIVE(cl_device_id, (cl_device_id)&things[DEVICE]);
    if (what == CL_QUEUE_CONTEXT)
        return GIVE(cl_context, (cl_context)&things[CONTEXT]);
    return GIVE(cl_command_queue_properties, it.queue);
}
cl_mem __wrap_clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void *host, cl_int *code) {
    (void)context, (void)flags, (void)bytes, (void)host;
    return made(code);
}
cl_int __wrap_clRetainMemObject(cl_mem memory) { return (void)memory, taken(); }
cl_int __wrap_clReleaseMemObject(cl_mem memory) { return (void)memory, given_back(); }
cl_int __wrap_clGetMemObjectInfo(cl_mem memory, cl_mem_info what, size_t room, INFO) {
    (void)memory;
    switch (what) {
    case CL_MEM_SIZE:
        return GIVE(size_t, 64);
    case CL_MEM_FLAGS:
        return GIVE(cl_mem_flags, CL_MEM_READ_WRITE);
    case CL_MEM_ASSOCIATED_MEMOBJECT:
        return GIVE(cl_mem, NULL);
    default:
        return GIVE(cl_context, (cl_context)&things[CONTEXT]);
    }
}
cl_program __wrap_clCreateProgramWithSource(cl_context context, cl_uint count, const char **texts,
                                            const size_t *lengths, cl_int *code) {
    (void)context, (void)count, (void)texts, (void)lengths;
    return made(code);
}
/* Its own code may fail, and that of the binary. */
cl_program __wrap_clCreateProgramWithBinary(cl_context context, cl_uint count, const cl_device_id *devices,
                                            const size_t *sizes, const unsigned char **binaries, cl_int *loaded,
                                            cl_int *code) {
    (void)context, (void)count, (void)devices, (void)sizes, (void)binaries;
    *loaded = fails() ? CL_INVALID_BINARY : CL_SUCCESS;
    return made(code);
}
cl_int __wrap_clReleaseProgram(cl_program program) { return (void)program, given_back(); }
cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
    (void)program, (void)count, (void)devices, (void)options, (void)notify, (void)user;
    return fails() ? CL_OUT_OF_HOST_MEMORY : it.build;
}
cl_int __wrap_clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info what, size_t room,
                                    INFO) {
    (void)program, (void)device, (void)what;
    return give(it.log, strlen(it.log) + 1, room, value, size);
}
cl_int __wrap_clGetProgramInfo(cl_program program, cl_program_info what, size_t room, INFO) {
    (void)program;
    cl_device_id devices[2] = {(cl_device_id)&things[OTHER], (cl_device_id)&things[OTHER]};
    const size_t bytes = it.unsized ? 0 : 8, sizes[2] = {bytes, bytes};
    if (!it.foreign)
        devices[it.devices - 1] = (cl_device_id)&things[DEVICE];
    switch (what) {
    case CL_PROGRAM_NUM_DEVICES:
        return GIVE(cl_uint, it.devices);
    case CL_PROGRAM_DEVICES:
        return give(devices, sizeof devices, room, value, size);
    case CL_PROGRAM_BINARY_SIZES:
        return give(sizes, sizeof sizes, room, value, size);
    default:
        for (cl_uint i = 0; i < it.devices; i++)
            if (((unsigned char **)value)[i])
                memcpy(((unsigned char **)value)[i], "binary..", 8);
        return code_now();
    }
}
cl_kernel __wrap_clCreateKernel(cl_program program, const char *name, cl_int *code) {
    (void)program, (void)name;
    return made(code);
}
cl_int __wrap_clReleaseKernel(cl_kernel kernel) { return (void)kernel, given_back(); }
cl_int __wrap_clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device, cl_kernel_work_group_info what,
                                       size_t room, INFO) {
    (void)kernel, (void)device;
    return what == CL_KERNEL_LOCAL_MEM_SIZE ? GIVE(cl_ulong, it.local) : GIVE(size_t, 256);
}
cl_int __wrap_clSetKernelArg(cl_kernel kernel, cl_uint index, size_t bytes, const void *value) {
    (void)kernel, (void)index, (void)bytes, (void)value;
    return code_now();
}
static cl_int enqueued(cl_event *event) {
    const cl_int code = code_now();
    if (event && code == CL_SUCCESS) {
        *event = (cl_event)&things[MADE];
        it.live++;
    }
    return code;
}
cl_int __wrap_clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint axes, const size_t *offset,
                                     const size_t *global, const size_t *local, EVENTS) {
    (void)queue, (void)kernel, (void)axes, (void)offset, (void)global, (void)local, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clEnqueueBarrierWithWaitList(cl_command_queue queue, EVENTS) {
    (void)queue, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clEnqueueMarkerWithWaitList(cl_command_queue queue, EVENTS) {
    (void)queue, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t at, size_t to_at, size_t bytes,
                                  EVENTS) {
    (void)queue, (void)from, (void)to, (void)at, (void)to_at, (void)bytes, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern, size_t length, size_t at,
                                  size_t bytes, EVENTS) {
    (void)queue, (void)memory, (void)pattern, (void)length, (void)at, (void)bytes, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clEnqueueReadBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits, size_t at, size_t bytes,
                                  void *to, EVENTS) {
    (void)queue, (void)memory, (void)waits, (void)at, (void)count, (void)events;
    memset(to, 0, bytes);
    return enqueued(event);
}
cl_int __wrap_clEnqueueWriteBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits, size_t at, size_t bytes,
                                   const void *from, EVENTS) {
    (void)queue, (void)memory, (void)waits, (void)at, (void)bytes, (void)from, (void)count, (void)events;
    return enqueued(event);
}
void *__wrap_clEnqueueMapBuffer(cl_command_queue queue, cl_mem memory, cl_bool waits, cl_map_flags flags, size_t at,
                                size_t bytes, EVENTS, cl_int *code) {
    (void)queue, (void)memory, (void)waits, (void)flags, (void)at, (void)bytes, (void)count, (void)events;
    *code = enqueued(event);
    return *code == CL_SUCCESS ? things : NULL;
}
cl_int __wrap_clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem memory, void *mapped, EVENTS) {
    (void)queue, (void)memory, (void)mapped, (void)count, (void)events;
    return enqueued(event);
}
cl_int __wrap_clFinish(cl_command_queue queue) { return (void)queue, code_now(); }
cl_int __wrap_clFlush(cl_command_queue queue) { return (void)queue, code_now(); }
cl_int __wrap_clWaitForEvents(cl_uint count, const cl_event *events) { return (void)count, (void)events, code_now(); }
cl_int __wrap_clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t room, INFO) {
    (void)event;
    return GIVE(cl_ulong, what == CL_PROFILING_COMMAND_END ? 2000000 : 1000000);
}
cl_int __wrap_clReleaseEvent(cl_event event) { return (void)event, given_back(); }

/* ---- the host ---- */

clattn_status __real_cla_alloc(size_t count, size_t size, const char *what, void *out);
clattn_status __wrap_cla_alloc(size_t count, size_t size, const char *what, void *out) {
    *(void **)out = NULL;
    return fails() ? cla_error(CLATTN_E_MEMORY, "made to fail") : __real_cla_alloc(count, size, what, out);
}
clattn_status __real_cla_realloc(void *in_out, size_t count, size_t size, const char *what);
clattn_status __wrap_cla_realloc(void *in_out, size_t count, size_t size, const char *what) {
    return fails() ? cla_error(CLATTN_E_MEMORY, "made to fail") : __real_cla_realloc(in_out, count, size, what);
}
clattn_status __real_cla_str_status(const cla_str *text);
clattn_status __wrap_cla_str_status(const cla_str *text) {
    return fails() ? cla_error(CLATTN_E_MEMORY, "made to fail") : __real_cla_str_status(text);
}
int __wrap_clock_gettime(clockid_t which, struct timespec *t) {
    (void)which;
    it.clock += it.step;
    t->tv_sec = (time_t)it.clock;
    t->tv_nsec = (long)((it.clock - (long double)t->tv_sec) * 1e9L);
    return 0;
}

/* ---- for all tests ---- */

static inline void begin(void) {
    temp_dir_make();
    reset();
    it.queue = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("CLATTN_TUNING_FILE", "off", 1);
}

static inline clattn_status use_kernel(clattn_context *context) {
    cla_kernel *kernel = NULL;
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "WG", 64);
    const clattn_status status = cla_kernel_create(context, &key, 64, &kernel);
    cla_kernel_destroy(kernel);
    return status;
}

#endif
