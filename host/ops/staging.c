/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/staging.h"

#include "base/error.h"
#include "runtime/buffer.h"
#include "tensor/view.h"
#include <assert.h>
#include <stdlib.h>

static clattn_status stretch_of(const clattn_tensor *t, cla_use use, cla_stretch *s) {
    clattn_status status = CLATTN_OK;
    int64_t first, end;
    CLA_TRY(cla_view_bytes(t, use == CLA_IN ? "an input" : "an output", &first, &end));
    s->begin = (char *)t->host + first;
    s->end = (char *)t->host + end;
    s->written = use != CLA_IN;
    /* A view with gaps must bring back what was in the gaps. */
    s->read = use != CLA_OUT ||
              clattn_dtype_bytes(t->dtype, (size_t)clattn_tensor_elements(t)) != (size_t)(s->end - s->begin);
done:
    return status;
}

static int by_begin(const void *a, const void *b) {
    const char *x = ((const cla_stretch *)a)->begin, *y = ((const cla_stretch *)b)->begin;
    return x < y ? -1 : x > y;
}

static size_t merge(cla_stretch *s, size_t n) {
    size_t kept = 0;
    qsort(s, n, sizeof *s, by_begin);
    for (size_t i = 0; i < n; i++)
        if (kept > 0 && s[i].begin < s[kept - 1].end) {
            cla_stretch *last = &s[kept - 1];
            last->end = s[i].end > last->end ? s[i].end : last->end;
            last->written |= s[i].written;
            last->read |= s[i].read;
        } else {
            s[kept++] = s[i];
        }
    return kept;
}

/* Moves a tensor's storage from its host array to the buffer of the stretch it lies in. */
static clattn_status move(clattn_tensor *t, const cla_staging *staging) {
    const size_t size = clattn_dtype_size(t->dtype), length = clattn_dtype_length(t->dtype);
    const char *first = (const char *)t->host + clattn_dtype_bytes(t->dtype, (size_t)t->offset);
    const cla_stretch *s = staging->stretches;
    while (first >= s->end) /* they are in order, and each tensor lies in one */
        s++;
    const size_t bytes = (size_t)(first - s->begin);
    if (bytes % size != 0)
        return cla_error(CLATTN_E_ARGUMENT,
                         "a tensor of %s begins %zu bytes into an array that another one overlaps: not at a whole "
                         "element",
                         clattn_dtype_name(t->dtype), bytes);
    t->offset = (int64_t)(bytes / size * length);
    t->buffer = s->buffer;
    t->host = NULL;
    return CLATTN_OK;
}

static bool staged(const clattn_tensor *t) { return t->rank > 0 && t->host && clattn_tensor_elements(t) > 0; }

clattn_status cla_staging_begin(clattn_context *context, const cla_staged *tensors, size_t count,
                                cla_staging *staging) {
    clattn_status status = CLATTN_OK;
    size_t n = 0;
    assert(count <= CLA_STAGED);
    *staging = (cla_staging){.context = context};
    if (cla_context_is_cpu(context))
        return CLATTN_OK;
    for (size_t i = 0; i < count; i++)
        if (staged(tensors[i].tensor))
            CLA_TRY(stretch_of(tensors[i].tensor, tensors[i].use, &staging->stretches[n++]));
    staging->count = merge(staging->stretches, n);
    for (size_t i = 0; i < staging->count; i++) {
        cla_stretch *s = &staging->stretches[i];
        CLA_TRY(cla_buffer_wrap(context, s->begin, (size_t)(s->end - s->begin), s->read, &s->buffer));
    }
    for (size_t i = 0; i < count; i++)
        if (staged(tensors[i].tensor))
            CLA_TRY(move(tensors[i].tensor, staging));
done:
    return status;
}

clattn_status cla_staging_end(cla_staging *staging, clattn_status status) {
    const bool failed = status != CLATTN_OK;
    for (size_t i = 0; i < staging->count && !failed; i++) {
        const cla_stretch *s = &staging->stretches[i];
        if (s->written)
            CLA_TRY(cla_buffer_bring_back(s->buffer, s->begin, (size_t)(s->end - s->begin)));
    }
    if (staging->count > 0 && !failed)
        CLA_TRY(clattn_context_sync(staging->context)); /* inputs are the caller's again */
done:
    if (status != CLATTN_OK && staging->count > 0)
        cla_context_settle(staging->context);
    for (size_t i = 0; i < staging->count; i++)
        clattn_buffer_destroy(staging->stretches[i].buffer);
    staging->count = 0;
    return status;
}
