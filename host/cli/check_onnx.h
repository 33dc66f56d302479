/* SPDX-License-Identifier: Apache-2.0 */
/* What the builders of ONNX's operators share. */
#ifndef CLA_CHECK_ONNX_H
#define CLA_CHECK_ONNX_H

#include "check_case.h"

/* [B, H, S, D] of an array of rank 4, or of rank 3 [B, S, H * D] with H in the attribute, a view. */
bool cla_check_onnx_heads(cla_check_case *c, const clattn_array *array, const char *attr, clattn_tensor *t);
/* As cla_check_want. 16-bit results are allowed 2e-3 (f16) and 2^-6 (bf16) of the value at least: the wanted ones are
 * off by about one unit in the last place themselves. */
bool cla_check_onnx_want(cla_check_case *c, cla_check_job *job, const cJSON *out, cla_check_source source,
                         const clattn_array *got);
/* The opset of the case, which must lie between these. */
bool cla_check_onnx_opset(cla_check_case *c, int64_t first, int64_t last, int64_t *opset);

#endif
