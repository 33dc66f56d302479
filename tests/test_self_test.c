/* SPDX-License-Identifier: Apache-2.0 */
/* Self-tests of a device (cases F06 and G18): kernels that do not write what they should are not used, another
 * algorithm is; each test runs once in a context and once on disk. The linker's --wrap puts functions of this file in
 * the place of launches, of CLBlast, and of the driver's version. */
#define _XOPEN_SOURCE 700
#include "faults/faults.h"
#include "io_testing.h"
#include "oracle.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <clattn/tune.h>
#include <clblast_c.h>

/* ---- in the place of other functions ---- */

static struct {
    const char *broken; /* launches of this kernel do nothing */
    size_t wrong_from;  /* products of so many rows lack the last; 0: none */
    const char *driver; /* what the driver says of its version; NULL: the truth */
    int products;
    int launches; /* of `counted` */
    const char *counted;
} mock;

clattn_status __real_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count);
clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count);
clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count) {
    mock.launches += mock.counted && strcmp(kernel->name, mock.counted) == 0;
    if (mock.broken && strcmp(kernel->name, mock.broken) == 0)
        return CLATTN_OK;
    return __real_cla_launch(context, kernel, groups, args, count);
}

#define PARAMETERS                                                                                                     \
    CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb, size_t m, size_t n, size_t k, float alpha,         \
        cl_mem a, size_t a0, size_t lda, size_t step_a, cl_mem b, size_t b0, size_t ldb, size_t step_b, float beta,    \
        cl_mem c, size_t c0, size_t ldc, size_t step_c, size_t count, cl_command_queue *queue, cl_event *event
CLBlastStatusCode __real_CLBlastSgemmStridedBatched(PARAMETERS);
CLBlastStatusCode __wrap_CLBlastSgemmStridedBatched(PARAMETERS);
CLBlastStatusCode __wrap_CLBlastSgemmStridedBatched(PARAMETERS) {
    mock.products++;
    return __real_CLBlastSgemmStridedBatched(layout, ta, tb, m - (mock.wrong_from > 0 && m >= mock.wrong_from), n, k,
                                             alpha, a, a0, lda, step_a, b, b0, ldb, step_b, beta, c, c0, ldc, step_c,
                                             count, queue, event);
}

cl_int __real_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void *value, size_t *needed) {
    const cl_int code = __real_clGetDeviceInfo(device, what, size, value, needed);
    if (what == CL_DRIVER_VERSION && mock.driver && value)
        snprintf(value, size, "%s", mock.driver);
    return code;
}

/* ---- calls ---- */

static clattn_context *opened(int64_t self_test) {
    const clattn_context_options options = {.self_test = self_test};
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", &options, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert_not_null(context, "%s", clattn_last_error());
    return context;
}

/* More rows than fused_split is for. */
static const oracle_config plain = {.H = 2, .N = 40, .M = 70, .D = 8, .lse = true, .seed = 5};

/* Whether a call is right; how it failed goes to text. */
static bool right(clattn_context *context, const oracle_config *config, const char *algorithm, char text[ORACLE_TEXT]) {
    oracle_case *c = oracle_make(config);
    const bool yes = oracle_check(c, context, algorithm, text);
    oracle_free(c);
    return yes;
}

static void expect_right(clattn_context *context, const oracle_config *config, const char *algorithm) {
    char text[ORACLE_TEXT] = "";
    cr_expect(right(context, config, algorithm, text), "%s", text);
}

static void expect_wrong(clattn_context *context, const oracle_config *config, const char *algorithm,
                         const char *part) {
    char text[ORACLE_TEXT] = "";
    cr_expect(!right(context, config, algorithm, text) && strstr(text, "CLATTN_E_VERIFY") && strstr(text, part), "%s",
              text);
}

static int launches_of(clattn_context *context, const char *kernel, const oracle_config *config,
                       const char *algorithm) {
    mock.counted = kernel;
    mock.launches = 0;
    expect_right(context, config, algorithm);
    return mock.launches;
}

/* Tensors without a value, of `plain`'s sizes, for plans. */
static clattn_buffer *buffers[4];

static void give_back(clattn_context *context) {
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(buffers[i]);
    clattn_context_destroy(context);
}

static clattn_plan *planned(clattn_context *context, double dropout) {
    static const int64_t q[] = {1, 2, 40, 8}, k[] = {1, 2, 70, 8};
    clattn_plan *plan = NULL;
    for (int i = 0; i < 4; i++)
        if (!buffers[i])
            SUCCEEDS(clattn_buffer_create(context, sizeof(float) * 2 * 70 * 8, &buffers[i]));
    const clattn_attention_args args = {.q = clattn_tensor_buffer(buffers[0], CLATTN_F32, 4, q),
                                        .k = clattn_tensor_buffer(buffers[1], CLATTN_F32, 4, k),
                                        .v = clattn_tensor_buffer(buffers[2], CLATTN_F32, 4, k),
                                        .o = clattn_tensor_buffer(buffers[3], CLATTN_F32, 4, q),
                                        .dropout = dropout};
    SUCCEEDS(clattn_plan_create(context, &args, &plan));
    return plan;
}

static void expect_told(const clattn_plan *plan, const char *part) {
    cr_expect(strstr(clattn_plan_explain(plan), part), "\"%s\" is not in:\n%s", part, clattn_plan_explain(plan));
}

/* ---- wrong kernels ---- */

Test(self_test, G18_another_algorithm_takes_the_place_of_a_wrong_one) {
    clattn_context *context = opened(1);
    clattn_plan_info info;
    mock.broken = "attention_lanes";
    clattn_plan *plan = planned(context, 0);
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_str_eq(info.algorithm, "materialised");
    expect_told(plan, "fused_lanes fails here, so another is taken: self-test of fused_lanes (default) "
                      "f32/f32/f32/f32 d8 v8: o is wrong: ");
    expect_told(plan, "not fused_lanes: it fails here");
    expect_told(plan, "self-test: right on this device, materialised (default) f32/f32/f32/f32 d8 v8");
    expect_right(context, &plain, NULL);
    clattn_plan_destroy(plan);
    give_back(context);
}

Test(self_test, G18_a_wrong_algorithm_that_was_asked_for_is_a_named_error) {
    clattn_context *context = opened(1);
    mock.broken = "attention_lanes";
    for (int n = 0; n < 2; n++) { /* the second time it is known */
        mock.launches = 0;
        mock.counted = mock.broken;
        expect_wrong(context, &plain, "fused_lanes", "self-test of fused_lanes (default) f32/f32/f32/f32 d8 v8 lse: ");
        expect_wrong(context, &plain, "fused_lanes", "; update the driver or take another algorithm");
        cr_expect_eq(mock.launches, n == 0);
    }
    mock.broken = NULL;
    oracle_config other = plain;
    other.causal = true, other.align = CLATTN_ALIGN_TOP_LEFT;
    expect_right(context, &other, "fused_lanes"); /* the verdict is of some kernels, not of all */
    clattn_context_destroy(context);
}

/* One that the record prefers gives way to the default. */
Test(self_test, G18_a_wrong_record_gives_way) {
    clattn_context *context = opened(1);
    clattn_plan_info info;
    clattn_plan *plan = planned(context, 0);
    const clattn_tuned entry = {
        .key = clattn_plan_algorithm_key(plan), .value = "fused_tiles", .ms = 1, .default_ms = 2};
    SUCCEEDS(clattn_tuning_set(context, &entry));
    mock.broken = "attention_tiles";
    clattn_plan *tuned = planned(context, 0);
    SUCCEEDS(clattn_plan_info_get(tuned, &info));
    cr_expect_str_eq(info.algorithm, "fused_lanes");
    expect_told(tuned, "what the tuner recorded fails here, so the default is taken: self-test of fused_tiles");
    clattn_plan_destroy(plan);
    clattn_plan_destroy(tuned);
    give_back(context);
}

/* ---- how often ---- */

Test(self_test, runs_once_in_a_context) {
    clattn_context *context = opened(1);
    oracle_config wider = plain, later = plain;
    wider.N = 90;
    wider.M = 130;
    later.causal = true, later.align = CLATTN_ALIGN_BOTTOM_RIGHT;
    cr_expect_eq(launches_of(context, "attention_lanes", &plain, "fused_lanes"), 2);
    cr_expect_eq(launches_of(context, "attention_lanes", &plain, "fused_lanes"), 1);
    cr_expect_eq(launches_of(context, "attention_lanes", &wider, "fused_lanes"), 1, "other sizes, the same kernel");
    cr_expect_eq(launches_of(context, "attention_lanes", &later, "fused_lanes"), 2, "another kind of masks");
    clattn_context_destroy(context);
}

static int launches_in_a_new_context(void) {
    clattn_context *context = opened(1);
    const int launches = launches_of(context, "attention_lanes", &plain, "fused_lanes");
    clattn_context_destroy(context);
    return launches;
}

Test(self_test, is_kept_on_disk_for_a_device_and_its_driver, .init = temp_dir_make, .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    cr_expect_eq(launches_in_a_new_context(), 2);
    cr_expect_eq(launches_in_a_new_context(), 1);
    mock.driver = "999.9";
    cr_expect_eq(launches_in_a_new_context(), 2, "another driver");
    mock.driver = NULL;
    cr_expect_eq(launches_in_a_new_context(), 1);
}

Test(self_test, what_was_wrong_is_kept_on_disk_until_the_driver_changes, .init = temp_dir_make,
     .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", temp_dir, 1);
    for (int n = 0; n < 2; n++) {
        clattn_context *context = opened(1);
        mock.broken = n == 0 ? "attention_lanes" : NULL;
        expect_wrong(context, &plain, "fused_lanes", "lse: o is wrong: ");
        clattn_context_destroy(context);
    }
    mock.driver = "999.9";
    cr_expect_eq(launches_in_a_new_context(), 2);
}

/* ---- CLBlast ---- */

Test(self_test, F06_products_that_are_wrong_above_a_size_are_not_used) {
    clattn_context *context = opened(1);
    float x[20 * 4] = {0}, w[3 * 4] = {0}, y[20 * 3];
    const clattn_linear_args linear = {.x = clattn_tensor_host(x, CLATTN_F32, 2, (int64_t[]){20, 4}),
                                       .w = clattn_tensor_host(w, CLATTN_F32, 2, (int64_t[]){3, 4}),
                                       .y = clattn_tensor_host(y, CLATTN_F32, 2, (int64_t[]){20, 3}),
                                       .algorithm = "clblast"};
    mock.wrong_from = 1152;
    expect_wrong(context, &plain, "materialised", "self-test of CLBlast's products in f32 (");
    expect_wrong(context, &plain, "materialised", "of two 1152 x 1152 matrices, element [1151,0] is ");
    const int products = mock.products;
    FAILS(clattn_linear(context, &linear), CLATTN_E_VERIFY, "self-test of CLBlast's products in f32 (");
    cr_expect_eq(mock.products, products, "the verdict is known");
    mock.broken = "attention_lanes"; /* then there is none left that is written for such a call */
    expect_right(context, &plain, NULL);
    clattn_context_destroy(context);
}

Test(self_test, F06_right_products_are_tested_once) {
    clattn_context *context = opened(1);
    expect_right(context, &plain, "materialised");
    const int first = mock.products;
    expect_right(context, &plain, "materialised");
    cr_expect_eq(mock.products - first, 2);
    cr_expect_eq(first, 5 + 2 + 2); /* of CLBlast's test, of the kernels', of the call */
    clattn_context_destroy(context);
}

/* ---- who asks for it ---- */

/* Launches of a call in a new context: 2 with a self-test, 1 without. */
static int launches_where(const char *environment, int64_t self_test, bool gpu) {
    const faults_limits limits = {.gpu = gpu};
    if (environment)
        setenv("CLATTN_SELF_TEST", environment, 1);
    else
        unsetenv("CLATTN_SELF_TEST");
    faults_limit(&limits);
    clattn_context *context = opened(self_test);
    const int launches = launches_of(context, gpu ? "attention_tiles" : "attention_lanes", &plain, NULL);
    clattn_context_destroy(context);
    return launches;
}

Test(self_test, is_for_gpus_unless_somebody_says_otherwise) {
    clattn_context *context = NULL;
    clattn_device_info info;
    SUCCEEDS(clattn_context_create(NULL, NULL, &context));
    SUCCEEDS(clattn_context_info(context, &info));
    if (info.device_class != CLATTN_DEVICE_CPU)
        cr_skip_test("the defaults are tested on a CPU");
    clattn_context_destroy(context);
    cr_expect_eq(launches_where(NULL, 0, true), 2);
    cr_expect_eq(launches_where("off", 0, true), 1);
    cr_expect_eq(launches_where("on", -1, true), 1);
    cr_expect_eq(launches_where(NULL, 0, false), 1);
    cr_expect_eq(launches_where("", 0, false), 1);
    cr_expect_eq(launches_where("on", 0, false), 2);
    cr_expect_eq(launches_where("off", 1, false), 2);
    setenv("CLATTN_SELF_TEST", "perhaps", 1);
    FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_ARGUMENT,
          "CLATTN_SELF_TEST is \"perhaps\"; it is on or off");
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    clattn_context_destroy(context);
}

Test(self_test, explain_says_what_is_not_tested) {
    clattn_context *context = opened(1);
    mock.counted = "attention_lanes";
    clattn_plan *plan = planned(context, 0.25);
    expect_told(plan, "self-test: there is none with dropout");
    cr_expect_eq(mock.launches, 0);
    clattn_plan_destroy(plan);
    give_back(context);
}

/* ---- no false alarm ---- */

#define ALIGNED .align = CLATTN_ALIGN_BOTTOM_RIGHT
static const oracle_config kinds[] = {
    {.H = 2, .N = 40, .M = 70, .D = 8, .lse = true},
    {.H = 4, .Hk = 2, .N = 5, .M = 40, .D = 8, .causal = true, ALIGNED, .lengths = true, .sinks = true},
    {.B = 2,
     .H = 2,
     .N = 9,
     .M = 30,
     .D = 8,
     .has_window = true,
     .window_left = 5,
     .window_right = 3,
     ALIGNED,
     .sequences = true},
    {.H = 2,
     .N = 9,
     .M = 30,
     .D = 8,
     .keep = {2, 3},
     .drop = {3, 7},
     .bias = {4, 15},
     .softcap = 3,
     .alibi = true,
     ALIGNED},
    {.H = 2, .N = 9, .M = 30, .D = 8, .segments = true, .batch_invariant = true, .lse = true},
    {.H = 2, .N = 9, .M = 1030, .D = 8, .weights = true, .lse = true},
    {.H = 2, .N = 9, .M = 30, .D = 8, .layout = ORACLE_TRANSPOSED},
    {.H = 2, .N = 9, .M = 30, .D = 8, .layout = ORACLE_PADDED},
    {.B = 2,
     .H = 2,
     .N = 3,
     .M = 40,
     .D = 32,
     .page_size = 16,
     .lengths = true,
     .typed = true,
     .q_type = CLATTN_F16,
     .k_type = CLATTN_Q8_0,
     .v_type = CLATTN_Q4_0,
     .o_type = CLATTN_BF16},
    {.dtype = CLATTN_F64, .H = 2, .N = 9, .M = 30, .D = 8, .bias = {2, 3}, .lse = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void each_kind(const char *algorithm, int step) {
    clattn_context *context = opened(1);
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(context, &info));
    for (int i = 0; i < KINDS; i += step)
        if (kinds[i].dtype != CLATTN_F64 || info.has_f64)
            expect_right(context, &kinds[i], algorithm);
    clattn_context_destroy(context);
}

Test(self_test, passes_fused_lanes_of_every_kind) { each_kind("fused_lanes", 1); }
Test(self_test, passes_fused_split_of_every_kind) { each_kind("fused_split", 1); }
Test(self_test, passes_materialised_of_every_kind) { each_kind("materialised", 1); }
Test(self_test, passes_fused_tiles) { each_kind("fused_tiles", 4); } /* few, since PoCL takes long for its kernels */
