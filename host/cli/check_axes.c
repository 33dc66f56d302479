/* SPDX-License-Identifier: Apache-2.0 */
#include "check_axes.h"

#include <inttypes.h>
#include <string.h>

#define MOST_ELEMENTS ((int64_t)1 << 26) /* of a tensor that broadcasts: a small file may ask for any number */

/* Counted from the right, 0 the columns; 1 where there is no such axis. */
static int64_t size_at(const clattn_tensor *t, int from_right) {
    return from_right < t->rank ? t->shape[t->rank - 1 - from_right] : 1;
}

static bool meet(int64_t *size, int64_t other) {
    if (*size == 1)
        *size = other;
    return other == 1 || other == *size;
}

static bool meet_heads(cla_check_case *c, bool gqa, int64_t q, int64_t k, int64_t v, cla_check_axes *axes) {
    int64_t *heads = &axes->size[axes->rank - 3], both = k;
    *heads = q;
    axes->key_heads = k;
    if (gqa) { /* where k and v have groups of their own, both are repeated */
        if (k != v && k > 0 && v > 0 && q % k == 0 && q % v == 0)
            axes->key_heads = q;
        return true;
    }
    if (!meet(&both, v))
        return cla_check_error(c, "K and V have %" PRId64 " and %" PRId64 " heads", k, v);
    if (!meet(heads, both))
        return cla_check_error(c, "enable_gqa is 0, for %" PRId64 " query and %" PRId64 " key heads", q, both);
    axes->key_heads = both == 1 ? 1 : *heads;
    return true;
}

bool cla_check_axes_of(cla_check_case *c, bool gqa, const clattn_tensor *q, const clattn_tensor *k,
                       const clattn_tensor *v, cla_check_axes *axes) {
    const clattn_tensor *const all[] = {q, k, v};
    *axes = (cla_check_axes){.rank = 2, .key_heads = 1};
    for (int i = 0; i < 3; i++)
        axes->rank = all[i]->rank > axes->rank ? all[i]->rank : axes->rank;
    if (q->rank < 2 || k->rank < 2 || v->rank < 2 || axes->rank >= CLATTN_MAX_RANK)
        return cla_check_error(c, "Q, K and V have ranks %d, %d and %d", q->rank, k->rank, v->rank);
    for (int i = 0; i < axes->rank - 3; i++) {
        axes->size[i] = 1;
        for (int j = 0; j < 3; j++)
            if (!meet(&axes->size[i], size_at(all[j], axes->rank - 1 - i)))
                return cla_check_error(
                    c, "Q, K and V do not broadcast: axis %d from the right is %" PRId64 ", %" PRId64 " and %" PRId64,
                    axes->rank - i, size_at(q, axes->rank - 1 - i), size_at(k, axes->rank - 1 - i),
                    size_at(v, axes->rank - 1 - i));
    }
    return axes->rank < 3 || meet_heads(c, gqa, size_at(q, 2), size_at(k, 2), size_at(v, 2), axes);
}

static bool check_elements(cla_check_case *c, int rank, const int64_t *shape) {
    int64_t elements = 1;
    for (int i = 0; i < rank; i++) {
        if (shape[i] > 0 && elements > MOST_ELEMENTS / shape[i])
            return cla_check_error(c, "more than %" PRId64 " elements", MOST_ELEMENTS);
        elements *= shape[i];
    }
    return true;
}

bool cla_check_axes_shape(cla_check_case *c, const cla_check_axes *axes, int64_t rows, int64_t columns,
                          int64_t *shape) {
    memcpy(shape, axes->size, (size_t)(axes->rank - 2) * sizeof *shape);
    shape[axes->rank - 2] = rows;
    shape[axes->rank - 1] = columns;
    return check_elements(c, axes->rank, shape);
}

/* An axis of one element has it `size` times. */
static void repeat(clattn_tensor *t, int at, int64_t size) {
    if (t->shape[at] != 1 || size == 1)
        return;
    t->stride[at] = 0;
    t->shape[at] = size;
}

/* More axes in front, of one element. */
static void lift(clattn_tensor *t, int rank) {
    for (; t->rank < rank; t->rank++) {
        memmove(t->shape + 1, t->shape, (size_t)t->rank * sizeof *t->shape);
        memmove(t->stride + 1, t->stride, (size_t)t->rank * sizeof *t->stride);
        t->shape[0] = 1;
        t->stride[0] = 0;
    }
}

/* The view with all axes. Heads that are groups of others become two axes. */
static clattn_tensor widened(const cla_check_axes *axes, bool key, const clattn_tensor *t) {
    clattn_tensor w = *t;
    const int heads = axes->rank - 3;
    lift(&w, axes->rank);
    for (int i = 0; i < heads; i++)
        repeat(&w, i, axes->size[i]);
    if (heads < 0)
        return w;
    const int64_t wanted = key ? axes->key_heads : axes->size[heads], has = w.shape[heads];
    if (has <= 1 || wanted % has != 0 || wanted == has) {
        repeat(&w, heads, wanted);
        return w;
    }
    memmove(w.shape + heads + 2, w.shape + heads + 1, 2 * sizeof *w.shape);
    memmove(w.stride + heads + 2, w.stride + heads + 1, 2 * sizeof *w.stride);
    w.shape[heads + 1] = wanted / has;
    w.stride[heads + 1] = 0;
    w.rank++;
    return w;
}

/* The offset of an element of a view, counted row by row. */
static int64_t offset_of(const clattn_tensor *t, int64_t index) {
    int64_t offset = t->offset;
    for (int i = t->rank - 1; i >= 0; i--) {
        offset += index % t->shape[i] * t->stride[i];
        index /= t->shape[i];
    }
    return offset;
}

static int64_t elements_of(const clattn_tensor *t) {
    int64_t elements = 1;
    for (int i = 0; i < t->rank; i++)
        elements *= t->shape[i];
    return elements;
}

/* The elements of a view, in a new array of that shape. */
static clattn_array *gather(cla_check_case *c, cla_check_job *job, const clattn_tensor *t, int rank,
                            const int64_t *shape) {
    if (!check_elements(c, rank, shape))
        return NULL;
    clattn_array *array = cla_check_new_array(c, job, t->dtype, rank, shape);
    const size_t size = clattn_dtype_size(t->dtype);
    for (int64_t i = 0; array && i < elements_of(t); i++)
        memcpy((char *)array->data + (size_t)i * size, (const char *)t->host + (size_t)offset_of(t, i) * size, size);
    return array;
}

clattn_tensor cla_check_fold(const clattn_array *array) {
    if (array->rank <= 4)
        return clattn_array_tensor(array);
    int64_t shape[4] = {1};
    for (int i = 0; i < array->rank - 3; i++)
        shape[0] *= array->shape[i];
    memcpy(shape + 1, array->shape + array->rank - 3, 3 * sizeof *shape);
    return clattn_tensor_host(array->data, array->dtype, 4, shape);
}

/* The shape of what a widened view holds, with one axis of heads again: axes->rank of them. */
static void shape_of(const cla_check_axes *axes, const clattn_tensor *w, int64_t *shape) {
    const int last = axes->rank - 2;
    memcpy(shape, w->shape, (size_t)last * sizeof *shape);
    if (w->rank > axes->rank)
        shape[last - 1] *= w->shape[last];
    memcpy(shape + last, w->shape + w->rank - 2, 2 * sizeof *shape);
}

bool cla_check_widen(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, bool key, clattn_tensor *t) {
    const clattn_tensor w = widened(axes, key, t);
    int64_t shape[CLATTN_MAX_RANK];
    if (axes->rank <= 4 && w.rank == axes->rank) {
        *t = w;
        return true;
    }
    shape_of(axes, &w, shape);
    const clattn_array *array = gather(c, job, &w, axes->rank, shape);
    if (array)
        *t = cla_check_fold(array);
    return array != NULL;
}

bool cla_check_widen_mask(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, clattn_tensor *mask) {
    if (axes->rank <= 4 || mask->rank <= 3)
        return true;
    if (mask->rank > axes->rank)
        return cla_check_error(c, "the mask has rank %d, and Q, K and V %d", mask->rank, axes->rank);
    lift(mask, axes->rank);
    for (int i = 0; i < axes->rank - 3; i++) {
        repeat(mask, i, axes->size[i]);
        if (mask->shape[i] != axes->size[i])
            return cla_check_error(c,
                                   "the mask does not broadcast: axis %d from the right is %" PRId64 ", not %" PRId64,
                                   axes->rank - i, mask->shape[i], axes->size[i]);
    }
    const clattn_array *array = gather(c, job, mask, mask->rank, mask->shape);
    if (array)
        *mask = cla_check_fold(array);
    return array != NULL;
}

bool cla_check_new_gradient(cla_check_case *c, cla_check_job *job, const cla_check_axes *axes, bool key,
                            const clattn_tensor *of, clattn_array **gradient, clattn_tensor *written) {
    int64_t shape[CLATTN_MAX_RANK];
    if (!(*gradient = cla_check_new_array(c, job, job->dtype, of->rank, of->shape)))
        return false;
    const clattn_tensor dense = clattn_array_tensor(*gradient), w = widened(axes, key, &dense);
    shape_of(axes, &w, shape);
    if (!check_elements(c, axes->rank, shape))
        return false;
    const clattn_array *terms = cla_check_new_array(c, job, job->dtype, axes->rank, shape);
    if (!terms)
        return false;
    *written = cla_check_fold(terms);
    job->sums[job->sum_count++] = (cla_check_sum){terms, *gradient, w};
    return true;
}

bool cla_check_add_up(const cla_check_sum *sum) {
    clattn_array terms = {0}, total = {0};
    bool done = clattn_array_convert(sum->terms, CLATTN_F64, &terms) == CLATTN_OK &&
                clattn_array_create(CLATTN_F64, sum->total->rank, sum->total->shape, &total) == CLATTN_OK;
    for (int64_t i = 0; done && i < elements_of(&sum->view); i++)
        ((double *)total.data)[offset_of(&sum->view, i)] += ((const double *)terms.data)[i];
    done = done && clattn_convert(sum->total->data, sum->total->dtype, total.data, CLATTN_F64,
                                  total.bytes / sizeof(double)) == CLATTN_OK;
    clattn_array_free(&terms);
    clattn_array_free(&total);
    return done;
}
