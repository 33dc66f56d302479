/* SPDX-License-Identifier: Apache-2.0 */
/* Attention weights as an SVG: one panel a head and their mean. Written by hand, no library. */
#ifndef CLA_HEATMAP_H
#define CLA_HEATMAP_H

#include "labels.h"
#include <clattn/tensor.h>

enum {
    CLA_HEATMAP_CELLS_MAX = 512, /* cells of a panel along an axis; above, blocks of weights are averaged */
    CLA_HEATMAP_HEADS_MAX = 256
};

typedef struct cla_heatmap {
    clattn_tensor weights; /* host, [H, N, M], f32 or f64 */
    const char *title, *subtitle;
    const cla_labels *queries, *keys; /* NULL: numbers */
} cla_heatmap;

/* Prints one line and returns the exit status when something is wrong. */
int cla_heatmap_write(const char *path, const cla_heatmap *map);

#endif
