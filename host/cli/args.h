/* SPDX-License-Identifier: Apache-2.0 */
/* Options and words of a verb, numbers and lists in text, and the one way a verb fails: a line on stderr. */
#ifndef CLA_ARGS_H
#define CLA_ARGS_H

#include <clattn/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define CLA_ARGS_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define CLA_ARGS_PRINTF(text, first)
#endif

/* Exit statuses. */
enum {
    CLA_EXIT_OK = 0,
    CLA_EXIT_FAILED = 1, /* a wrong result, or a job that failed: device, memory, writing */
    CLA_EXIT_USAGE = 2   /* wrong use: options, input files, shapes, types */
};

typedef enum cla_arg_kind {
    CLA_ARG_FLAG = 0, /* --explain */
    CLA_ARG_VALUE,    /* --device cpu, --device=cpu, -o x, -ox */
    CLA_ARG_OPTIONAL  /* --causal, --causal=top-left: a value only behind '=' */
} cla_arg_kind;

typedef struct cla_arg_spec {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* 'o' for -o; 0: none */
    cla_arg_kind kind;
} cla_arg_spec;

#define CLA_ARGS_MAX 64 /* options in a table */

typedef struct cla_args {
    const cla_arg_spec *specs;
    bool given[CLA_ARGS_MAX];
    const char *values[CLA_ARGS_MAX]; /* NULL when not given, or given without a value */
    int word_count;
    char **words; /* what is not an option, in order; lies in argv */
} cla_args;

/* Parses argv[0 .. argc) against a table. Unknown options (with the nearest valid one), missing or superfluous
 * values, an option given twice, fewer words than min_words and more than max_words (-1: any number) end in one line
 * on stderr and CLA_EXIT_USAGE, else CLA_EXIT_OK. `--` ends the options. words_text names the words ("Q K V"). */
int cla_args_parse(const char *verb, int argc, char **argv, const cla_arg_spec *specs, int min_words, int max_words,
                   const char *words_text, cla_args *args);
/* By name; the name must be in the table. */
bool cla_args_given(const cla_args *args, const char *name);
const char *cla_args_value(const cla_args *args, const char *name);

/* Prints "clattn: ..." as one line on stderr (line breaks in it become blanks) and returns exit_status. */
int cla_fail(int exit_status, const char *format, ...) CLA_ARGS_PRINTF(2, 3);
/* The same with the library's last error behind "what: " (NULL: nothing in front); the exit status follows from
 * status: arguments, shapes, types, formats 2; devices, memory, limits, writing 1. */
int cla_fail_status(clattn_status status, const char *what);
int cla_exit_of(clattn_status status);

/* The whole text as a number; false when it is none or is out of range. f64 takes no NaN and no infinity. */
bool cla_parse_i64(const char *text, int64_t *value);
bool cla_parse_f64(const char *text, double *value);
/* "5,8,3": at most capacity numbers; false when a part is no number or there are too many. */
bool cla_parse_i64_list(const char *text, int64_t *values, size_t capacity, size_t *count);
/* The entry of a NULL-ended list nearest to text in edits, or NULL when nothing is near. */
const char *cla_nearest(const char *text, const char *const *list);
/* The index of text in a NULL-ended list; -1: not there. */
int cla_index_of(const char *text, const char *const *list);

#endif
