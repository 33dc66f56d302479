/* SPDX-License-Identifier: Apache-2.0 */
#define _XOPEN_SOURCE 700 /* stat, access, getpid, realpath */

#include "outputs.h"

#include "args.h"
#include "interrupt.h"
#include "outputs_kept.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* The length of the file's path in "FILE.safetensors:NAME", and where NAME starts (NULL: none). */
static size_t split_spec(const char *spec, const char **name) {
    static const char mark[] = ".safetensors:";
    const char *at = ends_with(spec, ".npy") ? NULL : strstr(spec, mark);
    *name = at ? at + sizeof mark - 1 : NULL;
    return at ? (size_t)(at - spec) + sizeof mark - 2 : strlen(spec);
}

static char *copy_text(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    if (copy) {
        memcpy(copy, text, length);
        copy[length] = '\0';
    }
    return copy;
}

/* "dir/.clattn-PID-N.ext" beside the place. */
static char *hidden_name(const char *path, int number) {
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    const size_t directory = slash ? (size_t)(slash - path) + 1 : 0, size = strlen(path) + 64;
    char *name = malloc(size);
    if (name)
        snprintf(name, size, "%.*s.clattn-%ld-%d%s", (int)directory, path, (long)getpid(), number, dot ? dot : "");
    return name;
}

int cla_outputs_add_file(cla_outputs *outputs, const char *option, const char *path, int *index) {
    *index = -1;
    if (!path)
        return CLA_EXIT_OK;
    cla_output *f = &outputs->files[outputs->count];
    *f = (cla_output){.option = option, .path = copy_text(path, strlen(path))};
    *index = outputs->count++;
    return f->path ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "%s: out of memory for a file name", option);
}

int cla_outputs_add(cla_outputs *outputs, const char *option, const char *spec, const char *default_name, int *index) {
    *index = -1;
    if (!spec)
        return CLA_EXIT_OK;
    const char *name;
    const size_t length = split_spec(spec, &name);
    char *path = copy_text(spec, length);
    if (!path)
        return cla_fail(CLA_EXIT_FAILED, "%s: out of memory for a file name", option);
    int exit_status = CLA_EXIT_OK;
    if (!ends_with(path, ".npy") && !ends_with(path, ".safetensors"))
        exit_status = cla_fail(CLA_EXIT_USAGE, "%s %s: a tensor file is X.npy or FILE.safetensors:NAME", option, spec);
    else if (name && !*name)
        exit_status = cla_fail(CLA_EXIT_USAGE, "%s %s: the tensor's name behind the colon is empty", option, spec);
    else
        exit_status = cla_outputs_add_file(outputs, option, path, index);
    if (exit_status == CLA_EXIT_OK && ends_with(path, ".safetensors"))
        outputs->files[*index].name = name ? name : default_name;
    free(path);
    return exit_status;
}

/* ---- checks before the work ---- */

static bool same_file(const char *a, const char *b) {
    struct stat of_a, of_b;
    if (strcmp(a, b) == 0)
        return true;
    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

static int fail_place(const cla_output *f, const char *why) {
    return cla_fail(CLA_EXIT_FAILED, "%s %s cannot be written: %s", f->option, f->path, why);
}

/* Links followed to where the file is, or will be. */
static int find_target(cla_output *f) {
    struct stat info;
    if (lstat(f->path, &info) != 0 || !S_ISLNK(info.st_mode)) {
        f->target = copy_text(f->path, strlen(f->path));
        return f->target ? CLA_EXIT_OK : fail_place(f, "out of memory for its name");
    }
    f->target = realpath(f->path, NULL);
    return f->target ? CLA_EXIT_OK : fail_place(f, "it is a link that leads nowhere");
}

/* A tensor goes into a safetensors file that is there beside what that holds. */
static int check_kept(const cla_output *f) {
    char *unreadable;
    const clattn_status status = cla_kept_check(f->target, &unreadable);
    int exit_status = CLA_EXIT_OK;
    if (status == CLATTN_E_DTYPE)
        exit_status = cla_fail(CLA_EXIT_FAILED,
                               "%s %s is there, and its tensor %s is of a type that cannot be kept; write to another "
                               "file",
                               f->option, f->path, unreadable ? unreadable : "?");
    else if (status != CLATTN_OK)
        exit_status = cla_fail(CLA_EXIT_FAILED, "%s %s is there, and no tensor can be added to it: %s", f->option,
                               f->path, clattn_last_error());
    free(unreadable);
    return exit_status;
}

/* A file that is there may be replaced: it is no folder, and not read-only, not even for one who may do everything. */
static int check_file(const cla_output *f) {
    struct stat info;
    if (stat(f->target, &info) != 0)
        return CLA_EXIT_OK;
    if (!S_ISREG(info.st_mode))
        return fail_place(f, "it is there, and is no file");
    if (!(info.st_mode & (S_IWUSR | S_IWGRP | S_IWOTH)) || access(f->target, W_OK) != 0)
        return fail_place(f, "it is there, and is read-only");
    return f->name ? check_kept(f) : CLA_EXIT_OK;
}

static int check_place(cla_output *f) {
    struct stat info;
    int exit_status = find_target(f);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const char *slash = strrchr(f->target, '/');
    char *directory = slash ? copy_text(f->target, (size_t)(slash - f->target) + 1) : copy_text(".", 1);
    if (!directory)
        return cla_fail(CLA_EXIT_FAILED, "%s: out of memory for a file name", f->option);
    if (stat(directory, &info) != 0 || !S_ISDIR(info.st_mode))
        exit_status =
            cla_fail(CLA_EXIT_FAILED, "%s %s cannot be written: there is no folder %s", f->option, f->path, directory);
    else if (access(directory, W_OK | X_OK) != 0)
        exit_status = cla_fail(CLA_EXIT_FAILED, "%s %s cannot be written: no right to write in %s", f->option, f->path,
                               directory);
    else
        exit_status = check_file(f);
    free(directory);
    return exit_status;
}

/* O_EXCL: whatever else writes here, links among it, the name is ours. It keeps the rights of the file it replaces. */
static int make_staged(cla_output *f) {
    enum { TRIES = 10000 };
    struct stat info;
    const mode_t mode = stat(f->target, &info) == 0 ? info.st_mode & 0777 : 0;
    int descriptor = -1;
    for (int i = 0; i < TRIES && descriptor < 0; i++) {
        free(f->staged);
        f->staged = hidden_name(f->target, i);
        if (!f->staged)
            return fail_place(f, "out of memory for its name");
        descriptor = open(f->staged, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (descriptor < 0 && errno != EEXIST && errno != EINTR)
            break;
    }
    const int code = errno;
    if (descriptor < 0) { /* none of ours */
        free(f->staged);
        f->staged = NULL;
        return fail_place(f, strerror(code));
    }
    cla_interrupt_remove(f->staged);
    const bool kept = !mode || fchmod(descriptor, mode) == 0;
    close(descriptor);
    return kept ? CLA_EXIT_OK : fail_place(f, "its rights cannot be kept");
}

/* Two tensors may share a safetensors file when their names differ. */
static int check_pair(const cla_output *a, const cla_output *b) {
    if (!same_file(a->path, b->path))
        return CLA_EXIT_OK;
    if (a->name && b->name && strcmp(a->name, b->name) != 0)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE, "%s and %s would write to the same place, %s%s%s", a->option, b->option, b->path,
                    b->name ? ":" : "", b->name ? b->name : "");
}

static int check_input(const cla_output *f, const char *spec) {
    const char *name;
    char *path = copy_text(spec, split_spec(spec, &name));
    if (!path)
        return cla_fail(CLA_EXIT_FAILED, "%s: out of memory for a file name", f->option);
    const bool same = same_file(f->path, path);
    free(path);
    if (!same)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE, "%s %s would replace the file that %s is read from; write to another file",
                    f->option, f->path, spec);
}

int cla_outputs_check(cla_outputs *outputs, const char *const *inputs, int input_count) {
    int exit_status = CLA_EXIT_OK;
    for (int i = 0; i < outputs->count && exit_status == CLA_EXIT_OK; i++) {
        cla_output *f = &outputs->files[i];
        exit_status = check_place(f);
        for (int j = 0; j < i && exit_status == CLA_EXIT_OK; j++)
            exit_status = check_pair(&outputs->files[j], f);
        for (int j = 0; j < input_count && exit_status == CLA_EXIT_OK; j++)
            if (inputs[j])
                exit_status = check_input(f, inputs[j]);
    }
    for (int i = 0; i < outputs->count && exit_status == CLA_EXIT_OK; i++)
        exit_status = make_staged(&outputs->files[i]);
    return exit_status;
}

/* ---- writing ---- */

void cla_outputs_set(cla_outputs *outputs, int index, const clattn_array *array) {
    if (index >= 0)
        outputs->arrays[index] = *array;
}

/* Whether an earlier entry writes this one's tensor with its own. */
static bool joined(const cla_outputs *outputs, int i) {
    for (int j = 0; j < i; j++)
        if (outputs->files[j].name && outputs->files[i].name &&
            same_file(outputs->files[j].path, outputs->files[i].path))
            return true;
    return false;
}

static clattn_status stage_tensors(cla_outputs *outputs, int i) {
    const cla_output *f = &outputs->files[i];
    if (!f->name)
        return clattn_npy_write(f->staged, &outputs->arrays[i]);
    clattn_named_array named[CLA_OUTPUTS_MAX];
    size_t count = 0;
    for (int j = i; j < outputs->count; j++)
        if (outputs->files[j].name && same_file(outputs->files[j].path, f->path))
            named[count++] = (clattn_named_array){outputs->files[j].name, outputs->arrays[j]};
    return cla_kept_write(f->target, f->staged, named, count);
}

int cla_outputs_stage(cla_outputs *outputs) {
    for (int i = 0; i < outputs->count; i++) {
        cla_output *f = &outputs->files[i];
        if (!outputs->arrays[i].data || joined(outputs, i))
            continue;
        const clattn_status status = stage_tensors(outputs, i);
        if (status != CLATTN_OK)
            return cla_fail(CLA_EXIT_FAILED, "%s %s: %s", f->option, f->path, clattn_last_error());
        f->complete = true;
    }
    return CLA_EXIT_OK;
}

/* The older file gets a second name, or where the file system has none another one. */
static int keep_older(cla_output *f) {
    enum { TRIES = 10000 };
    struct stat info;
    if (lstat(f->target, &info) != 0)
        return CLA_EXIT_OK;
    for (int i = 0; i < TRIES; i++) {
        free(f->backup);
        f->backup = hidden_name(f->target, TRIES + i);
        if (!f->backup)
            return fail_place(f, "out of memory for its name");
        if (link(f->target, f->backup) == 0)
            return CLA_EXIT_OK;
        if (errno == EEXIST)
            continue;
        if (S_ISREG(info.st_mode) && lstat(f->backup, &info) != 0 && rename(f->target, f->backup) == 0)
            return CLA_EXIT_OK;
        break;
    }
    const int code = errno;
    free(f->backup);
    f->backup = NULL;
    return fail_place(f, strerror(code));
}

static int put_in_place(cla_output *f) {
    const int exit_status = keep_older(f);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (rename(f->staged, f->target) != 0)
        return fail_place(f, strerror(errno));
    cla_interrupt_forget(f->staged);
    f->placed = true;
    f->complete = false;
    return CLA_EXIT_OK;
}

/* As before the commit. An older file that cannot have its place back keeps its other name. */
static void take_back(cla_output *f) {
    if (f->backup && rename(f->backup, f->target) != 0) {
        free(f->backup);
        f->backup = NULL;
    } else if (!f->backup && f->placed) {
        unlink(f->target);
    }
    f->placed = false;
}

int cla_outputs_commit(cla_outputs *outputs) {
    int exit_status = CLA_EXIT_OK;
    for (int i = 0; i < outputs->count && exit_status == CLA_EXIT_OK; i++)
        if (outputs->files[i].complete)
            exit_status = put_in_place(&outputs->files[i]);
    for (int i = 0; i < outputs->count; i++) {
        cla_output *f = &outputs->files[i];
        if (exit_status != CLA_EXIT_OK)
            take_back(f);
        if (f->backup)
            unlink(f->backup); /* a second name of the file in place, where it was taken back: rename leaves both */
        free(f->backup);
        f->backup = NULL;
    }
    return exit_status;
}

void cla_outputs_free(cla_outputs *outputs) {
    for (int i = 0; i < outputs->count; i++) {
        cla_output *f = &outputs->files[i];
        if (f->staged && !f->placed)
            unlink(f->staged);
        cla_interrupt_forget(f->staged);
        free(f->staged);
        free(f->target);
        free(f->path);
    }
    *outputs = (cla_outputs){0};
}
