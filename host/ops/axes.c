/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/axes.h"

#include "base/mem.h"
#include "runtime/launch.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include "tensor/walk.h"

enum { GPU_GROUP = 64, GPU_LANES = 4, GROUPS_A_CORE = 8 };
/* Elements of a work-item: few pieces for a core on a CPU, a vector elsewhere. */
enum { CHUNK_AT_LEAST = 2048, CHUNK_MOST = 1 << 20, CHUNK_GPU = 4 };

int64_t cla_axes_group(const clattn_device_info *device) {
    return cla_group_within(device, device->device_class == CLATTN_DEVICE_CPU ? 1 : GPU_GROUP);
}

static int lanes_of(const clattn_device_info *device, clattn_dtype sums) {
    const uint32_t width = device->vector_floats / (sums == CLATTN_F64 ? 2 : 1);
    if (device->device_class != CLATTN_DEVICE_CPU)
        return GPU_LANES;
    return width >= 16 ? 16 : width >= 8 ? 8 : 4;
}

cla_key cla_axes_key(const clattn_device_info *device, const char *file, const char *kernel, clattn_dtype sums,
                     clattn_tensor *const *tensors, int count) {
    bool staged = false;
    for (int i = 0; i < count; i++)
        staged = staged || (cla_present(tensors[i]) && tensors[i]->dtype != sums);
    cla_key key = cla_key_make(file, kernel);
    key.helper = "lanes.clh";
    key.more_helpers[0] = "axes.clh";
    cla_key_define(&key, "REAL", sums == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "LANES", lanes_of(device, sums));
    cla_key_define(&key, "STAGED", staged);
    cla_key_define(&key, "WG", cla_axes_group(device));
    return key;
}

cla_axes cla_axes_of(const clattn_tensor *t, int outer) {
    cla_axes axes = {.rows = cla_walk_count(t, 0, outer),
                     .outer = outer,
                     .count = t->rank,
                     .length = (cl_int)cla_walk_count(t, outer, t->rank)};
    for (int i = 0; i < t->rank; i++)
        axes.n[i] = (cl_int)t->shape[i];
    return axes;
}

static int how_of(const clattn_tensor *t, int outer) {
    if (t->rank - outer > 1)
        return CLA_ROW_GATHER;
    if (t->shape[outer] == 1 || t->stride[outer] == 1)
        return CLA_ROW_LANES;
    return t->stride[outer] == 0 ? CLA_ROW_ONE : CLA_ROW_GATHER;
}

cla_axes_tensor cla_axes_tensor_of(const clattn_tensor *t, int outer) {
    cla_axes_tensor a = {.how = CLA_ROW_ABSENT};
    if (!cla_present(t))
        return a;
    a.first = t->offset;
    a.type = (cl_int)t->dtype;
    a.how = how_of(t, outer);
    for (int i = 0; i < t->rank; i++)
        a.s[i] = t->stride[i];
    return a;
}

clattn_tensor cla_axes_turned(const clattn_tensor *t, int axis) {
    int axes[CLATTN_MAX_RANK], n = 0;
    for (int i = 0; i < t->rank; i++)
        if (i != axis)
            axes[n++] = i;
    axes[n] = axis;
    return clattn_tensor_permute(*t, axes);
}

int cla_axes_share(const clattn_device_info *device, int64_t rows) {
    const int64_t groups = GROUPS_A_CORE * (int64_t)device->compute_units;
    if (device->device_class != CLATTN_DEVICE_CPU)
        return 1;
    return (int)cla_min(INT32_MAX / 2, cla_ceil_div(rows, groups));
}

int cla_axes_chunk(const clattn_device_info *device, int64_t elements) {
    const int64_t share = cla_ceil_div(elements, GROUPS_A_CORE * (int64_t)device->compute_units);
    if (device->device_class != CLATTN_DEVICE_CPU)
        return CHUNK_GPU;
    return (int)cla_min(CHUNK_MOST, cla_max(CHUNK_AT_LEAST, cla_round_up(share, 64)));
}

double cla_axes_bytes(clattn_tensor *const *tensors, int count) {
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        const clattn_tensor *t = tensors[i];
        double n = cla_present(t) ? 1 : 0;
        for (int axis = 0; axis < t->rank; axis++)
            n *= t->stride[axis] == 0 ? 1 : (double)t->shape[axis];
        bytes += n > 0 ? n * (double)clattn_dtype_size(t->dtype) / (double)clattn_dtype_length(t->dtype) : 0;
    }
    return bytes;
}
