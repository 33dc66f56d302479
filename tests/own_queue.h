/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller of clattn/opencl.h has: a device, a context and a queue of its own. */
#ifndef OWN_QUEUE_H
#define OWN_QUEUE_H

#include "oracle.h"
#include "testing.h"
#include <clattn/opencl.h>

typedef struct {
    cl_device_id device;
    cl_context context;
    cl_command_queue queue;
} own;

/* Skips the test where there is no OpenCL device. */
static inline void open_own(own *o, cl_command_queue_properties properties) {
    cl_platform_id platforms[16];
    cl_uint count = 0;
    cl_int code = clGetPlatformIDs(16, platforms, &count);
    for (cl_uint i = 0; code == CL_SUCCESS && i < count; i++)
        if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &o->device, NULL) == CL_SUCCESS)
            break;
    if (!o->device)
        cr_skip_test("no OpenCL device");
    o->context = clCreateContext(NULL, 1, &o->device, NULL, NULL, &code);
    cr_assert_eq(code, CL_SUCCESS);
    o->queue = clCreateCommandQueue(o->context, o->device, properties, &code);
    cr_assert_eq(code, CL_SUCCESS);
}

static inline void close_own(own *o) {
    clReleaseCommandQueue(o->queue);
    clReleaseContext(o->context);
}

/* Every algorithm that applies there. */
static inline void on_each_algorithm(const own *o, void (*check)(const own *, const char *)) {
    clattn_context *context = NULL;
    oracle_case *c = oracle_make(&(oracle_config){.N = 2, .D = 2});
    SUCCEEDS(clattn_context_from_opencl(o->context, o->queue, NULL, &context));
    for (size_t i = 0; i < clattn_algorithm_count(); i++) {
        const oracle_runner r = {.context = context, .algorithm = clattn_algorithm_name(i)};
        if (oracle_applies(c, &r, NULL))
            check(o, r.algorithm);
    }
    clattn_context_destroy(context);
    oracle_free(c);
}

#endif
