/* SPDX-License-Identifier: Apache-2.0 */
/* Weights of modules by PyTorch's names. */
#include "base/error.h"
#include <clattn/modules.h>

clattn_status clattn_multihead_weights_find(const clattn_parameters *parameters, const char *prefix,
                                            clattn_multihead_weights *weights) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(parameters && weights, CLATTN_E_ARGUMENT, "multihead_weights_find: %s is NULL",
              parameters ? "weights" : "parameters");
    *weights = (clattn_multihead_weights){
        .in_proj = clattn_parameters_get(parameters, prefix, "in_proj_weight"),
        .q = clattn_parameters_get(parameters, prefix, "q_proj_weight"),
        .k = clattn_parameters_get(parameters, prefix, "k_proj_weight"),
        .v = clattn_parameters_get(parameters, prefix, "v_proj_weight"),
        .in_bias = clattn_parameters_get(parameters, prefix, "in_proj_bias"),
        .out_bias = clattn_parameters_get(parameters, prefix, "out_proj.bias"),
        .bias_k = clattn_parameters_get(parameters, prefix, "bias_k"),
        .bias_v = clattn_parameters_get(parameters, prefix, "bias_v"),
    };
    if (weights->q.rank > 0 || weights->k.rank > 0 || weights->v.rank > 0) {
        CLA_TRY(clattn_parameters_find(parameters, prefix, "q_proj_weight", &weights->q));
        CLA_TRY(clattn_parameters_find(parameters, prefix, "k_proj_weight", &weights->k));
        CLA_TRY(clattn_parameters_find(parameters, prefix, "v_proj_weight", &weights->v));
    } else {
        CLA_TRY(clattn_parameters_find(parameters, prefix, "in_proj_weight", &weights->in_proj));
    }
    CLA_TRY(clattn_parameters_find(parameters, prefix, "out_proj.weight", &weights->out));
done:
    return status;
}

clattn_status clattn_multihead_load(clattn_context *context, const clattn_parameters *parameters, const char *prefix,
                                    const clattn_multihead_options *options, clattn_multihead **multihead) {
    clattn_status status = CLATTN_OK;
    clattn_multihead_weights weights;
    CLA_CHECK(multihead, CLATTN_E_ARGUMENT, "multihead_load: multihead is NULL");
    *multihead = NULL;
    CLA_TRY(clattn_multihead_weights_find(parameters, prefix, &weights));
    CLA_TRY(clattn_multihead_create(context, &weights, options, multihead));
done:
    if (status != CLATTN_OK && multihead && prefix && *prefix)
        cla_error_prefix("\"%.100s\": ", prefix);
    return status;
}
