/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* memfd_create */
#include "fuzz.h"

#include <dirent.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FUZZ_COUNTS_MEMORY 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FUZZ_COUNTS_MEMORY 1
#endif

void (*fuzz_tell)(void);

void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...) {
    va_list list;
    fprintf(stderr, "%s:%d: %s: ", file, line, condition);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    if (fuzz_tell)
        fuzz_tell();
    fflush(NULL);
    abort();
}

void fuzz_check_error(clattn_status status) {
    const char *text = clattn_last_error();
    FUZZ_CHECK(status != CLATTN_OK && text[0] != '\0', "%s without a text", clattn_status_name(status));
    FUZZ_CHECK(!strpbrk(text, "\n\r"), "more than one line: %s", text);
}

/* ---- files ---- */

const char *fuzz_file(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[40];
    if (fd < 0) {
        fd = memfd_create("fuzz", MFD_CLOEXEC);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (fd < 0 || pwrite(fd, data, size, 0) != (ssize_t)size || ftruncate(fd, (off_t)size) != 0)
        fuzz_fail(__FILE__, __LINE__, "fuzz_file", "no file in memory");
    return path;
}

static char folder[40];

static void remove_folder(void) {
    char path[400];
    DIR *dir = opendir(folder);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
            unlink(path);
        }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

const char *fuzz_path(const char *name) {
    static char paths[4][200];
    static int next;
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/clattn-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(folder) || atexit(remove_folder) != 0)
            fuzz_fail(__FILE__, __LINE__, "fuzz_path", "no folder %s", folder);
    }
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

/* ---- memory ---- */

/* A small file may cost so much at least; each byte more at most so many: the shortest entry of a safetensors header
 * has 6 bytes and takes some 300. */
enum { LEAST_BYTES = 1 << 15, BYTES_A_BYTE = 64 };

#ifdef FUZZ_COUNTS_MEMORY
/* Of the sanitizer's runtime; gcc has no header for them. */
int __sanitizer_install_malloc_and_free_hooks(void (*allocated)(const volatile void *, size_t),
                                              void (*freed)(const volatile void *));
size_t __sanitizer_get_allocated_size(const volatile void *p);

static struct {
    size_t live, peak;
    bool counts;
} heap;

static void allocated(const volatile void *p, size_t size) {
    (void)p;
    heap.live += size;
    heap.peak = heap.live > heap.peak ? heap.live : heap.peak;
}

/* What was there before counting began may go meanwhile. */
static void freed(const volatile void *p) {
    if (!p || !heap.counts)
        return;
    const size_t size = __sanitizer_get_allocated_size(p);
    heap.live -= size < heap.live ? size : heap.live;
}

void fuzz_memory_begin(void) {
    static bool hooked;
    if (!hooked && __sanitizer_install_malloc_and_free_hooks(allocated, freed) == 0)
        fuzz_fail(__FILE__, __LINE__, "fuzz_memory_begin", "no hooks");
    hooked = true;
    heap.live = heap.peak = 0;
    heap.counts = true;
}

void fuzz_memory_check(size_t file_bytes) {
    heap.counts = false;
    FUZZ_CHECK(heap.peak <= LEAST_BYTES + BYTES_A_BYTE * file_bytes, "%zu bytes in use at once for a file of %zu",
               heap.peak, file_bytes);
}
#else
void fuzz_memory_begin(void) {}
void fuzz_memory_check(size_t file_bytes) { (void)file_bytes; }
#endif
