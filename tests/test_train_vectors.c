/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of modules, the loss and optimizers against PyTorch's float64 autograd: tools/make_train_vectors.py. */
#include "op_arrays.h"
#include <clattn/clattn.h>

/* In f64 to 1e-10 of the largest value; in f32 to the tolerance of sums in it. */
static double allowed(clattn_dtype sums, double size) {
    return sums == CLATTN_F64 ? 1e-10 * size : oracle_floor(CLATTN_F32, 20 * size);
}

typedef struct {
    clattn_context *context;
    clattn_parameters *vectors;   /* as they are, or in f32 */
    clattn_parameters *gradients; /* zeros, under the names of the weights */
    clattn_dtype dtype;
    const char *device, *prefix; /* of the case: "encoder_after/" */
} run;

static clattn_tensor find(const run *r, const char *name) {
    clattn_tensor t;
    SUCCEEDS(clattn_parameters_find(r->vectors, r->prefix, name, &t));
    return t;
}

/* A tensor of NaN like another, kept with the gradients. */
static clattn_tensor make_like(const run *r, const char *prefix, const char *name, const clattn_tensor *like) {
    char full[200];
    clattn_tensor t;
    const size_t bytes = clattn_dtype_bytes(like->dtype, (size_t)clattn_tensor_elements(like));
    clattn_array array = {.dtype = like->dtype, .rank = like->rank, .bytes = bytes, .data = malloc(bytes + 1)};
    memcpy(array.shape, like->shape, sizeof array.shape);
    memset(array.data, 0xff, bytes);
    snprintf(full, sizeof full, "%s%s", prefix, name);
    SUCCEEDS(clattn_parameters_add(r->gradients, full, &array, NULL));
    free(array.data);
    SUCCEEDS(clattn_parameters_find(r->gradients, prefix, name, &t));
    return t;
}

/* Room for the gradient of each weight of the case. */
static void make_gradients(const run *r) {
    const size_t length = strlen(r->prefix);
    const char *name;
    clattn_tensor t;
    for (size_t i = 0; clattn_parameters_at(r->vectors, i, &name, &t); i++)
        if (strncmp(name, r->prefix, length) == 0 && strncmp(name + length, "grad.", 5) == 0)
            make_like(r, r->prefix, name + length + 5, &t);
}

static double *values_of(const clattn_tensor *t) {
    const size_t count = (size_t)clattn_tensor_elements(t), size = clattn_dtype_size(t->dtype);
    double *values = calloc(count + 1, sizeof *values);
    unsigned char *data = malloc(count * size + 1);
    SUCCEEDS(clattn_buffer_download(t->buffer, (size_t)t->offset * size, data, count * size));
    for (size_t i = 0; i < count; i++)
        values[i] = oracle_decode(t->dtype, data, (int64_t)i);
    free(data);
    return values;
}

static void expect(const run *r, const clattn_tensor *got, const char *name) {
    const clattn_tensor want_tensor = find(r, name);
    double *a = values_of(got), *b = values_of(&want_tensor), size = 1;
    const int64_t count = clattn_tensor_elements(got);
    cr_assert_eq(count, clattn_tensor_elements(&want_tensor));
    for (int64_t i = 0; i < count; i++)
        size = fmax(size, fabs(b[i]));
    for (int64_t i = 0; i < count; i++)
        cr_expect_float_eq(a[i], b[i], allowed(r->dtype, size), "%s, %s: %s%s, element %lld is %.12g, not %.12g",
                           r->device, clattn_dtype_name(r->dtype), r->prefix, name, (long long)i, a[i], b[i]);
    free(a);
    free(b);
}

static void expect_gradients(const run *r) {
    const size_t length = strlen(r->prefix);
    const char *name;
    clattn_tensor t;
    char wanted[200];
    for (size_t i = 0; clattn_parameters_at(r->gradients, i, &name, &t); i++) {
        if (strncmp(name, r->prefix, length) != 0)
            continue;
        snprintf(wanted, sizeof wanted, "grad.%s", name + length);
        expect(r, &t, wanted);
    }
}

/* ---- modules ---- */

static const clattn_layer_options options_after = {.heads = 2, .activation = CLATTN_ACTIVATION_RELU};
static const clattn_layer_options options_before = {
    .heads = 2, .norm_first = true, .activation = CLATTN_ACTIVATION_GELU};

/* Encoders' and decoders' gradients are found as their weights are. */
static void check_encoder(run *r, bool first) {
    clattn_encoder *encoder = NULL;
    clattn_encoder_layer_weights layers[2];
    clattn_encoder_weights gradients = {.layers = layers, .count = 2, .has_norm = first};
    const clattn_tensor x = find(r, "x"), d_y = find(r, "d_y");
    make_gradients(r);
    for (int i = 0; i < 2; i++) {
        char prefix[80];
        snprintf(prefix, sizeof prefix, "%slayers.%d.", r->prefix, i);
        SUCCEEDS(clattn_encoder_layer_weights_find(r->gradients, prefix, &layers[i]));
    }
    gradients.norm.weight = clattn_parameters_get(r->gradients, r->prefix, "norm.weight");
    gradients.norm.bias = clattn_parameters_get(r->gradients, r->prefix, "norm.bias");
    SUCCEEDS(
        clattn_encoder_load(r->context, r->vectors, r->prefix, first ? &options_before : &options_after, &encoder));
    const clattn_tensor y = make_like(r, "out/", "y", &x), d_x = make_like(r, "out/", "d_x", &x);
    const clattn_tensor hidden[] = {make_like(r, "out/", "h0", &x), make_like(r, "out/", "h1", &x)};
    const clattn_encoder_args forward = {.x = x, .y = y, .hidden = hidden};
    SUCCEEDS(clattn_encoder_run(encoder, &forward));
    expect(r, &y, "y");
    SUCCEEDS(clattn_encoder_backward(
        encoder, &(clattn_encoder_backward_args){.forward = forward, .d_y = d_y, .d_x = d_x, .gradients = &gradients}));
    expect(r, &d_x, "d_x");
    expect_gradients(r);
    clattn_encoder_destroy(encoder);
}

static void check_decoder(run *r, bool first) {
    clattn_decoder *decoder = NULL;
    clattn_decoder_layer_weights layers[2];
    clattn_decoder_weights gradients = {.layers = layers, .count = 2, .has_norm = first};
    const clattn_tensor x = find(r, "x"), memory = find(r, "memory"), d_y = find(r, "d_y");
    const int64_t lengths[] = {6, 4};
    make_gradients(r);
    for (int i = 0; i < 2; i++) {
        char prefix[80];
        snprintf(prefix, sizeof prefix, "%slayers.%d.", r->prefix, i);
        SUCCEEDS(clattn_decoder_layer_weights_find(r->gradients, prefix, &layers[i]));
    }
    gradients.norm.weight = clattn_parameters_get(r->gradients, r->prefix, "norm.weight");
    gradients.norm.bias = clattn_parameters_get(r->gradients, r->prefix, "norm.bias");
    SUCCEEDS(
        clattn_decoder_load(r->context, r->vectors, r->prefix, first ? &options_before : &options_after, &decoder));
    const clattn_tensor y = make_like(r, "out/", "y", &x), d_x = make_like(r, "out/", "d_x", &x);
    const clattn_tensor hidden[] = {make_like(r, "out/", "h0", &x), make_like(r, "out/", "h1", &x)};
    const clattn_tensor d_memory = make_like(r, "out/", "d_memory", &memory);
    const clattn_decoder_args forward = {.x = x,
                                         .memory = memory,
                                         .y = y,
                                         .hidden = hidden,
                                         .masks = {.causal = true},
                                         .memory_masks = {.key_lengths = lengths}};
    SUCCEEDS(clattn_decoder_run(decoder, &forward));
    expect(r, &y, "y");
    SUCCEEDS(clattn_decoder_backward(
        decoder, &(clattn_decoder_backward_args){
                     .forward = forward, .d_y = d_y, .d_x = d_x, .d_memory = d_memory, .gradients = &gradients}));
    expect(r, &d_x, "d_x");
    expect(r, &d_memory, "d_memory");
    expect_gradients(r);
    clattn_decoder_destroy(decoder);
}

static void check_multihead(run *r, bool ignored) {
    clattn_multihead *multihead = NULL;
    clattn_multihead_weights gradients;
    const clattn_multihead_options options = {.heads = 2};
    const clattn_tensor in[] = {find(r, "query"), find(r, "key"), find(r, "value")}, d_y = find(r, "d_y");
    (void)ignored;
    make_gradients(r);
    SUCCEEDS(clattn_multihead_weights_find(r->gradients, r->prefix, &gradients));
    SUCCEEDS(clattn_multihead_load(r->context, r->vectors, r->prefix, &options, &multihead));
    const clattn_tensor d[] = {make_like(r, "out/", "d_query", &in[0]), make_like(r, "out/", "d_key", &in[1]),
                               make_like(r, "out/", "d_value", &in[2])};
    SUCCEEDS(clattn_multihead_backward(
        multihead, &(clattn_multihead_backward_args){.forward = {.query = in[0], .key = in[1], .value = in[2]},
                                                     .d_y = d_y,
                                                     .d_query = d[0],
                                                     .d_key = d[1],
                                                     .d_value = d[2],
                                                     .gradients = &gradients}));
    expect(r, &d[0], "d_query");
    expect(r, &d[1], "d_key");
    expect(r, &d[2], "d_value");
    expect_gradients(r);
    clattn_multihead_destroy(multihead);
}

/* ---- loss and optimizers ---- */

static void check_loss(run *r, bool sum) {
    const clattn_tensor logits = find(r, "logits"), want = find(r, "loss");
    const clattn_tensor loss = make_like(r, "out/", "loss", &want), d = make_like(r, "out/", "d_logits", &logits);
    SUCCEEDS(clattn_cross_entropy(r->context,
                                  &(clattn_cross_entropy_args){.logits = logits,
                                                               .targets = find(r, "targets"),
                                                               .loss = loss,
                                                               .d_logits = d,
                                                               .reduction = sum ? CLATTN_LOSS_SUM : CLATTN_LOSS_MEAN,
                                                               .has_ignore = true,
                                                               .ignore = -100,
                                                               .smoothing = 0.1}));
    expect(r, &loss, "loss");
    expect(r, &d, "d_logits");
}

static void check_optimizer(run *r, bool is_adam) {
    const clattn_tensor start = find(r, "start"), gradients = find(r, "gradients");
    const clattn_tensor states[] = {make_like(r, "out/", "m", &start), make_like(r, "out/", "v", &start)};
    const bool w = strcmp(r->prefix, "adamw/") == 0;
    for (int step = 1; step <= 4; step++) {
        clattn_tensor gradient = clattn_tensor_slice(gradients, 0, step - 1, 1);
        gradient.rank = 2;
        for (int i = 0; i < 2; i++)
            gradient.shape[i] = gradient.shape[i + 1], gradient.stride[i] = gradient.stride[i + 1];
        gradient.offset = (step - 1) * gradients.stride[0];
        if (is_adam)
            SUCCEEDS(clattn_adam_step(r->context, &(clattn_adam_args){.parameter = start,
                                                                      .gradient = gradient,
                                                                      .moment1 = states[0],
                                                                      .moment2 = states[1],
                                                                      .step = step,
                                                                      .rate = 0.05,
                                                                      .has_betas = !w,
                                                                      .beta1 = 0.8,
                                                                      .beta2 = 0.95,
                                                                      .decay = 0.1,
                                                                      .decay_gradient = !w}));
        else
            SUCCEEDS(clattn_sgd_step(r->context, &(clattn_sgd_args){.parameter = start,
                                                                    .gradient = gradient,
                                                                    .velocity = states[0],
                                                                    .step = step,
                                                                    .rate = 0.05,
                                                                    .momentum = 0.9,
                                                                    .nesterov = true,
                                                                    .decay = 0.1}));
    }
    expect(r, &start, "end");
}

static const struct {
    const char *prefix;
    void (*check)(run *r, bool flag);
    bool flag;
} cases[] = {
    {"encoder_after/", check_encoder, false}, {"encoder_before/", check_encoder, true},
    {"decoder_after/", check_decoder, false}, {"decoder_before/", check_decoder, true},
    {"multihead/", check_multihead, false},   {"loss_mean/", check_loss, false},
    {"loss_sum/", check_loss, true},          {"adamw/", check_optimizer, true},
    {"adam/", check_optimizer, true},         {"sgd/", check_optimizer, false},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check_all(const char *device, clattn_dtype dtype) {
    const clattn_parameters_options options = {.convert = true, .dtype = dtype, .vectors = true};
    clattn_device_info info;
    run r = {.device = device, .dtype = dtype, .context = op_open(device)};
    SUCCEEDS(clattn_context_info(r.context, &info));
    for (int i = 0; i < CASES && (dtype == CLATTN_F32 || info.has_f64); i++) {
        SUCCEEDS(clattn_parameters_create(r.context, &r.vectors));
        SUCCEEDS(clattn_parameters_create(r.context, &r.gradients));
        SUCCEEDS(clattn_parameters_load(r.vectors, TESTS_DIR "/vectors/train.safetensors", &options));
        r.prefix = cases[i].prefix;
        cases[i].check(&r, cases[i].flag);
        clattn_parameters_destroy(r.vectors);
        clattn_parameters_destroy(r.gradients);
    }
    clattn_context_destroy(r.context);
}

Test(train_vectors, f64_is_pytorchs_to_1e_10) { check_all("cpu", CLATTN_F64); }
Test(train_vectors, f32_through_opencl_is_within_its_tolerance) { check_all("opencl", CLATTN_F32); }
Test(train_vectors, f32_is_within_its_tolerance) { check_all("cpu", CLATTN_F32); }
