/* SPDX-License-Identifier: Apache-2.0 */
/* Random tensors for a problem that is given as text: the same numbers for the same seed, everywhere. */
#ifndef CLA_PROBLEM_DATA_H
#define CLA_PROBLEM_DATA_H

#include "problem_text.h"
#include <clattn/io.h>

typedef struct cla_problem_data {
    clattn_array q, k, v, o;               /* k and v: in pages where the problem has them */
    clattn_array keep, bias;               /* [N, M]; like all that follow, rank 0 when the problem has none */
    clattn_array sinks, slopes;            /* [H] */
    clattn_array lengths, queries, prefix; /* [B] i64 */
    clattn_array offsets;                  /* [B] i64 */
    clattn_array q_segments, k_segments;   /* [B, N], [B, M] i32 */
    clattn_array cu_queries, cu_keys;      /* [B + 1] i64 */
    clattn_array table;                    /* [B, pages of the longest] i32 */
    clattn_attention_args args;            /* host arrays, and the options of the problem */
} cla_problem_data;

/* q, k, v, bias and sinks are uniform in [-1, 1), keep sees 7 keys of 8, lengths go from 1 to N or M. */
clattn_status cla_problem_data_create(const cla_problem_text *problem, uint64_t seed, cla_problem_data *data);
void cla_problem_data_free(cla_problem_data *data);

/* Uniform in [-1, 1). */
clattn_status cla_random_reals(clattn_dtype dtype, int rank, const int64_t *shape, uint64_t seed, clattn_array *array);

/* Between results of one type and size; infinite where one alone is NaN. */
double cla_largest_difference(const clattn_array *a, const clattn_array *b);
/* The largest absolute value; NaN does not count. */
double cla_largest(const clattn_array *a);
bool cla_has_nan(const clattn_array *a);

#endif
