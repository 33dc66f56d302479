/* SPDX-License-Identifier: Apache-2.0 */
#include "modules/mask_join.h"

#include "base/error.h"
#include "base/mem.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <float.h>
#include <math.h>

/* A checked mask with its numbers on the host. */
typedef struct {
    clattn_tensor t;
    const void *data;
    void *owned;
} piece;

typedef struct {
    const clattn_module_masks *given;
    const cla_mask_shape *shape;
    piece pieces[2];
    int count;
    int64_t size[4]; /* of the result */
} joining;

static clattn_status fetch(const clattn_tensor *t, piece *p) {
    clattn_status status = CLATTN_OK;
    int64_t first, end;
    *p = (piece){.t = *t, .data = t->host};
    if (!t->buffer)
        goto done;
    CLA_TRY(cla_view_bytes(t, "mask", &first, &end));
    CLA_TRY(cla_alloc((size_t)(end - first) + 1, 1, "mask", &p->owned));
    CLA_TRY(clattn_buffer_download(t->buffer, (size_t)first, p->owned, (size_t)(end - first)));
    p->data = p->owned;
    p->t.offset -= first / (int64_t)clattn_dtype_size(t->dtype);
done:
    return status;
}

static double value_at(const piece *p, const int64_t at[4]) {
    int64_t element = p->t.offset;
    for (int i = 0; i < 4; i++)
        element += p->t.shape[i] == 1 ? 0 : at[i] * p->t.stride[i];
    return cla_load_element(p->data, p->t.dtype, element);
}

static bool is_boolean(const piece *p) { return p->t.dtype == CLATTN_BOOL || p->t.dtype == CLATTN_U8; }

/* What attention would do with lengths and causal. */
static bool interval_keeps(const joining *x, const int64_t at[4]) {
    const clattn_module_masks *m = x->given;
    const int64_t length = m->key_lengths ? m->key_lengths[at[0]] : x->shape->M;
    const int64_t offset = m->align == CLATTN_ALIGN_BOTTOM_RIGHT ? length - x->shape->N
                           : m->align == CLATTN_ALIGN_OFFSET     ? m->offsets[at[0]]
                                                                 : 0;
    return at[3] < length && (!m->causal || at[3] - at[2] <= offset);
}

static void element(const joining *x, const int64_t at[4], bool *keep, double *bias) {
    *keep = true;
    *bias = 0;
    if (at[3] >= x->shape->M) /* a key behind the others */
        return;
    if (x->shape->extra > 0)
        *keep = interval_keeps(x, at);
    for (int i = 0; i < x->count; i++) {
        const double value = value_at(&x->pieces[i], at);
        if (is_boolean(&x->pieces[i]))
            *keep = *keep && (value != 0) == x->given->keep;
        else
            *bias += value;
    }
}

/* A finite number stays one: only -inf excludes. */
static double narrow(double sum) { return isfinite(sum) ? fmin(fmax(sum, -FLT_MAX), FLT_MAX) : sum; }

static void fill(const joining *x, unsigned char *keep, void *bias, clattn_dtype dtype) {
    int64_t n = 0, at[4];
    for (at[0] = 0; at[0] < x->size[0]; at[0]++)
        for (at[1] = 0; at[1] < x->size[1]; at[1]++)
            for (at[2] = 0; at[2] < x->size[2]; at[2]++)
                for (at[3] = 0; at[3] < x->size[3]; at[3]++, n++) {
                    bool keeps;
                    double sum;
                    element(x, at, &keeps, &sum);
                    if (keep)
                        keep[n] = keeps;
                    if (bias)
                        cla_store_element(bias, dtype, n, dtype == CLATTN_F32 ? narrow(sum) : sum);
                }
}

static void measure(joining *x) {
    const cla_mask_shape *s = x->shape;
    const bool interval = s->extra > 0 && x->given->causal;
    const bool each = s->extra > 0 && (x->given->key_lengths || x->given->offsets);
    const int64_t full[] = {s->B, s->H, s->N};
    for (int i = 0; i < 3; i++) {
        x->size[i] = (i == 0 && each) || (i == 2 && interval) ? full[i] : 1;
        for (int j = 0; j < x->count; j++)
            x->size[i] = cla_max(x->size[i], x->pieces[j].t.shape[i]);
        if (full[i] == 0)
            x->size[i] = 0;
    }
    x->size[3] = s->M + s->extra;
}

static clattn_status send(cla_scratch *scratch, cla_slot slot, clattn_dtype dtype, const int64_t size[4],
                          const void *data, clattn_tensor *mask) {
    clattn_status status = CLATTN_OK;
    CLA_TRY(cla_scratch_take(scratch, slot, dtype, 4, size, mask));
    CLA_TRY(
        clattn_buffer_upload(mask->buffer, 0, data, clattn_dtype_bytes(dtype, (size_t)clattn_tensor_elements(mask))));
done:
    return status;
}

static clattn_status check_align(const clattn_module_masks *given, const cla_mask_shape *s) {
    clattn_status status = CLATTN_OK;
    if (s->extra == 0)
        goto done;
    CLA_CHECK(given->align != CLATTN_ALIGN_OFFSET || given->offsets, CLATTN_E_ARGUMENT,
              "%s: %soffsets is NULL, and the alignment is by them", s->module, s->prefix);
    CLA_CHECK(!given->causal || given->align != CLATTN_ALIGN_UNSET || s->N == s->M, CLATTN_E_ARGUMENT,
              "%s: %scausal with %lld queries and %lld keys needs an alignment", s->module, s->prefix, (long long)s->N,
              (long long)s->M);
done:
    return status;
}

clattn_status cla_mask_join(const clattn_module_masks *given, const clattn_tensor *attn, const clattn_tensor *padding,
                            const cla_mask_shape *shape, cla_scratch *scratch, cla_masks *masks) {
    clattn_status status = CLATTN_OK;
    joining x = {.given = given, .shape = shape};
    void *keep = NULL, *bias = NULL;
    const clattn_tensor *const all[] = {attn, padding};
    const clattn_dtype dtype = shape->wide ? CLATTN_F64 : CLATTN_F32;
    bool booleans = shape->extra > 0 && (given->causal || given->key_lengths), floats = false;
    CLA_TRY(check_align(given, shape));
    for (int i = 0; i < 2; i++) {
        if (!cla_present(all[i]))
            continue;
        CLA_TRY(fetch(all[i], &x.pieces[x.count++]));
        booleans |= is_boolean(&x.pieces[x.count - 1]);
        floats |= !is_boolean(&x.pieces[x.count - 1]);
    }
    measure(&x);
    const clattn_tensor whole = clattn_tensor_buffer(NULL, CLATTN_BOOL, 4, x.size);
    const int64_t count = clattn_tensor_elements(&whole);
    CLA_CHECK(count >= 0, CLATTN_E_SHAPE, "%s: %smask: more elements than 64 bits count", shape->module, shape->prefix);
    const size_t elements = (size_t)count;
    if (booleans)
        CLA_TRY(cla_alloc(elements + 1, 1, "mask", &keep));
    if (floats)
        CLA_TRY(cla_alloc(elements + 1, clattn_dtype_size(dtype), "mask", &bias));
    fill(&x, keep, bias, dtype);
    if (booleans)
        CLA_TRY(send(scratch, shape->keep, CLATTN_BOOL, x.size, keep, &masks->keep));
    if (floats)
        CLA_TRY(send(scratch, shape->bias, dtype, x.size, bias, &masks->bias));
    if (shape->extra > 0) {
        masks->key_lengths = masks->offsets = NULL;
        masks->causal = false;
        masks->align = CLATTN_ALIGN_UNSET;
    }
done:
    cla_free(keep);
    cla_free(bias);
    cla_free(x.pieces[0].owned);
    cla_free(x.pieces[1].owned);
    return status;
}
