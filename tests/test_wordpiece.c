/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer of examples/embed: the ids that Hugging Face's gives for texts of many scripts, cuts, and bad files. */
#include "io_testing.h"
#include "wordpiece.h"

#include <cjson/cJSON.h>
#include <stdint.h>

TestSuite(wordpiece, .init = temp_dir_make, .fini = temp_dir_remove);

enum { CAPACITY = 256 };

static cJSON *read_vectors(void) {
    static char text[1 << 16];
    FILE *f = fopen(TESTS_DIR "/vectors/wordpiece.json", "rb");
    cr_assert_not_null(f);
    const size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    cr_assert_lt(n, sizeof text);
    cJSON *json = cJSON_ParseWithLength(text, n);
    cr_assert_not_null(json);
    return json;
}

/* The vectors' vocabulary as a file. */
static wordpiece *open_vectors(const cJSON *json, const char *line_end) {
    const cJSON *token;
    const char *path = temp_path("vocab.txt");
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cJSON_ArrayForEach(token, cJSON_GetObjectItem(json, "vocabulary")) fprintf(f, "%s%s", token->valuestring, line_end);
    fclose(f);
    wordpiece *w = wordpiece_open(path);
    cr_assert_not_null(w);
    return w;
}

static void check_case(const wordpiece *w, const cJSON *c) {
    int32_t ids[CAPACITY];
    size_t bad = 0;
    const char *text = cJSON_GetObjectItem(c, "text")->valuestring;
    const cJSON *expected = cJSON_GetObjectItem(c, "ids");
    const int64_t n = wordpiece_encode(w, text, strlen(text), ids, CAPACITY, &bad);
    cr_assert_eq(n, cJSON_GetArraySize(expected), "'%s' has %d ids, not %d", text, (int)n,
                 cJSON_GetArraySize(expected));
    for (int i = 0; i < (int)n; i++)
        cr_expect_eq(ids[i], cJSON_GetArrayItem(expected, i)->valueint, "'%s': id %d is %d (%s), not %d", text, i,
                     ids[i], wordpiece_token(w, ids[i]), cJSON_GetArrayItem(expected, i)->valueint);
}

Test(wordpiece, ids_are_those_of_hugging_face) {
    const cJSON *c;
    cJSON *json = read_vectors();
    wordpiece *w = open_vectors(json, "\n");
    cr_assert_eq(wordpiece_count(w), (size_t)cJSON_GetArraySize(cJSON_GetObjectItem(json, "vocabulary")));
    cr_assert_geq(cJSON_GetArraySize(cJSON_GetObjectItem(json, "cases")), 100);
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(json, "cases")) check_case(w, c);
    wordpiece_close(w);
    cJSON_Delete(json);
}

Test(wordpiece, lines_may_end_in_carriage_returns) {
    cJSON *json = read_vectors();
    wordpiece *w = open_vectors(json, "\r\n");
    check_case(w, cJSON_GetArrayItem(cJSON_GetObjectItem(json, "cases"), 0));
    cr_expect_str_eq(wordpiece_token(w, 1), "[UNK]");
    cr_expect_str_eq(wordpiece_token(w, -1), "?");
    wordpiece_close(w);
    cJSON_Delete(json);
}

static const char tiny[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\nb\nab\n##abab\n"; /* without [MASK], and an end */

static int64_t encode(const wordpiece *w, const char *text, size_t bytes, int32_t *ids, int64_t capacity) {
    size_t bad = 0;
    return wordpiece_encode(w, text, bytes, ids, capacity, &bad);
}

#define IDS(w, text, capacity, ...)                                                                                    \
    do {                                                                                                               \
        const int32_t expected[] = {__VA_ARGS__};                                                                      \
        int32_t ids[CAPACITY];                                                                                         \
        cr_assert_eq(encode(w, text, sizeof text - 1, ids, capacity), sizeof expected / sizeof *expected);             \
        cr_expect_arr_eq(ids, expected, sizeof expected);                                                              \
    } while (0)

Test(wordpiece, the_longest_token_is_taken_and_what_is_too_long_is_cut) {
    wordpiece *w = wordpiece_open(temp_write("vocab.txt", tiny, sizeof tiny - 1));
    cr_assert_not_null(w);
    IDS(w, "abb b", CAPACITY, 2, 7, 5, 6, 3);
    IDS(w, "ababab", CAPACITY, 2, 7, 8, 3);
    IDS(w, "abab", CAPACITY, 2, 1, 3); /* ab, then no ##a */
    IDS(w, "abb b", 4, 2, 7, 5, 3);
    IDS(w, "abb b", 3, 2, 7, 3);
    IDS(w, "abb b", 2, 2, 3);
    IDS(w, "aba b", 3, 2, 1, 3); /* what was cut off still makes the word unknown */
    IDS(w, "[MASK]", CAPACITY, 2, 1, 1, 1, 3);
    wordpiece_close(w);
}

Test(wordpiece, zeros_in_a_text_are_left_out) {
    wordpiece *w = wordpiece_open(temp_write("vocab.txt", tiny, sizeof tiny - 1));
    cr_assert_not_null(w);
    IDS(w, "a\0b\0", CAPACITY, 2, 7, 3);
    IDS(w, "", CAPACITY, 2, 3);
    wordpiece_close(w);
}

Test(wordpiece, what_is_not_utf_8_is_refused_with_its_place) {
    static const char *const bad[] = {"a\xff", "a\xc0\x80", "a\xed\xa0\x80", "a\xf4\x90\x80\x80", "a\xe4\xb8", "a\x80"};
    int32_t ids[CAPACITY];
    wordpiece *w = wordpiece_open(temp_write("vocab.txt", tiny, sizeof tiny - 1));
    cr_assert_not_null(w);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t at = 99;
        cr_expect_eq(wordpiece_encode(w, bad[i], strlen(bad[i]), ids, CAPACITY, &at), -1);
        cr_expect_eq(at, 1);
    }
    wordpiece_close(w);
}

Test(wordpiece, files_that_are_no_vocabulary_are_refused) {
    cr_expect_null(wordpiece_open(temp_path("none.txt")));
    cr_expect_null(wordpiece_open(temp_dir));
    cr_expect_null(wordpiece_open(temp_write("empty.txt", "", 0)));
    cr_expect_null(wordpiece_open(temp_write("words.txt", "a\nb\n", 4)));
    wordpiece_close(NULL);
}
