/* SPDX-License-Identifier: Apache-2.0 */
#define REAL float
#define EXP expf
#define LOG logf
#define TANH tanhf
#define ORACLE_PLAIN oracle_plain_float
#define ORACLE_PLAIN_GRADIENTS oracle_plain_gradients_float
#include "oracle_plain.h"

#include "oracle_plain_gradients.h"
