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
    const char *keep, *drop, *bias;
    const char *lengths; /* a file or a list */
    const char *lse, *weights, *heatmap, *labels, *dump;
    bool causal;
    clattn_align align;
    const char *offsets; /* a list, with CLATTN_ALIGN_OFFSET */
    bool has_window;
    int64_t window_left, window_right;
    bool has_scale;
    double scale;
    cla_heads heads;
    int64_t batch; /* of the heat map */
    bool explain, verify;
} cla_run_options;

/* Prints one line and returns the exit status when something is wrong. */
int cla_run_options_parse(int argc, char **argv, cla_run_options *options);

#endif
