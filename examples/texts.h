/* SPDX-License-Identifier: Apache-2.0 */
/* Texts to work on: the lines of a file, or the strings of a JSON array. Errors are printed. */
#ifndef TEXTS_H
#define TEXTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct text {
    const char *bytes; /* a zero follows */
    size_t count;
} text;

typedef struct texts {
    text *items;
    size_t count;
    char *storage;
    void *json;
} texts;

/* path: a file, "-" or NULL for the standard input. A name that ends with .json: an array of strings, or of objects
 * with a string "text", in which a text may hold line ends. Else each line is a text, empty ones too. */
bool texts_read(const char *path, texts *t);
void texts_free(texts *t); /* zeroed ones are allowed */
/* A JSON string with its quotes; free() releases it. NULL after an error. */
char *texts_quoted(const text *t);

#endif
