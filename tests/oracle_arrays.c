/* SPDX-License-Identifier: Apache-2.0 */
/* Dense values laid out as views of arrays, with guards of NaN around them, and back. */
#include "oracle_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

clattn_tensor *oracle_args_tensor(clattn_attention_args *args, int tensor) {
    clattn_tensor *const list[ORACLE_TENSORS] = {&args->q,       &args->k,    &args->v,    &args->o,    &args->lse,
                                                 &args->weights, &args->keep, &args->drop, &args->bias, &args->sinks};
    return list[tensor];
}

static bool is_keys(int tensor) { return tensor == ORACLE_K || tensor == ORACLE_V; }

/* ---- shapes ---- */

/* Of the dense values; false where there are none. */
static bool values_shape(const oracle_case *c, int tensor, int64_t shape[4]) {
    const oracle_config *f = &c->config;
    const oracle_mask masks[] = {f->keep, f->drop, f->bias};
    const int64_t shapes[ORACLE_KEEP][4] = {{f->B, f->H, f->N, f->D},   {f->B, f->Hk, f->M, f->D},
                                            {f->B, f->Hk, f->M, f->Dv}, {f->B, f->H, f->N, f->Dv},
                                            {1, f->B, f->H, f->N},      {f->B, f->H, f->N, f->M}};
    const int64_t sinks[4] = {1, 1, 1, f->H};
    if ((tensor == ORACLE_LSE && !f->lse) || (tensor == ORACLE_WEIGHTS && !f->weights))
        return false;
    if (tensor < ORACLE_KEEP || tensor == ORACLE_SINKS) {
        memcpy(shape, tensor == ORACLE_SINKS ? sinks : shapes[tensor], sizeof sinks);
        return tensor != ORACLE_SINKS || f->sinks;
    }
    oracle_mask_shape(f, masks[tensor - ORACLE_KEEP], shape);
    return masks[tensor - ORACLE_KEEP].rank > 0;
}

static int rank_of(const oracle_config *f, int tensor) {
    const oracle_mask masks[] = {f->keep, f->drop, f->bias};
    return tensor == ORACLE_SINKS ? 1
           : tensor == ORACLE_LSE ? 3
           : tensor < ORACLE_KEEP ? 4
                                  : masks[tensor - ORACLE_KEEP].rank;
}

/* Of the array: sequences lie one after another, keys perhaps in pages. */
static bool view_shape(const oracle_case *c, int tensor, int64_t shape[4]) {
    const oracle_config *f = &c->config;
    if (!values_shape(c, tensor, shape))
        return false;
    if (is_keys(tensor) && f->page_size) {
        shape[0] = c->pages;
        shape[2] = f->page_size;
    } else if (f->sequences && (tensor == ORACLE_Q || tensor == ORACLE_O || is_keys(tensor))) {
        shape[0] = 1;
        shape[2] = is_keys(tensor) ? c->key_rows : c->query_rows;
    } else if (f->sequences && tensor == ORACLE_LSE) {
        shape[1] = 1;
        shape[3] = c->query_rows;
    }
    return true;
}

/* Where row `at` of the dense values begins in its array, and in *count how much of it there is. */
static int64_t row_place(const oracle_case *c, const clattn_tensor *view, int tensor, const int64_t at[3],
                         int64_t *count) {
    const int64_t *stride = view->stride, size = c->config.page_size;
    int64_t to[4] = {at[0], at[1], at[2], 0};
    if (is_keys(tensor) && size) {
        *count = at[2] < oracle_keys(c, at[0]) ? *count : 0;
        to[0] = *count > 0 ? c->block_table[at[0] * c->table_pages + at[2] / size] : 0;
        to[2] = at[2] % size;
    } else if (c->cu_queries && tensor == ORACLE_LSE) {
        *count = c->cu_queries[at[1] + 1] - c->cu_queries[at[1]];
        to[1] = 0;
        to[3] = c->cu_queries[at[1]];
    } else if (c->cu_queries && (tensor <= ORACLE_O)) {
        const int64_t *cu = is_keys(tensor) ? c->cu_keys : c->cu_queries;
        *count = at[2] < cu[at[0] + 1] - cu[at[0]] ? *count : 0;
        to[0] = 0;
        to[2] = cu[at[0]] + at[2];
    }
    return view->offset + to[0] * stride[0] + to[1] * stride[1] + to[2] * stride[2] + to[3] * stride[3];
}

/* ---- strides ---- */

/* Strides for axes in this order, outermost first, and `pad` elements behind the innermost. Returns the elements. */
static int64_t lay(clattn_tensor *view, const int order[4], int64_t pad) {
    int64_t stride = 1;
    for (int i = 3; i >= 0; i--) {
        view->stride[order[i]] = stride;
        stride *= view->shape[order[i]];
        stride += i == 3 ? pad : 0;
    }
    return stride;
}

static int64_t lay_out(oracle_layout layout, int tensor, clattn_tensor *view) {
    static const int dense[4] = {0, 1, 2, 3}, sequence_first[4] = {0, 2, 1, 3}, transposed[4] = {0, 1, 3, 2};
    const bool mask = tensor >= ORACLE_KEEP, blocks = clattn_dtype_length(view->dtype) > 1;
    if (tensor == ORACLE_SINKS)
        return lay(view, dense, 0);
    switch (layout) {
    case ORACLE_BSHD:
        return lay(view, mask ? dense : tensor == ORACLE_LSE ? transposed : sequence_first, 0);
    case ORACLE_PACKED:
        return lay(view, tensor == ORACLE_O ? sequence_first : dense, 0);
    case ORACLE_TRANSPOSED:
        return lay(view, blocks ? dense : transposed, 0);
    case ORACLE_PADDED:
        return lay(view, dense, blocks ? (int64_t)clattn_dtype_length(view->dtype) : 3);
    default:
        return lay(view, dense, 0);
    }
}

/* ---- arrays ---- */

static void make_array(const oracle_case *c, oracle_array *a, int64_t elements, clattn_dtype dtype) {
    a->bytes = clattn_dtype_bytes(dtype, (size_t)elements);
    a->data = oracle_alloc(a->bytes, 1);
    a->before = oracle_alloc(a->bytes, 1);
    a->owned = oracle_alloc(a->bytes, 1);
    oracle_spread(c->config.filler, dtype, a->data, a->bytes);
}

static void add_array(const oracle_case *c, oracle_arrays *arrays, int64_t elements, clattn_dtype dtype) {
    make_array(c, &arrays->list[arrays->count++], elements, dtype);
}

/* Elements before and after the data: whole blocks. */
static int64_t guard_of(const oracle_config *f, clattn_dtype dtype) {
    const int64_t length = (int64_t)clattn_dtype_length(dtype);
    return (f->guard + length - 1) / length * length;
}

/* Walks over the rows of dense values. */
static bool next_row(const int64_t shape[4], int64_t at[3]) {
    for (int i = 2; i >= 0; i--) {
        if (++at[i] < shape[i])
            return true;
        at[i] = 0;
    }
    return false;
}

static void store(unsigned char *data, clattn_dtype dtype, int64_t at, const double *x, int64_t count) {
    if (dtype == CLATTN_F32 && count == 1) {
        const float single = (float)*x;
        memcpy(data + at * 4, &single, 4);
    } else if (clattn_convert(data + clattn_dtype_bytes(dtype, (size_t)at), dtype, x, CLATTN_F64, (size_t)count) !=
               CLATTN_OK) {
        abort();
    }
}

static void fill_row(const oracle_array *a, const clattn_tensor *view, int64_t at, int64_t count, const double *reals,
                     const unsigned char *bytes) {
    const size_t size = clattn_dtype_size(view->dtype);
    if (reals && view->stride[3] == 1) {
        store(a->data, view->dtype, at, reals, count);
        return;
    }
    for (int64_t j = 0; j < count; j++) {
        const int64_t to = at + j * view->stride[3];
        if (reals)
            store(a->data, view->dtype, to, &reals[j], 1);
        else if (bytes)
            a->data[to] = bytes[j];
        else
            memset(a->owned + (size_t)to * size, 1, size);
    }
}

static void fill_with(const oracle_case *c, int tensor, const oracle_array *a, const clattn_tensor *view,
                      const double *reals, const unsigned char *bytes) {
    int64_t shape[4], at[3] = {0}, n = 0;
    values_shape(c, tensor, shape);
    do {
        int64_t count = shape[3];
        const int64_t place = row_place(c, view, tensor, at, &count);
        fill_row(a, view, place, count, reals ? reals + n : NULL, bytes ? bytes + n : NULL);
        n += shape[3];
    } while (next_row(shape, at));
}

static void fill(const oracle_case *c, int tensor, const oracle_array *a, const clattn_tensor *view) {
    const double *const reals[ORACLE_TENSORS] = {
        [ORACLE_Q] = c->q, [ORACLE_K] = c->k, [ORACLE_V] = c->v, [ORACLE_BIAS] = c->bias, [ORACLE_SINKS] = c->sinks};
    const unsigned char *const bytes[ORACLE_TENSORS] = {[ORACLE_KEEP] = c->keep, [ORACLE_DROP] = c->drop};
    fill_with(c, tensor, a, view, reals[tensor], bytes[tensor]);
}

/* ---- Q, K and V, or two of them, side by side in the rows of one array ---- */

static bool alike(const clattn_tensor *a, const clattn_tensor *b) {
    return a->dtype == b->dtype && a->shape[0] == b->shape[0] && a->shape[2] == b->shape[2];
}

static bool is_packed(const oracle_case *c, const oracle_arrays *arrays, int tensor) {
    const clattn_tensor *view = arrays->view;
    const bool two = c->config.layout == ORACLE_PACKED && alike(&view[ORACLE_K], &view[ORACLE_V]);
    return tensor <= ORACLE_V && two && (tensor != ORACLE_Q || alike(&view[ORACLE_Q], &view[ORACLE_K]));
}

static void pack(const oracle_case *c, oracle_arrays *arrays) {
    const clattn_dtype dtype = arrays->view[ORACLE_K].dtype;
    const int64_t guard = guard_of(&c->config, dtype), rows = arrays->view[ORACLE_K].shape[2];
    const int first = is_packed(c, arrays, ORACLE_Q) ? ORACLE_Q : ORACLE_K;
    int64_t width = 0;
    for (int t = first; t <= ORACLE_V; t++) {
        arrays->view[t].offset = guard + width;
        width += arrays->view[t].shape[1] * arrays->view[t].shape[3];
    }
    for (int t = first; t <= ORACLE_V; t++) {
        clattn_tensor *view = &arrays->view[t];
        view->stride[0] = rows * width;
        view->stride[1] = view->shape[3];
        view->stride[2] = width;
        view->stride[3] = 1;
        arrays->of[t] = arrays->count;
    }
    add_array(c, arrays, arrays->view[ORACLE_K].shape[0] * rows * width + 2 * guard, dtype);
}

static void place_tensor(const oracle_case *c, oracle_arrays *arrays, int tensor) {
    const oracle_config *f = &c->config;
    clattn_tensor *view = &arrays->view[tensor];
    const int64_t elements = lay_out(f->layout, tensor, view);
    view->offset = guard_of(f, view->dtype);
    arrays->of[tensor] = arrays->count;
    if (f->layout == ORACLE_SHARED && is_keys(tensor)) {
        view->stride[1] = 0;
        view->stride[0] = f->page_size ? view->shape[2] * view->shape[3] : 0;
    }
    add_array(c, arrays, elements + 2 * view->offset, view->dtype);
}

/* The view as the caller of the library gives it: without the leading axes of size 1 that its rank leaves out. */
static clattn_tensor narrowed(const clattn_tensor *view, int rank) {
    clattn_tensor t = *view;
    t.rank = rank;
    for (int i = 0; i < rank; i++) {
        t.shape[i] = view->shape[i + 4 - rank];
        t.stride[i] = view->stride[i + 4 - rank];
    }
    return t;
}

static void make_args(const oracle_case *c, clattn_attention_args *args) {
    const oracle_config *f = &c->config;
    args->key_lengths = c->key_lengths;
    args->has_scale = f->has_scale;
    args->scale = f->scale;
    args->causal = f->causal;
    args->align = f->align;
    args->offsets = f->align == CLATTN_ALIGN_OFFSET ? c->offsets : NULL;
    args->has_window = f->has_window;
    args->window_left = f->window_left;
    args->window_right = f->window_right;
    args->softcap = f->softcap;
    args->alibi_slopes = c->slopes;
    args->query_lengths = c->query_lengths;
    args->prefix_lengths = c->prefix_lengths;
    args->query_segments = c->query_segments;
    args->key_segments = c->key_segments;
    args->sequences = f->sequences ? f->B : 0;
    args->cu_queries = c->cu_queries;
    args->cu_keys = c->cu_keys;
    args->block_table = c->block_table;
    args->table_pages = c->table_pages;
    args->short_masks = f->short_masks;
    args->batch_invariant = f->batch_invariant;
    args->dropout = f->dropout;
    args->dropout_seed = f->seed;
    args->dropout_offset = 3;
    args->variant = f->variant;
    args->caller_workspace = f->buffers && f->caller_workspace;
    args->max_workspace = f->max_workspace;
}

void oracle_arrays_make(const oracle_case *c, oracle_arrays *arrays) {
    *arrays = (oracle_arrays){0};
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (view_shape(c, t, arrays->view[t].shape)) {
            arrays->view[t].rank = 4;
            arrays->view[t].dtype = oracle_type_of(&c->config, t);
        }
    if (is_packed(c, arrays, ORACLE_K))
        pack(c, arrays);
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (arrays->view[t].rank > 0 && !is_packed(c, arrays, t))
            place_tensor(c, arrays, t);
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (arrays->view[t].rank > 0) {
            const oracle_array *a = &arrays->list[arrays->of[t]];
            fill(c, t, a, &arrays->view[t]);
            clattn_tensor given = narrowed(&arrays->view[t], rank_of(&c->config, t));
            given.host = a->data;
            *oracle_args_tensor(&arrays->args, t) = given;
        }
    for (int i = 0; i < arrays->count; i++)
        memcpy(arrays->list[i].before, arrays->list[i].data, arrays->list[i].bytes);
    make_args(c, &arrays->args);
}

void oracle_array_free(oracle_array *array) {
    clattn_buffer_destroy(array->buffer);
    free(array->data);
    free(array->before);
    free(array->owned);
    *array = (oracle_array){0};
}

void oracle_arrays_free(oracle_arrays *arrays) {
    for (int i = 0; i < arrays->count; i++)
        oracle_array_free(&arrays->list[i]);
    *arrays = (oracle_arrays){0};
}

int64_t oracle_values_count(const oracle_case *c, int tensor) {
    int64_t shape[4];
    return values_shape(c, tensor, shape) ? oracle_elements(shape) : 0;
}

void oracle_array_like(const oracle_case *c, int tensor, const double *values, oracle_array *array, clattn_tensor *view,
                       clattn_tensor *given) {
    *array = (oracle_array){0};
    *view = (clattn_tensor){.rank = 4, .dtype = oracle_type_of(&c->config, tensor)};
    view_shape(c, tensor, view->shape);
    const int64_t elements = lay_out(c->config.layout, tensor, view);
    view->offset = guard_of(&c->config, view->dtype);
    make_array(c, array, elements + 2 * view->offset, view->dtype);
    fill_with(c, tensor, array, view, values, NULL);
    memcpy(array->before, array->data, array->bytes);
    *given = narrowed(view, rank_of(&c->config, tensor));
    given->host = array->data;
}

void oracle_array_take(const oracle_case *c, int tensor, const oracle_array *array, const clattn_tensor *view,
                       double *to) {
    int64_t shape[4], at[3] = {0}, n = 0;
    values_shape(c, tensor, shape);
    do {
        int64_t count = shape[3];
        const int64_t place = row_place(c, view, tensor, at, &count);
        for (int64_t j = 0; j < shape[3]; j++, n++)
            to[n] = j < count ? oracle_decode(view->dtype, array->data, place + j * view->stride[3]) : NAN;
    } while (next_row(shape, at));
}

void oracle_arrays_take(const oracle_case *c, const oracle_arrays *arrays, const oracle_outputs *outputs) {
    double *const to[ORACLE_TENSORS] = {
        [ORACLE_O] = outputs->o, [ORACLE_LSE] = outputs->lse, [ORACLE_WEIGHTS] = outputs->weights};
    for (int t = ORACLE_O; t <= ORACLE_WEIGHTS; t++)
        if (arrays->view[t].rank > 0)
            oracle_array_take(c, t, &arrays->list[arrays->of[t]], &arrays->view[t], to[t]);
}

bool oracle_array_damaged(const oracle_array *array, size_t *at_byte) {
    if (memcmp(array->data, array->before, array->bytes) == 0)
        return false;
    for (*at_byte = 0; *at_byte < array->bytes; ++*at_byte)
        if (!array->owned[*at_byte] && array->data[*at_byte] != array->before[*at_byte])
            return true;
    return false;
}

int oracle_arrays_damage(const oracle_arrays *arrays, size_t *at_byte) {
    for (int i = 0; i < arrays->count; i++)
        if (oracle_array_damaged(&arrays->list[i], at_byte))
            return i;
    return -1;
}
