/* SPDX-License-Identifier: Apache-2.0 */
/* `--labels`: a token a line, for the axes of the heat map. */
#ifndef CLA_LABELS_H
#define CLA_LABELS_H

#include <stddef.h>
#include <stdint.h>

typedef struct cla_labels {
    char *text;   /* of the file, each line with its end */
    char **items; /* into text; valid UTF-8 of printable characters */
    int64_t count;
} cla_labels;

/* spec: one file for both axes, or "QUERIES,KEYS" for one each. All of these print one line and return the exit status
 * when something is wrong: no such file, or another number of lines than there are queries or keys. */
int cla_labels_load(const char *spec, int64_t query_count, int64_t key_count, cla_labels *queries, cla_labels *keys);
void cla_labels_free(cla_labels *labels);

/* Columns that a text takes in a font of fixed width: 2 for wide characters. */
int cla_text_columns(const char *text);
/* The bytes of the first columns of it. */
size_t cla_text_cut(const char *text, int columns);

#endif
