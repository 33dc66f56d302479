/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient by a table of embeddings: checks, then embed_backward.cl or the plain loops. */
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

/* Each work-item that makes lists reads all ids. */
enum { LISTS_A_CORE_CPU = 2, LISTS_A_CORE_GPU = 64, COLUMNS_CPU = 64, COLUMNS_GPU = 256 };

static clattn_status take(clattn_context *context, const clattn_embed_backward_args *args, cla_embed_back *a) {
    clattn_status status = CLATTN_OK;
    char text[200];
    *a = (cla_embed_back){.ids = args->ids, .d_y = args->d_y, .table = args->d_table, .add = args->accumulate};
    a->scale = args->has_scale ? args->scale : 1;
    a->has_padding = args->has_padding, a->padding = args->padding;
    clattn_tensor *const floats[] = {&a->table, &a->d_y};
    CLA_CHECK(isfinite(a->scale), CLATTN_E_ARGUMENT, "embed_backward: scale %g is not finite", a->scale);
    CLA_TRY(cla_operand_check(context, &a->table, "d_table", cla_operand_sum(a->add)));
    CLA_CHECK(a->table.rank == 2, CLATTN_E_SHAPE, "d_table %s: should be [V, E]: it has rank 2",
              cla_shape_text(&a->table, text, sizeof text));
    CLA_TRY(cla_operand_check(context, &a->ids, "ids", CLA_OPERAND_INTS));
    CLA_TRY(cla_operand_check(context, &a->d_y, "d_y", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_tokens_ids_over(&a->d_y, "d_y", a->table.shape[1], &args->ids, "ids", &a->ids));
    CLA_TRY(cla_operand_apart(&args->d_y, "d_y", &args->d_table, "d_table"));
    CLA_TRY(cla_operand_apart(&args->ids, "ids", &args->d_table, "d_table"));
    CLA_TRY(cla_operand_sums(context, "embed_backward", floats, 2, &a->dtype));
    a->outer = a->d_y.rank - 1;
    clattn_tensor *const walked[] = {&a->d_y, &a->ids};
    cla_walk_merge(walked, 2, &a->outer);
    a->rows = cla_walk_count(&a->d_y, 0, a->outer);
    a->length = cla_walk_count(&a->d_y, a->outer, a->d_y.rank);
    CLA_CHECK(a->rows <= CLA_WALK_MOST, CLATTN_E_LIMIT, "embed_backward: %lld ids; %d is the most", (long long)a->rows,
              CLA_WALK_MOST);
    if (a->length == 0)
        goto done;
    CLA_TRY(cla_tokens_check(&a->ids, "ids", a->outer, a->rows, a->table.shape[0], "the table has", "rows",
                             a->has_padding ? &a->padding : NULL));
done:
    return status;
}

static clattn_status launch(clattn_context *context, const cla_embed_back *a, const char *name,
                            const cla_embed_back_args *args, int64_t groups, const clattn_buffer *const *buffers,
                            int count) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    clattn_tensor ids = a->ids;
    clattn_tensor *const all[] = {&ids}; /* staged, since ids are integers */
    const cla_key key = cla_axes_key(device, "embed_backward.cl", name, a->dtype, all, 1);
    cla_arg list[5];
    for (int i = 0; i < count; i++)
        list[i] = CLA_ARG_BUFFER(buffers[i]);
    list[count] = CLA_ARG_VALUE(*args);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    CLA_TRY(cla_launch(context, kernel, groups, list, count + 1));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status run(clattn_context *context, const cla_embed_back *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const bool is_cpu = device->device_class == CLATTN_DEVICE_CPU;
    const int64_t group = cla_axes_group(device), V = a->table.shape[0], cores = (int64_t)device->compute_units;
    clattn_buffer *flat = NULL, *next = NULL, *heads = NULL;
    cla_embed_back_args args = {.ids = cla_axes_tensor_of(&a->ids, a->outer),
                                .d_y = cla_axes_tensor_of(&a->d_y, a->outer),
                                .table = cla_axes_tensor_of(&a->table, 1),
                                .axes = cla_axes_of(&a->d_y, a->outer),
                                .padding = a->padding,
                                .entries = (cl_int)V,
                                .has_padding = a->has_padding,
                                .columns = is_cpu ? COLUMNS_CPU : COLUMNS_GPU,
                                .add = a->add,
                                .scale = (cl_float)a->scale};
    memcpy(&args.scale_bits, &a->scale, sizeof args.scale_bits);
    args.chunks = (cl_int)cla_ceil_div(a->length, args.columns);
    CLA_TRY(clattn_buffer_create(context, (size_t)a->rows * sizeof(cl_int), &flat));
    CLA_TRY(clattn_buffer_create(context, (size_t)a->rows * sizeof(cl_int), &next));
    CLA_TRY(clattn_buffer_create(context, (size_t)V * sizeof(cl_int), &heads));
    args.share = (cl_int)cla_axes_chunk(device, a->rows);
    CLA_TRY(launch(context, a, "flat_ids", &args, cla_ceil_div(cla_ceil_div(a->rows, args.share), group),
                   (const clattn_buffer *[]){a->ids.buffer, flat}, 2));
    args.share = (cl_int)cla_ceil_div(V, cores * (is_cpu ? LISTS_A_CORE_CPU : LISTS_A_CORE_GPU));
    CLA_TRY(launch(context, a, "id_lists", &args, cla_ceil_div(cla_ceil_div(V, args.share), group),
                   (const clattn_buffer *[]){flat, next, heads}, 3));
    args.share = (cl_int)cla_axes_share(device, V);
    CLA_TRY(launch(context, a, "embed_backward", &args, cla_ceil_div(V, args.share) * args.chunks,
                   (const clattn_buffer *[]){a->d_y.buffer, next, heads, a->table.buffer}, 4));
done:
    clattn_buffer_destroy(flat);
    clattn_buffer_destroy(next);
    clattn_buffer_destroy(heads);
    return status;
}

clattn_status clattn_embed_backward(clattn_context *context, const clattn_embed_backward_args *args) {
    clattn_status status = CLATTN_OK;
    cla_embed_back a;
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "embed_backward: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_embed_backward_args, args));
    CLA_TRY(take(context, args, &a));
    if (a.table.shape[0] == 0 || a.length == 0)
        goto done;
    clattn_tensor *const all[] = {&a.ids, &a.d_y, &a.table};
    cla_operand_to_host(context, all, 3);
    if (cla_context_is_cpu(context)) {
        CLA_TRY(cla_ref_embed_back(&a));
        goto done;
    }
    const cla_staged tensors[] = {{&a.ids, CLA_IN}, {&a.d_y, CLA_IN}, {&a.table, a.add ? CLA_INOUT : CLA_OUT}};
    status = cla_staging_begin(context, tensors, 3, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
