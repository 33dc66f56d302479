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

/* The forward pass as the backward one needs it: `z` of linear1, `gate` where there is one, `act` between, and room for
 * their gradients, in CLA_SLOT_INNER. y may be absent. */
typedef struct cla_feed_saved {
    clattn_tensor z, gate, act, d_act;
} cla_feed_saved;
clattn_status cla_feed_save(const cla_feed *feed, cla_scratch *scratch, clattn_dtype dtype, const clattn_tensor *x,
                            const clattn_tensor *y, cla_feed_saved *saved);
/* d_x may be absent; `gradients` are taken as weights are, NULL: none. What was saved is gone. */
clattn_status cla_feed_backward(const cla_feed *feed, const cla_feed *gradients, bool accumulate, cla_scratch *scratch,
                                clattn_dtype dtype, const clattn_tensor *x, cla_feed_saved *saved,
                                const clattn_tensor *d_y, const clattn_tensor *d_x);
/* The gradients of weights, of the same shapes. */
clattn_status cla_feed_take_gradients(const clattn_feedforward_weights *given, const cla_feed *feed,
                                      cla_feed *gradients);

struct clattn_feedforward {
    cla_scratch scratch;
    cla_feed feed;
};

#endif
