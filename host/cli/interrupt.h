/* SPDX-License-Identifier: Apache-2.0 */
/* Ctrl-C and SIGTERM. Either ends the program at once with exit status 128 + its number, and without the files that are
 * half written; a verb whose measurements are worth keeping watches for it instead, and stops by itself. The next
 * signal ends it all the same. */
#ifndef CLA_INTERRUPT_H
#define CLA_INTERRUPT_H

#include <stdbool.h>

/* Once, before anything else. */
void cla_interrupt_begin(void);
/* From here on the first signal is only noted. */
void cla_interrupt_watch(void);
bool cla_interrupted(void);
/* 128 + the signal that was noted, else exit_status. */
int cla_interrupt_exit(int exit_status);

/* A file that goes when the program is ended; path must stay until cla_interrupt_forget, which takes NULL too. */
void cla_interrupt_remove(const char *path);
void cla_interrupt_forget(const char *path);

#endif
