/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by their place in a stream, by plain C: the bits of kernels/random.cl. */
#ifndef CLA_REF_RANDOM_H
#define CLA_REF_RANDOM_H

#include <clattn/ops.h>

/* y has host storage at `host` + offset, and is walked in rows; checked by the caller. */
typedef struct cla_random {
    clattn_tensor y;
    clattn_distribution distribution;
    uint64_t seed, stream, first;
    int outer;
    int64_t rows, length;
    clattn_dtype dtype; /* of the sums, which there are none of: f64 where y is */
} cla_random;
void cla_ref_random(const cla_random *a);

#endif
