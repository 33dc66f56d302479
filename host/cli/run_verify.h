/* SPDX-License-Identifier: Apache-2.0 */
/* `--verify`: results against the exact ones, by clattn_verify, and the exact ones for `--dump`. */
#ifndef CLA_RUN_VERIFY_H
#define CLA_RUN_VERIFY_H

#include <clattn/io.h>
#include <clattn/verify.h>

/* Results that are no numbers, which is no error: NaN in Q gives NaN. */
typedef struct cla_odd_results {
    int64_t count, nan, infinite; /* all of them; of these */
} cla_odd_results;

typedef struct cla_verification {
    bool done;
    cla_odd_results odd; /* those of o */
    clattn_verification found;
    clattn_array exact[CLATTN_VERDICTS]; /* f64, row-major with all axes, where all rows were asked for */
} cla_verification;

/* Of an array of f32, f64, f16 or bf16. */
cla_odd_results cla_odd_results_of(const clattn_array *o);

/* args: host arrays, rank 4, with the results in o, lse and weights; o: the array of the first. Fills *v, right or
 * wrong; a failure to find out prints one line and returns the exit status. */
int cla_verify(const clattn_attention_args *args, const clattn_array *o, int64_t rows, cla_verification *v);
/* Prints a line a tensor; one line with "clattn:" when something is wrong. Returns the exit status. */
int cla_verify_report(const cla_verification *v);
void cla_verify_free(cla_verification *v);

#endif
