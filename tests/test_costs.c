/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile says that operations cost: the operations and bytes that their launches state. */
#include "oclgrind_ops.h"
#include "ops/axes.h"
#include "testing.h"
#include <clattn/clattn.h>

/* Operations of an element, or 0 where that is left open; whose problem says nothing of its cost moves nothing. */
static const struct {
    const char *name;
    double operations;
} known[] = {
    {"add", 2 * 3 * 9},
    {"gate", 3 * 71},
    {"softmax", 4 * 3 * 150},
    {"LayerNorm backward", 14 * 3 * 150 + 2 * 3 * 150}, /* and the sums of two gradients */
    {"gate backward", 8 * 3 * 71},
    {"softmax backward", 4 * 3 * 150},
    {"cross-entropy", 6 * 5 * 71},
    {"embed", 4 * 150},
    {"Adam", 14 * 3 * 71},
    {"SGD", 6 * 3 * 71},
    {"norm of gradients", 2 * (3 * 150 + 7 * 2 * 5)},
    {"turned rows", 0},
};
static const char *const silent[] = {"pool", "rotary", "cache", "cache of blocks", "merge", "embed backward"};

static bool is_silent(const char *name) {
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (strcmp(silent[i], name) == 0)
            return true;
    return false;
}

Test(costs, of_operations_are_those_of_their_elements) {
    const clattn_context_options options = {.profile = true};
    size_t found = 0;
    for (size_t i = 0; ops_name(i); i++) {
        clattn_context *context = NULL;
        clattn_profile_entry entries[16];
        size_t count = 0;
        double operations = 0, bytes = 0;
        SUCCEEDS(clattn_context_create("opencl", &options, &context));
        SUCCEEDS(ops_run(context, i, i / 6 % 2 == 0)); /* the kernels of test_faults_modules.c */
        SUCCEEDS(clattn_context_profile(context, entries, 16, &count));
        for (size_t k = 0; k < count && k < 16; k++) {
            operations += entries[k].operations;
            bytes += entries[k].moved_bytes;
        }
        for (size_t k = 0; k < sizeof known / sizeof *known; k++)
            if (strcmp(known[k].name, ops_name(i)) == 0) {
                found++;
                cr_expect_eq(operations, known[k].operations, "%s: %g operations, not %g", known[k].name, operations,
                             known[k].operations);
            }
        cr_expect_eq(bytes > 0, !is_silent(ops_name(i)), "%s: %g bytes", ops_name(i), bytes);
        clattn_context_destroy(context);
    }
    cr_expect_eq(found, sizeof known / sizeof *known);
}

/* Elements that a stride of 0 repeats are read once; blocks by their bytes. */
Test(costs, bytes_of_tensors_are_those_that_lie_there) {
    clattn_tensor row = clattn_tensor_buffer(NULL, CLATTN_F32, 1, (const int64_t[]){64});
    clattn_tensor blocks = clattn_tensor_buffer(NULL, CLATTN_Q8_0, 1, (const int64_t[]){64});
    clattn_tensor spread = row, none = {0};
    spread.rank = 2;
    spread.shape[1] = 7;
    cr_expect_eq(cla_axes_bytes((clattn_tensor *[]){&row}, 1), 256.0);
    cr_expect_eq(cla_axes_bytes((clattn_tensor *[]){&spread, &none}, 2), 256.0);
    cr_expect_eq(cla_axes_bytes((clattn_tensor *[]){&blocks}, 1), 68.0);
    cr_expect_eq(cla_axes_bytes((clattn_tensor *[]){&none}, 1), 0.0);
    cr_expect_eq(cla_axes_bytes(NULL, 0), 0.0);
}

/* Lanes are those of the device's vectors, of 4 numbers at least, or 4 where it is no CPU. */
Test(costs, lanes_of_a_key_are_those_of_the_device) {
    static const struct {
        clattn_device_class class;
        uint32_t floats;
        clattn_dtype sums;
        const char *lanes;
    } of[] = {{CLATTN_DEVICE_CPU, 16, CLATTN_F32, "LANES=16"}, {CLATTN_DEVICE_CPU, 16, CLATTN_F64, "LANES=8"},
              {CLATTN_DEVICE_CPU, 8, CLATTN_F32, "LANES=8"},   {CLATTN_DEVICE_CPU, 8, CLATTN_F64, "LANES=4"},
              {CLATTN_DEVICE_CPU, 1, CLATTN_F32, "LANES=4"},   {CLATTN_DEVICE_GPU, 16, CLATTN_F32, "LANES=4"}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        const clattn_device_info info = {
            .device_class = of[i].class, .vector_floats = of[i].floats, .max_work_group = 64};
        const cla_key key = cla_axes_key(&info, "rows.cl", "norm_rows", of[i].sums, NULL, 0);
        cr_expect_not_null(strstr(key.options, of[i].lanes), "%zu: %s", i, key.options);
    }
}
