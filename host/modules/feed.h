/* SPDX-License-Identifier: Apache-2.0 */
/* Feed-forward inside of modules. */
#ifndef CLA_FEED_H
#define CLA_FEED_H

#include "modules/scratch.h"
#include <clattn/modules.h>

typedef struct cla_feed {
    clattn_tensor linear1, linear1_bias, gate, gate_bias, linear2,
        linear2_bias; /* matrices [out, in]; gate may be absent */
    clattn_activation activation;
    int64_t E, F, columns; /* of x, between, of y */
    bool wide;
    int64_t parameters;
} cla_feed;

clattn_status cla_feed_take(const clattn_feedforward_weights *weights, clattn_activation activation, cla_feed *feed);
/* y may be x, as the same view. Sums and what lies between are of the dtype. Uses CLA_SLOT_WIDE. */
clattn_status cla_feed_run(const cla_feed *feed, cla_scratch *scratch, clattn_dtype dtype, const clattn_tensor *x,
                           const clattn_tensor *y);

#endif
