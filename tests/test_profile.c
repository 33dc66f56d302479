/* SPDX-License-Identifier: Apache-2.0 */
/* Time per kernel: counts, order, names. */
#include "args.h"
#include "oracle.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include "testing.h"
#include <stdio.h>

static cla_key copy_key(int element, int work_group) {
    cla_key key = cla_key_make("copy.cl", "copy_strided");
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "ELEMENT", element);
    cla_key_define(&key, "WG", work_group);
    return key;
}

Test(profile, each_kernel_is_timed) {
    const clattn_context_options options = {.profile = true};
    const oracle_config config = {.B = 2, .H = 2, .N = 40, .D = 16, .layout = ORACLE_TRANSPOSED};
    clattn_context *context = NULL;
    oracle_case *c = oracle_make(&config);
    clattn_profile_entry entries[64], first;
    size_t count = 0, again = 0;
    char text[ORACLE_TEXT] = "";
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < 3; i++)
        cr_assert(oracle_check(c, context, "fused_lanes", text), "%s", text);
    SUCCEEDS(clattn_context_profile(context, entries, 64, &count));
    cr_assert_geq(count, 2);
    for (size_t i = 0; i < count; i++) {
        const clattn_profile_entry *e = &entries[i];
        cr_expect_gt(strlen(e->name), 0);
        cr_expect_eq(e->count % 3, 0, "%s ran %d times", e->name, (int)e->count);
        cr_expect(e->min_ms >= 0 && e->min_ms <= e->max_ms && e->max_ms <= e->total_ms, "%s", e->name);
        cr_expect(i == 0 || e->total_ms <= entries[i - 1].total_ms, "longest first");
        for (size_t j = 0; j < i; j++)
            cr_expect_str_neq(e->name, entries[j].name);
        if (strcmp(e->name, "attention_lanes") == 0) /* three runs, B H N M pairs, D multiply-adds there and Dv here */
            cr_expect_eq(e->operations, 3.0 * (2 * 2 * 40 * 40) * 2 * (16 + 16), "%g", e->operations);
        cr_expect_gt(e->moved_bytes, 0, "%s", e->name);
    }
    SUCCEEDS(clattn_context_profile(context, &first, 1, &again));
    cr_expect_eq(again, count);
    cr_expect_str_eq(first.name, entries[0].name);
    clattn_context_profile_reset(context);
    SUCCEEDS(clattn_context_profile(context, NULL, 0, &count));
    cr_expect_eq(count, 0);
    clattn_context_profile_reset(NULL);
    clattn_context_destroy(context);
    oracle_free(c);
}

/* More launches than events are kept for. */
Test(profile, many_launches_are_all_counted) {
    const clattn_context_options options = {.profile = true};
    clattn_context *context = NULL;
    cla_kernel *kernel = NULL;
    clattn_buffer *buffer = NULL;
    clattn_profile_entry entry;
    size_t count = 0;
    const cla_key key = copy_key(4, 64);
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    SUCCEEDS(cla_kernel_create(context, &key, 64, &kernel));
    SUCCEEDS(clattn_buffer_create(context, 64, &buffer));
    const cla_copy_args copy = {0}; /* of nothing */
    const cla_arg args[] = {CLA_ARG_BUFFER(buffer), CLA_ARG_BUFFER(buffer), CLA_ARG_VALUE(copy)};
    for (int i = 0; i < 1300; i++)
        SUCCEEDS(cla_launch(context, kernel, 1, args, 3));
    SUCCEEDS(cla_launch(context, kernel, 0, args, 3)); /* no groups, no launch */
    SUCCEEDS(clattn_context_profile(context, &entry, 1, &count));
    cr_assert_eq(count, 1);
    cr_expect_str_eq(entry.name, "copy_strided");
    cr_expect_eq(entry.count, 1300, "%d", (int)entry.count);
    cla_kernel_destroy(kernel);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

Test(profile, more_kernels_than_any_plan_has_keep_their_names) {
    enum { NAMES = 150 };
    static clattn_profile_entry entries[NAMES];
    const clattn_context_options options = {.profile = true};
    clattn_context *context = NULL;
    size_t count = 0;
    cl_int code = CL_SUCCESS;
    if (clattn_context_create("opencl", &options, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < 2 * NAMES; i++) {
        cl_event event = NULL;
        char name[16];
        snprintf(name, sizeof name, "kernel_%d", i % NAMES);
        code = clEnqueueMarkerWithWaitList(context->queue, 0, NULL, &event);
        cr_assert_eq(code, CL_SUCCESS);
        cla_profile_add(context, name, event, 3, 5);
    }
    SUCCEEDS(clattn_context_profile(context, entries, NAMES, &count));
    cr_assert_eq(count, NAMES, "%zu", count);
    for (size_t i = 0; i < count; i++)
        cr_expect(entries[i].count == 2 && entries[i].operations == 6 && entries[i].moved_bytes == 10, "%s: %d",
                  entries[i].name, (int)entries[i].count);
    clattn_context_destroy(context);
}

Test(profile, a_context_that_does_not_profile_says_so) {
    const clattn_context_options options = {.profile = true};
    clattn_context *context = NULL;
    clattn_profile_entry entry;
    size_t count = 0;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    FAILS(clattn_context_profile(context, &entry, 1, &count), CLATTN_E_UNSUPPORTED,
          "made without clattn_context_options.profile");
    FAILS(clattn_context_profile(NULL, &entry, 1, &count), CLATTN_E_ARGUMENT, "context, count or entries is NULL");
    FAILS(clattn_context_profile(context, NULL, 1, &count), CLATTN_E_ARGUMENT, "context, count or entries is NULL");
    clattn_context_destroy(context);
    SUCCEEDS(clattn_context_create("cpu", &options, &context));
    FAILS(clattn_context_profile(context, &entry, 1, &count), CLATTN_E_UNSUPPORTED, "the cpu context has no kernels");
    clattn_context_destroy(context);
}
