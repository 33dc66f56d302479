/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that stand for many measured ones. */
#ifndef CLA_SAMPLES_H
#define CLA_SAMPLES_H

/* Of count >= 1 values, which it sorts upwards. */
double cla_median(double *values, int count);
/* From the first to the third quartile of values that go upwards, over their median; 0 for fewer than five. */
double cla_spread(const double *values, int count);

#endif
