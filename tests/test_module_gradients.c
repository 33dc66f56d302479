/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of modules that PyTorch does not have: gated feed-forward, separate projections, accumulation; on the `cpu`
 * context against central differences. Errors of what is not the weights', stacks' before anything is written, and the
 * type of sums. */
#include "op_arrays.h"
#include <clattn/clattn.h>

#define F64 CLATTN_F64
enum { MOST = 12 };

/* A module by number: tensors 0 to count - 1 are x and the weights, then come y, and gradients in the same order. */
typedef struct {
    int count;
    op_array in[MOST], d[MOST], y, d_y;
    clattn_context *context;
    bool separate; /* multi-head attention; else gated feed-forward */
    clattn_feedforward *feedforward;
    clattn_multihead *multihead;
} module;

static void add(module *m, oracle_random *random, int rank, int64_t n0, int64_t n1, int64_t n2) {
    const int64_t shape[] = {n0, n1, n2};
    m->in[m->count] = op_make(NULL, F64, rank, shape, OP_DENSE, NULL, random);
    m->d[m->count] = op_make(NULL, F64, rank, shape, OP_DENSE, NULL, NULL);
    m->count++;
}

static clattn_feedforward_weights feed_weights(const op_array *a) {
    return (clattn_feedforward_weights){.transposed = true,
                                        .linear1 = a[1].t,
                                        .linear1_bias = a[2].t,
                                        .gate = a[3].t,
                                        .gate_bias = a[4].t,
                                        .linear2 = a[5].t,
                                        .linear2_bias = a[6].t};
}

static clattn_multihead_weights head_weights(const op_array *a) {
    return (clattn_multihead_weights){
        .q = a[1].t, .k = a[2].t, .v = a[3].t, .q_bias = a[4].t, .k_bias = a[5].t, .v_bias = a[6].t, .out = a[7].t};
}

/* E 5, F 3; or E 6, H 4, Hk 2, D 2, Dv 3. */
static void make(module *m, bool separate) {
    oracle_random random = {13};
    *m = (module){.context = op_open("cpu"), .separate = separate};
    if (separate) {
        const clattn_multihead_options options = {.heads = 4, .key_heads = 2};
        add(m, &random, 3, 2, 3, 6);
        add(m, &random, 2, 8, 6, 0);
        add(m, &random, 2, 4, 6, 0);
        add(m, &random, 2, 6, 6, 0);
        add(m, &random, 1, 8, 0, 0);
        add(m, &random, 1, 4, 0, 0);
        add(m, &random, 1, 6, 0, 0);
        add(m, &random, 2, 6, 12, 0);
        const clattn_multihead_weights weights = head_weights(m->in);
        SUCCEEDS(clattn_multihead_create(m->context, &weights, &options, &m->multihead));
    } else {
        const clattn_feedforward_options options = {.activation = CLATTN_ACTIVATION_SILU};
        add(m, &random, 3, 2, 2, 5);
        add(m, &random, 2, 5, 3, 0);
        add(m, &random, 1, 3, 0, 0);
        add(m, &random, 2, 5, 3, 0);
        add(m, &random, 1, 3, 0, 0);
        add(m, &random, 2, 3, 5, 0);
        add(m, &random, 1, 5, 0, 0);
        const clattn_feedforward_weights weights = feed_weights(m->in);
        SUCCEEDS(clattn_feedforward_create(m->context, &weights, &options, &m->feedforward));
    }
    m->y = op_make(NULL, F64, 3, m->in[0].t.shape, OP_DENSE, NULL, NULL);
    m->d_y = op_make(NULL, F64, 3, m->in[0].t.shape, OP_DENSE, NULL, &random);
}

static void destroy(module *m) {
    for (int k = 0; k < m->count; k++) {
        op_free(&m->in[k]);
        op_free(&m->d[k]);
    }
    op_free(&m->y);
    op_free(&m->d_y);
    clattn_feedforward_destroy(m->feedforward);
    clattn_multihead_destroy(m->multihead);
    clattn_context_destroy(m->context);
}

static long double objective(module *m) {
    long double sum = 0;
    if (m->separate)
        SUCCEEDS(clattn_multihead_run(m->multihead, &(clattn_multihead_args){.query = m->in[0].t, .y = m->y.t}));
    else
        SUCCEEDS(clattn_feedforward_run(m->feedforward, &m->in[0].t, &m->y.t));
    for (int64_t i = 0; i < m->y.count; i++)
        sum += op_value(&m->y, i) * (long double)m->d_y.values[i];
    return sum;
}

static void backward(module *m, bool accumulate) {
    const clattn_feedforward_weights feed = m->separate ? (clattn_feedforward_weights){0} : feed_weights(m->d);
    const clattn_multihead_weights heads = m->separate ? head_weights(m->d) : (clattn_multihead_weights){0};
    if (m->separate)
        SUCCEEDS(
            clattn_multihead_backward(m->multihead, &(clattn_multihead_backward_args){.forward = {.query = m->in[0].t},
                                                                                      .d_y = m->d_y.t,
                                                                                      .d_query = m->d[0].t,
                                                                                      .gradients = &heads,
                                                                                      .accumulate = accumulate}));
    else
        SUCCEEDS(clattn_feedforward_backward(
            m->feedforward,
            &(clattn_feedforward_backward_args){
                .x = m->in[0].t, .d_y = m->d_y.t, .d_x = m->d[0].t, .gradients = &feed, .accumulate = accumulate}));
}

static double difference(module *m, double *at) {
    static const double steps[] = {-2, -1, 1, 2}, factors[] = {1, -8, 8, -1};
    const double h = 0x1p-9, x = *at;
    long double sum = 0;
    for (int i = 0; i < 4; i++) {
        *at = x + steps[i] * h;
        sum += factors[i] * objective(m);
    }
    *at = x;
    return (double)(sum / (12 * h));
}

/* Twice: the second time weights' gradients are added to, and that of x is written. */
Test(module_gradients, are_central_differences) {
    for (int separate = 0; separate < 2; separate++) {
        module m;
        make(&m, separate);
        for (int times = 1; times <= 2; times++) {
            backward(&m, times == 2);
            for (int k = 0; k < m.count; k++)
                for (int64_t i = 0; i < m.in[k].count; i++) {
                    double *const at = (double *)(void *)m.in[k].data + op_place(&m.in[k].t, i);
                    const double one = difference(&m, at), want = k > 0 ? times * one : one, got = op_value(&m.d[k], i);
                    cr_expect_float_eq(got, want, oracle_floor(CLATTN_F32, 1e-2 * (fabs(want) + 10)),
                                       "module %d: tensor %d, element %lld: %.12g, not %.12g", separate, k,
                                       (long long)i, got, want);
                }
        }
        destroy(&m);
    }
}

Test(module_gradients, bad_calls_are_named_errors) {
    module m;
    make(&m, false);
    clattn_feedforward_weights gradients = feed_weights(m.d);
    clattn_feedforward_backward_args args = {.x = m.in[0].t, .d_y = m.d_y.t, .gradients = &gradients};
    gradients.transposed = false;
    FAILS(clattn_feedforward_backward(m.feedforward, &args), CLATTN_E_SHAPE,
          "linear1 [5, 3]: should have the shape of the weight [3, 5]");
    destroy(&m);
    make(&m, true);
    FAILS(clattn_multihead_backward(
              m.multihead,
              &(clattn_multihead_backward_args){.forward = {.query = m.in[0].t}, .d_y = m.d_y.t, .d_key = m.d[0].t}),
          CLATTN_E_ARGUMENT, "d_key is wanted, and there is no key");
    FAILS(clattn_multihead_backward(
              m.multihead,
              &(clattn_multihead_backward_args){.forward = {.query = m.in[0].t}, .d_y = m.d_y.t, .d_query = m.d[1].t}),
          CLATTN_E_SHAPE, "d_query [8, 6]: should have the shape of query");
    destroy(&m);
}

/* ---- stacks ---- */

enum { LAYERS = 2, PARTS = 6, E = 4 };

/* Two decoder layers in f32, of which encoders take what they have; gradients are NaN. */
typedef struct {
    op_array in[LAYERS][PARTS], d[LAYERS][PARTS], x, hidden[LAYERS], d_y;
    clattn_decoder_layer_weights weights[LAYERS], gradients[LAYERS];
    clattn_encoder_layer_weights encoder_weights[LAYERS], encoder_gradients[LAYERS];
    clattn_context *context;
} layers;

static const int64_t x_shape[] = {2, 3, E};

static clattn_decoder_layer_weights layer_of(const op_array *a) {
    const clattn_multihead_weights heads = {.q = a[0].t, .k = a[1].t, .v = a[2].t, .out = a[3].t};
    return (clattn_decoder_layer_weights){
        .self_attn = heads, .cross_attn = heads, .feedforward = {.linear1 = a[4].t, .linear2 = a[5].t}};
}

static clattn_encoder_layer_weights encoder_layer(const clattn_decoder_layer_weights *w) {
    return (clattn_encoder_layer_weights){.self_attn = w->self_attn, .feedforward = w->feedforward};
}

static void make_layers(layers *l) {
    static const int64_t shapes[PARTS][2] = {{E, E}, {E, E}, {E, E}, {E, E}, {3, E}, {E, 3}};
    oracle_random random = {17};
    *l = (layers){.context = op_open("cpu")};
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < PARTS; k++) {
            l->in[i][k] = op_make(NULL, CLATTN_F32, 2, shapes[k], OP_DENSE, NULL, &random);
            l->d[i][k] = op_make(NULL, CLATTN_F32, 2, shapes[k], OP_DENSE, NULL, NULL);
        }
        l->weights[i] = layer_of(l->in[i]), l->gradients[i] = layer_of(l->d[i]);
        l->encoder_weights[i] = encoder_layer(&l->weights[i]);
        l->encoder_gradients[i] = encoder_layer(&l->gradients[i]);
        l->hidden[i] = op_make(NULL, CLATTN_F32, 3, x_shape, OP_DENSE, NULL, &random);
    }
    l->x = op_make(NULL, CLATTN_F32, 3, x_shape, OP_DENSE, NULL, &random);
    l->d_y = op_make(NULL, CLATTN_F32, 3, x_shape, OP_DENSE, NULL, &random);
}

static void free_layers(layers *l) {
    for (int i = 0; i < LAYERS; i++) {
        for (int k = 0; k < PARTS; k++)
            op_free(&l->in[i][k]), op_free(&l->d[i][k]);
        op_free(&l->hidden[i]);
    }
    op_free(&l->x), op_free(&l->d_y);
    clattn_context_destroy(l->context);
}

/* Layers are gone through from the last to the first, and what the first lacks is found before any gradient is written.
 */
Test(module_gradients, of_stacks_are_written_all_or_none) {
    layers l;
    clattn_encoder *encoder = NULL;
    make_layers(&l);
    const clattn_encoder_weights weights = {.layers = l.encoder_weights, .count = LAYERS};
    const clattn_encoder_weights gradients = {.layers = l.encoder_gradients, .count = LAYERS};
    const clattn_layer_options options = {.heads = 2};
    clattn_tensor hidden[LAYERS] = {{0}};
    SUCCEEDS(clattn_encoder_create(l.context, &weights, &options, &encoder));
    clattn_encoder_backward_args args = {
        .forward = {.x = l.x.t, .hidden = hidden}, .d_y = l.d_y.t, .gradients = &gradients};
    FAILS(clattn_encoder_backward(encoder, &args), CLATTN_E_ARGUMENT, "what layer 0 gave is missing");
    hidden[0] = l.hidden[0].t;
    l.encoder_gradients[0].feedforward.linear1 = l.d[0][0].t;
    FAILS(clattn_encoder_backward(encoder, &args), CLATTN_E_SHAPE,
          "encoder: layer 0: gradients: feedforward: linear1 [4, 4]: should have the shape");
    for (int k = 0; k < PARTS; k++)
        cr_expect_eq(memcmp(l.d[1][k].data, l.d[1][k].before, l.d[1][k].bytes), 0, "tensor %d was written", k);
    l.encoder_gradients[0] = encoder_layer(&l.gradients[0]);
    SUCCEEDS(clattn_encoder_backward(encoder, &args));
    cr_expect_not(isnan(op_value(&l.d[1][0], 0)));
    clattn_encoder_destroy(encoder);
    free_layers(&l);
}

/* The same from inputs in f64 is wanted. */
static void expect_same(op_array *got, op_array *want, const char *what) {
    op_fetch(got, what);
    op_fetch(want, what);
    for (int64_t i = 0; i < got->count; i++)
        op_expect(got, i, op_value(want, i), oracle_floor(F64, 1e2), what);
    op_free(got), op_free(want);
}

static op_array output(void) { return op_make(NULL, F64, 3, x_shape, OP_DENSE, NULL, NULL); }

Test(module_gradients, are_summed_in_the_type_that_is_asked_for) {
    layers l;
    clattn_encoder *encoder = NULL;
    clattn_decoder *decoder = NULL;
    clattn_multihead *multihead = NULL;
    make_layers(&l);
    op_array x = op_make(NULL, F64, 3, x_shape, OP_DENSE, l.x.values, NULL);
    const clattn_encoder_weights weights = {.layers = l.encoder_weights, .count = 1};
    const clattn_decoder_weights decoder_weights = {.layers = l.weights, .count = 1};
    const clattn_layer_options options = {.heads = 2};
    const clattn_multihead_options heads = {.heads = 2};
    SUCCEEDS(clattn_encoder_create(l.context, &weights, &options, &encoder));
    SUCCEEDS(clattn_decoder_create(l.context, &decoder_weights, &options, &decoder));
    SUCCEEDS(clattn_multihead_create(l.context, &l.weights[0].self_attn, &heads, &multihead));
    op_array d[2][4];
    for (int wide = 0; wide < 2; wide++) {
        const clattn_tensor in = wide ? x.t : l.x.t;
        for (int k = 0; k < 4; k++)
            d[wide][k] = output();
        SUCCEEDS(clattn_encoder_backward(
            encoder, &(clattn_encoder_backward_args){.forward.x = in, .d_y = l.d_y.t, .d_x = d[wide][0].t}));
        SUCCEEDS(clattn_multihead_backward(
            multihead,
            &(clattn_multihead_backward_args){.forward.query = in, .d_y = l.d_y.t, .d_query = d[wide][1].t}));
        for (int k = 2; k < 4; k++)
            SUCCEEDS(clattn_decoder_backward(
                decoder, &(clattn_decoder_backward_args){.forward = {.x = in, .memory = l.hidden[0].t},
                                                         .d_y = l.d_y.t,
                                                         .d_x = k == 2 ? d[wide][k].t : (clattn_tensor){0},
                                                         .d_memory = k == 3 ? d[wide][k].t : (clattn_tensor){0}}));
    }
    static const char *const names[] = {"encoder", "multihead", "decoder, d_x", "decoder, d_memory"};
    for (int k = 0; k < 4; k++)
        expect_same(&d[0][k], &d[1][k], names[k]);
    op_free(&x);
    clattn_encoder_destroy(encoder);
    clattn_decoder_destroy(decoder);
    clattn_multihead_destroy(multihead);
    free_layers(&l);
}
