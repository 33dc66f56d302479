/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, buffers, programs, launches, profiles and the meter over an OpenCL of the test's own, which the linker puts
 * in the place of the loader: it computes nothing and compiles nothing, and each of its calls, and of the host's
 * memory, fails in turn. Then nothing of it is left, and there is a text where there is an error. */
#define _XOPEN_SOURCE 700
#include "made_opencl.h"
#include "runtime/launch.h"
#include <clattn/measure.h>
#include <clattn/opencl.h>

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
