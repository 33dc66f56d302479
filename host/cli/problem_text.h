/* SPDX-License-Identifier: Apache-2.0 */
/* One line that says an attention problem, such as "b2 h8/2 q1024 k1024 d64 v64 f32 causal": parsed and printed.
 *
 *   b2            batch                                    1 when not said
 *   h8, h8/2      query heads, and key heads               1; as many key heads as query heads
 *   q5 k9, n1024  queries and keys; n: both                needed
 *   d64, v80      query-key dim, value dim                 d needed; v as d
 *   f32           f32 f64 f16 bf16                         f32
 *   kv=q8_0, kv=q8_0,q4_0   type of k and v: those, q8_0, q4_0      that of q
 *   o=f32         type of o                                that of q
 *   causal, causal=A, window=L,R (inf: no limit), align=A: top-left, bottom-right or the key at which query 0 stands
 *   prefix        random lengths of prefixes that causal does not hide
 *   softcap=X, alibi (the usual slopes)
 *   keep, bias    a random boolean mask, a random additive mask [N, M]
 *   sinks         random logits [H]
 *   lengths, qlengths   random key lengths, random query lengths
 *   segments      four segments, a quarter of queries and keys each
 *   varlen        b sequences of random lengths up to q and k, one after another
 *   pages=P       k and v in pages of P keys, in random order
 *   invariant     batch_invariant
 *   scale=X       1 / sqrt(D) when not said
 */
#ifndef CLA_PROBLEM_TEXT_H
#define CLA_PROBLEM_TEXT_H

#include <clattn/attention.h>

#define CLA_PROBLEM_TEXT_MAX 480 /* chars of the longest canonical text, with its end */
#define CLA_PROBLEM_SIZE_MAX INT64_C(2147483647)

typedef struct cla_problem_text {
    int64_t batch, heads, key_heads, queries, keys, dim, value_dim;
    clattn_dtype dtype, k_dtype, v_dtype, o_dtype; /* dtype: of q and bias */
    bool causal;
    clattn_align align; /* said whenever causal, a window or alibi needs it */
    int64_t offset;     /* with CLATTN_ALIGN_OFFSET */
    bool has_window;
    int64_t window_left, window_right; /* or CLATTN_UNLIMITED */
    double softcap;                    /* 0: none */
    bool prefix, alibi, keep, bias, sinks, lengths, query_lengths, segments, varlen, invariant;
    int64_t page_size; /* 0: in one piece */
    bool has_scale;
    double scale;
} cla_problem_text;

/* false: error holds one line that names the word; *problem is then undefined. */
bool cla_problem_text_parse(const char *text, cla_problem_text *problem, char *error, size_t error_size);
/* f32 f64 f16 bf16 of results too, q8_0 q4_0 of keys and values alone. */
extern const clattn_dtype cla_real_types[6];
/* One of the first count of them, by its name of `length` characters. */
bool cla_dtype_named(const char *text, size_t length, size_t count, clattn_dtype *dtype);
/* The shortest text that parses to the same problem, words always in the order above. Returns buffer. */
char *cla_problem_text_print(const cla_problem_text *problem, char *buffer, size_t size);

#endif
