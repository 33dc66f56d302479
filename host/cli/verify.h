/* SPDX-License-Identifier: Apache-2.0 */
/* `--verify`: results against the exact ones, and how far apart they may be.
 *
 *   exact   the `cpu` context's "reference" on the inputs widened to f64
 *   plain   the `cpu` context's "blas" in the inputs' own type
 *   bound   max(2 x max|plain - exact|, floor x size): floor 1e-6 for f32, 1e-14 for f64; size is the largest finite
 *           |V| for o, 1 for weights, the largest finite |LSE| (from 1 up) for lse
 * NaN and infinity must be in the same places. */
#ifndef CLA_VERIFY_H
#define CLA_VERIFY_H

#include <clattn/attention.h>
#include <clattn/io.h>

typedef struct cla_verdict {
    const char *name;    /* "o", "lse", "weights"; NULL: not asked for */
    clattn_array exact;  /* f64, row-major with all axes */
    clattn_array plain;  /* in the type of q */
    bool ok, same_kinds; /* same_kinds: NaN and infinities are where they must be */
    double error, bound; /* over the elements that are finite */
    int64_t at[4];       /* of the worst element, or the first of another kind */
    double got_value, exact_value;
} cla_verdict;

enum { CLA_VERDICTS = 3 };

typedef struct cla_verification {
    cla_verdict verdicts[CLA_VERDICTS]; /* o, lse, weights */
    bool ok;
} cla_verification;

/* args: host arrays, rank 4, with the results in o, lse and weights. Fills *v, right or wrong; a failure to find out
 * prints one line and returns the exit status. */
int cla_verify(const clattn_attention_args *args, cla_verification *v);
/* Prints a line a tensor; one line with "clattn:" when something is wrong. Returns the exit status. */
int cla_verify_report(const cla_verification *v);
void cla_verify_free(cla_verification *v);

#endif
