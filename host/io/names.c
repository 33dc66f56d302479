/* SPDX-License-Identifier: Apache-2.0 */
#include "io/names.h"

#include "base/mem.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare(const void *a, const void *b) {
    return strcmp(((const cla_name *)a)->text, ((const cla_name *)b)->text);
}

void cla_names_sort(cla_name *names, size_t count) {
    if (count > 1)
        qsort(names, count, sizeof *names, compare);
}

const char *cla_names_twice(const cla_name *names, size_t count) {
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1].text, names[i].text) == 0)
            return names[i].text;
    return NULL;
}

bool cla_names_find(const cla_name *names, size_t count, const char *text, size_t *index) {
    const cla_name wanted = {.text = text};
    const cla_name *found = count > 0 ? bsearch(&wanted, names, count, sizeof *names, compare) : NULL;
    if (found)
        *index = found->index;
    return found != NULL;
}

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; }

/* The characters to change when the change is in one place: linear in the length, which an edit distance is not. */
static size_t distance(const char *a, const char *b) {
    const size_t n = strlen(a), m = strlen(b), less = n < m ? n : m, more = n < m ? m : n;
    size_t front = 0, back = 0;
    while (front < less && lower(a[front]) == lower(b[front]))
        front++;
    while (front + back < less && lower(a[n - 1 - back]) == lower(b[m - 1 - back]))
        back++;
    return more - front - back;
}

const char *cla_names_near(const cla_name *names, size_t count, const char *wanted, char *text, size_t size) {
    enum { MOST = 3 };
    const char *best[MOST] = {0};
    size_t best_distance[MOST] = {0}, found = 0, length = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t d = distance(names[i].text, wanted);
        size_t at = found < MOST ? found++ : MOST;
        for (; at > 0 && best_distance[at - 1] > d; at--)
            if (at < MOST) {
                best[at] = best[at - 1];
                best_distance[at] = best_distance[at - 1];
            }
        if (at < MOST) {
            best[at] = names[i].text;
            best_distance[at] = d;
        }
    }
    text[0] = '\0';
    for (size_t i = 0; i < found && length < size; i++) {
        char name[CLA_NAME_TEXT];
        length += (size_t)snprintf(text + length, size - length, "%s\"%s\"", i ? ", " : "",
                                   cla_name_text(best[i], name, sizeof name));
    }
    return text;
}

const char *cla_name_text(const char *name, char *text, size_t size) {
    size_t n = 0;
    for (; name[n] && n + 1 < size && n + 1 < CLA_NAME_TEXT; n++)
        text[n] = (unsigned char)name[n] < 0x20 || name[n] == 0x7f ? '?' : name[n];
    if (name[n] && n > 3)
        memcpy(text + n - 3, "...", 3);
    text[n] = '\0';
    return text;
}
