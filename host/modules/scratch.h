/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers that a module owns: each grows to the largest that was asked, and is used again. */
#ifndef CLA_SCRATCH_H
#define CLA_SCRATCH_H

#include <clattn/tensor.h>

/* What lives at the same time lies in different ones. */
typedef enum cla_slot {
    CLA_SLOT_WIDE = 0, /* projections of queries, keys and values; or the inner rows of feed-forward */
    CLA_SLOT_HEADS,    /* what attention gives */
    CLA_SLOT_A,        /* rows of E on their way through a layer */
    CLA_SLOT_B,
    CLA_SLOT_ROWS, /* between layers */
    CLA_SLOT_KEEP, /* masks made on the host */
    CLA_SLOT_BIAS,
    CLA_SLOT_MEMORY_KEEP, /* the same of a decoder's memory */
    CLA_SLOT_MEMORY_BIAS,
    CLA_SLOT_SELF_WIDE, /* of the backward pass: what the forward pass gave */
    CLA_SLOT_SELF_HEADS,
    CLA_SLOT_SELF_STATE,
    CLA_SLOT_CROSS_WIDE,
    CLA_SLOT_CROSS_HEADS,
    CLA_SLOT_CROSS_STATE,
    CLA_SLOT_INNER,  /* of feed-forward, and gradients */
    CLA_SLOT_LAYER,  /* rows of E of a layer, and gradients */
    CLA_SLOT_D_WIDE, /* gradients */
    CLA_SLOT_D_HEADS,
    CLA_SLOT_D_MORE, /* what is added to others */
    CLA_SLOT_D_ROWS, /* between layers */
    CLA_SLOTS
} cla_slot;

typedef struct cla_scratch {
    clattn_context *context;
    clattn_buffer *buffers[CLA_SLOTS];
} cla_scratch;

/* A dense tensor in a slot; what an earlier tensor of the slot held is gone. */
clattn_status cla_scratch_take(cla_scratch *scratch, cla_slot slot, clattn_dtype dtype, int rank, const int64_t *shape,
                               clattn_tensor *tensor);
/* `count` dense tensors of one shape, one behind another in a slot. */
clattn_status cla_scratch_take_many(cla_scratch *scratch, cla_slot slot, clattn_dtype dtype, int rank,
                                    const int64_t *shape, int count, clattn_tensor *tensors);
void cla_scratch_free(cla_scratch *scratch);

#endif
