/* SPDX-License-Identifier: Apache-2.0 */
#include "study_random.h"

#include <assert.h>
#include <math.h>

void cla_philox(uint32_t counter[4], uint64_t key) {
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

/* In (0, 1): never 0, of which there is no logarithm. */
static double unit(uint32_t bits) { return ((double)bits + 0.5) * 0x1p-32; }

void cla_random_normals(uint64_t seed, uint64_t stream, uint64_t first, size_t count, float *numbers) {
    const double pi2 = 6.283185307179586477;
    assert(first % 4 == 0);
    for (size_t i = 0; i < count; i += 4) {
        const uint64_t at = (first + i) / 4;
        uint32_t bits[4] = {(uint32_t)at, (uint32_t)(at >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
        cla_philox(bits, seed);
        for (size_t j = 0; j < 4 && i + j < count; j += 2) {
            const double radius = sqrt(-2 * log(unit(bits[j]))), angle = pi2 * unit(bits[j + 1]);
            numbers[i + j] = (float)(radius * cos(angle));
            if (i + j + 1 < count)
                numbers[i + j + 1] = (float)(radius * sin(angle));
        }
    }
}
