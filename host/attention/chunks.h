/* SPDX-License-Identifier: Apache-2.0 */
/* How `materialised` cuts a problem so that a chunk's scores fit in the scratch that it may have. Arithmetic alone. */
#ifndef CLA_CHUNKS_H
#define CLA_CHUNKS_H

#include "attention/problem.h"

/* Sizes of the largest chunk. All batches only with all key heads, all key heads only with all members of their groups,
 * all members only with all queries, all queries only with all columns of V. */
typedef struct cla_chunks {
    int64_t batches, heads; /* heads: key heads */
    int64_t members, queries;
    int64_t columns; /* of V and O, in one product */
    int64_t blocks;  /* of keys, of a head's values */
    /* Bytes: scores, clean values, sums of rows, flags of blocks; multiples of 256. */
    int64_t scores, values, sums, flags;
} cla_chunks;

/* The largest chunk of at most limit bytes, or the smallest there is: a row of scores and a column of values. */
cla_chunks cla_chunks_choose(const cla_problem *p, int64_t limit);
int64_t cla_chunks_bytes(const cla_chunks *c);

#endif
