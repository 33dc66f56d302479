/* SPDX-License-Identifier: Apache-2.0 */
#define REAL long double
#define EXP expl
#define LOG logl
#define TANH tanhl
#define ORACLE_PLAIN oracle_plain_long_double
#define ORACLE_PLAIN_GRADIENTS oracle_plain_gradients_long_double
#include "oracle_plain.h"

#include "oracle_plain_gradients.h"
