/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer of examples/generate: the ids that Hugging Face's gives, bad vocabularies, and characters that come in
 * pieces. */
#include "io_testing.h"

#include "bpe.h"
#include "bpe_text.h"
#include <cjson/cJSON.h>

TestSuite(bpe, .init = temp_dir_make, .fini = temp_dir_remove);

static cJSON *read_vectors(void) {
    static char text[1 << 16];
    const size_t n = temp_read(TESTS_DIR "/vectors/bpe.json", text, sizeof text);
    cr_assert_lt(n, sizeof text);
    cJSON *json = cJSON_ParseWithLength(text, n);
    cr_assert_not_null(json);
    return json;
}

static void put(FILE *f, const void *data, size_t bytes) { cr_assert_eq(fwrite(data, 1, bytes, f), bytes); }
static void put32(FILE *f, uint32_t x) { put(f, &x, sizeof x); }
static void put64(FILE *f, uint64_t x) { put(f, &x, sizeof x); }
static void put_string(FILE *f, const char *text) {
    put64(f, strlen(text));
    put(f, text, strlen(text));
}
static void put_strings(FILE *f, const char *key, const cJSON *list) {
    const cJSON *item;
    put_string(f, key);
    put32(f, 9); /* an array */
    put32(f, 8); /* of strings */
    put64(f, (uint64_t)cJSON_GetArraySize(list));
    cJSON_ArrayForEach(item, list) put_string(f, item->valuestring);
}

/* The vectors' vocabulary as a GGUF file without tensors; the first tokens are special. */
static clattn_gguf *open_vocabulary(const cJSON *json, const char *model) {
    const cJSON *tokens = cJSON_GetObjectItem(json, "tokens"), *merges = cJSON_GetObjectItem(json, "merges");
    const int count = cJSON_GetArraySize(tokens), specials = cJSON_GetObjectItem(json, "specials")->valueint;
    clattn_gguf *file = NULL;
    const char *path = temp_path("v.gguf");
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    put(f, "GGUF\3\0\0\0", 8);
    put64(f, 0);
    put64(f, 4);
    put_string(f, "tokenizer.ggml.model");
    put32(f, 8);
    put_string(f, model);
    put_strings(f, "tokenizer.ggml.tokens", tokens);
    put_string(f, "tokenizer.ggml.token_type");
    put32(f, 9);
    put32(f, 5);
    put64(f, (uint64_t)count);
    for (int i = 0; i < count; i++)
        put32(f, i < specials ? 3 : 1);
    put_strings(f, "tokenizer.ggml.merges", merges);
    cr_assert_eq(fclose(f), 0);
    SUCCEEDS(clattn_gguf_open(path, &file));
    return file;
}

Test(bpe, ids_are_those_of_hugging_face) {
    cJSON *json = read_vectors();
    const cJSON *c;
    clattn_gguf *file = open_vocabulary(json, "gpt2");
    bpe *b = bpe_create(file);
    cr_assert_not_null(b);
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(json, "cases")) {
        const char *text = cJSON_GetObjectItem(c, "text")->valuestring;
        const cJSON *expected = cJSON_GetObjectItem(c, "ids");
        bpe_ids ids = {0};
        cr_assert(bpe_encode(b, text, strlen(text), &ids));
        cr_expect_eq(ids.count, (size_t)cJSON_GetArraySize(expected), "'%s' has %zu ids, not %d", text, ids.count,
                     cJSON_GetArraySize(expected));
        for (size_t i = 0; i < ids.count; i++)
            cr_expect_eq(ids.at[i], cJSON_GetArrayItem(expected, (int)i)->valueint, "'%s': id %zu", text, i);
        free(ids.at);
    }
    bpe_destroy(b);
    clattn_gguf_close(file);
    cJSON_Delete(json);
}

Test(bpe, bytes_of_tokens_are_the_text_again) {
    cJSON *json = read_vectors();
    const cJSON *c;
    clattn_gguf *file = open_vocabulary(json, "gpt2");
    bpe *b = bpe_create(file);
    cr_assert_not_null(b);
    cJSON_ArrayForEach(c, cJSON_GetObjectItem(json, "cases")) {
        const char *text = cJSON_GetObjectItem(c, "text")->valuestring;
        bpe_ids ids = {0};
        size_t at = 0, n;
        cr_assert(bpe_encode(b, text, strlen(text), &ids));
        for (size_t i = 0; i < ids.count; i++, at += n) {
            const char *bytes = bpe_bytes(b, ids.at[i], &n);
            cr_assert(at + n <= strlen(text) && memcmp(text + at, bytes, n) == 0, "'%s' at %zu", text, at);
        }
        cr_assert_eq(at, strlen(text));
        free(ids.at);
    }
    cr_assert_eq(bpe_find(b, "<|im_end|>"), 2);
    cr_assert_eq(bpe_find(b, "nothing like it"), -1);
    bpe_destroy(b);
    clattn_gguf_close(file);
    cJSON_Delete(json);
}

Test(bpe, takes_a_long_word_in_good_time) {
    enum { LENGTH = 1 << 20 };
    cJSON *json = read_vectors();
    clattn_gguf *file = open_vocabulary(json, "gpt2");
    bpe *b = bpe_create(file);
    char *text = malloc(LENGTH);
    bpe_ids ids = {0};
    cr_assert(b && text);
    for (int i = 0; i < LENGTH; i++)
        text[i] = "the"[i % 3];
    cr_assert(bpe_encode(b, text, LENGTH, &ids));
    cr_assert(ids.count > 1000 && ids.count < LENGTH);
    free(text);
    free(ids.at);
    bpe_destroy(b);
    clattn_gguf_close(file);
    cJSON_Delete(json);
}

Test(bpe, refuses_what_is_not_utf8) {
    static const char *const bad[] = {"\xff", "a\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "ok \x80"};
    cJSON *json = read_vectors();
    clattn_gguf *file = open_vocabulary(json, "gpt2");
    bpe *b = bpe_create(file);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bpe_ids ids = {0};
        cr_expect(!bpe_encode(b, bad[i], strlen(bad[i]), &ids), "%zu", i);
        cr_expect_eq(ids.count, 0);
        free(ids.at);
    }
    bpe_destroy(b);
    clattn_gguf_close(file);
    cJSON_Delete(json);
}

/* One thing in the vocabulary is changed, and it is refused. */
static void refuses(const char *list, int index, const char *text, const char *model) {
    cJSON *json = read_vectors();
    if (list)
        cJSON_ReplaceItemInArray(cJSON_GetObjectItem(json, list), index, cJSON_CreateString(text));
    clattn_gguf *file = open_vocabulary(json, model);
    cr_expect_null(bpe_create(file), "%s %d \"%s\"", list, index, text);
    clattn_gguf_close(file);
    cJSON_Delete(json);
}

Test(bpe, refuses_vocabularies_that_contradict_themselves) {
    refuses(NULL, 0, "", "llama");
    refuses("tokens", 7, "!", "gpt2"); /* there already */
    refuses("merges", 3, "a", "gpt2");
    refuses("merges", 3, "a ", "gpt2");
    refuses("merges", 3, " a", "gpt2");
    refuses("merges", 3, "", "gpt2");
    refuses("merges", 3, "a nothing-like-it", "gpt2");
    refuses("merges", 3, "~ ~", "gpt2"); /* both are there, what they make is not */
}

/* ---- whole characters ---- */

static const char *streamed(const char *bytes, size_t length, size_t step) {
    static char text[200];
    FILE *f = fopen(temp_path("s"), "wb");
    bpe_stream s = {.count = 0};
    for (size_t i = 0; i < length; i += step)
        bpe_stream_put(&s, bytes + i, length - i < step ? length - i : step, f);
    bpe_stream_end(&s, f);
    cr_assert_eq(fclose(f), 0);
    text[temp_read(temp_path("s"), text, sizeof text - 1)] = 0;
    return text;
}

Test(bpe, writes_whole_characters_whatever_the_pieces) {
    static const char text[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z";
    for (size_t step = 1; step < sizeof text; step++)
        cr_expect_str_eq(streamed(text, sizeof text - 1, step), text);
}

Test(bpe, keeps_back_what_is_not_whole) {
    char text[16];
    FILE *f = fopen(temp_path("s"), "wb");
    bpe_stream s = {.count = 0};
    bpe_stream_put(&s, "x\xf0\x9f\x98", 4, f);
    fflush(f);
    cr_expect_eq(temp_read(temp_path("s"), text, sizeof text), 1);
    bpe_stream_put(&s, "\x80", 1, f);
    fflush(f);
    cr_expect_eq(temp_read(temp_path("s"), text, sizeof text), 5);
    fclose(f);
}

Test(bpe, replaces_what_is_no_character) {
    static const struct {
        const char *bytes, *text;
    } cases[] = {{"\xff", "\xef\xbf\xbd"},
                 {"a\x80z", "a\xef\xbf\xbdz"},
                 {"\xc3z", "\xef\xbf\xbdz"},
                 {"\xe2\x82", "\xef\xbf\xbd"},
                 {"\xc3\xc3\xa9", "\xef\xbf\xbd\xc3\xa9"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step < 4; step++)
            cr_expect_str_eq(streamed(cases[i].bytes, strlen(cases[i].bytes), step), cases[i].text, "%zu", i);
}
