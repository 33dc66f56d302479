/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over the axes along which a result broadcasts, in blocks of rows that are added in order: gradients of biases,
 * of weights of norms, and of all else that broadcasts. */
#ifndef CLA_OPS_SUMS_H
#define CLA_OPS_SUMS_H

#include "ref/ref_backward.h"

/* Tensors are checked, have one shape, strides of 0 where they broadcast, and storage on the device, or on the host in
 * a `cpu` context; dtype and add are set. y has elements; what is summed is told by its strides. Enqueued. Errors
 * CLATTN_E_LIMIT (rows of 2^31 elements, 8 axes summed), and the device's. */
clattn_status cla_sums_run(clattn_context *context, cla_sums *a);

/* to = the transpose of the matrix `from`, dense and of the type of the sums; not in a `cpu` context. Enqueued. */
clattn_status cla_turn_rows(clattn_context *context, const clattn_tensor *from, const clattn_tensor *to);

#endif
