/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput, which aborts where a property does not
 * hold; it is linked with libFuzzer (tools/fuzz.sh) or with replay.c, which runs the committed inputs as a test. */
#ifndef FUZZ_H
#define FUZZ_H

#include <clattn/clattn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition, ...)                                                                                     \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            fuzz_fail(__FILE__, __LINE__, #condition, __VA_ARGS__);                                                    \
    } while (0)

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5), noreturn))
#endif
void fuzz_fail(const char *file, int line, const char *condition, const char *format, ...);

/* Says more before the program ends; NULL: nothing. */
extern void (*fuzz_tell)(void);

/* The path of a file in memory that holds these bytes, until the next call. */
const char *fuzz_file(const uint8_t *data, size_t size);
/* A path in a folder of this process, in memory where the system has that; removed at exit. */
const char *fuzz_path(const char *name);

/* A status that is an error has one line of text. */
void fuzz_check_error(clattn_status status);

/* Bytes on the heap, beyond those at begin, that were in use at once: of any library, where the address sanitizer
 * counts; 0 elsewhere. Checks that they are what so many bytes of a file justify. */
void fuzz_memory_begin(void);
void fuzz_memory_check(size_t file_bytes);

/* ---- an input as a stream of choices; after its end all are 0 ---- */

typedef struct fuzz_input {
    const uint8_t *at, *end;
} fuzz_input;

static inline unsigned fuzz_byte(fuzz_input *in) { return in->at < in->end ? *in->at++ : 0; }
static inline int64_t fuzz_below(fuzz_input *in, int64_t n) { return (int64_t)fuzz_byte(in) % n; }
static inline bool fuzz_flag(fuzz_input *in) { return fuzz_byte(in) & 1; }

#endif
