/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a call goes: time, operations and bytes of each kernel beside what the device can do at most. */
#ifndef CLA_KERNEL_PROFILE_H
#define CLA_KERNEL_PROFILE_H

#include <cjson/cJSON.h>
#include <clattn/backward.h>
#include <clattn/measure.h>

enum { CLA_PROFILE_KERNELS = 32, CLA_PROFILE_RUNS = 5 };

typedef struct cla_profile_report {
    char device[32], algorithm[48];
    const char *title;                                 /* of points in the plot: the problem; NULL: none */
    bool is_f64;                                       /* sums in f64: the peak of multiply-adds says nothing of them */
    double run_ms;                                     /* the median of the runs, kernels timed */
    clattn_profile_entry entries[CLA_PROFILE_KERNELS]; /* of all runs */
    size_t count;
    /* The best of samples between the runs. near_gbytes: reading as many bytes as a run moves at least. */
    double peak_gflops, peak_gbytes, near_gbytes, moved_bytes;
} cla_profile_report;

/* Runs a call on host arrays CLA_PROFILE_RUNS times on a context of its own that profiles, with its backward pass where
 * there is d_o. device: a spec; algorithm: as args say. Returns the library's status; nothing is printed when it fails.
 */
clattn_status cla_profile_measure(const char *device, const clattn_attention_backward_args *args,
                                  cla_profile_report *report);

/* For clattn_meter_read: as many bytes as were moved, or as the device allocates at most. */
uint64_t cla_read_bytes(const clattn_context *context, double moved_bytes);

void cla_profile_print(const cla_profile_report *report);
/* NULL: out of memory. */
cJSON *cla_profile_json(const cla_profile_report *report);
/* The least time of a kernel's launches of one run by operations and bytes, in ms; negative: not known. *by_reading:
 * the bytes decide. */
double cla_profile_bound(const cla_profile_report *report, const clattn_profile_entry *entry, bool *by_reading);
/* A roofline: GFLOP/s over operations per byte, a point a kernel. Prints one line and returns the exit status when
 * something is wrong. */
int cla_profile_plot(const cla_profile_report *const *reports, size_t count, const char *verb, const char *path);
/* The file of a drawing is an SVG: else one line, and the exit status. */
int cla_svg_check(const char *verb, const char *option, const char *path);
/* The same of a plot, and gnuplot is there: else one line, and the exit status. */
int cla_plot_check(const char *verb, const char *option, const char *path);

#endif
