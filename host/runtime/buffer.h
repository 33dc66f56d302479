/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers, as the layers above see them beyond the public calls. */
#ifndef CLA_BUFFER_H
#define CLA_BUFFER_H

#include <clattn/context.h>

/* Over a host array of the caller's: in place on the `cpu` context and where the device shares the host's memory,
 * else a device copy that cla_buffer_bring_back copies out. `read`: its contents are needed on the device. */
clattn_status cla_buffer_wrap(clattn_context *context, void *host, size_t bytes, bool read, clattn_buffer **buffer);
/* A buffer with a copy of data, which may be reused. Does not wait for the queue, as an upload does. */
clattn_status cla_buffer_create_from(clattn_context *context, const void *data, size_t bytes, clattn_buffer **buffer);
/* Enqueues what makes the host array see what the device wrote, once the context has been waited for. */
clattn_status cla_buffer_bring_back(clattn_buffer *buffer, void *host, size_t bytes);
/* The storage on the `cpu` context, else NULL. */
void *cla_buffer_host(const clattn_buffer *buffer);
/* Waits for all that is enqueued, whatever comes of it, before memory is given back. The thread's message stays. */
void cla_context_settle(clattn_context *context);
bool cla_context_is_cpu(const clattn_context *context);
const clattn_device_info *cla_context_device(const clattn_context *context);

/* What a layer above keeps in a context, from its first use to the context's end. */
typedef struct cla_kept {
    void (*trim)(struct cla_kept *kept);    /* clattn_context_trim */
    void (*destroy)(struct cla_kept *kept); /* nothing is enqueued any more */
} cla_kept;
/* The one of this context, made if there is none. */
clattn_status cla_context_keep(clattn_context *context, clattn_status (*make)(cla_kept **), cla_kept **kept);

#endif
