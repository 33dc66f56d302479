/* SPDX-License-Identifier: Apache-2.0 */
/* clattn: Transformer attention on any OpenCL device, and on CPUs. Everything but OpenCL interop (clattn/opencl.h). */
#ifndef CLATTN_CLATTN_H
#define CLATTN_CLATTN_H

#include <clattn/attention.h>
#include <clattn/backward.h>
#include <clattn/cache.h>
#include <clattn/context.h>
#include <clattn/io.h>
#include <clattn/lint.h>
#include <clattn/measure.h>
#include <clattn/modules.h>
#include <clattn/ops.h>
#include <clattn/parameters.h>
#include <clattn/status.h>
#include <clattn/tensor.h>
#include <clattn/train.h>
#include <clattn/tune.h>
#include <clattn/verify.h>
#include <clattn/version.h>

#endif
