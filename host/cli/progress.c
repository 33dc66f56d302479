/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* isatty, fileno, clock_gettime */

#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define CLEAR_LINE "\r\033[K"
#define QUIET_SECONDS 2.0

double cla_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool on_terminal(void) { return isatty(fileno(stderr)) != 0; }

cla_progress cla_progress_begin(const char *label) {
    const double now = cla_seconds();
    return (cla_progress){.label = label, .start = now, .last = now, .terminal = on_terminal()};
}

void cla_progress_step(cla_progress *progress, int64_t done, int64_t total) {
    if (!progress->terminal)
        return;
    const double now = cla_seconds(), spent = now - progress->start;
    if (spent < QUIET_SECONDS || (progress->shown && now - progress->last < 0.2))
        return;
    progress->last = now;
    progress->shown = true;
    fprintf(stderr, CLEAR_LINE "%s: %lld of %lld", progress->label, (long long)done, (long long)total);
    if (done > 0 && total > done)
        fprintf(stderr, ", about %.0f s left", spent * (double)(total - done) / (double)done);
    fflush(stderr);
}

void cla_progress_end(cla_progress *progress) {
    if (progress->shown)
        fprintf(stderr, CLEAR_LINE);
    progress->shown = false;
}

void cla_note_begin(double expected_seconds, const char *what, const char *name) {
    if (!on_terminal() || (expected_seconds >= 0 && expected_seconds <= QUIET_SECONDS))
        return;
    fprintf(stderr, CLEAR_LINE "clattn: ");
    fprintf(stderr, "%s%s%s", what, name ? " " : "", name ? name : "");
    if (expected_seconds >= 0)
        fprintf(stderr, " (about %.0f s)", expected_seconds);
    fprintf(stderr, " ...");
    fflush(stderr);
}

void cla_note_end(void) {
    if (on_terminal())
        fprintf(stderr, CLEAR_LINE);
}
