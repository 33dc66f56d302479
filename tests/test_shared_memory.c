/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers over the same memory of the caller's, and over memory for reading or writing alone. No kernel is built. */
#include "own_queue.h"
#include "testing.h"
#include <clattn/attention.h>
#include <clattn/backward.h>
#include <clattn/ops.h>
#include <clattn/train.h>

enum { PART = 4096, ROW = PART / 2 / (int)sizeof(float) }; /* bytes: a multiple of any base address; half of it */

static clattn_buffer *wrapped(clattn_context *context, cl_mem memory) {
    clattn_buffer *buffer = NULL;
    SUCCEEDS(clattn_buffer_from_opencl(context, memory, &buffer));
    clReleaseMemObject(memory); /* the buffer holds it */
    return buffer;
}

static cl_mem memory_of(const own *o, cl_mem_flags flags, void *host) {
    cl_int code;
    cl_mem memory = clCreateBuffer(o->context, flags, (size_t)2 * PART, host, &code);
    cr_assert_eq(code, CL_SUCCESS);
    return memory;
}

static cl_mem part_of(cl_mem whole, cl_mem_flags flags, size_t bytes) {
    cl_int code;
    const cl_buffer_region region = {.origin = PART, .size = bytes};
    cl_mem memory = clCreateSubBuffer(whole, flags, CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
    cr_assert_eq(code, CL_SUCCESS);
    return memory;
}

static clattn_tensor row_at(const clattn_buffer *buffer, int64_t offset) {
    clattn_tensor t =
        clattn_tensor_buffer((clattn_buffer *)(uintptr_t)buffer, CLATTN_F32, 2, (const int64_t[]){1, ROW});
    t.offset = offset;
    return t;
}

/* Attention, which lets views lie in the gaps of others, and an operation, which lets none. Not the same view. */
static void share(clattn_context *context, const char *what, clattn_tensor x, clattn_tensor y) {
    cr_log_info("%s", what);
    FAILS(clattn_attention(context, &(clattn_attention_args){.q = x, .k = x, .v = x, .o = y}), CLATTN_E_ARGUMENT,
          "o: lies over q");
    FAILS(clattn_softmax(context, &(clattn_softmax_args){.x = x, .y = y}), CLATTN_E_ARGUMENT,
          "y: shares memory with x");
}

Test(shared_memory, buffers_over_the_same_memory_are_seen_to_share_it) {
    static float array[4 * PART / sizeof(float)] __attribute__((aligned(4096)));
    own o = {0};
    clattn_context *context = NULL;
    open_own(&o, 0);
    SUCCEEDS(clattn_context_from_opencl(o.context, o.queue, NULL, &context));
    cl_mem memory = memory_of(&o, CL_MEM_READ_WRITE, NULL);
    clattn_buffer *part = wrapped(context, part_of(memory, CL_MEM_READ_WRITE, PART));
    clattn_buffer *same = wrapped(context, part_of(memory, CL_MEM_READ_ONLY, PART / 2));
    clRetainMemObject(memory);
    clattn_buffer *whole = wrapped(context, memory), *again = wrapped(context, memory);
    share(context, "one memory object", row_at(whole, ROW / 2), row_at(again, 0));
    share(context, "a part and the whole", row_at(part, 0), row_at(whole, 2 * ROW + 8));
    share(context, "two parts", row_at(same, 0), row_at(part, ROW / 2));
    /* Two objects over one array, which OpenCL allows, and a part of one of them. */
    memory = memory_of(&o, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, array);
    clattn_buffer *of_array = wrapped(context, part_of(memory, 0, PART)), *first = wrapped(context, memory);
    clattn_buffer *second = wrapped(context, memory_of(&o, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, array + ROW));
    share(context, "two over an array", row_at(first, ROW), row_at(second, 8));
    share(context, "a part over an array", row_at(second, ROW), row_at(of_array, 8));
    share(context, "an array", row_at(first, ROW),
          clattn_tensor_host(array + ROW + 8, CLATTN_F32, 2, (const int64_t[]){1, ROW}));
    clattn_buffer *const all[] = {part, same, whole, again, of_array, first, second};
    for (int i = 0; i < 7; i++)
        clattn_buffer_destroy(all[i]);
    clattn_context_destroy(context);
    close_own(&o);
}

Test(shared_memory, memory_for_reading_is_not_written_nor_the_other_way_round) {
    own o = {0};
    clattn_context *context = NULL;
    open_own(&o, 0);
    SUCCEEDS(clattn_context_from_opencl(o.context, o.queue, NULL, &context));
    cl_mem memory = memory_of(&o, CL_MEM_READ_WRITE, NULL);
    clattn_buffer *part = wrapped(context, part_of(memory, CL_MEM_READ_ONLY, PART)), *both = wrapped(context, memory);
    clattn_buffer *in = wrapped(context, memory_of(&o, CL_MEM_READ_ONLY, NULL));
    clattn_buffer *out = wrapped(context, memory_of(&o, CL_MEM_WRITE_ONLY, NULL));
    clattn_attention_args a = {.q = row_at(in, 0), .k = row_at(in, 0), .v = row_at(in, 0), .o = row_at(in, 2 * ROW)};
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "o: is written, and its memory object is CL_MEM_READ_ONLY");
    a.o = row_at(part, ROW);
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "o: is written");
    a.o = row_at(both, 0);
    a.lse = clattn_tensor_buffer(in, CLATTN_F32, 1, (const int64_t[]){1});
    a.lse = clattn_tensor_split(a.lse, 0, 1); /* [1, 1] */
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "lse: is written");
    a.lse = (clattn_tensor){0};
    a.v = row_at(out, 0);
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "v: is read, and its memory object is CL_MEM_WRITE_ONLY");
    const clattn_attention_backward_args back = {
        .forward = {
            .q = row_at(in, 0), .k = row_at(in, 0), .v = row_at(in, 0), .o = row_at(out, 0), .state = row_at(in, 0)}};
    clattn_attention_backward_args b = back;
    b.forward.state.shape[1] = 2;
    b.d_o = b.forward.q;
    b.d_q = row_at(both, 0);
    FAILS(clattn_attention_backward(context, &b), CLATTN_E_ARGUMENT, "o: is read");
    b.forward.o = row_at(in, 0), b.d_q = row_at(in, 0);
    FAILS(clattn_attention_backward(context, &b), CLATTN_E_ARGUMENT, "d_q: is written");
    FAILS(clattn_softmax(context, &(clattn_softmax_args){.x = row_at(in, 0), .y = row_at(in, ROW)}), CLATTN_E_ARGUMENT,
          "y: is written");
    const clattn_sgd_args step = {.parameter = row_at(out, 0), .gradient = row_at(in, 0), .step = 1};
    FAILS(clattn_sgd_step(context, &step), CLATTN_E_ARGUMENT, "parameter: is read");
    const clattn_sum_args added = {.x = row_at(in, 0), .y = row_at(out, 0), .accumulate = true};
    FAILS(clattn_sum(context, &added), CLATTN_E_ARGUMENT, "y: is read");
    const clattn_linear_backward_args linear = {
        .x = row_at(in, 0), .d_y = row_at(in, 0), .d_bias = row_at(out, 0), .accumulate = true};
    clattn_linear_backward_args l = linear;
    l.d_bias.rank = 1, l.d_bias.shape[0] = ROW, l.d_bias.stride[0] = 1;
    FAILS(clattn_linear_backward(context, &l), CLATTN_E_ARGUMENT, "d_bias: is read");
    clattn_buffer *const all[] = {part, both, in, out};
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(all[i]);
    clattn_context_destroy(context);
    close_own(&o);
}
