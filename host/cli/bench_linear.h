/* SPDX-License-Identifier: Apache-2.0 */
/* `clattn bench --linear`: linear layers, the ways to compute them against each other. */
#ifndef CLA_BENCH_LINEAR_H
#define CLA_BENCH_LINEAR_H

/* Words: [linear] mM nN kK, a type, w=TYPE, bias, an activation. Returns the exit status. */
int cla_bench_linear(int argc, char **argv);

#endif
