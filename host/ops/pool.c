/* SPDX-License-Identifier: Apache-2.0 */
/* Means of rows: checks, then tokens.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_tokens.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"

static clattn_status take(clattn_context *context, const clattn_pool_args *args, cla_pool *a, int32_t **lengths) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    *a = (cla_pool){.x = args->x, .y = args->y, .normalise = args->normalise};
    clattn_tensor *const all[] = {&a->x, &a->y};
    CLA_TRY(cla_operand_check(context, &a->x, "x", CLA_OPERAND_FLOATS));
    CLA_TRY(cla_operand_check(context, &a->y, "y", CLA_OPERAND_OUTPUT));
    CLA_CHECK(a->x.rank == 3, CLATTN_E_SHAPE, "x %s: should be [B, N, E]: it has rank 3",
              cla_shape_text(&a->x, text, sizeof text));
    CLA_CHECK(a->y.rank == 2 && a->y.shape[0] == a->x.shape[0] && a->y.shape[1] == a->x.shape[2], CLATTN_E_SHAPE,
              "y %s: should be [%lld, %lld], as x %s has batches and columns", cla_shape_text(&a->y, text, sizeof text),
              (long long)a->x.shape[0], (long long)a->x.shape[2], cla_shape_text(&a->x, other, sizeof other));
    CLA_TRY(cla_operand_apart(&a->x, "x", &a->y, "y"));
    CLA_TRY(cla_operand_sums(context, "pool", all, 2, &a->dtype));
    const bool writes = clattn_tensor_elements(&a->y) > 0; /* else there may be more batches than memory */
    if (writes)
        CLA_TRY(cla_alloc((size_t)a->x.shape[0], sizeof **lengths, "lengths", lengths));
    for (int64_t b = 0; (writes || args->lengths) && b < a->x.shape[0]; b++) {
        const int64_t n = args->lengths ? args->lengths[b] : a->x.shape[1];
        CLA_CHECK(n >= 0 && n <= a->x.shape[1], CLATTN_E_ARGUMENT, "lengths: number %lld is %lld; x has %lld rows",
                  (long long)b, (long long)n, (long long)a->x.shape[1]);
        if (writes)
            (*lengths)[b] = (int32_t)n;
    }
    a->lengths = *lengths;
done:
    return status;
}

static clattn_status run(clattn_context *context, const cla_pool *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t B = a->y.shape[0];
    cla_kernel *kernel = NULL;
    clattn_buffer *lengths = NULL;
    clattn_tensor x = a->x, y = a->y; /* [B, N, E] as rows of E, and then its other stride */
    clattn_tensor *const all[] = {&x, &y};
    const cla_key key = cla_axes_key(device, "tokens.cl", "pool", a->dtype, all, 2);
    x.rank = 2;
    x.shape[1] = a->x.shape[2], x.stride[1] = a->x.stride[2];
    cla_pool_args args = {.x = cla_axes_tensor_of(&x, 1),
                          .y = cla_axes_tensor_of(&y, 1),
                          .axes = cla_axes_of(&y, 1),
                          .normalise = a->normalise};
    args.x.s[2] = a->x.stride[1];
    CLA_TRY(cla_buffer_create_from(context, a->lengths, (size_t)B * sizeof *a->lengths, &lengths));
    const cla_arg list[] = {CLA_ARG_BUFFER(x.buffer), CLA_ARG_BUFFER(lengths), CLA_ARG_BUFFER(y.buffer),
                            CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    CLA_TRY(cla_launch(context, kernel, B, list, 4));
done:
    cla_kernel_destroy(kernel);
    clattn_buffer_destroy(lengths);
    return status;
}

clattn_status clattn_pool(clattn_context *context, const clattn_pool_args *args) {
    clattn_status status = CLATTN_OK;
    cla_pool a;
    int32_t *lengths = NULL;
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "pool: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_pool_args, args));
    CLA_TRY(take(context, args, &a, &lengths));
    if (clattn_tensor_elements(&a.y) == 0)
        goto done;
    clattn_tensor *const all[] = {&a.x, &a.y};
    cla_operand_to_host(context, all, 2);
    if (cla_context_is_cpu(context)) {
        cla_ref_pool(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.x, CLA_IN}, {&a.y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 2, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a);
    status = cla_staging_end(&staging, status);
done:
    cla_free(lengths);
    return status;
}
