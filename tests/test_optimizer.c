/* SPDX-License-Identifier: Apache-2.0 */
/* Adam, SGD and the norm of gradients, against loops in double; errors of what trains; the same bits in every run. */
#include "optimizer_steps.h"
#include <clattn/train.h>

#define F32 CLATTN_F32
#define F64 CLATTN_F64

enum { STEPS = 4 };

static const step_case cases[] = {
    {true, 2, {5, 40}, F32, F32, F32, OP_DENSE, OP_DENSE, .rate = 0.02, .buffers = true},
    {true, 1, {33}, F32, F32, F32, OP_SPREAD, OP_DENSE, .decay = 0.1, .factor = 0.25},
    {true, 2, {4, 7}, CLATTN_BF16, CLATTN_F16, F32, OP_TURNED, OP_PADDED, .has_betas = true, .beta2 = 0.9, .rate = 0.5},
    {true, 3, {2, 3, 5}, F64, F64, F64, OP_DENSE, OP_DENSE, .decay = 0.3, .decay_gradient = true, .epsilon = 1e-3},
    {false, 2, {3, 1000}, F32, F32, F32, OP_DENSE, OP_DENSE, .rate = 0.1, .buffers = true},
    {false, 2, {5, 6}, F32, F32, F32, OP_PADDED, OP_TURNED, .momentum = 0.9, .decay = 0.01, .factor = 0.5},
    {false, 1, {19}, F64, F64, F64, OP_DENSE, OP_DENSE, .momentum = 0.8, .nesterov = true, .buffers = true},
    {false, 1, {19}, F32, CLATTN_BF16, F32, OP_DENSE, OP_DENSE, .momentum = 0.8, .dampening = 0.5, .rate = 0.3},
};

static clattn_status run_step(clattn_context *context, const step_case *c, int step, const op_array *a) {
    const clattn_adam_args adam = {.parameter = a[0].t,
                                   .gradient = a[1].t,
                                   .moment1 = a[2].t,
                                   .moment2 = a[3].t,
                                   .gradient_factor = a[4].t,
                                   .step = step,
                                   .rate = c->rate,
                                   .has_betas = c->has_betas,
                                   .beta1 = c->beta1,
                                   .beta2 = c->beta2,
                                   .epsilon = c->epsilon,
                                   .decay = c->decay,
                                   .decay_gradient = c->decay_gradient};
    const clattn_sgd_args sgd = {.parameter = a[0].t,
                                 .gradient = a[1].t,
                                 .velocity = a[2].t,
                                 .gradient_factor = a[4].t,
                                 .step = step,
                                 .rate = c->rate,
                                 .momentum = c->momentum,
                                 .dampening = c->dampening,
                                 .nesterov = c->nesterov,
                                 .decay = c->decay};
    return c->adam ? clattn_adam_step(context, &adam) : clattn_sgd_step(context, &sgd);
}

static void check_steps(clattn_context *context, const step_case *c, const char *what) {
    clattn_context *owner = c->buffers ? context : NULL;
    oracle_random random = {41};
    const int64_t one[] = {1};
    op_array a[5] = {0};
    a[0] = op_make(owner, c->parameter, c->rank, c->shape, c->layout, NULL, &random);
    if (c->adam || c->momentum > 0)
        a[2] = op_make(owner, c->state, c->rank, c->shape, c->state_layout, NULL, NULL); /* NaN: not read at step 1 */
    if (c->adam)
        a[3] = op_make(owner, c->state, c->rank, c->shape, c->state_layout, NULL, NULL);
    if (c->factor > 0)
        a[4] = op_make(owner, F32, 1, one, OP_DENSE, &c->factor, NULL);
    state *s = calloc((size_t)a[0].count, sizeof *s);
    for (int64_t i = 0; i < a[0].count; i++)
        s[i].parameter = a[0].values[i];
    for (int step = 1; step <= STEPS; step++) {
        a[1] = op_make(owner, c->gradient, c->rank, c->shape, c->layout, NULL, &random);
        SUCCEEDS(run_step(context, c, step, a));
        op_fetch(&a[0], what);
        for (int64_t i = 0; i < a[0].count; i++) {
            s[i] = step_of(c, step, s[i], a[1].values[i]);
            op_expect(&a[0], i, s[i].parameter, oracle_floor(c->parameter == F64 ? F64 : F32, 10), what);
            s[i].parameter = op_value(&a[0], i); /* what its type holds */
        }
        op_free(&a[1]);
    }
    for (int k = 0; k < 5; k++)
        if (a[k].data)
            op_free(&a[k]);
    free(s);
}

Test(optimizer, steps_are_those_of_torch) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            char what[80];
            snprintf(what, sizeof what, "%s, case %zu", op_devices[d], i);
            if (cases[i].parameter != F64 || info.has_f64)
                check_steps(context, &cases[i], what);
        }
        clattn_context_destroy(context);
    }
}

/* With and without decay, at a first step and at a later one: a number would hide that a run has gone wrong. */
Test(optimizer, nan_in_a_parameter_or_a_gradient_stays_in_the_parameter) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int way = 0; way < 8; way++) {
            float parameter[40], gradient[40], moments[2][40] = {{0}};
            for (int i = 0; i < 40; i++)
                parameter[i] = i % 3 == 1 ? NAN : 1, gradient[i] = i % 3 == 2 ? NAN : 0.5F;
            const int64_t shape[] = {40};
            clattn_tensor t[4];
            float *const at[] = {parameter, gradient, moments[0], moments[1]};
            for (int k = 0; k < 4; k++)
                t[k] = clattn_tensor_host(at[k], F32, 1, shape);
            const double decay = way & 1 ? 0.1 : 0;
            const int step = way & 2 ? 3 : 1;
            SUCCEEDS(way & 4 ? clattn_sgd_step(context, &(clattn_sgd_args){.parameter = t[0],
                                                                           .gradient = t[1],
                                                                           .velocity = t[2],
                                                                           .momentum = 0.9,
                                                                           .step = step,
                                                                           .decay = decay})
                             : clattn_adam_step(context, &(clattn_adam_args){.parameter = t[0],
                                                                             .gradient = t[1],
                                                                             .moment1 = t[2],
                                                                             .moment2 = t[3],
                                                                             .step = step,
                                                                             .decay = decay}));
            for (int i = 0; i < 40; i++)
                cr_expect_eq(isnan(parameter[i]) != 0, i % 3 > 0, "%s, way %d, number %d: %g", d ? "cpu" : "opencl",
                             way, i, (double)parameter[i]);
        }
        clattn_context_destroy(context);
    }
}

Test(optimizer, norm_of_all_gradients_and_its_factor) {
    const int64_t one[] = {1}, first[] = {3, 70}, second[] = {5000}, none[] = {0, 4};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        oracle_random random = {7};
        op_array a[] = {op_make(NULL, F32, 2, first, OP_PADDED, NULL, &random),
                        op_make(context, CLATTN_F16, 1, second, OP_DENSE, NULL, &random),
                        op_make(context, F32, 2, none, OP_DENSE, NULL, NULL)};
        op_array norm = op_make(context, F32, 1, one, OP_DENSE, NULL, NULL);
        op_array factor = op_make(NULL, F32, 1, one, OP_DENSE, NULL, NULL);
        const clattn_tensor all[] = {a[0].t, a[1].t, a[2].t};
        double sum = 0;
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < a[k].count; i++)
                sum += a[k].values[i] * a[k].values[i];
        for (int i = 0; i < 3; i++) {
            const double most[] = {0, 3, 1e6};
            const double clip = most[i] / (sqrt(sum) + 1e-6), want = most[i] > 0 && clip < 1 ? clip : 1;
            SUCCEEDS(clattn_gradient_norm(
                context, &(clattn_gradient_norm_args){
                             .gradients = all, .count = 3, .max_norm = most[i], .norm = norm.t, .factor = factor.t}));
            op_fetch(&norm, op_devices[d]);
            op_fetch(&factor, op_devices[d]);
            op_expect(&norm, 0, sqrt(sum), oracle_floor(F32, sqrt(sum)), op_devices[d]);
            op_expect(&factor, 0, want, oracle_floor(F32, 1), op_devices[d]);
        }
        for (int k = 0; k < 3; k++)
            op_free(&a[k]);
        op_free(&norm);
        op_free(&factor);
        clattn_context_destroy(context);
    }
}

/* A row of large logits, a class of probability 0, rows that are ignored, and all of them. */
Test(cross_entropy, is_safe_at_the_edges) {
    enum { M = 4, C = 3 };
    const float logits[M * C] = {1e4F, -1e4F, 0, 1, -INFINITY, 1, NAN, NAN, NAN, 88, 90, 89};
    const int32_t targets[M] = {0, 0, -100, 2};
    const int64_t shape[] = {M, C}, rows[] = {M}, one[] = {1}, two[] = {1, C};
    for (int d = 0; d < OP_DEVICES; d++) {
        float loss = NAN, losses[M], gradient[M * C];
        clattn_context *context = op_open(op_devices[d]);
        clattn_cross_entropy_args args = {.logits = clattn_tensor_host(logits, F32, 2, shape),
                                          .targets = clattn_tensor_host(targets, CLATTN_I32, 1, rows),
                                          .loss = clattn_tensor_host(&loss, F32, 1, one),
                                          .row_losses = clattn_tensor_host(losses, F32, 1, rows),
                                          .d_logits = clattn_tensor_host(gradient, F32, 2, shape),
                                          .has_ignore = true,
                                          .ignore = -100};
        SUCCEEDS(clattn_cross_entropy(context, &args));
        const double last = log(exp(-1) + exp(1) + 1), third = (log(2) + last) / 3;
        const double want[] = {0, log(2), 0, last};
        for (int i = 0; i < M; i++)
            cr_expect_float_eq((double)losses[i], want[i], oracle_floor(F32, 4), "%s: row %d is %g", op_devices[d], i,
                               (double)losses[i]);
        cr_expect_float_eq((double)loss, third, oracle_floor(F32, 4), "%s: %g", op_devices[d], (double)loss);
        const double gradients[] = {0, 0, 0, -0.5 / 3, 0, 0.5 / 3, 0, 0, 0};
        for (int i = 0; i < 3 * C; i++)
            cr_expect_float_eq((double)gradient[i], gradients[i], oracle_floor(F32, 1), "%s: gradient %d is %g",
                               op_devices[d], i, (double)gradient[i]);
        args.logits = clattn_tensor_host(logits + 2 * C, F32, 2, two);
        args.targets = clattn_tensor_host(targets + 2, CLATTN_I32, 1, one);
        args.row_losses = args.d_logits = (clattn_tensor){0};
        SUCCEEDS(clattn_cross_entropy(context, &args));
        cr_expect_eq((double)loss, 0.0, "%s: all rows ignored gave %g", op_devices[d], (double)loss);
        clattn_context_destroy(context);
    }
}

/* Rows without classes: nothing but targets that are ignored, whose losses are zeros. */
Test(cross_entropy, zero_classes) {
    const int32_t targets[6] = {-1, -1, -1, -1, -1, -1};
    const int64_t shape[] = {2, 3, 0}, rows[] = {2, 3}, one[] = {1};
    for (int d = 0; d < OP_DEVICES; d++) {
        float loss = 7, losses[6] = {7, 7, 7, 7, 7, 7};
        clattn_context *context = op_open(op_devices[d]);
        const clattn_cross_entropy_args args = {.logits = clattn_tensor_host(NULL, F32, 3, shape),
                                                .targets = clattn_tensor_host(targets, CLATTN_I32, 2, rows),
                                                .loss = clattn_tensor_host(&loss, F32, 1, one),
                                                .row_losses = clattn_tensor_host(losses, F32, 2, rows),
                                                .d_logits = clattn_tensor_host(NULL, F32, 3, shape),
                                                .has_ignore = true,
                                                .ignore = -1};
        SUCCEEDS(clattn_cross_entropy(context, &args));
        cr_expect_eq((double)loss, 0.0, "%s: %g", op_devices[d], (double)loss);
        for (int i = 0; i < 6; i++)
            cr_expect_eq((double)losses[i], 0.0, "%s: row %d is %g", op_devices[d], i, (double)losses[i]);
        clattn_context_destroy(context);
    }
}

Test(train, bad_calls_are_named_errors) {
    float f[64] = {0};
    int32_t ids[4] = {0, 1, 9, 1};
    const int64_t s24[] = {2, 4}, s34[] = {3, 4}, s4[] = {4}, s2[] = {2}, s1[] = {1};
    const clattn_tensor x = clattn_tensor_host(f, F32, 2, s24), w = clattn_tensor_host(f + 8, F32, 2, s34);
    const clattn_tensor y = clattn_tensor_host(f + 20, F32, 2, s24), n = clattn_tensor_host(ids, CLATTN_I32, 2, s24);
    const clattn_tensor d = clattn_tensor_host(f + 28, F32, 2, s24), b = clattn_tensor_host(f + 40, F32, 1, s4);
    clattn_context *context = op_open("cpu");
    FAILS(clattn_linear_backward(context, &(clattn_linear_backward_args){.d_y = x, .d_x = y}), CLATTN_E_ARGUMENT,
          "w: is missing");
    FAILS(clattn_linear_backward(context, &(clattn_linear_backward_args){.d_y = x, .w = w, .d_x = y}), CLATTN_E_SHAPE,
          "w [3, 4]: should be [4, 4]");
    FAILS(clattn_linear_backward(
              context, &(clattn_linear_backward_args){.d_y = x, .d_bias = b, .activation = CLATTN_ACTIVATION_GELU}),
          CLATTN_E_ARGUMENT, "z: is missing");
    FAILS(clattn_linear_backward(context, &(clattn_linear_backward_args){.d_y = n, .d_bias = b}), CLATTN_E_DTYPE,
          "d_y: is i32");
    FAILS(clattn_norm_backward(context, &(clattn_norm_backward_args){.x = x, .d_y = y, .d_x = y}), CLATTN_E_ARGUMENT,
          "d_x: shares memory with d_y");
    FAILS(clattn_norm_backward(context, &(clattn_norm_backward_args){.x = x, .d_y = y, .axes = 3}), CLATTN_E_SHAPE,
          "3 axes");
    FAILS(clattn_norm_backward(context, &(clattn_norm_backward_args){.x = x, .d_y = y, .d_weight = n}), CLATTN_E_DTYPE,
          "d_weight: is i32");
    FAILS(clattn_activate_backward(context, &(clattn_activate_backward_args){.x = x, .d_y = y, .d_up = d}),
          CLATTN_E_ARGUMENT, "up, which is missing");
    FAILS(clattn_softmax_backward(
              context, &(clattn_softmax_backward_args){.y = x, .d_y = y, .d_x = d, .has_axis = true, .axis = 2}),
          CLATTN_E_SHAPE, "axis 2");
    FAILS(clattn_sum(context, &(clattn_sum_args){.x = x, .y = w}), CLATTN_E_SHAPE, "y [3, 4]: does not broadcast");
    const clattn_tensor four = clattn_tensor_host(ids, CLATTN_I32, 1, s2);
    ids[1] = 9;
    FAILS(clattn_embed_backward(context, &(clattn_embed_backward_args){.ids = four, .d_y = x, .d_table = w}),
          CLATTN_E_ARGUMENT, "ids: number 1 is 9, and the table has 3 rows");
    FAILS(clattn_cross_entropy(context, &(clattn_cross_entropy_args){.logits = x, .targets = four, .d_logits = d}),
          CLATTN_E_ARGUMENT, "targets: number 1 is 9, and logits have 4 classes");
    ids[1] = 1;
    FAILS(clattn_cross_entropy(
              context, &(clattn_cross_entropy_args){.logits = x, .targets = four, .d_logits = d, .smoothing = 1.5}),
          CLATTN_E_ARGUMENT, "smoothing 1.5");
    FAILS(clattn_cross_entropy(context, &(clattn_cross_entropy_args){.logits = x, .targets = four, .loss = b}),
          CLATTN_E_SHAPE, "loss [4]");
    clattn_adam_args adam = {.parameter = x, .gradient = y, .moment1 = d, .moment2 = d, .step = 1};
    FAILS(clattn_adam_step(context, &adam), CLATTN_E_ARGUMENT, "moment2: shares memory with moment1");
    adam.step = 0;
    FAILS(clattn_adam_step(context, &adam), CLATTN_E_ARGUMENT, "step 0");
    adam.step = 1, adam.has_betas = true, adam.beta1 = 1;
    FAILS(clattn_adam_step(context, &adam), CLATTN_E_ARGUMENT, "beta1 1");
    FAILS(clattn_sgd_step(context, &(clattn_sgd_args){.parameter = x, .gradient = y, .step = 1, .momentum = 0.5}),
          CLATTN_E_ARGUMENT, "velocity: is missing");
    FAILS(clattn_sgd_step(context, &(clattn_sgd_args){.parameter = x, .gradient = n, .step = 1}), CLATTN_E_DTYPE,
          "gradient: is i32");
    FAILS(clattn_gradient_norm(context, &(clattn_gradient_norm_args){.gradients = &x, .count = 1, .max_norm = -1}),
          CLATTN_E_ARGUMENT, "max_norm -1");
    const clattn_tensor inside = clattn_tensor_host(f, F32, 1, s1);
    FAILS(clattn_gradient_norm(context, &(clattn_gradient_norm_args){.gradients = &x, .count = 1, .norm = inside}),
          CLATTN_E_ARGUMENT, "norm: shares memory with gradient 0");
    clattn_context_destroy(context);
}

/* Nothing to sum: parameters' gradients are zeros, or stay with accumulate. */
Test(train, zero_sizes) {
    for (int d = 0; d < OP_DEVICES; d++) {
        const int64_t x_shape[] = {0, 3}, w_shape[] = {2, 3}, y_shape[] = {0, 2}, b_shape[] = {2}, e_shape[] = {3};
        const int64_t ids_shape[] = {0}, one[] = {1};
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            float dw[6], db[2], dn[3], dt[6], loss = 7;
            for (int i = 0; i < 6; i++)
                dw[i] = dt[i] = db[i / 3] = dn[i / 2] = 5;
            clattn_context *context = op_open(op_devices[d]);
            const clattn_tensor x = clattn_tensor_host(NULL, F32, 2, x_shape),
                                y = clattn_tensor_host(NULL, F32, 2, y_shape);
            SUCCEEDS(clattn_linear_backward(
                context, &(clattn_linear_backward_args){.x = x,
                                                        .d_y = y,
                                                        .d_w = clattn_tensor_host(dw, F32, 2, w_shape),
                                                        .d_bias = clattn_tensor_host(db, F32, 1, b_shape),
                                                        .accumulate = accumulate}));
            SUCCEEDS(clattn_norm_backward(
                context,
                &(clattn_norm_backward_args){
                    .x = x, .d_y = x, .d_weight = clattn_tensor_host(dn, F32, 1, e_shape), .accumulate = accumulate}));
            SUCCEEDS(clattn_embed_backward(
                context, &(clattn_embed_backward_args){.ids = clattn_tensor_host(NULL, CLATTN_I64, 1, ids_shape),
                                                       .d_y = x,
                                                       .d_table = clattn_tensor_host(dt, F32, 2, w_shape),
                                                       .accumulate = accumulate}));
            SUCCEEDS(clattn_cross_entropy(
                context, &(clattn_cross_entropy_args){.logits = x,
                                                      .targets = clattn_tensor_host(NULL, CLATTN_I64, 1, ids_shape),
                                                      .loss = clattn_tensor_host(&loss, F32, 1, one)}));
            for (int i = 0; i < 6; i++) {
                const float want = accumulate ? 5 : 0;
                cr_expect(dw[i] == want && dt[i] == want && db[i / 3] == want && dn[i / 2] == want,
                          "%s: element %d, accumulate %d", op_devices[d], i, accumulate);
            }
            cr_expect_eq((double)loss, 0.0);
            clattn_context_destroy(context);
        }
    }
}
