/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of modules that PyTorch does not have: gated feed-forward, separate projections, accumulation; on the `cpu`
 * context against central differences. Errors of what is not the weights'. */
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
    gradients.linear1_bias = (clattn_tensor){0};
    FAILS(clattn_feedforward_backward(m.feedforward, &args), CLATTN_E_ARGUMENT,
          "linear1_bias: there is a weight, and no gradient");
    gradients = feed_weights(m.d);
    gradients.transposed = false;
    FAILS(clattn_feedforward_backward(m.feedforward, &args), CLATTN_E_SHAPE, "linear1_bias [3]: should be [5]");
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
