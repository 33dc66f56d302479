/* SPDX-License-Identifier: Apache-2.0 */
/* What is computed element by element: activations, gates and sums. Checks, then pointwise.cl or the plain loops. */
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

_Static_assert((int)CLA_ALONE == CLA_WITH_NONE && (int)CLA_TIMES == CLA_WITH_PRODUCT && (int)CLA_PLUS == CLA_WITH_SUM,
               "kernels combine by these numbers");

enum { TENSORS = 3 };

static clattn_status run(clattn_context *context, const cla_points *a, clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_axes_group(device), elements = a->rows * a->length;
    cla_kernel *kernel = NULL;
    cla_key key = cla_axes_key(device, "pointwise.cl", "pointwise", a->dtype, all, TENSORS);
    key.more_helpers[1] = "act.clh";
    const cla_point_args args = {.x = cla_axes_tensor_of(&a->x, a->outer),
                                 .other = cla_axes_tensor_of(&a->other, a->outer),
                                 .y = cla_axes_tensor_of(&a->y, a->outer),
                                 .axes = cla_axes_of(&a->x, a->outer),
                                 .chunk = cla_axes_chunk(device, elements),
                                 .act = (cl_int)a->activation,
                                 .with = (cl_int)a->with};
    const cla_arg list[] = {CLA_ARG_BUFFER(a->x.buffer), CLA_ARG_BUFFER(a->other.buffer), CLA_ARG_BUFFER(a->y.buffer),
                            CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, (double)elements, cla_axes_bytes(all, TENSORS));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(cla_ceil_div(elements, args.chunk), group), list, 4));
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* Of checked tensors, `other` expanded. */
static clattn_status compute(clattn_context *context, const char *what, cla_points *a) {
    clattn_status status = CLATTN_OK;
    cla_staging staging;
    clattn_tensor *const all[TENSORS] = {&a->x, &a->other, &a->y};
    CLA_TRY(cla_operand_sums(context, what, all, TENSORS, &a->dtype));
    if (clattn_tensor_elements(&a->x) == 0)
        goto done;
    cla_walk_merge(all, TENSORS, &a->outer);
    a->outer = a->x.rank - 1;
    a->rows = cla_walk_count(&a->x, 0, a->outer);
    a->length = a->x.shape[a->outer];
    cla_operand_to_host(context, all, TENSORS);
    if (cla_context_is_cpu(context)) {
        cla_ref_points(a);
        goto done;
    }
    const cla_staged tensors[] = {{&a->x, CLA_IN}, {&a->other, CLA_IN}, {&a->y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, a, all);
    status = cla_staging_end(&staging, status);
done:
    return status;
}

clattn_status clattn_activate(clattn_context *context, const clattn_activate_args *args) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "activate: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_activate_args, args));
    cla_points a = {.x = args->x, .other = args->up, .y = args->y, .activation = args->activation};
    CLA_CHECK((unsigned)args->activation <= CLATTN_ACTIVATION_SILU, CLATTN_E_ARGUMENT, "activate: %d is no activation",
              (int)args->activation);
    CLA_TRY(cla_operand_check(context, &a.x, "x", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a.y, "y", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_operand_same_shape(&a.y, "y", &a.x, "x"));
    CLA_TRY(cla_operand_same_or_apart(&a.x, "x", &a.y, "y"));
    if (a.other.rank != 0) {
        CLA_TRY(cla_operand_check(context, &a.other, "up", CLA_OPERAND_FLOATS));
        CLA_TRY(cla_operand_same_shape(&a.other, "up", &a.x, "x"));
        CLA_TRY(cla_operand_same_or_apart(&a.other, "up", &a.y, "y"));
        a.with = CLA_TIMES;
    }
    CLA_TRY(compute(context, "activate", &a));
done:
    return status;
}

clattn_status clattn_add(clattn_context *context, const clattn_add_args *args) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "add: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_add_args, args));
    cla_points a = {.x = args->a, .other = args->b, .y = args->y, .with = CLA_PLUS};
    CLA_TRY(cla_operand_check(context, &a.x, "a", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a.other, "b", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a.y, "y", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_operand_same_shape(&a.y, "y", &a.x, "a"));
    CLA_TRY(cla_operand_same_or_apart(&a.x, "a", &a.y, "y"));
    CLA_TRY(cla_operand_same_or_apart(&a.other, "b", &a.y, "y"));
    CLA_CHECK(cla_walk_broadcast(&a.other, a.x.rank, a.x.shape), CLATTN_E_SHAPE,
              "b %s: does not broadcast from the right to a %s", cla_shape_text(&args->b, text, sizeof text),
              cla_shape_text(&args->a, other, sizeof other));
    CLA_TRY(compute(context, "add", &a));
done:
    return status;
}
