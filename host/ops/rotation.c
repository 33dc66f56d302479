/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations: prepared, then enqueued, or computed at once on the `cpu` context. */
#include "args.h"
#include "base/error.h"
#include "base/mem.h"
#include "ops/rotary.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

enum { WORK_GROUP = 64 };

static bool is_wide(const cla_rotation *a) {
    const bool of_tables =
        (a->cos.buffer && a->cos.dtype == CLATTN_F64) || (a->sin.buffer && a->sin.dtype == CLATTN_F64);
    return a->x.dtype == CLATTN_F64 || a->y.dtype == CLATTN_F64 || of_tables;
}

/* A dense host array of f64 to the device, as the type of the sums. */
static clattn_status send_table(clattn_context *context, bool wide, clattn_tensor *t, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    const clattn_dtype dtype = wide ? CLATTN_F64 : CLATTN_F32;
    const size_t count = (size_t)clattn_tensor_elements(t);
    void *converted = NULL;
    if (!cla_present(t) || t->buffer)
        return CLATTN_OK;
    CLA_TRY(cla_alloc(count, clattn_dtype_size(dtype), "cosines and sines", &converted));
    CLA_TRY(clattn_convert(converted, dtype, t->host, CLATTN_F64, count));
    CLA_TRY(cla_buffer_create_from(context, converted, count * clattn_dtype_size(dtype), buffer));
    t->dtype = dtype;
    t->host = NULL;
    t->buffer = *buffer;
done:
    cla_free(converted);
    return status;
}

static clattn_status send_ints(clattn_context *context, const int32_t *data, int64_t count, clattn_buffer **buffer) {
    return data ? cla_buffer_create_from(context, data, (size_t)count * sizeof *data, buffer) : CLATTN_OK;
}

static bool is_empty(const cla_rotation *a) { return clattn_tensor_elements(&a->x) == 0; }

clattn_status cla_rotation_prepare(clattn_context *context, const cla_rotation *rotation, cla_rotation_job *job) {
    clattn_status status = CLATTN_OK;
    const bool wide = is_wide(rotation), blocks = cla_is_quantised(rotation->y.dtype);
    const int64_t rows = rotation->x.shape[0] * rotation->x.shape[2];
    *job = (cla_rotation_job){.rotation = *rotation};
    if (cla_context_is_cpu(context) || is_empty(rotation))
        return CLATTN_OK;
    CLA_CHECK(!wide || cla_context_device(context)->has_f64, CLATTN_E_UNSUPPORTED,
              "f64 needs cl_khr_fp64, which %s lacks", cla_context_device(context)->name);
    cla_key key = cla_key_make("cache.cl", blocks ? "rotate_to_blocks" : "rotate_rows");
    cla_key_define(&key, "REAL", wide ? 64 : 32);
    cla_key_define(&key, "WG", WORK_GROUP);
    CLA_TRY(cla_kernel_create(context, &key, WORK_GROUP, &job->kernel));
    CLA_TRY(send_table(context, wide, &job->rotation.cos, &job->cos));
    CLA_TRY(send_table(context, wide, &job->rotation.sin, &job->sin));
    CLA_TRY(send_ints(context, rotation->rows, rows, &job->rows));
    CLA_TRY(send_ints(context, rotation->places, 2 * rows, &job->places));
done:
    if (status != CLATTN_OK)
        cla_rotation_release(job);
    return status;
}

static cla_rotary_args args_of(const cla_rotation *r) {
    const clattn_tensor *x = &r->x, *y = &r->y, *c = &r->cos, *s = &r->sin;
    cla_rotary_args a = {.B = (cl_int)x->shape[0],
                         .H = (cl_int)x->shape[1],
                         .N = (cl_int)x->shape[2],
                         .D = (cl_int)x->shape[3],
                         .pairs = (cl_int)r->pairs,
                         .adjacent = r->adjacent,
                         .has_rows = r->rows != NULL,
                         .has_places = r->places != NULL,
                         .x_type = (cl_int)x->dtype,
                         .y_type = (cl_int)y->dtype,
                         .cos_type = (cl_int)c->dtype,
                         .sin_type = (cl_int)s->dtype};
    a.x_b = x->stride[0], a.x_h = x->stride[1], a.x_i = x->stride[2], a.x_d = x->stride[3], a.x_0 = x->offset;
    a.y_b = y->stride[0], a.y_h = y->stride[1], a.y_i = y->stride[2], a.y_d = y->stride[3], a.y_0 = y->offset;
    a.cos_b = c->stride[1], a.cos_i = c->stride[2], a.cos_d = c->stride[3], a.cos_0 = c->offset;
    a.sin_b = s->stride[1], a.sin_i = s->stride[2], a.sin_d = s->stride[3], a.sin_0 = s->offset;
    return a;
}

/* The storage of a tensor on the `cpu` context. */
static void find_host(clattn_tensor *t) {
    if (t->buffer)
        t->host = cla_buffer_host(t->buffer);
}

clattn_status cla_rotation_launch(clattn_context *context, const cla_rotation_job *job) {
    cla_rotation r = job->rotation;
    if (is_empty(&r))
        return CLATTN_OK;
    if (cla_context_is_cpu(context)) {
        find_host(&r.x);
        find_host(&r.y);
        find_host(&r.cos);
        find_host(&r.sin);
        cla_ref_rotate(&r);
        return CLATTN_OK;
    }
    const cla_rotary_args a = args_of(&r);
    const int64_t parts = cla_is_quantised(r.y.dtype) ? r.x.shape[3] / CLA_BLOCK : r.x.shape[3] - r.pairs;
    const int64_t items = r.x.shape[0] * r.x.shape[1] * r.x.shape[2] * parts;
    const cla_arg args[] = {CLA_ARG_BUFFER(r.x.buffer),
                            CLA_ARG_BUFFER(r.y.buffer),
                            CLA_ARG_BUFFER(r.cos.buffer),
                            CLA_ARG_BUFFER(r.sin.buffer),
                            CLA_ARG_BUFFER(job->rows),
                            CLA_ARG_BUFFER(job->places),
                            CLA_ARG_VALUE(a)};
    const clattn_status begun = cla_queue_begin(context, 0, NULL);
    if (begun != CLATTN_OK)
        return begun;
    return cla_launch(context, job->kernel, cla_ceil_div(items, WORK_GROUP), args, (int)(sizeof args / sizeof *args));
}

void cla_rotation_release(cla_rotation_job *job) {
    cla_kernel_destroy(job->kernel);
    clattn_buffer_destroy(job->cos);
    clattn_buffer_destroy(job->sin);
    clattn_buffer_destroy(job->rows);
    clattn_buffer_destroy(job->places);
    *job = (cla_rotation_job){0};
}
