/* SPDX-License-Identifier: Apache-2.0 */
/* Smaller devices than the one there is (cases G04, G08, G10, G15): every algorithm computes, or says what it lacks,
 * before a launch or a buffer would be refused; the library's choice computes. */
#include "faults/faults.h"
#include "oracle.h"
#include "testing.h"
#include <stdio.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

/* The first FEW where each has kernels of its own, which take seconds to build. */
static const faults_limits limits[] = {
    {.work_group = 1},          {.work_group = 16},        {.local_bytes = 16 * KIB}, {.kernel_work_group = 1},
    {.work_group = 64},         {.work_group = 128},       {.work_group = 256},       {.kernel_work_group = 64},
    {.kernel_work_group = 128}, {.local_bytes = 32 * KIB}, {.local_bytes = 48 * KIB}, {.local_bytes = 64 * KIB},
    {.alloc_bytes = 128 * MIB},
};
enum { LIMITS = sizeof limits / sizeof *limits, FEW = 4 };

static const oracle_config forward = {
    .H = 4, .Hk = 2, .N = 9, .M = 40, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true};

static const char *told(const faults_limits *l, char text[100]) {
    snprintf(text, 100, "group %zu, of kernels %zu, local %zu, largest buffer %zu%s", l->work_group,
             l->kernel_work_group, l->local_bytes, l->alloc_bytes, l->gpu ? ", as a GPU" : "");
    return text;
}

/* What CLBlast launches it alone knows: its refusals are named errors. */
static bool is_clblast(const char *algorithm) { return algorithm && strcmp(algorithm, "materialised") == 0; }

static void expect(const faults_limits *l, const char *algorithm, bool ran, const char *text) {
    char device[100];
    const faults_seen seen = faults_now();
    const bool named = strstr(text, "CLATTN_E_LIMIT") || strstr(text, "CLATTN_E_UNSUPPORTED");
    told(l, device);
    if (is_clblast(algorithm))
        cr_expect(ran || strstr(text, "CLATTN_E_"), "%s, %s: %s", algorithm, device, text);
    else if (algorithm)
        cr_expect(ran || named, "%s, %s: %s", algorithm, device, text);
    else
        cr_expect(ran, "the library's choice, %s: %s", device, text);
    cr_expect(is_clblast(algorithm) || seen.refused == 0, "%s, %s: the device refused %s", algorithm, device,
              seen.what);
}

static void check(const faults_limits *l, oracle_case *c, oracle_backward *g, const char *algorithm) {
    const faults_plan never = {.at = 1 << 30};
    clattn_context *context = NULL;
    char text[ORACLE_TEXT] = "";
    faults_limit(l);
    faults_arm(&never);
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    bool ran = oracle_run(c, context, algorithm, text);
    if (ran)
        cr_expect(oracle_compare(c, algorithm, text), "%s", text);
    expect(l, algorithm, ran, text);
    faults_arm(&never);
    if (g) {
        ran = oracle_backward_run(g, context, NULL, algorithm, text);
        if (ran)
            cr_expect(oracle_backward_compare(g, algorithm, text), "%s", text);
        expect(l, algorithm, ran, text);
    }
    clattn_context_destroy(context);
    faults_limit(NULL);
}

static void each_limit(int count, bool gpu, const char *algorithm, bool backward) {
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(&forward);
    oracle_backward *g = backward ? oracle_backward_make(c) : NULL;
    cr_assert(oracle_exact(c, text) && (!g || oracle_backward_exact(g, text)), "%s", text);
    for (int i = 0; i < count; i++) {
        faults_limits l = limits[i];
        l.gpu = gpu;
        check(&l, c, g, algorithm);
    }
    oracle_backward_free(g);
    oracle_free(c);
}

Test(faults_limits, G15_fused_lanes) { each_limit(LIMITS, false, "fused_lanes", true); }
Test(faults_limits, G15_fused_split) { each_limit(LIMITS, false, "fused_split", false); }
Test(faults_limits, G04_fused_tiles) { each_limit(LIMITS, true, "fused_tiles", false); }
Test(faults_limits, G15_materialised) { each_limit(FEW, false, "materialised", true); }
Test(faults_limits, the_choice_on_a_cpu) { each_limit(LIMITS, false, NULL, true); }
Test(faults_limits, the_choice_on_a_gpu) { each_limit(FEW, true, NULL, false); }

/* ---- buffers ---- */

Test(faults_limits, G10_no_buffer_is_above_the_largest) {
    const faults_limits l = {.alloc_bytes = 128 * MIB};
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    faults_limit(&l);
    faults_arm(&(faults_plan){.at = 1 << 30});
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    FAILS(clattn_buffer_create(context, 128 * MIB + 1, &buffer), CLATTN_E_LIMIT, "134217729");
    FAILS(clattn_buffer_create(context, 128 * MIB + 1, &buffer), CLATTN_E_LIMIT, "134217728");
    /* 2 GiB of scores */
    const int64_t shape[] = {1, 8, 8192, 8};
    SUCCEEDS(clattn_buffer_create(context, 8 * 8192 * 8 * 4, &buffer));
    const clattn_tensor x = clattn_tensor_buffer(buffer, CLATTN_F32, 4, shape);
    clattn_buffer *out = NULL;
    SUCCEEDS(clattn_buffer_create(context, 8 * 8192 * 8 * 4, &out));
    const clattn_attention_args a = {
        .q = x, .k = x, .v = x, .o = clattn_tensor_buffer(out, CLATTN_F32, 4, shape), .algorithm = "materialised"};
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_gt(info.workspace_bytes, 0);
    cr_expect_leq(info.workspace_bytes, 128 * MIB);
    cr_expect_eq(faults_now().refused, 0);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_buffer_destroy(out);
    clattn_context_destroy(context);
}

/* ---- what a device has not ---- */

Test(faults_limits, f64_without_fp64_is_unsupported) {
    const oracle_config config = {.dtype = CLATTN_F64, .N = 3, .D = 4};
    oracle_case *c = oracle_make(&config);
    clattn_context *context = NULL;
    char text[ORACLE_TEXT] = "";
    faults_limit(&(faults_limits){.no_fp64 = true});
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    cr_expect(!oracle_run(c, context, NULL, text));
    cr_expect(strstr(text, "CLATTN_E_UNSUPPORTED") && strstr(text, "fp64"), "%s", text);
    clattn_context_destroy(context);
    oracle_free(c);
}

static void expect_cpu_alone(const char *part) {
    clattn_context *context = NULL;
    clattn_device_info info;
    FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_NO_DEVICE, part);
    cr_expect(strstr(clattn_last_error(), "cpu"), "%s", clattn_last_error());
    cr_expect_null(context);
    SUCCEEDS(clattn_context_create(NULL, NULL, &context)); /* whichever there is */
    SUCCEEDS(clattn_context_info(context, &info));
    cr_expect(!info.is_opencl);
    clattn_context_destroy(context);
}

Test(faults_limits, G08_no_platform) {
    faults_limit(&(faults_limits){.no_platform = true});
    expect_cpu_alone("there is no OpenCL driver; install one");
}

Test(faults_limits, G08_a_platform_without_devices) {
    faults_limit(&(faults_limits){.no_device = true});
    expect_cpu_alone("(no device)");
}

/* A driver that fails is not one that is not there. */
Test(faults_limits, G08_a_driver_that_fails_is_named) {
    clattn_context *context = NULL;
    faults_arm(&(faults_plan){.at = 1, .code = -6, .only = "clGetPlatformIDs"});
    FAILS(clattn_context_create(NULL, NULL, &context), CLATTN_E_MEMORY, "OpenCL -6 (CL_OUT_OF_HOST_MEMORY)");
    faults_arm(&(faults_plan){.at = 1, .code = -5, .only = "clGetDeviceIDs", .lasting = true});
    FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_NO_DEVICE, "(no device: OpenCL -5)");
    faults_arm(&(faults_plan){.at = 1, .code = -5, .only = "clGetDeviceInfo", .lasting = true});
    FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_NO_DEVICE, "not usable");
}

/* ---- a failure that comes late ---- */

/* Memory that is taken when a kernel first wants it: G11. */
Test(faults_limits, G11_the_first_launch_may_fail) {
    oracle_case *c = oracle_make(&forward);
    clattn_context *context = NULL;
    char text[ORACLE_TEXT] = "";
    cr_assert(oracle_exact(c, text), "%s", text);
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    faults_arm(&(faults_plan){.at = 1, .code = -4, .only = "clEnqueueNDRangeKernel"});
    cr_expect(!oracle_run(c, context, NULL, text));
    cr_expect(strstr(text, "CLATTN_E_MEMORY") && strstr(text, "OpenCL -4 (CL_MEM_OBJECT_ALLOCATION_FAILURE)"), "%s",
              text);
    cr_expect(oracle_check(c, context, NULL, text), "%s", text);
    clattn_context_destroy(context);
    oracle_free(c);
}
