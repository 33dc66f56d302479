/* SPDX-License-Identifier: Apache-2.0 */
/* Layout: header (title, subtitle, colour scale), at the left the mean, larger, at the right a grid of the heads. The
 * grid has query labels at its left column and key labels under the lowest panel of each column. */
#include "heatmap.h"

#include "args.h"
#include "heatmap_draw.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double margin = 24, header = 76, gap = 18, panel_title = 20;

/* ---- text ---- */

static void write_text(cla_drawing *d, double x, double y, const char *attributes, const char *text) {
    fprintf(d->file, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, attributes);
    cla_svg_escaped(d->file, text);
    fputs("</text>\n", d->file);
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
        cla_heatmap_label(labels, block, i, text, sizeof text);
        const int columns = cla_text_columns(text);
        most = columns > most ? columns : most;
    }
    return 8 + most * 0.6 * font_size(cell);
}

/* ---- layout ---- */

static double panel_side(int panels) { return panels == 1 ? 440 : panels <= 5 ? 230 : panels <= 17 ? 190 : 150; }

static void lay_out_cells(cla_drawing *d) {
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
static void lay_out_grid(cla_drawing *d, double panel_w, double panel_h) {
    double best = INFINITY;
    d->grid_columns = d->grid_rows = 1;
    for (int columns = 1; d->cells.panels > 1 && columns <= d->cells.heads; columns++) {
        const int rows = (d->cells.heads + columns - 1) / columns;
        const double ratio = columns * (panel_w + gap) / (rows * (panel_h + gap + panel_title));
        const double cost = fabs(log(ratio / 1.5)) + 1.0 * (rows * columns - d->cells.heads) / columns;
        if (cost < best) {
            best = cost;
            d->grid_columns = columns;
            d->grid_rows = rows;
        }
    }
}

static void lay_out(cla_drawing *d) {
    const cla_cells *c = &d->cells;
    lay_out_cells(d);
    const double w = d->cell_w * c->columns, h = d->cell_h * c->rows;
    lay_out_grid(d, w, h);
    const int spanned = c->panels == 1 ? 1 : d->grid_rows < 3 ? d->grid_rows : 3;
    d->mean_scale = (spanned * h + (spanned - 1) * (gap + panel_title)) / h; /* as high as rows of the grid */
    const double widest = w > 400 ? 1 : 640 / w;
    d->mean_scale = d->mean_scale > widest ? widest : d->mean_scale;
    const double larger = d->mean_scale * d->cell_h, wider = d->mean_scale * d->cell_w;
    d->left_labels = 18 + label_space(d->map->queries, c->row_block, c->rows, larger);
    d->low_labels = 20 + label_space(d->map->keys, c->col_block, c->columns, wider);
    const double mean_w = d->left_labels + d->mean_scale * w, mean_h = panel_title + d->mean_scale * h;
    const double grid_w = c->panels == 1 ? 0 : gap + d->left_labels + d->grid_columns * (w + gap) - gap;
    const double grid_h = c->panels == 1 ? 0 : d->grid_rows * (panel_title + h + gap) - gap;
    const double wanted = 2 * margin + mean_w + grid_w;
    d->width = wanted < 640 ? 640 : wanted;
    d->height = header + (mean_h > grid_h ? mean_h : grid_h) + d->low_labels + 34;
}

/* ---- panels ---- */

static void write_query_labels(cla_drawing *d, double x, double y, double cell) {
    const cla_cells *c = &d->cells;
    const bool numbers = !d->map->queries || c->row_block > 1;
    const double font = font_size(cell);
    for (int i = 0, step = label_step(cell, numbers); i < c->rows; i += step) {
        char text[160], attributes[80];
        cla_heatmap_label(d->map->queries, c->row_block, i, text, sizeof text);
        snprintf(attributes, sizeof attributes, "text-anchor=\"end\" font-size=\"%.1f\"", font);
        write_text(d, x - 5, y + (i + 0.5) * cell + 0.35 * font, attributes, text);
    }
    char attributes[120];
    const double at_x = x - d->left_labels + 12, at_y = y + c->rows * cell / 2;
    snprintf(attributes, sizeof attributes, "class=\"axis\" text-anchor=\"middle\" transform=\"rotate(-90 %.1f %.1f)\"",
             at_x, at_y);
    write_text(d, at_x, at_y, attributes, "query");
}

static void write_key_labels(cla_drawing *d, double x, double y, double cell) {
    const cla_cells *c = &d->cells;
    const bool numbers = !d->map->keys || c->col_block > 1;
    const double font = font_size(cell);
    for (int j = 0, step = label_step(cell, numbers); j < c->columns; j += step) {
        char text[160], attributes[120];
        const double at_x = x + (j + 0.5) * cell, at_y = y + 5;
        cla_heatmap_label(d->map->keys, c->col_block, j, text, sizeof text);
        if (numbers)
            snprintf(attributes, sizeof attributes, "text-anchor=\"middle\" font-size=\"%.1f\"", font);
        else
            snprintf(attributes, sizeof attributes,
                     "text-anchor=\"end\" font-size=\"%.1f\" transform=\"rotate(-90 %.1f %.1f)\"", font, at_x, at_y);
        write_text(d, at_x, at_y + (numbers ? 0.8 : 0.35) * font, attributes, text); /* turned, down becomes right */
    }
    write_text(d, x + c->columns * cell / 2, y + (numbers ? 32 : d->low_labels - 4),
               "class=\"axis\" text-anchor=\"middle\"", "key");
}

static void write_panel(cla_drawing *d, int panel, double x, double y, double scale) {
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
    const float *values = c->values + (size_t)panel * (size_t)c->rows * (size_t)c->columns;
    cla_heatmap_cells(d, values, &(cla_cell_box){x, y, cell_w, cell_h});
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

/* 0, a part of a step (the root spreads what is small), then steps. */
static double value_of_tick(int i, double step) {
    const double first = step / pow(10, floor(log10(step * 1.001)));
    return i == 0 ? 0 : i == 1 ? step / (first > 4 ? 5 : 4) : (i - 1) * step;
}

static void write_key_box(cla_drawing *d, double x, double y, unsigned colour, const char *text) {
    fprintf(d->file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"11\" height=\"11\" fill=\"#%06x\" stroke=\"#9aa0a6\" "
            "stroke-width=\"0.6\"/>\n",
            x, y, colour);
    write_text(d, x + 16, y + 9.5, "font-size=\"10.5\"", text);
}

static void write_scale(cla_drawing *d) {
    const cla_cells *c = &d->cells;
    const double w = 220, h = 11, x = d->width - margin - w, y = 28;
    fputs("<defs><linearGradient id=\"scale\">", d->file);
    for (int i = 0; i <= 16; i++)
        fprintf(d->file, "<stop offset=\"%.4f\" stop-color=\"#%06x\"/>", i / 16.0,
                cla_colour(i * (CLA_COLOUR_SCALE - 1) / 16));
    fprintf(d->file,
            "</linearGradient></defs>\n<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
            "fill=\"url(#scale)\"/>\n",
            x, y, w, h);
    const double most = c->most > 0 ? (double)c->most : 1, step = tick_step(most);
    double last = -100;
    for (int i = 0; i == 0 || value_of_tick(i, step) <= most * 1.0001; i++) {
        char text[32];
        const double value = value_of_tick(i, step), at = x + w * sqrt(value / most);
        snprintf(text, sizeof text, "%.4g", value);
        fprintf(d->file, "<path d=\"M%.1f %.1fv4\" stroke=\"#5f6368\" stroke-width=\"0.8\"/>\n", at, y + h);
        if (at - last >= 6.0 * (double)strlen(text) + 6) {
            write_text(d, at, y + h + 14, "text-anchor=\"middle\" font-size=\"10\"", text);
            last = at;
        }
    }
    write_text(d, x, y - 5, "font-size=\"10\"", "weight, square-root scale");
    if (c->has_zero)
        write_key_box(d, x - 74, y, cla_colour(CLA_COLOUR_ZERO), "exactly 0");
    if (c->has_nan)
        write_key_box(d, x - 74, y + 16, cla_colour(CLA_COLOUR_NAN), "NaN");
}

static void write_header(cla_drawing *d) {
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

static void draw(cla_drawing *d) {
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
    cla_drawing d = {.map = map, .good = true};
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
