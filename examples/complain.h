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
    char line[8192];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++)
        if ((*c > 0 && *c < ' ') || *c == 0x7f)
            *c = '?'; /* names out of files may hold anything */
    fprintf(stderr, "error: %s\n", line);
}
static inline bool complain_result(void) { return false; }

/* complain("%s: ...", ...) prints the line, and is false; in two calls, so that analyzers, which do not look into
 * functions of variable arguments, see that. */
#define complain(...) (complain_line(__VA_ARGS__), complain_result())

/* true where the call went well, else its message. */
static inline bool done(clattn_status status) { return status == CLATTN_OK || complain("%s", clattn_last_error()); }

#endif
