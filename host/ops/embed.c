/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a table by ids: checks, then tokens.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ops/tokens.h"
#include "ref/ref_tokens.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

static clattn_status take(clattn_context *context, const clattn_embed_args *args, cla_embed *a) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    clattn_tensor *const floats[] = {&a->table, &a->add, &a->y};
    *a = (cla_embed){.table = args->table, .ids = args->ids, .add = args->add, .y = args->y};
    a->scale = args->has_scale ? args->scale : 1;
    CLA_CHECK(isfinite(a->scale), CLATTN_E_ARGUMENT, "embed: scale %g is not finite", a->scale);
    CLA_TRY(cla_operand_check(context, &a->table, "table", CLA_OPERAND_BLOCKS));
    CLA_CHECK(a->table.rank == 2, CLATTN_E_SHAPE, "table %s: should be [V, E]: it has rank 2",
              cla_shape_text(&a->table, text, sizeof text));
    CLA_TRY(cla_operand_check(context, &a->ids, "ids", CLA_OPERAND_INTS));
    CLA_TRY(cla_operand_check(context, &a->y, "y", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_tokens_ids_over(&a->y, "y", a->table.shape[1], &args->ids, "ids", &a->ids));
    CLA_TRY(cla_operand_apart(&args->table, "table", &args->y, "y"));
    CLA_TRY(cla_operand_apart(&args->ids, "ids", &args->y, "y"));
    if (a->add.rank != 0) {
        CLA_TRY(cla_operand_check(context, &a->add, "add", CLA_OPERAND_FLOATS));
        CLA_TRY(cla_operand_same_or_apart(&args->add, "add", &args->y, "y"));
        CLA_CHECK(cla_walk_broadcast(&a->add, a->y.rank, a->y.shape), CLATTN_E_SHAPE,
                  "add %s: does not broadcast from the right to y %s", cla_shape_text(&args->add, text, sizeof text),
                  cla_shape_text(&args->y, other, sizeof other));
    }
    CLA_TRY(cla_operand_sums(context, "embed", floats, 3, &a->dtype));
    a->outer = a->y.rank - 1;
    clattn_tensor *const walked[] = {&a->y, &a->ids, &a->add};
    cla_walk_merge(walked, 3, &a->outer);
    a->rows = cla_walk_count(&a->y, 0, a->outer);
    a->length = cla_walk_count(&a->y, a->outer, a->y.rank);
done:
    return status;
}

static clattn_status run(clattn_context *context, const cla_embed *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    clattn_tensor ids = a->ids, add = a->add, y = a->y; /* staged, since ids are integers */
    clattn_tensor *const all[] = {&y, &add, &ids};
    const cla_key key = cla_axes_key(device, "tokens.cl", "embed", a->dtype, all, 3);
    cla_embed_args args = {.table = cla_axes_tensor_of(&a->table, 1),
                           .ids = cla_axes_tensor_of(&a->ids, a->outer),
                           .add = cla_axes_tensor_of(&a->add, a->outer),
                           .y = cla_axes_tensor_of(&a->y, a->outer),
                           .axes = cla_axes_of(&a->y, a->outer),
                           .entries = a->table.shape[0],
                           .rows = cla_axes_share(device, a->rows),
                           .scale = (cl_float)a->scale};
    memcpy(&args.scale_bits, &a->scale, sizeof args.scale_bits);
    const cla_arg list[] = {CLA_ARG_BUFFER(a->table.buffer), CLA_ARG_BUFFER(ids.buffer), CLA_ARG_BUFFER(add.buffer),
                            CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context)) /* a row of the table is about as wide as one of y */
        cla_kernel_cost(kernel, (double)a->rows * (double)a->length, 2 * cla_axes_bytes(all, 1));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(a->rows, args.rows), list, 5));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_embed(clattn_context *context, const clattn_embed_args *args) {
    clattn_status status = CLATTN_OK;
    cla_embed a;
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "embed: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_embed_args, args));
    CLA_TRY(take(context, args, &a));
    if (a.rows == 0 || a.length == 0)
        goto done;
    CLA_TRY(cla_tokens_check(&a.ids, "ids", a.outer, a.rows, a.table.shape[0], "the table has", "rows", NULL));
    clattn_tensor *const all[] = {&a.table, &a.ids, &a.add, &a.y};
    cla_operand_to_host(context, all, 4);
    if (cla_context_is_cpu(context)) {
        cla_ref_embed(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.table, CLA_IN}, {&a.ids, CLA_IN}, {&a.add, CLA_IN}, {&a.y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 4, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
