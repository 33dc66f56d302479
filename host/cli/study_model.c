/* SPDX-License-Identifier: Apache-2.0 */
#include "study_model.h"

#include "args.h"
#include "layer_tensors.h"
#include "progress.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { E = CLA_MODEL_E, TABLE_STREAM = 99999 };

static bool draw(cla_study *s, cla_model *m) {
    static const char *const stacks[] = {"encoder", "decoder"};
    m->weights = calloc(1, sizeof *m->weights);
    m->table = cla_study_new(s, CLATTN_F32, 2, (const int64_t[]){CLA_MODEL_VOCABULARY, E});
    if (!m->weights)
        cla_fail(CLA_EXIT_FAILED, "study %s: out of memory", s->name);
    if (!m->weights || !m->table || !cla_study_draw(s, TABLE_STREAM, m->table))
        return false;
    float *x = m->table->data;
    for (size_t i = 0; i < (size_t)CLA_MODEL_VOCABULARY * E; i++)
        x[i] *= (float)(1 / sqrt(E));
    for (int decoder = 0; decoder < 2; decoder++)
        for (int i = 0; i < CLA_MODEL_LAYERS; i++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "%s.layers.%d.", stacks[decoder], i);
            if (!cla_weights_drawn(s, prefix, decoder != 0, E, CLA_MODEL_F, m->weights))
                return false;
        }
    m->reference = (cla_reference){
        .weights = m->weights->named, .count = m->weights->count, .E = E, .H = CLA_MODEL_H, .F = CLA_MODEL_F};
    return true;
}

int cla_model_open(cla_study *study, cla_model *model) {
    const clattn_layer_options options = {.heads = CLA_MODEL_H};
    *model = (cla_model){0};
    cla_note_begin(-1, "drawing 44 million weights", NULL);
    const bool drawn = draw(study, model);
    cla_note_end();
    if (!drawn)
        return CLA_EXIT_FAILED;
    clattn_status status =
        cla_parameters_upload(study->context, model->weights->named, model->weights->count, &model->parameters);
    if (status == CLATTN_OK)
        status = clattn_encoder_load(study->context, model->parameters, "encoder.", &options, &model->encoder);
    if (status == CLATTN_OK)
        status = clattn_decoder_load(study->context, model->parameters, "decoder.", &options, &model->decoder);
    return status == CLATTN_OK ? CLA_EXIT_OK : cla_study_fail(study, status);
}

void cla_model_close(cla_model *model) {
    clattn_decoder_destroy(model->decoder);
    clattn_encoder_destroy(model->encoder);
    clattn_parameters_destroy(model->parameters);
    free(model->weights);
    *model = (cla_model){0};
}

/* ---- embeddings ---- */

clattn_array *cla_model_embed(cla_study *study, const cla_model *model, const int64_t *tokens, int64_t N) {
    const int64_t shape[] = {1, N, E};
    clattn_array *positions = cla_study_new(study, study->dtype, 2, shape + 1),
                 *x = cla_study_new(study, study->dtype, 3, shape);
    if (!positions || !x)
        return NULL;
    clattn_status status =
        clattn_positions(study->context, &(clattn_positions_args){.y = clattn_array_tensor(positions)});
    const clattn_embed_args args = {.table = clattn_array_tensor(model->table),
                                    .ids = clattn_tensor_host(tokens, CLATTN_I64, 2, shape),
                                    .add = clattn_array_tensor(positions),
                                    .y = clattn_array_tensor(x),
                                    .has_scale = true,
                                    .scale = sqrt(E)};
    if (status == CLATTN_OK)
        status = clattn_embed(study->context, &args);
    if (status != CLATTN_OK)
        cla_study_fail(study, status);
    return status == CLATTN_OK ? x : NULL;
}

clattn_array *cla_model_embed_exactly(cla_study *study, const cla_model *model, const int64_t *tokens, int64_t N) {
    clattn_array *x = cla_study_new(study, CLATTN_F64, 3, (const int64_t[]){1, N, E});
    for (int64_t i = 0; x && i < N; i++)
        for (int64_t e = 0; e < E; e++) {
            const double angle = (double)i * pow(10000, -(double)(e - e % 2) / E);
            ((double *)x->data)[i * E + e] = sqrt(E) * (double)((const float *)model->table->data)[tokens[i] * E + e] +
                                             (e % 2 ? cos(angle) : sin(angle));
        }
    return x;
}

/* ---- the reference's stacks ---- */

static bool run_exactly(const cla_study *study, const cla_model *model, clattn_array *x, const clattn_array *memory) {
    cla_progress progress = cla_progress_begin("study stack: the double-precision reference");
    bool ok = true;
    for (int i = 0; i < CLA_MODEL_LAYERS && ok; i++) {
        char prefix[32];
        snprintf(prefix, sizeof prefix, "%s.layers.%d.", memory ? "decoder" : "encoder", i);
        cla_progress_step(&progress, i, CLA_MODEL_LAYERS);
        ok = memory ? cla_reference_decoder_layer(&model->reference, prefix, x->data, (size_t)x->shape[1], memory->data,
                                                  (size_t)memory->shape[1])
                    : cla_reference_encoder_layer(&model->reference, prefix, x->data, (size_t)x->shape[1]);
    }
    cla_progress_end(&progress);
    if (!ok)
        cla_fail(CLA_EXIT_FAILED, "study %s: out of memory for the reference", study->name);
    return ok;
}

bool cla_model_encode_exactly(const cla_study *study, const cla_model *model, clattn_array *x) {
    return run_exactly(study, model, x, NULL);
}

bool cla_model_decode_exactly(const cla_study *study, const cla_model *model, clattn_array *x,
                              const clattn_array *memory) {
    return run_exactly(study, model, x, memory);
}
