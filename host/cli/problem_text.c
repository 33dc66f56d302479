/* SPDX-License-Identifier: Apache-2.0 */
/* The problem grammar: words in any order, each at most once. Knows no command and no device. */
#include "problem_text.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_MAX 64

typedef enum slot {
    SLOT_BATCH,
    SLOT_HEADS,
    SLOT_QUERIES,
    SLOT_KEYS,
    SLOT_DIM,
    SLOT_VALUE_DIM,
    SLOT_DTYPE,
    SLOT_CAUSAL,
    SLOT_WINDOW,
    SLOT_ALIGN,
    SLOT_KEEP,
    SLOT_BIAS,
    SLOT_LENGTHS,
    SLOT_SCALE,
    SLOT_KV,
    SLOT_OUTPUT,
    SLOT_SOFTCAP,
    SLOT_ALIBI,
    SLOT_SINKS,
    SLOT_QUERY_LENGTHS,
    SLOT_PREFIX,
    SLOT_SEGMENTS,
    SLOT_VARLEN,
    SLOT_PAGES,
    SLOT_INVARIANT,
    SLOT_COUNT
} slot;

typedef struct parser {
    const char *text;
    char word[WORD_MAX];
    char taken[SLOT_COUNT][WORD_MAX]; /* the word that filled a slot; "" while free */
    cla_problem_text *problem;
    char *error;
    size_t error_size;
} parser;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static bool
fail(const parser *p, const char *format, ...) {
    int n = snprintf(p->error, p->error_size, "problem \"%.*s\": ", 200, p->text);
    if (n >= 0 && (size_t)n < p->error_size) {
        va_list list;
        va_start(list, format);
        vsnprintf(p->error + n, p->error_size - (size_t)n, format, list);
        va_end(list);
    }
    return false;
}

static bool take(parser *p, slot s) {
    if (p->taken[s][0])
        return fail(p, "%s: %s has said it already", p->word, p->taken[s]);
    memcpy(p->taken[s], p->word, WORD_MAX);
    return true;
}

/* Digits up to *end; a size from 1 to CLA_PROBLEM_SIZE_MAX. */
static bool size_at(const parser *p, const char *digits, const char **end, int64_t *value) {
    char *stop;
    errno = 0;
    const long long x = isdigit((unsigned char)*digits) ? strtoll(digits, &stop, 10) : 0;
    if (!isdigit((unsigned char)*digits))
        return fail(p, "%s: a number is missing", p->word);
    if (errno != 0 || x < 1 || x > CLA_PROBLEM_SIZE_MAX)
        return fail(p, "%s: sizes go from 1 to %" PRId64, p->word, CLA_PROBLEM_SIZE_MAX);
    *value = x;
    *end = stop;
    return true;
}

static bool heads_word(parser *p) {
    const char *end = "";
    if (!take(p, SLOT_HEADS) || !size_at(p, p->word + 1, &end, &p->problem->heads))
        return false;
    p->problem->key_heads = p->problem->heads;
    if (*end == '/' && !size_at(p, end + 1, &end, &p->problem->key_heads))
        return false;
    if (*end)
        return fail(p, "%s: heads are h8, or h8/2 with fewer key heads", p->word);
    if (p->problem->heads % p->problem->key_heads != 0)
        return fail(p, "%s: %" PRId64 " query heads are no multiple of %" PRId64 " key heads", p->word,
                    p->problem->heads, p->problem->key_heads);
    return true;
}

/* A letter and a number. */
static bool size_word(parser *p) {
    cla_problem_text *t = p->problem;
    const struct {
        char letter;
        slot first;
        int64_t *value;
    } sizes[] = {{'b', SLOT_BATCH, &t->batch}, {'q', SLOT_QUERIES, &t->queries},     {'k', SLOT_KEYS, &t->keys},
                 {'d', SLOT_DIM, &t->dim},     {'v', SLOT_VALUE_DIM, &t->value_dim}, {'n', SLOT_QUERIES, &t->queries}};
    const char *end = "";
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (p->word[0] != sizes[i].letter)
            continue;
        if (!take(p, sizes[i].first) || !size_at(p, p->word + 1, &end, sizes[i].value))
            return false;
        if (*end)
            return fail(p, "%s: \"%s\" behind the number", p->word, end);
        if (sizes[i].letter != 'n')
            return true;
        t->keys = t->queries;
        return take(p, SLOT_KEYS);
    }
    return fail(p, "%s: sizes are b, h, q, k, n (q and k), d and v", p->word);
}

/* The key at which query 0 stands. */
static bool offset_of(parser *p, const char *text) {
    char *stop = NULL;
    errno = 0;
    const long long x = isdigit((unsigned char)text[*text == '-']) ? strtoll(text, &stop, 10) : 0;
    if (!stop || *stop || errno != 0 || x > CLA_PROBLEM_SIZE_MAX || x < -CLA_PROBLEM_SIZE_MAX)
        return fail(p, "%s: an alignment is top-left, bottom-right, or the key at which query 0 stands", p->word);
    p->problem->align = CLATTN_ALIGN_OFFSET;
    p->problem->offset = x;
    return true;
}

static bool align_of(parser *p, const char *text) {
    if (strcmp(text, "top-left") == 0)
        p->problem->align = CLATTN_ALIGN_TOP_LEFT;
    else if (strcmp(text, "bottom-right") == 0)
        p->problem->align = CLATTN_ALIGN_BOTTOM_RIGHT;
    else
        return offset_of(p, text);
    return true;
}

/* "causal=x" says the alignment too. */
static bool causal_word(parser *p, const char *value) {
    p->problem->causal = true;
    return take(p, SLOT_CAUSAL) && (!value || (take(p, SLOT_ALIGN) && align_of(p, value)));
}

static bool align_word(parser *p, const char *value) { return take(p, SLOT_ALIGN) && align_of(p, value); }

static bool window_side(const parser *p, const char *text, size_t length, int64_t *side) {
    if (length == 3 && strncmp(text, "inf", 3) == 0) {
        *side = CLATTN_UNLIMITED;
        return true;
    }
    char *stop = NULL;
    errno = 0;
    const long long x = isdigit((unsigned char)*text) ? strtoll(text, &stop, 10) : -1;
    if (x < 0 || errno != 0 || x > CLA_PROBLEM_SIZE_MAX || stop != text + length)
        return fail(p, "%s: a window is window=L,R, each from 0 to %" PRId64 " or inf", p->word, CLA_PROBLEM_SIZE_MAX);
    *side = x;
    return true;
}

static bool window_word(parser *p, const char *value) {
    const char *comma = strchr(value, ',');
    if (!comma)
        return fail(p, "%s: a window has two sides, window=L,R", p->word);
    p->problem->has_window = true;
    return take(p, SLOT_WINDOW) && window_side(p, value, (size_t)(comma - value), &p->problem->window_left) &&
           window_side(p, comma + 1, strlen(comma + 1), &p->problem->window_right);
}

/* What a double cannot tell from 0, such as 1e-400, is none. */
static bool finite_number(const char *text, double *x) {
    char *stop;
    errno = 0;
    *x = strtod(text, &stop);
    return *text && !*stop && !isspace((unsigned char)*text) && isfinite(*x) && !(errno == ERANGE && *x == 0);
}

static bool scale_word(parser *p, const char *value) {
    p->problem->has_scale = true;
    if (!finite_number(value, &p->problem->scale))
        return fail(p, "%s: the scale is a finite number that a double holds", p->word);
    return take(p, SLOT_SCALE);
}

static bool softcap_word(parser *p, const char *value) {
    if (!finite_number(value, &p->problem->softcap) || !(p->problem->softcap > 0))
        return fail(p, "%s: the soft cap is a finite number above 0", p->word);
    return take(p, SLOT_SOFTCAP);
}

static bool pages_word(parser *p, const char *value) {
    const char *end = "";
    if (!size_at(p, value, &end, &p->problem->page_size))
        return false;
    return *end ? fail(p, "%s: \"%s\" behind the number", p->word, end) : take(p, SLOT_PAGES);
}

const clattn_dtype cla_real_types[6] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16, CLATTN_Q8_0, CLATTN_Q4_0};

bool cla_dtype_named(const char *text, size_t length, size_t count, clattn_dtype *dtype) {
    for (size_t i = 0; i < count; i++)
        if (strlen(clattn_dtype_name(cla_real_types[i])) == length &&
            strncmp(text, clattn_dtype_name(cla_real_types[i]), length) == 0) {
            *dtype = cla_real_types[i];
            return true;
        }
    return false;
}

static bool kv_word(parser *p, const char *value) {
    const size_t first = strcspn(value, ",");
    const char *second = value[first] ? value + first + 1 : value;
    if (!cla_dtype_named(value, first, 6, &p->problem->k_dtype) ||
        !cla_dtype_named(second, strcspn(second, value[first] ? "" : ","), 6, &p->problem->v_dtype))
        return fail(p, "%s: types of k and v are f32 f64 f16 bf16 q8_0 q4_0: kv=q8_0, or kv=q8_0,q4_0", p->word);
    return take(p, SLOT_KV);
}

static bool output_word(parser *p, const char *value) {
    if (!cla_dtype_named(value, strlen(value), 4, &p->problem->o_dtype))
        return fail(p, "%s: types of o are f32 f64 f16 bf16", p->word);
    return take(p, SLOT_OUTPUT);
}

/* Words without a value. */
static bool flag_word(parser *p, const char *name, const char *value, bool *known) {
    cla_problem_text *t = p->problem;
    const struct {
        const char *name;
        slot s;
        bool *flag;
    } flags[] = {{"keep", SLOT_KEEP, &t->keep},          {"bias", SLOT_BIAS, &t->bias},
                 {"lengths", SLOT_LENGTHS, &t->lengths}, {"alibi", SLOT_ALIBI, &t->alibi},
                 {"sinks", SLOT_SINKS, &t->sinks},       {"qlengths", SLOT_QUERY_LENGTHS, &t->query_lengths},
                 {"prefix", SLOT_PREFIX, &t->prefix},    {"segments", SLOT_SEGMENTS, &t->segments},
                 {"varlen", SLOT_VARLEN, &t->varlen},    {"invariant", SLOT_INVARIANT, &t->invariant}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(name, flags[i].name) == 0) {
            *known = *flags[i].flag = true;
            return value ? fail(p, "%s: %s takes no value", p->word, name) : take(p, flags[i].s);
        }
    return *known = false;
}

/* The words that are no sizes; value is what stands behind '=', or NULL. */
static bool named_word(parser *p, const char *name, const char *value) {
    static const struct {
        const char *name;
        bool (*parse)(parser *p, const char *value);
    } settings[] = {{"window", window_word},   {"align", align_word}, {"scale", scale_word}, {"kv", kv_word},
                    {"softcap", softcap_word}, {"pages", pages_word}, {"o", output_word}};
    bool known;
    if (!value && cla_dtype_named(name, strlen(name), 4, &p->problem->dtype))
        return take(p, SLOT_DTYPE);
    if (strcmp(name, "causal") == 0)
        return causal_word(p, value);
    const bool ok = flag_word(p, name, value, &known);
    if (known)
        return ok;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(name, settings[i].name) == 0)
            return value ? settings[i].parse(p, value) : fail(p, "%s: a value is missing, %s=...", p->word, name);
    return fail(p,
                "%s: no such word; sizes are b h q k n d v with a number, then f32 f64 f16 bf16 kv=T o=T causal "
                "window=L,R align=A prefix softcap=X alibi keep bias sinks lengths qlengths segments varlen pages=P "
                "invariant scale=X",
                p->word);
}

static bool one_word(parser *p) {
    if (p->word[0] == 'h' && (isdigit((unsigned char)p->word[1]) || !p->word[1]))
        return heads_word(p);
    if (isalpha((unsigned char)p->word[0]) && p->word[0] != 'f' && (isdigit((unsigned char)p->word[1]) || !p->word[1]))
        return size_word(p);
    char name[WORD_MAX];
    memcpy(name, p->word, WORD_MAX);
    char *equals = strchr(name, '=');
    if (equals)
        *equals = '\0';
    return named_word(p, name, equals ? equals + 1 : NULL);
}

/* Elements of a tensor [a, b, c, d] must be countable in bytes. */
static bool countable(int64_t a, int64_t b, int64_t c, int64_t d) {
    const double bytes = 8.0 * (double)a * (double)b * (double)c * (double)d;
    return bytes < 0x1p62;
}

/* Types that are not said, and blocks that must be whole. */
static bool complete_types(parser *p) {
    cla_problem_text *t = p->problem;
    if (!p->taken[SLOT_KV][0])
        t->k_dtype = t->v_dtype = t->dtype;
    if (!p->taken[SLOT_OUTPUT][0])
        t->o_dtype = t->dtype;
    const int64_t k_block = (int64_t)clattn_dtype_length(t->k_dtype),
                  v_block = (int64_t)clattn_dtype_length(t->v_dtype);
    if (t->dim % k_block != 0 || t->value_dim % v_block != 0)
        return fail(p, "%s: %s %" PRId64 " is not made of whole blocks of 32", p->taken[SLOT_KV],
                    t->dim % k_block != 0 ? "head dim" : "value dim", t->dim % k_block != 0 ? t->dim : t->value_dim);
    return true;
}

/* Words that need, or forbid, each other. */
static bool complete_options(parser *p) {
    const cla_problem_text *t = p->problem;
    const slot place = t->causal ? SLOT_CAUSAL : t->has_window ? SLOT_WINDOW : SLOT_ALIBI;
    const bool placed = p->taken[place][0] != '\0';
    if (placed && t->align == CLATTN_ALIGN_UNSET && t->queries != t->keys)
        return fail(p, "%s: with %" PRId64 " queries and %" PRId64 " keys say where the queries stand: %s",
                    p->taken[place], t->queries, t->keys,
                    t->causal ? "causal=top-left or causal=bottom-right" : "align=top-left or align=bottom-right");
    if (placed && t->align == CLATTN_ALIGN_UNSET && t->page_size > 0)
        return fail(p, "%s: with pages say where the queries stand: align=bottom-right, if the last at the last key",
                    p->taken[place]);
    if (!placed && t->align != CLATTN_ALIGN_UNSET)
        return fail(p, "%s: an alignment without causal, a window or alibi", p->taken[SLOT_ALIGN]);
    if (t->prefix && !t->causal)
        return fail(p, "prefix: loosens causal, which is not there");
    if (t->varlen && (t->keep || t->bias || t->query_lengths))
        return fail(p, "varlen: sequences one after another go without keep, bias and qlengths");
    return true;
}

static bool complete(parser *p) {
    cla_problem_text *t = p->problem;
    if (!p->taken[SLOT_QUERIES][0])
        return fail(p, "the number of queries is missing: n1024, or q5 k9");
    if (!p->taken[SLOT_KEYS][0])
        return fail(p, "the number of keys is missing: k%" PRId64 " beside %s, or n%" PRId64, t->queries,
                    p->taken[SLOT_QUERIES], t->queries);
    if (!p->taken[SLOT_DIM][0])
        return fail(p, "the head dim is missing: d64");
    if (!p->taken[SLOT_VALUE_DIM][0])
        t->value_dim = t->dim;
    if (!complete_types(p) || !complete_options(p))
        return false;
    if (!countable(t->batch, t->heads, t->queries, t->dim) || !countable(t->batch, t->heads, t->queries, t->keys) ||
        !countable(t->batch, t->heads, t->keys, t->dim) || !countable(t->batch, t->heads, t->queries, t->value_dim) ||
        !countable(t->batch, t->heads, t->keys, t->value_dim))
        return fail(p, "the tensors have more elements than 64 bits count");
    return true;
}

/* NOLINTNEXTLINE(readability-non-const-parameter) */
bool cla_problem_text_parse(const char *text, cla_problem_text *problem, char *error, size_t error_size) {
    *problem = (cla_problem_text){.batch = 1, .heads = 1, .key_heads = 1};
    parser p = {.text = text, .problem = problem, .error = error, .error_size = error_size};
    const char *at = text;
    for (;;) {
        at += strspn(at, " \t\r\n");
        if (!*at)
            return complete(&p);
        const size_t length = strcspn(at, " \t\r\n");
        if (length >= WORD_MAX)
            return fail(&p, "%.20s...: too long for a word", at);
        memset(p.word, 0, sizeof p.word);
        memcpy(p.word, at, length);
        if (!one_word(&p))
            return false;
        at += length;
    }
}
