/* SPDX-License-Identifier: Apache-2.0 */
/* Weights and options of which no module can be made: each is right with one thing changed, and is refused with a
 * status and words that say what. */
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>

enum { E = 4, H = 2, F = 6 };

static clattn_context *context;

static void begin(void) {
    fill_slots();
    context = op_open("cpu");
}
static void end(void) {
    expect_unwritten();
    clattn_context_destroy(context);
}
TestSuite(errors_modules, .init = begin, .fini = end);

/* ---- multi-head attention ---- */

static clattn_status make_heads(const clattn_multihead_weights *weights, const clattn_multihead_options *options) {
    clattn_multihead *m = NULL;
    const clattn_status status = clattn_multihead_create(context, weights, options, &m);
    cr_expect_eq(m != NULL, status == CLATTN_OK);
    clattn_multihead_destroy(m);
    return status;
}

static clattn_multihead_weights packed(void) {
    return (clattn_multihead_weights){
        .in_proj = mat(0, 3 * E, E), .in_bias = vec(1, 3 * E), .out = mat(2, E, E), .out_bias = vec(3, E)};
}

static clattn_multihead_weights separate(void) {
    return (clattn_multihead_weights){.q = mat(0, E, E),
                                      .k = mat(1, E, E),
                                      .v = mat(2, E, E),
                                      .q_bias = vec(3, E),
                                      .k_bias = vec(3, E),
                                      .v_bias = vec(3, E),
                                      .out = mat(4, E, E),
                                      .bias_k = vec(5, E),
                                      .bias_v = cube(5, 1, 1, E)};
}

Test(errors_modules, heads_of_packed_weights) {
    clattn_multihead *m = NULL;
    const clattn_multihead_weights w = packed();
    clattn_multihead_options options = {.heads = H};
    SUCCEEDS(make_heads(&w, &options));
    FAILS(clattn_multihead_create(context, &w, &options, NULL), CLATTN_E_ARGUMENT, "multihead is NULL");
    FAILS(clattn_multihead_create(NULL, &w, &options, &m), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_multihead_create(context, NULL, &options, &m), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_multihead_create(context, &w, NULL, &m), CLATTN_E_ARGUMENT, "options is NULL");
#define OPTIONS(part, ...)                                                                                             \
    REFUSED(clattn_multihead_options, make_heads(&w, &a), CLATTN_E_SHAPE, part, ARGS(.heads = H), __VA_ARGS__)
    OPTIONS("0 heads and 0 key heads", a.heads = 0);
    OPTIONS("2 heads and -1 key heads", a.key_heads = -1);
    OPTIONS("3 heads and 2 key heads", a.heads = 3, a.key_heads = 2);
    OPTIONS("4294967296 heads", a.heads = (int64_t)1 << 32);
    OPTIONS("heads and 4294967296 key heads", a.key_heads = (int64_t)1 << 32);
    OPTIONS("in_proj [12, 4]: its 12 outputs do not divide by 15 heads", a.heads = 5);
#define PACKED(code, part, ...)                                                                                        \
    do {                                                                                                               \
        clattn_multihead_weights a = packed();                                                                         \
        __VA_ARGS__;                                                                                                   \
        FAILS(make_heads(&a, &options), code, part);                                                                   \
    } while (0)
    PACKED(CLATTN_E_ARGUMENT, "are missing: give in_proj, or q, k and v", a.in_proj.rank = 0);
    PACKED(CLATTN_E_ARGUMENT, "both in_proj and q", a.q = mat(4, E, E));
    PACKED(CLATTN_E_ARGUMENT, "both in_proj and q", a.k = mat(4, E, E));
    PACKED(CLATTN_E_ARGUMENT, "both in_proj and q", a.v = mat(4, E, E));
    PACKED(CLATTN_E_ARGUMENT, "both in_bias and q_bias", a.q_bias = vec(4, E));
    PACKED(CLATTN_E_ARGUMENT, "both in_bias and q_bias", a.k_bias = vec(4, E));
    PACKED(CLATTN_E_ARGUMENT, "both in_bias and q_bias", a.v_bias = vec(4, E));
    PACKED(CLATTN_E_ARGUMENT, "only one of bias_k and bias_v", a.bias_k = vec(4, E));
    PACKED(CLATTN_E_SHAPE, "in_proj [48]: rank 1; it is a matrix [out, in]", a.in_proj = vec(0, 48));
    PACKED(CLATTN_E_SHAPE, "in_proj [48]: rank 1; it is a matrix [in, out]", a.in_proj = vec(0, 48),
           a.transposed = true);
    PACKED(CLATTN_E_DTYPE, "in_proj: is q8_0, which packs elements of a row",
           a.in_proj = as_type(mat(0, 12, 32), CLATTN_Q8_0), a.transposed = true);
    PACKED(CLATTN_E_SHAPE, "the heads have no dims", a.in_proj = mat(0, 0, E), a.in_bias.rank = 0);
    PACKED(CLATTN_E_ARGUMENT, "out: is missing", a.out.rank = 0);
    PACKED(CLATTN_E_SHAPE, "in_proj [-3, 4]: axis 0 is not from 0 to", a.in_proj.shape[0] = -3);
    PACKED(CLATTN_E_SHAPE, "in_proj [12, 2147483648]: axis 1 is not from 0 to", a.in_proj.shape[1] = (int64_t)1 << 31);
    PACKED(CLATTN_E_SHAPE, "out [4, 5]: has 5 inputs; should have 4", a.out = mat(2, E, 5));
    PACKED(CLATTN_E_SHAPE, "in_bias [11]: should be [12]", a.in_bias = vec(1, 11));
    PACKED(CLATTN_E_SHAPE, "in_bias [12, 1]: should be [12]", a.in_bias = mat(1, 12, 1));
    PACKED(CLATTN_E_SHAPE, "in_bias [12]: axis 0 has size 12 and stride -1", a.in_bias.stride[0] = -1);
    PACKED(CLATTN_E_SHAPE, "in_bias: rank -1", a.in_bias = clattn_tensor_slice(a.in_bias, 0, 1, 3 * E));
    PACKED(CLATTN_E_SHAPE, "in_proj: offset -1 is negative", a.in_proj.offset = -1);
    PACKED(CLATTN_E_SHAPE, "out_bias: rank -1", a.out_bias = clattn_tensor_slice(a.out_bias, 0, 1, E));
    PACKED(CLATTN_E_SHAPE, "out_bias [3]: should be [4]", a.out_bias = vec(3, 3));
}

Test(errors_modules, heads_of_separate_weights) {
    const clattn_multihead_weights w = separate();
    const clattn_multihead_options options = {.heads = H};
    SUCCEEDS(make_heads(&w, &options));
#define SEPARATE(code, part, ...)                                                                                      \
    do {                                                                                                               \
        clattn_multihead_weights a = separate();                                                                       \
        __VA_ARGS__;                                                                                                   \
        FAILS(make_heads(&a, &options), code, part);                                                                   \
    } while (0)
    SEPARATE(CLATTN_E_ARGUMENT, "q: is missing", a.q.rank = 0);
    SEPARATE(CLATTN_E_ARGUMENT, "q: is missing", a.q.rank = a.k.rank = 0);
    SEPARATE(CLATTN_E_ARGUMENT, "k: is missing", a.k.rank = 0);
    SEPARATE(CLATTN_E_ARGUMENT, "v: is missing", a.v.rank = 0);
    SEPARATE(CLATTN_E_SHAPE, "q [5, 4]: its 5 outputs do not divide by 2 heads", a.q = mat(0, 5, E));
    SEPARATE(CLATTN_E_SHAPE, "k [6, 4]: has 6 outputs; should have 4, 2 heads of 2", a.k = mat(1, 6, E));
    SEPARATE(CLATTN_E_SHAPE, "v [5, 4]: its 5 outputs do not divide by 2 heads", a.v = mat(2, 5, E));
    SEPARATE(CLATTN_E_SHAPE, "out [4, 4]: has 4 inputs; should have 6", a.v = mat(2, 6, E));
    SEPARATE(CLATTN_E_SHAPE, "q_bias [3]: should be [4]", a.q_bias = vec(3, 3));
    SEPARATE(CLATTN_E_SHAPE, "k_bias [3]: should be [4]", a.k_bias = vec(3, 3));
    SEPARATE(CLATTN_E_SHAPE, "v_bias [3]: should be [4]", a.v_bias = vec(3, 3));
    SEPARATE(CLATTN_E_SHAPE, "bias_k [1, 1, 3]: should be [1, 1, 4] or [4]", a.bias_k = cube(5, 1, 1, 3));
    SEPARATE(CLATTN_E_SHAPE, "bias_v [2, 1, 4]: should be [1, 1, 4] or [4]", a.bias_v = cube(5, 2, 1, 4));
    SEPARATE(CLATTN_E_SHAPE, "bias_v: rank 9", a.bias_v.rank = CLATTN_MAX_RANK + 1);
    SEPARATE(CLATTN_E_ARGUMENT, "only one of bias_k and bias_v", a.bias_k.rank = 0);
    /* Beyond 2^40 numbers of a weight are not counted. */
    const clattn_tensor huge = repeated(2, 1 << 30, 1 << 30, 1);
    const clattn_multihead_weights most = {.q = huge, .k = huge, .v = huge, .out = repeated(2, 4, 1 << 30, 1)};
    clattn_multihead *m = NULL;
    SUCCEEDS(clattn_multihead_create(context, &most, &options, &m));
    cr_expect_eq(clattn_multihead_parameter_count(m), 3 * ((int64_t)1 << 40) + ((int64_t)1 << 32));
    clattn_multihead_destroy(m);
}

/* ---- feed-forward ---- */

static clattn_feedforward_weights gated(void) {
    return (clattn_feedforward_weights){.linear1 = mat(0, F, E),
                                        .linear1_bias = vec(1, F),
                                        .gate = mat(2, F, E),
                                        .gate_bias = vec(3, F),
                                        .linear2 = mat(4, E, F),
                                        .linear2_bias = vec(5, E)};
}

static clattn_status make_feed(const clattn_feedforward_weights *weights) {
    clattn_feedforward *f = NULL;
    const clattn_status status = clattn_feedforward_create(context, weights, NULL, &f);
    cr_expect_eq(f != NULL, status == CLATTN_OK);
    clattn_feedforward_destroy(f);
    return status;
}

Test(errors_modules, feed_forward) {
    clattn_feedforward *f = NULL;
    const clattn_feedforward_weights w = gated();
    SUCCEEDS(make_feed(&w));
    FAILS(clattn_feedforward_create(context, &w, NULL, NULL), CLATTN_E_ARGUMENT, "feedforward is NULL");
    FAILS(clattn_feedforward_create(NULL, &w, NULL, &f), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_feedforward_create(context, NULL, NULL, &f), CLATTN_E_ARGUMENT, "weights is NULL");
#define FEED(code, part, ...)                                                                                          \
    do {                                                                                                               \
        clattn_feedforward_weights a = gated();                                                                        \
        __VA_ARGS__;                                                                                                   \
        FAILS(make_feed(&a), code, part);                                                                              \
    } while (0)
    FEED(CLATTN_E_ARGUMENT, "feedforward: linear1: is missing", a.linear1.rank = 0);
    FEED(CLATTN_E_ARGUMENT, "linear2: is missing", a.linear2.rank = 0);
    FEED(CLATTN_E_SHAPE, "linear2 [4, 5]: has 5 inputs; should have 6", a.linear2 = mat(4, E, 5));
    FEED(CLATTN_E_SHAPE, "gate [24]: rank 1", a.gate = vec(2, 24));
    FEED(CLATTN_E_SHAPE, "gate [5, 4]: should have the shape of linear1", a.gate = mat(2, 5, E));
    FEED(CLATTN_E_SHAPE, "gate [6, 3]: should have the shape of linear1", a.gate = mat(2, F, 3));
    FEED(CLATTN_E_ARGUMENT, "gate_bias is given, and no gate", a.gate.rank = 0);
    FEED(CLATTN_E_SHAPE, "linear1_bias [5]: should be [6]", a.linear1_bias = vec(1, 5));
    FEED(CLATTN_E_SHAPE, "gate_bias [5]: should be [6]", a.gate_bias = vec(3, 5));
    FEED(CLATTN_E_SHAPE, "linear2_bias [6]: should be [4]", a.linear2_bias = vec(5, 6));
}

/* ---- stacks ---- */

static clattn_norm_weights norm(void) { return (clattn_norm_weights){.weight = vec(6, E), .bias = vec(7, E)}; }

static clattn_encoder_layer_weights encoding(void) {
    return (clattn_encoder_layer_weights){
        .self_attn = packed(), .feedforward = gated(), .norm1 = norm(), .norm2 = norm()};
}

static clattn_decoder_layer_weights decoding(void) {
    return (clattn_decoder_layer_weights){.self_attn = packed(),
                                          .cross_attn = separate(),
                                          .feedforward = gated(),
                                          .norm1 = norm(),
                                          .norm2 = norm(),
                                          .norm3 = norm()};
}

static clattn_status make_encoder(const clattn_encoder_weights *weights) {
    clattn_encoder *e = NULL;
    const clattn_layer_options options = {.heads = H};
    const clattn_status status = clattn_encoder_create(context, weights, &options, &e);
    cr_expect_eq(e != NULL, status == CLATTN_OK);
    clattn_encoder_destroy(e);
    return status;
}

static clattn_status make_decoder(const clattn_decoder_weights *weights) {
    clattn_decoder *d = NULL;
    const clattn_layer_options options = {.heads = H};
    const clattn_status status = clattn_decoder_create(context, weights, &options, &d);
    cr_expect_eq(d != NULL, status == CLATTN_OK);
    clattn_decoder_destroy(d);
    return status;
}

Test(errors_modules, encoders) {
    clattn_encoder *e = NULL;
    const clattn_encoder_layer_weights right = encoding();
    const clattn_encoder_weights w = {.layers = &right, .count = 1};
    const clattn_layer_options options = {.heads = H};
    SUCCEEDS(make_encoder(&w));
    FAILS(clattn_encoder_create(context, &w, &options, NULL), CLATTN_E_ARGUMENT, "encoder is NULL");
    FAILS(clattn_encoder_create(NULL, &w, &options, &e), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_encoder_create(context, NULL, &options, &e), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_encoder_create(context, &w, NULL, &e), CLATTN_E_ARGUMENT, "options is NULL");
    FAILS(clattn_encoder_create(context, &(clattn_encoder_weights){.count = 1}, &options, &e), CLATTN_E_ARGUMENT,
          "layers is NULL");
    FAILS(make_encoder(&(clattn_encoder_weights){.layers = &right}), CLATTN_E_ARGUMENT, "0 layers; from 1 to");
    FAILS(make_encoder(&(clattn_encoder_weights){.layers = &right, .count = INT64_MAX}), CLATTN_E_ARGUMENT,
          "9223372036854775807 layers; from 1 to");
    cr_expect_eq(clattn_encoder_parameter_count(NULL), 0);
    cr_expect_eq(clattn_encoder_layer_count(NULL), 0);
    /* The second of two layers, or the norm behind them. */
#define ENCODER(code, part, ...)                                                                                       \
    do {                                                                                                               \
        clattn_encoder_layer_weights layers[] = {encoding(), encoding()}, *a = &layers[1];                             \
        clattn_norm_weights last = norm();                                                                             \
        (void)last, (void)a, __VA_ARGS__;                                                                              \
        FAILS(make_encoder(&(clattn_encoder_weights){.layers = layers, .count = 2, .has_norm = true, .norm = last}),   \
              code, part);                                                                                             \
    } while (0)
    ENCODER(CLATTN_E_ARGUMENT, "encoder: layer 1: self_attn: ", a->self_attn.in_proj.rank = 0);
    ENCODER(CLATTN_E_ARGUMENT, "encoder: layer 1: feedforward: linear1: is missing", a->feedforward.linear1.rank = 0);
    ENCODER(CLATTN_E_SHAPE, "layer 1: norm1: weight [3]: should be [4]", a->norm1.weight = vec(6, 3));
    ENCODER(CLATTN_E_SHAPE, "layer 1: norm1: bias [3]: should be [4]", a->norm1.bias = vec(6, 3));
    ENCODER(CLATTN_E_SHAPE, "layer 1: norm2: weight [3]: should be [4]", a->norm2.weight = vec(6, 3));
    ENCODER(CLATTN_E_SHAPE, "self_attn: queries, keys, values and the result have 4, 4, 4 and 5 columns",
            a->self_attn.out = mat(2, 5, E), a->self_attn.out_bias.rank = 0);
    ENCODER(CLATTN_E_SHAPE, "have 4, 3, 4 and 4 columns", a->self_attn = separate(), a->self_attn.k = mat(1, E, 3));
    ENCODER(CLATTN_E_SHAPE, "have 4, 4, 3 and 4 columns", a->self_attn = separate(), a->self_attn.v = mat(2, E, 3));
    ENCODER(CLATTN_E_SHAPE, "feedforward: takes 3 and gives 4 columns; self_attn has 4",
            a->feedforward.linear1 = a->feedforward.gate = mat(0, F, 3));
    ENCODER(CLATTN_E_SHAPE, "feedforward: takes 4 and gives 3 columns", a->feedforward.linear2 = mat(4, 3, F),
            a->feedforward.linear2_bias.rank = 0);
    ENCODER(CLATTN_E_SHAPE, "has other keys behind the given ones (bias_k)", a->self_attn = separate());
    ENCODER(CLATTN_E_SHAPE, "encoder: layer 1: takes 2 columns, and the first layer gives 4",
            a->self_attn = (clattn_multihead_weights){.in_proj = mat(0, 6, 2), .out = mat(2, 2, 2)},
            a->feedforward = (clattn_feedforward_weights){.linear1 = mat(0, F, 2), .linear2 = mat(4, 2, F)},
            a->norm1 = a->norm2 = (clattn_norm_weights){.weight = vec(6, 2)});
    ENCODER(CLATTN_E_SHAPE, "norm: weight [3]: should be [4]", last.weight = vec(6, 3));
    ENCODER(CLATTN_E_SHAPE, "norm: bias [3]: should be [4]", last.bias = vec(6, 3));
}

Test(errors_modules, decoders) {
    clattn_decoder *d = NULL;
    const clattn_decoder_layer_weights right = decoding();
    const clattn_decoder_weights w = {.layers = &right, .count = 1};
    const clattn_layer_options options = {.heads = H};
    SUCCEEDS(make_decoder(&w));
    FAILS(clattn_decoder_create(context, &w, &options, NULL), CLATTN_E_ARGUMENT, "decoder is NULL");
    FAILS(clattn_decoder_create(NULL, &w, &options, &d), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_decoder_create(context, NULL, &options, &d), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_decoder_create(context, &w, NULL, &d), CLATTN_E_ARGUMENT, "options is NULL");
    FAILS(clattn_decoder_create(context, &(clattn_decoder_weights){.count = 1}, &options, &d), CLATTN_E_ARGUMENT,
          "layers is NULL");
    FAILS(make_decoder(&(clattn_decoder_weights){.layers = &right, .count = INT64_MAX}), CLATTN_E_ARGUMENT,
          "9223372036854775807 layers; from 1 to");
    cr_expect_eq(clattn_decoder_parameter_count(NULL), 0);
    cr_expect_eq(clattn_decoder_layer_count(NULL), 0);
#define DECODER(code, part, ...)                                                                                       \
    do {                                                                                                               \
        clattn_decoder_layer_weights layers[] = {decoding(), decoding()}, *a = &layers[1];                             \
        __VA_ARGS__;                                                                                                   \
        FAILS(make_decoder(&(clattn_decoder_weights){.layers = layers, .count = 2}), code, part);                      \
    } while (0)
    DECODER(CLATTN_E_ARGUMENT, "decoder: layer 1: cross_attn: q: is missing", a->cross_attn.q.rank = 0);
    DECODER(CLATTN_E_SHAPE, "layer 1: norm3: weight [3]: should be [4]", a->norm3.weight = vec(6, 3));
    DECODER(CLATTN_E_SHAPE, "cross_attn: takes 3 and gives 4 columns; self_attn has 4", a->cross_attn.q = mat(0, E, 3));
    DECODER(CLATTN_E_SHAPE, "cross_attn: takes 4 and gives 5 columns", a->cross_attn.out = mat(4, 5, E));
    DECODER(CLATTN_E_SHAPE, "cross_attn: keys are of 3 columns and values of 4", a->cross_attn.k = mat(1, E, 3));
    DECODER(CLATTN_E_SHAPE, "decoder: layer 1: cross_attn takes a memory of 3 columns, and that of the first layer 4",
            a->cross_attn.k = mat(1, E, 3), a->cross_attn.v = mat(2, E, 3));
    DECODER(CLATTN_E_SHAPE, "has other keys behind the given ones (bias_k)",
            a->cross_attn.bias_k.rank = a->cross_attn.bias_v.rank = 0);
}

Test(errors_modules, caches_of_decoders) {
    clattn_decoder *d = NULL, *behind = NULL;
    clattn_decoder_cache *cache = NULL;
    clattn_decoder_layer_weights layer = decoding();
    const clattn_layer_options options = {.heads = H};
    SUCCEEDS(clattn_decoder_create(context, &(clattn_decoder_weights){.layers = &layer, .count = 1}, &options, &d));
    layer.self_attn = separate();
    SUCCEEDS(
        clattn_decoder_create(context, &(clattn_decoder_weights){.layers = &layer, .count = 1}, &options, &behind));
    const clattn_decoder_cache_options right = {.batch = 2, .capacity = 3};
    FAILS(clattn_decoder_cache_create(d, &right, NULL), CLATTN_E_ARGUMENT, "cache is NULL");
    FAILS(clattn_decoder_cache_create(NULL, &right, &cache), CLATTN_E_ARGUMENT, "decoder is NULL");
    FAILS(clattn_decoder_cache_create(d, NULL, &cache), CLATTN_E_ARGUMENT, "options is NULL");
    FAILS(clattn_decoder_cache_create(behind, &right, &cache), CLATTN_E_UNSUPPORTED, "layer 0 has bias_k");
#define CACHE(code, part, ...)                                                                                         \
    REFUSED(clattn_decoder_cache_options, clattn_decoder_cache_create(d, &a, &cache), code, part,                      \
            ARGS(.batch = 2, .capacity = 3), __VA_ARGS__)
    CACHE(CLATTN_E_ARGUMENT, "a batch of -1 and 3 targets", a.batch = -1);
    CACHE(CLATTN_E_ARGUMENT, "a batch of 2 and -1 targets", a.capacity = -1);
    CACHE(CLATTN_E_DTYPE, "is of q8_0", a.has_dtype = true, a.dtype = CLATTN_Q8_0);
    CACHE(CLATTN_E_SHAPE, "more elements than 64 bits count", a.capacity = INT64_MAX);
    CACHE(CLATTN_E_SHAPE, "more elements than 64 bits count", a.capacity = INT64_MAX / 16);
    cr_expect_null(cache);
    cr_expect_eq(clattn_decoder_cache_length(NULL), 0);
    FAILS(clattn_decoder_cache_truncate(NULL, 0), CLATTN_E_ARGUMENT, "cache is NULL");
    SUCCEEDS(clattn_decoder_cache_create(d, &right, &cache));
    FAILS(clattn_decoder_cache_truncate(cache, 1), CLATTN_E_ARGUMENT, "cut to 1 targets; it holds 0");
    FAILS(clattn_decoder_cache_truncate(cache, -1), CLATTN_E_ARGUMENT, "cut to -1 targets");
    clattn_decoder_cache_destroy(cache);
    clattn_decoder_destroy(behind);
    clattn_decoder_destroy(d);
}
