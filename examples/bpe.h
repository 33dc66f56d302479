/* SPDX-License-Identifier: Apache-2.0 */
/* The byte-level BPE tokenizer of GPT-2 and its like, from the vocabulary and the merges in a GGUF file.
 * Text is cut at special tokens, at each digit (as SmolLM2 does), then by GPT-2's rule; a piece's bytes are merged pair
 * by pair, those that were learnt first. Source: Radford et al. 2019; Sennrich et al. 2016. */
#ifndef BPE_H
#define BPE_H

#include <clattn/io.h>

typedef struct bpe bpe;

typedef struct bpe_ids {
    int32_t *at; /* free releases it */
    size_t count, capacity;
} bpe_ids;

/* The texts are those of the file, which must stay open. NULL after a complaint. */
bpe *bpe_create(const clattn_gguf *file);
void bpe_destroy(bpe *b);
int32_t bpe_count(const bpe *b);
/* The token of a text as the vocabulary writes it, -1 where there is none. */
int32_t bpe_find(const bpe *b, const char *text);

/* Appends the ids of a text; nothing is put before or after it. false after a complaint: text that is not UTF-8. */
bool bpe_encode(bpe *b, const char *text, size_t length, bpe_ids *ids);
bool bpe_push(bpe_ids *ids, int32_t id);
/* The bytes that a token stands for: not always whole characters. */
const char *bpe_bytes(const bpe *b, int32_t id, size_t *length);

#endif
