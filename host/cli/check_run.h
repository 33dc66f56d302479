/* SPDX-License-Identifier: Apache-2.0 */
/* One case on one algorithm: calls it, compares, and counts. */
#ifndef CLA_CHECK_RUN_H
#define CLA_CHECK_RUN_H

#include "check_case.h"
#include "progress.h"

#define CLA_CHECK_AUTO SIZE_MAX
#define CLA_CHECK_NONE (SIZE_MAX - 1) /* for cases without algorithms, and of ops that are not known */

/* One row of the table: an algorithm on a device. */
typedef struct cla_check_target {
    clattn_context *context; /* borrowed */
    char device[40];         /* "opencl:0:0" */
    size_t algorithm;        /* index; CLA_CHECK_AUTO: the library chooses; CLA_CHECK_NONE */
    const char *label;       /* "fused_lanes", "auto", "-" */
} cla_check_target;

typedef enum cla_check_verdict { CLA_CHECK_PASSED = 0, CLA_CHECK_FAILED, CLA_CHECK_SKIPPED } cla_check_verdict;

typedef struct cla_check_count {
    const cla_check_target *target;
    char *op;
    int64_t verdicts[3];
} cla_check_count;

typedef struct cla_check_reason {
    char *text;
    int64_t count;
} cla_check_reason;

typedef struct cla_check_report {
    cla_check_count *counts;
    size_t count_count;
    cla_check_reason *reasons;
    size_t reason_count;
    int64_t verdicts[3];
    bool out_of_memory;     /* the table is incomplete */
    cla_progress *progress; /* borrowed; cleared before a line is printed */
} cla_check_report;

/* Prints a line for every output that is wrong. Nothing where the case is none for such a target. */
void cla_check_run(const cla_check_case *c, const cla_check_target *target, cla_check_report *report);
/* Names come from files: control characters, which could move a terminal's cursor, become '?'. */
void cla_check_print(const char *text);
/* The table, the reasons, and the last line. */
void cla_check_report_print(const cla_check_report *report);
void cla_check_report_free(cla_check_report *report);
void cla_check_report_add(cla_check_report *report, const cla_check_target *target, const char *op,
                          cla_check_verdict verdict, const char *reason);

#endif
