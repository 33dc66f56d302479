/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dropout.h"

#include "base/philox.h"
#include <math.h>

double cla_dropout_probability(double p) { return fmin(floor(p * 0x1p32 + 0.5), 0x1p32 - 1) * 0x1p-32; }

cla_dropout cla_dropout_of(double p, uint64_t key) {
    const double taken = cla_dropout_probability(p);
    return (cla_dropout){.key = key, .bound = (uint32_t)(taken * 0x1p32), .kept = 1 / (1 - taken)};
}

void cla_dropout_words(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j, uint32_t words[4]) {
    words[0] = (uint32_t)(j / 4);
    words[1] = (uint32_t)i;
    words[2] = (uint32_t)h;
    words[3] = (uint32_t)b;
    cla_philox(words, dropout->key);
}

double cla_dropout_factor(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
    uint32_t words[4];
    cla_dropout_words(dropout, b, h, i, j, words);
    return words[j % 4] < dropout->bound ? 0 : dropout->kept;
}
