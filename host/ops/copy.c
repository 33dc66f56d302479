/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/copy.h"

#include "args.h"
#include "base/error.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <math.h>

static int64_t group_of(const clattn_context *context) { return cla_group_within(cla_context_device(context), 64); }

clattn_status cla_copy_kernel(clattn_context *context, bool wide, const char *name, cla_kernel **kernel) {
    *kernel = NULL;
    if (cla_context_is_cpu(context))
        return CLATTN_OK;
    cla_key key = cla_key_make("copy.cl", name);
    cla_key_define(&key, "REAL", wide ? 64 : 32);
    cla_key_define(&key, "WG", group_of(context));
    return cla_kernel_create(context, &key, (size_t)group_of(context), kernel);
}

static void *host_of(const clattn_tensor *t) {
    void *base = t->host ? t->host : t->buffer ? cla_buffer_host(t->buffer) : NULL;
    return base;
}

/* to[...] = from[...], or value where from is NULL. */
static void copy_on_host(const clattn_tensor *to, const clattn_tensor *from, double value) {
    void *y = host_of(to);
    const void *x = from ? host_of(from) : NULL;
    const int64_t rows = to->shape[0] * to->shape[1] * to->shape[2];
#pragma omp parallel for
    for (int64_t row = 0; row < rows; row++) {
        const int64_t a = row / (to->shape[1] * to->shape[2]), b = row / to->shape[2] % to->shape[1],
                      c = row % to->shape[2];
        const int64_t at = to->offset + a * to->stride[0] + b * to->stride[1] + c * to->stride[2];
        const int64_t of = from ? from->offset + a * from->stride[0] + b * from->stride[1] + c * from->stride[2] : 0;
        for (int64_t d = 0; d < to->shape[3]; d++)
            cla_store_element(y, to->dtype, at + d * to->stride[3],
                              from ? cla_load_element(x, from->dtype, of + d * from->stride[3]) : value);
    }
}

static cla_copy_args args_of(const clattn_tensor *to, const clattn_tensor *from) {
    cla_copy_args a = {.n0 = to->shape[0], .n1 = to->shape[1], .n2 = to->shape[2], .n3 = to->shape[3]};
    a.y_type = (cl_int)to->dtype;
    a.y_0 = to->offset;
    a.y_s0 = to->stride[0], a.y_s1 = to->stride[1], a.y_s2 = to->stride[2], a.y_s3 = to->stride[3];
    if (from) {
        a.x_type = (cl_int)from->dtype;
        a.x_0 = from->offset;
        a.x_s0 = from->stride[0], a.x_s1 = from->stride[1], a.x_s2 = from->stride[2], a.x_s3 = from->stride[3];
    }
    return a;
}

/* Elements of `to`, read from `from` (where it is not NULL) and written. */
static void set_cost(clattn_context *context, cla_kernel *kernel, const clattn_tensor *to, const clattn_tensor *from) {
    const clattn_tensor *const both[] = {to, from};
    double bytes = 0;
    if (!cla_costs_wanted(context))
        return;
    for (int i = 0; i < (from ? 2 : 1); i++)
        bytes += (double)clattn_tensor_elements(to) * (double)clattn_dtype_size(both[i]->dtype) /
                 (double)clattn_dtype_length(both[i]->dtype);
    cla_kernel_cost(kernel, 0, bytes);
}

clattn_status cla_copy_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                               const clattn_tensor *to) {
    const clattn_tensor x = cla_view_lift(from), y = cla_view_lift(to);
    const int64_t n = clattn_tensor_elements(&y);
    if (n <= 0)
        return CLATTN_OK;
    if (cla_context_is_cpu(context)) {
        copy_on_host(&y, &x, 0);
        return CLATTN_OK;
    }
    const cla_copy_args a = args_of(&y, &x);
    const cla_arg args[] = {CLA_ARG_BUFFER(x.buffer), CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(a)};
    set_cost(context, kernel, &y, &x);
    return cla_launch(context, kernel, cla_ceil_div(n, group_of(context)), args, 3);
}

clattn_status cla_copy_short(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                             const clattn_tensor *to, uint8_t excludes) {
    if (!cla_context_is_cpu(context)) {
        cla_copy_args a = args_of(to, from);
        a.columns = (cl_int)from->shape[3];
        a.excludes = excludes;
        const cla_arg args[] = {CLA_ARG_BUFFER(from->buffer), CLA_ARG_BUFFER(to->buffer), CLA_ARG_VALUE(a)};
        set_cost(context, kernel, to, from);
        return cla_launch(context, kernel, cla_ceil_div(clattn_tensor_elements(to), group_of(context)), args, 3);
    }
    const bool bytes = clattn_dtype_size(from->dtype) == 1;
    const clattn_tensor there = clattn_tensor_slice(*to, 3, 0, from->shape[3]);
    const clattn_tensor missing = clattn_tensor_slice(*to, 3, from->shape[3], to->shape[3] - from->shape[3]);
    copy_on_host(&there, from, 0);
    copy_on_host(&missing, NULL, bytes ? (double)excludes : -(double)INFINITY);
    return CLATTN_OK;
}

clattn_status cla_copy_pages(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                             const clattn_tensor *to, const cla_paging *paging) {
    cla_copy_args a = args_of(to, from);
    a.page_size = (cl_int)paging->page_size;
    a.pages = (cl_int)paging->table_pages;
    const cla_arg args[] = {CLA_ARG_BUFFER(from->buffer), CLA_ARG_BUFFER(to->buffer), CLA_ARG_BUFFER(paging->table),
                            CLA_ARG_BUFFER(paging->spans), CLA_ARG_VALUE(a)};
    set_cost(context, kernel, to, from);
    return cla_launch(context, kernel, cla_ceil_div(clattn_tensor_elements(to), group_of(context)), args, 5);
}

clattn_status cla_fill_strided(clattn_context *context, cla_kernel *kernel, bool wide, const clattn_tensor *to,
                               double value) {
    if (!cla_present(to) || clattn_tensor_elements(to) <= 0)
        return CLATTN_OK;
    const clattn_tensor y = cla_view_lift(to);
    const float single = (float)value;
    if (cla_context_is_cpu(context)) {
        copy_on_host(&y, NULL, value);
        return CLATTN_OK;
    }
    const cla_copy_args a = args_of(&y, NULL);
    const cla_arg bits = wide ? CLA_ARG_VALUE(value) : CLA_ARG_VALUE(single);
    const cla_arg args[] = {bits, CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(a)};
    set_cost(context, kernel, &y, NULL);
    return cla_launch(context, kernel, cla_ceil_div(clattn_tensor_elements(&y), group_of(context)), args, 3);
}
