/* SPDX-License-Identifier: Apache-2.0 */
/* What contexts and buffers are made of. For runtime/ and ops/gemm.c; others go through functions. */
#ifndef CLA_STATE_H
#define CLA_STATE_H

#include "runtime/buffer.h"
#include "runtime/cl_error.h"
#include "tensor/view.h"
#include <clattn/context.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct cla_program cla_program; /* kernel.h */
typedef struct cla_profile cla_profile; /* profile.c */
typedef struct cla_tuning cla_tuning;   /* tuning.c */
typedef struct cla_verdict cla_verdict; /* self_tests.c */

struct clattn_context {
    clattn_device_info info;
    cl_context cl; /* NULL on the `cpu` context, like the next two */
    cl_device_id device;
    cl_command_queue queue;
    bool out_of_order;     /* the caller's queue: every command is followed by a barrier */
    double launch_seconds; /* what a launch may be estimated at; 0: no bound */
    bool self_tests;       /* kernels and products are tested before their first use */
    cla_profile *profile;
    pthread_mutex_t lock; /* programs, profile, tuning, verdicts and kept */
    cla_program *programs;
    size_t builds, restored; /* programs from source, and from disk */
    char *cache_folder;      /* of the binary cache on disk; NULL: none */
    char *tuning_file;       /* of the tuner's record; NULL: none */
    cla_tuning *tuning;      /* NULL: not read yet */
    cla_verdict *verdicts;   /* of self-tests */
    _Atomic int64_t save_at; /* when a waiting call shall save programs, in monotonic seconds; 0: nothing to save */
    _Atomic uint64_t current_bytes, peak_bytes;
    _Atomic cl_int lost; /* the code that told that the device is lost; 0: it is not */
    cla_kept *kept;      /* of a layer above, or NULL */
};

struct clattn_buffer {
    clattn_context *context;
    cl_mem memory; /* NULL on the `cpu` context and for 0 bytes */
    void *host;    /* the storage on the `cpu` context */
    size_t bytes;
    bool owns_host;
    bool in_place; /* over memory of the caller's */
    cla_origin origin;
};

/* Fills an info; false when a query fails. */
bool cla_device_describe(cl_platform_id platform, cl_device_id device, clattn_device_info *info);
void cla_device_describe_cpu(clattn_device_info *info);
/* Held while platforms are asked and contexts are made or released: drivers start up and shut down in these calls, and
 * PoCL's crashes when threads do it at once. One lock of the process. */
void cla_opening_lock(void);
void cla_opening_unlock(void);
/* info->spec of a device that is listed; of another, such as a part of one, it stays empty. The lock is held. */
clattn_status cla_device_spec(cl_device_id device, clattn_device_info *info);
/* Finds the device that a spec names; the lock is held. *is_cpu: the `cpu` context, without OpenCL. */
clattn_status cla_device_find(const char *spec, cl_device_id *device, clattn_device_info *info, bool *is_cpu);

/* ---- lost.c ---- */

/* The status of a call on the context's queue that enqueued something, or that waited, by its code. They alone mark a
 * context as lost. */
clattn_status cla_enqueued(clattn_context *context, cl_int code, const char *what);
clattn_status cla_waited(clattn_context *context, cl_int code, const char *what);
/* CLATTN_E_DEVICE_LOST from then on. Asked before anything is enqueued, built or taken on the device. */
clattn_status cla_context_usable(const clattn_context *context);

/* ---- context.c ---- */

void cla_count_bytes(clattn_context *context, int64_t bytes);
void cla_programs_destroy(clattn_context *context);
/* After a call that waited: saves programs that have been unsaved for some seconds. A context that is destroyed before
 * saves them then. */
void cla_programs_waited(clattn_context *context);

void cla_tuning_destroy(clattn_context *context);
void cla_verdicts_destroy(clattn_context *context);

clattn_status cla_profile_create(clattn_context *context);
void cla_profile_destroy(clattn_context *context);
/* Takes over event. Operations and bytes of the launch: 0 where they are not known. */
void cla_profile_add(clattn_context *context, const char *name, cl_event event, double operations, double moved_bytes);

#endif
