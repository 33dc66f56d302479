/* SPDX-License-Identifier: Apache-2.0 */
/* `stack`: the encoder and the decoder of the article. Single layers against PyTorch's, six of each against a reference
 * in double; the three roles of attention; no output depends on a later target; and decoding token by token, with
 * caches, is decoding in one pass. */
#include "args.h"
#include "layer_tensors.h"
#include "study_model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SOURCE = 10, TARGET = 8, FIRST_CHANGED = 4, E = CLA_MODEL_E, START = 0 };

/* ---- single layers ---- */

static clattn_status run_layer(cla_study *s, const clattn_parameters *parameters, bool decoder, const clattn_array *x,
                               const clattn_array *memory, const clattn_array *y) {
    const clattn_layer_options options = {.heads = 4};
    clattn_encoder *encoder = NULL;
    clattn_decoder *one = NULL;
    clattn_status status = decoder ? clattn_decoder_load(s->context, parameters, "", &options, &one)
                                   : clattn_encoder_load(s->context, parameters, "", &options, &encoder);
    if (status == CLATTN_OK && decoder)
        status = clattn_decoder_run(one, &(clattn_decoder_args){.x = clattn_array_tensor(x),
                                                                .memory = clattn_array_tensor(memory),
                                                                .y = clattn_array_tensor(y),
                                                                .masks.causal = true});
    else if (status == CLATTN_OK)
        status = clattn_encoder_run(encoder,
                                    &(clattn_encoder_args){.x = clattn_array_tensor(x), .y = clattn_array_tensor(y)});
    clattn_encoder_destroy(encoder);
    clattn_decoder_destroy(one);
    return status;
}

/* A stored layer of PyTorch's: set is enc_post_relu or dec_post_relu. */
static int compare_layer(cla_study *s, const char *set, bool decoder) {
    char name[96];
    cla_weights *weights = calloc(1, sizeof *weights);
    clattn_parameters *parameters = NULL;
    clattn_status status = CLATTN_OK;
    snprintf(name, sizeof name, "%s/%s", set, decoder ? "tgt" : "src");
    const clattn_array *x = cla_study_input(s, name),
                       *memory = decoder ? cla_study_input(s, "dec_post_relu/memory") : NULL;
    snprintf(name, sizeof name, "%s/out_f64", set);
    const clattn_array *wanted = cla_study_stored(s, name), *y = x ? cla_study_new(s, s->dtype, 3, x->shape) : NULL;
    const bool loaded =
        weights && y && wanted && (!decoder || memory) && cla_weights_stored(s, set, "", decoder, weights);
    if (loaded)
        status = cla_parameters_upload(s->context, weights->named, weights->count, &parameters);
    if (loaded && status == CLATTN_OK)
        status = run_layer(s, parameters, decoder, x, memory, y);
    clattn_parameters_destroy(parameters);
    free(weights);
    if (!loaded)
        return CLA_EXIT_FAILED;
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    cla_study_figure(
        s, decoder ? "a decoder layer: max |output - PyTorch's|" : "an encoder layer: max |output - PyTorch's|", NULL,
        0, cla_study_difference(y, wanted), cla_study_bound(s, 1e-12, 5e-6));
    return CLA_EXIT_OK;
}

/* ---- stacks ---- */

/* Decoder inputs: targets shifted by one, behind a start token. */
static void shift(const int64_t *targets, int64_t *inputs) {
    inputs[0] = START;
    memcpy(inputs + 1, targets, (TARGET - 1) * sizeof *inputs);
}

static clattn_array *encode(cla_study *s, const cla_model *m, const clattn_array *x) {
    clattn_array *y = cla_study_new(s, s->dtype, 3, x->shape);
    const clattn_status status = y ? clattn_encoder_run(m->encoder, &(clattn_encoder_args){.x = clattn_array_tensor(x),
                                                                                           .y = clattn_array_tensor(y)})
                                   : CLATTN_OK;
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return status == CLATTN_OK ? y : NULL;
}

static clattn_array *decode(cla_study *s, const cla_model *m, const clattn_array *x, const clattn_array *memory) {
    clattn_array *y = cla_study_new(s, s->dtype, 3, x->shape);
    const clattn_status status =
        y ? clattn_decoder_run(m->decoder, &(clattn_decoder_args){.x = clattn_array_tensor(x),
                                                                  .memory = clattn_array_tensor(memory),
                                                                  .y = clattn_array_tensor(y),
                                                                  .masks.causal = true})
          : CLATTN_OK;
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return status == CLATTN_OK ? y : NULL;
}

/* One target a call; keys and values of those before it, and of the memory, come from the cache. */
static clattn_array *decode_by_token(cla_study *s, const cla_model *m, const clattn_array *x,
                                     const clattn_array *memory) {
    clattn_array *y = cla_study_new(s, s->dtype, 3, x->shape);
    clattn_decoder_cache *cache = NULL;
    clattn_status status =
        y ? clattn_decoder_cache_create(
                m->decoder,
                &(clattn_decoder_cache_options){.batch = 1, .capacity = TARGET, .has_dtype = true, .dtype = s->dtype},
                &cache)
          : CLATTN_OK;
    for (int64_t i = 0; y && i < TARGET && status == CLATTN_OK; i++) {
        clattn_decoder_args args = {.x = clattn_tensor_slice(clattn_array_tensor(x), 1, i, 1),
                                    .y = clattn_tensor_slice(clattn_array_tensor(y), 1, i, 1),
                                    .cache = cache};
        if (i == 0)
            args.memory = clattn_array_tensor(memory);
        status = clattn_decoder_run(m->decoder, &args);
    }
    clattn_decoder_cache_destroy(cache);
    if (status != CLATTN_OK)
        cla_study_fail(s, status);
    return status == CLATTN_OK ? y : NULL;
}

/* What changes in the outputs, ours and the reference's, when targets from FIRST_CHANGED on do. */
static void judge_changes(cla_study *s, const clattn_array *const ours[2], const clattn_array *const exact[2]) {
    for (size_t i = 0; i < TARGET; i++) {
        char name[96];
        const bool before = i <= FIRST_CHANGED; /* input i is target i - 1 */
        const double got = cla_study_part_difference(ours[0], i * E, ours[1], i * E, E),
                     wanted = cla_study_part_difference(exact[0], i * E, exact[1], i * E, E);
        snprintf(name, sizeof name, "targets %d to %d changed: change of output %zu", FIRST_CHANGED, TARGET - 1, i);
        cla_study_figure(s, name, NULL, before ? 0 : wanted, got, before ? 0 : cla_study_bound(s, 2e-12, 4e-5));
    }
}

/* Another target at each place in turn, but the last, which is no input: no output up to it may change by a bit, and
 * every one behind it must. */
static int judge_places(cla_study *s, const cla_model *m, const int64_t *targets, const clattn_array *memory,
                        const clattn_array *before) {
    for (size_t place = 0; place + 1 < TARGET; place++) {
        int64_t inputs[TARGET], changed[TARGET];
        char name[96];
        memcpy(changed, targets, sizeof changed);
        changed[place] = (changed[place] + 13) % CLA_MODEL_VOCABULARY;
        shift(changed, inputs);
        const clattn_array *x = cla_model_embed(s, m, inputs, TARGET), *y = x ? decode(s, m, x, memory) : NULL;
        if (!y)
            return CLA_EXIT_FAILED;
        const size_t first = place + 1; /* input i is target i - 1 */
        size_t later = 0;
        for (size_t i = first; i < TARGET; i++)
            later += cla_study_part_difference(before, i * E, y, i * E, E) > 0;
        snprintf(name, sizeof name, "target %zu changed: max |change of outputs 0 to %zu|", place, place);
        cla_study_figure(s, name, NULL, 0, cla_study_part_difference(before, 0, y, 0, first * E), 0);
        snprintf(name, sizeof name, "target %zu changed: outputs behind it that change", place);
        cla_study_figure(s, name, NULL, (double)(TARGET - first), (double)later, 0);
    }
    return CLA_EXIT_OK;
}

static void judge_parameters(cla_study *s, const cla_model *m) {
    const double e = CLA_MODEL_E, f = CLA_MODEL_F, attention = 4 * e * e + 4 * e, feed = 2 * e * f + f + e,
                 norm = 2 * e;
    cla_study_figure(s, "parameters of the encoder", NULL, CLA_MODEL_LAYERS * (attention + feed + 2 * norm),
                     (double)clattn_encoder_parameter_count(m->encoder), 0);
    cla_study_figure(s, "parameters of the decoder", NULL, CLA_MODEL_LAYERS * (2 * attention + feed + 3 * norm),
                     (double)clattn_decoder_parameter_count(m->decoder), 0);
}

static int run_stacks(cla_study *s, const cla_model *m) {
    static const int64_t source[SOURCE] = {5, 17, 3, 30, 8, 22, 11, 2, 27, 9},
                         targets[2][TARGET] = {{7, 12, 29, 4, 19, 25, 6, 14}, {7, 12, 29, 4, 1, 16, 31, 20}};
    const clattn_array *x = cla_model_embed(s, m, source, SOURCE), *memory = x ? encode(s, m, x) : NULL, *y[2];
    clattn_array *exact_memory = cla_model_embed_exactly(s, m, source, SOURCE), *exact[2];
    if (!memory || !exact_memory || !cla_model_encode_exactly(s, m, exact_memory))
        return CLA_EXIT_FAILED;
    cla_study_figure(s, "six encoder layers: max |output - exact|", NULL, 0, cla_study_difference(memory, exact_memory),
                     cla_study_bound(s, 1e-12, 2e-5));
    for (int i = 0; i < 2; i++) {
        int64_t inputs[TARGET];
        shift(targets[i], inputs);
        x = cla_model_embed(s, m, inputs, TARGET);
        y[i] = x ? decode(s, m, x, memory) : NULL;
        exact[i] = cla_model_embed_exactly(s, m, inputs, TARGET);
        if (!y[i] || !exact[i] || !cla_model_decode_exactly(s, m, exact[i], exact_memory))
            return CLA_EXIT_FAILED;
    }
    cla_study_figure(s, "six decoder layers: max |output - exact|", NULL, 0, cla_study_difference(y[1], exact[1]),
                     cla_study_bound(s, 1e-12, 2e-5));
    const clattn_array *by_token = decode_by_token(s, m, x, memory);
    if (!by_token)
        return CLA_EXIT_FAILED;
    cla_study_figure(s, "token by token: max |output - that of one pass|", NULL, 0,
                     cla_study_difference(by_token, y[1]), cla_study_bound(s, 1e-12, 2e-5));
    judge_changes(s, y, (const clattn_array *const[]){exact[0], exact[1]});
    judge_parameters(s, m);
    return judge_places(s, m, targets[0], memory, y[0]);
}

int cla_study_stack(cla_study *s) {
    cla_model model = {0};
    int exit_status = compare_layer(s, "enc_post_relu", false);
    if (exit_status == CLA_EXIT_OK)
        exit_status = compare_layer(s, "dec_post_relu", true);
    if (exit_status == CLA_EXIT_OK)
        exit_status = cla_model_open(s, &model);
    if (exit_status == CLA_EXIT_OK)
        exit_status = run_stacks(s, &model);
    cla_model_close(&model);
    return exit_status;
}
