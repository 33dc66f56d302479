/* SPDX-License-Identifier: Apache-2.0 */
/* The cells of a panel in the smallest of three forms that the number of cells allows: rectangles with tooltips, paths,
 * an image. */
#include "heatmap_draw.h"

#include <string.h>

enum { LABEL_COLUMNS_MAX = 18, TOOLTIP_CELLS_MAX = 12000, PATH_CELLS_MAX = 200000 };

void cla_svg_escaped(FILE *file, const char *text) {
    for (size_t i = 0; text[i]; i++)
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

void cla_heatmap_label(const cla_labels *labels, int64_t block, int index, char *text, size_t size) {
    if (!labels || block > 1) {
        snprintf(text, size, "%lld", (long long)index * block);
        return;
    }
    const char *token = labels->items[index];
    const bool whole = cla_text_columns(token) <= LABEL_COLUMNS_MAX;
    const size_t bytes = whole ? strlen(token) : cla_text_cut(token, LABEL_COLUMNS_MAX - 1);
    snprintf(text, size, "%.*s%s", (int)bytes, token, whole ? "" : "\xe2\x80\xa6");
}

static void write_image(cla_drawing *d, const float *values, const cla_cell_box *box) {
    const cla_cells *c = &d->cells;
    fprintf(d->file,
            "<image x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" preserveAspectRatio=\"none\" "
            "image-rendering=\"optimizeSpeed\" xlink:href=\"",
            box->x, box->y, box->cell_w * c->columns, box->cell_h * c->rows);
    d->good = cla_write_png_uri(d->file, values, c->rows, c->columns, c->most) && d->good;
    fputs("\"/>\n", d->file);
}

/* A path for each colour, of runs of cells in a row: several times smaller than a rectangle a cell. */
static void write_paths(cla_drawing *d, const float *values, const cla_cell_box *box) {
    const cla_cells *c = &d->cells;
    fprintf(d->file, "<g shape-rendering=\"crispEdges\" transform=\"translate(%.2f %.2f) scale(%.4f %.4f)\">\n", box->x,
            box->y, box->cell_w, box->cell_h);
    for (int colour = 0; colour < CLA_COLOURS; colour++) {
        bool any = false;
        for (int i = 0; i < c->rows; i++)
            for (int j = 0, end; j < c->columns; j = end) {
                const float *row = values + (size_t)i * (size_t)c->columns;
                for (end = j; end < c->columns && cla_colour_index(row[end], c->most) == colour;)
                    end++;
                if (end == j) {
                    end++;
                    continue;
                }
                if (!any)
                    fprintf(d->file, "<path fill=\"#%06x\" d=\"", cla_colour(colour));
                any = true;
                fprintf(d->file, "M%d %dh%dv1h-%dz", j, i, end - j, end - j);
            }
        if (any)
            fputs("\"/>\n", d->file);
    }
    fputs("</g>\n", d->file);
}

/* Rectangles with tooltips. */
static void write_rectangles(cla_drawing *d, const float *values, const cla_cell_box *box) {
    const cla_cells *c = &d->cells;
    fputs("<g shape-rendering=\"crispEdges\">\n", d->file);
    for (int i = 0; i < c->rows; i++)
        for (int j = 0; j < c->columns; j++) {
            const float value = values[(size_t)i * (size_t)c->columns + (size_t)j];
            char query[160], key[160];
            cla_heatmap_label(d->map->queries, c->row_block, i, query, sizeof query);
            cla_heatmap_label(d->map->keys, c->col_block, j, key, sizeof key);
            fprintf(d->file, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" fill=\"#%06x\"><title>",
                    box->x + j * box->cell_w, box->y + i * box->cell_h, box->cell_w, box->cell_h,
                    cla_colour(cla_colour_index(value, c->most)));
            cla_svg_escaped(d->file, query);
            fputs(" \xe2\x86\x92 ", d->file);
            cla_svg_escaped(d->file, key);
            fprintf(d->file, ": %.4g</title></rect>\n", (double)value);
        }
    fputs("</g>\n", d->file);
}

void cla_heatmap_cells(cla_drawing *d, const float *values, const cla_cell_box *box) {
    const cla_cells *c = &d->cells;
    const int64_t cells = (int64_t)c->panels * c->rows * c->columns;
    if (cells <= TOOLTIP_CELLS_MAX)
        write_rectangles(d, values, box);
    else if (cells <= PATH_CELLS_MAX)
        write_paths(d, values, box);
    else
        write_image(d, values, box);
}
