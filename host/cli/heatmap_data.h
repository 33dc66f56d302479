/* SPDX-License-Identifier: Apache-2.0 */
/* What heatmap.c draws: weights averaged down to cells, and the numbers of the drawing. */
#ifndef CLA_HEATMAP_DATA_H
#define CLA_HEATMAP_DATA_H

#include <clattn/tensor.h>
#include <stdio.h>

typedef struct cla_cells {
    int heads;                    /* panels 1 to heads are the heads' when there is more than one */
    int panels;                   /* panel 0 is the mean; one head has one panel */
    int rows, columns;            /* of each panel */
    int64_t row_block, col_block; /* weights averaged into a cell */
    float *values;                /* [panels][rows][columns] */
    float most;                   /* the largest finite value; 0 when there is none */
    bool has_zero, has_nan;
} cla_cells;

/* false: out of memory. */
bool cla_cells_create(const clattn_tensor *weights, int cells_max, cla_cells *cells);
void cla_cells_free(cla_cells *cells);

/* Colours: an index 0 to 253 of the scale (by the square root of value / most), then not seen (exactly 0) and NaN. */
enum { CLA_COLOUR_SCALE = 254, CLA_COLOUR_ZERO = 254, CLA_COLOUR_NAN = 255, CLA_COLOURS = 256 };
int cla_colour_index(float value, float most);
/* 0xrrggbb */
unsigned cla_colour(int index);

/* Writes "data:image/png;base64,...": the panel as an indexed image, a pixel a cell. false: out of memory. */
bool cla_write_png_uri(FILE *file, const float *values, int rows, int columns, float most);

#endif
