/* SPDX-License-Identifier: Apache-2.0 */
/* Dense values laid out as views of arrays, with guards of NaN around them, and back. */
#include "oracle_internal.h"
#include <stdlib.h>
#include <string.h>

clattn_tensor *oracle_args_tensor(clattn_attention_args *args, int tensor) {
    clattn_tensor *const list[ORACLE_TENSORS] = {&args->q,       &args->k,    &args->v,    &args->o,   &args->lse,
                                                 &args->weights, &args->keep, &args->drop, &args->bias};
    return list[tensor];
}

static bool is_output(int tensor) { return tensor == ORACLE_O || tensor == ORACLE_LSE || tensor == ORACLE_WEIGHTS; }

/* ---- views ---- */

static bool shape_of(const oracle_case *c, int tensor, int64_t shape[4], int *rank) {
    const oracle_config *f = &c->config;
    const oracle_mask masks[] = {f->keep, f->drop, f->bias};
    const int64_t shapes[ORACLE_KEEP][4] = {{f->B, f->H, f->N, f->D},   {f->B, f->Hk, f->M, f->D},
                                            {f->B, f->Hk, f->M, f->Dv}, {f->B, f->H, f->N, f->Dv},
                                            {1, f->B, f->H, f->N},      {f->B, f->H, f->N, f->M}};
    *rank = 0;
    if ((tensor == ORACLE_LSE && !f->lse) || (tensor == ORACLE_WEIGHTS && !f->weights))
        return false;
    *rank = tensor == ORACLE_LSE ? 3 : 4;
    if (tensor < ORACLE_KEEP) {
        memcpy(shape, shapes[tensor], sizeof shapes[tensor]);
        return true;
    }
    *rank = masks[tensor - ORACLE_KEEP].rank;
    oracle_mask_shape(f, masks[tensor - ORACLE_KEEP], shape);
    return *rank > 0;
}

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
    const bool mask = tensor >= ORACLE_KEEP;
    switch (layout) {
    case ORACLE_BSHD:
        return lay(view, mask ? dense : tensor == ORACLE_LSE ? transposed : sequence_first, 0);
    case ORACLE_PACKED:
        return lay(view, tensor == ORACLE_O ? sequence_first : dense, 0);
    case ORACLE_TRANSPOSED:
        return lay(view, transposed, 0);
    case ORACLE_PADDED:
        return lay(view, dense, 3);
    default:
        return lay(view, dense, 0);
    }
}

/* ---- arrays ---- */

static void add_array(oracle_arrays *arrays, int64_t elements, clattn_dtype dtype, int64_t guard) {
    oracle_array *a = &arrays->list[arrays->count++];
    a->bytes = (size_t)(elements + 2 * guard) * clattn_dtype_size(dtype);
    a->data = oracle_alloc(a->bytes, 1);
    a->before = oracle_alloc(a->bytes, 1);
    a->owned = oracle_alloc(a->bytes, 1);
    memset(a->data, 0xff, a->bytes); /* NaN, and true */
}

static void set_element(const oracle_array *a, clattn_dtype dtype, int64_t at, double x) {
    if (dtype == CLATTN_F64)
        ((double *)(void *)a->data)[at] = x;
    else if (dtype == CLATTN_F32)
        ((float *)(void *)a->data)[at] = (float)x;
    else
        a->data[at] = (unsigned char)x;
}

static double element(const oracle_array *a, clattn_dtype dtype, int64_t at) {
    return dtype == CLATTN_F64 ? ((const double *)(const void *)a->data)[at]
                               : (double)((const float *)(const void *)a->data)[at];
}

/* Place of the n-th element in row-major order, with its shape's own strides or the view's. */
static int64_t place(const clattn_tensor *view, int64_t n) {
    int64_t at = view->offset;
    for (int i = 3; i >= 0; i--) {
        at += n % view->shape[i] * view->stride[i];
        n /= view->shape[i];
    }
    return at;
}

static void fill(const oracle_case *c, int tensor, const oracle_array *a, const clattn_tensor *view) {
    const double *const reals[ORACLE_TENSORS] = {
        [ORACLE_Q] = c->q, [ORACLE_K] = c->k, [ORACLE_V] = c->v, [ORACLE_BIAS] = c->bias};
    const unsigned char *bytes = tensor == ORACLE_KEEP ? c->keep : c->drop;
    const size_t size = clattn_dtype_size(view->dtype);
    for (int64_t n = 0; n < oracle_elements(view->shape); n++)
        if (is_output(tensor))
            memset(a->owned + (size_t)place(view, n) * size, 1, size);
        else
            set_element(a, view->dtype, place(view, n), reals[tensor] ? reals[tensor][n] : bytes[n]);
}

/* Q, K and V, or K and V, side by side in the rows of one array. */
static void pack(const oracle_case *c, oracle_arrays *arrays) {
    const oracle_config *f = &c->config;
    const bool three = f->N == f->M;
    const int64_t width = (three ? f->H * f->D : 0) + f->Hk * (f->D + f->Dv);
    int64_t at = f->guard;
    for (int t = three ? ORACLE_Q : ORACLE_K; t <= ORACLE_V; t++) {
        clattn_tensor *view = &arrays->view[t];
        view->offset = at;
        view->stride[0] = f->M * width;
        view->stride[1] = view->shape[3];
        view->stride[2] = width;
        view->stride[3] = 1;
        arrays->of[t] = arrays->count;
        at += view->shape[1] * view->shape[3];
    }
    add_array(arrays, f->B * f->M * width, f->dtype, f->guard);
}

static void place_tensor(const oracle_case *c, oracle_arrays *arrays, int tensor) {
    const oracle_config *f = &c->config;
    clattn_tensor *view = &arrays->view[tensor];
    const bool shared = f->layout == ORACLE_SHARED && (tensor == ORACLE_K || tensor == ORACLE_V);
    if (f->layout == ORACLE_PACKED && tensor <= ORACLE_V && (tensor != ORACLE_Q || f->N == f->M)) {
        if (tensor == ORACLE_V)
            pack(c, arrays);
        return;
    }
    const int64_t elements = lay_out(f->layout, tensor, view);
    view->offset = f->guard;
    if (shared)
        view->stride[0] = view->stride[1] = 0;
    arrays->of[tensor] = arrays->count;
    add_array(arrays, shared ? f->M * view->shape[3] : elements, view->dtype, f->guard);
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

void oracle_arrays_make(const oracle_case *c, oracle_arrays *arrays) {
    const oracle_config *f = &c->config;
    int ranks[ORACLE_TENSORS] = {0};
    *arrays = (oracle_arrays){0};
    for (int t = 0; t < ORACLE_TENSORS; t++) {
        clattn_tensor *view = &arrays->view[t];
        if (!shape_of(c, t, view->shape, &ranks[t]))
            continue;
        view->rank = 4;
        view->dtype = t == ORACLE_KEEP ? CLATTN_BOOL : t == ORACLE_DROP ? CLATTN_U8 : f->dtype;
        place_tensor(c, arrays, t);
    }
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (ranks[t] > 0) {
            const oracle_array *a = &arrays->list[arrays->of[t]];
            fill(c, t, a, &arrays->view[t]);
            clattn_tensor given = narrowed(&arrays->view[t], ranks[t]);
            given.host = a->data;
            *oracle_args_tensor(&arrays->args, t) = given;
        }
    for (int i = 0; i < arrays->count; i++)
        memcpy(arrays->list[i].before, arrays->list[i].data, arrays->list[i].bytes);
    clattn_attention_args *args = &arrays->args;
    args->key_lengths = c->key_lengths;
    args->has_scale = f->has_scale;
    args->scale = f->scale;
    args->causal = f->causal;
    args->align = f->align;
    args->offsets = f->align == CLATTN_ALIGN_OFFSET ? c->offsets : NULL;
    args->has_window = f->has_window;
    args->window_left = f->window_left;
    args->window_right = f->window_right;
}

void oracle_arrays_free(oracle_arrays *arrays) {
    for (int i = 0; i < arrays->count; i++) {
        clattn_buffer_destroy(arrays->list[i].buffer);
        free(arrays->list[i].data);
        free(arrays->list[i].before);
        free(arrays->list[i].owned);
    }
    *arrays = (oracle_arrays){0};
}

void oracle_arrays_take(const oracle_case *c, const oracle_arrays *arrays, const oracle_outputs *outputs) {
    double *const to[ORACLE_TENSORS] = {
        [ORACLE_O] = outputs->o, [ORACLE_LSE] = outputs->lse, [ORACLE_WEIGHTS] = outputs->weights};
    for (int t = ORACLE_O; t <= ORACLE_WEIGHTS; t++) {
        const clattn_tensor *view = &arrays->view[t];
        for (int64_t n = 0; view->rank && n < oracle_elements(view->shape); n++)
            to[t][n] = element(&arrays->list[arrays->of[t]], c->config.dtype, place(view, n));
    }
}

int oracle_arrays_damage(const oracle_arrays *arrays, size_t *at_byte) {
    for (int i = 0; i < arrays->count; i++) {
        const oracle_array *a = &arrays->list[i];
        for (*at_byte = 0; *at_byte < a->bytes; ++*at_byte)
            if (!a->owned[*at_byte] && a->data[*at_byte] != a->before[*at_byte])
                return i;
    }
    return -1;
}
