/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the runtime that real drivers and files do not reach, over the OpenCL of made_opencl.h. */
#define _XOPEN_SOURCE 700
#include "made_opencl.h"
#include "runtime/disk_cache.h"
#include "runtime/launch.h"
#include <clattn/opencl.h>

/* Of an entry whose notes of what ran are damaged only those before the damage are taken. */
Test(runtime_parts, notes_of_programs_on_disk, .init = begin, .fini = temp_dir_remove) {
    static const struct {
        const char *note;
        size_t count;
    } notes[] = {{"", 0},
                 {"copy_strided 1\n", 1},
                 {"copy_strided", 0},
                 {" 1\n", 0},
                 {"copy_strided x\n", 0},
                 {"a 1\nb x\n", 1},
                 {"a_name_that_is_longer_than_any_name_of_any_kernel_may_be 1\n", 0},
                 {"a 1\nb 1\nc 1\nd 1\ne 1\nf 1\ng 1\nh 1\ni 1\n", CLA_PROGRAM_KERNELS}};
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++) {
        clattn_context *context = NULL;
        for (int turn = 0; turn < 2; turn++) {
            SUCCEEDS(clattn_context_create("opencl", NULL, &context));
            SUCCEEDS(use_kernel(context));
            cr_assert_not_null(context->programs->disk_key);
            if (turn == 0)
                cr_assert(cla_disk_store(temp_dir, context->programs->disk_key, notes[i].note, "binary", 6));
            else
                cr_expect(context->restored == 1 && context->programs->kernel_count == notes[i].count,
                          "%s: %zu kernels", notes[i].note, context->programs->kernel_count);
            clattn_context_destroy(context);
        }
    }
    cr_expect_eq(it.live, 0);
}

/* Kernels that were given back are taken for those of the same program, name and group alone. */
Test(runtime_parts, idle_kernels, .init = begin, .fini = temp_dir_remove) {
    clattn_context *context = NULL;
    cla_kernel *kernels[4] = {0};
    const size_t groups[4] = {64, 32, 64, 64};
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    for (int turn = 0; turn < 2; turn++) {
        const long before = it.live;
        for (int i = 0; i < 4; i++) {
            cla_key key = cla_key_make("copy.cl", i == 2 ? "fill_strided" : "copy_strided");
            cla_key_define(&key, "REAL", i == 3 ? 64 : 32);
            SUCCEEDS(cla_kernel_create(context, &key, groups[i], &kernels[i]));
        }
        cr_expect_eq(it.live - before, turn == 0 ? 4 + 2 : 0, "kernels and programs");
        for (int i = 0; i < 4; i++)
            cla_kernel_destroy(kernels[i]);
    }
    clattn_context_destroy(context);
    cr_expect_eq(it.live, 0);
}

Test(runtime_parts, keys_name_the_least_sub_group, .init = begin, .fini = temp_dir_remove) {
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define_hint(&key, &(clattn_device_info){.least_subgroup = 8});
    cr_expect(strstr(key.options, " -DHINT=__attribute__((intel_reqd_sub_group_size(8)))"));
}

/* On `cpu`, and of no bytes. */
Test(runtime_parts, buffers_of_the_host_and_of_nothing, .init = begin, .fini = temp_dir_remove) {
    static const char *const devices[] = {"cpu", "opencl"};
    for (int d = 0; d < 2; d++) {
        clattn_context *context = NULL;
        clattn_buffer *a = NULL, *b = NULL, *none = NULL;
        const char text[4] = "abc";
        char got[4] = "xyz";
        SUCCEEDS(clattn_context_create(devices[d], NULL, &context));
        SUCCEEDS(cla_buffer_create_from(context, text, sizeof text, &a));
        SUCCEEDS(cla_buffer_create_from(context, NULL, sizeof text, &b));
        SUCCEEDS(cla_buffer_create_from(context, text, 0, &none));
        SUCCEEDS(cla_copy_bytes(b, 0, a, 0, 0));
        SUCCEEDS(cla_copy_bytes(b, 0, a, 0, sizeof text));
        SUCCEEDS(cla_buffer_bring_back(none, got, 0));
        cr_expect_str_eq(got, "xyz");
        SUCCEEDS(cla_buffer_bring_back(b, got, sizeof got));
        if (d == 0) {
            cr_expect_str_eq(got, "abc");
            SUCCEEDS(clattn_buffer_download(a, 0, cla_buffer_host(a), sizeof text)); /* where it lies already */
            cr_expect_str_eq(cla_buffer_host(a), "abc");
        }
        clattn_buffer_destroy(none);
        clattn_buffer_destroy(b);
        clattn_buffer_destroy(a);
        clattn_context_destroy(context);
    }
    cr_expect_eq(it.live, 0);
}

/* An array is copied where memory is not shared, and used in place where it is; none above the largest buffer. */
Test(runtime_parts, arrays_of_the_caller, .init = begin, .fini = temp_dir_remove) {
    clattn_context *context = NULL;
    float host[4] = {0};
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    for (int way = 0; way < 4; way++) {
        clattn_buffer *buffer = NULL;
        context->info.unified_memory = way == 1 || way == 3;
        context->info.device_class = way >= 2 ? CLATTN_DEVICE_CPU : CLATTN_DEVICE_GPU;
        SUCCEEDS(cla_buffer_wrap(context, host, sizeof host, way % 2 == 0, &buffer));
        cr_expect_eq(buffer->in_place, way > 0, "way %d", way);
        clattn_buffer_destroy(buffer);
    }
    clattn_buffer *buffer = NULL;
    context->info.max_alloc_bytes = 8;
    FAILS(cla_buffer_wrap(context, host, sizeof host, true, &buffer), CLATTN_E_LIMIT,
          "buffer: 16 bytes are above the largest allocation of v, 8 bytes");
    cr_expect_null(buffer);
    clattn_context_destroy(context);
    cr_expect_eq(it.live, 0);
}

/* A queue of a device that is not there, and options of a newer header. */
Test(runtime_parts, queues_that_are_refused, .init = begin, .fini = temp_dir_remove) {
    clattn_context *context = NULL;
    clattn_context_options newer = {.profile = true};
    cl_context cl = (cl_context)&things[CONTEXT];
    cl_command_queue queue = (cl_command_queue)&things[QUEUE];
    newer.reserved[0] = 1;
    FAILS(clattn_context_from_opencl(cl, queue, &newer, &context), CLATTN_E_UNSUPPORTED, "reserved");
    it.unavailable = true;
    FAILS(clattn_context_from_opencl(cl, queue, NULL, &context), CLATTN_E_UNSUPPORTED, "is not available");
    it.unavailable = false;
    for (int i = 0; i < 2; i++) {
        setenv(i ? "CLATTN_SELF_TEST" : "CLATTN_LAUNCH_MS", "perhaps", 1);
        FAILS(clattn_context_from_opencl(cl, queue, NULL, &context), CLATTN_E_ARGUMENT,
              i ? "CLATTN_SELF_TEST is" : "CLATTN_LAUNCH_MS is");
        setenv(i ? "CLATTN_SELF_TEST" : "CLATTN_LAUNCH_MS", "", 1);
    }
    SUCCEEDS(clattn_context_from_opencl(cl, queue, NULL, &context));
    cr_expect_float_eq(context->launch_seconds, 0.5, 1e-12, "the bound of GPUs");
    clattn_context_destroy(context);
    cr_expect_eq(it.live, 0);
}

/* Homes that are no folders have no cache. */
Test(runtime_parts, homes_of_the_cache, .init = begin, .fini = temp_dir_remove) {
    temp_write("file", "x", 1);
    const char *const homes[] = {"", "relative", temp_path("file"), "/nowhere/at/all"};
    unsetenv("CLATTN_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++) {
        clattn_context *context = NULL;
        setenv("HOME", homes[i], 1);
        SUCCEEDS(clattn_context_create("cpu", NULL, &context));
        cr_expect_null(context->cache_folder, "%s", homes[i]);
        clattn_context_destroy(context);
    }
}
