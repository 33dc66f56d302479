/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products on OpenCL devices, in one place: CLBlast's strided-batched routine. Knows nothing of attention. */
#ifndef CLA_GEMM_H
#define CLA_GEMM_H

#include <clattn/tensor.h>

typedef struct cla_gemm_matrix {
    const clattn_buffer *buffer;
    int64_t offset, ld; /* elements; ld from a stored row's length up, and free where there is one row */
    bool transposed;    /* stored as [columns, rows]; not for c */
} cla_gemm_matrix;

/* Another axis of matrices, with the step from one to the next; 0 shares a matrix, but not for c. */
typedef struct cla_gemm_axis {
    int64_t size; /* 0: no such axis */
    int64_t a, b, c;
} cla_gemm_axis;

enum { CLA_GEMM_AXES = 3 };

/* C[m, n] = A[m, k] B[k, n], or C + A B, for each combination of the axes, outermost first. */
typedef struct cla_gemm {
    clattn_dtype dtype; /* f32 or f64 */
    bool add;           /* to what C holds; else C is not read */
    int64_t m, n, k;
    cla_gemm_matrix a, b, c;
    cla_gemm_axis axes[CLA_GEMM_AXES];
} cla_gemm;

/* Axes that nest in one another become one, and those that share B become rows of A, so that few calls remain.
 * CLBlast's direct kernel is forced, on this device for the whole process: it takes no memory of its own.
 * Special  m or n = 0: nothing to do. k = 0: zeros, or C as it is.       Async  enqueued; returns at once, but for a
 * first build. Errors   CLATTN_E_SHAPE (an ld below a row's length, a step of 0 for c), CLATTN_E_DTYPE, CLATTN_E_LIMIT
 *          (CLBlast counts elements in int), CLATTN_E_CLBLAST, CLATTN_E_MEMORY, CLATTN_E_OPENCL. */
clattn_status cla_gemm_batched(clattn_context *context, const cla_gemm *gemm);
/* The checks of cla_gemm_batched alone. */
clattn_status cla_gemm_check(const cla_gemm *gemm);
/* gemm_test.c: whether products in f32 or f64 are right on the device, where the context tests itself; the first call
 * runs some and waits. Errors: CLATTN_E_VERIFY, and those of cla_gemm_batched. */
clattn_status cla_gemm_test(clattn_context *context, clattn_dtype dtype);

#endif
