/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of CLBlast's direct kernel. Only these sets may be chosen: CLBlast does not check how parameters go
 * together, and computes wrong results with those that do not. Knows no CLBlast. */
#ifndef CLA_GEMM_SETS_H
#define CLA_GEMM_SETS_H

#include <clattn/context.h>
#include <clattn/tensor.h>

enum { CLA_GEMM_PARAMETERS = 10 };
extern const char *const cla_gemm_parameter_names[CLA_GEMM_PARAMETERS];

typedef struct cla_gemm_set {
    const char *text; /* for the record: "WGD=32 MDIMCD=16 ..." */
    size_t values[CLA_GEMM_PARAMETERS];
} cla_gemm_set;

const cla_gemm_set *cla_gemm_set_at(size_t index); /* NULL past the end */
/* Whether the device's work-groups are large enough for one of them. */
bool cla_gemm_fits(const clattn_device_info *device);
/* What the tuner recorded for the device; else our default for CPUs, and for work-groups that CLBlast's own parameters
 * may be too large for; else NULL: CLBlast's own. */
const cla_gemm_set *cla_gemm_set_for(clattn_context *context, clattn_dtype dtype);

#endif
