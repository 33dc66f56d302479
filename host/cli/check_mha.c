/* SPDX-License-Identifier: Apache-2.0 */
/* mha: torch.nn.MultiheadAttention. Boolean masks are true where a key may NOT be seen. */
#include "check_module.h"

#include "call_facts.h"
#include <inttypes.h>
#include <string.h>

static const char *const parameters[] = {
    "in_proj_weight", "q_proj_weight", "k_proj_weight",   "v_proj_weight", "in_proj_bias",
    "bias_k",         "bias_v",        "out_proj.weight", "out_proj.bias", NULL};

typedef struct mha_case {
    int64_t embed_dim, heads, kdim, vdim;
    int64_t bias, bias_kv, zero, batch_first, weights, mean, causal, self;
} mha_case;

static bool read_attrs(cla_check_case *c, mha_case *m) {
    const struct {
        const char *name;
        int64_t unset, *value;
    } attrs[] = {{"embed_dim", 0, &m->embed_dim},
                 {"num_heads", 0, &m->heads},
                 {"kdim", 0, &m->kdim},
                 {"vdim", 0, &m->vdim},
                 {"bias", 1, &m->bias},
                 {"add_bias_kv", 0, &m->bias_kv},
                 {"add_zero_attn", 0, &m->zero},
                 {"batch_first", 0, &m->batch_first},
                 {"need_weights", 1, &m->weights},
                 {"average_attn_weights", 1, &m->mean},
                 {"is_causal", 0, &m->causal},
                 {"self_attention", !cla_check_has_input(c, "key"), &m->self}};
    double dropout;
    for (size_t i = 0; i < sizeof attrs / sizeof *attrs; i++) {
        if (!cla_check_attr_int(c, attrs[i].name, attrs[i].unset, attrs[i].value))
            return false;
        if (i >= 4 && *attrs[i].value != 0 && *attrs[i].value != 1)
            return cla_check_error(c, "the attribute %s is %" PRId64 ", not 0 or 1", attrs[i].name, *attrs[i].value);
    }
    if (!cla_check_attr_real(c, "dropout", 0, &dropout))
        return false;
    return dropout == 0 || cla_check_error(c, "dropout is %g: this is inference", dropout);
}

/* Attributes that say what inputs are there. */
static bool check_inputs(cla_check_case *c, const mha_case *m) {
    const bool packed = cla_check_has_input(c, "in_proj_weight");
    return cla_check_agrees(c, "in_proj_bias", m->bias, "bias") &&
           cla_check_agrees(c, "out_proj.bias", m->bias, "bias") &&
           cla_check_agrees(c, "bias_k", m->bias_kv, "add_bias_kv") &&
           cla_check_agrees(c, "bias_v", m->bias_kv, "add_bias_kv") &&
           cla_check_agrees(c, "key", !m->self, "self_attention") &&
           cla_check_agrees(c, "value", !m->self, "self_attention") &&
           cla_check_agrees(c, "q_proj_weight", !packed, "in_proj_weight");
}

static bool check_dim(cla_check_case *c, const char *attr, int64_t value, const clattn_tensor *t) {
    return value == 0 || (t->rank > 0 && t->shape[t->rank - 1] == value) ||
           cla_check_error(c, "%s is %" PRId64 ", and the last axis is not", attr, value);
}

/* Under a causal hint PyTorch counts keys behind the others among the keys: no query up to the last key sees them. */
static bool leave_extra(cla_check_case *c, cla_check_job *job, const mha_case *m) {
    const clattn_multihead_args *a = &job->multihead;
    const clattn_tensor *key = a->key.rank ? &a->key : &a->query;
    const int rows = a->query.rank == 3 && m->batch_first ? 1 : 0;
    size_t kept = 0;
    if (!a->masks.causal || (!m->bias_kv && !m->zero))
        return true;
    if (key->rank != a->query.rank || a->query.shape[rows] > key->shape[rows])
        return cla_check_error(c, "is_causal with more queries than keys, and a key behind the others");
    for (size_t i = 0; i < job->parameter_count; i++)
        if (strcmp(job->parameters[i].name, "bias_k") != 0 && strcmp(job->parameters[i].name, "bias_v") != 0)
            job->parameters[kept++] = job->parameters[i];
    job->parameter_count = kept;
    job->multihead_options.add_zero_attn = false;
    return true;
}

static bool load(cla_check_case *c, cla_check_job *job, const mha_case *m) {
    clattn_multihead_args *a = &job->multihead;
    const clattn_array *query = cla_check_read(c, job, "query");
    if (!query || !cla_check_read_optional(c, job, "key", &a->key) ||
        !cla_check_read_optional(c, job, "value", &a->value) ||
        !cla_check_read_optional(c, job, "attn_mask", &a->masks.attn) ||
        !cla_check_read_optional(c, job, "key_padding_mask", &a->masks.key_padding) ||
        !cla_check_read_parameters(c, job, parameters))
        return false;
    a->query = clattn_array_tensor(query);
    if (query->rank != 2 && query->rank != 3)
        return cla_check_error(c, "the query has rank %d, not 2 or 3", query->rank);
    cla_check_hint(&a->masks, m->causal, m->weights);
    job->multihead_options =
        (clattn_multihead_options){.heads = m->heads, .add_zero_attn = m->zero, .batch_second = !m->batch_first};
    return leave_extra(c, job, m) && check_dim(c, "embed_dim", m->embed_dim, &a->query) &&
           check_dim(c, "kdim", m->kdim, a->key.rank ? &a->key : &a->query) &&
           check_dim(c, "vdim", m->vdim, a->value.rank ? &a->value : &a->query);
}

static clattn_status call(clattn_context *context, const cla_check_job *job) {
    clattn_parameters *all = NULL;
    clattn_multihead *multihead = NULL;
    clattn_status status = cla_parameters_upload(context, job->parameters, job->parameter_count, &all);
    if (status == CLATTN_OK)
        status = clattn_multihead_load(context, all, NULL, &job->multihead_options, &multihead);
    if (status == CLATTN_OK)
        status = clattn_multihead_run(multihead, &job->multihead);
    clattn_multihead_destroy(multihead);
    clattn_parameters_destroy(all);
    return status;
}

/* [B, H, N, M + those behind], without B or H where there are none. */
static const clattn_array *new_weights(cla_check_case *c, cla_check_job *job, const mha_case *m) {
    const clattn_tensor *q = &job->multihead.query, *k = job->multihead.key.rank ? &job->multihead.key : q;
    const bool unbatched = q->rank == 2;
    const int rows = unbatched || !m->batch_first ? 0 : 1;
    int64_t shape[4];
    int rank = 0;
    if (!unbatched)
        shape[rank++] = q->shape[1 - rows];
    if (!m->mean)
        shape[rank++] = m->heads;
    shape[rank++] = q->shape[rows];
    shape[rank++] = (k->rank == q->rank ? k->shape[rows] : 0) + m->bias_kv + m->zero;
    const clattn_array *weights =
        cla_check_new_array(c, job, job->dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32, rank, shape);
    if (weights) {
        job->multihead.weights = clattn_array_tensor(weights);
        job->multihead.weights_mean = m->mean;
    }
    return weights;
}

static bool start(cla_check_case *c, cla_check_job *job, const mha_case *m, const clattn_array **out) {
    if (!load(c, job, m))
        return false;
    *out = cla_check_new_array(c, job, job->dtype, job->multihead.query.rank, job->multihead.query.shape);
    if (!*out)
        return false;
    job->multihead.y = clattn_array_tensor(*out);
    job->call = call;
    return true;
}

bool cla_check_build_mha(cla_check_case *c) {
    static const char *const attrs[] = {"embed_dim",     "num_heads",
                                        "bias",          "kdim",
                                        "vdim",          "add_bias_kv",
                                        "add_zero_attn", "batch_first",
                                        "need_weights",  "average_attn_weights",
                                        "is_causal",     "self_attention",
                                        "dropout",       NULL};
    static const char *const inputs[] = {
        "query",          "key",           "value",           "attn_mask",     "key_padding_mask",
        "in_proj_weight", "q_proj_weight", "k_proj_weight",   "v_proj_weight", "in_proj_bias",
        "bias_k",         "bias_v",        "out_proj.weight", "out_proj.bias", NULL};
    const clattn_array *out_of[CLA_CHECK_JOBS] = {NULL}, *weights_of[CLA_CHECK_JOBS] = {NULL};
    mha_case m;
    clattn_dtype type;
    if (!cla_check_known(c, attrs, inputs) || !cla_check_dtype_of(c, "query", &type) || !read_attrs(c, &m) ||
        !check_inputs(c, &m))
        return false;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        char stem[CLA_CHECK_TEXT];
        clattn_dtype dtype;
        cla_check_stem(out->string, type, stem, &dtype);
        const bool is_weights = strcmp(stem, "attn_weights") == 0;
        if ((!is_weights && strcmp(stem, "out") != 0) || (is_weights && !m.weights))
            return cla_check_error(c, "the output %s is not known", out->string);
        cla_check_job *job = cla_check_job_of(c, dtype);
        if (!job)
            return false;
        const size_t at = (size_t)(job - c->jobs);
        if (!out_of[at] && !start(c, job, &m, &out_of[at]))
            return false;
        if (is_weights && !weights_of[at] && !(weights_of[at] = new_weights(c, job, &m)))
            return false;
        if (!cla_check_want(c, job, out, is_weights ? CLA_CHECK_FROM_WEIGHTS : CLA_CHECK_FROM_O,
                            is_weights ? weights_of[at] : out_of[at]))
            return false;
    }
    for (size_t i = 0; i < c->job_count; i++)
        if (!cla_check_dead_rows(c, &c->jobs[i], m.bias_kv || m.zero))
            return false;
    return true;
}
