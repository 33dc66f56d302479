/* SPDX-License-Identifier: Apache-2.0 */
#include "labels.h"

#include "args.h"
#include "text_file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX (4 << 20)

/* ---- UTF-8 ---- */

/* Decodes one character; its bytes in *length. Bytes that are no UTF-8 give U+FFFD and length 1. */
static uint32_t decode(const char *text, size_t left, size_t *length) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)text[0];
    const size_t n = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
    *length = 1;
    if (n == 1)
        return first;
    if (n == 0 || n > left)
        return 0xfffd;
    uint32_t c = first & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        const unsigned char byte = (unsigned char)text[i];
        if ((byte & 0xc0) != 0x80)
            return 0xfffd;
        c = c << 6 | (byte & 0x3fu);
    }
    if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000) || (c & 0xfffe) == 0xfffe)
        return 0xfffd;
    *length = n;
    return c;
}

static bool is_wide(uint32_t c) {
    return (c >= 0x1100 && c <= 0x115f) || (c >= 0x2e80 && c <= 0xa4cf) || (c >= 0xac00 && c <= 0xd7a3) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0xfe30 && c <= 0xfe6f) || (c >= 0xff00 && c <= 0xff60) ||
           (c >= 0x1f300 && c <= 0x1faff) || (c >= 0x20000 && c <= 0x3fffd);
}

size_t cla_text_cut(const char *text, int columns) {
    size_t at = 0, length;
    for (const size_t size = strlen(text); at < size; at += length) {
        columns -= is_wide(decode(text + at, size - at, &length)) ? 2 : 1;
        if (columns < 0)
            break;
    }
    return at;
}

int cla_text_columns(const char *text) {
    int columns = 0;
    size_t length;
    for (size_t at = 0, size = strlen(text); at < size; at += length)
        columns += is_wide(decode(text + at, size - at, &length)) ? 2 : 1;
    return columns;
}

/* Copies with '?' for what is no UTF-8 and blanks for control characters; line ends stay. */
static void clean(char *text, size_t size) {
    size_t length;
    for (size_t at = 0; at < size; at += length) {
        const uint32_t c = decode(text + at, size - at, &length);
        if (c == 0xfffd && length == 1)
            text[at] = '?';
        else if (c != '\n' && (c < 0x20 || c == 0x7f))
            text[at] = ' ';
    }
}

/* ---- files ---- */

static int read_text(const char *path, char **text, size_t *size) {
    *text = cla_text_file_read(path, FILE_BYTES_MAX, size);
    if (!*text && errno == ENOMEM)
        return cla_fail(CLA_EXIT_FAILED, "labels: out of memory for %s", path);
    if (!*text)
        return cla_fail(CLA_EXIT_USAGE, "labels: %s cannot be read: %s", path, strerror(errno));
    if (*size > FILE_BYTES_MAX)
        return cla_fail(CLA_EXIT_USAGE, "labels: %s is larger than %d MiB, too large for a token a line", path,
                        FILE_BYTES_MAX >> 20);
    return CLA_EXIT_OK;
}

/* Cuts the text into lines; the last needs no end. */
static int cut_lines(cla_labels *labels, size_t size, const char *path) {
    int64_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += labels->text[i] == '\n' || i + 1 == size;
    labels->items = malloc(((size_t)lines + 1) * sizeof *labels->items);
    if (!labels->items)
        return cla_fail(CLA_EXIT_FAILED, "labels: out of memory for %s", path);
    char *start = labels->text;
    for (size_t i = 0; i < size; i++)
        if (labels->text[i] == '\n' || i + 1 == size) {
            char *end = labels->text + i + (labels->text[i] != '\n');
            while (end > start && end[-1] == ' ') /* a carriage return, too */
                end--;
            *end = '\0';
            labels->items[labels->count++] = start;
            start = labels->text + i + 1;
        }
    return CLA_EXIT_OK;
}

static int load(const char *path, int64_t wanted, const char *what, cla_labels *labels) {
    size_t size = 0;
    int exit_status = read_text(path, &labels->text, &size);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    clean(labels->text, size);
    exit_status = cut_lines(labels, size, path);
    if (exit_status == CLA_EXIT_OK && labels->count != wanted)
        exit_status = cla_fail(CLA_EXIT_USAGE,
                               "labels: %s has %lld lines, but there are %lld %s; give a token a line, or "
                               "--labels QUERIES.txt,KEYS.txt",
                               path, (long long)labels->count, (long long)wanted, what);
    return exit_status;
}

static bool exists(const char *path) {
    FILE *file = fopen(path, "rb");
    if (file)
        fclose(file);
    return file != NULL;
}

int cla_labels_load(const char *spec, int64_t query_count, int64_t key_count, cla_labels *queries, cla_labels *keys) {
    *queries = *keys = (cla_labels){0};
    const char *comma = strchr(spec, ',');
    int exit_status;
    if (!comma || exists(spec)) {
        exit_status = load(spec, query_count, "queries", queries);
        return exit_status != CLA_EXIT_OK ? exit_status : load(spec, key_count, "keys", keys);
    }
    const size_t length = (size_t)(comma - spec);
    char *first = malloc(length + 1);
    if (!first)
        return cla_fail(CLA_EXIT_FAILED, "labels: out of memory");
    memcpy(first, spec, length);
    first[length] = '\0';
    exit_status = load(first, query_count, "queries", queries);
    free(first);
    return exit_status != CLA_EXIT_OK ? exit_status : load(comma + 1, key_count, "keys", keys);
}

void cla_labels_free(cla_labels *labels) {
    free(labels->items);
    free(labels->text);
    *labels = (cla_labels){0};
}
