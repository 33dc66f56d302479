/* SPDX-License-Identifier: Apache-2.0 */
/* A library that stands between a program, CLBlast included, and the OpenCL loader: it counts calls, lets the n-th
 * fail, reports a smaller device than there is and holds programs to it, and knows every live object. Test programs
 * link it before OpenCL; any other program can be run with it preloaded (see from_environment in interpose.c). */
#ifndef FAULTS_H
#define FAULTS_H

#include <stdbool.h>
#include <stddef.h>

/* ---- calls that fail ---- */

typedef struct faults_plan {
    int at;           /* the number of the call that fails, from 1; 0: none */
    int code;         /* what it gives; 0: the turn-th of those that its function may give */
    int turn;         /* taken modulo their number */
    bool lasting;     /* all calls of its kind behind it fail too, as on a device that is lost */
    const char *only; /* functions whose names begin so are counted, others pass; NULL: all */
} faults_plan;

typedef struct faults_seen {
    int calls;          /* that were counted since faults_arm */
    const char *failed; /* the first function that failed; NULL: none */
    int code;           /* what it gave; 0 for memory of the host */
    bool waits;         /* it was to wait for the device */
    int turns;          /* how many codes it may give */
    int refused;        /* launches and buffers above the limits, and what they were: */
    const char *what;
    int strays;     /* objects released or used that are not live */
    int unfinished; /* buffers over host arrays given back while commands run */
} faults_seen;

/* Counts from 0. NULL: nothing fails any more; the counts stay. */
void faults_arm(const faults_plan *plan);
faults_seen faults_now(void);
/* Calls between the two are not counted and do not fail. */
void faults_pause(bool pause);
/* For other kinds of calls, such as the host's allocations: whether this one shall fail. */
bool faults_fail(const char *name);

/* ---- limits ---- */

typedef struct faults_limits { /* 0: as they are */
    size_t work_group;         /* of device and kernels */
    size_t kernel_work_group;  /* of kernels alone */
    size_t local_bytes, alloc_bytes;
    bool no_fp64, no_platform, no_device;
    bool gpu; /* of that class, with memory of its own */
} faults_limits;

void faults_limit(const faults_limits *limits); /* NULL: none */

/* ---- live objects ---- */

/* Objects not given back, and what they are, such as "2 programs"; "" for none. clblast: those that CLBlast made, which
 * keeps programs for each context. */
int faults_live(bool clblast, char *text, size_t size);

#endif
