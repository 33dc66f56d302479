/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* nftw, mkdtemp */
#include "command.h"

#include <criterion/criterion.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define main clattn_main
#include "main.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

enum { MOST_WORDS = 60 };

/* Words of a line, in place. */
static int split(char *line, char **words) {
    int count = 0;
    for (char *at = line; *at;) {
        at += strspn(at, " ");
        const bool quoted = *at == '\'';
        at += quoted;
        if (!*at)
            break;
        cr_assert(count < MOST_WORDS, "too many words: %s", line);
        words[count++] = at;
        at += strcspn(at, quoted ? "'" : " ");
        if (*at)
            *at++ = '\0';
    }
    return count;
}

static void take(FILE *file, char *text, size_t size) {
    fflush(file);
    const ssize_t length = pread(fileno(file), text, size - 1, 0);
    text[length > 0 ? length : 0] = '\0';
    fclose(file);
}

void command_run(const char *line, command_result *result) {
    static char text[1 << 16];
    static char *words[MOST_WORDS + 2] = {(char *)"clattn"};
    FILE *const out = stdout, *const err = stderr;
    cr_assert(strlen(line) < sizeof text);
    snprintf(text, sizeof text, "%s", line);
    const int count = split(text, words + 1);
    words[count + 1] = NULL;
    fflush(out);
    memset(result, 0, sizeof *result);
    FILE *const to_out = tmpfile(), *const to_err = tmpfile(); /* processes of its own write there too */
    cr_assert(to_out && to_err);
    stdout = to_out;
    stderr = to_err;
    result->status = clattn_main(count + 1, words);
    stdout = out;
    stderr = err;
    take(to_out, result->out, sizeof result->out);
    take(to_err, result->err, sizeof result->err);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *at) {
    (void)info, (void)type, (void)at;
    return remove(path);
}

void command_folder(const char *name) {
    static char path[64];
    if (path[0])
        nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    path[0] = '\0';
    if (!name)
        return;
    snprintf(path, sizeof path, "/tmp/clattn-%s-XXXXXX", name);
    cr_assert(mkdtemp(path) && chdir(path) == 0, "%s", path);
}

void command_write(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

void command_write_npy(const char *path, const char *descr, const char *shape, size_t count, double value) {
    char header[120];
    const float real = (float)value;
    const int64_t whole = (int64_t)value;
    const int32_t narrow = (int32_t)value;
    const unsigned char byte = (unsigned char)value;
    FILE *file = fopen(path, "wb");
    const int n =
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s}\n", descr, shape);
    cr_assert(file && fprintf(file, "\x93NUMPY\x01%c%c%c%s", 0, n, 0, header) > 0, "%s", path);
    const bool is_real = descr[1] == 'f';
    const size_t size = (size_t)(descr[2] - '0');
    const void *const from = is_real     ? (size == 8 ? (const void *)&value : &real)
                             : size == 8 ? (const void *)&whole
                             : size == 4 ? (const void *)&narrow
                                         : &byte;
    for (size_t i = 0; i < count; i++)
        cr_assert(fwrite(from, size, 1, file) == 1);
    cr_assert(fclose(file) == 0, "%s", path);
}
