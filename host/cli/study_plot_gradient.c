/* SPDX-License-Identifier: Apache-2.0 */
/* The plot of `gradient`: on the left norms over d_k, without and with the scale, and the article's as points; on the
 * right what comes through of a gradient over the number of layers. */
#include "args.h"
#include "gnuplot.h"
#include "study_depth.h"
#include "study_trials.h"
#include <stdio.h>
#include <string.h>

/* Colours that stay apart for colour-blind readers (Okabe & Ito). */
static const struct {
    const char *figure, *colour, *dashes;
} curves[] = {{"norm of the Jacobian, raw", "#D55E00", "1"}, {"mean |dQ|, raw", "#D55E00", "2"},
              {"median |dQ|, raw", "#D55E00", "3"},          {"norm of the Jacobian, scaled", "#0072B2", "1"},
              {"mean |dQ|, scaled", "#0072B2", "2"},         {"median |dQ|, scaled", "#0072B2", "3"}};
enum { CURVES = sizeof curves / sizeof *curves };
static const char *const colours[CLA_ARRANGEMENTS] = {"#000000", "#E69F00", "#D55E00", "#0072B2", "#009E73"};

/* The figure "d_k N: NAME", or NULL. */
static const cla_figure *figure_of(const cla_study *s, int64_t d_k, const char *name) {
    char text[96];
    snprintf(text, sizeof text, "d_k %lld: %s", (long long)d_k, name);
    for (size_t i = 0; i < s->figure_count; i++)
        if (strcmp(s->figures[i].name, text) == 0)
            return &s->figures[i];
    return NULL;
}

static void put_data(const cla_study *s, FILE *out) {
    for (size_t i = 0; i < CURVES; i++) {
        fprintf(out, "$k%zu << EOD\n", i);
        for (size_t j = 0; j < CLA_TRIAL_DIMS; j++) {
            const cla_figure *f = figure_of(s, cla_trial_dims[j], curves[i].figure);
            if (f)
                fprintf(out, "%lld %.9g %s\n", (long long)cla_trial_dims[j], f->got, f->article);
        }
        fprintf(out, "EOD\n");
    }
    fprintf(out, "$depths << EOD\n");
    const cJSON *row;
    cJSON_ArrayForEach(row, s->rows) {
        fprintf(out, "%g", cJSON_GetNumberValue(cJSON_GetObjectItem(row, "layers")));
        for (int a = 0; a < CLA_ARRANGEMENTS; a++)
            fprintf(out, " %.9g", cJSON_GetNumberValue(cJSON_GetObjectItem(row, cla_arrangement_keys[a])));
        fprintf(out, "\n");
    }
    fprintf(out, "EOD\n");
}

static void put_dims(FILE *out) {
    fprintf(out, "set logscale xy\nset xtics (4, 16, 64, 256, 1024)\nset xrange [3:1400]\nset yrange [*:10]\n"
                 "set xlabel 'd_k' noenhanced\nset key at graph 0.03, 0.48 left top\n"
                 "set title 'A query against 16 keys: without (raw) and with 1/sqrt(d_k)' noenhanced\n");
    for (size_t i = 0; i < CURVES; i++) {
        fprintf(out, "%s$k%zu using 1:2 with linespoints lc rgb '%s' dt %s lw 2 pt 7 ps 0.5 title ", i ? ", " : "plot ",
                i, curves[i].colour, curves[i].dashes);
        cla_gnuplot_quoted(out, curves[i].figure);
    }
    for (size_t i = 0; i < CURVES; i += 3)
        fprintf(out, ", $k%zu using 1:3 with points lc rgb '%s' pt 6 ps 1.2 title %s", i, curves[i].colour,
                i ? "'circles: the article'" : "''");
    fprintf(out, "\n");
}

static void put_depths(FILE *out) {
    fprintf(out, "unset logscale x\nset xtics (1, 4, 8, 12, 16, 24)\nset xrange [0:25]\nset yrange [*:*]\n"
                 "set xlabel 'layers' noenhanced\nset key at graph 0.98, 0.6 right top\n"
                 "set title '|gradient by the input| over |gradient by the output|' noenhanced\n");
    for (int a = 0; a < CLA_ARRANGEMENTS; a++) {
        fprintf(out, "%s$depths using 1:%d with linespoints lc rgb '%s' lw 2 pt 7 ps 0.5 title ", a ? ", " : "plot ",
                a + 2, colours[a]);
        cla_gnuplot_quoted(out, cla_arrangement_names[a]);
    }
    fprintf(out, "\n");
}

int cla_study_plot_gradient(const cla_study *s, const char *path) {
    FILE *out = cla_gnuplot_open();
    if (out) {
        put_data(s, out);
        fprintf(out, "set terminal svg size 1280,640 font 'sans,14' background rgb 'white'\n"
                     "set format y '10^{%%T}'\nset grid xtics ytics lc rgb '#cccccc'\n"
                     "set key Left reverse noenhanced spacing 1.1\nset output ");
        cla_gnuplot_quoted(out, path);
        fprintf(out, "\nset multiplot layout 1,2\n");
        put_dims(out);
        put_depths(out);
        fprintf(out, "unset multiplot\n");
    }
    return cla_gnuplot_close(out, "study: --plot", path);
}
