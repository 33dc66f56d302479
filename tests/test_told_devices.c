/* SPDX-License-Identifier: Apache-2.0 */
/* What follows from what drivers tell of their devices: drivers of the test's own, which the linker puts in the place
 * of OpenCL's; choices of algorithms and tiles on devices that nobody has to have. */
#include "attention/algos.h"
#include "attention/tiles.h"
#include "attention/tiles_key.h"
#include "runtime/state.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <stdio.h>

/* ---- drivers ---- */

typedef struct {
    cl_device_type type;
    const char *name, *extensions;
    bool unavailable, without_compiler, without_newer, without_extensions;
    cl_int fails; /* what asking for its units gives */
    size_t subgroups[3], subgroup_count;
    bool subgroups_fail;
} driver_device;

typedef struct {
    const char *name;
    cl_int code; /* of its list of devices */
    int count;
    driver_device devices[3];
} driver;

static driver drivers[3];
static cl_uint driver_count;
static cl_int list_code;

cl_int __wrap_clGetPlatformIDs(cl_uint room, cl_platform_id *list, cl_uint *count);
cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *value, size_t *size);
cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *list,
                             cl_uint *count);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *value, size_t *size);

cl_int __wrap_clGetPlatformIDs(cl_uint room, cl_platform_id *list, cl_uint *count) {
    for (cl_uint i = 0; i < driver_count && i < room; i++)
        list[i] = (cl_platform_id)&drivers[i];
    *count = driver_count;
    return list_code;
}

static cl_int give(const void *from, size_t bytes, size_t room, void *value, size_t *size) {
    if (size)
        *size = bytes;
    if (value && room < bytes)
        return CL_INVALID_VALUE;
    if (value)
        memcpy(value, from, bytes);
    return CL_SUCCESS;
}

cl_int __wrap_clGetPlatformInfo(cl_platform_id platform, cl_platform_info what, size_t room, void *value,
                                size_t *size) {
    const driver *d = (const void *)platform;
    return what == CL_PLATFORM_NAME ? give(d->name, strlen(d->name) + 1, room, value, size) : CL_INVALID_VALUE;
}

cl_int __wrap_clGetDeviceIDs(cl_platform_id platform, cl_device_type type, cl_uint room, cl_device_id *list,
                             cl_uint *count) {
    driver *d = (void *)platform;
    cr_expect_eq(type, CL_DEVICE_TYPE_ALL);
    for (cl_uint i = 0; i < (cl_uint)d->count && i < room; i++)
        list[i] = (cl_device_id)&d->devices[i];
    *count = (cl_uint)d->count;
    return d->code;
}

cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void *value, size_t *size) {
    const driver_device *d = (const void *)device;
    const cl_bool yes = CL_TRUE, available = !d->unavailable, compiler = !d->without_compiler;
    const cl_uint units = 4, width = 8;
    const size_t group = 256;
    const cl_ulong bytes = 1 << 30;
    const cl_device_local_mem_type local = CL_LOCAL;
    const cl_device_fp_config f64 = CL_FP_FMA;
    switch (what) {
    case CL_DEVICE_TYPE:
        return give(&d->type, sizeof d->type, room, value, size);
    case CL_DEVICE_NAME:
        return give(d->name, strlen(d->name) + 1, room, value, size);
    case CL_DEVICE_EXTENSIONS:
        return d->without_extensions ? CL_OUT_OF_RESOURCES
                                     : give(d->extensions, strlen(d->extensions) + 1, room, value, size);
    case CL_DEVICE_AVAILABLE:
        return give(&available, sizeof available, room, value, size);
    case CL_DEVICE_COMPILER_AVAILABLE:
        return give(&compiler, sizeof compiler, room, value, size);
    case CL_DEVICE_MAX_COMPUTE_UNITS:
        return d->fails ? d->fails : give(&units, sizeof units, room, value, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return give(&group, sizeof group, room, value, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
    case CL_DEVICE_LOCAL_MEM_SIZE:
        return give(&bytes, sizeof bytes, room, value, size);
    case CL_DEVICE_LOCAL_MEM_TYPE:
        return give(&local, sizeof local, room, value, size);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT:
        return d->without_newer ? CL_INVALID_VALUE : give(&width, sizeof width, room, value, size);
    case CL_DEVICE_HOST_UNIFIED_MEMORY:
        return d->without_newer ? CL_INVALID_VALUE : give(&yes, sizeof yes, room, value, size);
    case CL_DEVICE_DOUBLE_FP_CONFIG:
        return d->without_newer ? CL_INVALID_VALUE : give(&f64, sizeof f64, room, value, size);
    case 0x4108: /* CL_DEVICE_SUB_GROUP_SIZES_INTEL */
        return d->subgroups_fail ? CL_INVALID_VALUE
                                 : give(d->subgroups, d->subgroup_count * sizeof *d->subgroups, room, value, size);
    default: /* vendor and versions */
        return give("v", 2, room, value, size);
    }
}

/* One driver of that device. */
static clattn_device_info told(driver_device device) {
    clattn_device_info info[2];
    size_t count;
    if (!device.name)
        device.name = "d";
    if (!device.extensions)
        device.extensions = "cl_khr_fp64";
    drivers[0] = (driver){"one", CL_SUCCESS, 1, {device}};
    driver_count = 1;
    SUCCEEDS(clattn_devices(info, 2, &count));
    cr_assert_eq(count, 2);
    cr_expect_str_eq(info[1].spec, "cpu");
    return info[0];
}

#define INTEL "cl_khr_fp16 cl_intel_required_subgroup_size"

Test(told_devices, what_a_device_says_of_itself) {
    static const struct {
        driver_device device;
        bool usable, f64, f16;
        clattn_device_class class;
        uint32_t subgroup, width;
    } table[] = {
        {{.type = CL_DEVICE_TYPE_CPU}, true, true, false, CLATTN_DEVICE_CPU, 0, 8},
        {{.type = CL_DEVICE_TYPE_ACCELERATOR}, true, true, false, CLATTN_DEVICE_OTHER, 0, 8},
        {{.type = CL_DEVICE_TYPE_CPU, .unavailable = true}, false, true, false, CLATTN_DEVICE_CPU, 0, 8},
        {{.type = CL_DEVICE_TYPE_CPU, .without_compiler = true}, false, true, false, CLATTN_DEVICE_CPU, 0, 8},
        {{.type = CL_DEVICE_TYPE_CPU, .fails = CL_OUT_OF_RESOURCES}, false, false, false, CLATTN_DEVICE_CPU, 0, 0},
        {{.type = CL_DEVICE_TYPE_CPU, .without_newer = true}, true, false, false, CLATTN_DEVICE_CPU, 0, 0},
        {{.type = CL_DEVICE_TYPE_GPU, .without_extensions = true}, true, true, false, CLATTN_DEVICE_GPU, 0, 8},
        {{.type = CL_DEVICE_TYPE_GPU, .extensions = INTEL, .subgroups = {16, 8, 32}, .subgroup_count = 3},
         true,
         true,
         true,
         CLATTN_DEVICE_GPU,
         8,
         8},
        {{.type = CL_DEVICE_TYPE_GPU, .extensions = INTEL}, true, true, true, CLATTN_DEVICE_GPU, 0, 8},
        {{.type = CL_DEVICE_TYPE_GPU, .extensions = INTEL, .subgroups_fail = true},
         true,
         true,
         true,
         CLATTN_DEVICE_GPU,
         0,
         8},
        {{.type = CL_DEVICE_TYPE_CPU, .extensions = INTEL, .subgroups = {8}, .subgroup_count = 1},
         true,
         true,
         true,
         CLATTN_DEVICE_CPU,
         0,
         8},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const clattn_device_info info = told(table[i].device);
        cr_expect(info.is_opencl && info.usable == table[i].usable, "case %zu: usable %d", i, info.usable);
        cr_expect(info.has_f64 == table[i].f64 && info.has_f16 == table[i].f16, "case %zu: f64 %d, f16 %d", i,
                  info.has_f64, info.has_f16);
        cr_expect_eq(info.device_class, table[i].class, "case %zu", i);
        cr_expect_eq(info.least_subgroup, table[i].subgroup, "case %zu: %u", i, info.least_subgroup);
        cr_expect_eq(info.vector_floats, table[i].width, "case %zu: %u", i, info.vector_floats);
    }
    driver_device some = {.type = CL_DEVICE_TYPE_CPU, .name = "part", .extensions = ""};
    clattn_device_info info;
    cr_expect(cla_device_describe(NULL, (cl_device_id)&some, &info));
    cr_expect_str_eq(info.platform, "");
}

static const char *found(const char *spec) {
    static clattn_device_info info;
    cl_device_id device;
    bool is_cpu;
    const clattn_status status = cla_device_find(spec, &device, &info, &is_cpu);
    return status == CLATTN_OK ? info.spec : clattn_status_name(status);
}

Test(told_devices, the_best_device_is_a_usable_gpu) {
    drivers[0] = (driver){"Portable",
                          CL_SUCCESS,
                          2,
                          {{.type = CL_DEVICE_TYPE_CPU, .name = "slow CPU", .extensions = ""},
                           {.type = CL_DEVICE_TYPE_CPU, .name = "other CPU", .extensions = ""}}};
    drivers[1] = (driver){"Cards",
                          CL_SUCCESS,
                          3,
                          {{.type = CL_DEVICE_TYPE_GPU, .name = "broken", .extensions = "", .unavailable = true},
                           {.type = CL_DEVICE_TYPE_GPU, .name = "first card", .extensions = ""},
                           {.type = CL_DEVICE_TYPE_GPU, .name = "second card", .extensions = ""}}};
    drivers[2] = (driver){"Empty", CL_DEVICE_NOT_FOUND, 0, {{0}}};
    driver_count = 3;
    static const char *const table[][2] = {{NULL, "opencl:1:1"},
                                           {"", "opencl:1:1"},
                                           {"opencl", "opencl:1:1"},
                                           {"opencl:gpu", "opencl:1:1"},
                                           {"opencl:cpu", "opencl:0:0"},
                                           {"opencl:0", "opencl:0:0"},
                                           {"opencl:0:1", "opencl:0:1"},
                                           {"opencl:1:2", "opencl:1:2"},
                                           {"opencl:1:0", "CLATTN_E_NO_DEVICE"},
                                           {"opencl:cards:second", "opencl:1:2"},
                                           {"opencl::other", "opencl:0:1"},
                                           {"opencl:port", "opencl:0:0"},
                                           {"opencl:2", "CLATTN_E_NO_DEVICE"},
                                           {"opencl:none:0", "CLATTN_E_NO_DEVICE"},
                                           {"opencl:0:9", "CLATTN_E_NO_DEVICE"},
                                           {"cpu", "cpu"},
                                           {"gpu", "CLATTN_E_ARGUMENT"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        cr_expect_str_eq(found(table[i][0]), table[i][1], "\"%s\" is %s", table[i][0] ? table[i][0] : "NULL",
                         found(table[i][0]));
    found("opencl:9:9");
    cr_expect(strstr(clattn_last_error(), "opencl:1:0 (broken, not usable), opencl:1:1 (first card)"), "%s",
              clattn_last_error());
    cr_expect(strstr(clattn_last_error(), "opencl:2:- ((no device))"), "%s", clattn_last_error());
    clattn_device_info info = {0};
    SUCCEEDS(cla_device_spec((cl_device_id)&drivers[1].devices[2], &info));
    cr_expect_str_eq(info.spec, "opencl:1:2");
    info = (clattn_device_info){0};
    SUCCEEDS(cla_device_spec((cl_device_id)&drivers[2].devices[0], &info)); /* a part of a device is in no list */
    cr_expect_str_eq(info.spec, "");
}

Test(told_devices, drivers_that_fail_are_told) {
    clattn_device_info info[2];
    size_t count = 0;
    drivers[0] = (driver){"Broken", CL_OUT_OF_HOST_MEMORY, 3, {{0}}};
    driver_count = 1;
    SUCCEEDS(clattn_devices(info, 2, &count));
    cr_expect_eq(count, 2);
    cr_expect_str_eq(info[0].name, "(no device: OpenCL -6)");
    cr_expect_not(info[0].usable);
    drivers[0] = (driver){"Empty", CL_SUCCESS, 0, {{0}}};
    SUCCEEDS(clattn_devices(info, 1, &count));
    cr_expect_str_eq(info[0].name, "(no device)");
    cr_expect_eq(count, 2, "there are more than were asked for");
    cr_expect_str_eq(found(NULL), "cpu");
    list_code = CL_OUT_OF_HOST_MEMORY;
    FAILS(clattn_devices(info, 2, &count), CLATTN_E_MEMORY, "list of OpenCL drivers");
    FAILS(cla_device_spec(NULL, info), CLATTN_E_MEMORY, "list of OpenCL drivers");
    cr_expect_str_eq(found("opencl"), "CLATTN_E_MEMORY");
    list_code = -1001;
    driver_count = 0;
    cr_expect_str_eq(found("opencl"), "CLATTN_E_NO_DEVICE");
    cr_expect(strstr(clattn_last_error(), "there is no OpenCL driver"), "%s", clattn_last_error());
    SUCCEEDS(clattn_devices(info, 2, &count));
    cr_expect_eq(count, 1);
}

/* ---- algorithms ---- */

static float room[8];

static cla_problem problem_of(bool backward, clattn_dtype dtype, int64_t D, int64_t Dv) {
    cla_problem p;
    const int64_t q[] = {1, 2, 3, D}, o[] = {1, 2, 3, Dv}, state[] = {1, 2, 3, 2};
    clattn_attention_backward_args a = {.forward = {.q = clattn_tensor_host(room, dtype, 4, q),
                                                    .k = clattn_tensor_host(room, dtype, 4, q),
                                                    .v = clattn_tensor_host(room, dtype, 4, o),
                                                    .o = clattn_tensor_host(room + 1, dtype, 4, o)}};
    clattn_tensor *const forward[] = {&a.forward.q, &a.forward.k, &a.forward.v, &a.forward.o};
    for (int i = 0; i < 4; i++)
        forward[i]->host = (char *)0x10000 + (size_t)i * ((size_t)1 << 40); /* nobody reads it */
    if (backward) {
        a.forward.state = clattn_tensor_host((char *)0x10000 + ((size_t)5 << 40), dtype, 4, state);
        a.d_o = clattn_tensor_host((char *)0x10000 + ((size_t)6 << 40), dtype, 4, o);
        a.d_q = clattn_tensor_host((char *)0x10000 + ((size_t)7 << 40), dtype, 4, q);
        SUCCEEDS(cla_problem_init_backward(&p, &a));
    } else {
        SUCCEEDS(cla_problem_init(&p, &a.forward));
    }
    return p;
}

static clattn_device_info gpu(const char *vendor, const char *name) {
    clattn_device_info d = {.is_opencl = true,
                            .usable = true,
                            .device_class = CLATTN_DEVICE_GPU,
                            .has_f64 = true,
                            .dedicated_local_memory = true,
                            .compute_units = 20,
                            .vector_floats = 1,
                            .max_work_group = 1024,
                            .global_bytes = UINT64_C(8) << 30,
                            .max_alloc_bytes = UINT64_C(2) << 30,
                            .local_bytes = 49152};
    snprintf(d.vendor, sizeof d.vendor, "%s", vendor);
    snprintf(d.name, sizeof d.name, "%s", name);
    return d;
}

static const cla_algorithm *algorithm(bool backward, const char *name) {
    for (size_t i = 0; cla_algorithm_at(backward, i); i++)
        if (strcmp(cla_algorithm_at(backward, i)->name, name) == 0)
            return cla_algorithm_at(backward, i);
    cr_assert_fail("no algorithm %s", name);
    return NULL;
}

Test(told_devices, algorithms_say_what_a_device_or_a_call_lacks) {
    const int64_t wide = INT32_MAX / 128 + 1, far = INT64_C(1) << 33;
    const clattn_device_info full = gpu("A", "card"),
                             host = {.usable = true, .device_class = CLATTN_DEVICE_CPU, .has_f64 = true};
    clattn_device_info poor = full, small = full, tight = full;
    poor.has_f64 = false;
    small.max_work_group = 8;
    tight.local_bytes = 2000;
    const struct {
        const char *algorithm;
        bool backward;
        clattn_dtype dtype;
        int64_t D, Dv;
        const clattn_device_info *device;
        int reaches;      /* the tensor that reaches beyond 2^31: q, k, o */
        const char *part; /* NULL: it can */
    } table[] = {
        {"blas", false, CLATTN_F32, 8, 8, &host, 0, NULL},
        {"blas", false, CLATTN_F32, wide, 8, &host, 0, "BLAS counts in int"},
        {"blas", false, CLATTN_F32, 8, wide, &host, 0, "BLAS counts in int"},
        {"blas", false, CLATTN_F32, 8, 8, &full, 0, "runs on the cpu context"},
        {"blas", true, CLATTN_F32, 8, 8, &host, 0, NULL},
        {"blas", true, CLATTN_F32, wide, 8, &host, 0, "BLAS counts in int"},
        {"blas", true, CLATTN_F32, 8, wide, &host, 0, "BLAS counts in int"},
        {"materialised", false, CLATTN_F32, 8, 8, &full, 0, NULL},
        {"materialised", false, CLATTN_F32, 8, 8, &full, 1, "and q reaches further"},
        {"materialised", false, CLATTN_F32, 8, 8, &full, 2, "and k reaches further"},
        {"materialised", false, CLATTN_F32, 8, 8, &full, 3, "and o reaches further"},
        {"materialised", false, CLATTN_F32, 8, 8, &host, 0, "runs on OpenCL devices"},
        {"materialised", true, CLATTN_F32, 8, 8, &full, 0, NULL},
        {"materialised", true, CLATTN_F32, 8, 8, &full, 1, "and q reaches further"},
        {"fused_tiles", false, CLATTN_F64, 8, 8, &full, 0, NULL},
        {"fused_tiles", false, CLATTN_F64, 8, 8, &poor, 0, "f64 needs cl_khr_fp64, which card lacks"},
        {"fused_tiles", false, CLATTN_F32, 8, 8, &small, 0, "needs work-groups of 16 and 3796 bytes"},
        {"fused_tiles", false, CLATTN_F64, 8, 8, &tight, 0, "needs work-groups of 16 and 6356 bytes"},
        {"fused_tiles", true, CLATTN_F32, 8, 8, &full, 0, NULL},
        {"fused_tiles", true, CLATTN_F32, 8, 8, &small, 0, "has no tiles for work-groups of 8"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char reason[CLA_REASON] = "";
        cla_problem p = problem_of(table[i].backward, table[i].dtype, table[i].D, table[i].Dv);
        if (table[i].reaches)
            *(int64_t *[]){&p.q.offset, &p.k.offset, &p.o.offset}[table[i].reaches - 1] = far;
        const bool can =
            algorithm(table[i].backward, table[i].algorithm)->applies(&p, table[i].device, reason, sizeof reason);
        cr_expect_eq(can, !table[i].part, "case %zu: %s", i, reason);
        cr_expect(can || strstr(reason, table[i].part), "case %zu: %s", i, reason);
        cla_problem_free(&p);
    }
}

Test(told_devices, where_no_algorithm_applies_the_first_reasons_are_told) {
    clattn_device_info poor = gpu("A", "card"), other = gpu("A", "board");
    const cla_algorithm *chosen;
    char reason[CLA_REASON] = "";
    poor.has_f64 = false;
    other.device_class = CLATTN_DEVICE_OTHER;
    for (int backward = 0; backward < 2; backward++) {
        cla_str text = {0};
        cla_problem p = problem_of(backward, CLATTN_F64, 8, 8);
        FAILS(cla_algorithm_choose(&p, &poor, NULL, NULL, 0, &text, &chosen), CLATTN_E_UNSUPPORTED,
              backward ? "no algorithm of the backward pass applies on card: fused_lanes: f64 needs"
                       : "no algorithm applies on card: fused_lanes: f64 needs");
        FAILS(cla_algorithm_choose(&p, &poor, "none", NULL, 0, &text, &chosen), CLATTN_E_ARGUMENT,
              backward ? "there is none; the algorithms of the backward pass are fused_lanes"
                       : "there is none; the algorithms are fused_split");
        SUCCEEDS(cla_algorithm_choose(&p, &other, "", NULL, 0, &text, &chosen)); /* an empty name is none */
        cr_expect_not(cla_tiles_suits(&p, &other, reason, sizeof reason));
        cr_expect(strstr(reason, "board is none"), "%s", reason);
        other.device_class = CLATTN_DEVICE_CPU;
        cr_expect_not(cla_tiles_suits(&p, &other, reason, sizeof reason));
        cr_expect(strstr(reason, "board is a CPU"), "%s", reason);
        other.device_class = CLATTN_DEVICE_OTHER;
        cla_str_free(&text);
        cla_problem_free(&p);
    }
}

/* ---- tiles ---- */

/* Every choice is within the device's limits, and the first of each list is what is chosen. */
Test(told_devices, tiles_are_within_what_each_device_has) {
    static const char *const vendors[][2] = {{"NVIDIA Corporation", "H"},
                                             {"Advanced Micro Devices, Inc.", "gfx90a"},
                                             {"AMD", "gfx1100"},
                                             {"Intel(R) Corporation", "Arc"},
                                             {"Somebody", "Else"}};
    static const uint64_t groups[] = {8, 16, 64, 1024}, local[] = {2000, 4096, 16384, 32768, 65536};
    static const int64_t dims[] = {4, 64, 65, 256};
    int chosen = 0;
    for (int v = 0; v < 7; v++)
        for (int limit = 0; limit < 20; limit++)
            for (int kind = 0; kind < 32; kind++) {
                clattn_device_info d = gpu(vendors[v % 5][0], vendors[v % 5][1]);
                d.unified_memory = v == 5;
                if (v == 5)
                    snprintf(d.vendor, sizeof d.vendor, "Intel");
                d.device_class = v == 6 ? CLATTN_DEVICE_CPU : CLATTN_DEVICE_GPU;
                d.max_work_group = groups[limit % 4];
                d.local_bytes = local[limit / 4];
                const cla_tiles_problem p = {.dtype = kind & 1 ? CLATTN_F64 : CLATTN_F32,
                                             .lean = kind & 2,
                                             .interval = kind & 4,
                                             .D = dims[kind >> 3],
                                             .Dv = dims[kind >> 3]};
                cla_tiling list[CLA_TILES_ROWS], best, back;
                const int count = cla_tiles_list(&d, &p, list);
                cr_expect_eq(cla_tiles_choose(&d, &p, 0, &best), count > 0);
                if (count == 0)
                    continue;
                chosen++;
                cr_expect_eq(best.row, list[0].row);
                for (int i = 0; i < count; i++) {
                    cr_expect_leq((uint64_t)list[i].work_group, d.max_work_group);
                    cr_expect_leq((uint64_t)list[i].local_bytes, d.local_bytes);
                }
                for (int rank = 0; cla_tiles_choose_backward(&d, &p, &best.tile, p.D, rank, &back); rank++) {
                    cr_expect_leq((uint64_t)back.work_group, d.max_work_group);
                    cr_expect_leq((uint64_t)back.local_bytes, d.local_bytes);
                    cr_expect_eq(back.tile.dc, best.tile.dc, "scores have the bits of the forward pass");
                }
            }
    cr_expect_gt(chosen, 500);
}
