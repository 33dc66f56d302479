/* SPDX-License-Identifier: Apache-2.0 */
/* Philox 4x32-10: random bits by their place, the same as those of kernels/philox.clh and lanes_dropout.clh. */
#ifndef CLA_PHILOX_H
#define CLA_PHILOX_H

#include <stdint.h>

/* Ten rounds on a counter, in place; the key's low word is the first. */
void cla_philox(uint32_t counter[4], uint64_t key);

#endif
