/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the library share. */
#ifndef FAULTS_INTERNAL_H
#define FAULTS_INTERNAL_H

#define CL_TARGET_OPENCL_VERSION 120
#include "faults.h"
#include <CL/cl.h>

/* ---- objects.c: live objects ---- */

typedef enum {
    OBJECT_CONTEXT,
    OBJECT_QUEUE,
    OBJECT_BUFFER,
    OBJECT_PROGRAM,
    OBJECT_KERNEL,
    OBJECT_EVENT,
    OBJECT_KINDS
} object_kind;

/* by: an address in what made it. over_host: a buffer over a host array. NULL objects are passed over. */
void object_made(void *object, object_kind kind, const void *by, bool over_host);
void object_retained(void *object);
void object_released(void *object);
/* Bytes of local memory that an argument of a kernel takes. */
void object_local_argument(void *kernel, unsigned index, size_t bytes);
size_t object_local_bytes(const void *kernel);
/* A command was enqueued; all have been waited for. */
void object_enqueued(void);
void object_waited(void);
void objects_count(faults_seen *seen); /* strays and unfinished, since the last reset */
void objects_reset(void);

/* ---- limits.c: a smaller device ---- */

extern faults_limits faults_limited;
void limit_device_info(cl_device_info what, size_t size, void *value);
void limit_kernel_info(cl_kernel_work_group_info what, size_t size, void *value);
/* CL_SUCCESS, or what the smaller device would answer. */
cl_int limit_launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *local);
cl_int limit_buffer(size_t bytes);

/* ---- counting.c ---- */

typedef void (*any_function)(void);
/* The function of that name behind this library. */
any_function real_function(const char *name);
/* Counts the call; CL_SUCCESS when it shall pass, else the code to give. */
cl_int faults_code(const char *name);
/* Of one that waits for the device. */
cl_int faults_wait_code(const char *name, bool waits);
void faults_refused(const char *what);

#endif
