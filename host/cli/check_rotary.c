/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's RotaryEmbedding operator. */
#include "check_onnx.h"
#include <inttypes.h>
#include <string.h>

/* A cache is [positions, dims / 2] and looked up by position_ids, or [B, N, dims / 2]. */
static bool load_caches(cla_check_case *c, cla_check_job *job) {
    const bool looked_up = cla_check_has_input(c, "position_ids");
    clattn_rotary_args *a = &job->rotary;
    const clattn_array *cosines = cla_check_read_raw(c, job, "cos_cache");
    const clattn_array *sines = cosines ? cla_check_read_raw(c, job, "sin_cache") : NULL;
    if (!sines)
        return false;
    if (cosines->rank != (looked_up ? 2 : 3) || sines->rank != cosines->rank)
        return cla_check_error(c, "cos_cache and sin_cache have rank %d and %d, not %d, with%s position_ids",
                               cosines->rank, sines->rank, looked_up ? 2 : 3, looked_up ? "" : "out");
    a->cos = clattn_array_tensor(cosines);
    a->sin = clattn_array_tensor(sines);
    if (!looked_up)
        return true;
    const clattn_array *positions = cla_check_read_raw(c, job, "position_ids");
    if (!positions)
        return false;
    if (positions->dtype != CLATTN_I64 || positions->rank != 2 || positions->shape[0] != a->x.shape[0] ||
        positions->shape[1] != a->x.shape[2])
        return cla_check_error(c, "position_ids is not an i64 for each of %" PRId64 " x %" PRId64 " rows",
                               a->x.shape[0], a->x.shape[2]);
    a->positions = positions->data;
    return true;
}

static bool load(cla_check_case *c, cla_check_job *job, const clattn_array **y) {
    bool adjacent;
    clattn_rotary_args *a = &job->rotary;
    const clattn_array *x = cla_check_read_raw(c, job, "X");
    if (!x || !cla_check_onnx_heads(c, x, "num_heads", &a->x))
        return false;
    *y = cla_check_new_array(c, job, x->dtype, x->rank, x->shape);
    if (!*y || !cla_check_onnx_heads(c, *y, "num_heads", &a->y) ||
        !cla_check_attr_int(c, "rotary_embedding_dim", 0, &a->options.dims) ||
        !cla_check_attr_flag(c, "interleaved", &adjacent))
        return false;
    a->options.pairs = adjacent ? CLATTN_ROTARY_ADJACENT : CLATTN_ROTARY_HALVES;
    return load_caches(c, job);
}

bool cla_check_build_rotary(cla_check_case *c) {
    static const char *const attrs[] = {"interleaved", "num_heads", "rotary_embedding_dim", NULL};
    static const char *const inputs[] = {"X", "cos_cache", "sin_cache", "position_ids", NULL};
    int64_t opset;
    clattn_dtype dtype;
    if (!cla_check_onnx_opset(c, 23, 25, &opset) || !cla_check_known(c, attrs, inputs) ||
        !cla_check_dtype_of(c, "X", &dtype))
        return false;
    cla_check_job *job = cla_check_job_of(c, dtype);
    const clattn_array *y;
    if (!job || !load(c, job, &y))
        return false;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        if (strcmp(out->string, "Y") != 0)
            return cla_check_error(c, "the output %s is not known", out->string);
        if (!cla_check_onnx_want(c, job, out, CLA_CHECK_FROM_O, y))
            return false;
    }
    return true;
}
