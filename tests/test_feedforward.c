/* SPDX-License-Identifier: Apache-2.0 */
/* Feed-forward on both kinds of contexts, against loops in double. */
#include "layers_oracle.h"

static void run_case(pool *p, const plain_stack *s, int rank, const int64_t *shape, bool in_place) {
    plain_layer layer;
    clattn_feedforward_weights w;
    clattn_feedforward *feedforward = NULL;
    make_feed(p, s, &layer, &w);
    const clattn_feedforward_options options = {.activation = s->activation};
    const int64_t rows = product(rank - 1, shape);
    const double *x = pool_random(p, rows * s->E, 1);
    double *want = pool_block(p, (size_t)(rows * s->E) * sizeof *want);
    const clattn_tensor in = pool_tensor(p, x, rank, shape), out = in_place ? in : pool_tensor(p, NULL, rank, shape);
    SUCCEEDS(clattn_feedforward_create(p->context, &w, &options, &feedforward));
    SUCCEEDS(clattn_feedforward_run(feedforward, &in, &out));
    plain_feed(p, s, &layer, x, want, rows);
    expect_values(p, &out, want, clattn_activation_name(s->activation));
    const int64_t bias = s->no_bias ? 0 : s->F + s->E + (s->gated ? s->F : 0);
    cr_expect_eq(clattn_feedforward_parameter_count(feedforward), (s->gated ? 3 : 2) * s->E * s->F + bias);
    clattn_feedforward_destroy(feedforward);
}

static void values(pool *p) {
    static const clattn_activation activations[] = {CLATTN_ACTIVATION_NONE, CLATTN_ACTIVATION_RELU,
                                                    CLATTN_ACTIVATION_GELU, CLATTN_ACTIVATION_GELU_TANH,
                                                    CLATTN_ACTIVATION_SILU};
    for (int i = 0; i < 20; i++) {
        const plain_stack s = {.E = 7 + i % 3,
                               .F = 19,
                               .activation = activations[i % 5],
                               .gated = i / 5 % 2,
                               .no_bias = i % 4 == 3,
                               .transposed = i % 3 == 2};
        const int64_t shape[] = {2, 3, 5, s.E};
        const int rank = 1 + i % 4;
        run_case(p, &s, rank, shape + 4 - rank, i % 6 == 1);
    }
}

Test(feedforward, activations_gates_and_ranks) { on_devices(values); }

static void add_named(pool *p, clattn_parameters *all, const char *name, const double *values, int rank,
                      const int64_t *shape) {
    const size_t count = (size_t)product(rank, shape);
    clattn_array array = {.bytes = count * sizeof(float), .dtype = CLATTN_F32, .rank = rank};
    if (!values)
        return;
    array.data = pool_block(p, array.bytes);
    memcpy(array.shape, shape, (size_t)rank * sizeof *shape);
    SUCCEEDS(clattn_convert(array.data, CLATTN_F32, values, CLATTN_F64, count));
    SUCCEEDS(clattn_parameters_add(all, name, &array, NULL));
}

static void load_case(pool *p, bool no_bias) {
    const plain_stack s = {.E = 6, .F = 10, .activation = CLATTN_ACTIVATION_GELU, .no_bias = no_bias};
    const int64_t inner[] = {s.F, s.E}, outer[] = {s.E, s.F}, shape[] = {3, s.E};
    const clattn_feedforward_options options = {.activation = s.activation};
    clattn_parameters *all = NULL;
    clattn_feedforward *feedforward = NULL;
    plain_layer layer;
    clattn_feedforward_weights unused;
    make_feed(p, &s, &layer, &unused);
    SUCCEEDS(clattn_parameters_create(p->context, &all));
    add_named(p, all, "a.linear1.weight", layer.linear1, 2, inner);
    add_named(p, all, "a.linear1.bias", layer.linear1_bias, 1, &s.F);
    FAILS(clattn_feedforward_load(p->context, all, "a.", &options, &feedforward), CLATTN_E_ARGUMENT,
          "\"a.\": parameters: there is no \"a.linear2.weight\"");
    add_named(p, all, "a.linear2.weight", layer.linear2, 2, outer);
    add_named(p, all, "a.linear2.bias", layer.linear2_bias, 1, &s.E);
    SUCCEEDS(clattn_feedforward_load(p->context, all, "a.", &options, &feedforward));
    cr_expect_eq(clattn_feedforward_parameter_count(feedforward), clattn_parameters_elements(all, "a."));
    const double *x = pool_random(p, 3 * s.E, 1);
    double *want = pool_block(p, (size_t)(3 * s.E) * sizeof *want);
    const clattn_tensor in = pool_tensor(p, x, 2, shape), out = pool_tensor(p, NULL, 2, shape);
    SUCCEEDS(clattn_feedforward_run(feedforward, &in, &out));
    plain_feed(p, &s, &layer, x, want, 3);
    expect_values(p, &out, want, "loaded");
    clattn_feedforward_destroy(feedforward);
    clattn_parameters_destroy(all);
}

static void by_names(pool *p) {
    if (p->dtype != CLATTN_F32)
        return;
    for (int i = 0; i < 2; i++)
        load_case(p, i);
}

Test(feedforward, weights_are_found_by_the_names_of_pytorch) { on_devices(by_names); }

Test(feedforward, loading_without_parameters_is_refused) {
    clattn_feedforward *feedforward = NULL;
    clattn_feedforward_weights weights;
    FAILS(clattn_feedforward_load(NULL, NULL, "a.", NULL, &feedforward), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_feedforward_load(NULL, NULL, "a.", NULL, NULL), CLATTN_E_ARGUMENT, "feedforward is NULL");
    FAILS(clattn_feedforward_weights_find(NULL, NULL, &weights), CLATTN_E_ARGUMENT, "parameters is NULL");
    cr_expect_null(feedforward);
}

Test(feedforward, errors_name_the_tensor_and_the_numbers) {
    clattn_context *cpu = NULL;
    clattn_feedforward *feedforward = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    pool p = {.context = cpu};
    const plain_stack s = {.E = 6, .F = 8};
    plain_layer layer;
    clattn_feedforward_weights good, w;
    make_feed(&p, &s, &layer, &good);
    w = good;
    w.linear2 = good.linear1;
    FAILS(clattn_feedforward_create(cpu, &w, NULL, &feedforward), CLATTN_E_SHAPE, "linear2 [8, 6]: has 6 inputs");
    w = good;
    w.linear1_bias = good.linear2_bias;
    FAILS(clattn_feedforward_create(cpu, &w, NULL, &feedforward), CLATTN_E_SHAPE, "linear1_bias [6]: should be [8]");
    w = good;
    w.linear1 = (clattn_tensor){0};
    FAILS(clattn_feedforward_create(cpu, &w, NULL, &feedforward), CLATTN_E_ARGUMENT, "linear1: is missing");
    w = good;
    w.gate = good.linear2;
    FAILS(clattn_feedforward_create(cpu, &w, NULL, &feedforward), CLATTN_E_SHAPE, "gate [6, 8]");
    w = good;
    w.gate_bias = good.linear1_bias;
    FAILS(clattn_feedforward_create(cpu, &w, NULL, &feedforward), CLATTN_E_ARGUMENT, "and no gate");
    cr_expect_null(feedforward);
    SUCCEEDS(clattn_feedforward_create(cpu, &good, NULL, &feedforward));
    const int64_t shape[] = {2, 5}, none[] = {0, 6};
    const clattn_tensor x = pool_tensor(&p, NULL, 2, shape), empty = pool_tensor(&p, NULL, 2, none);
    FAILS(clattn_feedforward_run(feedforward, &x, &x), CLATTN_E_SHAPE, "x [2, 5]");
    FAILS(clattn_feedforward_run(feedforward, NULL, &x), CLATTN_E_ARGUMENT, "is NULL");
    SUCCEEDS(clattn_feedforward_run(feedforward, &empty, &empty));
    clattn_feedforward_destroy(feedforward);
    clattn_feedforward_destroy(NULL);
    pool_free(&p);
    clattn_context_destroy(cpu);
}
