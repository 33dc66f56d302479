/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels over rows of tensors of any strides (axes.clh): their keys, and what they are told. */
#ifndef CLA_AXES_H
#define CLA_AXES_H

#include "args.h"
#include "runtime/program.h"
#include <clattn/tensor.h>

/* Work-items that share a row: one on a CPU, whose vectors are explicit. */
int64_t cla_axes_group(const clattn_device_info *device);
/* With lanes.clh and axes.clh before the file; staged where a tensor that is present is not of the sums' type. */
cla_key cla_axes_key(const clattn_device_info *device, const char *file, const char *kernel, clattn_dtype sums,
                     clattn_tensor *const *tensors, int count);
/* Of tensors that have been merged (tensor/walk.h); `t` is any that is present. */
cla_axes cla_axes_of(const clattn_tensor *t, int outer);
cla_axes_tensor cla_axes_tensor_of(const clattn_tensor *t, int outer);
/* t with that axis last. */
clattn_tensor cla_axes_turned(const clattn_tensor *t, int axis);
/* Rows of a work-group: enough groups for every core, and no more. */
int cla_axes_share(const clattn_device_info *device, int64_t rows);
/* Elements of a work-item that owns so many of all. */
int cla_axes_chunk(const clattn_device_info *device, int64_t elements);
/* What all of them move once. */
double cla_axes_bytes(clattn_tensor *const *tensors, int count);

#endif
