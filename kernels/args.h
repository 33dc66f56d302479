/* SPDX-License-Identifier: Apache-2.0 */
/* Run-time values of kernels, by value, shared by C and OpenCL C: only cl_long, cl_int and cl_float, widest first,
 * padded to 8 bytes. Strides and offsets are in elements; X_0 is the offset of the first one. A test compares sizes and
 * offsets on every implementation. */
#ifndef CLA_ARGS_H
#define CLA_ARGS_H

#ifdef __OPENCL_VERSION__
typedef long cl_long;
typedef int cl_int;
typedef float cl_float;
#else
#include <CL/cl_platform.h>
#endif

/* One batch of the interval masks. Rows start at q_row and k_row: sequences one after another, else 0. */
typedef struct cla_span {
    cl_long q_row, k_row;
    cl_int keys, queries; /* lengths */
    cl_int offset;        /* of the position of query 0 */
    cl_int prefix;        /* keys before it are seen in spite of causal */
} cla_span;

/* Storage types, as the run-time values of kernels: those of clattn_dtype. */
#define CLA_F32 0
#define CLA_F64 1
#define CLA_F16 2
#define CLA_BF16 3
#define CLA_I64 5
#define CLA_U8 6
#define CLA_BOOL 7
#define CLA_Q8_0 8  /* blocks of 32: f16 scale, 32 int8 */
#define CLA_Q4_0 9  /* blocks of 32: f16 scale, 32 nibbles from -8; the first 16 are the low ones */
#define CLA_Q4_1 10 /* blocks of 32: f16 scale d, f16 minimum m, 32 nibbles q: q d + m */

/* Masks: which keys a query sees, and what is added to its scores. Absent tensors have strides 0. */
typedef struct cla_mask_args {
    cl_long keep_b, keep_h, keep_i, keep_j, keep_0;
    cl_long drop_b, drop_h, drop_i, drop_j, drop_0;
    cl_long bias_b, bias_h, bias_i, bias_j, bias_0;
    cl_long left, right; /* window around p = i + offset, at most 2^32 */
    cl_long sinks_0;
    cl_long softcap_bits; /* of the soft cap as double, for f64 */
    cl_int N, M, causal, windowed;
    cl_int has_keep, has_drop, has_bias, bias_type;
    cl_int has_slopes, has_segments, has_sinks;
    cl_float softcap; /* 0: none */
} cla_mask_args;

/* Fused attention. Grid: groups are counted tile first, then value chunk, head, batch. */
typedef struct cla_attention_args {
    cl_long q_b, q_h, q_i, q_0;
    cl_long k_b, k_h, k_j, k_0;
    cl_long v_b, v_h, v_j, v_0;
    cl_long o_b, o_h, o_i, o_0;
    cl_long lse_b, lse_h, lse_i, lse_0;
    cl_long st_b, st_h, st_i, st_0; /* state: two numbers side by side for each row */
    cl_long k_page, v_page;         /* strides of pages; k_j and v_j are then strides within one, k_b and v_b 0 */
    cla_mask_args mask;
    cl_long scale_bits;       /* of the scale as double, for f64 */
    cl_long part_0;           /* sums of splits in scratch: one after another for a row, rows [B, H, N] */
    cl_long added_0, added_b; /* packed score masks in scratch, and from batch to batch; 0: all share them */
    cl_long dropout_key;      /* of lanes_dropout.clh */
    cl_long kept_bits;        /* of 1 / (1 - p) as double, for f64 */
    cl_int N, M, D, Dv;
    cl_int H, group;        /* query heads; query heads per key head */
    cl_int rows, tiles;     /* queries of a tile, tiles of a head */
    cl_int columns;         /* value columns of a chunk */
    cl_int chunks;          /* value chunks of a row */
    cl_int long_first;      /* the tiles with the longest rows start first */
    cl_int has_lse, ragged; /* ragged: a batch has no rows after spans[b].queries */
    cl_int q_type, k_type, v_type, o_type;
    cl_int page_size, pages;   /* keys of a page, 0: not paged; pages of a batch in the table [B, pages] */
    cl_int splits, split_keys; /* keys in so many splits, of split_keys each */
    cl_int part;               /* numbers that a split leaves for a row: columns of O, then maximum and sum */
    cl_float scale;
    cl_int has_counts;    /* of blocks of keys, for the profile */
    cl_int has_state;     /* maximum and 1 / sum of each row are asked for */
    cl_int dropout_bound; /* unsigned: a weight is dropped where its number is below; 0: none */
    cl_float kept;        /* 1 / (1 - p): what other weights are multiplied by */
    cl_int pad;
} cla_attention_args;

/* Backward pass of fused attention for CPU-class devices; see lanes_backward.clh. What its kernels read. */
#define CLA_LANES_ROWS 64 /* of a work-item that only walks rows */
typedef struct cla_lanes_inputs {
    cla_attention_args forward;
    cl_long g_b, g_h, g_i, g_0;  /* dO */
    cl_long del_b, del_h, del_0; /* sum of dO O of each row, in scratch */
    cl_long room, room_0;        /* scratch of each work-item */
    cl_int g_type, B;
} cla_lanes_inputs;

/* Gradients of Q, K, V and sinks; see attention_lanes_backward.cl. */
typedef struct cla_lanes_backward_args {
    cla_lanes_inputs in;
    cl_long dk_b, dk_h, dk_j, dk_0;
    cl_long dv_b, dv_h, dv_j, dv_0;
    cl_long sums_s, sums_b, sums_h, sums_i, sums_0; /* of dQ: in scratch for each split, or dQ itself */
    cl_int splits, wanted;                          /* wanted: the sum of CLA_WANTS */
    cl_int dk_type, dv_type;
} cla_lanes_backward_args;
#define CLA_WANTS_DQ 1
#define CLA_WANTS_DK 2
#define CLA_WANTS_DV 4

/* Where the last kernels leave dQ and dSink. */
typedef struct cla_lanes_result_args {
    cl_long dq_b, dq_h, dq_i, dq_0;
    cl_long sinks_h, sinks_0;
    cl_int dq_type, sinks_type;
} cla_lanes_result_args;

/* Gradient of the bias; see attention_lanes_bias.cl. Strides of axes that it is summed over are 0. */
typedef struct cla_lanes_bias_args {
    cla_lanes_inputs in;
    cl_long db_b, db_h, db_i, db_j, db_0;
    cl_long db_part;                           /* from part to part, in scratch */
    cl_int batches, heads, rows, columns;      /* of the gradient, 1 where it is summed */
    cl_int parts_b, parts_h, parts_i, parts_j; /* of what is summed, 1 on the other axes */
    cl_int db_type, pad;
} cla_lanes_bias_args;

/* Gradients of Q, or of K and V, for GPU-class devices; see attention_tiles_backward.cl. Tiles and chunks of in.forward
 * are those of the results; they have no room. */
typedef struct cla_tiles_backward_args {
    cla_lanes_inputs in;
    cl_long x_b, x_h, x_i, x_0; /* dQ or dK */
    cl_long y_b, y_h, y_i, y_0; /* dV */
    cl_int x_type, y_type, wanted, pad;
} cla_tiles_backward_args;

/* Forms of weights: those of clattn_weights_form. */
#define CLA_FORM_SOFTMAX 0
#define CLA_FORM_SCALED 1
#define CLA_FORM_CAPPED 2
#define CLA_FORM_MASKED 3

/* Row softmax over a buffer of scores, one chunk of rows [B, H, N] at a time; see softmax.cl. */
typedef struct cla_softmax_args {
    cl_long s_b, s_h, s_i, s_0;      /* scores, last stride 1; weights are written in place */
    cl_long w_b, w_h, w_i, w_j, w_0; /* weights for the caller */
    cl_long lse_b, lse_h, lse_i, lse_0;
    cl_long st_b, st_h, st_i, st_0;
    cl_long sum_0; /* sums of the chunk's rows, one after another */
    cla_mask_args mask;
    cl_long scale_bits;
    cl_int b0, h0, i0; /* first batch, head and query of the chunk */
    cl_int H, N, M;    /* heads and queries of the chunk; keys */
    cl_int has_weights, has_lse;
    cl_int form;  /* of the weights: a CLA_FORM */
    cl_int paged; /* keys past the end of a batch are in no page */
    cl_float scale;
    cl_float power; /* of two: weights are kept times this, so that their sum stays below 1 */
    cl_int has_state, pad;
} cla_softmax_args;

/* Dropout over such a buffer of weights, dense [B, H, N, M]; see softmax.cl. */
typedef struct cla_drop_args {
    cl_long x_0, key, kept_bits;
    cl_int b0, h0, i0; /* first batch, head and query of the chunk */
    cl_int B, H, N, M;
    cl_int quads; /* fours of keys of a row */
    cl_int bound; /* unsigned: a weight is dropped where its number is below */
    cl_float kept;
} cla_drop_args;

/* Gradients of scores, a chunk of rows [B, H, N] at a time; see scores_backward.cl. */
typedef struct cla_scores_args {
    cl_long s_0, g_0; /* products Q K^T and dO V^T, dense rows of M */
    cl_long row_0;    /* numbers of each row */
    cla_mask_args mask;
    cl_long scale_bits;
    cl_int b0, h0, i0; /* first batch, head and query of the chunk */
    cl_int B, H, N, M;
    cl_int by_scores; /* there is g */
    cl_float scale;
    cl_int pad;
} cla_scores_args;
#define CLA_ROW_NUMBERS 4

/* What is summed over pairs or rows of the chunk, and added to y; strides of axes that it is summed over are 0. */
typedef struct cla_scores_sum_args {
    cl_long y_b, y_h, y_i, y_j, y_0;
    cl_int batches, heads, rows, columns; /* of y, in the chunk; 1 where it is summed */
    cl_int of_sinks, pad;
} cla_scores_sum_args;

/* What a product lacks: terms whose rows x are not finite; see scores_backward.cl. */
typedef struct cla_special_args {
    cl_long x_b, x_h, x_i, x_0; /* rows that were cleaned, inner index of the product */
    cl_long y_b, y_h, y_i, y_0; /* the product's result */
    cl_long c_0, w_0;           /* coefficients and weights of the chunk, so many of each head of queries: */
    cl_long pairs, c_x, c_y;    /* and from row to row of x, and of y */
    cl_long flag_0;
    cl_int B, H, N, columns; /* y: batches, heads, rows */
    cl_int X, blocks;        /* rows of a head of x; blocks of KEYS of them, one flag each */
    cl_int share, members;   /* heads of queries that share a head of x; that are added to one of y */
} cla_special_args;

/* Weights of chosen rows and what is made of them, from Q and K again; see weights.cl. */
typedef struct cla_weights_args {
    cl_long q_b, q_h, q_i, q_0;
    cl_long k_b, k_h, k_j, k_0, k_page;
    cl_long w_b, w_h, w_i, w_j, w_0; /* weights */
    cl_long c_b, c_h, c_j, c_0;      /* column sums */
    cl_long e_b, e_h, e_i, e_0;      /* entropy */
    cl_long sum_0, part_0; /* in scratch: maximum and sum of each row [B, H, N], column sums [B, H, chunks, M] */
    cla_mask_args mask;
    cl_long scale_bits;
    cl_int B, H, group, N, M, D;
    cl_int heads, queries;          /* how many rows are of, of the lists or of all */
    cl_int has_heads, has_queries;  /* there is a list */
    cl_int form, mean;              /* of the weights: a CLA_FORM; over the heads */
    cl_int interval, ragged, paged; /* paged: a batch has no keys past its length */
    cl_int row_tiles, key_tiles;    /* of a head */
    cl_int chunks, chunk_tiles;     /* chunks of queries, and tiles of each */
    cl_int has_entropy;
    cl_int q_type, k_type;
    cl_int page_size, pages;
    cl_float scale;
    cl_int pad;
} cla_weights_args;

/* Columns of V for the chunk's key heads, without what is not finite; see softmax.cl. */
typedef struct cla_values_args {
    cl_long v_b, v_h, v_j, v_0;
    cl_long y_0;          /* out, dense [batches, heads, M, columns] */
    cl_long flag_0;       /* out, ints [batches, heads, blocks of keys] */
    cl_int H, M, columns; /* key heads of the chunk, keys, columns */
    cl_int blocks;        /* of KEYS keys */
} cla_values_args;

/* Rows of O after the product; see softmax.cl. */
typedef struct cla_outputs_args {
    cl_long s_0; /* weights, dense rows of M */
    cl_long v_b, v_h, v_j, v_0;
    cl_long o_b, o_h, o_i, o_0;
    cl_long sum_0, flag_0;
    cl_int B, H, N, M;                 /* of the chunk: batches, heads, queries; keys */
    cl_int Hk, group, columns, blocks; /* key heads of the chunk, its heads a key head, columns of O, blocks of keys */
} cla_outputs_args;

/* Rows of x to places in y, rotated on the way; see cache.cl. */
typedef struct cla_rotary_args {
    cl_long x_b, x_h, x_i, x_d, x_0;
    cl_long y_b, y_h, y_i, y_d, y_0; /* y_b: of pages, where y is in pages */
    cl_long cos_b, cos_i, cos_d, cos_0;
    cl_long sin_b, sin_i, sin_d, sin_0;
    cl_int B, H, N, D; /* of x */
    cl_int pairs, adjacent;
    cl_int has_rows, has_places;
    cl_int x_type, y_type, cos_type, sin_type;
} cla_rotary_args;
#define CLA_ROTATIONS 3 /* of one launch */
typedef struct cla_rotary_sets {
    cla_rotary_args set[CLA_ROTATIONS];
    cl_long ends[CLA_ROTATIONS]; /* work-items of the first, the first two .. */
} cla_rotary_sets;

/* Merging of partial results; see merge.cl. Strides of one of them: o [B, H, N, Dv], lse [B, H, N]. */
#define MERGE_PARTS 4
typedef struct cla_merge_part {
    cl_long o_b, o_h, o_i, o_d, o_0;
    cl_long lse_b, lse_h, lse_i, lse_0;
    cl_int o_type, pad;
} cla_merge_part;
typedef struct cla_merge_args {
    cla_merge_part parts[MERGE_PARTS], out;
    cl_int H, N, Dv, count;          /* parts here */
    cl_int continues, last, has_lse; /* there is a state before; the outputs are written, not a state */
    cl_int pad;
} cla_merge_args;

/* What a device can do at most; see peak.cl. */
typedef struct cla_peak_args {
    cl_int steps, pad;
    cl_float factor, addend;
} cla_peak_args;

/* Activations: those of clattn_activation. */
#define CLA_ACT_NONE 0
#define CLA_ACT_RELU 1
#define CLA_ACT_GELU 2
#define CLA_ACT_GELU_TANH 3
#define CLA_ACT_SILU 4

/* A linear layer; see linear.cl and gemv.cl. Rows of x and y are counted over [n0, n1, n2]. */
typedef struct cla_linear_args {
    cl_long x_0, x_s0, x_s1, x_s2, x_k;
    cl_long y_0, y_s0, y_s1, y_s2, y_n;
    cl_long w_0, w_n, w_k;
    cl_long b_0, b_n;
    cl_int M, N, K;
    cl_int n1, n2;
    cl_int rows, row_blocks; /* of a work-item; work-items one below another */
    cl_int panels;           /* of columns of a work-item */
    cl_int act;              /* a CLA_ACT */
    cl_int has_bias;
    cl_int x_type, w_type, b_type, y_type;
    cl_int terms; /* of a panel of W: all, or so many at a time */
    cl_int gated; /* gemv: W has 2 N rows */
} cla_linear_args;

/* How a row of a tensor is read; see axes.clh. */
#define CLA_ROW_ABSENT 0
#define CLA_ROW_LANES 1  /* side by side */
#define CLA_ROW_ONE 2    /* one number for all of the row */
#define CLA_ROW_GATHER 3 /* element by element */

/* Axes that tensors share, and a tensor over them: strides 0 where it broadcasts. Those up to `outer` count rows, those
 * up to `count` run along one. */
#define CLA_MOST_AXES 8
typedef struct cla_axes {
    cl_int n[CLA_MOST_AXES];
    cl_long rows;
    cl_int outer, count;
    cl_int length, pad; /* of a row */
} cla_axes;
typedef struct cla_axes_tensor {
    cl_long s[CLA_MOST_AXES];
    cl_long first;
    cl_int type, how; /* how: a CLA_ROW */
} cla_axes_tensor;

/* LayerNorm and RMSNorm; see rows.cl. */
typedef struct cla_norm_args {
    cla_axes_tensor x, residual, weight, bias, y, sum, mean, inv_std;
    cla_axes axes;
    cl_long epsilon_bits; /* as double, for f64 */
    cl_int rows, rms;     /* rows of a work-group */
    cl_float epsilon;
    cl_int pad;
} cla_norm_args;

/* Softmax along rows; see rows.cl. */
typedef struct cla_soft_args {
    cla_axes_tensor x, y;
    cla_axes axes;
    cl_int rows, pad;
} cla_soft_args;

/* y = act(x), or with `other`; see pointwise.cl. */
#define CLA_WITH_NONE 0
#define CLA_WITH_PRODUCT 1
#define CLA_WITH_SUM 2
typedef struct cla_point_args {
    cla_axes_tensor x, other, y;
    cla_axes axes;
    cl_int chunk;     /* elements of a work-item */
    cl_int act, with; /* a CLA_ACT, a CLA_WITH */
    cl_int pad;
} cla_point_args;

/* Rows of a table; see tokens.cl. */
typedef struct cla_embed_args {
    cla_axes_tensor table, ids, add, y; /* strides of the table: of its rows, of its columns */
    cla_axes axes;
    cl_long entries; /* rows of the table */
    cl_long scale_bits;
    cl_int rows; /* of a work-group */
    cl_float scale;
} cla_embed_args;

/* Means of rows; see tokens.cl. */
typedef struct cla_pool_args {
    cla_axes_tensor x, y; /* strides of x: of batches, of columns; then of rows */
    cla_axes axes;        /* [B, E] */
    cl_int normalise, pad;
} cla_pool_args;

/* Random numbers from number `first` of a stream on; see random.cl. Unsigned, all three. */
typedef struct cla_random_args {
    cla_axes_tensor y;
    cla_axes axes;
    cl_long seed, stream, first;
    cl_int chunk; /* elements of a work-item */
    cl_int uniform;
} cla_random_args;

/* Sums over rows; see sums.cl. */
typedef struct cla_sums_args {
    cla_axes_tensor x, y;
    cla_axes axes;          /* of x: outer ones are summed over */
    cl_long y_step;         /* from the sums of a block to the next ones */
    cl_int block;           /* rows of a block */
    cl_int chunks, columns; /* work-groups across, columns of each */
    cl_int add;             /* to what y holds */
} cla_sums_args;

/* Gradients along rows; see rows_backward.cl. */
typedef struct cla_norm_back_args {
    cla_axes_tensor x, residual, weight, d_y, d_sum, d_x;
    cla_axes axes;
    cl_long epsilon_bits; /* as double, for f64 */
    cl_int rows, rms;     /* rows of a work-group */
    cl_float epsilon;
    cl_int has_terms; /* d_y times the normalised x is wanted */
} cla_norm_back_args;
typedef struct cla_soft_back_args {
    cla_axes_tensor y, d_y, d_x;
    cla_axes axes;
    cl_int rows, pad;
} cla_soft_back_args;
typedef struct cla_loss_args {
    cla_axes_tensor logits, targets, row_losses, d_logits;
    cla_axes axes;
    cl_long classes, ignore;
    cl_long scale_bits, smoothing_bits; /* as double, for f64 */
    cl_long loss_0;
    cl_int has_ignore, mean; /* mean: over the rows that count */
    cl_int rows;             /* of a work-group */
    cl_int loss_type;
    cl_float scale, smoothing;
} cla_loss_args;

/* Gradients of y = act(x) up; see points_backward.cl. */
typedef struct cla_point_back_args {
    cla_axes_tensor x, up, d_y, d_x, d_up;
    cla_axes axes;
    cl_int chunk; /* elements of a work-item */
    cl_int act;   /* a CLA_ACT */
} cla_point_back_args;

/* Rows of a table's gradient; see embed_backward.cl. */
typedef struct cla_embed_back_args {
    cla_axes_tensor ids, d_y, table; /* strides of the table: of its rows, of its columns */
    cla_axes axes;                   /* of d_y, rows of ids */
    cl_long padding, scale_bits;
    cl_int entries, share; /* rows of the table, and so many of a work-item */
    cl_int has_padding;
    cl_int chunks, columns; /* work-groups across, columns of each */
    cl_int add;
    cl_float scale;
    cl_int pad;
} cla_embed_back_args;

/* Optimizers; see optimizer.cl. */
#define CLA_STEP_NUMBERS 10
typedef struct cla_step_args {
    cla_axes_tensor parameter, gradient, state1, state2;
    cla_axes axes;
    cl_long bits[CLA_STEP_NUMBERS]; /* of the numbers as double, for f64 */
    cl_float numbers[CLA_STEP_NUMBERS];
    cl_long factor_0;
    cl_int has_factor, factor_type;
    cl_int first, nesterov; /* first: states are not read */
    cl_int chunk, pad;      /* elements of a work-item */
} cla_step_args;

/* Sums of squares; see optimizer.cl. */
typedef struct cla_squares_args {
    cla_axes_tensor x;
    cla_axes axes;
    cl_long most_bits; /* of the greatest norm as double, for f64 */
    cl_long norm_0, factor_0;
    cl_int chunk; /* elements of a work-group */
    cl_int first; /* of the sums of this tensor */
    cl_int count; /* of all sums */
    cl_int has_norm, has_factor, norm_type, factor_type;
    cl_float most;
} cla_squares_args;

/* Strided copy or fill over [n0, n1, n2, n3], innermost last. */
typedef struct cla_copy_args {
    cl_long n0, n1, n2, n3;
    cl_long x_0, x_s0, x_s1, x_s2, x_s3;
    cl_long y_0, y_s0, y_s1, y_s2, y_s3;
    cl_int x_type, y_type;
    cl_int page_size, pages; /* of x, for copy_pages: rows of a page, entries of a batch in the table */
    cl_int columns;          /* of x, for copy_short */
    cl_int excludes;         /* the byte that excludes a key */
} cla_copy_args;

#endif
