/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX's Attention operator, opsets 23 to 25, in terms of one attention call: 3D inputs are views, present_key and
 * present_value are caches that the past and then the new keys are appended to, and masks may be short. */
#include "check_onnx.h"

#include "call_facts.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Values of softmax_precision, as of ONNX's TensorProto. */
enum { ONNX_FLOAT = 1, ONNX_FLOAT16 = 10, ONNX_DOUBLE = 11, ONNX_BFLOAT16 = 16 };

typedef struct onnx_case {
    cla_check_case *c;
    cla_check_job *job;
    clattn_array *o, *present_key, *present_value;
    int64_t opset, precision; /* 0: not given */
    int64_t past;             /* keys in the cache */
    int64_t batch, heads, queries, keys;
    bool lengths; /* nonpad_kv_seqlen is given */
} onnx_case;

bool cla_check_onnx_heads(cla_check_case *c, const clattn_array *array, const char *attr, clattn_tensor *t) {
    static const int swap[] = {0, 2, 1, 3};
    int64_t heads;
    *t = clattn_array_tensor(array);
    if (array->rank != 3 && array->rank != 4)
        return cla_check_error(c, "its inputs have rank %d, not 3 or 4", array->rank);
    if (!cla_check_attr_int(c, attr, 0, &heads))
        return false;
    if (array->rank == 4)
        return heads == 0 || heads == t->shape[1] ||
               cla_check_error(c, "%s is %" PRId64 ", for %" PRId64 " heads", attr, heads, t->shape[1]);
    if (heads <= 0 || t->shape[2] % heads != 0)
        return cla_check_error(c, "%s is %" PRId64 ", for %" PRId64 " columns", attr, heads, t->shape[2]);
    *t = clattn_tensor_permute(clattn_tensor_split(*t, 2, heads), swap);
    return true;
}

static double least_rtol(clattn_dtype dtype) { return dtype == CLATTN_F16 ? 2e-3 : dtype == CLATTN_BF16 ? 0x1p-6 : 0; }

bool cla_check_onnx_want(cla_check_case *c, cla_check_job *job, const cJSON *out, cla_check_source source,
                         const clattn_array *got) {
    if (!cla_check_want(c, job, out, source, got))
        return false;
    cla_check_output *output = &job->outputs[job->output_count - 1];
    output->rtol = fmax(output->rtol, least_rtol(output->want->dtype));
    return true;
}

bool cla_check_onnx_opset(cla_check_case *c, int64_t first, int64_t last, int64_t *opset) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(c->json, "opset");
    *opset = cJSON_IsNumber(number) ? (int64_t)number->valueint : 0;
    return (*opset >= first && *opset <= last) ||
           cla_check_error(c, "its opset is %" PRId64 ", not %" PRId64 " to %" PRId64, *opset, first, last);
}

/* ---- the names that an opset has ---- */

static bool check_names(onnx_case *x) {
    static const char *const attrs[] = {"is_causal", "kv_num_heads", "q_num_heads",       "qk_matmul_output_mode",
                                        "scale",     "softcap",      "softmax_precision", NULL};
    static const char *const attrs25[] = {
        "is_causal", "kv_num_heads",      "q_num_heads",      "qk_matmul_output_mode", "scale",
        "softcap",   "softmax_precision", "left_window_size", "right_window_size",     NULL};
    static const char *const inputs[] = {"Q", "K", "V", "attn_mask", "past_key", "past_value", NULL};
    static const char *const inputs24[] = {"Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen",
                                           NULL};
    return cla_check_onnx_opset(x->c, 23, 25, &x->opset) &&
           cla_check_known(x->c, x->opset >= 25 ? attrs25 : attrs, x->opset >= 24 ? inputs24 : inputs);
}

/* ---- inputs ---- */

/* The same number for each batch. */
static const int64_t *numbers(onnx_case *x, int64_t count, int64_t value) {
    const clattn_array *array = cla_check_new_array(x->c, x->job, CLATTN_I64, 1, &count);
    for (int64_t b = 0; array && b < count; b++)
        ((int64_t *)array->data)[b] = value;
    return array ? array->data : NULL;
}

/* One of K and V becomes its cache, and the past (or NULL) and the new rows are to be appended to that. */
static bool append(onnx_case *x, const clattn_array *past, clattn_tensor *t, clattn_array **present) {
    cla_check_job *job = x->job;
    clattn_cache_append_args *old = &job->appends[0], *new = &job->appends[past ? 1 : 0];
    const bool is_key = t == &job->args.k;
    const int64_t shape[] = {t->shape[0], t->shape[1], x->past + t->shape[2], t->shape[3]};
    *present = cla_check_new_array(x->c, job, t->dtype, 4, shape);
    if (!*present)
        return false;
    const clattn_tensor cache = clattn_array_tensor(*present);
    if (past) {
        *(is_key ? &old->k : &old->v) = clattn_array_tensor(past);
        *(is_key ? &old->k_cache : &old->v_cache) = cache;
    }
    *(is_key ? &new->k : &new->v) = *t;
    *(is_key ? &new->k_cache : &new->v_cache) = cache;
    *t = cache;
    return true;
}

static bool load_cache(onnx_case *x) {
    cla_check_job *job = x->job;
    clattn_attention_args *a = &job->args;
    const clattn_array *key = NULL, *value = NULL;
    const cJSON *out = cJSON_GetObjectItemCaseSensitive(x->c->json, "out");
    const bool present = cJSON_HasObjectItem(out, "present_key") || cJSON_HasObjectItem(out, "present_value");
    const bool past = cla_check_has_input(x->c, "past_key");
    if (past != cla_check_has_input(x->c, "past_value"))
        return cla_check_error(x->c, "it has only one of past_key and past_value");
    if ((past || present) && cla_check_has_input(x->c, "nonpad_kv_seqlen"))
        return cla_check_error(x->c, "it has nonpad_kv_seqlen and a cache of its own");
    if (!past && !present)
        return true;
    if (past) {
        key = cla_check_read_raw(x->c, job, "past_key");
        value = key ? cla_check_read_raw(x->c, job, "past_value") : NULL;
        if (!value)
            return false;
        if (key->rank != 4 || value->rank != 4 || key->shape[2] != value->shape[2])
            return cla_check_error(x->c, "past_key and past_value are not of rank 4 and the same length");
        x->past = key->shape[2];
    }
    job->append_count = past ? 2 : 1;
    for (size_t i = 0; i < job->append_count; i++)
        if (!(job->appends[i].cache_lengths = numbers(x, a->k.shape[0], past && i == 1 ? x->past : 0)))
            return false;
    return append(x, key, &a->k, &x->present_key) && append(x, value, &a->v, &x->present_value);
}

/* Y is laid out as Q: [B, N, H * Dv] or [B, H, N, Dv]; in f64 where softmax_precision asks for it, and rounded later.
 */
static bool make_output(onnx_case *x, const clattn_array *q) {
    const int64_t dv = x->job->args.v.shape[3];
    if (q->rank == 3 && dv > INT64_MAX / x->heads)
        return cla_check_error(x->c, "%" PRId64 " heads of %" PRId64 " columns are too many", x->heads, dv);
    const int64_t shape3[] = {x->batch, x->queries, q->rank == 3 ? x->heads * dv : 0},
                  shape4[] = {x->batch, x->heads, x->queries, dv};
    x->o = cla_check_new_array(x->c, x->job, x->precision == ONNX_DOUBLE ? CLATTN_F64 : q->dtype, q->rank,
                               q->rank == 3 ? shape3 : shape4);
    return x->o && cla_check_onnx_heads(x->c, x->o, "q_num_heads", &x->job->args.o);
}

static bool load(onnx_case *x) {
    clattn_attention_args *a = &x->job->args;
    const clattn_array *q = cla_check_read_raw(x->c, x->job, "Q");
    const clattn_array *k = q ? cla_check_read_raw(x->c, x->job, "K") : NULL;
    const clattn_array *v = k ? cla_check_read_raw(x->c, x->job, "V") : NULL;
    if (!v)
        return false;
    if (k->rank != q->rank || v->rank != q->rank)
        return cla_check_error(x->c, "Q, K and V have ranks %d, %d and %d", q->rank, k->rank, v->rank);
    if (!cla_check_onnx_heads(x->c, q, "q_num_heads", &a->q) || !cla_check_onnx_heads(x->c, k, "kv_num_heads", &a->k) ||
        !cla_check_onnx_heads(x->c, v, "kv_num_heads", &a->v) || !load_cache(x))
        return false;
    x->batch = a->q.shape[0];
    x->heads = a->q.shape[1];
    x->queries = a->q.shape[2];
    x->keys = a->k.shape[2];
    return make_output(x, q);
}

/* A last axis that is short excludes the missing keys, and one of 1 is short, too. Integers are added. */
static bool load_mask(onnx_case *x) {
    if (!cla_check_has_input(x->c, "attn_mask"))
        return true;
    clattn_array *mask = cla_check_read_raw(x->c, x->job, "attn_mask");
    if (!mask)
        return false;
    if (mask->rank == 0)
        return cla_check_error(x->c, "attn_mask is a single number");
    if (mask->dtype != CLATTN_BOOL && !cla_is_float(mask->dtype) &&
        !cla_check_convert(x->c, mask, x->job->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32))
        return false;
    x->job->args.short_masks = true;
    return cla_check_set_mask(x->c, x->job, mask);
}

static bool load_lengths(onnx_case *x) {
    x->lengths = cla_check_has_input(x->c, "nonpad_kv_seqlen");
    if (!x->lengths)
        return true;
    const clattn_array *lengths = cla_check_read_raw(x->c, x->job, "nonpad_kv_seqlen");
    if (!lengths)
        return false;
    if (lengths->dtype != CLATTN_I64 || lengths->rank != 1 || lengths->shape[0] != x->batch)
        return cla_check_error(x->c, "nonpad_kv_seqlen is not one i64 for each of %" PRId64 " batches", x->batch);
    x->job->args.key_lengths = lengths->data;
    return true;
}

/* ---- attributes ---- */

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
static bool set_alignment(onnx_case *x) {
    clattn_attention_args *a = &x->job->args;
    if (!a->causal && !a->has_window)
        return true;
    a->align = x->lengths ? CLATTN_ALIGN_BOTTOM_RIGHT : x->past > 0 ? CLATTN_ALIGN_OFFSET : CLATTN_ALIGN_TOP_LEFT;
    if (a->align == CLATTN_ALIGN_OFFSET)
        a->offsets = numbers(x, x->batch, x->past);
    return a->align != CLATTN_ALIGN_OFFSET || a->offsets;
}

/* The sums here are never below f32: a lower precision is met, and only its results are judged by it. */
static bool read_precision(onnx_case *x) {
    if (!cla_check_attr_int(x->c, "softmax_precision", 0, &x->precision))
        return false;
    return x->precision == 0 || x->precision == ONNX_FLOAT || x->precision == ONNX_FLOAT16 ||
           x->precision == ONNX_DOUBLE || x->precision == ONNX_BFLOAT16 ||
           cla_check_error(x->c, "softmax_precision is %" PRId64 ", which is none of 1, 10, 11 and 16", x->precision);
}

static bool set_options(onnx_case *x) {
    clattn_attention_args *a = &x->job->args;
    if (!cla_check_attr_flag(x->c, "is_causal", &a->causal) || !cla_check_attr_real(x->c, "scale", NAN, &a->scale) ||
        !cla_check_attr_real(x->c, "softcap", 0, &a->softcap) || !set_window(x) || !load_lengths(x))
        return false;
    a->has_scale = !isnan(a->scale);
    return set_alignment(x);
}

/* ---- outputs ---- */

static bool want_scores(onnx_case *x, const cJSON *out) {
    static const clattn_weights_form forms[] = {CLATTN_WEIGHTS_SCALED, CLATTN_WEIGHTS_CAPPED, CLATTN_WEIGHTS_MASKED,
                                                CLATTN_WEIGHTS_SOFTMAX};
    const int64_t shape[] = {x->batch, x->heads, x->queries, x->keys};
    int64_t mode;
    if (!cla_check_attr_int(x->c, "qk_matmul_output_mode", 0, &mode))
        return false;
    if (mode < 0 || mode > 3)
        return cla_check_error(x->c, "qk_matmul_output_mode is %" PRId64 ", not 0 to 3", mode);
    const clattn_array *weights = cla_check_new_array(x->c, x->job, cla_sums_type(&x->job->args), 4, shape);
    if (!weights)
        return false;
    x->job->args.weights = clattn_array_tensor(weights);
    x->job->args.weights_form = forms[mode];
    return cla_check_onnx_want(x->c, x->job, out, CLA_CHECK_FROM_WEIGHTS, weights);
}

static bool want_outputs(onnx_case *x) {
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(x->c->json, "out")) {
        const char *name = out->string;
        bool done;
        if (strcmp(name, "Y") == 0)
            done = cla_check_onnx_want(x->c, x->job, out, CLA_CHECK_FROM_O, x->o);
        else if (strcmp(name, "present_key") == 0)
            done = cla_check_onnx_want(x->c, x->job, out, CLA_CHECK_FROM_CACHE, x->present_key);
        else if (strcmp(name, "present_value") == 0)
            done = cla_check_onnx_want(x->c, x->job, out, CLA_CHECK_FROM_CACHE, x->present_value);
        else if (strcmp(name, "qk_matmul_output") == 0)
            done = want_scores(x, out);
        else
            done = cla_check_error(x->c, "the output %s is not known", name);
        if (!done)
            return false;
    }
    const clattn_dtype precision = x->precision == ONNX_FLOAT16    ? CLATTN_F16
                                   : x->precision == ONNX_BFLOAT16 ? CLATTN_BF16
                                                                   : CLATTN_F32;
    for (size_t i = 0; i < x->job->output_count; i++)
        if (x->job->outputs[i].source != CLA_CHECK_FROM_CACHE)
            x->job->outputs[i].rtol = fmax(x->job->outputs[i].rtol, least_rtol(precision));
    return true;
}

bool cla_check_build_attention(cla_check_case *c) {
    clattn_dtype dtype;
    onnx_case x = {.c = c};
    if (!check_names(&x) || !cla_check_dtype_of(c, "Q", &dtype) || !(x.job = cla_check_job_of(c, dtype)))
        return false;
    return read_precision(&x) && load(&x) && load_mask(&x) && set_options(&x) && want_outputs(&x);
}
