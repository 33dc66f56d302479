/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong calls of modules, forward and backward: each is a right call with one thing changed, and is refused with a
 * status and words that say what. */
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>

enum { B = 2, N = 3, M = 5, E = 4, H = 2, F = 6, LAYERS = 2 };

static clattn_context *context;
static clattn_multihead *attention, *behind; /* packed; separate, of other columns and with bias_k */
static clattn_feedforward *feed;
static clattn_encoder *encoder, *bare; /* with a norm behind two layers; one layer */
static clattn_decoder *decoder, *other;

static clattn_multihead_weights packed(void) {
    return (clattn_multihead_weights){
        .in_proj = mat(0, 3 * E, E), .in_bias = vec(0, 3 * E), .out = mat(0, E, E), .out_bias = vec(0, E)};
}
static clattn_multihead_weights separate(void) {
    return (clattn_multihead_weights){.q = mat(0, E, E),
                                      .k = mat(0, E, 6),
                                      .v = mat(0, E, 7),
                                      .out = mat(0, E, E),
                                      .bias_k = vec(0, E),
                                      .bias_v = vec(0, E)};
}
static clattn_feedforward_weights plain(void) {
    return (clattn_feedforward_weights){.linear1 = mat(0, F, E), .linear2 = mat(0, E, F), .linear2_bias = vec(0, E)};
}
static clattn_norm_weights norm(void) { return (clattn_norm_weights){.weight = vec(0, E)}; }
static clattn_encoder_layer_weights encoding(void) {
    return (clattn_encoder_layer_weights){.self_attn = packed(), .feedforward = plain(), .norm1 = norm()};
}
static clattn_decoder_layer_weights decoding(void) {
    return (clattn_decoder_layer_weights){
        .self_attn = packed(), .cross_attn = packed(), .feedforward = plain(), .norm3 = norm()};
}

/* Gradients, each in slot 11, since refused calls write none. */
static clattn_multihead_weights d_packed(void) {
    clattn_multihead_weights w = packed();
    w.in_proj.host = w.in_bias.host = w.out.host = w.out_bias.host = slots[11];
    return w;
}

static void begin(void) {
    const clattn_multihead_weights whole = packed(), parts = separate();
    const clattn_feedforward_weights f = plain();
    const clattn_multihead_options heads = {.heads = H};
    const clattn_layer_options options = {.heads = H};
    const clattn_encoder_layer_weights e[] = {encoding(), encoding()};
    const clattn_decoder_layer_weights d[] = {decoding(), decoding()};
    fill_slots();
    context = op_open("cpu");
    SUCCEEDS(clattn_multihead_create(context, &whole, &heads, &attention));
    SUCCEEDS(clattn_multihead_create(context, &parts, &heads, &behind));
    SUCCEEDS(clattn_feedforward_create(context, &f, NULL, &feed));
    SUCCEEDS(clattn_encoder_create(
        context, &(clattn_encoder_weights){.layers = e, .count = LAYERS, .has_norm = true, .norm = norm()}, &options,
        &encoder));
    SUCCEEDS(clattn_encoder_create(context, &(clattn_encoder_weights){.layers = e, .count = 1}, &options, &bare));
    SUCCEEDS(
        clattn_decoder_create(context, &(clattn_decoder_weights){.layers = d, .count = LAYERS}, &options, &decoder));
    SUCCEEDS(clattn_decoder_create(context, &(clattn_decoder_weights){.layers = d, .count = 1}, &options, &other));
}
static void end(void) {
    clattn_decoder_destroy(other);
    clattn_decoder_destroy(decoder);
    clattn_encoder_destroy(bare);
    clattn_encoder_destroy(encoder);
    clattn_feedforward_destroy(feed);
    clattn_multihead_destroy(behind);
    clattn_multihead_destroy(attention);
    clattn_context_destroy(context);
}
TestSuite(errors_calls, .init = begin, .fini = end);

static clattn_tensor x(int slot) { return cube(slot, B, N, E); }
static clattn_tensor one_id(void) { return clattn_tensor_host(some_ids, CLATTN_I32, 2, (const int64_t[]){1, 1}); }

/* ---- multi-head attention ---- */

#define ATTEND(code, part, ...)                                                                                        \
    REFUSED(clattn_multihead_args, clattn_multihead_run(attention, &a), code, part, ARGS(.query = x(1), .y = x(2)),    \
            __VA_ARGS__)

Test(errors_calls, attention_of_tensors_that_do_not_fit) {
    FAILS(clattn_multihead_run(NULL, NULL), CLATTN_E_ARGUMENT, "multihead is NULL");
    FAILS(clattn_multihead_run(attention, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    clattn_multihead *second = NULL;
    const clattn_multihead_weights w = packed();
    const clattn_tensor row = vec(1, E);
    SUCCEEDS(
        clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H, .batch_second = true}, &second));
    FAILS(clattn_multihead_run(second, &(clattn_multihead_args){.query = row, .y = row}), CLATTN_E_SHAPE,
          "query [4]: rank 1; it is [N, B, E], or unbatched [N, E]");
    clattn_multihead_destroy(second);
    ATTEND(CLATTN_E_ARGUMENT, "multihead: query is missing", a.query.rank = 0);
    ATTEND(CLATTN_E_ARGUMENT, "multihead: y is missing", a.y.rank = 0);
    ATTEND(CLATTN_E_SHAPE, "query [4]: rank 1; it is [B, N, E]", a.query = vec(1, 4));
    ATTEND(CLATTN_E_SHAPE, "key [4]: rank 1", a.key = vec(3, 4));
    ATTEND(CLATTN_E_SHAPE, "value [1, 2, 3, 4]: rank 4", a.value = four(3, 1, 2, 3, 4));
    ATTEND(CLATTN_E_SHAPE, "ranks 3, 2, 2 and 3; all alike", a.key = mat(3, N, E));
    ATTEND(CLATTN_E_SHAPE, "ranks 3, 3, 2 and 3; all alike", a.value = mat(3, N, E));
    ATTEND(CLATTN_E_SHAPE, "ranks 3, 3, 3 and 2; all alike", a.y = mat(2, N, E));
    ATTEND(CLATTN_E_SHAPE, "query [2, 3, 5]: its last axis should be 4", a.query = cube(1, B, N, 5));
    ATTEND(CLATTN_E_SHAPE, "key [2, 3, 5]: its last axis should be 4", a.key = cube(3, B, N, 5));
    ATTEND(CLATTN_E_SHAPE, "key [1, 3, 4]: a batch of 1, and the query has 2", a.key = cube(3, 1, N, E));
    ATTEND(CLATTN_E_SHAPE, "value [2, 3, 5]: its last axis should be 4", a.value = cube(3, B, N, 5));
    ATTEND(CLATTN_E_SHAPE, "y [1, 3, 4]: a batch of 1", a.y = cube(2, 1, N, E));
    ATTEND(CLATTN_E_SHAPE, "value [2, 5, 4]: 5 rows, and the key has 3", a.value = cube(3, B, M, E));
    ATTEND(CLATTN_E_SHAPE, "y [2, 5, 4]: 5 rows, and the query has 3", a.y = cube(2, B, M, E));
    ATTEND(CLATTN_E_DTYPE, "projection of queries, keys and values: x: is i32", a.query.dtype = CLATTN_I32);
    ATTEND(CLATTN_E_DTYPE, "projection of queries: x: is i32", a.query.dtype = CLATTN_I32, a.key = x(3));
    ATTEND(CLATTN_E_DTYPE, "projection of keys and values: x: is i32", a.key = as_type(x(3), CLATTN_I32));
    ATTEND(CLATTN_E_DTYPE, "projection of keys: x: is i32", a.key = as_type(x(3), CLATTN_I32), a.value = x(4));
    ATTEND(CLATTN_E_DTYPE, "projection of values: x: is i32", a.value = as_type(x(3), CLATTN_I32));
    ATTEND(CLATTN_E_DTYPE, "projection of the result: y: is i32", a.y.dtype = CLATTN_I32);
#define WEIGHTS(...) ATTEND(CLATTN_E_SHAPE, "weights [", __VA_ARGS__)
    WEIGHTS(a.weights = cube(3, H, N, N));
    WEIGHTS(a.weights = four(3, 1, H, N, N));
    WEIGHTS(a.weights = four(3, B, 1, N, N));
    WEIGHTS(a.weights = four(3, B, H, M, N));
    WEIGHTS(a.weights = four(3, B, H, N, M));
    WEIGHTS(a.weights = four(3, B, H, N, N), a.weights_mean = true);
    WEIGHTS(a.weights = cube(3, B, M, N), a.weights_mean = true);
    WEIGHTS(a.weights = cube(3, B, N, M), a.weights_mean = true);
    WEIGHTS(a.weights = cube(3, B, N, N), a.weights.stride[1] = INT64_MAX, a.weights_mean = true);
    ATTEND(CLATTN_E_SHAPE, "weights [1, 3, 3]: should be [H, 3, 3], for 3 keys", a.query = mat(1, N, E),
           a.y = mat(2, N, E), a.weights = cube(3, 1, N, N));
    ATTEND(CLATTN_E_SHAPE, "weights [3, 5]: should be [3, 3], for 3 keys", a.query = mat(1, N, E), a.y = mat(2, N, E),
           a.weights = mat(3, N, M), a.weights_mean = true);
    REFUSED(clattn_multihead_args, clattn_multihead_run(behind, &a), CLATTN_E_SHAPE,
            "weights [2, 2, 3, 5]: should be [B, H, 3, 6], for 5 keys and those behind them",
            ARGS(.query = x(1), .key = cube(3, B, M, 6), .value = cube(4, B, M, 7), .y = x(2)),
            a.weights = four(5, B, H, N, M));
}

Test(errors_calls, masks_that_do_not_fit) {
    static const int64_t below[] = {0, -1}, beyond[] = {4, 0};
#define MASK(code, part, ...) ATTEND(code, part, __VA_ARGS__)
    MASK(CLATTN_E_SHAPE, "attn mask: rank -1", a.masks.attn.rank = -1);
    MASK(CLATTN_E_DTYPE, "attn mask is i32; it is bool or u8", a.masks.attn = one_id());
    MASK(CLATTN_E_ARGUMENT, "attn mask: has neither a buffer", a.masks.attn = mat(3, N, N), a.masks.attn.host = NULL);
#define ATTN(...) MASK(CLATTN_E_SHAPE, "attn mask [", a.masks.attn = __VA_ARGS__)
    ATTN(vec(3, N));
    ATTN(mat(3, M, N));
    ATTN(mat(3, N, M));
    ATTN(mat(3, 1, N)); /* broadcasts in rank 4 alone */
    ATTN(mat(3, N, 1));
    ATTN(cube(3, B, N, N)); /* B * H */
    ATTN(cube(3, B * H, M, N));
    ATTN(four(3, 3, H, N, N));
    ATTN(four(3, B, 3, N, N));
    ATTN(four(3, B, H, M, N));
    ATTN(four(3, B, H, N, M));
    ATTN(clattn_tensor_split(four(3, B, H, N, N), 0, 1));
    MASK(CLATTN_E_SHAPE, "attn mask [3, 3, 3]: should be", a.masks.attn = cube(3, 3, N, N), a.query = mat(1, N, E),
         a.y = mat(2, N, E));
    MASK(CLATTN_E_DTYPE, "key_padding mask is i32", a.masks.key_padding = one_id());
#define PADDING(...) MASK(CLATTN_E_SHAPE, "key_padding mask [", a.masks.key_padding = __VA_ARGS__)
    PADDING(vec(3, N));
    PADDING(mat(3, B, M));
    PADDING(mat(3, 1, N));
    PADDING(mat(3, 1, N), a.query = mat(1, N, E), a.y = mat(2, N, E));
    PADDING(vec(3, M), a.query = mat(1, N, E), a.y = mat(2, N, E));
    MASK(CLATTN_E_ARGUMENT, "key_lengths[1] is -1, not from 0 to 3 keys", a.masks.key_lengths = below);
    MASK(CLATTN_E_ARGUMENT, "key_lengths[0] is 4", a.masks.key_lengths = beyond);
    /* Keys behind the others make a mask of what attention would check. */
#define BEHIND(part, ...)                                                                                              \
    REFUSED(clattn_multihead_args, clattn_multihead_run(behind, &a), CLATTN_E_ARGUMENT, part,                          \
            ARGS(.query = x(1), .key = cube(3, B, M, 6), .value = cube(4, B, M, 7), .y = x(2)), __VA_ARGS__)
    BEHIND("causal with 3 queries and 5 keys needs an alignment", a.masks.causal = true);
    BEHIND("offsets is NULL, and the alignment is by them", a.masks.causal = true, a.masks.align = CLATTN_ALIGN_OFFSET);
}

Test(errors_calls, gradients_of_attention_that_do_not_fit) {
    FAILS(clattn_multihead_backward(NULL, NULL), CLATTN_E_ARGUMENT, "multihead is NULL");
    FAILS(clattn_multihead_backward(attention, NULL), CLATTN_E_ARGUMENT, "args is NULL");
#define BACK(code, part, ...)                                                                                          \
    REFUSED(clattn_multihead_backward_args, clattn_multihead_backward(attention, &a), code, part,                      \
            ARGS(.forward = {.query = x(1), .key = x(2), .value = x(3)}, .d_y = x(4), .d_query = x(5)), __VA_ARGS__)
    BACK(CLATTN_E_UNSUPPORTED, "clattn_multihead_args: reserved[0]", a.forward.reserved[0] = 1);
    BACK(CLATTN_E_ARGUMENT, "y is missing", a.d_y.rank = 0);
    BACK(CLATTN_E_SHAPE, "key [2, 3, 5]: its last axis", a.forward.key = cube(2, B, N, 5));
    BACK(CLATTN_E_SHAPE, "attn mask [3]: should be", a.forward.masks.attn = vec(6, N));
    BACK(CLATTN_E_SHAPE, "d_query [2, 5, 4]: should have the shape of query [2, 3, 4]", a.d_query = cube(5, B, M, E));
    BACK(CLATTN_E_SHAPE, "d_key [3, 4]: should have the shape of key", a.d_key = mat(6, N, E));
    BACK(CLATTN_E_ARGUMENT, "d_value is wanted, and there is no value", a.forward.value.rank = 0, a.d_value = x(6));
#define GRADIENT(code, part, ...)                                                                                      \
    do {                                                                                                               \
        clattn_multihead_weights w = d_packed();                                                                       \
        __VA_ARGS__;                                                                                                   \
        BACK(code, part, a.gradients = &w);                                                                            \
    } while (0)
    GRADIENT(CLATTN_E_ARGUMENT, "multihead_backward: gradients: q: there is a gradient, and no weight",
             w.in_proj.rank = w.in_bias.rank = 0, w.q = w.k = w.v = mat(11, E, E));
    GRADIENT(CLATTN_E_ARGUMENT, "q_bias: there is a gradient, and no weight", w.q_bias = vec(11, E));
    GRADIENT(CLATTN_E_UNSUPPORTED, "gradients: clattn_multihead_weights: reserved[0]", w.reserved[0] = 1);
    GRADIENT(CLATTN_E_SHAPE, "in_proj [12, 5]: should have the shape of the weight [12, 4]",
             w.in_proj = mat(11, 3 * E, 5));
    GRADIENT(CLATTN_E_SHAPE, "in_bias [4]: should have the shape of the weight [12]", w.in_bias = vec(11, E));
    GRADIENT(CLATTN_E_SHAPE, "out [5, 4]: should have the shape", w.out = mat(11, 5, E), w.out_bias.rank = 0);
    GRADIENT(CLATTN_E_ARGUMENT, "bias_k: there is a gradient, and no weight", w.bias_k = w.bias_v = vec(11, E));
#define APART(code, part, ...)                                                                                         \
    do {                                                                                                               \
        clattn_multihead_weights w = separate();                                                                       \
        __VA_ARGS__;                                                                                                   \
        REFUSED(clattn_multihead_backward_args, clattn_multihead_backward(behind, &a), code, part,                     \
                ARGS(.forward = {.query = x(1), .key = cube(2, B, M, 6), .value = cube(3, B, M, 7)}, .d_y = x(4)),     \
                a.gradients = &w);                                                                                     \
    } while (0)
    APART(CLATTN_E_SHAPE, "q [4, 5]: should have the shape", w.q = mat(11, E, 5));
    APART(CLATTN_E_SHAPE, "k [4, 5]: should have the shape", w.k = mat(11, E, 5));
    APART(CLATTN_E_SHAPE, "v [4, 5]: should have the shape", w.v = mat(11, E, 5));
    APART(CLATTN_E_ARGUMENT, "in_proj: there is a gradient, and no weight", w.in_proj = mat(11, 3 * E, E));
    APART(CLATTN_E_ARGUMENT, "in_bias: there is a gradient, and no weight", w.in_bias = vec(11, 3 * E));
    APART(CLATTN_E_SHAPE, "bias_k [5]: should be [1, 1, 4] or [4]", w.bias_k = vec(11, 5));
    APART(CLATTN_E_ARGUMENT, "q_bias: there is a gradient, and no weight", w.q_bias = vec(11, E));
    APART(CLATTN_E_ARGUMENT, "k_bias: there is a gradient, and no weight", w.k_bias = vec(11, E));
    APART(CLATTN_E_ARGUMENT, "v_bias: there is a gradient, and no weight", w.v_bias = vec(11, E));
    expect_unwritten();
    /* What is found by the parts. */
    BACK(CLATTN_E_DTYPE, "projection of queries: x: is i32", a.forward.query.dtype = CLATTN_I32);
    BACK(CLATTN_E_DTYPE, "projection of the result: d_y: is i32", a.d_y.dtype = CLATTN_I32);
    BACK(CLATTN_E_DTYPE, "projection of queries: d_x: is i32", a.d_query.dtype = CLATTN_I32);
    BACK(CLATTN_E_DTYPE, "projection of keys: d_x: is i32", a.d_key = as_type(x(6), CLATTN_I32));
}

/* ---- feed-forward ---- */

Test(errors_calls, feed_forward) {
    const clattn_tensor rows = x(1), y = x(2), five = repeated(5, 2, N, E), wide = cube(1, B, N, 5);
    const clattn_tensor whole = as_type(x(1), CLATTN_I32);
    FAILS(clattn_feedforward_run(NULL, &rows, &y), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_feedforward_run(feed, NULL, &y), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_feedforward_run(feed, &rows, NULL), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_feedforward_run(feed, &(clattn_tensor){.rank = 0}, &y), CLATTN_E_SHAPE, "x: rank 0");
    FAILS(clattn_feedforward_run(feed, &five, &y), CLATTN_E_SHAPE, "x: rank 5");
    FAILS(clattn_feedforward_run(feed, &wide, &y), CLATTN_E_SHAPE, "feedforward: linear1: ");
    FAILS(clattn_feedforward_run(feed, &whole, &y), CLATTN_E_DTYPE, "linear1: x: is i32");
    FAILS(clattn_feedforward_run(feed, &rows, &wide), CLATTN_E_SHAPE, "feedforward: linear2: ");
    const clattn_tensor many = repeated(3, (int64_t)1 << 40, (int64_t)1 << 40, E);
    const clattn_tensor most = repeated(3, (int64_t)1 << 30, (int64_t)1 << 30, E);
    FAILS(clattn_feedforward_run(feed, &many, &y), CLATTN_E_SHAPE, "more elements than 64 bits count");
    FAILS(clattn_feedforward_run(feed, &most, &y), CLATTN_E_SHAPE, "more elements than 64 bits count");
    cr_expect_eq(clattn_feedforward_parameter_count(NULL), 0);
    FAILS(clattn_feedforward_backward(NULL, NULL), CLATTN_E_ARGUMENT, "feedforward is NULL");
    FAILS(clattn_feedforward_backward(feed, NULL), CLATTN_E_ARGUMENT, "args is NULL");
#define FEED_BACK(code, part, ...)                                                                                     \
    REFUSED(clattn_feedforward_backward_args, clattn_feedforward_backward(feed, &a), code, part,                       \
            ARGS(.x = x(1), .d_y = x(2), .d_x = x(3)), __VA_ARGS__)
    FEED_BACK(CLATTN_E_SHAPE, "feedforward_backward: x: rank 0", a.x.rank = 0);
    FEED_BACK(CLATTN_E_SHAPE, "x: rank 5", a.x = five);
    FEED_BACK(CLATTN_E_DTYPE, "x: is i32", a.x = whole);
    FEED_BACK(CLATTN_E_ARGUMENT, "d_y: is missing", a.d_y.rank = 0);
    FEED_BACK(CLATTN_E_SHAPE, "d_x [2, 5, 4]: should be d_y", a.d_x = cube(3, B, M, E));
#define FEED_GRADIENT(code, part, ...)                                                                                 \
    do {                                                                                                               \
        clattn_feedforward_weights w = plain();                                                                        \
        w.linear1.host = w.linear2.host = w.linear2_bias.host = slots[11];                                             \
        __VA_ARGS__;                                                                                                   \
        FEED_BACK(code, part, a.gradients = &w);                                                                       \
    } while (0)
    FEED_GRADIENT(CLATTN_E_SHAPE, "linear1 [6, 5]: should have the shape of the weight [6, 4]",
                  w.linear1 = mat(11, F, 5));
    FEED_GRADIENT(CLATTN_E_ARGUMENT, "linear1_bias: there is a gradient, and no weight", w.linear1_bias = vec(11, F));
    FEED_GRADIENT(CLATTN_E_ARGUMENT, "gate: there is a gradient, and no weight", w.gate = mat(11, F, E));
    FEED_GRADIENT(CLATTN_E_SHAPE, "linear2 [5, 6]: should have the shape", w.linear2 = mat(11, 5, F),
                  w.linear2_bias.rank = 0);
    FEED_GRADIENT(CLATTN_E_SHAPE, "linear1 [24]: rank 1", w.linear1 = vec(11, E * F));
    FEED_GRADIENT(CLATTN_E_UNSUPPORTED, "clattn_feedforward_weights: reserved[0]", w.reserved[0] = 1);
    clattn_feedforward *gated = NULL;
    clattn_feedforward_weights of = plain();
    of.gate = of.linear1, of.gate_bias = vec(0, F);
    SUCCEEDS(clattn_feedforward_create(context, &of, NULL, &gated));
    of.gate_bias = vec(0, E);
    REFUSED(clattn_feedforward_backward_args, clattn_feedforward_backward(gated, &a), CLATTN_E_SHAPE,
            "gate_bias [4]: should have the shape", ARGS(.x = x(1), .d_y = x(2)), a.gradients = &of);
    FAILS(clattn_feedforward_run(gated, &wide, &y), CLATTN_E_SHAPE, "feedforward: gate: ");
    clattn_feedforward_destroy(gated);
}

/* ---- encoders and decoders ---- */

static clattn_tensor hidden[LAYERS];

static void wrong_runs(void) {
#define ENCODE(code, part, ...)                                                                                        \
    REFUSED(clattn_encoder_args, clattn_encoder_run(encoder, &a), code, part, ARGS(.x = x(1), .y = x(2)), __VA_ARGS__)
    ENCODE(CLATTN_E_ARGUMENT, "encoder: x is missing", a.x.rank = 0);
    ENCODE(CLATTN_E_SHAPE, "x [2, 3, 5]: its last axis should be 4", a.x = cube(1, B, N, 5));
    ENCODE(CLATTN_E_ARGUMENT, "encoder: y is missing", a.y.rank = 0);
    ENCODE(CLATTN_E_SHAPE, "y [3, 4]: should have the shape of x [2, 3, 4]", a.y = mat(2, N, E));
    ENCODE(CLATTN_E_SHAPE, "encoder: attn mask [3]: should be", a.masks.attn = vec(3, N));
    ENCODE(CLATTN_E_SHAPE, "encoder: hidden [3, 4]: should have the shape of x",
           a.hidden = (hidden[0] = mat(3, N, E), hidden));
#define DECODE(code, part, ...)                                                                                        \
    REFUSED(clattn_decoder_args, clattn_decoder_run(decoder, &a), code, part,                                          \
            ARGS(.x = x(1), .memory = cube(2, B, M, E), .y = x(3)), __VA_ARGS__)
    DECODE(CLATTN_E_SHAPE, "decoder: x [4]: rank 1", a.x = vec(1, E));
    DECODE(CLATTN_E_ARGUMENT, "decoder: memory is missing", a.memory.rank = 0);
    DECODE(CLATTN_E_SHAPE, "memory [5, 4]: rank 2, and x has rank 3", a.memory = mat(2, M, E));
    DECODE(CLATTN_E_SHAPE, "memory [1, 5, 4]: should have a batch of 2", a.memory = cube(2, 1, M, E));
    DECODE(CLATTN_E_SHAPE, "memory [2, 5, 3]: should have a batch of 2 and 4 columns", a.memory = cube(2, B, M, 3));
    DECODE(CLATTN_E_SHAPE, "decoder: key_padding mask [2, 5]: should be", a.masks.key_padding = mat(4, B, M));
    DECODE(CLATTN_E_SHAPE, "decoder: memory key_padding mask [2, 3]", a.memory_masks.key_padding = mat(4, B, N));
}

static void wrong_caches(void) {
    clattn_decoder_cache *cache = NULL, *foreign = NULL;
    const clattn_decoder_cache_options options = {.batch = B, .capacity = N + 1};
    SUCCEEDS(clattn_decoder_cache_create(decoder, &options, &cache));
    SUCCEEDS(clattn_decoder_cache_create(other, &options, &foreign));
    DECODE(CLATTN_E_ARGUMENT, "the cache belongs to another decoder", a.cache = foreign);
    DECODE(CLATTN_E_ARGUMENT, "the cache has none of an earlier call", a.cache = cache, a.memory.rank = 0);
    DECODE(CLATTN_E_SHAPE, "x has a batch of 1, and the cache one of 2", a.cache = cache, a.x = cube(1, 1, N, E),
           a.y = cube(3, 1, N, E), a.memory = cube(2, 1, M, E));
    DECODE(CLATTN_E_LIMIT, "holds 0 of 4 targets, and 5 more do not fit", a.cache = cache, a.x = cube(1, B, M, E),
           a.y = cube(3, B, M, E));
    DECODE(CLATTN_E_DTYPE, "decoder: memory: projection of keys and values: x: is i32", a.cache = cache,
           a.memory.dtype = CLATTN_I32);
    cr_expect_eq(clattn_decoder_cache_length(cache), 0);
    clattn_decoder_cache_destroy(foreign);
    clattn_decoder_cache_destroy(cache);
}

Test(errors_calls, encoders_and_decoders) {
    FAILS(clattn_encoder_run(NULL, NULL), CLATTN_E_ARGUMENT, "encoder is NULL");
    FAILS(clattn_encoder_run(encoder, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    FAILS(clattn_decoder_run(NULL, NULL), CLATTN_E_ARGUMENT, "decoder is NULL");
    FAILS(clattn_decoder_run(decoder, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    wrong_runs();
    wrong_caches();
    expect_unwritten();
    /* What is found by the parts. */
    ENCODE(CLATTN_E_DTYPE, "encoder: layer 0: self-attention: projection", a.x.dtype = CLATTN_I32);
    ENCODE(CLATTN_E_DTYPE, "encoder: norm: y: is i32", a.y.dtype = CLATTN_I32);
}

static clattn_encoder_layer_weights d_encoding[LAYERS];
static clattn_decoder_layer_weights d_decoding[LAYERS];
static const clattn_encoder_layer_weights d_none;

#define ENCODE_BACK(code, part, ...)                                                                                   \
    do {                                                                                                               \
        clattn_encoder_weights w = {.layers = d_encoding, .count = LAYERS, .has_norm = true, .norm = norm()};          \
        clattn_encoder_layer_weights *layer = &d_encoding[1];                                                          \
        d_encoding[0] = d_encoding[1] = encoding();                                                                    \
        hidden[0] = x(4), hidden[1] = x(5);                                                                            \
        (void)layer;                                                                                                   \
        REFUSED(clattn_encoder_backward_args, clattn_encoder_backward(encoder, &a), code, part,                        \
                ARGS(.forward = {.x = x(1), .hidden = hidden}, .d_y = x(2), .d_x = x(3), .gradients = &w),             \
                __VA_ARGS__);                                                                                          \
    } while (0)

Test(errors_calls, gradients_of_encoders_that_do_not_fit) {
    FAILS(clattn_encoder_backward(NULL, NULL), CLATTN_E_ARGUMENT, "encoder is NULL");
    FAILS(clattn_encoder_backward(encoder, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    ENCODE_BACK(CLATTN_E_UNSUPPORTED, "clattn_encoder_args: reserved[0]", a.forward.reserved[0] = 1);
    ENCODE_BACK(CLATTN_E_SHAPE, "x [3]: rank 1", a.forward.x = vec(1, N));
    ENCODE_BACK(CLATTN_E_SHAPE, "y [3, 4]: should have the shape of x", a.d_y = mat(2, N, E));
    ENCODE_BACK(CLATTN_E_SHAPE, "d_x [3, 4]: should have the shape of x", a.d_x = mat(3, N, E));
    ENCODE_BACK(CLATTN_E_ARGUMENT, "gradients have no layers", w.layers = NULL);
    ENCODE_BACK(CLATTN_E_ARGUMENT, "gradients of 1 layers; there are 2", w.count = 1);
    ENCODE_BACK(CLATTN_E_ARGUMENT, "hidden: what layer 0 gave is missing", a.forward.hidden = NULL);
    ENCODE_BACK(CLATTN_E_ARGUMENT, "hidden: what layer 0 gave is missing", hidden[0].rank = 0);
    ENCODE_BACK(CLATTN_E_ARGUMENT, "hidden: what layer 1 gave is missing", hidden[1].rank = 0);
    ENCODE_BACK(CLATTN_E_SHAPE, "hidden [3, 4]: should have the shape of x", hidden[0] = mat(4, N, E));
    ENCODE_BACK(CLATTN_E_SHAPE, "norm: weight [5]: should have the shape of the weight [4]", w.norm.weight = vec(0, 5));
    ENCODE_BACK(CLATTN_E_ARGUMENT, "norm: bias: there is a gradient, and no weight", w.norm.bias = vec(0, E));
    ENCODE_BACK(CLATTN_E_UNSUPPORTED, "norm: clattn_norm_weights: reserved[0]", w.norm.reserved[0] = 1);
    ENCODE_BACK(CLATTN_E_SHAPE, "encoder: layer 1: gradients: self_attn: out [5, 4]: should have the shape",
                layer->self_attn.out = mat(0, 5, E));
    ENCODE_BACK(CLATTN_E_SHAPE, "layer 1: gradients: feedforward: linear1 [5, 4]: should have the shape",
                layer->feedforward.linear1 = mat(0, 5, E));
    ENCODE_BACK(CLATTN_E_SHAPE, "layer 1: gradients: norm: weight [5]: should have the shape",
                layer->norm1.weight = vec(0, 5));
    hidden[0] = x(4);
    REFUSED(clattn_encoder_backward_args, clattn_encoder_backward(bare, &a), CLATTN_E_ARGUMENT,
            "gradients have those of a norm behind the last layer", ARGS(.forward = {.x = x(1)}, .d_y = x(2)),
            a.gradients = &(clattn_encoder_weights){.layers = &d_none, .count = 1, .has_norm = true});
    expect_unwritten();
}

#define DECODE_BACK(code, part, ...)                                                                                   \
    do {                                                                                                               \
        clattn_decoder_weights w = {.layers = d_decoding, .count = LAYERS};                                            \
        d_decoding[0] = d_decoding[1] = decoding();                                                                    \
        hidden[0] = x(4);                                                                                              \
        (void)w;                                                                                                       \
        REFUSED(clattn_decoder_backward_args, clattn_decoder_backward(decoder, &a), code, part,                        \
                ARGS(.forward = {.x = x(1), .memory = cube(2, B, M, E), .hidden = hidden}, .d_y = x(3),                \
                     .d_memory = cube(5, B, M, E), .gradients = &w),                                                   \
                __VA_ARGS__);                                                                                          \
    } while (0)

Test(errors_calls, gradients_of_decoders_that_do_not_fit) {
    clattn_decoder_cache *cache = NULL;
    FAILS(clattn_decoder_backward(NULL, NULL), CLATTN_E_ARGUMENT, "decoder is NULL");
    FAILS(clattn_decoder_backward(decoder, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    SUCCEEDS(clattn_decoder_cache_create(decoder, &(clattn_decoder_cache_options){.batch = B, .capacity = N}, &cache));
    DECODE_BACK(CLATTN_E_UNSUPPORTED, "with a cache there are no gradients", a.forward.cache = cache);
    DECODE_BACK(CLATTN_E_UNSUPPORTED, "clattn_decoder_args: reserved[0]", a.forward.reserved[0] = 1);
    DECODE_BACK(CLATTN_E_SHAPE, "x [3]: rank 1", a.forward.x = vec(1, N));
    DECODE_BACK(CLATTN_E_ARGUMENT, "memory is missing", a.forward.memory.rank = 0);
    DECODE_BACK(CLATTN_E_SHAPE, "d_memory should have the shape of memory", a.d_memory = x(5));
    DECODE_BACK(CLATTN_E_SHAPE, "attn mask [3]: should be", a.forward.masks.attn = vec(6, N));
    DECODE_BACK(CLATTN_E_SHAPE, "memory attn mask [3]: should be", a.forward.memory_masks.attn = vec(6, N));
    DECODE_BACK(CLATTN_E_ARGUMENT, "gradients have no layers", w.layers = NULL);
    DECODE_BACK(CLATTN_E_UNSUPPORTED, "clattn_decoder_weights: reserved[0]", w.reserved[0] = 1);
    DECODE_BACK(CLATTN_E_SHAPE, "layer 1: gradients: cross_attn: out [5, 4]: should have the shape",
                d_decoding[1].cross_attn.out = mat(0, 5, E));
    DECODE_BACK(CLATTN_E_SHAPE, "layer 0: gradients: norm: weight [5]: should have the shape",
                d_decoding[0].norm3.weight = vec(0, 5));
    expect_unwritten();
    clattn_decoder_cache_destroy(cache);
}

/* ---- outputs over other tensors ---- */

static clattn_tensor moved(clattn_tensor t) { /* by four numbers: behind the beginning of what is in its slot */
    t.offset += 4;
    return t;
}

Test(errors_calls, results_of_attention_that_lie_over_others) {
    ATTEND(CLATTN_E_ARGUMENT, "multihead: weights: lies over y; give it memory of its own",
           a.weights = four(3, B, H, N, N), a.y = moved(x(3)));
    ATTEND(CLATTN_E_ARGUMENT, "multihead: weights: lies over out", a.weights = four(0, B, H, N, N));
    BACK(CLATTN_E_ARGUMENT, "multihead_backward: d_query: lies over d_key", a.d_key = moved(x(5)));
    BACK(CLATTN_E_ARGUMENT, "d_value: lies over d_query", a.d_value = x(5), a.d_query = moved(x(5)));
    BACK(CLATTN_E_ARGUMENT, "d_query: lies over key", a.d_query = x(2));
    BACK(CLATTN_E_ARGUMENT, "d_query: lies over a mask", a.d_query = x(6), a.forward.masks.attn = mat(6, N, N));
    BACK(CLATTN_E_ARGUMENT, "gradients.out: lies over d_query",
         a.gradients = &(clattn_multihead_weights){.out = mat(5, E, E)}, a.d_query = moved(x(5)));
    FEED_BACK(CLATTN_E_ARGUMENT, "feedforward_backward: gradients: linear1: lies over linear2; give it",
              a.gradients = &(clattn_feedforward_weights){.linear1 = mat(11, F, E), .linear2 = moved(mat(11, E, F))});
    FEED_BACK(CLATTN_E_ARGUMENT, "gradients: linear2_bias: lies over x",
              a.gradients = &(clattn_feedforward_weights){.linear2_bias = vec(1, E)});
    expect_unwritten();
}

Test(errors_calls, results_of_stacks_that_lie_over_others) {
    const clattn_encoder_layer_weights shared[] = {{.norm1.weight = vec(11, E)}, {.norm1.weight = vec(11, E)}};
    const clattn_encoder_weights twice = {.layers = shared, .count = LAYERS};
    hidden[0] = x(3), hidden[1] = x(4);
    ENCODE(CLATTN_E_ARGUMENT, "encoder: layer 0: hidden: lies over y", a.hidden = hidden, a.y = moved(x(3)));
    ENCODE(CLATTN_E_ARGUMENT, "y: lies over layer 1: hidden", a.hidden = hidden, hidden[1] = moved(x(2)));
    ENCODE(CLATTN_E_ARGUMENT, "layer 0: hidden: lies over layer 1: hidden", a.hidden = hidden, hidden[1] = moved(x(3)));
    hidden[0] = x(2), hidden[1].rank = 0;
    DECODE(CLATTN_E_ARGUMENT, "decoder: layer 0: hidden: lies over memory", a.hidden = hidden);
    hidden[0] = x(4);
    DECODE(CLATTN_E_ARGUMENT, "layer 0: hidden: lies over a mask", a.hidden = hidden, a.masks.attn = mat(4, N, N));
    DECODE(CLATTN_E_ARGUMENT, "layer 0: hidden: lies over a mask", a.hidden = hidden,
           a.memory_masks.attn = mat(4, N, M));
    DECODE_BACK(CLATTN_E_ARGUMENT, "d_memory: lies over memory", a.gradients = NULL, a.d_memory = cube(2, B, M, E));
    DECODE_BACK(CLATTN_E_ARGUMENT, "d_memory: lies over layer 0: hidden", a.gradients = NULL,
                a.d_memory = cube(4, B, M, E));
    ENCODE_BACK(CLATTN_E_ARGUMENT, "norm.weight: lies over d_y",
                w.layers = (clattn_encoder_layer_weights[LAYERS]){{.reserved = {0}}}, w.norm.weight = vec(2, E));
    hidden[0] = x(0), hidden[1].rank = 0;
    ENCODE(CLATTN_E_ARGUMENT, "encoder: layer 0: hidden: lies over layer ", a.hidden = hidden); /* of weights */
    const clattn_encoder_layer_weights written[LAYERS] = {{.reserved = {0}}, {.feedforward.linear1 = mat(0, F, E)}};
    ENCODE_BACK(CLATTN_E_ARGUMENT, "layer 1: feedforward.linear1: lies over layer ", w.layers = written,
                w.norm.weight.rank = 0);
    ENCODE_BACK(CLATTN_E_ARGUMENT, "norm1.weight: lies over layer ", a.gradients = &twice);
    expect_unwritten();
    /* Shared weights: their gradients add up. What the last layer gives is y. */
    hidden[0] = x(4), hidden[1] = x(5);
    SUCCEEDS(clattn_encoder_backward(
        encoder, &(clattn_encoder_backward_args){
                     .forward = {.x = x(1), .hidden = hidden}, .d_y = x(2), .gradients = &twice, .accumulate = true}));
    hidden[0] = x(2);
    SUCCEEDS(clattn_encoder_run(bare, &(clattn_encoder_args){.x = x(1), .y = x(2), .hidden = hidden}));
}
