/* SPDX-License-Identifier: Apache-2.0 */
#include "io/file_kind.h"

#include <stdio.h>
#include <string.h>

enum { START = 9 }; /* bytes that are looked at: a safetensors header's length, and its brace */

static const struct {
    const char *begin, *name;
} kinds[] = {
    {"\x93NUMPY", "npy"}, {"PK\x03\x04", "zip, as npz and PyTorch's files do"}, {"GGUF", "GGUF"}, {"\x89HDF", "HDF5"},
    {"\x1f\x8b", "gzip"},
};

static bool is_text(const unsigned char *p, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((p[i] < 0x20 && !strchr("\t\n\r", p[i])) || p[i] > 0x7e || p[i] == '\0')
            return false;
    return length > 0;
}

static const char *name_of(const unsigned char *p, size_t length) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const size_t n = strlen(kinds[i].begin);
        if (length >= n && memcmp(p, kinds[i].begin, n) == 0)
            return kinds[i].name;
    }
    if (length == START && p[START - 1] == '{' && p[3] < 6 && !(p[4] | p[5] | p[6] | p[7])) /* up to 100 MB */
        return "safetensors";
    return is_text(p, length) ? "text" : NULL;
}

const char *cla_file_kind(const cla_file *file, char text[CLA_FILE_KIND_TEXT]) {
    unsigned char p[START];
    const size_t length = file->bytes < START ? (size_t)file->bytes : START;
    const char *name = cla_file_read(file, 0, p, length) == CLATTN_OK ? name_of(p, length) : NULL;
    text[0] = '\0';
    if (name)
        snprintf(text, CLA_FILE_KIND_TEXT, " (it begins like %s)", name);
    return text;
}
