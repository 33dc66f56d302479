/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of an operation, checked before anything is computed. */
#ifndef CLA_OPERAND_H
#define CLA_OPERAND_H

#include <clattn/tensor.h>

typedef enum cla_operand {
    CLA_OPERAND_FLOATS = 0, /* f32, f64, f16, bf16 */
    CLA_OPERAND_BLOCKS = 1, /* quantised too */
    CLA_OPERAND_OUTPUT = 2  /* its elements share no place */
} cla_operand;

/* Present, of rank 2 to 4, of a right type, with storage that reaches far enough, in this context; lifted to rank 4. No
 * axis is longer than int counts. `kind` is a sum of cla_operand. */
clattn_status cla_operand_take(clattn_context *context, const clattn_tensor *t, const char *name, int kind,
                               clattn_tensor *out);
/* Refuses inputs that share bytes with an output; the first allows the same view. */
clattn_status cla_operand_same_or_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                        const char *out_name);
clattn_status cla_operand_apart(const clattn_tensor *in, const char *in_name, const clattn_tensor *out,
                                const char *out_name);

#endif
