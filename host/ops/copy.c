/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/copy.h"

#include "args.h"
#include "base/error.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include <string.h>

enum { WORK_GROUP = 64 };

clattn_status cla_copy_kernel(clattn_context *context, clattn_dtype dtype, const char *name, cla_kernel **kernel) {
    *kernel = NULL;
    if (cla_context_is_cpu(context))
        return CLATTN_OK;
    cla_key key = cla_key_make("copy.cl", name);
    cla_key_define(&key, "REAL", 32);
    cla_key_define(&key, "ELEMENT", (int64_t)clattn_dtype_size(dtype));
    cla_key_define(&key, "WG", WORK_GROUP);
    return cla_kernel_create(context, &key, WORK_GROUP, kernel);
}

static char *host_of(const clattn_tensor *t) {
    char *base = t->host ? t->host : t->buffer ? cla_buffer_host(t->buffer) : NULL;
    return base ? base + (size_t)t->offset * clattn_dtype_size(t->dtype) : NULL;
}

/* to[...] = from[...], or *value where from is NULL. */
static void copy_on_host(const clattn_tensor *to, const clattn_tensor *from, const void *value) {
    const size_t size = clattn_dtype_size(to->dtype);
    char *y = host_of(to);
    const char *x = from ? host_of(from) : NULL;
    for (int64_t a = 0; a < to->shape[0]; a++)
        for (int64_t b = 0; b < to->shape[1]; b++)
            for (int64_t c = 0; c < to->shape[2]; c++)
                for (int64_t d = 0; d < to->shape[3]; d++) {
                    const int64_t at = a * to->stride[0] + b * to->stride[1] + c * to->stride[2] + d * to->stride[3];
                    const int64_t of =
                        from ? a * from->stride[0] + b * from->stride[1] + c * from->stride[2] + d * from->stride[3]
                             : 0;
                    memcpy(y + (size_t)at * size, x ? x + (size_t)of * size : value, size);
                }
}

static cla_copy_args args_of(const clattn_tensor *to, const clattn_tensor *from) {
    cla_copy_args a = {.n0 = to->shape[0], .n1 = to->shape[1], .n2 = to->shape[2], .n3 = to->shape[3]};
    a.y_0 = to->offset;
    a.y_s0 = to->stride[0], a.y_s1 = to->stride[1], a.y_s2 = to->stride[2], a.y_s3 = to->stride[3];
    if (from) {
        a.x_0 = from->offset;
        a.x_s0 = from->stride[0], a.x_s1 = from->stride[1], a.x_s2 = from->stride[2], a.x_s3 = from->stride[3];
    }
    return a;
}

clattn_status cla_copy_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                               const clattn_tensor *to) {
    const clattn_tensor x = cla_view_lift(from), y = cla_view_lift(to);
    const int64_t n = clattn_tensor_elements(&y);
    if (n <= 0)
        return CLATTN_OK;
    if (cla_context_is_cpu(context)) {
        copy_on_host(&y, &x, NULL);
        return CLATTN_OK;
    }
    const cla_copy_args a = args_of(&y, &x);
    const cla_arg args[] = {CLA_ARG_BUFFER(x.buffer), CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(a)};
    return cla_launch(context, kernel, cla_ceil_div(n, WORK_GROUP), args, 3);
}

clattn_status cla_fill_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *to, double value) {
    if (!cla_present(to) || clattn_tensor_elements(to) <= 0)
        return CLATTN_OK;
    const clattn_tensor y = cla_view_lift(to);
    const float single = (float)value;
    const void *bits = to->dtype == CLATTN_F64 ? (const void *)&value : (const void *)&single;
    if (cla_context_is_cpu(context)) {
        copy_on_host(&y, NULL, bits);
        return CLATTN_OK;
    }
    const cla_copy_args a = args_of(&y, NULL);
    const cla_arg args[] = {
        {.value = bits, .bytes = clattn_dtype_size(to->dtype)}, CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(a)};
    return cla_launch(context, kernel, cla_ceil_div(clattn_tensor_elements(&y), WORK_GROUP), args, 3);
}
