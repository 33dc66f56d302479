/* SPDX-License-Identifier: Apache-2.0 */
/* The reference with sums in long double. */
#define SUM long double
#define EXP expl
#define LOG logl
#define TANH tanhl
#define CLA_REF_ATTENTION cla_ref_attention_long_double
#define CLA_REF_GRADIENTS cla_ref_gradients_long_double
#include "ref/ref_attention_rows.h"
#include "ref/ref_gradients_rows.h"
