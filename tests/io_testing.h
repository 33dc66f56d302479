/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of files: a fresh folder for each test, bytes to and from files in it, and damage. Include first: it
 * asks for POSIX. */
#ifndef IO_TESTING_H
#define IO_TESTING_H

#define _XOPEN_SOURCE 700
#include "testing.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define TEMP_PATH 300
static char temp_dir[200];

static inline void temp_dir_make(void) {
    const char *base = getenv("TMPDIR");
    snprintf(temp_dir, sizeof temp_dir, "%s/clattn-test-XXXXXX", base && strlen(base) < 150 ? base : "/tmp");
    cr_assert_not_null(mkdtemp(temp_dir));
}

/* The path of a name in the folder, in one of four places that are used in turn. */
static inline const char *temp_path(const char *name) {
    static char paths[4][TEMP_PATH];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, TEMP_PATH, "%s/%s", temp_dir, name);
    return path;
}

/* Entries of the folder, hidden ones too. */
static inline int temp_dir_count(void) {
    int n = 0;
    DIR *dir = opendir(temp_dir);
    cr_assert_not_null(dir);
    for (const struct dirent *e; (e = readdir(dir));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static inline void temp_dir_remove(void) {
    DIR *dir = opendir(temp_dir);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            char path[sizeof temp_dir + sizeof e->d_name];
            snprintf(path, sizeof path, "%s/%s", temp_dir, e->d_name);
            if (unlink(path) != 0)
                rmdir(path);
        }
    if (dir)
        closedir(dir);
    rmdir(temp_dir);
}

/* Writes bytes to a file of the folder; returns its path. */
static inline const char *temp_write(const char *name, const void *data, size_t bytes) {
    const char *path = temp_path(name);
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f, "%s", path);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    cr_assert_eq(fclose(f), 0);
    return path;
}

/* At most capacity bytes of a file; returns how many. */
static inline size_t temp_read(const char *path, void *data, size_t capacity) {
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f, "%s", path);
    const size_t n = fread(data, 1, capacity, f);
    fclose(f);
    return n;
}

/* The same numbers in every run. */
static inline unsigned temp_random(unsigned *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state;
}

/* Changes 1 to 4 places: a bit, a byte, a cut, a doubled or a lost stretch. Returns the new length, <= capacity. */
static inline size_t temp_mutate(unsigned char *data, size_t length, size_t capacity, unsigned *state) {
    static const unsigned char odd[] = "\x00\xff\x7f\x80 \n09{}[](),:'\"\\<>|-eTtFu";
    for (unsigned times = temp_random(state) % 4 + 1; times > 0 && length > 0; times--) {
        const size_t at = temp_random(state) % length, n = temp_random(state) % 8 + 1;
        switch (temp_random(state) % 6) {
        case 0:
            data[at] ^= (unsigned char)(1u << temp_random(state) % 8);
            break;
        case 1:
            data[at] = (unsigned char)temp_random(state);
            break;
        case 2:
            data[at] = odd[temp_random(state) % (sizeof odd - 1)];
            break;
        case 3:
            length = temp_random(state) % 8 == 0 ? at : length;
            break;
        case 4:
            if (length + n <= capacity && at + n <= length) {
                memmove(data + at + n, data + at, length - at);
                length += n;
            }
            break;
        default:
            if (at + n <= length) {
                memmove(data + at, data + at + n, length - at - n);
                length -= n;
            }
        }
    }
    return length;
}

#endif
