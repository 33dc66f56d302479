/* SPDX-License-Identifier: Apache-2.0 */
/* Single elements of any type, as numbers. */
#ifndef CLA_DTYPE_H
#define CLA_DTYPE_H

#include <clattn/tensor.h>

double cla_load_element(const void *p, clattn_dtype dtype, int64_t i);
/* Rounds to nearest even, saturates integers. */
void cla_store_element(void *p, clattn_dtype dtype, int64_t i, double x);

#endif
