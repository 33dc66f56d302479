/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* POSIX 2008 with realpath */
#include "train_out.h"

#include "complain.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder, up to its last slash, and a name in it. */
static char *join(const char *folder, size_t length, const char *name) {
    char *path = malloc(length + strlen(name) + 1);
    if (path) {
        memcpy(path, folder, length);
        strcpy(path + length, name);
    }
    return path;
}

static size_t folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) + 1 : 0;
}

/* The path without links, of a file or of the name that one may get; NULL: errno says why, a link to nothing too. */
static char *resolve(const char *path) {
    struct stat info;
    char *whole = realpath(path, NULL);
    if (whole || errno != ENOENT || lstat(path, &info) == 0 || errno != ENOENT)
        return whole;
    const size_t length = folder_of(path);
    char *folder = length > 0 ? join(path, length, ".") : join("./", 2, "");
    char *real = folder ? realpath(folder, NULL) : NULL;
    char *within = real ? join(real, strlen(real), "/") : NULL;
    whole = within ? join(within, strlen(within), path + length) : NULL;
    free(folder);
    free(real);
    free(within);
    return whole;
}

static bool cannot(const char *path) { return complain("%s cannot be written: %s", path, strerror(errno)); }

/* *mode is that of the file there, 0 where there is none. */
static bool find_target(out_file *f, mode_t *mode) {
    struct stat info;
    *mode = 0;
    f->target = resolve(f->path);
    if (!f->target)
        return cannot(f->path);
    if (stat(f->target, &info) != 0)
        return errno == ENOENT || cannot(f->path);
    if (!S_ISREG(info.st_mode))
        return complain("%s cannot be written: it is no regular file", f->path);
    *mode = info.st_mode & 0777;
    return access(f->target, W_OK) == 0 || cannot(f->path);
}

/* A name that nothing has, whatever else runs. */
static bool stage(out_file *f, mode_t mode) {
    enum { TRIES = 1000 };
    char name[64];
    int descriptor = -1;
    for (int i = 0; i < TRIES && descriptor < 0; i++) {
        free(f->staged);
        snprintf(name, sizeof name, ".train-%ld-%d.tmp", (long)getpid(), i);
        f->staged = join(f->target, folder_of(f->target), name);
        descriptor = f->staged ? open(f->staged, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666) : -1;
        if (descriptor < 0 && errno != EEXIST)
            break;
    }
    if (descriptor < 0)
        return cannot(f->path);
    if ((mode == 0 || fchmod(descriptor, mode) == 0) && (f->stream = fdopen(descriptor, "w")))
        return true;
    cannot(f->path);
    close(descriptor);
    unlink(f->staged);
    return false;
}

static void forget(out_file *f) {
    free(f->target);
    free(f->staged);
    *f = (out_file){0};
}

bool out_open(const char *path, out_file *f) {
    mode_t mode = 0;
    *f = (out_file){.path = path};
    if (find_target(f, &mode) && stage(f, mode))
        return true;
    forget(f);
    return false;
}

bool out_close(out_file *f) {
    const bool failed = ferror(f->stream) != 0;
    bool ok = fclose(f->stream) == 0 && !failed;
    ok = (ok && rename(f->staged, f->target) == 0) || cannot(f->path);
    if (!ok)
        unlink(f->staged);
    forget(f);
    return ok;
}

bool out_check(const char *path) {
    out_file f;
    if (!path)
        return true;
    if (!out_open(path, &f))
        return false;
    fclose(f.stream);
    unlink(f.staged);
    forget(&f);
    return true;
}

bool out_is_same(const char *a, const char *b) {
    struct stat of_a, of_b;
    char *whole_a = a && b ? resolve(a) : NULL, *whole_b = a && b ? resolve(b) : NULL;
    const bool same = whole_a && whole_b &&
                      (strcmp(whole_a, whole_b) == 0 || (stat(whole_a, &of_a) == 0 && stat(whole_b, &of_b) == 0 &&
                                                         of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino));
    free(whole_a);
    free(whole_b);
    return same;
}
