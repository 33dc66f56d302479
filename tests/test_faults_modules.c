/* SPDX-License-Identifier: Apache-2.0 */
/* Faults in calls of operations, linear layers, modules and their gradients: see faults/sweep.h. */
#include "faults/numbers.h"
#include "oclgrind_ops.h"
#include <clattn/clattn.h>
#include <stdio.h>

/* ---- operations on rows, elements, tokens and caches, some at a time ---- */

typedef struct {
    size_t first, count;
    bool as_cpu;
} some_ops;

static bool run_ops(clattn_context *context, const void *data, char text[ORACLE_TEXT]) {
    const some_ops *o = data;
    for (size_t i = o->first; i < o->first + o->count && ops_name(i); i++) {
        if (!succeeded(ops_run(context, i, o->as_cpu), text))
            return false;
        faults_pause(true);
        const bool right = ops_right(i);
        faults_pause(false);
        if (!right)
            snprintf(text, ORACLE_TEXT, "%s: wrong", ops_name(i));
        if (!right)
            return false;
    }
    return true;
}

static void sweep_ops(const char *name, size_t first, bool as_cpu) {
    sweep(&(run_of){.name = name, .data = &(some_ops){first, 6, as_cpu}, .run = run_ops});
}

Test(faults_modules, operations_1) { sweep_ops("operations 1 to 6", 0, true); }
Test(faults_modules, operations_2) { sweep_ops("operations 7 to 12", 6, false); }
Test(faults_modules, operations_3) { sweep_ops("operations 13 to 18", 12, true); }
Test(faults_modules, operations_4) { sweep_ops("operations 19 to 24", 18, false); }

/* ---- linear layers ---- */

enum { ROWS = 5, IN = 40, OUT = 21 };

static clattn_status linear(clattn_context *context, const char *how, float *out) {
    const clattn_tensor x = numbers_matrix(ROWS, IN), d_y = numbers_matrix(ROWS, OUT);
    clattn_linear_args a = {.x = x,
                            .w = numbers_matrix(OUT, IN),
                            .bias = numbers_vector(OUT),
                            .y = numbers_out(&out, d_y),
                            .activation = CLATTN_ACTIVATION_GELU,
                            .algorithm = how};
    clattn_linear_args gated = a;
    gated.w = numbers_matrix(2 * OUT, IN), gated.bias = numbers_vector(2 * OUT);
    gated.y = numbers_out(&out, d_y), gated.gated = true;
    const clattn_linear_backward_args back = {.x = x,
                                              .w = a.w,
                                              .z = numbers_matrix(ROWS, OUT),
                                              .d_y = d_y,
                                              .d_x = numbers_out(&out, x),
                                              .d_w = numbers_out(&out, a.w),
                                              .d_bias = numbers_out(&out, a.bias),
                                              .activation = CLATTN_ACTIVATION_GELU,
                                              /* one that reads what is turned */
                                              .algorithm = how && strcmp(how, "gemv") == 0 ? NULL : how};
    clattn_status status = clattn_linear(context, &a);
    if (status == CLATTN_OK)
        status = clattn_linear(context, &gated);
    return status == CLATTN_OK ? clattn_linear_backward(context, &back) : status;
}

Test(faults_modules, linear_by_gemv) { sweep_numbers("linear layer by gemv", NULL, "gemv", linear); }
Test(faults_modules, linear_by_linear) { sweep_numbers("linear layer by linear", NULL, "linear", linear); }
Test(faults_modules, F10_linear_by_clblast) { sweep_numbers("linear layer by clblast", NULL, "clblast", linear); }
Test(faults_modules, linear_by_blas) { sweep_numbers("linear layer by blas", "cpu", "blas", linear); }

/* ---- modules ---- */

enum { E = 8, H = 2, F = 12, N = 3, M = 4 };

static clattn_multihead_weights heads(void) {
    return (clattn_multihead_weights){.in_proj = numbers_matrix(3 * E, E),
                                      .in_bias = numbers_vector(3 * E),
                                      .out = numbers_matrix(E, E),
                                      .out_bias = numbers_vector(E)};
}

static clattn_norm_weights norm(void) {
    return (clattn_norm_weights){.weight = numbers_vector(E), .bias = numbers_vector(E)};
}

static clattn_feedforward_weights feed(void) {
    return (clattn_feedforward_weights){.linear1 = numbers_matrix(F, E),
                                        .linear1_bias = numbers_vector(F),
                                        .linear2 = numbers_matrix(E, F),
                                        .linear2_bias = numbers_vector(E)};
}

/* Keys behind the others, a joined mask, weights, separate projections. */
static clattn_status multihead(clattn_context *context, const char *how, float *out) {
    static const unsigned char padding[2 * N] = {0, 0, 1, 0, 1, 0};
    const int64_t padding_shape[] = {2, N};
    const clattn_tensor x = numbers_view(numbers_in + 100, 3, 2, N, E);
    clattn_multihead *m = NULL;
    clattn_multihead_weights w = {.q = numbers_matrix(E, E),
                                  .k = numbers_matrix(E / 2, E),
                                  .v = numbers_matrix(E / 2, E),
                                  .out = numbers_matrix(E, E),
                                  .bias_k = numbers_vector(E / 2),
                                  .bias_v = numbers_vector(E / 2)};
    const clattn_multihead_options options = {.heads = 4, .key_heads = 2, .add_zero_attn = true};
    const clattn_multihead_args args = {
        .query = x,
        .y = numbers_out(&out, x),
        .weights = clattn_tensor_host(out, CLATTN_F32, 4, (const int64_t[]){2, 4, N, N + 2}),
        .masks = {.attn = numbers_matrix(N, N),
                  .key_padding = clattn_tensor_host((void *)(uintptr_t)padding, CLATTN_BOOL, 2, padding_shape)}};
    (void)how;
    clattn_status status = clattn_multihead_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_multihead_run(m, &args);
    clattn_multihead_destroy(m);
    return status;
}

static clattn_status feedforward(clattn_context *context, const char *how, float *out) {
    const clattn_tensor x = numbers_view(numbers_in + 300, 3, 2, N, E), y = numbers_out(&out, x);
    clattn_feedforward_weights w = feed(), d = feed();
    w.gate = numbers_matrix(F, E);
    d.linear1 = numbers_out(&out, w.linear1), d.linear1_bias = numbers_out(&out, w.linear1_bias);
    d.gate = numbers_out(&out, w.gate);
    d.linear2 = numbers_out(&out, w.linear2), d.linear2_bias = numbers_out(&out, w.linear2_bias);
    const clattn_feedforward_backward_args back = {.x = x, .d_y = x, .d_x = numbers_out(&out, x), .gradients = &d};
    clattn_feedforward *m = NULL;
    (void)how;
    clattn_status status = clattn_feedforward_create(context, &w, NULL, &m);
    if (status == CLATTN_OK)
        status = clattn_feedforward_run(m, &x, &y);
    if (status == CLATTN_OK)
        status = clattn_feedforward_backward(m, &back);
    clattn_feedforward_destroy(m);
    return status;
}

static clattn_status encoder(clattn_context *context, const char *how, float *out) {
    static const int64_t lengths[] = {3, 1};
    const clattn_encoder_layer_weights layers[] = {
        {.self_attn = heads(), .feedforward = feed(), .norm1 = norm(), .norm2 = norm()},
        {.self_attn = heads(), .feedforward = feed(), .norm1 = norm(), .norm2 = norm()}};
    const clattn_encoder_weights w = {.layers = layers, .count = 2, .has_norm = true, .norm = norm()};
    const clattn_layer_options options = {.heads = H, .norm_first = true, .activation = CLATTN_ACTIVATION_GELU};
    const clattn_tensor x = numbers_view(numbers_in + 200, 3, 2, N, E);
    const clattn_encoder_args args = {.x = x, .y = numbers_out(&out, x), .masks = {.key_lengths = lengths}};
    clattn_encoder *m = NULL;
    (void)how;
    clattn_status status = clattn_encoder_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_encoder_run(m, &args);
    clattn_encoder_destroy(m);
    return status;
}

static clattn_decoder_layer_weights decoder_layer(void) {
    return (clattn_decoder_layer_weights){.self_attn = heads(),
                                          .cross_attn = heads(),
                                          .feedforward = feed(),
                                          .norm1 = norm(),
                                          .norm2 = norm(),
                                          .norm3 = norm()};
}

/* Tokens one by one, with a cache. */
static clattn_status decoder(clattn_context *context, const char *how, float *out) {
    const clattn_decoder_layer_weights layer = decoder_layer();
    const clattn_decoder_weights w = {.layers = &layer, .count = 1};
    const clattn_layer_options options = {.heads = H};
    const clattn_decoder_cache_options cached = {.batch = 2, .capacity = N};
    const clattn_tensor x = numbers_view(numbers_in + 400, 3, 2, N, E), y = numbers_out(&out, x);
    const clattn_tensor memory = numbers_view(numbers_in + 600, 3, 2, M, E);
    clattn_decoder *m = NULL;
    clattn_decoder_cache *cache = NULL;
    (void)how;
    clattn_status status = clattn_decoder_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_decoder_cache_create(m, &cached, &cache);
    for (int i = 0; i < N && status == CLATTN_OK; i++) {
        const clattn_decoder_args args = {.x = clattn_tensor_slice(x, 1, i, 1),
                                          .y = clattn_tensor_slice(y, 1, i, 1),
                                          .memory = i == 0 ? memory : (clattn_tensor){0},
                                          .cache = cache};
        status = clattn_decoder_run(m, &args);
        if (status != CLATTN_OK && clattn_decoder_cache_length(cache) != i)
            status = CLATTN_E_FORMAT; /* a token that failed is not counted */
    }
    clattn_decoder_cache_destroy(cache);
    clattn_decoder_destroy(m);
    return status;
}

static void heads_out(float **out, clattn_multihead_weights *d) {
    d->in_proj = numbers_out(out, d->in_proj), d->in_bias = numbers_out(out, d->in_bias);
    d->out = numbers_out(out, d->out), d->out_bias = numbers_out(out, d->out_bias);
}

static void norm_out(float **out, clattn_norm_weights *d) {
    d->weight = numbers_out(out, d->weight), d->bias = numbers_out(out, d->bias);
}

/* A training step of two layers, forward and back. */
static clattn_status step(clattn_context *context, const char *how, float *out) {
    const clattn_decoder_layer_weights layers[] = {decoder_layer(), decoder_layer()};
    clattn_decoder_layer_weights gradients[] = {decoder_layer(), decoder_layer()};
    const clattn_layer_options options = {.heads = H};
    const clattn_tensor x = numbers_view(numbers_in + 400, 3, 2, N, E);
    const clattn_tensor memory = numbers_view(numbers_in + 600, 3, 2, M, E);
    for (int i = 0; i < 2; i++) {
        clattn_decoder_layer_weights *d = &gradients[i];
        heads_out(&out, &d->self_attn), heads_out(&out, &d->cross_attn);
        d->feedforward.linear1 = numbers_out(&out, d->feedforward.linear1);
        d->feedforward.linear1_bias = numbers_out(&out, d->feedforward.linear1_bias);
        d->feedforward.linear2 = numbers_out(&out, d->feedforward.linear2);
        d->feedforward.linear2_bias = numbers_out(&out, d->feedforward.linear2_bias);
        norm_out(&out, &d->norm1), norm_out(&out, &d->norm2), norm_out(&out, &d->norm3);
    }
    const clattn_decoder_weights w = {.layers = layers, .count = 2}, d = {.layers = gradients, .count = 2};
    const clattn_tensor hidden[] = {numbers_out(&out, x), numbers_out(&out, x)};
    const clattn_decoder_args args = {
        .x = x, .y = numbers_out(&out, x), .memory = memory, .masks = {.causal = true}, .hidden = hidden};
    const clattn_decoder_backward_args back = {
        .forward = args, .d_y = x, .d_x = numbers_out(&out, x), .d_memory = numbers_out(&out, memory), .gradients = &d};
    clattn_decoder *m = NULL;
    (void)how;
    clattn_status status = clattn_decoder_create(context, &w, &options, &m);
    if (status == CLATTN_OK)
        status = clattn_decoder_run(m, &args);
    if (status == CLATTN_OK)
        status = clattn_decoder_backward(m, &back);
    clattn_decoder_destroy(m);
    return status;
}

Test(faults_modules, multihead) { sweep_numbers("multi-head attention", NULL, NULL, multihead); }
Test(faults_modules, feedforward) { sweep_numbers("feed-forward with gradients", NULL, NULL, feedforward); }
Test(faults_modules, encoder) { sweep_numbers("encoder", NULL, NULL, encoder); }
Test(faults_modules, decoder) { sweep_numbers("decoder with a cache", NULL, NULL, decoder); }
Test(faults_modules, training_step) { sweep_numbers("decoder's training step", NULL, NULL, step); }
Test(faults_modules, memory_of_a_training_step) { sweep_numbers("decoder's training step on cpu", "cpu", NULL, step); }
