/* SPDX-License-Identifier: Apache-2.0 */
/* Random tensors for a problem that is given as text: the same numbers for the same seed, everywhere. */
#ifndef CLA_PROBLEM_DATA_H
#define CLA_PROBLEM_DATA_H

#include "problem_text.h"
#include <clattn/io.h>

typedef struct cla_problem_data {
    clattn_array q, k, v, o;
    clattn_array keep, bias;    /* [N, M]; rank 0 when the problem has none */
    clattn_array lengths;       /* [B] i64; rank 0 when the problem has none */
    clattn_attention_args args; /* host arrays, and the options of the problem */
} cla_problem_data;

/* q, k, v and bias are uniform in [-1, 1), keep sees 7 keys of 8, lengths go from 1 to M. */
clattn_status cla_problem_data_create(const cla_problem_text *problem, uint64_t seed, cla_problem_data *data);
void cla_problem_data_free(cla_problem_data *data);

#endif
