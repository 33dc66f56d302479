/* SPDX-License-Identifier: Apache-2.0 */
/* A file: header, key, note, bytes. Its name is the hash of its key, its checksum covers all but itself. */
#define _XOPEN_SOURCE 700 /* POSIX 2008 */
#include "runtime/disk_cache.h"

#include "base/mem.h"
#include "base/sha256.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FORMAT = 1, NAME_DIGITS = 32, PATH_SIZE = 4096, STALE_SECONDS = 3600 };
static const char magic[8] = "CLATTNPB", suffix[] = ".clprog", staged[] = "tmp-";

typedef struct header {
    char magic[8];
    uint32_t format, header_bytes;
    uint64_t key_bytes, note_bytes, size; /* the note with its terminating zero */
    unsigned char checksum[CLA_SHA256_BYTES];
} header;

bool cla_disk_path(const char *folder, const char *key, char *path, size_t size) {
    unsigned char digest[CLA_SHA256_BYTES];
    char name[NAME_DIGITS + 1];
    cla_sha256 hash;
    cla_sha256_begin(&hash);
    cla_sha256_add(&hash, key, strlen(key));
    cla_sha256_end(&hash, digest);
    for (int i = 0; i < NAME_DIGITS / 2; i++)
        snprintf(name + 2 * i, 3, "%02x", digest[i]);
    const int n = snprintf(path, size, "%s/%s%s", folder, name, suffix);
    return n > 0 && (size_t)n < size;
}

static void checksum_of(const header *h, const char *key, const char *note, const void *bytes, unsigned char *digest) {
    cla_sha256 hash;
    cla_sha256_begin(&hash);
    cla_sha256_add(&hash, h, offsetof(header, checksum));
    cla_sha256_add(&hash, key, (size_t)h->key_bytes);
    cla_sha256_add(&hash, note, (size_t)h->note_bytes);
    cla_sha256_add(&hash, bytes, (size_t)h->size);
    cla_sha256_end(&hash, digest);
}

/* ---- reading ---- */

/* All of a file that this user owns: an entry becomes code of the process. */
static bool read_all(const char *path, unsigned char **out, size_t *size) {
    struct stat info;
    unsigned char *data = NULL;
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe would wait for its writer */
    FILE *f = fd < 0 ? NULL : fdopen(fd, "rb");
    bool good = f && fstat(fileno(f), &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
                info.st_size >= (off_t)sizeof(header) && (uint64_t)info.st_size <= CLA_DISK_LIMIT;
    if (good) {
        *size = (size_t)info.st_size;
        good = cla_alloc(*size, 1, "entry of the cache", &data) == CLATTN_OK && fread(data, 1, *size, f) == *size;
    }
    if (good)
        futimens(fileno(f), NULL);
    if (f)
        fclose(f);
    else if (fd >= 0)
        close(fd);
    if (!good)
        cla_free(data);
    *out = good ? data : NULL;
    return good;
}

static bool is_whole(const header *h, const unsigned char *rest, size_t bytes, const char *key) {
    unsigned char digest[CLA_SHA256_BYTES];
    if (memcmp(h->magic, magic, sizeof magic) != 0 || h->format != FORMAT || h->header_bytes != sizeof *h)
        return false;
    if (h->key_bytes != strlen(key) || h->key_bytes > bytes || h->note_bytes > bytes - h->key_bytes ||
        h->size != bytes - h->key_bytes - h->note_bytes || h->note_bytes == 0)
        return false;
    const char *note = (const char *)rest + h->key_bytes;
    checksum_of(h, (const char *)rest, note, note + h->note_bytes, digest);
    return memcmp(digest, h->checksum, sizeof digest) == 0 && memcmp(rest, key, (size_t)h->key_bytes) == 0 &&
           note[h->note_bytes - 1] == '\0';
}

bool cla_disk_load(const char *folder, const char *key, cla_disk_entry *entry) {
    char path[PATH_SIZE];
    unsigned char *data = NULL;
    size_t size = 0;
    header h;
    *entry = (cla_disk_entry){0};
    if (!cla_disk_path(folder, key, path, sizeof path) || !read_all(path, &data, &size))
        return false;
    memcpy(&h, data, sizeof h);
    unsigned char *rest = data + sizeof h;
    if (!is_whole(&h, rest, size - sizeof h, key)) {
        cla_free(data);
        return false;
    }
    *entry = (cla_disk_entry){.note = (char *)rest + h.key_bytes,
                              .bytes = rest + h.key_bytes + h.note_bytes,
                              .size = (size_t)h.size,
                              .storage = data};
    return true;
}

void cla_disk_entry_free(cla_disk_entry *entry) {
    cla_free(entry->storage);
    *entry = (cla_disk_entry){0};
}

/* ---- writing ---- */

bool cla_disk_make_folder(const char *folder) {
    char path[PATH_SIZE];
    const int n = snprintf(path, sizeof path, "%s", folder);
    if (n <= 0 || (size_t)n >= sizeof path)
        return false;
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        mkdir(path, 0700);
        *at = '/';
    }
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

bool cla_disk_store(const char *folder, const char *key, const char *note, const void *bytes, size_t size) {
    char path[PATH_SIZE], temporary[PATH_SIZE];
    header h = {.format = FORMAT, .header_bytes = sizeof h, .key_bytes = strlen(key), .size = size};
    h.note_bytes = strlen(note) + 1;
    memcpy(h.magic, magic, sizeof magic);
    checksum_of(&h, key, note, bytes, h.checksum);
    const int n = snprintf(temporary, sizeof temporary, "%s/%sXXXXXX", folder, staged);
    if (n <= 0 || (size_t)n >= sizeof temporary || !cla_disk_path(folder, key, path, sizeof path) ||
        !cla_disk_make_folder(folder))
        return false;
    const int fd = mkstemp(temporary);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "wb");
    bool good = f && fwrite(&h, sizeof h, 1, f) == 1 && fwrite(key, 1, strlen(key), f) == strlen(key) &&
                fwrite(note, 1, strlen(note) + 1, f) == strlen(note) + 1 && fwrite(bytes, 1, size, f) == size;
    if (f)
        good = fclose(f) == 0 && good;
    else if (fd >= 0)
        close(fd);
    good = good && rename(temporary, path) == 0;
    if (!good && fd >= 0)
        unlink(temporary);
    return good;
}

/* ---- bounds ---- */

typedef struct file {
    char name[64];
    struct timespec used;
    uint64_t bytes;
} file;

static int by_use(const void *a, const void *b) {
    const struct timespec *x = &((const file *)a)->used, *y = &((const file *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return x->tv_nsec < y->tv_nsec ? -1 : x->tv_nsec > y->tv_nsec;
}

static bool is_entry(const char *name) {
    return strlen(name) == NAME_DIGITS + sizeof suffix - 1 && strspn(name, "0123456789abcdef") == NAME_DIGITS &&
           strcmp(name + NAME_DIGITS, suffix) == 0;
}

static bool is_staged(const char *name) {
    return strncmp(name, staged, sizeof staged - 1) == 0 && strlen(name) == sizeof staged - 1 + 6;
}

/* The folder's entries; staged files that nobody can be writing any more are removed. NULL: none, or no memory. */
static file *list_files(const char *folder, size_t *count) {
    char path[PATH_SIZE];
    file *list = NULL;
    size_t n = 0, capacity = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        struct stat info;
        const bool stage = is_staged(e->d_name);
        const int length = snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        if ((!stage && !is_entry(e->d_name)) || length <= 0 || (size_t)length >= sizeof path || lstat(path, &info) != 0)
            continue;
        if (stage) {
            if (time(NULL) - info.st_mtime > STALE_SECONDS)
                unlink(path);
            continue;
        }
        if (n == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            if (cla_realloc(&list, capacity, sizeof *list, "list of the cache") != CLATTN_OK)
                break;
        }
        list[n] = (file){.used = info.st_mtim, .bytes = (uint64_t)info.st_size};
        snprintf(list[n++].name, sizeof list->name, "%.60s", e->d_name);
    }
    if (dir)
        closedir(dir);
    *count = n;
    return list;
}

void cla_disk_trim(const char *folder, uint64_t limit) {
    char path[PATH_SIZE];
    size_t count = 0;
    uint64_t total = 0;
    file *list = list_files(folder, &count);
    for (size_t i = 0; i < count; i++)
        total += list[i].bytes;
    if (total > limit)
        qsort(list, count, sizeof *list, by_use);
    for (size_t i = 0; i < count && total > limit; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list[i].name);
        unlink(path);
        total -= list[i].bytes;
    }
    cla_free(list);
}
