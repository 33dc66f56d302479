/* SPDX-License-Identifier: Apache-2.0 */
/* Decoder layers and stacks on both kinds of contexts: against loops in double, and token by token with caches against
 * one pass. */
#include "layers_oracle.h"

enum { MOST_LAYERS = 6 };

typedef struct {
    plain_stack stack;
    plain_layer plain[MOST_LAYERS];
    clattn_decoder_layer_weights layers[MOST_LAYERS];
    plain_norm norm;
    clattn_decoder_weights weights;
    clattn_decoder *decoder;
} model;

static void make_model(pool *p, const plain_stack *s, int64_t count, bool has_norm, model *m) {
    *m = (model){.stack = *s};
    for (int64_t i = 0; i < count; i++)
        make_layer(p, s, &m->plain[i], &m->layers[i]);
    m->weights = (clattn_decoder_weights){.layers = m->layers, .count = count, .has_norm = has_norm};
    if (has_norm)
        make_norm(p, s, &m->norm, &m->weights.norm);
    const clattn_layer_options options = options_of(s);
    SUCCEEDS(clattn_decoder_create(p->context, &m->weights, &options, &m->decoder));
}

static const int64_t lengths[] = {4, 7, 0};

/* Causal, with a memory whose batches have lengths. */
static void run_plain(pool *p, const model *m, int64_t B, int64_t N, int64_t M, const double *memory, double *x) {
    const plain_call self = {.B = B, .N = N, .M = N, .mask = plain_causal};
    const plain_call cross = {.B = B, .N = N, .M = M, .key = memory, .mask = plain_lengths, .mask_data = lengths};
    for (int64_t i = 0; i < m->weights.count; i++)
        plain_layer_run(p, &m->stack, &m->plain[i], &self, &cross, x);
    if (m->weights.has_norm)
        plain_normalise(&m->stack, &m->norm, x, NULL, x, B * N);
}

static clattn_decoder_args args_of(pool *p, int64_t B, int64_t N, int64_t M, int64_t E, const double *x,
                                   const double *memory) {
    const int64_t shape[] = {B, N, E}, memory_shape[] = {B, M, E};
    return (clattn_decoder_args){.x = pool_tensor(p, x, 3, shape),
                                 .y = pool_tensor(p, NULL, 3, shape),
                                 .memory = pool_tensor(p, memory, 3, memory_shape),
                                 .masks = {.causal = true},
                                 .memory_masks = {.key_lengths = lengths}};
}

/* Tokens [first, first + count) of x with the cache; into y. */
static void step(const model *m, const clattn_decoder_args *whole, clattn_decoder_cache *cache, int64_t first,
                 int64_t count) {
    clattn_decoder_args args = *whole;
    args.x = clattn_tensor_slice(whole->x, 1, first, count);
    args.y = clattn_tensor_slice(whole->y, 1, first, count);
    args.cache = cache;
    args.masks = (clattn_module_masks){0}; /* causal by itself */
    if (first > 0)
        args.memory = (clattn_tensor){0};
    SUCCEEDS(clattn_decoder_run(m->decoder, &args));
    cr_expect_eq(clattn_decoder_cache_length(cache), first + count);
}

static void check_cached(pool *p, const model *m, const clattn_decoder_args *whole, const double *want) {
    clattn_decoder_cache *cache = NULL;
    clattn_decoder_args args = *whole;
    const int64_t N = whole->x.shape[1];
    const clattn_decoder_cache_options options = {.batch = whole->x.shape[0], .capacity = N};
    SUCCEEDS(clattn_decoder_cache_create(m->decoder, &options, &cache));
    args.y = pool_tensor(p, NULL, 3, whole->x.shape);
    for (int64_t i = 0; i < N; i++)
        step(m, &args, cache, i, 1);
    expect_values(p, &args.y, want, "token by token");
    SUCCEEDS(clattn_decoder_cache_truncate(cache, 0));
    args.y = pool_tensor(p, NULL, 3, whole->x.shape);
    for (int64_t i = 0; i < N; i += 3) /* some at once */
        step(m, &args, cache, i, N - i < 3 ? N - i : 3);
    expect_values(p, &args.y, want, "three at a time");
    args = *whole;
    args.cache = cache;
    FAILS(clattn_decoder_run(m->decoder, &args), CLATTN_E_LIMIT, "targets, and");
    clattn_decoder_cache_destroy(cache);
}

static void run_case(pool *p, const plain_stack *s, int64_t count, bool has_norm, int64_t B, int64_t N, int64_t M) {
    model m;
    make_model(p, s, count, has_norm, &m);
    double *x = pool_random(p, B * N * s->E, 1);
    const double *memory = pool_random(p, B * M * s->E, 1);
    const clattn_decoder_args args = args_of(p, B, N, M, s->E, x, memory);
    SUCCEEDS(clattn_decoder_run(m.decoder, &args));
    run_plain(p, &m, B, N, M, memory, x);
    expect_values(p, &args.y, x, "one pass");
    check_cached(p, &m, &args, x);
    clattn_decoder_destroy(m.decoder);
}

static void layers(pool *p) {
    for (int i = 0; i < 8; i++) {
        pool one = *p;
        one.random.state += (uint64_t)i;
        const plain_stack s = {.decoder = true,
                               .E = 12,
                               .H = i == 5 ? 6 : 3,
                               .Hk = i == 5 ? 2 : 0,
                               .F = 20 + i,
                               .norm_first = i % 2,
                               .no_bias = i == 4,
                               .gated = i == 3,
                               .rms = i == 6,
                               .transposed = i % 4 == 2,
                               .activation = (clattn_activation)(i % 5)};
        run_case(&one, &s, 1, i % 4 == 3, 3, 5, 7);
        pool_free(&one);
    }
}

Test(decoder, layers_in_one_pass_and_token_by_token) { on_devices(layers); }

static void stacks(pool *p) {
    for (int i = 0; i < 2; i++) {
        pool one = *p;
        const plain_stack s = {
            .decoder = true, .E = 24, .H = 4, .F = 40, .norm_first = i == 1, .activation = CLATTN_ACTIVATION_GELU};
        run_case(&one, &s, 6, i == 1, 2, 7, 9);
        pool_free(&one);
    }
}

Test(decoder, a_stack_of_six_layers_in_one_pass_and_token_by_token) { on_devices(stacks); }

/* Both masks of a memory given twice, and a mask of the targets; a cache in halves. */
static void masks(pool *p) {
    model m;
    enum { B = 2, N = 4, M = 5, E = 8 };
    const plain_stack s = {.decoder = true, .E = E, .H = 2, .F = 10};
    const int64_t square[] = {N, N}, memory_mask[] = {N, M}, padding_shape[] = {B, M};
    const double *memory = pool_random(p, B * M * E, 1);
    double *x = pool_random(p, B * N * E, 1), causal[N * N], none[N * M] = {0}, padding[B * M] = {0};
    make_model(p, &s, 1, false, &m);
    for (int i = 0; i < N * N; i++)
        causal[i] = i % N > i / N;
    for (int i = 0; i < B * M; i++)
        padding[i] = i % M >= lengths[i / M];
    clattn_decoder_args args = args_of(p, B, N, M, E, x, memory);
    args.masks = (clattn_module_masks){.attn = pool_typed(p, CLATTN_BOOL, causal, 2, square)};
    args.memory_masks = (clattn_module_masks){.attn = pool_typed(p, CLATTN_BOOL, none, 2, memory_mask),
                                              .key_padding = pool_typed(p, CLATTN_BOOL, padding, 2, padding_shape)};
    SUCCEEDS(clattn_decoder_run(m.decoder, &args));
    run_plain(p, &m, B, N, M, memory, x);
    expect_values(p, &args.y, x, "masks");
    clattn_decoder_destroy(m.decoder);
}

Test(decoder, masks_of_targets_and_of_memory) { on_devices(masks); }

static void half_cache(pool *p) {
    model m;
    enum { B = 1, N = 6, M = 4, E = 16 };
    const plain_stack s = {.decoder = true, .E = E, .H = 2, .F = 24};
    clattn_decoder_cache *cache = NULL;
    if (p->dtype != CLATTN_F32)
        return;
    make_model(p, &s, 1, false, &m);
    const clattn_decoder_args args = args_of(p, B, N, M, E, pool_random(p, B * N * E, 1), pool_random(p, B * M * E, 1));
    SUCCEEDS(clattn_decoder_run(m.decoder, &args));
    const double *want = pool_values(p, &args.y);
    const clattn_decoder_cache_options options = {.batch = B, .capacity = 9, .has_dtype = true, .dtype = CLATTN_F16};
    SUCCEEDS(clattn_decoder_cache_create(m.decoder, &options, &cache));
    for (int64_t i = 0; i < N; i++)
        step(&m, &args, cache, i, 1);
    const double *got = pool_values(p, &args.y), most = module_allowed(CLATTN_F16, want, B * N * E);
    for (int64_t i = 0; i < B * N * E; i++)
        cr_expect(fabs(got[i] - want[i]) <= most, "%g, not %g", got[i], want[i]);
    clattn_decoder_cache_destroy(cache);
    clattn_decoder_destroy(m.decoder);
}

Test(decoder, a_cache_in_halves) { on_devices(half_cache); }

Test(decoder, errors_name_the_tensor_and_the_numbers) {
    clattn_context *cpu = NULL;
    clattn_decoder *decoder = NULL;
    clattn_decoder_cache *cache = NULL;
    model m, other;
    enum { B = 2, N = 3, M = 4, E = 8 };
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    pool p = {.context = cpu};
    const plain_stack s = {.decoder = true, .E = E, .H = 2, .F = 12};
    make_model(&p, &s, 2, true, &m);
    make_model(&p, &s, 1, true, &other);
    const clattn_layer_options options = options_of(&s);
    cr_expect_eq(clattn_decoder_layer_count(m.decoder), 2);
    cr_expect_eq(clattn_decoder_parameter_count(m.decoder), 2 * (8 * 64 + 64 + 2 * 96 + 20 + 48) + 16);
    const clattn_decoder_args good =
        args_of(&p, B, N, M, E, pool_random(&p, B * N * E, 1), pool_random(&p, B * M * E, 1));
    clattn_decoder_args args = good;
    args.memory_masks = (clattn_module_masks){0};
    args.memory = (clattn_tensor){0};
    FAILS(clattn_decoder_run(m.decoder, &args), CLATTN_E_ARGUMENT, "decoder: memory is missing");
    args.memory = pool_tensor(&p, NULL, 3, (const int64_t[]){3, M, E});
    FAILS(clattn_decoder_run(m.decoder, &args), CLATTN_E_SHAPE, "memory [3, 4, 8]: should have a batch of 2");
    args = good;
    args.memory_masks.key_padding = pool_typed(&p, CLATTN_BOOL, NULL, 2, (const int64_t[]){B, N});
    FAILS(clattn_decoder_run(m.decoder, &args), CLATTN_E_SHAPE, "memory key_padding mask [2, 3]");
    clattn_decoder_cache_options room = {.batch = B, .capacity = 2};
    SUCCEEDS(clattn_decoder_cache_create(m.decoder, &room, &cache));
    args = good;
    args.cache = cache;
    FAILS(clattn_decoder_run(m.decoder, &args), CLATTN_E_LIMIT, "holds 0 of 2 targets, and 3 more do not fit");
    FAILS(clattn_decoder_run(other.decoder, &args), CLATTN_E_ARGUMENT, "belongs to another decoder");
    args.x = clattn_tensor_slice(args.x, 1, 0, 1);
    args.y = clattn_tensor_slice(args.y, 1, 0, 1);
    args.memory = (clattn_tensor){0};
    FAILS(clattn_decoder_run(m.decoder, &args), CLATTN_E_ARGUMENT, "the cache has none of an earlier call");
    FAILS(clattn_decoder_cache_truncate(cache, 1), CLATTN_E_ARGUMENT, "to 1 targets; it holds 0");
    clattn_decoder_cache_destroy(cache);
    room.batch = -1;
    FAILS(clattn_decoder_cache_create(m.decoder, &room, &cache), CLATTN_E_ARGUMENT, "a batch of -1");
    room = (clattn_decoder_cache_options){.batch = 1, .capacity = 1, .has_dtype = true, .dtype = CLATTN_Q8_0};
    FAILS(clattn_decoder_cache_create(m.decoder, &room, &cache), CLATTN_E_DTYPE, "is of q8_0");
    m.layers[1].cross_attn.out = m.layers[1].feedforward.linear1;
    FAILS(clattn_decoder_create(cpu, &m.weights, &options, &decoder), CLATTN_E_SHAPE, "decoder: layer 1: cross_attn: ");
    cr_expect_null(decoder);
    cr_expect_null(cache);
    clattn_decoder_destroy(m.decoder);
    clattn_decoder_destroy(other.decoder);
    clattn_decoder_destroy(NULL);
    clattn_decoder_cache_destroy(NULL);
    pool_free(&p);
    clattn_context_destroy(cpu);
}
