/* SPDX-License-Identifier: Apache-2.0 */
/* Whether results are right: attention of some or all rows once more, by plain loops with wide sums on the CPU. */
#ifndef CLATTN_VERIFY_H
#define CLATTN_VERIFY_H

#include <clattn/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLATTN_ALL_ROWS INT64_MAX /* for self_check, and rows of clattn_verify */

/* What was found about one output. */
typedef struct clattn_verdict {
    const char *tensor; /* "o", "lse", "weights", "entropy", "column_sums"; NULL: there is none, or it was left out */
    bool ok;            /* same_kinds, and error <= allowed */
    bool same_kinds;    /* NaN and infinity are where they must be */
    double error, allowed; /* the largest error of a finite element */
    int rank;              /* of the output */
    int64_t at[4];         /* of the worst element, or of the first of another kind, in the output's axes */
    double got, expected;  /* there */
    uint64_t reserved[4];  /* zero: see clattn/version.h */
} clattn_verdict;

/* How many outputs are judged. */
enum { CLATTN_VERDICTS = 5 };
/* What was found about all outputs. */
typedef struct clattn_verification {
    bool ok;                                  /* of all verdicts */
    int64_t rows;                             /* that were checked: pairs of a query and a head */
    clattn_verdict verdicts[CLATTN_VERDICTS]; /* o, lse, weights, entropy, column_sums */
    uint64_t reserved[8];                     /* zero: see clattn/version.h */
} clattn_verification;

/* Judges the outputs that a finished call with these arguments left in the tensors of args. Waits for the device,
 * and copies tensors that are not the host's. Of rows, that many are taken, spread over batches, heads and queries, the
 * same in every run; CLATTN_ALL_ROWS: all.
 *   expected  plain loops, sums in double; in long double where the call's are f64
 *   allowed   twice the largest error of a plain evaluation on the CPU (BLAS, softmax, BLAS in the type of the sums) on
 *             the same rows, at least 1e-6 (f64: 1e-14) of the largest |V| for o, else of the largest expected number
 *             from 1 up; for o in f16 or bf16 one unit in the last place of the largest |V|. Of fewer than all rows,
 *             plus what rounding of the scores may do, since chance may make the evaluation too good.
 *   exact     NULL, or tensors, of rank 0 or dense host arrays in f64 shaped as the outputs, that take the expected
 *             results; with CLATTN_ALL_ROWS
 * Of fewer than all rows, column_sums are not judged, nor weights that are no plain P of all rows and heads.
 * Special   infinity behind a weight that underflows: NaN and infinity are both right.
 * Errors    those of clattn_attention; CLATTN_E_ARGUMENT (rows below 1); CLATTN_E_UNSUPPORTED (dropout). That a result
 *           is wrong is none: see result->ok. */
CLATTN_API clattn_status clattn_verify(const clattn_attention_args *args, int64_t rows,
                                       const clattn_tensor exact[CLATTN_VERDICTS], clattn_verification *result);
/* One line about the first wrong output: tensor, place, got, expected, error, allowed; "" when all is right.
 * Returns text. */
CLATTN_API char *clattn_verification_text(const clattn_verification *result, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
