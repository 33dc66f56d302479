/* SPDX-License-Identifier: Apache-2.0 */
/* What the command line calls, of the library, of cJSON and for memory, as the linker puts it in its place (--wrap):
 * any call can fail, studies need not compute, and `cpu` can pass for an OpenCL device with variants to tune. */
#ifndef LIBRARY_CALLS_H
#define LIBRARY_CALLS_H

#include <clattn/clattn.h>
#include <stdbool.h>

#define MADE_TO_FAIL "made to fail"

typedef struct library_calls_state {
    long calls, fails_at;                /* calls by the command line; number fails_at fails, none: -1 */
    long questions, interrupted_at;      /* whether it is interrupted; from number interrupted_at on it is, never: -1 */
    int times;                           /* of the calls from one place so many are listed */
    bool lists, skips, pretends, shakes; /* shakes: where it pretends, times vary */
    const char *failed, *slow;           /* the call that failed; the algorithm that takes long */
} library_calls_state;

extern library_calls_state library;

enum { LIBRARY_NUMBERS = 1 << 12 };
extern long library_numbers[LIBRARY_NUMBERS]; /* of calls, or questions, one of each place */
extern int library_number_count;

void library_begin(void); /* nothing fails, nothing is listed */

#endif
