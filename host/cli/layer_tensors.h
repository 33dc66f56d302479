/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of Transformer layers by PyTorch's names, and their way onto a device. */
#ifndef CLA_LAYER_TENSORS_H
#define CLA_LAYER_TENSORS_H

#include <clattn/parameters.h>

/* Sizes in E and F: rows_E E + rows_F F rows, columns alike; no columns: a vector. */
typedef struct cla_layer_tensor {
    const char *name;
    int rows_E, rows_F, columns_E, columns_F;
    bool is_scale;   /* a norm's weight, near 1 */
    bool of_decoder; /* an encoder layer has none */
} cla_layer_tensor;

enum { CLA_LAYER_TENSORS = 18 };
extern const cla_layer_tensor cla_layer_tensors[CLA_LAYER_TENSORS];

/* *parameters, made anew, holds copies; after a failure too, what was made is to be destroyed. */
clattn_status cla_parameters_upload(clattn_context *context, const clattn_named_array *arrays, size_t count,
                                    clattn_parameters **parameters);

#endif
