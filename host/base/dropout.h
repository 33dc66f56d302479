/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights dropout drops: the same on every device and in both passes, whatever the tiles (kernels: philox.clh).
 * Weight (b, h, i, j) is judged by word j % 4 of Philox4x32-10 of the counter (j / 4, i, h, b).
 * Source: Salmon, Moraes, Dror, Shaw 2011. */
#ifndef CLA_DROPOUT_H
#define CLA_DROPOUT_H

#include <stdint.h>

typedef struct cla_dropout {
    uint64_t key;   /* of the call */
    uint32_t bound; /* a weight is dropped where its word is below */
    double kept;    /* what others are multiplied by: 1 / (1 - p) */
} cla_dropout;

/* p in [0, 1). */
cla_dropout cla_dropout_of(double p, uint64_t key);
/* counter becomes four random words. */
void cla_dropout_words(uint64_t key, uint32_t counter[4]);
/* 0 or kept. */
double cla_dropout_factor(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
