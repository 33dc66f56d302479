/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures of readers and writers of files: group H, byte by byte as they were reported, and their neighbours. */
#include "io_testing.h"

#include <clattn/io.h>
#include <locale.h>
#include <stdint.h>
#include <sys/resource.h>

TestSuite(cases, .init = temp_dir_make, .fini = temp_dir_remove);

static unsigned char bytes[1 << 17];
static size_t length;

static void put(const void *data, size_t n) {
    cr_assert_leq(length + n, sizeof bytes);
    if (n > 0)
        memcpy(bytes + length, data, n);
    length += n;
}

/* n as a number of so many bytes. */
static void put_number(uint64_t n, size_t size) {
    for (size_t i = 0; i < size; i++)
        put(&(unsigned char){(unsigned char)(n >> 8 * i)}, 1);
}

static long peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* ---- npy ---- */

static void npy_start(int major, uint64_t header_length) {
    length = 0;
    put("\x93NUMPY", 6);
    put_number((uint64_t)major, 2);
    put_number(header_length, major == 1 ? 2 : 4);
}

/* The file of a header and so many bytes 1, 2, 3, ... */
static const char *npy(const char *header, size_t data_bytes) {
    npy_start(1, strlen(header));
    put(header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++)
        put_number(i + 1, 1);
    return temp_write("x.npy", bytes, length);
}

/* Refused with no more memory than a file so small may cost, and nothing is left in the result. */
static void npy_refused(const char *path, clattn_status status, const char *part) {
    clattn_array a = {.rank = 7};
    const long before = peak_kib();
    FAILS(clattn_npy_read(path, &a), status, part);
    cr_assert_lt(peak_kib() - before, 10 * 1024);
    cr_assert(!a.data && a.rank == 0 && a.bytes == 0);
}

/* data NULL: that of the file made last. */
static void npy_read(const char *path, int rank, int64_t first, const void *data) {
    clattn_array a;
    SUCCEEDS(clattn_npy_read(path, &a));
    cr_assert(a.dtype == CLATTN_F32 && a.rank == rank && a.shape[0] == first);
    cr_assert_arr_eq(a.data, data ? data : bytes + length - a.bytes, a.bytes);
    clattn_array_free(&a);
}

Test(cases, H01_an_npy_header_longer_than_its_file_costs_no_memory) {
    static const uint32_t lengths[] = {0xfffffff0u, 0xffffffffu, 0x80000000u, 65537, 65536, 1};
    static const char *const parts[] = {"4294967280", "4294967295", "2147483648", "65537", "65536", "only 0"};
    for (int major = 2; major <= 3; major++)
        for (int i = 0; i < 6; i++) {
            npy_start(major, lengths[i]);
            npy_refused(temp_write("x.npy", bytes, length), CLATTN_E_FORMAT, parts[i]);
        }
}

Test(cases, H02_an_npy_shape_whose_product_wraps_is_refused) {
    static const char *const shapes[] = {"(4611686018427387905,)",    "(4294967296,4294967296)",
                                         "(9223372036854775807,)",    "(2305843009213693953,2,2)",
                                         "(3037000500,3037000500,1)", "(4294967296,4294967296,4294967296)",
                                         "(4294967297,4294967297)"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int fortran = 0; fortran < 2; fortran++) {
            char header[200];
            snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': %s, 'shape': %s}",
                     fortran ? "True" : "False", shapes[i]);
            npy_refused(npy(header, 4), CLATTN_E_FORMAT, "63 bits");
        }
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", 4), CLATTN_E_FORMAT,
                "2^63");
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-4294967296,-4294967296)}", 4), CLATTN_E_FORMAT,
                "a size");
}

Test(cases, H04_an_npy_header_past_the_end_is_refused_and_a_long_one_is_read) {
    char header[4001];
    npy_start(1, 65535);
    memset(bytes + length, ' ', 70 - length);
    npy_refused(temp_write("x.npy", bytes, 70), CLATTN_E_FORMAT, "65535");
    snprintf(header, sizeof header, "%-3999s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }");
    const char *path = npy(header, 24);
    npy_read(path, 2, 2, NULL);
}

/* Where a locale is there that groups digits, or has a comma for a point. */
Test(cases, H06_npy_texts_do_not_follow_the_locale) {
    static const char *const locales[] = {"de_DE.UTF-8", "en_IN.UTF-8", "de_DE", "C.UTF-8"};
    static float data[1000];
    const clattn_array a = {.rank = 2, .shape = {500, 2}, .data = data, .bytes = 4000},
                       none = {.rank = 2, .shape = {2621401, 0}};
    char text[100] = "";
    for (size_t i = 0; i < sizeof locales / sizeof *locales && !setlocale(LC_ALL, locales[i]); i++)
        ;
    SUCCEEDS(clattn_npy_write(temp_path("w.npy"), &none));
    cr_assert_eq(temp_read(temp_path("w.npy"), bytes, sizeof bytes), 128);
    memcpy(text, bytes + 10, sizeof text - 1);
    cr_assert(strstr(text, "(2621401, 0), }"), "%s", text);
    SUCCEEDS(clattn_npy_write(temp_path("w.npy"), &a));
    npy_read(temp_path("w.npy"), 2, 500, data);
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6)}\n", 24), CLATTN_E_FORMAT, "must read (6,)");
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,621, 401)}\n", 24), CLATTN_E_FORMAT,
                "the file was cut");
    npy_read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }\n", 24), 2, 2, NULL);
    npy_read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3)}", 24), 2, 2, NULL);
    npy_read(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 24), 1, 6, NULL);
}

Test(cases, H07_npy_types_keys_and_versions_that_are_not_known_are_refused) {
    static const struct {
        const char *header, *part;
        clattn_status status;
    } refused[] = {
        {"{'descr': '|O', 'fortran_order': False, 'shape': (6,)}", "'|O'", CLATTN_E_DTYPE},
        {"{'descr': '>O', 'fortran_order': False, 'shape': (6,)}", "'>O'", CLATTN_E_DTYPE},
        {"{'descr': '<U4', 'fortran_order': False, 'shape': (6,)}", "'<U4'", CLATTN_E_DTYPE},
        {"{'descr': '<M8[s]', 'fortran_order': False, 'shape': (3,)}", "'<M8[s]'", CLATTN_E_DTYPE},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 0}", "unknown key 'x'", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}", "True or False", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': None, 'shape': (6,)}", "True or False", CLATTN_E_FORMAT},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (__import__('os').system('id'),)}", "a size",
         CLATTN_E_FORMAT},
        {"__import__('os').system('id')", "'{'", CLATTN_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        npy_refused(npy(refused[i].header, 24), refused[i].status, refused[i].part);
    static const unsigned char versions[][2] = {{4, 0}, {0, 0}, {0, 1}, {1, 1}, {255, 255}};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 24);
        memcpy(bytes + 6, versions[i], 2);
        npy_refused(temp_write("x.npy", bytes, length), CLATTN_E_FORMAT, "none of 1.0, 2.0 and 3.0");
    }
    npy("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 24);
    bytes[5] = 'X';
    npy_refused(temp_write("x.npy", bytes, length), CLATTN_E_FORMAT, "0x93 NUMPY");
}

Test(cases, H07_big_endian_npy_comes_out_as_numbers) {
    clattn_array a;
    npy("{'descr': '>f4', 'fortran_order': False, 'shape': (2,)}", 8);
    memcpy(bytes + length - 8, "\x3f\x80\0\0\xc0\x20\0\0", 8);
    SUCCEEDS(clattn_npy_read(temp_write("x.npy", bytes, length), &a));
    cr_assert(((float *)a.data)[0] == 1.0f && ((float *)a.data)[1] == -2.5f);
    clattn_array_free(&a);
}

Test(cases, H08_npy_data_that_is_cut_or_too_long_is_refused) {
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3)}", 20), CLATTN_E_FORMAT,
                "needs 24 bytes, but 20");
    npy_refused(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,3)}", 28), CLATTN_E_FORMAT,
                "4 bytes too many");
    npy_refused(temp_write("x.npy", "", 0), CLATTN_E_FORMAT, "has 0 bytes");
    npy("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n", 24);
    for (size_t n = 0; n < length; n++)
        npy_refused(temp_write("x.npy", bytes, n), CLATTN_E_FORMAT, "x.npy");
}

/* ---- safetensors ---- */

static const char *safetensors(uint64_t header_length, const char *header, size_t data_bytes) {
    length = 0;
    put_number(header_length, 8);
    put(header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++)
        put_number(i + 1, 1);
    return temp_write("x.safetensors", bytes, length);
}

static void refused(const char *path, const char *part) {
    clattn_safetensors *s = (clattn_safetensors *)&length;
    const long before = peak_kib();
    FAILS(clattn_safetensors_open(path, &s), CLATTN_E_FORMAT, part);
    cr_assert_lt(peak_kib() - before, 10 * 1024);
    cr_assert_null(s);
}

Test(cases, H09_a_safetensors_header_length_is_checked_against_the_file) {
    static const char header[] = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    const uint64_t n = sizeof header - 1, file = 8 + n + 8;
    static const struct {
        uint64_t length;
        const char *part;
    } wrong[] = {{UINT64_C(0xfffffffffffffffb), "18446744073709551611"},
                 {UINT64_MAX, "18446744073709551615"},
                 {UINT64_C(0xfffffffffffffff8), "18446744073709551608"},
                 {UINT64_C(1) << 63, "9223372036854775808"},
                 {(UINT64_C(1) << 63) - 1, "9223372036854775807"},
                 {100000001, "100000000 are refused"},
                 {100000000, "follow in the file"},
                 {0, "'{'"},
                 {1, "a string"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refused(safetensors(wrong[i].length, header, 8), wrong[i].part);
    for (uint64_t claim = file - 7; claim <= file + 9; claim++)
        refused(safetensors(claim, header, 8), "follow in the file");
    refused(safetensors(file - 8, header, 8), "header's JSON"); /* all that follows is the header */
    for (uint64_t claim = 0; claim < n; claim++)
        refused(safetensors(claim, header, 8), "JSON");
    clattn_safetensors *s = NULL;
    SUCCEEDS(clattn_safetensors_open(safetensors(n, header, 8), &s));
    clattn_safetensors_close(s);
}

#define TENSOR(dtype, shape, offsets)                                                                                  \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void each_refused(const char *const (*texts)[2], size_t count) {
    for (size_t i = 0; i < count; i++)
        refused(safetensors(strlen(texts[i][0]), texts[i][0], 8), texts[i][1]);
}

Test(cases, H11_a_safetensors_shape_whose_product_wraps_is_refused) {
    static const char *const texts[][2] = {
        {TENSOR("F32", "[4294967296,4294967296]", "[0,1152921504606846976]"), "16 digits"},
        {TENSOR("F32", "[4294967296,4294967296]", "[0,9007199254740991]"), "63 bits"},
        {TENSOR("F32", "[4294967296,4294967296]", "[0,0]"), "63 bits"},
        {TENSOR("F32", "[4294967296,4294967296]", "[0,8]"), "63 bits"},
        {TENSOR("F32", "[4503599627370496,4096]", "[0,8]"), "63 bits"},
        {TENSOR("F32", "[2147483649,2147483648,2]", "[0,8]"), "63 bits"},
        {TENSOR("F32", "[9007199254740992]", "[0,8]"), "2^53"},
        {TENSOR("F32", "[2]", "[0,9007199254740991]"), "of 8 bytes"},
        {TENSOR("F32", "[2]", "[8,0]"), "claims the bytes"},
        {TENSOR("F32", "[2]", "[8,16]"), "claims the bytes"},
        {TENSOR("F32", "[3]", "[0,8]"), "needs 96 bits"},
    };
    each_refused(texts, sizeof texts / sizeof *texts);
}

Test(cases, H12_safetensors_that_say_what_nobody_knows_are_refused) {
    static const char *const texts[][2] = {
        {TENSOR("F99", "[2]", "[0,800]"), "unknown dtype \"F99\""},
        {TENSOR("F99", "[2]", "[0,8]"), "unknown dtype \"F99\""},
        {TENSOR("f32", "[2]", "[0,8]"), "unknown dtype \"f32\""},
        {TENSOR("", "[2]", "[0,8]"), "unknown dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
         "\"data_offsets\":[4,8]}}",
         "two tensors are named \"a\""},
        {"{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F99\",\"shape\":[2],\"data_offsets\":[0,8]}}", "twice the key"},
    };
    static char deep[100001];
    each_refused(texts, sizeof texts / sizeof *texts);
    memset(deep, '[', 100000);
    refused(safetensors(100000, deep, 0), "'{'");
    for (size_t i = 0; i < 100000; i++)
        deep[i] = "{\"a\":"[i % 5];
    refused(safetensors(100000, deep, 0), "list of numbers");
}

/* ---- the same of GGUF ---- */

static void gguf_start(uint64_t tensors, uint64_t pairs) {
    length = 0;
    put("GGUF\3\0\0\0", 8);
    put_number(tensors, 8);
    put_number(pairs, 8);
}

static void gguf_refused(const char *part) {
    clattn_gguf *g = (clattn_gguf *)&length;
    const long before = peak_kib();
    FAILS(clattn_gguf_open(temp_write("x.gguf", bytes, length), &g), CLATTN_E_FORMAT, part);
    cr_assert_lt(peak_kib() - before, 10 * 1024);
    cr_assert_null(g);
}

Test(cases, H01_gguf_counts_and_lengths_above_the_file_cost_no_memory) {
    static const uint64_t many[] = {1, 1 << 20, UINT64_C(1) << 32, UINT64_C(1) << 60, UINT64_C(1) << 63, UINT64_MAX};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        gguf_start(many[i], 0);
        gguf_refused("tensors");
        gguf_start(0, many[i]);
        gguf_refused("metadata");
        gguf_start(0, 1);
        put_number(many[i] < 100 ? 100 : many[i], 8); /* of a key */
        put("key and more", 12);
        gguf_refused("only 12 follow");
        gguf_start(0, 1);
        put_number(1, 8);
        put("k\x09\0\0\0\4\0\0\0", 9); /* an array of u32 */
        put_number(many[i], 8);
        gguf_refused("elements of 4 bytes");
    }
}

Test(cases, H02_a_gguf_shape_whose_product_wraps_is_refused) {
    static const uint64_t shapes[][2] = {{UINT64_C(1) << 32, UINT64_C(1) << 32},
                                         {(UINT64_C(1) << 62) + 1, 1},
                                         {UINT64_C(1) << 63, 1},
                                         {UINT64_MAX, UINT64_MAX}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        gguf_start(1, 0);
        put_number(1, 8);
        put("a\2\0\0\0", 5);
        put_number(shapes[i][0], 8);
        put_number(shapes[i][1], 8);
        put_number(0, 4); /* F32 */
        put_number(0, 8);
        put_number(0, 8);
        gguf_refused(shapes[i][0] > INT64_MAX ? "an axis of" : "63 bits");
    }
}
