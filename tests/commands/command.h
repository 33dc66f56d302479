/* SPDX-License-Identifier: Apache-2.0 */
/* The command line, run in the process of a test: a call takes milliseconds, and what it calls can be made to fail. */
#ifndef COMMAND_H
#define COMMAND_H

#include <stdbool.h>
#include <stddef.h>

typedef struct command_result {
    int status;
    char out[1 << 17], err[1 << 14]; /* what it printed, as much as fits */
} command_result;

/* `clattn LINE`: words end at blanks, '...' keeps them together. */
void command_run(const char *line, command_result *result);

/* A new folder for files, in which the process then is; the one before is removed. NULL: removed alone. */
void command_folder(const char *name);
void command_write(const char *path, const char *text);
/* Numbers in the npy format: descr "<f4", shape "(2, 3)"; float32, float64 or int64 by descr, each `value`. */
void command_write_npy(const char *path, const char *descr, const char *shape, size_t count, double value);

#endif
