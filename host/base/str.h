/* SPDX-License-Identifier: Apache-2.0 */
/* A string that grows, and UTF-8. Appending after a failure does nothing, so only the end needs a check. */
#ifndef CLA_STR_H
#define CLA_STR_H

#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

typedef struct cla_str {
    char *text; /* NULL until something is appended; cla_str_text never gives NULL */
    size_t length, capacity;
    bool failed; /* out of memory */
} cla_str;

void cla_str_append(cla_str *s, const char *format, ...) CLA_PRINTF(2, 3);
const char *cla_str_text(const cla_str *s);
/* CLATTN_E_MEMORY when an append failed. */
clattn_status cla_str_status(const cla_str *s);
void cla_str_free(cla_str *s);

/* Bytes of the UTF-8 sequence at p, of which `left` > 0 are there; 0 when it is none (RFC 3629, so no surrogates). */
size_t cla_utf8_bytes(const unsigned char *p, size_t left);

#endif
