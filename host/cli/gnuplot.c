/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* popen */

#include "gnuplot.h"

#include "args.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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

/* gnuplot says nothing of a disk that is full. */
static bool is_whole(const char *path) {
    char end[64] = "";
    FILE *file = fopen(path, "rb");
    if (!file)
        return false;
    const bool read = fseek(file, -(long)(sizeof end - 1), SEEK_END) == 0 && fread(end, 1, sizeof end - 1, file) > 0;
    fclose(file);
    return read && strstr(end, "</svg>") != NULL;
}

int cla_gnuplot_close(FILE *gnuplot, const char *what, const char *path) {
    const int status = gnuplot ? pclose(gnuplot) : -1;
    signal(SIGPIPE, SIG_DFL);
    if (status != 0)
        return cla_fail(CLA_EXIT_FAILED, "%s: gnuplot failed (status %d)", what, status);
    return is_whole(path) ? CLA_EXIT_OK
                          : cla_fail(CLA_EXIT_FAILED, "%s: gnuplot wrote no whole file: is the disk full?", what);
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
