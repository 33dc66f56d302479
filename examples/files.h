/* SPDX-License-Identifier: Apache-2.0 */
/* Whole files in memory. Errors are printed. */
#ifndef FILES_H
#define FILES_H

#include <stdio.h>

/* What is left of a stream, and a zero behind it; NULL after an error, told with the name. free() releases it. */
char *read_all(FILE *file, const char *name, size_t *bytes);
/* The same of a file. */
char *read_path(const char *path, size_t *bytes);

#endif
