/* SPDX-License-Identifier: Apache-2.0 */
/* Merging of partial results by log-sum-exp: MERGE_PARTS of them a launch, with a state in scratch where there are
 * more. On the `cpu` context, plain loops in double. */
#include "args.h"
#include "attention/problem.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/operand.h"
#include "ops/staging.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORK_GROUP = 64 }; /* where the device takes so many */

/* Of rank 4; lse is [1, B, H, N]. */
typedef struct {
    int64_t B, H, N, Dv;
    clattn_dtype dtype; /* of the sums */
    clattn_partial *parts, out;
    int64_t count;
} merging;

/* ---- checks ---- */

static clattn_status take_lse(clattn_context *context, const clattn_tensor *t, const char *name, int kind,
                              const clattn_tensor *o, clattn_tensor *out) {
    clattn_status status = CLATTN_OK;
    char text[200], other[200];
    clattn_tensor row = *t;
    if (t->rank == 1) { /* [N], of an o of rank 2 */
        row.rank = 2;
        row.shape[0] = 1, row.stride[0] = 0;
        row.shape[1] = t->shape[0], row.stride[1] = t->stride[0];
    }
    CLA_TRY(cla_operand_take(context, &row, name, kind, out));
    CLA_CHECK(out->shape[0] == 1 && memcmp(out->shape + 1, o->shape, 3 * sizeof *o->shape) == 0, CLATTN_E_SHAPE,
              "%s %s: does not go with o %s; it is that without the last axis", name,
              cla_shape_text(t, text, sizeof text), cla_shape_text(o, other, sizeof other));
done:
    return status;
}

static clattn_status take_part(clattn_context *context, const clattn_partial *part, int64_t x, merging *m) {
    clattn_status status = CLATTN_OK;
    char names[2][40], text[200], other[200];
    clattn_partial *to = &m->parts[x];
    snprintf(names[0], sizeof names[0], "parts[%lld].o", (long long)x);
    snprintf(names[1], sizeof names[1], "parts[%lld].lse", (long long)x);
    CLA_TRY(cla_operand_take(context, &part->o, names[0], CLA_OPERAND_FLOATS, &to->o));
    CLA_CHECK(memcmp(to->o.shape, m->out.o.shape, 4 * sizeof *to->o.shape) == 0, CLATTN_E_SHAPE,
              "%s %s: differs from o %s", names[0], cla_shape_text(&to->o, text, sizeof text),
              cla_shape_text(&m->out.o, other, sizeof other));
    CLA_TRY(take_lse(context, &part->lse, names[1], CLA_OPERAND_FLOATS, &to->o, &to->lse));
    CLA_TRY(cla_operand_same_or_apart(&to->o, names[0], &m->out.o, "o"));
    CLA_TRY(cla_operand_apart(&to->lse, names[1], &m->out.o, "o"));
    if (cla_present(&m->out.lse)) {
        CLA_TRY(cla_operand_same_or_apart(&to->lse, names[1], &m->out.lse, "lse"));
        CLA_TRY(cla_operand_apart(&to->o, names[0], &m->out.lse, "lse"));
    }
done:
    return status;
}

static clattn_status check_types(clattn_context *context, merging *m) {
    clattn_status status = CLATTN_OK;
    const clattn_device_info *device = cla_context_device(context);
    m->dtype = m->out.o.dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    for (int64_t x = 0; x < m->count; x++)
        if (m->parts[x].o.dtype == CLATTN_F64)
            m->dtype = CLATTN_F64;
    for (int64_t x = 0; x < m->count; x++)
        CLA_CHECK(m->parts[x].lse.dtype == m->dtype, CLATTN_E_DTYPE,
                  "parts[%lld].lse: is %s, but the sums here are %s, and so is it", (long long)x,
                  clattn_dtype_name(m->parts[x].lse.dtype), clattn_dtype_name(m->dtype));
    CLA_CHECK(!cla_present(&m->out.lse) || m->out.lse.dtype == m->dtype, CLATTN_E_DTYPE,
              "lse: is %s, but the sums here are %s, and so is it", clattn_dtype_name(m->out.lse.dtype),
              clattn_dtype_name(m->dtype));
    CLA_CHECK(m->dtype != CLATTN_F64 || !device->is_opencl || device->has_f64, CLATTN_E_UNSUPPORTED,
              "merge: f64 needs cl_khr_fp64, which %s lacks", device->name);
done:
    return status;
}

static clattn_status take(clattn_context *context, const clattn_merge_args *args, merging *m) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(args->count >= 1 && args->parts, CLATTN_E_ARGUMENT, "merge: %lld parts%s; it takes one or more",
              (long long)args->count, args->parts ? "" : ", and the array is NULL");
    CLA_TRY(cla_operand_take(context, &args->o, "o", CLA_OPERAND_OUTPUT, &m->out.o));
    if (cla_present(&args->lse))
        CLA_TRY(take_lse(context, &args->lse, "lse", CLA_OPERAND_OUTPUT, &m->out.o, &m->out.lse));
    if (cla_present(&m->out.lse))
        CLA_TRY(cla_operand_apart(&m->out.lse, "lse", &m->out.o, "o"));
    m->B = m->out.o.shape[0], m->H = m->out.o.shape[1], m->N = m->out.o.shape[2], m->Dv = m->out.o.shape[3];
    CLA_TRY(cla_alloc((size_t)args->count, sizeof *m->parts, "parts", &m->parts));
    m->count = args->count;
    for (int64_t x = 0; x < args->count; x++)
        CLA_TRY(take_part(context, &args->parts[x], x, m));
    CLA_TRY(check_types(context, m));
done:
    return status;
}

/* ---- on the host ---- */

static int64_t place_of(const clattn_tensor *t, const int64_t at[3]) { /* of lse: axes 1 to 3 */
    const int64_t *stride = t->stride;
    return at[0] * stride[0] + at[1] * stride[1] + at[2] * stride[2];
}

static double lse_at(const clattn_tensor *lse, const int64_t at[3]) {
    return cla_load_element(cla_tensor_data(lse), lse->dtype,
                            at[0] * lse->stride[1] + at[1] * lse->stride[2] + at[2] * lse->stride[3]);
}

static void merge_row(const merging *m, const int64_t at[3]) {
    double top = -INFINITY, sum = 0;
    for (int64_t x = 0; x < m->count; x++) {
        const double lse = lse_at(&m->parts[x].lse, at);
        top = lse > top ? lse : top;
    }
    const double base = top == -INFINITY ? 0 : top;
    for (int64_t x = 0; x < m->count; x++)
        sum += exp(lse_at(&m->parts[x].lse, at) - base);
    for (int64_t d = 0; d < m->Dv; d++) {
        double y = 0;
        for (int64_t x = 0; x < m->count; x++) {
            const clattn_tensor *o = &m->parts[x].o;
            const double lse = lse_at(&m->parts[x].lse, at);
            if (lse != -INFINITY)
                y += exp(lse - base) *
                     cla_load_element(cla_tensor_data(o), o->dtype, place_of(o, at) + d * o->stride[3]);
        }
        cla_store_element(cla_tensor_data(&m->out.o), m->out.o.dtype, place_of(&m->out.o, at) + d * m->out.o.stride[3],
                          sum == 0 ? 0 : y / sum);
    }
    if (cla_present(&m->out.lse))
        cla_store_element(cla_tensor_data(&m->out.lse), m->dtype,
                          at[0] * m->out.lse.stride[1] + at[1] * m->out.lse.stride[2] + at[2] * m->out.lse.stride[3],
                          top + log(sum));
}

static void merge_on_host(const merging *m) {
    const int64_t rows = m->B * m->H * m->N;
#pragma omp parallel for if (rows * m->Dv > 4096)
    for (int64_t row = 0; row < rows; row++)
        merge_row(m, (const int64_t[3]){row / (m->H * m->N), row / m->N % m->H, row % m->N});
}

/* ---- on a device ---- */

static cla_merge_part strides_of(const clattn_partial *part) {
    const clattn_tensor *o = &part->o, *lse = &part->lse;
    return (cla_merge_part){.o_b = o->stride[0],
                            .o_h = o->stride[1],
                            .o_i = o->stride[2],
                            .o_d = o->stride[3],
                            .o_0 = o->offset,
                            .lse_b = lse->stride[1],
                            .lse_h = lse->stride[2],
                            .lse_i = lse->stride[3],
                            .lse_0 = lse->offset,
                            .o_type = (cl_int)o->dtype};
}

static clattn_status launch(clattn_context *context, cla_kernel *kernel, const merging *m, const clattn_partial *parts,
                            int count, const clattn_buffer *states, cla_merge_args *a) {
    const clattn_buffer *o[MERGE_PARTS] = {0}, *lse[MERGE_PARTS] = {0};
    for (int x = 0; x < count; x++) {
        o[x] = parts[x].o.buffer;
        lse[x] = parts[x].lse.buffer;
        a->parts[x] = strides_of(&parts[x]);
    }
    const cla_arg args[] = {CLA_ARG_BUFFER(o[0]),
                            CLA_ARG_BUFFER(o[1]),
                            CLA_ARG_BUFFER(o[2]),
                            CLA_ARG_BUFFER(o[3]),
                            CLA_ARG_BUFFER(lse[0]),
                            CLA_ARG_BUFFER(lse[1]),
                            CLA_ARG_BUFFER(lse[2]),
                            CLA_ARG_BUFFER(lse[3]),
                            CLA_ARG_BUFFER(m->out.o.buffer),
                            CLA_ARG_BUFFER(m->out.lse.buffer),
                            CLA_ARG_BUFFER(states),
                            CLA_ARG_VALUE(*a)};
    return cla_launch(context, kernel, m->B * m->H * m->N, args, (int)(sizeof args / sizeof *args));
}

/* Parts [x, x + count), and the outputs after the last. */
static clattn_status merge_some(clattn_context *context, cla_kernel *kernel, merging *m, int64_t x, int count,
                                const clattn_buffer *states) {
    clattn_partial *parts = m->parts + x;
    const bool last = x + count == m->count;
    cla_staged tensors[2 * MERGE_PARTS + 2];
    cla_staging staging;
    size_t n = 0;
    for (int y = 0; y < count; y++) {
        tensors[n++] = (cla_staged){&parts[y].o, CLA_IN};
        tensors[n++] = (cla_staged){&parts[y].lse, CLA_IN};
    }
    if (last) {
        tensors[n++] = (cla_staged){&m->out.o, CLA_OUT};
        tensors[n++] = (cla_staged){&m->out.lse, CLA_OUT};
    }
    clattn_status status = cla_staging_begin(context, tensors, n, &staging);
    if (status == CLATTN_OK) {
        cla_merge_args a = {.H = (cl_int)m->H,
                            .N = (cl_int)m->N,
                            .Dv = (cl_int)m->Dv,
                            .count = count,
                            .continues = x > 0,
                            .last = last,
                            .has_lse = cla_present(&m->out.lse),
                            .out = strides_of(&m->out)};
        status = launch(context, kernel, m, parts, count, states, &a);
    }
    return cla_staging_end(&staging, status);
}

static clattn_status merge_on_device(clattn_context *context, merging *m) {
    clattn_status status = CLATTN_OK;
    clattn_buffer *states = NULL;
    cla_kernel *kernel = NULL;
    cla_key key = cla_key_make("merge.cl", "merge_parts");
    cla_key_define(&key, "REAL", m->dtype == CLATTN_F64 ? 64 : 32);
    const int64_t group = cla_group_within(cla_context_device(context), WORK_GROUP);
    cla_key_define(&key, "WG", group);
    CLA_TRY(cla_kernel_create(context, &key, (size_t)group, &kernel));
    if (m->count > MERGE_PARTS)
        CLA_TRY(clattn_buffer_create(context, (size_t)(m->B * m->H * m->N * (m->Dv + 2)) * clattn_dtype_size(m->dtype),
                                     &states));
    CLA_TRY(cla_queue_begin(context, 0, NULL));
    for (int64_t x = 0; x < m->count; x += MERGE_PARTS)
        CLA_TRY(merge_some(context, kernel, m, x, (int)cla_min(MERGE_PARTS, m->count - x), states));
done:
    cla_kernel_destroy(kernel); /* the runtime keeps both until the work is done */
    clattn_buffer_destroy(states);
    return status;
}

clattn_status clattn_merge(clattn_context *context, const clattn_merge_args *args) {
    clattn_status status = CLATTN_OK;
    merging m = {0};
    CLA_CHECK(context && args, CLATTN_E_ARGUMENT, "merge: %s is NULL", context ? "args" : "context");
    CLA_TRY(CLA_RESERVED(clattn_merge_args, args));
    CLA_TRY(take(context, args, &m));
    if (m.B * m.H * m.N == 0)
        goto done;
    if (cla_context_is_cpu(context))
        merge_on_host(&m);
    else
        CLA_TRY(merge_on_device(context, &m));
done:
    cla_free(m.parts);
    return status;
}
