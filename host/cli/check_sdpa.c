/* SPDX-License-Identifier: Apache-2.0 */
/* sdpa (PyTorch), sdpa_weights and sdpa_mask_1e9 (the seed articles): Q, K, V, which broadcast, and perhaps a mask. */
#include "check_module.h"

#include "call_facts.h"
#include <math.h>
#include <string.h>

/* What an output's name says: Y_f32, Y, Y_torch, Y_inf, weights, weights_1e9. */
typedef struct output_name {
    clattn_dtype dtype;
    bool weights;
    bool replaced; /* *_1e9 */
} output_name;

static bool read_name(cla_check_case *c, const char *name, clattn_dtype inputs, output_name *n) {
    static const clattn_dtype dtypes[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    const size_t stem = strcspn(name, "_");
    const char *suffix = name + stem;
    *n = (output_name){.dtype = inputs, .weights = stem == 7 && strncmp(name, "weights", stem) == 0};
    n->replaced = strcmp(suffix, "_1e9") == 0;
    bool known = !*suffix || n->replaced || strcmp(suffix, "_torch") == 0 || strcmp(suffix, "_inf") == 0;
    for (size_t i = 0; *suffix && i < sizeof dtypes / sizeof *dtypes; i++)
        if (strcmp(suffix + 1, clattn_dtype_name(dtypes[i])) == 0) {
            n->dtype = dtypes[i];
            known = true;
        }
    known = known && (n->weights || (stem == 1 && *name == 'Y'));
    return known || cla_check_error(c, "the output %s is not known", name);
}

/* The logical view [.., H, S, D] of an array that is stored in another order of axes. */
static bool view(cla_check_case *c, const clattn_array *a, clattn_tensor *t) {
    static const int bshd[] = {0, 2, 1, 3}, bhds[] = {0, 1, 3, 2};
    const char *layout;
    if (!cla_check_attr_text(c, "layout", "BHSD", &layout))
        return false;
    const bool is_bshd = strcmp(layout, "BSHD") == 0, is_bhds = strcmp(layout, "BHDS") == 0;
    *t = clattn_array_tensor(a);
    if (!is_bshd && !is_bhds)
        return strcmp(layout, "BHSD") == 0 || cla_check_error(c, "the layout %s is not known", layout);
    if (a->rank != 4)
        return cla_check_error(c, "the layout %s needs tensors of rank 4", layout);
    *t = clattn_tensor_permute(*t, is_bshd ? bshd : bhds);
    return true;
}

/* Weights are asked as [B, H, N, M], so that q, k, v and o are brought to rank 4 with them. */
static void lift(clattn_tensor *t) {
    while (t->rank > 0 && t->rank < 4) {
        memmove(t->shape + 1, t->shape, (size_t)t->rank * sizeof *t->shape);
        memmove(t->stride + 1, t->stride, (size_t)t->rank * sizeof *t->stride);
        t->stride[0] = t->shape[1] * t->stride[1];
        t->shape[0] = 1;
        t->rank++;
    }
}

static bool load(cla_check_case *c, cla_check_job *job, cla_check_sdpa *x) {
    clattn_attention_args *a = &job->args;
    clattn_array *q, *k, *v;
    bool gqa;
    if (!(q = cla_check_read(c, job, "Q")) || !(k = cla_check_read(c, job, "K")) || !(v = cla_check_read(c, job, "V")))
        return false;
    if (!view(c, q, &x->q) || !view(c, k, &x->k) || !view(c, v, &x->v) || !cla_check_attr_flag(c, "enable_gqa", &gqa) ||
        !cla_check_axes_of(c, gqa, &x->q, &x->k, &x->v, &x->axes))
        return false;
    a->q = x->q, a->k = x->k, a->v = x->v;
    int64_t shape[CLATTN_MAX_RANK];
    const int64_t rows = x->q.shape[x->q.rank - 2], columns = x->v.shape[x->v.rank - 1];
    if (!cla_check_widen(c, job, &x->axes, false, &a->q) || !cla_check_widen(c, job, &x->axes, true, &a->k) ||
        !cla_check_widen(c, job, &x->axes, true, &a->v) || !cla_check_axes_shape(c, &x->axes, rows, columns, shape) ||
        !(x->o = cla_check_new_array(c, job, job->dtype, x->axes.rank, shape)))
        return false;
    a->o = cla_check_fold(x->o);
    return true;
}

/* `mask` is 0 where a key is forbidden, whatever its type; `attn_mask` is a keep mask or additive. */
static bool load_mask(cla_check_case *c, cla_check_job *job) {
    if (cla_check_has_input(c, "attn_mask") && cla_check_has_input(c, "mask"))
        return cla_check_error(c, "it has both attn_mask and mask");
    if (cla_check_has_input(c, "attn_mask")) {
        const clattn_array *mask = cla_check_read(c, job, "attn_mask");
        return mask && cla_check_set_mask(c, job, mask);
    }
    if (!cla_check_has_input(c, "mask"))
        return true;
    const clattn_array *mask = cla_check_read_raw(c, job, "mask");
    if (!mask)
        return false;
    clattn_array *keep = cla_check_new_array(c, job, CLATTN_BOOL, mask->rank, mask->shape);
    if (!keep)
        return false;
    if (clattn_convert(keep->data, CLATTN_BOOL, mask->data, mask->dtype, keep->bytes) != CLATTN_OK)
        return cla_check_error(c, "%s", clattn_last_error());
    return cla_check_set_mask(c, job, keep);
}

static bool set_options(cla_check_case *c, cla_check_job *job) {
    bool causal, lower_right;
    if (!cla_check_attr_flag(c, "is_causal", &causal) || !cla_check_attr_flag(c, "causal_lower_right", &lower_right) ||
        !cla_check_attr_real(c, "scale", NAN, &job->args.scale))
        return false;
    if (causal && lower_right)
        return cla_check_error(c, "it is causal in two ways");
    job->args.causal = causal || lower_right;
    job->args.align = causal ? CLATTN_ALIGN_TOP_LEFT : lower_right ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_UNSET;
    job->args.has_scale = !isnan(job->args.scale);
    return true;
}

bool cla_check_prepare_sdpa(cla_check_case *c, cla_check_job *job, cla_check_sdpa *x) {
    clattn_attention_args *a = &job->args;
    return load(c, job, x) && load_mask(c, job) && cla_check_widen_mask(c, job, &x->axes, &a->keep) &&
           cla_check_widen_mask(c, job, &x->axes, &a->bias) && set_options(c, job);
}

static bool ask_weights(cla_check_case *c, cla_check_job *job, cla_check_sdpa *x) {
    int64_t shape[CLATTN_MAX_RANK];
    if (x->weights)
        return true;
    if (!cla_check_axes_shape(c, &x->axes, x->q.shape[x->q.rank - 2], x->k.shape[x->k.rank - 2], shape) ||
        !(x->weights = cla_check_new_array(c, job, cla_sums_type(&job->args), x->axes.rank, shape)))
        return false;
    job->args.weights = cla_check_fold(x->weights);
    lift(&job->args.q);
    lift(&job->args.k);
    lift(&job->args.v);
    lift(&job->args.o);
    lift(&job->args.weights);
    return true;
}

bool cla_check_build_sdpa(cla_check_case *c) {
    static const char *const attrs[] = {"is_causal", "causal_lower_right", "enable_gqa", "layout", "scale", NULL};
    static const char *const names[] = {"Q", "K", "V", "attn_mask", "mask", NULL};
    cla_check_sdpa sdpa_of[CLA_CHECK_JOBS] = {0};
    clattn_dtype inputs;
    if (!cla_check_known(c, attrs, names) || !cla_check_dtype_of(c, "Q", &inputs))
        return false;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        output_name name;
        if (!read_name(c, out->string, inputs, &name))
            return false;
        if (name.replaced) {
            if (!cla_check_want_replaced(c, out, name.weights))
                return false;
            continue;
        }
        const size_t jobs = c->job_count;
        cla_check_job *job = cla_check_job_of(c, name.dtype);
        if (!job)
            return false;
        cla_check_sdpa *x = &sdpa_of[job - c->jobs];
        if ((c->job_count > jobs && !cla_check_prepare_sdpa(c, job, x)) || (name.weights && !ask_weights(c, job, x)) ||
            !cla_check_want(c, job, out, name.weights ? CLA_CHECK_FROM_WEIGHTS : CLA_CHECK_FROM_O,
                            name.weights ? x->weights : x->o))
            return false;
    }
    return true;
}
