/* SPDX-License-Identifier: Apache-2.0 */
#include "modules/module.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

clattn_tensor cla_lead(clattn_tensor t) {
    assert(t.rank >= 1 && t.rank < CLATTN_MAX_RANK);
    memmove(t.shape + 1, t.shape, (size_t)t.rank * sizeof *t.shape);
    memmove(t.stride + 1, t.stride, (size_t)t.rank * sizeof *t.stride);
    t.shape[0] = 1;
    t.stride[0] = 0;
    t.rank++;
    return t;
}

bool cla_same_view(const clattn_tensor *a, const clattn_tensor *b) {
    return a->buffer == b->buffer && a->host == b->host && a->offset == b->offset && cla_view_same_layout(a, b);
}

clattn_tensor cla_rows_of(const clattn_tensor *given, bool batch_second) {
    static const int swap[] = {1, 0, 2};
    return given->rank == 2 ? cla_lead(*given) : batch_second ? clattn_tensor_permute(*given, swap) : *given;
}

clattn_status cla_check_storage(const clattn_context *context, const clattn_tensor *t, const char *module,
                                const char *name) {
    clattn_status status = CLATTN_OK;
    char full[100];
    snprintf(full, sizeof full, "%s: %s", module, name);
    CLA_TRY(cla_view_check(t, full));
    CLA_TRY(cla_view_storage(context, t, full, 0)); /* operations refuse what may not be read or written */
done:
    return status;
}

clattn_status cla_take_rows(const clattn_context *context, const clattn_tensor *given, const char *module,
                            const char *name, bool batch_second, clattn_tensor *rows) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_CHECK(cla_present(given), CLATTN_E_ARGUMENT, "%s: %s is missing", module, name);
    CLA_CHECK(given->rank == 2 || given->rank == 3, CLATTN_E_SHAPE, "%s: %s %s: rank %d; it is %s, or unbatched [N, E]",
              module, name, cla_shape_text(given, text, sizeof text), given->rank,
              batch_second ? "[N, B, E]" : "[B, N, E]");
    CLA_TRY(cla_check_storage(context, given, module, name));
    *rows = cla_rows_of(given, batch_second);
done:
    return status;
}

clattn_status cla_take_matrix(const clattn_tensor *given, const char *name, bool transposed, clattn_tensor *matrix) {
    static const int turn[] = {1, 0};
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_CHECK(cla_present(given), CLATTN_E_ARGUMENT, "%s: is missing", name);
    CLA_CHECK(given->rank == 2, CLATTN_E_SHAPE, "%s %s: rank %d; it is a matrix %s", name,
              cla_shape_text(given, text, sizeof text), given->rank, transposed ? "[in, out]" : "[out, in]");
    for (int i = 0; i < 2; i++) /* so that sums and products of sizes are counted */
        CLA_CHECK(given->shape[i] >= 0 && given->shape[i] <= INT32_MAX, CLATTN_E_SHAPE,
                  "%s %s: axis %d is not from 0 to %d long", name, cla_shape_text(given, text, sizeof text), i,
                  INT32_MAX);
    CLA_TRY(cla_view_check(given, name)); /* since parts of a view that is none would be absent */
    CLA_CHECK(!transposed || clattn_dtype_length(given->dtype) == 1, CLATTN_E_DTYPE,
              "%s: is %s, which packs elements of a row, and transposed; store it as [out, in]", name,
              clattn_dtype_name(given->dtype));
    *matrix = transposed ? clattn_tensor_permute(*given, turn) : *given;
done:
    return status;
}

clattn_status cla_check_vector(const clattn_tensor *given, const char *name, int64_t elements) {
    clattn_status status = CLATTN_OK;
    char text[200];
    if (!cla_present(given))
        goto done;
    CLA_TRY(cla_view_check(given, name));
    CLA_CHECK(given->rank == 1 && given->shape[0] == elements, CLATTN_E_SHAPE, "%s %s: should be [%lld]", name,
              cla_shape_text(given, text, sizeof text), (long long)elements);
done:
    return status;
}

int64_t cla_count_of(const clattn_tensor *t) {
    const int64_t most = INT64_C(1) << 40, count = cla_present(t) ? clattn_tensor_elements(t) : 0;
    return count >= 0 && count < most ? count : most;
}

bool cla_same_shape(const clattn_tensor *a, const clattn_tensor *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < b->rank; i++)
        same = a->shape[i] == b->shape[i];
    return same;
}

clattn_status cla_check_gradient(const clattn_tensor *gradient, const clattn_tensor *weight, const char *name) {
    char text[200], other[200];
    if (!cla_present(gradient))
        return CLATTN_OK;
    if (cla_same_shape(gradient, weight))
        return cla_view_check(gradient, name);
    if (!cla_present(weight))
        return cla_error(CLATTN_E_ARGUMENT, "%s: there is a gradient, and no weight", name);
    return cla_error(CLATTN_E_SHAPE, "%s %s: should have the shape of the weight %s", name,
                     cla_shape_text(gradient, text, sizeof text), cla_shape_text(weight, other, sizeof other));
}

clattn_status cla_take_gradient(const clattn_tensor *given, const clattn_tensor *weight, const char *name,
                                bool transposed, clattn_tensor *gradient) {
    clattn_status status = CLATTN_OK;
    clattn_tensor taken = *given;
    if (cla_present(given) && weight->rank == 2)
        CLA_TRY(cla_take_matrix(given, name, transposed, &taken));
    CLA_TRY(cla_check_gradient(&taken, weight, name));
    *gradient = taken;
done:
    return status;
}
