/* SPDX-License-Identifier: Apache-2.0 */
#include "modules/scratch.h"

#include "base/error.h"

clattn_status cla_scratch_take(cla_scratch *scratch, cla_slot slot, clattn_dtype dtype, int rank, const int64_t *shape,
                               clattn_tensor *tensor) {
    clattn_status status = CLATTN_OK;
    clattn_buffer **buffer = &scratch->buffers[slot];
    *tensor = clattn_tensor_buffer(NULL, dtype, rank, shape);
    const int64_t elements = clattn_tensor_elements(tensor);
    CLA_CHECK((uint64_t)elements <= SIZE_MAX / 8, CLATTN_E_SHAPE,
              "scratch of rank %d: more elements than 64 bits count", rank);
    const size_t bytes = clattn_dtype_bytes(dtype, (size_t)elements);
    if (!*buffer || clattn_buffer_bytes(*buffer) < bytes) {
        clattn_buffer_destroy(*buffer); /* work in flight keeps its memory */
        *buffer = NULL;
        CLA_TRY(clattn_buffer_create(scratch->context, bytes, buffer));
    }
    tensor->buffer = *buffer;
done:
    return status;
}

clattn_status cla_scratch_take_many(cla_scratch *scratch, cla_slot slot, clattn_dtype dtype, int rank,
                                    const int64_t *shape, int count, clattn_tensor *tensors) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor one = clattn_tensor_buffer(NULL, dtype, rank, shape);
    const int64_t elements = clattn_tensor_elements(&one);
    clattn_tensor all;
    CLA_CHECK((uint64_t)elements <= INT64_MAX / 64, CLATTN_E_SHAPE,
              "scratch of rank %d: more elements than 64 bits count", rank);
    const int64_t step = (elements + 31) / 32 * 32, size = step * count;
    CLA_TRY(cla_scratch_take(scratch, slot, dtype, 1, &size, &all));
    for (int i = 0; i < count; i++) {
        tensors[i] = clattn_tensor_buffer(all.buffer, dtype, rank, shape);
        tensors[i].offset = i * step;
    }
done:
    return status;
}

void cla_scratch_free(cla_scratch *scratch) {
    for (int i = 0; i < CLA_SLOTS; i++)
        clattn_buffer_destroy(scratch->buffers[i]);
    *scratch = (cla_scratch){0};
}
