/* SPDX-License-Identifier: Apache-2.0 */
/* The norm of many gradients together, and the factor that clips it: checks, then optimizer.cl or the plain loops. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/axes.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "ref/ref_optimizer.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include "tensor/walk.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_GPU = 4096, MOST_SUMS = INT32_MAX - 65536 };

typedef struct {
    clattn_tensor x;
    int outer;
    int64_t rows, length, chunk, first; /* chunk: elements of a group; first: of its sums among all */
} part;

typedef struct {
    part *parts;
    size_t count;
    int64_t sums;
    clattn_tensor norm, factor;
    double most;
    clattn_dtype dtype;
} job;

static clattn_status take_output(clattn_context *context, const job *a, clattn_tensor *t, const char *name) {
    clattn_status status = CLATTN_OK;
    char text[200], other[40];
    if (t->rank == 0)
        goto done;
    CLA_TRY(cla_operand_check(context, t, name, CLA_OPERAND_OUTPUT));
    CLA_CHECK(clattn_tensor_elements(t) == 1, CLATTN_E_SHAPE, "%s %s: should be [1], one number", name,
              cla_shape_text(t, text, sizeof text));
    for (size_t i = 0; i < a->count; i++) {
        snprintf(other, sizeof other, "gradient %zu", i);
        CLA_TRY(cla_operand_apart(&a->parts[i].x, other, t, name));
    }
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_gradient_norm_args *args, job *a) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    const bool is_gpu = !cla_context_is_cpu(context) && device->device_class != CLATTN_DEVICE_CPU;
    CLA_CHECK(args->gradients || args->count == 0, CLATTN_E_ARGUMENT, "gradient_norm: gradients is NULL");
    CLA_CHECK(args->max_norm >= 0 && isfinite(args->max_norm), CLATTN_E_ARGUMENT,
              "gradient_norm: max_norm %g; it is a finite number above 0, or 0 for none", args->max_norm);
    *a = (job){.count = args->count, .norm = args->norm, .factor = args->factor, .most = args->max_norm};
    CLA_TRY(cla_alloc(args->count, sizeof *a->parts, "gradients", &a->parts));
    clattn_tensor *const outputs[] = {&a->norm, &a->factor};
    CLA_TRY(cla_operand_sums(context, "gradient_norm", outputs, 2, &a->dtype));
    for (size_t i = 0; i < args->count; i++) {
        part *p = &a->parts[i];
        char name[40];
        clattn_dtype sums;
        snprintf(name, sizeof name, "gradient %zu", i);
        p->x = args->gradients[i];
        CLA_TRY(cla_operand_check(context, &p->x, name, CLA_OPERAND_FLOATS));
        clattn_tensor *const one[] = {&p->x};
        CLA_TRY(cla_operand_sums(context, "gradient_norm", one, 1, &sums));
        a->dtype = sums == CLATTN_F64 ? CLATTN_F64 : a->dtype;
    }
    CLA_TRY(take_output(context, a, &a->norm, "norm"));
    CLA_TRY(take_output(context, a, &a->factor, "factor"));
    if (cla_present(&a->norm) && cla_present(&a->factor))
        CLA_TRY(cla_operand_apart(&a->norm, "norm", &a->factor, "factor"));
    for (size_t i = 0; i < args->count; i++) {
        part *p = &a->parts[i];
        const int64_t elements = clattn_tensor_elements(&p->x);
        clattn_tensor *const one[] = {&p->x};
        if (elements == 0)
            continue;
        cla_walk_merge(one, 1, &p->outer);
        p->outer = p->x.rank - 1;
        p->rows = cla_walk_count(&p->x, 0, p->outer);
        p->length = p->x.shape[p->outer];
        p->chunk = is_gpu ? CHUNK_GPU : cla_axes_chunk(device, elements);
        p->first = a->sums;
        a->sums += cla_ceil_div(elements, p->chunk);
        CLA_CHECK(a->sums <= MOST_SUMS, CLATTN_E_LIMIT, "gradient_norm: too many elements");
    }
done:
    return status;
}

static void compute_on_host(const job *a) {
    double sum = 0;
    for (size_t i = 0; i < a->count; i++)
        sum += cla_ref_squares(&a->parts[i].x, a->parts[i].outer, a->parts[i].rows, a->parts[i].length);
    const double norm = sqrt(sum), clip = a->most / (norm + 1e-6);
    if (cla_present(&a->norm))
        cla_store_element(a->norm.host, a->norm.dtype, a->norm.offset, norm);
    if (cla_present(&a->factor))
        cla_store_element(a->factor.host, a->factor.dtype, a->factor.offset, a->most <= 0 || clip > 1 ? 1 : clip);
}

static clattn_status sum_squares(clattn_context *context, const job *a, part *p, const clattn_buffer *sums) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    cla_staging staging;
    clattn_tensor *const all[] = {&p->x};
    const cla_key key = cla_axes_key(device, "optimizer.cl", "square_sums", a->dtype, all, 1);
    const cla_staged tensors[] = {{&p->x, CLA_IN}};
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    status = cla_staging_begin(context, tensors, 1, &staging);
    if (status == CLATTN_OK) {
        const cla_squares_args args = {.x = cla_axes_tensor_of(&p->x, p->outer),
                                       .axes = cla_axes_of(&p->x, p->outer),
                                       .chunk = (cl_int)p->chunk,
                                       .first = (cl_int)p->first};
        const cla_arg list[] = {CLA_ARG_BUFFER(p->x.buffer), CLA_ARG_BUFFER(sums), CLA_ARG_VALUE(args)};
        if (cla_costs_wanted(context))
            cla_kernel_cost(kernel, 2.0 * (double)p->rows * (double)p->length, cla_axes_bytes(all, 1));
        status = cla_launch(context, kernel, cla_ceil_div(p->rows * p->length, p->chunk), list, 3);
    }
    status = cla_staging_end(&staging, status);
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status finish(clattn_context *context, const job *a, const clattn_buffer *sums) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    cla_kernel *kernel = NULL;
    const cla_key key = cla_axes_key(device, "optimizer.cl", "norm_total", a->dtype, NULL, 0);
    cla_squares_args args = {.norm_0 = a->norm.offset,
                             .factor_0 = a->factor.offset,
                             .count = (cl_int)a->sums,
                             .has_norm = cla_present(&a->norm),
                             .has_factor = cla_present(&a->factor),
                             .norm_type = (cl_int)a->norm.dtype,
                             .factor_type = (cl_int)a->factor.dtype,
                             .most = (cl_float)a->most};
    const cla_arg list[] = {CLA_ARG_BUFFER(sums), CLA_ARG_BUFFER(a->norm.buffer), CLA_ARG_BUFFER(a->factor.buffer),
                            CLA_ARG_VALUE(args)};
    memcpy(&args.most_bits, &a->most, sizeof args.most_bits);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)cla_axes_group(device), &kernel));
    CLA_TRY(cla_launch(context, kernel, 1, list, 4));
done:
    cla_kernel_destroy(kernel);
    return status;
}

static clattn_status run(clattn_context *context, job *a) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *sums = NULL;
    cla_staging staging;
    const cla_staged tensors[] = {{&a->norm, CLA_OUT}, {&a->factor, CLA_OUT}};
    CLA_TRY(clattn_buffer_create(context, (size_t)a->sums * clattn_dtype_size(a->dtype), &sums));
    for (size_t i = 0; i < a->count; i++)
        if (a->parts[i].rows > 0)
            CLA_TRY(sum_squares(context, a, &a->parts[i], sums));
    status = cla_staging_begin(context, tensors, 2, &staging);
    if (status == CLATTN_OK)
        status = finish(context, a, sums);
    status = cla_staging_end(&staging, status);
done:
    clattn_buffer_destroy(sums);
    return status;
}

clattn_status clattn_gradient_norm(clattn_context *context, const clattn_gradient_norm_args *args) {
    clattn_status status = CLATTN_OK;
    job a = {0};
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "gradient_norm: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_gradient_norm_args, args));
    CLA_TRY(take(context, args, &a));
    for (size_t i = 0; i < a.count; i++)
        cla_operand_to_host(context, (clattn_tensor *[]){&a.parts[i].x}, 1);
    cla_operand_to_host(context, (clattn_tensor *[]){&a.norm, &a.factor}, 2);
    if (cla_context_is_cpu(context))
        compute_on_host(&a);
    else
        CLA_TRY(run(context, &a));
done:
    cla_free(a.parts);
    return status;
}
