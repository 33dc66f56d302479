/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder and what decoding token by token keeps. */
#ifndef CLA_DECODER_H
#define CLA_DECODER_H

#include "modules/stack.h"

struct clattn_decoder {
    cla_stack stack;
};

struct clattn_decoder_cache {
    clattn_decoder *decoder;
    int64_t B, capacity, length;
    clattn_dtype dtype;
    int64_t memory_rows;                   /* of the memory whose keys and values are kept; -1: none yet */
    int64_t *offsets;                      /* [B], each `length` in a call */
    clattn_tensor *stores, *memory_stores; /* [layers] of [B, capacity, row], [B, memory rows, row] */
    clattn_buffer **buffers;               /* [2, layers], which the tensors lie in */
};

/* Keys and values of the memory [B, M, its dim], for every layer. */
clattn_status cla_cache_memory(clattn_decoder_cache *cache, const clattn_tensor *memory, clattn_dtype dtype);

#endif
