/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's own OpenCL context, queue, memory and events. */
#define _XOPEN_SOURCE 700 /* nanosleep */
#include "oracle_internal.h"
#include "own_queue.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum { B = 2, H = 2, N = 19, D = 16, COUNT = B * H * N * D };

static cl_uint references(cl_mem memory) {
    cl_uint n = 0;
    clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof n, &n, NULL);
    return n;
}

/* References but the caller's. PoCL's threads may let go of a command's memory a little later than clFinish waits. */
static cl_uint references_left(cl_mem memory) {
    for (int i = 0; i < 500 && references(memory) != 1; i++)
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    return references(memory) - 1;
}

/* A problem, its tensors in memory objects of the caller's, and a plan over them. */
typedef struct {
    oracle_case *c;
    clattn_context *context;
    cl_mem memory[4];
    clattn_buffer *buffers[4];
    clattn_attention_args args;
    clattn_plan *plan;
} job;

static void open_job(job *j, const own *o, const char *algorithm, uint64_t seed) {
    static const int64_t shape[] = {B, H, N, D};
    const oracle_config config = {.B = B, .H = H, .N = N, .D = D, .seed = seed};
    char text[ORACLE_TEXT] = "";
    cl_int code;
    *j = (job){.c = oracle_make(&config)};
    cr_assert(oracle_exact(j->c, text), "%s", text);
    SUCCEEDS(clattn_context_from_opencl(o->context, o->queue, NULL, &j->context));
    clattn_tensor *tensors[] = {&j->args.q, &j->args.k, &j->args.v, &j->args.o};
    j->args.algorithm = algorithm;
    for (int t = 0; t < 4; t++) {
        j->memory[t] = clCreateBuffer(o->context, CL_MEM_READ_WRITE, COUNT * sizeof(float), NULL, &code);
        cr_assert_eq(code, CL_SUCCESS);
        SUCCEEDS(clattn_buffer_from_opencl(j->context, j->memory[t], &j->buffers[t]));
        *tensors[t] = clattn_tensor_buffer(j->buffers[t], CLATTN_F32, 4, shape);
    }
    SUCCEEDS(clattn_plan_create(j->context, &j->args, &j->plan));
}

static void close_job(job *j) {
    SUCCEEDS(clattn_context_sync(j->context)); /* what is in flight holds its memory */
    clattn_plan_destroy(j->plan);
    for (int t = 0; t < 4; t++) {
        clattn_buffer_destroy(j->buffers[t]);
        cr_expect_eq(references_left(j->memory[t]), 0, "memory object %d", t);
        clReleaseMemObject(j->memory[t]);
    }
    clattn_context_destroy(j->context);
    oracle_free(j->c);
}

/* Writes q, k and v, and spoils o. With events it does not wait, and the data lives in *staging until it is freed. */
static void write_inputs(const job *j, const own *o, float **staging, cl_event events[4]) {
    const double *values[] = {j->c->q, j->c->k, j->c->v};
    float *data = *staging = malloc(4 * COUNT * sizeof *data);
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < COUNT; i++)
            data[t * COUNT + i] = t < 3 ? (float)values[t][i] : 777;
        cr_assert_eq(clEnqueueWriteBuffer(o->queue, j->memory[t], events ? CL_FALSE : CL_TRUE, 0, COUNT * sizeof *data,
                                          data + t * COUNT, 0, NULL, events ? &events[t] : NULL),
                     CL_SUCCESS);
    }
}

/* Reads o after the event, by the caller's own call. */
static void read_output(job *j, const own *o, cl_event after) {
    float data[COUNT];
    cr_assert_eq(clEnqueueReadBuffer(o->queue, j->memory[3], CL_TRUE, 0, sizeof data, data, after ? 1 : 0,
                                     after ? &after : NULL, NULL),
                 CL_SUCCESS);
    for (int i = 0; i < COUNT; i++)
        j->c->got.o[i] = (double)data[i];
}

static void judge(const job *j) {
    char text[ORACLE_TEXT] = "";
    cr_expect(oracle_compare(j->c, j->args.algorithm, text), "%s", text);
}

/* ---- queues ---- */

static void plain(const own *o, const char *algorithm) {
    job j;
    float *staging;
    open_job(&j, o, algorithm, 1);
    for (int n = 0; n < 2; n++) {
        write_inputs(&j, o, &staging, NULL);
        SUCCEEDS(clattn_plan_execute(j.plan, NULL));
        read_output(&j, o, NULL); /* the queue is in order */
        judge(&j);
        free(staging);
    }
    close_job(&j);
}

Test(interop, an_in_order_queue_of_the_callers) {
    own o = {0};
    open_own(&o, 0);
    on_each_algorithm(&o, plain);
    close_own(&o);
}

/* Everything hangs together by events alone. */
static void chained(const own *o, const char *algorithm) {
    job j;
    float *staging;
    open_job(&j, o, algorithm, 2);
    for (int n = 0; n < 10; n++) {
        cl_event written[4], done = NULL;
        write_inputs(&j, o, &staging, written);
        SUCCEEDS(clattn_plan_enqueue(j.plan, NULL, 4, written, &done));
        cr_assert_not_null(done);
        read_output(&j, o, done);
        judge(&j);
        for (int t = 0; t < 4; t++)
            clReleaseEvent(written[t]);
        clReleaseEvent(done);
        free(staging);
    }
    close_job(&j);
}

Test(interop, an_out_of_order_queue_of_the_callers) {
    own o = {0};
    open_own(&o, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    on_each_algorithm(&o, chained);
    close_own(&o);
}

Test(interop, an_in_order_queue_takes_events_too) {
    own o = {0};
    open_own(&o, 0);
    on_each_algorithm(&o, chained);
    close_own(&o);
}

/* Case G19: the event is that of the last command, so that another queue may read behind it. */
static void read_elsewhere(const own *o, const char *algorithm) {
    job j;
    float *staging;
    cl_int code;
    own other = *o;
    other.queue = clCreateCommandQueue(o->context, o->device, 0, &code);
    cr_assert_eq(code, CL_SUCCESS);
    open_job(&j, o, algorithm, 4);
    for (int n = 0; n < 200; n++) {
        cl_event done = NULL;
        write_inputs(&j, o, &staging, NULL);
        SUCCEEDS(clattn_plan_enqueue(j.plan, NULL, 0, NULL, &done));
        cr_assert_not_null(done, "execution %d", n);
        clFlush(o->queue);
        read_output(&j, &other, done);
        judge(&j);
        clReleaseEvent(done);
        free(staging);
    }
    close_job(&j);
    clReleaseCommandQueue(other.queue);
}

Test(interop, another_queue_reads_behind_the_event_two_hundred_times) {
    own o = {0};
    open_own(&o, 0);
    on_each_algorithm(&o, read_elsewhere);
    close_own(&o);
}

/* Two executions at once would meet in the plan's scratch. */
static void in_a_row(const own *o, const char *algorithm) {
    job j;
    float *staging;
    cl_event written[4], done[5];
    open_job(&j, o, algorithm, 3);
    write_inputs(&j, o, &staging, written);
    for (int n = 0; n < 5; n++)
        SUCCEEDS(clattn_plan_enqueue(j.plan, NULL, n == 0 ? 4 : 0, n == 0 ? written : NULL, &done[n]));
    read_output(&j, o, done[4]);
    judge(&j);
    for (int n = 0; n < 5; n++) {
        cl_int state = CL_QUEUED;
        clGetEventInfo(done[n], CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
        cr_expect_eq(state, CL_COMPLETE, "execution %d ends before a later one", n);
        clReleaseEvent(done[n]);
    }
    for (int t = 0; t < 4; t++)
        clReleaseEvent(written[t]);
    free(staging);
    close_job(&j);
}

Test(interop, executions_of_a_plan_follow_each_other_on_an_out_of_order_queue) {
    own o = {0};
    open_own(&o, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    on_each_algorithm(&o, in_a_row);
    close_own(&o);
}

/* ---- events ---- */

/* The result must not be there before the caller's event, and must be soon after. */
static void waits(const own *o, const char *algorithm) {
    job j;
    float *staging, *mapped;
    cl_int code, state = CL_COMPLETE;
    cl_event gate, done = NULL;
    open_job(&j, o, algorithm, 4);
    write_inputs(&j, o, &staging, NULL);
    cl_command_queue watcher = clCreateCommandQueue(o->context, o->device, 0, &code);
    cr_assert_eq(code, CL_SUCCESS);
    gate = clCreateUserEvent(o->context, &code);
    cr_assert_eq(code, CL_SUCCESS);
    SUCCEEDS(clattn_plan_enqueue(j.plan, NULL, 1, &gate, &done));
    clFlush(o->queue);
    nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    clGetEventInfo(done, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    cr_expect_neq(state, CL_COMPLETE, "%s did not wait", algorithm);
    mapped =
        clEnqueueMapBuffer(watcher, j.memory[3], CL_TRUE, CL_MAP_READ, 0, COUNT * sizeof *mapped, 0, NULL, NULL, &code);
    cr_assert_eq(code, CL_SUCCESS);
    for (int i = 0; i < COUNT; i++)
        cr_assert_eq((double)mapped[i], 777, "%s wrote before the event", algorithm);
    clEnqueueUnmapMemObject(watcher, j.memory[3], mapped, 0, NULL, NULL);
    clFinish(watcher);
    cr_assert_eq(clSetUserEventStatus(gate, CL_COMPLETE), CL_SUCCESS);
    cr_assert_eq(clWaitForEvents(1, &done), CL_SUCCESS);
    read_output(&j, o, NULL);
    judge(&j);
    clReleaseEvent(done);
    clReleaseEvent(gate);
    clReleaseCommandQueue(watcher);
    free(staging);
    close_job(&j);
}

Test(interop, nothing_is_computed_before_the_callers_event) {
    own o = {0};
    open_own(&o, 0);
    on_each_algorithm(&o, waits);
    close_own(&o);
}

Test(interop, nothing_is_computed_before_the_callers_event_on_an_out_of_order_queue) {
    own o = {0};
    open_own(&o, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
    on_each_algorithm(&o, waits);
    close_own(&o);
}

/* ---- memory ---- */

/* All four tensors are sub-buffers of one memory object, with NaN between them. */
static void parts(const own *o, const char *algorithm) {
    static const int64_t shape[] = {B, H, N, D};
    enum { STEP = (COUNT * sizeof(float) / 4096 + 2) * 4096 };
    const oracle_config config = {.B = B, .H = H, .N = N, .D = D, .seed = 5};
    oracle_case *c = oracle_make(&config);
    char text[ORACLE_TEXT] = "";
    unsigned char *bytes = malloc(4 * STEP), *after = malloc(4 * STEP);
    cl_int code;
    cr_assert(oracle_exact(c, text), "%s", text);
    memset(bytes, 0xff, 4 * STEP);
    const double *values[] = {c->q, c->k, c->v};
    for (int t = 0; t < 3; t++)
        SUCCEEDS(clattn_convert(bytes + t * STEP, CLATTN_F32, values[t], CLATTN_F64, COUNT));
    cl_mem whole = clCreateBuffer(o->context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 4 * STEP, bytes, &code);
    cr_assert_eq(code, CL_SUCCESS);
    clattn_context *context = NULL;
    clattn_buffer *buffers[4] = {NULL};
    clattn_attention_args args = {.algorithm = algorithm};
    clattn_tensor *tensors[] = {&args.q, &args.k, &args.v, &args.o};
    SUCCEEDS(clattn_context_from_opencl(o->context, o->queue, NULL, &context));
    for (int t = 0; t < 4; t++) {
        const cl_buffer_region region = {(size_t)t * STEP, COUNT * sizeof(float)};
        cl_mem part = clCreateSubBuffer(whole, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
        cr_assert_eq(code, CL_SUCCESS);
        SUCCEEDS(clattn_buffer_from_opencl(context, part, &buffers[t]));
        clReleaseMemObject(part); /* the buffer keeps it */
        cr_assert_eq(clattn_buffer_bytes(buffers[t]), COUNT * sizeof(float));
        *tensors[t] = clattn_tensor_buffer(buffers[t], CLATTN_F32, 4, shape);
    }
    SUCCEEDS(clattn_attention(context, &args));
    SUCCEEDS(clattn_context_sync(context));
    cr_assert_eq(clEnqueueReadBuffer(o->queue, whole, CL_TRUE, 0, 4 * STEP, after, 0, NULL, NULL), CL_SUCCESS);
    SUCCEEDS(clattn_convert(c->got.o, CLATTN_F64, after + 3 * STEP, CLATTN_F32, COUNT));
    cr_expect(oracle_compare(c, algorithm, text), "%s", text);
    memcpy(after + 3 * STEP, bytes + 3 * STEP, COUNT * sizeof(float));
    cr_expect_eq(memcmp(after, bytes, 4 * STEP), 0, "%s wrote beside its output", algorithm);
    for (int t = 0; t < 4; t++)
        clattn_buffer_destroy(buffers[t]);
    clattn_context_destroy(context);
    clReleaseMemObject(whole);
    free(bytes);
    free(after);
    oracle_free(c);
}

Test(interop, sub_buffers_of_one_memory_object) {
    own o = {0};
    open_own(&o, 0);
    on_each_algorithm(&o, parts);
    close_own(&o);
}

Test(interop, a_buffer_shows_its_memory_object_and_keeps_it_alive) {
    own o = {0};
    clattn_context *context = NULL, *cpu = NULL;
    clattn_buffer *buffer = NULL, *host = NULL;
    cl_int code;
    open_own(&o, 0);
    cl_mem memory = clCreateBuffer(o.context, CL_MEM_READ_WRITE, 100, NULL, &code);
    SUCCEEDS(clattn_context_from_opencl(o.context, o.queue, NULL, &context));
    SUCCEEDS(clattn_buffer_from_opencl(context, memory, &buffer));
    cr_expect_eq(clattn_buffer_opencl(buffer), memory);
    cr_expect_eq(clattn_buffer_bytes(buffer), 100);
    cr_expect_eq(references(memory), 2);
    clattn_buffer_destroy(buffer);
    cr_expect_eq(references(memory), 1);
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    SUCCEEDS(clattn_buffer_create(cpu, 8, &host));
    cr_expect_null(clattn_buffer_opencl(host));
    cr_expect_null(clattn_buffer_opencl(NULL));
    clattn_buffer_destroy(host);
    clattn_context_destroy(cpu);
    clattn_context_destroy(context);
    clReleaseMemObject(memory);
    close_own(&o);
}

/* ---- refusals ---- */

Test(interop, a_queue_or_memory_of_another_context_is_refused) {
    own one = {0}, two = {0};
    clattn_context *context = (clattn_context *)&one, *cpu = NULL;
    clattn_buffer *buffer = (clattn_buffer *)&one;
    cl_int code;
    open_own(&one, 0);
    open_own(&two, 0);
    FAILS(clattn_context_from_opencl(one.context, two.queue, NULL, &context), CLATTN_E_ARGUMENT,
          "the queue belongs to another cl_context");
    cr_expect_null(context);
    FAILS(clattn_context_from_opencl(NULL, one.queue, NULL, &context), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_context_from_opencl(one.context, NULL, NULL, &context), CLATTN_E_ARGUMENT, "queue is NULL");
    FAILS(clattn_context_from_opencl(one.context, one.queue, NULL, NULL), CLATTN_E_ARGUMENT, "out is NULL");
    SUCCEEDS(clattn_context_from_opencl(one.context, one.queue, NULL, &context));
    cl_mem memory = clCreateBuffer(two.context, CL_MEM_READ_WRITE, 64, NULL, &code);
    FAILS(clattn_buffer_from_opencl(context, memory, &buffer), CLATTN_E_ARGUMENT,
          "the memory belongs to another cl_context");
    cr_expect_null(buffer);
    FAILS(clattn_buffer_from_opencl(context, NULL, &buffer), CLATTN_E_ARGUMENT, "memory is NULL");
    FAILS(clattn_buffer_from_opencl(context, memory, NULL), CLATTN_E_ARGUMENT, "buffer is NULL");
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    FAILS(clattn_buffer_from_opencl(cpu, memory, &buffer), CLATTN_E_UNSUPPORTED, "the cpu context holds no OpenCL");
    clattn_context_destroy(cpu);
    clattn_context_destroy(context);
    clReleaseMemObject(memory);
    close_own(&one);
    close_own(&two);
}

Test(interop, profiling_needs_a_queue_that_profiles) {
    const clattn_context_options options = {.profile = true};
    own without = {0}, with = {0};
    clattn_context *context = NULL;
    size_t count = 0;
    job j;
    float *staging;
    open_own(&without, 0);
    FAILS(clattn_context_from_opencl(without.context, without.queue, &options, &context), CLATTN_E_UNSUPPORTED,
          "profiling needs a queue made with CL_QUEUE_PROFILING_ENABLE");
    cr_expect_null(context);
    close_own(&without);
    open_own(&with, CL_QUEUE_PROFILING_ENABLE);
    SUCCEEDS(clattn_context_from_opencl(with.context, with.queue, &options, &context));
    SUCCEEDS(clattn_context_profile(context, NULL, 0, &count));
    cr_expect_eq(count, 0);
    clattn_context_destroy(context);
    open_job(&j, &with, NULL, 6); /* not asked for: then it is refused, whatever the queue can */
    write_inputs(&j, &with, &staging, NULL);
    SUCCEEDS(clattn_plan_execute(j.plan, NULL));
    FAILS(clattn_context_profile(j.context, NULL, 0, &count), CLATTN_E_UNSUPPORTED, "context_profile: ");
    free(staging);
    close_job(&j);
    close_own(&with);
}

/* PoCL's threads may hold a queue a little longer than clFinish waits. */
static cl_uint queue_references(cl_command_queue queue) {
    cl_uint count = 0;
    for (int i = 0; i < 500 && count != 1; i++) {
        const struct timespec pause = {.tv_nsec = i ? 10000000 : 0};
        nanosleep(&pause, NULL);
        clGetCommandQueueInfo(queue, CL_QUEUE_REFERENCE_COUNT, sizeof count, &count, NULL);
    }
    return count;
}

Test(interop, the_library_gives_back_every_context_and_queue) {
    own o = {0};
    cl_uint contexts = 0;
    job j;
    open_own(&o, 0);
    open_job(&j, &o, NULL, 7);
    SUCCEEDS(clattn_plan_execute(j.plan, NULL));
    close_job(&j);
    cr_expect_eq(queue_references(o.queue), 1);
    clGetContextInfo(o.context, CL_CONTEXT_REFERENCE_COUNT, sizeof contexts, &contexts, NULL);
    cr_expect_leq(contexts, 2, "one of ours, one of the queue's, at most");
    close_own(&o);
}

Test(interop, the_spec_of_a_wrapped_device_opens_the_same_one) {
    own o = {NULL, NULL, NULL};
    clattn_context *wrapped = NULL, *opened = NULL;
    clattn_device_info info, other;
    open_own(&o, 0);
    SUCCEEDS(clattn_context_from_opencl(o.context, o.queue, NULL, &wrapped));
    SUCCEEDS(clattn_context_info(wrapped, &info));
    cr_expect_eq(strncmp(info.spec, "opencl:", 7), 0, "\"%s\"", info.spec);
    SUCCEEDS(clattn_context_create(info.spec, NULL, &opened));
    SUCCEEDS(clattn_context_info(opened, &other));
    cr_expect_str_eq(other.name, info.name);
    cr_expect_str_eq(other.spec, info.spec);
    clattn_context_destroy(opened);
    clattn_context_destroy(wrapped);
    close_own(&o);
}
