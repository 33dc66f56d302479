/* SPDX-License-Identifier: Apache-2.0 */
/* The decoder that train.c trains: a stack of layers with a causal mask over `digits, separator, answer`, whose last L
 * places each say the next digit of the answer. Errors are printed. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "train_data.h"
#include "train_weights.h"

typedef struct model model;

/* As train_weights_make. NULL after an error. slots: batches that lie on the device at once. */
model *model_open(clattn_context *context, const settings *s, int64_t slots, weights *file, const char *const *others);
void model_close(model *m); /* before file and context; NULL is allowed */
const train_weights *model_weights(const model *m);

/* Batches to slots from 0 on: tokens [count, B, 2 L], answers [count, B, L] or NULL. */
bool model_give(model *m, int64_t count, const int32_t *tokens, const int32_t *answers);
/* Step 1, 2, ... on the batch of a slot, enqueued. */
bool model_step(model *m, int64_t slot, int64_t step);
/* What the loss was in steps on slots from 0 on: [count]. Waits. */
bool model_losses(model *m, int64_t count, float *losses);
/* The likeliest digits [B, L] for the batch in slot 0, where each sees the answer before it. */
bool model_digits(model *m, int32_t *digits);

#endif
