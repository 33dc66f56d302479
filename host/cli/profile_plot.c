/* SPDX-License-Identifier: Apache-2.0 */
/* The roofline: what the peaks allow at so many operations per byte, and the kernels below it, drawn by gnuplot. */
#include "args.h"
#include "gnuplot.h"
#include "kernel_profile.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

int cla_svg_check(const char *verb, const char *option, const char *path) {
    const size_t length = strlen(path);
    if (length >= 5 && strcmp(path + length - 4, ".svg") == 0)
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_USAGE, "%s: %s %s: the plot is SVG, so name it something.svg", verb, option, path);
}

int cla_plot_check(const char *verb, const char *option, const char *path) {
    const int exit_status = cla_svg_check(verb, option, path);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    if (cla_gnuplot_is_there())
        return CLA_EXIT_OK;
    return cla_fail(CLA_EXIT_FAILED, "%s: %s needs gnuplot, which is not there: install the package gnuplot-nox", verb,
                    option);
}

static bool is_point(const clattn_profile_entry *e) {
    return e->operations > 0 && e->moved_bytes > 0 && e->total_ms > 0;
}

typedef struct range {
    double low, high;
} range;

static void widen(range *r, double x) {
    r->low = fmin(r->low, x);
    r->high = fmax(r->high, x);
}

/* Ceilings of all reports: medians would hide which was measured, so the largest. */
static cla_profile_report ceilings(const cla_profile_report *const *reports, size_t count) {
    cla_profile_report most = {0};
    for (size_t i = 0; i < count; i++) {
        most.peak_gflops = fmax(most.peak_gflops, reports[i]->peak_gflops);
        most.peak_gbytes = fmax(most.peak_gbytes, reports[i]->peak_gbytes);
        most.near_gbytes = fmax(most.near_gbytes, reports[i]->near_gbytes);
    }
    return most;
}

static size_t put_points(FILE *out, const cla_profile_report *const *reports, size_t count, range *x, range *y) {
    size_t points = 0;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < reports[i]->count; k++) {
            const clattn_profile_entry *e = &reports[i]->entries[k];
            if (!is_point(e))
                continue;
            const double intensity = e->operations / e->moved_bytes, gflops = e->operations / e->total_ms * 1e-6;
            fprintf(out, "$p%zu << EOD\n%.9g %.9g\nEOD\n", points++, intensity, gflops);
            widen(x, intensity);
            widen(y, gflops);
        }
    return points;
}

static void put_plot(FILE *out, const cla_profile_report *const *reports, size_t count,
                     const cla_profile_report *most) {
    static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"};
    size_t points = 0;
    fprintf(out,
            "plot (x * %.9g < %.9g ? x * %.9g : %.9g) with lines lc rgb '#000000' lw 2 title 'reading %.3g GB/s from "
            "memory, %.4g GFLOP/s of multiply-adds'",
            most->peak_gbytes, most->peak_gflops, most->peak_gbytes, most->peak_gflops, most->peak_gbytes,
            most->peak_gflops);
    if (most->near_gbytes > 1.05 * most->peak_gbytes)
        fprintf(
            out,
            ", (x * %.9g < %.9g ? x * %.9g : 1/0) with lines lc rgb '#888888' lw 1.5 dt 2 title 'reading %.3g GB/s: as "
            "many bytes as the problem has'",
            most->near_gbytes, most->peak_gflops, most->near_gbytes, most->near_gbytes);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < reports[i]->count; k++) {
            char title[700];
            if (!is_point(&reports[i]->entries[k]))
                continue;
            snprintf(title, sizeof title, "%s%s%s", reports[i]->entries[k].name, reports[i]->title ? ": " : "",
                     reports[i]->title ? reports[i]->title : "");
            fprintf(out, ", $p%zu using 1:2 with points pt %zu ps 1.2 lc rgb '%s' title ", points, 5 + points % 9,
                    colours[points % 6]);
            cla_gnuplot_quoted(out, title);
            points++;
        }
    fprintf(out, "\n");
}

int cla_profile_plot(const cla_profile_report *const *reports, size_t count, const char *verb, const char *path) {
    const cla_profile_report most = ceilings(reports, count);
    FILE *out = cla_gnuplot_open();
    size_t points = 0;
    if (out) {
        const double ridge = most.peak_gflops / most.peak_gbytes;
        range x = {ridge / 16, ridge * 16}, y = {most.peak_gflops / 64, most.peak_gflops};
        points = put_points(out, reports, count, &x, &y);
        fprintf(
            out,
            "set terminal svg size 960,%zu font 'sans,14' background rgb 'white'\nset logscale xy\nset samples 500\n"
            "set format '%%g'\nset grid lc rgb '#cccccc'\n"
            "set key outside below center vertical maxcols 1 Left reverse noenhanced spacing 1.2 height 1\n"
            "set xlabel 'operations per byte that must be moved'\nset ylabel 'GFLOP/s'\n"
            "set title 'Kernels below what the device can do' noenhanced\nset xrange [%.9g:%.9g]\nset yrange "
            "[%.9g:%.9g]\nset output ",
            530 + 27 * points, x.low / 1.5, x.high * 1.5, y.low / 1.5, y.high * 1.5);
        cla_gnuplot_quoted(out, path);
        fprintf(out, "\n");
        put_plot(out, reports, count, &most);
    }
    const int exit_status = cla_gnuplot_close(out, verb, path);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    return points > 0
               ? CLA_EXIT_OK
               : cla_fail(CLA_EXIT_FAILED, "%s: no kernel knows its operations and bytes: nothing to draw", verb);
}
