/* SPDX-License-Identifier: Apache-2.0 */
/* Encoder layers and stacks on both kinds of contexts, against loops in double. */
#include "layers_oracle.h"

enum { MOST_LAYERS = 6 };

typedef struct {
    plain_stack stack;
    plain_layer plain[MOST_LAYERS];
    clattn_encoder_layer_weights layers[MOST_LAYERS];
    plain_norm norm;
    clattn_encoder_weights weights;
    clattn_encoder *encoder;
} model;

static void make_model(pool *p, const plain_stack *s, int64_t count, bool has_norm, model *m) {
    *m = (model){.stack = *s};
    for (int64_t i = 0; i < count; i++) {
        clattn_decoder_layer_weights w;
        make_layer(p, s, &m->plain[i], &w);
        m->layers[i] = (clattn_encoder_layer_weights){
            .self_attn = w.self_attn, .feedforward = w.feedforward, .norm1 = w.norm1, .norm2 = w.norm2};
    }
    m->weights = (clattn_encoder_weights){.layers = m->layers, .count = count, .has_norm = has_norm};
    if (has_norm)
        make_norm(p, s, &m->norm, &m->weights.norm);
    const clattn_layer_options options = options_of(s);
    SUCCEEDS(clattn_encoder_create(p->context, &m->weights, &options, &m->encoder));
}

/* What the model gives for x, and after each layer. */
static void run_plain(pool *p, const model *m, const plain_call *call, double *x, double **hidden) {
    const int64_t rows = call->B * call->N;
    const size_t bytes = (size_t)(rows * m->stack.E) * sizeof *x;
    for (int64_t i = 0; i < m->weights.count; i++) {
        plain_layer_run(p, &m->stack, &m->plain[i], call, NULL, x);
        hidden[i] = pool_block(p, bytes);
        memcpy(hidden[i], x, bytes);
    }
    if (m->weights.has_norm)
        plain_normalise(&m->stack, &m->norm, x, NULL, x, rows);
}

typedef enum { UNMASKED = 0, CAUSAL, LENGTHS } mask_kind;

static void run_case(pool *p, const plain_stack *s, int64_t count, bool has_norm, int64_t B, int64_t N, mask_kind mask,
                     bool in_place) {
    static const int64_t lengths[] = {2, 5, 0};
    model m;
    double *hidden[MOST_LAYERS];
    clattn_tensor hidden_out[MOST_LAYERS] = {{0}};
    make_model(p, s, count, has_norm, &m);
    const int64_t shape[] = {B, N, s->E};
    double *x = pool_random(p, B * N * s->E, 1);
    clattn_encoder_args args = {.x = pool_tensor(p, x, 3, shape), .hidden = hidden_out};
    args.y = in_place ? args.x : pool_tensor(p, NULL, 3, shape);
    for (int64_t i = 0; i < count; i += 2)
        hidden_out[i] = pool_tensor(p, NULL, 3, shape);
    args.masks.causal = mask == CAUSAL;
    args.masks.key_lengths = mask == LENGTHS ? lengths : NULL;
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    const plain_call call = {.B = B,
                             .N = N,
                             .M = N,
                             .mask = mask == CAUSAL    ? plain_causal
                                     : mask == LENGTHS ? plain_lengths
                                                       : NULL,
                             .mask_data = lengths};
    run_plain(p, &m, &call, x, hidden);
    expect_values(p, &args.y, x, "y");
    for (int64_t i = 0; i < count; i += 2)
        expect_values(p, &hidden_out[i], hidden[i], "hidden");
    clattn_encoder_destroy(m.encoder);
}

static void layers(pool *p) {
    for (int i = 0; i < 12; i++) {
        pool one = *p;
        one.random.state += (uint64_t)i;
        const plain_stack s = {.E = 12,
                               .H = i % 3 ? 3 : 4,
                               .F = 20 + i,
                               .norm_first = i % 2,
                               .no_bias = i % 5 == 4,
                               .gated = i % 7 == 3,
                               .rms = i % 6 == 5,
                               .transposed = i % 4 == 2,
                               .Hk = i % 9 == 8 ? 2 : 0,
                               .activation = (clattn_activation)(i % 5),
                               .epsilon = i % 3 == 1 ? 1e-12 : 0};
        const plain_stack grouped = {.E = 12, .H = 6, .Hk = 2, .F = 9, .norm_first = i % 2};
        run_case(&one, i == 8 ? &grouped : &s, 1, i % 4 == 3, 3, 5 + i % 2, (mask_kind)(i % 3), i % 5 == 1);
        pool_free(&one);
    }
}

Test(encoder, layers_with_norms_after_and_before) { on_devices(layers); }

static void stacks(pool *p) {
    for (int i = 0; i < 2; i++) {
        const plain_stack s = {.E = 32, .H = 4, .F = 48, .norm_first = i == 1, .activation = CLATTN_ACTIVATION_GELU};
        run_case(p, &s, 6, i == 1, 2, 19, i ? CAUSAL : LENGTHS, false);
    }
}

Test(encoder, a_stack_of_six_layers) { on_devices(stacks); }

/* Nothing at position i depends on what stands behind it. */
static void causal(pool *p) {
    model m;
    enum { N = 9, E = 12, CHANGED = 6 };
    const plain_stack s = {.E = E, .H = 3, .F = 16};
    const int64_t shape[] = {1, N, E};
    double *x = pool_random(p, N * E, 1);
    make_model(p, &s, 2, false, &m);
    clattn_encoder_args args = {.x = pool_tensor(p, x, 3, shape), .y = pool_tensor(p, NULL, 3, shape)};
    args.masks.causal = true;
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    const double *before = pool_values(p, &args.y);
    for (int64_t i = CHANGED * E; i < N * E; i++)
        x[i] = oracle_normal(&p->random);
    args.x = pool_tensor(p, x, 3, shape);
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    const double *after = pool_values(p, &args.y);
    for (int64_t i = 0; i < CHANGED * E; i++)
        cr_expect_eq(after[i], before[i]);
    cr_expect_neq(after[CHANGED * E], before[CHANGED * E]);
    clattn_encoder_destroy(m.encoder);
}

Test(encoder, causal_changes_nothing_before) { on_devices(causal); }

static void layouts(pool *p) {
    model m;
    enum { B = 3, N = 4, E = 8 };
    const plain_stack s = {.E = E, .H = 2, .F = 10, .norm_first = true};
    const int64_t shape[] = {B, N, E}, second[] = {N, B, E}, padding_shape[] = {B, N};
    const double *x = pool_random(p, B * N * E, 1), padding[B * N] = {0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 1, 1};
    double *turned = pool_block(p, sizeof(double) * B * N * E);
    clattn_encoder *other = NULL;
    make_model(p, &s, 2, true, &m);
    clattn_layer_options options = options_of(&s);
    options.batch_second = true;
    SUCCEEDS(clattn_encoder_create(p->context, &m.weights, &options, &other));
    for (int64_t i = 0; i < B * N; i++)
        memcpy(turned + (i % N * B + i / N) * E, x + i * E, E * sizeof *x);
    clattn_encoder_args args = {.x = pool_tensor(p, x, 3, shape), .y = pool_tensor(p, NULL, 3, shape)};
    args.masks.key_padding = pool_typed(p, CLATTN_BOOL, padding, 2, padding_shape);
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    const double *want = pool_values(p, &args.y);
    args.x = pool_tensor(p, turned, 3, second);
    args.y = pool_tensor(p, NULL, 3, second);
    SUCCEEDS(clattn_encoder_run(other, &args));
    const double *got = pool_values(p, &args.y);
    for (int64_t i = 0; i < B * N * E; i++)
        cr_expect_float_eq(got[(i / E % N * B + i / E / N) * E + i % E], want[i], 1e-5, "batch second");
    args = (clattn_encoder_args){.x = pool_tensor(p, x + 2 * N * E, 2, shape + 1),
                                 .y = pool_tensor(p, NULL, 2, shape + 1)};
    args.masks.key_padding = pool_typed(p, CLATTN_BOOL, padding + 2 * N, 1, padding_shape + 1);
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    got = pool_values(p, &args.y);
    for (int64_t i = 0; i < N * E; i++)
        cr_expect_float_eq(got[i], want[2 * N * E + i], 1e-5, "unbatched");
    for (int64_t i = N * E; i < 2 * N * E; i++)
        cr_expect(isfinite(want[i]), "a dead batch");
    clattn_encoder_destroy(m.encoder);
    clattn_encoder_destroy(other);
}

Test(encoder, batch_second_unbatched_and_a_dead_batch) { on_devices(layouts); }

static void half_storage(pool *p) {
    model m;
    enum { B = 2, N = 5, E = 16 };
    const plain_stack s = {.E = E, .H = 2, .F = 24};
    const int64_t shape[] = {B, N, E};
    if (p->dtype != CLATTN_F32)
        return;
    pool half = *p;
    half.dtype = CLATTN_F16;
    double *x = pool_random(&half, B * N * E, 1), *hidden[MOST_LAYERS];
    make_model(&half, &s, 2, false, &m);
    clattn_encoder_args args = {.x = pool_tensor(&half, x, 3, shape), .y = pool_tensor(&half, NULL, 3, shape)};
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    run_plain(&half, &m, &(plain_call){.B = B, .N = N, .M = N}, x, hidden);
    expect_values(&half, &args.y, x, "f16"); /* f32 between the parts */
    clattn_encoder_destroy(m.encoder);
    pool_free(&half);
}

Test(encoder, storage_in_halves) { on_devices(half_storage); }

/* Names of layers, each with one weight; what loading says. */
static void expect_load(pool *p, const char *const *names, const char *prefix, const char *text) {
    clattn_parameters *all = NULL;
    clattn_encoder *encoder = NULL;
    float eight[8] = {0};
    const clattn_array array = {.data = eight, .bytes = sizeof eight, .dtype = CLATTN_F32, .rank = 1, .shape = {8}};
    const clattn_layer_options options = {.heads = 2};
    SUCCEEDS(clattn_parameters_create(p->context, &all));
    for (; *names; names++)
        SUCCEEDS(clattn_parameters_add(all, *names, &array, NULL));
    FAILS(clattn_encoder_load(p->context, all, prefix, &options, &encoder), CLATTN_E_ARGUMENT, text);
    clattn_parameters_destroy(all);
}

Test(encoder, a_gap_between_layers_is_refused) {
    pool p = {0};
    const char *const gap[] = {"e.layers.0.norm1.weight", "e.layers.2.norm1.weight", NULL};
    const char *const no_first[] = {"layers.10.norm1.weight", NULL};
    const char *const whole[] = {"e.layers.0.norm1.weight", "e.layers.1.norm1.weight", "layers.3.norm1.weight",
                                 "e.layers.x.norm1.weight", "e.layers.7norm",          NULL};
    SUCCEEDS(clattn_context_create("cpu", NULL, &p.context));
    expect_load(&p, gap, "e.", "there is \"e.layers.2.norm1.weight\", and no weight of the layer \"e.layers.1.\"");
    expect_load(&p, no_first, NULL, "there is \"layers.10.norm1.weight\", and no weight of the layer \"layers.0.\"");
    expect_load(&p, whole, "e.", "there is no \"e.layers.0.self_attn.in_proj_weight\"");
    clattn_context_destroy(p.context);
}

Test(encoder, errors_name_the_layer_the_tensor_and_the_numbers) {
    clattn_context *cpu = NULL;
    clattn_encoder *encoder = NULL;
    model m;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    pool p = {.context = cpu};
    const plain_stack s = {.E = 8, .H = 2, .F = 12};
    make_model(&p, &s, 3, true, &m);
    clattn_layer_options options = options_of(&s);
    cr_expect_eq(clattn_encoder_layer_count(m.encoder), 3);
    cr_expect_eq(clattn_encoder_parameter_count(m.encoder), 3 * (4 * 64 + 32 + 2 * 96 + 20 + 32) + 16);
    m.layers[1].feedforward.linear2_bias = m.layers[0].feedforward.linear1_bias;
    FAILS(clattn_encoder_create(cpu, &m.weights, &options, &encoder), CLATTN_E_SHAPE,
          "encoder: layer 1: feedforward: linear2_bias [12]: should be [8]");
    m.layers[1] = m.layers[0];
    m.layers[2].norm2.weight = m.layers[0].self_attn.in_bias;
    FAILS(clattn_encoder_create(cpu, &m.weights, &options, &encoder), CLATTN_E_SHAPE,
          "encoder: layer 2: norm2: weight [24]: should be [8]");
    m.weights.count = 0;
    FAILS(clattn_encoder_create(cpu, &m.weights, &options, &encoder), CLATTN_E_ARGUMENT, "0 layers");
    FAILS(clattn_encoder_create(cpu, NULL, &options, &encoder), CLATTN_E_ARGUMENT, "weights is NULL");
    cr_expect_null(encoder);
    const int64_t shape[] = {2, 3, 8}, narrow[] = {2, 3, 7}, shorter[] = {2, 2, 8}, none[] = {0, 3, 8};
    clattn_encoder_args args = {.x = pool_tensor(&p, NULL, 3, narrow), .y = pool_tensor(&p, NULL, 3, narrow)};
    FAILS(clattn_encoder_run(m.encoder, &args), CLATTN_E_SHAPE, "encoder: x [2, 3, 7]: its last axis should be 8");
    args.x = pool_tensor(&p, NULL, 3, shape);
    args.y = pool_tensor(&p, NULL, 3, shorter);
    FAILS(clattn_encoder_run(m.encoder, &args), CLATTN_E_SHAPE, "y [2, 2, 8]: should have the shape of x [2, 3, 8]");
    args.y = args.x;
    args.masks.attn = pool_typed(&p, CLATTN_BOOL, NULL, 2, shape);
    FAILS(clattn_encoder_run(m.encoder, &args), CLATTN_E_SHAPE, "encoder: attn mask [2, 3]");
    args = (clattn_encoder_args){.x = pool_tensor(&p, NULL, 3, none), .y = pool_tensor(&p, NULL, 3, none)};
    SUCCEEDS(clattn_encoder_run(m.encoder, &args));
    FAILS(clattn_encoder_run(m.encoder, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    clattn_encoder_destroy(m.encoder);
    clattn_encoder_destroy(NULL);
    pool_free(&p);
    clattn_context_destroy(cpu);
}
