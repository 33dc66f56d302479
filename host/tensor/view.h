/* SPDX-License-Identifier: Apache-2.0 */
/* What the library asks of views, beyond the public calls. */
#ifndef CLA_VIEW_H
#define CLA_VIEW_H

#include <clattn/tensor.h>

/* Where a buffer begins, in memory that others may lie in too. */
typedef struct cla_origin {
    const void *memory; /* a whole memory object of a device, else NULL: the host's memory */
    uintptr_t at;       /* the byte in it */
    bool read_only, write_only;
} cla_origin;
/* By runtime/buffer.c, as the public calls for buffers are. */
const cla_origin *cla_buffer_origin(const clattn_buffer *buffer);

/* What is done with a view's elements; a sum of these, 0 for neither. */
enum { CLA_READ = 1, CLA_WRITTEN = 2 };

/* The bytes of a view that is not empty: [begin, end) of the memory. */
typedef struct cla_extent {
    const void *memory;
    uintptr_t begin, end;
} cla_extent;

/* Rank 0 says that a tensor is left out; -1, of a slice that does not fit, is for cla_view_check to refuse. */
static inline bool cla_present(const clattn_tensor *t) { return t->rank != 0; }
/* "[2, 8, 1024, 64]" into text, which is also returned. */
const char *cla_shape_text(const clattn_tensor *t, char *text, size_t size);
/* Rank, shape, strides and offset are possible: no negative number, no overflow, no part of a block, and a host array
 * begins where numbers of its type may lie. `name` is for the message. */
clattn_status cla_view_check(const clattn_tensor *t, const char *name);
/* Lowest and one past the highest element touched, from the start of the storage. Both 0 when the view is empty. */
clattn_status cla_view_range(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
/* The same in bytes. The view is checked. */
clattn_status cla_view_bytes(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
/* Where it lies is said once, a buffer is of the context (NULL: that is not asked), it reaches far enough and may be
 * used so (CLA_READ, CLA_WRITTEN), and no two elements that are written share a place. The view is checked. */
clattn_status cla_view_storage(const clattn_context *context, const clattn_tensor *t, const char *name, int use);
/* False where it is empty, or its bytes cannot be told. */
bool cla_view_extent(const clattn_tensor *t, cla_extent *extent);
/* Two elements of the view share a place (a stride of 0, or strides that meet). Exact for nested strides. */
bool cla_view_overlaps(const clattn_tensor *t);
/* Whether both have a byte in common for certain: another view may lie in the gaps of one. Exact where strides are
 * nested and elements few; else seen at each other's ends. The views need no check. */
bool cla_view_meets(const clattn_tensor *a, const clattn_tensor *b);
/* Puts axes of size 1 and stride 0 before the others until the rank is 4. t->rank <= 4. */
clattn_tensor cla_view_lift(const clattn_tensor *t);
bool cla_view_same_layout(const clattn_tensor *a, const clattn_tensor *b);

#endif
