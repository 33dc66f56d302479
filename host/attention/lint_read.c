/* SPDX-License-Identifier: Apache-2.0 */
#include "attention/lint_read.h"

#include "base/error.h"
#include "base/mem.h"
#include "runtime/buffer.h"
#include "tensor/view.h"

enum { BLOCK_BYTES = 256 << 10 };

clattn_status cla_reader_init(cla_reader *r, const clattn_tensor *t) {
    clattn_status status = CLATTN_OK;
    int64_t first;
    *r = (cla_reader){.t = *t};
    if (!cla_present(t) || clattn_tensor_elements(t) <= 0)
        return CLATTN_OK;
    r->host = t->host ? t->host : cla_buffer_host(t->buffer);
    CLA_TRY(cla_view_range(t, "a tensor", &first, &r->last));
    if (!r->host)
        CLA_TRY(cla_alloc(BLOCK_BYTES, 1, "block of a tensor", &r->block));
done:
    return status;
}

void cla_reader_free(cla_reader *r) {
    cla_free(r->block);
    r->block = NULL;
}

const void *cla_reader_at(cla_reader *r, int64_t index) {
    static const char zero[16] = {0};
    const int64_t size = (int64_t)clattn_dtype_size(r->t.dtype);
    if (r->host)
        return r->host + index * size;
    if (index < r->first || index >= r->first + r->count) {
        r->first = index;
        r->count = cla_min(BLOCK_BYTES / size, r->last - index);
        if (r->status == CLATTN_OK)
            r->status =
                clattn_buffer_download(r->t.buffer, (size_t)(index * size), r->block, (size_t)(r->count * size));
    }
    return r->status == CLATTN_OK ? r->block + (index - r->first) * size : zero;
}

void cla_reader_scan(cla_reader *r, bool (*visit)(void *user, const void *element, const int64_t at[4]), void *user) {
    const clattn_tensor *t = &r->t;
    int64_t at[4] = {0};
    if (!cla_present(t) || clattn_tensor_elements(t) <= 0)
        return;
    for (int axis = 0; axis >= 0;) {
        int64_t index = t->offset;
        for (int i = 0; i < 4; i++)
            index += at[i] * t->stride[i];
        if (!visit(user, cla_reader_at(r, index), at))
            return;
        for (axis = 3; axis >= 0 && ++at[axis] >= (t->stride[axis] ? t->shape[axis] : 1); axis--)
            at[axis] = 0;
    }
}
