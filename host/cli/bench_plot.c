/* SPDX-License-Identifier: Apache-2.0 */
/* The plot: milliseconds over the size, one line for each family, device and algorithm, drawn by gnuplot. */
#include "args.h"
#include "bench_report.h"
#include "gnuplot.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Colours that stay apart for colour-blind readers (Okabe & Ito). */
static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#000000", "#999999"};

typedef struct series {
    const char *family;
    const cla_bench_device *device;
    size_t algorithm;
    bool transfers;
} series;

static double value_of(const cla_bench_entry *e, bool transfers) { return transfers ? e->transfers_ms : e->median_ms; }

/* Writes the points of a series to out (NULL: nowhere); returns how many there are. */
static size_t put_points(const cla_bench *bench, const series *s, FILE *out) {
    size_t count = 0;
    for (size_t i = 0; i < bench->problem_count * bench->device_count * bench->algorithm_count; i++) {
        const cla_bench_entry *e = &bench->entries[i];
        if (e->state != CLA_BENCH_MEASURED || e->device != s->device || e->algorithm != s->algorithm ||
            strcmp(e->problem->family, s->family) != 0 || value_of(e, s->transfers) <= 0)
            continue;
        if (out)
            fprintf(out, "%" PRId64 " %.9g\n", e->problem->size, value_of(e, s->transfers));
        count++;
    }
    return count;
}

static bool is_new_family(const cla_bench *bench, size_t problem) {
    for (size_t i = 0; i < problem; i++)
        if (strcmp(bench->problems[i].family, bench->problems[problem].family) == 0)
            return false;
    return true;
}

static size_t family_count(const cla_bench *bench) {
    size_t count = 0;
    for (size_t p = 0; p < bench->problem_count; p++)
        count += is_new_family(bench, p);
    return count;
}

/* Visits every series that has points: writes its data block $dK, or its plot clause. */
static size_t each_series(const cla_bench *bench, bool clauses, FILE *out) {
    const size_t families = family_count(bench);
    size_t k = 0, colour = 0;
    for (size_t p = 0; p < bench->problem_count; p++)
        for (size_t i = 0; i < bench->device_count * bench->algorithm_count && is_new_family(bench, p); i++) {
            series s = {bench->problems[p].family, &bench->devices[i / bench->algorithm_count],
                        bench->algorithms[i % bench->algorithm_count], false};
            const size_t before = k;
            for (int transfers = 0; transfers <= (s.device->info.is_opencl ? 1 : 0); transfers++) {
                s.transfers = transfers != 0;
                if (put_points(bench, &s, NULL) == 0)
                    continue;
                if (!clauses) {
                    fprintf(out, "$d%zu << EOD\n", k++);
                    put_points(bench, &s, out);
                    fprintf(out, "EOD\n");
                    continue;
                }
                char title[CLA_PROBLEM_TEXT_MAX + 160];
                snprintf(title, sizeof title, "%s on %s%s%s%s", clattn_algorithm_name(s.algorithm), s.device->info.spec,
                         transfers ? ", with transfers" : "", families > 1 ? ": " : "", families > 1 ? s.family : "");
                fprintf(out, "%s$d%zu using 1:2 with linespoints lc rgb '%s' lw %s pt %d ps 0.7 dt %d title ",
                        k ? ", " : "plot ", k, colours[colour % 8], transfers ? "1.2" : "2.2", transfers ? 6 : 7,
                        transfers                  ? 3
                        : s.device->info.is_opencl ? 1
                                                   : 2);
                cla_gnuplot_quoted(out, title);
                k++;
            }
            colour += k > before;
        }
    return k;
}

/* Tics at the sizes, and a little room around the first and the last. */
static void put_axis(const cla_bench *bench, FILE *out) {
    int64_t low = INT64_MAX, high = 0;
    fprintf(out, "set xtics (");
    for (size_t p = 0, n = 0; p < bench->problem_count; p++) {
        const int64_t size = bench->problems[p].size;
        bool is_new = true;
        for (size_t i = 0; i < p; i++)
            is_new = is_new && bench->problems[i].size != size;
        if (is_new)
            fprintf(out, "%s%" PRId64, n++ ? ", " : "", size);
        low = size < low ? size : low;
        high = size > high ? size : high;
    }
    fprintf(out, ")\nset xrange [%.9g:%.9g]\n", (double)low / 1.15, (double)high * 1.15);
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < bench->problem_count * bench->device_count * bench->algorithm_count; i++) {
        const cla_bench_entry *e = &bench->entries[i];
        if (e->state != CLA_BENCH_MEASURED)
            continue;
        least = fmin(least, e->transfers_ms > 0 ? fmin(e->median_ms, e->transfers_ms) : e->median_ms);
        most = fmax(most, fmax(e->median_ms, e->transfers_ms));
    }
    fprintf(out, "set yrange [%.9g:%.9g]\n", least / 1.3, most * 1.3);
}

static const char *axis_text(char letter) {
    switch (letter) {
    case 'n':
        return "n, queries and keys";
    case 'q':
        return "queries";
    case 'k':
        return "keys";
    case 'b':
        return "batch";
    case 'h':
        return "heads";
    case 'd':
        return "head dim";
    default:
        return "value dim";
    }
}

static void put_script(const cla_bench *bench, const char *path, FILE *out) {
    const size_t count = each_series(bench, false, out);
    fprintf(out,
            "set terminal svg size 960,%zu font 'sans,14' background rgb 'white'\n"
            "set logscale xy\nset format y '%%g'\nset grid xtics ytics lc rgb '#cccccc'\n"
            "set key outside below center vertical maxcols 1 Left reverse noenhanced spacing 1.2 height 1\n"
            "set ylabel 'median time in ms'\nset xlabel '%s'\nset output ",
            480 + 27 * count, axis_text(bench->swept));
    cla_gnuplot_quoted(out, path);
    char title[CLA_PROBLEM_TEXT_MAX + 160];
    snprintf(title, sizeof title, "Attention%s%s%s", bench->backward ? ", forward and backward" : "",
             family_count(bench) == 1 ? ", " : "", family_count(bench) == 1 ? bench->problems[0].family : "");
    fprintf(out, "\nset title ");
    cla_gnuplot_quoted(out, title);
    fprintf(out, " noenhanced\n");
    put_axis(bench, out);
    each_series(bench, true, out);
    fprintf(out, "\n");
}

static bool anything_measured(const cla_bench *bench) {
    for (size_t i = 0; i < bench->problem_count * bench->device_count * bench->algorithm_count; i++)
        if (bench->entries[i].state == CLA_BENCH_MEASURED)
            return true;
    return false;
}

int cla_bench_plot(const cla_bench *bench, const char *path) {
    if (!anything_measured(bench))
        return cla_fail(CLA_EXIT_FAILED, "bench: --plot: nothing was measured that could be drawn");
    FILE *gnuplot = cla_gnuplot_open();
    if (gnuplot)
        put_script(bench, path, gnuplot);
    return cla_gnuplot_close(gnuplot, "bench: --plot", path);
}
