/* SPDX-License-Identifier: Apache-2.0 */
/* One line that says an attention problem, such as "b2 h8/2 q1024 k1024 d64 v64 f32 causal": parsed and printed.
 *
 *   b2            batch                                    1 when not said
 *   h8, h8/2      query heads, and key heads               1; as many key heads as query heads
 *   q5 k9, n1024  queries and keys; n: both                needed
 *   d64, v80      query-key dim, value dim                 d needed; v as d
 *   f32           f32 f64 f16 bf16                         f32
 *   causal, causal=top-left, causal=bottom-right, window=L,R (inf: no limit), align=top-left|bottom-right
 *   keep          a random boolean mask [N, M]
 *   bias          a random additive mask [N, M]
 *   lengths       random key lengths
 *   scale=X       1 / sqrt(D) when not said
 */
#ifndef CLA_PROBLEM_TEXT_H
#define CLA_PROBLEM_TEXT_H

#include <clattn/attention.h>

#define CLA_PROBLEM_TEXT_MAX 320 /* chars of the longest canonical text, with its end */
#define CLA_PROBLEM_SIZE_MAX INT64_C(2147483647)

typedef struct cla_problem_text {
    int64_t batch, heads, key_heads, queries, keys, dim, value_dim;
    clattn_dtype dtype;
    bool causal;
    clattn_align align; /* UNSET, TOP_LEFT or BOTTOM_RIGHT; said whenever causal or a window needs it */
    bool has_window;
    int64_t window_left, window_right; /* or CLATTN_UNLIMITED */
    bool keep, bias, lengths;
    bool has_scale;
    double scale;
} cla_problem_text;

/* false: error holds one line that names the word; *problem is then undefined. */
bool cla_problem_text_parse(const char *text, cla_problem_text *problem, char *error, size_t error_size);
/* The shortest text that parses to the same problem, words always in the order above. Returns buffer. */
char *cla_problem_text_print(const cla_problem_text *problem, char *buffer, size_t size);

#endif
