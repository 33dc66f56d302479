/* SPDX-License-Identifier: Apache-2.0 */
#include "text_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

/* Room for as much again; false: out of memory. */
static bool grow(char **text, size_t *room) {
    char *more = realloc(*text, 2 * *room + 1);
    if (!more)
        return false;
    *text = more;
    *room *= 2;
    return true;
}

char *cla_text_file_read(const char *path, size_t most, size_t *size) {
    size_t room = 2048;
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(room + 1) : NULL;
    bool good = text != NULL;
    *size = 0;
    while (good && *size <= most && !feof(file)) {
        const size_t left = most + 1 - *size, free_bytes = room - *size;
        *size += fread(text + *size, 1, left < free_bytes ? left : free_bytes, file);
        good = !ferror(file) && (*size < room || grow(&text, &room));
    }
    const int why = errno;
    if (file)
        fclose(file);
    if (good)
        text[*size] = '\0';
    else
        free(text);
    errno = why;
    return good ? text : NULL;
}
