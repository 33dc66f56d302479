/* SPDX-License-Identifier: Apache-2.0 */
/* Masks of a module as attention takes them. */
#ifndef CLA_MASKS_H
#define CLA_MASKS_H

#include "modules/scratch.h"
#include <clattn/modules.h>

typedef struct cla_masks {
    clattn_tensor keep, drop, bias; /* [B|1, H|1, N|1, M + extra] */
    const int64_t *key_lengths, *offsets;
    bool causal;
    clattn_align align;
} cla_masks;

typedef struct cla_mask_shape {
    const char *module; /* for messages: "multihead" */
    const char *prefix; /* of the names of masks: "memory_" */
    int64_t B, H, N, M, extra;
    bool unbatched, wide;
    cla_slot keep, bias; /* where masks of the host go */
} cla_mask_shape;

clattn_status cla_masks_take(const clattn_module_masks *given, const cla_mask_shape *shape, cla_scratch *scratch,
                             cla_masks *masks);
void cla_masks_apply(const cla_masks *masks, clattn_attention_args *args);

#endif
