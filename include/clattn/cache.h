/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary position embedding, and a cache of keys and values that is appended to in place.
 *
 * Letters: B batch, H heads, Hk key heads, N rows, L new rows, D head dim, Dv value dim.
 */
#ifndef CLATTN_CACHE_H
#define CLATTN_CACHE_H

#include <clattn/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which two dims are a pair, and turned together. */
typedef enum clattn_rotary_pairs {
    CLATTN_ROTARY_HALVES =
        0,                 /* dims d and d + dims / 2: GPT-NeoX, Llama as Hugging Face has it, ONNX's interleaved 0 */
    CLATTN_ROTARY_ADJACENT /* dims 2 d and 2 d + 1: RoFormer, GPT-J, ONNX's interleaved 1 */
} clattn_rotary_pairs;

/* All zero: every dim, in halves, base 10000. */
typedef struct clattn_rotary_options {
    int64_t dims;              /* the first so many of D are rotated, the others copied; even; 0: D */
    clattn_rotary_pairs pairs; /* which dims are turned together */
    double base;               /* frequencies base^(-2 d / dims); above 0; 0: 10000 */
    const double *frequencies; /* host array [dims / 2], NULL: those of base. For stretched contexts */
    uint64_t reserved[8];      /* zero: see clattn/version.h */
} clattn_rotary_options;

/* All zero but x and y: row i stands at position i. */
typedef struct clattn_rotary_args {
    clattn_tensor x;               /* [B, H, N, D]; rank 3 [H, N, D] and 2 [N, D] count as [1, H|1, N, D] */
    clattn_tensor y;               /* out, of the same shape; may be x itself */
    clattn_rotary_options options; /* which dims, and by what angles */
    const int64_t *offsets;        /* host array [B], NULL = 0: row i stands at offsets[b] + i */
    const int64_t *positions;      /* or host array [B, N]: at positions[b, i] */
    /* Cosines and sines from elsewhere, a float type each, instead of those of the options' base or frequencies:
     * [B|1, N, dims / 2], a row for each row of x; or [positions, dims / 2], looked up by position. */
    clattn_tensor cos, sin; /* both or none */
    uint64_t reserved[24];  /* zero: see clattn/version.h */
} clattn_rotary_args;

/* y = x, with pair d of a row at position p turned by the angle p * frequency[d]:
 *   y1 = x1 cos - x2 sin,  y2 = x1 sin + x2 cos
 * The gradient by x is that by y, turned back: the same call with negated frequencies, or sines.
 * Shapes   any strides; y may not overlap itself, nor x unless it is x. A rank 3 tensor [B, N, H * D] is a view:
 *          clattn_tensor_split, then clattn_tensor_permute.
 * Dtypes   f32, f16, bf16, f64, x and y each its own; in f32, or in f64 where one of them is. Angles are found on the
 *          host in long double: at position 10^6 they are still good to 10^-13.
 * Async    enqueued; returns at once unless a tensor is a host array on an OpenCL device.
 * Errors   CLATTN_E_SHAPE, CLATTN_E_DTYPE, CLATTN_E_ARGUMENT (options, positions outside the tables, overlap),
 *          CLATTN_E_UNSUPPORTED (f64 without cl_khr_fp64). Nothing is written then.
 * Source   Su et al. 2021; ONNX RotaryEmbedding 23. */
CLATTN_API clattn_status clattn_rotary(clattn_context *context, const clattn_rotary_args *args);

/* Of clattn_cache_append. */
typedef struct clattn_cache_append_args {
    clattn_tensor k, v;             /* new rows: [B, Hk, L, D], [B, Hk, L, Dv]; one of them may be absent */
    clattn_tensor k_cache, v_cache; /* in place: [B, Hk, capacity, D], [B, Hk, capacity, Dv] */
    const int64_t *cache_lengths;   /* host array [B]: slots in use; row i goes to slot cache_lengths[b] + i */
    const int64_t *new_lengths;     /* host array [B], NULL = L: only the first rows of a batch are appended */

    /* Caches in pages, as attention reads them: [pages, Hk, page_size, D]; slot j of batch b is row j % page_size of
     * page block_table[b * table_pages + j / page_size]. Only entries of slots that are written are looked at. */
    const int32_t *block_table; /* host array [B, table_pages], NULL: each cache in one piece */
    int64_t table_pages;        /* entries of the table for a batch */

    bool rotate;                  /* k is rotated on its way, by position cache_lengths[b] + i + offsets[b] */
    clattn_rotary_options rotary; /* which dims, and by what angles; with rotate */
    const int64_t *offsets;       /* host array [B], NULL = 0 */
    clattn_tensor q;        /* optional, where k is rotated: [B, H, L, D], rotated in place by the same positions; rows
                             * beyond new_lengths as if they stood at position 0 */
    clattn_tensor cos, sin; /* optional: [positions, dims / 2] each, as in clattn_rotary, instead of the options' */
    uint64_t reserved[24];  /* zero: see clattn/version.h */
} clattn_cache_append_args;

/* Appends, all of it in one launch where no cache is of blocks; other slots keep their bits. Attention over the cache
 * then has key_lengths of cache_lengths + L.
 * Shapes   any strides; a cache may not overlap itself. Rank 2 to 4 as in attention, 4 in pages.
 * Dtypes   k, v, q, cos, sin: f32, f16, bf16, f64; caches: these, q8_0 and q4_0 (quantised as clattn_convert does),
 *          each its own.
 * Async    enqueued; returns at once unless a tensor is a host array on an OpenCL device.
 * Errors   CLATTN_E_LIMIT where a batch's rows do not fit (with its number and sizes); CLATTN_E_SHAPE, CLATTN_E_DTYPE,
 *          CLATTN_E_ARGUMENT (a page outside the cache, or written by two batches; positions outside the tables),
 *          CLATTN_E_UNSUPPORTED. Nothing is written then. */
CLATTN_API clattn_status clattn_cache_append(clattn_context *context, const clattn_cache_append_args *args);

#ifdef __cplusplus
}
#endif
#endif
