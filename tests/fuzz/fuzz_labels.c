/* SPDX-License-Identifier: Apache-2.0 */
/* Files of labels and of problems for `bench`: as many lines as there are, each printable UTF-8; or one line that says
 * what is wrong. */
#define _XOPEN_SOURCE 700 /* fmemopen */
#include "base/str.h"
#include "bench_file.h"
#include "fuzz.h"
#include "labels.h"

static int64_t lines_of(const uint8_t *data, size_t size) {
    int64_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += data[i] == '\n' || i + 1 == size;
    return lines;
}

static void check_label(const char *text) {
    const size_t length = strlen(text);
    for (size_t i = 0, n; i < length; i += n) {
        n = cla_utf8_bytes((const unsigned char *)text + i, length - i);
        FUZZ_CHECK(n > 0 && (unsigned char)text[i] >= 0x20 && text[i] != 0x7f, "%s", text);
    }
    const int columns = cla_text_columns(text);
    FUZZ_CHECK(columns >= 0 && (size_t)columns <= 2 * length, "%d columns: %s", columns, text);
    FUZZ_CHECK(cla_text_cut(text, columns) == length, "%s", text);
    for (int c = 0; c < columns && c < 20; c++)
        FUZZ_CHECK(cla_text_cut(text, c) <= length, "%s", text);
}

static void check_labels(const char *path, const uint8_t *data, size_t size) {
    const int64_t lines = lines_of(data, size);
    cla_labels queries, keys;
    FUZZ_CHECK(cla_labels_load(path, lines, lines, &queries, &keys) == 0, "%lld lines", (long long)lines);
    FUZZ_CHECK(queries.count == lines && keys.count == lines, "%lld lines", (long long)lines);
    for (int64_t i = 0; i < lines; i++)
        check_label(queries.items[i]);
    cla_labels_free(&queries);
    cla_labels_free(&keys);
    FUZZ_CHECK(cla_labels_load(path, lines + 1, lines, &queries, &keys) == 2, "a line too few");
    cla_labels_free(&queries);
    cla_labels_free(&keys);
}

static void check_problems(const char *path, bool backward) {
    char *const words[] = {"n1 d1"};
    cla_bench_file file;
    const int exit_status = cla_bench_file_read(path, words, 1, backward, &file);
    FUZZ_CHECK(exit_status == 0 || exit_status == 2, "exit status %d", exit_status);
    for (int i = 0; exit_status == 0 && i < file.count; i++)
        FUZZ_CHECK(!strpbrk(file.texts[i], "\n#;"), "problem %d: %s", i, file.texts[i]);
    cla_bench_file_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char report[4096];
    FILE *const err = stderr;
    const char *path = fuzz_file(data, size);
    memset(report, 0, sizeof report);
    FILE *const memory = fmemopen(report, sizeof report - 1, "w");
    FUZZ_CHECK(memory, "no stream");
    stderr = memory;
    fuzz_memory_begin();
    check_labels(path, data, size);
    check_problems(path, false);
    check_problems(path, true);
    fuzz_memory_check(size);
    stderr = err;
    fclose(memory);
    for (const char *line = report; *line; line = strchr(line, '\n') + 1)
        FUZZ_CHECK(strncmp(line, "clattn: ", 8) == 0 && strchr(line, '\n'), "%s", report);
    return 0;
}
