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
