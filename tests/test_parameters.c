/* SPDX-License-Identifier: Apache-2.0 */
/* Named tensors on a device: from files and by hand, in other types, found by name and prefix. */
#define _XOPEN_SOURCE 700
#include "modules_oracle.h"
#include <stdio.h>
#include <unistd.h>

static clattn_array array_of(pool *p, clattn_dtype dtype, int rank, const int64_t *shape) {
    clattn_array a = {.dtype = dtype, .rank = rank};
    const size_t count = (size_t)product(rank, shape);
    double *values = pool_random(p, (int64_t)count, 1);
    memcpy(a.shape, shape, (size_t)rank * sizeof *shape);
    a.bytes = clattn_dtype_bytes(dtype, count);
    a.data = pool_block(p, a.bytes);
    SUCCEEDS(clattn_convert(a.data, dtype, values, CLATTN_F64, count));
    return a;
}

static const int64_t square[] = {4, 32}, narrow[] = {3, 5}, row[] = {6};

static void by_hand(pool *p) {
    clattn_parameters *all = NULL;
    const clattn_array a = array_of(p, CLATTN_F32, 2, square), b = array_of(p, CLATTN_F32, 2, narrow),
                       c = array_of(p, CLATTN_F32, 1, row), ids = array_of(p, CLATTN_I64, 2, square);
    const clattn_array scalar = array_of(p, CLATTN_F32, 0, row);
    const clattn_parameters_options blocks = {.convert = true, .dtype = CLATTN_Q8_0},
                                    halves = {.convert = true, .dtype = CLATTN_F16, .vectors = true};
    clattn_tensor t;
    const char *name;
    SUCCEEDS(clattn_parameters_create(p->context, &all));
    SUCCEEDS(clattn_parameters_add(all, "x.plain", &a, NULL));
    SUCCEEDS(clattn_parameters_add(all, "x.blocks", &a, &blocks));
    SUCCEEDS(clattn_parameters_add(all, "x.no_blocks", &b, &blocks)); /* rows of 5 */
    SUCCEEDS(clattn_parameters_add(all, "y.vector", &c, &blocks));
    SUCCEEDS(clattn_parameters_add(all, "y.half", &c, &halves));
    SUCCEEDS(clattn_parameters_add(all, "y.ids", &ids, &halves));
    SUCCEEDS(clattn_parameters_add(all, "y.scalar", &scalar, NULL));
    cr_expect_eq(clattn_parameters_count(all), 7);
    cr_expect_eq(clattn_parameters_get(all, "x.", "plain").dtype, CLATTN_F32);
    cr_expect_eq(clattn_parameters_get(all, "x.", "blocks").dtype, CLATTN_Q8_0);
    cr_expect_eq(clattn_parameters_get(all, NULL, "x.no_blocks").dtype, CLATTN_F32);
    cr_expect_eq(clattn_parameters_get(all, "y.", "vector").dtype, CLATTN_F32);
    cr_expect_eq(clattn_parameters_get(all, "y.", "half").dtype, CLATTN_F16);
    cr_expect_eq(clattn_parameters_get(all, "y.", "ids").dtype, CLATTN_I64);
    cr_expect_eq(clattn_parameters_get(all, "y.", "plain").rank, 0);
    SUCCEEDS(clattn_parameters_find(all, "y.", "scalar", &t));
    cr_expect(t.rank == 1 && t.shape[0] == 1);
    SUCCEEDS(clattn_parameters_find(all, "x.", "plain", &t));
    const double *got = pool_values(p, &t);
    for (int i = 0; i < 128; i++)
        cr_expect_eq(got[i], (double)((const float *)a.data)[i]);
    cr_expect_eq(clattn_parameters_elements(all, NULL), 128 + 128 + 15 + 6 + 6 + 1);
    cr_expect_eq(clattn_parameters_elements(all, "x."), 128 + 128 + 15);
    cr_expect_eq(clattn_parameters_bytes(all, "x."), 512 + 4 * 34 + 60);
    cr_expect(clattn_parameters_at(all, 3, &name, &t));
    cr_expect_str_eq(name, "y.vector");
    cr_expect_not(clattn_parameters_at(all, 7, &name, &t));
    FAILS(clattn_parameters_add(all, "x.plain", &a, NULL), CLATTN_E_ARGUMENT, "\"x.plain\" is there already");
    FAILS(clattn_parameters_find(all, "x.", "blots", &t), CLATTN_E_ARGUMENT,
          "no \"x.blots\"; there are \"x.plain\", \"x.blocks\", \"x.no_blocks\"");
    FAILS(clattn_parameters_find(all, "z.", "plain", &t), CLATTN_E_ARGUMENT, "no \"z.plain\", and of 7 none begins so");
    FAILS(clattn_parameters_add(all, "w", &a, &(clattn_parameters_options){.convert = true, .dtype = CLATTN_I32}),
          CLATTN_E_DTYPE, "cannot be stored as i32");
    FAILS(clattn_parameters_add(all, NULL, &a, NULL), CLATTN_E_ARGUMENT, "name is NULL");
    clattn_parameters_destroy(all);
    clattn_parameters_destroy(NULL);
}

Test(parameters, are_added_converted_and_found) { on_devices(by_hand); }

static void from_file(pool *p) {
    char path[] = "/tmp/clattn_parameters_XXXXXX";
    const int file = mkstemp(path);
    cr_assert_geq(file, 0);
    close(file);
    const clattn_named_array arrays[] = {{"model.w", array_of(p, CLATTN_F32, 2, square)},
                                         {"model.b", array_of(p, CLATTN_F16, 1, row)},
                                         {"other.w", array_of(p, CLATTN_F64, 2, narrow)}};
    clattn_parameters *all = NULL, *some = NULL;
    SUCCEEDS(clattn_safetensors_write(path, arrays, 3, NULL, 0));
    SUCCEEDS(clattn_parameters_create(p->context, &all));
    SUCCEEDS(clattn_parameters_create(p->context, &some));
    SUCCEEDS(clattn_parameters_load(all, path, NULL));
    SUCCEEDS(clattn_parameters_load(some, path, &(clattn_parameters_options){.prefix = "model."}));
    cr_expect_eq(clattn_parameters_count(all), 3);
    cr_expect_eq(clattn_parameters_count(some), 2);
    for (int i = 0; i < 3; i++) {
        const clattn_array *a = &arrays[i].array;
        const clattn_tensor t = clattn_parameters_get(all, NULL, arrays[i].name);
        cr_assert(t.dtype == a->dtype && t.rank == a->rank && clattn_buffer_bytes(t.buffer) == a->bytes);
        void *got = pool_block(p, a->bytes);
        SUCCEEDS(clattn_buffer_download(t.buffer, 0, got, a->bytes));
        cr_expect_eq(memcmp(got, a->data, a->bytes), 0, "%s", arrays[i].name);
    }
    FAILS(clattn_parameters_load(some, path, &(clattn_parameters_options){.prefix = "mode1."}), CLATTN_E_ARGUMENT,
          "holds no tensor that begins with \"mode1.\"");
    FAILS(clattn_parameters_load(all, path, NULL), CLATTN_E_ARGUMENT, "is there already");
    cr_assert_eq(truncate(path, 100), 0);
    FAILS(clattn_parameters_load(some, path, NULL), CLATTN_E_FORMAT, path);
    unlink(path);
    FAILS(clattn_parameters_load(some, path, NULL), CLATTN_E_IO, path);
    clattn_parameters_destroy(all);
    clattn_parameters_destroy(some);
}

Test(parameters, are_loaded_from_files) { on_devices(from_file); }

static void by_names(pool *p) {
    const int64_t packed[] = {24, 8}, three[] = {24}, out[] = {8, 8}, eight[] = {8};
    const struct {
        const char *name;
        int rank;
        const int64_t *shape;
    } names[] = {{"a.in_proj_weight", 2, packed}, {"a.in_proj_bias", 1, three}, {"a.out_proj.weight", 2, out},
                 {"a.out_proj.bias", 1, eight},   {"b.q_proj_weight", 2, out},  {"b.v_proj_weight", 2, out}};
    clattn_parameters *all = NULL;
    clattn_multihead *multihead = NULL;
    const clattn_multihead_options options = {.heads = 2};
    SUCCEEDS(clattn_parameters_create(p->context, &all));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const clattn_array a = array_of(p, CLATTN_F32, names[i].rank, names[i].shape);
        SUCCEEDS(clattn_parameters_add(all, names[i].name, &a, NULL));
    }
    SUCCEEDS(clattn_multihead_load(p->context, all, "a.", &options, &multihead));
    cr_expect_eq(clattn_multihead_parameter_count(multihead), 4 * 64 + 4 * 8);
    cr_expect_eq(clattn_multihead_parameter_count(multihead), clattn_parameters_elements(all, "a."));
    clattn_multihead_destroy(multihead);
    FAILS(clattn_multihead_load(p->context, all, "b.", &options, &multihead), CLATTN_E_ARGUMENT,
          "there is no \"b.k_proj_weight\"");
    FAILS(clattn_multihead_load(p->context, all, "c.", &options, &multihead), CLATTN_E_ARGUMENT,
          "there is no \"c.in_proj_weight\"");
    clattn_parameters_destroy(all);
}

Test(parameters, are_found_by_the_names_of_pytorch) { on_devices(by_names); }
