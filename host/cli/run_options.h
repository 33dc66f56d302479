/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of `clattn run` as a struct: texts checked as far as that is possible without the files. */
#ifndef CLA_RUN_OPTIONS_H
#define CLA_RUN_OPTIONS_H

#include "tensors.h"
#include <clattn/attention.h>

typedef struct cla_run_options {
    const char *q, *k, *v; /* tensor files */
    const char *output;    /* -o; this and the following: NULL when not given */
    const char *device, *algorithm;
    const char *keep, *drop, *bias, *sinks;
    const char *lengths, *query_lengths, *prefix_lengths; /* files or lists, like the next two */
    const char *lengths_option;                           /* "key-lengths" or "lengths" */
    const char *cu_queries, *cu_keys, *slopes;
    const char *query_segments, *key_segments, *block_table; /* files */
    const char *lse, *weights, *column_sums, *entropy, *heatmap, *labels, *dump;
    clattn_weights_form weights_form;
    bool weights_mean;
    const char *weights_rows, *weights_heads; /* files or lists */
    bool causal, has_window, has_scale;
    clattn_align align;
    const char *offsets_option, *offsets; /* "align" or "offsets"; a list or a file, with CLATTN_ALIGN_OFFSET */
    int64_t window_left, window_right;
    double scale, softcap;
    bool alibi; /* the usual slopes */
    bool has_kv_type, has_o_type, batch_invariant, short_masks;
    clattn_dtype k_type, v_type, o_type;
    int64_t max_workspace;
    cla_heads heads;
    int64_t batch; /* of the heat map */
    bool explain, verify, no_lint;
    bool profile;
    const char *profile_json, *roofline; /* files */
    int64_t verify_rows;                 /* or CLATTN_ALL_ROWS */
} cla_run_options;

/* Prints one line and returns the exit status when something is wrong. */
int cla_run_options_parse(int argc, char **argv, cla_run_options *options);

#endif
