/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of activations and gates: checks, then points_backward.cl or the plain loops. */
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
#include <string.h>

enum { X, UP, D_Y, D_X, D_UP, TENSORS };
static const char *const names[TENSORS] = {"x", "up", "d_y", "d_x", "d_up"};

static void list(cla_points_back *a, clattn_tensor *all[TENSORS]) {
    clattn_tensor *const tensors[TENSORS] = {&a->x, &a->up, &a->d_y, &a->d_x, &a->d_up};
    memcpy(all, tensors, sizeof tensors);
}

static clattn_status take(clattn_context *context, const clattn_activate_backward_args *args, cla_points_back *a) {
    clattn_status status = CLATTN_OK;
    clattn_tensor *all[TENSORS];
    *a = (cla_points_back){.x = args->x, .up = args->up, .d_y = args->d_y, .d_x = args->d_x, .d_up = args->d_up};
    a->activation = args->activation;
    list(a, all);
    CLA_CHECK((unsigned)args->activation <= CLATTN_ACTIVATION_SILU, CLATTN_E_ARGUMENT,
              "activate_backward: %d is no activation", (int)args->activation);
    CLA_CHECK(args->d_up.rank == 0 || args->up.rank != 0, CLATTN_E_ARGUMENT,
              "d_up: is the gradient by up, which is missing");
    for (int i = X; i < TENSORS; i++) {
        if (i != X && i != D_Y && all[i]->rank == 0)
            continue;
        CLA_TRY(cla_operand_check(context, all[i], names[i], i >= D_X ? CLA_OPERAND_OUTPUT : CLA_OPERAND_FLOATS));
        CLA_TRY(cla_operand_same_shape(all[i], names[i], &a->x, "x"));
        for (int in = X; i >= D_X && in < i; in++)
            if (cla_present(all[in]))
                CLA_TRY(in == D_X ? cla_operand_apart(all[in], names[in], all[i], names[i])
                                  : cla_operand_same_or_apart(all[in], names[in], all[i], names[i]));
    }
    CLA_TRY(cla_operand_sums(context, "activate_backward", all, TENSORS, &a->dtype));
    if (clattn_tensor_elements(&a->x) == 0)
        goto done;
    cla_walk_merge(all, TENSORS, &a->outer);
    a->outer = a->x.rank - 1;
    a->rows = cla_walk_count(&a->x, 0, a->outer);
    a->length = a->x.shape[a->outer];
done:
    return status;
}

static clattn_status run(clattn_context *context, cla_points_back *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_axes_group(device), elements = a->rows * a->length;
    cla_kernel *kernel = NULL;
    clattn_tensor *all[TENSORS];
    cla_arg arguments[TENSORS + 1];
    list(a, all);
    cla_key key = cla_axes_key(device, "points_backward.cl", "points_backward", a->dtype, all, TENSORS);
    key.more_helpers[1] = "act.clh";
    cla_point_back_args args = {
        .axes = cla_axes_of(&a->x, a->outer), .chunk = cla_axes_chunk(device, elements), .act = (cl_int)a->activation};
    cla_axes_tensor *const tensors[TENSORS] = {&args.x, &args.up, &args.d_y, &args.d_x, &args.d_up};
    for (int i = 0; i < TENSORS; i++) {
        *tensors[i] = cla_axes_tensor_of(all[i], a->outer);
        arguments[i] = CLA_ARG_BUFFER(all[i]->buffer);
    }
    arguments[TENSORS] = CLA_ARG_VALUE(args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 8.0 * (double)elements, cla_axes_bytes(all, TENSORS));
    CLA_TRY(
        cla_launch(context, kernel, cla_ceil_div(cla_ceil_div(elements, args.chunk), group), arguments, TENSORS + 1));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_activate_backward(clattn_context *context, const clattn_activate_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_points_back a;
    clattn_tensor *all[TENSORS];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "activate_backward: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_activate_backward_args, args));
    CLA_TRY(take(context, args, &a));
    if (a.rows == 0 || (!cla_present(&a.d_x) && !cla_present(&a.d_up)))
        goto done;
    list(&a, all);
    cla_operand_to_host(context, all, TENSORS);
    if (cla_context_is_cpu(context)) {
        cla_ref_points_back(&a);
        goto done;
    }
    const cla_staged tensors[] = {
        {&a.x, CLA_IN}, {&a.up, CLA_IN}, {&a.d_y, CLA_IN}, {&a.d_x, CLA_OUT}, {&a.d_up, CLA_OUT}};
    status = cla_staging_begin(context, tensors, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
