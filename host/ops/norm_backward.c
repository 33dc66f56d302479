/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of LayerNorm and RMSNorm: checks, then rows_backward.cl for rows and sums.cl for weights, or the plain
 * loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ops/sums.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

/* The caller's tensors; outputs from D_X on. */
enum { X, RESIDUAL, WEIGHT, D_Y, D_SUM, D_X, D_WEIGHT, D_BIAS, TENSORS };
static const char *const names[TENSORS] = {"x", "residual", "weight", "d_y", "d_sum", "d_x", "d_weight", "d_bias"};

typedef struct {
    clattn_tensor t[TENSORS];
    clattn_norm_kind kind;
    int outer;
    double epsilon;
    bool accumulate;
    clattn_dtype dtype;
    clattn_tensor terms; /* d_y times the normalised x, dense in scratch: d_weight is their sum */
    clattn_buffer *scratch;
} norm;

/* ---- checks ---- */

static clattn_status take_options(const clattn_norm_backward_args *args, norm *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const int axes = args->axes ? args->axes : 1, rank = args->x.rank;
    CLA_CHECK((unsigned)args->kind <= CLATTN_NORM_RMS, CLATTN_E_ARGUMENT, "norm_backward: %d is no kind of norm",
              (int)args->kind);
    CLA_CHECK(args->epsilon >= 0 && isfinite(args->epsilon), CLATTN_E_ARGUMENT,
              "norm_backward: epsilon %g; it is a finite number above 0, or 0 for 1e-5", args->epsilon);
    CLA_CHECK(axes > 0 && axes <= rank, CLATTN_E_SHAPE, "norm_backward: %d axes of x %s; there are %d", axes,
              cla_shape_text(&args->x, text, sizeof text), rank);
    a->kind = args->kind;
    a->epsilon = args->epsilon > 0 ? args->epsilon : 1e-5;
    a->outer = rank - axes;
    a->accumulate = args->accumulate;
done:
    return status;
}

static clattn_status check_apart(const norm *a) {
    clattn_status status = CLATTN_OK;
    for (int out = D_X; out < TENSORS; out++)
        for (int in = X; in < out && cla_present(&a->t[out]); in++) {
            const clattn_tensor *x = &a->t[in], *y = &a->t[out];
            if (!cla_present(x))
                continue;
            CLA_TRY(out == D_X && in == D_SUM ? cla_operand_same_or_apart(x, names[in], y, names[out])
                                              : cla_operand_apart(x, names[in], y, names[out]));
        }
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_norm_backward_args *args, norm *a) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    const clattn_tensor given[TENSORS] = {args->x,     args->residual, args->weight,   args->d_y,
                                          args->d_sum, args->d_x,      args->d_weight, args->d_bias};
    clattn_tensor *all[TENSORS];
    memcpy(a->t, given, sizeof given);
    for (int i = 0; i < TENSORS; i++) {
        all[i] = &a->t[i];
        if (i == X || i == D_Y || given[i].rank != 0)
            CLA_TRY(cla_operand_check(context, &given[i], names[i],
                                      i < D_X ? CLA_OPERAND_FLOATS : cla_operand_sum(i > D_X && args->accumulate)));
    }
    CLA_TRY(take_options(args, a));
    for (int i = RESIDUAL; i <= D_X; i++)
        if (i != WEIGHT && cla_present(&given[i]))
            CLA_TRY(cla_operand_same_shape(&given[i], names[i], &given[X], "x"));
    if (cla_present(&args->weight) && cla_present(&args->d_weight))
        CLA_TRY(cla_operand_same_shape(&args->d_weight, "d_weight", &args->weight, "weight"));
    CLA_TRY(check_apart(a));
    CLA_TRY(cla_operand_sums(context, "norm_backward", all, TENSORS, &a->dtype));
    for (int i = WEIGHT; i < TENSORS; i++) {
        clattn_tensor t = given[i]; /* outputs broadcast once they are staged, since they are there without rows */
        CLA_CHECK(!cla_present(&t) || cla_walk_broadcast(&t, args->x.rank, args->x.shape), CLATTN_E_SHAPE,
                  "%s %s: does not broadcast from the right to x %s", names[i],
                  cla_shape_text(&given[i], text, sizeof text), cla_shape_text(&args->x, other, sizeof other));
        a->t[i] = i < D_WEIGHT ? t : given[i];
    }
done:
    return status;
}

/* ---- the call ---- */

static clattn_status make_scratch(clattn_context *context, norm *a) {
    clattn_status status = CLATTN_OK;
    const int64_t elements = clattn_tensor_elements(&a->t[X]);
    if (!cla_present(&a->t[D_WEIGHT]))
        goto done;
    CLA_CHECK((uint64_t)elements <= SIZE_MAX / 8, CLATTN_E_LIMIT,
              "norm_backward: scratch of %lld numbers for d_weight is more than memory can be", (long long)elements);
    CLA_TRY(clattn_buffer_create(context, (size_t)elements * clattn_dtype_size(a->dtype), &a->scratch));
    a->terms = clattn_tensor_buffer(a->scratch, a->dtype, a->t[X].rank, a->t[X].shape);
    cla_operand_to_host(context, (clattn_tensor *[]){&a->terms}, 1);
done:
    return status;
}

static clattn_status run_rows(clattn_context *context, const norm *a) {
    clattn_status status = CLATTN_OK;
    enum { COUNT = 6 };
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    cla_norm_back b = {.kind = a->kind,
                       .x = a->t[X],
                       .residual = a->t[RESIDUAL],
                       .weight = a->t[WEIGHT],
                       .d_y = a->t[D_Y],
                       .d_sum = a->t[D_SUM],
                       .d_x = a->t[D_X],
                       .terms = a->terms,
                       .outer = a->outer,
                       .epsilon = a->epsilon,
                       .dtype = a->dtype};
    clattn_tensor *const all[COUNT] = {&b.x, &b.residual, &b.weight, &b.d_y, &b.d_sum, &b.d_x};
    char text[200];
    if (clattn_tensor_elements(&b.x) == 0 || (!cla_present(&b.d_x) && !cla_present(&b.terms)))
        goto done;
    cla_walk_merge(all, COUNT, &b.outer);
    b.rows = cla_walk_count(&b.x, 0, b.outer);
    b.length = cla_walk_count(&b.x, b.outer, b.x.rank);
    CLA_CHECK(b.length <= CLA_WALK_MOST, CLATTN_E_LIMIT, "x %s: rows of %lld elements; %d is the most",
              cla_shape_text(&a->t[X], text, sizeof text), (long long)b.length, CLA_WALK_MOST);
    if (cla_context_is_cpu(context)) {
        cla_ref_norm_back(&b);
        goto done;
    }
    const cla_key key = cla_axes_key(device, "rows_backward.cl", "norm_backward", b.dtype, all, COUNT);
    cla_norm_back_args args = {.axes = cla_axes_of(&b.x, b.outer),
                               .rows = cla_axes_share(device, b.rows),
                               .rms = b.kind == CLATTN_NORM_RMS,
                               .epsilon = (cl_float)b.epsilon,
                               .has_terms = cla_present(&b.terms)};
    cla_axes_tensor *const tensors[COUNT] = {&args.x, &args.residual, &args.weight, &args.d_y, &args.d_sum, &args.d_x};
    cla_arg list[COUNT + 2];
    memcpy(&args.epsilon_bits, &b.epsilon, sizeof args.epsilon_bits);
    for (int i = 0; i < COUNT; i++) {
        *tensors[i] = cla_axes_tensor_of(all[i], b.outer);
        list[i] = CLA_ARG_BUFFER(all[i]->buffer);
    }
    list[COUNT] = CLA_ARG_BUFFER(b.terms.buffer);
    list[COUNT + 1] = CLA_ARG_VALUE(args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 14.0 * (double)b.rows * (double)b.length, cla_axes_bytes(all, COUNT));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(b.rows, args.rows), list, COUNT + 2));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status run(clattn_context *context, norm *a) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(make_scratch(context, a));
    CLA_TRY(run_rows(context, a));
    for (int i = D_WEIGHT; i <= D_BIAS; i++) {
        cla_sums sums = {
            .x = i == D_BIAS ? a->t[D_Y] : a->terms, .y = a->t[i], .add = a->accumulate, .dtype = a->dtype};
        if (!cla_present(&sums.y) || clattn_tensor_elements(&sums.y) == 0)
            continue;
        cla_walk_broadcast(&sums.y, a->t[X].rank, a->t[X].shape);
        CLA_TRY(cla_sums_run(context, &sums));
    }
done:
    clattn_buffer_destroy(a->scratch);
    return status;
}

clattn_status clattn_norm_backward(clattn_context *context, const clattn_norm_backward_args *args) {
    clattn_status status = CLATTN_OK;
    norm a = {0};
    clattn_tensor *all[TENSORS];
    cla_staged staged[TENSORS];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "norm_backward: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_norm_backward_args, args));
    CLA_TRY(take(context, args, &a));
    for (int i = 0; i < TENSORS; i++) {
        all[i] = &a.t[i];
        staged[i] = (cla_staged){all[i], i < D_X ? CLA_IN : i > D_X && a.accumulate ? CLA_INOUT : CLA_OUT};
    }
    cla_operand_to_host(context, all, TENSORS);
    status = cla_staging_begin(context, staged, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
