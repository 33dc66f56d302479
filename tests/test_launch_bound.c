/* SPDX-License-Identifier: Apache-2.0 */
/* Long work in launches that a watchdog lets live: how many there are by a bound, that bits do not depend on it, and
 * who sets it. */
#define _XOPEN_SOURCE 700
#include "args.h"
#include "ops/gemm.h"
#include "oracle.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include "testing.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* launch_ms of it: work-groups go in launches of no more than there are compute units. */
#define SHORTEST 1e-9

static clattn_context *opened(double launch_ms) {
    const clattn_context_options options = {.profile = true, .launch_ms = launch_ms};
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", &options, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert_not_null(context, "%s", clattn_last_error());
    context->info.compute_units = 2; /* so that there are more groups than units on every machine */
    return context;
}

/* Launches of a kernel since the last reset, and what they state in all. */
static uint64_t launches(clattn_context *context, const char *name, double *operations) {
    clattn_profile_entry entries[64];
    size_t count = 0;
    SUCCEEDS(clattn_context_profile(context, entries, 64, &count));
    for (size_t i = 0; i < count; i++)
        if (strcmp(entries[i].name, name) == 0) {
            *operations = entries[i].operations;
            return entries[i].count;
        }
    return 0;
}

/* ---- a kernel's launches ---- */

static uint64_t copies(clattn_context *context, cla_kernel *kernel, int64_t groups, double operations, double bytes) {
    const cla_copy_args nothing = {0};
    clattn_buffer *buffer = NULL;
    double stated;
    SUCCEEDS(clattn_buffer_create(context, 64, &buffer));
    const cla_arg args[] = {CLA_ARG_BUFFER(buffer), CLA_ARG_BUFFER(buffer), CLA_ARG_VALUE(nothing)};
    clattn_context_profile_reset(context);
    cla_kernel_cost(kernel, operations, bytes);
    SUCCEEDS(cla_launch(context, kernel, groups, args, 3));
    const uint64_t count = launches(context, "copy_strided", &stated);
    cr_expect(isinf(operations) || fabs(stated - operations) <= 1e-9 * operations, "%g of %g", stated, operations);
    clattn_buffer_destroy(buffer);
    return count;
}

Test(launch_bound, launches_follow_the_cost) {
    clattn_context *context = opened(100), *free = opened(-1);
    cla_kernel *kernel = NULL, *unbounded = NULL;
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "ELEMENT", 4);
    cla_key_define(&key, "WG", 64);
    SUCCEEDS(cla_kernel_create(context, &key, 64, &kernel));
    SUCCEEDS(cla_kernel_create(free, &key, 64, &unbounded));
    const int64_t units = context->info.compute_units;
    const double most = cla_launch_operations(context);
    cr_expect(isinf(cla_launch_operations(free)));
    cr_expect_eq(copies(context, kernel, 1000 * units, 0, 0), 1);
    cr_expect_eq(copies(context, kernel, 1000 * units, most, 0), 1);
    cr_expect_eq(copies(context, kernel, 1000 * units, 3 * most, 0), 4, "333 of 1000 groups at most");
    cr_expect_eq(copies(context, kernel, 1000 * units, 4 * most, 0), 4);
    cr_expect_eq(copies(context, kernel, 8 * units, 1e9 * most, 0), 8, "as many as compute units at least");
    cr_expect_eq(copies(context, kernel, 8 * units, 0, 1e30), 8, "by bytes too");
    cr_expect_eq(copies(context, kernel, units, 1e9 * most, 0), 1);
    cr_expect_eq(copies(context, kernel, 1, 1e9 * most, 0), 1);
    cr_expect_eq(copies(context, kernel, 8 * units, INFINITY, 0), 8);
    cr_expect_eq(copies(free, unbounded, 1000 * units, 1e9 * most, 0), 1);
    cla_kernel_destroy(kernel);
    cla_kernel_destroy(unbounded);
    clattn_context_destroy(context);
    clattn_context_destroy(free);
}

/* Case G12: 32768 queries and keys, 16 heads of 64, on a GPU beside the CPU and on a card. */
Test(launch_bound, a_slow_gpu_gets_many_launches) {
    struct clattn_context context = {.launch_seconds = 0.5};
    const double operations = 4.0 * 16 * 64 * 32768.0 * 32768.0;
    context.info = (clattn_device_info){.device_class = CLATTN_DEVICE_GPU, .unified_memory = true, .compute_units = 24};
    const double slow = operations / cla_launch_operations(&context);
    context.info.unified_memory = false;
    context.info.compute_units = 132;
    const double fast = operations / cla_launch_operations(&context);
    cr_expect(slow > 50 && slow < 150, "%g launches", slow);
    cr_expect(fast > 1 && fast < 10, "%g launches", fast);
}

/* ---- bits ---- */

static void same(const double *a, const double *b, int64_t count, const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (memcmp(a + i, b + i, sizeof *a) != 0) {
            cr_expect(false, "%s: element %lld is %.9g and %.9g", what, (long long)i, a[i], b[i]);
            return;
        }
}

static const struct {
    const char *algorithm, *kernel; /* kernel: one that must come in several launches */
    oracle_config config;
} cases[] = {
    {"fused_lanes", "attention_lanes", {.B = 2, .H = 4, .Hk = 2, .N = 100, .D = 16, .causal = true, .lse = true}},
    {"fused_lanes", "weights_rows", {.H = 3, .N = 70, .M = 90, .D = 16, .weights = true}},
    {"fused_split", "attention_split", {.B = 2, .H = 6, .Hk = 2, .N = 3, .M = 300, .D = 16, .lengths = true}},
    {"fused_tiles", "attention_tiles", {.B = 2, .H = 4, .Hk = 2, .N = 200, .D = 16, .bias = {2, 3}}},
    {"materialised",
     "clblast_gemm",
     {.B = 2, .H = 4, .N = 200, .M = 130, .D = 16, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT}},
};

Test(launch_bound, bits_are_those_without_a_bound) {
    clattn_context *bounded = opened(SHORTEST), *unbounded = opened(-1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[ORACLE_TEXT] = "";
        double operations;
        oracle_case *a = oracle_make(&cases[i].config), *b = oracle_make(&cases[i].config);
        cr_assert(a && b);
        clattn_context_profile_reset(bounded);
        clattn_context_profile_reset(unbounded);
        cr_assert(oracle_check(a, bounded, cases[i].algorithm, text), "%s", text);
        cr_assert(oracle_run(b, unbounded, cases[i].algorithm, text), "%s", text);
        const uint64_t cut = launches(bounded, cases[i].kernel, &operations),
                       whole = launches(unbounded, cases[i].kernel, &operations);
        cr_expect(whole > 0 && cut >= 2 * whole, "%s: %d and %d launches", cases[i].kernel, (int)cut, (int)whole);
        const int64_t rows = a->config.B * a->config.H * a->config.N;
        same(a->got.o, b->got.o, rows * a->config.Dv, cases[i].kernel);
        if (a->config.lse)
            same(a->got.lse, b->got.lse, rows, cases[i].kernel);
        if (a->config.weights)
            same(a->got.weights, b->got.weights, rows * a->config.M, cases[i].kernel);
        oracle_free(a);
        oracle_free(b);
    }
    clattn_context_destroy(bounded);
    clattn_context_destroy(unbounded);
}

static const struct {
    const char *algorithm, *kernel;
} backward[] = {{"fused_lanes", "attention_lanes_backward"},
                {"fused_tiles", "attention_tiles_keys"},
                {"fused_tiles", "attention_tiles_queries"},
                {"fused_tiles", "attention_tiles_bias"},
                {"materialised", "clblast_gemm"}};

Test(launch_bound, gradients_too) {
    clattn_context *bounded = opened(SHORTEST), *unbounded = opened(-1);
    const oracle_config config = {.B = 2, .H = 4, .Hk = 2, .N = 150, .M = 140, .D = 16, .bias = {2, 3}, .sinks = true};
    for (size_t i = 0; i < sizeof backward / sizeof *backward; i++) {
        char text[ORACLE_TEXT] = "";
        double operations;
        oracle_case *c = oracle_make(&config);
        cr_assert_not_null(c);
        oracle_backward *a = oracle_backward_make(c), *b = oracle_backward_make(c);
        cr_assert(a && b && oracle_exact(c, text) && oracle_backward_exact(a, text), "%s", text);
        clattn_context_profile_reset(bounded);
        clattn_context_profile_reset(unbounded);
        cr_assert(oracle_backward_run(a, bounded, "fused_lanes", backward[i].algorithm, text), "%s", text);
        cr_expect(oracle_backward_compare(a, backward[i].algorithm, text), "%s", text);
        cr_assert(oracle_backward_run(b, unbounded, "fused_lanes", backward[i].algorithm, text), "%s", text);
        const uint64_t cut = launches(bounded, backward[i].kernel, &operations),
                       whole = launches(unbounded, backward[i].kernel, &operations);
        cr_expect(whole > 0 && cut >= 2 * whole, "%s: %d and %d launches", backward[i].kernel, (int)cut, (int)whole);
        const int64_t counts[ORACLE_GRADIENTS] = {2 * 4 * 150 * 16, 2 * 2 * 140 * 16, 2 * 2 * 140 * 16, 150 * 140, 4};
        for (int g = 0; g < ORACLE_GRADIENTS; g++)
            same(a->got.of[g], b->got.of[g], counts[g], backward[i].kernel);
        oracle_backward_free(a);
        oracle_backward_free(b);
        oracle_free(c);
    }
    clattn_context_destroy(bounded);
    clattn_context_destroy(unbounded);
}

/* ---- who sets it ---- */

static double bound_of(const char *environment, double launch_ms) {
    if (environment)
        setenv("CLATTN_LAUNCH_MS", environment, 1);
    else
        unsetenv("CLATTN_LAUNCH_MS");
    clattn_context *context = opened(launch_ms);
    const double seconds = context->launch_seconds;
    clattn_context_destroy(context);
    return seconds;
}

Test(launch_bound, the_option_comes_before_the_environment) {
    clattn_context *context = NULL;
    clattn_device_info info;
    clattn_context_options options = {.launch_ms = NAN};
    context = opened(0);
    SUCCEEDS(clattn_context_info(context, &info));
    clattn_context_destroy(context);
    cr_expect_eq(bound_of(NULL, 0), info.device_class == CLATTN_DEVICE_GPU ? 0.5 : 0);
    cr_expect_float_eq(bound_of(NULL, 250), 0.25, 1e-12);
    cr_expect_float_eq(bound_of("2000", 0), 2, 1e-12);
    cr_expect_float_eq(bound_of("2000", 250), 0.25, 1e-12);
    cr_expect_eq(bound_of("2000", -1), 0);
    cr_expect_eq(bound_of("-1", 0), 0);
    cr_expect_eq(bound_of("inf", 0), 0);
    FAILS(clattn_context_create("opencl", &options, &context), CLATTN_E_ARGUMENT, "launch_ms is NaN");
    cr_expect_null(context);
    static const char *const bad[] = {"ten", "10 ms", "nan", "1,5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        setenv("CLATTN_LAUNCH_MS", bad[i], 1);
        FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_ARGUMENT, bad[i]);
        FAILS(clattn_context_create("opencl", NULL, &context), CLATTN_E_ARGUMENT, "a number of milliseconds");
    }
}
