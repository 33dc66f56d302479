/* SPDX-License-Identifier: Apache-2.0 */
/* Named parameters that cannot be added, loaded or found, and modules whose weights are missing one by one: a status,
 * and words that say what. */
#define _XOPEN_SOURCE 700
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>
#include <stdlib.h>
#include <unistd.h>

enum { E = 4, H = 2, F = 6 };

static clattn_context *context;
static clattn_parameters *all;

static void begin(void) {
    context = op_open("cpu");
    SUCCEEDS(clattn_parameters_create(context, &all));
}
static void end(void) {
    clattn_parameters_destroy(all);
    clattn_context_destroy(context);
}
TestSuite(errors_parameters, .init = begin, .fini = end);

static clattn_array array_of(int64_t rows, int64_t columns) {
    return (clattn_array){.dtype = CLATTN_F32,
                          .rank = columns ? 2 : 1,
                          .shape = {rows, columns},
                          .data = slots[0],
                          .bytes = (size_t)(rows * (columns ? columns : 1)) * sizeof(float)};
}

static void add(const char *prefix, const char *name, int64_t rows, int64_t columns) {
    char whole[200];
    const clattn_array array = array_of(rows, columns);
    snprintf(whole, sizeof whole, "%s%s", prefix, name);
    SUCCEEDS(clattn_parameters_add(all, whole, &array, NULL));
}

Test(errors_parameters, arrays_that_cannot_be_added) {
    clattn_parameters *none = NULL;
    clattn_tensor t;
    FAILS(clattn_parameters_create(context, NULL), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_parameters_create(NULL, &none), CLATTN_E_ARGUMENT, "context is NULL");
    const clattn_array right = array_of(2, 32);
    FAILS(clattn_parameters_add(NULL, "w", &right, NULL), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_parameters_add(all, NULL, &right, NULL), CLATTN_E_ARGUMENT, "name is NULL");
    FAILS(clattn_parameters_add(all, "w", NULL, NULL), CLATTN_E_ARGUMENT, "array, or its data, is NULL");
#define ADD(code, part, ...)                                                                                           \
    REFUSED(clattn_array, clattn_parameters_add(all, "w", &a, NULL), code, part, array_of(2, 32), __VA_ARGS__)
    ADD(CLATTN_E_ARGUMENT, "array, or its data, is NULL", a.data = NULL);
    ADD(CLATTN_E_SHAPE, "\"w\": an array of rank -1", a.rank = -1);
    ADD(CLATTN_E_SHAPE, "\"w\": an array of rank 9", a.rank = CLATTN_MAX_RANK + 1);
    ADD(CLATTN_E_SHAPE, "\"w\": an array of rank 2 and dtype 99", a.dtype = (clattn_dtype)99);
    cr_expect_eq(clattn_parameters_count(all), 0);
    /* Vectors do not become blocks. */
    const clattn_array vector = array_of(32, 0);
    const clattn_parameters_options blocks = {.convert = true, .dtype = CLATTN_Q8_0, .vectors = true};
    SUCCEEDS(clattn_parameters_add(all, "vector", &vector, &blocks));
    SUCCEEDS(clattn_parameters_add(all, "matrix", &right, &blocks));
    cr_expect_eq(clattn_parameters_get(all, NULL, "vector").dtype, CLATTN_F32);
    cr_expect_eq(clattn_parameters_get(all, NULL, "matrix").dtype, CLATTN_Q8_0);
    FAILS(clattn_parameters_find(NULL, NULL, "vector", &t), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_parameters_find(all, NULL, NULL, &t), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_parameters_find(all, NULL, "vector", NULL), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_parameters_find(all, NULL, "v", &t), CLATTN_E_ARGUMENT, "no \"v\"; there are \"vector\", \"matrix\"");
    for (int i = 0; i < 6; i++) {
        const char name[] = {'m', (char)('0' + i), 0};
        add("", name, 1, 1);
    }
    FAILS(clattn_parameters_find(all, "m", "x", &t), CLATTN_E_ARGUMENT, "\"m4\" and 1 more");
}

Test(errors_parameters, none_at_all) {
    const char *name = NULL;
    clattn_tensor t;
    cr_expect_eq(clattn_parameters_get(NULL, NULL, "w").rank, 0);
    cr_expect_eq(clattn_parameters_get(all, NULL, NULL).rank, 0);
    cr_expect_eq(clattn_parameters_count(NULL), 0);
    cr_expect_eq(clattn_parameters_elements(NULL, NULL), 0);
    cr_expect_eq(clattn_parameters_bytes(NULL, NULL), 0);
    cr_expect_not(clattn_parameters_at(NULL, 0, &name, &t));
    cr_expect_not(clattn_parameters_at(all, 0, &name, &t));
    add("", "w", 3, 2);
    cr_expect(clattn_parameters_at(all, 0, NULL, &t));
    cr_expect(t.rank == 2 && t.shape[0] == 3);
    cr_expect(clattn_parameters_at(all, 0, &name, NULL));
    cr_expect_str_eq(name, "w");
}

/* The bytes of a safetensors file. */
static void write_file(const char *path, const char *header, size_t data) {
    const uint64_t length = strlen(header);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    fwrite(&length, sizeof length, 1, file); /* little endian, as the devices of the tests */
    fwrite(header, 1, length, file);
    fwrite(slots[0], 1, data, file);
    cr_assert_eq(fclose(file), 0);
}

Test(errors_parameters, files_that_cannot_be_loaded) {
    char path[] = "/tmp/clattn_errors_XXXXXX";
    const int made = mkstemp(path);
    cr_assert_geq(made, 0);
    close(made);
    FAILS(clattn_parameters_load(NULL, path, NULL), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_parameters_load(all, NULL, NULL), CLATTN_E_ARGUMENT, "path is NULL");
    write_file(path, "{}", 0);
    FAILS(clattn_parameters_load(all, path, NULL), CLATTN_E_ARGUMENT, ": holds no tensor");
    cr_expect_null(strstr(clattn_last_error(), "begins"));
    write_file(path, "{\"w\":{\"dtype\":\"F8_E4M3\",\"shape\":[4],\"data_offsets\":[0,4]}}", 4);
    FAILS(clattn_parameters_load(all, path, NULL), CLATTN_E_DTYPE, "F8_E4M3");
    FAILS(clattn_parameters_load(all, path, &(clattn_parameters_options){.prefix = "x"}), CLATTN_E_ARGUMENT,
          "holds no tensor that begins with \"x\"");
    FAILS(clattn_parameters_load(all, path, &(clattn_parameters_options){.convert = true, .dtype = CLATTN_I32}),
          CLATTN_E_DTYPE, "cannot be stored as i32");
    cr_expect_eq(clattn_parameters_count(all), 0);
    unlink(path);
}

/* ---- weights by their names ---- */

typedef struct {
    const char *name;
    int64_t rows, columns; /* columns 0: a vector */
} named;

static const named attention[] = {{"in_proj_weight", 3 * E, E}, {"out_proj.weight", E, E}};
static const named layer[] = {{"self_attn.in_proj_weight", 3 * E, E},
                              {"self_attn.out_proj.weight", E, E},
                              {"multihead_attn.in_proj_weight", 3 * E, E},
                              {"multihead_attn.out_proj.weight", E, E},
                              {"linear1.weight", F, E},
                              {"linear2.weight", E, F},
                              {"norm1.weight", E, 0},
                              {"norm2.weight", E, 0},
                              {"norm3.weight", E, 0}};
enum { ATTENTION = sizeof attention / sizeof *attention, LAYER = sizeof layer / sizeof *layer };

/* All but one. */
static void add_all(const char *prefix, const named *names, int count, int left_out) {
    for (int i = 0; i < count; i++)
        if (i != left_out)
            add(prefix, names[i].name, names[i].rows, names[i].columns);
}

Test(errors_parameters, attention_without_one_of_its_weights) {
    clattn_multihead *m = NULL;
    clattn_multihead_weights w;
    const clattn_multihead_options options = {.heads = H};
    FAILS(clattn_multihead_weights_find(NULL, "", &w), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_multihead_weights_find(all, "", NULL), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_multihead_load(context, all, "a.", &options, NULL), CLATTN_E_ARGUMENT, "multihead is NULL");
    for (int i = 0; i < ATTENTION; i++) {
        char prefix[] = {(char)('a' + i), '.', 0}, part[100];
        add_all(prefix, attention, ATTENTION, i);
        snprintf(part, sizeof part, "\"%s\": parameters: there is no \"%s%s\"", prefix, prefix, attention[i].name);
        FAILS(clattn_multihead_load(context, all, prefix, &options, &m), CLATTN_E_ARGUMENT, part);
    }
    /* Without a prefix there is none to name. */
    FAILS(clattn_multihead_load(context, all, "", &options, &m), CLATTN_E_ARGUMENT, "parameters: there is no");
    cr_expect_eq(clattn_last_error(), strstr(clattn_last_error(), "parameters: "));
    FAILS(clattn_multihead_load(context, all, NULL, &options, &m), CLATTN_E_ARGUMENT, "parameters: there is no");
    static const char *const apart[] = {"q_proj_weight", "k_proj_weight", "v_proj_weight"};
    for (int i = 0; i < 3; i++) { /* without the i-th, and then with it alone */
        char prefix[] = {(char)('l' + i), '.', 0}, only[] = {(char)('r' + i), '.', 0};
        for (int j = 0; j < 3; j++)
            add(i == j ? only : prefix, apart[j], E, E);
        FAILS(clattn_multihead_weights_find(all, prefix, &w), CLATTN_E_ARGUMENT, apart[i]);
        FAILS(clattn_multihead_weights_find(all, only, &w), CLATTN_E_ARGUMENT, apart[i == 0]);
    }
    cr_expect_null(m);
}

Test(errors_parameters, feed_forward_without_one_of_its_weights) {
    clattn_feedforward *f = NULL;
    clattn_feedforward_weights w;
    FAILS(clattn_feedforward_weights_find(NULL, "", &w), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_feedforward_weights_find(all, "", NULL), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_feedforward_load(context, all, "a.", NULL, NULL), CLATTN_E_ARGUMENT, "feedforward is NULL");
    FAILS(clattn_feedforward_load(context, all, "a.", NULL, &f), CLATTN_E_ARGUMENT,
          "\"a.\": parameters: there is no \"a.linear1.weight\"");
    FAILS(clattn_feedforward_load(context, all, NULL, NULL, &f), CLATTN_E_ARGUMENT, "there is no \"linear1.weight\"");
    add("a.", "linear1.weight", F, E);
    FAILS(clattn_feedforward_load(context, all, "a.", NULL, &f), CLATTN_E_ARGUMENT, "there is no \"a.linear2.weight\"");
    FAILS(clattn_feedforward_load(context, all, "", NULL, &f), CLATTN_E_ARGUMENT, "there is no \"linear1.weight\"");
    add("a.", "linear2.weight", E, E);
    FAILS(clattn_feedforward_load(context, all, "a.", NULL, &f), CLATTN_E_SHAPE,
          "\"a.\": feedforward: linear2 [4, 4]: has 4 inputs; should have 6");
    cr_expect_null(f);
}

Test(errors_parameters, layers_without_one_of_their_weights) {
    clattn_encoder_layer_weights e;
    clattn_decoder_layer_weights d;
    FAILS(clattn_encoder_layer_weights_find(NULL, "", &e), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_encoder_layer_weights_find(all, "", NULL), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_decoder_layer_weights_find(NULL, "", &d), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_decoder_layer_weights_find(all, "", NULL), CLATTN_E_ARGUMENT, "weights is NULL");
    for (int i = 0; i < LAYER; i++) {
        const char prefix[] = {(char)('a' + i), '.', 0};
        const bool of_decoders = strstr(layer[i].name, "multihead_attn") || strstr(layer[i].name, "norm3");
        char part[100];
        add_all(prefix, layer, LAYER, i);
        snprintf(part, sizeof part, "there is no \"%s%s\"", prefix, layer[i].name);
        FAILS(clattn_decoder_layer_weights_find(all, prefix, &d), CLATTN_E_ARGUMENT, part);
        if (of_decoders)
            SUCCEEDS(clattn_encoder_layer_weights_find(all, prefix, &e));
        else
            FAILS(clattn_encoder_layer_weights_find(all, prefix, &e), CLATTN_E_ARGUMENT, part);
    }
    add_all("", layer, LAYER, -1);
    SUCCEEDS(clattn_decoder_layer_weights_find(all, NULL, &d));
    cr_expect_eq(d.norm3.weight.rank, 1);
}

Test(errors_parameters, stacks_that_cannot_be_loaded) {
    clattn_encoder *encoder = NULL;
    clattn_decoder *decoder = NULL;
    const clattn_layer_options options = {.heads = H};
    char far[600];
    memset(far, 'p', sizeof far - 1);
    far[sizeof far - 1] = 0;
    FAILS(clattn_encoder_load(context, all, "", &options, NULL), CLATTN_E_ARGUMENT, "encoder is NULL");
    FAILS(clattn_encoder_load(context, NULL, "", &options, &encoder), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_decoder_load(context, all, "", &options, NULL), CLATTN_E_ARGUMENT, "decoder is NULL");
    FAILS(clattn_decoder_load(context, NULL, "", &options, &decoder), CLATTN_E_ARGUMENT, "parameters is NULL");
    FAILS(clattn_encoder_load(context, all, far, &options, &encoder), CLATTN_E_ARGUMENT, "a prefix of more than");
    FAILS(clattn_encoder_layer_weights_find(all, far, &(clattn_encoder_layer_weights){.reserved = {0}}),
          CLATTN_E_ARGUMENT, "a prefix of more than 511 bytes");
    FAILS(clattn_encoder_load(context, all, "a.", &options, &encoder), CLATTN_E_ARGUMENT,
          "there is no \"a.self_attn.in_proj_weight\"");
    add_all("a.layers.0.", layer, LAYER, -1);
    add_all("a.layers.1.", layer, LAYER, 0);
    FAILS(clattn_encoder_load(context, all, "a.", &options, &encoder), CLATTN_E_ARGUMENT,
          "there is no \"a.layers.1.self_attn.in_proj_weight\"");
    FAILS(clattn_decoder_load(context, all, "a.", &options, &decoder), CLATTN_E_ARGUMENT,
          "there is no \"a.layers.1.self_attn.in_proj_weight\"");
    add_all("b.layers.0.", layer, LAYER, -1);
    add_all("b.layers.2.", layer, LAYER, -1);
    FAILS(clattn_encoder_load(context, all, "b.", &options, &encoder), CLATTN_E_ARGUMENT,
          "and no weight of the layer \"b.layers.1.\"");
    FAILS(clattn_encoder_load(context, all, "b.layers.0.", NULL, &encoder), CLATTN_E_ARGUMENT, "options is NULL");
    FAILS(clattn_decoder_load(context, all, "b.layers.0.", NULL, &decoder), CLATTN_E_ARGUMENT, "options is NULL");
    cr_expect(!encoder && !decoder);
}
