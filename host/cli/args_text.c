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

/* Edits from a to b, two neighbours in each other's place among them; a and b at most NEAR_MAX long. */
static size_t edits(const char *a, const char *b) {
    size_t rows[3][NEAR_MAX + 1]; /* of i, i - 1, i - 2: number i % 3 */
    const size_t n = strlen(a), m = strlen(b);
    for (size_t i = 0; i <= n; i++)
        for (size_t j = 0; j <= m; j++) {
            size_t *row = rows[i % 3], best = i + j;
            const size_t *above = rows[(i + 2) % 3], *second = rows[(i + 1) % 3];
            if (i > 0 && j > 0) {
                best = above[j - 1] + (a[i - 1] != b[j - 1]);
                best = above[j] + 1 < best ? above[j] + 1 : best;
                best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && second[j - 2] + 1 < best)
                best = second[j - 2] + 1;
            row[j] = best;
        }
    return rows[n % 3][m];
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
