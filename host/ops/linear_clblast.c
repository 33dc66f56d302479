/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers by CLBlast: what it cannot read is copied before, and bias, activation and what it cannot write come
 * after. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/copy.h"
#include "ops/gemm.h"
#include "ops/linear.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum { LANES = 4, CPU_GROUP = 16, GPU_GROUP = 64 };

static clattn_status make_dense(clattn_context *context, clattn_dtype dtype, clattn_tensor *t, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    const int64_t n = clattn_tensor_elements(t);
    CLA_TRY(clattn_buffer_create(context, (size_t)n * clattn_dtype_size(dtype), buffer));
    *t = clattn_tensor_buffer(*buffer, dtype, t->rank, t->shape);
done:
    return status;
}

/* t as a dense copy of the type of the sums, where CLBlast cannot read it in place. */
static clattn_status copy_in(clattn_context *context, clattn_dtype dtype, bool readable, clattn_tensor *t,
                             clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor from = *t;
    cla_kernel *kernel = NULL;
    if (readable && t->dtype == dtype)
        goto done;
    CLA_TRY(make_dense(context, dtype, t, buffer));
    CLA_TRY(cla_copy_kernel(context, dtype == CLATTN_F64, "copy_strided", &kernel));
    CLA_TRY(cla_copy_strided(context, kernel, &from, t));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static bool are_rows(const clattn_tensor *t) {
    return t->stride[3] == 1 && (t->shape[2] == 1 || t->stride[2] >= t->shape[3]);
}

static clattn_status multiply(clattn_context *context, const cla_linear *a) {
    const clattn_tensor *x = &a->x, *w = &a->w, *y = &a->y;
    const bool transposed = w->stride[1] == 1;
    cla_gemm gemm = {.dtype = a->dtype,
                     .m = x->shape[2],
                     .n = a->N,
                     .k = a->K,
                     .a = {x->buffer, x->offset, x->stride[2], false},
                     .b = {w->buffer, w->offset, transposed ? w->stride[0] : w->stride[1], transposed},
                     .c = {y->buffer, y->offset, y->stride[2], false}};
    for (int i = 0; i < 2; i++)
        gemm.axes[i] = (cla_gemm_axis){x->shape[i], x->stride[i], 0, y->stride[i]};
    return cla_gemm_batched(context, &gemm);
}

/* y = act(product + bias); the product may lie in y. */
static clattn_status finish(clattn_context *context, const cla_linear *a, const clattn_tensor *product) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_group_within(device, device->device_class == CLATTN_DEVICE_CPU ? CPU_GROUP : GPU_GROUP);
    cla_kernel *kernel = NULL;
    cla_linear b = *a;
    cla_key key = cla_key_make("linear_parts.cl", "bias_act");
    key.helper = "lanes.clh";
    key.more_helpers[0] = "act.clh";
    key.more_helpers[1] = "linear.clh";
    cla_key_define(&key, "REAL", a->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", LANES);
    cla_key_define(&key, "STAGED", 1);
    cla_key_define(&key, "WG", group);
    b.x = *product;
    const cla_linear_args args = cla_linear_args_of(&b);
    const cla_arg list[] = {CLA_ARG_BUFFER(b.x.buffer), CLA_ARG_BUFFER(b.bias.buffer), CLA_ARG_BUFFER(b.y.buffer),
                            CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(b.M * cla_ceil_div(b.N, LANES), group), list, 4));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status cla_linear_clblast(clattn_context *context, const cla_linear *given) {
    clattn_status status = CLATTN_OK;
    cla_linear a = *given;
    clattn_buffer *x = NULL, *w = NULL, *y = NULL;
    const clattn_tensor *t = &a.w;
    const bool w_readable = (t->stride[1] == 1 && (a.N == 1 || t->stride[0] >= a.K)) ||
                            (t->stride[0] == 1 && (a.K == 1 || t->stride[1] >= a.N));
    CLA_TRY(cla_gemm_test(context, a.dtype));
    if (a.K > 0) {
        CLA_TRY(copy_in(context, a.dtype, are_rows(&a.x), &a.x, &x));
        CLA_TRY(copy_in(context, a.dtype, w_readable, &a.w, &w));
    }
    const bool in_place = a.y.dtype == a.dtype && are_rows(&a.y);
    if (!in_place)
        CLA_TRY(make_dense(context, a.dtype, &a.y, &y));
    CLA_TRY(multiply(context, &a));
    if (!in_place || cla_present(&a.bias) || a.activation != CLATTN_ACTIVATION_NONE) {
        const clattn_tensor product = a.y;
        a.y = given->y;
        CLA_TRY(finish(context, &a, &product));
    }
done:
    clattn_buffer_destroy(x);
    clattn_buffer_destroy(w);
    clattn_buffer_destroy(y);
    return status;
}
