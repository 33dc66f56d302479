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
/* Waits, and makes the host array see what the device wrote. */
clattn_status cla_buffer_bring_back(clattn_buffer *buffer, void *host, size_t bytes);
/* The storage on the `cpu` context, else NULL. */
void *cla_buffer_host(const clattn_buffer *buffer);
clattn_context *cla_buffer_context(const clattn_buffer *buffer);
bool cla_context_is_cpu(const clattn_context *context);
const clattn_device_info *cla_context_device(const clattn_context *context);

#endif
