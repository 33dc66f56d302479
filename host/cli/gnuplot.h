/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing by gnuplot, over a pipe. */
#ifndef CLA_GNUPLOT_H
#define CLA_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

bool cla_gnuplot_is_there(void);
/* NULL: it cannot be started; closing that gives -1. */
FILE *cla_gnuplot_open(void);
/* The exit status of gnuplot, 0 where all was drawn. */
int cla_gnuplot_close(FILE *gnuplot);
/* A text in gnuplot's single quotes. */
void cla_gnuplot_quoted(FILE *out, const char *text);

#endif
