/* SPDX-License-Identifier: Apache-2.0 */
/* Layout: header (title, subtitle, colour scale), at the left the mean, larger, at the right a grid of the heads. The
 * grid has query labels at its left column and key labels under the lowest panel of each column. */
#include "heatmap.h"

#include "args.h"
#include "heatmap_data.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_COLUMNS_MAX = 18, TOOLTIP_CELLS_MAX = 12000 };

static const double margin = 24, header = 76, gap = 18, panel_title = 20;

typedef struct drawing {
    FILE *file;
    const cla_heatmap *map;
    cla_cells cells;
    int grid_rows, grid_columns;
    double cell_w, cell_h;          /* of a head's panel */
    double mean_scale;              /* of the mean's cells, over a head's */
    double left_labels, low_labels; /* space for labels */
    double width, height;
    bool good;
} drawing;

/* ---- text ---- */

static void write_escaped(FILE *file, const char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        switch (text[i]) {
        case '&':
            fputs("&amp;", file);
            break;
        case '<':
            fputs("&lt;", file);
            break;
        case '>':
            fputs("&gt;", file);
            break;
        case '"':
            fputs("&quot;", file);
            break;
        default:
            fputc(text[i], file);
        }
}

static void write_text(drawing *d, double x, double y, const char *attributes, const char *text) {
    fprintf(d->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    write_escaped(d->file, text, strlen(text));
    fputs("</text>\n", d->file);
}

/* A token, cut to LABEL_COLUMNS_MAX; the number where there are no labels or a cell holds several. */
static void label_of(const cla_labels *labels, int64_t block, int index, char *text, size_t size) {
    if (!labels || block > 1) {
        snprintf(text, size, "%lld", (long long)(index * block));
        return;
    }
    const char *token = labels->items[index];
    const bool whole = cla_text_columns(token) <= LABEL_COLUMNS_MAX;
    const size_t bytes = whole ? strlen(token) : cla_text_cut(token, LABEL_COLUMNS_MAX - 1);
    snprintf(text, size, "%.*s%s", (int)bytes, token, whole ? "" : "\xe2\x80\xa6");
}

static double font_size(double cell) { return cell < 8.5 ? 8.5 : cell > 12 ? 12 : cell; }

/* Every which label is drawn, so that they do not touch. */
static int label_step(double cell, bool numbers) {
    static const int nice[] = {1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500};
    const double least = numbers ? 22 : 9.5;
    if (!numbers || cell >= least)
        return cell >= least ? 1 : (int)ceil(least / cell);
    for (size_t i = 0; i < sizeof nice / sizeof nice[0]; i++)
        if (nice[i] * cell >= least)
            return nice[i];
    return 1000;
}

static double label_space(const cla_labels *labels, int64_t block, int count, double cell) {
    int most = 1;
    for (int i = 0; i < count; i++) {
        char text[160];
        label_of(labels, block, i, text, sizeof text);
        const int columns = cla_text_columns(text);
        most = columns > most ? columns : most;
    }
    return 8 + most * 0.6 * font_size(cell);
}

/* ---- layout ---- */

static double panel_side(int panels) { return panels == 1 ? 440 : panels <= 5 ? 230 : panels <= 17 ? 190 : 150; }

static void lay_out_cells(drawing *d) {
    const double side = panel_side(d->cells.panels), most = d->cells.panels == 1 ? 48 : 30;
    double w = side / d->cells.columns, h = side / d->cells.rows;
    w = w > most ? most : w;
    h = h > most ? most : h;
    if (w < 4 * h && h < 4 * w) /* else square cells would make a thread of the panel */
        w = h = w < h ? w : h;
    d->cell_w = w;
    d->cell_h = h;
}

/* The number of columns that brings the grid nearest to 3:2, with few empty places. */
static void lay_out_grid(drawing *d, double panel_w, double panel_h) {
    double best = INFINITY;
    d->grid_columns = d->grid_rows = 1;
    for (int columns = 1; d->cells.panels > 1 && columns <= d->cells.heads; columns++) {
        const int rows = (d->cells.heads + columns - 1) / columns;
        const double ratio = columns * (panel_w + gap) / (rows * (panel_h + gap + panel_title));
        const double cost = fabs(log(ratio / 1.5)) + 0.25 * (rows * columns - d->cells.heads) / columns;
        if (cost < best) {
            best = cost;
            d->grid_columns = columns;
            d->grid_rows = rows;
        }
    }
}

static void lay_out(drawing *d) {
    const cla_cells *c = &d->cells;
    lay_out_cells(d);
    const double w = d->cell_w * c->columns, h = d->cell_h * c->rows;
    lay_out_grid(d, w, h);
    d->mean_scale = c->panels == 1 || d->grid_rows == 1 ? 1 : (2 * h + gap + panel_title) / h;
    d->mean_scale = d->mean_scale > 2.6 ? 2.6 : d->mean_scale;
    const double larger = d->mean_scale * d->cell_h, wider = d->mean_scale * d->cell_w;
    d->left_labels = 18 + label_space(d->map->queries, c->row_block, c->rows, larger);
    d->low_labels = 20 + label_space(d->map->keys, c->col_block, c->columns, wider);
    const double mean_w = d->left_labels + d->mean_scale * w, mean_h = panel_title + d->mean_scale * h;
    const double grid_w = c->panels == 1 ? 0 : gap + d->left_labels + d->grid_columns * (w + gap) - gap;
    const double grid_h = c->panels == 1 ? 0 : d->grid_rows * (panel_title + h + gap) - gap;
    const double wanted = 2 * margin + mean_w + grid_w;
    d->width = wanted < 560 ? 560 : wanted;
    d->height = header + (mean_h > grid_h ? mean_h : grid_h) + d->low_labels + 34;
}

/* ---- panels ---- */

static void write_cells(drawing *d, const float *values, double x, double y, double cell_w, double cell_h) {
    const cla_cells *c = &d->cells;
    if ((int64_t)c->panels * c->rows * c->columns > TOOLTIP_CELLS_MAX) {
        fprintf(d->file,
                "<image x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" preserveAspectRatio=\"none\" "
                "image-rendering=\"optimizeSpeed\" style=\"image-rendering:pixelated\" xlink:href=\"",
                x, y, cell_w * c->columns, cell_h * c->rows);
        d->good = cla_write_png_uri(d->file, values, c->rows, c->columns, c->most) && d->good;
        fputs("\"/>\n", d->file);
        return;
    }
    fputs("<g shape-rendering=\"crispEdges\">\n", d->file);
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++) {
            const float value = values[(size_t)i * (size_t)c->columns + (size_t)j];
            char query[160], key[160];
            label_of(d->map->queries, c->row_block, i, query, sizeof query);
            label_of(d->map->keys, c->col_block, j, key, sizeof key);
            fprintf(d->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"#%06x\"><title>",
                    x + j * cell_w, y + i * cell_h, cell_w, cell_h, cla_colour(cla_colour_index(value, c->most)));
            write_escaped(d->file, query, strlen(query));
            fputs(" \xe2\x86\x92 ", d->file);
            write_escaped(d->file, key, strlen(key));
            fprintf(d->file, ": %.4g</title></rect>\n", (double)value);
        }
    fputs("</g>\n", d->file);
}

static void write_query_labels(drawing *d, double x, double y, double cell) {
    const cla_cells *c = &d->cells;
    const bool numbers = !d->map->queries || c->row_block > 1;
    const double font = font_size(cell);
    for (int i = 0, step = label_step(cell, numbers); i < c->rows; i += step) {
        char text[160], attributes[80];
        label_of(d->map->queries, c->row_block, i, text, sizeof text);
        snprintf(attributes, sizeof attributes, "text-anchor=\"end\" font-size=\"%.1f\"", font);
        write_text(d, x - 5, y + (i + 0.5) * cell + 0.35 * font, attributes, text);
    }
    char attributes[120];
    const double at_x = x - d->left_labels + 12, at_y = y + c->rows * cell / 2;
    snprintf(attributes, sizeof attributes, "class=\"axis\" text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"",
             at_x, at_y);
    write_text(d, at_x, at_y, attributes, "query");
}

static void write_key_labels(drawing *d, double x, double y, double cell) {
    const cla_cells *c = &d->cells;
    const bool numbers = !d->map->keys || c->col_block > 1;
    const double font = font_size(cell);
    for (int j = 0, step = label_step(cell, numbers); j < c->columns; j += step) {
        char text[160], attributes[120];
        const double at_x = x + (j + 0.5) * cell, at_y = y + 5;
        label_of(d->map->keys, c->col_block, j, text, sizeof text);
        if (numbers)
            snprintf(attributes, sizeof attributes, "text-anchor=\"middle\" font-size=\"%.1f\"", font);
        else
            snprintf(attributes, sizeof attributes,
                     "text-anchor=\"end\" font-size=\"%.1f\" transform=\"rotate(-90 %.1f %.1f)\"", font, at_x, at_y);
        write_text(d, numbers ? at_x : at_x + 0.35 * font, numbers ? at_y + font * 0.8 : at_y, attributes, text);
    }
    write_text(d, x + c->columns * cell / 2, y + (numbers ? 32 : d->low_labels - 4),
               "class=\"axis\" text-anchor=\"middle\"", "key");
}

static void write_panel(drawing *d, int panel, double x, double y, double scale) {
    const cla_cells *c = &d->cells;
    const double cell_w = scale * d->cell_w, cell_h = scale * d->cell_h;
    char title[64];
    if (c->panels == 1)
        snprintf(title, sizeof title, "head 0");
    else if (panel == 0)
        snprintf(title, sizeof title, "mean of %d heads", c->heads);
    else
        snprintf(title, sizeof title, "head %d", panel - 1);
    write_text(d, x, y - 6, panel == 0 ? "font-size=\"13\" font-weight=\"600\"" : "font-size=\"11\"", title);
    write_cells(d, c->values + (size_t)panel * (size_t)c->rows * (size_t)c->columns, x, y, cell_w, cell_h);
    fprintf(d->file,
            "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"none\" stroke=\"#9aa0a6\" "
            "stroke-width=\"0.8\"/>\n",
            x, y, cell_w * c->columns, cell_h * c->rows);
    const int head = panel - 1; /* the grid's outer panels have labels, and the mean */
    if (panel == 0 || head % d->grid_columns == 0)
        write_query_labels(d, x, y, cell_h);
    if (panel == 0 || head + d->grid_columns >= c->heads)
        write_key_labels(d, x, y + cell_h * c->rows, cell_w);
}

/* ---- header ---- */

/* 1, 2 or 5 times a power of ten, for about four ticks. */
static double tick_step(double most) {
    const double raw = most / 4, power = pow(10, floor(log10(raw))), x = raw / power;
    return power * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

static void write_key_box(drawing *d, double x, double y, unsigned colour, const char *text) {
    fprintf(d->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"#%06x\" stroke=\"#9aa0a6\" "
            "stroke-width=\"0.6\"/>\n",
            x, y, colour);
    write_text(d, x + 16, y + 9.5, "font-size=\"10.5\"", text);
}

static void write_scale(drawing *d) {
    const cla_cells *c = &d->cells;
    const double w = 200, h = 11, x = d->width - margin - w, y = 22;
    fputs("<defs><linearGradient id=\"scale\">", d->file);
    for (int i = 0; i <= 16; i++)
        fprintf(d->file, "<stop offset=\"%.4f\" stop-color=\"#%06x\"/>", i / 16.0,
                cla_colour(i * (CLA_COLOUR_SCALE - 1) / 16));
    fprintf(d->file,
            "</linearGradient></defs>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"url(#scale)\"/>\n",
            x, y, w, h);
    const double most = c->most > 0 ? c->most : 1, step = tick_step(most);
    for (int i = 0; i * step <= most * 1.0001; i++) {
        char text[32];
        const double at = x + w * i * step / most;
        snprintf(text, sizeof text, "%.4g", i * step);
        fprintf(d->file, "<path d=\"M%.1f %.1fv4\" stroke=\"#5f6368\" stroke-width=\"0.8\"/>\n", at, y + h);
        write_text(d, at, y + h + 14, "text-anchor=\"middle\" font-size=\"10\"", text);
    }
    if (c->has_zero)
        write_key_box(d, x - 74, y, cla_colour(CLA_COLOUR_ZERO), "exactly 0");
    if (c->has_nan)
        write_key_box(d, x - 74, y + 16, cla_colour(CLA_COLOUR_NAN), "NaN");
}

static void write_header(drawing *d) {
    const cla_cells *c = &d->cells;
    fprintf(d->file,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
            "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\" "
            "width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
            "font-family=\"'Helvetica Neue', Helvetica, Arial, 'DejaVu Sans', sans-serif\" fill=\"#202124\">\n"
            "<style>.axis{font-size:11.5px;fill:#5f6368;font-style:italic}.small{font-size:11px;fill:#5f6368}</style>\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
            ceil(d->width), ceil(d->height), ceil(d->width), ceil(d->height));
    write_text(d, margin, 31, "font-size=\"17\" font-weight=\"600\"", d->map->title);
    write_text(d, margin, 50, "class=\"small\"", d->map->subtitle);
    char note[200] = "A row is a query: how its attention is spread over the keys.";
    if (c->row_block > 1 || c->col_block > 1)
        snprintf(note, sizeof note,
                 "A row is a query. Each cell is the mean of %lld \xc3\x97 %lld weights (queries "
                 "\xc3\x97 keys).",
                 (long long)c->row_block, (long long)c->col_block);
    write_text(d, margin, ceil(d->height) - 12, "class=\"small\"", note);
    write_scale(d);
}

static void draw(drawing *d) {
    const cla_cells *c = &d->cells;
    const double w = d->cell_w * c->columns, h = d->cell_h * c->rows, top = header + panel_title;
    const double grid_x = margin + d->left_labels + d->mean_scale * w + gap + d->left_labels;
    write_header(d);
    write_panel(d, 0, margin + d->left_labels, top, d->mean_scale);
    for (int panel = 1; panel < c->panels; panel++) {
        const int row = (panel - 1) / d->grid_columns, column = (panel - 1) % d->grid_columns;
        write_panel(d, panel, grid_x + column * (w + gap), top + row * (panel_title + h + gap), 1);
    }
    fputs("</svg>\n", d->file);
}

int cla_heatmap_write(const char *path, const cla_heatmap *map) {
    const int64_t heads = map->weights.shape[0];
    if (heads > CLA_HEATMAP_HEADS_MAX)
        return cla_fail(CLA_EXIT_USAGE, "--heatmap draws at most %d heads, and there are %lld", CLA_HEATMAP_HEADS_MAX,
                        (long long)heads);
    if (clattn_tensor_elements(&map->weights) <= 0)
        return cla_fail(CLA_EXIT_USAGE, "--heatmap: there are no weights to draw: %lld heads, %lld queries, %lld keys",
                        (long long)heads, (long long)map->weights.shape[1], (long long)map->weights.shape[2]);
    drawing d = {.map = map, .good = true};
    if (!cla_cells_create(&map->weights, CLA_HEATMAP_CELLS_MAX, &d.cells))
        return cla_fail(CLA_EXIT_FAILED, "--heatmap: out of memory for %lld panels", (long long)heads + 1);
    int exit_status = CLA_EXIT_OK;
    d.file = fopen(path, "wb");
    if (d.file) {
        lay_out(&d);
        draw(&d);
        const bool written = !ferror(d.file);
        if (fclose(d.file) != 0 || !written)
            exit_status = cla_fail(CLA_EXIT_FAILED, "--heatmap cannot be written: %s", strerror(errno));
        else if (!d.good)
            exit_status = cla_fail(CLA_EXIT_FAILED, "--heatmap: out of memory for an image");
    } else {
        exit_status = cla_fail(CLA_EXIT_FAILED, "--heatmap cannot be written: %s", strerror(errno));
    }
    cla_cells_free(&d.cells);
    return exit_status;
}
