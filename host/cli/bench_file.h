/* SPDX-License-Identifier: Apache-2.0 */
/* A file of problems for `clattn bench`, one a line: [NAME:] [backward] PROBLEM [; GOALS]  # comment. Names and goals
 * are for bench/peers.py, which reads the same files; linear layers too. */
#ifndef CLA_BENCH_FILE_H
#define CLA_BENCH_FILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct cla_bench_file {
    char *text;   /* of the file; the problems lie in it */
    char **texts; /* words of the command line, then problems */
    int count;
    size_t linear, other; /* skipped: linear layers, and problems with `backward` where they are to be without, or
                             without it where they are to have it */
} cla_bench_file;

/* Appends the problems of a file (NULL: none) to words: those with `backward`, or those without. Prints one line and
 * returns the exit status when something is wrong. */
int cla_bench_file_read(const char *path, char *const *words, int word_count, bool backward, cla_bench_file *file);
void cla_bench_file_free(cla_bench_file *file);

#endif
