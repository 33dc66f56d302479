/* SPDX-License-Identifier: Apache-2.0 */
/* Which weights dropout drops: the same on every device and in both passes, whatever the tiles (kernels by vectors:
 * lanes_dropout.clh). Weight (b, h, i, j) is judged by word j % 4 of Philox (base/philox.h) of the counter
 * (j / 4, i, h, b). */
#ifndef CLA_DROPOUT_H
#define CLA_DROPOUT_H

#include <stdint.h>

typedef struct cla_dropout {
    uint64_t key;   /* of the call */
    uint32_t bound; /* a weight is dropped where its word is below */
    double kept;    /* what others are multiplied by: 1 / (1 - p) */
} cla_dropout;

/* What p in [0, 1) is taken as: the nearest multiple of 2^-32 below 1, so that kept is right for what is dropped, and 1
 * where nothing is. */
double cla_dropout_probability(double p);
cla_dropout cla_dropout_of(double p, uint64_t key);
/* Those of key j and of the others with the same j / 4. */
void cla_dropout_words(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j, uint32_t words[4]);
/* 0 or kept. */
double cla_dropout_factor(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j);

#endif
