/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dropout.h"

#include <math.h>

cla_dropout cla_dropout_of(double p, uint64_t key) {
    const double bound = floor(p * 0x1p32 + 0.5);
    return (cla_dropout){.key = key, .bound = bound < 0x1p32 ? (uint32_t)bound : UINT32_MAX, .kept = 1.0 / (1.0 - p)};
}

void cla_dropout_words(uint64_t key, uint32_t counter[4]) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * counter[0], b = UINT64_C(0xCD9E8D57) * counter[2];
        const uint32_t c1 = counter[1], c3 = counter[3];
        counter[0] = (uint32_t)(b >> 32) ^ c1 ^ k0;
        counter[1] = (uint32_t)b;
        counter[2] = (uint32_t)(a >> 32) ^ c3 ^ k1;
        counter[3] = (uint32_t)a;
        k0 += UINT32_C(0x9E3779B9);
        k1 += UINT32_C(0xBB67AE85);
    }
}

double cla_dropout_factor(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j) {
    uint32_t words[4] = {(uint32_t)(j / 4), (uint32_t)i, (uint32_t)h, (uint32_t)b};
    cla_dropout_words(dropout->key, words);
    return words[j % 4] < dropout->bound ? 0 : dropout->kept;
}
