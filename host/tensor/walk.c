/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/walk.h"

#include "base/mem.h"
#include "tensor/view.h"

bool cla_walk_broadcast(clattn_tensor *t, int rank, const int64_t *shape) {
    const int more = rank - t->rank;
    if (more < 0)
        return false;
    clattn_tensor r = *t;
    r.rank = rank;
    for (int i = 0; i < rank; i++) {
        const int64_t size = i < more ? 1 : t->shape[i - more];
        if (size != shape[i] && size != 1)
            return false;
        r.shape[i] = shape[i];
        r.stride[i] = size == 1 ? 0 : t->stride[i - more];
    }
    *t = r;
    return true;
}

/* Axis i takes axis i + 1 in, where no tensor minds. */
static bool can_join(clattn_tensor *const *tensors, int count, int i) {
    for (int k = 0; k < count; k++) {
        const clattn_tensor *t = tensors[k];
        if (cla_present(t) &&
            (t->stride[i] != t->stride[i + 1] * t->shape[i + 1] || t->shape[i] > CLA_WALK_MOST / t->shape[i + 1]))
            return false;
    }
    return true;
}

static void remove_axis(clattn_tensor *const *tensors, int count, int axis) {
    for (int k = 0; k < count; k++) {
        clattn_tensor *t = tensors[k];
        if (!cla_present(t))
            continue;
        for (int i = axis; i + 1 < t->rank; i++) {
            t->shape[i] = t->shape[i + 1];
            t->stride[i] = t->stride[i + 1];
        }
        t->rank--;
    }
}

static void join(clattn_tensor *const *tensors, int count, int i) {
    for (int k = 0; k < count; k++) {
        clattn_tensor *t = tensors[k];
        if (!cla_present(t))
            continue;
        t->shape[i + 1] *= t->shape[i];
    }
    remove_axis(tensors, count, i);
}

void cla_walk_merge(clattn_tensor *const *tensors, int count, int *outer) {
    const clattn_tensor *first = NULL;
    for (int k = 0; k < count && !first; k++)
        first = cla_present(tensors[k]) ? tensors[k] : NULL;
    if (!first || clattn_tensor_elements(first) == 0)
        return;
    for (int i = first->rank - 1; i >= 0; i--) {
        const bool only_inner = i >= *outer && first->rank - *outer == 1;
        if (first->shape[i] != 1 || only_inner)
            continue;
        remove_axis(tensors, count, i);
        *outer -= i < *outer;
    }
    for (int i = first->rank - 2; i >= 0; i--) {
        if (i + 1 == *outer || !can_join(tensors, count, i))
            continue;
        join(tensors, count, i);
        *outer -= i < *outer;
    }
}

int64_t cla_walk_count(const clattn_tensor *t, int first, int end) {
    int64_t n = 1;
    for (int i = first; i < end; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int i = first; i < end; i++)
        if (!cla_mul(n, t->shape[i], &n))
            return INT64_MAX; /* of a tensor without elements */
    return n;
}

int64_t cla_walk_step(const clattn_tensor *t, int first, int end, int64_t index) {
    int64_t step = 0;
    for (int i = end - 1; i > first; i--) {
        step += index % t->shape[i] * t->stride[i];
        index /= t->shape[i];
    }
    return end > first ? step + index * t->stride[first] : 0;
}
