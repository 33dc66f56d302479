/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, buffers, programs, launches, profiles and the meter over an OpenCL of the test's own, which the linker puts
 * in the place of the loader: it computes nothing and compiles nothing, and each of its calls, and of the host's
 * memory, fails in turn. Then nothing of it is left, and there is a text where there is an error. */
#define _XOPEN_SOURCE 700
#include "base/error.h"
#include "base/str.h"
#include "io_testing.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <clattn/measure.h>
#include <clattn/opencl.h>
#include <time.h>

static struct {
    long calls, at;          /* number `at` fails */
    long live;               /* objects that are held */
    long double clock, step; /* seconds of the next question */
    cl_ulong cache;          /* bytes of the device's cache */
    cl_uint devices;         /* of each program; the context's own is the last, where it is one of them */
    bool foreign, unsized;   /* it is none of them; there is no binary */
    cl_uint units, width;
    cl_ulong local; /* bytes of local memory that kernels take */
    cl_int build;   /* what building gives */
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
    return what == CL_MEM_SIZE ? GIVE(size_t, 64) : GIVE(cl_context, (cl_context)&things[CONTEXT]);
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

/* ---- each in its turn ---- */

/* What a call enqueued need not be looked at where a later one fails: not each failure is an error, such as those of
 * the cache on disk and of questions that may go unanswered. `most` failures may be none. */
static void sweep(const char *name, clattn_status (*run)(void), long most) {
    enum { LAST = 3000 };
    long at = 0, unseen = 0;
    for (bool over = false; !over && at < LAST; at++) {
        it.calls = 0, it.at = at, it.live = 0;
        const clattn_status status = run();
        over = it.calls <= at;
        it.at = -1;
        unseen += status == CLATTN_OK && !over;
        cr_expect(over ? status == CLATTN_OK : status == CLATTN_OK || *clattn_last_error(), "%s, call %ld: %s, %s",
                  name, at, clattn_status_name(status), clattn_last_error());
        cr_expect_eq(it.live, 0, "%s, call %ld: %ld objects are left (%s)", name, at, it.live, clattn_last_error());
    }
    cr_expect(at > 1 && at < LAST, "%s: %ld calls", name, at);
    cr_expect_leq(unseen, most, "%s: %ld of %ld failures were no error", name, unseen, at);
}
#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        if (status == CLATTN_OK)                                                                                       \
            status = call;                                                                                             \
    } while (0)

static clattn_status open_own(void) {
    clattn_context *context = NULL;
    const clattn_status status = clattn_context_create("opencl", &(clattn_context_options){.profile = true}, &context);
    clattn_context_destroy(context);
    return status;
}

static clattn_status use_kernel(clattn_context *context) {
    cla_kernel *kernel = NULL;
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "WG", 64);
    const clattn_status status = cla_kernel_create(context, &key, 64, &kernel);
    cla_kernel_destroy(kernel);
    return status;
}

/* Buffers, launches in pieces, a profile, on a queue of the caller's that is out of order. */
static clattn_status use(clattn_context *context) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *a = NULL, *b = NULL, *given = NULL, *wrapped = NULL, *counts = NULL;
    cla_kernel *kernel = NULL, *second = NULL;
    clattn_profile_entry entries[2];
    float host[16] = {0};
    size_t count = 0;
    cl_event event = NULL, before = (cl_event)&things[MADE];
    TRY(clattn_buffer_create(context, 64, &a));
    TRY(cla_buffer_create_from(context, host, 64, &b));
    TRY(clattn_buffer_from_opencl(context, (cl_mem)(void *)&things[MADE], &given));
    TRY(clattn_buffer_upload(a, 0, host, 64));
    TRY(cla_buffer_wrap(context, host, 64, true, &wrapped));
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "WG", 64);
    TRY(cla_kernel_create(context, &key, 64, &kernel));
    TRY(cla_kernel_create(context, &key, 32, &second));
    TRY(cla_queue_begin(context, 1, &before));
    TRY(cla_profile_counts(context, kernel, &counts));
    if (status == CLATTN_OK) {
        const cl_int number = 1;
        const cla_arg args[] = {CLA_ARG_BUFFER(a), CLA_ARG_BUFFER(NULL), CLA_ARG_VALUE(number)};
        cla_kernel_cost(kernel, 1e12, 1e9);
        status = cla_launch(context, kernel, 16, args, 3);
    }
    TRY(cla_copy_bytes(b, 0, a, 0, 64));
    TRY(cla_copy_bytes(b, 0, a, 0, 0));
    TRY(cla_queue_end(context, &event));
    TRY(cla_buffer_bring_back(wrapped, host, 64));
    TRY(clattn_buffer_download(a, 0, host, 64));
    TRY(clattn_context_sync(context));
    TRY(clattn_context_profile(context, entries, 2, &count));
    TRY(clattn_context_save_programs(context));
    if (event)
        it.live--;
    cla_kernel_destroy(second);
    cla_kernel_destroy(kernel);
    clattn_buffer_destroy(wrapped);
    clattn_buffer_destroy(given);
    clattn_buffer_destroy(b);
    clattn_buffer_destroy(a);
    return status;
}

static bool unified; /* arrays are used in place */
static clattn_status run_given(void) {
    clattn_context *context = NULL;
    const clattn_context_options options = {.profile = true, .launch_ms = 1};
    clattn_status status =
        clattn_context_from_opencl((cl_context)&things[CONTEXT], (cl_command_queue)&things[QUEUE], &options, &context);
    if (status == CLATTN_OK && unified)
        context->info.unified_memory = true;
    if (status == CLATTN_OK)
        status = use(context);
    clattn_context_destroy(context);
    return status;
}

static void begin(void) {
    temp_dir_make();
    reset();
    it.queue = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("CLATTN_TUNING_FILE", "off", 1);
}

Test(passed_runtime, failures_of_what_contexts_call, .init = begin, .fini = temp_dir_remove) {
    sweep("own context", open_own, 12);
    sweep("given queue", run_given, 40);
    unified = true;
    sweep("given queue, arrays in place", run_given, 40);
}

Test(passed_runtime, failures_of_what_the_cache_on_disk_calls_leave_it_out, .init = begin, .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    for (it.devices = 1; it.devices <= 2; it.devices++)
        sweep("with programs on disk", run_given, 60);
    it.devices = 2;
    for (int way = 0; way < 2; way++) {
        it.foreign = way == 0;
        it.unsized = way == 1;
        temp_dir_remove();
        temp_dir_make();
        setenv("CLATTN_CACHE_DIR", temp_dir, 1);
        SUCCEEDS(run_given());
        clattn_context *context = NULL;
        SUCCEEDS(clattn_context_create("opencl", NULL, &context));
        SUCCEEDS(use_kernel(context));
        cr_expect_eq(context->restored, 0, "nothing was kept");
        clattn_context_destroy(context);
    }
}

/* ---- what compilers and kernels say ---- */

Test(passed_runtime, the_first_error_of_a_log, .init = begin, .fini = temp_dir_remove) {
    static const struct {
        const char *log, *part;
    } logs[] = {{"a.cl:1: error: one\nb.cl: error: two\n", "does not build on v: a.cl:1: error: one (options"},
                {"warning: one\n x error: two", "on v:  x error: two (options"},
                {"Error(s) while linking: \nno symbol\n", "on v: Error(s) while linking:  no symbol (options"},
                {"error:", "on v: error: (options"},
                {"   \nnothing", "on v:     (options"},
                {"", "on v:  (options"}};
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    it.build = CL_BUILD_PROGRAM_FAILURE;
    for (size_t i = 0; i < sizeof logs / sizeof *logs; i++) {
        it.log = logs[i].log;
        FAILS(use_kernel(context), CLATTN_E_BUILD, logs[i].part);
    }
    it.calls = 0, it.at = 6; /* the memory for the log */
    cr_expect_neq(use_kernel(context), CLATTN_OK);
    it.at = -1, it.build = CL_SUCCESS, it.local = 1 << 16;
    FAILS(use_kernel(context), CLATTN_E_LIMIT, "copy_strided needs 65536 bytes of local memory, v has 32768");
    clattn_context_destroy(context);
    cr_expect_eq(it.live, 0);
}

/* ---- the meter ---- */

static clattn_status peak(void) {
    clattn_context *context = NULL;
    clattn_peak found;
    clattn_status status = clattn_context_create("opencl", NULL, &context);
    TRY(clattn_device_peak(context, &found));
    clattn_context_destroy(context);
    return status;
}

Test(passed_runtime, failures_of_what_the_meter_calls, .init = begin, .fini = temp_dir_remove) {
    sweep("peak", peak, 20);
}

Test(passed_runtime, the_meter_takes_any_device_and_any_clock, .init = begin, .fini = temp_dir_remove) {
    static const struct {
        cl_uint units, width;
        cl_ulong cache;
        long double step;
    } all[] = {{1, 4, 1 << 20, 1e-6L}, {0, 8, (cl_ulong)1 << 28, 1e-9L}, {4, 16, (cl_ulong)1 << 40, 0.01L}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        clattn_context *context = NULL;
        clattn_peak found = {0};
        it.units = all[i].units, it.width = all[i].width, it.cache = all[i].cache, it.step = all[i].step;
        SUCCEEDS(clattn_context_create("opencl", NULL, &context));
        SUCCEEDS(clattn_device_peak(context, &found));
        cr_expect(found.gflops > 0 && found.gbytes > 0 && found.cached_gbytes > 0);
        clattn_meter *meter = NULL;
        SUCCEEDS(clattn_meter_create(context, &meter));
        double gbytes;
        FAILS(clattn_meter_read(meter, ((uint64_t)1 << 32) + 1, &gbytes), CLATTN_E_LIMIT, "are above the largest");
        SUCCEEDS(clattn_meter_read(meter, (uint64_t)1 << 32, &gbytes));
        clattn_meter_destroy(meter);
        clattn_context_destroy(context);
    }
    cr_expect_eq(it.live, 0);
}
