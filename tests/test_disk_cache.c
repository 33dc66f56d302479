/* SPDX-License-Identifier: Apache-2.0 */
/* Entries on disk, which are never trusted, and the programs that contexts keep in them. */
#include "io_testing.h"
#include "ops/copy.h"
#include "runtime/disk_cache.h"
#include "runtime/state.h"
#include <clattn/clattn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { HEADER = 72, LARGEST = 1 << 20 };
static unsigned char file[LARGEST], damaged[LARGEST];

static bool holds(const char *key, const char *note, const char *bytes) {
    cla_disk_entry e;
    const bool found = cla_disk_load(temp_dir, key, &e);
    const bool same = found && strcmp(e.note, note) == 0 && e.size == strlen(bytes) && !memcmp(e.bytes, bytes, e.size);
    cla_disk_entry_free(&e);
    return same;
}

static bool any_entry(const char *key) {
    cla_disk_entry e;
    const bool found = cla_disk_load(temp_dir, key, &e);
    cla_disk_entry_free(&e);
    return found;
}

static const char *entry_path(const char *key) {
    static char path[TEMP_PATH];
    cr_assert(cla_disk_path(temp_dir, key, path, sizeof path));
    return path;
}

static void rewrite(const char *path, const void *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, bytes, f), bytes);
    cr_assert_eq(fclose(f), 0);
}

/* ---- entries ---- */

Test(entries, are_found_by_their_whole_key, .init = temp_dir_make, .fini = temp_dir_remove) {
    cr_expect_not(any_entry("a"));
    cr_expect(cla_disk_store(temp_dir, "a", "note of a", "bytes of a", 10));
    cr_expect(cla_disk_store(temp_dir, "b", "", "", 0));
    cr_expect(holds("a", "note of a", "bytes of a"));
    cr_expect(holds("b", "", ""));
    cr_expect_not(any_entry("c"));
    cr_expect(cla_disk_store(temp_dir, "a", "new", "newer", 5));
    cr_expect(holds("a", "new", "newer"));
    cr_expect_eq(temp_dir_count(), 2, "nothing but the entries");
    /* Another key's entry under this one's name, as if the hashes were the same. */
    const size_t n = temp_read(entry_path("b"), file, LARGEST);
    rewrite(entry_path("c"), file, n);
    cr_expect_not(any_entry("c"));
}

Test(entries, that_are_damaged_anywhere_count_as_none, .init = temp_dir_make, .fini = temp_dir_remove) {
    cr_assert(cla_disk_store(temp_dir, "the key", "the note", "some bytes of a binary", 22));
    const char *path = entry_path("the key");
    const size_t n = temp_read(path, file, LARGEST);
    cr_assert_eq(n, HEADER + 7 + 9 + 22);
    for (size_t at = 0; at < n; at++) /* every field, every byte */
        for (int bit = 0; bit < 8; bit++) {
            file[at] ^= (unsigned char)(1 << bit);
            rewrite(path, file, n);
            cr_expect_not(any_entry("the key"), "bit %d of byte %zu", bit, at);
            file[at] ^= (unsigned char)(1 << bit);
        }
    for (size_t length = 0; length < n; length++) {
        rewrite(path, file, length);
        cr_expect_not(any_entry("the key"), "cut at %zu", length);
    }
    file[n] = 0;
    rewrite(path, file, n + 1);
    cr_expect_not(any_entry("the key"), "a byte more");
    unsigned state = 1;
    for (int i = 0; i < 2000; i++) {
        memcpy(damaged, file, n);
        const size_t length = temp_mutate(damaged, n, LARGEST, &state);
        rewrite(path, damaged, length);
        const bool same = length == n && memcmp(damaged, file, n) == 0;
        cr_expect_eq(any_entry("the key"), same, "mutation %d", i);
    }
    rewrite(path, file, n);
    cr_expect(holds("the key", "the note", "some bytes of a binary"));
}

Test(entries, that_are_no_files_count_as_none, .init = temp_dir_make, .fini = temp_dir_remove) {
    cr_assert_eq(mkdir(entry_path("folder"), 0700), 0);
    cr_expect_not(any_entry("folder"));
    cr_expect_not(cla_disk_store(temp_dir, "folder", "", "x", 1));
    cr_assert_eq(mkfifo(entry_path("pipe"), 0600), 0);
    cr_expect_not(any_entry("pipe"));
    cr_expect_eq(temp_dir_count(), 2, "no staged file is left");
}

Test(entries, are_not_kept_where_nothing_can_be_written, .init = temp_dir_make, .fini = temp_dir_remove) {
    char below[TEMP_PATH], longer[5000];
    snprintf(below, sizeof below, "%s/folder", temp_write("a_file", "x", 1));
    cr_expect_not(cla_disk_store(below, "key", "", "x", 1));
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    cr_expect_not(cla_disk_store(longer, "key", "", "x", 1));
    cla_disk_entry e;
    cr_expect_not(cla_disk_load(longer, "key", &e));
    cla_disk_trim(below, 0);
    cr_expect_not(cla_disk_store("/dev/full/no", "key", "", "x", 1));
}

static void age(const char *path, int seconds) {
    struct timespec times[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
}

Test(entries, used_longest_ago_go_first_when_there_are_too_many, .init = temp_dir_make, .fini = temp_dir_remove) {
    char key[2] = "0", staged[TEMP_PATH];
    for (; key[0] < '6'; key[0]++) {
        cr_assert(cla_disk_store(temp_dir, key, "", "0123456789", 10));
        age(entry_path(key), 1000 - (key[0] - '0') * 10);
    }
    const uint64_t one = HEADER + 1 + 1 + 10;
    snprintf(staged, sizeof staged, "%s", temp_write("tmp-abcdef", "x", 1));
    temp_write("tmp-ghijkl", "x", 1);
    temp_write("foreign", "much longer than the limit; nobody's business here ...............................", 80);
    age(staged, 100000);
    age(temp_path("foreign"), 100000);
    cr_expect(any_entry("1"), "which makes it the last that was used");
    cla_disk_trim(temp_dir, 6 * one);
    cr_expect_eq(temp_dir_count(), 6 + 2, "only what a broken writer left is gone");
    cla_disk_trim(temp_dir, 3 * one + 1);
    cr_expect_eq(temp_dir_count(), 3 + 2);
    cr_expect(any_entry("1") && any_entry("4") && any_entry("5"));
    cla_disk_trim(temp_dir, 0);
    cr_expect_eq(temp_dir_count(), 2);
}

/* ---- programs of contexts ---- */

/* In a context of its own fills (and copies) numbers; says where the program came from. */
static void expect_origin(bool copies, size_t builds, size_t restores) {
    const int64_t shape[1] = {16};
    float numbers[2][16] = {{0}};
    clattn_context *context = NULL;
    clattn_buffer *buffers[2] = {NULL};
    clattn_tensor t[2];
    cla_kernel *fill = NULL, *copy = NULL;
    if (clattn_context_create("opencl", NULL, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < 2; i++) {
        SUCCEEDS(clattn_buffer_create(context, sizeof numbers[0], &buffers[i]));
        t[i] = clattn_tensor_buffer(buffers[i], CLATTN_F32, 1, shape);
    }
    SUCCEEDS(cla_copy_kernel(context, false, "fill_strided", &fill));
    SUCCEEDS(cla_copy_kernel(context, false, "copy_strided", &copy));
    SUCCEEDS(cla_fill_strided(context, fill, false, &t[0], 3.0));
    SUCCEEDS(cla_fill_strided(context, fill, false, &t[1], 4.0));
    if (copies)
        SUCCEEDS(cla_copy_strided(context, copy, &t[0], &t[1]));
    SUCCEEDS(clattn_buffer_download(buffers[0], 0, numbers[0], sizeof numbers[0]));
    SUCCEEDS(clattn_buffer_download(buffers[1], 0, numbers[1], sizeof numbers[1]));
    for (int i = 0; i < 16; i++) {
        cr_expect_eq(numbers[0][i], 3);
        cr_expect_eq(numbers[1][i], copies ? 3 : 4);
    }
    size_t compiled = 99, restored = 99;
    clattn_context_programs(context, &compiled, &restored);
    cr_expect_eq(compiled, builds, "%zu builds", compiled);
    cr_expect_eq(restored, restores, "%zu from disk", restored);
    cla_kernel_destroy(fill);
    cla_kernel_destroy(copy);
    clattn_buffer_destroy(buffers[0]);
    clattn_buffer_destroy(buffers[1]);
    clattn_context_destroy(context);
}

static void cached(void) {
    temp_dir_make();
    cr_assert_eq(setenv("CLATTN_CACHE_DIR", temp_dir, 1), 0);
}

/* The one file of the folder. */
static const char *only_path(void) {
    DIR *dir = opendir(temp_dir);
    const char *path = NULL;
    char name[64];
    for (const struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && snprintf(name, sizeof name, "%.60s", e->d_name) > 0)
            path = temp_path(name);
    closedir(dir);
    cr_assert_not_null(path);
    return path;
}

Test(programs, and_their_folder_are_told, .init = cached, .fini = temp_dir_remove) {
    size_t compiled = 99, restored = 99;
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    cr_expect_str_eq(clattn_context_cache_folder(context), temp_dir);
    clattn_context_programs(context, &compiled, NULL);
    clattn_context_programs(context, NULL, &restored);
    cr_expect(compiled == 0 && restored == 0, "%zu, %zu", compiled, restored);
    clattn_context_destroy(context);
    setenv("CLATTN_CACHE_DIR", "off", 1);
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    cr_expect_str_eq(clattn_context_cache_folder(context), "");
    cr_expect_str_eq(clattn_context_cache_folder(NULL), "");
    compiled = 99;
    clattn_context_programs(NULL, &compiled, &restored);
    cr_expect_eq(compiled, 0);
    clattn_context_destroy(context);
}

Test(programs, are_built_by_the_first_context_alone, .init = cached, .fini = temp_dir_remove) {
    expect_origin(true, 1, 0);
    cr_expect_eq(temp_dir_count(), 1);
    expect_origin(true, 0, 1);
    expect_origin(false, 0, 1);
    cr_expect_eq(temp_dir_count(), 1);
}

Test(programs, of_damaged_entries_are_built_and_kept_again, .init = cached, .fini = temp_dir_remove) {
    expect_origin(true, 1, 0);
    const char *path = only_path();
    const size_t n = temp_read(path, file, LARGEST), places[] = {0, 8, 12, 16, 24, 32, 40, HEADER, n / 2, n - 1};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        memcpy(damaged, file, n);
        damaged[places[i]] ^= 1;
        rewrite(path, damaged, n);
        expect_origin(true, 1, 0);
        expect_origin(true, 0, 1);
    }
    rewrite(path, file, n / 2);
    expect_origin(true, 1, 0);
    cr_expect_eq(temp_dir_count(), 1);
}

Test(programs, that_the_driver_refuses_are_built_and_kept_again, .init = cached, .fini = temp_dir_remove) {
    char key[4000];
    uint64_t bytes;
    expect_origin(true, 1, 0);
    temp_read(only_path(), file, LARGEST);
    memcpy(&bytes, file + 16, sizeof bytes);
    cr_assert_lt(bytes, sizeof key);
    memcpy(key, file + HEADER, (size_t)bytes);
    key[bytes] = '\0';
    cr_expect(strstr(key, clattn_version()) && strstr(key, "copy.cl\n-cl-std=CL1.2"), "%s", key);
    cr_assert(cla_disk_store(temp_dir, key, "fill_strided 1\n", "no program of anybody's", 23));
    expect_origin(true, 1, 0);
    expect_origin(true, 0, 1);
    cr_assert(cla_disk_store(temp_dir, key, "", "", 0));
    expect_origin(true, 1, 0);
    expect_origin(true, 0, 1);
}

Test(programs, are_kept_again_when_another_kernel_has_run, .init = cached, .fini = temp_dir_remove) {
    expect_origin(false, 1, 0);
    const size_t n = temp_read(only_path(), file, LARGEST);
    expect_origin(false, 0, 1);
    cr_expect_eq(temp_read(only_path(), damaged, LARGEST), n);
    cr_expect_arr_eq(file, damaged, n, "nothing new, nothing written");
    expect_origin(true, 0, 1);
    const size_t more = temp_read(only_path(), damaged, LARGEST);
    cr_expect(more != n || memcmp(file, damaged, n) != 0, "copy_strided has run since");
    expect_origin(true, 0, 1);
    cr_expect_eq(temp_read(only_path(), file, LARGEST), more);
    cr_expect_arr_eq(file, damaged, more);
}

Test(programs, are_kept_nowhere_when_the_cache_is_off, .init = cached, .fini = temp_dir_remove) {
    setenv("CLATTN_CACHE_DIR", "off", 1);
    setenv("XDG_CACHE_HOME", temp_dir, 1);
    setenv("HOME", temp_dir, 1);
    expect_origin(true, 1, 0);
    setenv("CLATTN_CACHE_DIR", "", 1);
    expect_origin(true, 1, 0);
    unsetenv("CLATTN_CACHE_DIR"); /* no place to keep them */
    unsetenv("XDG_CACHE_HOME");
    unsetenv("HOME");
    expect_origin(true, 1, 0);
    static const char *const names[] = {"clattn", ".cache", "off"}; /* PoCL's own cache may be there */
    for (int i = 0; i < 3; i++)
        cr_expect(access(temp_path(names[i]), F_OK) != 0, "%s", names[i]);
    cr_expect_neq(access("off", F_OK), 0);
}

Test(programs, need_no_folder_that_can_be_written, .init = cached, .fini = temp_dir_remove) {
    char below[TEMP_PATH];
    snprintf(below, sizeof below, "%s/folder", temp_write("a_file", "x", 1));
    setenv("CLATTN_CACHE_DIR", below, 1);
    expect_origin(true, 1, 0);
    expect_origin(true, 1, 0);
    cr_expect_eq(temp_dir_count(), 1);
}

static void expect_folder(const char *name) {
    char sub[sizeof temp_dir], parent[sizeof temp_dir];
    snprintf(sub, sizeof sub, "%.150s/%s", temp_dir, name);
    memcpy(parent, temp_dir, sizeof parent);
    expect_origin(false, 1, 0);
    expect_origin(false, 0, 1);
    memcpy(temp_dir, sub, sizeof sub);
    cr_expect_eq(temp_dir_count(), 1, "%s", sub);
    temp_dir_remove();
    memcpy(temp_dir, parent, sizeof parent);
}

Test(programs, are_kept_where_caches_are_by_custom, .init = cached, .fini = temp_dir_remove) {
    unsetenv("CLATTN_CACHE_DIR");
    setenv("XDG_CACHE_HOME", temp_dir, 1);
    setenv("HOME", "/nowhere", 1);
    expect_folder("clattn");
    setenv("XDG_CACHE_HOME", "not/absolute", 1);
    setenv("HOME", temp_dir, 1);
    expect_folder(".cache/clattn");
    unsetenv("XDG_CACHE_HOME");
    expect_folder(".cache/clattn");
}

/* late: as if seconds had passed since the kernel ran. */
static void expect_kept_by(clattn_status (*call)(clattn_context *context), bool late) {
    const int64_t shape[1] = {16};
    clattn_context *context = NULL;
    clattn_buffer *buffer = NULL;
    cla_kernel *fill = NULL;
    if (clattn_context_create("opencl", NULL, &context) == CLATTN_E_NO_DEVICE)
        cr_skip_test("no OpenCL device");
    SUCCEEDS(clattn_buffer_create(context, 64, &buffer));
    const clattn_tensor t = clattn_tensor_buffer(buffer, CLATTN_F32, 1, shape);
    SUCCEEDS(cla_copy_kernel(context, false, "fill_strided", &fill));
    cr_expect_eq(atomic_load(&context->save_at), 0, "it has not run yet");
    SUCCEEDS(cla_fill_strided(context, fill, false, &t, 1.0));
    SUCCEEDS(clattn_context_sync(context));
    cr_expect_eq(temp_dir_count(), 0, "the first result comes first");
    if (late)
        atomic_store(&context->save_at, 1);
    SUCCEEDS(call(context));
    cr_expect_eq(temp_dir_count(), 1);
    cr_expect_eq(atomic_load(&context->save_at), 0);
    expect_origin(false, 0, 1);
    cla_kernel_destroy(fill);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

Test(programs, of_a_context_that_lives_on_are_kept_when_it_waits, .init = cached, .fini = temp_dir_remove) {
    expect_kept_by(clattn_context_sync, true);
}

Test(programs, of_a_context_that_lives_on_are_kept_when_asked_for, .init = cached, .fini = temp_dir_remove) {
    clattn_context *cpu = NULL;
    expect_kept_by(clattn_context_save_programs, false);
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    SUCCEEDS(clattn_context_save_programs(cpu));
    FAILS(clattn_context_save_programs(NULL), CLATTN_E_ARGUMENT, "context is NULL");
    clattn_context_destroy(cpu);
}

Test(programs, of_eight_processes_at_once_are_whole, .init = cached, .fini = temp_dir_remove) {
    enum { PROCESSES = 8 };
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            clattn_context *context = NULL;
            cla_kernel *fill = NULL;
            clattn_buffer *buffer = NULL;
            const int64_t shape[1] = {16};
            float numbers[16] = {0};
            bool good = clattn_context_create("opencl", NULL, &context) == CLATTN_OK &&
                        clattn_buffer_create(context, sizeof numbers, &buffer) == CLATTN_OK &&
                        cla_copy_kernel(context, false, "fill_strided", &fill) == CLATTN_OK;
            const clattn_tensor t = clattn_tensor_buffer(buffer, CLATTN_F32, 1, shape);
            good = good && cla_fill_strided(context, fill, false, &t, 5.0) == CLATTN_OK &&
                   clattn_buffer_download(buffer, 0, numbers, sizeof numbers) == CLATTN_OK && numbers[15] == 5;
            cla_kernel_destroy(fill);
            clattn_buffer_destroy(buffer);
            clattn_context_destroy(context);
            _exit(good ? 0 : 1);
        }
        cr_assert_gt(children[i], 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        int result = -1;
        cr_assert_eq(waitpid(children[i], &result, 0), children[i]);
        cr_expect(WIFEXITED(result) && WEXITSTATUS(result) == 0, "process %d", i);
    }
    cr_expect_eq(temp_dir_count(), 1);
    expect_origin(false, 0, 1);
}
