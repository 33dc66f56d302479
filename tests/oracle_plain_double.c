/* SPDX-License-Identifier: Apache-2.0 */
#define REAL double
#define EXP exp
#define LOG log
#define TANH tanh
#define ORACLE_PLAIN oracle_plain_double
#define ORACLE_PLAIN_GRADIENTS oracle_plain_gradients_double
#include "oracle_plain.h"

#include "oracle_plain_gradients.h"
