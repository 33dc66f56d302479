/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by their place: number i of a stream is a function of seed, stream and i alone, so that parts can be
 * made in any order. Philox 4x32-10, Salmon, Moraes, Dror, Shaw 2011. */
#ifndef CLA_STUDY_RANDOM_H
#define CLA_STUDY_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* Ten rounds on a counter, in place. */
void cla_philox(uint32_t counter[4], uint64_t key);

/* Numbers [first, first + count) of a stream, N(0, 1) by Box and Muller; first is a multiple of 4. */
void cla_random_normals(uint64_t seed, uint64_t stream, uint64_t first, size_t count, float *numbers);

#endif
