/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for a byte-level tokenizer: where they are cut, and how bytes become whole characters again. */
#ifndef BPE_TEXT_H
#define BPE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* false after a complaint. */
bool bpe_is_utf8(const char *text, size_t length);
/* Bytes of the first piece of a text that holds no special token, length > 0:
 *   a digit, or  's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+  up to the next digit */
size_t bpe_piece(const char *text, size_t length);

/* Writes bytes as they come, but whole UTF-8 sequences only; what is none becomes U+FFFD. */
typedef struct bpe_stream {
    unsigned char kept[4];
    size_t count;
} bpe_stream;
void bpe_stream_put(bpe_stream *stream, const char *bytes, size_t length, FILE *to);
void bpe_stream_end(bpe_stream *stream, FILE *to);

#endif
