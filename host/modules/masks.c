/* SPDX-License-Identifier: Apache-2.0 */
/* Checks masks and views them as attention takes them. Where attention has no place for two that are added, or for keys
 * behind the others, or would sum in f64 for an f64 mask alone, they become one mask on the host (mask_join.c). */
#include "modules/masks.h"

#include "modules/mask_join.h"
#include "modules/module.h"
#include <stdio.h>
#include <string.h>

static bool is_boolean(const clattn_tensor *t) { return t->dtype == CLATTN_BOOL || t->dtype == CLATTN_U8; }

static clattn_status check_type(const clattn_tensor *t, const cla_mask_shape *s, const char *name) {
    if (is_boolean(t) || t->dtype <= CLATTN_BF16)
        return CLATTN_OK;
    return cla_error(CLATTN_E_DTYPE, "%s: %s%s is %s; it is bool or u8, or f32, f64, f16 or bf16 to be added",
                     s->module, s->prefix, name, clattn_dtype_name(t->dtype));
}

/* What attention asks of a view and its storage, before a mask that is joined is read on the host. */
static clattn_status check_mask(const clattn_context *context, const clattn_tensor *t, const cla_mask_shape *s,
                                const char *mask) {
    clattn_status status = CLATTN_OK;
    char name[100];
    snprintf(name, sizeof name, "%s%s", s->prefix, mask);
    CLA_TRY(cla_check_storage(context, t, s->module, name));
    CLA_TRY(check_type(t, s, mask));
done:
    return status;
}

static bool is_or_one(int64_t size, int64_t full) { return size == full || size == 1; }

/* [B|1, H|1, N|1, M] */
static clattn_status take_attn(const clattn_context *context, const clattn_tensor *given, const cla_mask_shape *s,
                               clattn_tensor *mask) {
    clattn_status status = CLATTN_OK;
    char text[200];
    if (given->rank == 0)
        goto done;
    CLA_TRY(check_mask(context, given, s, "attn mask"));
    clattn_tensor t = *given;
    if (t.rank == 2)
        t = cla_lead(cla_lead(t));
    else if (t.rank == 3 && s->unbatched)
        t = cla_lead(t);
    else if (t.rank == 3 && t.shape[0] == s->B * s->H)
        t = clattn_tensor_split(t, 0, s->B);
    const bool whole = given->rank < 4;
    CLA_CHECK(t.rank == 4 && is_or_one(t.shape[0], s->B) && is_or_one(t.shape[1], s->H) &&
                  (t.shape[2] == s->N || (!whole && t.shape[2] == 1)) &&
                  (t.shape[3] == s->M || (!whole && t.shape[3] == 1)),
              CLATTN_E_SHAPE,
              "%s: %sattn mask %s: should be [%lld, %lld], [%s%lld, %lld, %lld] or [B|1, H|1, N|1, M|1], for %lld "
              "queries, %lld keys, %lld heads and a batch of %lld",
              s->module, s->prefix, cla_shape_text(given, text, sizeof text), (long long)s->N, (long long)s->M,
              s->unbatched ? "" : "B * H = ", (long long)(s->B * s->H), (long long)s->N, (long long)s->M,
              (long long)s->N, (long long)s->M, (long long)s->H, (long long)s->B);
    *mask = t;
done:
    return status;
}

/* [B, 1, 1, M] */
static clattn_status take_padding(const clattn_context *context, const clattn_tensor *given, const cla_mask_shape *s,
                                  clattn_tensor *mask) {
    clattn_status status = CLATTN_OK;
    char text[200];
    if (given->rank == 0)
        goto done;
    CLA_TRY(check_mask(context, given, s, "key_padding mask"));
    const int last = given->rank - 1;
    CLA_CHECK(given->rank == (s->unbatched ? 1 : 2) && given->shape[last] == s->M &&
                  (s->unbatched || given->shape[0] == s->B),
              CLATTN_E_SHAPE, "%s: %skey_padding mask %s: should be [%s%lld], for %lld keys and a batch of %lld%s",
              s->module, s->prefix, cla_shape_text(given, text, sizeof text), s->unbatched ? "" : "B, ",
              (long long)s->M, (long long)s->M, (long long)s->B, s->unbatched ? ", unbatched" : "");
    clattn_tensor t = s->unbatched ? cla_lead(*given) : *given;
    t.shape[3] = t.shape[1], t.stride[3] = t.stride[1];
    t.shape[1] = t.shape[2] = 1;
    t.stride[1] = t.stride[2] = 0;
    t.rank = 4;
    *mask = t;
done:
    return status;
}

static clattn_status check_lengths(const clattn_module_masks *given, const cla_mask_shape *s) {
    for (int64_t b = 0; given->key_lengths && b < s->B; b++)
        if (given->key_lengths[b] < 0 || given->key_lengths[b] > s->M)
            return cla_error(CLATTN_E_ARGUMENT, "%s: %skey_lengths[%lld] is %lld, not from 0 to %lld keys", s->module,
                             s->prefix, (long long)b, (long long)given->key_lengths[b], (long long)s->M);
    return CLATTN_OK;
}

static void place(const clattn_tensor *mask, bool keep, cla_masks *masks) {
    if (cla_present(mask))
        *(!is_boolean(mask) ? &masks->bias : keep ? &masks->keep : &masks->drop) = *mask;
}

/* Attention takes one to keep and one to drop: of two booleans of one polarity, the padding is inverted on the host. */
static clattn_status invert_padding(const clattn_module_masks *given, const clattn_tensor *attn,
                                    const clattn_tensor *padding, const cla_mask_shape *shape, cla_scratch *scratch,
                                    cla_masks *masks) {
    clattn_status status = CLATTN_OK;
    const clattn_tensor none = {0};
    clattn_module_masks inverse = *given;
    inverse.keep = false;
    CLA_TRY(cla_mask_join(&inverse, &none, padding, shape, scratch, masks));
    if (given->keep)
        masks->drop = masks->keep;
    place(attn, given->keep, masks);
done:
    return status;
}

clattn_status cla_masks_take(const clattn_module_masks *given, const cla_mask_shape *shape, cla_scratch *scratch,
                             cla_masks *masks) {
    clattn_status status = CLATTN_OK;
    clattn_tensor attn = {0}, padding = {0};
    *masks = (cla_masks){
        .key_lengths = given->key_lengths, .offsets = given->offsets, .causal = given->causal, .align = given->align};
    CLA_TRY(CLA_RESERVED(clattn_module_masks, given));
    if (shape->B == 0)
        goto done;
    CLA_TRY(take_attn(scratch->context, &given->attn, shape, &attn));
    CLA_TRY(take_padding(scratch->context, &given->key_padding, shape, &padding));
    CLA_TRY(check_lengths(given, shape));
    const bool any = cla_present(&attn) || cla_present(&padding) || given->key_lengths || given->causal;
    const bool twice = cla_present(&attn) && cla_present(&padding) && is_boolean(&attn) == is_boolean(&padding);
    const bool narrows = !shape->wide && (cla_is_wide(&attn) || cla_is_wide(&padding));
    if (twice && is_boolean(&attn) && shape->extra == 0) {
        CLA_TRY(invert_padding(given, &attn, &padding, shape, scratch, masks));
    } else if (twice || narrows || (any && shape->extra > 0)) {
        CLA_TRY(cla_mask_join(given, &attn, &padding, shape, scratch, masks));
    } else {
        place(&attn, given->keep, masks);
        place(&padding, given->keep, masks);
    }
done:
    return status;
}

void cla_masks_apply(const cla_masks *masks, clattn_attention_args *args) {
    args->keep = masks->keep;
    args->drop = masks->drop;
    args->bias = masks->bias;
    args->key_lengths = masks->key_lengths;
    args->causal = masks->causal;
    args->align = masks->align;
    args->offsets = masks->offsets;
}
