/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's LayerNormalization, RMSNormalization and Softmax operators. */
#include "check_onnx.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

/* The axis, counted from the front. */
static bool read_axis(cla_check_case *c, int rank, int64_t unset, int64_t *axis) {
    if (!cla_check_attr_int(c, "axis", unset, axis))
        return false;
    if (*axis < -rank || *axis >= rank)
        return cla_check_error(c, "axis is %" PRId64 ", of %d axes", *axis, rank);
    *axis += *axis < 0 ? rank : 0;
    return true;
}

/* Values of stash_type, as of ONNX's TensorProto. */
static bool read_stash(cla_check_case *c, clattn_dtype *stash) {
    static const struct {
        int64_t onnx;
        clattn_dtype dtype;
    } types[] = {{1, CLATTN_F32}, {10, CLATTN_F16}, {11, CLATTN_F64}, {16, CLATTN_BF16}};
    int64_t number;
    if (!cla_check_attr_int(c, "stash_type", 1, &number))
        return false;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].onnx == number) {
            *stash = types[i].dtype;
            return true;
        }
    return cla_check_error(c, "stash_type is %" PRId64 ", which is none of 1, 10, 11 and 16", number);
}

/* x is cast to the stash type before all else. f16 and bf16 need not be, for f32: sums are f32 then. */
static bool cast(cla_check_case *c, clattn_array *x, clattn_dtype stash) {
    return (stash == CLATTN_F32 && x->dtype != CLATTN_F64) || cla_check_convert(c, x, stash);
}

static clattn_status call_norm(clattn_context *context, const cla_check_job *job) {
    return clattn_norm(context, &job->norm);
}

static bool set_norm(cla_check_case *c, cla_check_job *job, const clattn_array *x) {
    clattn_norm_args *a = &job->norm;
    int64_t axis;
    double epsilon;
    if (!read_axis(c, x->rank, -1, &axis) || !cla_check_attr_real(c, "epsilon", 1e-5, &epsilon))
        return false;
    a->axes = x->rank - (int)axis;
    a->epsilon = epsilon != 0 ? epsilon : DBL_MIN; /* 0 would be the default */
    job->call = call_norm;
    return true;
}

/* Mean and InvStdDev have 1 for the normalised axes, and the type of the wanted ones. */
static bool want_of_rows(cla_check_case *c, cla_check_job *job, const cJSON *out, clattn_tensor *tensor) {
    int64_t shape[CLATTN_MAX_RANK];
    clattn_dtype dtype;
    const clattn_tensor *x = &job->norm.x;
    for (int i = 0; i < x->rank; i++)
        shape[i] = i < x->rank - job->norm.axes ? x->shape[i] : 1;
    if (!cla_check_dtype_of(c, out->string, &dtype))
        return false;
    const clattn_array *got = cla_check_new_array(c, job, dtype, x->rank, shape);
    if (!got)
        return false;
    *tensor = clattn_array_tensor(got);
    return cla_check_onnx_want(c, job, out, CLA_CHECK_FROM_O, got);
}

static bool want_norm(cla_check_case *c, cla_check_job *job, const clattn_array *y, bool of_rows) {
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        bool done;
        if (strcmp(out->string, "Y") == 0)
            done = cla_check_onnx_want(c, job, out, CLA_CHECK_FROM_O, y);
        else if (of_rows && strcmp(out->string, "Mean") == 0)
            done = want_of_rows(c, job, out, &job->norm.mean);
        else if (of_rows && strcmp(out->string, "InvStdDev") == 0)
            done = want_of_rows(c, job, out, &job->norm.inv_std);
        else
            done = cla_check_error(c, "the output %s is not known", out->string);
        if (!done)
            return false;
    }
    return true;
}

/* The result has the type of x, or, as RMSNormalization has it, that of the scale. */
static bool build(cla_check_case *c, const char *scale, const char *bias) {
    clattn_dtype dtype, stash = CLATTN_F32;
    if (!cla_check_dtype_of(c, "X", &dtype) || !read_stash(c, &stash))
        return false;
    cla_check_job *job = cla_check_job_of(c, dtype);
    clattn_array *x = job ? cla_check_read_raw(c, job, "X") : NULL;
    const clattn_array *weight = x ? cla_check_read_raw(c, job, scale) : NULL;
    const clattn_array *y =
        weight ? cla_check_new_array(c, job, bias ? dtype : weight->dtype, x->rank, x->shape) : NULL;
    if (!y || !cast(c, x, stash) || !set_norm(c, job, x))
        return false;
    job->norm.x = clattn_array_tensor(x);
    job->norm.weight = clattn_array_tensor(weight);
    job->norm.y = clattn_array_tensor(y);
    if (bias && cla_check_has_input(c, bias)) {
        const clattn_array *b = cla_check_read_raw(c, job, bias);
        if (!b)
            return false;
        job->norm.bias = clattn_array_tensor(b);
    }
    return want_norm(c, job, y, bias != NULL);
}

static const char *const norm_attrs[] = {"axis", "epsilon", "stash_type", NULL};

bool cla_check_build_layer_norm(cla_check_case *c) {
    static const char *const inputs[] = {"X", "Scale", "B", NULL};
    int64_t opset;
    return cla_check_onnx_opset(c, 17, 25, &opset) && cla_check_known(c, norm_attrs, inputs) && build(c, "Scale", "B");
}

bool cla_check_build_rms_norm(cla_check_case *c) {
    static const char *const inputs[] = {"X", "scale", NULL};
    int64_t opset;
    if (!cla_check_onnx_opset(c, 23, 25, &opset) || !cla_check_known(c, norm_attrs, inputs) || !build(c, "scale", NULL))
        return false;
    c->jobs[0].norm.kind = CLATTN_NORM_RMS;
    return true;
}

/* x as the softmax takes it, and over which axis: before opset 13 all axes from `axis` on are one; one number is a row
 * of one. */
static bool view_softmax(cla_check_case *c, int64_t opset, const clattn_array *x, clattn_tensor *view, int64_t *axis) {
    int64_t shape[] = {1, 1};
    *view = clattn_array_tensor(x);
    *axis = 0;
    if (x->rank == 0) {
        *view = clattn_tensor_host(x->data, x->dtype, 1, shape);
        return true;
    }
    if (!read_axis(c, x->rank, opset < 13 ? 1 : -1, axis))
        return false;
    if (opset < 13) {
        for (int i = 0; i < x->rank; i++)
            shape[i >= *axis] *= x->shape[i];
        *view = clattn_tensor_host(x->data, x->dtype, 2, shape);
        *axis = 1;
    }
    return true;
}

static clattn_status call_softmax(clattn_context *context, const cla_check_job *job) {
    return clattn_softmax(context, &job->softmax);
}

bool cla_check_build_softmax(cla_check_case *c) {
    static const char *const attrs[] = {"axis", NULL}, *const inputs[] = {"input", NULL};
    int64_t opset, axis;
    clattn_dtype dtype;
    if (!cla_check_onnx_opset(c, 1, 25, &opset) || !cla_check_known(c, attrs, inputs) ||
        !cla_check_dtype_of(c, "input", &dtype))
        return false;
    cla_check_job *job = cla_check_job_of(c, dtype);
    const clattn_array *x = job ? cla_check_read_raw(c, job, "input") : NULL;
    const clattn_array *y = x ? cla_check_new_array(c, job, dtype, x->rank, x->shape) : NULL;
    clattn_tensor view;
    if (!y || !view_softmax(c, opset, x, &view, &axis))
        return false;
    job->softmax = (clattn_softmax_args){.x = view, .y = view, .has_axis = true, .axis = (int)axis};
    job->softmax.y.host = y->data;
    job->call = call_softmax;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        if (strcmp(out->string, "output") != 0)
            return cla_check_error(c, "the output %s is not known", out->string);
        if (!cla_check_onnx_want(c, job, out, CLA_CHECK_FROM_O, y))
            return false;
    }
    return true;
}
