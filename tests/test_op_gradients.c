/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of operations: against central differences in f64, and in each type and layout against those in f64. */
#include "op_gradients.h"

#define F32 CLATTN_F32
#define F64 CLATTN_F64
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16
#define RELU CLATTN_ACTIVATION_RELU
#define GELU CLATTN_ACTIVATION_GELU
#define GELU_TANH CLATTN_ACTIVATION_GELU_TANH
#define SILU CLATTN_ACTIVATION_SILU
#define RMS CLATTN_NORM_RMS
#define ALL                                                                                                            \
    { true, true, true, true }

/* The first ones are small, for central differences. */
static const backward_case cases[] = {
    {LINEAR, 2, {5, 7}, 3, .has = ALL, .activation = GELU},
    {LINEAR, 4, {2, 1, 3, 4}, 6, .has = ALL, .activation = SILU, .layout = OP_TURNED, .d_layout = OP_PADDED},
    {LINEAR, 1, {6}, 5, .has = {true, true}, .activation = GELU_TANH, .d_type = F16, .buffers = true},
    {LINEAR, 3, {2, 3, 5}, 4, .has = ALL, .type = BF16, .layout = OP_SPREAD, .accumulate = true, .buffers = true},
    {LINEAR, 2, {9, 5}, 4, .has = ALL, .activation = RELU, .d_layout = OP_TURNED, .accumulate = true},
    {NORM, 2, {4, 9}, .has = ALL, .ranks = {0, 0, 1, 1}, .axes = 1},
    {NORM, 3, {2, 3, 5}, .has = ALL, .ranks = {0, 0, 2, 1}, .axes = 1, .layout = OP_TURNED, .d_layout = OP_PADDED},
    {NORM, 3, {3, 2, 4}, .has = {true, false, true, true}, .ranks = {0, 0, 2, 2}, .axes = 2, .type = F16},
    {NORM, 3, {3, 2, 4}, .has = {true, true, true}, .ranks = {0, 0, 3}, .ones = 4, .kind = RMS, .axes = 1},
    {NORM, 2, {6, 8}, .has = {true, false, true}, .ranks = {0, 0, 1}, .kind = RMS, .axes = 1, .accumulate = true},
    {NORM, 2, {5, 6}, .has = {true}, .axes = 1, .d_type = BF16, .buffers = true},
    {ACTIVATE, 2, {4, 9}, .has = {true}, .activation = GELU, .buffers = true},
    {ACTIVATE, 3, {2, 3, 5}, .has = ALL, .activation = GELU_TANH, .layout = OP_TURNED, .d_layout = OP_SPREAD},
    {ACTIVATE, 2, {4, 9}, .has = ALL, .activation = SILU, .type = F16, .d_type = BF16},
    {ACTIVATE, 2, {4, 9}, .has = ALL, .activation = RELU, .d_layout = OP_PADDED},
    {ACTIVATE, 1, {17}, .has = ALL},
    {SOFTMAX, 2, {5, 9}, .has = {true}, .axes = 1},
    {SOFTMAX, 3, {3, 4, 5}, .has = {true}, .axes = 1, .layout = OP_PADDED, .d_type = F16, .buffers = true},
    {ADD, 3, {3, 2, 5}, .has = ALL, .ranks = {0, 2}, .buffers = true},
    {ADD, 3, {3, 4, 5}, .has = ALL, .ranks = {0, 3}, .ones = 2, .layout = OP_TURNED, .d_layout = OP_PADDED},
    {ADD, 3, {3, 4, 5}, .has = ALL, .ranks = {0, 1}, .ones = 2, .accumulate = true, .type = F16},
    {EMBED, 2, {11, 5}, 7, .has = {true}, .buffers = true},
    {EMBED, 3, {2, 6, 4}, 5, .has = ALL, .ranks = {0, 2}, .d_layout = OP_TURNED, .accumulate = true, .type = BF16},
    {LOSS, 2, {7, 6}, .has = {true}},
    {LOSS, 3, {2, 4, 5}, .has = {true}, .smoothing = 0.1, .layout = OP_PADDED, .d_layout = OP_TURNED},
    {LOSS, 2, {9, 5}, .has = {true}, .reduction = CLATTN_LOSS_SUM, .type = F16, .d_type = F32, .buffers = true},
#define SMALL 26
    /* several blocks of rows, vectors and parts of them */
    {LINEAR, 3, {3, 67, 70}, 45, .has = ALL, .activation = GELU, .buffers = true},
    {LINEAR, 2, {300, 19}, 33, .has = ALL, .layout = OP_PADDED, .accumulate = true},
    {NORM, 3, {5, 41, 150}, .has = ALL, .ranks = {0, 0, 1, 1}, .axes = 1, .buffers = true},
    {NORM, 3, {3, 50, 300}, .has = {true, false, true}, .ranks = {0, 0, 1}, .kind = RMS, .axes = 1, .type = BF16},
    {ACTIVATE, 2, {70, 67}, .has = ALL, .activation = SILU},
    {SOFTMAX, 2, {9, 1000}, .has = {true}, .axes = -1},
    {ADD, 3, {7, 90, 33}, .has = ALL, .ranks = {0, 2}},
    {ADD, 2, {1000, 3}, .has = ALL, .ranks = {0, 1}, .ones = 2, .buffers = true},
    {EMBED, 2, {500, 70}, 300, .has = {true}},
    {EMBED, 3, {3, 70, 300}, 9, .has = ALL, .ranks = {0, 2}, .buffers = true, .accumulate = true},
    {LOSS, 3, {2, 80, 1000}, .has = {true}, .smoothing = 0.1},
    {LOSS, 2, {300, 17}, .has = {true}, .buffers = true},
};
enum { CASES = sizeof cases / sizeof *cases, IDS = 4096 };

/* Inputs, or their gradients: with values as another's, or random ones, or NaN where they are only written. */
static void make_inputs(clattn_context *owner, const backward_case *c, clattn_dtype dtype, op_layout layout,
                        const op_array *as, bool written, op_array in[INPUTS]) {
    oracle_random random = {11};
    for (int k = 0; k < INPUTS; k++) {
        int64_t shape[5];
        const int rank = input_shape(c, k, shape);
        in[k] = (op_array){0};
        if (rank > 0)
            in[k] = op_make(owner, dtype, rank, shape, layout, as ? as[k].values : NULL, written ? NULL : &random);
    }
}

static void views_of(const op_array *a, clattn_tensor *t) {
    for (int k = 0; k < INPUTS; k++)
        t[k] = a[k].t;
}

static void free_all(op_array *a, int count) {
    for (int k = 0; k < count; k++)
        if (a[k].data)
            op_free(&a[k]);
}

/* ---- central differences ---- */

/* The sum of y times weights. */
static long double objective(clattn_context *context, const backward_case *c, const clattn_tensor *in,
                             const clattn_tensor *ids, op_array *y, const double *weights) {
    long double sum = 0;
    forward(context, c, in, ids, y->t);
    for (int64_t i = 0; i < y->count; i++)
        sum += op_value(y, i) * (long double)weights[i];
    return sum;
}

/* Of fourth order: the error is that of rounding, some 1e-12 of the objective. */
static double difference(clattn_context *context, const backward_case *c, const clattn_tensor *in,
                         const clattn_tensor *ids, op_array *y, const double *weights, double *at) {
    static const double steps[] = {-2, -1, 1, 2}, factors[] = {1, -8, 8, -1};
    const double h = 0x1p-9, x = *at;
    long double sum = 0;
    for (int i = 0; i < 4; i++) {
        *at = x + steps[i] * h;
        sum += factors[i] * objective(context, c, in, ids, y, weights);
    }
    *at = x;
    return (double)(sum / (12 * h));
}

static void check_differences(clattn_context *context, const backward_case *given, const char *what) {
    backward_case plain = *given, *c = &plain;
    int64_t ids[IDS] = {0}, shape[5];
    oracle_random random = {29};
    op_array in[INPUTS], d[INPUTS];
    clattn_tensor views[INPUTS], gradients[INPUTS];
    c->accumulate = false;
    const clattn_tensor id_view = make_ids(c, ids);
    for (int64_t i = 0; c->op == EMBED && i < clattn_tensor_elements(&id_view); i++)
        ids[i] = ids[i] < 0 ? 0 : ids[i]; /* the forward pass looks padding up */
    const int rank = output_shape(c, shape);
    op_array y = op_make(NULL, F64, rank, shape, OP_DENSE, NULL, NULL);
    op_array d_y = op_make(NULL, F64, rank, shape, OP_DENSE, NULL, &random);
    make_inputs(NULL, c, F64, OP_DENSE, NULL, false, in);
    make_inputs(NULL, c, F64, OP_DENSE, NULL, true, d);
    views_of(in, views);
    views_of(d, gradients);
    if (c->op == NORM)
        gradients[1] = (clattn_tensor){0};
    if (c->op == LOSS)
        d_y.values[0] = 1;
    const clattn_tensor extra = make_extra(context, c, views, F64);
    backward(context, c, views, &id_view, extra, d_y.t, gradients);
    for (int k = 0; k < INPUTS; k++)
        for (int64_t i = 0; gradients[k].rank > 0 && i < in[k].count; i++) {
            double *const at = (double *)(void *)in[k].data + op_place(&in[k].t, i);
            const double want = difference(context, c, views, &id_view, &y, d_y.values, at), got = op_value(&d[k], i);
            cr_expect_float_eq(got, want, oracle_floor(F32, 1e-3 * (fabs(want) + 10)),
                               "%s: input %d, element %lld: %.12g, not %.12g", what, k, (long long)i, got, want);
        }
    free(extra.host);
    free_all(in, INPUTS);
    free_all(d, INPUTS);
    free_all(&y, 1);
    free_all(&d_y, 1);
}

Test(op_gradients, gradients_are_central_differences) {
    for (int d = 0; d < OP_DEVICES; d += 2) { /* kernels for GPUs compute in f64 as in f32 */
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (int i = 0; i < SMALL && info.has_f64; i++) {
            char what[80];
            snprintf(what, sizeof what, "%s, case %d", op_devices[d], i);
            check_differences(context, &cases[i], what);
        }
        clattn_context_destroy(context);
    }
}

/* ---- types and layouts ---- */

/* The largest value of a gradient, with room for the sums that it stands for. */
static double size_of(const op_array *want) {
    double most = 0;
    for (int64_t i = 0; i < want->count; i++)
        most = fmax(most, fabs(op_value(want, i)));
    return 10 * (most + 1);
}

static void check_case(clattn_context *context, clattn_context *cpu, const backward_case *c, const char *what) {
    int64_t ids[IDS] = {0};
    int64_t shape[5];
    oracle_random random = {31};
    op_array in[INPUTS], exact[INPUTS], want[INPUTS], d[INPUTS];
    clattn_tensor views[INPUTS], exact_views[INPUTS], want_views[INPUTS], d_views[INPUTS];
    clattn_context *owner = c->buffers ? context : NULL;
    backward_case plain = *c;
    plain.accumulate = false;
    const clattn_tensor id_view = make_ids(c, ids);
    const int rank = output_shape(c, shape);
    op_array d_y = op_make(owner, c->type, rank, shape, c->layout, NULL, &random);
    op_array exact_d = op_make(NULL, F64, rank, shape, OP_DENSE, d_y.values, NULL);
    make_inputs(owner, c, c->type, c->layout, NULL, false, in);
    make_inputs(NULL, c, F64, OP_DENSE, in, false, exact);
    make_inputs(NULL, c, F64, OP_DENSE, NULL, true, want);
    make_inputs(owner, c, c->d_type, c->d_layout, NULL, !c->accumulate, d);
    views_of(in, views), views_of(exact, exact_views), views_of(want, want_views), views_of(d, d_views);
    if (c->op == NORM)
        want_views[1] = d_views[1] = (clattn_tensor){0};
    clattn_tensor extra = make_extra(context, c, views, F32), exact_extra = extra;
    op_array extra_array = {0};
    if (extra.rank > 0) { /* both take what f32 holds */
        double *values = malloc((size_t)clattn_tensor_elements(&extra) * sizeof *values + 1);
        for (int64_t i = 0; i < clattn_tensor_elements(&extra); i++)
            values[i] = oracle_decode(F32, extra.host, i);
        extra_array = op_make(NULL, F64, rank, shape, OP_DENSE, values, NULL);
        exact_extra = extra_array.t;
        free(values);
    }
    backward(cpu, &plain, exact_views, &id_view, exact_extra, exact_d.t, want_views);
    backward(context, c, views, &id_view, extra, d_y.t, d_views);
    for (int k = 0; k < INPUTS; k++) {
        const bool adds = c->accumulate && c->op != ACTIVATE && (k > 0 || (c->op != LINEAR && c->op != NORM));
        const double allowed = d_views[k].rank > 0 ? oracle_floor(F32, size_of(&want[k])) : 0;
        for (int64_t i = 0; d_views[k].rank > 0 && i < d[k].count; i++) {
            if (i == 0)
                op_fetch(&d[k], what);
            const double sum = op_value(&want[k], i) + (adds ? d[k].values[i] : 0);
            op_expect(&d[k], i, sum, allowed, what);
        }
    }
    free(extra.host);
    free_all(in, INPUTS), free_all(exact, INPUTS), free_all(want, INPUTS), free_all(d, INPUTS);
    free_all(&d_y, 1), free_all(&exact_d, 1), free_all(&extra_array, 1);
}

Test(op_gradients, every_type_and_layout) {
    clattn_context *cpu = op_open("cpu");
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int i = 0; i < CASES; i++) {
            char what[80];
            snprintf(what, sizeof what, "%s, case %d", op_devices[d], i);
            check_case(context, cpu, &cases[i], what);
        }
        clattn_context_destroy(context);
    }
    clattn_context_destroy(cpu);
}
