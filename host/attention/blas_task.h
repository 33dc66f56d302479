/* SPDX-License-Identifier: Apache-2.0 */
/* The pieces that algorithm `blas` works in: a block of query rows of one key head against a range of keys. Written
 * once for both types in blas_task_real.h. */
#ifndef CLA_BLAS_TASK_H
#define CLA_BLAS_TASK_H

#include "attention/problem.h"
#include "base/dropout.h"

/* What a task is for: the outputs of its rows, or its share of what is made of many. */
typedef enum cla_blas_pass { CLA_BLAS_ROWS, CLA_BLAS_MEAN, CLA_BLAS_COLUMNS } cla_blas_pass;

/* Rows are the queries [i0, i1) of the heads hk * group + [m0, m1). */
typedef struct cla_blas_task {
    int64_t b, hk, m0, m1, i0, i1;
    int64_t j0, j1; /* keys: the hull of what its rows see, or a part of it */
    cla_blas_pass pass;
} cla_blas_task;

enum { CLA_BLAS_FIXED = 512 };

/* Sizes of blocks, and where a thread's scratch and a task's state hold what; in elements. */
typedef struct cla_blas_layout {
    int64_t rows, keys;             /* largest block */
    int64_t shift;                  /* weights are kept times 2^-shift, so that sums of M of them stay below 1 */
    bool copy_keys, copy_values;    /* their row strides are none that BLAS takes */
    bool fixed;                     /* products of one shape, rows x CLA_BLAS_FIXED keys, whatever there is */
    int64_t q, k, v, s, t, scratch; /* pieces of a thread's scratch, and its size */
    int64_t x, y;                   /* fixed: a piece of scores, of keys or values */
    const int64_t *row_of,
        *head_of;           /* [N], [H]: where a query and a head are in weights, -1: nowhere; NULL: in place */
    cla_dropout dropout;    /* of the execution */
    int64_t o, m, l, state; /* pieces of a task's state: sums [rows, Dv], maxima, sums of weights; its size */
} cla_blas_layout;

/* Fills *state with the task's part of the online softmax. scratch and state have their layout's sizes. */
void cla_blas_run_f32(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task, float *scratch,
                      float *state);
void cla_blas_run_f64(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task, double *scratch,
                      double *state);
/* states[0] becomes the state over the keys of all `parts` states of one block of rows, in their order. */
void cla_blas_merge_f32(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task, int64_t parts,
                        float *states);
void cla_blas_merge_f64(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task, int64_t parts,
                        double *states);
/* Writes O, LSE, state, entropy and weights; or adds the rows' weights to the mean's or to the column sums. For all
 * that is made of weights, scratch is as cla_blas_run left it, with all keys in one block. */
void cla_blas_store_f32(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task, const float *scratch,
                        const float *state);
void cla_blas_store_f64(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *task,
                        const double *scratch, const double *state);

static inline int64_t cla_blas_task_rows(const cla_blas_task *t) { return (t->m1 - t->m0) * (t->i1 - t->i0); }

#endif
