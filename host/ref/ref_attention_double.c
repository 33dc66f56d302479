/* SPDX-License-Identifier: Apache-2.0 */
/* The reference with sums in double. */
#define SUM double
#define EXP exp
#define LOG log
#define TANH tanh
#define CLA_REF_ATTENTION cla_ref_attention_double
#define CLA_REF_GRADIENTS cla_ref_gradients_double
#include "ref/ref_attention_rows.h"
#include "ref/ref_gradients_rows.h"
