/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding lookup and mean pooling: what they come down to, and their plain loops, in double. Tensors have host
 * storage at `host` + offset. Checked by the caller. */
#ifndef CLA_REF_TOKENS_H
#define CLA_REF_TOKENS_H

#include <clattn/ops.h>

typedef struct cla_embed {
    clattn_tensor table;       /* [V, E] */
    clattn_tensor ids, add, y; /* share their axes, of which the first `outer` count rows */
    int outer;
    int64_t rows, length;
    double scale;
    clattn_dtype dtype; /* of the sums */
} cla_embed;
/* Row `row`'s id, of any integer. */
int64_t cla_ref_id(const clattn_tensor *ids, int outer, int64_t row);
void cla_ref_embed(const cla_embed *a);

typedef struct cla_pool {
    clattn_tensor x, y;     /* [B, N, E], [B, E] */
    const int32_t *lengths; /* [B] */
    bool normalise;
    clattn_dtype dtype;
} cla_pool;
void cla_ref_pool(const cla_pool *a);

#endif
