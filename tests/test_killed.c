/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are killed while they write, at many moments: what is there afterwards is whole, the older or the
 * newer one. Moments are SIGKILL's, at random, and SIGXFSZ's, which ends a process at a byte that is chosen. */
#define _XOPEN_SOURCE 700
#include "base/mem.h"
#include "runtime/disk_cache.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <clattn/io.h>
#include <clattn/tune.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ELEMENTS = 6000, BYTES = ELEMENTS * 4, ENTRIES = 40, KILLS = 60, LIMITS = 40 };

static char folder[64], file[128];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/clattn-killed-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(file, sizeof file, "%s/file", folder);
}

static void end(void) {
    char path[400];
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        unlink(path);
    }
    if (dir)
        closedir(dir);
    cr_expect_eq(rmdir(folder), 0);
}

/* ---- the files: version n holds nothing but n; a reader gives the version, -1 for what is not whole ---- */

static int32_t values[ELEMENTS];

static const clattn_array *array_of(int version) {
    static clattn_array array = {.data = values, .bytes = BYTES, .dtype = CLATTN_I32, .rank = 1, .shape = {ELEMENTS}};
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = version;
    return &array;
}

static int version_of(const clattn_array *array) {
    static int32_t x[ELEMENTS]; /* bytes of a cache lie anywhere */
    if (array->bytes != BYTES)
        return -1;
    memcpy(x, array->data, BYTES);
    for (int i = 0; i < ELEMENTS; i++)
        if (x[i] != x[0])
            return -1;
    return x[0];
}

static bool write_npy(int version) { return clattn_npy_write(file, array_of(version)) == CLATTN_OK; }

static int read_npy(void) {
    clattn_array array = {0};
    const int version = clattn_npy_read(file, &array) == CLATTN_OK ? version_of(&array) : -1;
    clattn_array_free(&array);
    return version;
}

static bool write_safetensors(int version) {
    const clattn_named_array named = {"x", *array_of(version)};
    return clattn_safetensors_write(file, &named, 1, NULL, 0) == CLATTN_OK;
}

static int read_safetensors(void) {
    clattn_safetensors *opened = NULL;
    clattn_array array = {0};
    int version = -1;
    if (clattn_safetensors_open(file, &opened) == CLATTN_OK &&
        clattn_safetensors_read(opened, "x", &array) == CLATTN_OK)
        version = version_of(&array);
    clattn_array_free(&array);
    clattn_safetensors_close(opened);
    return version;
}

static bool write_cache(int version) {
    array_of(version);
    return cla_disk_store(folder, "a key", version ? "one 1\n" : "zero 0\n", values, BYTES);
}

static int read_cache(void) {
    cla_disk_entry entry;
    if (!cla_disk_load(folder, "a key", &entry))
        return -1;
    const clattn_array array = {.data = entry.bytes, .bytes = entry.size};
    int version = version_of(&array);
    if (strcmp(entry.note, version ? "one 1\n" : "zero 0\n") != 0)
        version = -1;
    cla_disk_entry_free(&entry);
    return version;
}

/* All entries of a version have its value. */
static bool write_record(int version) {
    clattn_context *context = NULL;
    bool good = clattn_context_create("cpu", NULL, &context) == CLATTN_OK;
    for (int i = 0; i < ENTRIES && good; i++) {
        char key[64], value[16];
        snprintf(key, sizeof key, "a key as long as those of plans are, number %d", i);
        snprintf(value, sizeof value, "v=%d", version);
        const clattn_tuned entry = {.key = key, .value = value, .ms = 1, .default_ms = 2};
        good = clattn_tuning_set(context, &entry) == CLATTN_OK;
    }
    good = good && clattn_tuning_save(context, file) == CLATTN_OK;
    clattn_context_destroy(context);
    return good;
}

static int read_record(void) {
    clattn_context *context = NULL;
    clattn_tuned entry;
    int version = -1, count = 0;
    setenv("CLATTN_TUNING_FILE", file, 1);
    if (clattn_context_create("cpu", NULL, &context) != CLATTN_OK || *clattn_tuning_skipped(context))
        return -1;
    for (; clattn_tuning_entry(context, (size_t)count, &entry); count++) {
        const int own = atoi(entry.value + 2);
        if (count > 0 && own != version)
            return -1;
        version = own;
    }
    clattn_context_destroy(context);
    return count == ENTRIES ? version : -1;
}

static const struct {
    const char *name;
    bool (*write)(int version);
    int (*read)(void);
} kinds[] = {{"npy", write_npy, read_npy},
             {"safetensors", write_safetensors, read_safetensors},
             {"program cache", write_cache, read_cache},
             {"tuner's record", write_record, read_record}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- killed ---- */

static void wait_a_moment(long microseconds) {
    const struct timespec moment = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
    nanosleep(&moment, NULL);
}

/* A process that writes 0, 1, 0, 1 ... until it is killed. */
Test(killed, at_any_moment_a_whole_file_is_there, .init = begin, .fini = end, .timeout = 120) {
    for (int k = 0; k < KINDS; k++) {
        int seen[2] = {0};
        unlink(file); /* of the kind before */
        cr_assert(kinds[k].write(0), "%s", clattn_last_error());
        for (int n = 0; n < KILLS; n++) {
            int status = 0;
            const pid_t child = fork();
            if (child == 0)
                for (int version = n;; version++)
                    if (!kinds[k].write(version % 2))
                        _exit(3);
            cr_assert_gt(child, 0);
            wait_a_moment(500 + 137 * (n % 29));
            kill(child, SIGKILL);
            cr_assert_eq(waitpid(child, &status, 0), child);
            cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s: a write failed", kinds[k].name);
            const int version = kinds[k].read();
            cr_assert(version == 0 || version == 1, "%s, kill %d: no whole file", kinds[k].name, n);
            seen[version]++;
        }
        cr_expect(kinds[k].write(1) && kinds[k].read() == 1, "%s: cannot go on", kinds[k].name);
    }
}

/* Writes version 1 with no more than `limit` bytes a file; ignored: the signal, so that write fails. */
static int write_within(int k, rlim_t limit, bool ignored) {
    int status = 0;
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit bytes = {limit, limit}, none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGXFSZ, ignored ? SIG_IGN : SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &bytes);
        _exit(kinds[k].write(1) ? 0 : 3);
    }
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

Test(killed, at_any_byte_the_older_file_is_there, .init = begin, .fini = end, .timeout = 120) {
    for (int k = 0; k < KINDS; k++) {
        unlink(file); /* of the kind before */
        cr_assert(kinds[k].write(0), "%s", clattn_last_error());
        const rlim_t whole = k == 3 ? 2000 : BYTES;
        for (int n = 0; n < LIMITS; n++) {
            const int status = write_within(k, 1 + whole * (rlim_t)n / LIMITS, false);
            cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ, "%s, limit %d: status %d", kinds[k].name, n,
                      status);
            cr_expect_eq(kinds[k].read(), 0, "%s, limit %d", kinds[k].name, n);
        }
        cr_expect(kinds[k].write(1) && kinds[k].read() == 1, "%s: cannot go on", kinds[k].name);
    }
}

/* ---- a full disk: a failure that says so, and nothing left behind ---- */

static int count_files(void) {
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        count += e->d_name[0] != '.' || strlen(e->d_name) > 2;
    if (dir)
        closedir(dir);
    return count;
}

Test(killed, a_write_that_fails_leaves_the_older_file, .init = begin, .fini = end, .timeout = 120) {
    for (int k = 0; k < KINDS; k++) {
        unlink(file); /* of the kind before */
        cr_assert(kinds[k].write(0), "%s", clattn_last_error());
        const int files = count_files();
        for (int n = 0; n < 10; n++) {
            const int status = write_within(k, 1 + (k == 3 ? 2000 : BYTES) * (rlim_t)n / 10, true);
            cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "%s, limit %d: status %d", kinds[k].name, n,
                      status);
            cr_expect_eq(kinds[k].read(), 0, "%s, limit %d", kinds[k].name, n);
            cr_expect_eq(count_files(), files, "%s, limit %d: something is left", kinds[k].name, n);
        }
    }
}
