/* SPDX-License-Identifier: Apache-2.0 */
/* safetensors files: what is read, what is refused and why, and that what is written are the reference's bytes. */
#include "io_testing.h"

#include <clattn/io.h>
#include <stdint.h>
#include <sys/types.h>

TestSuite(safetensors, .init = temp_dir_make, .fini = temp_dir_remove);

#define TENSOR(dtype, shape, begin, end)                                                                               \
    "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
static const float two[2] = {1, 2};

/* Length, header, data; returns the length in all. */
static size_t compose(unsigned char *out, const char *header, const void *data, size_t bytes) {
    const size_t n = strlen(header);
    for (size_t i = 0; i < 8; i++)
        out[i] = (unsigned char)((uint64_t)n >> 8 * i);
    memcpy(out + 8, header, n);
    if (bytes > 0)
        memcpy(out + 8 + n, data, bytes);
    return 8 + n + bytes;
}

static const char *file_of(const char *header, const void *data, size_t bytes) {
    static unsigned char all[1 << 18];
    cr_assert_leq(8 + strlen(header) + bytes, sizeof all);
    return temp_write("x.safetensors", all, compose(all, header, data, bytes));
}

static const char *with_length(uint64_t n, size_t bytes) {
    unsigned char all[64] = {0};
    memset(all + 8, ' ', sizeof all - 8);
    memcpy(all + 8, "{}", 2);
    for (int i = 0; i < 8; i++)
        all[i] = (unsigned char)(n >> 8 * i);
    return temp_write("x.safetensors", all, bytes);
}

static clattn_safetensors *opened(const char *path) {
    clattn_safetensors *s = NULL;
    SUCCEEDS(clattn_safetensors_open(path, &s));
    return s;
}

/* safetensors.numpy.save of 0.8.0 on {'b': f4 [0, 1, 2], 'a': i8 [[1, 2]], 'z"\né': bool [0, 2], 'u': u1 [7],
 * 's': f8 1.5} and the metadata {'k': 'v\t"'}. */
static const char reference[] =
    "\x40\x01\0\0\0\0\0\0{\"__metadata__\":{\"k\":\"v\\t\\\"\"},\"a\":{\"dtype\":\"I64\",\"shape\":[1,2],"
    "\"data_offsets\":[0,16]},\"s\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[16,24]},\"b\":{\"dtype\":\"F32\","
    "\"shape\":[3],\"data_offsets\":[24,36]},\"u\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[36,37]},"
    "\"z\\\"\\n\xc3\xa9\":{\"dtype\":\"BOOL\",\"shape\":[0,2],\"data_offsets\":[37,37]}}       "
    "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\0\0\xf8\x3f\0\0\0\0\0\0\x80\x3f\0\0\0\x40\x07";
#define REFERENCE_BYTES (sizeof reference - 1)

/* ---- what is read ---- */

Test(safetensors, reads_what_the_reference_wrote) {
    clattn_safetensors *s = opened(temp_write("x.safetensors", reference, REFERENCE_BYTES));
    clattn_safetensors_entry e;
    clattn_array a;
    size_t index;
    cr_assert_eq(clattn_safetensors_count(s), 5);
    cr_assert(clattn_safetensors_entry_at(s, 0, &e));
    cr_assert_str_eq(e.name, "a");
    cr_assert_str_eq(e.dtype_text, "I64");
    cr_assert(e.readable && e.dtype == CLATTN_I64 && e.rank == 2 && e.shape[1] == 2 && e.bytes == 16);
    cr_assert(!clattn_safetensors_entry_at(s, 5, &e));
    cr_assert(clattn_safetensors_find(s, "z\"\n\xc3\xa9", &index) && index == 4);
    cr_assert(!clattn_safetensors_find(s, "z", &index));
    SUCCEEDS(clattn_safetensors_read(s, "b", &a));
    cr_assert(a.dtype == CLATTN_F32 && a.rank == 1 && a.shape[0] == 3 && ((float *)a.data)[2] == 2.0f);
    clattn_array_free(&a);
    SUCCEEDS(clattn_safetensors_read(s, "s", &a));
    cr_assert(a.dtype == CLATTN_F64 && a.rank == 0 && *(double *)a.data == 1.5);
    clattn_array_free(&a);
    SUCCEEDS(clattn_safetensors_read(s, "z\"\n\xc3\xa9", &a));
    cr_assert(a.dtype == CLATTN_BOOL && a.rank == 2 && a.shape[1] == 2 && a.bytes == 0 && a.data);
    clattn_array_free(&a);
    cr_assert_eq(clattn_safetensors_metadata_count(s), 1);
    cr_assert_str_eq(clattn_safetensors_metadata_key(s, 0), "k");
    cr_assert_str_eq(clattn_safetensors_metadata(s, "k"), "v\t\"");
    cr_assert_null(clattn_safetensors_metadata_key(s, 1));
    cr_assert_null(clattn_safetensors_metadata(s, "none"));
    clattn_safetensors_close(s);
}

Test(safetensors, reads_every_tensor_of_the_project_s_vectors) {
    static const char *const files[] = {"onnx", "seed", "torch"};
    for (size_t i = 0; i < 3; i++) {
        char path[TEMP_PATH + 100];
        snprintf(path, sizeof path, TESTS_DIR "/vectors/%s.safetensors", files[i]);
        clattn_safetensors *s = opened(path);
        clattn_safetensors_entry e;
        cr_assert_gt(clattn_safetensors_count(s), 0);
        for (size_t t = 0; clattn_safetensors_entry_at(s, t, &e); t++) {
            clattn_array a;
            SUCCEEDS(clattn_safetensors_read(s, e.name, &a));
            cr_assert_eq(a.bytes, e.bytes);
            clattn_array_free(&a);
        }
        clattn_safetensors_close(s);
    }
}

Test(safetensors, reads_any_json_spelling_of_a_header) {
    clattn_array a;
    clattn_safetensors *s = opened(file_of("{ \"\\u0061\\/\\ud83d\\ude00\" :\t{ \"data_offsets\" : [ 0 , 8 ] ,\n"
                                           "\"shape\":[2],\r\"dtype\" : \"F32\" } , \"__metadata__\" : { } } \n\t ",
                                           two, 8));
    SUCCEEDS(clattn_safetensors_read(s, "a/\xf0\x9f\x98\x80", &a));
    cr_assert_arr_eq(a.data, two, 8);
    clattn_array_free(&a);
    clattn_safetensors_close(s);
}

Test(safetensors, opens_a_file_without_tensors) {
    clattn_array a;
    clattn_safetensors *s = opened(file_of("{}", NULL, 0));
    cr_assert_eq(clattn_safetensors_count(s), 0);
    FAILS(clattn_safetensors_read(s, "x", &a), CLATTN_E_ARGUMENT, "no tensors");
    clattn_safetensors_close(s);
}

Test(safetensors, lists_types_that_it_cannot_read) {
    static const struct {
        const char *dtype;
        int bits;
    } types[] = {{"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"I8", 8},   {"F8_E5M2", 8},
                 {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"I16", 16}, {"U16", 16},
                 {"U32", 32},    {"C64", 64},    {"F8_E5M2FNUZ", 8}, {"U64", 64}};
    static const unsigned char zeros[64];
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[200];
        clattn_array a;
        clattn_safetensors_entry e;
        snprintf(header, sizeof header, "{\"x\":{\"dtype\":\"%s\",\"shape\":[8],\"data_offsets\":[0,%d]}}",
                 types[i].dtype, types[i].bits);
        clattn_safetensors *s = opened(file_of(header, zeros, (size_t)types[i].bits));
        cr_assert(clattn_safetensors_entry_at(s, 0, &e) && !e.readable && e.shape[0] == 8);
        cr_assert_str_eq(e.dtype_text, types[i].dtype);
        FAILS(clattn_safetensors_read(s, "x", &a), CLATTN_E_DTYPE, types[i].dtype);
        cr_assert_null(a.data);
        clattn_safetensors_close(s);
    }
}

Test(safetensors, names_near_tensors_when_one_is_missing) {
    clattn_array a;
    clattn_safetensors *s = opened(file_of("{\"layer.0.q\":" TENSOR("F32", "[1]", 0, 4) ",\"layer.0.k\":" TENSOR(
                                               "U8", "[0]", 4, 4) ",\"other\":" TENSOR("F32", "[1]", 4, 8) "}",
                                           two, 8));
    FAILS(clattn_safetensors_read(s, "Layer.1.q", &a), CLATTN_E_ARGUMENT, "near names: \"layer.0.q\"");
    FAILS(clattn_safetensors_read(s, "othr", &a), CLATTN_E_ARGUMENT, "near names: \"other\"");
    FAILS(clattn_safetensors_read(s, NULL, &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_safetensors_read(NULL, "x", &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_safetensors_read(s, "other", NULL), CLATTN_E_ARGUMENT, "NULL");
    clattn_safetensors_close(s);
}

Test(safetensors, notices_a_file_cut_after_opening) {
    clattn_array a;
    static const char header[] = "{\"a\":" TENSOR("F32", "[2]", 0, 8) "}";
    const char *path = file_of(header, two, 8);
    clattn_safetensors *s = opened(path);
    cr_assert_eq(truncate(path, (off_t)(8 + strlen(header) + 4)), 0);
    FAILS(clattn_safetensors_read(s, "a", &a), CLATTN_E_IO, "cut meanwhile");
    cr_assert_null(a.data);
    clattn_safetensors_close(s);
}

/* ---- what is refused ---- */

#define GOOD "\"a\":" TENSOR("F32", "[2]", 0, 8)

/* Each with 8 bytes of data, which GOOD fits. */
static const struct {
    const char *header, *part;
} refused[] = {
    {"{\"a\":" TENSOR("F32", "[4294967296,4294967296]", 0, 8) "}", "63 bits"},
    {"{\"a\":" TENSOR("F32", "[4294967296,4294967296]", 0, 1152921504606846976) "}", "16 digits"},
    {"{\"a\":" TENSOR("F32", "[4294967296,1073741824]", 0, 0) ",\"b\":" TENSOR("F32", "[2]", 0, 8) "}", "63 bits"},
    {"{\"a\":" TENSOR("F32", "[9007199254740992]", 0, 8) "}", "2^53"},
    {"{\"a\":" TENSOR("F32", "[9007199254740993]", 0, 8) "}", "2^53"},
    {"{\"a\":" TENSOR("F32", "[3]", 0, 12) "}", "bytes 0 to 12 of 8"},
    {"{\"a\":" TENSOR("F32", "[2]", 4, 12) "}", "bytes 4 to 12 of 8"},
    {"{\"a\":" TENSOR("F32", "[2]", 8, 0) "}", "bytes 8 to 0"},
    {"{\"a\":" TENSOR("F32", "[3]", 0, 8) "}", "has 8 bytes"},
    {"{\"a\":" TENSOR("F16", "[2]", 0, 8) "}", "has 8 bytes"},
    {"{\"a\":" TENSOR("F4", "[15]", 0, 8) "}", "60 bits"},
    {"{\"a\":" TENSOR("F99", "[2]", 0, 8) "}", "unknown dtype \"F99\""},
    {"{\"a\":" TENSOR("F99", "[2]", 0, 800) "}", "unknown dtype \"F99\""},
    {"{\"a\":" TENSOR("f32", "[2]", 0, 8) "}", "unknown dtype \"f32\""},
    {"{\"a\":" TENSOR("", "[2]", 0, 8) "}", "unknown dtype \"\""},
    {"{" GOOD "," GOOD "}", "two tensors are named \"a\""},
    {"{" GOOD ",\"b\":" TENSOR("F32", "[1]", 4, 8) "}", "overlap"},
    {"{" GOOD ",\"b\":" TENSOR("F32", "[0]", 4, 4) "}", "overlap"},
    {"{\"a\":" TENSOR("F32", "[1]", 0, 4) "}", "tensors end at byte 4"},
    {"{\"a\":" TENSOR("F32", "[1]", 4, 8) "}", "hole"},
    {"{}", "tensors end at byte 0"},
    {"{\"a\":" TENSOR("F32", "[1,1,1,1,1,1,1,2]", 0, 8) ",\"b\":" TENSOR("F32", "[1,1,1,1,1,1,1,1,0]", 8, 8) "}",
     "8 axes"},
    {"{\"a\":" TENSOR("F32", "[-2]", 0, 8) "}", "whole number"},
    {"{\"a\":" TENSOR("F32", "[2.0]", 0, 8) "}", "']'"},
    {"{\"a\":" TENSOR("F32", "[2e0]", 0, 8) "}", "']'"},
    {"{\"a\":" TENSOR("F32", "[02]", 0, 8) "}", "leading zeros"},
    {"{\"a\":" TENSOR("F32", "[2,]", 0, 8) "}", "whole number"},
    {"{\"a\":" TENSOR("F32", "[[2]]", 0, 8) "}", "whole number"},
    {"{\"a\":" TENSOR("F32", "[\"2\"]", 0, 8) "}", "whole number"},
    {"{\"a\":" TENSOR("F32", "2", 0, 8) "}", "list of numbers"},
    {"{\"a\":" TENSOR("F32", "null", 0, 8) "}", "list of numbers"},
    {"{\"a\":" TENSOR("F32", "\"2\"", 0, 8) "}", "shape is no list"},
    {"{\"a\":{\"dtype\":[32],\"shape\":[2],\"data_offsets\":[0,8]}}", "dtype is no string"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}", "1 data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4,8]}}", "3 data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", "no data_offsets"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", "no shape"},
    {"{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", "no dtype"},
    {"{\"a\":{}}", "no dtype"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"shape\":[2],\"data_offsets\":[0,8]}}", "twice the key \"shape\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":\"y\"}}", "unknown key \"x\""},
    {"{\"a\":{\"DTYPE\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", "unknown key \"DTYPE\""},
    {"{\"a\":[]}", "'{'"},
    {"{\"a\":null}", "'{'"},
    {"{" GOOD ",\"__metadata__\":{\"x\":{\"y\":1}}}", "string"},
    {"{" GOOD ",\"__metadata__\":{\"x\":1}}", "string"},
    {"{" GOOD ",\"__metadata__\":{\"x\":[1]}}", "\"x\" is no string"},
    {"{" GOOD ",\"__metadata__\":{\"x\":\"1\",\"x\":\"1\"}}", "two metadata are named \"x\""},
    {"{" GOOD ",\"__metadata__\":{},\"__metadata__\":{}}", "two __metadata__"},
    {"{" GOOD ",\"__metadata__\":\"x\"}", "'{'"},
    {"{" GOOD ",}", "a string"},
    {"{" GOOD "", "',' or '}'"},
    {"{" GOOD "}}", "nothing but spaces"},
    {"{" GOOD "}\f", "nothing but spaces"},
    {" {" GOOD "}", "'{'"},
    {"\xef\xbb\xbf{" GOOD "}", "'{'"},
    {"[]", "'{'"},
    {"", "'{'"},
    {"{a:1}", "a string"},
    {"{\"a\" {}}", "':'"},
    {"{\"a\nb\":{}}", "control character"},
    {"{\"a\\u0000b\":{}}", "\\u0000"},
    {"{\"a\\ud800\":{}}", "second half"},
    {"{\"a\\ud800\\u0041\":{}}", "second half"},
    {"{\"a\\udc00\":{}}", "half a pair"},
    {"{\"a\\u12g4\":{}}", "hexadecimal"},
    {"{\"a\\x\":{}}", "escape"},
    {"{\"a\xff\":{}}", "UTF-8"},
    {"{\"a\xc0\x80\":{}}", "UTF-8"},
    {"{\"a\xed\xa0\x80\":{}}", "UTF-8"},
    {"{\"a\xf4\x90\x80\x80\":{}}", "UTF-8"},
    {"{\"a\xe2\x82\":{}}", "UTF-8"},
    {"{\"a", "end of a string"},
    {"{\"a\\", "escape"},
};

Test(safetensors, refuses_headers_that_are_not_exactly_right) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        clattn_safetensors *s = (clattn_safetensors *)&i;
        FAILS(clattn_safetensors_open(file_of(refused[i].header, two, 8), &s), CLATTN_E_FORMAT, refused[i].part);
        cr_assert_null(s);
    }
}

Test(safetensors, refuses_header_lengths_that_do_not_fit_the_file) {
    clattn_safetensors *s;
    FAILS(clattn_safetensors_open(with_length(UINT64_C(0xfffffffffffffffb), 64), &s), CLATTN_E_FORMAT,
          "18446744073709551611");
    FAILS(clattn_safetensors_open(with_length(UINT64_C(1) << 63, 64), &s), CLATTN_E_FORMAT, "9223372036854775808");
    FAILS(clattn_safetensors_open(with_length(100000001, 64), &s), CLATTN_E_FORMAT, "100000000 are refused");
    FAILS(clattn_safetensors_open(with_length(100000000, 64), &s), CLATTN_E_FORMAT, "only 56 follow");
    FAILS(clattn_safetensors_open(with_length(64, 64), &s), CLATTN_E_FORMAT, "only 56 follow");
    FAILS(clattn_safetensors_open(with_length(57, 64), &s), CLATTN_E_FORMAT, "only 56 follow");
    FAILS(clattn_safetensors_open(with_length(0, 64), &s), CLATTN_E_FORMAT, "'{'");
    for (size_t n = 0; n < 8; n++)
        FAILS(clattn_safetensors_open(with_length(2, n), &s), CLATTN_E_FORMAT, "fewer than the 8");
    clattn_safetensors_close(opened(with_length(56, 64)));
}

Test(safetensors, refuses_deep_json_and_too_many_entries) {
    static char deep[100100];
    clattn_safetensors *s;
    memset(deep, '[', 100000);
    FAILS(clattn_safetensors_open(file_of(deep, NULL, 0), &s), CLATTN_E_FORMAT, "'{'");
    for (size_t i = 0; i < 100000; i++)
        deep[i] = "{\"\":"[i % 4];
    FAILS(clattn_safetensors_open(file_of(deep, NULL, 0), &s), CLATTN_E_FORMAT, "list of numbers");
    memcpy(deep, "{\"a\":{\"shape\":", 14);
    memset(deep + 14, '[', 100000 - 14);
    FAILS(clattn_safetensors_open(file_of(deep, NULL, 0), &s), CLATTN_E_FORMAT, "nothing nested");
    const size_t most = 1 << 20, bytes = 8 + 1 + (most + 1) * 6;
    unsigned char *all = malloc(bytes);
    cr_assert_not_null(all);
    for (size_t i = 0; i < 8; i++)
        all[i] = (unsigned char)((uint64_t)(bytes - 8) >> 8 * i);
    all[8] = '{';
    for (size_t i = 0; i <= most; i++)
        memcpy(all + 9 + i * 6, "\"\":{},", 6);
    FAILS(clattn_safetensors_open(temp_write("x.safetensors", all, bytes), &s), CLATTN_E_FORMAT, "1048576 entries");
    free(all);
}

Test(safetensors, refuses_a_file_cut_at_any_length_and_bytes_after_the_data) {
    char all[REFERENCE_BYTES + 4] = {0};
    clattn_safetensors *s;
    memcpy(all, reference, REFERENCE_BYTES);
    for (size_t n = 0; n < REFERENCE_BYTES; n++)
        FAILS(clattn_safetensors_open(temp_write("x.safetensors", all, n), &s), CLATTN_E_FORMAT, "x.safetensors");
    FAILS(clattn_safetensors_open(temp_write("x.safetensors", all, REFERENCE_BYTES + 4), &s), CLATTN_E_FORMAT,
          "end at byte 37 of the data, the file at 41");
}

Test(safetensors, names_the_file_that_is_missing) {
    clattn_safetensors *s;
    FAILS(clattn_safetensors_open(temp_path("none.safetensors"), &s), CLATTN_E_IO, "none.safetensors");
    FAILS(clattn_safetensors_open(temp_dir, &s), CLATTN_E_IO, "is a folder");
    FAILS(clattn_safetensors_open(NULL, &s), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_safetensors_open("x", NULL), CLATTN_E_ARGUMENT, "NULL");
    clattn_safetensors_close(NULL);
    cr_assert_eq(clattn_safetensors_count(NULL), 0);
    cr_assert_eq(clattn_safetensors_metadata_count(NULL), 0);
    cr_assert_null(clattn_safetensors_metadata(NULL, "k"));
    cr_assert(!clattn_safetensors_find(NULL, "x", NULL));
}

/* ---- what is written ---- */

Test(safetensors, writes_the_bytes_of_the_reference) {
    float b[] = {0, 1, 2};
    int64_t a[] = {1, 2};
    unsigned char u = 7;
    double x = 1.5;
    const clattn_named_array arrays[] = {
        {"b", {.rank = 1, .shape = {3}, .data = b, .bytes = sizeof b}},
        {"a", {.dtype = CLATTN_I64, .rank = 2, .shape = {1, 2}, .data = a, .bytes = sizeof a}},
        {"z\"\n\xc3\xa9", {.dtype = CLATTN_BOOL, .rank = 2, .shape = {0, 2}}},
        {"u", {.dtype = CLATTN_U8, .rank = 1, .shape = {1}, .data = &u, .bytes = 1}},
        {"s", {.dtype = CLATTN_F64, .data = &x, .bytes = 8}},
    };
    char all[REFERENCE_BYTES + 100];
    const char *path = temp_path("w.safetensors");
    SUCCEEDS(clattn_safetensors_write(path, arrays, 5, &(clattn_metadata_pair){"k", "v\t\""}, 1));
    cr_assert_eq(temp_read(path, all, sizeof all), REFERENCE_BYTES);
    cr_assert_arr_eq(all, reference, REFERENCE_BYTES);
    SUCCEEDS(clattn_safetensors_write(path, NULL, 0, NULL, 0));
    cr_assert_eq(temp_read(path, all, sizeof all), 16);
    cr_assert_arr_eq(all, "\x08\0\0\0\0\0\0\0{}      ", 16);
    cr_assert_eq(temp_dir_count(), 1);
}

Test(safetensors, reads_back_every_type_name_and_metadata) {
    static const clattn_dtype order[] = {CLATTN_I64,  CLATTN_F64, CLATTN_F32, CLATTN_I32,
                                         CLATTN_BF16, CLATTN_F16, CLATTN_U8,  CLATTN_BOOL};
    static const char *const names[] = {"f32", "\x01\x1f\x7f/:\\ \"", "f16", "\xe2\x82\xac", "i32", "", "u8", "bool"};
    static unsigned char data[24] = {1, 0, 2, 0, 3, 0, 4, 0, 5};
    static const clattn_metadata_pair pairs[] = {{"zwei", "\b\f\n\r\t\"\\"}, {"", ""}, {"json", "{\"a\":[1,2]}"}};
    clattn_named_array arrays[8];
    for (int i = 0; i < 8; i++)
        arrays[i] =
            (clattn_named_array){names[i], {(clattn_dtype)i, 2, {3, 1}, data, 3 * clattn_dtype_size((clattn_dtype)i)}};
    SUCCEEDS(clattn_safetensors_write(temp_path("w.safetensors"), arrays, 8, pairs, 3));
    clattn_safetensors *s = opened(temp_path("w.safetensors"));
    cr_assert_eq(clattn_safetensors_count(s), 8);
    for (size_t i = 0; i < 8; i++) {
        clattn_safetensors_entry e;
        clattn_array a;
        cr_assert(clattn_safetensors_entry_at(s, i, &e) && e.readable);
        cr_assert_eq(e.dtype, order[i]);
        cr_assert_str_eq(e.name, names[order[i]]);
        SUCCEEDS(clattn_safetensors_read(s, e.name, &a));
        cr_assert(a.dtype == order[i] && a.rank == 2 && a.shape[0] == 3 && a.shape[1] == 1);
        cr_assert_arr_eq(a.data, data, a.bytes);
        clattn_array_free(&a);
    }
    for (size_t i = 0; i < 3; i++) {
        cr_assert_str_eq(clattn_safetensors_metadata_key(s, i), pairs[i].key);
        cr_assert_str_eq(clattn_safetensors_metadata(s, pairs[i].key), pairs[i].value);
    }
    clattn_safetensors_close(s);
}

Test(safetensors, refuses_to_write_what_it_could_not_read) {
    float x = 1;
    const clattn_array one = {.rank = 1, .shape = {1}, .data = &x, .bytes = 4};
    const clattn_named_array twice[] = {{"a", one}, {"a", one}}, none = {NULL, one}, latin = {"\xe9", one},
                             reserved = {"__metadata__", one}, torn = {"a", {.rank = 1, .shape = {2}, .data = &x}};
    const clattn_metadata_pair key_twice[] = {{"k", "1"}, {"k", "2"}}, no_value = {"k", NULL}, bad = {"k", "\xff"};
    const char *path = temp_path("w.safetensors");
    FAILS(clattn_safetensors_write(path, twice, 2, NULL, 0), CLATTN_E_ARGUMENT, "two tensors are named \"a\"");
    FAILS(clattn_safetensors_write(path, &none, 1, NULL, 0), CLATTN_E_ARGUMENT, "name of tensor 0 is NULL");
    FAILS(clattn_safetensors_write(path, &latin, 1, NULL, 0), CLATTN_E_ARGUMENT, "UTF-8");
    FAILS(clattn_safetensors_write(path, &reserved, 1, NULL, 0), CLATTN_E_ARGUMENT, "__metadata__");
    FAILS(clattn_safetensors_write(path, &torn, 1, NULL, 0), CLATTN_E_ARGUMENT, "0 bytes");
    FAILS(clattn_safetensors_write(path, NULL, 1, NULL, 0), CLATTN_E_ARGUMENT, "arrays are NULL");
    FAILS(clattn_safetensors_write(path, NULL, 0, key_twice, 2), CLATTN_E_ARGUMENT, "two metadata");
    FAILS(clattn_safetensors_write(path, NULL, 0, &no_value, 1), CLATTN_E_ARGUMENT, "value of metadata 0");
    FAILS(clattn_safetensors_write(path, NULL, 0, &bad, 1), CLATTN_E_ARGUMENT, "UTF-8");
    FAILS(clattn_safetensors_write(path, NULL, 0, NULL, 1), CLATTN_E_ARGUMENT, "metadata are NULL");
    FAILS(clattn_safetensors_write(NULL, twice, 1, NULL, 0), CLATTN_E_ARGUMENT, "NULL");
    cr_assert_eq(temp_dir_count(), 0);
}

/* ---- damage ---- */

Test(safetensors, survives_5000_damaged_files) {
    static unsigned char bad[1000];
    unsigned state = 19980914;
    for (int i = 0; i < 5000; i++) {
        memcpy(bad, reference, REFERENCE_BYTES);
        const size_t n = temp_mutate(bad, REFERENCE_BYTES, sizeof bad, &state);
        clattn_safetensors *s;
        clattn_safetensors_entry e;
        const clattn_status status = clattn_safetensors_open(temp_write("x.safetensors", bad, n), &s);
        cr_assert(status == CLATTN_OK || status == CLATTN_E_FORMAT, "%s", clattn_last_error());
        cr_assert_eq(status == CLATTN_OK, s != NULL);
        for (size_t t = 0; clattn_safetensors_entry_at(s, t, &e); t++) {
            clattn_array a;
            cr_assert_eq(clattn_safetensors_read(s, e.name, &a), e.readable ? CLATTN_OK : CLATTN_E_DTYPE);
            cr_assert_eq(a.bytes, e.readable ? e.bytes : 0);
            clattn_array_free(&a);
        }
        clattn_safetensors_close(s);
    }
}

/* ---- other formats ---- */

Test(safetensors, says_what_another_file_begins_like) {
    static const struct {
        const char *begin, *text;
    } files[] = {{"\x93NUMPY\x01", "x.st: is no safetensors file (it begins like npy)"},
                 {"PK\x03\x04\x14", "(it begins like zip, as npz and PyTorch's files do)"},
                 {"GGUF\x03", "(it begins like GGUF)"},
                 {"\x89HDF\r\n", "(it begins like HDF5)"},
                 {"a few words", "(it begins like text)"},
                 {"\xff\xff\xff\xff\xff\xff\xff", "claims a header of"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char bytes[40] = {0};
        clattn_safetensors *s;
        memcpy(bytes, files[i].begin, strlen(files[i].begin));
        bytes[7] = 'x';
        FAILS(clattn_safetensors_open(temp_write("x.st", bytes, sizeof bytes), &s), CLATTN_E_FORMAT, files[i].text);
    }
    clattn_array a;
    clattn_gguf *g;
    FAILS(clattn_npy_read(with_length(2, 64), &a), CLATTN_E_FORMAT, "(it begins like safetensors)");
    FAILS(clattn_gguf_open(with_length(2, 64), &g), CLATTN_E_FORMAT, "letters (it begins like safetensors)");
    FAILS(clattn_npy_read(temp_write("x.npy", "\xff\xff\xff\xff\xff\xff", 6), &a), CLATTN_E_FORMAT, "(0x93 NUMPY)");
}
