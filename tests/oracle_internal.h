/* SPDX-License-Identifier: Apache-2.0 */
/* Between the oracle's own files. */
#ifndef ORACLE_INTERNAL_H
#define ORACLE_INTERNAL_H

#include "oracle.h"

void *oracle_alloc(size_t count, size_t size); /* zeroed; aborts when out of memory */
oracle_outputs oracle_outputs_alloc(const oracle_config *config);
void oracle_outputs_free(oracle_outputs *outputs);
/* [B|1, H|1, N|1, M|1] */
void oracle_mask_shape(const oracle_config *config, oracle_mask mask, int64_t shape[4]);

/* Those after the third turn the numbers round before they are summed up. */
typedef enum oracle_order { ORACLE_FORWARD, ORACLE_BACKWARD, ORACLE_IN_LANES, ORACLE_ORDERS = 12 } oracle_order;
/* Naive loops, everything in that type, sums in this order; outputs of the case's shapes. */
void oracle_plain_float(const oracle_case *c, oracle_order order, const oracle_outputs *outputs);
void oracle_plain_double(const oracle_case *c, oracle_order order, const oracle_outputs *outputs);
void oracle_plain_long_double(const oracle_case *c, oracle_order order, const oracle_outputs *outputs);
/* The backward pass in the same way, by d_o; `stored`: with O rounded to its type. */
void oracle_plain_gradients_float(const oracle_backward *g, oracle_order order, bool stored,
                                  const oracle_gradients *out);
void oracle_plain_gradients_double(const oracle_backward *g, oracle_order order, bool stored,
                                   const oracle_gradients *out);
void oracle_plain_gradients_long_double(const oracle_backward *g, oracle_order order, bool stored,
                                        const oracle_gradients *out);
/* Elements of that type, bytes of whole elements: the filler's value in each, or all bits set for NaN. */
void oracle_spread(oracle_filler filler, clattn_dtype dtype, void *data, size_t bytes);
/* The storage type of a tensor, by its number below. */
clattn_dtype oracle_type_of(const oracle_config *config, int tensor);

/* ---- oracle_arrays.c: dense values laid out in arrays with guards ---- */

enum {
    ORACLE_Q,
    ORACLE_K,
    ORACLE_V,
    ORACLE_O,
    ORACLE_LSE,
    ORACLE_WEIGHTS,
    ORACLE_KEEP,
    ORACLE_DROP,
    ORACLE_BIAS,
    ORACLE_SINKS,
    ORACLE_TENSORS
};

typedef struct oracle_array {
    unsigned char *data, *before; /* before: a copy from before the call */
    unsigned char *owned;         /* one a byte: nonzero where an output may write */
    size_t bytes;
    clattn_buffer *buffer;
} oracle_array;

typedef struct oracle_arrays {
    oracle_array list[ORACLE_TENSORS];
    int count;
    int of[ORACLE_TENSORS];             /* which array a tensor lies in */
    clattn_tensor view[ORACLE_TENSORS]; /* rank 4; rank 0: absent */
    clattn_attention_args args;         /* over host arrays */
} oracle_arrays;

void oracle_arrays_make(const oracle_case *c, oracle_arrays *arrays);
void oracle_arrays_free(oracle_arrays *arrays);
/* Copies the outputs out of the arrays. */
void oracle_arrays_take(const oracle_case *c, const oracle_arrays *arrays, const oracle_outputs *outputs);
/* The number of an array in which a byte that no output owns has changed; -1: none. */
int oracle_arrays_damage(const oracle_arrays *arrays, size_t *at_byte);
clattn_tensor *oracle_args_tensor(clattn_attention_args *args, int tensor);

/* Uploads the arrays, and lets args point at the buffers. */
clattn_status oracle_arrays_place(clattn_context *context, oracle_arrays *arrays, clattn_attention_args *args);
/* Scratch of the caller's, as much as the plan asks for, full of filler. */
clattn_status oracle_give_workspace(clattn_context *context, const oracle_config *config, clattn_plan *plan,
                                    clattn_buffer **workspace);

/* An array and its view like those of a tensor, with values, or NULL: for an output. `given`: as the caller gives it.
 */
void oracle_array_like(const oracle_case *c, int tensor, const double *values, oracle_array *array, clattn_tensor *view,
                       clattn_tensor *given);
void oracle_array_free(oracle_array *array);
/* Copies dense values out of such an array; NaN where it has none. */
void oracle_array_take(const oracle_case *c, int tensor, const oracle_array *array, const clattn_tensor *view,
                       double *to);
/* Whether a byte that no output owns has changed. */
bool oracle_array_damaged(const oracle_array *array, size_t *at_byte);
/* Elements of the dense values of a tensor; 0 where there are none. */
int64_t oracle_values_count(const oracle_case *c, int tensor);

/* A runner for each algorithm that `name` lists (NULL past the end) and that takes a problem of the caller's. */
size_t oracle_open_each(oracle_runner runners[ORACLE_RUNNERS], const char *(*name)(size_t index),
                        bool (*takes)(void *data, const oracle_runner *runner), void *data);

#endif
