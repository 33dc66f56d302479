/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors of a module make its sums f64: each alone. Numbers are such that sums in f32 overflow, and results do
 * not. */
#include "op_arrays.h"
#include <clattn/clattn.h>

enum { B = 1, N = 3, E = 2, H = 1, MOST = 64, SLOTS = 40 };

static double pool[SLOTS][MOST]; /* each holds f32 or f64 */
static int used, wide;           /* the tensor that is f64 */

/* The next tensor, full of one number. */
static clattn_tensor next(double value, int rank, int64_t a, int64_t b, int64_t c) {
    const clattn_dtype dtype = used == wide ? CLATTN_F64 : CLATTN_F32;
    const int64_t shape[] = {a, b, c};
    clattn_tensor t = clattn_tensor_host(pool[used++], dtype, rank, shape);
    cr_assert(used <= SLOTS && clattn_tensor_elements(&t) <= MOST);
    for (int64_t i = 0; i < clattn_tensor_elements(&t); i++)
        SUCCEEDS(clattn_convert((char *)t.host + (size_t)i * clattn_dtype_size(dtype), dtype, &value, CLATTN_F64, 1));
    return t;
}
static clattn_tensor matrix(double value, int64_t rows, int64_t columns) { return next(value, 2, rows, columns, 1); }
static clattn_tensor vector(double value) { return next(value, 1, E, 1, 1); }
static clattn_tensor rows(double value) { return next(value, 3, B, N, E); }

static bool is_finite(const clattn_tensor *t) {
    bool finite = true;
    for (int64_t i = 0; i < clattn_tensor_elements(t); i++)
        finite = finite && isfinite(oracle_decode(t->dtype, t->host, i));
    return finite;
}

static const double big = 1e30, small = 1e-30;

/* x W1 is beyond f32, and x W1 W2 is not. */
static clattn_feedforward_weights feed(double first, double second) {
    return (clattn_feedforward_weights){.linear1 = matrix(first, E, E),
                                        .linear1_bias = vector(0),
                                        .gate = matrix(small, E, E),
                                        .gate_bias = vector(1),
                                        .linear2 = matrix(second, E, E),
                                        .linear2_bias = vector(0)};
}

/* v = x W and v Wout likewise; scores are all alike. */
static clattn_multihead_weights heads(double first, double second) {
    return (clattn_multihead_weights){.q = matrix(small, E, E),
                                      .k = matrix(small, E, E),
                                      .v = matrix(first, E, E),
                                      .q_bias = vector(0),
                                      .k_bias = vector(0),
                                      .v_bias = vector(0),
                                      .out = matrix(second, E, E),
                                      .out_bias = vector(0)};
}

static bool run_feed(clattn_context *context) {
    const clattn_feedforward_weights w = feed(big, small);
    const clattn_tensor x = rows(big), y = rows(0);
    clattn_feedforward *f = NULL;
    SUCCEEDS(clattn_feedforward_create(context, &w, NULL, &f));
    SUCCEEDS(clattn_feedforward_run(f, &x, &y));
    clattn_feedforward_destroy(f);
    return is_finite(&y);
}

static bool run_heads(clattn_context *context) {
    const clattn_multihead_weights w = heads(big, small);
    const clattn_multihead_args args = {.query = rows(1), .key = rows(1), .value = rows(big), .y = rows(0)};
    clattn_multihead *m = NULL;
    SUCCEEDS(clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m));
    SUCCEEDS(clattn_multihead_run(m, &args));
    clattn_multihead_destroy(m);
    return is_finite(&args.y);
}

/* Gradients pass through the same products from behind. */
static bool run_feed_backward(clattn_context *context) {
    const clattn_feedforward_weights w = feed(small, big);
    const clattn_feedforward_backward_args args = {.x = rows(1), .d_y = rows(big), .d_x = rows(0)};
    clattn_feedforward *f = NULL;
    SUCCEEDS(clattn_feedforward_create(context, &w, NULL, &f));
    SUCCEEDS(clattn_feedforward_backward(f, &args));
    clattn_feedforward_destroy(f);
    return is_finite(&args.d_x);
}

static bool run_heads_backward(clattn_context *context) {
    const clattn_multihead_weights w = heads(small, big);
    const clattn_multihead_backward_args args = {.forward = {.query = rows(1), .key = rows(1), .value = rows(1)},
                                                 .d_y = rows(big),
                                                 .d_query = rows(0),
                                                 .d_key = rows(0),
                                                 .d_value = rows(0)};
    clattn_multihead *m = NULL;
    SUCCEEDS(clattn_multihead_create(context, &w, &(clattn_multihead_options){.heads = H}, &m));
    SUCCEEDS(clattn_multihead_backward(m, &args));
    clattn_multihead_destroy(m);
    return is_finite(&args.d_query) && is_finite(&args.d_key) && is_finite(&args.d_value);
}

/* Products of attention overflow; those behind norms do not. */
static bool run_encoder(clattn_context *context) {
    const clattn_encoder_layer_weights layer = {.self_attn = heads(big, small),
                                                .feedforward = feed(1, 1),
                                                .norm1 = {.weight = vector(1), .bias = vector(0)},
                                                .norm2 = {.weight = vector(1), .bias = vector(0)}};
    const clattn_encoder_weights w = {
        .layers = &layer, .count = 1, .has_norm = true, .norm = {.weight = vector(1), .bias = vector(0)}};
    const clattn_encoder_args args = {.x = rows(big), .y = rows(0)};
    clattn_encoder *e = NULL;
    SUCCEEDS(clattn_encoder_create(context, &w, &(clattn_layer_options){.heads = H}, &e));
    SUCCEEDS(clattn_encoder_run(e, &args));
    clattn_encoder_destroy(e);
    return is_finite(&args.y);
}

static bool run_decoder(clattn_context *context) {
    const clattn_decoder_layer_weights layer = {.self_attn = heads(1, 1),
                                                .cross_attn = heads(big, small),
                                                .feedforward = feed(1, 1),
                                                .norm3 = {.weight = vector(1), .bias = vector(0)}};
    const clattn_decoder_weights w = {.layers = &layer, .count = 1};
    const clattn_decoder_args args = {.x = rows(1), .memory = rows(big), .y = rows(0)};
    clattn_decoder *d = NULL;
    SUCCEEDS(clattn_decoder_create(context, &w, &(clattn_layer_options){.heads = H}, &d));
    SUCCEEDS(clattn_decoder_run(d, &args));
    clattn_decoder_destroy(d);
    return is_finite(&args.y);
}

static const struct {
    const char *name;
    bool (*run)(clattn_context *context);
} modules[] = {{"feed-forward", run_feed},
               {"attention", run_heads},
               {"feed-forward, backward", run_feed_backward},
               {"attention, backward", run_heads_backward},
               {"encoder", run_encoder},
               {"decoder", run_decoder}};

Test(wide, any_tensor_of_f64_makes_the_sums_of_a_module_f64) {
    clattn_context *context = op_open("cpu");
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        used = 0, wide = -1;
        cr_expect_not(modules[i].run(context), "%s: sums in f32 do not overflow", modules[i].name);
        const int count = used;
        for (wide = 0; wide < count; wide++) {
            used = 0;
            cr_expect(modules[i].run(context), "%s: with tensor %d of %d in f64", modules[i].name, wide, count);
        }
    }
    clattn_context_destroy(context);
}

/* A cache in f64 does, too. */
Test(wide, a_cache_of_f64_makes_the_sums_of_a_decoder_f64) {
    clattn_context *context = op_open("cpu");
    clattn_decoder *d = NULL;
    used = 0, wide = -1;
    const clattn_decoder_layer_weights layer = {
        .self_attn = heads(1, 1), .cross_attn = heads(big, small), .feedforward = feed(1, 1)};
    const clattn_decoder_args of = {.x = rows(1), .memory = rows(big), .y = rows(0)};
    SUCCEEDS(clattn_decoder_create(context, &(clattn_decoder_weights){.layers = &layer, .count = 1},
                                   &(clattn_layer_options){.heads = H}, &d));
    for (int narrow = 0; narrow < 2; narrow++) {
        clattn_decoder_cache *cache = NULL;
        clattn_decoder_args args = of;
        const clattn_decoder_cache_options options = {
            .batch = B, .capacity = N, .has_dtype = true, .dtype = narrow ? CLATTN_F32 : CLATTN_F64};
        SUCCEEDS(clattn_decoder_cache_create(d, &options, &cache));
        args.cache = cache;
        SUCCEEDS(clattn_decoder_run(d, &args));
        cr_expect_eq(is_finite(&args.y), !narrow, "%s", clattn_dtype_name(options.dtype));
        clattn_decoder_cache_destroy(cache);
    }
    clattn_decoder_destroy(d);
    clattn_context_destroy(context);
}
