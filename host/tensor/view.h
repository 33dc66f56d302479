/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of views, beyond the public calls. */
#ifndef CLA_VIEW_H
#define CLA_VIEW_H

#include <clattn/tensor.h>

static inline bool cla_present(const clattn_tensor *t) { return t->rank > 0; }
/* "[2, 8, 1024, 64]" into text, which is also returned. */
const char *cla_shape_text(const clattn_tensor *t, char *text, size_t size);
/* Rank, shape, strides and offset are possible: no negative number, no overflow, no part of a block, and a host array
 * begins where numbers of its type may lie. `name` is for the message. */
clattn_status cla_view_check(const clattn_tensor *t, const char *name);
/* Lowest and one past the highest element touched, from the start of the storage. Both 0 when the view is empty. */
clattn_status cla_view_range(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
/* The same in bytes. The view is checked. */
clattn_status cla_view_bytes(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
/* Where it lies is said once, a buffer is of the context (NULL: that is not asked), and it reaches far enough. The view
 * is checked. */
clattn_status cla_view_storage(const clattn_context *context, const clattn_tensor *t, const char *name);
/* Two elements of the view share a place (a stride of 0, or strides that meet). Exact for nested strides. */
bool cla_view_overlaps(const clattn_tensor *t);
/* Whether both have a byte in common for certain: another view may lie in the gaps of one. The views need no check. */
bool cla_view_meets(const clattn_tensor *a, const clattn_tensor *b);
/* Puts axes of size 1 and stride 0 before the others until the rank is 4. t->rank <= 4. */
clattn_tensor cla_view_lift(const clattn_tensor *t);
bool cla_view_same_layout(const clattn_tensor *a, const clattn_tensor *b);

#endif
