/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by heatmap.c (layout, axes, header) and heatmap_cells.c (the cells of a panel). */
#ifndef CLA_HEATMAP_DRAW_H
#define CLA_HEATMAP_DRAW_H

#include "heatmap.h"
#include "heatmap_data.h"

typedef struct cla_drawing {
    FILE *file;
    const cla_heatmap *map;
    cla_cells cells;
    int grid_rows, grid_columns;
    double cell_w, cell_h;          /* of a head's panel */
    double mean_scale;              /* of the mean's cells, over a head's */
    double left_labels, low_labels; /* space for labels */
    double width, height;
    bool good;
} cla_drawing;

typedef struct cla_cell_box {
    double x, y;           /* of the panel */
    double cell_w, cell_h; /* of a cell */
} cla_cell_box;

void cla_svg_escaped(FILE *file, const char *text);
/* A token, shortened where it is long; the number where there are no labels or a cell holds several. */
void cla_heatmap_label(const cla_labels *labels, int64_t block, int index, char *text, size_t size);
void cla_heatmap_cells(cla_drawing *d, const float *values, const cla_cell_box *box);

#endif
