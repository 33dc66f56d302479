/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of some weights of a module: absent ones are not wanted, and each by itself has the bits of all. */
#include "op_arrays.h"
#include <clattn/clattn.h>
#include <stddef.h>

enum { E = 8, F = 6, MOST = 20 };

/* A weight of a layer, whose parts are those of other modules. */
typedef struct {
    const char *name;
    size_t at;
    int rank;
    int64_t shape[2];
} field;
#define FIELD(member, ...)                                                                                             \
    { #member, offsetof(clattn_encoder_layer_weights, member), __VA_ARGS__ }
#define SHARED                                                                                                         \
    FIELD(self_attn.out, 2, {E, E}), FIELD(feedforward.linear1, 2, {F, E}), FIELD(feedforward.linear1_bias, 1, {F}),   \
        FIELD(feedforward.gate, 2, {F, E}), FIELD(feedforward.gate_bias, 1, {F}),                                      \
        FIELD(feedforward.linear2, 2, {E, F}), FIELD(feedforward.linear2_bias, 1, {E}), FIELD(norm1.weight, 1, {E}),   \
        FIELD(norm1.bias, 1, {E}), FIELD(norm2.weight, 1, {E}), FIELD(norm2.bias, 1, {E})

static const field ways[][MOST] = {{SHARED, FIELD(self_attn.in_proj, 2, {3 * E, E}),
                                    FIELD(self_attn.in_bias, 1, {3 * E}), FIELD(self_attn.out_bias, 1, {E})},
                                   {SHARED, FIELD(self_attn.in_proj, 2, {3 * E, E}), FIELD(self_attn.q_bias, 1, {E}),
                                    FIELD(self_attn.k_bias, 1, {E}), FIELD(self_attn.v_bias, 1, {E})},
                                   {SHARED, FIELD(self_attn.q, 2, {E, E}), FIELD(self_attn.k, 2, {E, E}),
                                    FIELD(self_attn.v, 2, {E, E}), FIELD(self_attn.in_bias, 1, {3 * E}),
                                    FIELD(self_attn.bias_k, 1, {E}), FIELD(self_attn.bias_v, 1, {E})}};

typedef struct {
    op_array all[MOST], norm;
    clattn_encoder_layer_weights layer;
} weights;

/* One weight alone where `only` is not negative; beyond the last one, none. */
static void make(weights *w, const field *fields, int only, oracle_random *random) {
    *w = (weights){.norm = op_make(NULL, CLATTN_F32, 1, (const int64_t[]){E}, OP_DENSE, NULL, random)};
    for (int i = 0; fields[i].name; i++) {
        w->all[i] = op_make(NULL, CLATTN_F32, fields[i].rank, fields[i].shape, OP_DENSE, NULL, random);
        if (only < 0 || only == i)
            *(clattn_tensor *)(void *)((char *)&w->layer + fields[i].at) = w->all[i].t;
    }
}

static void release(weights *w, const field *fields) {
    for (int i = 0; fields[i].name; i++)
        op_free(&w->all[i]);
    op_free(&w->norm);
}

typedef struct {
    clattn_context *context;
    clattn_encoder *encoder;
    clattn_multihead *multihead;
    clattn_feedforward *feedforward;
    op_array x, hidden, d_y;
} modules;

static void open(modules *m, const weights *w, oracle_random *random) {
    static const int64_t shape[] = {2, 3, E};
    const clattn_layer_options options = {.heads = 2};
    const clattn_multihead_options heads = {.heads = 2};
    *m = (modules){.context = op_open("cpu")};
    SUCCEEDS(clattn_encoder_create(
        m->context,
        &(clattn_encoder_weights){.layers = &w->layer, .count = 1, .has_norm = true, .norm = {.weight = w->norm.t}},
        &options, &m->encoder));
    SUCCEEDS(clattn_multihead_create(m->context, &w->layer.self_attn, &heads, &m->multihead));
    SUCCEEDS(clattn_feedforward_create(m->context, &w->layer.feedforward, NULL, &m->feedforward));
    op_array *const rows[] = {&m->x, &m->hidden, &m->d_y};
    for (int i = 0; i < 3; i++)
        *rows[i] = op_make(NULL, CLATTN_F32, 3, shape, OP_DENSE, NULL, random);
}

static void shut(modules *m) {
    clattn_encoder_destroy(m->encoder);
    clattn_multihead_destroy(m->multihead);
    clattn_feedforward_destroy(m->feedforward);
    clattn_context_destroy(m->context);
    op_free(&m->x), op_free(&m->hidden), op_free(&m->d_y);
}

/* The backward pass of the layer, or of the part of it that has a weight. */
enum { LAYER, ATTENTION, FEED };

static int part_of(const field *f) {
    return f->at < offsetof(clattn_encoder_layer_weights, feedforward) ? ATTENTION
           : f->at < offsetof(clattn_encoder_layer_weights, norm1)     ? FEED
                                                                       : LAYER;
}

static void backward(modules *m, int part, const weights *d, bool norm) {
    const clattn_encoder_weights gradients = {
        .layers = &d->layer, .count = 1, .has_norm = norm, .norm = {.weight = d->norm.t}};
    if (part == ATTENTION)
        SUCCEEDS(clattn_multihead_backward(
            m->multihead, &(clattn_multihead_backward_args){
                              .forward = {.query = m->x.t}, .d_y = m->d_y.t, .gradients = &d->layer.self_attn}));
    else if (part == FEED)
        SUCCEEDS(clattn_feedforward_backward(
            m->feedforward,
            &(clattn_feedforward_backward_args){.x = m->x.t, .d_y = m->d_y.t, .gradients = &d->layer.feedforward}));
    else
        SUCCEEDS(clattn_encoder_backward(
            m->encoder, &(clattn_encoder_backward_args){.forward = {.x = m->x.t, .hidden = &m->hidden.t},
                                                        .d_y = m->d_y.t,
                                                        .gradients = &gradients}));
}

static void expect_same(op_array *got, op_array *want, const char *name, int part) {
    cr_expect_not(isnan(((const float *)(const void *)want->data)[op_place(&want->t, 0)]), "%s: not written", name);
    cr_expect_eq(memcmp(got->data, want->data, want->bytes), 0, "%s of module %d alone: other bits", name, part);
}

static void expect_each_alone(const field *fields) {
    oracle_random random = {19};
    weights w, all[3], one;
    modules m;
    make(&w, fields, -1, &random);
    open(&m, &w, &random);
    for (int part = LAYER; part <= FEED; part++) {
        make(&all[part], fields, -1, NULL);
        backward(&m, part, &all[part], true);
    }
    for (int i = 0; fields[i].name; i++)
        for (int part = LAYER; part <= FEED; part++) {
            if (part != LAYER && part != part_of(&fields[i]))
                continue;
            make(&one, fields, i, NULL);
            backward(&m, part, &one, false);
            expect_same(&one.all[i], &all[part].all[i], fields[i].name, part);
            release(&one, fields);
        }
    make(&one, fields, MOST, NULL);
    backward(&m, LAYER, &one, true);
    expect_same(&one.norm, &all[LAYER].norm, "the norm behind", LAYER);
    for (int part = LAYER; part <= FEED; part++) { /* none at all */
        backward(&m, part, &one, false);
        release(&all[part], fields);
    }
    release(&one, fields);
    release(&w, fields);
    shut(&m);
}

Test(partial_gradients, of_one_weight_alone_have_the_bits_of_all) {
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        expect_each_alone(ways[i]);
}
