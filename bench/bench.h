/* SPDX-License-Identifier: Apache-2.0 */
/* clattn for the scripts of bench/: problems as plain numbers and addresses, so that no script knows a struct of the
 * library. 0 is right; what went wrong says bench_message. All arrays are the caller's. */
#ifndef BENCH_H
#define BENCH_H

#include <clattn/clattn.h>

typedef struct bench bench;                 /* a device and its meter */
typedef struct bench_problem bench_problem; /* bound to arrays */

CLATTN_API const char *bench_message(void);
CLATTN_API bench *bench_open(const char *device); /* NULL: failed */
CLATTN_API void bench_close(bench *b);
CLATTN_API const char *bench_device(bench *b);
/* One sample of multiply-adds, and of reading so many bytes: 1e9 a second. */
CLATTN_API int bench_peak(bench *b, uint64_t bytes, double *gflops, double *gbytes);

/* Near normal numbers of deviation 1, and bytes of which 7 of 8 are 1: the same for a seed everywhere. */
CLATTN_API int bench_fill(void *to, int dtype, uint64_t count, uint64_t seed);
CLATTN_API int bench_convert(void *to, int to_dtype, const void *from, int from_dtype, uint64_t count);

typedef struct bench_attention {
    int64_t B, H, Hk, N, M, D, Dv;
    int32_t q_type, k_type, v_type, o_type, bias_type;
    int32_t causal, bottom_right, windowed;
    int32_t call_only;   /* no plan and no buffers: bench_call alone */
    int64_t left, right; /* below 0: no limit */
    double scale;        /* 0: 1 / sqrt(D) */
    const char *algorithm;
    void *q, *k, *v, *o, *keep, *bias, *lse; /* NULL: none; keep, bias [N, M] */
    void *d_o; /* not NULL: forward and backward pass, all of one type; o gets dQ, dK and dV, one behind another */
} bench_attention;

/* A plan on device buffers that hold copies of the arrays, and the one call on the arrays themselves. NULL: failed. */
CLATTN_API bench_problem *bench_attention_open(bench *b, const bench_attention *a);
/* act(x W^T + bias): x [M, K], w [N, K], bias [N] or NULL, y [M, N], all f32; gelu: the exact one. */
CLATTN_API bench_problem *bench_linear_open(bench *b, int64_t M, int64_t N, int64_t K, int gelu, void *x, void *w,
                                            void *bias, void *y);
CLATTN_API void bench_problem_close(bench_problem *p);
CLATTN_API int bench_run(bench_problem *p);  /* the plan on buffers, or both, and waits */
CLATTN_API int bench_call(bench_problem *p); /* the one call on host arrays */
/* The result of bench_run in the array; of bench_call it is there. */
CLATTN_API int bench_fetch(bench_problem *p);
CLATTN_API int bench_facts(bench_problem *p, char *algorithm, uint64_t size, double *operations, double *moved_bytes);

/* The largest error of rows [begin, begin + count) of each head of o (linear: of y), in shares of the largest |V|
 * (linear: of the largest |y|) against sums in double; NaN where one is not finite. */
CLATTN_API int bench_attention_error(const bench_attention *a, int64_t begin, int64_t count, double *error);
/* The same of dQ, dK and dV, all of them, each in shares of its own largest, against f64. */
CLATTN_API int bench_gradients_error(const bench_attention *a, double *error);
CLATTN_API int bench_linear_error(int64_t M, int64_t N, int64_t K, int gelu, const float *x, const float *w,
                                  const float *bias, const float *y, int64_t begin, int64_t count, double *error);

#endif
