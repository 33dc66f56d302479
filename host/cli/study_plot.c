/* SPDX-License-Identifier: Apache-2.0 */
/* The plot of `scale`: largest weight and norm of the Jacobian over d_k, without and with the scale, and the article's
 * figures as points. */
#include "args.h"
#include "gnuplot.h"
#include "study.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Colours that stay apart for colour-blind readers (Okabe & Ito). */
static const struct {
    const char *figure, *colour;
} lines[] = {{"largest weight, raw", "#D55E00"},
             {"largest weight, scaled", "#0072B2"},
             {"norm of the Jacobian, raw", "#E69F00"},
             {"norm of the Jacobian, scaled", "#009E73"}};
enum { LINES = sizeof lines / sizeof *lines };

/* "d_k 64: largest weight, raw" is figure "largest weight, raw" at 64; 0: another figure. */
static long dim_of(const cla_figure *f, const char *figure) {
    char *end = NULL;
    const long d_k = strncmp(f->name, "d_k ", 4) == 0 ? strtol(f->name + 4, &end, 10) : 0;
    return d_k > 0 && strncmp(end, ": ", 2) == 0 && strcmp(end + 2, figure) == 0 ? d_k : 0;
}

static void put_data(const cla_study *s, FILE *out) {
    for (size_t i = 0; i < LINES; i++) {
        fprintf(out, "$d%zu << EOD\n", i);
        for (size_t j = 0; j < s->figure_count; j++) {
            const long d_k = dim_of(&s->figures[j], lines[i].figure);
            if (d_k > 0)
                fprintf(out, "%ld %.9g %s\n", d_k, s->figures[j].got, s->figures[j].article);
        }
        fprintf(out, "EOD\n");
    }
}

static void put_script(const cla_study *s, const char *path, FILE *out) {
    put_data(s, out);
    fprintf(out, "set terminal svg size 960,600 font 'sans,14' background rgb 'white'\n"
                 "set logscale x 2\nset xtics (4, 16, 64, 256, 1024)\nset xrange [3:1400]\nset yrange [0:1]\n"
                 "set grid xtics ytics lc rgb '#cccccc'\n"
                 "set key outside below center vertical maxcols 2 Left reverse noenhanced spacing 1.2\n"
                 "set xlabel 'd_k' noenhanced\n"
                 "set title 'Softmax without and with 1/sqrt(d_k): 4000 trials of a query against 16 keys' noenhanced\n"
                 "set output ");
    cla_gnuplot_quoted(out, path);
    for (size_t i = 0; i < LINES; i++) {
        fprintf(out, "%s$d%zu using 1:2 with lines lc rgb '%s' lw 2.2 title ", i ? ", " : "\nplot ", i,
                lines[i].colour);
        cla_gnuplot_quoted(out, lines[i].figure);
        fprintf(out, ", $d%zu using 1:3 with points lc rgb '%s' pt 6 ps 1 title %s", i, lines[i].colour,
                i + 1 < LINES ? "''" : "'circles: the article'");
    }
    fprintf(out, "\n");
}

int cla_study_plot_scale(const cla_study *s, const char *path) {
    FILE *gnuplot = cla_gnuplot_open();
    if (gnuplot)
        put_script(s, path, gnuplot);
    return cla_gnuplot_close(gnuplot, "study: --plot", path);
}
