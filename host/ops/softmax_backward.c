/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient of softmax along any axis: checks, then rows_backward.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_backward.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"

static clattn_status take(clattn_context *context, const clattn_softmax_backward_args *args, cla_softmax_back *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    *a = (cla_softmax_back){.y = args->y, .d_y = args->d_y, .d_x = args->d_x};
    clattn_tensor *const all[] = {&a->y, &a->d_y, &a->d_x};
    CLA_TRY(cla_operand_check(context, &a->y, "y", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a->d_y, "d_y", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a->d_x, "d_x", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_operand_same_shape(&a->d_y, "d_y", &a->y, "y"));
    CLA_TRY(cla_operand_same_shape(&a->d_x, "d_x", &a->y, "y"));
    CLA_TRY(cla_operand_same_or_apart(&a->y, "y", &a->d_x, "d_x"));
    CLA_TRY(cla_operand_same_or_apart(&a->d_y, "d_y", &a->d_x, "d_x"));
    const int rank = a->y.rank, given = args->has_axis ? args->axis : -1, axis = given < 0 ? given + rank : given;
    CLA_CHECK(axis >= 0 && axis < rank, CLATTN_E_SHAPE, "softmax_backward: axis %d of y %s; it is from %d to %d", given,
              cla_shape_text(&a->y, text, sizeof text), -rank, rank - 1);
    for (int i = 0; i < 3; i++)
        *all[i] = cla_axes_turned(all[i], axis);
    a->outer = rank - 1;
    CLA_TRY(cla_operand_sums(context, "softmax_backward", all, 3, &a->dtype));
    cla_walk_merge(all, 3, &a->outer);
    a->rows = cla_walk_count(&a->y, 0, a->outer);
    a->length = cla_walk_count(&a->y, a->outer, a->y.rank);
done:
    return status;
}

static clattn_status run(clattn_context *context, cla_softmax_back *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    clattn_tensor *const all[] = {&a->y, &a->d_y, &a->d_x};
    const cla_key key = cla_axes_key(device, "rows_backward.cl", "softmax_backward", a->dtype, all, 3);
    const cla_soft_back_args args = {.y = cla_axes_tensor_of(&a->y, a->outer),
                                     .d_y = cla_axes_tensor_of(&a->d_y, a->outer),
                                     .d_x = cla_axes_tensor_of(&a->d_x, a->outer),
                                     .axes = cla_axes_of(&a->y, a->outer),
                                     .rows = cla_axes_share(device, a->rows)};
    const cla_arg list[] = {CLA_ARG_BUFFER(a->y.buffer), CLA_ARG_BUFFER(a->d_y.buffer), CLA_ARG_BUFFER(a->d_x.buffer),
                            CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 4.0 * (double)a->rows * (double)a->length, cla_axes_bytes(all, 3));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(a->rows, args.rows), list, 4));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_softmax_backward(clattn_context *context, const clattn_softmax_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_softmax_back a;
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "softmax_backward: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_softmax_backward_args, args));
    CLA_TRY(take(context, args, &a));
    if (a.rows == 0 || a.length == 0)
        goto done;
    clattn_tensor *const all[] = {&a.y, &a.d_y, &a.d_x};
    cla_operand_to_host(context, all, 3);
    if (cla_context_is_cpu(context)) {
        cla_ref_softmax_back(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.y, CLA_IN}, {&a.d_y, CLA_IN}, {&a.d_x, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 3, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
