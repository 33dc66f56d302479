/* SPDX-License-Identifier: Apache-2.0 */
/* splitmix64 (Steele, Lea & Flood 2014): the same numbers everywhere, for tests of devices and choices of rows. */
#ifndef CLA_MIX_H
#define CLA_MIX_H

#include <stdint.h>

#define CLA_MIX_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t cla_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* The next number of a sequence that starts with any *state. */
static inline uint64_t cla_mix_next(uint64_t *state) { return cla_mix(*state += CLA_MIX_STEP); }

#endif
