/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_sweep.h"
#include "args.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBLEMS_MAX 1000
#define LETTERS "nqkbhdv"

typedef struct sweep {
    char letter; /* 0: none */
    int64_t first, last, factor;
} sweep;

static int parse_sweep(const char *text, sweep *s) {
    char part[3][24];
    size_t count = 0;
    *s = (sweep){.letter = text[0], .factor = 2};
    bool ok = text[0] && strchr(LETTERS, text[0]) && text[1] == '=';
    for (const char *at = text + 2; ok;) {
        const size_t length = strcspn(at, ":");
        ok = count < 3 && length < sizeof part[0];
        if (ok) {
            memcpy(part[count], at, length);
            part[count++][length] = '\0';
        }
        if (at[length] == '\0')
            break;
        at += length + 1;
    }
    ok = ok && count >= 2 && cla_parse_i64(part[0], &s->first) && cla_parse_i64(part[1], &s->last) &&
         (count < 3 || cla_parse_i64(part[2], &s->factor));
    if (!ok)
        return cla_fail(CLA_EXIT_USAGE,
                        "bench: --sweep %s: a sweep is LETTER=FIRST:LAST or LETTER=FIRST:LAST:FACTOR, "
                        "such as n=512:8192; letters are n q k b h d v",
                        text);
    if (s->first < 1 || s->last < s->first || s->last > CLA_PROBLEM_SIZE_MAX || s->factor < 2)
        return cla_fail(CLA_EXIT_USAGE, "bench: --sweep %s: sizes go up from 1, and the factor is 2 or more", text);
    return CLA_EXIT_OK;
}

/* Whether a word is the size that letter changes; n is q and k too. */
static bool says(const char *word, char letter) {
    return isdigit((unsigned char)word[1]) &&
           (word[0] == letter || (letter == 'n' && (word[0] == 'q' || word[0] == 'k')));
}

/* Copies a text without the words of a letter. Returns its length. */
static size_t copy_without(const char *text, char letter, char *out) {
    size_t used = 0;
    while (*(text += strspn(text, " \t\r\n"))) {
        const size_t length = strcspn(text, " \t\r\n");
        if (!letter || !says(text, letter)) {
            if (used > 0)
                out[used++] = ' ';
            memcpy(out + used, text, length);
            used += length;
        }
        text += length;
    }
    out[used] = '\0';
    return used;
}

static int64_t *size_of(cla_problem_text *t, char letter) {
    switch (letter) {
    case 'q':
        return &t->queries;
    case 'b':
        return &t->batch;
    case 'h':
        return &t->heads;
    case 'd':
        return &t->dim;
    case 'v':
        return &t->value_dim;
    default:
        return &t->keys;
    }
}

/* The canonical text without the swept size, printed so that every size has a word of its own. */
static void set_family(cla_bench_problem *p, char letter) {
    cla_problem_text t = p->problem;
    char text[CLA_PROBLEM_TEXT_MAX];
    if (letter == 'n') {
        t.queries = 1;
        t.keys = 2;
    } else if (letter == 'd' && t.dim == t.value_dim) {
        t.dim = t.value_dim = 1;
    } else if (letter == 'h') {
        t.heads = t.key_heads == t.heads ? (t.key_heads = 1) : t.heads;
    } else {
        *size_of(&t, letter) = CLA_PROBLEM_SIZE_MAX; /* unlike its partner */
    }
    cla_problem_text_print(&t, text, sizeof text);
    copy_without(text, letter, p->family);
}

static int add(cla_bench *bench, const char *text) {
    char error[512];
    if (bench->problem_count == PROBLEMS_MAX)
        return cla_fail(CLA_EXIT_USAGE, "bench: more than %d problems", PROBLEMS_MAX);
    cla_bench_problem *more = realloc(bench->problems, (bench->problem_count + 1) * sizeof *more);
    if (!more)
        return cla_fail(CLA_EXIT_FAILED, "bench: out of memory");
    bench->problems = more;
    cla_bench_problem *p = &more[bench->problem_count];
    if (!cla_problem_text_parse(text, &p->problem, error, sizeof error))
        return cla_fail(CLA_EXIT_USAGE, "bench: %s", error);
    cla_problem_text_print(&p->problem, p->text, sizeof p->text);
    bench->problem_count++;
    return CLA_EXIT_OK;
}

static int add_sweep(cla_bench *bench, const char *text, const sweep *s) {
    char *swept = malloc(strlen(text) + 32);
    int exit_status = swept ? CLA_EXIT_OK : cla_fail(CLA_EXIT_FAILED, "bench: out of memory");
    for (int64_t size = s->first; exit_status == CLA_EXIT_OK && size <= s->last;) {
        const size_t used = copy_without(text, s->letter, swept);
        snprintf(swept + used, 32, "%s%c%" PRId64, used > 0 ? " " : "", s->letter, size);
        exit_status = add(bench, swept);
        if (size > s->last / s->factor)
            break;
        size *= s->factor;
    }
    free(swept);
    return exit_status;
}

/* Sizes of a family in ascending order; families in the order of their first problem. */
static int by_size(const void *a, const void *b) {
    const cla_bench_problem *x = a, *y = b;
    return (x->size > y->size) - (x->size < y->size);
}

static void sort_families(cla_bench *bench) {
    cla_bench_problem *all = bench->problems;
    for (size_t begin = 0, end; begin < bench->problem_count; begin = end) {
        end = begin + 1;
        for (size_t i = end; i < bench->problem_count; i++) /* stable: brings the family together */
            if (strcmp(all[i].family, all[begin].family) == 0) {
                const cla_bench_problem p = all[i];
                memmove(&all[end + 1], &all[end], (i - end) * sizeof p);
                all[end++] = p;
            }
        qsort(&all[begin], end - begin, sizeof *all, by_size);
    }
}

int cla_bench_sweep(cla_bench *bench, char *const *texts, int count, const char *sweep_text) {
    sweep s = {0};
    if (!sweep_text && count > 1 && !strpbrk(texts[0], " \t")) /* a whole problem has two words at least */
        return cla_fail(CLA_EXIT_USAGE, "bench: %s %s ...: put quotes around a problem, 'b1 h8 n2048 d64'", texts[0],
                        texts[1]);
    int exit_status = sweep_text ? parse_sweep(sweep_text, &s) : CLA_EXIT_OK;
    for (int i = 0; i < count && exit_status == CLA_EXIT_OK; i++)
        exit_status = s.letter ? add_sweep(bench, texts[i], &s) : add(bench, texts[i]);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    bench->swept = 'n';
    if (s.letter)
        bench->swept = s.letter;
    for (size_t i = 0; i < bench->problem_count && !s.letter; i++)
        if (bench->problems[i].problem.queries != bench->problems[i].problem.keys)
            bench->swept = 'k';
    for (size_t i = 0; i < bench->problem_count; i++) {
        bench->problems[i].size = *size_of(&bench->problems[i].problem, bench->swept);
        set_family(&bench->problems[i], bench->swept);
    }
    sort_families(bench);
    return CLA_EXIT_OK;
}
