/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_file.h"

#include "args.h"
#include "text_file.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MOST = 1 << 20 };

/* The whole file; NULL: the line is printed. */
static char *read_all(const char *path, int *exit_status) {
    size_t bytes = 0;
    char *text = cla_text_file_read(path, BYTES_MOST, &bytes);
    if (!text && errno == ENOMEM)
        *exit_status = cla_fail(CLA_EXIT_FAILED, "bench: --file %s: out of memory", path);
    else if (!text)
        *exit_status = cla_fail(CLA_EXIT_USAGE, "bench: --file %s: %s", path, strerror(errno));
    else if (bytes > BYTES_MOST || strlen(text) != bytes)
        *exit_status = cla_fail(CLA_EXIT_USAGE, "bench: --file %s: no file of problems: %s", path,
                                bytes > BYTES_MOST ? "above 1 MiB" : "there is a zero byte in it");
    if (*exit_status == CLA_EXIT_OK)
        return text;
    free(text);
    return NULL;
}

/* The problem of a line; NULL: there is none. */
static char *problem_of(char *line) {
    line[strcspn(line, "#")] = '\0';
    line[strcspn(line, ";")] = '\0';
    char *colon = strchr(line, ':');
    line = colon ? colon + 1 : line;
    line += strspn(line, " \t\r");
    return *line ? line : NULL;
}

/* The rest behind a first word; NULL: the text does not begin with it. */
static char *behind(char *text, const char *word) {
    const size_t length = strlen(word);
    if (strncmp(text, word, length) != 0 || !text[length] || !strchr(" \t\r", text[length]))
        return NULL;
    return text + length + strspn(text + length, " \t\r");
}

static void add(char *problem, bool backward, cla_bench_file *file) {
    char *rest = behind(problem, "backward");
    if (behind(problem, "linear"))
        file->linear++;
    else if ((rest != NULL) != backward)
        file->other++;
    else
        file->texts[file->count++] = rest ? rest : problem;
}

static int read_lines(char *text, const char *path, bool backward, cla_bench_file *file) {
    size_t lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    char **texts = realloc(file->texts, ((size_t)file->count + lines) * sizeof *texts);
    if (!texts)
        return cla_fail(CLA_EXIT_FAILED, "bench: --file %s: out of memory", path);
    file->texts = texts;
    const int before = file->count;
    for (char *line = text; line;) {
        char *end = strchr(line, '\n'), *const here = line;
        line = end ? end + 1 : NULL;
        if (end)
            *end = '\0';
        char *problem = problem_of(here);
        if (problem)
            add(problem, backward, file);
    }
    return file->count > before ? CLA_EXIT_OK
                                : cla_fail(CLA_EXIT_USAGE, "bench: --file %s: there is no attention problem %s in it",
                                           path, backward ? "with `backward`" : "without `backward`");
}

int cla_bench_file_read(const char *path, char *const *words, int word_count, bool backward, cla_bench_file *file) {
    int exit_status = CLA_EXIT_OK;
    *file = (cla_bench_file){.count = word_count};
    if (!path && word_count == 0)
        return cla_fail(CLA_EXIT_USAGE, "bench: a problem is missing, such as 'b1 h8 n1024 d64', or --file");
    file->texts = calloc((size_t)word_count + 1, sizeof *file->texts);
    if (!file->texts)
        return cla_fail(CLA_EXIT_FAILED, "bench: out of memory");
    if (word_count > 0)
        memcpy(file->texts, words, (size_t)word_count * sizeof *words);
    if (path)
        file->text = read_all(path, &exit_status);
    return file->text ? read_lines(file->text, path, backward, file) : exit_status;
}

void cla_bench_file_free(cla_bench_file *file) {
    free(file->text);
    free(file->texts);
}
