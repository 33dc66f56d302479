/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is lost to its context (case G12): what tells it, what is refused then, and that a new context works.
 */
#include "faults/faults.h"
#include "oracle.h"
#include "testing.h"

#include <CL/cl.h>
#include <clattn/clattn.h>
#include <stdio.h>

enum { N = 5, H = 2, D = 8, NUMBERS = H * N * D };

static float numbers[2 * NUMBERS], result[NUMBERS];

static clattn_attention_args arguments(void) {
    const int64_t shape[] = {1, H, N, D};
    for (int i = 0; i < 2 * NUMBERS; i++)
        numbers[i] = (float)(i % 7) / 8;
    clattn_attention_args a = {.q = clattn_tensor_host(numbers, CLATTN_F32, 4, shape),
                               .k = clattn_tensor_host(numbers + NUMBERS, CLATTN_F32, 4, shape),
                               .o = clattn_tensor_host(result, CLATTN_F32, 4, shape),
                               .algorithm = "fused_lanes"};
    a.v = a.k;
    return a;
}

static clattn_context *opened(void) {
    const clattn_context_options options = {.profile = true};
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", &options, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert(context, "%s", clattn_last_error());
    return context;
}

/* One call on host arrays, bytes there and back, and the profile. */
static clattn_status work(clattn_context *context) {
    const clattn_attention_args a = arguments();
    clattn_profile_entry entries[4];
    clattn_buffer *buffer = NULL;
    size_t count = 0;
    clattn_status status = clattn_attention(context, &a);
    if (status == CLATTN_OK)
        status = clattn_buffer_create(context, sizeof numbers, &buffer);
    if (status == CLATTN_OK)
        status = clattn_buffer_upload(buffer, 0, numbers, sizeof numbers);
    if (status == CLATTN_OK)
        status = clattn_buffer_download(buffer, 0, numbers, sizeof numbers);
    if (status == CLATTN_OK)
        status = clattn_context_profile(context, entries, 4, &count);
    clattn_buffer_destroy(buffer);
    return status;
}

static const struct {
    const char *function;
    int code;
    clattn_status status;
} cases[] = {
    {"clFinish", CL_OUT_OF_RESOURCES, CLATTN_E_DEVICE_LOST},
    {"clFinish", CL_INVALID_COMMAND_QUEUE, CLATTN_E_DEVICE_LOST},
    {"clFinish", CL_DEVICE_NOT_AVAILABLE, CLATTN_E_DEVICE_LOST},
    {"clFinish", -9999, CLATTN_E_DEVICE_LOST},
    {"clFinish", CL_OUT_OF_HOST_MEMORY, CLATTN_E_MEMORY},
    {"clWaitForEvents", CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CLATTN_E_DEVICE_LOST},
    {"clWaitForEvents", CL_OUT_OF_HOST_MEMORY, CLATTN_E_MEMORY},
    {"clEnqueueReadBuffer", CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, CLATTN_E_DEVICE_LOST},
    {"clEnqueueReadBuffer", CL_OUT_OF_RESOURCES, CLATTN_E_DEVICE_LOST},
    {"clEnqueueReadBuffer", CL_MEM_OBJECT_ALLOCATION_FAILURE, CLATTN_E_MEMORY},
    {"clEnqueueWriteBuffer", CL_OUT_OF_RESOURCES, CLATTN_E_DEVICE_LOST},
    {"clEnqueueNDRangeKernel", CL_OUT_OF_RESOURCES, CLATTN_E_MEMORY},
    {"clEnqueueNDRangeKernel", CL_INVALID_COMMAND_QUEUE, CLATTN_E_DEVICE_LOST},
    {"clCreateBuffer", CL_OUT_OF_RESOURCES, CLATTN_E_MEMORY},
};

Test(faults_lost, G12_what_waits_tells_it_and_what_enqueues_does_not) {
    char live[200];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const faults_plan plan = {.at = 1, .code = cases[i].code, .only = cases[i].function};
        const bool lost = cases[i].status == CLATTN_E_DEVICE_LOST;
        clattn_context *context = opened();
        char part[40];
        snprintf(part, sizeof part, "OpenCL %d (", cases[i].code);
        faults_arm(&plan);
        FAILS(work(context), cases[i].status, part);
        cr_expect(!strstr(clattn_last_error(), "earlier"), "the first failure is not told: %s", clattn_last_error());
        faults_arm(NULL);
        cr_expect_eq(work(context), lost ? CLATTN_E_DEVICE_LOST : CLATTN_OK, "%s %d, then: %s", cases[i].function,
                     cases[i].code, clattn_last_error());
        if (lost)
            FAILS(work(context), CLATTN_E_DEVICE_LOST, part);
        clattn_context_destroy(context);
        cr_expect_eq(faults_live(false, live, sizeof live), 0, "%s %d: left behind: %s", cases[i].function,
                     cases[i].code, live);
    }
}

/* What stands before the loss, and is used after it. */
typedef struct {
    clattn_context *context;
    clattn_buffer *buffer;
    clattn_tensor matrix, product;
    clattn_attention_args args;
    clattn_plan *plan;
    clattn_meter *meter;
} things;

static things made(void) {
    const int64_t shape[] = {1, H, N, D}, rows[] = {H * N, D}, squares[] = {H * N, H * N};
    things t = {.context = opened()};
    SUCCEEDS(clattn_buffer_create(t.context, 4 * sizeof numbers, &t.buffer));
    SUCCEEDS(clattn_buffer_upload(t.buffer, 0, numbers, sizeof numbers));
    t.matrix = clattn_tensor_buffer(t.buffer, CLATTN_F32, 2, rows);
    t.product = clattn_tensor_buffer(t.buffer, CLATTN_F32, 2, squares);
    t.args.q = t.args.k = t.args.v = t.args.o = clattn_tensor_buffer(t.buffer, CLATTN_F32, 4, shape);
    t.args.o.offset = t.product.offset = NUMBERS;
    SUCCEEDS(clattn_plan_create(t.context, &t.args, &t.plan));
    SUCCEEDS(clattn_meter_create(t.context, &t.meter));
    return t;
}

static void use_all(const things *t) {
    const clattn_attention_args host = arguments();
    clattn_profile_entry entry;
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    clattn_context *context = t->context;
    double rate = 0;
    size_t count = 0;
    const clattn_linear_args linear = {.x = t->matrix, .w = t->matrix, .y = t->product};
    const clattn_norm_args norm = {.x = t->matrix, .y = t->matrix};
    FAILS(clattn_context_sync(context), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_attention(context, &host), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_attention(context, &t->args), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_plan_create(context, &t->args, &plan), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_plan_execute(t->plan, NULL), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_linear(context, &linear), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_norm(context, &norm), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_buffer_create(context, 4, &buffer), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_buffer_upload(t->buffer, 0, numbers, 4), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_buffer_download(t->buffer, 0, numbers, 4), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_meter_read(t->meter, 4096, &rate), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_context_profile(context, &entry, 1, &count), CLATTN_E_DEVICE_LOST, "make a new one");
    FAILS(clattn_context_save_programs(context), CLATTN_E_DEVICE_LOST, "make a new one");
}

Test(faults_lost, G12_every_later_call_is_refused_and_nothing_is_left) {
    static const char *const begins[] = {"clEnqueue", "clCreate", "clBuild", "clSetKernelArg", "CLBlast"};
    const faults_plan plan = {.at = 1, .code = CL_OUT_OF_RESOURCES, .only = "clFinish"};
    char live[200];
    things t = made();
    faults_arm(&plan);
    FAILS(clattn_context_sync(t.context), CLATTN_E_DEVICE_LOST, "clFinish: OpenCL -5 (CL_OUT_OF_RESOURCES): ");
    faults_arm(NULL);
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        faults_arm(&(faults_plan){.at = 1 << 30, .only = begins[i]});
        use_all(&t);
        cr_expect_eq(faults_now().calls, 0, "%s: %d calls on a lost device", begins[i], faults_now().calls);
    }
    faults_arm(NULL);
    clattn_meter_destroy(t.meter);
    clattn_plan_destroy(t.plan);
    clattn_buffer_destroy(t.buffer);
    clattn_context_destroy(t.context);
    cr_expect_eq(faults_live(false, live, sizeof live), 0, "left behind: %s", live);
    cr_expect_eq(faults_now().strays, 0);
    clattn_context *context = opened();
    SUCCEEDS(work(context));
    clattn_context_destroy(context);
}
