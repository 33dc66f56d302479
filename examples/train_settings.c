/* SPDX-License-Identifier: Apache-2.0 */
#include "train_settings.h"

#include "complain.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const settings settings_default = {.task = TASK_REVERSE,
                                   .length = 12,
                                   .layers = 5,
                                   .width = 128,
                                   .heads = 4,
                                   .batch = 64,
                                   .warmup = 50,
                                   .decay = 500,
                                   .seed = 0,
                                   .rate = 1e-3};

typedef enum { WORD, WHOLE, REAL } kind;

static const struct {
    const char *name;
    kind kind;
    size_t offset;
    int64_t least, most;
} table[SETTINGS] = {{"task", WORD, offsetof(settings, task), 0, 0},
                     {"length", WHOLE, offsetof(settings, length), 3, 64},
                     {"layers", WHOLE, offsetof(settings, layers), 1, 48},
                     {"width", WHOLE, offsetof(settings, width), 2, 4096},
                     {"heads", WHOLE, offsetof(settings, heads), 1, 256},
                     {"batch", WHOLE, offsetof(settings, batch), 1, 4096},
                     {"warmup", WHOLE, offsetof(settings, warmup), 1, 1000000},
                     {"decay", WHOLE, offsetof(settings, decay), 1, 1000000},
                     {"seed", WHOLE, offsetof(settings, seed), 0, INT64_C(1) << 53},
                     {"rate", REAL, offsetof(settings, rate), 0, 0}};

static const char *const tasks[] = {[TASK_REVERSE] = "reverse", [TASK_SORT] = "sort"};

static int64_t *whole_of(settings *s, size_t index) { return (int64_t *)(void *)((char *)s + table[index].offset); }
static int64_t whole_at(const settings *s, size_t index) {
    return *(const int64_t *)(const void *)((const char *)s + table[index].offset);
}

const char *settings_name(size_t index) { return index < SETTINGS ? table[index].name : NULL; }

bool settings_find(const char *name, size_t *index) {
    for (*index = 0; *index < SETTINGS; ++*index)
        if (strcmp(table[*index].name, name) == 0)
            return true;
    return false;
}

static bool set_task(settings *s, const char *text, const char *where) {
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        if (strcmp(tasks[i], text) == 0) {
            s->task = (int64_t)i;
            return true;
        }
    return complain("%s: a task is reverse or sort, not \"%.60s\"", where, text);
}

bool settings_set(settings *s, size_t index, const char *text, const char *where) {
    char *end = NULL;
    errno = 0;
    if (table[index].kind == WORD)
        return set_task(s, text, where);
    if (table[index].kind == REAL) {
        s->rate = strtod(text, &end);
        return (end != text && !*end && s->rate > 0 && s->rate <= 1) ||
               complain("%s: %s is a number above 0 and at most 1, not \"%.60s\"", where, table[index].name, text);
    }
    const long long least = table[index].least, most = table[index].most, n = strtoll(text, &end, 10);
    *whole_of(s, index) = n;
    return (end != text && !*end && errno == 0 && n >= least && n <= most) ||
           complain("%s: %s is a number from %lld to %lld, not \"%.60s\"", where, table[index].name, least, most, text);
}

void settings_text(const settings *s, size_t index, char text[SETTING_TEXT]) {
    if (table[index].kind == WORD)
        snprintf(text, SETTING_TEXT, "%s", tasks[s->task]);
    else if (table[index].kind == REAL)
        snprintf(text, SETTING_TEXT, "%.17g", s->rate);
    else
        snprintf(text, SETTING_TEXT, "%lld", (long long)whole_at(s, index));
}

bool settings_check(const settings *s) {
    return s->width % s->heads == 0 ||
           complain("a width of %lld is no multiple of %lld heads", (long long)s->width, (long long)s->heads);
}
