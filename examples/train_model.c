/* SPDX-License-Identifier: Apache-2.0 */
#include "train_model.h"

#include "complain.h"
#include <math.h>
#include <stdlib.h>

/* Tensors of one batch. */
enum { TENSORS = 9 };
typedef struct {
    clattn_tensor x, y, d_x, d_y; /* [B, N, E]: of the decoder; d_y is 0 where no answer is expected */
    clattn_tensor logits;         /* [B, L, 10], and their gradients */
    clattn_tensor ids, answers;   /* [slots, B, N], [slots, B, L] */
    clattn_tensor losses;         /* [slots] */
    clattn_tensor factor;         /* [1] */
} batch;

struct model {
    clattn_context *context;
    settings settings;
    train_weights weights;
    clattn_encoder *decoder; /* as PyTorch calls layers without cross attention */
    clattn_encoder_layer_weights *layer_gradients;
    clattn_encoder_weights gradients;
    clattn_tensor *hidden; /* [layers] of [B, N, E] */
    clattn_buffer **buffers;
    size_t buffer_count;
    batch batch;
    float *logits; /* [B, L, 10], on the host */
};

/* ---- making ---- */

/* A tensor of zeros, whose buffer the model owns. */
static bool make(model *m, clattn_dtype dtype, int rank, int64_t n0, int64_t n1, int64_t n2, clattn_tensor *t) {
    const int64_t shape[] = {n0, n1, n2};
    clattn_array zeros = {0};
    clattn_buffer **buffer = &m->buffers[m->buffer_count];
    const bool ok = done(clattn_array_create(dtype, rank, shape, &zeros)) &&
                    done(clattn_buffer_create(m->context, zeros.bytes, buffer)) &&
                    done(clattn_buffer_upload(*buffer, 0, zeros.data, zeros.bytes));
    clattn_array_free(&zeros);
    m->buffer_count++;
    *t = clattn_tensor_buffer(*buffer, dtype, rank, shape);
    return ok;
}

static bool make_batch(model *m, int64_t slots) {
    const int64_t B = m->settings.batch, L = m->settings.length, N = 2 * L, E = m->settings.width;
    batch *b = &m->batch;
    bool ok = make(m, CLATTN_F32, 3, B, N, E, &b->x) && make(m, CLATTN_F32, 3, B, N, E, &b->y) &&
              make(m, CLATTN_F32, 3, B, N, E, &b->d_x) && make(m, CLATTN_F32, 3, B, N, E, &b->d_y) &&
              make(m, CLATTN_F32, 3, B, L, DIGITS, &b->logits) && make(m, CLATTN_I32, 3, slots, B, N, &b->ids) &&
              make(m, CLATTN_I32, 3, slots, B, L, &b->answers) && make(m, CLATTN_F32, 1, slots, 0, 0, &b->losses) &&
              make(m, CLATTN_F32, 1, 1, 0, 0, &b->factor);
    for (int64_t i = 0; ok && i < m->settings.layers; i++)
        ok = make(m, CLATTN_F32, 3, B, N, E, &m->hidden[i]);
    return ok;
}

static bool make_decoder(model *m) {
    const clattn_parameters *all = m->weights.all;
    const clattn_layer_options options = {
        .heads = m->settings.heads, .norm_first = true, .activation = CLATTN_ACTIVATION_RELU};
    bool ok = done(clattn_encoder_load(m->context, all, weight_prefix(VALUE), &options, &m->decoder));
    for (int64_t i = 0; ok && i < m->settings.layers; i++) {
        char prefix[64];
        snprintf(prefix, sizeof prefix, "%slayers.%lld.", weight_prefix(GRADIENT), (long long)i);
        ok = done(clattn_encoder_layer_weights_find(all, prefix, &m->layer_gradients[i]));
    }
    m->gradients =
        (clattn_encoder_weights){.layers = m->layer_gradients, .count = m->settings.layers, .has_norm = true};
    m->gradients.norm.weight = clattn_parameters_get(all, weight_prefix(GRADIENT), "norm.weight");
    m->gradients.norm.bias = clattn_parameters_get(all, weight_prefix(GRADIENT), "norm.bias");
    return ok;
}

model *model_open(clattn_context *context, const settings *s, int64_t slots, weights *file, const char *const *others) {
    model *m = calloc(1, sizeof *m);
    if (!m)
        return complain("out of memory"), NULL;
    *m = (model){.context = context, .settings = *s};
    m->layer_gradients = calloc((size_t)s->layers, sizeof *m->layer_gradients);
    m->hidden = calloc((size_t)s->layers, sizeof *m->hidden);
    m->buffers = calloc((size_t)s->layers + TENSORS, sizeof *m->buffers);
    m->logits = calloc((size_t)(s->batch * s->length), DIGITS * sizeof *m->logits);
    if (((m->layer_gradients && m->hidden && m->buffers && m->logits) || complain("out of memory")) &&
        train_weights_make(&m->weights, context, s, file, others) && make_decoder(m) && make_batch(m, slots))
        return m;
    model_close(m);
    return NULL;
}

void model_close(model *m) {
    if (!m)
        return;
    clattn_encoder_destroy(m->decoder); /* before the parameters that it borrows */
    train_weights_free(&m->weights);
    for (size_t i = 0; m->buffers && i < m->buffer_count; i++)
        clattn_buffer_destroy(m->buffers[i]);
    free(m->buffers);
    free(m->layer_gradients);
    free(m->hidden);
    free(m->logits);
    free(m);
}

const train_weights *model_weights(const model *m) { return &m->weights; }

/* ---- one step ---- */

static clattn_tensor get(const model *m, weight_kind kind, const char *name) {
    return clattn_parameters_get(m->weights.all, weight_prefix(kind), name);
}

/* Element i of the first axis. */
static clattn_tensor at_slot(clattn_tensor t, int64_t i) {
    clattn_tensor one = clattn_tensor_slice(t, 0, i, 1);
    one.rank--;
    for (int axis = 0; axis < one.rank; axis++) {
        one.shape[axis] = t.shape[axis + 1];
        one.stride[axis] = t.stride[axis + 1];
    }
    return one;
}

/* The places that say a digit of the answer: from the separator on. */
static clattn_tensor answering(const model *m, clattn_tensor t) {
    return clattn_tensor_slice(t, 1, m->settings.length, m->settings.length);
}

static clattn_encoder_args decoder_args(const model *m) {
    const batch *b = &m->batch;
    return (clattn_encoder_args){.x = b->x, .y = b->y, .masks = {.causal = true}, .hidden = m->hidden};
}

static bool forward(model *m, int64_t slot) {
    const batch *b = &m->batch;
    const clattn_embed_args embed = {.table = get(m, VALUE, "embedding.weight"),
                                     .ids = at_slot(b->ids, slot),
                                     .add = get(m, VALUE, "position.weight"),
                                     .y = b->x};
    const clattn_encoder_args decode = decoder_args(m);
    const clattn_linear_args output = {.x = answering(m, b->y),
                                       .w = get(m, VALUE, "output.weight"),
                                       .bias = get(m, VALUE, "output.bias"),
                                       .y = b->logits};
    return done(clattn_embed(m->context, &embed)) && done(clattn_encoder_run(m->decoder, &decode)) &&
           done(clattn_linear(m->context, &output));
}

/* From the loss back to the embedding, in the order in which gradients arise. */
static bool backward(model *m, int64_t slot) {
    const batch *b = &m->batch;
    const clattn_cross_entropy_args loss = {.logits = b->logits,
                                            .targets = at_slot(b->answers, slot),
                                            .loss = clattn_tensor_slice(b->losses, 0, slot, 1),
                                            .d_logits = b->logits};
    const clattn_linear_backward_args output = {.x = answering(m, b->y),
                                                .w = get(m, VALUE, "output.weight"),
                                                .d_y = b->logits,
                                                .d_x = answering(m, b->d_y),
                                                .d_w = get(m, GRADIENT, "output.weight"),
                                                .d_bias = get(m, GRADIENT, "output.bias")};
    const clattn_encoder_backward_args decode = {
        .forward = decoder_args(m), .d_y = b->d_y, .d_x = b->d_x, .gradients = &m->gradients};
    const clattn_embed_backward_args embed = {
        .ids = at_slot(b->ids, slot), .d_y = b->d_x, .d_table = get(m, GRADIENT, "embedding.weight")};
    const clattn_sum_args positions = {.x = b->d_x, .y = get(m, GRADIENT, "position.weight")};
    return done(clattn_cross_entropy(m->context, &loss)) && done(clattn_linear_backward(m->context, &output)) &&
           done(clattn_encoder_backward(m->decoder, &decode)) && done(clattn_embed_backward(m->context, &embed)) &&
           done(clattn_sum(m->context, &positions));
}

/* Grows over the warm-up, then falls to a tenth as half a cosine does, and stays there. It does not depend on how many
 * steps there will be, so that a run may go on.
 * Source  Loshchilov & Hutter 2017 (SGDR). */
static double rate_at(const settings *s, int64_t step) {
    const double pi = 3.14159265358979323846, part = (double)(step - s->warmup) / (double)s->decay;
    if (step < s->warmup)
        return s->rate * (double)step / (double)s->warmup;
    return s->rate * (0.55 + 0.45 * cos(pi * (part < 1 ? part : 1)));
}

static bool update(model *m, int64_t step) {
    const train_weights *w = &m->weights;
    const clattn_gradient_norm_args clip = {
        .gradients = w->tensors[GRADIENT], .count = w->count, .max_norm = 1, .factor = m->batch.factor};
    bool ok = done(clattn_gradient_norm(m->context, &clip));
    for (size_t i = 0; ok && i < w->count; i++) {
        const clattn_adam_args adam = {.parameter = w->tensors[VALUE][i],
                                       .gradient = w->tensors[GRADIENT][i],
                                       .moment1 = w->tensors[MOMENT1][i],
                                       .moment2 = w->tensors[MOMENT2][i],
                                       .gradient_factor = m->batch.factor,
                                       .step = step,
                                       .rate = rate_at(&m->settings, step),
                                       .has_betas = true,
                                       .beta1 = 0.9,
                                       .beta2 = 0.999};
        ok = done(clattn_adam_step(m->context, &adam));
    }
    return ok;
}

bool model_step(model *m, int64_t slot, int64_t step) {
    return forward(m, slot) && backward(m, slot) && update(m, step);
}

/* ---- in and out ---- */

bool model_give(model *m, int64_t count, const int32_t *tokens, const int32_t *answers) {
    const size_t B = (size_t)m->settings.batch, L = (size_t)m->settings.length, n = (size_t)count * B * L;
    return done(clattn_buffer_upload(m->batch.ids.buffer, 0, tokens, 2 * n * sizeof *tokens)) &&
           (!answers || done(clattn_buffer_upload(m->batch.answers.buffer, 0, answers, n * sizeof *answers)));
}

bool model_losses(model *m, int64_t count, float *losses) {
    return done(clattn_buffer_download(m->batch.losses.buffer, 0, losses, (size_t)count * sizeof *losses));
}

bool model_digits(model *m, int32_t *digits) {
    const size_t count = (size_t)(m->settings.batch * m->settings.length);
    if (!forward(m, 0) ||
        !done(clattn_buffer_download(m->batch.logits.buffer, 0, m->logits, count * DIGITS * sizeof *m->logits)))
        return false;
    for (size_t i = 0; i < count; i++) {
        const float *logits = m->logits + i * DIGITS;
        digits[i] = 0;
        for (int32_t digit = 1; digit < DIGITS; digit++)
            if (logits[digit] > logits[digits[i]])
                digits[i] = digit;
    }
    return true;
}
