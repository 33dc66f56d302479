/* SPDX-License-Identifier: Apache-2.0 */
/* What `clattn bench` gives: tables, the size at which a device overtakes the CPU, JSON, a plot. */
#ifndef CLA_BENCH_REPORT_H
#define CLA_BENCH_REPORT_H

#include "bench_run.h"

void cla_bench_print_devices(const cla_bench *bench);
void cla_bench_print_problem(const cla_bench *bench, size_t problem);
/* One line when `reference` was not asked for and would have taken long. */
void cla_bench_print_left_out(const cla_bench *bench);
/* One line for each family of problems of two sizes and more and each OpenCL device, when there is a `cpu` device. */
void cla_bench_print_crossovers(const cla_bench *bench);

/* These print one line and return the exit status when something is wrong. */

int cla_bench_write_json(const cla_bench *bench, const char *path);
/* Draws an SVG. */
int cla_bench_plot(const cla_bench *bench, const char *path);

#endif
