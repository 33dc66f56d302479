/* SPDX-License-Identifier: Apache-2.0 */
/* Files that a run of train.c writes at its end: looked at before it begins, and whole before they take their name.
 * Errors are printed. */
#ifndef TRAIN_OUT_H
#define TRAIN_OUT_H

#include <stdbool.h>
#include <stdio.h>

typedef struct out_file {
    FILE *stream;
    const char *path;      /* as it was given; borrowed */
    char *target, *staged; /* what it names behind links; the name in the same folder until it is whole */
} out_file;

/* Nothing but a regular file is replaced, and none that may not be written. After false there is nothing to close. */
bool out_open(const char *path, out_file *f);
/* Gives the file its name, unless the stream has an error. */
bool out_close(out_file *f);

/* Whether out_open and out_close would go well; what is there stays as it is. NULL: no file, which is fine. */
bool out_check(const char *path);
/* Whether two paths, which need not exist, name one file; NULL names none. */
bool out_is_same(const char *a, const char *b);

#endif
