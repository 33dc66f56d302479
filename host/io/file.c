/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* POSIX 2008 with realpath */
#define _FILE_OFFSET_BITS 64
#include "io/file.h"

#include "base/mem.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static clattn_status system_error(const char *path, const char *what) {
    const int code = errno;
    char text[128];
    if (strerror_r(code, text, sizeof text) != 0)
        snprintf(text, sizeof text, "error %d", code);
    return cla_error(CLATTN_E_IO, "%s: %s: %s", path, what, text);
}

static clattn_status not_regular(const char *path, mode_t mode) {
    return cla_error(CLATTN_E_IO, "%s: is %s; name a regular file", path,
                     S_ISDIR(mode) ? "a folder" : "a pipe, socket or device");
}

static clattn_status copy_text(const char *from, char **to) {
    const clattn_status status = cla_alloc(strlen(from) + 1, 1, "path", to);
    if (status == CLATTN_OK)
        strcpy(*to, from);
    return status;
}

/* ---- reading ---- */

clattn_status cla_file_open(const char *path, cla_file **out) {
    clattn_status status = CLATTN_OK;
    cla_file *file = NULL;
    struct stat info;
    *out = NULL;
    CLA_CHECK(path && *path, CLATTN_E_ARGUMENT, "read: the path is %s", path ? "empty" : "NULL");
    CLA_TRY(cla_alloc(1, sizeof *file, "file", &file));
    file->descriptor = -1;
    CLA_TRY(copy_text(path, &file->path));
    do /* O_NONBLOCK: a pipe without a writer must not hang here */
        file->descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    while (file->descriptor < 0 && errno == EINTR);
    CLA_TRY(file->descriptor < 0 ? system_error(path, "cannot be opened") : CLATTN_OK);
    CLA_TRY(fstat(file->descriptor, &info) != 0 ? system_error(path, "has no size") : CLATTN_OK);
    CLA_TRY(S_ISREG(info.st_mode) ? CLATTN_OK : not_regular(path, info.st_mode));
    file->bytes = (int64_t)info.st_size;
    *out = file;
    file = NULL;
done:
    cla_file_close(file);
    return status;
}

void cla_file_close(cla_file *file) {
    if (!file)
        return;
    if (file->descriptor >= 0)
        close(file->descriptor);
    cla_free(file->path);
    cla_free(file);
}

clattn_status cla_file_read(const cla_file *file, int64_t offset, void *to, size_t bytes) {
    size_t got = 0;
    while (got < bytes) {
        const ssize_t n = pread(file->descriptor, (char *)to + got, bytes - got, (off_t)(offset + (int64_t)got));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error(file->path, "cannot be read");
        if (n == 0)
            return cla_error(CLATTN_E_IO,
                             "%s: gave %zu of the %zu bytes at %lld, though it had %lld bytes when it was opened: "
                             "it was cut meanwhile",
                             file->path, got, bytes, (long long)offset, (long long)file->bytes);
        got += (size_t)n;
    }
    return CLATTN_OK;
}

/* ---- writing ---- */

struct cla_writer {
    int descriptor;
    char *path, *temporary; /* temporary: NULL when there is none (any more) */
};

/* The path that rename may replace: links followed, and nothing there but a regular file that may be written.
 * *mode is that file's, or 0 when there is none. */
static clattn_status find_target(const char *path, char **target, mode_t *mode) {
    struct stat info;
    *mode = 0;
    if (lstat(path, &info) != 0)
        return errno == ENOENT ? copy_text(path, target) : system_error(path, "cannot be written");
    if (S_ISLNK(info.st_mode)) {
        *target = realpath(path, NULL);
        if (!*target || stat(*target, &info) != 0)
            return system_error(path, "is a link that cannot be followed");
    } else {
        const clattn_status status = copy_text(path, target);
        if (status != CLATTN_OK)
            return status;
    }
    if (!S_ISREG(info.st_mode))
        return not_regular(path, info.st_mode);
    if (access(*target, W_OK) != 0)
        return system_error(path, "cannot be written");
    *mode = info.st_mode & 0777;
    return CLATTN_OK;
}

/* O_EXCL makes the name ours, whatever other threads, processes or hosts (pids are not unique on a network disk) do;
 * files that a killed process left behind are passed over. */
static clattn_status create_temporary(cla_writer *writer) {
    enum { NAME = 64, TRIES = 10000 };
    const char *slash = strrchr(writer->path, '/');
    const size_t folder = slash ? (size_t)(slash - writer->path) + 1 : 0;
    clattn_status status = cla_alloc(folder + NAME, 1, "path", &writer->temporary);
    if (status != CLATTN_OK)
        return status;
    memcpy(writer->temporary, writer->path, folder);
    for (int i = 0; i < TRIES && writer->descriptor < 0; i++) {
        snprintf(writer->temporary + folder, NAME, ".clattn-%ld-%d.tmp", (long)getpid(), i);
        writer->descriptor = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->descriptor < 0 && errno != EEXIST && errno != EINTR)
            break;
    }
    if (writer->descriptor < 0) {
        status = system_error(writer->path, "cannot be written (no new file in its folder)");
        cla_free(writer->temporary);
        writer->temporary = NULL;
    }
    return status;
}

clattn_status cla_writer_open(const char *path, cla_writer **out) {
    clattn_status status = CLATTN_OK;
    cla_writer *writer = NULL;
    mode_t mode;
    *out = NULL;
    CLA_CHECK(path && *path, CLATTN_E_ARGUMENT, "write: the path is %s", path ? "empty" : "NULL");
    CLA_TRY(cla_alloc(1, sizeof *writer, "file", &writer));
    writer->descriptor = -1;
    CLA_TRY(find_target(path, &writer->path, &mode));
    CLA_TRY(create_temporary(writer));
    CLA_TRY(mode && fchmod(writer->descriptor, mode) != 0 ? system_error(path, "cannot keep its rights") : CLATTN_OK);
    *out = writer;
    writer = NULL;
done:
    cla_writer_close(writer);
    return status;
}

clattn_status cla_writer_put(cla_writer *writer, const void *data, size_t bytes) {
    size_t put = 0;
    while (put < bytes) {
        const ssize_t n = write(writer->descriptor, (const char *)data + put, bytes - put);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return system_error(writer->path, "cannot be written");
        put += (size_t)n;
    }
    return CLATTN_OK;
}

clattn_status cla_writer_commit(cla_writer *writer) {
    const int descriptor = writer->descriptor;
    writer->descriptor = -1;
    if (close(descriptor) != 0)
        return system_error(writer->path, "cannot be written");
    if (rename(writer->temporary, writer->path) != 0)
        return system_error(writer->path, "cannot be replaced");
    cla_free(writer->temporary);
    writer->temporary = NULL;
    return CLATTN_OK;
}

void cla_writer_close(cla_writer *writer) {
    if (!writer)
        return;
    if (writer->descriptor >= 0)
        close(writer->descriptor);
    if (writer->temporary)
        unlink(writer->temporary);
    cla_free(writer->temporary);
    cla_free(writer->path);
    cla_free(writer);
}
