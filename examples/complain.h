/* SPDX-License-Identifier: Apache-2.0 */
/* How the larger examples fail: one line on standard error, said where it happens, and false all the way up. */
#ifndef COMPLAIN_H
#define COMPLAIN_H

#include <clattn/status.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
static inline void
complain_line(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}
static inline bool complain_result(void) { return false; }

/* complain("%s: ...", ...) prints the line, and is false; in two calls, so that analyzers, which do not look into
 * functions of variable arguments, see that. */
#define complain(...) (complain_line(__VA_ARGS__), complain_result())

/* true where the call went well, else its message. */
static inline bool done(clattn_status status) { return status == CLATTN_OK || complain("%s", clattn_last_error()); }

#endif
