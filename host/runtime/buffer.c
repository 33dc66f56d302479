/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers: bytes on a device or the host, without a shape. */
#include "runtime/buffer.h"

#include "base/mem.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <clattn/opencl.h>
#include <stdio.h>
#include <string.h>

static clattn_status new_buffer(clattn_context *context, size_t bytes, clattn_buffer **out) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *b = NULL;
    CLA_TRY(cla_alloc(1, sizeof *b, "buffer", &b));
    b->context = context;
    b->bytes = bytes;
done:
    *out = b;
    return status;
}

static clattn_status check_limits(const clattn_context *context, size_t bytes) {
    const clattn_device_info *info = &context->info;
    if (context->cl && bytes > info->max_alloc_bytes)
        return cla_error(CLATTN_E_LIMIT, "buffer: %zu bytes are above the largest allocation of %s, %llu bytes", bytes,
                         info->name, (unsigned long long)info->max_alloc_bytes);
    return CLATTN_OK;
}

static clattn_status make_memory(clattn_buffer *b, cl_mem_flags flags, void *host) {
    cl_int code = CL_SUCCESS;
    char what[80];
    if (b->bytes > 0)
        b->memory = clCreateBuffer(b->context->cl, flags, b->bytes, host, &code);
    if (code == CL_SUCCESS) {
        if (flags & CL_MEM_USE_HOST_PTR)
            b->origin.at = (uintptr_t)host;
        else
            b->origin.memory = b->memory;
        return CLATTN_OK;
    }
    b->memory = NULL;
    snprintf(what, sizeof what, "buffer of %zu bytes", b->bytes);
    return cla_cl_error(code, what);
}

/* With a copy of data, or undefined contents where it is NULL. */
static clattn_status create(clattn_context *context, const void *data, size_t bytes, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *b = NULL;
    CLA_TRY(cla_context_usable(context));
    CLA_TRY(check_limits(context, bytes));
    CLA_TRY(new_buffer(context, bytes, &b));
    if (context->cl) {
        CLA_TRY(make_memory(b, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0), (void *)(uintptr_t)data));
    } else {
        CLA_TRY(cla_alloc_aligned(bytes, "buffer", &b->host));
        b->owns_host = true;
        b->origin.at = (uintptr_t)b->host;
        if (data && bytes > 0)
            memcpy(b->host, data, bytes);
    }
    cla_count_bytes(context, (int64_t)bytes);
    *buffer = b;
    b = NULL;
done:
    if (b)
        b->bytes = 0; /* not counted yet */
    clattn_buffer_destroy(b);
    return status;
}

clattn_status clattn_buffer_create(clattn_context *context, size_t bytes, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(buffer, CLATTN_E_ARGUMENT, "buffer_create: buffer is NULL");
    *buffer = NULL;
    CLA_CHECK(context, CLATTN_E_ARGUMENT, "buffer_create: context is NULL");
    CLA_TRY(create(context, NULL, bytes, buffer));
done:
    return status;
}

clattn_status cla_buffer_create_from(clattn_context *context, const void *data, size_t bytes, clattn_buffer **buffer) {
    *buffer = NULL;
    return create(context, data, bytes, buffer);
}

clattn_status cla_buffer_wrap(clattn_context *context, void *host, size_t bytes, bool read, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *b = NULL;
    *buffer = NULL;
    if (context->cl && context->info.device_class != CLATTN_DEVICE_CPU && !context->info.unified_memory) {
        CLA_TRY(clattn_buffer_create(context, bytes, buffer));
        if (read)
            CLA_TRY(clattn_buffer_upload(*buffer, 0, host, bytes));
        goto done;
    }
    CLA_TRY(cla_context_usable(context));
    CLA_TRY(check_limits(context, bytes));
    CLA_TRY(new_buffer(context, bytes, &b));
    b->in_place = true;
    if (context->cl)
        CLA_TRY(make_memory(b, CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, host));
    else
        b->host = host, b->origin.at = (uintptr_t)host;
    *buffer = b;
    b = NULL;
done:
    clattn_buffer_destroy(b);
    if (status != CLATTN_OK) {
        clattn_buffer_destroy(*buffer);
        *buffer = NULL;
    }
    return status;
}

clattn_status cla_buffer_bring_back(clattn_buffer *buffer, void *host, size_t bytes) {
    clattn_status status = CLATTN_OK;
    cl_int code = CL_SUCCESS;
    cl_command_queue queue = buffer->context->queue;
    if (bytes == 0 || buffer->host) /* the `cpu` context wrote the array itself, or holds a copy */
        return clattn_buffer_download(buffer, 0, host, bytes);
    CLA_TRY(cla_queue_barrier(buffer->context));
    if (buffer->in_place) {
        void *p = clEnqueueMapBuffer(queue, buffer->memory, CL_FALSE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, &code);
        CLA_TRY(cla_enqueued(buffer->context, code, "map"));
        CLA_TRY(cla_queue_barrier(buffer->context));
        code = clEnqueueUnmapMemObject(queue, buffer->memory, p, 0, NULL, NULL);
        CLA_TRY(cla_enqueued(buffer->context, code, "unmap"));
    } else {
        code = clEnqueueReadBuffer(queue, buffer->memory, CL_FALSE, 0, bytes, host, 0, NULL, NULL);
        CLA_TRY(cla_enqueued(buffer->context, code, "read back"));
    }
    CLA_TRY(cla_queue_barrier(buffer->context));
done:
    return status;
}

static cl_int ask(cl_mem memory, cl_mem_info what, void *value, size_t bytes) {
    return clGetMemObjectInfo(memory, what, bytes, value, NULL);
}

/* Of a part of a memory object, the whole and the place in it; of one over a host array, the array. */
static clattn_status find_origin(cl_mem memory, cla_origin *origin) {
    clattn_status status = CLATTN_OK;
    cl_mem whole = NULL;
    cl_mem_flags flags = 0, more = 0;
    size_t offset = 0;
    void *host = NULL;
    CLA_TRY_CL(ask(memory, CL_MEM_FLAGS, &flags, sizeof flags), "flags of the memory object");
    CLA_TRY_CL(ask(memory, CL_MEM_ASSOCIATED_MEMOBJECT, &whole, sizeof(cl_mem)), "whole of the memory object");
    if (whole) { /* what a part's flags leave out is as the whole's */
        CLA_TRY_CL(ask(memory, CL_MEM_OFFSET, &offset, sizeof offset), "offset of the memory object");
        CLA_TRY_CL(ask(whole, CL_MEM_FLAGS, &more, sizeof more), "flags of the whole memory object");
        flags |= more;
    } else {
        whole = memory;
    }
    if (flags & CL_MEM_USE_HOST_PTR)
        CLA_TRY_CL(ask(whole, CL_MEM_HOST_PTR, &host, sizeof(void *)), "host array of the memory object");
    *origin = (cla_origin){.memory = host ? NULL : whole,
                           .at = (uintptr_t)host + offset,
                           .read_only = flags & CL_MEM_READ_ONLY,
                           .write_only = flags & CL_MEM_WRITE_ONLY};
done:
    return status;
}

clattn_status clattn_buffer_from_opencl(clattn_context *context, cl_mem memory, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *b = NULL;
    size_t bytes = 0;
    cl_context owner = NULL;
    CLA_CHECK(buffer, CLATTN_E_ARGUMENT, "buffer_from_opencl: buffer is NULL");
    *buffer = NULL;
    CLA_CHECK(context && memory, CLATTN_E_ARGUMENT, "buffer_from_opencl: %s is NULL", context ? "memory" : "context");
    CLA_CHECK(context->cl, CLATTN_E_UNSUPPORTED, "buffer_from_opencl: the cpu context holds no OpenCL memory");
    CLA_TRY_CL(ask(memory, CL_MEM_SIZE, &bytes, sizeof bytes), "size of the memory object");
    CLA_TRY_CL(ask(memory, CL_MEM_CONTEXT, &owner, sizeof(cl_context)), "context of the memory object");
    CLA_CHECK(owner == context->cl, CLATTN_E_ARGUMENT, "buffer_from_opencl: the memory belongs to another cl_context");
    CLA_TRY(new_buffer(context, bytes, &b));
    b->in_place = true; /* not counted */
    CLA_TRY(find_origin(memory, &b->origin));
    CLA_TRY_CL(clRetainMemObject(memory), "clRetainMemObject");
    b->memory = memory;
    *buffer = b;
    b = NULL;
done:
    clattn_buffer_destroy(b);
    return status;
}

cl_mem clattn_buffer_opencl(const clattn_buffer *buffer) { return buffer ? buffer->memory : NULL; }

void clattn_buffer_destroy(clattn_buffer *buffer) {
    if (!buffer)
        return;
    if (buffer->memory)
        clReleaseMemObject(buffer->memory);
    if (buffer->owns_host)
        cla_free(buffer->host);
    if (!buffer->in_place)
        cla_count_bytes(buffer->context, -(int64_t)buffer->bytes);
    cla_free(buffer);
}

size_t clattn_buffer_bytes(const clattn_buffer *buffer) { return buffer ? buffer->bytes : 0; }

static clattn_status check_range(const clattn_buffer *buffer, const char *call, size_t offset, const void *data,
                                 size_t bytes) {
    if (!buffer || (!data && bytes > 0))
        return cla_error(CLATTN_E_ARGUMENT, "%s: %s is NULL", call, buffer ? "data" : "buffer");
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return cla_error(CLATTN_E_SHAPE, "%s: %zu bytes at %zu do not fit in a buffer of %zu bytes", call, bytes,
                         offset, buffer->bytes);
    return CLATTN_OK;
}

clattn_status clattn_buffer_upload(clattn_buffer *buffer, size_t offset_bytes, const void *data, size_t bytes) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(check_range(buffer, "buffer_upload", offset_bytes, data, bytes));
    if (bytes == 0)
        goto done;
    if (buffer->host) {
        memcpy((char *)buffer->host + offset_bytes, data, bytes);
        goto done;
    }
    CLA_TRY(cla_queue_barrier(buffer->context));
    CLA_TRY(cla_waited(
        buffer->context,
        clEnqueueWriteBuffer(buffer->context->queue, buffer->memory, CL_TRUE, offset_bytes, bytes, data, 0, NULL, NULL),
        "upload"));
done:
    return status;
}

clattn_status clattn_buffer_download(clattn_buffer *buffer, size_t offset_bytes, void *data, size_t bytes) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(check_range(buffer, "buffer_download", offset_bytes, data, bytes));
    if (bytes == 0)
        goto done;
    if (buffer->host) {
        if ((char *)buffer->host + offset_bytes != data)
            memcpy(data, (char *)buffer->host + offset_bytes, bytes);
        goto done;
    }
    CLA_TRY(cla_queue_barrier(buffer->context));
    CLA_TRY(cla_waited(
        buffer->context,
        clEnqueueReadBuffer(buffer->context->queue, buffer->memory, CL_TRUE, offset_bytes, bytes, data, 0, NULL, NULL),
        "download"));
    cla_programs_waited(buffer->context);
done:
    return status;
}

const cla_origin *cla_buffer_origin(const clattn_buffer *buffer) { return &buffer->origin; }
void *cla_buffer_host(const clattn_buffer *buffer) { return buffer ? buffer->host : NULL; }
clattn_context *clattn_buffer_context(const clattn_buffer *buffer) { return buffer ? buffer->context : NULL; }
bool cla_context_is_cpu(const clattn_context *context) { return context->cl == NULL; }
const clattn_device_info *cla_context_device(const clattn_context *context) { return &context->info; }
