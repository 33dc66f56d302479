/* SPDX-License-Identifier: Apache-2.0 */
/* Modules: an encoder and a decoder whose weights have PyTorch's names, as a file of torch.nn.Transformer would have
 * them. The decoder runs over all targets at once, and then token by token with a cache; both give the same. */
#include <clattn/clattn.h>
#include <math.h>
#include <stdio.h>

enum { LAYERS = 2, E = 32, HEADS = 4, F = 64, SOURCE = 9, TARGETS = 6 };

static float source[SOURCE * E], targets[TARGETS * E], memory[SOURCE * E], at_once[TARGETS * E], by_token[TARGETS * E];

static void fill(float *x, int count, double scale) {
    static int seed;
    for (int i = 0; i < count; i++)
        x[i] = (float)(scale * sin(++seed * 1.7));
}

/* PREFIXname, made up. A real model: clattn_parameters_load(parameters, "model.safetensors", NULL). */
static clattn_status add(clattn_parameters *parameters, const char *prefix, const char *name, int rank, int64_t rows,
                         int64_t columns) {
    char text[100];
    clattn_array array;
    const int64_t shape[] = {rows, columns};
    clattn_status status = clattn_array_create(CLATTN_F32, rank, shape, &array);
    if (status != CLATTN_OK)
        return status;
    fill(array.data, (int)(array.bytes / sizeof(float)), rank == 1 ? 0.5 : 1 / sqrt((double)columns));
    snprintf(text, sizeof text, "%s%s", prefix, name);
    status = clattn_parameters_add(parameters, text, &array, NULL);
    clattn_array_free(&array);
    return status;
}

static clattn_status add_layer(clattn_parameters *p, const char *prefix, int attentions) {
    static const struct {
        const char *name;
        int rank, rows, columns;
    } names[] = {{"linear1.weight", 2, F, E},
                 {"linear1.bias", 1, F, 0},
                 {"linear2.weight", 2, E, F},
                 {"linear2.bias", 1, E, 0},
                 {"norm1.weight", 1, E, 0},
                 {"norm2.weight", 1, E, 0},
                 {"self_attn.in_proj_weight", 2, 3 * E, E},
                 {"self_attn.in_proj_bias", 1, 3 * E, 0},
                 {"self_attn.out_proj.weight", 2, E, E},
                 {"norm3.weight", 1, E, 0}, /* from here: of decoders only */
                 {"multihead_attn.in_proj_weight", 2, 3 * E, E},
                 {"multihead_attn.out_proj.weight", 2, E, E}};
    clattn_status status = CLATTN_OK;
    for (int i = 0; i < (attentions == 2 ? 12 : 9) && status == CLATTN_OK; i++)
        status = add(p, prefix, names[i].name, names[i].rank, names[i].rows, names[i].columns);
    return status;
}

static clattn_status decode(clattn_decoder *decoder, const clattn_decoder_args *whole) {
    clattn_decoder_cache *cache = NULL;
    const clattn_decoder_cache_options options = {.batch = 1, .capacity = TARGETS};
    clattn_status status = clattn_decoder_cache_create(decoder, &options, &cache);
    for (int i = 0; i < TARGETS && status == CLATTN_OK; i++) {
        clattn_decoder_args one = {.x = clattn_tensor_slice(whole->x, 0, i, 1), .cache = cache};
        one.y = clattn_tensor_host(by_token + i * E, CLATTN_F32, 2, (const int64_t[]){1, E});
        if (i == 0)
            one.memory = whole->memory; /* its keys and values are kept */
        status = clattn_decoder_run(decoder, &one);
    }
    clattn_decoder_cache_destroy(cache);
    return status;
}

int main(void) {
    const int64_t source_shape[] = {SOURCE, E}, target_shape[] = {TARGETS, E}; /* unbatched */
    const clattn_layer_options options = {.heads = HEADS, .activation = CLATTN_ACTIVATION_GELU};
    clattn_context *context = NULL;
    clattn_parameters *parameters = NULL;
    clattn_encoder *encoder = NULL;
    clattn_decoder *decoder = NULL;
    fill(source, SOURCE * E, 1);
    fill(targets, TARGETS * E, 1);
    clattn_status status = clattn_context_create(NULL, NULL, &context);
    if (status == CLATTN_OK)
        status = clattn_parameters_create(context, &parameters);
    for (int i = 0; i < 2 * LAYERS && status == CLATTN_OK; i++) {
        char prefix[40];
        snprintf(prefix, sizeof prefix, "%s.layers.%d.", i % 2 ? "decoder" : "encoder", i / 2);
        status = add_layer(parameters, prefix, i % 2 ? 2 : 1);
    }
    if (status == CLATTN_OK)
        status = clattn_encoder_load(context, parameters, "encoder.", &options, &encoder);
    if (status == CLATTN_OK)
        status = clattn_decoder_load(context, parameters, "decoder.", &options, &decoder);

    const clattn_encoder_args encode = {.x = clattn_tensor_host(source, CLATTN_F32, 2, source_shape),
                                        .y = clattn_tensor_host(memory, CLATTN_F32, 2, source_shape)};
    const clattn_decoder_args whole = {.x = clattn_tensor_host(targets, CLATTN_F32, 2, target_shape),
                                       .y = clattn_tensor_host(at_once, CLATTN_F32, 2, target_shape),
                                       .memory = encode.y,
                                       .masks = {.causal = true}};
    if (status == CLATTN_OK)
        status = clattn_encoder_run(encoder, &encode);
    if (status == CLATTN_OK)
        status = clattn_decoder_run(decoder, &whole);
    if (status == CLATTN_OK)
        status = decode(decoder, &whole);
    if (status == CLATTN_OK)
        printf("%lld parameters in %lld + %lld layers\n",
               (long long)(clattn_encoder_parameter_count(encoder) + clattn_decoder_parameter_count(decoder)),
               (long long)clattn_encoder_layer_count(encoder), (long long)clattn_decoder_layer_count(decoder));
    else
        fprintf(stderr, "%s: %s\n", clattn_status_name(status), clattn_last_error());
    clattn_decoder_destroy(decoder); /* modules before the parameters that they borrow */
    clattn_encoder_destroy(encoder);
    clattn_parameters_destroy(parameters);
    clattn_context_destroy(context);
    if (status != CLATTN_OK)
        return 1;

    float worst = 0;
    for (int i = 0; i < TARGETS * E; i++)
        worst = fmaxf(worst, fabsf(at_once[i] - by_token[i]));
    printf("token by token differs from one pass by %g\n", (double)worst);
    return worst <= 1e-5f ? 0 : 1;
}
