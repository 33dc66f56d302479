/* SPDX-License-Identifier: Apache-2.0 */
/* Sinusoidal positions: angles by the host, in long double, then a copy to where they are wanted. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/copy.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "runtime/buffer.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <clattn/ops.h>
#include <math.h>

#define TAU 6.283185307179586476925286766559L
#define MOST ((int64_t)1 << 53)

/* Dense [N, E] of `dtype`. */
static void fill(void *table, clattn_dtype dtype, int64_t N, int64_t E, int64_t start, long double base) {
#pragma omp parallel for if (N * E > 4096)
    for (int64_t i = 0; i < N; i++)
        for (int64_t e = 0; e < E; e++) {
            const long double angle = (long double)(start + i) * powl(base, -(long double)(e - e % 2) / (long double)E);
            const double rest = (double)(angle - TAU * rintl(angle / TAU));
            cla_store_element(table, dtype, i * E + e, e % 2 ? cos(rest) : sin(rest));
        }
}

static clattn_status copy(clattn_context *context, const clattn_tensor *from, const clattn_tensor *to) {
    clattn_status status = CLATTN_OK;
    cla_kernel *kernel = NULL;
    CLA_TRY(cla_copy_kernel(context, to->dtype == CLATTN_F64, "copy_strided", &kernel));
    CLA_TRY(cla_copy_strided(context, kernel, from, to));
done:
    cla_kernel_destroy(kernel);
    return status;
}

/* The copy keeps the bits: both are of one type. */
static clattn_status send(clattn_context *context, const void *table, const clattn_tensor *y) {
    clattn_status status = CLATTN_OK;
    cla_staging staging;
    clattn_buffer *buffer = NULL;
    clattn_tensor to = *y, from = clattn_tensor_host(table, y->dtype, 2, y->shape);
    if (cla_context_is_cpu(context))
        return copy(context, &from, &to);
    const cla_staged tensors[] = {{&to, CLA_OUT}};
    status = cla_staging_begin(context, tensors, 1, &staging);
    if (status == CLATTN_OK)
        status = cla_buffer_create_from(context, table, (size_t)clattn_tensor_elements(y) * clattn_dtype_size(y->dtype),
                                        &buffer);
    from = clattn_tensor_buffer(buffer, y->dtype, 2, y->shape);
    if (status == CLATTN_OK)
        status = copy(context, &from, &to);
    status = cla_staging_end(&staging, status);
    clattn_buffer_destroy(buffer);
    return status;
}

clattn_status clattn_positions(clattn_context *context, const clattn_positions_args *args) {
    clattn_status status = CLATTN_OK;
    char text[200];
    void *table = NULL;
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "positions: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_positions_args, args));
    const clattn_tensor *y = &args->y;
    CLA_TRY(cla_operand_check(context, y, "y", CLA_OPERAND_OUTPUT));
    CLA_CHECK(y->rank == 2, CLATTN_E_SHAPE, "y %s: should be [N, E]: it has rank 2",
              cla_shape_text(y, text, sizeof text));
    CLA_CHECK(args->base >= 0 && isfinite(args->base), CLATTN_E_ARGUMENT,
              "positions: base %g; it is a finite number above 0, or 0 for 10000", args->base);
    CLA_CHECK(args->start >= -MOST && args->start <= MOST - y->shape[0], CLATTN_E_ARGUMENT,
              "positions: %lld rows from %lld on reach beyond the 2^53 that angles are found for",
              (long long)y->shape[0], (long long)args->start);
    clattn_tensor t = *y, *const all[] = {&t};
    clattn_dtype sums;
    CLA_TRY(cla_operand_sums(context, "positions", all, 1, &sums));
    const int64_t n = clattn_tensor_elements(y);
    if (n == 0)
        goto done;
    CLA_TRY(cla_alloc((size_t)n, clattn_dtype_size(y->dtype), "positions", &table));
    fill(table, y->dtype, y->shape[0], y->shape[1], args->start, args->base > 0 ? args->base : 10000);
    CLA_TRY(send(context, table, y));
done:
    cla_free(table);
    return status;
}
