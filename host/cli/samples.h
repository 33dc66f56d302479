/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand for many measured ones. */
#ifndef CLA_SAMPLES_H
#define CLA_SAMPLES_H

/* Of count >= 1 values, which it sorts upwards. */
double cla_median(double *values, int count);

#endif
