/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of Adam and SGD: checks and numbers, then optimizer.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_optimizer.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

_Static_assert((int)CLA_STEP_COUNT == CLA_STEP_NUMBERS, "kernels know the numbers of a step");

enum { PARAMETER, GRADIENT, STATE1, STATE2, FACTOR, TENSORS };

static void list(cla_step *a, clattn_tensor *all[TENSORS]) {
    clattn_tensor *const tensors[TENSORS] = {&a->parameter, &a->gradient, &a->state1, &a->state2, &a->factor};
    memcpy(all, tensors, sizeof tensors);
}

/* States have one name or two; those that are missing are not part of the step. */
static clattn_status take(clattn_context *context, cla_step *a, const char *what, const char *const state_names[2]) {
    clattn_status status = CLATTN_OK;
    char text[200];
    const char *const names[TENSORS] = {"parameter", "gradient", state_names[0], state_names[1], "gradient_factor"};
    clattn_tensor *all[TENSORS];
    list(a, all);
    for (int i = 0; i < TENSORS; i++) {
        const bool written = i != GRADIENT && i != FACTOR;
        if (!names[i] || (i == FACTOR && all[i]->rank == 0))
            continue;
        CLA_TRY(cla_operand_check(context, all[i], names[i],
                                  written ? CLA_OPERAND_OUTPUT | CLA_OPERAND_CHANGED : CLA_OPERAND_FLOATS));
        if (i != FACTOR)
            CLA_TRY(cla_operand_same_shape(all[i], names[i], &a->parameter, "parameter"));
        for (int other = 0; other < i; other++)
            if (names[other] && (written || other != GRADIENT))
                CLA_TRY(cla_operand_apart(all[other], names[other], all[i], names[i]));
    }
    CLA_CHECK(a->factor.rank == 0 || clattn_tensor_elements(&a->factor) == 1, CLATTN_E_SHAPE,
              "gradient_factor %s: should be [1], one number", cla_shape_text(&a->factor, text, sizeof text));
    CLA_TRY(cla_operand_sums(context, what, all, TENSORS, &a->dtype));
    if (clattn_tensor_elements(&a->parameter) == 0)
        goto done;
    cla_walk_merge(all, FACTOR, &a->outer);
    a->outer = a->parameter.rank - 1;
    a->rows = cla_walk_count(&a->parameter, 0, a->outer);
    a->length = a->parameter.shape[a->outer];
done:
    return status;
}

static clattn_status run(clattn_context *context, cla_step *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_axes_group(device), elements = a->rows * a->length;
    cla_kernel *kernel = NULL;
    clattn_tensor *all[TENSORS];
    cla_arg arguments[TENSORS + 1];
    int count = 0;
    list(a, all);
    const cla_key key = cla_axes_key(device, "optimizer.cl", a->adam ? "adam_step" : "sgd_step", a->dtype, all, FACTOR);
    cla_step_args args = {.parameter = cla_axes_tensor_of(&a->parameter, a->outer),
                          .gradient = cla_axes_tensor_of(&a->gradient, a->outer),
                          .state1 = cla_axes_tensor_of(&a->state1, a->outer),
                          .state2 = cla_axes_tensor_of(&a->state2, a->outer),
                          .axes = cla_axes_of(&a->parameter, a->outer),
                          .factor_0 = a->factor.offset,
                          .has_factor = cla_present(&a->factor),
                          .factor_type = (cl_int)a->factor.dtype,
                          .first = a->first,
                          .nesterov = a->nesterov,
                          .chunk = cla_axes_chunk(device, elements)};
    memcpy(args.bits, a->numbers, sizeof args.bits);
    for (int i = 0; i < CLA_STEP_NUMBERS; i++)
        args.numbers[i] = (cl_float)a->numbers[i];
    for (int i = 0; i < TENSORS; i++)
        if (i != STATE2 || a->adam)
            arguments[count++] = CLA_ARG_BUFFER(all[i]->buffer);
    arguments[count++] = CLA_ARG_VALUE(args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, (a->adam ? 14.0 : 6.0) * (double)elements, 2 * cla_axes_bytes(all, FACTOR));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(cla_ceil_div(elements, args.chunk), group), arguments, count));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status compute(clattn_context *context, cla_step *a) {
    clattn_status status = CLATTN_OK;
    clattn_tensor *all[TENSORS];
    cla_staging staging;
    list(a, all);
    if (a->rows == 0)
        goto done;
    cla_operand_to_host(context, all, TENSORS);
    if (cla_context_is_cpu(context)) {
        cla_ref_step(a);
        goto done;
    }
    const cla_staged tensors[] = {{&a->parameter, CLA_INOUT},
                                  {&a->gradient, CLA_IN},
                                  {&a->state1, CLA_INOUT},
                                  {&a->state2, CLA_INOUT},
                                  {&a->factor, CLA_IN}};
    status = cla_staging_begin(context, tensors, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}

static clattn_status check_number(const char *what, const char *name, double x, double below) {
    return x >= 0 && x < below ? CLATTN_OK
           : isinf(below)
               ? cla_error(CLATTN_E_ARGUMENT, "%s: %s %g; it is finite and not negative", what, name, x)
               : cla_error(CLATTN_E_ARGUMENT, "%s: %s %g; it is from 0 on, and below %g", what, name, x, below);
}

static clattn_status check_step(const char *what, int64_t step) {
    return step > 0 ? CLATTN_OK
                    : cla_error(CLATTN_E_ARGUMENT, "%s: step %lld; steps count from 1", what, (long long)step);
}

clattn_status clattn_adam_step(clattn_context *context, const clattn_adam_args *args) {
    static const char *const state_names[] = {"moment1", "moment2"};
    clattn_status status = CLATTN_OK;
    const char *what = "adam_step";
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "adam_step: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_adam_args, args));
    const double rate = args->rate != 0 ? args->rate : 1e-3, epsilon = args->epsilon != 0 ? args->epsilon : 1e-8;
    const double beta1 = args->has_betas ? args->beta1 : 0.9, beta2 = args->has_betas ? args->beta2 : 0.999;
    CLA_TRY(check_step(what, args->step));
    CLA_TRY(check_number(what, "rate", rate, (double)INFINITY));
    CLA_TRY(check_number(what, "beta1", beta1, 1));
    CLA_TRY(check_number(what, "beta2", beta2, 1));
    CLA_TRY(check_number(what, "epsilon", epsilon, (double)INFINITY));
    CLA_TRY(check_number(what, "decay", args->decay, (double)INFINITY));
    cla_step a = {.parameter = args->parameter,
                  .gradient = args->gradient,
                  .state1 = args->moment1,
                  .state2 = args->moment2,
                  .factor = args->gradient_factor,
                  .adam = true,
                  .first = args->step == 1};
    a.numbers[CLA_STEP_KEEP1] = beta1, a.numbers[CLA_STEP_TAKE1] = 1 - beta1;
    a.numbers[CLA_STEP_KEEP2] = beta2, a.numbers[CLA_STEP_TAKE2] = 1 - beta2;
    a.numbers[CLA_STEP_RATE] = rate / (1 - pow(beta1, (double)args->step));
    a.numbers[CLA_STEP_ROOT] = 1 / sqrt(1 - pow(beta2, (double)args->step));
    a.numbers[CLA_STEP_EPSILON] = epsilon;
    a.numbers[CLA_STEP_DECAY] = args->decay_gradient ? args->decay : 0;
    a.numbers[CLA_STEP_LEFT] = args->decay_gradient ? 1 : 1 - rate * args->decay;
    CLA_TRY(take(context, &a, what, state_names));
    CLA_TRY(compute(context, &a));
done:
    return status;
}

clattn_status clattn_sgd_step(clattn_context *context, const clattn_sgd_args *args) {
    clattn_status status = CLATTN_OK;
    const char *what = "sgd_step";
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "sgd_step: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_sgd_args, args));
    const char *const state_names[] = {args->momentum > 0 ? "velocity" : NULL, NULL};
    const double rate = args->rate != 0 ? args->rate : 1e-3;
    CLA_TRY(check_step(what, args->step));
    CLA_TRY(check_number(what, "rate", rate, (double)INFINITY));
    CLA_TRY(check_number(what, "momentum", args->momentum, 1));
    CLA_TRY(check_number(what, "decay", args->decay, (double)INFINITY));
    CLA_CHECK(isfinite(args->dampening), CLATTN_E_ARGUMENT, "sgd_step: dampening %g is not finite", args->dampening);
    CLA_CHECK(!args->nesterov || (args->momentum > 0 && args->dampening == 0), CLATTN_E_ARGUMENT,
              "sgd_step: nesterov needs a momentum, and no dampening");
    cla_step a = {.parameter = args->parameter,
                  .gradient = args->gradient,
                  .factor = args->gradient_factor,
                  .first = args->step == 1,
                  .nesterov = args->nesterov};
    if (args->momentum > 0)
        a.state1 = args->velocity;
    a.numbers[CLA_STEP_KEEP1] = args->momentum, a.numbers[CLA_STEP_DAMPED] = 1 - args->dampening;
    a.numbers[CLA_STEP_RATE] = rate;
    a.numbers[CLA_STEP_DECAY] = args->decay;
    CLA_TRY(take(context, &a, what, state_names));
    CLA_TRY(compute(context, &a));
done:
    return status;
}
