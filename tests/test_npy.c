/* SPDX-License-Identifier: Apache-2.0 */
/* NPY files: what is read, what is refused and why, and that what is written are numpy's bytes. */
#include "io_testing.h"

#include <clattn/io.h>
#include <locale.h>
#include <stdint.h>
#include <sys/resource.h>

TestSuite(npy, .init = temp_dir_make, .fini = temp_dir_remove);

#define HEADER_2X3 "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"
static const float six[6] = {0, 1, 2, 3, 4, 5};

/* Prefix of a version, header, data; returns the length. */
static size_t compose(unsigned char *out, int major, const char *header, const void *data, size_t bytes) {
    const size_t n = strlen(header), prefix = major == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (unsigned char)major;
    out[7] = 0;
    for (size_t i = 8; i < prefix; i++)
        out[i] = (unsigned char)(n >> 8 * (i - 8));
    memcpy(out + prefix, header, n);
    if (bytes > 0)
        memcpy(out + prefix + n, data, bytes);
    return prefix + n + bytes;
}

static const char *npy(int major, const char *header, const void *data, size_t bytes) {
    static unsigned char all[16384];
    return temp_write("x.npy", all, compose(all, major, header, data, bytes));
}

static void assert_six(const char *path) {
    clattn_array a;
    SUCCEEDS(clattn_npy_read(path, &a));
    cr_assert_eq(a.dtype, CLATTN_F32);
    cr_assert_eq(a.rank, 2);
    cr_assert(a.shape[0] == 2 && a.shape[1] == 3 && a.bytes == sizeof six);
    cr_assert_arr_eq(a.data, six, sizeof six);
    clattn_array_free(&a);
}

/* ---- what is read ---- */

Test(npy, reads_versions_1_2_and_3) {
    for (int major = 1; major <= 3; major++)
        assert_six(npy(major, HEADER_2X3 "    \n", six, sizeof six));
}

Test(npy, reads_every_form_that_python_reads) {
    static const char *const headers[] = {
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }\n",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", /* no newline, no last comma */
        "{\"shape\": (2, 3), \"fortran_order\": False, \"descr\": \"<f4\"}\n",
        "  {'descr':'<f4','fortran_order':False,'shape':(2,3)}\n",
        "{\t'descr' : '<f4' ,\n'fortran_order' : False , 'shape' : ( 2 , 3 , ) , } \n",
    };
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++)
        assert_six(npy(1, headers[i], six, sizeof six));
}

Test(npy, reads_a_header_padded_to_4000_bytes) {
    char header[4001];
    snprintf(header, sizeof header, "%-3999s\n", HEADER_2X3);
    assert_six(npy(1, header, six, sizeof six));
    assert_six(npy(2, header, six, sizeof six));
}

Test(npy, reads_every_type) {
    static const struct {
        const char *descr;
        clattn_dtype dtype;
        size_t size;
    } types[] = {{"<f2", CLATTN_F16, 2},  {"<f4", CLATTN_F32, 4}, {"<f8", CLATTN_F64, 8},
                 {"<i4", CLATTN_I32, 4},  {"<i8", CLATTN_I64, 8}, {"|u1", CLATTN_U8, 1},
                 {"|b1", CLATTN_BOOL, 1}, {"<u1", CLATTN_U8, 1},  {">b1", CLATTN_BOOL, 1}};
    static const unsigned char data[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[100];
        clattn_array a;
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}\n", types[i].descr);
        SUCCEEDS(clattn_npy_read(npy(1, header, data, 2 * types[i].size), &a));
        cr_assert_eq(a.dtype, types[i].dtype);
        cr_assert(a.rank == 1 && a.shape[0] == 2 && a.bytes == 2 * types[i].size);
        cr_assert_arr_eq(a.data, data, a.bytes);
        clattn_array_free(&a);
    }
}

Test(npy, swaps_big_endian_numbers) {
    static const unsigned char one_f2[] = {0x3c, 0x00, 0xc0, 0x00}; /* 1, -2 */
    static const unsigned char one_f4[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0};
    static const unsigned char one_f8[] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0};
    static const unsigned char one_i4[] = {0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe};
    static const unsigned char one_i8[] = {0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe};
    static const struct {
        const char *descr;
        const unsigned char *data;
        size_t bytes;
    } cases[] = {{">f2", one_f2, 4}, {">f4", one_f4, 8}, {">f8", one_f8, 16}, {">i4", one_i4, 8}, {">i8", one_i8, 16}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char header[100];
        clattn_array a, wide;
        snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': (2,)}\n", cases[i].descr);
        SUCCEEDS(clattn_npy_read(npy(1, header, cases[i].data, cases[i].bytes), &a));
        SUCCEEDS(clattn_array_convert(&a, CLATTN_F64, &wide));
        cr_assert_eq(((double *)wide.data)[0], 1.0, "%s", cases[i].descr);
        cr_assert_eq(((double *)wide.data)[1], -2.0, "%s", cases[i].descr);
        clattn_array_free(&a);
        clattn_array_free(&wide);
    }
}

/* np.asfortranarray(np.arange(24, dtype='<i4').reshape(2, 3, 4)) as np.save writes it. */
Test(npy, turns_fortran_order_into_row_major) {
    static const int32_t saved[24] = {0, 12, 4, 16, 8,  20, 1, 13, 5, 17, 9,  21,
                                      2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23};
    clattn_array a;
    SUCCEEDS(clattn_npy_read(
        npy(1, "{'descr': '<i4', 'fortran_order': True, 'shape': (2, 3, 4), }\n", saved, sizeof saved), &a));
    cr_assert(a.rank == 3 && a.shape[0] == 2 && a.shape[1] == 3 && a.shape[2] == 4);
    for (int i = 0; i < 24; i++)
        cr_assert_eq(((int32_t *)a.data)[i], i);
    clattn_array_free(&a);
}

Test(npy, reads_fortran_order_of_vectors_scalars_and_nothing) {
    static const char *const shapes[] = {"(6,)", "(1, 6)", "(6, 1, 1)"};
    char header[100];
    clattn_array a;
    for (size_t i = 0; i < 3; i++) {
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': True, 'shape': %s}\n", shapes[i]);
        SUCCEEDS(clattn_npy_read(npy(1, header, six, sizeof six), &a));
        cr_assert_arr_eq(a.data, six, sizeof six);
        clattn_array_free(&a);
    }
    SUCCEEDS(clattn_npy_read(npy(1, "{'descr': '>f4', 'fortran_order': True, 'shape': (3, 0)}", NULL, 0), &a));
    cr_assert(a.rank == 2 && a.bytes == 0 && a.data);
    clattn_array_free(&a);
}

Test(npy, reads_scalars_and_empty_arrays) {
    static const double x = 2.5;
    clattn_array a;
    SUCCEEDS(clattn_npy_read(npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", &x, sizeof x), &a));
    cr_assert(a.rank == 0 && a.bytes == 8 && *(double *)a.data == 2.5);
    clattn_array_free(&a);
    SUCCEEDS(clattn_npy_read(npy(1, "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 3), }\n", NULL, 0), &a));
    cr_assert(a.rank == 2 && a.shape[0] == 0 && a.shape[1] == 3 && a.bytes == 0 && a.data);
    clattn_array_free(&a);
}

Test(npy, reads_8_axes_and_refuses_9) {
    clattn_array a;
    SUCCEEDS(clattn_npy_read(
        npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,2,1,3)}", six, sizeof six), &a));
    cr_assert(a.rank == 8 && a.shape[5] == 2 && a.shape[7] == 3);
    clattn_array_free(&a);
    FAILS(clattn_npy_read(
              npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,2,3)}", six, sizeof six), &a),
          CLATTN_E_FORMAT, "more than 8 axes");
    cr_assert_null(a.data);
}

/* ---- what is refused ---- */

Test(npy, refuses_headers_that_are_not_exactly_one) {
    static const struct {
        const char *header, *part;
        clattn_status status;
    } cases[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6)}", "must read (6,)", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 6}", "shape's '('", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [2, 3]}", "shape's '('", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "','", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,)}", "a size", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,,3)}", "a size", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}", "a size", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2.0, 3)}", "','", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 03)}", "leading zeros", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 621, 401", "ends after", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,\xc2\xa0"
         "3)}",
         "a size", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').getpid(),)}", "a size", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (18446744073709551622,)}", "2^63", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'x': 1}", "unknown key 'x'", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), 'shape': (2, 3)}", "twice the key 'shape'",
         CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2, 3)}", "True or False", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': false, 'shape': (2, 3)}", "True or False", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': Falsey, 'shape': (2, 3)}", "',' or '}'", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False}", "lacks the key 'shape'", CLATTN_E_FORMAT},
        {"{'fortran_order': False, 'shape': (2, 3)}", "lacks the key 'descr'", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'shape': (2, 3)}", "lacks the key 'fortran_order'", CLATTN_E_FORMAT},
        {"{}", "lacks the key", CLATTN_E_FORMAT},
        {"{,}", "a key", CLATTN_E_FORMAT},
        {"", "'{'", CLATTN_E_FORMAT},
        {"garbage", "'{'", CLATTN_E_FORMAT},
        {HEADER_2X3 "x", "nothing but spaces", CLATTN_E_FORMAT},
        {HEADER_2X3 "\n" HEADER_2X3, "nothing but spaces", CLATTN_E_FORMAT},
        {"{'descr' '<f4'}", "':'", CLATTN_E_FORMAT},
        {"{'descr': '<f4' 'fortran_order': False}", "',' or '}'", CLATTN_E_FORMAT},
        {"{'descr': '<f4", "a quote", CLATTN_E_FORMAT},
        {"{'descr': '<f4\\x00'}", "end of a short string", CLATTN_E_FORMAT},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (6,)}", "records", CLATTN_E_FORMAT},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", "'|O'", CLATTN_E_DTYPE},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (6,)}", "'<c8'", CLATTN_E_DTYPE},
        {"{'descr': '<i2', 'fortran_order': False, 'shape': (6,)}", "'<i2'", CLATTN_E_DTYPE},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (6,)}", "'<V2'", CLATTN_E_DTYPE},
        {"{'descr': 'f4', 'fortran_order': False, 'shape': (6,)}", "'f4'", CLATTN_E_DTYPE},
        {"{'descr': '|f4', 'fortran_order': False, 'shape': (6,)}", "'|f4'", CLATTN_E_DTYPE},
        {"{'descr': '=f4', 'fortran_order': False, 'shape': (6,)}", "'=f4'", CLATTN_E_DTYPE},
        {"{'descr': '', 'fortran_order': False, 'shape': (6,)}", "''", CLATTN_E_DTYPE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clattn_array a = {.rank = 7};
        FAILS(clattn_npy_read(npy(1, cases[i].header, six, sizeof six), &a), cases[i].status, cases[i].part);
        cr_assert(!a.data && a.rank == 0);
    }
}

Test(npy, refuses_a_shape_whose_product_wraps) {
    clattn_array a;
    FAILS(clattn_npy_read(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387905,)}", six, 4),
                          &a),
          CLATTN_E_FORMAT, "4611686018427387905");
    FAILS(clattn_npy_read(npy(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296,4294967296)}", six, 0),
                          &a),
          CLATTN_E_FORMAT, "4294967296");
    FAILS(clattn_npy_read(npy(1, "{'descr': '|u1', 'fortran_order': True, 'shape': (9223372036854775807,2)}", six, 0),
                          &a),
          CLATTN_E_FORMAT, "9223372036854775807");
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

Test(npy, refuses_lengths_above_the_file_without_allocating_them) {
    clattn_array a;
    const long before = peak_kib();
    FAILS(clattn_npy_read(temp_write("x.npy", "\x93NUMPY\x02\x00\xf0\xff\xff\xff", 12), &a), CLATTN_E_FORMAT,
          "4294967280");
    FAILS(clattn_npy_read(npy(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (100000000000,)}", six, sizeof six),
                          &a),
          CLATTN_E_FORMAT, "800000000000");
    cr_assert_lt(peak_kib() - before, 10 * 1024);
    unsigned char all[70] = {0};
    memcpy(all, "\x93NUMPY\x01\x00\xff\xff", 10);
    FAILS(clattn_npy_read(temp_write("x.npy", all, sizeof all), &a), CLATTN_E_FORMAT, "65535");
}

Test(npy, refuses_a_foreign_magic_and_unknown_versions) {
    clattn_array a;
    unsigned char all[200];
    const size_t n = compose(all, 1, HEADER_2X3, six, sizeof six);
    static const unsigned char versions[][2] = {{0, 0}, {4, 0}, {1, 1}, {2, 1}, {255, 255}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        memcpy(all + 6, versions[i], 2);
        FAILS(clattn_npy_read(temp_write("x.npy", all, n), &a), CLATTN_E_FORMAT, "none of 1.0, 2.0 and 3.0");
    }
    all[5] = 'X';
    FAILS(clattn_npy_read(temp_write("x.npy", all, n), &a), CLATTN_E_FORMAT, "NUMPY");
}

Test(npy, refuses_a_file_cut_at_any_length_and_bytes_after_the_data) {
    clattn_array a;
    unsigned char all[200];
    for (int major = 1; major <= 3; major++) {
        const size_t n = compose(all, major, HEADER_2X3 "\n", six, sizeof six);
        for (size_t cut = 0; cut < n; cut++) {
            FAILS(clattn_npy_read(temp_write("x.npy", all, cut), &a), CLATTN_E_FORMAT, "x.npy");
            cr_assert_null(a.data);
        }
        FAILS(clattn_npy_read(temp_write("x.npy", all, n - 4), &a), CLATTN_E_FORMAT, "needs 24 bytes, but 20");
        memset(all + n, 0, 4);
        FAILS(clattn_npy_read(temp_write("x.npy", all, n + 4), &a), CLATTN_E_FORMAT, "4 bytes too many");
    }
}

Test(npy, names_the_file_that_is_missing) {
    clattn_array a;
    FAILS(clattn_npy_read(temp_path("none.npy"), &a), CLATTN_E_IO, "none.npy");
    FAILS(clattn_npy_read(temp_path("none.npy"), &a), CLATTN_E_IO, "No such file");
    FAILS(clattn_npy_read(temp_dir, &a), CLATTN_E_IO, "is a folder");
    FAILS(clattn_npy_read("/dev/null", &a), CLATTN_E_IO, "device");
    FAILS(clattn_npy_read(NULL, &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_npy_read("", &a), CLATTN_E_ARGUMENT, "empty");
    FAILS(clattn_npy_read("x.npy", NULL), CLATTN_E_ARGUMENT, "NULL");
}

/* ---- what is written ---- */

/* The header's text as numpy 2.4 writes it, without padding; the data begins at byte 128. */
static void assert_written(const clattn_array *a, const char *text) {
    unsigned char all[400], wanted[129];
    snprintf((char *)wanted, sizeof wanted, "\x93NUMPY\x01%c\x76%c%-117s\n", 1, 1, text);
    wanted[7] = wanted[9] = 0;
    SUCCEEDS(clattn_npy_write(temp_path("w.npy"), a));
    cr_assert_eq(temp_read(temp_path("w.npy"), all, sizeof all), 128 + a->bytes);
    cr_assert_arr_eq(all, wanted, 128);
    cr_assert_arr_eq(all + 128, a->data, a->bytes);
}

Test(npy, writes_the_bytes_of_numpy) {
    static float data[6] = {0, 1, 2, 3, 4, 5};
    const char *locales[] = {"de_DE.UTF-8", "en_IN.UTF-8", "de_DE", "C.UTF-8", ""};
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !setlocale(LC_ALL, locales[i]); i++)
        ; /* whatever locale there is: the text must not depend on it */
    assert_written(&(clattn_array){.rank = 2, .shape = {2, 3}, .data = data, .bytes = 24},
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    assert_written(&(clattn_array){.rank = 1, .shape = {6}, .data = data, .bytes = 24},
                   "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }");
    assert_written(&(clattn_array){.dtype = CLATTN_F64, .data = data, .bytes = 8},
                   "{'descr': '<f8', 'fortran_order': False, 'shape': (), }");
    assert_written(&(clattn_array){.dtype = CLATTN_BOOL, .rank = 1, .shape = {3}, .data = data, .bytes = 3},
                   "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }");
    assert_written(&(clattn_array){.dtype = CLATTN_F16, .rank = 2, .shape = {0, 2621401}, .data = data},
                   "{'descr': '<f2', 'fortran_order': False, 'shape': (0, 2621401), }");
}

Test(npy, reads_back_what_it_wrote) {
    static const int64_t shapes[][CLATTN_MAX_RANK] = {{0}, {7}, {0}, {3, 5}, {2, 0, 4}, {1, 2, 1, 3, 1, 2, 1, 2}};
    static const int ranks[] = {0, 1, 1, 2, 3, 8};
    for (int dtype = CLATTN_F32; dtype <= CLATTN_BOOL; dtype++)
        for (size_t i = 0; i < 6 && dtype != CLATTN_BF16; i++) {
            clattn_array a, b;
            SUCCEEDS(clattn_array_create((clattn_dtype)dtype, ranks[i], shapes[i], &a));
            for (size_t j = 0; j < a.bytes; j++)
                ((unsigned char *)a.data)[j] = (unsigned char)(37 * j + 1);
            SUCCEEDS(clattn_npy_write(temp_path("w.npy"), &a));
            SUCCEEDS(clattn_npy_read(temp_path("w.npy"), &b));
            cr_assert(a.dtype == b.dtype && a.rank == b.rank && a.bytes == b.bytes);
            cr_assert_arr_eq(a.shape, b.shape, sizeof a.shape);
            cr_assert_arr_eq(a.data, b.data, a.bytes);
            clattn_array_free(&a);
            clattn_array_free(&b);
        }
    cr_assert_eq(temp_dir_count(), 1);
}

Test(npy, refuses_to_write_bf16_and_arrays_that_contradict_themselves) {
    static float data[6];
    const char *path = temp_path("w.npy");
    FAILS(clattn_npy_write(path,
                           &(clattn_array){.dtype = CLATTN_BF16, .rank = 1, .shape = {6}, .data = data, .bytes = 12}),
          CLATTN_E_DTYPE, "bf16");
    FAILS(clattn_npy_write(path, &(clattn_array){.rank = 1, .shape = {6}, .data = data, .bytes = 20}),
          CLATTN_E_ARGUMENT, "20 bytes");
    FAILS(clattn_npy_write(path, &(clattn_array){.rank = 1, .shape = {6}, .bytes = 24}), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_npy_write(path, &(clattn_array){.rank = 9, .data = data}), CLATTN_E_SHAPE, "rank 9");
    FAILS(clattn_npy_write(path, &(clattn_array){.rank = 1, .shape = {-1}, .data = data}), CLATTN_E_SHAPE, "-1");
    FAILS(clattn_npy_write(path, NULL), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_npy_write(NULL, &(clattn_array){.data = data, .bytes = 4}), CLATTN_E_ARGUMENT, "NULL");
    cr_assert_eq(temp_dir_count(), 0);
}

/* ---- damage ---- */

Test(npy, survives_5000_damaged_files) {
    static unsigned char good[3][400], bad[600];
    size_t lengths[3];
    unsigned state = 20240607;
    for (int i = 0; i < 3; i++)
        lengths[i] = compose(good[i], i + 1, i ? HEADER_2X3 : "{'descr': '>f4', 'fortran_order': True, 'shape': (2,3)}",
                             six, sizeof six);
    for (int i = 0; i < 5000; i++) {
        clattn_array a;
        memcpy(bad, good[i % 3], lengths[i % 3]);
        const size_t n = temp_mutate(bad, lengths[i % 3], sizeof bad, &state);
        const clattn_status status = clattn_npy_read(temp_write("x.npy", bad, n), &a);
        cr_assert(status == CLATTN_OK || status == CLATTN_E_FORMAT || status == CLATTN_E_DTYPE, "%s",
                  clattn_last_error());
        cr_assert((status == CLATTN_OK) == (a.data != NULL) && a.bytes <= n);
        clattn_array_free(&a);
    }
}
