/* SPDX-License-Identifier: Apache-2.0 */
#include "modules/apart.h"

#include "base/mem.h"
#include "modules/module.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct cla_lying {
    cla_extent extent;
    const clattn_tensor *t;
    const char *name;
    cla_called called;
    cla_role role;
};

clattn_status cla_apart_begin(const char *module, size_t room, cla_apart *apart) {
    *apart = (cla_apart){.module = module, .room = room};
    return cla_alloc(room, sizeof *apart->list, "tensors of a call", &apart->list);
}

void cla_apart_add_one(cla_apart *apart, const clattn_tensor *t, cla_called called, const char *name, cla_role role) {
    cla_lying one = {.t = t, .name = name, .called = called, .role = role};
    if (apart->count < apart->room && cla_view_extent(t, &one.extent))
        apart->list[apart->count++] = one;
}

void cla_apart_add(cla_apart *apart, const clattn_tensor *t, const char *name, cla_role role) {
    cla_apart_add_one(apart, t, (cla_called){.layer = -1, .part = ""}, name, role);
}

void cla_apart_add_masks(cla_apart *apart, const cla_masks *masks) {
    cla_apart_add(apart, &masks->keep, "a mask", CLA_ROLE_INPUT);
    cla_apart_add(apart, &masks->drop, "a mask", CLA_ROLE_INPUT);
    cla_apart_add(apart, &masks->bias, "a mask", CLA_ROLE_INPUT);
}

typedef struct {
    size_t offset;
    const char *name;
} field;

static void add_fields(cla_apart *apart, const void *w, const field *fields, int count, cla_called called,
                       cla_role role) {
    for (int i = 0; w && i < count; i++)
        cla_apart_add_one(apart, (const clattn_tensor *)(const void *)((const char *)w + fields[i].offset), called,
                          fields[i].name, role);
}

void cla_apart_add_heads(cla_apart *apart, const clattn_multihead_weights *w, cla_called called, cla_role role) {
#define FIELD(x)                                                                                                       \
    { offsetof(clattn_multihead_weights, x), #x }
    static const field all[CLA_APART_HEADS] = {FIELD(in_proj), FIELD(q),      FIELD(k),        FIELD(v),
                                               FIELD(in_bias), FIELD(q_bias), FIELD(k_bias),   FIELD(v_bias),
                                               FIELD(bias_k),  FIELD(out),    FIELD(out_bias), FIELD(bias_v)};
#undef FIELD
    add_fields(apart, w, all, CLA_APART_HEADS, called, role);
}

void cla_apart_add_feed(cla_apart *apart, const clattn_feedforward_weights *w, cla_called called, cla_role role) {
#define FIELD(x)                                                                                                       \
    { offsetof(clattn_feedforward_weights, x), #x }
    static const field all[CLA_APART_FEED] = {FIELD(linear1),   FIELD(linear1_bias), FIELD(gate),
                                              FIELD(gate_bias), FIELD(linear2),      FIELD(linear2_bias)};
#undef FIELD
    add_fields(apart, w, all, CLA_APART_FEED, called, role);
}

void cla_apart_add_norm(cla_apart *apart, const clattn_norm_weights *w, cla_called called, cla_role role) {
    static const field all[CLA_APART_NORM] = {{offsetof(clattn_norm_weights, weight), "weight"},
                                              {offsetof(clattn_norm_weights, bias), "bias"}};
    add_fields(apart, w, all, CLA_APART_NORM, called, role);
}

static void add_checked_heads(cla_apart *apart, const cla_heads *heads, cla_called called) {
    static const field all[] = {{offsetof(cla_heads, q), "q"},           {offsetof(cla_heads, q_bias), "q_bias"},
                                {offsetof(cla_heads, k), "k"},           {offsetof(cla_heads, k_bias), "k_bias"},
                                {offsetof(cla_heads, v), "v"},           {offsetof(cla_heads, v_bias), "v_bias"},
                                {offsetof(cla_heads, out), "out"},       {offsetof(cla_heads, out_bias), "out_bias"},
                                {offsetof(cla_heads, last_k), "bias_k"}, {offsetof(cla_heads, last_v), "bias_v"}};
    add_fields(apart, heads, all, sizeof all / sizeof *all, called, CLA_ROLE_INPUT);
}

void cla_apart_add_layer(cla_apart *apart, const cla_layer *layer, int64_t i) {
    static const field feed[CLA_APART_FEED] = {
        {offsetof(cla_feed, linear1), "linear1"}, {offsetof(cla_feed, linear1_bias), "linear1_bias"},
        {offsetof(cla_feed, gate), "gate"},       {offsetof(cla_feed, gate_bias), "gate_bias"},
        {offsetof(cla_feed, linear2), "linear2"}, {offsetof(cla_feed, linear2_bias), "linear2_bias"}};
    add_checked_heads(apart, &layer->self, (cla_called){i, "weights.self_attn."});
    if (layer->has_cross)
        add_checked_heads(apart, &layer->cross, (cla_called){i, "weights.cross_attn."});
    add_fields(apart, &layer->feed, feed, CLA_APART_FEED, (cla_called){i, "weights.feedforward."}, CLA_ROLE_INPUT);
    for (int n = 0; n < 3; n++)
        cla_apart_add_norm(apart, &layer->norms[n], (cla_called){i, "weights.norm."}, CLA_ROLE_INPUT);
}

static int by_place(const void *a, const void *b) {
    const cla_extent *x = &((const cla_lying *)a)->extent, *y = &((const cla_lying *)b)->extent;
    if (x->memory != y->memory)
        return (uintptr_t)x->memory < (uintptr_t)y->memory ? -1 : 1;
    return x->begin < y->begin ? -1 : x->begin > y->begin;
}

static bool may_lie(const cla_lying *x, const cla_lying *y) {
    const cla_role low = x->role < y->role ? x->role : y->role, high = x->role < y->role ? y->role : x->role;
    if (low == CLA_ROLE_INPUT)
        return high == CLA_ROLE_INPUT || high == CLA_ROLE_LAST;
    return low == CLA_ROLE_ADDED && high == CLA_ROLE_ADDED && x->extent.begin == y->extent.begin &&
           cla_view_same_layout(x->t, y->t);
}

static const char *text_of(const cla_lying *x, char *text, size_t size) {
    char layer[40] = "";
    if (x->called.layer >= 0)
        snprintf(layer, sizeof layer, "layer %lld: ", (long long)x->called.layer);
    snprintf(text, size, "%s%s%s", layer, x->called.part, x->name);
    return text;
}

clattn_status cla_apart_end(cla_apart *apart, clattn_status status) {
    char text[120], other[120];
    if (apart->count > 1)
        qsort(apart->list, apart->count, sizeof *apart->list, by_place);
    for (size_t i = 0; i < apart->count && status == CLATTN_OK; i++) {
        const cla_lying *x = &apart->list[i];
        for (size_t j = i + 1; j < apart->count && status == CLATTN_OK; j++) {
            const cla_lying *y = &apart->list[j];
            if (y->extent.memory != x->extent.memory || y->extent.begin >= x->extent.end)
                break;
            if (may_lie(x, y) || !cla_view_meets(x->t, y->t))
                continue;
            const bool turned = x->role == CLA_ROLE_INPUT;
            status =
                cla_error(CLATTN_E_ARGUMENT, "%s: %s: lies over %s; give it memory of its own", apart->module,
                          text_of(turned ? y : x, text, sizeof text), text_of(turned ? x : y, other, sizeof other));
        }
    }
    cla_free(apart->list);
    *apart = (cla_apart){0};
    return status;
}
