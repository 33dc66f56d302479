/* SPDX-License-Identifier: Apache-2.0 */
/* OpenCL codes, each named once. */
#ifndef CLA_CL_ERROR_H
#define CLA_CL_ERROR_H

#include "base/error.h"
#include <CL/cl.h>

/* The status for a failed call; the message names `what`, the code and its name. CL_SUCCESS gives CLATTN_OK. */
clattn_status cla_cl_error(cl_int code, const char *what);

/* "CL_OUT_OF_RESOURCES"; never NULL. */
const char *cla_cl_name(cl_int code);

#define CLA_TRY_CL(call, what)                                                                                         \
    do {                                                                                                               \
        const cl_int code_ = (call);                                                                                   \
        if (code_ != CL_SUCCESS) {                                                                                     \
            status = cla_cl_error(code_, (what));                                                                      \
            goto done;                                                                                                 \
        }                                                                                                              \
    } while (0)

#endif
