/* SPDX-License-Identifier: Apache-2.0 */
/* A file of problems for `clattn bench`, one a line: [NAME:] PROBLEM [; GOALS]  # comment. Names and goals are for
 * bench/peers.py, which reads the same files; linear layers too. */
#ifndef CLA_BENCH_FILE_H
#define CLA_BENCH_FILE_H

#include <stddef.h>

typedef struct cla_bench_file {
    char *text;   /* of the file; the problems lie in it */
    char **texts; /* words of the command line, then problems */
    int count;
    size_t skipped; /* linear layers */
} cla_bench_file;

/* Appends the problems of a file (NULL: none) to words. Prints one line and returns the exit status when something is
 * wrong. */
int cla_bench_file_read(const char *path, char *const *words, int word_count, cla_bench_file *file);
void cla_bench_file_free(cla_bench_file *file);

#endif
