/* SPDX-License-Identifier: Apache-2.0 */
/* What contexts, records, entries on disk and programs refuse, beside the tests of each. */
#include "io_testing.h"
#include "runtime/buffer.h"
#include "runtime/disk_cache.h"
#include "runtime/launch.h"
#include "runtime/program.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <clattn/opencl.h>
#include <clattn/tune.h>
#include <sys/stat.h>

Test(errors_runtime, null_where_something_is_needed) {
    clattn_context *cpu;
    clattn_buffer *buffer = NULL;
    clattn_tuned entry = {.value = "splits=4", .ms = 1, .default_ms = 2};
    size_t count = 0;
    int memory = 0;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    FAILS(clattn_tuning_set(cpu, NULL), CLATTN_E_ARGUMENT, "tuning_set: entry is NULL");
    FAILS(clattn_tuning_set(cpu, &entry), CLATTN_E_ARGUMENT, "cannot stand in a line of the record");
    FAILS(clattn_tuning_save(cpu, ""), CLATTN_E_ARGUMENT, "tuning_save: there is no file to write");
    cr_expect_not(clattn_tuning_entry(NULL, 0, &entry) || clattn_tuning_entry(cpu, 0, NULL) ||
                  clattn_tuning_entry(cpu, 0, &entry));
    cr_expect_str_eq(clattn_tuning_file(NULL), "");
    cr_expect_str_eq(clattn_tuning_skipped(NULL), "");
    FAILS(clattn_context_profile(cpu, NULL, 0, NULL), CLATTN_E_ARGUMENT,
          "context_profile: context, count or entries is NULL");
    FAILS(clattn_context_profile(cpu, NULL, 1, &count), CLATTN_E_ARGUMENT,
          "context_profile: context, count or entries is NULL");
    FAILS(clattn_context_profile(cpu, NULL, 0, &count), CLATTN_E_UNSUPPORTED, "the cpu context has no kernels");
    clattn_context_profile_reset(NULL);
    clattn_context_profile_reset(cpu);
    FAILS(clattn_buffer_from_opencl(NULL, (cl_mem)(void *)&memory, &buffer), CLATTN_E_ARGUMENT,
          "buffer_from_opencl: context is NULL");
    FAILS(clattn_buffer_from_opencl(cpu, NULL, &buffer), CLATTN_E_ARGUMENT, "buffer_from_opencl: memory is NULL");
    cr_expect_null(buffer);
    cr_expect_null(cla_buffer_host(NULL));
    clattn_context_destroy(cpu);
}

/* What is no file of the cache's own, or larger than all of it may be, is none and stays. */
Test(errors_runtime, entries_that_are_none, .init = temp_dir_make, .fini = temp_dir_remove) {
    char path[TEMP_PATH];
    cla_disk_entry e;
    cr_assert(cla_disk_store(temp_dir, "large", "note", "bytes", 5) &&
              cla_disk_path(temp_dir, "large", path, sizeof path));
    cr_assert_eq(truncate(path, (off_t)CLA_DISK_LIMIT + 1), 0);
    cr_expect_not(cla_disk_load(temp_dir, "large", &e));
    cr_assert(cla_disk_path(temp_dir, "folder", path, sizeof path));
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_expect_not(cla_disk_load(temp_dir, "folder", &e));
    cr_expect_not(cla_disk_store(temp_dir, "folder", "note", "bytes", 5), "a folder is in its place");
    temp_write("0123456789abcdef0123456789abcdef.clproX", "x", 1);
    cla_disk_trim(temp_dir, 0);
    cr_expect_eq(access(temp_path("0123456789abcdef0123456789abcdef.clproX"), F_OK), 0);
    cr_expect_not(cla_disk_path(temp_dir, "key", path, 20));
}

Test(errors_runtime, keys_of_programs_that_cannot_be) {
    clattn_context *context;
    cla_kernel *kernel = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    for (int i = 0; i < 1000; i++)
        cla_key_define(&key, "A_NAME_THAT_TAKES_ROOM", i);
    FAILS(cla_kernel_create(context, &key, 1, &kernel), CLATTN_E_BUILD, "copy.cl: its options take more than");
    key = cla_key_make("none.cl", "none");
    FAILS(cla_kernel_create(context, &key, 1, &kernel), CLATTN_E_BUILD, "none.cl: is not in kernels/CMakeLists.txt");
    cr_expect_null(kernel);
    cla_kernel_destroy(NULL);
    clattn_context_destroy(context);
}

/* ---- buffers on devices of other kinds, as a context is told ---- */

static const float numbers[4] = {1, 2, 3, 4};

/* Where memory is not shared a host array is copied there and back; where it is, it is used in place. */
static void there_and_back(clattn_context *context, bool read) {
    float array[4], back[4] = {0};
    clattn_buffer *buffer, *other;
    memcpy(array, numbers, sizeof array);
    SUCCEEDS(cla_buffer_wrap(context, array, sizeof array, read, &buffer));
    SUCCEEDS(cla_buffer_create_from(context, numbers, sizeof numbers, &other));
    if (!read)
        SUCCEEDS(cla_copy_bytes(buffer, 0, other, 0, sizeof numbers));
    SUCCEEDS(cla_copy_bytes(buffer, 0, other, 8, 4));
    SUCCEEDS(cla_copy_bytes(buffer, 0, other, 0, 0));
    SUCCEEDS(cla_buffer_bring_back(buffer, array, sizeof array));
    SUCCEEDS(cla_buffer_bring_back(buffer, array, 0));
    SUCCEEDS(clattn_context_sync(context));
    cr_expect(array[0] == 3 && array[1] == 2 && array[3] == 4);
    SUCCEEDS(clattn_buffer_download(buffer, 4, back, 8));
    cr_expect(back[0] == 2 && back[1] == 3);
    SUCCEEDS(clattn_buffer_download(buffer, 0, back, 0));
    clattn_buffer_destroy(buffer);
    clattn_buffer_destroy(other);
    SUCCEEDS(cla_buffer_create_from(context, NULL, 4, &other)); /* undefined contents */
    clattn_buffer_destroy(other);
}

Test(errors_runtime, host_arrays_on_devices_of_each_kind) {
    clattn_context *context;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    there_and_back(context, true);
    there_and_back(context, false);
    clattn_context_destroy(context);
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    for (int kind = 0; kind < 6; kind++) {
        context->info.device_class = kind < 2 ? CLATTN_DEVICE_CPU : CLATTN_DEVICE_OTHER;
        context->info.unified_memory = kind >= 4;
        there_and_back(context, kind & 1);
    }
    clattn_context_destroy(context);
}

/* ---- the environment ---- */

Test(errors_runtime, what_the_environment_leaves_open) {
    clattn_context *context;
    cr_assert_eq(unsetenv("CLATTN_TUNING_FILE"), 0);
    cr_assert_eq(setenv("CLATTN_CACHE_DIR", "off", 1), 0);
    cr_assert_eq(setenv("CLATTN_LAUNCH_MS", "", 1), 0);
    SUCCEEDS(clattn_context_create(NULL, NULL, &context));
    cr_expect_str_eq(clattn_tuning_file(context), "", "no folder, no record");
    cr_expect(context->launch_seconds == 0 || context->info.device_class == CLATTN_DEVICE_GPU);
    clattn_context_destroy(context);
    cr_assert_eq(setenv("CLATTN_CACHE_DIR", "/nonexistent", 1), 0);
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    cr_expect_str_eq(clattn_tuning_file(context), "/nonexistent/tuning.txt");
    clattn_context_destroy(context);
}
