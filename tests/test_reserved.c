/* SPDX-License-Identifier: Apache-2.0 */
/* How public structs grow (clattn/version.h): their sizes stay, and a field that this version does not know is refused
 * by the name of its struct. tests/package/package.sh builds programs with an older and a newer header. */
#include "testing.h"
#include <clattn/clattn.h>
#include <stdint.h>
#include <stdio.h>

/* ---- what the library reads ---- */

static clattn_context *context;
static clattn_multihead *multihead;
static clattn_feedforward *feedforward;
static clattn_encoder *encoder;
static clattn_decoder *decoder;

static float numbers[64];
static clattn_tensor matrix(int64_t rows, int64_t columns) {
    return clattn_tensor_host(numbers, CLATTN_F32, 2, (int64_t[]){rows, columns});
}
static clattn_multihead_weights heads(void) {
    return (clattn_multihead_weights){.in_proj = matrix(6, 2), .out = matrix(2, 2)};
}
static clattn_feedforward_weights feed(void) {
    return (clattn_feedforward_weights){.linear1 = matrix(4, 2), .linear2 = matrix(2, 4)};
}

static void open_all(void) {
    cr_assert_eq(clattn_context_create("cpu", NULL, &context), CLATTN_OK);
    const clattn_multihead_weights h = heads();
    const clattn_feedforward_weights f = feed();
    const clattn_encoder_layer_weights encoding = {.self_attn = h, .feedforward = f};
    const clattn_decoder_layer_weights decoding = {.self_attn = h, .cross_attn = h, .feedforward = f};
    const clattn_multihead_options options = {.heads = 1};
    const clattn_layer_options layer = {.heads = 1};
    cr_assert_eq(clattn_multihead_create(context, &h, &options, &multihead), CLATTN_OK);
    cr_assert_eq(clattn_feedforward_create(context, &f, NULL, &feedforward), CLATTN_OK);
    cr_assert_eq(
        clattn_encoder_create(context, &(clattn_encoder_weights){.layers = &encoding, .count = 1}, &layer, &encoder),
        CLATTN_OK);
    cr_assert_eq(
        clattn_decoder_create(context, &(clattn_decoder_weights){.layers = &decoding, .count = 1}, &layer, &decoder),
        CLATTN_OK);
}
static void close_all(void) {
    clattn_decoder_destroy(decoder);
    clattn_encoder_destroy(encoder);
    clattn_feedforward_destroy(feedforward);
    clattn_multihead_destroy(multihead);
    clattn_context_destroy(context);
}

static void refused(clattn_status status, const char *type, size_t word) {
    char start[120];
    snprintf(start, sizeof start, "%s: reserved[%zu] is not 0: a field that clattn %s does not know", type, word,
             clattn_version());
    cr_expect_eq(status, CLATTN_E_UNSUPPORTED, "%s, word %zu: %s, %s", type, word, clattn_status_name(status),
                 clattn_last_error());
    cr_expect(strstr(clattn_last_error(), start) != NULL, "%s, word %zu: \"%s\"", type, word, clattn_last_error());
}

/* `call` takes a struct of the type at `s`, whose first reserved word, and then whose last one, is not zero. */
#define REFUSES_WITH(type, call, ...)                                                                                  \
    do {                                                                                                               \
        const size_t last = sizeof((type *)NULL)->reserved / sizeof(uint64_t) - 1;                                     \
        for (size_t word = 0; word <= last; word += last) {                                                            \
            type given = {__VA_ARGS__}, *s = &given;                                                                   \
            given.reserved[word] = 1;                                                                                  \
            refused((call), #type, word);                                                                              \
        }                                                                                                              \
    } while (0)
#define REFUSES(type, call) REFUSES_WITH(type, call, .reserved = {0})

TestSuite(reserved, .init = open_all, .fini = close_all);

Test(reserved, attention_refuses_fields_that_it_does_not_know) {
    clattn_plan *plan = NULL;
    bool applies;
    const char *reason;
    clattn_verification found;
    REFUSES(clattn_attention_args, clattn_attention(context, s));
    REFUSES(clattn_attention_args, clattn_plan_create(context, s, &plan));
    REFUSES(clattn_attention_args, clattn_algorithm_applies(context, s, 0, &applies, &reason));
    REFUSES(clattn_attention_args, clattn_verify(s, 1, NULL, &found));
    REFUSES(clattn_attention_args,
            clattn_attention_backward(context, &(clattn_attention_backward_args){.forward = *s}));
    REFUSES(clattn_attention_backward_args, clattn_attention_backward(context, s));
    REFUSES(clattn_attention_backward_args, clattn_backward_plan_create(context, s, &plan));
    REFUSES(clattn_merge_args, clattn_merge(context, s));
}

Test(reserved, a_plan_refuses_new_tensors_with_fields_that_it_does_not_know) {
    clattn_plan *plan = NULL;
    const clattn_attention_args args = {
        .q = matrix(2, 2), .k = matrix(2, 2), .v = matrix(2, 2), .o = clattn_tensor_slice(matrix(9, 2), 0, 5, 2)};
    cr_assert_eq(clattn_plan_create(context, &args, &plan), CLATTN_OK);
    REFUSES_WITH(clattn_attention_args, clattn_plan_execute(plan, s), .q = args.q, .k = args.k, .v = args.v,
                 .o = args.o);
    cr_expect_eq(clattn_plan_execute(plan, &args), CLATTN_OK);
    clattn_plan_destroy(plan);
}

Test(reserved, operations_refuse_fields_that_they_do_not_know) {
    REFUSES(clattn_rotary_args, clattn_rotary(context, s));
    REFUSES(clattn_rotary_options,
            clattn_rotary(context, &(clattn_rotary_args){.x = matrix(2, 2), .y = matrix(2, 2), .options = *s}));
    REFUSES(clattn_cache_append_args, clattn_cache_append(context, s));
    REFUSES(clattn_linear_args, clattn_linear(context, s));
    REFUSES(clattn_norm_args, clattn_norm(context, s));
    REFUSES(clattn_embed_args, clattn_embed(context, s));
    REFUSES(clattn_add_args, clattn_add(context, s));
    REFUSES(clattn_activate_args, clattn_activate(context, s));
    REFUSES(clattn_pool_args, clattn_pool(context, s));
    REFUSES(clattn_positions_args, clattn_positions(context, s));
    REFUSES(clattn_random_args, clattn_random(context, s));
    REFUSES(clattn_softmax_args, clattn_softmax(context, s));
}

Test(reserved, training_refuses_fields_that_it_does_not_know) {
    REFUSES(clattn_linear_backward_args, clattn_linear_backward(context, s));
    REFUSES(clattn_norm_backward_args, clattn_norm_backward(context, s));
    REFUSES(clattn_activate_backward_args, clattn_activate_backward(context, s));
    REFUSES(clattn_softmax_backward_args, clattn_softmax_backward(context, s));
    REFUSES(clattn_embed_backward_args, clattn_embed_backward(context, s));
    REFUSES(clattn_sum_args, clattn_sum(context, s));
    REFUSES(clattn_cross_entropy_args, clattn_cross_entropy(context, s));
    REFUSES(clattn_gradient_norm_args, clattn_gradient_norm(context, s));
    REFUSES(clattn_adam_args, clattn_adam_step(context, s));
    REFUSES(clattn_sgd_args, clattn_sgd_step(context, s));
}

Test(reserved, modules_refuse_options_and_weights_that_they_do_not_know) {
    const clattn_multihead_weights h = heads();
    const clattn_feedforward_weights f = feed();
    const clattn_multihead_options options = {.heads = 1};
    const clattn_layer_options layer = {.heads = 1};
    const clattn_encoder_layer_weights encoding = {.self_attn = h, .feedforward = f};
    const clattn_decoder_layer_weights decoding = {.self_attn = h, .cross_attn = h, .feedforward = f};
    const clattn_encoder_weights encoders = {.layers = &encoding, .count = 1};
    const clattn_decoder_weights decoders = {.layers = &decoding, .count = 1};
    clattn_multihead *m = NULL;
    clattn_feedforward *ff = NULL;
    clattn_encoder *e = NULL;
    clattn_decoder *d = NULL;
    clattn_decoder_cache *cache = NULL;
    REFUSES(clattn_multihead_options, clattn_multihead_create(context, &h, s, &m));
    REFUSES_WITH(clattn_multihead_weights, clattn_multihead_create(context, s, &options, &m), .in_proj = h.in_proj,
                 .out = h.out);
    REFUSES(clattn_feedforward_options, clattn_feedforward_create(context, &f, s, &ff));
    REFUSES(clattn_feedforward_weights, clattn_feedforward_create(context, s, NULL, &ff));
    REFUSES(clattn_layer_options, clattn_encoder_create(context, &encoders, s, &e));
    REFUSES(clattn_layer_options, clattn_decoder_create(context, &decoders, s, &d));
    REFUSES_WITH(clattn_encoder_weights, clattn_encoder_create(context, s, &layer, &e), .layers = &encoding,
                 .count = 1);
    REFUSES_WITH(clattn_decoder_weights, clattn_decoder_create(context, s, &layer, &d), .layers = &decoding,
                 .count = 1);
    REFUSES(clattn_encoder_layer_weights,
            clattn_encoder_create(context, &(clattn_encoder_weights){.layers = s, .count = 1}, &layer, &e));
    REFUSES(clattn_decoder_layer_weights,
            clattn_decoder_create(context, &(clattn_decoder_weights){.layers = s, .count = 1}, &layer, &d));
    for (int where = 0; where < 2; where++) { /* of a layer, and behind the last one */
        const clattn_norm_weights zero = {.reserved = {0}};
        REFUSES(clattn_norm_weights,
                clattn_encoder_create(
                    context,
                    &(clattn_encoder_weights){.layers = &(clattn_encoder_layer_weights){.self_attn = h,
                                                                                        .feedforward = f,
                                                                                        .norm2 = where ? zero : *s},
                                              .count = 1,
                                              .has_norm = true,
                                              .norm = where ? *s : zero},
                    &layer, &e));
    }
    REFUSES_WITH(clattn_decoder_cache_options, clattn_decoder_cache_create(decoder, s, &cache), .batch = 1,
                 .capacity = 1);
}

Test(reserved, calls_of_modules_refuse_fields_that_they_do_not_know) {
    const clattn_tensor x = matrix(2, 2), y = clattn_tensor_slice(matrix(9, 2), 0, 5, 2);
    REFUSES(clattn_multihead_args, clattn_multihead_run(multihead, s));
    REFUSES(clattn_encoder_args, clattn_encoder_run(encoder, s));
    REFUSES(clattn_decoder_args, clattn_decoder_run(decoder, s));
    REFUSES(clattn_module_masks,
            clattn_multihead_run(multihead, &(clattn_multihead_args){.query = x, .y = y, .masks = *s}));
    REFUSES(clattn_module_masks, clattn_encoder_run(encoder, &(clattn_encoder_args){.x = x, .y = y, .masks = *s}));
    REFUSES(clattn_module_masks,
            clattn_decoder_run(decoder, &(clattn_decoder_args){.x = x, .y = y, .memory = x, .memory_masks = *s}));
    REFUSES(clattn_multihead_backward_args, clattn_multihead_backward(multihead, s));
    REFUSES(clattn_feedforward_backward_args, clattn_feedforward_backward(feedforward, s));
    REFUSES(clattn_encoder_backward_args, clattn_encoder_backward(encoder, s));
    REFUSES(clattn_decoder_backward_args, clattn_decoder_backward(decoder, s));
    REFUSES(clattn_encoder_weights,
            clattn_encoder_backward(
                encoder, &(clattn_encoder_backward_args){
                             .forward = {.x = x},
                             .d_y = y,
                             .gradients = (s->layers = &(clattn_encoder_layer_weights){.norm1 = {.weight = {0}}}, s)}));
    REFUSES(clattn_feedforward_weights,
            clattn_feedforward_backward(feedforward,
                                        &(clattn_feedforward_backward_args){.x = x, .d_y = y, .gradients = s}));
}

Test(reserved, contexts_parameters_and_the_tuners_record_refuse_fields_that_they_do_not_know) {
    clattn_context *c = NULL;
    clattn_parameters *p = NULL;
    clattn_array array = {0};
    cr_assert_eq(clattn_parameters_create(context, &p), CLATTN_OK);
    cr_assert_eq(clattn_array_create(CLATTN_F32, 1, (int64_t[]){2}, &array), CLATTN_OK);
    REFUSES(clattn_context_options, clattn_context_create("cpu", s, &c));
    REFUSES(clattn_parameters_options, clattn_parameters_load(p, "none.safetensors", s));
    REFUSES(clattn_parameters_options, clattn_parameters_add(p, "x", &array, s));
    REFUSES_WITH(clattn_tuned, clattn_tuning_set(context, s), .key = "algorithm x", .value = "y", .ms = 1,
                 .default_ms = 1);
    clattn_array_free(&array);
    clattn_parameters_destroy(p);
}

/* ---- what it writes ---- */

static bool is_zero(const uint64_t *words, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof *words; i++)
        if (words[i] != 0)
            return false;
    return true;
}
#define ZERO(s) cr_expect(is_zero((s).reserved, sizeof(s).reserved))
#define DIRTY(s) memset(&(s), 0xff, sizeof(s))

Test(reserved, structs_that_the_library_fills_have_zeros_there) {
    clattn_device_info infos[2];
    clattn_plan_info plan_info;
    clattn_verification found;
    clattn_multihead_weights weights;
    clattn_plan *plan = NULL;
    clattn_parameters *p = NULL;
    clattn_tuned entry;
    size_t count;
    const clattn_attention_args args = {
        .q = matrix(2, 2), .k = matrix(2, 2), .v = matrix(2, 2), .o = clattn_tensor_slice(matrix(9, 2), 0, 5, 2)};
    DIRTY(infos);
    DIRTY(plan_info);
    DIRTY(found);
    DIRTY(weights);
    DIRTY(entry);
    cr_assert_eq(clattn_devices(infos, 2, &count), CLATTN_OK);
    for (size_t i = 0; i < (count < 2 ? count : 2); i++)
        ZERO(infos[i]);
    cr_assert_eq(clattn_context_info(context, &infos[0]), CLATTN_OK);
    ZERO(infos[0]);
    cr_assert_eq(clattn_plan_create(context, &args, &plan), CLATTN_OK);
    cr_assert_eq(clattn_plan_info_get(plan, &plan_info), CLATTN_OK);
    ZERO(plan_info);
    cr_assert_eq(clattn_plan_execute(plan, NULL), CLATTN_OK);
    cr_assert_eq(clattn_verify(&args, CLATTN_ALL_ROWS, NULL, &found), CLATTN_OK);
    ZERO(found);
    ZERO(found.verdicts[0]);
    ZERO(found.verdicts[CLATTN_VERDICTS - 1]);
    cr_assert_eq(clattn_parameters_create(context, &p), CLATTN_OK);
    clattn_multihead_weights_find(p, "", &weights);
    ZERO(weights);
    const clattn_tuned given = {.key = "algorithm x", .value = "y", .ms = 1, .default_ms = 1};
    cr_assert_eq(clattn_tuning_set(context, &given), CLATTN_OK);
    cr_assert(clattn_tuning_entry(context, 0, &entry));
    ZERO(entry);
    clattn_parameters_destroy(p);
    clattn_plan_destroy(plan);
}

Test(reserved, entries_of_files_have_zeros_there) {
    clattn_safetensors *file = NULL;
    clattn_safetensors_entry entry;
    DIRTY(entry);
    cr_assert_eq(clattn_safetensors_open(TESTS_DIR "/../examples/data/fox.safetensors", &file), CLATTN_OK);
    cr_assert(clattn_safetensors_entry_at(file, 0, &entry));
    ZERO(entry);
    clattn_safetensors_close(file);
}

/* ---- sizes ---- */

/* Of version 0.1 where pointers have 64 bits. A field that is added takes the place of words of `reserved`: no line of
 * this list changes as long as the soname is libclattn.so.0. */
#define SIZES(X)                                                                                                       \
    X(clattn_attention_args, 2848)                                                                                     \
    X(clattn_partial, 320)                                                                                             \
    X(clattn_merge_args, 528)                                                                                          \
    X(clattn_plan_info, 112)                                                                                           \
    X(clattn_attention_backward_args, 4016)                                                                            \
    X(clattn_rotary_options, 96)                                                                                       \
    X(clattn_rotary_args, 944)                                                                                         \
    X(clattn_cache_append_args, 1456)                                                                                  \
    X(clattn_device_info, 856)                                                                                         \
    X(clattn_context_options, 80)                                                                                      \
    X(clattn_profile_entry, 176)                                                                                       \
    X(clattn_array, 88)                                                                                                \
    X(clattn_safetensors_entry, 136)                                                                                   \
    X(clattn_named_array, 96)                                                                                          \
    X(clattn_metadata_pair, 16)                                                                                        \
    X(clattn_gguf_value, 56)                                                                                           \
    X(clattn_gguf_string, 16)                                                                                          \
    X(clattn_warning, 56)                                                                                              \
    X(clattn_peak, 104)                                                                                                \
    X(clattn_module_masks, 544)                                                                                        \
    X(clattn_multihead_weights, 2280)                                                                                  \
    X(clattn_multihead_options, 96)                                                                                    \
    X(clattn_multihead_args, 1544)                                                                                     \
    X(clattn_feedforward_weights, 1320)                                                                                \
    X(clattn_feedforward_options, 72)                                                                                  \
    X(clattn_norm_weights, 352)                                                                                        \
    X(clattn_layer_options, 176)                                                                                       \
    X(clattn_encoder_layer_weights, 4496)                                                                              \
    X(clattn_encoder_weights, 440)                                                                                     \
    X(clattn_encoder_args, 1064)                                                                                       \
    X(clattn_decoder_layer_weights, 7128)                                                                              \
    X(clattn_decoder_weights, 440)                                                                                     \
    X(clattn_decoder_cache_options, 88)                                                                                \
    X(clattn_decoder_args, 1776)                                                                                       \
    X(clattn_linear_args, 848)                                                                                         \
    X(clattn_norm_args, 1496)                                                                                          \
    X(clattn_embed_args, 848)                                                                                          \
    X(clattn_add_args, 672)                                                                                            \
    X(clattn_activate_args, 680)                                                                                       \
    X(clattn_pool_args, 528)                                                                                           \
    X(clattn_positions_args, 240)                                                                                      \
    X(clattn_random_args, 256)                                                                                         \
    X(clattn_softmax_args, 520)                                                                                        \
    X(clattn_parameters_options, 88)                                                                                   \
    X(clattn_tensor, 160)                                                                                              \
    X(clattn_linear_backward_args, 1328)                                                                               \
    X(clattn_norm_backward_args, 1504)                                                                                 \
    X(clattn_activate_backward_args, 1000)                                                                             \
    X(clattn_softmax_backward_args, 680)                                                                               \
    X(clattn_embed_backward_args, 712)                                                                                 \
    X(clattn_sum_args, 520)                                                                                            \
    X(clattn_cross_entropy_args, 1032)                                                                                 \
    X(clattn_gradient_norm_args, 536)                                                                                  \
    X(clattn_adam_args, 1056)                                                                                          \
    X(clattn_sgd_args, 880)                                                                                            \
    X(clattn_feedforward_backward_args, 688)                                                                           \
    X(clattn_multihead_backward_args, 2392)                                                                            \
    X(clattn_encoder_backward_args, 1592)                                                                              \
    X(clattn_decoder_backward_args, 2464)                                                                              \
    X(clattn_tuned, 96)                                                                                                \
    X(clattn_verdict, 120)                                                                                             \
    X(clattn_verification, 680)

Test(reserved, structs_keep_their_sizes) {
#define SIZE(type, bytes) cr_expect(sizeof(void *) != 8 || sizeof(type) == bytes, #type " has %zu bytes", sizeof(type));
    SIZES(SIZE)
#undef SIZE
}
