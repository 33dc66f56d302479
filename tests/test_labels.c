/* SPDX-License-Identifier: Apache-2.0 */
/* Labels of a heat map: UTF-8, how many columns it takes, and files of a token a line. */
#include "io_testing.h"

#include "labels.h"
#include <stdbool.h>

/* A character in UTF-8; of numbers that are none too. */
static const char *utf8(uint32_t c) {
    static char text[5];
    const int n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint32_t marks[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (int i = n - 1; i > 0; i--, c >>= 6)
        text[i] = (char)(0x80 | (c & 0x3f));
    text[0] = (char)(marks[n] | c);
    text[n] = '\0';
    return text;
}

Test(labels, wide_characters_take_two_columns) {
    static const uint32_t wide[][2] = {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                                       {0xfe30, 0xfe6f}, {0xff00, 0xff60}, {0x1f300, 0x1faff}, {0x20000, 0x3fffd}};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const uint32_t first = wide[i][0], last = wide[i][1];
        cr_expect(cla_text_columns(utf8(first)) == 2 && cla_text_columns(utf8(last)) == 2, "%x", (unsigned)first);
        cr_expect_eq(cla_text_columns(utf8(first - 1)), first == 0x20000 ? 4 : 1, "%x", (unsigned)first - 1);
        cr_expect_eq(cla_text_columns(utf8(last + 1)), last == 0x3fffd ? 4 : 1, "%x", (unsigned)last + 1);
    }
    cr_expect_eq(cla_text_columns("caf\xc3\xa9 \xe4\xb8\xad\xf0\x9f\x98\x80"), 9);
}

/* Each byte is a character of its own. */
Test(labels, what_is_no_utf8_takes_a_column_a_byte) {
    static const char *const bad[] = {
        "\x80",             /* a byte in the middle of a character */
        "\xc3",             /* cut */
        "\xe4\xb8",         /* cut */
        "\xc3(",            /* broken off */
        "\xf0\x9f\x98(",    /* broken off at the end */
        "\xc0\x80",         /* longer than it need be */
        "\xe0\x80\x80",     /* the same */
        "\xed\xa0\x80",     /* half of a pair */
        "\xed\xbf\xbf",     /* the other half */
        "\xf4\x90\x80\x80", /* beyond U+10FFFF */
        "\xef\xbf\xbe",     /* U+FFFE is no character */
        "\xf8\x88\x80\x80\x80",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect_eq(cla_text_columns(bad[i]), (int)strlen(bad[i]), "%zu", i);
}

Test(labels, a_cut_keeps_whole_characters) {
    const char *text = "\xe4\xb8\xad"
                       "ab";
    static const size_t bytes[] = {0, 0, 3, 4, 5, 5};
    for (int columns = 0; columns < 6; columns++)
        cr_expect_eq(cla_text_cut(text, columns), bytes[columns], "%d", columns);
}

static void expect_items(const cla_labels *labels, const char *const *items, int64_t count) {
    cr_assert_eq(labels->count, count);
    for (int64_t i = 0; i < count; i++)
        cr_expect_str_eq(labels->items[i], items[i]);
}

Test(labels, lines_are_tokens, .init = temp_dir_make, .fini = temp_dir_remove) {
    static const char lines[] = "one\r\n\nt\two \x7f\x01 \n\xff"
                                "caf\xc3\xa9";
    static const char *const items[] = {"one", "", "t wo", "?caf\xc3\xa9"}, *const single[] = {"x"};
    cla_labels queries, keys;
    char both[2 * TEMP_PATH];
    const char *path = temp_write("lines.txt", lines, sizeof lines - 1), *x = temp_write("x.txt", "x\n", 2);
    cr_assert_eq(cla_labels_load(path, 4, 4, &queries, &keys), 0);
    expect_items(&queries, items, 4);
    expect_items(&keys, items, 4);
    cla_labels_free(&queries);
    cla_labels_free(&keys);
    snprintf(both, sizeof both, "%s,%s", path, x);
    cr_assert_eq(cla_labels_load(both, 4, 1, &queries, &keys), 0);
    expect_items(&queries, items, 4);
    expect_items(&keys, single, 1);
    cla_labels_free(&queries);
    cla_labels_free(&keys);
    cr_expect_eq(cla_labels_load(both, 3, 1, &queries, &keys), 2, "too many queries");
    cla_labels_free(&queries);
    cr_expect_eq(cla_labels_load(both, 4, 2, &queries, &keys), 2, "too few keys");
    cla_labels_free(&queries);
    cla_labels_free(&keys);
    cr_assert_eq(rename(x, temp_path("a,b.txt")), 0); /* a comma in a name */
    cr_expect_eq(cla_labels_load(temp_path("a,b.txt"), 1, 1, &queries, &keys), 0);
    cla_labels_free(&queries);
    cla_labels_free(&keys);
}

Test(labels, large_files_and_folders_are_refused, .init = temp_dir_make, .fini = temp_dir_remove) {
    enum { SIZE = (4 << 20) + 1 };
    cla_labels queries, keys;
    char *large = malloc(SIZE);
    memset(large, '\n', SIZE);
    const char *path = temp_write("large.txt", large, SIZE);
    cr_expect_eq(cla_labels_load(path, SIZE, SIZE, &queries, &keys), 2);
    cla_labels_free(&queries);
    cr_expect_eq(cla_labels_load(temp_dir, 1, 1, &queries, &keys), 2);
    cla_labels_free(&queries);
    cr_expect_eq(cla_labels_load(temp_path("none.txt"), 1, 1, &queries, &keys), 2);
    cla_labels_free(&queries);
    free(large);
}
