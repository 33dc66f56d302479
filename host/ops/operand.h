/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of an operation, checked before anything is computed. */
#ifndef CLA_OPERAND_H
#define CLA_OPERAND_H

#include <clattn/tensor.h>

typedef enum cla_operand {
    CLA_OPERAND_FLOATS = 0, /* f32, f64, f16, bf16 */
    CLA_OPERAND_BLOCKS = 1, /* q8_0 and q4_0 too, and q4_1 as an input */
    CLA_OPERAND_OUTPUT = 2, /* its elements share no place */
    CLA_OPERAND_INTS = 4,   /* i32 and i64 instead */
    CLA_OPERAND_CHANGED = 8 /* an output that is read too */
} cla_operand;

/* The kind of an output that is added to, or not. */
static inline int cla_operand_sum(bool added) {
    return added ? CLA_OPERAND_OUTPUT | CLA_OPERAND_CHANGED : CLA_OPERAND_OUTPUT;
}

/* Present, of a right type, with storage that reaches far enough, in this context. No axis is longer than int counts.
 * `kind` is a sum of cla_operand. */
clattn_status cla_operand_check(clattn_context *context, const clattn_tensor *t, const char *name, int kind);
/* The same of rank 2 to 4; lifted to rank 4. */
clattn_status cla_operand_take(clattn_context *context, const clattn_tensor *t, const char *name, int kind,
                               clattn_tensor *out);
/* Refuses inputs that share bytes with an output; the first allows the same view. */
clattn_status cla_operand_same_or_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                        const char *out_name);
clattn_status cla_operand_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                const char *out_name);
/* Of the shape of another. */
clattn_status cla_operand_same_shape(const clattn_tensor *t, const char *name, const clattn_tensor *as,
                                     const char *as_name);
/* The type of the sums, f32, or f64 where one of these is; refused where the device lacks it. `what` is the operation.
 */
clattn_status cla_operand_sums(clattn_context *context, const char *what, clattn_tensor *const *tensors, int count,
                               clattn_dtype *sums);
/* On the `cpu` context buffers are host arrays too. */
void cla_operand_to_host(clattn_context *context, clattn_tensor *const *tensors, int count);

#endif
