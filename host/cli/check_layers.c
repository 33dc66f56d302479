/* SPDX-License-Identifier: Apache-2.0 */
/* encoder_layer and decoder_layer: torch.nn.TransformerEncoderLayer and TransformerDecoderLayer.
 * Boolean masks are true where a key may NOT be seen. */
#include "check_module.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

typedef struct layer_case {
    int64_t d_model, heads, inner, norm_first, bias, batch_first;
    int64_t causal, memory_causal;
    double epsilon;
    const char *activation;
    bool decoder;
} layer_case;

/* The names of a layer's parameters, NULL behind them. */
static void list_parameters(bool decoder, const char *names[CLA_LAYER_TENSORS + 1]) {
    size_t count = 0;
    for (size_t i = 0; i < CLA_LAYER_TENSORS; i++)
        if (decoder || !cla_layer_tensors[i].of_decoder)
            names[count++] = cla_layer_tensors[i].name;
    names[count] = NULL;
}

static bool read_flag(cla_check_case *c, const char *name, int64_t unset, int64_t *value) {
    if (!cla_check_attr_int(c, name, unset, value))
        return false;
    return *value == 0 || *value == 1 ||
           cla_check_error(c, "the attribute %s is %" PRId64 ", not 0 or 1", name, *value);
}

static bool read_attrs(cla_check_case *c, layer_case *l) {
    double dropout;
    if (!cla_check_attr_int(c, "d_model", 0, &l->d_model) || !cla_check_attr_int(c, "nhead", 0, &l->heads) ||
        !cla_check_attr_int(c, "dim_feedforward", 0, &l->inner) || !read_flag(c, "norm_first", 0, &l->norm_first) ||
        !read_flag(c, "bias", 1, &l->bias) || !read_flag(c, "batch_first", 0, &l->batch_first) ||
        !read_flag(c, l->decoder ? "tgt_is_causal" : "is_causal", 0, &l->causal) ||
        !read_flag(c, "memory_is_causal", 0, &l->memory_causal) ||
        !cla_check_attr_real(c, "layer_norm_eps", 1e-5, &l->epsilon) ||
        !cla_check_attr_real(c, "dropout", 0, &dropout) ||
        !cla_check_attr_text(c, "activation", "relu", &l->activation))
        return false;
    return dropout == 0 || cla_check_error(c, "dropout is %g: this is inference", dropout);
}

static bool set_options(cla_check_case *c, cla_check_job *job, const layer_case *l) {
    const bool relu = strcmp(l->activation, "relu") == 0, gelu = strcmp(l->activation, "gelu") == 0;
    job->layer_options = (clattn_layer_options){.heads = l->heads,
                                                .norm_first = l->norm_first,
                                                .activation = gelu ? CLATTN_ACTIVATION_GELU : CLATTN_ACTIVATION_RELU,
                                                .norm_epsilon = l->epsilon != 0 ? l->epsilon : DBL_MIN, /* not unset */
                                                .batch_second = !l->batch_first};
    return relu || gelu || cla_check_error(c, "the activation %s is not known", l->activation);
}

static const clattn_array *parameter(const cla_check_job *job, const char *name) {
    for (size_t i = 0; i < job->parameter_count; i++)
        if (strcmp(job->parameters[i].name, name) == 0)
            return &job->parameters[i].array;
    return NULL;
}

static bool is_bias(const char *name) { return strcmp(name + strlen(name) - strlen("bias"), "bias") == 0; }

/* Attributes that say what the parameters are. */
static bool check_parameters(cla_check_case *c, const cla_check_job *job, const layer_case *l) {
    const char *names[CLA_LAYER_TENSORS + 1];
    const clattn_array *linear1 = parameter(job, "linear1.weight");
    list_parameters(l->decoder, names);
    for (const char **name = names; *name; name++)
        if (is_bias(*name) && !cla_check_agrees(c, *name, l->bias, "bias"))
            return false;
    if (linear1 && linear1->rank == 2 && l->inner != 0 && linear1->shape[0] != l->inner)
        return cla_check_error(c, "dim_feedforward is %" PRId64 ", and linear1.weight has %" PRId64 " rows", l->inner,
                               linear1->shape[0]);
    return !linear1 || linear1->rank != 2 || l->d_model == 0 || linear1->shape[1] == l->d_model ||
           cla_check_error(c, "d_model is %" PRId64 ", and linear1.weight has %" PRId64 " columns", l->d_model,
                           linear1->shape[1]);
}

static clattn_status call_encoder(clattn_context *context, const cla_check_job *job) {
    clattn_parameters *all = NULL;
    clattn_encoder *encoder = NULL;
    clattn_status status = cla_parameters_upload(context, job->parameters, job->parameter_count, &all);
    if (status == CLATTN_OK)
        status = clattn_encoder_load(context, all, NULL, &job->layer_options, &encoder);
    if (status == CLATTN_OK)
        status = clattn_encoder_run(encoder, &job->encoder);
    clattn_encoder_destroy(encoder);
    clattn_parameters_destroy(all);
    return status;
}

static clattn_status call_decoder(clattn_context *context, const cla_check_job *job) {
    clattn_parameters *all = NULL;
    clattn_decoder *decoder = NULL;
    clattn_status status = cla_parameters_upload(context, job->parameters, job->parameter_count, &all);
    if (status == CLATTN_OK)
        status = clattn_decoder_load(context, all, NULL, &job->layer_options, &decoder);
    if (status == CLATTN_OK)
        status = clattn_decoder_run(decoder, &job->decoder);
    clattn_decoder_destroy(decoder);
    clattn_parameters_destroy(all);
    return status;
}

static bool load(cla_check_case *c, cla_check_job *job, const layer_case *l, const clattn_array **y) {
    const clattn_array *x = cla_check_read(c, job, l->decoder ? "tgt" : "src");
    clattn_decoder_args *d = &job->decoder;
    clattn_module_masks *masks = l->decoder ? &d->masks : &job->encoder.masks;
    const char *parameters[CLA_LAYER_TENSORS + 1];
    list_parameters(l->decoder, parameters);
    if (!x || !cla_check_read_parameters(c, job, parameters) || !set_options(c, job, l) ||
        !check_parameters(c, job, l) ||
        !cla_check_read_optional(c, job, l->decoder ? "tgt_mask" : "src_mask", &masks->attn) ||
        !cla_check_read_optional(c, job, l->decoder ? "tgt_key_padding_mask" : "src_key_padding_mask",
                                 &masks->key_padding) ||
        !(*y = cla_check_new_array(c, job, job->dtype, x->rank, x->shape)))
        return false;
    cla_check_hint(masks, l->causal, false);
    job->call = l->decoder ? call_decoder : call_encoder;
    *(l->decoder ? &d->x : &job->encoder.x) = clattn_array_tensor(x);
    *(l->decoder ? &d->y : &job->encoder.y) = clattn_array_tensor(*y);
    if (!l->decoder)
        return true;
    const clattn_array *memory = cla_check_read(c, job, "memory");
    if (!memory || !cla_check_read_optional(c, job, "memory_mask", &d->memory_masks.attn) ||
        !cla_check_read_optional(c, job, "memory_key_padding_mask", &d->memory_masks.key_padding))
        return false;
    d->memory = clattn_array_tensor(memory);
    cla_check_hint(&d->memory_masks, l->memory_causal, false);
    return true;
}

static bool build(cla_check_case *c, layer_case *l) {
    const clattn_array *y_of[CLA_CHECK_JOBS] = {NULL};
    clattn_dtype type;
    if (!cla_check_dtype_of(c, l->decoder ? "tgt" : "src", &type) || !read_attrs(c, l))
        return false;
    const cJSON *out;
    cJSON_ArrayForEach(out, cJSON_GetObjectItemCaseSensitive(c->json, "out")) {
        char stem[CLA_CHECK_TEXT];
        clattn_dtype dtype;
        cla_check_stem(out->string, type, stem, &dtype);
        if (strcmp(stem, "out") != 0)
            return cla_check_error(c, "the output %s is not known", out->string);
        cla_check_job *job = cla_check_job_of(c, dtype);
        if (!job)
            return false;
        const size_t at = (size_t)(job - c->jobs);
        if (!y_of[at] && !load(c, job, l, &y_of[at]))
            return false;
        if (!cla_check_want(c, job, out, CLA_CHECK_FROM_O, y_of[at]))
            return false;
    }
    return true;
}

bool cla_check_build_encoder(cla_check_case *c) {
    static const char *const attrs[] = {
        "d_model", "nhead",       "dim_feedforward", "activation", "norm_first", "layer_norm_eps",
        "bias",    "batch_first", "is_causal",       "dropout",    NULL};
    const char *inputs[3 + CLA_LAYER_TENSORS + 1] = {"src", "src_mask", "src_key_padding_mask"};
    list_parameters(false, inputs + 3);
    layer_case l = {.decoder = false};
    return cla_check_known(c, attrs, inputs) && build(c, &l);
}

bool cla_check_build_decoder(cla_check_case *c) {
    static const char *const attrs[] = {
        "d_model", "nhead",       "dim_feedforward", "activation",       "norm_first", "layer_norm_eps",
        "bias",    "batch_first", "tgt_is_causal",   "memory_is_causal", "dropout",    NULL};
    const char *inputs[6 + CLA_LAYER_TENSORS + 1] = {
        "tgt", "memory", "tgt_mask", "tgt_key_padding_mask", "memory_mask", "memory_key_padding_mask"};
    list_parameters(true, inputs + 6);
    layer_case l = {.decoder = true};
    return cla_check_known(c, attrs, inputs) && build(c, &l);
}
