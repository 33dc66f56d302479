/* SPDX-License-Identifier: Apache-2.0 */
#include "layer_tensors.h"

const cla_layer_tensor cla_layer_tensors[CLA_LAYER_TENSORS] = {
    {"self_attn.in_proj_weight", 3, 0, 1, 0, false, false},
    {"self_attn.in_proj_bias", 3, 0, 0, 0, false, false},
    {"self_attn.out_proj.weight", 1, 0, 1, 0, false, false},
    {"self_attn.out_proj.bias", 1, 0, 0, 0, false, false},
    {"multihead_attn.in_proj_weight", 3, 0, 1, 0, false, true},
    {"multihead_attn.in_proj_bias", 3, 0, 0, 0, false, true},
    {"multihead_attn.out_proj.weight", 1, 0, 1, 0, false, true},
    {"multihead_attn.out_proj.bias", 1, 0, 0, 0, false, true},
    {"linear1.weight", 0, 1, 1, 0, false, false},
    {"linear1.bias", 0, 1, 0, 0, false, false},
    {"linear2.weight", 1, 0, 0, 1, false, false},
    {"linear2.bias", 1, 0, 0, 0, false, false},
    {"norm1.weight", 1, 0, 0, 0, true, false},
    {"norm1.bias", 1, 0, 0, 0, false, false},
    {"norm2.weight", 1, 0, 0, 0, true, false},
    {"norm2.bias", 1, 0, 0, 0, false, false},
    {"norm3.weight", 1, 0, 0, 0, true, true},
    {"norm3.bias", 1, 0, 0, 0, false, true},
};

clattn_status cla_parameters_upload(clattn_context *context, const clattn_named_array *arrays, size_t count,
                                    clattn_parameters **parameters) {
    clattn_status status = clattn_parameters_create(context, parameters);
    for (size_t i = 0; i < count && status == CLATTN_OK; i++)
        status = clattn_parameters_add(*parameters, arrays[i].name, &arrays[i].array, NULL);
    return status;
}
