/* SPDX-License-Identifier: Apache-2.0 */
/* `--verify`: results against the exact ones, by clattn_verify, and the exact ones for `--dump`. */
#ifndef CLA_RUN_VERIFY_H
#define CLA_RUN_VERIFY_H

#include <clattn/io.h>
#include <clattn/verify.h>

typedef struct cla_verification {
    bool done;
    clattn_verification found;
    clattn_array exact[CLATTN_VERDICTS]; /* f64, row-major with all axes, where all rows were asked for */
} cla_verification;

/* args: host arrays, rank 4, with the results in o, lse and weights. Fills *v, right or wrong; a failure to find out
 * prints one line and returns the exit status. */
int cla_verify(const clattn_attention_args *args, int64_t rows, cla_verification *v);
/* Prints a line a tensor; one line with "clattn:" when something is wrong. Returns the exit status. */
int cla_verify_report(const cla_verification *v);
void cla_verify_free(cla_verification *v);

#endif
