/* SPDX-License-Identifier: Apache-2.0 */
/* BERT's encoder with mean pooling, which makes sentences into vectors of unit length: all-MiniLM-L6-v2 and others of
 * its kind, from the folder in which sentence-transformers keeps them. Errors are printed. */
#ifndef BERT_H
#define BERT_H

#include <clattn/clattn.h>

typedef struct bert bert;

/* How many tokens of a text the model in a folder takes. */
bool bert_token_limit(const char *folder, int64_t *tokens);
/* dtype: how weights are stored, CLATTN_F32 or CLATTN_F16; states and sums are in f32. NULL after an error. */
bert *bert_open(clattn_context *context, const char *folder, clattn_dtype dtype);
void bert_close(bert *b);               /* NULL is allowed */
int64_t bert_width(const bert *b);      /* E, of an embedding */
int64_t bert_vocabulary(const bert *b); /* ids are below it */

/* ids [B, N], of which the first lengths[b] of a row count; embeddings [B, E]. */
bool bert_embed(bert *b, int64_t B, int64_t N, const int32_t *ids, const int64_t *lengths, float *embeddings);

/* States of one text, as a safetensors file: h0 .. after the embeddings and after each layer [N, E], and of the first
 * layer q0, k0, v0 [heads, N, E / heads] and o0, the attention's result [N, E]. */
bool bert_write_stages(bert *b, int64_t N, const int32_t *ids, const char *path);

#endif
