/* SPDX-License-Identifier: Apache-2.0 */
#include "heatmap_data.h"

#include <math.h>
#include <stdlib.h>

static double weight_at(const clattn_tensor *t, int64_t h, int64_t i, int64_t j) {
    const int64_t at = t->offset + h * t->stride[0] + i * t->stride[1] + j * t->stride[2];
    return t->dtype == CLATTN_F64 ? ((const double *)t->host)[at] : (double)((const float *)t->host)[at];
}

static double block_mean(const clattn_tensor *t, const cla_cells *c, int64_t h, int row, int column) {
    const int64_t i0 = row * c->row_block, j0 = column * c->col_block;
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = i0; i < i0 + c->row_block && i < t->shape[1]; i++)
        for (int64_t j = j0; j < j0 + c->col_block && j < t->shape[2]; j++, count++)
            sum += weight_at(t, h, i, j);
    return sum / (double)count;
}

static void note_value(cla_cells *c, float value) {
    if (isnan(value))
        c->has_nan = true;
    else if (value == 0)
        c->has_zero = true;
    else if (isfinite(value) && value > c->most)
        c->most = value;
}

bool cla_cells_create(const clattn_tensor *weights, int cells_max, cla_cells *cells) {
    const int64_t heads = weights->shape[0], n = weights->shape[1], m = weights->shape[2];
    cla_cells c = {.heads = (int)heads, .panels = heads > 1 ? (int)heads + 1 : 1};
    c.row_block = (n + cells_max - 1) / cells_max;
    c.col_block = (m + cells_max - 1) / cells_max;
    c.rows = (int)((n + c.row_block - 1) / c.row_block);
    c.columns = (int)((m + c.col_block - 1) / c.col_block);
    const size_t size = (size_t)c.rows * (size_t)c.columns;
    c.values = calloc((size_t)c.panels * size, sizeof *c.values);
    if (!c.values)
        return false;
    for (int row = 0; row < c.rows; row++)
        for (int column = 0; column < c.columns; column++) {
            const size_t at = (size_t)row * (size_t)c.columns + (size_t)column;
            double sum = 0;
            for (int h = 0; h < c.heads; h++) {
                const double mean = block_mean(weights, &c, h, row, column);
                if (c.panels > 1)
                    c.values[(size_t)(h + 1) * size + at] = (float)mean;
                sum += mean;
            }
            c.values[at] = (float)(sum / c.heads);
        }
    for (size_t i = 0; i < (size_t)c.panels * size; i++)
        note_value(&c, c.values[i]);
    *cells = c;
    return true;
}

void cla_cells_free(cla_cells *cells) {
    free(cells->values);
    *cells = (cla_cells){0};
}

/* ---- colours ---- */

int cla_colour_index(float value, float most) {
    if (isnan(value))
        return CLA_COLOUR_NAN;
    if (value == 0)
        return CLA_COLOUR_ZERO;
    const float x = most > 0 && value > 0 ? sqrtf(value / most) : 0; /* small weights are most of them */
    return (int)((x < 0 ? 0 : x > 1 ? 1 : x) * (CLA_COLOUR_SCALE - 1) + 0.5f);
}

unsigned cla_colour(int index) {
    /* viridis (van der Walt and Smith, CC0) at nine places */
    static const unsigned places[] = {0x440154, 0x472d7b, 0x3b528b, 0x2c728e, 0x21918c,
                                      0x28ae80, 0x5ec962, 0xaddc30, 0xfde725};
    if (index == CLA_COLOUR_ZERO)
        return 0xeceef0;
    if (index == CLA_COLOUR_NAN)
        return 0xd62728;
    const double at = 8.0 * index / (CLA_COLOUR_SCALE - 1);
    const int low = at >= 8 ? 7 : (int)at;
    unsigned colour = 0;
    for (int shift = 16; shift >= 0; shift -= 8) {
        const double a = places[low] >> shift & 0xff, b = places[low + 1] >> shift & 0xff;
        colour |= (unsigned)(a + (b - a) * (at - low) + 0.5) << shift;
    }
    return colour;
}
