/* SPDX-License-Identifier: Apache-2.0 */
/* A decoder of the llama kind on the device, from a GGUF file: RMSNorm, rotary positions in adjacent pairs, grouped
 * heads, SwiGLU. Keys and values of earlier tokens stay in a cache on the device.
 * Letters as in the library: N new rows, M keys, H heads, Hk key heads, D head dim, E model dim, F inner dim. */
#ifndef LLAMA_H
#define LLAMA_H

#include <clattn/clattn.h>

/* How matrices lie on the device. */
typedef enum llama_storage {
    LLAMA_STORED = 0, /* as in the file, blocks of q4_1 and q8_0 too */
    LLAMA_F32,
    LLAMA_F16
} llama_storage;

typedef struct llama_shape {
    int64_t layers, E, H, Hk, D, F, vocabulary, context;
    int64_t rotated; /* dims of a head that are turned by position */
    double base, epsilon;
} llama_shape;

/* Matrices that are multiplied with the same rows: in one piece where they are of one type. */
typedef struct llama_matrix {
    int parts;
    clattn_tensor part[3]; /* [rows, columns] */
    int64_t at[3];         /* the column of the result where each begins */
} llama_matrix;

typedef struct llama_layer {
    clattn_tensor attention_norm, ffn_norm;
    llama_matrix qkv, out, gate_up, down;
    clattn_tensor cache; /* [2 Hk, slots, D], keys before values */
} llama_layer;

typedef struct llama {
    clattn_context *context;
    llama_shape shape;
    llama_layer *layers;
    llama_matrix head; /* the embeddings, where the file has no other */
    clattn_tensor embedding, norm;
    clattn_tensor cos, sin; /* [slots, rotated / 2] */
    int64_t slots, rows;    /* of the cache and the tables; rows at most that go through together */
    int64_t length;         /* slots in use */
    /* [rows, E] the stream and what is added to it, normalised; [rows, (H + 2 Hk) D]; [rows, H D]; [rows, 2 F], where
     * gate and up are not in one piece; [rows, F]; [V] */
    clattn_buffer *stream, *normed, *qkv, *heads, *inner, *gated, *logits;
    clattn_buffer **buffers; /* all of them */
    size_t buffer_count;
    uint64_t weight_bytes, cache_bytes;
} llama;

/* What the file says of itself; false after a complaint. */
bool llama_read_shape(const clattn_gguf *file, llama_shape *shape);
/* Everything on the device. slots: tokens that will be computed, at most; cached: room for their keys and values.
 * false after a complaint; llama_free is right in any case. */
bool llama_load(llama *m, clattn_context *context, clattn_gguf *file, const llama_shape *shape, llama_storage storage,
                int64_t slots, bool cached);
void llama_free(llama *m);

/* Computes tokens that follow those in the cache, and adds them to it; logits [vocabulary] are those after the last. */
bool llama_append(llama *m, const int32_t *ids, int64_t count, float *logits);
/* The same of all tokens from the first one, without a cache. */
bool llama_recompute(llama *m, const int32_t *ids, int64_t count, float *logits);

#endif
