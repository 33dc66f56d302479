/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of modules by PyTorch's names. */
#include "base/error.h"
#include "base/mem.h"
#include "modules/stack.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

clattn_status clattn_multihead_weights_find(const clattn_parameters *parameters, const char *prefix,
                                            clattn_multihead_weights *weights) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(parameters && weights, CLATTN_E_ARGUMENT, "multihead_weights_find: %s is NULL",
              parameters ? "weights" : "parameters");
    *weights = (clattn_multihead_weights){
        .in_proj = clattn_parameters_get(parameters, prefix, "in_proj_weight"),
        .q = clattn_parameters_get(parameters, prefix, "q_proj_weight"),
        .k = clattn_parameters_get(parameters, prefix, "k_proj_weight"),
        .v = clattn_parameters_get(parameters, prefix, "v_proj_weight"),
        .in_bias = clattn_parameters_get(parameters, prefix, "in_proj_bias"),
        .out_bias = clattn_parameters_get(parameters, prefix, "out_proj.bias"),
        .bias_k = clattn_parameters_get(parameters, prefix, "bias_k"),
        .bias_v = clattn_parameters_get(parameters, prefix, "bias_v"),
    };
    if (weights->q.rank > 0 || weights->k.rank > 0 || weights->v.rank > 0) {
        CLA_TRY(clattn_parameters_find(parameters, prefix, "q_proj_weight", &weights->q));
        CLA_TRY(clattn_parameters_find(parameters, prefix, "k_proj_weight", &weights->k));
        CLA_TRY(clattn_parameters_find(parameters, prefix, "v_proj_weight", &weights->v));
    } else {
        CLA_TRY(clattn_parameters_find(parameters, prefix, "in_proj_weight", &weights->in_proj));
    }
    CLA_TRY(clattn_parameters_find(parameters, prefix, "out_proj.weight", &weights->out));
done:
    return status;
}

clattn_status clattn_multihead_load(clattn_context *context, const clattn_parameters *parameters, const char *prefix,
                                    const clattn_multihead_options *options, clattn_multihead **multihead) {
    clattn_status status = CLATTN_OK;
    clattn_multihead_weights weights;
    CLA_CHECK(multihead, CLATTN_E_ARGUMENT, "multihead_load: multihead is NULL");
    *multihead = NULL;
    CLA_TRY(clattn_multihead_weights_find(parameters, prefix, &weights));
    CLA_TRY(clattn_multihead_create(context, &weights, options, multihead));
done:
    if (status != CLATTN_OK && multihead && prefix && *prefix)
        cla_error_prefix("\"%.100s\": ", prefix);
    return status;
}

/* ---- feed-forward ---- */

clattn_status clattn_feedforward_weights_find(const clattn_parameters *parameters, const char *prefix,
                                              clattn_feedforward_weights *weights) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(parameters && weights, CLATTN_E_ARGUMENT, "feedforward_weights_find: %s is NULL",
              parameters ? "weights" : "parameters");
    *weights = (clattn_feedforward_weights){.linear1_bias = clattn_parameters_get(parameters, prefix, "linear1.bias"),
                                            .linear2_bias = clattn_parameters_get(parameters, prefix, "linear2.bias")};
    CLA_TRY(clattn_parameters_find(parameters, prefix, "linear1.weight", &weights->linear1));
    CLA_TRY(clattn_parameters_find(parameters, prefix, "linear2.weight", &weights->linear2));
done:
    return status;
}

clattn_status clattn_feedforward_load(clattn_context *context, const clattn_parameters *parameters, const char *prefix,
                                      const clattn_feedforward_options *options, clattn_feedforward **feedforward) {
    clattn_status status = CLATTN_OK;
    clattn_feedforward_weights weights;
    CLA_CHECK(feedforward, CLATTN_E_ARGUMENT, "feedforward_load: feedforward is NULL");
    *feedforward = NULL;
    CLA_TRY(clattn_feedforward_weights_find(parameters, prefix, &weights));
    CLA_TRY(clattn_feedforward_create(context, &weights, options, feedforward));
done:
    if (status != CLATTN_OK && feedforward && prefix && *prefix)
        cla_error_prefix("\"%.100s\": ", prefix);
    return status;
}

/* ---- layers ---- */

enum { NAME = 512 };

/* PREFIX + part, for the parameters of a part of a module. */
static clattn_status join(char text[NAME], const char *prefix, const char *part) {
    const int length = snprintf(text, NAME, "%s%s", prefix ? prefix : "", part);
    return (size_t)length < NAME ? CLATTN_OK
                                 : cla_error(CLATTN_E_ARGUMENT, "parameters: a prefix of more than %d bytes", NAME - 1);
}

static clattn_status find_attention(const clattn_parameters *p, const char *prefix, const char *part,
                                    clattn_multihead_weights *weights) {
    char name[NAME];
    const clattn_status status = join(name, prefix, part);
    return status == CLATTN_OK ? clattn_multihead_weights_find(p, name, weights) : status;
}

/* Norms of PyTorch's layers have a weight; a bias they may lack. */
static clattn_status find_norm(const clattn_parameters *p, const char *prefix, const char *part,
                               clattn_norm_weights *norm) {
    clattn_status status = CLATTN_OK;
    char name[NAME];
    CLA_TRY(join(name, prefix, part));
    CLA_TRY(clattn_parameters_find(p, name, "weight", &norm->weight));
    norm->bias = clattn_parameters_get(p, name, "bias");
done:
    return status;
}

clattn_status clattn_encoder_layer_weights_find(const clattn_parameters *p, const char *prefix,
                                                clattn_encoder_layer_weights *w) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(p && w, CLATTN_E_ARGUMENT, "encoder_layer_weights_find: %s is NULL", p ? "weights" : "parameters");
    *w = (clattn_encoder_layer_weights){0};
    CLA_TRY(find_attention(p, prefix, "self_attn.", &w->self_attn));
    CLA_TRY(clattn_feedforward_weights_find(p, prefix, &w->feedforward));
    CLA_TRY(find_norm(p, prefix, "norm1.", &w->norm1));
    CLA_TRY(find_norm(p, prefix, "norm2.", &w->norm2));
done:
    return status;
}

clattn_status clattn_decoder_layer_weights_find(const clattn_parameters *p, const char *prefix,
                                                clattn_decoder_layer_weights *w) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(p && w, CLATTN_E_ARGUMENT, "decoder_layer_weights_find: %s is NULL", p ? "weights" : "parameters");
    *w = (clattn_decoder_layer_weights){0};
    CLA_TRY(find_attention(p, prefix, "self_attn.", &w->self_attn));
    CLA_TRY(find_attention(p, prefix, "multihead_attn.", &w->cross_attn));
    CLA_TRY(clattn_feedforward_weights_find(p, prefix, &w->feedforward));
    CLA_TRY(find_norm(p, prefix, "norm1.", &w->norm1));
    CLA_TRY(find_norm(p, prefix, "norm2.", &w->norm2));
    CLA_TRY(find_norm(p, prefix, "norm3.", &w->norm3));
done:
    return status;
}

/* ---- stacks ---- */

/* PREFIXlayers.I. */
static clattn_status layer_prefix(char text[NAME], const char *prefix, int64_t i) {
    char part[40];
    snprintf(part, sizeof part, "layers.%lld.", (long long)i);
    return join(text, prefix, part);
}

static clattn_status has_layer(const clattn_parameters *p, const char *prefix, int64_t i, bool *has) {
    clattn_status status = CLATTN_OK;
    char name[NAME];
    *has = false;
    CLA_TRY(layer_prefix(name, prefix, i));
    *has = clattn_parameters_elements(p, name) > 0;
done:
    return status;
}

/* PREFIXlayers.I. begins the name, and I is no smaller than count. */
static bool is_behind(const char *name, const char *layers, int64_t count) {
    const size_t length = strlen(layers);
    if (strncmp(name, layers, length) != 0)
        return false;
    const size_t digits = strspn(name + length, "0123456789");
    return digits > 0 && name[length + digits] == '.' && strtoll(name + length, NULL, 10) >= count;
}

/* Layers are numbered from 0 on without a gap. */
static clattn_status check_gap(const clattn_parameters *p, const char *prefix, int64_t count) {
    clattn_status status = CLATTN_OK;
    char layers[NAME];
    const char *name;
    CLA_TRY(join(layers, prefix, "layers."));
    for (size_t i = 0; clattn_parameters_at(p, i, &name, NULL); i++)
        CLA_CHECK(!is_behind(name, layers, count), CLATTN_E_ARGUMENT,
                  "parameters: there is \"%.200s\", and no weight of the layer \"%.200s%lld.\"", name, layers,
                  (long long)count);
done:
    return status;
}

/* 0: the prefix is that of a single layer. */
static clattn_status count_layers(const clattn_parameters *p, const char *prefix, int64_t *count) {
    clattn_status status = CLATTN_OK;
    bool has = true;
    for (*count = -1; has && *count < CLA_STACK_LAYERS; ++*count)
        CLA_TRY(has_layer(p, prefix, *count + 1, &has));
    if (!has)
        CLA_TRY(check_gap(p, prefix, *count));
done:
    return status;
}

/* What encoders and decoders differ in: the weights of a layer. */
typedef clattn_status (*layer_find)(const clattn_parameters *p, const char *prefix, void *layer);

static clattn_status encoder_layer(const clattn_parameters *p, const char *prefix, void *layer) {
    return clattn_encoder_layer_weights_find(p, prefix, layer);
}

static clattn_status decoder_layer(const clattn_parameters *p, const char *prefix, void *layer) {
    return clattn_decoder_layer_weights_find(p, prefix, layer);
}

typedef struct {
    void *layers; /* [count], of `size` bytes each; cla_free releases it */
    int64_t count;
    bool has_norm;
    clattn_norm_weights norm;
} stack_weights;

/* A single layer, or layers from 0 on and perhaps a norm. After a failure too, layers is released by the caller. */
static clattn_status find_stack(const clattn_parameters *p, const char *prefix, size_t size, layer_find find,
                                stack_weights *stack) {
    clattn_status status = CLATTN_OK;
    char name[NAME];
    char *layers = NULL;
    int64_t count = 0;
    *stack = (stack_weights){0};
    CLA_TRY(count_layers(p, prefix, &count));
    CLA_TRY(cla_alloc((size_t)count + 1, size, "layers", &layers));
    stack->layers = layers;
    stack->count = count ? count : 1;
    if (count == 0) {
        CLA_TRY(find(p, prefix, layers));
        goto done;
    }
    for (int64_t i = 0; i < count; i++) {
        CLA_TRY(layer_prefix(name, prefix, i));
        CLA_TRY(find(p, name, layers + (size_t)i * size));
    }
    stack->norm.weight = clattn_parameters_get(p, prefix, "norm.weight");
    stack->norm.bias = clattn_parameters_get(p, prefix, "norm.bias");
    stack->has_norm = stack->norm.weight.rank > 0;
done:
    return status;
}

clattn_status clattn_encoder_load(clattn_context *context, const clattn_parameters *parameters, const char *prefix,
                                  const clattn_layer_options *options, clattn_encoder **encoder) {
    clattn_status status = CLATTN_OK;
    stack_weights stack = {0};
    CLA_CHECK(encoder, CLATTN_E_ARGUMENT, "encoder_load: encoder is NULL");
    *encoder = NULL;
    CLA_CHECK(parameters, CLATTN_E_ARGUMENT, "encoder_load: parameters is NULL");
    CLA_TRY(find_stack(parameters, prefix, sizeof(clattn_encoder_layer_weights), encoder_layer, &stack));
    const clattn_encoder_weights weights = {
        .layers = stack.layers, .count = stack.count, .has_norm = stack.has_norm, .norm = stack.norm};
    CLA_TRY(clattn_encoder_create(context, &weights, options, encoder));
done:
    cla_free(stack.layers);
    return status;
}

clattn_status clattn_decoder_load(clattn_context *context, const clattn_parameters *parameters, const char *prefix,
                                  const clattn_layer_options *options, clattn_decoder **decoder) {
    clattn_status status = CLATTN_OK;
    stack_weights stack = {0};
    CLA_CHECK(decoder, CLATTN_E_ARGUMENT, "decoder_load: decoder is NULL");
    *decoder = NULL;
    CLA_CHECK(parameters, CLATTN_E_ARGUMENT, "decoder_load: parameters is NULL");
    CLA_TRY(find_stack(parameters, prefix, sizeof(clattn_decoder_layer_weights), decoder_layer, &stack));
    const clattn_decoder_weights weights = {
        .layers = stack.layers, .count = stack.count, .has_norm = stack.has_norm, .norm = stack.norm};
    CLA_TRY(clattn_decoder_create(context, &weights, options, decoder));
done:
    cla_free(stack.layers);
    return status;
}
