/* SPDX-License-Identifier: Apache-2.0 */
#include "bpe.h"

#include "bpe_text.h"
#include "complain.h"
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { CONTROL = 3, USER_DEFINED = 4 }; /* types of tokens that are matched in the text as they are */

typedef struct {
    int32_t left, right, rank, id;
} merge;

typedef struct {
    const char *text;
    size_t length;
    int32_t id;
} special;

typedef struct {
    int32_t id, previous, next;
} symbol;

typedef struct {
    int32_t rank, at, left, right, id;
} candidate;

struct bpe {
    const clattn_gguf_string *texts; /* of the tokens, as in the file */
    char **bytes;                    /* what they stand for */
    size_t *lengths;
    int32_t count;
    special *specials; /* the longest first */
    size_t special_count;
    bool begins_special[256];
    int32_t *slots; /* hash table of ids, by text */
    merge *merges;  /* hash table, by left and right; id -1 is free */
    size_t slot_mask, merge_mask;
    int32_t byte_id[256];
    char byte_text[256][3]; /* a byte's letter in UTF-8 */
    int16_t byte_of[512];   /* of a letter; -1: it stands for none */
    symbol *symbols;        /* of the piece at hand */
    candidate *heap;
    size_t symbol_room, heap_room, heap_count;
};

/* ---- bytes as letters ---- */

/* GPT-2's: printable characters stand for themselves, the other bytes are 256, 257 ... in turn. */
static void name_bytes(bpe *b) {
    int next = 256;
    for (int i = 0; i < 512; i++)
        b->byte_of[i] = -1;
    for (int i = 0; i < 256; i++) {
        const bool itself = (i >= '!' && i <= '~') || (i >= 0xa1 && i <= 0xac) || i >= 0xae;
        const int letter = itself ? i : next++;
        b->byte_of[letter] = (int16_t)i;
        b->byte_text[i][utf8proc_encode_char(letter, (utf8proc_uint8_t *)b->byte_text[i])] = 0;
    }
}

/* What a token's text stands for, or the text itself where it is no text of such letters. */
static bool spell(bpe *b, int32_t id, bool as_it_is) {
    const clattn_gguf_string text = b->texts[id];
    char *to = malloc(text.length + 1);
    size_t n = 0;
    utf8proc_int32_t letter = 0;
    if (!to)
        return complain("out of memory for the vocabulary");
    for (size_t i = 0; i < text.length && !as_it_is;) {
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text.text + i, (utf8proc_ssize_t)(text.length - i), &letter);
        as_it_is = bytes <= 0 || letter >= 512 || b->byte_of[letter] < 0;
        if (!as_it_is)
            to[n++] = (char)b->byte_of[letter], i += (size_t)bytes;
    }
    if (as_it_is)
        memcpy(to, text.text, n = text.length);
    to[n] = 0;
    b->bytes[id] = to;
    b->lengths[id] = n;
    return true;
}

/* ---- tables ---- */

static size_t hash_text(const char *text, size_t length) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
    return (size_t)(h ^ h >> 29);
}

static size_t hash_pair(int32_t left, int32_t right) {
    const uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(h ^ h >> 32);
}

/* The slot of a text: that of its id, or a free one. */
static size_t slot_of(const bpe *b, const char *text, size_t length) {
    size_t i = hash_text(text, length) & b->slot_mask;
    for (int32_t id; (id = b->slots[i]) >= 0; i = (i + 1) & b->slot_mask)
        if (b->texts[id].length == length && memcmp(b->texts[id].text, text, length) == 0)
            break;
    return i;
}

static int32_t find_text(const bpe *b, const char *text, size_t length) { return b->slots[slot_of(b, text, length)]; }

static merge *merge_of(const bpe *b, int32_t left, int32_t right) {
    size_t i = hash_pair(left, right) & b->merge_mask;
    while (b->merges[i].id >= 0 && (b->merges[i].left != left || b->merges[i].right != right))
        i = (i + 1) & b->merge_mask;
    return &b->merges[i];
}

/* A power of two that leaves half of the table free. */
static size_t table_size(size_t count) {
    size_t size = 16;
    while (size < 2 * count)
        size *= 2;
    return size;
}

static int longest_first(const void *a, const void *b) {
    const size_t n = ((const special *)a)->length, m = ((const special *)b)->length;
    return n > m ? -1 : n < m;
}

static bool read_tokens(bpe *b, const clattn_array *types) {
    const size_t size = table_size((size_t)b->count);
    b->bytes = calloc((size_t)b->count, sizeof *b->bytes);
    b->lengths = calloc((size_t)b->count, sizeof *b->lengths);
    b->specials = calloc((size_t)b->count, sizeof *b->specials);
    b->slots = malloc(size * sizeof *b->slots);
    if (!b->bytes || !b->lengths || !b->specials || !b->slots)
        return complain("out of memory for the vocabulary");
    if (types->shape[0] != b->count)
        return complain("the vocabulary has %d tokens and %lld types", b->count, (long long)types->shape[0]);
    memset(b->slots, 0xff, size * sizeof *b->slots);
    b->slot_mask = size - 1;
    for (int32_t id = 0; id < b->count; id++) {
        const clattn_gguf_string text = b->texts[id];
        const int64_t type = ((const int64_t *)types->data)[id];
        const bool whole = (type == CONTROL || type == USER_DEFINED) && text.length > 0;
        const size_t slot = slot_of(b, text.text, text.length);
        if (b->slots[slot] >= 0)
            return complain("the tokens %d and %d are the same text", b->slots[slot], id);
        b->slots[slot] = id;
        if (whole) {
            b->specials[b->special_count++] = (special){text.text, text.length, id};
            b->begins_special[(unsigned char)text.text[0]] = true;
        }
        if (!spell(b, id, whole))
            return false;
    }
    qsort(b->specials, b->special_count, sizeof *b->specials, longest_first);
    for (int i = 0; i < 256; i++)
        b->byte_id[i] = find_text(b, b->byte_text[i], strlen(b->byte_text[i]));
    return true;
}

/* "left right": both are tokens, and so is what they make, for which there is room in `joined`. */
static bool read_merge(bpe *b, int32_t rank, clattn_gguf_string line, char *joined) {
    const char *cut = memchr(line.text, ' ', line.length);
    const size_t left = cut ? (size_t)(cut - line.text) : 0, right = cut ? line.length - left - 1 : 0;
    memcpy(joined, line.text, left);
    memcpy(joined + left, cut ? cut + 1 : "", right);
    const int32_t l = find_text(b, line.text, left), r = find_text(b, line.text + left + (cut ? 1 : 0), right);
    const int32_t id = find_text(b, joined, left + right);
    if (left == 0 || right == 0 || l < 0 || r < 0 || id < 0)
        return complain("merge %d, \"%.60s\", is not of two tokens that make a third", rank, line.text);
    merge *m = merge_of(b, l, r);
    if (m->id < 0)
        *m = (merge){l, r, rank, id};
    return true;
}

static bool read_merges(bpe *b, const clattn_gguf *file) {
    const clattn_gguf_string *lines;
    size_t count, longest = 0;
    if (!done(clattn_gguf_strings(file, "tokenizer.ggml.merges", &lines, &count)))
        return false;
    for (size_t i = 0; i < count; i++)
        longest = lines[i].length > longest ? lines[i].length : longest;
    const size_t size = table_size(count);
    char *joined = malloc(longest + 1);
    b->merges = malloc(size * sizeof *b->merges);
    if (!joined || !b->merges || count > INT32_MAX) {
        free(joined);
        return complain("no room for %zu merges", count);
    }
    b->merge_mask = size - 1;
    memset(b->merges, 0xff, size * sizeof *b->merges);
    bool good = true;
    for (size_t i = 0; i < count && good; i++)
        good = read_merge(b, (int32_t)i, lines[i], joined);
    free(joined);
    return good;
}

/* A tokenizer without any tables yet becomes one. */
static bool fill(bpe *b, const clattn_gguf *file, clattn_array *types) {
    const char *model = NULL;
    size_t count = 0;
    if (!done(clattn_gguf_text(file, "tokenizer.ggml.model", &model)) ||
        !done(clattn_gguf_strings(file, "tokenizer.ggml.tokens", &b->texts, &count)) ||
        !done(clattn_gguf_numbers(file, "tokenizer.ggml.token_type", types)))
        return false;
    if (!model || strcmp(model, "gpt2") != 0)
        return complain("the tokenizer is \"%.60s\", not \"gpt2\", byte-level BPE", model ? model : "");
    if (count == 0 || count > INT32_MAX || types->dtype != CLATTN_I64)
        return complain("the vocabulary has %zu tokens, or types that are no whole numbers", count);
    b->count = (int32_t)count;
    name_bytes(b);
    return read_tokens(b, types) && read_merges(b, file);
}

bpe *bpe_create(const clattn_gguf *file) {
    clattn_array types = {0};
    bpe *b = calloc(1, sizeof *b);
    if (!b) {
        complain("out of memory for the vocabulary");
        return NULL;
    }
    const bool good = fill(b, file, &types);
    clattn_array_free(&types);
    if (!good) {
        bpe_destroy(b);
        return NULL;
    }
    return b;
}

void bpe_destroy(bpe *b) {
    if (!b)
        return;
    for (int32_t id = 0; b->bytes && id < b->count; id++)
        free(b->bytes[id]);
    free(b->bytes);
    free(b->lengths);
    free(b->specials);
    free(b->slots);
    free(b->merges);
    free(b->symbols);
    free(b->heap);
    free(b);
}

int32_t bpe_find(const bpe *b, const char *text) { return find_text(b, text, strlen(text)); }

int32_t bpe_count(const bpe *b) { return b->count; }

const char *bpe_bytes(const bpe *b, int32_t id, size_t *length) {
    const bool there = id >= 0 && id < b->count;
    *length = there ? b->lengths[id] : 0;
    return there ? b->bytes[id] : "";
}

/* ---- merging ---- */

bool bpe_push(bpe_ids *ids, int32_t id) {
    if (ids->count == ids->capacity) {
        const size_t capacity = 2 * ids->capacity + 64;
        int32_t *at = realloc(ids->at, capacity * sizeof *at);
        if (!at)
            return complain("out of memory for %zu tokens", capacity);
        ids->at = at;
        ids->capacity = capacity;
    }
    ids->at[ids->count++] = id;
    return true;
}

static bool before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

/* The pair that begins at symbol i, where it can be merged. There is room: each merge adds two pairs at most. */
static void push_pair(bpe *b, int32_t i) {
    if (i < 0 || b->symbols[i].next < 0)
        return;
    const int32_t left = b->symbols[i].id, right = b->symbols[b->symbols[i].next].id;
    const merge *m = merge_of(b, left, right);
    if (m->id < 0)
        return;
    size_t at = b->heap_count++;
    const candidate new = {m->rank, i, left, right, m->id};
    for (; at > 0 && before(&new, &b->heap[(at - 1) / 2]); at = (at - 1) / 2)
        b->heap[at] = b->heap[(at - 1) / 2];
    b->heap[at] = new;
}

static candidate pop_pair(bpe *b) {
    const candidate first = b->heap[0], last = b->heap[--b->heap_count];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < b->heap_count; at = child) {
        if (child + 1 < b->heap_count && before(&b->heap[child + 1], &b->heap[child]))
            child++;
        if (!before(&b->heap[child], &last))
            break;
        b->heap[at] = b->heap[child];
    }
    b->heap[at] = last;
    return first;
}

static bool make_room(bpe *b, size_t length) {
    if (length <= b->symbol_room)
        return true;
    symbol *symbols = realloc(b->symbols, length * sizeof *symbols);
    if (!symbols)
        return complain("out of memory for a word of %zu bytes", length);
    b->symbols = symbols;
    candidate *heap = realloc(b->heap, 3 * length * sizeof *heap);
    if (!heap)
        return complain("out of memory for a word of %zu bytes", length);
    b->heap = heap;
    b->symbol_room = length;
    return true;
}

/* Appends the tokens of one piece. */
static bool merge_piece(bpe *b, const char *text, size_t length, bpe_ids *ids) {
    int32_t count = 0;
    if (length > INT32_MAX / 4)
        return complain("a word of %zu bytes is too long", length);
    if (!make_room(b, length))
        return false;
    for (size_t i = 0; i < length; i++) { /* bytes that the vocabulary lacks are left out, as the reference does */
        const int32_t id = b->byte_id[(unsigned char)text[i]];
        if (id >= 0) {
            b->symbols[count] = (symbol){id, count - 1, count + 1};
            count++;
        }
    }
    if (count == 0)
        return true;
    b->symbols[count - 1].next = -1;
    b->heap_count = 0;
    for (int32_t i = 0; i < count; i++)
        push_pair(b, i);
    while (b->heap_count > 0) {
        const candidate c = pop_pair(b);
        symbol *s = &b->symbols[c.at];
        if (s->id != c.left || s->next < 0 || b->symbols[s->next].id != c.right)
            continue; /* merged otherwise meanwhile */
        s->id = c.id;
        b->symbols[s->next].id = -1;
        s->next = b->symbols[s->next].next;
        if (s->next >= 0)
            b->symbols[s->next].previous = c.at;
        push_pair(b, s->previous);
        push_pair(b, c.at);
    }
    for (int32_t i = 0; i >= 0; i = b->symbols[i].next)
        if (!bpe_push(ids, b->symbols[i].id))
            return false;
    return true;
}

/* ---- texts ---- */

static const special *special_at(const bpe *b, const char *text, size_t length) {
    for (size_t i = 0; b->begins_special[(unsigned char)text[0]] && i < b->special_count; i++)
        if (b->specials[i].length <= length && memcmp(b->specials[i].text, text, b->specials[i].length) == 0)
            return &b->specials[i];
    return NULL;
}

bool bpe_encode(bpe *b, const char *text, size_t length, bpe_ids *ids) {
    if (!bpe_is_utf8(text, length))
        return false;
    while (length > 0) {
        size_t end = 0;
        const special *found = NULL;
        while (end < length && !(found = special_at(b, text + end, length - end)))
            end++;
        for (size_t bytes; end > 0; text += bytes, length -= bytes, end -= bytes) {
            bytes = bpe_piece(text, end);
            if (!merge_piece(b, text, bytes, ids))
                return false;
        }
        if (found && !bpe_push(ids, found->id))
            return false;
        text += found ? found->length : 0;
        length -= found ? found->length : 0;
    }
    return true;
}
