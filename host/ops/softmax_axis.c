/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax along any axis: checks, then rows.cl or the plain loops. Masked softmax of scores is softmax.c. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_points.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"

static clattn_status run(clattn_context *context, const cla_softmax_rows_of *a, clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    const cla_key key = cla_axes_key(device, "rows.cl", "softmax_axis", a->dtype, all, 2);
    const cla_soft_args args = {.x = cla_axes_tensor_of(&a->x, a->outer),
                                .y = cla_axes_tensor_of(&a->y, a->outer),
                                .axes = cla_axes_of(&a->x, a->outer),
                                .rows = cla_axes_share(device, a->rows)};
    const cla_arg list[] = {CLA_ARG_BUFFER(a->x.buffer), CLA_ARG_BUFFER(a->y.buffer), CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 4.0 * (double)a->rows * (double)a->length, cla_axes_bytes(all, 2));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(a->rows, args.rows), list, 3));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status take(clattn_context *context, const clattn_softmax_args *args, cla_softmax_rows_of *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_TRY(cla_operand_check(context, &args->x, "x", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &args->y, "y", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_operand_same_shape(&args->y, "y", &args->x, "x"));
    CLA_TRY(cla_operand_same_or_apart(&args->x, "x", &args->y, "y"));
    const int rank = args->x.rank, given = args->has_axis ? args->axis : -1, axis = given < 0 ? given + rank : given;
    CLA_CHECK(axis >= 0 && axis < rank, CLATTN_E_SHAPE, "softmax: axis %d of x %s; it is from %d to %d", given,
              cla_shape_text(&args->x, text, sizeof text), -rank, rank - 1);
    *a = (cla_softmax_rows_of){
        .x = cla_axes_turned(&args->x, axis), .y = cla_axes_turned(&args->y, axis), .outer = rank - 1};
    clattn_tensor *const all[] = {&a->x, &a->y};
    CLA_TRY(cla_operand_sums(context, "softmax", all, 2, &a->dtype));
    cla_walk_merge(all, 2, &a->outer);
    a->rows = cla_walk_count(&a->x, 0, a->outer);
    a->length = cla_walk_count(&a->x, a->outer, a->x.rank);
done:
    return status;
}

clattn_status clattn_softmax(clattn_context *context, const clattn_softmax_args *args) {
    clattn_status status = CLATTN_OK;
    cla_softmax_rows_of a = {0};
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "softmax: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_softmax_args, args));
    CLA_TRY(take(context, args, &a));
    if (a.rows == 0 || a.length == 0)
        goto done;
    clattn_tensor *const all[] = {&a.x, &a.y};
    cla_operand_to_host(context, all, 2);
    if (cla_context_is_cpu(context)) {
        cla_ref_softmax(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.x, CLA_IN}, {&a.y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 2, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a, all);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
