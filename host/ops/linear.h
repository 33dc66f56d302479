/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to compute a linear layer; linear.c chooses. M and N are above 0. All enqueue. */
#ifndef CLA_LINEAR_H
#define CLA_LINEAR_H

#include "args.h"
#include "ref/ref_linear.h"

/* linear_lanes.c: our kernels for CPU-class devices. gemv wants W's terms side by side. */
enum { CLA_GEMV_ROWS = 16 }; /* of x, for which it is ahead of `linear` */
clattn_status cla_linear_gemv(clattn_context *context, const cla_linear *given);
clattn_status cla_linear_lanes(clattn_context *context, const cla_linear *given);
/* linear_clblast.c: a product by CLBlast, and what goes around it. */
clattn_status cla_linear_clblast(clattn_context *context, const cla_linear *given);
/* linear_blas.c: the same by OpenBLAS, on the `cpu` context. Tensors have host storage. */
clattn_status cla_linear_blas(clattn_context *context, const cla_linear *a);

/* What kernels are told of it; the fields of their own are 0. */
cla_linear_args cla_linear_args_of(const cla_linear *a);

#endif
