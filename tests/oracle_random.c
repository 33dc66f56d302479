/* SPDX-License-Identifier: Apache-2.0 */
/* splitmix64, and what is made from it. */
#include "oracle.h"

#include <math.h>

uint64_t oracle_next(oracle_random *random) {
    uint64_t z = random->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

int64_t oracle_below(oracle_random *random, int64_t n) { return (int64_t)(oracle_next(random) % (uint64_t)n); }

double oracle_uniform(oracle_random *random) { return (double)(oracle_next(random) >> 11) * 0x1p-53; }

double oracle_normal(oracle_random *random) {
    const double radius = sqrt(-2 * log(1 - oracle_uniform(random)));
    return radius * cos(6.283185307179586 * oracle_uniform(random));
}
