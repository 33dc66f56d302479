/* SPDX-License-Identifier: Apache-2.0 */
/* Scaled dot-product attention: one call, or a plan made once and executed often.
 *
 *   O[b,h,i,:] = sum_j P[b,h,i,j] V[b,hk,j,:],   P = softmax over the keys j that i sees of s[b,h,i,j]
 *   s = cap(scale Q K^T) - slope |p - j| + bias,   cap(x) = softcap tanh(x / softcap)
 *
 * Letters: B batch, H query heads, Hk key heads (hk = h / (H / Hk)), N queries, M keys, D query-key dim, Dv value dim.
 */
#ifndef CLATTN_ATTENTION_H
#define CLATTN_ATTENTION_H

#include <clattn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where query i stands among the keys: position p = i + offset, for causal, window and ALiBi alike. */
typedef enum clattn_align {
    CLATTN_ALIGN_UNSET = 0,    /* offset 0; an error with causal, a window or ALiBi when N != M, or with pages */
    CLATTN_ALIGN_TOP_LEFT,     /* offset 0 */
    CLATTN_ALIGN_BOTTOM_RIGHT, /* offset = key length - query length of the batch */
    CLATTN_ALIGN_OFFSET        /* offset = offsets[b] */
} clattn_align;

#define CLATTN_UNLIMITED INT64_MAX /* a side of the window without a limit */

/* What `weights` holds. The forms before the softmax show every key, seen or not, as it is; keys past the end of pages
 * are -inf. ONNX calls them qk_matmul_output_mode 3, 0, 1 and 2. */
typedef enum clattn_weights_form {
    CLATTN_WEIGHTS_SOFTMAX = 0, /* P: 0 for keys that are not seen, and in rows that see none */
    CLATTN_WEIGHTS_SCALED,      /* scale Q K^T */
    CLATTN_WEIGHTS_CAPPED,      /* after the soft cap */
    CLATTN_WEIGHTS_MASKED       /* after ALiBi, bias and masks: s, -inf for keys that are not seen */
} clattn_weights_form;

/* All zero is the plain case. Tensors of rank 0 are absent. Ranks 2 [N, D] and 3 [H, N, D] count as [1, H|1, N, D];
 * all of q, k, v, o have the same rank. Strides are free, but outputs may not broadcast. */
typedef struct clattn_attention_args {
    clattn_tensor q; /* [B, H, N, D] */
    clattn_tensor k; /* [B, Hk, M, D]; may be quantised, like v */
    clattn_tensor v; /* [B, Hk, M, Dv] */
    clattn_tensor o; /* out [B, H, N, Dv] */

    clattn_tensor lse; /* out, optional [B, H, N]: natural log of the row's sum, -inf for a row that sees no key */
    /* Out, optional [B, H, N, 2], last stride 1, type of the sums: what the backward pass (clattn/backward.h) needs of
     * a row, m and 1 / l with P = exp(s - m) / l; zeros for a row that sees no key. m is a number near the maximum of
     * its scores and sink, up to 5.5 below in some algorithms, and l belongs to that m. Two numbers, since the rounding
     * of LSE would be a relative error of P. */
    clattn_tensor state;
    clattn_tensor weights;     /* out, optional [B, H, N, M]: P, or what the options below say */
    clattn_tensor column_sums; /* out, optional [B, H, M]: sum over the queries of P; N = 0 leaves it as it is */
    clattn_tensor entropy;     /* out, optional [B, H, N]: -sum over the keys of P ln P; 0 for a row that sees no key */

    clattn_weights_form weights_form; /* what `weights` holds */
    bool weights_mean; /* weights is [B, 1, N, M], the mean over the heads; with CLATTN_WEIGHTS_SOFTMAX only */
    /* Host arrays, NULL = all: weights has rows for these queries and heads, in this order, and no others. Each at most
     * once. column_sums and entropy are of all. */
    const int64_t *weights_queries, *weights_heads;  /* which rows of weights */
    int64_t weights_query_count, weights_head_count; /* of those arrays */

    clattn_tensor keep; /* bool or u8, rank 2 to 4, broadcast from the right to [B, H, N, M]: nonzero = may be seen */
    clattn_tensor drop; /* the same, nonzero = may NOT be seen */
    clattn_tensor bias; /* additive, a float type, rank 2 to 4, broadcast; -inf excludes, any finite number does not */
    const int64_t *key_lengths; /* host array [B], NULL = M: keys from key_lengths[b] on are not seen */
    bool short_masks; /* masks may have fewer columns than M, then keys after them are not seen: ONNX's; one column is
                         one key, and does not broadcast */

    bool has_scale;                    /* `scale` is given */
    double scale;                      /* any finite number; 1 / sqrt(D) unless has_scale */
    bool causal;                       /* key j is seen when j <= p */
    clattn_align align;                /* where queries stand: the offset of p */
    const int64_t *offsets;            /* host array [B], with CLATTN_ALIGN_OFFSET */
    bool has_window;                   /* `window_left` and `window_right` are given */
    int64_t window_left, window_right; /* p - left <= j <= p + right; >= 0 or CLATTN_UNLIMITED */

    double softcap;            /* 0: none; applied to the scaled scores, before ALiBi, bias and masks */
    const float *alibi_slopes; /* host array [H], NULL: none; see clattn_alibi_slopes */
    clattn_tensor sinks;       /* optional [H], type of the sums: a logit in the row's sum, without a value */

    /* Each weight is dropped with probability p in [0, 1), others are multiplied by 1 / (1 - p); 0: none. p is taken as
     * a multiple of 2^-32. Which are, say seed, offset (one for each step of training) and (b, h, i, j): the same on
     * every device, forward and backward. LSE, state, weights and what is made of them are those before. Philox4x32-10,
     * whose four words are keys j to j + 3. */
    double dropout;
    uint64_t dropout_seed, dropout_offset; /* which weights are dropped */

    const int64_t *query_lengths;  /* host array [B], NULL = N: queries from query_lengths[b] on see no key */
    const int64_t *prefix_lengths; /* host array [B], with causal: keys j < prefix_lengths[b] are seen by all queries */
    const int32_t *query_segments; /* host arrays [B, N] and [B, M], both or none: */
    const int32_t *key_segments;   /* a query sees keys of its own segment */

    /* Sequences of different lengths one after another: q, o are [1, H, total queries, D], k, v [1, Hk, total keys, D],
     * lse [1, H, total queries]; sequence s has queries cu_queries[s] .. cu_queries[s + 1], and the same of keys. Host
     * arrays [sequences + 1], from 0, not falling, the last at most the total. B means sequences in every other option;
     * N and M the longest. Without weights, keep, drop and bias. */
    int64_t sequences;                   /* 0: none */
    const int64_t *cu_queries, *cu_keys; /* host arrays [sequences + 1] */

    /* Keys and values in pages, as caches hand them out: k is [pages, Hk, page_size, D], v [pages, Hk, page_size, Dv],
     * and key j of batch b is row j % page_size of page block_table[b * table_pages + j / page_size]; M is table_pages
     * * page_size. Needs key_lengths; entries past a batch's length are not looked at. With sequences, the table and
     * key_lengths have a row for each, and cu_keys is NULL. Tensors of rank 4. */
    const int32_t *block_table; /* host array [B, table_pages], NULL: k and v are in one piece */
    int64_t table_pages;        /* entries of the table for a batch */

    const char *algorithm; /* a clattn_algorithm_name; NULL: the first that applies and was written for such a call */
    /* How the algorithm that is named goes about it, where it has several ways (clattn_plan_variant): "splits=4". NULL:
     * what `clattn tune` recorded for such a call, else the default. "default": without any record. */
    const char *variant;
    size_t max_workspace;  /* bytes of scratch the plan may use; 0: what the device allows */
    bool caller_workspace; /* the plan takes no scratch of its own: clattn_plan_set_workspace must follow */
    /* The results of a sequence do not depend, bit for bit, on what it is computed with: other sequences and their
     * lengths, padding, the number of heads, other queries. Costs speed where sizes would choose: N = 1 goes the way of
     * long prompts. Types, head dims, masks present and pages are the same on both sides. */
    bool batch_invariant;
    /* Rows of the result, spread over batches, heads and queries, that each execution computes again on the CPU by
     * plain loops; it then waits for the device, and ends in CLATTN_E_VERIFY with tensor, place, got, expected, error
     * and allowed where one is wrong. 0: none; CLATTN_ALL_ROWS: all. What is allowed: clattn_verify in clattn/verify.h.
     * Not with dropout. */
    int64_t self_check;
    uint64_t reserved[64]; /* zero: see clattn/version.h */
} clattn_attention_args;

/* One call: checks, chooses, computes. Tensors may be host arrays and buffers, mixed. With a host array among them
 * it returns when the result is there, else when the work is enqueued.
 * Shapes   those of clattn_attention_args. An output may not lie over an input or another output.
 * Dtypes   q, k, v, o, bias: f32, f16, bf16, each its own, with sums in f32; or f64 among them, with sums in f64 where
 *          the device has it. k and v also q8_0 and q4_0. lse, state, weights, column_sums and entropy: the type of the
 *          sums.
 * Special  a query that sees no key: O = 0, P = 0, LSE = -inf, or the sink. NaN under a mask stays hidden. A sink is in
 *          the sum that P is divided by, and is no key of its own.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED, CLATTN_E_LIMIT, CLATTN_E_VERIFY
 *          (self_check, or self_test of the context), and the device's. An output of a failed call is not to be read.
 * Source   Vaswani et al. 2017 section 3.2.1; Milakov & Gimelshein 2018 for the online form. */
CLATTN_API clattn_status clattn_attention(clattn_context *context, const clattn_attention_args *args);

/* The usual slopes: 2^(-8 (h + 1) / H) for a power of two, else those of the next lower power of two and every second
 * one of its double. Writes slopes[H]. Source: Press, Smith, Lewis 2022. */
CLATTN_API void clattn_alibi_slopes(int64_t H, float *slopes);

/* ---- merging ---- */

/* A partial result: attention over some of the keys. */
typedef struct clattn_partial {
    clattn_tensor o;   /* [B, H, N, Dv], or of rank 2 or 3 as in clattn_attention_args */
    clattn_tensor lse; /* [B, H, N] */
} clattn_partial;

/* Of clattn_merge. */
typedef struct clattn_merge_args {
    const clattn_partial *parts; /* host array [count] */
    int64_t count;               /* 1 or more */
    clattn_tensor o;             /* out [B, H, N, Dv]; may be that of a part, as the same view */
    clattn_tensor lse;           /* out, optional [B, H, N]; may be that of a part, as the same view */
    uint64_t reserved[24];       /* zero: see clattn/version.h */
} clattn_merge_args;

/* Results over disjoint sets of keys become the result over all of them, in the order of the parts:
 *   LSE = ln sum_x exp(LSE_x),   O = sum_x exp(LSE_x - LSE) O_x
 * Shapes   as above, strides free. Host arrays and buffers as in clattn_attention.
 * Dtypes   o: f32, f16, bf16, each its own, with lse in f32; or f64 among them, with every lse in f64.
 * Special  a part with LSE_x = -inf is empty, and its O_x is not read; all empty: O = 0, LSE = -inf. A sink is in one
 *          part only. The same bits in every run.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64), and the
 *          device's.
 * Source   Dao et al. 2023 (Flash-Decoding); Ye et al. 2025 (FlashInfer), merging of attention states. */
CLATTN_API clattn_status clattn_merge(clattn_context *context, const clattn_merge_args *args);

/* LSE in base 2, log2 of the row's sum, as FlashInfer keeps it; and back. -inf stays -inf. */
static inline double clattn_lse_to_base2(double lse) { return lse * 1.4426950408889634074; }
static inline double clattn_lse_from_base2(double lse) { return lse * 0.69314718055994530942; }

/* ---- plans ---- */

/* A call that is decided, with its kernels and scratch: executed often. */
typedef struct clattn_plan clattn_plan;

/* Decides and allocates everything that clattn_plan_execute needs. Host arrays of options are copied.
 * Tensors need buffers on an OpenCL context; on `cpu` host arrays will do. A plan belongs to one thread at a time.
 * Errors   those of clattn_attention, and CLATTN_E_LIMIT (max_workspace). *plan is NULL then. */
CLATTN_API clattn_status clattn_plan_create(clattn_context *context, const clattn_attention_args *args,
                                            clattn_plan **plan);
/* NULL is allowed. Work in flight is not waited for. */
CLATTN_API void clattn_plan_destroy(clattn_plan *plan);
/* Several lines: the algorithm, why each other was refused, tiles, scratch, operations. Owned by the plan. */
CLATTN_API const char *clattn_plan_explain(const clattn_plan *plan);

/* What a plan is, and costs. */
typedef struct clattn_plan_info {
    const char *algorithm;  /* its name; the library's */
    const char *variant;    /* of the algorithm; "" where it has one way */
    size_t workspace_bytes; /* scratch in all */
    size_t largest_bytes;   /* the largest single allocation of it */
    double operations;      /* multiply and add counted apart, for the keys that the interval masks let through */
    double moved_bytes;     /* least traffic: each input read once, each output written once */
    uint64_t reserved[8];   /* zero: see clattn/version.h */
} clattn_plan_info;
/* Errors   CLATTN_E_ARGUMENT (NULL). */
CLATTN_API clattn_status clattn_plan_info_get(const clattn_plan *plan, clattn_plan_info *info);

/* The ways that the plan's algorithm has for this call, which give right results and differ in speed: the default
 * first, NULL past the end. Owned by the plan. */
CLATTN_API const char *clattn_plan_variant(const clattn_plan *plan, size_t index);

/* Scratch of the caller's, for plans made with caller_workspace: at least workspace_bytes. Borrowed.
 * Errors   CLATTN_E_ARGUMENT (of another context), CLATTN_E_LIMIT (too small). */
CLATTN_API clattn_status clattn_plan_set_workspace(clattn_plan *plan, clattn_buffer *workspace);
/* Enqueues and returns. tensors: the same layout (dtypes, shapes, strides) with other buffers and offsets, of which
 * only tensors, dropout_seed and dropout_offset are read; NULL: those of the last execution, at first those of
 * creation.
 * Errors   CLATTN_E_SHAPE (another layout), CLATTN_E_ARGUMENT, CLATTN_E_UNSUPPORTED, CLATTN_E_LIMIT, CLATTN_E_VERIFY
 *          (self_check, for which it waits), the device's. */
CLATTN_API clattn_status clattn_plan_execute(clattn_plan *plan, const clattn_attention_args *tensors);

/* ---- the algorithm table ---- */

/* How many there are. Algorithms are numbered in the order in which they are tried. */
CLATTN_API size_t clattn_algorithm_count(void);
CLATTN_API const char *clattn_algorithm_name(size_t index);    /* "fused_lanes"; NULL past the end */
CLATTN_API const char *clattn_algorithm_summary(size_t index); /* one line; NULL past the end */
/* Whether an algorithm can do it here; *reason (the thread's message, until its next failure) says why not.
 * Errors   those of clattn_attention about args; *applies is false then. */
CLATTN_API clattn_status clattn_algorithm_applies(clattn_context *context, const clattn_attention_args *args,
                                                  size_t index, bool *applies, const char **reason);

#ifdef __cplusplus
}
#endif
#endif
