/* SPDX-License-Identifier: Apache-2.0 */
/* Attention inside a program that has its own OpenCL context, queue and memory objects: your write, our attention and
 * your read are chained by events, and nothing waits until the end. */
#include <clattn/clattn.h>
#include <clattn/opencl.h>
#include <math.h>
#include <stdio.h>

enum { HEADS = 2, TOKENS = 8, DIM = 16, BYTES = HEADS * TOKENS * DIM * (int)sizeof(float) };

static float q[HEADS][TOKENS][DIM], k[HEADS][TOKENS][DIM], v[HEADS][TOKENS][DIM], o[HEADS][TOKENS][DIM];

typedef struct mine {
    cl_context context;
    cl_command_queue queue;
    cl_mem memory[4]; /* q, k, v, o */
} mine;

/* The first device of the first platform that has one. */
static cl_int find_device(cl_device_id *device) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; i < count && i < 16 && code == CL_SUCCESS; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, device, NULL) == CL_SUCCESS)
            return CL_SUCCESS;
    return code == CL_SUCCESS ? CL_DEVICE_NOT_FOUND : code;
}

static cl_int open_mine(mine *m) {
    cl_device_id device;
    cl_int code = find_device(&device);
    if (code == CL_SUCCESS)
        m->context = clCreateContext(NULL, 1, &device, NULL, NULL, &code);
    if (code == CL_SUCCESS)
        m->queue = clCreateCommandQueue(m->context, device, 0, &code);
    for (int i = 0; i < 4 && code == CL_SUCCESS; i++)
        m->memory[i] = clCreateBuffer(m->context, i < 3 ? CL_MEM_READ_ONLY : CL_MEM_WRITE_ONLY, BYTES, NULL, &code);
    return code;
}

static void close_mine(mine *m) {
    for (int i = 0; i < 4; i++)
        if (m->memory[i])
            clReleaseMemObject(m->memory[i]);
    if (m->queue)
        clReleaseCommandQueue(m->queue);
    if (m->context)
        clReleaseContext(m->context);
}

/* Writes, computes and reads, each after the events of the one before. */
static clattn_status enqueue(const mine *m, clattn_plan *plan) {
    const void *const inputs[] = {q, k, v};
    cl_event written[3] = {NULL}, computed = NULL;
    cl_int code = CL_SUCCESS;
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < 3 && code == CL_SUCCESS; i++)
        code = clEnqueueWriteBuffer(m->queue, m->memory[i], CL_FALSE, 0, BYTES, inputs[i], 0, NULL, &written[i]);
    if (code == CL_SUCCESS)
        status = clattn_plan_enqueue(plan, NULL, 3, written, &computed);
    if (code == CL_SUCCESS && status == CLATTN_OK)
        code = clEnqueueReadBuffer(m->queue, m->memory[3], CL_TRUE, 0, BYTES, o, 1, &computed, NULL);
    for (int i = 0; i < 3; i++)
        if (written[i])
            clReleaseEvent(written[i]);
    if (computed)
        clReleaseEvent(computed);
    if (code != CL_SUCCESS)
        fprintf(stderr, "my OpenCL call failed: %d\n", code);
    return code == CL_SUCCESS ? status : CLATTN_E_OPENCL;
}

static clattn_status run(const mine *m) {
    const int64_t shape[] = {HEADS, TOKENS, DIM};
    clattn_context *context = NULL;
    clattn_buffer *buffers[4] = {NULL};
    clattn_tensor tensors[4] = {{0}};
    clattn_plan *plan = NULL;
    clattn_status status = clattn_context_from_opencl(m->context, m->queue, NULL, &context);
    for (int i = 0; i < 4 && status == CLATTN_OK; i++) {
        status = clattn_buffer_from_opencl(context, m->memory[i], &buffers[i]);
        tensors[i] = clattn_tensor_buffer(buffers[i], CLATTN_F32, 3, shape);
    }
    const clattn_attention_args args = {.q = tensors[0], .k = tensors[1], .v = tensors[2], .o = tensors[3]};
    if (status == CLATTN_OK)
        status = clattn_plan_create(context, &args, &plan);
    if (status == CLATTN_OK)
        status = enqueue(m, plan);
    if (status != CLATTN_OK)
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    clattn_plan_destroy(plan);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(buffers[i]);
    clattn_context_destroy(context);
    return status;
}

int main(void) {
    /* All keys alike: every query weighs them equally, and the result is the mean of the values. */
    for (int i = 0; i < HEADS * TOKENS * DIM; i++) {
        (&q[0][0][0])[i] = sinf((float)i);
        (&k[0][0][0])[i] = 1;
        (&v[0][0][0])[i] = cosf((float)i);
    }
    mine m = {0};
    const cl_int code = open_mine(&m);
    if (code != CL_SUCCESS)
        fprintf(stderr, "no OpenCL context: %d\n", code);
    const clattn_status status = code == CL_SUCCESS ? run(&m) : CLATTN_E_NO_DEVICE;
    close_mine(&m);
    if (status != CLATTN_OK)
        return 1;

    double worst = 0;
    for (int h = 0; h < HEADS; h++)
        for (int d = 0; d < DIM; d++) {
            double mean = 0;
            for (int j = 0; j < TOKENS; j++)
                mean += (double)v[h][j][d] / TOKENS;
            for (int i = 0; i < TOKENS; i++)
                worst = fmax(worst, fabs((double)o[h][i][d] - mean));
        }
    printf("my queue, my memory: off by %g\n", worst);
    return worst <= 1e-6 ? 0 : 1;
}
