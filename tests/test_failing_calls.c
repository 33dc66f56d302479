/* SPDX-License-Identifier: Apache-2.0 */
/* Files, the tuner's record and the cache on disk while calls of the C library fail: each call that a run makes fails
 * in turn, with each error that it may have. Then there is a named error and the older file is as it was, or the run
 * did what it should; no other file and no descriptor is left. The linker puts these calls in between. */
#define _GNU_SOURCE
#include "gguf_files.h"
#include "runtime/disk_cache.h"
#include "runtime/tuning_file.h"
#include <clattn/status.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/file.h>
#include <sys/stat.h>

/* ---- calls that fail ---- */

typedef enum {
    ALLOC,
    OPEN,
    PREAD,
    READ,
    WRITE,
    FSTAT,
    LSTAT,
    STAT,
    ACCESS,
    FCHMOD,
    CLOSE,
    RENAME,
    FDOPEN,
    FWRITE,
    FREAD,
    FCLOSE,
    MKSTEMP,
    REALPATH,
    FLOCK,
    MKDIR,
    STRERROR,
    CALLS = STRERROR
} call; /* the last is no part of sweeps: it wants an error before */
static const struct {
    const char *name;
    int errors[3]; /* 0: no more */
} calls[CALLS] = {{"calloc or realloc", {ENOMEM}},
                  {"open", {EACCES, EINTR, EMFILE}},
                  {"pread", {EIO, EINTR}},
                  {"read", {EIO, EINTR}},
                  {"write", {ENOSPC, EINTR}},
                  {"fstat", {EIO}},
                  {"lstat", {EACCES}},
                  {"stat", {EACCES}},
                  {"access", {EACCES}},
                  {"fchmod", {EPERM}},
                  {"close", {EIO}},
                  {"rename", {EXDEV}},
                  {"fdopen", {ENOMEM}},
                  {"fwrite", {ENOSPC}},
                  {"fread", {EIO}},
                  {"fclose", {ENOSPC}},
                  {"mkstemp", {EACCES}},
                  {"realpath", {ELOOP}},
                  {"flock", {EIO, EINTR, ENOLCK}},
                  {"mkdir", {EROFS}}};

typedef struct {
    bool armed, fired;
    call kind;
    int nth, error; /* of the calls of the kind; the rest succeed */
} planned;
static planned fault;

static bool fails(call kind) {
    if (!fault.armed || kind != fault.kind || fault.nth-- != 0)
        return false;
    fault.fired = true;
    errno = fault.error;
    return true;
}

/* A wrapper with the arguments of the call. */
#define WRAP(type, name, kind, failure, parameters, arguments)                                                         \
    type __real_##name parameters;                                                                                     \
    type __wrap_##name parameters;                                                                                     \
    type __wrap_##name parameters { return fails(kind) ? (failure) : __real_##name arguments; }

WRAP(void *, calloc, ALLOC, NULL, (size_t n, size_t size), (n, size))
WRAP(void *, realloc, ALLOC, NULL, (void *p, size_t size), (p, size))
WRAP(ssize_t, pread, PREAD, -1, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
WRAP(ssize_t, pread64, PREAD, -1, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
WRAP(ssize_t, read, READ, -1, (int fd, void *to, size_t n), (fd, to, n))
WRAP(ssize_t, write, WRITE, -1, (int fd, const void *from, size_t n), (fd, from, n))
WRAP(int, fstat, FSTAT, -1, (int fd, struct stat *info), (fd, info))
WRAP(int, fstat64, FSTAT, -1, (int fd, struct stat *info), (fd, info))
WRAP(int, lstat, LSTAT, -1, (const char *path, struct stat *info), (path, info))
WRAP(int, lstat64, LSTAT, -1, (const char *path, struct stat *info), (path, info))
WRAP(int, stat, STAT, -1, (const char *path, struct stat *info), (path, info))
WRAP(int, stat64, STAT, -1, (const char *path, struct stat *info), (path, info))
WRAP(int, access, ACCESS, -1, (const char *path, int mode), (path, mode))
WRAP(int, fchmod, FCHMOD, -1, (int fd, mode_t mode), (fd, mode))
WRAP(int, rename, RENAME, -1, (const char *from, const char *to), (from, to))
WRAP(FILE *, fdopen, FDOPEN, NULL, (int fd, const char *mode), (fd, mode))
WRAP(size_t, fwrite, FWRITE, 0, (const void *from, size_t size, size_t n, FILE *f), (from, size, n, f))
WRAP(size_t, fread, FREAD, 0, (void *to, size_t size, size_t n, FILE *f), (to, size, n, f))
WRAP(int, mkstemp, MKSTEMP, -1, (char *name), (name))
WRAP(int, mkstemp64, MKSTEMP, -1, (char *name), (name))
WRAP(char *, realpath, REALPATH, NULL, (const char *path, char *to), (path, to))
WRAP(int, flock, FLOCK, -1, (int fd, int operation), (fd, operation))
WRAP(int, mkdir, MKDIR, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, __xpg_strerror_r, STRERROR, EINVAL, (int code, char *text, size_t size), (code, text, size))

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
    va_end(list);
    return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

int __wrap_open64(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const unsigned mode = flags & O_CREAT ? va_arg(list, unsigned) : 0;
    va_end(list);
    return fails(OPEN) ? -1 : __real_open(path, flags, mode);
}

/* What was open is closed also where these fail. */
int __real_close(int fd);
int __wrap_close(int fd);
int __real_fclose(FILE *f);
int __wrap_fclose(FILE *f);

int __wrap_close(int fd) {
    const bool failed = fails(CLOSE);
    const int result = __real_close(fd);
    errno = failed ? fault.error : errno;
    return failed ? -1 : result;
}

int __wrap_fclose(FILE *f) {
    const bool failed = fails(FCLOSE);
    const int result = __real_fclose(f);
    errno = failed ? fault.error : errno;
    return failed ? EOF : result;
}

/* ---- the sweep ---- */

typedef struct {
    void (*prepare)(void);      /* files in a fresh folder */
    clattn_status (*run)(void); /* what is tried */
    bool (*right)(void);        /* after a run that succeeded */
    bool (*unchanged)(void);    /* after one that failed; NULL: nothing was written */
    bool silent;                /* its failures have no message: the cache on disk */
} scenario;

static int descriptors(void) {
    int n = 0;
    for (int fd = 0; fd < 64; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void sweep(const scenario *s) {
    int fired = 0, failed = 0;
    for (int kind = 0; kind < CALLS; kind++)
        for (int e = 0; e < 3 && calls[kind].errors[e]; e++)
            for (int nth = 0;; nth++) {
                temp_dir_make();
                s->prepare();
                const int files = temp_dir_count(), open_before = descriptors();
                fault = (planned){.armed = true, .kind = (call)kind, .nth = nth, .error = calls[kind].errors[e]};
                const clattn_status status = s->run();
                fault.armed = false;
                const char *name = calls[kind].name, *why = strerror(calls[kind].errors[e]);
                cr_expect_eq(descriptors(), open_before, "%s %d, %s: a descriptor is left", name, nth, why);
                if (status == CLATTN_OK) {
                    cr_expect(s->right(), "%s %d, %s: succeeded, and is wrong", name, nth, why);
                } else {
                    cr_expect(fault.fired, "%s", clattn_last_error());
                    cr_expect(s->silent || (*clattn_last_error() && !strchr(clattn_last_error(), '\n')),
                              "%s %d, %s: no line", name, nth, why);
                    cr_expect_leq(temp_dir_count(), files, "%s %d, %s: another file is left", name, nth, why);
                    cr_expect(!s->unchanged || s->unchanged(), "%s %d, %s: the older file has changed", name, nth, why);
                    SUCCEEDS(s->run());
                    cr_expect(s->right(), "%s %d, %s: wrong afterwards", name, nth, why);
                }
                temp_dir_remove();
                fired += fault.fired;
                failed += status != CLATTN_OK;
                if (!fault.fired)
                    break;
            }
    cr_expect_gt(failed, 0);
    cr_expect_gt(fired, 5);
}

/* ---- npy ---- */

static float numbers[6] = {0, 1, 2, 3, 4, 5};

static clattn_array array_of(void) {
    return (clattn_array){.dtype = CLATTN_F32, .rank = 2, .shape = {2, 3}, .data = numbers, .bytes = sizeof numbers};
}

static bool holds_numbers(const clattn_array *a) {
    return a->dtype == CLATTN_F32 && a->bytes == sizeof numbers && memcmp(a->data, numbers, sizeof numbers) == 0;
}

static bool npy_is(const char *path, const char *text) {
    char got[64] = "";
    const size_t n = temp_read(path, got, sizeof got - 1);
    return n == strlen(text) && memcmp(got, text, n) == 0;
}

static bool npy_right(void) {
    clattn_array a;
    const bool right = clattn_npy_read(temp_path("x.npy"), &a) == CLATTN_OK && holds_numbers(&a);
    clattn_array_free(&a);
    return right;
}

static void older_file(void) { temp_write("x.npy", "older", 5); }
static bool older_unchanged(void) { return npy_is(temp_path("x.npy"), "older"); }

static void linked_file(void) {
    older_file();
    cr_assert_eq(symlink(temp_path("x.npy"), temp_path("link.npy")), 0);
}

static clattn_status write_npy(void) {
    const clattn_array a = array_of();
    return clattn_npy_write(temp_path("x.npy"), &a);
}

static clattn_status write_linked(void) {
    const clattn_array a = array_of();
    return clattn_array_save(temp_path("link.npy"), &a);
}

static void nothing(void) {}

Test(failing_calls, writing_npy) {
    sweep(&(scenario){.prepare = nothing, .run = write_npy, .right = npy_right});
    sweep(&(scenario){.prepare = older_file, .run = write_npy, .right = npy_right, .unchanged = older_unchanged});
    sweep(&(scenario){.prepare = linked_file, .run = write_linked, .right = npy_right, .unchanged = older_unchanged});
}

/* In Fortran's order: columns of `numbers` one after another. */
static void fortran_file(void) {
    static const float columns[6] = {0, 3, 1, 4, 2, 5};
    static const char header[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
    char text[128 + sizeof columns];
    memset(text, ' ', 128);
    memcpy(text, "\x93NUMPY\1\0\x76\0", 10);
    memcpy(text + 10, header, sizeof header - 1);
    text[127] = '\n';
    memcpy(text + 128, columns, sizeof columns);
    temp_write("x.npy", text, sizeof text);
}

static clattn_array taken;

static clattn_status read_npy(void) {
    clattn_array_free(&taken);
    return clattn_npy_read(temp_path("x.npy"), &taken);
}

static bool taken_right(void) {
    const bool right = holds_numbers(&taken);
    clattn_array_free(&taken);
    return right;
}

static bool taken_empty(void) { return !taken.data && taken.bytes == 0; }

Test(failing_calls, reading_npy) {
    sweep(&(scenario){.prepare = fortran_file, .run = read_npy, .right = taken_right, .unchanged = taken_empty});
}

/* ---- safetensors ---- */

static clattn_status write_tensors(void) {
    const clattn_named_array named[2] = {{"a", array_of()}, {"b", array_of()}};
    const clattn_metadata_pair pair = {"key", "value"};
    return clattn_safetensors_write(temp_path("x.safetensors"), named, 2, &pair, 1);
}

static void tensors_file(void) { SUCCEEDS(write_tensors()); }

static bool tensors_right(void) {
    clattn_array a;
    const bool right = clattn_array_load(temp_path("x.safetensors:b"), &a) == CLATTN_OK && holds_numbers(&a);
    clattn_array_free(&a);
    return right;
}

static void older_tensors(void) { temp_write("x.safetensors", "older", 5); }
static bool older_tensors_unchanged(void) { return npy_is(temp_path("x.safetensors"), "older"); }

/* From one file, in another type, into another. */
static clattn_status copy_tensor(void) {
    clattn_array a = {0}, narrow = {0};
    clattn_status status = clattn_array_load(temp_path("x.safetensors:a"), &a);
    if (status == CLATTN_OK)
        status = clattn_array_convert(&a, CLATTN_F16, &narrow);
    if (status == CLATTN_OK)
        status = clattn_array_save(temp_path("y.safetensors:c"), &narrow);
    clattn_array_free(&a);
    clattn_array_free(&narrow);
    return status;
}

static bool copy_right(void) {
    clattn_array a, wide;
    const bool right = clattn_array_load(temp_path("y.safetensors"), &a) == CLATTN_OK && a.dtype == CLATTN_F16 &&
                       clattn_array_convert(&a, CLATTN_F32, &wide) == CLATTN_OK && holds_numbers(&wide);
    clattn_array_free(&a);
    clattn_array_free(&wide);
    return right;
}

Test(failing_calls, of_safetensors) {
    sweep(&(scenario){
        .prepare = older_tensors, .run = write_tensors, .right = tensors_right, .unchanged = older_tensors_unchanged});
    sweep(&(scenario){.prepare = tensors_file, .run = copy_tensor, .right = copy_right, .unchanged = tensors_right});
}

/* ---- GGUF ---- */

static void gguf_file(void) {
    make_sample(3);
    written();
}

static clattn_status read_gguf(void) {
    clattn_gguf *g = NULL;
    clattn_array a = {0};
    const clattn_gguf_string *texts;
    size_t count = 0;
    clattn_array_free(&taken);
    clattn_status status = clattn_gguf_open(temp_path("x.gguf"), &g);
    if (status == CLATTN_OK)
        status = clattn_gguf_numbers(g, "numbers", &a);
    if (status == CLATTN_OK)
        status = clattn_gguf_strings(g, "texts", &texts, &count);
    if (status == CLATTN_OK) {
        cr_expect_eq(((const int64_t *)a.data)[1], -1);
        cr_expect_str_eq(texts[0].text, "a");
        status = clattn_gguf_read(g, "m", &taken);
    }
    clattn_array_free(&a);
    clattn_gguf_close(g);
    return status;
}

Test(failing_calls, of_gguf) {
    sweep(&(scenario){.prepare = gguf_file, .run = read_gguf, .right = taken_right, .unchanged = taken_empty});
}

/* ---- the tuner's record ---- */

static void record_file(void) {
    static const char text[] = "clattn tuning 1\ndevice other\na: b | 1.0000 ms, default 2.0000 ms\n";
    temp_write("tuning.txt", text, sizeof text - 1);
    temp_write("tuning.txt.lock", "", 0); /* of a process that died */
}

static clattn_status save_record(void) {
    cla_tuning_record record = {0};
    cla_tuning_lock lock = {.fd = -1};
    const char *path = temp_path("tuning.txt");
    clattn_status status = cla_tuning_lock_take(path, &lock);
    if (status == CLATTN_OK)
        status = cla_tuning_read(path, "mine", &record);
    if (status == CLATTN_OK)
        status = cla_tuning_put(&record, "key", "value", 1, 2);
    if (status == CLATTN_OK)
        status = cla_tuning_write(path, "mine", &record);
    cla_tuning_lock_give(&lock);
    cla_tuning_record_free(&record);
    return status;
}

static bool record_has(const char *device, const char *name, const char *value) {
    cla_tuning_record record = {0};
    const bool read = cla_tuning_read(temp_path("tuning.txt"), device, &record) == CLATTN_OK;
    const cla_tuning_entry *e = read ? cla_tuning_look(&record, name) : NULL;
    const bool has = read && (value ? e && strcmp(e->value, value) == 0 : !e);
    cla_tuning_record_free(&record);
    return has;
}

static bool record_right(void) { return record_has("mine", "key", "value") && record_has("other", "a", "b"); }
static bool record_unchanged(void) { return record_has("mine", "key", NULL) && record_has("other", "a", "b"); }

Test(failing_calls, of_the_tuners_record) {
    sweep(
        &(scenario){.prepare = record_file, .run = save_record, .right = record_right, .unchanged = record_unchanged});
}

/* ---- the cache on disk ---- */

static void older_entry(void) { cr_assert(cla_disk_store(temp_dir, "key", "note", "older", 5)); }

static bool entry_is(const char *text) {
    cla_disk_entry e;
    const bool is = cla_disk_load(temp_dir, "key", &e) && e.size == strlen(text) &&
                    memcmp(e.bytes, text, e.size) == 0 && strcmp(e.note, "note") == 0;
    cla_disk_entry_free(&e);
    return is;
}

static bool entry_newer(void) { return entry_is("newer!"); }
static bool entry_older(void) { return entry_is("older"); }
static clattn_status store(void) {
    return cla_disk_store(temp_dir, "key", "note", "newer!", 6) ? CLATTN_OK : CLATTN_E_IO;
}
static clattn_status load(void) { return entry_older() ? CLATTN_OK : CLATTN_E_IO; }

/* Entries of other keys, used before it. What cannot be listed stays. */
static void many_entries(void) {
    const struct timespec old[2] = {{1000, 0}, {1000, 0}};
    char path[TEMP_PATH];
    older_entry();
    for (int i = 0; i < 70; i++) {
        char name[8];
        snprintf(name, sizeof name, "k%d", i);
        cr_assert(cla_disk_store(temp_dir, name, "", name, strlen(name)) &&
                  cla_disk_path(temp_dir, name, path, sizeof path));
        const struct timespec used[2] = {old[0], {i == 3 ? 999 : 1000, i % 3}};
        cr_assert_eq(utimensat(AT_FDCWD, path, used, 0), 0);
    }
    temp_write("tmp-abcdef", "x", 1); /* a broken writer's */
    const struct timespec stale[2] = {old[0], old[0]};
    cr_assert_eq(utimensat(AT_FDCWD, temp_path("tmp-abcdef"), stale, 0), 0);
    temp_write("tmp-new123", "x", 1);           /* somebody writes it */
    temp_write("tmp-longer.than.that", "x", 1); /* others are left alone */
    temp_write("0123456789abcdef0123456789abcdef.clother", "x", 1);
    temp_write("0123456789abcdef0123456789abcdeg.clprog", "x", 1);
}

static clattn_status trim(void) {
    cla_disk_trim(temp_dir, 100);
    return CLATTN_OK;
}

static bool trimmed(void) { return entry_older() && access(temp_path("tmp-new123"), F_OK) == 0; }

Test(failing_calls, of_the_cache_on_disk) {
    sweep(&(scenario){
        .prepare = older_entry, .run = store, .right = entry_newer, .unchanged = entry_older, .silent = true});
    sweep(&(scenario){.prepare = older_entry, .run = load, .right = entry_older, .silent = true});
}

Test(failing_calls, trimming_removes_what_was_used_longest_ago, .init = temp_dir_make, .fini = temp_dir_remove) {
    many_entries();
    fault = (planned){.armed = true, .kind = LSTAT, .nth = 5, .error = EACCES};
    SUCCEEDS(trim());
    cr_expect(fault.fired);
    cr_expect(trimmed());
    fault = (planned){.armed = true, .kind = ALLOC, .nth = 0, .error = ENOMEM};
    SUCCEEDS(trim());
    fault.armed = false;
    cr_expect(fault.fired);
    SUCCEEDS(trim());
    cr_expect(trimmed());
    cr_expect_eq(temp_dir_count(), 5, "the entry, and four files that are none");
    cla_disk_trim(temp_path("none"), 0);
    cla_disk_trim(temp_dir, 0);
    cr_expect_not(entry_older());
}

/* Errors that the system has no text for. */
Test(failing_calls, an_error_without_a_text_has_its_number) {
    clattn_array a;
    fault = (planned){.armed = true, .kind = STRERROR};
    FAILS(clattn_npy_read("/nonexistent/x.npy", &a), CLATTN_E_IO, "/nonexistent/x.npy: cannot be opened: error 2");
    cr_expect(fault.fired);
}
