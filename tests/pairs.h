/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of levels, one a factor, in which every pair of levels of two factors occurs, but for pairs that exclude each
 * other. Level 0 is a factor's plain one. Knows nothing of what the factors mean. */
#ifndef PAIRS_H
#define PAIRS_H

#include "oracle.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { PAIRS_FACTORS = 40, PAIRS_VALUES = 192, PAIRS_ROWS = 2000 };

typedef struct {
    int level[PAIRS_FACTORS]; /* -1: not chosen yet */
} pairs_row;

typedef struct {
    int factors, levels[PAIRS_FACTORS];
    int first[PAIRS_FACTORS]; /* values are numbered through: first[f] + level */
    bool excluded[PAIRS_VALUES][PAIRS_VALUES], covered[PAIRS_VALUES][PAIRS_VALUES];
    oracle_random random;
    int count;
    pairs_row rows[PAIRS_ROWS];
} pairs_design;

static inline void pairs_exclude(pairs_design *d, int f, int a, int g, int b) {
    const int x = d->first[f] + a, y = d->first[g] + b;
    d->excluded[x][y] = d->excluded[y][x] = true;
}

/* How many pairs with the levels that are chosen this one would cover for the first time; -1: excluded by one. */
static inline int pairs_gain(const pairs_design *d, const pairs_row *r, int factor, int level) {
    const int x = d->first[factor] + level;
    int n = 0;
    for (int f = 0; f < d->factors; f++)
        if (f != factor && r->level[f] >= 0) {
            if (d->excluded[x][d->first[f] + r->level[f]])
                return -1;
            n += !d->covered[x][d->first[f] + r->level[f]];
        }
    return n;
}

/* The level that covers most. Where none covers anything more often than not the plain one, so that masks do not hide
 * everything together. */
static inline int pairs_best(pairs_design *d, const pairs_row *r, int factor) {
    const bool plain = oracle_below(&d->random, 10) < 6;
    const int start = plain ? 0 : (int)oracle_below(&d->random, d->levels[factor]);
    int best = -1, most = -1;
    for (int i = 0; i < d->levels[factor]; i++) {
        const int level = (start + i) % d->levels[factor], n = pairs_gain(d, r, factor, level);
        if (n > most) {
            most = n;
            best = level;
        }
    }
    cr_assert_geq(best, 0, "factor %d has no level that goes with the others", factor);
    return best;
}

static inline void pairs_add(pairs_design *d, pairs_row r) {
    int order[PAIRS_FACTORS];
    for (int i = 0; i < d->factors; i++) {
        const int j = (int)oracle_below(&d->random, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (int i = 0; i < d->factors; i++)
        if (r.level[order[i]] < 0)
            r.level[order[i]] = pairs_best(d, &r, order[i]);
    for (int f = 0; f < d->factors; f++)
        for (int g = 0; g < d->factors; g++)
            d->covered[d->first[f] + r.level[f]][d->first[g] + r.level[g]] = true;
    cr_assert_lt(d->count, PAIRS_ROWS);
    d->rows[d->count++] = r;
}

static inline pairs_design *pairs_start(int factors, const int *levels, uint64_t seed) {
    pairs_design *d = calloc(1, sizeof *d);
    int first = 0;
    cr_assert(d && factors <= PAIRS_FACTORS);
    d->random.state = seed;
    d->factors = factors;
    for (int f = 0; f < factors; f++) {
        d->levels[f] = levels[f];
        d->first[f] = first;
        first += levels[f];
    }
    cr_assert_leq(first, PAIRS_VALUES);
    return d;
}

/* Each pair that is not covered yet starts a row, which then takes in as many more as it can. */
static inline void pairs_cover(pairs_design *d) {
    for (int f = 0; f < d->factors; f++)
        for (int g = f + 1; g < d->factors; g++)
            for (int a = 0; a < d->levels[f]; a++)
                for (int b = 0; b < d->levels[g]; b++) {
                    const int x = d->first[f] + a, y = d->first[g] + b;
                    pairs_row r;
                    memset(r.level, -1, sizeof r.level);
                    r.level[f] = a;
                    r.level[g] = b;
                    if (!d->covered[x][y] && !d->excluded[x][y])
                        pairs_add(d, r);
                }
}

#endif
