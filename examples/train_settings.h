/* SPDX-License-Identifier: Apache-2.0 */
/* What a training run depends on, by name: as options, and as metadata of checkpoints. Errors are printed. */
#ifndef TRAIN_SETTINGS_H
#define TRAIN_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TASK_REVERSE, TASK_SORT };

typedef struct settings {
    int64_t task;                 /* TASK_REVERSE, TASK_SORT */
    int64_t length;               /* L digits of a sequence */
    int64_t layers, width, heads; /* of the decoder: width E, and F = 4 E */
    int64_t batch;                /* B sequences a step */
    int64_t warmup, decay;        /* steps in which the rate grows, and then falls */
    int64_t seed;                 /* of weights and training sequences */
    double rate;                  /* of Adam, the largest */
} settings;

enum { SETTINGS = 10, SETTING_TEXT = 32 };

extern const settings settings_default;

const char *settings_name(size_t index); /* NULL past the end */
bool settings_find(const char *name, size_t *index);
/* Takes a value, and complains of `where` if it is none. */
bool settings_set(settings *s, size_t index, const char *text, const char *where);
/* The value, so that settings_set gives the same. */
void settings_text(const settings *s, size_t index, char text[SETTING_TEXT]);
bool settings_check(const settings *s); /* what no value has by itself */

#endif
