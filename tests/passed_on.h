/* SPDX-License-Identifier: Apache-2.0 */
/* What a call calls fails, one after another (the linker wraps it): the failure is passed on with its text, nothing is
 * left behind, and then the same call succeeds. For test_passed_modules.c, which computes on `cpu`, and
 * test_passed_ops.c, which goes to an OpenCL device whose kernels and products are neither built nor run.
 * tests/faults/ lets the device itself fail. */
#ifndef PASSED_ON_H
#define PASSED_ON_H

#include "base/error.h"
#include "errors.h"
#include "op_arrays.h"
#include "ops/staging.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include <clattn/clattn.h>
#include <clblast_c.h>

/* ---- what is wrapped ---- */

static struct {
    long calls, at; /* number `at` fails */
    bool memory;    /* it was an array of the host */
    bool kernels;   /* kernels are objects, of nothing */
    bool others;    /* without memory for a kernel there are others */
} now = {.at = -1};

static bool fails(void) { return now.calls++ == now.at; }
static clattn_status failed(void) { return cla_error(CLATTN_E_MEMORY, "made to fail"); }

clattn_status __real_clattn_linear(clattn_context *context, const clattn_linear_args *args);
clattn_status __wrap_clattn_linear(clattn_context *context, const clattn_linear_args *args) {
    return fails() ? failed() : __real_clattn_linear(context, args);
}
clattn_status __real_clattn_linear_backward(clattn_context *context, const clattn_linear_backward_args *args);
clattn_status __wrap_clattn_linear_backward(clattn_context *context, const clattn_linear_backward_args *args) {
    return fails() ? failed() : __real_clattn_linear_backward(context, args);
}
clattn_status __real_clattn_activate(clattn_context *context, const clattn_activate_args *args);
clattn_status __wrap_clattn_activate(clattn_context *context, const clattn_activate_args *args) {
    return fails() ? failed() : __real_clattn_activate(context, args);
}
clattn_status __real_clattn_activate_backward(clattn_context *context, const clattn_activate_backward_args *args);
clattn_status __wrap_clattn_activate_backward(clattn_context *context, const clattn_activate_backward_args *args) {
    return fails() ? failed() : __real_clattn_activate_backward(context, args);
}
clattn_status __real_clattn_norm(clattn_context *context, const clattn_norm_args *args);
clattn_status __wrap_clattn_norm(clattn_context *context, const clattn_norm_args *args) {
    return fails() ? failed() : __real_clattn_norm(context, args);
}
clattn_status __real_clattn_norm_backward(clattn_context *context, const clattn_norm_backward_args *args);
clattn_status __wrap_clattn_norm_backward(clattn_context *context, const clattn_norm_backward_args *args) {
    return fails() ? failed() : __real_clattn_norm_backward(context, args);
}
clattn_status __real_clattn_add(clattn_context *context, const clattn_add_args *args);
clattn_status __wrap_clattn_add(clattn_context *context, const clattn_add_args *args) {
    return fails() ? failed() : __real_clattn_add(context, args);
}
clattn_status __real_clattn_sum(clattn_context *context, const clattn_sum_args *args);
clattn_status __wrap_clattn_sum(clattn_context *context, const clattn_sum_args *args) {
    return fails() ? failed() : __real_clattn_sum(context, args);
}
clattn_status __real_clattn_attention(clattn_context *context, const clattn_attention_args *args);
clattn_status __wrap_clattn_attention(clattn_context *context, const clattn_attention_args *args) {
    return fails() ? failed() : __real_clattn_attention(context, args);
}
clattn_status __real_clattn_attention_backward(clattn_context *context, const clattn_attention_backward_args *args);
clattn_status __wrap_clattn_attention_backward(clattn_context *context, const clattn_attention_backward_args *args) {
    return fails() ? failed() : __real_clattn_attention_backward(context, args);
}

clattn_status __real_cla_alloc(size_t count, size_t size, const char *what, void *out);
clattn_status __wrap_cla_alloc(size_t count, size_t size, const char *what, void *out) {
    if (!fails())
        return __real_cla_alloc(count, size, what, out);
    now.memory = true;
    *(void **)out = NULL;
    return failed();
}

clattn_status __real_clattn_buffer_create(clattn_context *context, size_t bytes, clattn_buffer **buffer);
clattn_status __wrap_clattn_buffer_create(clattn_context *context, size_t bytes, clattn_buffer **buffer) {
    if (!fails())
        return __real_clattn_buffer_create(context, bytes, buffer);
    *buffer = NULL;
    return failed();
}

clattn_status __real_cla_buffer_create_from(clattn_context *context, const void *data, size_t bytes,
                                            clattn_buffer **buffer);
clattn_status __wrap_cla_buffer_create_from(clattn_context *context, const void *data, size_t bytes,
                                            clattn_buffer **buffer) {
    if (!fails())
        return __real_cla_buffer_create_from(context, data, bytes, buffer);
    *buffer = NULL;
    return failed();
}

clattn_status __real_clattn_buffer_upload(clattn_buffer *buffer, size_t offset, const void *data, size_t bytes);
clattn_status __wrap_clattn_buffer_upload(clattn_buffer *buffer, size_t offset, const void *data, size_t bytes) {
    return fails() ? failed() : __real_clattn_buffer_upload(buffer, offset, data, bytes);
}

clattn_status __real_clattn_buffer_download(const clattn_buffer *buffer, size_t offset, void *data, size_t bytes);
clattn_status __wrap_clattn_buffer_download(const clattn_buffer *buffer, size_t offset, void *data, size_t bytes) {
    return fails() ? failed() : __real_clattn_buffer_download(buffer, offset, data, bytes);
}

clattn_status __real_cla_staging_begin(clattn_context *context, const cla_staged *tensors, size_t count,
                                       cla_staging *staging);
clattn_status __wrap_cla_staging_begin(clattn_context *context, const cla_staged *tensors, size_t count,
                                       cla_staging *staging) {
    if (!fails())
        return __real_cla_staging_begin(context, tensors, count, staging);
    *staging = (cla_staging){.context = context};
    return failed();
}

/* Nothing is built. */
clattn_status __wrap_cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group,
                                       cla_kernel **kernel) {
    (void)context, (void)key, (void)work_group;
    *kernel = NULL;
    if (fails()) {
        now.memory = now.others;
        return failed();
    }
    return now.kernels ? __real_cla_alloc(1, sizeof **kernel, "kernel", kernel) : CLATTN_OK;
}
clattn_status __wrap_cla_launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_arg *args,
                                int count) {
    (void)context, (void)kernel, (void)groups, (void)args, (void)count;
    return fails() ? failed() : CLATTN_OK;
}
clattn_status __wrap_cla_queue_begin(clattn_context *context, cl_uint count, const cl_event *events) {
    (void)context, (void)count, (void)events;
    return fails() ? failed() : CLATTN_OK;
}
clattn_status __wrap_cla_queue_barrier(clattn_context *context) {
    (void)context;
    return fails() ? failed() : CLATTN_OK;
}
void __wrap_cla_kernel_cost(cla_kernel *kernel, double operations, double moved_bytes) {
    (void)kernel, (void)operations, (void)moved_bytes;
}
cl_int __wrap_clFlush(cl_command_queue queue) {
    (void)queue;
    return fails() ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
}
cl_int __wrap_clEnqueueFillBuffer(cl_command_queue queue, cl_mem memory, const void *pattern, size_t pattern_size,
                                  size_t offset, size_t size, cl_uint count, const cl_event *events, cl_event *event) {
    (void)queue, (void)memory, (void)pattern, (void)pattern_size, (void)offset, (void)size;
    (void)count, (void)events, (void)event;
    return fails() ? CL_OUT_OF_HOST_MEMORY : CL_SUCCESS;
}
CLBlastStatusCode __wrap_CLBlastSgemmStridedBatched(CLBlastLayout layout, CLBlastTranspose ta, CLBlastTranspose tb,
                                                    size_t m, size_t n, size_t k, float alpha, cl_mem a, size_t a_0,
                                                    size_t lda, size_t step_a, cl_mem b, size_t b_0, size_t ldb,
                                                    size_t step_b, float beta, cl_mem c, size_t c_0, size_t ldc,
                                                    size_t step_c, size_t count, cl_command_queue *queue,
                                                    cl_event *event) {
    (void)layout, (void)ta, (void)tb, (void)m, (void)n, (void)k, (void)alpha, (void)a, (void)a_0, (void)lda;
    (void)step_a, (void)b, (void)b_0, (void)ldb, (void)step_b, (void)beta, (void)c, (void)c_0, (void)ldc;
    (void)step_c, (void)count, (void)queue, (void)event;
    return fails() ? CLBlastInvalidDimension : CLBlastSuccess;
}
CLBlastStatusCode __wrap_CLBlastOverrideParameters(cl_device_id device, const char *kernel, CLBlastPrecision precision,
                                                   size_t count, const char **names, const size_t *values) {
    (void)device, (void)kernel, (void)precision, (void)count, (void)names, (void)values;
    return fails() ? CLBlastInvalidDimension : CLBlastSuccess;
}

/* ---- each in its turn ---- */

/* Until one run has no call left to fail. Without an array it may go on in another way, as without the tuner's record.
 */
static void sweep(const char *name, clattn_context *context, clattn_status (*run)(clattn_context *context)) {
    enum { MOST = 3000 };
    long at = 0;
    for (bool over = false; !over && at < MOST; at++) {
        now.calls = 0, now.at = at, now.memory = false;
        const clattn_status status = run(context);
        const bool named = status == CLATTN_E_MEMORY || status == CLATTN_E_CLBLAST;
        over = now.calls <= at;
        now.at = -1;
        const bool right = over ? status == CLATTN_OK : named || (now.memory && status == CLATTN_OK);
        cr_expect(right, "%s, call %ld: %s, %s", name, at, clattn_status_name(status), clattn_last_error());
        clattn_context_trim(context);
    }
    cr_expect(at > 1 && at < MOST, "%s: %ld calls", name, at);
}

#endif
