/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of generate. */
#ifndef GENERATE_OPTIONS_H
#define GENERATE_OPTIONS_H

#include "llama.h"

typedef struct generate_options {
    const char *model, *prompt, *prompt_file, *device;
    size_t count;       /* tokens to generate, at most */
    size_t repeat;      /* times, at least 1 */
    double temperature; /* 0: always the best */
    uint64_t seed;
    llama_storage storage;
    bool no_cache, ids, verbose, profile;
    size_t top;         /* so many logits are printed in place of text */
    const char *logits; /* a file for all logits */
    const char *then;   /* ids that follow, whatever the model says: "7042, 30", checked */
} generate_options;

/* -1 where the program is to go on, else its exit status. */
int generate_options_parse(int argc, char **argv, generate_options *out);

#endif
