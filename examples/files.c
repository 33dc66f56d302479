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
