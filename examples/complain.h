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
static inline bool
complain(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("error: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return false;
}

/* true where the call went well, else its message. */
static inline bool done(clattn_status status) { return status == CLATTN_OK || complain("%s", clattn_last_error()); }

#endif
