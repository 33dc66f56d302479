/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/operand.h"

#include "base/error.h"
#include "runtime/buffer.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum { MOST = INT32_MAX - 65536 }; /* kernels count in int, and step past the end */

static clattn_status check_type(const clattn_tensor *t, const char *name, int kind) {
    const bool out = kind & CLA_OPERAND_OUTPUT;
    if (kind & CLA_OPERAND_INTS)
        return t->dtype == CLATTN_I32 || t->dtype == CLATTN_I64
                   ? CLATTN_OK
                   : cla_error(CLATTN_E_DTYPE, "%s: is %s; here it is i32 or i64: convert it", name,
                               clattn_dtype_name(t->dtype));
    if (t->dtype <= CLATTN_BF16)
        return CLATTN_OK;
    if ((kind & CLA_OPERAND_BLOCKS) && (out ? cla_is_quantised_cache(t->dtype) : cla_is_quantised(t->dtype)))
        return CLATTN_OK;
    return cla_error(CLATTN_E_DTYPE, "%s: is %s; here it is f32, f64, f16 or bf16%s: convert it", name,
                     clattn_dtype_name(t->dtype),
                     !(kind & CLA_OPERAND_BLOCKS) ? ""
                     : out                        ? ", q8_0 or q4_0"
                                                  : ", q8_0, q4_0 or q4_1");
}

clattn_status cla_operand_check(clattn_context *context, const clattn_tensor *t, const char *name, int kind) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_CHECK(t->rank != 0, CLATTN_E_ARGUMENT, "%s: is missing", name);
    CLA_TRY(cla_view_check(t, name));
    CLA_TRY(check_type(t, name, kind));
    CLA_TRY(cla_view_storage(context, t, name,
                             (kind & CLA_OPERAND_OUTPUT ? CLA_WRITTEN : CLA_READ) |
                                 (kind & CLA_OPERAND_CHANGED ? CLA_READ : 0)));
    for (int i = 0; i < t->rank; i++)
        CLA_CHECK(t->shape[i] <= MOST, CLATTN_E_SHAPE, "%s %s: axis %d is too long; %d is the most", name,
                  cla_shape_text(t, text, sizeof text), i, MOST);
done:
    return status;
}

clattn_status cla_operand_take(clattn_context *context, const clattn_tensor *t, const char *name, int kind,
                               clattn_tensor *out) {
    clattn_status status = CLATTN_OK;
    char text[200];
    CLA_TRY(cla_operand_check(context, t, name, kind));
    CLA_CHECK(t->rank >= 2 && t->rank <= 4, CLATTN_E_SHAPE, "%s %s: rank %d; it has rank 2 to 4", name,
              cla_shape_text(t, text, sizeof text), t->rank);
    *out = cla_view_lift(t);
done:
    return status;
}

static clattn_status check_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                 const char *out_name, bool may_be_same) {
    cla_extent x, y;
    if (!cla_view_extent(in, &x) || !cla_view_extent(out, &y) || x.memory != y.memory || x.end <= y.begin ||
        y.end <= x.begin || (may_be_same && cla_view_same_layout(in, out) && x.begin == y.begin))
        return CLATTN_OK;
    return cla_error(CLATTN_E_ARGUMENT, "%s: shares memory with %s; %s", out_name, in_name,
                     may_be_same ? "it may be the same view, or apart" : "give it memory of its own");
}

clattn_status cla_operand_same_or_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                        const char *out_name) {
    return check_apart(in, in_name, out, out_name, true);
}

clattn_status cla_operand_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                const char *out_name) {
    return check_apart(in, in_name, out, out_name, false);
}

clattn_status cla_operand_same_shape(const clattn_tensor *t, const char *name, const clattn_tensor *as,
                                     const char *as_name) {
    char text[200], other[200];
    bool same = t->rank == as->rank;
    for (int i = 0; same && i < t->rank; i++)
        same = t->shape[i] == as->shape[i];
    return same ? CLATTN_OK
                : cla_error(CLATTN_E_SHAPE, "%s %s: differs from %s %s", name, cla_shape_text(t, text, sizeof text),
                            as_name, cla_shape_text(as, other, sizeof other));
}

clattn_status cla_operand_sums(clattn_context *context, const char *what, clattn_tensor *const *tensors, int count,
                               clattn_dtype *sums) {
    *sums = CLATTN_F32;
    for (int i = 0; i < count; i++)
        if (cla_present(tensors[i]) && tensors[i]->dtype == CLATTN_F64)
            *sums = CLATTN_F64;
    if (*sums == CLATTN_F32 || cla_context_is_cpu(context) || cla_context_device(context)->has_f64)
        return CLATTN_OK;
    return cla_error(CLATTN_E_UNSUPPORTED, "%s: f64 needs cl_khr_fp64, which %.100s lacks", what,
                     cla_context_device(context)->name);
}

void cla_operand_to_host(clattn_context *context, clattn_tensor *const *tensors, int count) {
    for (int i = 0; i < count && cla_context_is_cpu(context); i++)
        if (tensors[i]->buffer) {
            tensors[i]->host = cla_buffer_host(tensors[i]->buffer);
            tensors[i]->buffer = NULL;
        }
}
