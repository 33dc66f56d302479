/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sums.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"

/* Rows of a block at least, and blocks at most but for more rows; columns of a work-group. */
enum { ROWS_OF_A_BLOCK = 64, MOST_BLOCKS = 256, COLUMNS_CPU = 128, COLUMNS_GPU = 256, ROWS_TURNED = 64, TENSORS = 2 };

/* Axes that are summed before the others, of which one is left. */
static clattn_status arrange(cla_sums *a, clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor y = a->y;
    int axes[CLATTN_MAX_RANK], count = 0;
    for (int i = 0; i < y.rank; i++)
        if (y.stride[i] == 0 && y.shape[i] != 1)
            axes[count++] = i;
    a->outer = count;
    for (int i = 0; i < y.rank; i++)
        if (y.stride[i] != 0 || y.shape[i] == 1)
            axes[count++] = i;
    CLA_CHECK(a->outer < CLATTN_MAX_RANK, CLATTN_E_LIMIT, "sum over %d axes: join some", a->outer);
    for (int k = 0; k < TENSORS; k++) {
        clattn_tensor *t = all[k];
        *t = clattn_tensor_permute(*t, axes);
        if (a->outer == t->rank) {
            t->shape[t->rank] = 1, t->stride[t->rank] = 0;
            t->rank++;
        }
    }
    cla_walk_merge(all, TENSORS, &a->outer);
    a->rows = cla_walk_count(&a->x, 0, a->outer);
    a->length = cla_walk_count(&a->x, a->outer, a->x.rank);
    CLA_CHECK(a->length <= CLA_WALK_MOST, CLATTN_E_LIMIT, "sum: rows of %lld elements; %d is the most",
              (long long)a->length, CLA_WALK_MOST);
done:
    return status;
}

static clattn_status launch(clattn_context *context, cla_sums *a, int64_t block, int64_t blocks, int64_t y_step) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    clattn_tensor *const all[TENSORS] = {&a->x, &a->y};
    const cla_key key = cla_axes_key(device, "sums.cl", "sums", a->dtype, all, TENSORS);
    cla_sums_args args = {.x = cla_axes_tensor_of(&a->x, a->outer),
                          .y = cla_axes_tensor_of(&a->y, a->outer),
                          .axes = cla_axes_of(&a->x, a->outer),
                          .y_step = y_step,
                          .block = (cl_int)block,
                          .columns = device->device_class == CLATTN_DEVICE_CPU ? COLUMNS_CPU : COLUMNS_GPU,
                          .add = a->add};
    const cla_arg list[] = {CLA_ARG_BUFFER(a->x.buffer), CLA_ARG_BUFFER(a->y.buffer), CLA_ARG_VALUE(args)};
    args.chunks = (cl_int)cla_ceil_div(a->length, args.columns);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, (double)a->rows * (double)a->length, cla_axes_bytes(all, TENSORS));
    CLA_TRY(cla_launch(context, kernel, blocks * args.chunks, list, 3));
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* Sums of blocks in scratch, and then the sum of those. */
static clattn_status sum_blocks(clattn_context *context, const cla_sums *a, int64_t block, int64_t blocks) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *scratch = NULL;
    cla_sums part = *a, rest = {.y = a->y, .rows = blocks, .length = a->length, .add = a->add, .dtype = a->dtype};
    const int inner = a->x.rank - a->outer;
    int64_t step = 1;
    CLA_TRY(clattn_buffer_create(context, (size_t)(blocks * a->length) * clattn_dtype_size(a->dtype), &scratch));
    part.add = false;
    part.y = clattn_tensor_buffer(scratch, a->dtype, a->x.rank, a->x.shape);
    for (int i = a->x.rank - 1; i >= 0; i--) {
        part.y.stride[i] = i < a->outer ? 0 : step;
        step *= a->x.shape[i];
    }
    CLA_TRY(launch(context, &part, block, blocks, a->length));
    /* [blocks, the inner axes] */
    rest.outer = 1;
    rest.x = part.y;
    rest.x.rank = rest.y.rank = inner + 1;
    for (int i = 0; i < inner; i++) {
        rest.x.shape[i + 1] = rest.y.shape[i + 1] = a->x.shape[a->outer + i];
        rest.x.stride[i + 1] = part.y.stride[a->outer + i];
        rest.y.stride[i + 1] = a->y.stride[a->outer + i];
    }
    rest.x.shape[0] = rest.y.shape[0] = blocks;
    rest.x.stride[0] = a->length;
    rest.y.stride[0] = 0;
    CLA_TRY(launch(context, &rest, blocks, 1, 0));
done:
    clattn_buffer_destroy(scratch);
    return status;
}

clattn_status cla_sums_run(clattn_context *context, cla_sums *a) {
    clattn_status status = CLATTN_OK;
    clattn_tensor *const all[TENSORS] = {&a->x, &a->y};
    CLA_TRY(arrange(a, all));
    if (cla_context_is_cpu(context)) {
        cla_ref_sums(a);
        goto done;
    }
    const int64_t block = cla_max(ROWS_OF_A_BLOCK, cla_ceil_div(a->rows, MOST_BLOCKS));
    const int64_t blocks = cla_max(1, cla_ceil_div(a->rows, block));
    CLA_CHECK(block <= INT32_MAX, CLATTN_E_LIMIT, "sum: %lld rows are too many", (long long)a->rows);
    CLA_TRY(blocks == 1 ? launch(context, a, block, 1, 0) : sum_blocks(context, a, block, blocks));
done:
    return status;
}

clattn_status cla_turn_rows(clattn_context *context, const clattn_tensor *from, const clattn_tensor *to) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_axes_group(device), rows = from->shape[0], columns = from->shape[1];
    cla_kernel *kernel = NULL;
    clattn_tensor x = *from, y = *to;
    clattn_tensor *const all[] = {&x, &y};
    const cla_key key = cla_axes_key(device, "sums.cl", "turn_rows", to->dtype, all, 2);
    const cla_sums_args args = {.x = cla_axes_tensor_of(&x, 1), .axes = cla_axes_of(&x, 1), .block = ROWS_TURNED};
    const cla_arg list[] = {CLA_ARG_BUFFER(x.buffer), CLA_ARG_BUFFER(y.buffer), CLA_ARG_VALUE(args)};
    /* As many as for the fewest lanes: those that find no columns do nothing. */
    const int64_t items = cla_ceil_div(columns, 4) * cla_ceil_div(rows, ROWS_TURNED);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    if (cla_costs_wanted(context))
        cla_kernel_cost(kernel, 0, cla_axes_bytes(all, 2));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(items, group), list, 3));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_sum(clattn_context *context, const clattn_sum_args *args) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "sum: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_sum_args, args));
    cla_sums a = {.x = args->x, .y = args->y, .add = args->accumulate};
    clattn_tensor *const all[] = {&a.x, &a.y};
    CLA_TRY(cla_operand_check(context, &a.x, "x", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a.y, "y", cla_operand_sum(a.add)));
    CLA_TRY(cla_operand_apart(&a.x, "x", &a.y, "y"));
    clattn_tensor y = args->y;
    CLA_CHECK(cla_walk_broadcast(&y, a.x.rank, a.x.shape), CLATTN_E_SHAPE,
              "y %s: does not broadcast from the right to x %s", cla_shape_text(&args->y, text, sizeof text),
              cla_shape_text(&args->x, other, sizeof other));
    CLA_TRY(cla_operand_sums(context, "sum", all, 2, &a.dtype));
    if (clattn_tensor_elements(&a.y) == 0) /* its strides say nothing of what is summed */
        goto done;
    cla_operand_to_host(context, all, 2);
    const cla_staged tensors[] = {{&a.x, CLA_IN}, {&a.y, a.add ? CLA_INOUT : CLA_OUT}};
    status = cla_staging_begin(context, tensors, 2, &staging);
    cla_walk_broadcast(&a.y, a.x.rank, a.x.shape); /* staged before, since y is there without rows */
    if (status == CLATTN_OK)
        status = cla_sums_run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
