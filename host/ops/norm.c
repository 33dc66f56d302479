/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm: checks, then rows.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_norm.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

/* Tensors in the order of the kernel's arguments. */
enum { X, RESIDUAL, WEIGHT, BIAS, Y, SUM, MEAN, INV_STD, TENSORS };
static const char *const names[TENSORS] = {"x", "residual", "weight", "bias", "y", "sum", "mean", "inv_std"};

static void list(cla_norm *a, clattn_tensor *all[TENSORS]) {
    clattn_tensor *const tensors[TENSORS] = {&a->x, &a->residual, &a->weight, &a->bias,
                                             &a->y, &a->sum,      &a->mean,   &a->inv_std};
    memcpy(all, tensors, sizeof tensors);
}

/* ---- checks ---- */

static clattn_status take_options(const clattn_norm_args *args, cla_norm *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const int axes = args->axes ? args->axes : 1;
    CLA_CHECK((unsigned)args->kind <= CLATTN_NORM_RMS, CLATTN_E_ARGUMENT, "norm: %d is no kind of norm",
              (int)args->kind);
    CLA_CHECK(args->epsilon >= 0 && isfinite(args->epsilon), CLATTN_E_ARGUMENT,
              "norm: epsilon %g; it is a finite number above 0, or 0 for 1e-5", args->epsilon);
    CLA_CHECK(axes > 0 && axes <= a->x.rank, CLATTN_E_SHAPE, "norm: %d axes of x %s; there are %d", axes,
              cla_shape_text(&a->x, text, sizeof text), a->x.rank);
    CLA_CHECK(!cla_present(&a->sum) || cla_present(&a->residual), CLATTN_E_ARGUMENT,
              "sum: is that of x and residual, which is missing");
    CLA_CHECK(!cla_present(&a->mean) || args->kind == CLATTN_NORM_LAYER, CLATTN_E_ARGUMENT, "mean: RMSNorm has none");
    a->kind = args->kind;
    a->epsilon = args->epsilon > 0 ? args->epsilon : 1e-5;
    a->outer = a->x.rank - axes;
done:
    return status;
}

/* A number for each row: with or without axes of size 1 for the others. */
static clattn_status take_of_rows(const cla_norm *a, const char *name, clattn_tensor *t) {
    char text[200], other[200];
    const clattn_tensor given = *t;
    bool fits = !cla_present(t) || t->rank == a->x.rank || t->rank == a->outer;
    for (int i = 0; fits && i < t->rank; i++)
        fits = t->shape[i] == (i < a->outer ? a->x.shape[i] : 1);
    for (int i = t->rank; fits && cla_present(t) && i < a->x.rank; i++)
        t->shape[i] = 1, t->stride[i] = 0;
    if (fits && cla_present(t)) {
        t->rank = a->x.rank;
        cla_walk_broadcast(t, a->x.rank, a->x.shape);
        for (int i = a->outer; i < t->rank; i++)
            t->shape[i] = cla_max(t->shape[i], 1); /* rows of no elements have a mean, too */
    }
    return fits ? CLATTN_OK
                : cla_error(CLATTN_E_SHAPE, "%s %s: should be x %s with 1 for the last %d axes, or without them", name,
                            cla_shape_text(&given, text, sizeof text), cla_shape_text(&a->x, other, sizeof other),
                            a->x.rank - a->outer);
}

static clattn_status check_apart(clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    for (int out = Y; out < TENSORS; out++)
        for (int in = X; in < out && cla_present(all[out]); in++) {
            const bool may_be_same = out <= SUM && in <= RESIDUAL;
            if (!cla_present(all[in]))
                continue;
            CLA_TRY(may_be_same ? cla_operand_same_or_apart(all[in], names[in], all[out], names[out])
                                : cla_operand_apart(all[in], names[in], all[out], names[out]));
        }
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_norm_args *args, cla_norm *a, clattn_tensor **all) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    *a = (cla_norm){.x = args->x, .residual = args->residual, .weight = args->weight, .bias = args->bias};
    a->y = args->y, a->sum = args->sum, a->mean = args->mean, a->inv_std = args->inv_std;
    list(a, all);
    for (int i = 0; i < TENSORS; i++)
        if (i == X || i == Y || all[i]->rank != 0)
            CLA_TRY(cla_operand_check(context, all[i], names[i], i >= Y ? CLA_OPERAND_OUTPUT : CLA_OPERAND_FLOATS));
    CLA_TRY(take_options(args, a));
    for (int i = RESIDUAL; i < MEAN; i++)
        if ((i < WEIGHT || i > BIAS) && cla_present(all[i]))
            CLA_TRY(cla_operand_same_shape(all[i], names[i], &a->x, "x"));
    CLA_TRY(check_apart(all));
    CLA_TRY(cla_operand_sums(context, "norm", all, TENSORS, &a->dtype));
    for (int i = WEIGHT; i <= BIAS; i++)
        CLA_CHECK(!cla_present(all[i]) || cla_walk_broadcast(all[i], a->x.rank, a->x.shape), CLATTN_E_SHAPE,
                  "%s %s: does not broadcast from the right to x %s", names[i],
                  cla_shape_text(all[i], text, sizeof text), cla_shape_text(&a->x, other, sizeof other));
    CLA_TRY(take_of_rows(a, "mean", &a->mean));
    CLA_TRY(take_of_rows(a, "inv_std", &a->inv_std));
    cla_walk_merge(all, TENSORS, &a->outer);
    a->rows = cla_walk_count(&a->x, 0, a->outer);
    a->length = cla_walk_count(&a->x, a->outer, a->x.rank);
    CLA_CHECK(a->length <= CLA_WALK_MOST, CLATTN_E_LIMIT, "x %s: rows of %lld elements; %d is the most",
              cla_shape_text(&args->x, text, sizeof text), (long long)a->length, CLA_WALK_MOST);
done:
    return status;
}

/* ---- the call ---- */

static clattn_status run(clattn_context *context, const cla_norm *a, clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    const cla_key key = cla_axes_key(device, "rows.cl", "norm_rows", a->dtype, all, TENSORS);
    cla_norm_args args = {.axes = cla_axes_of(&a->x, a->outer),
                          .rows = cla_axes_share(device, a->rows),
                          .rms = a->kind == CLATTN_NORM_RMS,
                          .epsilon = (cl_float)a->epsilon};
    cla_axes_tensor *const tensors[TENSORS] = {&args.x, &args.residual, &args.weight, &args.bias,
                                               &args.y, &args.sum,      &args.mean,   &args.inv_std};
    cla_arg list_of[TENSORS + 1];
    memcpy(&args.epsilon_bits, &a->epsilon, sizeof args.epsilon_bits);
    for (int i = 0; i < TENSORS; i++) {
        *tensors[i] = cla_axes_tensor_of(all[i], a->outer);
        list_of[i] = CLA_ARG_BUFFER(all[i]->buffer);
    }
    list_of[TENSORS] = CLA_ARG_VALUE(args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 8.0 * (double)a->rows * (double)a->length, cla_axes_bytes(all, TENSORS));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(a->rows, args.rows), list_of, TENSORS + 1));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_norm(clattn_context *context, const clattn_norm_args *args) {
    clattn_status status = CLATTN_OK;
    cla_norm a;
    clattn_tensor *all[TENSORS];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "norm: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_norm_args, args));
    CLA_TRY(take(context, args, &a, all));
    /* Rows of no elements have a mean, and nothing else. */
    if (a.rows == 0 || (a.length == 0 && !cla_present(&a.mean) && !cla_present(&a.inv_std)))
        goto done;
    cla_operand_to_host(context, all, TENSORS);
    if (cla_context_is_cpu(context)) {
        cla_ref_norm(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.x, CLA_IN},  {&a.residual, CLA_IN}, {&a.weight, CLA_IN}, {&a.bias, CLA_IN},
                                  {&a.y, CLA_OUT}, {&a.sum, CLA_OUT},     {&a.mean, CLA_OUT},  {&a.inv_std, CLA_OUT}};
    status = cla_staging_begin(context, tensors, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a, all);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
