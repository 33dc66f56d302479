/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in buffers of another context: modules refuse each of them by its name. On `cpu` contexts, since the checks
 * are the host's. */
#include "layers_oracle.h"

enum { B = 2, N = 3, M = 4, E = 8, H = 2, F = 6 };

typedef struct {
    clattn_tensor *tensor;
    const char *name; /* in the message */
} place;

typedef clattn_status (*run_module)(void *module);

/* Each place in turn lies in the other context; nothing else does. */
static void refuse_each(clattn_context *other, const place *places, size_t count, run_module run, void *module) {
    for (size_t i = 0; i < count; i++) {
        clattn_tensor *t = places[i].tensor;
        clattn_buffer *const own = t->buffer;
        cr_assert_not_null(own, "%s", places[i].name);
        SUCCEEDS(clattn_buffer_create(other, clattn_buffer_bytes(own), &t->buffer));
        const clattn_status status = run(module);
        cr_expect_eq(status, CLATTN_E_ARGUMENT, "%s: status %d", places[i].name, (int)status);
        cr_expect(status == CLATTN_OK || (strstr(clattn_last_error(), "belongs to another context") &&
                                          strstr(clattn_last_error(), places[i].name)),
                  "%s: \"%s\"", places[i].name, clattn_last_error());
        clattn_buffer_destroy(t->buffer);
        t->buffer = own;
    }
    SUCCEEDS(run(module));
}

typedef struct {
    pool p;
    clattn_context *other;
} two;

static two open_two(void) {
    two t = {.p = {.buffers = true, .random = {7}}};
    SUCCEEDS(clattn_context_create("cpu", NULL, &t.p.context));
    SUCCEEDS(clattn_context_create("cpu", NULL, &t.other));
    return t;
}

static void close_two(two *t) {
    pool_free(&t->p);
    clattn_context_destroy(t->p.context);
    clattn_context_destroy(t->other);
}

static clattn_tensor rows_of(pool *p, int64_t rows) {
    const int64_t shape[] = {B, rows, E};
    return pool_tensor(p, pool_random(p, B * rows * E, 1), 3, shape);
}

static clattn_tensor zeros_of(pool *p, clattn_dtype dtype, int64_t rows, int64_t columns) {
    const int64_t shape[] = {rows, columns};
    return pool_typed(p, dtype, pool_block(p, (size_t)(rows * columns) * sizeof(double)), 2, shape);
}

/* ---- multi-head attention ---- */

typedef struct {
    clattn_context *context;
    clattn_multihead_weights weights;
    clattn_multihead_options options;
    clattn_multihead_args args;
} heads_call;

static clattn_status run_heads(void *module) {
    const heads_call *c = module;
    clattn_multihead *multihead = NULL;
    clattn_status status = clattn_multihead_create(c->context, &c->weights, &c->options, &multihead);
    if (status == CLATTN_OK)
        status = clattn_multihead_run(multihead, &c->args);
    clattn_multihead_destroy(multihead);
    return status;
}

static heads_call heads_of(pool *p, const heads_kind *kind) {
    const int64_t weights[] = {B, H, N, M + kind->bias_kv};
    plain_heads plain;
    heads_call c = {.context = p->context, .options = {.heads = H}};
    make_heads(p, E, H, kind, &plain, &c.weights);
    c.args = (clattn_multihead_args){.query = rows_of(p, N),
                                     .key = rows_of(p, M),
                                     .value = rows_of(p, M),
                                     .y = rows_of(p, N),
                                     .weights = pool_tensor(p, NULL, 4, weights)};
    return c;
}

Test(foreign, tensors_and_weights_of_multihead_attention) {
    two t = open_two();
    heads_call c = heads_of(&t.p, &(heads_kind){.separate = true, .bias_kv = true});
    const place places[] = {{&c.args.query, "multihead: query"},
                            {&c.args.key, "multihead: key"},
                            {&c.args.value, "multihead: value"},
                            {&c.args.y, "multihead: y"},
                            {&c.args.weights, "weights"},
                            {&c.weights.q, "projection of queries: w"},
                            {&c.weights.k, "projection of keys: w"},
                            {&c.weights.v, "projection of values: w"},
                            {&c.weights.q_bias, "projection of queries: bias"},
                            {&c.weights.k_bias, "projection of keys: bias"},
                            {&c.weights.v_bias, "projection of values: bias"},
                            {&c.weights.out, "projection of the result: w"},
                            {&c.weights.out_bias, "projection of the result: bias"},
                            {&c.weights.bias_k, "keys behind the others: bias"},
                            {&c.weights.bias_v, "keys behind the others: bias"}};
    refuse_each(t.other, places, sizeof places / sizeof *places, run_heads, &c);
    heads_call packed = heads_of(&t.p, &(heads_kind){0});
    const place of_packed[] = {{&packed.weights.in_proj, ": w"}, {&packed.weights.in_bias, ": bias"}};
    refuse_each(t.other, of_packed, 2, run_heads, &packed);
    close_two(&t);
}

/* Masks that attention reads, and such as become one on the host: two that are added, two booleans, with bias_k. */
Test(foreign, masks_joined_or_not) {
    static const struct {
        clattn_dtype attn, padding;
        bool bias_kv;
    } cases[] = {{CLATTN_BOOL, CLATTN_F32, false}, {CLATTN_F32, CLATTN_BOOL, false}, {CLATTN_F32, CLATTN_F32, false},
                 {CLATTN_U8, CLATTN_BOOL, false},  {CLATTN_BOOL, CLATTN_F32, true},  {CLATTN_F64, CLATTN_BOOL, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        two t = open_two();
        heads_call c = heads_of(&t.p, &(heads_kind){.bias_kv = cases[i].bias_kv});
        c.args.masks.attn = zeros_of(&t.p, cases[i].attn, N, M);
        c.args.masks.key_padding = zeros_of(&t.p, cases[i].padding, B, M);
        const place places[] = {{&c.args.masks.attn, "multihead: attn mask: its buffer"},
                                {&c.args.masks.key_padding, "multihead: key_padding mask: its buffer"}};
        refuse_each(t.other, places, 2, run_heads, &c);
        close_two(&t);
    }
}

/* ---- layers ---- */

typedef struct {
    clattn_context *context;
    clattn_decoder_layer_weights layer;
    clattn_decoder_weights weights;
    clattn_layer_options options;
    clattn_decoder_args args;
} layer_call;

static clattn_status run_decoder(void *module) {
    layer_call *c = module;
    clattn_decoder *decoder = NULL;
    c->weights.layers = &c->layer;
    clattn_status status = clattn_decoder_create(c->context, &c->weights, &c->options, &decoder);
    if (status == CLATTN_OK)
        status = clattn_decoder_run(decoder, &c->args);
    clattn_decoder_destroy(decoder);
    return status;
}

Test(foreign, tensors_and_weights_of_layers) {
    two t = open_two();
    pool *p = &t.p;
    const plain_stack s = {.E = E, .H = H, .F = F, .decoder = true};
    plain_layer plain;
    plain_norm norm;
    layer_call c = {.context = p->context, .weights = {.count = 1, .has_norm = true}, .options = options_of(&s)};
    make_layer(p, &s, &plain, &c.layer);
    make_norm(p, &s, &norm, &c.weights.norm);
    c.args = (clattn_decoder_args){.x = rows_of(p, N), .memory = rows_of(p, M), .y = rows_of(p, N)};
    c.args.masks.attn = zeros_of(p, CLATTN_BOOL, N, N);
    c.args.memory_masks.attn = zeros_of(p, CLATTN_F32, N, M);
    c.args.memory_masks.key_padding = zeros_of(p, CLATTN_F32, B, M);
    const place places[] = {{&c.args.x, "decoder: x: its buffer"},
                            {&c.args.y, "decoder: y: its buffer"},
                            {&c.args.memory, "decoder: memory: its buffer"},
                            {&c.args.masks.attn, "decoder: attn mask"},
                            {&c.args.memory_masks.attn, "decoder: memory attn mask"},
                            {&c.args.memory_masks.key_padding, "decoder: memory key_padding mask"},
                            {&c.layer.feedforward.linear1, "linear1: w"},
                            {&c.layer.feedforward.linear2_bias, "linear2: bias"},
                            {&c.layer.norm1.weight, "weight: its buffer"},
                            {&c.layer.norm3.bias, "bias: its buffer"},
                            {&c.weights.norm.weight, "weight: its buffer"}};
    refuse_each(t.other, places, sizeof places / sizeof *places, run_decoder, &c);
    close_two(&t);
}
