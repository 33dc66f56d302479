/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of BERT's tokenizer, one character after another: clean, decompose (NFD), drop accents (Mn), lower case,
 * split into words, and for each word the longest tokens of the vocabulary from its start.
 * Source: Devlin et al. 2018; Wu et al. 2016 (WordPiece). */
#include "wordpiece.h"

#include "complain.h"
#include "files.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { WORD_LIMIT = 100, CHARACTER_BYTES = 4, SPECIALS = 5 };
enum { UNKNOWN, START, END };

/* Found in a text as they stand, before anything else is done to it. */
static const char *const special_names[SPECIALS] = {"[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"};

typedef struct slot {
    const char *token; /* NULL: free */
    size_t length;
    int32_t id;
} slot;

struct wordpiece {
    char *text;          /* the file, its lines ended by zeros */
    const char **tokens; /* by id */
    size_t count;
    slot *slots; /* open addressing */
    size_t mask;
    size_t longest; /* bytes of the longest token */
    int32_t special[SPECIALS];
};

/* ---- the vocabulary ---- */

static const uint64_t hash_start = UINT64_C(0xcbf29ce484222325);

static uint64_t hash_more(uint64_t hash, const char *s, size_t n) {
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)s[i]) * UINT64_C(0x100000001b3);
    return hash;
}

/* The slot of prefix + s, whose hash it is, or the free one where it would be. */
static slot *find_slot(const wordpiece *w, uint64_t hash, const char *prefix, const char *s, size_t n) {
    const size_t p = strlen(prefix);
    size_t i = (size_t)(hash ^ hash >> 32) & w->mask;
    for (; w->slots[i].token; i = (i + 1) & w->mask)
        if (w->slots[i].length == p + n && memcmp(w->slots[i].token, prefix, p) == 0 &&
            memcmp(w->slots[i].token + p, s, n) == 0)
            break;
    return &w->slots[i];
}

static bool make_tables(wordpiece *w, size_t bytes) {
    const size_t lines = count_lines(w->text, bytes);
    size_t size = 16;
    while (size < 2 * lines)
        size *= 2;
    w->mask = size - 1;
    w->tokens = calloc(lines, sizeof *w->tokens);
    w->slots = calloc(size, sizeof *w->slots);
    return w->tokens && w->slots;
}

static void add_lines(wordpiece *w, size_t bytes) {
    char *at = w->text, *line;
    size_t n;
    while ((line = next_line(&at, w->text + bytes, &n))) {
        *find_slot(w, hash_more(hash_start, line, n), "", line, n) = (slot){line, n, (int32_t)w->count};
        w->longest = n > w->longest ? n : w->longest;
        w->tokens[w->count++] = line;
    }
}

static bool find_specials(wordpiece *w, const char *path) {
    for (int i = 0; i < SPECIALS; i++) {
        const size_t n = strlen(special_names[i]);
        const slot *s = find_slot(w, hash_more(hash_start, special_names[i], n), "", special_names[i], n);
        if (i <= END && !s->token)
            return complain("%s has no line %s: it is no vocabulary of BERT's", path, special_names[i]);
        w->special[i] = s->token ? s->id : -1;
    }
    return true;
}

wordpiece *wordpiece_open(const char *path) {
    size_t bytes = 0;
    wordpiece *w = calloc(1, sizeof *w);
    bool ok = (w || complain("out of memory")) && (w->text = read_path(path, &bytes));
    if (ok)
        ok = make_tables(w, bytes) || complain("%s: out of memory", path);
    if (ok)
        add_lines(w, bytes);
    if (ok && find_specials(w, path))
        return w;
    wordpiece_close(w);
    return NULL;
}

void wordpiece_close(wordpiece *w) {
    if (w) {
        free(w->text);
        free(w->tokens);
        free(w->slots);
        free(w);
    }
}

size_t wordpiece_count(const wordpiece *w) { return w->count; }

const char *wordpiece_token(const wordpiece *w, int32_t id) {
    return id >= 0 && (size_t)id < w->count ? w->tokens[id] : "?";
}

/* ---- words ---- */

/* What is on its way from characters to ids. */
typedef struct encoder {
    const wordpiece *w;
    int32_t *ids;
    int64_t count, capacity; /* without the last [SEP] */
    char word[WORD_LIMIT * CHARACTER_BYTES];
    size_t ends[WORD_LIMIT]; /* of the word's characters, in bytes */
    int characters;          /* more than WORD_LIMIT: too long, and then only counted */
    /* Marks that are kept and wait for their canonical order; those over WORD_LIMIT make the word too long anyway. */
    int32_t marks[WORD_LIMIT];
    int mark_count;
} encoder;

static void push(encoder *e, int32_t id) {
    if (e->count < e->capacity)
        e->ids[e->count++] = id;
}

/* The longest token from the word's byte `from` on: its id and end. false: there is none. */
static bool longest_token(const encoder *e, size_t from, int first, int *next, int32_t *id) {
    const wordpiece *w = e->w;
    const char *prefix = from > 0 ? "##" : "";
    uint64_t hashes[WORD_LIMIT], hash = hash_more(hash_start, prefix, strlen(prefix));
    int last = first;
    for (size_t begin = from; last < e->characters && e->ends[last] - from + strlen(prefix) <= w->longest; last++) {
        hashes[last] = hash = hash_more(hash, e->word + begin, e->ends[last] - begin);
        begin = e->ends[last];
    }
    while (last-- > first) {
        const slot *s = find_slot(w, hashes[last], prefix, e->word + from, e->ends[last] - from);
        if (s->token) {
            *id = s->id;
            *next = last + 1;
            return true;
        }
    }
    return false;
}

/* Ends the word: its tokens, or [UNK] where one part of it is no token. */
static void end_word(encoder *e) {
    const int64_t before = e->count;
    bool known = e->characters <= WORD_LIMIT;
    for (int i = 0; known && i < e->characters;) {
        int32_t id = 0;
        known = longest_token(e, i > 0 ? e->ends[i - 1] : 0, i, &i, &id);
        if (known)
            push(e, id);
    }
    if (!known) {
        e->count = before;
        push(e, e->w->special[UNKNOWN]);
    }
    e->characters = 0;
}

/* ---- characters ---- */

/* The tokenizer that models were trained with knows Unicode 8: what became a mark, punctuation or a format character
 * later is a letter to it. Found by asking Hugging Face's about each character. */
static const int32_t later[][2] = {
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},     {0xA76, 0xA76},
    {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x180F, 0x1886},   {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F89},
    {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B},
    {0x11438, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455},
    {0x16E97, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F}};

static utf8proc_category_t category_of(int32_t c) {
    for (size_t i = 0; i < sizeof later / sizeof *later && c >= later[i][0]; i++)
        if (c <= later[i][1])
            return UTF8PROC_CATEGORY_LO;
    if (c == 0x166D || c == 0x111C9)
        return UTF8PROC_CATEGORY_PO; /* these changed, and the next one */
    return c == 0x1734 ? UTF8PROC_CATEGORY_MN : utf8proc_category(c);
}

static bool is_mark(int32_t c) { return category_of(c) == UTF8PROC_CATEGORY_MN; }

static bool is_space(int32_t c) {
    const utf8proc_category_t category = category_of(c);
    return c == '\t' || c == '\n' || c == '\r' ||
           (category >= UTF8PROC_CATEGORY_ZS && category <= UTF8PROC_CATEGORY_ZP);
}

/* Taken out of texts; characters without a meaning yet are not. */
static bool is_control(int32_t c) {
    const utf8proc_category_t category = category_of(c);
    return c == 0 || c == 0xFFFD || category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(int32_t c) {
    const utf8proc_category_t category = category_of(c);
    const bool ascii = c > ' ' && c < 0x7F && !(c >= '0' && c <= '9') && !((c | 32) >= 'a' && (c | 32) <= 'z');
    return ascii || (category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO);
}

/* The blocks of ideographs that BERT takes one by one. */
static bool is_ideograph(int32_t c) {
    return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
           (c >= 0x2A700 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
           (c >= 0x2F800 && c <= 0x2FA1F);
}

static void add_to_word(encoder *e, int32_t c) {
    if (e->characters < WORD_LIMIT) {
        const size_t begin = e->characters > 0 ? e->ends[e->characters - 1] : 0;
        e->ends[e->characters] = begin + (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)e->word + begin);
    }
    if (e->characters <= WORD_LIMIT)
        e->characters++;
}

/* A character in its final order: lower case, and a word of its own where it is punctuation. */
static void add_ordered(encoder *e, int32_t c) {
    const int32_t lower = utf8proc_tolower(c);
    if (!is_punctuation(lower)) {
        add_to_word(e, lower);
        return;
    }
    end_word(e);
    add_to_word(e, lower);
    end_word(e);
}

static void end_marks(encoder *e) {
    for (int i = 0; i < e->mark_count; i++)
        add_ordered(e, e->marks[i]);
    e->mark_count = 0;
}

static int combining_class(int32_t c) { return utf8proc_get_property(c)->combining_class; }

/* A character of the decomposed text. Marks between two that are none stand in the order of their classes; those that
 * are dropped need not be sorted for that. */
static void add_decomposed(encoder *e, int32_t c) {
    const int class = combining_class(c);
    if (class == 0)
        end_marks(e);
    if (is_mark(c))
        return;
    if (class == 0) {
        add_ordered(e, c);
    } else if (e->mark_count == WORD_LIMIT) {
        e->characters = WORD_LIMIT + 1;
    } else {
        int i = e->mark_count++;
        for (; i > 0 && combining_class(e->marks[i - 1]) > class; i--)
            e->marks[i] = e->marks[i - 1];
        e->marks[i] = c;
    }
}

static void end_text(encoder *e) {
    end_marks(e);
    end_word(e);
}

static void add_character(encoder *e, int32_t c) {
    int32_t parts[32];
    int bound = 0;
    if (is_space(c)) {
        end_text(e);
        return;
    }
    if (is_control(c))
        return;
    if (is_ideograph(c))
        end_text(e);
    const utf8proc_ssize_t n = utf8proc_decompose_char(c, parts, 32, UTF8PROC_DECOMPOSE | UTF8PROC_STABLE, &bound);
    for (utf8proc_ssize_t i = 0; i < n && i < 32; i++)
        add_decomposed(e, parts[i]);
    if (is_ideograph(c))
        end_text(e);
}

/* Which special token stands at the start of a text of n bytes; SPECIALS: none. */
static int special_at(const wordpiece *w, const char *text, size_t n) {
    int i = *text == '[' ? 0 : SPECIALS;
    while (i < SPECIALS && (w->special[i] < 0 || n < strlen(special_names[i]) ||
                            memcmp(text, special_names[i], strlen(special_names[i])) != 0))
        i++;
    return i;
}

int64_t wordpiece_encode(const wordpiece *w, const char *text, size_t bytes, int32_t *ids, int64_t capacity,
                         size_t *bad) {
    encoder e = {.w = w, .ids = ids, .capacity = capacity - 1};
    push(&e, w->special[START]);
    for (size_t i = 0; i < bytes;) {
        const int special = special_at(w, text + i, bytes - i);
        if (special < SPECIALS) {
            end_text(&e);
            push(&e, w->special[special]);
            i += strlen(special_names[special]);
            continue;
        }
        int32_t c = 0;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(bytes - i), &c);
        if (n <= 0) {
            *bad = i;
            return -1;
        }
        add_character(&e, c);
        i += (size_t)n;
    }
    end_text(&e);
    ids[e.count] = w->special[END];
    return e.count + 1;
}
