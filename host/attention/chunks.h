/* SPDX-License-Identifier: Apache-2.0 */
/* How `materialised` cuts a problem so that a chunk's scores fit in the scratch that it may have, in both passes.
 * Arithmetic alone. */
#ifndef CLA_CHUNKS_H
#define CLA_CHUNKS_H

#include "attention/problem.h"

/* One chunk: queries [i0, i0 + n) of N, of the heads hk * group + [m0, m0 + nm), for nb batches and nk key heads, with
 * M keys. Rows start at q_row and k_row: one sequence of several, else 0. */
typedef struct cla_chunk {
    int64_t b0, nb, hk0, nk, m0, nm, i0, n;
    int64_t N, M, q_row, k_row;
} cla_chunk;

/* How many batches, key heads, members of their groups and queries a chunk has at most. */
typedef struct cla_chunk_sizes {
    int64_t batches, heads, members, queries;
} cla_chunk_sizes;

/* The key heads from hk of the batches from b: all their members and queries. */
cla_chunk cla_chunk_of_heads(const cla_problem *p, const cla_chunk_sizes *sizes, int64_t b, int64_t hk);
/* Of these the next chunk, m0 and i0 being set. */
void cla_chunk_cut(const cla_problem *p, const cla_chunk_sizes *sizes, cla_chunk *c);
/* The first chunk, which is the largest, and the last, which reaches furthest. */
void cla_chunk_ends(const cla_problem *p, const cla_chunk_sizes *sizes, cla_chunk ends[2]);

/* Sizes of the largest chunk. All batches only with all key heads, all key heads only with all members of their groups,
 * all members only with all queries, all queries only with all columns of V. */
typedef struct cla_chunks {
    cla_chunk_sizes of;
    int64_t columns; /* of V and O, in one product */
    int64_t blocks;  /* of keys, of a head's values */
    /* Bytes: scores, clean values, sums of rows, flags of blocks; multiples of 256. */
    int64_t scores, values, sums, flags;
} cla_chunks;

/* The largest chunk of at most limit bytes, or the smallest there is: a row of scores and a column of values. */
cla_chunks cla_chunks_choose(const cla_problem *p, int64_t limit);
int64_t cla_chunks_bytes(const cla_chunks *c);

/* What of the backward pass lies in scratch: scores and their gradients, numbers of rows; Q, dO and K without what is
 * not finite, with flags of blocks. */
enum {
    CLA_PIECE_S,
    CLA_PIECE_G,
    CLA_PIECE_ROWS,
    CLA_PIECE_Q,
    CLA_PIECE_Q_FLAGS,
    CLA_PIECE_O,
    CLA_PIECE_O_FLAGS,
    CLA_PIECE_K,
    CLA_PIECE_K_FLAGS,
    CLA_PIECES
};
typedef struct cla_gradient_chunks {
    cla_chunk_sizes of;
    int64_t bytes[CLA_PIECES]; /* multiples of 256; 0: not needed for the gradients that are wanted */
} cla_gradient_chunks;

/* The largest chunk of at most limit bytes, or the smallest there is: a row of scores and the keys of a head. */
cla_gradient_chunks cla_gradient_chunks_choose(const cla_problem *p, int64_t limit);
int64_t cla_gradient_chunks_bytes(const cla_gradient_chunks *c);
/* The gradients of scores are needed, not only d_v. */
bool cla_gradients_by_scores(const cla_problem *p);

#endif
