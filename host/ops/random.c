/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by their place: checks, then random.cl or plain C, which give the same bits. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_random.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/view.h"
#include "tensor/walk.h"

enum { CHUNK = 4096, CHUNK_GPU = 4 }; /* elements of a work-item */

static clattn_status run(clattn_context *context, const cla_random *a, clattn_tensor *const *all) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const int64_t group = cla_axes_group(device), elements = a->rows * a->length;
    cla_kernel *kernel = NULL;
    cla_key key = cla_axes_key(device, "random.cl", "random_numbers", a->dtype, all, 1);
    key.more_helpers[1] = "philox.clh";
    key.more_helpers[2] = "normal.h";
    const cla_random_args args = {.y = cla_axes_tensor_of(&a->y, a->outer),
                                  .axes = cla_axes_of(&a->y, a->outer),
                                  .seed = (cl_long)a->seed,
                                  .stream = (cl_long)a->stream,
                                  .first = (cl_long)a->first,
                                  .chunk = device->device_class == CLATTN_DEVICE_CPU ? CHUNK : CHUNK_GPU,
                                  .uniform = a->distribution == CLATTN_DISTRIBUTION_UNIFORM};
    const cla_arg list[] = {CLA_ARG_BUFFER(a->y.buffer), CLA_ARG_VALUE(args)};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    CLA_TRY(cla_launch(context, kernel, cla_ceil_div(cla_ceil_div(elements, args.chunk), group), list, 2));
done:
    cla_kernel_destroy(kernel);
    return status;
}

clattn_status clattn_random(clattn_context *context, const clattn_random_args *args) {
    clattn_status status = CLATTN_OK;
    cla_staging staging;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "random: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_random_args, args));
    cla_random a = {.y = args->y,
                    .distribution = args->distribution,
                    .seed = args->seed,
                    .stream = args->stream,
                    .first = args->first};
    clattn_tensor *const all[] = {&a.y};
    CLA_CHECK((unsigned)args->distribution <= CLATTN_DISTRIBUTION_UNIFORM, CLATTN_E_ARGUMENT,
              "random: %d is no distribution", (int)args->distribution);
    CLA_TRY(cla_operand_check(context, &a.y, "y", CLA_OPERAND_OUTPUT));
    CLA_TRY(cla_operand_sums(context, "random", all, 1, &a.dtype));
    if (clattn_tensor_elements(&a.y) == 0)
        goto done;
    cla_walk_merge(all, 1, &a.outer);
    a.outer = a.y.rank - 1;
    a.rows = cla_walk_count(&a.y, 0, a.outer);
    a.length = a.y.shape[a.outer];
    cla_operand_to_host(context, all, 1);
    if (cla_context_is_cpu(context)) {
        cla_ref_random(&a);
        goto done;
    }
    const cla_staged tensors[] = {{&a.y, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 1, &staging);
    if (status == CLATTN_OK)
        status = run(context, &a, all);
    status = cla_staging_end(&staging, status);
done:
    return status;
}
