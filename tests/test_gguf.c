/* SPDX-License-Identifier: Apache-2.0 */
/* GGUF files: what is read, what is refused and why. */
#include "gguf_files.h"

TestSuite(gguf, .init = temp_dir_make, .fini = temp_dir_remove);

/* ---- what is read ---- */

Test(gguf, reads_tensors_rows_first) {
    clattn_gguf_entry e;
    clattn_array a;
    size_t index;
    for (uint32_t version = 2; version <= 3; version++) {
        make_sample(version);
        clattn_gguf *g = opened();
        cr_assert_eq(clattn_gguf_count(g), 3);
        cr_assert(clattn_gguf_entry_at(g, 0, &e));
        cr_assert_str_eq(e.name, "m");
        cr_assert(e.readable && e.dtype == CLATTN_F32 && e.rank == 2 && e.shape[0] == 2 && e.shape[1] == 3);
        cr_assert(clattn_gguf_find(g, "blk.0.w", &index) && index == 1);
        cr_assert(!clattn_gguf_find(g, "blk", NULL));
        cr_assert(!clattn_gguf_entry_at(g, 3, &e));
        SUCCEEDS(clattn_gguf_read(g, "m", &a));
        cr_assert(a.rank == 2 && a.shape[0] == 2 && a.bytes == 24 && ((float *)a.data)[5] == 5.0f);
        clattn_array_free(&a);
        clattn_gguf_close(g);
    }
}

Test(gguf, reads_blocks_as_they_are_stored) {
    clattn_array a, plain;
    make_sample(3);
    clattn_gguf *g = opened();
    SUCCEEDS(clattn_gguf_read(g, "blk.0.w", &a));
    cr_assert(a.dtype == CLATTN_Q4_0 && a.shape[0] == 2 && a.shape[1] == 32 && a.bytes == 36);
    SUCCEEDS(clattn_array_convert(&a, CLATTN_F32, &plain));
    cr_assert_eq(((float *)plain.data)[0], -7.0f);  /* the low nibble of 0x21, less 8 */
    cr_assert_eq(((float *)plain.data)[16], -6.0f); /* the high one */
    cr_assert_eq(((float *)plain.data)[1], -8.0f);
    clattn_array_free(&a);
    clattn_array_free(&plain);
    clattn_gguf_close(g);
}

Test(gguf, reads_every_type_that_clattn_has) {
    static const struct {
        uint32_t number;
        clattn_dtype dtype;
    } types[] = {{0, CLATTN_F32},  {1, CLATTN_F16},  {2, CLATTN_Q4_0}, {3, CLATTN_Q4_1}, {8, CLATTN_Q8_0},
                 {26, CLATTN_I32}, {27, CLATTN_I64}, {28, CLATTN_F64}, {30, CLATTN_BF16}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        const size_t n = clattn_dtype_bytes(types[i].dtype, 32);
        clattn_array a;
        start(3, 1, 0);
        tensor("t", types[i].number, 1, (const uint64_t[]){32}, 0);
        pad(32);
        for (size_t b = 0; b < n; b++)
            put(&(unsigned char){(unsigned char)b}, 1);
        clattn_gguf *g = opened();
        SUCCEEDS(clattn_gguf_read(g, "t", &a));
        cr_expect(a.dtype == types[i].dtype && a.bytes == n, "%u", types[i].number);
        cr_expect_arr_eq(a.data, bytes + length - n, n);
        clattn_array_free(&a);
        clattn_gguf_close(g);
    }
}

Test(gguf, lists_types_that_it_cannot_read) {
    clattn_gguf_entry e;
    clattn_array a;
    make_sample(3);
    clattn_gguf *g = opened();
    cr_assert(clattn_gguf_entry_at(g, 2, &e) && !e.readable && e.bytes == 210);
    cr_assert_str_eq(e.dtype_text, "Q6_K");
    FAILS(clattn_gguf_read(g, "k", &a), CLATTN_E_DTYPE, "\"k\" is of Q6_K");
    cr_assert_null(a.data);
    clattn_gguf_close(g);
}

Test(gguf, reads_metadata_of_every_type) {
    static const struct {
        const char *key;
        int64_t value;
    } whole[] = {{"u8", 255},         {"i8", -1},  {"u16", 65535}, {"i16", -2},
                 {"u32", 4000000000}, {"i32", -3}, {"i64", -1},    {"bool", 1}};
    const char *text;
    double number;
    int64_t n;
    clattn_gguf_value v;
    make_sample(3);
    clattn_gguf *g = opened();
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        SUCCEEDS(clattn_gguf_integer(g, whole[i].key, &n));
        cr_assert_eq(n, whole[i].value, "%s", whole[i].key);
        SUCCEEDS(clattn_gguf_number(g, whole[i].key, &number));
        cr_assert_eq(number, (double)whole[i].value);
    }
    SUCCEEDS(clattn_gguf_number(g, "f32", &number));
    cr_assert_eq(number, 0.25);
    SUCCEEDS(clattn_gguf_number(g, "f64", &number));
    cr_assert_eq(number, -0.5);
    SUCCEEDS(clattn_gguf_text(g, "text", &text));
    cr_assert_str_eq(text, "d\xc3\xa9");
    cr_assert_eq(clattn_gguf_metadata_count(g), 17);
    cr_assert(clattn_gguf_metadata_at(g, 12, &v) && v.is_array && v.count == 3 && v.type == CLATTN_GGUF_STRING);
    cr_assert_str_eq(v.key, "texts");
    cr_assert(!clattn_gguf_metadata_at(g, 17, &v));
    cr_assert(!clattn_gguf_metadata_find(g, "texts ", NULL));
    cr_assert_str_eq(clattn_gguf_type_name(CLATTN_GGUF_I64), "i64");
    cr_assert_str_eq(clattn_gguf_type_name((clattn_gguf_type)13), "?");
    clattn_gguf_close(g);
}

Test(gguf, reads_arrays_of_metadata) {
    const clattn_gguf_string *s;
    size_t count;
    clattn_array a;
    make_sample(3);
    clattn_gguf *g = opened();
    SUCCEEDS(clattn_gguf_strings(g, "texts", &s, &count));
    cr_assert(count == 3 && s[0].length == 1 && s[1].length == 0 && s[2].length == 3);
    cr_assert_str_eq(s[0].text, "a");
    cr_assert_str_eq(s[1].text, "");
    cr_assert_arr_eq(s[2].text, "b\0c", 4);
    SUCCEEDS(clattn_gguf_numbers(g, "numbers", &a));
    cr_assert(a.dtype == CLATTN_I64 && a.shape[0] == 2 && ((int64_t *)a.data)[0] == 1 && ((int64_t *)a.data)[1] == -1);
    clattn_array_free(&a);
    SUCCEEDS(clattn_gguf_numbers(g, "reals", &a));
    cr_assert(a.dtype == CLATTN_F64 && ((double *)a.data)[0] == 0.25);
    clattn_array_free(&a);
    SUCCEEDS(clattn_gguf_numbers(g, "none", &a));
    cr_assert(a.shape[0] == 0 && a.data);
    clattn_array_free(&a);
    clattn_gguf_close(g);
}

Test(gguf, says_what_a_value_is_when_another_is_wanted) {
    int64_t n = 5;
    double x = 5;
    const char *text = "";
    const clattn_gguf_string *s;
    size_t count;
    clattn_array a;
    make_sample(3);
    clattn_gguf *g = opened();
    FAILS(clattn_gguf_integer(g, "f32", &n), CLATTN_E_DTYPE, "\"f32\" is a f32, not a whole number");
    cr_assert_eq(n, 0);
    FAILS(clattn_gguf_integer(g, "numbers", &n), CLATTN_E_DTYPE, "is an array of i16");
    FAILS(clattn_gguf_integer(g, "u64", &n), CLATTN_E_LIMIT, "9223372036854775808");
    FAILS(clattn_gguf_integer(g, "u31", &n), CLATTN_E_ARGUMENT, "near names: \"u3");
    FAILS(clattn_gguf_number(g, "text", &x), CLATTN_E_DTYPE, "is a string, not a number");
    cr_assert_eq(x, 0);
    FAILS(clattn_gguf_text(g, "zero", &text), CLATTN_E_FORMAT, "byte 0");
    cr_assert_null(text);
    FAILS(clattn_gguf_text(g, "texts", &text), CLATTN_E_DTYPE, "an array of string");
    FAILS(clattn_gguf_strings(g, "text", &s, &count), CLATTN_E_DTYPE, "not an array of texts");
    FAILS(clattn_gguf_strings(g, "numbers", &s, &count), CLATTN_E_DTYPE, "an array of i16");
    FAILS(clattn_gguf_numbers(g, "texts", &a), CLATTN_E_DTYPE, "not an array of numbers");
    FAILS(clattn_gguf_read(g, "n", &a), CLATTN_E_ARGUMENT, "no tensor \"n\" among its 3; near names: ");
    FAILS(clattn_gguf_read(g, NULL, &a), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_read(g, "m", NULL), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_integer(NULL, "u8", &n), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_number(g, "u8", NULL), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_text(g, NULL, &text), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_strings(g, "texts", NULL, &count), CLATTN_E_ARGUMENT, "NULL");
    clattn_gguf_close(g);
}

Test(gguf, opens_a_file_of_nothing) {
    clattn_array a;
    int64_t n;
    start(3, 0, 0);
    clattn_gguf *g = opened();
    cr_assert_eq(clattn_gguf_count(g) + clattn_gguf_metadata_count(g), 0);
    FAILS(clattn_gguf_read(g, "x", &a), CLATTN_E_ARGUMENT, "no tensor at all");
    FAILS(clattn_gguf_integer(g, "x", &n), CLATTN_E_ARGUMENT, "no metadata at all");
    clattn_gguf_close(g);
}

Test(gguf, reads_scalars_empty_tensors_and_another_alignment) {
    clattn_array a;
    static const float x = 1.5f;
    start(3, 3, 1);
    key("general.alignment", CLATTN_GGUF_U32), put32(8);
    tensor("scalar", 0, 0, NULL, 0);
    tensor("empty", 0, 2, (const uint64_t[]){0, UINT64_C(1) << 62}, 8);
    tensor("after", 1, 1, (const uint64_t[]){1}, 8);
    pad(8);
    put(&x, 4), pad(8), put("\0\x3c", 2);
    clattn_gguf *g = opened();
    SUCCEEDS(clattn_gguf_read(g, "scalar", &a));
    cr_assert(a.rank == 0 && *(float *)a.data == 1.5f);
    clattn_array_free(&a);
    SUCCEEDS(clattn_gguf_read(g, "empty", &a));
    cr_assert(a.bytes == 0 && a.shape[1] == 0);
    clattn_array_free(&a);
    SUCCEEDS(clattn_gguf_read(g, "after", &a));
    cr_assert(a.dtype == CLATTN_F16 && *(uint16_t *)a.data == 0x3c00);
    clattn_array_free(&a);
    clattn_gguf_close(g);
}

Test(gguf, notices_a_file_cut_after_opening) {
    clattn_array a;
    make_sample(3);
    clattn_gguf *g = opened();
    cr_assert_eq(truncate(temp_path("x.gguf"), (off_t)(length - 300)), 0);
    FAILS(clattn_gguf_read(g, "blk.0.w", &a), CLATTN_E_IO, "cut meanwhile");
    cr_assert_null(a.data);
    clattn_gguf_close(g);
}

/* ---- what is refused ---- */

#define REFUSES(part)                                                                                                  \
    do {                                                                                                               \
        clattn_gguf *g_ = (clattn_gguf *)bytes;                                                                        \
        FAILS(clattn_gguf_open(written(), &g_), CLATTN_E_FORMAT, (part));                                              \
        cr_assert_null(g_);                                                                                            \
    } while (0)

Test(gguf, refuses_other_files_and_versions) {
    start(3, 0, 0), bytes[0] = 'g';
    REFUSES("is no GGUF file");
    start(1, 0, 0);
    REFUSES("version 1");
    start(4, 0, 0);
    REFUSES("version 4");
    start(0, 0, 0);
    REFUSES("version 0");
    start(0x03000000, 0, 0);
    REFUSES("big-endian");
}

Test(gguf, refuses_counts_that_the_file_cannot_hold) {
    static const uint64_t huge[] = {UINT64_MAX, INT64_MAX, UINT64_C(1) << 60, 1000};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        start(3, huge[i], 0), put64(0);
        REFUSES("tensors; a file of 32 bytes holds fewer");
        start(3, 0, huge[i]), put64(0);
        REFUSES("metadata; a file of 32 bytes holds fewer");
        start(3, 0, 1), put64(huge[i]), put("12345", 5);
        REFUSES("bytes at byte 32, but only");
        start(3, 0, 1), key("s", CLATTN_GGUF_STRING), put64(huge[i]);
        REFUSES("\"s\" claims");
        start(3, 0, 1), array_key("a", CLATTN_GGUF_F64, huge[i]);
        REFUSES("elements of 8 bytes or more, but only 0");
        start(3, 0, 1), array_key("a", CLATTN_GGUF_STRING, huge[i]), put("1234567", 7);
        REFUSES("elements of 8 bytes or more, but only 7");
        start(3, 1, 0), put64(huge[i]), put("1234567890123456", 16);
        REFUSES("tensor 0 claims");
    }
    static unsigned char many[24 + 1200000 * 24];
    length = 0;
    memcpy(many, "GGUF\3\0\0\0\x80\x4f\x12", 11); /* 1200000 */
    clattn_gguf *g;
    FAILS(clattn_gguf_open(temp_write("x.gguf", many, sizeof many), &g), CLATTN_E_FORMAT, "at most 1048576");
}

Test(gguf, refuses_metadata_that_is_not_exactly_right) {
    start(3, 0, 1), key("a", (clattn_gguf_type)13), put64(0);
    REFUSES("metadata \"a\" has the unknown type 13");
    start(3, 0, 1), key("a", (clattn_gguf_type)UINT32_MAX), put64(0);
    REFUSES("unknown type 4294967295");
    start(3, 0, 1), array_key("a", (clattn_gguf_type)77, 0);
    REFUSES("unknown type 77");
    start(3, 0, 1), array_key("a", (clattn_gguf_type)9, 1), put64(0), put64(0);
    REFUSES("an array of arrays");
    start(3, 0, 1), key("a", CLATTN_GGUF_BOOL), put("\2", 1);
    REFUSES("bool of 2");
    start(3, 0, 1), key("a\xff", CLATTN_GGUF_U8), put("\2", 1);
    REFUSES("metadata 0 is no UTF-8");
    start(3, 0, 1), put64(2), put("a\0\0\0\0\0\0", 7);
    REFUSES("without bytes 0");
    start(3, 0, 2), key("a", CLATTN_GGUF_U8), put("\2", 1), key("a", CLATTN_GGUF_I8), put("\2", 1);
    REFUSES("two metadata are named \"a\"");
    static const uint32_t alignments[] = {0, 1, 4, 12, 48, 0x80000001};
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments; i++) {
        start(3, 0, 1), key("general.alignment", CLATTN_GGUF_U32), put32(alignments[i]);
        REFUSES("no power of two");
    }
    start(3, 0, 1), key("general.alignment", CLATTN_GGUF_U64), put64(32);
    REFUSES("is no u32");
}

/* One tensor of two numbers, as it should be but for one thing. */
static void one_tensor(const char *name, uint32_t type, uint32_t axes, const uint64_t *shape, uint64_t offset,
                       size_t data) {
    start(3, 1, 0);
    tensor(name, type, axes, shape, offset);
    pad(32);
    for (size_t i = 0; i < data; i++)
        put("\1", 1);
}

Test(gguf, refuses_tensors_that_are_not_exactly_right) {
    static const uint64_t two[] = {2, 1, 1, 1, 1};
    one_tensor("a", 0, 1, two, 0, 8);
    clattn_gguf_close(opened());
    one_tensor("a", 0, 1, two, 0, 32); /* with the last padding */
    clattn_gguf_close(opened());
    one_tensor("a", 0, 1, two, 0, 33);
    REFUSES("end at byte 8 of the data, the file at 33");
    one_tensor("a", 0, 1, two, 0, 7);
    REFUSES("has 8 bytes from byte 0 of the data on, of which there are 7");
    one_tensor("a", 0, 1, two, 32, 40);
    REFUSES("hole");
    one_tensor("a", 0, 1, two, 16, 40);
    REFUSES("no multiple of the alignment, 32");
    one_tensor("a", 0, 1, two, UINT64_MAX - 31, 40);
    REFUSES("begins at byte 18446744073709551584");
    one_tensor("a", 0, 5, two, 0, 8);
    REFUSES("5 axes");
    start(3, 1, 0), put_string("a"), put32(UINT32_MAX), put64(0), put64(0);
    REFUSES("4294967295 axes");
}

Test(gguf, refuses_shapes_and_types_that_cannot_be) {
    static const uint64_t two[] = {2}, large[] = {UINT64_C(1) << 62, 4}, minus[] = {UINT64_MAX},
                          wide[] = {UINT64_C(1) << 61, 1}, odd[] = {33}, block[] = {32};
    one_tensor("a", 0, 2, large, 0, 8);
    REFUSES("63 bits");
    one_tensor("a", 28, 2, wide, 0, 8);
    REFUSES("63 bits");
    one_tensor("a", 0, 1, minus, 0, 8);
    REFUSES("an axis of 18446744073709551615");
    one_tensor("a", 4, 1, block, 0, 8); /* withdrawn */
    REFUSES("unknown type 4");
    one_tensor("a", 1000, 1, block, 0, 8);
    REFUSES("unknown type 1000");
    one_tensor("a", 8, 1, odd, 0, 68);
    REFUSES("rows of 33, which are not made of blocks of 32");
    one_tensor("a", 8, 0, NULL, 0, 34);
    REFUSES("rows of 1,");
    one_tensor("\xed\xa0\x80", 0, 1, two, 0, 8);
    REFUSES("tensor 0 is no UTF-8");
    start(3, 2, 0);
    tensor("a", 0, 1, two, 0), tensor("a", 0, 1, two, 32), pad(32), put64(1), pad(32), put64(1);
    REFUSES("two tensors are named \"a\"");
    start(3, 2, 0);
    tensor("a", 0, 1, two, 0), tensor("b", 0, 1, two, 0), pad(32), put64(1);
    REFUSES("overlap");
}

Test(gguf, takes_tensors_in_any_order_of_their_data) {
    static const uint64_t two[] = {2};
    clattn_array a;
    start(3, 2, 0);
    tensor("a", 0, 1, two, 32), tensor("b", 0, 1, two, 0), pad(32), put64(1), pad(32), put64(2);
    clattn_gguf *g = opened();
    SUCCEEDS(clattn_gguf_read(g, "a", &a));
    cr_assert_eq(*(uint64_t *)a.data, 2);
    clattn_array_free(&a);
    clattn_gguf_close(g);
}

Test(gguf, names_the_file_that_is_missing) {
    clattn_gguf *g;
    clattn_gguf_value v;
    FAILS(clattn_gguf_open(temp_path("none.gguf"), &g), CLATTN_E_IO, "none.gguf");
    FAILS(clattn_gguf_open(temp_dir, &g), CLATTN_E_IO, "is a folder");
    FAILS(clattn_gguf_open(NULL, &g), CLATTN_E_ARGUMENT, "NULL");
    FAILS(clattn_gguf_open("x", NULL), CLATTN_E_ARGUMENT, "NULL");
    clattn_gguf_close(NULL);
    cr_assert_eq(clattn_gguf_count(NULL) + clattn_gguf_metadata_count(NULL), 0);
    cr_assert(!clattn_gguf_find(NULL, "x", NULL) && !clattn_gguf_metadata_find(NULL, "x", NULL));
    cr_assert(!clattn_gguf_metadata_at(NULL, 0, &v));
}
