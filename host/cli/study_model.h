/* SPDX-License-Identifier: Apache-2.0 */
/* The Transformer of the article, with drawn weights: six layers each of encoder and decoder, d = 512, h = 8, inner dim
 * 2048, a small vocabulary; on the device, and as the double-precision reference. */
#ifndef CLA_STUDY_MODEL_H
#define CLA_STUDY_MODEL_H

#include "study_reference.h"
#include "study_weights.h"
#include <clattn/modules.h>

enum { CLA_MODEL_E = 512, CLA_MODEL_H = 8, CLA_MODEL_F = 2048, CLA_MODEL_LAYERS = 6, CLA_MODEL_VOCABULARY = 32 };

typedef struct cla_model {
    cla_weights *weights; /* on the host */
    cla_reference reference;
    clattn_array *table; /* of embeddings, f32 */
    clattn_parameters *parameters;
    clattn_encoder *encoder;
    clattn_decoder *decoder;
} cla_model;

/* Prints one line and returns the exit status when it fails; *model is to be closed whatever the status. */
int cla_model_open(cla_study *study, cla_model *model);
void cla_model_close(cla_model *model);

/* x [1, N, E] = embeddings sqrt(E), plus positions, of N tokens: on the device, and in double. NULL: a line was
 * printed. */
clattn_array *cla_model_embed(cla_study *study, const cla_model *model, const int64_t *tokens, int64_t N);
clattn_array *cla_model_embed_exactly(cla_study *study, const cla_model *model, const int64_t *tokens, int64_t N);

/* The reference's stacks, in place on x [1, N, E] in f64. false: a line was printed. */
bool cla_model_encode_exactly(const cla_study *study, const cla_model *model, clattn_array *x);
bool cla_model_decode_exactly(const cla_study *study, const cla_model *model, clattn_array *x,
                              const clattn_array *memory);

#endif
