/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel with its work-group size. For program.c and launch.c. */
#ifndef CLA_KERNEL_H
#define CLA_KERNEL_H

#include "runtime/program.h"
#include <CL/cl.h>

struct cla_kernel {
    cl_kernel kernel;
    size_t work_group;
    char name[48];
};

#endif
