/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of what modules call, forward and back, on `cpu`. */
#include "passed_on.h"

enum { B = 2, N = 3, M = 4, E = 4, H = 2, F = 6, LAYERS = 2 };

static int place; /* of the next gradient, among the last slots */

/* A gradient of t's shape; absent where t is. */
static clattn_tensor gradient(clattn_tensor t) {
    t.host = slots[6] + place;
    place += t.rank > 0 ? (int)clattn_tensor_elements(&t) : 0;
    cr_assert(place <= (SLOTS - 6) * SLOT);
    return t;
}

static clattn_tensor rows(int slot) { return cube(slot, B, N, E); }

static clattn_multihead_weights packed(void) {
    return (clattn_multihead_weights){
        .in_proj = mat(0, 3 * E, E), .in_bias = vec(0, 3 * E), .out = mat(0, E, E), .out_bias = vec(0, E)};
}
static clattn_multihead_weights separate(void) {
    return (clattn_multihead_weights){.q = mat(0, E, E),
                                      .k = mat(0, E, E),
                                      .v = mat(0, E, E),
                                      .out = as_type(mat(0, E, E), CLATTN_BF16),
                                      .bias_k = vec(0, E),
                                      .bias_v = vec(0, E)};
}
static clattn_feedforward_weights gated(void) {
    return (clattn_feedforward_weights){.linear1 = mat(0, F, E),
                                        .gate = mat(0, F, E),
                                        .gate_bias = vec(0, F),
                                        .linear2 = mat(0, E, F),
                                        .linear2_bias = vec(0, E)};
}
static clattn_norm_weights norm(void) { return (clattn_norm_weights){.weight = vec(0, E), .bias = vec(0, E)}; }

static clattn_multihead_weights d_heads(clattn_multihead_weights w) {
    clattn_tensor *const all[] = {&w.in_proj, &w.q,      &w.k,   &w.v,        &w.in_bias, &w.q_bias,
                                  &w.k_bias,  &w.v_bias, &w.out, &w.out_bias, &w.bias_k,  &w.bias_v};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = gradient(*all[i]);
    return w;
}
static clattn_feedforward_weights d_feed(clattn_feedforward_weights w) {
    clattn_tensor *const all[] = {&w.linear1, &w.gate, &w.gate_bias, &w.linear2, &w.linear2_bias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        *all[i] = gradient(*all[i]);
    return w;
}
static clattn_norm_weights d_norm(void) {
    return (clattn_norm_weights){.weight = gradient(vec(0, E)), .bias = gradient(vec(0, E))};
}

/* ---- attention ---- */

/* Keys behind the others, and masks of which one lies in a buffer, added to one another. */
static clattn_status masked(clattn_context *context) {
    clattn_multihead *m = NULL;
    clattn_buffer *buffer = NULL;
    const clattn_multihead_weights w = separate();
    const clattn_multihead_options options = {.heads = H, .add_zero_attn = true};
    clattn_multihead_args args = {.query = rows(1), .key = rows(2), .y = rows(3), .masks = {.attn = mat(4, N, N)}};
    clattn_status status = clattn_multihead_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_buffer_create(context, B * N * sizeof(float), &buffer);
    if (status == CLATTN_OK)
        status = clattn_buffer_upload(buffer, 0, slots[4], B * N * sizeof(float));
    args.masks.key_padding = clattn_tensor_buffer(buffer, CLATTN_F32, 2, (const int64_t[]){B, N});
    args.masks.causal = true;
    if (status == CLATTN_OK)
        status = clattn_multihead_run(m, &args);
    clattn_multihead_destroy(m);
    clattn_buffer_destroy(buffer);
    return status;
}

/* Forward and back, of rows that are or are not those of the keys and values. */
static clattn_status attend(clattn_context *context, clattn_multihead_weights w, clattn_multihead_weights d, bool key,
                            bool value, bool gradients) {
    clattn_multihead *m = NULL;
    const clattn_tensor none = {0};
    const clattn_multihead_backward_args args = {.forward = {.query = rows(1),
                                                             .key = key ? cube(2, B, value ? M : 1, E) : none,
                                                             .value = value ? cube(3, B, key ? M : N, E) : none},
                                                 .d_y = rows(4),
                                                 .d_query = gradient(rows(1)),
                                                 .d_key = key ? gradient(cube(2, B, value ? M : 1, E)) : none,
                                                 .d_value = value ? gradient(cube(3, B, key ? M : N, E)) : none,
                                                 .gradients = gradients ? &d : NULL};
    clattn_status status = clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m);
    if (status == CLATTN_OK)
        status = clattn_multihead_backward(m, &args);
    clattn_multihead_destroy(m);
    return status;
}

/* Bits: key, value, gradients; and whose weights. */
static int way;
static clattn_status attend_packed(clattn_context *context) {
    place = 0;
    return attend(context, packed(), d_heads(packed()), way & 1, way & 2, way & 4);
}
static clattn_status attend_separate(clattn_context *context) {
    place = 0;
    return attend(context, separate(), d_heads(separate()), way & 1, way & 2, way & 4);
}
/* Packed, with a bias each. */
static clattn_status attend_biased(clattn_context *context) {
    clattn_multihead_weights w = packed();
    w.q_bias = w.k_bias = w.v_bias = vec(0, E);
    w.in_bias.rank = 0;
    place = 0;
    return attend(context, w, d_heads(w), way & 1, way & 2, way & 4);
}
/* Keys that are the queries, and yet have gradients of their own. */
static clattn_status attend_itself(clattn_context *context) {
    clattn_multihead *m = NULL;
    const clattn_tensor none = {0};
    const clattn_multihead_weights w = packed();
    place = 0;
    const clattn_multihead_weights d = d_heads(w);
    const clattn_multihead_backward_args args = {
        .forward = {.query = rows(1), .key = way & 2 ? none : rows(1), .value = way & 1 ? rows(1) : none},
        .d_y = rows(4),
        .d_query = rows(2),
        .d_key = way & 2 ? none : rows(3),
        .gradients = &d};
    clattn_status status = clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m);
    if (status == CLATTN_OK)
        status = clattn_multihead_backward(m, &args);
    clattn_multihead_destroy(m);
    return status;
}

/* ---- feed-forward ---- */

static clattn_status feed(clattn_context *context) {
    clattn_feedforward *f = NULL;
    const clattn_feedforward_weights w = gated();
    const clattn_tensor x = rows(1), y = rows(2), none = {0};
    place = 0;
    const clattn_feedforward_weights d = d_feed(w);
    clattn_status status = clattn_feedforward_create(context, &w, NULL, &f);
    if (status == CLATTN_OK)
        status = clattn_feedforward_run(f, &x, &y);
    for (int part = 0; part < 4 && status == CLATTN_OK; part++) {
        const clattn_feedforward_backward_args args = {
            .x = x, .d_y = y, .d_x = part & 1 ? rows(3) : none, .gradients = part & 2 ? &d : NULL};
        status = clattn_feedforward_backward(f, &args);
    }
    clattn_feedforward_destroy(f);
    return status;
}

/* ---- stacks ---- */

static clattn_status encode(clattn_context *context, bool norm_first, bool gradients) {
    clattn_encoder *e = NULL;
    clattn_encoder_layer_weights layers[LAYERS], d_layers[LAYERS];
    place = 0;
    const clattn_tensor hidden[] = {gradient(rows(1)), gradient(rows(1))};
    for (int i = 0; i < LAYERS; i++) {
        layers[i] = (clattn_encoder_layer_weights){
            .self_attn = packed(), .feedforward = gated(), .norm1 = norm(), .norm2 = norm()};
        d_layers[i] = (clattn_encoder_layer_weights){
            .self_attn = d_heads(packed()), .feedforward = d_feed(gated()), .norm1 = d_norm(), .norm2 = d_norm()};
    }
    const clattn_encoder_weights w = {.layers = layers, .count = LAYERS, .has_norm = true, .norm = norm()};
    const clattn_encoder_weights d = {.layers = d_layers, .count = LAYERS, .has_norm = true, .norm = d_norm()};
    const clattn_layer_options options = {.heads = H, .norm_first = norm_first};
    const clattn_encoder_args args = {.x = rows(1), .y = rows(2), .hidden = hidden};
    const clattn_encoder_backward_args back = {
        .forward = args, .d_y = rows(3), .d_x = rows(4), .gradients = gradients ? &d : NULL};
    clattn_status status = clattn_encoder_create(context, &w, &options, &e);
    if (status == CLATTN_OK)
        status = clattn_encoder_run(e, &args);
    if (status == CLATTN_OK)
        status = clattn_encoder_backward(e, &back);
    clattn_encoder_destroy(e);
    return status;
}
static clattn_status encode_first(clattn_context *context) { return encode(context, true, true); }
static clattn_status encode_after(clattn_context *context) { return encode(context, false, true); }
static clattn_status encode_alone(clattn_context *context) { return encode(context, false, false); }

static clattn_decoder_layer_weights decoding(void) {
    return (clattn_decoder_layer_weights){.self_attn = packed(),
                                          .cross_attn = packed(),
                                          .feedforward = gated(),
                                          .norm1 = norm(),
                                          .norm2 = norm(),
                                          .norm3 = norm()};
}

static clattn_status decode(clattn_context *context, bool norm_first) {
    clattn_decoder *m = NULL;
    clattn_decoder_layer_weights layers[LAYERS], d_layers[LAYERS];
    place = 0;
    const clattn_tensor hidden[] = {gradient(rows(1)), gradient(rows(1))};
    for (int i = 0; i < LAYERS; i++) {
        layers[i] = decoding();
        d_layers[i] = (clattn_decoder_layer_weights){.self_attn = d_heads(packed()),
                                                     .cross_attn = d_heads(packed()),
                                                     .feedforward = d_feed(gated()),
                                                     .norm1 = d_norm(),
                                                     .norm2 = d_norm(),
                                                     .norm3 = d_norm()};
    }
    const clattn_decoder_weights w = {.layers = layers, .count = LAYERS};
    const clattn_decoder_weights d = {.layers = d_layers, .count = LAYERS};
    const clattn_layer_options options = {.heads = H, .norm_first = norm_first};
    const clattn_decoder_args args = {.x = rows(1), .memory = cube(2, B, M, E), .y = rows(3), .hidden = hidden};
    const clattn_decoder_backward_args back = {
        .forward = args, .d_y = rows(3), .d_x = rows(4), .d_memory = cube(5, B, M, E), .gradients = &d};
    clattn_status status = clattn_decoder_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_decoder_run(m, &args);
    if (status == CLATTN_OK)
        status = clattn_decoder_backward(m, &back);
    clattn_decoder_destroy(m);
    return status;
}
static clattn_status decode_first(clattn_context *context) { return decode(context, true); }
static clattn_status decode_after(clattn_context *context) { return decode(context, false); }

/* A memory with a key behind its own, and then a longer one. */
static clattn_status decode_cached(clattn_context *context) {
    clattn_decoder *m = NULL;
    clattn_decoder_cache *cache = NULL;
    clattn_decoder_layer_weights layers[] = {decoding(), decoding()};
    layers[0].cross_attn = layers[1].cross_attn = separate();
    const clattn_decoder_weights w = {.layers = layers, .count = LAYERS, .has_norm = true, .norm = norm()};
    clattn_status status = clattn_decoder_create(context, &w, &(clattn_layer_options){.heads = H}, &m);
    if (status == CLATTN_OK)
        status = clattn_decoder_cache_create(m, &(clattn_decoder_cache_options){.batch = B, .capacity = N}, &cache);
    for (int i = 0; i < N && status == CLATTN_OK; i++) {
        const clattn_decoder_args args = {.x = clattn_tensor_slice(rows(1), 1, i, 1),
                                          .y = clattn_tensor_slice(rows(2), 1, i, 1),
                                          .memory = i == 2 ? (clattn_tensor){0} : cube(3, B, M - 1 + i, E),
                                          .cache = cache};
        status = clattn_decoder_run(m, &args);
        cr_expect_eq(clattn_decoder_cache_length(cache), i + (status == CLATTN_OK));
    }
    clattn_decoder_cache_destroy(cache);
    clattn_decoder_destroy(m);
    return status;
}

static clattn_status keep(clattn_context *context) {
    clattn_parameters *all = NULL;
    const clattn_array array = {
        .dtype = CLATTN_F32, .rank = 2, .shape = {4, 32}, .data = slots[0], .bytes = 128 * sizeof(float)};
    const clattn_parameters_options options = {.convert = true, .dtype = CLATTN_Q8_0};
    clattn_status status = clattn_parameters_create(context, &all);
    if (status == CLATTN_OK)
        status = clattn_parameters_add(all, "w", &array, &options);
    cr_expect_eq(clattn_parameters_count(all), status == CLATTN_OK);
    clattn_parameters_destroy(all);
    return status;
}

Test(passed_modules, failures_of_what_they_call_are_those_of_modules) {
    static const struct {
        const char *name;
        clattn_status (*run)(clattn_context *context);
    } runs[] = {{"masked attention", masked},
                {"feed-forward", feed},
                {"encoder, norms first", encode_first},
                {"encoder, norms after", encode_after},
                {"encoder without gradients of weights", encode_alone},
                {"decoder, norms first", decode_first},
                {"decoder, norms after", decode_after},
                {"decoder with a cache", decode_cached},
                {"parameters", keep}};
    fill_slots();
    clattn_context *context = op_open("cpu");
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        sweep(runs[i].name, context, runs[i].run);
    for (way = 0; way < 8; way++) {
        sweep("attention of packed weights", context, attend_packed);
        sweep("attention of separate weights", context, attend_separate);
        sweep("attention of weights with a bias each", context, attend_biased);
        sweep("attention of keys that are the queries", context, attend_itself);
    }
    clattn_context_destroy(context);
}
