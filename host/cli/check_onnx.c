/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's Attention operator, opsets 23 to 25, in terms of one attention call: 3D inputs are views, the cache is
 * concatenated here, short masks are padded here (missing keys are excluded). */
#include "check_case.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct onnx_case {
    cla_check_case *c;
    cla_check_job *job;
    clattn_array *o, *weights, *present_key, *present_value;
    int64_t past; /* keys in the cache */
    int64_t batch, heads, queries, keys;
} onnx_case;

/* [B, H, S, D] from 4D, or from 3D [B, S, H * D]. */
static bool head_view(onnx_case *x, const clattn_array *a, const char *attr, clattn_tensor *t) {
    static const int swap[] = {0, 2, 1, 3};
    int64_t heads;
    *t = clattn_array_tensor(a);
    if (a->rank == 4)
        return true;
    if (a->rank != 3)
        return cla_check_error(x->c, "its inputs have rank %d, not 3 or 4", a->rank);
    if (!cla_check_attr_int(x->c, attr, 0, &heads))
        return false;
    if (heads <= 0 || t->shape[2] % heads != 0)
        return cla_check_error(x->c, "%s is %" PRId64 ", for %" PRId64 " columns", attr, heads, t->shape[2]);
    *t = clattn_tensor_permute(clattn_tensor_split(*t, 2, heads), swap);
    return true;
}

/* Copies [B, H, S, D] into a contiguous [B, H, M, D], from key `first` on. */
static void copy_keys(const clattn_tensor *from, clattn_array *to, int64_t first) {
    const size_t size = clattn_dtype_size(from->dtype);
    for (int64_t b = 0; b < from->shape[0]; b++)
        for (int64_t h = 0; h < from->shape[1]; h++)
            for (int64_t j = 0; j < from->shape[2]; j++)
                for (int64_t d = 0; d < from->shape[3]; d++) {
                    const int64_t source = from->offset + b * from->stride[0] + h * from->stride[1] +
                                           j * from->stride[2] + d * from->stride[3];
                    const int64_t target = ((b * to->shape[1] + h) * to->shape[2] + first + j) * to->shape[3] + d;
                    memcpy((char *)to->data + (size_t)target * size, (const char *)from->host + (size_t)source * size,
                           size);
                }
}

/* K or V behind its cache: *present, and a view of it in *t. */
static bool concatenate(onnx_case *x, const char *past_name, clattn_tensor *t, clattn_array **present) {
    clattn_tensor past = {0};
    if (cla_check_has_input(x->c, past_name)) {
        const clattn_array *a = cla_check_read(x->c, x->job, past_name);
        if (!a)
            return false;
        past = clattn_array_tensor(a);
        if (past.rank != 4 || past.shape[0] != t->shape[0] || past.shape[1] != t->shape[1] ||
            past.shape[3] != t->shape[3])
            return cla_check_error(x->c, "%s does not fit the new keys", past_name);
        x->past = past.shape[2];
    }
    const int64_t shape[] = {t->shape[0], t->shape[1], t->shape[2] + (past.rank ? past.shape[2] : 0), t->shape[3]};
    *present = cla_check_new_array(x->c, x->job, t->dtype, 4, shape);
    if (!*present)
        return false;
    if (past.rank)
        copy_keys(&past, *present, 0);
    copy_keys(t, *present, past.rank ? past.shape[2] : 0);
    *t = clattn_array_tensor(*present);
    return true;
}

static bool load(onnx_case *x) {
    clattn_attention_args *a = &x->job->args;
    const clattn_array *q = cla_check_read(x->c, x->job, "Q");
    const clattn_array *k = q ? cla_check_read(x->c, x->job, "K") : NULL;
    const clattn_array *v = k ? cla_check_read(x->c, x->job, "V") : NULL;
    if (!v || !head_view(x, q, "q_num_heads", &a->q) || !head_view(x, k, "kv_num_heads", &a->k) ||
        !head_view(x, v, "kv_num_heads", &a->v))
        return false;
    const bool cache = cla_check_has_input(x->c, "past_key") || cla_check_has_input(x->c, "past_value");
    const cJSON *out = cJSON_GetObjectItemCaseSensitive(x->c->json, "out");
    const bool present = cJSON_HasObjectItem(out, "present_key") || cJSON_HasObjectItem(out, "present_value");
    if ((cache || present) && (!concatenate(x, "past_key", &a->k, &x->present_key) ||
                               !concatenate(x, "past_value", &a->v, &x->present_value)))
        return false;
    x->batch = a->q.shape[0];
    x->heads = a->q.shape[1];
    x->queries = a->q.shape[2];
    x->keys = a->k.shape[2];
    /* Y is laid out as Q: [B, N, H * Dv] or [B, H, N, Dv]. */
    const int64_t dv = a->v.shape[3];
    const int64_t shape3[] = {x->batch, x->queries, x->heads * dv}, shape4[] = {x->batch, x->heads, x->queries, dv};
    x->o = cla_check_new_array(x->c, x->job, x->job->dtype, q->rank, q->rank == 3 ? shape3 : shape4);
    return x->o && head_view(x, x->o, "q_num_heads", &a->o);
}

/* A mask whose last axis is short: the missing keys are excluded. */
static clattn_array *pad(onnx_case *x, const clattn_array *mask) {
    int64_t shape[CLATTN_MAX_RANK];
    const int last = mask->rank - 1;
    const int64_t from = mask->shape[last];
    memcpy(shape, mask->shape, sizeof shape);
    shape[last] = x->keys;
    clattn_array *wide = cla_check_new_array(x->c, x->job, mask->dtype, mask->rank, shape);
    const size_t size = clattn_dtype_size(mask->dtype);
    const int64_t rows = !wide || from == 0 ? 0 : (int64_t)(mask->bytes / size) / from;
    for (int64_t i = 0; i < rows; i++) {
        memcpy((char *)wide->data + (size_t)(i * x->keys) * size, (const char *)mask->data + (size_t)(i * from) * size,
               (size_t)from * size);
        for (int64_t j = from; j < x->keys; j++) { /* keep: zero already */
            if (mask->dtype == CLATTN_F32)
                ((float *)wide->data)[i * x->keys + j] = -INFINITY;
            else if (mask->dtype == CLATTN_F64)
                ((double *)wide->data)[i * x->keys + j] = -(double)INFINITY;
        }
    }
    return wide;
}

static bool load_mask(onnx_case *x) {
    if (!cla_check_has_input(x->c, "attn_mask"))
        return true;
    clattn_array *mask = cla_check_read(x->c, x->job, "attn_mask");
    if (!mask)
        return false;
    if (mask->rank < 1 || mask->rank > 4)
        return cla_check_error(x->c, "attn_mask has rank %d", mask->rank);
    if (mask->rank == 1) {
        const int64_t m = mask->shape[0];
        mask->rank = 4;
        mask->shape[0] = mask->shape[1] = mask->shape[2] = 1;
        mask->shape[3] = m;
    }
    if (mask->shape[mask->rank - 1] < x->keys)
        mask = pad(x, mask);
    if (mask)
        cla_check_set_mask(x->job, mask);
    return mask != NULL;
}

static bool load_lengths(onnx_case *x, bool *given) {
    *given = cla_check_has_input(x->c, "nonpad_kv_seqlen");
    if (!*given)
        return true;
    const clattn_array *lengths = cla_check_read_raw(x->c, x->job, "nonpad_kv_seqlen");
    if (!lengths)
        return false;
    if (lengths->dtype != CLATTN_I64 || lengths->rank != 1 || lengths->shape[0] != x->batch)
        return cla_check_error(x->c, "nonpad_kv_seqlen is not one i64 for each of %" PRId64 " batches", x->batch);
    x->job->args.key_lengths = lengths->data;
    return true;
}

static bool set_window(onnx_case *x) {
    int64_t left, right;
    if (!cla_check_attr_int(x->c, "left_window_size", -1, &left) ||
        !cla_check_attr_int(x->c, "right_window_size", -1, &right))
        return false;
    if (left < -1 || right < -1)
        return cla_check_error(x->c, "a window of %" PRId64 " and %" PRId64 " keys", left, right);
    x->job->args.has_window = left >= 0 || right >= 0;
    x->job->args.window_left = left < 0 ? CLATTN_UNLIMITED : left;
    x->job->args.window_right = right < 0 ? CLATTN_UNLIMITED : right;
    return true;
}

/* Where the queries stand: behind the cache, at the end of the valid keys, or at the start. */
static bool set_alignment(onnx_case *x, bool lengths) {
    clattn_attention_args *a = &x->job->args;
    a->align = lengths ? CLATTN_ALIGN_BOTTOM_RIGHT : x->past > 0 ? CLATTN_ALIGN_OFFSET : CLATTN_ALIGN_TOP_LEFT;
    if (!a->causal && !a->has_window)
        a->align = CLATTN_ALIGN_UNSET;
    if (a->align != CLATTN_ALIGN_OFFSET)
        return true;
    clattn_array *offsets = cla_check_new_array(x->c, x->job, CLATTN_I64, 1, &x->batch);
    for (int64_t b = 0; offsets && b < x->batch; b++)
        ((int64_t *)offsets->data)[b] = x->past;
    a->offsets = offsets ? offsets->data : NULL;
    return offsets != NULL;
}

static bool set_options(onnx_case *x) {
    clattn_attention_args *a = &x->job->args;
    int64_t causal;
    bool lengths;
    if (!cla_check_attr_int(x->c, "is_causal", 0, &causal) || !cla_check_attr_real(x->c, "scale", NAN, &a->scale) ||
        !set_window(x) || !load_lengths(x, &lengths))
        return false;
    a->has_scale = !isnan(a->scale);
    a->causal = causal != 0;
    return set_alignment(x, lengths);
}

static bool want_scores(onnx_case *x, const cJSON *out) {
    int64_t mode;
    if (!cla_check_attr_int(x->c, "qk_matmul_output_mode", 0, &mode))
        return false;
    if (mode != 3) {
        cla_check_skip(x->c, "qk_matmul_output_mode %" PRId64 " comes with a later version", mode);
        return true;
    }
    const int64_t shape[] = {x->batch, x->heads, x->queries, x->keys};
    x->weights = cla_check_new_array(x->c, x->job, x->job->dtype, 4, shape);
    if (!x->weights)
        return false;
    x->job->args.weights = clattn_array_tensor(x->weights);
    return cla_check_want(x->c, x->job, out, CLA_CHECK_FROM_WEIGHTS, x->weights);
}

static bool want_outputs(onnx_case *x) {
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(x->c->json, "out")) {
        const char *name = out->string;
        bool done;
        if (strcmp(name, "Y") == 0)
            done = cla_check_want(x->c, x->job, out, CLA_CHECK_FROM_O, x->o);
        else if (strcmp(name, "present_key") == 0)
            done = cla_check_want(x->c, x->job, out, CLA_CHECK_FROM_HOST, x->present_key);
        else if (strcmp(name, "present_value") == 0)
            done = cla_check_want(x->c, x->job, out, CLA_CHECK_FROM_HOST, x->present_value);
        else if (strcmp(name, "qk_matmul_output") == 0)
            done = want_scores(x, out);
        else
            done = cla_check_error(x->c, "the output %s is not known", name);
        if (!done)
            return false;
    }
    return true;
}

bool cla_check_build_attention(cla_check_case *c) {
    clattn_dtype dtype;
    double softcap;
    if (!cla_check_dtype_of(c, "Q", &dtype) || !cla_check_attr_real(c, "softcap", 0, &softcap))
        return false;
    if (dtype != CLATTN_F32 && dtype != CLATTN_F64) {
        cla_check_skip(c, "f16 and bf16 come with a later version");
        return true;
    }
    if (softcap != 0) {
        cla_check_skip(c, "the soft cap comes with a later version");
        return true;
    }
    onnx_case x = {.c = c, .job = cla_check_job_of(c, dtype)};
    return x.job && load(&x) && load_mask(&x) && set_options(&x) && want_outputs(&x);
}
