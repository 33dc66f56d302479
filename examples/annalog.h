/* SPDX-License-Identifier: Apache-2.0 */
/* ANNalog: a Transformer with encoder and decoder that turns molecules, written as SMILES, into similar ones; from the
 * folder that tools/fetch_models.sh makes. Errors are printed. */
#ifndef ANNALOG_H
#define ANNALOG_H

#include <clattn/clattn.h>

/* Ids of special tokens, and how many tokens source and target may have. */
enum { ANNALOG_UNKNOWN, ANNALOG_PADDING, ANNALOG_START, ANNALOG_END, ANNALOG_POSITIONS = 102 };

typedef struct annalog annalog;

annalog *annalog_open(clattn_context *context, const char *folder); /* NULL after an error */
void annalog_close(annalog *a);                                     /* NULL is allowed */
int64_t annalog_vocabulary(const annalog *a);                       /* V: tokens */
int64_t annalog_width(const annalog *a);                            /* E, of a state */
const char *annalog_token(const annalog *a, int32_t id);            /* "?" for none */

/* Start, the tokens of a molecule, end, into ids [ANNALOG_POSITIONS]. A token that the model does not know becomes
 * ANNALOG_UNKNOWN. Returns how many ids there are, 0 after an error: too many, or no UTF-8. */
int64_t annalog_encode(const annalog *a, const char *smiles, size_t bytes, int32_t *ids);
/* Reads the source ids [N], all at once, and forgets the target before. memory [N, E] may be NULL. */
bool annalog_read(annalog *a, const int32_t *ids, int64_t N, float *memory);
/* Puts one more id behind the target: logits [V] of what comes after it. */
bool annalog_step(annalog *a, int32_t id, float *logits);

#endif
