/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and fills of rank up to 4, on a device or the host, between any float types. */
#ifndef CLA_COPY_H
#define CLA_COPY_H

#include "runtime/program.h"
#include <clattn/tensor.h>

/* The kernel "copy_strided", "copy_pages", "copy_short" or "fill_strided"; NULL on the `cpu` context, which needs none.
 * `wide`: f64 is involved. */
clattn_status cla_copy_kernel(clattn_context *context, bool wide, const char *name, cla_kernel **kernel);
/* to = from, of one shape; last axes of either may have any stride. Enqueued. */
clattn_status cla_copy_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                               const clattn_tensor *to);
/* Keys or values out of their pages. */
typedef struct cla_paging {
    int64_t page_size, table_pages;
    const clattn_buffer *table; /* int [B, table_pages] */
    const clattn_buffer *spans; /* cla_span [B], for the number of keys */
} cla_paging;
/* to [B, H, M, D] from pages [pages, H, page_size, D]; rows past a batch's keys are left alone. Not on the `cpu`
 * context. Enqueued. */
clattn_status cla_copy_pages(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                             const clattn_tensor *to, const cla_paging *paging);
/* A mask whose last axis is shorter than that of `to`, and after it what excludes a key: -inf, or the byte `excludes`.
 * `from` is of a float type, bool or u8, as `to`. Enqueued. */
clattn_status cla_copy_short(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                             const clattn_tensor *to, uint8_t excludes);
/* Every element = value. `wide` as for the kernel. A tensor of rank 0 is left alone. Enqueued. */
clattn_status cla_fill_strided(clattn_context *context, cla_kernel *kernel, bool wide, const clattn_tensor *to,
                               double value);

#endif
