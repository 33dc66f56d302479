/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "complain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *read_all(FILE *file, const char *name, size_t *bytes) {
    size_t capacity = 1 << 16;
    char *data = malloc(capacity);
    *bytes = 0;
    while (data) {
        *bytes += fread(data + *bytes, 1, capacity - *bytes - 1, file);
        if (*bytes + 1 < capacity)
            break;
        char *larger = realloc(data, capacity *= 2);
        if (!larger)
            free(data);
        data = larger;
    }
    if (!data || ferror(file)) {
        complain("%s: %s", name, data ? strerror(errno) : "out of memory");
        free(data);
        return NULL;
    }
    data[*bytes] = 0;
    return data;
}

char *read_path(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        complain("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *data = read_all(file, path, bytes);
    fclose(file);
    return data;
}

char *next_line(char **at, char *end, size_t *bytes) {
    char *line = *at;
    if (line >= end)
        return NULL;
    char *stop = memchr(line, '\n', (size_t)(end - line));
    stop = stop ? stop : end;
    *at = stop + 1;
    *bytes = (size_t)(stop - line);
    *bytes -= *bytes > 0 && line[*bytes - 1] == '\r';
    *stop = line[*bytes] = 0;
    return line;
}

size_t count_lines(const char *text, size_t bytes) {
    size_t lines = 1;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}
