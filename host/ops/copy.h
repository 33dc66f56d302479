/* SPDX-License-Identifier: Apache-2.0 */
/* Strided copies and fills of rank up to 4, on a device or the host. */
#ifndef CLA_COPY_H
#define CLA_COPY_H

#include "runtime/program.h"
#include <clattn/tensor.h>

/* The kernel "copy_strided" or "fill_strided" for elements of dtype; NULL on the `cpu` context, which needs none. */
clattn_status cla_copy_kernel(clattn_context *context, clattn_dtype dtype, const char *name, cla_kernel **kernel);
/* to = from, of one shape and type; last axes of either may have any stride. Enqueued. */
clattn_status cla_copy_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *from,
                               const clattn_tensor *to);
/* Every element = value; f32 and f64. A tensor of rank 0 is left alone. Enqueued. */
clattn_status cla_fill_strided(clattn_context *context, cla_kernel *kernel, const clattn_tensor *to, double value);

#endif
