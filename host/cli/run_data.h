/* SPDX-License-Identifier: Apache-2.0 */
/* The files that a run names, as one attention call on host arrays. */
#ifndef CLA_RUN_DATA_H
#define CLA_RUN_DATA_H

#include "run_options.h"

typedef struct cla_run_data {
    cla_input q, k, v, keep, drop, bias, sinks;
    /* NULL where there are none; B: sequences, where there are some. */
    int64_t *key_lengths, *query_lengths, *prefix_lengths, *offsets; /* [B] */
    int64_t *cu_queries, *cu_keys;                                   /* [B + 1] */
    int32_t *query_segments, *key_segments, *table;                  /* [B, N], [B, M], [B, pages] */
    float *slopes;                                                   /* [H] */
    int64_t *weights_rows, *weights_heads;
    clattn_array o, lse, weights, column_sums, entropy; /* in the layout and rank of q's file */
    clattn_attention_args args;                         /* rank 4 views of all of these */
} cla_run_data;

/* Loads, checks what needs the command line's words to explain, and makes o and what else is asked for.
 * Prints one line and returns the exit status when something is wrong. *data can always be freed. */
int cla_run_data_load(const cla_run_options *options, cla_run_data *data);
void cla_run_data_free(cla_run_data *data);

/* The weights of one batch after the softmax, [1, H, N, M], by the context's choice of algorithm. */
clattn_status cla_run_data_weights(clattn_context *context, const clattn_attention_args *args, int64_t batch,
                                   clattn_array *weights);
/* Whether weights are asked for and are those: of all queries and heads, after the softmax. */
bool cla_whole_weights(const clattn_attention_args *args);

#endif
