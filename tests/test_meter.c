/* SPDX-License-Identifier: Apache-2.0 */
/* What a device can do at most: that the kernels do the work that is counted, samples, sizes, errors. */
#include "args.h"
#include "runtime/launch.h"
#include "testing.h"
#include <clattn/measure.h>
#include <math.h>
#include <stdio.h>

static clattn_context *opened(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

static cla_kernel *kernel_of(clattn_context *context, const char *name, int lanes, int work_group, int chains) {
    cla_key key = cla_key_make("peak.cl", name);
    cla_kernel *kernel = NULL;
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "LANES", lanes);
    cla_key_define(&key, "WG", work_group);
    cla_key_define(&key, "CHAINS", chains);
    cla_key_define_text(&key, "HINT", "");
    SUCCEEDS(cla_kernel_create(context, &key, (size_t)work_group, &kernel));
    return kernel;
}

Test(meter, every_multiply_add_is_computed) {
    enum { LANES = 4, WG = 2, GROUPS = 3, CHAINS = 5, N = LANES * WG * GROUPS };
    clattn_context *context = opened();
    clattn_buffer *out = NULL;
    float got[N];
    cla_kernel *kernel = kernel_of(context, "peak_fma", LANES, WG, CHAINS);
    const cla_peak_args a = {.steps = 3, .factor = 1.0f, .addend = 1.0f}; /* counts */
    SUCCEEDS(clattn_buffer_create(context, sizeof got, &out));
    const cla_arg args[] = {CLA_ARG_BUFFER(out), CLA_ARG_VALUE(a)};
    SUCCEEDS(cla_launch(context, kernel, GROUPS, args, 2));
    SUCCEEDS(clattn_buffer_download(out, 0, got, sizeof got));
    for (int i = 0; i < N; i++) /* chains start at their number and that of the work-item; 4 multiply-adds a step */
        cr_expect_eq(got[i], (float)(CHAINS * (4 * 3 + i / LANES % WG) + 0 + 1 + 2 + 3 + 4), "%d: %g", i,
                     (double)got[i]);
    cla_kernel_destroy(kernel);
    clattn_buffer_destroy(out);
    clattn_context_destroy(context);
}

Test(meter, every_byte_is_read_once) {
    enum { LANES = 4, WG = 2, GROUPS = 3, CHAINS = 5, STEPS = 2, N = LANES * WG * GROUPS * CHAINS * STEPS };
    clattn_context *context = opened();
    clattn_buffer *x = NULL, *out = NULL;
    float numbers[N], got[LANES * WG * GROUPS];
    cla_kernel *kernel = kernel_of(context, "peak_read", LANES, WG, CHAINS);
    const cla_peak_args a = {.steps = STEPS};
    for (int i = 0; i < N; i++)
        numbers[i] = (float)(i + 1);
    SUCCEEDS(clattn_buffer_create(context, sizeof numbers, &x));
    SUCCEEDS(clattn_buffer_create(context, sizeof got, &out));
    SUCCEEDS(clattn_buffer_upload(x, 0, numbers, sizeof numbers));
    const cla_arg args[] = {CLA_ARG_BUFFER(x), CLA_ARG_BUFFER(out), CLA_ARG_VALUE(a)};
    SUCCEEDS(cla_launch(context, kernel, GROUPS, args, 3));
    SUCCEEDS(clattn_buffer_download(out, 0, got, sizeof got));
    double sum = 0, parts[GROUPS] = {0};
    for (int i = 0; i < LANES * WG * GROUPS; i++) {
        sum += (double)got[i];
        parts[i / (LANES * WG)] += (double)got[i];
    }
    cr_expect_eq(sum, N * (N + 1) / 2);
    for (int g = 0; g < GROUPS; g++) { /* numbers g * 80 + 1 to (g + 1) * 80 */
        const int n = N / GROUPS;
        cr_expect_eq(parts[g], n * (n * g) + n * (n + 1) / 2, "group %d", g);
    }
    cla_kernel_destroy(kernel);
    clattn_buffer_destroy(x);
    clattn_buffer_destroy(out);
    clattn_context_destroy(context);
}

Test(meter, samples_are_speeds) {
    clattn_context *context = opened();
    clattn_meter *meter = NULL;
    double gflops = 0, gbytes = 0;
    uint64_t current, peak;
    SUCCEEDS(clattn_meter_create(context, &meter));
    for (int i = 0; i < 2; i++) {
        SUCCEEDS(clattn_meter_fma(meter, &gflops));
        cr_expect(isfinite(gflops) && gflops > 0.01 && gflops < 1e7, "%g GFLOP/s", gflops);
    }
    const uint64_t sizes[] = {1, 383, 4 << 10, 1000003, 4 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        SUCCEEDS(clattn_meter_read(meter, sizes[i], &gbytes));
        cr_expect(isfinite(gbytes) && gbytes > 0 && gbytes < 1e6, "%g GB/s", gbytes);
    }
    clattn_context_memory(context, &current, &peak);
    cr_expect_geq(current, 4 << 20, "the bytes that are read lie somewhere");
    clattn_meter_destroy(meter);
    clattn_context_memory(context, &current, &peak);
    cr_expect_eq(current, 0);
    clattn_context_destroy(context);
}

Test(meter, the_peak_is_the_best_of_samples) {
    clattn_context *context = opened();
    clattn_device_info info;
    clattn_peak peak;
    SUCCEEDS(clattn_context_info(context, &info));
    SUCCEEDS(clattn_device_peak(context, &peak));
    cr_expect(peak.gflops > 0.01 && peak.gbytes > 0.01 && peak.cached_gbytes > 0.01);
    cr_expect(peak.cached_bytes < peak.memory_bytes && peak.memory_bytes <= info.max_alloc_bytes);
    clattn_context_destroy(context);
}

Test(meter, errors) {
    clattn_context *context = NULL;
    clattn_device_info info;
    clattn_meter *meter = (clattn_meter *)&context;
    clattn_peak peak = {.gflops = 1};
    double x;
    char text[100];
    FAILS(clattn_device_peak(NULL, NULL), CLATTN_E_ARGUMENT, "peak is NULL");
    FAILS(clattn_device_peak(NULL, &peak), CLATTN_E_ARGUMENT, "context is NULL");
    cr_expect_eq(peak.gflops, 0);
    FAILS(clattn_meter_create(NULL, NULL), CLATTN_E_ARGUMENT, "meter is NULL");
    FAILS(clattn_meter_create(NULL, &meter), CLATTN_E_ARGUMENT, "context is NULL");
    cr_expect_null(meter);
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    FAILS(clattn_meter_create(context, &meter), CLATTN_E_UNSUPPORTED, "the cpu context runs no kernels");
    FAILS(clattn_device_peak(context, &peak), CLATTN_E_UNSUPPORTED, "the cpu context runs no kernels");
    clattn_context_destroy(context);
    FAILS(clattn_meter_fma(NULL, &x), CLATTN_E_ARGUMENT, "meter is NULL");
    FAILS(clattn_meter_read(NULL, 0, &x), CLATTN_E_ARGUMENT, "meter is NULL");
    clattn_meter_destroy(NULL);
    context = opened();
    SUCCEEDS(clattn_context_info(context, &info));
    SUCCEEDS(clattn_meter_create(context, &meter));
    FAILS(clattn_meter_fma(meter, NULL), CLATTN_E_ARGUMENT, "gflops is NULL");
    FAILS(clattn_meter_read(meter, 0, NULL), CLATTN_E_ARGUMENT, "gbytes is NULL");
    snprintf(text, sizeof text, "%llu bytes are above the largest allocation",
             (unsigned long long)info.max_alloc_bytes + 1);
    FAILS(clattn_meter_read(meter, info.max_alloc_bytes + 1, &x), CLATTN_E_LIMIT, text);
    clattn_meter_destroy(meter);
    clattn_context_destroy(context);
}
