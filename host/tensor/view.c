/* SPDX-License-Identifier: Apache-2.0 */
/* Strided views: making, checking and measuring them. Knows no device. */
#include "tensor/view.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/dtype.h"
#include <stdio.h>

static clattn_tensor row_major(clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_tensor t = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = (rank > CLATTN_MAX_RANK ? 0 : rank) - 1; i >= 0; i--) {
        t.shape[i] = shape[i];
        t.stride[i] = stride;
        if (shape[i] > 0 && !cla_mul(stride, shape[i], &stride))
            stride = INT64_MAX; /* cla_view_check refuses it */
    }
    return t;
}

clattn_tensor clattn_tensor_host(const void *data, clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_tensor t = row_major(dtype, rank, shape);
    t.host = (void *)(uintptr_t)data;
    return t;
}

clattn_tensor clattn_tensor_buffer(clattn_buffer *buffer, clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_tensor t = row_major(dtype, rank, shape);
    t.buffer = buffer;
    return t;
}

clattn_tensor clattn_tensor_permute(clattn_tensor t, const int *axes) {
    clattn_tensor r = t;
    if (t.rank > CLATTN_MAX_RANK)
        return r; /* no view, and refused as such */
    for (int i = 0; i < t.rank && i < CLATTN_MAX_RANK; i++) {
        r.shape[i] = axes[i] >= 0 && axes[i] < t.rank ? t.shape[axes[i]] : -1;
        r.stride[i] = axes[i] >= 0 && axes[i] < t.rank ? t.stride[axes[i]] : -1;
    }
    return r;
}

clattn_tensor clattn_tensor_slice(clattn_tensor t, int axis, int64_t begin, int64_t count) {
    int64_t step = 0;
    if (axis < 0 || axis >= t.rank || t.rank > CLATTN_MAX_RANK || begin < 0 || count < 0 || count > t.shape[axis] ||
        begin > t.shape[axis] - count || !cla_mul(begin, t.stride[axis], &step) ||
        !cla_add(t.offset, step, &t.offset)) {
        t.rank = -1;
        return t;
    }
    t.shape[axis] = count;
    return t;
}

clattn_tensor clattn_tensor_split(clattn_tensor t, int axis, int64_t outer) {
    int64_t step = 0;
    if (axis < 0 || axis >= t.rank || t.rank >= CLATTN_MAX_RANK || outer < 1 || t.shape[axis] % outer != 0 ||
        !cla_mul(t.stride[axis], t.shape[axis] / outer, &step)) {
        t.rank = -1;
        return t;
    }
    for (int i = t.rank; i > axis + 1; i--) {
        t.shape[i] = t.shape[i - 1];
        t.stride[i] = t.stride[i - 1];
    }
    const int64_t inner = t.shape[axis] / outer;
    t.shape[axis + 1] = inner;
    t.stride[axis + 1] = t.stride[axis];
    t.shape[axis] = outer;
    t.stride[axis] = step;
    t.rank++;
    return t;
}

int64_t clattn_tensor_elements(const clattn_tensor *t) {
    int64_t n = 1;
    if (!t)
        return 0;
    if (t->rank < 0 || t->rank > CLATTN_MAX_RANK)
        return -1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0)
            return 0;
    for (int i = 0; i < t->rank; i++)
        if (!cla_mul(n, t->shape[i], &n))
            return -1;
    return n;
}

const char *cla_shape_text(const clattn_tensor *t, char *text, size_t size) {
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < t->rank && i < CLATTN_MAX_RANK && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    if (at < size)
        snprintf(text + at, size - at, "]");
    return text;
}

/* Whole blocks lie along the last axis: every row begins with one. */
static clattn_status check_blocks(const clattn_tensor *t, const char *name) {
    const int64_t length = (int64_t)clattn_dtype_length(t->dtype);
    const int last = t->rank - 1;
    if (length == 1)
        return CLATTN_OK;
    if (t->shape[last] % length != 0 || t->offset % length != 0)
        return cla_error(CLATTN_E_SHAPE,
                         "%s: %s is in blocks of %lld along the last axis, and its size %lld or offset %lld is no "
                         "multiple",
                         name, clattn_dtype_name(t->dtype), (long long)length, (long long)t->shape[last],
                         (long long)t->offset);
    for (int i = 0; i <= last && clattn_tensor_elements(t) > 0; i++)
        if (t->shape[i] > 1 && (i == last ? t->stride[i] != 1 : t->stride[i] % length != 0))
            return cla_error(CLATTN_E_SHAPE,
                             "%s: %s is in blocks of %lld along the last axis, so its stride is 1 there and a multiple "
                             "elsewhere; axis %d has %lld",
                             name, clattn_dtype_name(t->dtype), (long long)length, i, (long long)t->stride[i]);
    return CLATTN_OK;
}

/* Blocks begin with a scale in f16. */
static clattn_status check_address(const clattn_tensor *t, const char *name) {
    const size_t size = cla_is_quantised(t->dtype) ? sizeof(uint16_t) : clattn_dtype_size(t->dtype);
    if (clattn_tensor_elements(t) == 0 || (uintptr_t)t->host % size == 0)
        return CLATTN_OK;
    return cla_error(
        CLATTN_E_ARGUMENT,
        "%s: its host array begins at an address that is no multiple of %zu, as %s needs; copy it to one that does",
        name, size, clattn_dtype_name(t->dtype));
}

clattn_status cla_view_check(const clattn_tensor *t, const char *name) {
    char text[200];
    if (t->rank < 1 || t->rank > CLATTN_MAX_RANK)
        return cla_error(CLATTN_E_SHAPE,
                         "%s: rank %d is not from 1 to %d (a slice or split that does not fit gives -1)", name, t->rank,
                         CLATTN_MAX_RANK);
    if (clattn_dtype_size(t->dtype) == 0)
        return cla_error(CLATTN_E_DTYPE, "%s: %d is no dtype", name, (int)t->dtype);
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < 0 || t->stride[i] < 0)
            return cla_error(CLATTN_E_SHAPE, "%s %s: axis %d has size %lld and stride %lld; neither may be negative",
                             name, cla_shape_text(t, text, sizeof text), i, (long long)t->shape[i],
                             (long long)t->stride[i]);
    if (t->offset < 0)
        return cla_error(CLATTN_E_SHAPE, "%s: offset %lld is negative", name, (long long)t->offset);
    /* A dense copy must be countable too. */
    int64_t first, end, bytes;
    if (clattn_tensor_elements(t) < 0 ||
        !cla_mul(clattn_tensor_elements(t), (int64_t)clattn_dtype_size(t->dtype), &bytes))
        return cla_error(CLATTN_E_SHAPE, "%s %s: more elements than 64 bits count", name,
                         cla_shape_text(t, text, sizeof text));
    clattn_status status = check_blocks(t, name);
    if (status == CLATTN_OK)
        status = check_address(t, name);
    return status == CLATTN_OK ? cla_view_range(t, name, &first, &end) : status;
}

clattn_status cla_view_range(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end) {
    *first = *end = 0;
    if (clattn_tensor_elements(t) == 0)
        return CLATTN_OK;
    int64_t last = t->offset, step, bytes;
    for (int i = 0; i < t->rank; i++)
        if (!cla_mul(t->shape[i] - 1, t->stride[i], &step) || !cla_add(last, step, &last))
            return cla_error(CLATTN_E_SHAPE, "%s: strides reach past 64 bits", name);
    const int64_t length = (int64_t)clattn_dtype_length(t->dtype);
    if (length == 0)
        return cla_error(CLATTN_E_DTYPE, "%s: %d is no dtype", name, (int)t->dtype);
    if (!cla_add(last, 1, &last) || !cla_mul(last / length, (int64_t)clattn_dtype_size(t->dtype), &bytes))
        return cla_error(CLATTN_E_SHAPE, "%s: strides reach past 64 bits", name);
    *first = t->offset;
    *end = last;
    return CLATTN_OK;
}

clattn_status cla_view_bytes(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end) {
    const clattn_status status = cla_view_range(t, name, first, end);
    if (status == CLATTN_OK && (!cla_dtype_bytes(t->dtype, *first, first) || !cla_dtype_bytes(t->dtype, *end, end)))
        return cla_error(CLATTN_E_SHAPE, "%s: its blocks of %s are not whole", name, clattn_dtype_name(t->dtype));
    return status;
}

static clattn_status check_buffer(const clattn_context *context, const clattn_tensor *t, const char *name, int use) {
    clattn_status status = CLATTN_OK;
    const cla_origin *origin = cla_buffer_origin(t->buffer);
    int64_t first, end;
    CLA_CHECK(!(use & CLA_WRITTEN) || !origin->read_only, CLATTN_E_ARGUMENT,
              "%s: is written, and its memory object is CL_MEM_READ_ONLY", name);
    CLA_CHECK(!(use & CLA_READ) || !origin->write_only, CLATTN_E_ARGUMENT,
              "%s: is read, and its memory object is CL_MEM_WRITE_ONLY", name);
    CLA_CHECK(!context || clattn_buffer_context(t->buffer) == context, CLATTN_E_ARGUMENT,
              "%s: its buffer belongs to another context", name);
    CLA_TRY(cla_view_bytes(t, name, &first, &end));
    CLA_CHECK((uint64_t)end <= clattn_buffer_bytes(t->buffer), CLATTN_E_SHAPE,
              "%s: reaches to byte %lld of a buffer of %zu", name, (long long)end, clattn_buffer_bytes(t->buffer));
done:
    return status;
}

clattn_status cla_view_storage(const clattn_context *context, const clattn_tensor *t, const char *name, int use) {
    clattn_status status = CLATTN_OK;
    CLA_CHECK(!t->buffer || !t->host, CLATTN_E_ARGUMENT, "%s: has both a buffer and a host array; give one", name);
    CLA_CHECK(t->buffer || t->host || clattn_tensor_elements(t) == 0, CLATTN_E_ARGUMENT,
              "%s: has neither a buffer nor a host array", name);
    if (t->buffer)
        CLA_TRY(check_buffer(context, t, name, use));
    CLA_CHECK(!(use & CLA_WRITTEN) || !cla_view_overlaps(t), CLATTN_E_SHAPE,
              "%s: its strides make elements share a place; an output may not broadcast or overlap itself", name);
done:
    return status;
}

/* The axes of more than one element, the shortest stride first; returns how many. */
static int by_stride(const clattn_tensor *t, int order[CLATTN_MAX_RANK]) {
    int n = 0;
    for (int i = 0; i < t->rank; i++) /* insertion sort */
        if (t->shape[i] > 1) {
            int at = n++;
            for (; at > 0 && t->stride[order[at - 1]] > t->stride[i]; at--)
                order[at] = order[at - 1];
            order[at] = i;
        }
    return n;
}

bool cla_view_overlaps(const clattn_tensor *t) {
    int order[CLATTN_MAX_RANK];
    if (clattn_tensor_elements(t) == 0)
        return false;
    const int n = by_stride(t, order);
    int64_t reach = 0; /* the highest element of the axes so far */
    for (int i = 0; i < n; i++) {
        if (t->stride[order[i]] <= reach)
            return true;
        reach += (t->shape[order[i]] - 1) * t->stride[order[i]];
    }
    return false;
}

bool cla_view_extent(const clattn_tensor *t, cla_extent *extent) {
    const cla_origin *origin = t->buffer ? cla_buffer_origin(t->buffer) : &(cla_origin){.at = (uintptr_t)t->host};
    int64_t first, end;
    if (t->rank == 0 || clattn_tensor_elements(t) <= 0 || cla_view_bytes(t, "a tensor", &first, &end) != CLATTN_OK)
        return false;
    *extent = (cla_extent){
        .memory = origin->memory, .begin = origin->at + (uintptr_t)first, .end = origin->at + (uintptr_t)end};
    return true;
}

enum { FEW = 4096 }; /* elements that are looked at one by one */

/* Whether a byte is of an element of the view, which has that extent; certain where true, and exact where strides are
 * nested. */
static bool holds(const clattn_tensor *t, const cla_extent *extent, uintptr_t byte) {
    int order[CLATTN_MAX_RANK];
    if (byte < extent->begin || byte >= extent->end)
        return false;
    const size_t units = (size_t)(byte - extent->begin) / clattn_dtype_size(t->dtype); /* blocks are whole */
    int64_t rest = (int64_t)(units * clattn_dtype_length(t->dtype));
    for (int i = by_stride(t, order) - 1; i >= 0; i--) {
        const int64_t stride = t->stride[order[i]], last = t->shape[order[i]] - 1;
        const int64_t steps = stride == 0 ? 0 : rest / stride;
        rest -= (steps < last ? steps : last) * stride;
    }
    return rest == 0;
}

/* Whether an element of `t` begins or ends in one of the other view. */
static bool any_in(const clattn_tensor *t, const cla_extent *extent, const clattn_tensor *other, const cla_extent *in) {
    const int64_t n = clattn_tensor_elements(t), size = (int64_t)clattn_dtype_size(t->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t place = 0, rest = i;
        for (int axis = t->rank - 1; axis >= 0; axis--) {
            place += rest % t->shape[axis] * t->stride[axis];
            rest /= t->shape[axis];
        }
        const uintptr_t first = extent->begin + (uintptr_t)(place / (int64_t)clattn_dtype_length(t->dtype) * size);
        if (holds(other, in, first) || holds(other, in, first + (uintptr_t)size - 1))
            return true;
    }
    return false;
}

bool cla_view_meets(const clattn_tensor *a, const clattn_tensor *b) {
    cla_extent x, y;
    if (!cla_view_extent(a, &x) || !cla_view_extent(b, &y) || x.memory != y.memory || x.end <= y.begin ||
        y.end <= x.begin)
        return false;
    if (holds(a, &x, y.begin) || holds(a, &x, y.end - 1) || holds(b, &y, x.begin) || holds(b, &y, x.end - 1))
        return true;
    return clattn_tensor_elements(a) <= FEW && clattn_tensor_elements(b) <= FEW &&
           (any_in(a, &x, b, &y) || any_in(b, &y, a, &x));
}

clattn_tensor cla_view_lift(const clattn_tensor *t) {
    clattn_tensor r = *t;
    const int more = 4 - t->rank;
    r.rank = 4;
    for (int i = 3; i >= 0; i--) {
        r.shape[i] = i >= more ? t->shape[i - more] : 1;
        r.stride[i] = i >= more ? t->stride[i - more] : 0;
    }
    return r;
}

bool cla_view_same_layout(const clattn_tensor *a, const clattn_tensor *b) {
    if (a->rank != b->rank || (a->rank > 0 && a->dtype != b->dtype))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i]))
            return false;
    return true;
}
