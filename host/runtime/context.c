/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts: one device, one queue, one program cache. The only reader of the environment. */
#define _POSIX_C_SOURCE 200809L /* stat */
#include "base/mem.h"
#include "base/str.h"
#include "runtime/program.h"
#include "runtime/state.h"
#include <clattn/opencl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { GPU_LAUNCH_MS = 500 };

static const char *environment_device(void) { return getenv("CLATTN_DEVICE"); }

static clattn_status join(const char *folder, const char *name, char **out) {
    clattn_status status = CLATTN_OK;
    cla_str text = {0};
    cla_str_append(&text, "%s%s", folder, name);
    CLA_TRY(cla_str_status(&text));
    *out = text.text;
    text = (cla_str){0};
done:
    cla_str_free(&text);
    return status;
}

/* Accounts of services have homes that are not there, and shall not be. */
static bool is_folder(const char *path) {
    struct stat info;
    return path && *path == '/' && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* The folder of the binary cache, owned; NULL: none is kept. */
static clattn_status environment_cache(char **folder) {
    const char *own = getenv("CLATTN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *folder = NULL;
    if (own)
        return *own == '\0' || strcmp(own, "off") == 0 ? CLATTN_OK : join(own, "", folder);
    if (xdg && *xdg == '/')
        return join(xdg, "/clattn", folder);
    return is_folder(home) ? join(home, "/.cache/clattn", folder) : CLATTN_OK;
}

/* The tuner's record, owned; NULL: none. */
static clattn_status environment_tuning(const char *cache_folder, char **file) {
    const char *own = getenv("CLATTN_TUNING_FILE");
    *file = NULL;
    if (own)
        return *own == '\0' || strcmp(own, "off") == 0 ? CLATTN_OK : join(own, "", file);
    return cache_folder ? join(cache_folder, "/tuning.txt", file) : CLATTN_OK;
}

/* The bound of a launch in seconds; the device is known. */
static clattn_status take_launch_bound(clattn_context *c, const clattn_context_options *options) {
    clattn_status status = CLATTN_OK;
    const char *text = getenv("CLATTN_LAUNCH_MS");
    double ms = options ? options->launch_ms : 0;
    char *end = NULL;
    CLA_CHECK(!isnan(ms), CLATTN_E_ARGUMENT, "context: launch_ms is NaN");
    if (!c->queue)
        goto done;
    if (ms == 0 && text && *text) {
        ms = strtod(text, &end);
        CLA_CHECK(end != text && *end == '\0' && !isnan(ms), CLATTN_E_ARGUMENT,
                  "CLATTN_LAUNCH_MS is \"%.60s\"; a number of milliseconds is needed, or -1 for no bound", text);
    }
    if (ms == 0)
        ms = c->info.device_class == CLATTN_DEVICE_GPU ? GPU_LAUNCH_MS : 0;
    c->launch_seconds = ms > 0 && isfinite(ms) ? 1e-3 * ms : 0;
done:
    return status;
}

/* Whether what is used is tested first; the device is known. CPUs' compilers take seconds for kernels, and their
 * drivers are what this library is tested with. */
static clattn_status take_self_test(clattn_context *c, const clattn_context_options *options) {
    clattn_status status = CLATTN_OK;
    const char *text = getenv("CLATTN_SELF_TEST");
    const int64_t asked = options ? options->self_test : 0;
    if (!c->queue)
        goto done;
    c->self_tests = asked > 0 || (asked == 0 && c->info.device_class != CLATTN_DEVICE_CPU);
    if (asked == 0 && text && *text) {
        c->self_tests = strcmp(text, "on") == 0;
        CLA_CHECK(c->self_tests || strcmp(text, "off") == 0, CLATTN_E_ARGUMENT,
                  "CLATTN_SELF_TEST is \"%.60s\"; it is on or off", text);
    }
done:
    return status;
}

static clattn_status new_context(clattn_context **out) {
    clattn_status status = CLATTN_OK;
    clattn_context *c = NULL;
    CLA_TRY(cla_alloc(1, sizeof *c, "context", &c));
    pthread_mutex_init(&c->lock, NULL);
    *out = c;
    CLA_TRY(environment_cache(&c->cache_folder));
    CLA_TRY(environment_tuning(c->cache_folder, &c->tuning_file));
done:
    return status;
}

/* Finds the device and makes its context and queue; nothing on `cpu`. */
static clattn_status open_device(clattn_context *c, const char *device, bool profile) {
    clattn_status status = CLATTN_OK;
    bool is_cpu;
    cl_int code = CL_SUCCESS;
    cla_opening_lock();
    CLA_TRY(cla_device_find(device, &c->device, &c->info, &is_cpu));
    if (is_cpu)
        goto done;
    c->cl = clCreateContext(NULL, 1, &c->device, NULL, NULL, &code);
    CLA_TRY_CL(code, "clCreateContext");
    c->queue = clCreateCommandQueue(c->cl, c->device, profile ? CL_QUEUE_PROFILING_ENABLE : 0, &code);
    CLA_TRY_CL(code, "clCreateCommandQueue");
done:
    cla_opening_unlock();
    return status;
}

/* Whose name is wrong is said: nobody has passed it. */
static clattn_status open_default(clattn_context *c, bool profile) {
    const char *device = environment_device();
    char text[1000];
    const clattn_status status = open_device(c, device, profile);
    if (status == CLATTN_OK || !device || *device == '\0')
        return status;
    snprintf(text, sizeof text, "%s", clattn_last_error());
    return cla_error(status, "CLATTN_DEVICE: %s", text);
}

clattn_status clattn_context_create(const char *device, const clattn_context_options *options,
                                    clattn_context **context) {
    clattn_status status = CLATTN_OK;
    clattn_context *c = NULL;
    const bool profile = options && options->profile;
    CLA_CHECK(context, CLATTN_E_ARGUMENT, "context_create: context is NULL");
    *context = NULL;
    if (options)
        CLA_TRY(CLA_RESERVED(clattn_context_options, options));
    CLA_TRY(new_context(&c));
    CLA_TRY(device && *device ? open_device(c, device, profile) : open_default(c, profile));
    CLA_TRY(take_launch_bound(c, options));
    CLA_TRY(take_self_test(c, options));
    if (c->queue && profile)
        CLA_TRY(cla_profile_create(c));
    *context = c;
    c = NULL;
done:
    clattn_context_destroy(c);
    return status;
}

clattn_status clattn_context_from_opencl(cl_context context, cl_command_queue queue,
                                         const clattn_context_options *options, clattn_context **out) {
    clattn_status status = CLATTN_OK;
    clattn_context *c = NULL;
    cl_command_queue_properties properties = 0;
    cl_context queue_context = NULL;
    cl_platform_id platform = NULL;
    CLA_CHECK(out, CLATTN_E_ARGUMENT, "context_from_opencl: out is NULL");
    *out = NULL;
    CLA_CHECK(context && queue, CLATTN_E_ARGUMENT, "context_from_opencl: %s is NULL", context ? "queue" : "context");
    if (options)
        CLA_TRY(CLA_RESERVED(clattn_context_options, options));
    CLA_TRY(new_context(&c));
    CLA_TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof c->device, &c->device, NULL), "queue's device");
    CLA_TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof queue_context, &queue_context, NULL),
               "queue's context");
    CLA_CHECK(queue_context == context, CLATTN_E_ARGUMENT,
              "context_from_opencl: the queue belongs to another cl_context than the one given");
    CLA_TRY_CL(clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
               "queue's properties");
    CLA_TRY_CL(clGetDeviceInfo(c->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL), "device's platform");
    CLA_CHECK(cla_device_describe(platform, c->device, &c->info) && c->info.usable, CLATTN_E_UNSUPPORTED,
              "context_from_opencl: the queue's device (%s) is not available, or has no compiler", c->info.name);
    cla_opening_lock();
    status = cla_device_spec(c->device, &c->info);
    cla_opening_unlock();
    CLA_TRY(status);
    c->out_of_order = (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE) != 0;
    CLA_CHECK(!(options && options->profile) || (properties & CL_QUEUE_PROFILING_ENABLE), CLATTN_E_UNSUPPORTED,
              "context_from_opencl: profiling needs a queue made with CL_QUEUE_PROFILING_ENABLE, and this one is not");
    CLA_TRY_CL(clRetainContext(context), "clRetainContext");
    c->cl = context;
    CLA_TRY_CL(clRetainCommandQueue(queue), "clRetainCommandQueue");
    c->queue = queue;
    CLA_TRY(take_launch_bound(c, options));
    CLA_TRY(take_self_test(c, options));
    if (options && options->profile)
        CLA_TRY(cla_profile_create(c));
    *out = c;
    c = NULL;
done:
    clattn_context_destroy(c);
    return status;
}

void clattn_context_destroy(clattn_context *context) {
    if (!context)
        return;
    cla_context_settle(context);
    if (context->kept)
        context->kept->destroy(context->kept);
    cla_profile_destroy(context);
    cla_programs_destroy(context);
    cla_opening_lock();
    if (context->queue)
        clReleaseCommandQueue(context->queue);
    if (context->cl)
        clReleaseContext(context->cl);
    cla_opening_unlock();
    pthread_mutex_destroy(&context->lock);
    cla_free(context->cache_folder);
    cla_tuning_destroy(context);
    cla_verdicts_destroy(context);
    cla_free(context);
}

clattn_status clattn_context_info(const clattn_context *context, clattn_device_info *info) {
    if (!context || !info)
        return cla_error(CLATTN_E_ARGUMENT, "context_info: %s is NULL", context ? "info" : "context");
    *info = context->info;
    return CLATTN_OK;
}

clattn_status clattn_context_sync(clattn_context *context) {
    if (!context)
        return cla_error(CLATTN_E_ARGUMENT, "context_sync: context is NULL");
    if (!context->queue)
        return CLATTN_OK;
    const clattn_status status = cla_waited(context, clFinish(context->queue), "clFinish");
    cla_programs_waited(context);
    return status == CLATTN_OK ? cla_context_usable(context) : status;
}

clattn_status cla_context_keep(clattn_context *context, clattn_status (*make)(cla_kept **), cla_kept **kept) {
    pthread_mutex_lock(&context->lock);
    const clattn_status status = context->kept ? CLATTN_OK : make(&context->kept);
    *kept = context->kept;
    pthread_mutex_unlock(&context->lock);
    return status;
}

void clattn_context_trim(clattn_context *context) {
    if (!context)
        return;
    pthread_mutex_lock(&context->lock);
    cla_kept *kept = context->kept;
    pthread_mutex_unlock(&context->lock);
    if (kept)
        kept->trim(kept);
}

void clattn_context_programs(clattn_context *context, size_t *compiled, size_t *restored) {
    if (compiled)
        *compiled = context ? cla_program_builds(context) : 0;
    if (restored)
        *restored = context ? cla_program_restores(context) : 0;
}

const char *clattn_context_cache_folder(const clattn_context *context) {
    return context && context->cache_folder ? context->cache_folder : "";
}

void cla_count_bytes(clattn_context *context, int64_t bytes) {
    const uint64_t now = atomic_fetch_add(&context->current_bytes, (uint64_t)bytes) + (uint64_t)bytes;
    uint64_t peak = atomic_load(&context->peak_bytes);
    while (bytes > 0 && now > peak && !atomic_compare_exchange_weak(&context->peak_bytes, &peak, now))
        continue;
}

void clattn_context_memory(const clattn_context *context, uint64_t *current_bytes, uint64_t *peak_bytes) {
    if (current_bytes)
        *current_bytes = context ? atomic_load(&context->current_bytes) : 0;
    if (peak_bytes)
        *peak_bytes = context ? atomic_load(&context->peak_bytes) : 0;
}

void clattn_context_memory_reset(clattn_context *context) {
    if (context)
        atomic_store(&context->peak_bytes, atomic_load(&context->current_bytes));
}
