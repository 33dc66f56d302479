/* SPDX-License-Identifier: Apache-2.0 */
/* What readers and writers of files refuse, beside the tests of each format: a line a case. */
#include "gguf_files.h"
#include "io/json_scan.h"
#include "io/names.h"
#include "runtime/disk_cache.h"
#include "runtime/tuning_file.h"
#include <clattn/io.h>

Test(errors_files, null_where_gguf_needs_something, .init = temp_dir_make, .fini = temp_dir_remove) {
    clattn_array a;
    clattn_gguf_entry entry;
    clattn_gguf_value value;
    const clattn_gguf_string *texts;
    int64_t whole;
    size_t count;
    make_sample(3);
    clattn_gguf *g = opened();
    FAILS(clattn_gguf_open(written(), NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    cr_expect_not(clattn_gguf_entry_at(g, 99, &entry) || clattn_gguf_entry_at(g, 0, NULL) ||
                  clattn_gguf_entry_at(NULL, 0, &entry));
    cr_expect_not(clattn_gguf_find(NULL, "m", NULL) || clattn_gguf_find(g, NULL, NULL) ||
                  clattn_gguf_find(g, "none", NULL));
    cr_expect(clattn_gguf_find(g, "m", NULL));
    cr_expect_not(clattn_gguf_metadata_at(g, 99, &value) || clattn_gguf_metadata_at(g, 0, NULL));
    cr_expect_not(clattn_gguf_metadata_find(NULL, "u8", NULL) || clattn_gguf_metadata_find(g, NULL, NULL));
    cr_expect(clattn_gguf_metadata_find(g, "u8", NULL));
    FAILS(clattn_gguf_read(g, NULL, &a), CLATTN_E_ARGUMENT, "gguf: the name is NULL");
    FAILS(clattn_gguf_read(NULL, "m", &a), CLATTN_E_ARGUMENT, "gguf: the file is NULL");
    FAILS(clattn_gguf_read(g, "m", NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_integer(NULL, "u8", &whole), CLATTN_E_ARGUMENT, "gguf: the file is NULL");
    FAILS(clattn_gguf_integer(g, NULL, &whole), CLATTN_E_ARGUMENT, "gguf: the key is NULL");
    FAILS(clattn_gguf_integer(g, "u8", NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_number(g, "u8", NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_text(g, "text", NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_strings(g, "texts", NULL, &count), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_strings(g, "texts", &texts, NULL), CLATTN_E_ARGUMENT, "gguf: the count is NULL");
    FAILS(clattn_gguf_numbers(g, "numbers", NULL), CLATTN_E_ARGUMENT, "gguf: the result is NULL");
    FAILS(clattn_gguf_numbers(g, "texts", &a), CLATTN_E_DTYPE,
          "\"texts\" is an array of string, not an array of numbers");
    clattn_gguf_close(g);
}

Test(errors_files, metadata_of_gguf, .init = temp_dir_make, .fini = temp_dir_remove) {
    char long_key[101] = "";
    clattn_array a;
    clattn_gguf *g;
    int64_t whole;
    memset(long_key, 'k', 100);
    start(3, 0, 3);
    array_key("large", CLATTN_GGUF_U64, 2), put64(1), put64(UINT64_C(1) << 63);
    key("general.alignmenx", CLATTN_GGUF_U8), put("\7", 1); /* as long as the key that matters */
    key(long_key, CLATTN_GGUF_U8), put("\5", 1);
    g = opened();
    FAILS(clattn_gguf_numbers(g, "large", &a), CLATTN_E_LIMIT, "\"large\" is 9223372036854775808");
    cr_expect_null(a.data);
    SUCCEEDS(clattn_gguf_integer(g, long_key, &whole));
    cr_expect_eq(whole, 5);
    clattn_gguf_close(g);
    start(3, 0, 1);
    array_key("general.alignment", CLATTN_GGUF_U32, 1), put32(32);
    FAILS(clattn_gguf_open(written(), &g), CLATTN_E_FORMAT, "general.alignment is no u32");
    start(3, 0, 1);
    key("general.alignment", CLATTN_GGUF_U64), put64(32);
    FAILS(clattn_gguf_open(written(), &g), CLATTN_E_FORMAT, "general.alignment is no u32");
    start(3, 0, 1);
    array_key("numbers", CLATTN_GGUF_F64, 3), put64(0);
    FAILS(clattn_gguf_open(written(), &g), CLATTN_E_FORMAT, "claims ");
    start(3, 0, (1 << 20) + 1);
    cr_assert_eq(truncate(written(), 1 << 24), 0); /* no more than its size in zeros that lie nowhere */
    FAILS(clattn_gguf_open(temp_path("x.gguf"), &g), CLATTN_E_FORMAT, "claims 1048577 metadata");
    start(3, 0, 1);
    array_key("bytes", CLATTN_GGUF_U8, 270000000);
    cr_assert_eq(truncate(written(), 300000000), 0);
    FAILS(clattn_gguf_open(temp_path("x.gguf"), &g), CLATTN_E_FORMAT, "");
    cr_expect_null(g);
}

Test(errors_files, texts_that_are_no_header_of_safetensors) {
    static const struct {
        const char *text, *part; /* NULL: it is taken */
    } table[] = {{"{\"a\":{\"b\":\"\\ud83d\\ude00\"}}", NULL},
                 {"{\"a\":{\"b\":[1,2]},\"c\":{}}", NULL},
                 {"{\"a\":{\"b\":\"\\ud83d\\uzz00\"}}", "four hexadecimal digits"},
                 {"{\"a\":{\"b\":\"\\ud83d\\u0041\"}}", "the second half of a \\u pair"},
                 {"{\"a\":{\"b\":\"\\ud83d\\ue000\"}}", "the second half of a \\u pair"},
                 {"{\"a\":{\"b\":[1 2]}}", "',' or ']'"},
                 {"{\"a\":{\"b\":[1,2}}", "',' or ']'"},
                 {"{\"a\":{\"b\":[1]]}", "',' or '}'"},
                 {"{\"a\":{\"b\":[1]\"c\"", "',' or '}'"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].part)
            FAILS(cla_json_scan("x", table[i].text, strlen(table[i].text)), CLATTN_E_FORMAT, table[i].part);
        else
            SUCCEEDS(cla_json_scan("x", table[i].text, strlen(table[i].text)));
}

static clattn_status open_with(const char *header, size_t data_bytes) {
    static char data[256];
    const uint64_t n = strlen(header);
    clattn_safetensors *s = NULL;
    memset(data, 0, sizeof data);
    memcpy(data, &n, 8);
    memcpy(data + 8, header, n);
    const clattn_status status = clattn_safetensors_open(temp_write("x.safetensors", data, 8 + n + data_bytes), &s);
    clattn_safetensors_close(s);
    return status;
}

#define TENSOR(name, offsets) "\"" name "\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" offsets "}"

Test(errors_files, offsets_of_safetensors, .init = temp_dir_make, .fini = temp_dir_remove) {
    SUCCEEDS(open_with("{" TENSOR("a", "[0,2]") "," TENSOR("b", "[2,4]") "," TENSOR("c", "[4,6]") "}", 6));
    SUCCEEDS(open_with("{" TENSOR("a", "[4,6]") "," TENSOR("b", "[2,4]") "," TENSOR("c", "[0,2]") "}", 6));
    FAILS(open_with("{" TENSOR("a", "\"0,2\"") "}", 2), CLATTN_E_FORMAT, "data_offsets");
    FAILS(open_with("{" TENSOR("a", "[0]") "}", 2), CLATTN_E_FORMAT, "data_offsets");
    FAILS(open_with("{" TENSOR("a", "[0,2]") "," TENSOR("b", "[0,2]") "}", 2), CLATTN_E_FORMAT, "\"");
}

Test(errors_files, what_safetensors_cannot_write, .init = temp_dir_make, .fini = temp_dir_remove) {
    static float numbers[2];
    static unsigned char blocks[34];
    const clattn_named_array good = {"a", {.dtype = CLATTN_F32, .rank = 1, .shape = {2}, .data = numbers, .bytes = 8}};
    const clattn_named_array block = {"a",
                                      {.dtype = CLATTN_Q8_0, .rank = 1, .shape = {32}, .data = blocks, .bytes = 34}};
    clattn_metadata_pair pair = {"key", "value"};
    clattn_safetensors *s;
    clattn_safetensors_entry entry;
    const char *path = temp_path("x.safetensors");
    FAILS(clattn_safetensors_write(NULL, &good, 1, NULL, 0), CLATTN_E_ARGUMENT, "safetensors: the path is NULL");
    FAILS(clattn_safetensors_write("", &good, 1, NULL, 0), CLATTN_E_ARGUMENT, "write: the path is empty");
    FAILS(clattn_safetensors_write(path, NULL, 1, NULL, 0), CLATTN_E_ARGUMENT, "the arrays are NULL");
    FAILS(clattn_safetensors_write(path, NULL, 1, NULL, 1), CLATTN_E_ARGUMENT, "the arrays are NULL");
    FAILS(clattn_safetensors_write(path, &good, 1, NULL, 1), CLATTN_E_ARGUMENT, "the metadata are NULL");
    FAILS(clattn_safetensors_write(path, &block, 1, NULL, 0), CLATTN_E_DTYPE,
          "safetensors has no q8_0; convert a to f16");
    pair.key = NULL;
    FAILS(clattn_safetensors_write(path, &good, 1, &pair, 1), CLATTN_E_ARGUMENT, "the key of metadata 0 is NULL");
    pair = (clattn_metadata_pair){"key", NULL};
    FAILS(clattn_safetensors_write(path, &good, 1, &pair, 1), CLATTN_E_ARGUMENT, "the value of metadata 0 is NULL");
    pair = (clattn_metadata_pair){"\xff", "value"};
    FAILS(clattn_safetensors_write(path, &good, 1, &pair, 1), CLATTN_E_ARGUMENT, "is not UTF-8");
    cr_expect_eq(temp_dir_count(), 0);
    pair.key = "key";
    SUCCEEDS(clattn_safetensors_write(path, NULL, 0, &pair, 1));
    SUCCEEDS(clattn_safetensors_open(path, &s));
    cr_expect_str_eq(clattn_safetensors_metadata(s, "key"), "value");
    cr_expect_eq(clattn_safetensors_count(s), 0);
    cr_expect_null(clattn_safetensors_metadata(s, NULL));
    cr_expect_null(clattn_safetensors_metadata(NULL, "key"));
    clattn_safetensors_close(s);
    SUCCEEDS(clattn_safetensors_write(path, &good, 1, NULL, 0));
    SUCCEEDS(clattn_safetensors_open(path, &s));
    cr_expect_not(clattn_safetensors_entry_at(s, 0, NULL) || clattn_safetensors_entry_at(s, 1, &entry));
    cr_expect_not(clattn_safetensors_find(s, NULL, NULL) || clattn_safetensors_find(NULL, "a", NULL));
    cr_expect(clattn_safetensors_find(s, "a", NULL));
    clattn_safetensors_close(s);
}

/* Readers take 100 MB, so that is what is written at most. */
Test(errors_files, a_name_longer_than_a_header) {
    static float number[1];
    clattn_named_array a = {NULL, {.dtype = CLATTN_F32, .rank = 1, .shape = {1}, .data = number, .bytes = 4}};
    const size_t n = 100000001;
    char *name = malloc(n + 1);
    cr_assert(name);
    memset(name, 'n', n);
    name[n] = '\0';
    a.name = name;
    FAILS(clattn_safetensors_write("/nonexistent/x.safetensors", &a, 1, NULL, 0), CLATTN_E_ARGUMENT,
          "a name or metadata of 100000001 bytes");
    free(name);
}

/* Rows of no elements, whose sizes take 8 to 72 digits: the header is padded by every number of blanks. */
Test(errors_files, npy_headers_of_every_length, .init = temp_dir_make, .fini = temp_dir_remove) {
    char nothing = 0;
    for (int digits = 8; digits <= 72; digits++) {
        clattn_array a = {.dtype = CLATTN_U8, .rank = 8, .data = &nothing}, b;
        int left = digits - 8;
        for (int axis = 0; axis < 8; axis++)
            for (a.shape[axis] = axis > 0; axis > 0 && left > 0 && a.shape[axis] < 10000000000; left--)
                a.shape[axis] *= 10;
        const char *path = temp_path("x.npy");
        SUCCEEDS(clattn_npy_write(path, &a));
        char text[300];
        const size_t n = temp_read(path, text, sizeof text);
        cr_expect_eq(n % 64, 0);
        cr_expect_eq(text[n - 1], '\n');
        SUCCEEDS(clattn_npy_read(path, &b));
        cr_expect_arr_eq(b.shape, a.shape, sizeof a.shape);
        clattn_array_free(&b);
    }
}

Test(errors_files, what_npy_cannot_write) {
    static unsigned char blocks[34];
    const clattn_array block = {.dtype = CLATTN_Q8_0, .rank = 1, .shape = {32}, .data = blocks, .bytes = 34};
    const clattn_array small = {.dtype = CLATTN_BF16, .rank = 1, .shape = {2}, .data = blocks, .bytes = 4};
    clattn_array out;
    FAILS(clattn_npy_write("/nonexistent/x.npy", &block), CLATTN_E_DTYPE, "npy has no q8_0");
    FAILS(clattn_npy_write("/nonexistent/x.npy", &small), CLATTN_E_DTYPE, "npy has no bf16");
    const clattn_array bytes_of = {.dtype = CLATTN_U8, .rank = 1, .shape = {2}, .data = blocks, .bytes = 2};
    FAILS(clattn_npy_write(NULL, &bytes_of), CLATTN_E_ARGUMENT, "write: the path is NULL");
    FAILS(clattn_npy_read("", &out), CLATTN_E_ARGUMENT, "read: the path is empty");
    FAILS(clattn_npy_read(NULL, &out), CLATTN_E_ARGUMENT, "NULL");
}

Test(errors_files, names_in_messages) {
    char text[CLA_NAME_TEXT], small[8], long_name[100];
    const cla_name names[] = {{"alpha", 0}, {"beta", 1}, {"gamma", 2}};
    memset(long_name, 'x', sizeof long_name - 1);
    long_name[99] = '\0';
    cr_expect_str_eq(cla_name_text("a\nb\x7f", text, sizeof text), "a?b?");
    cr_expect_eq(strlen(cla_name_text(long_name, text, sizeof text)), CLA_NAME_TEXT - 1);
    cr_expect_str_eq(text + CLA_NAME_TEXT - 4, "...");
    cr_expect_str_eq(cla_name_text("abcdef", small, 4), "abc"); /* no room for points */
    cr_expect_str_eq(cla_name_text("abcdef", small, 5), "a...");
    cr_expect_str_eq(cla_names_near(names, 3, "beta", small, sizeof small), "\"beta\",");
    cr_expect_str_eq(cla_names_near(names, 0, "beta", small, sizeof small), "");
}

/* ---- the tuner's record and the cache on disk ---- */

Test(errors_files, paths_of_the_tuners_record) {
    cla_tuning_record record = {0};
    cla_tuning_lock lock = {.fd = -1};
    static char name[5000];
    temp_dir_make();
    memset(name, 'n', sizeof name - 1);
    FAILS(cla_tuning_lock_take(name, &lock), CLATTN_E_IO, "the path is too long");
    FAILS(cla_tuning_write(name, "mine", &record), CLATTN_E_IO, "the path is too long");
    FAILS(cla_tuning_read(temp_dir, "mine", &record), CLATTN_E_FORMAT, "is no regular file");
    SUCCEEDS(cla_tuning_read(temp_path("none/tuning.txt"), "mine", &record));
    temp_write("file", "x", 1);
    SUCCEEDS(cla_tuning_read(temp_path("file/tuning.txt"), "mine", &record)); /* as if it were not there */
    cr_expect_eq(record.count, 0);
    cr_assert_eq(truncate(temp_write("large", "x", 1), 1 << 30), 0);
    FAILS(cla_tuning_read(temp_path("large"), "mine", &record), CLATTN_E_FORMAT,
          "has 1073741824 bytes, and a record has at most");
    cla_tuning_record_free(&record);
    temp_dir_remove();
}

Test(errors_files, names_that_are_too_long_are_not_kept) {
    static char folder[5000];
    cla_disk_entry e;
    memset(folder, 'n', sizeof folder - 1);
    cr_expect_not(cla_disk_make_folder(folder));
    cr_expect_not(cla_disk_make_folder(""));
    cr_expect_not(cla_disk_store(folder, "key", "note", "bytes", 5));
    cr_expect_not(cla_disk_load(folder, "key", &e));
    folder[4080] = '\0'; /* room for a temporary name, none for the entry's */
    cr_expect_not(cla_disk_store(folder, "key", "note", "bytes", 5));
    cla_disk_trim(folder, 0);
}
