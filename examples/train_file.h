/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints of train.c: safetensors with parameters and moments by name, losses and accuracies so far, and settings
 * and the step as metadata. Going on from one gives the bytes of going on without it. Errors are printed. */
#ifndef TRAIN_FILE_H
#define TRAIN_FILE_H

#include "train_model.h"

enum { ACCURACY_STEPS = 20 }; /* from one measured accuracy to the next */

typedef struct history {
    int64_t step;      /* so many steps are done */
    float *losses;     /* [step], room for more */
    float *accuracies; /* [step / ACCURACY_STEPS], from 0 to 1 */
} history;

/* Room for so many steps; what was done stays. */
bool history_grow(history *h, int64_t steps);
void history_free(history *h);

bool checkpoint_write(const char *path, const settings *s, const history *h, const model *m);

/* What a file says of a run. given [SETTINGS]: settings that the file must agree with; the others become the file's. */
bool checkpoint_settings(const char *path, const bool *given, settings *s, int64_t *step);
/* Opens the weights for model_open, after which they are closed, and reads the history up to the step. */
weights *checkpoint_open(clattn_context *context, const char *path, int64_t step, history *h);
extern const char *const checkpoint_others[]; /* for model_open: what is not the model's */

#endif
