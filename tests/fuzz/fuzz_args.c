/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, one argument a line of the input: all that the program does before it has a device. Opening one
 * fails here, so nothing is computed; files are read, none is made. What goes wrong is told in lines that begin with
 * "clattn: ", with exit status 1 or 2. */
#define _GNU_SOURCE
#include "base/error.h"
#include "fuzz.h"

#include <CL/cl.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define main clattn_main
#include "main.c" /* NOLINT(bugprone-suspicious-include) */
#undef main

/* ---- what the linker puts in the place of the system's (--wrap), while the program runs ---- */

static bool inside;

clattn_status __wrap_clattn_context_create(const char *spec, const clattn_context_options *options,
                                           clattn_context **context);
cl_int __wrap_clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *count);
FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, int mode);
int __real_mkstemp(char *path);
int __wrap_mkstemp(char *path);
int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_system(const char *command);
int __wrap_system(const char *command);
FILE *__real_popen(const char *command, const char *mode);
FILE *__wrap_popen(const char *command, const char *mode);
pid_t __real_fork(void);
pid_t __wrap_fork(void);
void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);

static int no(void) {
    errno = EACCES;
    return -1;
}

clattn_status __wrap_clattn_context_create(const char *spec, const clattn_context_options *options,
                                           clattn_context **context) {
    (void)options;
    *context = NULL;
    return cla_error(CLATTN_E_NO_DEVICE, "no device \"%.40s\" here", spec ? spec : "");
}

cl_int __wrap_clGetPlatformIDs(cl_uint capacity, cl_platform_id *platforms, cl_uint *count) {
    (void)capacity, (void)platforms;
    *count = 0;
    return CL_SUCCESS;
}

/* What is no file may have no end. */
static bool may_read(const char *path, const char *mode) {
    struct stat info;
    return mode[0] == 'r' && stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

FILE *__wrap_fopen(const char *path, const char *mode) {
    return !inside || may_read(path, mode) ? __real_fopen(path, mode) : (no(), NULL);
}
int __wrap_open(const char *path, int flags, int mode) {
    return inside && (flags & O_CREAT) ? no() : __real_open(path, flags, mode);
}
int __wrap_mkstemp(char *path) { return inside ? no() : __real_mkstemp(path); }
int __wrap_mkdir(const char *path, mode_t mode) { return inside ? no() : __real_mkdir(path, mode); }
int __wrap_rename(const char *from, const char *to) { return inside ? no() : __real_rename(from, to); }
int __wrap_unlink(const char *path) { return inside ? no() : __real_unlink(path); }
int __wrap_system(const char *command) { return inside ? 0 : __real_system(command); }
FILE *__wrap_popen(const char *command, const char *mode) {
    return inside ? (no(), NULL) : __real_popen(command, mode);
}
pid_t __wrap_fork(void) { return inside ? no() : __real_fork(); }
void *__wrap_dlopen(const char *path, int flags) { return inside ? NULL : __real_dlopen(path, flags); }

/* ---- files that an argument may name ---- */

static void write_text(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0, "%s", path);
}

static void write_npy(const char *path, const char *descr, const char *shape, size_t bytes) {
    char header[128];
    FILE *file = fopen(path, "wb");
    const int n = snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s}", descr, shape);
    FUZZ_CHECK(file && fprintf(file, "\x93NUMPY\x01%c%c%c%s", 0, n, 0, header) > 0, "%s", path);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i % 3), file);
    FUZZ_CHECK(fclose(file) == 0, "%s", path);
}

static void make_files(void) {
    static const char text[] = "a\nb\n\xc3\xa9\n";
    write_npy("q.npy", "<f4", "(2, 4, 3, 8)", 2 * 4 * 3 * 8 * 4);
    write_npy("k.npy", "<f4", "(2, 2, 5, 8)", 2 * 2 * 5 * 8 * 4);
    write_npy("v.npy", "<f2", "(2, 2, 5, 8)", 2 * 2 * 5 * 8 * 2);
    write_npy("flat.npy", "<f4", "(3, 32)", 3 * 32 * 4);
    write_npy("mask.npy", "|b1", "(3, 5)", 15);
    write_npy("bias.npy", "<f8", "(4, 3, 5)", 4 * 3 * 5 * 8);
    write_npy("n.npy", "<i8", "(2,)", 16);
    write_npy("t.npy", "<i4", "(2, 1)", 8);
    write_text("labels.txt", text);
    write_text("problems.txt", "a: b1 h2 n16 d8 f32 causal # first\nbackward n8 d8; 1\nlinear m8 n8 k8\n");
}

/* ---- one command line ---- */

enum { MOST_ARGS = 40, MOST_TEXT = 1 << 16 };

/* doctor finds problems, and tells them on stdout. */
static void check_report(int exit_status, const char *text, const char *named) {
    FUZZ_CHECK(exit_status >= 0 && exit_status <= 2, "exit status %d", exit_status);
    if (exit_status == 0 || !named)
        return;
    FUZZ_CHECK(text[0] || (exit_status == 1 && strcmp(named, "doctor") == 0), "exit status %d without a word",
               exit_status);
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        FUZZ_CHECK(strncmp(line, "clattn: ", 8) == 0, "%s", line);
        FUZZ_CHECK(strchr(line, '\n'), "a line without an end: %s", line);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char report[MOST_TEXT];
    static bool ready;
    char *argv[MOST_ARGS + 2] = {"clattn"}, *text = malloc(size + 1);
    int argc = 1;
    if (!ready) {
        const char *folder = fuzz_path("");
        FUZZ_CHECK(chdir(folder) == 0 && setenv("CLATTN_CACHE_DIR", "off", 1) == 0, "%s", folder);
        setenv("CLATTN_TUNING_FILE", "off", 1);
        make_files();
        ready = true;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; size > 0 && at && argc <= MOST_ARGS; argc++) {
        argv[argc] = at;
        at = strchr(at, '\n');
        if (at)
            *at++ = '\0';
    }
    FILE *const out = stdout, *const err = stderr;
    memset(report, 0, sizeof report);
    stdout = fopen("/dev/null", "wb");
    stderr = fmemopen(report, sizeof report - 1, "w");
    inside = true;
    const int exit_status = stdout && stderr ? clattn_main(argc, argv) : -1;
    inside = false;
    fclose(stdout);
    fclose(stderr);
    stdout = out;
    stderr = err;
    check_report(exit_status, report, argc > 1 ? argv[1] : NULL);
    free(text);
    return 0;
}
