/* SPDX-License-Identifier: Apache-2.0 */
/* How a function fails: message, status, one jump to `done:`. Each needs a local `clattn_status status`.
 * Handles are NULL at the top and released at `done:`; there is no other label and no other exit of an owner. */
#ifndef CLA_ERROR_H
#define CLA_ERROR_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CLA_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLA_PRINTF(text, first)
#endif

/* Sets this thread's message (cut to one line) and returns the status, so leaf functions can return it. */
clattn_status cla_error(clattn_status status, const char *format, ...) CLA_PRINTF(2, 3);
/* Puts text before this thread's message: "weights: ". */
void cla_error_prefix(const char *format, ...) CLA_PRINTF(1, 2);

/* CLATTN_E_UNSUPPORTED where a struct of the caller's has something in `reserved`. */
clattn_status cla_reserved_zero(const uint64_t *words, size_t count, const char *type);
#define CLA_RESERVED(type, pointer)                                                                                    \
    cla_reserved_zero((pointer)->reserved, sizeof(pointer)->reserved / sizeof(uint64_t), #type)

#define CLA_CHECK(condition, code, ...)                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            status = cla_error((code), __VA_ARGS__);                                                                   \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

#define CLA_TRY(call)                                                                                                  \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != CLATTN_OK)                                                                                       \
            goto done;                                                                                                 \
    } while (0)

#endif
