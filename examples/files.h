/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in memory. Errors are printed. */
#ifndef FILES_H
#define FILES_H

#include <stdio.h>

/* What is left of a stream, and a zero behind it; NULL after an error, told with the name. free() releases it. */
char *read_all(FILE *file, const char *name, size_t *bytes);
/* The same of a file. */
char *read_path(const char *path, size_t *bytes);

/* The line at *at, ended by a zero where its \n or \r\n was, and its bytes; *at moves behind it. NULL at the end. `end`
 * is behind the text, whose last byte is followed by one more that may be written, as the above give it. */
char *next_line(char **at, char *end, size_t *bytes);
size_t count_lines(const char *text, size_t bytes); /* at least as many as next_line gives */

#endif
