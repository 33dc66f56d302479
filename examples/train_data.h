/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of digits and what shall be made of them, by number: what is trained in a step depends on seed and step
 * alone. An eighth of all sequences, by a hash of their digits, is never trained. */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include "train_settings.h"

enum { DIGITS = 10, SEPARATOR = DIGITS, TOKENS };

/* Sequence n. tokens [2 L]: the digits, the separator, and the answer but its last digit; answer [L]. unseen: of those
 * that are never trained. */
void train_sequence(const settings *s, bool unseen, uint64_t n, int32_t *tokens, int32_t *answer);

#endif
