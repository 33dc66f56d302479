/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, contexts, buffers, memory counters, kernels from keys, threads. */
#define _XOPEN_SOURCE 700 /* setenv */
#include "args.h"
#include "oracle.h"
#include "runtime/cl_error.h"
#include "runtime/launch.h"
#include "runtime/program.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static clattn_context *opened(const char *device) {
    clattn_context *context = NULL;
    if (clattn_context_create(device, NULL, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert_not_null(context, "%s", clattn_last_error());
    return context;
}

static void expect_device(const char *spec, bool is_opencl) {
    clattn_context *context = opened(spec);
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(context, &info));
    cr_expect_eq(info.is_opencl, is_opencl, "%s opens %s", spec ? spec : "NULL", info.spec);
    clattn_context_destroy(context);
}

/* ---- devices ---- */

Test(devices, the_last_of_the_list_is_the_cpu_and_each_usable_one_opens) {
    clattn_device_info list[32], first;
    size_t count = 0, again = 0;
    SUCCEEDS(clattn_devices(list, 32, &count));
    cr_assert_geq(count, 1);
    cr_assert_leq(count, 32);
    const clattn_device_info *cpu = &list[count - 1];
    cr_expect_str_eq(cpu->spec, "cpu");
    cr_expect(!cpu->is_opencl && cpu->usable && cpu->has_f64);
    cr_expect_gt(cpu->compute_units, 0);
    cr_expect_gt(cpu->global_bytes, 0);
    for (size_t i = 0; i < count; i++) {
        clattn_context *context = NULL;
        clattn_device_info info;
        if (!list[i].usable)
            continue;
        SUCCEEDS(clattn_context_create(list[i].spec, NULL, &context));
        SUCCEEDS(clattn_context_info(context, &info));
        cr_expect_str_eq(info.spec, list[i].spec);
        cr_expect_str_eq(info.name, list[i].name);
        cr_expect(!info.is_opencl || (info.max_work_group > 0 && info.local_bytes > 0 && info.max_alloc_bytes > 0));
        clattn_context_destroy(context);
    }
    SUCCEEDS(clattn_devices(&first, 1, &again));
    cr_expect_eq(again, count, "the count does not depend on the room");
    SUCCEEDS(clattn_devices(NULL, 0, &again));
    cr_expect_eq(again, count);
}

Test(devices, without_a_driver_there_is_the_cpu) {
    clattn_device_info list[4];
    clattn_context *context = (clattn_context *)list;
    size_t count = 0;
    setenv("OCL_ICD_VENDORS", "/nonexistent/", 1);
    unsetenv("CLATTN_DEVICE");
    SUCCEEDS(clattn_devices(list, 4, &count));
    cr_assert_eq(count, 1);
    FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_NO_DEVICE,
          "device \"opencl\": there is no OpenCL driver; install one");
    cr_expect_null(context);
    expect_device(NULL, false);
}

Test(devices, a_text_that_is_no_device_is_refused) {
    static const char *const bad[] = {"gpu", "CPU", "cuda", "opencl0", "cpu:0", " cpu", "0:0"};
    clattn_context *context = (clattn_context *)bad;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(clattn_context_create(bad[i], NULL, &context), CLATTN_E_ARGUMENT, "not one of opencl, opencl:gpu");
        cr_expect(strstr(clattn_last_error(), bad[i]), "%s", clattn_last_error());
        cr_expect_null(context);
    }
    FAILS(clattn_context_create("cpu", NULL, NULL), CLATTN_E_ARGUMENT, "context is NULL");
}

Test(devices, a_device_that_is_not_there_is_told_from_those_that_are) {
    static const char *const absent[] = {"opencl:99:0", "opencl:0:99", "opencl:no such platform",
                                         "opencl::no such device", "opencl:-1:0"};
    clattn_context *context = NULL;
    clattn_context_destroy(opened("opencl"));
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++) {
        FAILS(clattn_context_create(absent[i], NULL, &context), CLATTN_E_NO_DEVICE, "none fits; there are opencl:0:0");
        cr_expect_null(context);
    }
}

/* The name in other letters. */
static void shout(char *to, const char *from, size_t size) {
    size_t i = 0;
    for (; from[i] && i + 1 < size; i++)
        to[i] = from[i] >= 'a' && from[i] <= 'z' ? (char)(from[i] - 32) : from[i];
    to[i] = '\0';
}

Test(devices, numbers_and_parts_of_names_choose) {
    clattn_context *context = opened("opencl");
    clattn_device_info info;
    char spec[200], part[9];
    SUCCEEDS(clattn_context_info(context, &info));
    clattn_context_destroy(context);
    expect_device(info.spec, true);
    snprintf(spec, sizeof spec, "opencl:%.8s", info.platform);
    expect_device(spec, true);
    shout(part, info.name, sizeof part);
    snprintf(spec, sizeof spec, "opencl::%s", part);
    expect_device(spec, true);
    expect_device(info.device_class == CLATTN_DEVICE_GPU ? "opencl:gpu" : "opencl:cpu", true);
}

Test(devices, the_environment_says_what_nobody_else_does) {
    clattn_context *context = NULL;
    setenv("CLATTN_DEVICE", "cpu", 1);
    expect_device(NULL, false);
    expect_device("", false);
    setenv("CLATTN_DEVICE", "nonsense", 1);
    FAILS(clattn_context_create(NULL, NULL, &context), CLATTN_E_ARGUMENT, "device \"nonsense\"");
    expect_device("cpu", false);
    setenv("CLATTN_DEVICE", "", 1);
    clattn_context_destroy(opened("opencl"));
    expect_device(NULL, true);
    unsetenv("CLATTN_DEVICE");
    expect_device(NULL, true);
}

Test(devices, missing_arguments) {
    clattn_context *context = opened("cpu");
    clattn_device_info info;
    FAILS(clattn_devices(NULL, 3, NULL), CLATTN_E_ARGUMENT, "devices: count, or devices, is NULL");
    FAILS(clattn_context_info(NULL, &info), CLATTN_E_ARGUMENT, "context_info: context is NULL");
    FAILS(clattn_context_info(context, NULL), CLATTN_E_ARGUMENT, "context_info: info is NULL");
    FAILS(clattn_context_sync(NULL), CLATTN_E_ARGUMENT, "context_sync: context is NULL");
    SUCCEEDS(clattn_context_sync(context));
    clattn_context_destroy(context);
    clattn_context_destroy(NULL);
}

/* ---- buffers ---- */

static void on_each_device(void (*check)(clattn_context *)) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    check(context);
    clattn_context_destroy(context);
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        return;
    check(context);
    clattn_context_destroy(context);
}

static void ranges(clattn_context *context) {
    clattn_buffer *buffer = NULL;
    unsigned char in[100], out[100];
    for (int i = 0; i < 100; i++)
        in[i] = (unsigned char)(i * 7);
    SUCCEEDS(clattn_buffer_create(context, 100, &buffer));
    cr_expect_eq(clattn_buffer_bytes(buffer), 100);
    cr_expect_eq(clattn_buffer_context(buffer), context);
    SUCCEEDS(clattn_buffer_upload(buffer, 0, in, 100));
    SUCCEEDS(clattn_buffer_upload(buffer, 30, in, 11));
    memcpy(in + 30, (unsigned char[]){0, 7, 14, 21, 28, 35, 42, 49, 56, 63, 70}, 11);
    SUCCEEDS(clattn_buffer_download(buffer, 0, out, 100));
    cr_expect_arr_eq(out, in, 100);
    memset(out, 1, 100);
    SUCCEEDS(clattn_buffer_download(buffer, 97, out + 5, 3));
    cr_expect_arr_eq(out + 5, in + 97, 3);
    cr_expect(out[4] == 1 && out[8] == 1, "wrote beside the range");
    SUCCEEDS(clattn_buffer_upload(buffer, 100, in, 0));
    SUCCEEDS(clattn_buffer_upload(buffer, 0, NULL, 0));
    FAILS(clattn_buffer_upload(buffer, 90, in, 11), CLATTN_E_SHAPE,
          "buffer_upload: 11 bytes at 90 do not fit in a buffer of 100 bytes");
    FAILS(clattn_buffer_download(buffer, 101, out, 0), CLATTN_E_SHAPE, "buffer_download: 0 bytes at 101");
    FAILS(clattn_buffer_download(buffer, SIZE_MAX, out, 2), CLATTN_E_SHAPE, "do not fit in a buffer of 100");
    FAILS(clattn_buffer_upload(buffer, 0, NULL, 1), CLATTN_E_ARGUMENT, "buffer_upload: data is NULL");
    FAILS(clattn_buffer_download(NULL, 0, out, 1), CLATTN_E_ARGUMENT, "buffer_download: buffer is NULL");
    clattn_buffer_destroy(buffer);
}
Test(buffers, ranges_go_in_and_out_and_do_not_leave_the_buffer) { on_each_device(ranges); }

static void empty(clattn_context *context) {
    clattn_buffer *buffer = NULL;
    unsigned char x = 9;
    SUCCEEDS(clattn_buffer_create(context, 0, &buffer));
    cr_expect_eq(clattn_buffer_bytes(buffer), 0);
    SUCCEEDS(clattn_buffer_upload(buffer, 0, &x, 0));
    SUCCEEDS(clattn_buffer_download(buffer, 0, &x, 0));
    FAILS(clattn_buffer_upload(buffer, 0, &x, 1), CLATTN_E_SHAPE, "1 bytes at 0 do not fit in a buffer of 0 bytes");
    clattn_buffer_destroy(buffer);
    clattn_buffer_destroy(NULL);
    cr_expect_eq(clattn_buffer_bytes(NULL), 0);
    cr_expect_null(clattn_buffer_context(NULL));
}
Test(buffers, a_buffer_may_be_empty) { on_each_device(empty); }

static void too_large(clattn_context *context) {
    clattn_buffer *buffer = (clattn_buffer *)&context;
    clattn_device_info info;
    uint64_t current, peak;
    SUCCEEDS(clattn_context_info(context, &info));
    if (info.is_opencl) {
        char numbers[100];
        snprintf(numbers, sizeof numbers, "buffer: %llu bytes are above the largest allocation",
                 (unsigned long long)info.max_alloc_bytes + 1);
        FAILS(clattn_buffer_create(context, (size_t)info.max_alloc_bytes + 1, &buffer), CLATTN_E_LIMIT, numbers);
    } else {
        FAILS(clattn_buffer_create(context, SIZE_MAX / 2, &buffer), CLATTN_E_MEMORY, "buffer: out of memory");
    }
    cr_expect_null(buffer);
    clattn_context_memory(context, &current, &peak);
    cr_expect(current == 0 && peak == 0, "a failure is counted");
    FAILS(clattn_buffer_create(context, 8, NULL), CLATTN_E_ARGUMENT, "buffer is NULL");
    FAILS(clattn_buffer_create(NULL, 8, &buffer), CLATTN_E_ARGUMENT, "context is NULL");
}
Test(buffers, what_is_too_large_is_refused_with_both_numbers) { on_each_device(too_large); }

static void counters(clattn_context *context) {
    clattn_buffer *a = NULL, *b = NULL;
    uint64_t current = 7, peak = 7;
    clattn_context_memory(context, &current, &peak);
    cr_expect(current == 0 && peak == 0);
    SUCCEEDS(clattn_buffer_create(context, 1000, &a));
    SUCCEEDS(clattn_buffer_create(context, 24, &b));
    clattn_buffer_destroy(a);
    clattn_context_memory(context, &current, &peak);
    cr_expect(current == 24 && peak == 1024, "%d %d", (int)current, (int)peak);
    clattn_context_memory_reset(context);
    clattn_context_memory(context, &current, &peak);
    cr_expect(current == 24 && peak == 24);
    clattn_buffer_destroy(b);
    clattn_context_memory(context, &current, NULL);
    clattn_context_memory(context, NULL, &peak);
    cr_expect(current == 0 && peak == 24);
    clattn_context_memory(NULL, &current, &peak);
    cr_expect(current == 0 && peak == 0);
    clattn_context_memory_reset(NULL);
}
Test(buffers, the_context_counts_bytes_now_and_at_most) { on_each_device(counters); }

/* ---- OpenCL's codes ---- */

Test(cl_error, each_code_has_a_status_and_a_name) {
    static const struct {
        cl_int code;
        clattn_status status;
        const char *part;
    } cases[] = {
        {CL_INVALID_BUFFER_SIZE, CLATTN_E_LIMIT, "x: OpenCL -61 (CL_INVALID_BUFFER_SIZE)"},
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, CLATTN_E_MEMORY, "x: OpenCL -4 (CL_MEM_OBJECT_ALLOCATION_FAILURE)"},
        {CL_BUILD_PROGRAM_FAILURE, CLATTN_E_BUILD, "CL_BUILD_PROGRAM_FAILURE"},
        {CL_DEVICE_NOT_FOUND, CLATTN_E_NO_DEVICE, "CL_DEVICE_NOT_FOUND"},
        {CL_INVALID_KERNEL_ARGS, CLATTN_E_OPENCL, "OpenCL -52 (CL_INVALID_KERNEL_ARGS)"},
        {-1001, CLATTN_E_NO_DEVICE, "install one"},
        {-4711, CLATTN_E_OPENCL, "x: OpenCL -4711 (a code without a name here)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        FAILS(cla_cl_error(cases[i].code, "x"), cases[i].status, cases[i].part);
    SUCCEEDS(cla_cl_error(CL_SUCCESS, "x"));
}

/* ---- kernels from keys ---- */

static cla_key copy_key(int element, int work_group) {
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "ELEMENT", element);
    cla_key_define(&key, "WG", work_group);
    return key;
}

Test(kernels, a_key_is_rendered_in_the_order_of_its_defines) {
    cla_key key = copy_key(4, 64);
    cla_key_define(&key, "LARGE", (int64_t)1 << 40);
    cla_key_define_text(&key, "NAME", "value");
    const char *defines = strchr(key.options, 'D') - 1;
    cr_assert_str_eq(defines, "-DREAL=32 -DELEMENT=4 -DWG=64 -DLARGE=1099511627776 -DNAME=value");
    cr_assert_eq(strncmp(key.options, "-cl-std=CL1.2 ", 14), 0);
    cr_assert_eq(key.length, strlen(key.options));
}

Test(kernels, a_program_is_built_once_for_each_key) {
    clattn_context *context = opened("opencl");
    cla_kernel *kernels[4] = {NULL};
    const cla_key four = copy_key(4, 64), eight = copy_key(8, 64);
    cla_key fill = four;
    fill.kernel = "fill_strided";
    cr_expect_eq(cla_program_builds(context), 0);
    SUCCEEDS(cla_kernel_create(context, &four, 64, &kernels[0]));
    SUCCEEDS(cla_kernel_create(context, &four, 64, &kernels[1]));
    SUCCEEDS(cla_kernel_create(context, &fill, 64, &kernels[2]));
    cr_expect_eq(cla_program_builds(context), 1, "the kernels of a file are one program");
    SUCCEEDS(cla_kernel_create(context, &eight, 64, &kernels[3]));
    cr_expect_eq(cla_program_builds(context), 2);
    for (int i = 0; i < 4; i++)
        cla_kernel_destroy(kernels[i]);
    cla_kernel_destroy(NULL);
    clattn_context_destroy(context);
}

Test(kernels, what_does_not_build_is_told_with_file_line_and_options) {
    clattn_context *context = opened("opencl");
    cla_kernel *kernel = (cla_kernel *)&context;
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "ELEMENT", 4);
    cla_key_define_text(&key, "WG", "no_such_size");
    FAILS(cla_kernel_create(context, &key, 64, &kernel), CLATTN_E_BUILD, "copy.cl does not build on ");
    cr_expect(strstr(clattn_last_error(), "error: "), "%s", clattn_last_error());
    cr_expect(strstr(clattn_last_error(), "copy.cl:"), "%s", clattn_last_error());
    cr_expect(strstr(clattn_last_error(), "-DELEMENT=4"), "%s", clattn_last_error());
    cr_expect_null(kernel);
    key = copy_key(4, 64);
    cla_key_define_text(&key, "get_global_id(x)", "no_such_function(x)"); /* found out when it is linked */
    FAILS(cla_kernel_create(context, &key, 64, &kernel), CLATTN_E_BUILD, "no_such_function");
    cr_expect_null(kernel);
    cr_expect_eq(cla_program_builds(context), 0);
    key = copy_key(4, 64);
    key.kernel = "no_such_kernel";
    FAILS(cla_kernel_create(context, &key, 64, &kernel), CLATTN_E_OPENCL, "no_such_kernel: OpenCL -46");
    cr_expect_null(kernel);
    key = copy_key(4, 64);
    FAILS(cla_kernel_create(context, &key, 10000000, &kernel), CLATTN_E_LIMIT,
          "copy_strided needs work-groups of 10000000");
    cr_expect_null(kernel);
    SUCCEEDS(cla_kernel_create(context, &key, 64, &kernel)); /* the context is as good as before */
    cla_kernel_destroy(kernel);
    clattn_context_destroy(context);
}

/* ---- threads ---- */

enum { THREADS = 8 };

typedef struct {
    clattn_context *context;
    const char *algorithm;
    uint64_t seed;
    char text[ORACLE_TEXT];
    bool right;
} task;

static void *make_kernels(void *argument) {
    task *t = argument;
    for (int element = 1; element <= 8; element *= 2) {
        const cla_key key = copy_key(element, 32);
        cla_kernel *kernel = NULL;
        t->right = cla_kernel_create(t->context, &key, 32, &kernel) == CLATTN_OK;
        snprintf(t->text, sizeof t->text, "%s", clattn_last_error());
        cla_kernel_destroy(kernel);
        if (!t->right)
            break;
    }
    return NULL;
}

static void *attend(void *argument) {
    task *t = argument;
    t->right = true;
    for (uint64_t i = 0; t->right && i < 10; i++) {
        const oracle_config config = {.B = 2,
                                      .H = 2,
                                      .N = 33,
                                      .D = 24,
                                      .buffers = i % 2 == 0,
                                      .lse = true,
                                      .lengths = i % 3 == 0,
                                      .seed = t->seed + i};
        oracle_case *c = oracle_make(&config);
        t->right = oracle_check(c, t->context, t->algorithm, t->text);
        oracle_free(c);
    }
    return NULL;
}

static void in_threads(clattn_context *context, const char *algorithm, void *(*work)(void *)) {
    static task tasks[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tasks[i] = (task){.context = context, .algorithm = algorithm, .seed = 1000 * (uint64_t)i};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &tasks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        cr_expect(tasks[i].right, "thread %d: %s", i, tasks[i].text);
}

Test(threads, share_a_context_and_build_each_program_once) {
    clattn_context *context = opened("opencl");
    in_threads(context, NULL, make_kernels);
    cr_expect_eq(cla_program_builds(context), 4);
    clattn_context_destroy(context);
}

Test(threads, attend_at_once_with_every_algorithm_on_one_context) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    for (size_t i = 0; i < n; i++)
        in_threads(runners[i].context, runners[i].algorithm, attend);
    oracle_close(runners, n);
}
