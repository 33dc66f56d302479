/* SPDX-License-Identifier: Apache-2.0 */
#include "args.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int cla_fail(int exit_status, const char *format, ...) {
    char text[2000];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    for (char *c = text; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
    fflush(stdout);
    fprintf(stderr, "clattn: %s\n", text);
    return exit_status;
}

int cla_exit_of(clattn_status status) {
    switch (status) {
    case CLATTN_OK:
        return CLA_EXIT_OK;
    case CLATTN_E_ARGUMENT:
    case CLATTN_E_SHAPE:
    case CLATTN_E_DTYPE:
    case CLATTN_E_FORMAT:
        return CLA_EXIT_USAGE;
    default:
        return CLA_EXIT_FAILED;
    }
}

int cla_fail_status(clattn_status status, const char *what) {
    const char *text = clattn_last_error();
    if (text[0] == '\0')
        text = clattn_status_text(status);
    return cla_fail(cla_exit_of(status), "%s%s%s", what ? what : "", what ? ": " : "", text);
}

/* ---- options ---- */

static const char *nearest_option(const cla_arg_spec *specs, const char *name) {
    const char *names[CLA_ARGS_MAX + 2];
    size_t n = 0;
    for (; n < CLA_ARGS_MAX && specs[n].name; n++)
        names[n] = specs[n].name;
    names[n++] = "help";
    names[n] = NULL;
    return cla_nearest(name, names);
}

static int fail_unknown(const char *verb, const cla_arg_spec *specs, const char *text, const char *name) {
    const char *near_name = nearest_option(specs, name);
    if (near_name)
        return cla_fail(CLA_EXIT_USAGE, "%s: there is no option %s; did you mean --%s?", verb, text, near_name);
    return cla_fail(CLA_EXIT_USAGE, "%s: there is no option %s; `clattn %s --help` lists them", verb, text, verb);
}

/* The entry that "--name", "--name=value" or "-x" means, -1 when there is none. */
static int find_option(const cla_arg_spec *specs, const char *text) {
    const bool is_long = text[1] == '-';
    const char *name = text + (is_long ? 2 : 1);
    const size_t length = strcspn(name, "=");
    for (int i = 0; specs[i].name; i++) {
        if (is_long && strlen(specs[i].name) == length && strncmp(specs[i].name, name, length) == 0)
            return i;
        if (!is_long && specs[i].letter == text[1])
            return i;
    }
    return -1;
}

/* Whether an argument reads as an option: "-1,0" and "-" are values. */
static bool looks_like_option(const char *text) {
    return text[0] == '-' && text[1] != '\0' && text[1] != '.' && (text[1] < '0' || text[1] > '9') &&
           strncmp(text, "-inf", 4) != 0;
}

/* Takes the option at argv[*at] (and its value). */
static int take_option(const char *verb, int argc, char **argv, int *at, cla_args *args) {
    char *text = argv[*at];
    const int i = find_option(args->specs, text);
    if (i < 0) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(text + 1 + (text[1] == '-'), "="),
                 text + 1 + (text[1] == '-'));
        return fail_unknown(verb, args->specs, text, name);
    }
    assert(i < CLA_ARGS_MAX);
    const cla_arg_spec *spec = &args->specs[i];
    if (args->given[i])
        return cla_fail(CLA_EXIT_USAGE, "%s: --%s is given twice", verb, spec->name);
    args->given[i] = true;
    char *behind = text[1] == '-' ? strchr(text, '=') : text[2] ? text + 1 : NULL;
    if (behind && spec->kind == CLA_ARG_FLAG)
        return cla_fail(CLA_EXIT_USAGE, "%s: --%s takes no value, but %s gives one", verb, spec->name, text);
    if (behind) {
        args->values[i] = behind + 1;
    } else if (spec->kind == CLA_ARG_VALUE) {
        if (*at + 1 >= argc || looks_like_option(argv[*at + 1]))
            return cla_fail(CLA_EXIT_USAGE, "%s: --%s needs a value", verb, spec->name);
        args->values[i] = argv[++*at];
    }
    if (args->values[i] && args->values[i][0] == '\0')
        return cla_fail(CLA_EXIT_USAGE, "%s: --%s has an empty value", verb, spec->name);
    return CLA_EXIT_OK;
}

static int check_words(const char *verb, const cla_arg_spec *specs, int min_words, int max_words,
                       const char *words_text, const cla_args *args) {
    if (args->word_count < min_words)
        return cla_fail(CLA_EXIT_USAGE, "%s: needs %s, but got %d of %d; see `clattn %s --help`", verb, words_text,
                        args->word_count, min_words, verb);
    if (max_words < 0 || args->word_count <= max_words)
        return CLA_EXIT_OK;
    const char *word = args->words[max_words], *near_name = nearest_option(specs, word);
    if (near_name)
        return cla_fail(CLA_EXIT_USAGE, "%s: '%s' is one word too many; did you mean --%s?", verb, word, near_name);
    return cla_fail(CLA_EXIT_USAGE, "%s: '%s' is one word too many: it takes %s%s", verb, word,
                    max_words ? words_text : "no words, only options", max_words ? " and options" : "");
}

int cla_args_parse(const char *verb, int argc, char **argv, const cla_arg_spec *specs, int min_words, int max_words,
                   const char *words_text, cla_args *args) {
    *args = (cla_args){.specs = specs, .words = argv};
    bool options = true;
    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0) {
            options = false;
        } else if (options && looks_like_option(argv[i])) {
            const int exit_status = take_option(verb, argc, argv, &i, args);
            if (exit_status != CLA_EXIT_OK)
                return exit_status;
        } else {
            args->words[args->word_count++] = argv[i]; /* never ahead of i */
        }
    }
    return check_words(verb, specs, min_words, max_words, words_text, args);
}

static size_t index_of_option(const cla_args *args, const char *name) {
    for (size_t i = 0; args->specs[i].name; i++)
        if (strcmp(args->specs[i].name, name) == 0)
            return i;
    assert(0 && "an option that is not in the table");
    return 0;
}

bool cla_args_given(const cla_args *args, const char *name) { return args->given[index_of_option(args, name)]; }

const char *cla_args_value(const cla_args *args, const char *name) { return args->values[index_of_option(args, name)]; }
