/* SPDX-License-Identifier: Apache-2.0 */
/* BERT's uncased tokenizer, with the ids that Hugging Face's gives. Characters are those of utf8proc; it knows no
 * model. */
#ifndef WORDPIECE_H
#define WORDPIECE_H

#include <stddef.h>
#include <stdint.h>

typedef struct wordpiece wordpiece;

/* Reads a vocab.txt: a token a line, whose number is its id. NULL after an error, which it prints. */
wordpiece *wordpiece_open(const char *path);
void wordpiece_close(wordpiece *w); /* NULL is allowed */
size_t wordpiece_count(const wordpiece *w);
/* The token of an id, "?" for none; owned by w. */
const char *wordpiece_token(const wordpiece *w, int32_t id);

/* [CLS], the text's tokens, [SEP]; what is more than capacity (at least 2) is cut off before [SEP]. Returns how many
 * ids it wrote; -1 when the text is not UTF-8, with the byte where it ceases to be in *bad. */
int64_t wordpiece_encode(const wordpiece *w, const char *text, size_t bytes, int32_t *ids, int64_t capacity,
                         size_t *bad);

#endif
