/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations: prepared, then enqueued, or computed at once on the `cpu` context. */
#include "base/error.h"
#include "base/mem.h"
#include "ops/rotary.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"

static int64_t group_of(const clattn_context *context) { return cla_group_within(cla_context_device(context), 64); }

static bool is_wide(const cla_rotation *a) {
    const bool of_tables =
        (a->cos.buffer && a->cos.dtype == CLATTN_F64) || (a->sin.buffer && a->sin.dtype == CLATTN_F64);
    return a->x.dtype == CLATTN_F64 || a->y.dtype == CLATTN_F64 || of_tables;
}

static bool is_by_row(const clattn_context *context) {
    return cla_context_device(context)->device_class == CLATTN_DEVICE_CPU;
}

/* A dense host array of f64 to the device, as the type of the sums. */
static clattn_status send_table(clattn_context *context, bool wide, clattn_tensor *t, clattn_buffer **buffer) {
    clattn_status status = CLATTN_OK;
    const clattn_dtype dtype = wide ? CLATTN_F64 : CLATTN_F32;
    const size_t count = (size_t)clattn_tensor_elements(t);
    void *converted = NULL;
    if (t->buffer)
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

/* What the job's rotations share, from the first that has it. */
static clattn_status send_shared(clattn_context *context, bool wide, cla_rotation_job *job) {
    clattn_status status = CLATTN_OK;
    const cla_rotation *angles = NULL, *placed = NULL;
    for (int i = job->count - 1; i >= 0; i--) {
        angles = job->rotations[i].pairs > 0 ? &job->rotations[i] : angles;
        placed = job->rotations[i].places ? &job->rotations[i] : placed;
    }
    if (angles) {
        job->cos_at = angles->cos, job->sin_at = angles->sin;
        CLA_TRY(send_table(context, wide, &job->cos_at, &job->cos));
        CLA_TRY(send_table(context, wide, &job->sin_at, &job->sin));
        CLA_TRY(send_ints(context, angles->rows, angles->x.shape[0] * angles->x.shape[2], &job->rows));
    }
    if (placed)
        CLA_TRY(send_ints(context, placed->places, 2 * placed->x.shape[0] * placed->x.shape[2], &job->places));
done:
    return status;
}

clattn_status cla_rotation_prepare(clattn_context *context, const cla_rotation *rotations, int count,
                                   cla_rotation_job *job) {
    clattn_status status = CLATTN_OK;
    bool wide = false;
    *job = (cla_rotation_job){.count = count};
    for (int i = 0; i < count; i++) {
        job->rotations[i] = rotations[i];
        wide = wide || is_wide(&rotations[i]);
    }
    if (cla_context_is_cpu(context) || count == 0)
        return CLATTN_OK;
    CLA_CHECK(!wide || cla_context_device(context)->has_f64, CLATTN_E_UNSUPPORTED,
              "f64 needs cl_khr_fp64, which %s lacks", cla_context_device(context)->name);
    const bool blocks = cla_is_quantised(rotations[0].y.dtype), by_row = is_by_row(context) && !blocks;
    const size_t group = by_row ? 1 : (size_t)group_of(context);
    cla_key key = cla_key_make("cache.cl", blocks ? "rotate_to_blocks" : "rotate_rows");
    cla_key_define(&key, "REAL", wide ? 64 : 32);
    cla_key_define(&key, "WG", (int64_t)group);
    cla_key_define(&key, "BY_ROW", by_row);
    CLA_TRY(cla_kernel_create(context, &key, group, &job->kernel));
    CLA_TRY(send_shared(context, wide, job));
done:
    if (status != CLATTN_OK)
        cla_rotation_release(job);
    return status;
}

static cla_rotary_args args_of(const cla_rotation_job *job, const cla_rotation *r) {
    const clattn_tensor *x = &r->x, *y = &r->y, *c = &job->cos_at, *s = &job->sin_at;
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

static clattn_status launch_blocks(clattn_context *context, const cla_rotation_job *job) {
    const cla_rotation *r = &job->rotations[0];
    const cla_rotary_args a = args_of(job, r);
    const int64_t items = r->x.shape[0] * r->x.shape[1] * r->x.shape[2] * (r->x.shape[3] / CLA_BLOCK);
    const cla_arg args[] = {CLA_ARG_BUFFER(r->x.buffer),
                            CLA_ARG_BUFFER(r->y.buffer),
                            CLA_ARG_BUFFER(job->cos_at.buffer),
                            CLA_ARG_BUFFER(job->sin_at.buffer),
                            CLA_ARG_BUFFER(job->rows),
                            CLA_ARG_BUFFER(job->places),
                            CLA_ARG_VALUE(a)};
    return cla_launch(context, job->kernel, cla_ceil_div(items, group_of(context)), args,
                      (int)(sizeof args / sizeof *args));
}

static clattn_status launch_rows(clattn_context *context, const cla_rotation_job *job) {
    const cla_rotation *r = job->rotations;
    const bool by_row = is_by_row(context);
    cla_rotary_sets a = {.ends = {0}};
    int64_t items = 0;
    for (int i = 0; i < CLA_ROTATIONS; i++) {
        if (i < job->count) {
            const int64_t *n = r[i].x.shape;
            a.set[i] = args_of(job, &r[i]);
            items += n[0] * n[1] * n[2] * (by_row ? 1 : n[3] - r[i].pairs);
        }
        a.ends[i] = items;
    }
    const cla_arg args[] = {CLA_ARG_BUFFER(r[0].x.buffer),
                            CLA_ARG_BUFFER(r[0].y.buffer),
                            CLA_ARG_BUFFER(r[1].x.buffer),
                            CLA_ARG_BUFFER(r[1].y.buffer),
                            CLA_ARG_BUFFER(r[2].x.buffer),
                            CLA_ARG_BUFFER(r[2].y.buffer),
                            CLA_ARG_BUFFER(job->cos_at.buffer),
                            CLA_ARG_BUFFER(job->sin_at.buffer),
                            CLA_ARG_BUFFER(job->rows),
                            CLA_ARG_BUFFER(job->places),
                            CLA_ARG_VALUE(a)};
    return cla_launch(context, job->kernel, by_row ? items : cla_ceil_div(items, group_of(context)), args,
                      (int)(sizeof args / sizeof *args));
}

clattn_status cla_rotation_launch(clattn_context *context, const cla_rotation_job *job) {
    if (job->count == 0)
        return CLATTN_OK;
    if (cla_context_is_cpu(context)) {
        for (int i = 0; i < job->count; i++) {
            cla_rotation r = job->rotations[i];
            find_host(&r.x);
            find_host(&r.y);
            find_host(&r.cos);
            find_host(&r.sin);
            cla_ref_rotate(&r);
        }
        return CLATTN_OK;
    }
    const clattn_status begun = cla_queue_begin(context, 0, NULL);
    if (begun != CLATTN_OK)
        return begun;
    return cla_is_quantised(job->rotations[0].y.dtype) ? launch_blocks(context, job) : launch_rows(context, job);
}

void cla_rotation_release(cla_rotation_job *job) {
    cla_kernel_destroy(job->kernel);
    clattn_buffer_destroy(job->cos);
    clattn_buffer_destroy(job->sin);
    clattn_buffer_destroy(job->rows);
    clattn_buffer_destroy(job->places);
    *job = (cla_rotation_job){.count = 0};
}
