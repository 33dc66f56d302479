/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand small calls of each kind: neither resident memory nor the number of OpenCL objects grows. The linker
 * puts a count in front of what makes and releases objects; the one call on host arrays is in test_plan_cache.c too. */
#define _XOPEN_SOURCE 700
#include "testing.h"
#include <CL/cl.h>
#include <clattn/clattn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CALLS = 10000, WARM = 500, E = 16, ROWS = 4, SIZE = E * ROWS, LEAST_PAGES = 384 };

/* ---- objects ---- */

static atomic_int buffers, kernels, programs;

#define COUNTED(type, name, counter, parameters, arguments)                                                            \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters {                                                                                    \
        counter;                                                                                                       \
        return __real_##name arguments;                                                                                \
    }
COUNTED(cl_mem, clCreateBuffer, buffers++, (cl_context c, cl_mem_flags f, size_t n, void *p, cl_int *e),
        (c, f, n, p, e))
COUNTED(cl_int, clReleaseMemObject, buffers--, (cl_mem m), (m))
COUNTED(cl_kernel, clCreateKernel, kernels++, (cl_program p, const char *n, cl_int *e), (p, n, e))
COUNTED(cl_int, clReleaseKernel, kernels--, (cl_kernel k), (k))
COUNTED(cl_program, clCreateProgramWithSource, programs++,
        (cl_context c, cl_uint n, const char **t, const size_t *l, cl_int *e), (c, n, t, l, e))
COUNTED(cl_int, clReleaseProgram, programs--, (cl_program p), (p))

/* ---- calls ---- */

typedef struct {
    clattn_context *context;
    clattn_buffer *buffers[4]; /* of q, k, v, o in the plan */
    clattn_plan *plan;
    clattn_multihead *multihead;
    clattn_feedforward *feedforward;
    float q[SIZE], k[SIZE], v[SIZE], o[SIZE], state[2 * ROWS], d_o[SIZE], d_q[SIZE], d_k[SIZE], d_v[SIZE];
    float matrix[4 * E * E];
} bench;

static clattn_tensor tensor(float *x, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return clattn_tensor_host(x, CLATTN_F32, 2, shape);
}

static clattn_attention_args arrays(bench *b) {
    return (clattn_attention_args){
        .q = tensor(b->q, ROWS, E), .k = tensor(b->k, ROWS, E), .v = tensor(b->v, ROWS, E), .o = tensor(b->o, ROWS, E)};
}

static void one_call(bench *b) {
    const clattn_attention_args args = arrays(b);
    SUCCEEDS(clattn_attention(b->context, &args));
}

static void plan_call(bench *b) {
    SUCCEEDS(clattn_plan_execute(b->plan, NULL));
    SUCCEEDS(clattn_context_sync(b->context));
}

static void module_call(bench *b) {
    const clattn_tensor x = tensor(b->q, ROWS, E), y = tensor(b->o, ROWS, E);
    const clattn_multihead_args args = {.query = x, .y = y};
    SUCCEEDS(clattn_multihead_run(b->multihead, &args));
    SUCCEEDS(clattn_feedforward_run(b->feedforward, &y, &y));
}

static void backward_call(bench *b) {
    clattn_attention_backward_args args = {.forward = arrays(b),
                                           .d_o = tensor(b->d_o, ROWS, E),
                                           .d_q = tensor(b->d_q, ROWS, E),
                                           .d_k = tensor(b->d_k, ROWS, E),
                                           .d_v = tensor(b->d_v, ROWS, E)};
    args.forward.state = tensor(b->state, ROWS, 2);
    SUCCEEDS(clattn_attention_backward(b->context, &args));
}

static const struct {
    const char *name;
    void (*call)(bench *b);
    int calls;
} kinds[] = {{"one call", one_call, CALLS},
             {"plan", plan_call, CALLS},
             {"modules", module_call, CALLS / 5}, /* ten kernels and more */
             {"backward", backward_call, CALLS / 5}};

static void set_up(bench *b, const char *device) {
    clattn_device_info info;
    if (clattn_context_create(device, NULL, &b->context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    cr_assert_not_null(b->context, "%s", clattn_last_error());
    for (int i = 0; i < 4 * E * E; i++)
        b->matrix[i] = (float)(i % 7) / 16;
    for (int i = 0; i < SIZE; i++)
        b->q[i] = b->k[i] = b->v[i] = b->d_o[i] = (float)(i % 5) / 4;
    SUCCEEDS(clattn_context_info(b->context, &info));
    clattn_attention_args args = arrays(b), with_state = args;
    clattn_tensor *const tensors[] = {&args.q, &args.k, &args.v, &args.o};
    for (int i = 0; info.is_opencl && i < 4; i++) {
        SUCCEEDS(clattn_buffer_create(b->context, SIZE * sizeof(float), &b->buffers[i]));
        SUCCEEDS(clattn_buffer_upload(b->buffers[i], 0, b->q, SIZE * sizeof(float)));
        tensors[i]->host = NULL;
        tensors[i]->buffer = b->buffers[i];
    }
    SUCCEEDS(clattn_plan_create(b->context, &args, &b->plan));
    with_state.state = tensor(b->state, ROWS, 2);
    SUCCEEDS(clattn_attention(b->context, &with_state));
    const clattn_multihead_weights heads = {.in_proj = tensor(b->matrix, 3 * E, E), .out = tensor(b->matrix, E, E)};
    const clattn_multihead_options options = {.heads = 2};
    const clattn_feedforward_weights inner = {.linear1 = tensor(b->matrix, 2 * E, E),
                                              .linear2 = tensor(b->matrix, E, 2 * E)};
    const clattn_feedforward_options relu = {0};
    SUCCEEDS(clattn_multihead_create(b->context, &heads, &options, &b->multihead));
    SUCCEEDS(clattn_feedforward_create(b->context, &inner, &relu, &b->feedforward));
}

static void tear_down(bench *b) {
    clattn_multihead_destroy(b->multihead);
    clattn_feedforward_destroy(b->feedforward);
    clattn_plan_destroy(b->plan);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(b->buffers[i]);
    clattn_context_destroy(b->context);
}

/* Pages in memory. */
static long resident(void) {
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return pages;
}

static void grows_not(const char *device) {
    static bench b;
    set_up(&b, device);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (int i = 0; i < WARM; i++)
            kinds[kind].call(&b);
        const int before[] = {buffers, kernels, programs};
        const long pages = resident();
        for (int i = 0; i < kinds[kind].calls; i++)
            kinds[kind].call(&b);
        const int after[] = {buffers, kernels, programs};
        cr_expect_arr_eq(after, before, sizeof after, "%s on %s: %d buffers, %d kernels, %d programs more",
                         kinds[kind].name, device, after[0] - before[0], after[1] - before[1], after[2] - before[2]);
        const long more = resident() - pages;
        cr_expect_lt(more, LEAST_PAGES, "%s on %s: %ld pages more", kinds[kind].name, device, more);
    }
    tear_down(&b);
}

Test(growth, ten_thousand_calls_on_opencl) {
    grows_not("opencl");
    cr_expect_eq(buffers, 0, "%d buffers are left", buffers);
    cr_expect_eq(kernels, 0, "%d kernels are left", kernels);
    cr_expect_eq(programs, 0, "%d programs are left", programs);
}

Test(growth, ten_thousand_calls_on_the_cpu) { grows_not("cpu"); }
