/* SPDX-License-Identifier: Apache-2.0 */
/* A line on stderr for what takes longer than two seconds, only when stderr is a terminal. No threads: a line moves
 * when cla_progress_step is called; before one long call, say with cla_progress_note what is being waited for. */
#ifndef CLA_PROGRESS_H
#define CLA_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cla_progress {
    const char *label;  /* borrowed */
    double start, last; /* seconds */
    bool terminal, shown;
} cla_progress;

/* Seconds on a clock that never goes back. */
double cla_seconds(void);

cla_progress cla_progress_begin(const char *label);
/* "label: done of total, about 12 s left", at most five times a second, from the third second on. */
void cla_progress_step(cla_progress *progress, int64_t done, int64_t total);
/* Clears the line. */
void cla_progress_end(cla_progress *progress);

/* Before a call that may take long: "clattn: WHAT NAME (about 5 s) ..." on a terminal. name may be NULL.
 * expected_seconds of two and less print nothing; negative: unknown, no number. cla_note_end clears the line. */
void cla_note_begin(double expected_seconds, const char *what, const char *name);
void cla_note_end(void);

#endif
