/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax cross-entropy and its gradient: checks, then rows_backward.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ops/tokens.h"
#include "ref/ref_backward.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

/* In the order of the caller's struct; outputs from LOSS on. */
enum { LOGITS, TARGETS, LOSS, ROW_LOSSES, D_LOGITS, TENSORS };
static const char *const names[TENSORS] = {"logits", "targets", "loss", "row_losses", "d_logits"};

static void list(cla_loss *a, clattn_tensor *all[TENSORS]) {
    clattn_tensor *const tensors[TENSORS] = {&a->logits, &a->targets, &a->loss, &a->row_losses, &a->d_logits};
    memcpy(all, tensors, sizeof tensors);
}

static clattn_status take_options(const clattn_cross_entropy_args *args, cla_loss *a) {
    clattn_status status = CLATTN_OK;
    a->scale = args->has_scale ? args->scale : 1;
    a->smoothing = args->smoothing;
    a->mean = args->reduction == CLATTN_LOSS_MEAN;
    a->has_ignore = args->has_ignore, a->ignore = args->ignore;
    CLA_CHECK((unsigned)args->reduction <= CLATTN_LOSS_SUM, CLATTN_E_ARGUMENT, "cross_entropy: %d is no reduction",
              (int)args->reduction);
    CLA_CHECK(isfinite(a->scale), CLATTN_E_ARGUMENT, "cross_entropy: scale %g is not finite", a->scale);
    CLA_CHECK(a->smoothing >= 0 && a->smoothing <= 1, CLATTN_E_ARGUMENT,
              "cross_entropy: smoothing %g; it is from 0 to 1", a->smoothing);
done:
    return status;
}

static clattn_status check_apart(clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    for (int out = LOSS; out < TENSORS; out++)
        for (int in = LOGITS; in < out && cla_present(all[out]); in++) {
            if (!cla_present(all[in]))
                continue;
            CLA_TRY(in == LOGITS && out == D_LOGITS
                        ? cla_operand_same_or_apart(all[in], names[in], all[out], names[out])
                        : cla_operand_apart(all[in], names[in], all[out], names[out]));
        }
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_cross_entropy_args *args, cla_loss *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    clattn_tensor *all[TENSORS];
    *a = (cla_loss){.logits = args->logits, .targets = args->targets, .loss = args->loss};
    a->row_losses = args->row_losses, a->d_logits = args->d_logits;
    list(a, all);
    CLA_TRY(take_options(args, a));
    for (int i = 0; i < TENSORS; i++)
        if (i < LOSS || all[i]->rank != 0)
            CLA_TRY(cla_operand_check(context, all[i], names[i],
                                      i == TARGETS ? CLA_OPERAND_INTS
                                      : i >= LOSS  ? CLA_OPERAND_OUTPUT
                                                   : CLA_OPERAND_FLOATS));
    CLA_CHECK(a->loss.rank == 0 || clattn_tensor_elements(&a->loss) == 1, CLATTN_E_SHAPE,
              "loss %s: should be [1], one number", cla_shape_text(&a->loss, text, sizeof text));
    CLA_TRY(check_apart(all));
    const int64_t C = a->logits.shape[a->logits.rank - 1];
    CLA_TRY(cla_tokens_ids_over(&args->logits, "logits", C, &args->targets, "targets", &a->targets));
    if (cla_present(&a->row_losses))
        CLA_TRY(cla_tokens_ids_over(&args->logits, "logits", C, &args->row_losses, "row_losses", &a->row_losses));
    if (cla_present(&a->d_logits))
        CLA_TRY(cla_operand_same_shape(&a->d_logits, "d_logits", &a->logits, "logits"));
    clattn_tensor *const floats[] = {&a->logits, &a->loss, &a->row_losses, &a->d_logits};
    CLA_TRY(cla_operand_sums(context, "cross_entropy", floats, 4, &a->dtype));
    CLA_CHECK(cla_present(&a->loss) || cla_present(&a->row_losses) || cla_present(&a->d_logits), CLATTN_E_ARGUMENT,
              "cross_entropy: loss, row_losses and d_logits are missing; ask for one at least");
    a->outer = a->logits.rank - 1;
    clattn_tensor *const walked[] = {&a->logits, &a->targets, &a->row_losses, &a->d_logits};
    cla_walk_merge(walked, 4, &a->outer);
    a->rows = cla_walk_count(&a->logits, 0, a->outer);
    a->length = C;
    CLA_CHECK(a->rows <= CLA_WALK_MOST, CLATTN_E_LIMIT, "cross_entropy: %lld rows; %d is the most", (long long)a->rows,
              CLA_WALK_MOST);
    a->targets.shape[a->outer] = 1; /* one a row, which is there and staged without classes too */
    if (cla_present(&a->row_losses))
        a->row_losses.shape[a->outer] = 1;
    CLA_TRY(cla_tokens_check(&a->targets, "targets", a->outer, a->rows, C, "logits have", "classes",
                             a->has_ignore ? &a->ignore : NULL));
done:
    return status;
}

static clattn_status launch(clattn_context *context, const cla_loss *a, const char *name, const cla_loss_args *args,
                            int64_t groups, const clattn_buffer *const *buffers, int count) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    clattn_tensor logits = a->logits, row_losses = a->row_losses, d_logits = a->d_logits;
    clattn_tensor *const all[] = {&logits, &row_losses, &d_logits};
    const cla_key key = cla_axes_key(device, "rows_backward.cl", name, a->dtype, all, 3);
    cla_arg list_of[7];
    for (int i = 0; i < count; i++)
        list_of[i] = CLA_ARG_BUFFER(buffers[i]);
    list_of[count] = CLA_ARG_VALUE(*args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context) && count > 3)
        cla_kernel_cost(kernel, 6.0 * (double)a->rows * (double)a->length, cla_axes_bytes(all, 3));
    CLA_TRY(cla_launch(context, kernel, groups, list_of, count + 1));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status run(clattn_context *context, const cla_loss *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const size_t size = clattn_dtype_size(a->dtype);
    clattn_buffer *factor = NULL, *losses = NULL;
    cla_loss_args args = {.logits = cla_axes_tensor_of(&a->logits, a->outer),
                          .targets = cla_axes_tensor_of(&a->targets, a->outer),
                          .row_losses = cla_axes_tensor_of(&a->row_losses, a->outer),
                          .d_logits = cla_axes_tensor_of(&a->d_logits, a->outer),
                          .axes = cla_axes_of(&a->logits, a->outer),
                          .classes = a->length,
                          .ignore = a->ignore,
                          .has_ignore = a->has_ignore,
                          .mean = a->mean,
                          .rows = cla_axes_share(device, a->rows),
                          .loss_type = (cl_int)a->loss.dtype,
                          .loss_0 = a->loss.offset,
                          .scale = (cl_float)a->scale,
                          .smoothing = (cl_float)a->smoothing};
    memcpy(&args.scale_bits, &a->scale, sizeof args.scale_bits);
    memcpy(&args.smoothing_bits, &a->smoothing, sizeof args.smoothing_bits);
    args.axes.rows = a->rows;
    CLA_TRY(clattn_buffer_create(context, size, &factor));
    CLA_TRY(clattn_buffer_create(context, (size_t)a->rows * size, &losses));
    CLA_TRY(launch(context, a, "count_targets", &args, 1, (const clattn_buffer *[]){a->targets.buffer, factor}, 2));
    CLA_TRY(launch(context, a, "cross_entropy", &args, cla_ceil_div(a->rows, cla_max(args.rows, 1)),
                   (const clattn_buffer *[]){a->logits.buffer, a->targets.buffer, factor, losses, a->row_losses.buffer,
                                             a->d_logits.buffer},
                   6));
    if (cla_present(&a->loss))
        CLA_TRY(
            launch(context, a, "total_losses", &args, 1, (const clattn_buffer *[]){losses, factor, a->loss.buffer}, 3));
done:
    clattn_buffer_destroy(factor);
    clattn_buffer_destroy(losses);
    return status;
}

clattn_status clattn_cross_entropy(clattn_context *context, const clattn_cross_entropy_args *args) {
    clattn_status status = CLATTN_OK;
    cla_loss a;
    clattn_tensor *all[TENSORS];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "cross_entropy: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_cross_entropy_args, args));
    CLA_TRY(take(context, args, &a));
    list(&a, all);
    cla_operand_to_host(context, all, TENSORS);
    if (cla_context_is_cpu(context)) {
        CLA_TRY(cla_ref_cross_entropy(&a));
        goto done;
    }
    const cla_staged tensors[] = {{&a.logits, CLA_IN},
                                  {&a.targets, CLA_IN},
                                  {&a.loss, CLA_OUT},
                                  {&a.row_losses, CLA_OUT},
                                  {&a.d_logits, CLA_OUT}};
    status = cla_staging_begin(context, tensors, TENSORS, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
