/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from keys: key -> options text -> cached program -> kernel owned by the caller. */
#ifndef CLA_PROGRAM_H
#define CLA_PROGRAM_H

#include <clattn/context.h>

typedef struct cla_source {
    const char *name; /* "mask.clh" */
    const unsigned char *text;
    size_t bytes;
} cla_source;
extern const cla_source cla_sources[]; /* generated; ends with a NULL name */

/* What decides the code of a kernel. Defines are rendered in the order they were added, so a caller adds them in
 * one fixed order; the text is the cache key, and nothing else may change the code. */
typedef struct cla_key {
    const char *file;            /* "attention_lanes.cl" */
    const char *kernel;          /* "attention_lanes" */
    const char *helper;          /* "lanes.clh", compiled before the file; NULL: none. Fixed by the file */
    const char *more_helpers[3]; /* after it; NULL: none */
    char options[1000];
    size_t length;
    bool failed; /* the options did not fit: cla_kernel_create refuses the key */
} cla_key;

cla_key cla_key_make(const char *file, const char *kernel);
void cla_key_define(cla_key *key, const char *name, int64_t value);
/* An option as it is. */
void cla_key_add(cla_key *key, const char *option);
void cla_key_define_text(cla_key *key, const char *name, const char *value);
/* HINT, attributes of kernels: sub-groups as narrow as the device has them. A compiler that is free to choose may take
 * wider ones, and spill. */
void cla_key_define_hint(cla_key *key, const clattn_device_info *device);

typedef struct cla_kernel cla_kernel;

/* Builds, or takes from the cache. Checks the kernel's local memory and work-group against the device. A kernel belongs
 * to its creator alone; a destroyed one waits in the cache, so that a call may make one each time.
 * Errors  CLATTN_E_BUILD (with the first error of the log), CLATTN_E_LIMIT, CLATTN_E_UNSUPPORTED (f64). */
clattn_status cla_kernel_create(clattn_context *context, const cla_key *key, size_t work_group, cla_kernel **kernel);
void cla_kernel_destroy(cla_kernel *kernel);
/* Programs built from source so far in this context, and those taken from the cache on disk. */
size_t cla_program_builds(clattn_context *context);
size_t cla_program_restores(clattn_context *context);

#endif
