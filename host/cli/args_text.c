/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, lists and near names in the text of an option. */
#include "args.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* strto* skip blanks; an option's value must not start with one. */
static bool starts_number(const char *text) { return text[0] != '\0' && strchr("+-.0123456789", text[0]) != NULL; }

bool cla_parse_i64(const char *text, int64_t *value) {
    char *end = NULL;
    if (!starts_number(text))
        return false;
    errno = 0;
    const long long n = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0')
        return false;
    *value = n;
    return true;
}

bool cla_parse_f64(const char *text, double *value) {
    char *end = NULL;
    if (!starts_number(text))
        return false;
    const double x = strtod(text, &end);
    if (end == text || *end != '\0' || !isfinite(x))
        return false;
    *value = x;
    return true;
}

bool cla_parse_i64_list(const char *text, int64_t *values, size_t capacity, size_t *count) {
    *count = 0;
    for (const char *at = text;; at++) {
        char part[32];
        const size_t length = strcspn(at, ",");
        if (length >= sizeof part || *count >= capacity)
            return false;
        memcpy(part, at, length);
        part[length] = '\0';
        if (!cla_parse_i64(part, &values[*count]))
            return false;
        ++*count;
        at += length;
        if (*at == '\0')
            return true;
    }
}

#define NEAR_MAX 40 /* longer names are never near */

/* Levenshtein distance with one row; a and b at most NEAR_MAX long. */
static size_t edits(const char *a, const char *b) {
    size_t row[NEAR_MAX + 1];
    const size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            const size_t above = row[j];
            size_t best = diagonal + (a[i - 1] != b[j - 1]);
            best = above + 1 < best ? above + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
            diagonal = above;
        }
    }
    return row[m];
}

const char *cla_nearest(const char *text, const char *const *list) {
    const char *best = NULL;
    const size_t length = strlen(text);
    size_t best_edits = length < 3 ? 1 : length < 6 ? 2 : 3;
    if (length < 2 || length > NEAR_MAX)
        return NULL;
    for (size_t i = 0; list[i]; i++) {
        if (strlen(list[i]) > NEAR_MAX)
            continue;
        const size_t n = length >= 3 && strncmp(list[i], text, length) == 0 ? 1 : edits(text, list[i]);
        if (n < best_edits || (n == best_edits && !best)) {
            best = list[i];
            best_edits = n;
        }
    }
    return best;
}

int cla_index_of(const char *text, const char *const *list) {
    for (int i = 0; list[i]; i++)
        if (strcmp(list[i], text) == 0)
            return i;
    return -1;
}
