/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn check` on a case of tests/vectors, or of a dump, in which one thing is changed: words of its text, or a
 * tensor. It says what is wrong by name, or still holds. */
#ifndef CHANGED_CASE_H
#define CHANGED_CASE_H

#include <stddef.h>

typedef struct change {
    const char *base;      /* FILE:CASE */
    const char *from, *to; /* in its text; NULL: none */
    const char *tensor;    /* "NAME TYPE SIZE SIZE ...": zeros in its place, or one more; NULL: none */
    const char *says;      /* of the report; "1 passed" where it holds */
} change;

void changes_hold(const change *changes, size_t count);
#define HOLD(changes) changes_hold(changes, sizeof(changes) / sizeof *(changes))

#endif
