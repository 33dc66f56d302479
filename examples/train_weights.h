/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the decoder that train.c trains, with their gradients and Adam's moments: each name four times,
 * with the prefix of its kind, in one clattn_parameters. Behind the prefix stand PyTorch's names. Errors are printed.
 */
#ifndef TRAIN_WEIGHTS_H
#define TRAIN_WEIGHTS_H

#include "train_settings.h"
#include "weights.h"

typedef enum weight_kind { VALUE, GRADIENT, MOMENT1, MOMENT2, KINDS } weight_kind;

enum { WEIGHT_NAME = 100 };

typedef struct train_weights {
    clattn_parameters *all;
    size_t count;
    char (*names)[WEIGHT_NAME];    /* [count], without a prefix */
    clattn_tensor *tensors[KINDS]; /* [count] each, f32, borrowed */
} train_weights;

const char *weight_prefix(weight_kind kind); /* "model.", ... */

/* Values at random by the seed, moments of zeros; or both from a file, which holds no tensor beside them but those
 * whose names begin with one of the texts, up to a NULL. What was made is freed by train_weights_free after a failure
 * too. */
bool train_weights_make(train_weights *w, clattn_context *context, const settings *s, weights *file,
                        const char *const *others);
void train_weights_free(train_weights *w);

#endif
