/* SPDX-License-Identifier: Apache-2.0 */
/* One mask out of several, made on the host, with columns behind it for keys that are seen by all. */
#ifndef CLA_MASK_JOIN_H
#define CLA_MASK_JOIN_H

#include "modules/masks.h"

/* attn and padding are checked and of rank 4, or absent. With keys behind the others lengths and causal go into the
 * mask; else they stay in *masks. Waits for buffers. */
clattn_status cla_mask_join(const clattn_module_masks *given, const clattn_tensor *attn, const clattn_tensor *padding,
                            const cla_mask_shape *shape, cla_scratch *scratch, cla_masks *masks);

#endif
