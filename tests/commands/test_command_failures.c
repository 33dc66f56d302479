/* SPDX-License-Identifier: Apache-2.0 */
/* As cli/failing_calls.sh, many times as fast: in one process each call that a command, the library below it and cJSON
 * for it make of the C library for memory and files fails in turn. The command ends in one line that says what is
 * wrong, or as it would have; it gives back all its memory, and leaves no temporary file. Of calls that are made
 * through the same lines of the command line, the first few fail. */
#define _GNU_SOURCE
#include "command.h"
#include "kernel_profile.h"
#include "study.h"

#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void calls_end(void);
bool command_fails(const char *name);

enum { DEPTH = 40, PLACES = 1 << 16, NUMBERS = 1 << 14, TIMES = 3 };

/* ---- which call fails ---- */

typedef struct place {
    uint64_t hash;
    int times;
} place;

static place lines[PLACES], stacks[PLACES]; /* of the command line, and all */
static _Thread_local bool outside;          /* the harness itself */
static bool running, listing;
static _Atomic long calls, live;
static long fails_at, numbers[NUMBERS];
static size_t number_count;
static const char *failed;

/* How often it was there before. */
static int seen(place *places, uint64_t hash) {
    for (size_t i = hash % PLACES, tries = 0; tries < PLACES; i = (i + 1) % PLACES, tries++) {
        if (places[i].times == 0)
            places[i].hash = hash;
        if (places[i].hash == hash)
            return places[i].times++;
    }
    return TIMES;
}

static void list(long number) {
    void *stack[DEPTH];
    uint64_t line = 14695981039346656037U, all = line;
    const int depth = backtrace(stack, DEPTH);
    for (int i = 0; i < depth; i++) {
        all = (all ^ (uintptr_t)stack[i]) * 1099511628211U;
        if ((uintptr_t)stack[i] < (uintptr_t)&calls_end)
            line = (line ^ (uintptr_t)stack[i]) * 1099511628211U;
    }
    if (seen(stacks, all) == 0 && seen(lines, line) < TIMES && number_count < NUMBERS)
        numbers[number_count++] = number;
}

bool command_fails(const char *name) {
    if (!running || outside)
        return false;
    const long number = ++calls;
    if (listing) {
        outside = true;
        list(number);
        outside = false;
    }
    if (number != fails_at)
        return false;
    failed = name;
    return true;
}

/* ---- what the linker puts in the place of the C library's (--wrap) ---- */

#define WRAP(type, name, ...)                                                                                          \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

static void *counted(void *pointer) {
    live += running && pointer;
    return pointer;
}
static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

WRAP(void *, malloc, size_t bytes) { return command_fails("malloc") ? no_memory() : counted(__real_malloc(bytes)); }
WRAP(void *, calloc, size_t count, size_t size) {
    return command_fails("calloc") ? no_memory() : counted(__real_calloc(count, size));
}
WRAP(void *, realloc, void *pointer, size_t bytes) {
    if (command_fails("realloc"))
        return no_memory();
    return pointer ? __real_realloc(pointer, bytes) : counted(__real_realloc(pointer, bytes));
}
WRAP(void *, aligned_alloc, size_t alignment, size_t bytes) {
    return command_fails("aligned_alloc") ? no_memory() : counted(__real_aligned_alloc(alignment, bytes));
}
WRAP(char *, realpath, const char *path, char *to) {
    if (command_fails("realpath"))
        return no_memory();
    char *result = __real_realpath(path, to);
    return to ? result : counted(result);
}
WRAP(void, free, void *pointer) {
    live -= running && pointer;
    __real_free(pointer);
}

WRAP(FILE *, fopen, const char *path, const char *mode) {
    if (command_fails("fopen")) {
        errno = EMFILE;
        return NULL;
    }
    return __real_fopen(path, mode);
}
WRAP(FILE *, fdopen, int file, const char *mode) {
    return command_fails("fdopen") ? no_memory() : __real_fdopen(file, mode);
}
/* What closes them does so, and then says that something was lost. */
WRAP(int, fclose, FILE *file) {
    const bool lost = command_fails("fclose");
    const int result = __real_fclose(file);
    if (lost)
        errno = ENOSPC;
    return lost ? EOF : result;
}
WRAP(size_t, fread, void *to, size_t size, size_t count, FILE *file) {
    return command_fails("fread") ? (errno = EIO, (size_t)0) : __real_fread(to, size, count, file);
}
WRAP(size_t, fwrite, const void *from, size_t size, size_t count, FILE *file) {
    if (!command_fails("fwrite"))
        return __real_fwrite(from, size, count, file);
    file->_flags |= 0x20; /* as glibc notes it for ferror */
    errno = ENOSPC;
    return 0;
}
int __wrap_fprintf(FILE *file, const char *format, ...);
int __wrap_fprintf(FILE *file, const char *format, ...) {
    va_list list;
    if (file != stdout && file != stderr && command_fails("fprintf")) {
        file->_flags |= 0x20;
        errno = ENOSPC;
        return -1;
    }
    va_start(list, format);
    const int result = vfprintf(file, format, list);
    va_end(list);
    return result;
}
WRAP(char *, fgets, char *to, int size, FILE *file) {
    return command_fails("fgets") ? NULL : __real_fgets(to, size, file);
}
WRAP(int, fseek, FILE *file, long offset, int from) {
    return command_fails("fseek") ? (errno = EIO, -1) : __real_fseek(file, offset, from);
}
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, int mode);
int __wrap_open(const char *path, int flags, int mode) {
    return command_fails("open") ? (errno = EMFILE, -1) : __real_open(path, flags, mode);
}
WRAP(ssize_t, write, int file, const void *from, size_t bytes) {
    return command_fails("write") ? (errno = ENOSPC, -1) : __real_write(file, from, bytes);
}
WRAP(int, mkstemp, char *path) { return command_fails("mkstemp") ? (errno = EACCES, -1) : __real_mkstemp(path); }
WRAP(int, rename, const char *from, const char *to) {
    return command_fails("rename") ? (errno = EACCES, -1) : __real_rename(from, to);
}
WRAP(int, link, const char *from, const char *to) {
    return command_fails("link") ? (errno = EPERM, -1) : __real_link(from, to);
}
WRAP(int, fchmod, int file, mode_t mode) {
    return command_fails("fchmod") ? (errno = EPERM, -1) : __real_fchmod(file, mode);
}
WRAP(int, access, const char *path, int mode) {
    return command_fails("access") ? (errno = EACCES, -1) : __real_access(path, mode);
}
/* ---- a command ---- */

static bool left_behind(char *name, size_t size) {
    bool found = false;
    DIR *folder = opendir(".");
    for (const struct dirent *e; !found && (e = readdir(folder));)
        if (strncmp(e->d_name, ".clattn", 7) == 0) {
            snprintf(name, size, "%s", e->d_name);
            remove(e->d_name);
            found = true;
        }
    closedir(folder);
    return found;
}

static void run(const char *line, long at, bool lists, command_result *result) {
    calls = 0;
    failed = NULL;
    fails_at = at;
    listing = lists;
    running = true;
    command_run(line, result);
    running = false;
}

/* One line on stderr, behind what --explain prints there. */
static bool is_told(const command_result *r) {
    const size_t length = strlen(r->err);
    const char *last = r->err + length;
    if (length == 0)
        return r->out[0]; /* doctor, check and bench tell it in their tables */
    if (length > 1 && last[-1] == '\n')
        for (last--; last > r->err && last[-1] != '\n';)
            last--;
    return strncmp(last, "clattn: ", 8) == 0;
}

static void check(const char *line, long number, const command_result *r, long before) {
    char name[300];
    cr_expect(r->status >= 0 && r->status <= 2, "%s: call %ld, %s: exit status %d", line, number, failed, r->status);
    cr_expect(r->status == 0 || is_told(r), "%s: call %ld, %s: not told: %s", line, number, failed, r->err);
    cr_expect_eq(live, before, "%s: call %ld, %s: %ld blocks of memory are left", line, number, failed, live - before);
    cr_expect(!left_behind(name, sizeof name), "%s: call %ld, %s: left %s", line, number, failed, name);
    live = before;
}

static void each_call_fails(const char *line) {
    static command_result first, result;
    memset(lines, 0, sizeof lines);
    memset(stacks, 0, sizeof stacks);
    number_count = 0;
    run(line, 0, false, &first); /* what is kept for the next call is made */
    cr_assert_eq(first.status, 0, "%s: %s%s", line, first.err, first.out);
    const long before = live;
    run(line, 0, true, &first);
    check(line, 0, &first, before);
    int errors = 0;
    for (size_t i = 0; i < number_count; i++) {
        run(line, numbers[i], false, &result);
        check(line, numbers[i], &result, before);
        errors += result.status != 0;
    }
    cr_expect(errors > 0, "%s: nothing fails", line);
    fprintf(stderr, "%5zu of %5ld calls, %4d errors: %s\n", number_count, (long)calls, errors, line);
}

/* As each_call_fails, of a function that gives NULL without memory, else a list in JSON. */
static void each_call_of_json_fails(cJSON *(*make)(void)) {
    int errors = 0;
    for (long at = 0, last = 1; at <= last; at++) {
        const long before = live;
        calls = 0;
        fails_at = at;
        running = true;
        cJSON *json = make();
        running = false;
        last = at == 0 ? calls : last;
        cr_expect_eq(json == NULL, at > 0, "call %ld of %ld", at, last);
        errors += !json;
        running = true;
        cJSON_Delete(json);
        running = false;
        cr_expect_eq(live, before, "call %ld: %ld blocks of memory are left", at, live - before);
    }
    cr_expect(errors > 20);
}

static cJSON *profile_json(void) {
    static cla_profile_report r = {
        .device = "cpu", .algorithm = "blas", .count = 2, .peak_gflops = 1, .near_gbytes = 1};
    for (size_t i = 0; i < r.count; i++)
        r.entries[i] =
            (clattn_profile_entry){.name = "kernel", .count = 1, .total_ms = 1, .operations = 1, .moved_bytes = 1};
    return cla_profile_json(&r);
}

static cJSON *study_json(void) {
    static cla_figure figures[] = {{.name = "a", .article = "1"}, {.name = "b"}};
    static const cla_study study = {.name = "made_up", .figures = figures, .figure_count = 2};
    return cla_study_json(&study);
}

Test(command_failures, json) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = __wrap_malloc, .free_fn = __wrap_free});
    each_call_of_json_fails(profile_json);
    each_call_of_json_fails(study_json);
}

static void make_files(void) {
    command_folder("calls");
    setenv("CLATTN_DEVICE", "cpu", 1);
    command_write_npy("q.npy", "<f4", "(1, 2, 3, 4)", 24, 0.5);
    command_write_npy("k.npy", "<f4", "(1, 2, 5, 4)", 40, 0.25);
    command_write_npy("v.npy", "<f4", "(1, 2, 5, 4)", 40, 2);
    command_write_npy("keep.npy", "|u1", "(3, 5)", 15, 1);
    command_write_npy("bias.npy", "<f4", "(3, 5)", 15, 0.25);
    command_write_npy("lengths.npy", "<i8", "(1,)", 1, 4);
    command_write_npy("two.npy", "<f4", "(2,)", 2, 0.5);
    command_write_npy("q1.npy", "<f4", "(1, 3, 8)", 24, 1);
    command_write_npy("k1.npy", "<f4", "(1, 5, 8)", 40, 0.5);
    command_write_npy("rows.npy", "<f4", "(3, 8)", 24, 1);
    command_write("rows.txt", "one\ntwo\nthree\n");
    command_write("columns.txt", "a\nb\nc\nd\ne\n");
    command_write("problems.txt", "# problems\nfirst: h2 n8 d8\nsecond: h2/1 q3 k9 d8 causal=bottom-right\n");
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = __wrap_malloc, .free_fn = __wrap_free});
}

static void all_of(const char *const *list_of_lines) {
    make_files();
    for (size_t i = 0; list_of_lines[i]; i++)
        each_call_fails(list_of_lines[i]);
    command_folder(NULL);
}

#define RUN "run q.npy k.npy v.npy -o o.npy "
Test(command_failures, run) {
    static const char *const list_of_lines[] = {
        RUN "--verify",
        RUN "--keep keep.npy --bias bias.npy --key-lengths lengths.npy --window 2,1 --causal=bottom-right "
            "--alibi-slopes two.npy",
        RUN "--lse l.npy --weights w.npy --column-sums s.npy --entropy e.npy --explain",
        RUN "--heatmap map.svg --labels rows.txt,columns.txt",
        RUN "--dump dump.safetensors --causal=top-left --softcap 2 --sinks two.npy",
        "run q.npy k.npy v.npy -o o.safetensors:o --o-type bf16 --kv-type f16,f64",
        "run q1.npy k1.npy k1.npy -o o.npy --layout bse --heads 2 --batch-invariant --causal --offsets 0",
        "run rows.npy rows.npy rows.npy -o o.npy --layout sd --cu-queries 0,1,3 --cu-keys 0,2,3",
        NULL};
    all_of(list_of_lines);
}

#define TORCH "check " TESTS_DIR "/vectors/torch.safetensors --device cpu --filter "
#define ONNX "check " TESTS_DIR "/vectors/onnx.safetensors --device cpu --filter "
Test(command_failures, check) {
    static const char *const list_of_lines[] = {TORCH "sdpa_bmask_*",
                                                TORCH "'mha_bias_kv_kdim*'",
                                                TORCH "dec_all_masks",
                                                TORCH "enc_causal_kpm",
                                                TORCH "grad_gqa",
                                                "check " TESTS_DIR
                                                "/vectors/broadcast.safetensors --device cpu --filter "
                                                "grad_rank5_groups",
                                                ONNX "test_layer_normalization_3d_axis_negative_2_epsilon",
                                                ONNX "test_rotary_embedding_no_position_ids_interleaved",
                                                ONNX "*3d_gqa_with_past_and_present*",
                                                "check " TESTS_DIR "/vectors/seed.safetensors --device cpu",
                                                NULL};
    all_of(list_of_lines);
}

Test(command_failures, bench) {
    static const char *const list_of_lines[] = {
        "bench --file problems.txt --repeat 1 --json b.json --devices cpu --algorithms reference",
        "bench 'h2 n8 d8' --backward --repeat 1 --devices cpu --sweep n=8:16 --plot p.svg",
        "bench --linear 'm4 n8 k8 f32 bias gelu' --repeat 1 --devices cpu --json b.json",
        "bench 'b2 h2 n8 d8 causal keep bias sinks lengths qlengths prefix alibi' --repeat 1 --devices cpu "
        "--algorithms blas",
        "bench 'b2 h2 n8 d8 varlen causal segments' --repeat 1 --devices cpu --algorithms blas",
        "bench 'b2 h2 q4 k8 d8 pages=4 causal=bottom-right' --repeat 1 --devices cpu --algorithms blas",
        NULL};
    all_of(list_of_lines);
}

Test(command_failures, study) {
    static const char *const list_of_lines[] = {"study sdpa --json s.json",  "study batched --type f32 --json s.json",
                                                "study order --json s.json", "study causal --json s.json",
                                                "study heads --json s.json", NULL};
    all_of(list_of_lines);
}

Test(command_failures, others) {
    static const char *const list_of_lines[] = {"doctor --device cpu", "devices --device cpu --json", "inspect q.npy",
                                                "inspect " TESTS_DIR "/vectors/seed.safetensors", NULL};
    all_of(list_of_lines);
}
