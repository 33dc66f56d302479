/* SPDX-License-Identifier: Apache-2.0 */
/* Times problems on devices by algorithms. One problem at a time; its algorithms take turns, so that noise hits all
 * alike. Prints nothing but progress. */
#ifndef CLA_BENCH_RUN_H
#define CLA_BENCH_RUN_H

#include "kernel_profile.h"
#include "problem_text.h"

#define CLA_BENCH_REPEATS_MAX 1000
#define CLA_BENCH_DEVICES_MAX 16

typedef struct cla_bench_problem {
    cla_problem_text problem;
    char text[CLA_PROBLEM_TEXT_MAX];
    char family[CLA_PROBLEM_TEXT_MAX]; /* the text without the size that is swept */
    int64_t size;                      /* that size */
} cla_bench_problem;

#define CLA_BENCH_SAMPLES_MAX 64

typedef struct cla_bench_device {
    clattn_context *context;
    clattn_device_info info;
    clattn_meter *meter;                                                 /* NULL: peaks are not measured */
    double gflops[CLA_BENCH_SAMPLES_MAX], gbytes[CLA_BENCH_SAMPLES_MAX]; /* samples of its peaks beside a problem */
    int samples;
} cla_bench_device;

typedef enum cla_bench_state {
    CLA_BENCH_ABSENT = 0, /* not asked for, and too slow to be run unasked */
    CLA_BENCH_MEASURED,
    CLA_BENCH_REFUSED, /* the algorithm does not apply */
    CLA_BENCH_CUT,     /* would take longer than the limit */
    CLA_BENCH_FAILED
} cla_bench_state;

typedef struct cla_bench_entry {
    const cla_bench_problem *problem;
    const cla_bench_device *device;
    size_t algorithm;
    cla_bench_state state;
    char note[256]; /* why it was not measured, or what was cut */
    double cold_ms; /* plan and first run, kernel builds included */
    bool left_out;  /* `reference`, unasked, beyond what it takes a moment for */
    double median_ms, mean_ms, min_ms, max_ms;
    double spread;                  /* cla_spread of the runs */
    double forward_ms, backward_ms; /* medians of the two passes of these runs, each waited for; 0 without backward */
    double transfers_ms;            /* median of one call on host arrays; negative: not measured */
    double operations, moved_bytes, gflops;
    double forward_operations;       /* those of the forward pass */
    double peak_gflops, peak_gbytes; /* the best of samples between the runs, of reading moved_bytes; 0: not measured */
    cla_profile_report *profile;     /* NULL: none */
    uint64_t peak_bytes;             /* tensors and scratch */
    int repeats;
} cla_bench_entry;

typedef struct cla_bench {
    cla_bench_problem *problems;
    size_t problem_count;
    char swept; /* the letter of the size that changes: n */
    cla_bench_device devices[CLA_BENCH_DEVICES_MAX];
    size_t device_count;
    size_t *algorithms; /* indices */
    size_t algorithm_count;
    bool algorithms_given;
    bool backward;            /* forward and backward pass are timed, together and each */
    int repeats;              /* 0: seven, more for what is quick */
    double limit_seconds;     /* for one entry */
    bool profile;             /* what is measured on OpenCL is profiled behind it */
    cla_bench_entry *entries; /* [problem][device][algorithm] */
} cla_bench;

cla_bench_entry *cla_bench_entry_at(const cla_bench *bench, size_t problem, size_t device, size_t algorithm);
/* The least time by operations (of f32) and bytes, by the peaks, over the median; 0: not known. */
double cla_bench_share(const cla_bench_entry *entry);
/* Fills the entries of one problem. false: out of host memory; clattn_last_error says so. */
bool cla_bench_run(cla_bench *bench, size_t problem);
/* The CPU algorithm that others are compared with: the first that was measured on a `cpu` context, or NULL. */
const cla_bench_entry *cla_bench_baseline(const cla_bench *bench, size_t problem);

#endif
