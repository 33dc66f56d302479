/* SPDX-License-Identifier: Apache-2.0 */
/* Names of tensors and metadata: sorted for look-up, and made fit for messages. */
#ifndef CLA_NAMES_H
#define CLA_NAMES_H

#include <stdbool.h>
#include <stddef.h>

#define CLA_NAME_TEXT 64 /* bytes that a name takes in a message, with the final 0 */

typedef struct cla_name {
    const char *text; /* borrowed */
    size_t index;     /* the place in the owner's own order */
} cla_name;

void cla_names_sort(cla_name *names, size_t count);
/* The functions below want sorted names. */
/* A name that is there twice, or NULL. */
const char *cla_names_twice(const cla_name *names, size_t count);
bool cla_names_find(const cla_name *names, size_t count, const char *text, size_t *index);
/* `"a", "b", "c"`: the nearest names, for "did you mean"; returns text. */
const char *cla_names_near(const cla_name *names, size_t count, const char *wanted, char *text, size_t size);

/* The name without control characters, cut to what fits in CLA_NAME_TEXT; returns text. */
const char *cla_name_text(const char *name, char *text, size_t size);

#endif
