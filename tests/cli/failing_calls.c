/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into the command line by failing_calls.sh: of the calls that the program itself (or cJSON for it) makes of
 * the C library for memory and files, the one that CALL_FAILS names by its number fails. Without it CALL_LOG names a
 * file that gets a line, number and function, for each call that is made from a place, callers included, where none was
 * made before: these are the numbers worth trying. Places in the file CALL_SEEN, to which new ones are added, are known
 * from other runs. What libraries and drivers call is left alone. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 24, PLACES = 1 << 15, RANGES = 8 };

typedef struct {
    uintptr_t first, last;
} range;

static range ranges[RANGES]; /* of the program's code, then cJSON's */
static int range_count;
static long fails_at, calls;
static int log_file = -1, seen_file = -1;
static bool counting;
static _Thread_local bool inside;
static uint64_t places[PLACES];

typedef void (*any_function)(void);

/* The function of the C library. */
static any_function real(const char *name) {
    const bool before = inside;
    any_function function = NULL;
    inside = true;
    void *symbol = dlsym(RTLD_NEXT, name);
    inside = before;
    memcpy(&function, &symbol, sizeof function);
    return function;
}
#define REAL(name) ((__typeof__(&(name)))real(#name))

/* How far behind the beginning of which range, which is the same in all runs; 0 outside. */
static uint64_t place_of(const void *address) {
    for (int i = 0; i < range_count; i++)
        if ((uintptr_t)address >= ranges[i].first && (uintptr_t)address < ranges[i].last)
            return ((uintptr_t)address - ranges[i].first) * RANGES + (uint64_t)i + 1;
    return 0;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size, (void)data;
    if (info->dlpi_name[0] != '\0' && !strstr(info->dlpi_name, "libcjson"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum && range_count < RANGES; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            const uintptr_t first = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            ranges[range_count++] = (range){first, first + info->dlpi_phdr[i].p_memsz};
        }
    return 0;
}

/* Whether it was not there yet. */
static bool add_place(uint64_t hash) {
    for (size_t i = hash % PLACES, tries = 0; tries < PLACES; i = (i + 1) % PLACES, tries++) {
        if (places[i] == hash)
            return false;
        if (places[i] == 0) {
            places[i] = hash;
            return true;
        }
    }
    return false;
}

/* Whether a call with this stack is the first. */
static bool is_new(void) {
    void *stack[DEPTH];
    const int depth = backtrace(stack, DEPTH);
    uint64_t hash = 14695981039346656037U;
    for (int i = 0; i < depth; i++)
        if (place_of(stack[i]))
            hash = (hash ^ place_of(stack[i])) * 1099511628211U;
    if (!add_place(hash))
        return false;
    return seen_file < 0 || REAL(write)(seen_file, &hash, sizeof hash) == (ssize_t)sizeof hash;
}

/* Whether this call, made from `caller`, shall fail. */
static bool fails(const char *name, const void *caller) {
    if (!counting || inside || !place_of(caller))
        return false;
    const long number = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    inside = true;
    if (log_file >= 0 && is_new())
        dprintf(log_file, "%ld %s\n", number, name);
    inside = false;
    return number == fails_at;
}
#define FAILS(name) fails(name, __builtin_return_address(0))

/* ---- memory: glibc's own names, since dlsym allocates ---- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *pointer, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t bytes) { return FAILS("malloc") ? no_memory() : __libc_malloc(bytes); }
void *calloc(size_t count, size_t size) { return FAILS("calloc") ? no_memory() : __libc_calloc(count, size); }
void *realloc(void *pointer, size_t bytes) { return FAILS("realloc") ? no_memory() : __libc_realloc(pointer, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) {
    return FAILS("aligned_alloc") ? no_memory() : __libc_memalign(alignment, bytes);
}
void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (FAILS("mmap"))
        return errno = ENOMEM, MAP_FAILED;
    return REAL(mmap)(address, bytes, protection, flags, file, offset);
}

/* ---- files; what closes them does so, and then says that something was lost ---- */

FILE *fopen(const char *path, const char *mode) {
    return FAILS("fopen") ? (errno = EMFILE, NULL) : REAL(fopen)(path, mode);
}
FILE *fdopen(int file, const char *mode) { return FAILS("fdopen") ? (errno = ENOMEM, NULL) : REAL(fdopen)(file, mode); }
int fclose(FILE *file) {
    const bool lost = FAILS("fclose");
    const int result = REAL(fclose)(file);
    return lost ? (errno = ENOSPC, EOF) : result;
}
int fflush(FILE *file) { return FAILS("fflush") ? (errno = ENOSPC, EOF) : REAL(fflush)(file); }
size_t fread(void *to, size_t size, size_t count, FILE *file) {
    return FAILS("fread") ? (errno = EIO, (size_t)0) : REAL(fread)(to, size, count, file);
}
size_t fwrite(const void *from, size_t size, size_t count, FILE *file) {
    if (!FAILS("fwrite"))
        return REAL(fwrite)(from, size, count, file);
    file->_flags |= 0x20; /* as glibc notes it for ferror */
    errno = ENOSPC;
    return 0;
}
char *fgets(char *to, int size, FILE *file) { return FAILS("fgets") ? NULL : REAL(fgets)(to, size, file); }
int fseek(FILE *file, long offset, int from) {
    return FAILS("fseek") ? (errno = EIO, -1) : REAL(fseek)(file, offset, from);
}
int open(const char *path, int flags, ...) {
    va_list list;
    va_start(list, flags);
    const mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0;
    va_end(list);
    return FAILS("open") ? (errno = EMFILE, -1) : REAL(open)(path, flags, mode);
}
ssize_t read(int file, void *to, size_t bytes) {
    return FAILS("read") ? (errno = EIO, -1) : REAL(read)(file, to, bytes);
}
ssize_t write(int file, const void *from, size_t bytes) {
    return FAILS("write") ? (errno = ENOSPC, -1) : REAL(write)(file, from, bytes);
}
int fstat(int file, struct stat *to) { return FAILS("fstat") ? (errno = EIO, -1) : REAL(fstat)(file, to); }
int mkstemp(char *path) { return FAILS("mkstemp") ? (errno = EACCES, -1) : REAL(mkstemp)(path); }
int rename(const char *from, const char *to) { return FAILS("rename") ? (errno = EACCES, -1) : REAL(rename)(from, to); }
DIR *opendir(const char *path) { return FAILS("opendir") ? (errno = EMFILE, NULL) : REAL(opendir)(path); }
FILE *popen(const char *command, const char *mode) {
    return FAILS("popen") ? (errno = ENOMEM, NULL) : REAL(popen)(command, mode);
}
pid_t fork(void) { return FAILS("fork") ? (errno = EAGAIN, -1) : REAL(fork)(); }

/* ---- from the program's main to its end ---- */

static int (*program_main)(int, char **, char **);

static int counted_main(int argc, char **argv, char **environment) {
    counting = true;
    const int result = program_main(argc, argv, environment);
    counting = false;
    return result;
}

int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end);
int __libc_start_main(int (*start)(int, char **, char **), int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*loader_fini)(void), void *stack_end) {
    const char *number = getenv("CALL_FAILS"), *path = getenv("CALL_LOG"), *seen = getenv("CALL_SEEN");
    uint64_t hash;
    void *first[1];
    backtrace(first, 1); /* what it loads, it loads now */
    dl_iterate_phdr(add_ranges, NULL);
    fails_at = number ? strtol(number, NULL, 10) : 0;
    log_file = !number && path ? REAL(open)(path, O_WRONLY | O_CREAT | O_TRUNC, 0600) : -1;
    seen_file = log_file >= 0 && seen ? REAL(open)(seen, O_RDWR | O_CREAT | O_APPEND, 0600) : -1;
    while (seen_file >= 0 && REAL(read)(seen_file, &hash, sizeof hash) == (ssize_t)sizeof hash)
        add_place(hash);
    program_main = start;
    return REAL(__libc_start_main)(counted_main, argc, argv, init, fini, loader_fini, stack_end);
}
