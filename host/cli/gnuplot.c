/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* popen */

#include "gnuplot.h"

#include <signal.h>
#include <stdlib.h>

bool cla_gnuplot_is_there(void) {
    fflush(stdout);
    /* A shell finds gnuplot as it finds every command; nothing of the user's goes into the line. */
    return system("gnuplot --version >/dev/null 2>&1") == 0; /* NOLINT(cert-env33-c) */
}

FILE *cla_gnuplot_open(void) {
    fflush(stdout);
    signal(SIGPIPE, SIG_IGN);     /* a gnuplot that ends early is a status, not our end */
    return popen("gnuplot", "w"); /* NOLINT(cert-env33-c) */
}

int cla_gnuplot_close(FILE *gnuplot) {
    const int status = gnuplot ? pclose(gnuplot) : -1;
    signal(SIGPIPE, SIG_DFL);
    return status;
}

/* In single quotes, where '' is a quote. */
void cla_gnuplot_quoted(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc(*text == '\n' || *text == '\r' ? ' ' : *text, out);
    }
    fputc('\'', out);
}
