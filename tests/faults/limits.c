/* SPDX-License-Identifier: Apache-2.0 */
/* A smaller device: what it says of itself, and what it refuses. */
#include "internal.h"
#include <string.h>

faults_limits faults_limited;

void faults_limit(const faults_limits *limits) { faults_limited = limits ? *limits : (faults_limits){.work_group = 0}; }

static void lower(void *value, size_t count, size_t most) {
    size_t *sizes = value;
    for (size_t i = 0; i < count && most > 0; i++)
        sizes[i] = sizes[i] < most ? sizes[i] : most;
}

static void lower_bytes(void *value, size_t most) {
    cl_ulong *bytes = value;
    if (most > 0 && *bytes > most)
        *bytes = most;
}

static void without_word(char *text, const char *word) {
    char *at = strstr(text, word);
    if (at)
        memset(at, ' ', strlen(word));
}

/* Of no vendor that is known: options of its compiler would not be this one's. */
static void limit_class(cl_device_info what, size_t size, void *value) {
    if (what == CL_DEVICE_VENDOR)
        memset(value, 'x', size - 1);
    if (what == CL_DEVICE_TYPE)
        *(cl_device_type *)value = CL_DEVICE_TYPE_GPU;
    if (what == CL_DEVICE_HOST_UNIFIED_MEMORY)
        *(cl_bool *)value = CL_FALSE;
    if (what == CL_DEVICE_LOCAL_MEM_TYPE)
        *(cl_device_local_mem_type *)value = CL_LOCAL;
}

void limit_device_info(cl_device_info what, size_t size, void *value) {
    const faults_limits *l = &faults_limited;
    if (what == CL_DEVICE_MAX_WORK_GROUP_SIZE)
        lower(value, 1, l->work_group);
    if (what == CL_DEVICE_MAX_WORK_ITEM_SIZES)
        lower(value, size / sizeof(size_t), l->work_group);
    if (what == CL_DEVICE_LOCAL_MEM_SIZE)
        lower_bytes(value, l->local_bytes);
    if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE)
        lower_bytes(value, l->alloc_bytes);
    if (what == CL_DEVICE_DOUBLE_FP_CONFIG && l->no_fp64)
        memset(value, 0, size);
    if (what == CL_DEVICE_EXTENSIONS && l->no_fp64)
        without_word(value, "cl_khr_fp64");
    if (l->gpu)
        limit_class(what, size, value);
}

static size_t kernel_limit(void) {
    const size_t device = faults_limited.work_group, kernel = faults_limited.kernel_work_group;
    return kernel == 0 || (device > 0 && device < kernel) ? device : kernel;
}

void limit_kernel_info(cl_kernel_work_group_info what, size_t size, void *value) {
    if (what == CL_KERNEL_WORK_GROUP_SIZE)
        lower(value, size / sizeof(size_t), kernel_limit());
}

typedef cl_int (*kernel_info)(cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *);
typedef cl_int (*queue_info)(cl_command_queue, cl_command_queue_info, size_t, void *, size_t *);

static size_t local_of(cl_command_queue queue, cl_kernel kernel) {
    cl_device_id device = NULL;
    cl_ulong bytes = 0;
    ((queue_info)real_function("clGetCommandQueueInfo"))(queue, CL_QUEUE_DEVICE, sizeof device, &device, NULL);
    ((kernel_info)real_function("clGetKernelWorkGroupInfo"))(kernel, device, CL_KERNEL_LOCAL_MEM_SIZE, sizeof bytes,
                                                             &bytes, NULL);
    /* PoCL counts the arguments that were set, others do not. */
    const size_t arguments = object_local_bytes(kernel);
    return (size_t)bytes > arguments ? (size_t)bytes : arguments;
}

cl_int limit_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *local) {
    const size_t most = kernel_limit();
    size_t group = 1;
    for (cl_uint i = 0; local && i < dims; i++)
        group *= local[i];
    if (most > 0 && group > most) {
        faults_refused("a work-group");
        return CL_INVALID_WORK_GROUP_SIZE;
    }
    if (faults_limited.local_bytes > 0 && local_of(queue, kernel) > faults_limited.local_bytes) {
        faults_refused("local memory");
        return CL_OUT_OF_RESOURCES;
    }
    return CL_SUCCESS;
}

cl_int limit_buffer(size_t bytes) {
    if (faults_limited.alloc_bytes == 0 || bytes <= faults_limited.alloc_bytes)
        return CL_SUCCESS;
    faults_refused("a buffer");
    return CL_INVALID_BUFFER_SIZE;
}
