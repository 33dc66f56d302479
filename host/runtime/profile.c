/* SPDX-License-Identifier: Apache-2.0 */
/* Time per kernel, from events. Events are harvested when asked, and when many have gathered. */
#include "base/mem.h"
#include "runtime/buffer.h"
#include "runtime/kernel.h"
#include "runtime/launch.h"
#include "runtime/state.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PENDING = 512, KERNELS = 64, COUNTERS = 16, HALVES = 4 };

struct cla_profile {
    struct {
        cl_event event;
        char name[48];
        double operations, moved_bytes;
    } pending[PENDING];
    size_t pending_count;
    clattn_profile_entry *entries;
    size_t entry_count, capacity;
    struct { /* computed and skipped blocks of a kernel, on the device */
        char name[48];
        clattn_buffer *counts; /* cl_uint [HALVES] */
    } counters[COUNTERS];
    size_t counter_count;
};

clattn_status cla_profile_create(clattn_context *context) {
    return cla_alloc(1, sizeof *context->profile, "profile", &context->profile);
}

static clattn_status count_one(cla_profile *p, size_t pending, double ms) {
    clattn_status status = CLATTN_OK;
    const char *name = p->pending[pending].name;
    size_t i = 0;
    while (i < p->entry_count && strcmp(p->entries[i].name, name) != 0)
        i++;
    if (i == p->capacity) {
        const size_t capacity = p->capacity ? 2 * p->capacity : 16;
        CLA_TRY(cla_realloc(&p->entries, capacity, sizeof *p->entries, "profile"));
        p->capacity = capacity;
    }
    clattn_profile_entry *e = &p->entries[i];
    if (i == p->entry_count) {
        p->entry_count++;
        *e = (clattn_profile_entry){.min_ms = ms};
        snprintf(e->name, sizeof e->name, "%s", name);
    }
    e->count++;
    e->total_ms += ms;
    e->operations += p->pending[pending].operations;
    e->moved_bytes += p->pending[pending].moved_bytes;
    e->min_ms = ms < e->min_ms ? ms : e->min_ms;
    e->max_ms = ms > e->max_ms ? ms : e->max_ms;
done:
    return status;
}

/* Of a command, which is waited for. */
static clattn_status time_of(clattn_context *context, cl_event event, double *ms) {
    clattn_status status = CLATTN_OK;
    cl_ulong begin = 0, end = 0;
    CLA_TRY(cla_waited(context, clWaitForEvents(1, &event), "profile"));
    CLA_TRY_CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL), "profile");
    CLA_TRY_CL(clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL), "profile");
    *ms = (double)(end - begin) * 1e-6;
done:
    return status;
}

/* Waits for the pending events and counts them. The lock is held. */
static clattn_status harvest(clattn_context *context, bool count) {
    clattn_status status = CLATTN_OK;
    cla_profile *p = context->profile;
    for (size_t i = 0; i < p->pending_count; i++) {
        double ms = 0;
        clattn_status one = time_of(context, p->pending[i].event, &ms);
        if (one == CLATTN_OK && count)
            one = count_one(p, i, ms);
        if (one != CLATTN_OK)
            status = one;
        clReleaseEvent(p->pending[i].event);
    }
    p->pending_count = 0;
    return status;
}

void cla_profile_add(clattn_context *context, const char *name, cl_event event, double operations, double moved_bytes) {
    cla_profile *p = context->profile;
    pthread_mutex_lock(&context->lock);
    if (p->pending_count == PENDING)
        harvest(context, true);
    p->pending[p->pending_count].event = event;
    p->pending[p->pending_count].operations = operations;
    p->pending[p->pending_count].moved_bytes = moved_bytes;
    snprintf(p->pending[p->pending_count].name, sizeof p->pending[0].name, "%s", name);
    p->pending_count++;
    pthread_mutex_unlock(&context->lock);
}

/* ---- counts of blocks ---- */

static const cl_uint no_counts[HALVES];

clattn_status cla_profile_counts(clattn_context *context, const cla_kernel *kernel, clattn_buffer **counts) {
    clattn_status status = CLATTN_OK;
    cla_profile *p = context->profile;
    size_t i = 0;
    *counts = NULL;
    if (!p)
        return CLATTN_OK;
    pthread_mutex_lock(&context->lock);
    while (i < p->counter_count && strcmp(p->counters[i].name, kernel->name) != 0)
        i++;
    if (i == p->counter_count && i < COUNTERS) {
        CLA_TRY(cla_buffer_create_from(context, no_counts, sizeof no_counts, &p->counters[i].counts));
        snprintf(p->counters[i].name, sizeof p->counters[i].name, "%s", kernel->name);
        p->counter_count++;
    }
    if (i < p->counter_count)
        *counts = p->counters[i].counts;
done:
    pthread_mutex_unlock(&context->lock);
    return status;
}

/* Into the entry of the same kernel. The lock is held. */
static clattn_status take_counts(cla_profile *p) {
    clattn_status status = CLATTN_OK;
    cl_uint n[HALVES];
    for (size_t c = 0; c < p->counter_count; c++) {
        CLA_TRY(clattn_buffer_download(p->counters[c].counts, 0, n, sizeof n));
        for (size_t i = 0; i < p->entry_count; i++)
            if (strcmp(p->entries[i].name, p->counters[c].name) == 0) {
                p->entries[i].computed_blocks = (uint64_t)n[1] << 32 | n[0];
                p->entries[i].skipped_blocks = (uint64_t)n[3] << 32 | n[2];
            }
    }
done:
    return status;
}

void cla_profile_destroy(clattn_context *context) {
    if (!context->profile)
        return;
    for (size_t c = 0; c < context->profile->counter_count; c++)
        clattn_buffer_destroy(context->profile->counters[c].counts);
    harvest(context, false);
    cla_free(context->profile->entries);
    cla_free(context->profile);
    context->profile = NULL;
}

static int by_total(const void *a, const void *b) {
    const double x = ((const clattn_profile_entry *)a)->total_ms, y = ((const clattn_profile_entry *)b)->total_ms;
    return x < y ? 1 : x > y ? -1 : 0;
}

clattn_status clattn_context_profile(clattn_context *context, clattn_profile_entry *entries, size_t capacity,
                                     size_t *count) {
    clattn_status status = CLATTN_OK;
    bool locked = false;
    CLA_CHECK(context && count && (entries || capacity == 0), CLATTN_E_ARGUMENT,
              "context_profile: context, count or entries is NULL");
    CLA_CHECK(context->cl, CLATTN_E_UNSUPPORTED, "context_profile: the cpu context has no kernels to time");
    CLA_CHECK(context->profile, CLATTN_E_UNSUPPORTED,
              "context_profile: the context was made without clattn_context_options.profile");
    pthread_mutex_lock(&context->lock);
    locked = true;
    CLA_TRY(harvest(context, true));
    CLA_TRY(cla_context_usable(context));
    CLA_TRY(take_counts(context->profile));
    if (context->profile->entry_count > 0)
        qsort(context->profile->entries, context->profile->entry_count, sizeof *entries, by_total);
    *count = context->profile->entry_count;
    for (size_t i = 0; i < *count && i < capacity; i++)
        entries[i] = context->profile->entries[i];
done:
    if (locked)
        pthread_mutex_unlock(&context->lock);
    return status;
}

void clattn_context_profile_reset(clattn_context *context) {
    if (!context || !context->profile)
        return;
    pthread_mutex_lock(&context->lock);
    harvest(context, false);
    context->profile->entry_count = 0;
    for (size_t c = 0; c < context->profile->counter_count; c++)
        clattn_buffer_upload(context->profile->counters[c].counts, 0, no_counts, sizeof no_counts);
    pthread_mutex_unlock(&context->lock);
}
