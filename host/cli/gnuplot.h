/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing by gnuplot, over a pipe. */
#ifndef CLA_GNUPLOT_H
#define CLA_GNUPLOT_H

#include <stdbool.h>
#include <stdio.h>

bool cla_gnuplot_is_there(void);
/* NULL: it cannot be started; closing that is a failure. */
FILE *cla_gnuplot_open(void);
/* Waits; an exit status of ours. path: the SVG that was drawn, which must be whole. what: "bench: --plot", for the one
 * line that a failure prints. */
int cla_gnuplot_close(FILE *gnuplot, const char *what, const char *path);
/* A text in gnuplot's single quotes. */
void cla_gnuplot_quoted(FILE *out, const char *text);

#endif
