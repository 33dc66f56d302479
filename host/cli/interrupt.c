/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* sigaction, unlink */

#include "interrupt.h"

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

enum { FILES = 64 };
static _Atomic(const char *) files[FILES];
static volatile sig_atomic_t watching, noted;

static void on_signal(int number) {
    if (watching && !noted) {
        noted = number;
        return;
    }
    for (int i = 0; i < FILES; i++) {
        const char *path = atomic_load(&files[i]);
        if (path)
            unlink(path);
    }
    _exit(128 + number);
}

void cla_interrupt_begin(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void cla_interrupt_watch(void) { watching = 1; }

bool cla_interrupted(void) { return noted != 0; }

int cla_interrupt_exit(int exit_status) { return noted ? 128 + noted : exit_status; }

/* Beyond so many files one may be left behind. */
void cla_interrupt_remove(const char *path) {
    for (int i = 0; i < FILES; i++) {
        const char *none = NULL;
        if (atomic_compare_exchange_strong(&files[i], &none, path))
            return;
    }
}

void cla_interrupt_forget(const char *path) {
    for (int i = 0; i < FILES && path; i++) {
        const char *same = path;
        if (atomic_compare_exchange_strong(&files[i], &same, NULL))
            return;
    }
}
