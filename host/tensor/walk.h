/* SPDX-License-Identifier: Apache-2.0 */
/* Several views walked together, element by element: outer axes count rows, inner axes run along a row. */
#ifndef CLA_WALK_H
#define CLA_WALK_H

#include <clattn/tensor.h>

enum { CLA_WALK_MOST = INT32_MAX - 65536 }; /* of an axis: kernels count in int, and step past the end */

/* t over `shape`, of `rank` axes, aligned at the right: axes that it lacks, or has with size 1, get stride 0. false
 * when it does not broadcast so. */
bool cla_walk_broadcast(clattn_tensor *t, int rank, const int64_t *shape);
/* Leaves axes of size 1 out and makes one of neighbours that every tensor steps through as one. All that are present
 * have one shape, and keep one. The first *outer axes stay apart from the others, of which at least one is left; it may
 * be of size 1. No tensor's elements change their order. */
void cla_walk_merge(clattn_tensor *const *tensors, int count, int *outer);
/* Product of the sizes of axes first .. end - 1; INT64_MAX where that is more than 64 bits count, which a tensor of no
 * elements may have. */
int64_t cla_walk_count(const clattn_tensor *t, int first, int end);
/* What `index`, counted over axes first .. end - 1, adds to the place of an element. */
int64_t cla_walk_step(const clattn_tensor *t, int first, int end, int64_t index);

#endif
