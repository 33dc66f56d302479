/* SPDX-License-Identifier: Apache-2.0 */
#include "io/npy_header.h"

#include "base/error.h"
#include "base/mem.h"
#include <string.h>

typedef struct {
    const char *path, *text;
    size_t length, at;
} cursor;

static bool peek(const cursor *c, char wanted) { return c->at < c->length && c->text[c->at] == wanted; }

static bool take(cursor *c, char wanted) {
    const bool there = peek(c, wanted);
    c->at += there;
    return there;
}

static bool take_word(cursor *c, const char *word) {
    const size_t n = strlen(word);
    const bool there = c->length - c->at >= n && memcmp(c->text + c->at, word, n) == 0;
    c->at += there ? n : 0;
    return there;
}

static void skip_space(cursor *c) {
    while (take(c, ' ') || take(c, '\t') || take(c, '\n') || take(c, '\r'))
        ;
}

static bool at_digit(const cursor *c) { return c->at < c->length && c->text[c->at] >= '0' && c->text[c->at] <= '9'; }

static clattn_status expected(const cursor *c, const char *what) {
    if (c->at >= c->length)
        return cla_error(CLATTN_E_FORMAT, "%s: the npy header ends after %zu bytes, where %s is expected", c->path,
                         c->length, what);
    const unsigned char found = (unsigned char)c->text[c->at];
    return cla_error(CLATTN_E_FORMAT, "%s: byte %zu of the npy header is 0x%02x '%c', where %s is expected", c->path,
                     c->at, found, found >= 0x20 && found < 0x7f ? found : '?', what);
}

/* 'text' or "text" in printable ASCII without escapes, which is all that numpy writes. */
static clattn_status parse_string(cursor *c, const char *what, char *text, size_t size) {
    const char quote = peek(c, '"') ? '"' : '\'';
    size_t n = 0;
    if (!take(c, quote))
        return expected(c, what);
    for (; c->at < c->length && !peek(c, quote); c->at++) {
        const char found = c->text[c->at];
        if (found < 0x20 || found > 0x7e || found == '\\' || n + 1 >= size)
            return expected(c, "the end of a short string");
        text[n++] = found;
    }
    text[n] = '\0';
    return take(c, quote) ? CLATTN_OK : expected(c, "a quote");
}

static const struct {
    clattn_dtype dtype;
    const char *descr;
} types[] = {{CLATTN_F32, "<f4"}, {CLATTN_F64, "<f8"}, {CLATTN_F16, "<f2"}, {CLATTN_I32, "<i4"},
             {CLATTN_I64, "<i8"}, {CLATTN_U8, "|u1"},  {CLATTN_BOOL, "|b1"}};
#define TYPES (sizeof types / sizeof *types)

const char *cla_npy_descr(clattn_dtype dtype) {
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].descr;
    return NULL;
}

static clattn_status parse_descr(cursor *c, cla_npy_header *header) {
    char text[64];
    const clattn_status status =
        parse_string(c, "a string such as '<f4' (arrays of records are not supported)", text, sizeof text);
    if (status != CLATTN_OK)
        return status;
    for (size_t i = 0; i < TYPES; i++) {
        const bool bytes = types[i].descr[0] == '|'; /* one byte: any order will do, more: it must be said */
        if (text[0] && strchr(bytes ? "|<>" : "<>", text[0]) && strcmp(text + 1, types[i].descr + 1) == 0) {
            header->dtype = types[i].dtype;
            header->big_endian = text[0] == '>';
            return CLATTN_OK;
        }
    }
    return cla_error(CLATTN_E_DTYPE,
                     "%s: the npy dtype '%s' is none of f2 f4 f8 i4 i8 (after < or >), |u1 and |b1; "
                     "convert it first, as by numpy's astype",
                     c->path, text);
}

static clattn_status parse_order(cursor *c, cla_npy_header *header) {
    header->fortran_order = take_word(c, "True");
    return header->fortran_order || take_word(c, "False") ? CLATTN_OK : expected(c, "fortran_order's True or False");
}

static clattn_status parse_size(cursor *c, int64_t *size) {
    const bool zero = peek(c, '0');
    const size_t start = c->at;
    if (!at_digit(c))
        return expected(c, "a size of the shape, or its ')'");
    for (*size = 0; at_digit(c); c->at++)
        if (!cla_mul(*size, 10, size) || !cla_add(*size, c->text[c->at] - '0', size))
            return cla_error(CLATTN_E_FORMAT, "%s: axis sizes above 2^63 - 1 are not possible (byte %zu of the header)",
                             c->path, start);
    if (zero && c->at > start + 1) {
        c->at = start;
        return expected(c, "a number without leading zeros");
    }
    return CLATTN_OK;
}

/* () or (2,) or (2, 3) or (2, 3,) but not (2): that is a number in brackets. */
static clattn_status parse_shape(cursor *c, cla_npy_header *header) {
    bool comma = true;
    if (!take(c, '('))
        return expected(c, "the shape's '('");
    skip_space(c);
    while (!take(c, ')')) {
        int64_t size = 0;
        if (!comma)
            return expected(c, "a ',' or the shape's ')'");
        const clattn_status status = parse_size(c, &size);
        if (status != CLATTN_OK)
            return status;
        if (header->rank == CLATTN_MAX_RANK)
            return cla_error(CLATTN_E_FORMAT, "%s: the shape has more than %d axes", c->path, CLATTN_MAX_RANK);
        header->shape[header->rank++] = size;
        skip_space(c);
        comma = take(c, ',');
        skip_space(c);
    }
    if (header->rank == 1 && !comma)
        return cla_error(CLATTN_E_FORMAT, "%s: the shape (%lld) is not a tuple; it must read (%lld,)", c->path,
                         (long long)header->shape[0], (long long)header->shape[0]);
    return CLATTN_OK;
}

static const struct {
    const char *key;
    clattn_status (*parse)(cursor *c, cla_npy_header *header);
} fields[] = {{"descr", parse_descr}, {"fortran_order", parse_order}, {"shape", parse_shape}};
#define FIELDS (sizeof fields / sizeof *fields)

static clattn_status parse_field(cursor *c, cla_npy_header *header, bool *seen) {
    char key[64];
    clattn_status status = parse_string(c, "a key in quotes", key, sizeof key);
    if (status != CLATTN_OK)
        return status;
    size_t i = 0;
    while (i < FIELDS && strcmp(fields[i].key, key) != 0)
        i++;
    if (i == FIELDS || seen[i])
        return cla_error(CLATTN_E_FORMAT, "%s: the npy header has %s key '%s'", c->path,
                         i == FIELDS ? "the unknown" : "twice the", key);
    seen[i] = true;
    skip_space(c);
    if (!take(c, ':'))
        return expected(c, "':'");
    skip_space(c);
    return fields[i].parse(c, header);
}

clattn_status cla_npy_header_parse(const char *path, const char *text, size_t length, cla_npy_header *header) {
    cursor c = {.path = path, .text = text, .length = length};
    bool seen[FIELDS] = {false}, comma = true;
    *header = (cla_npy_header){0};
    skip_space(&c);
    if (!take(&c, '{'))
        return expected(&c, "'{'");
    skip_space(&c);
    while (!take(&c, '}')) {
        if (!comma)
            return expected(&c, "',' or '}'");
        const clattn_status status = parse_field(&c, header, seen);
        if (status != CLATTN_OK)
            return status;
        skip_space(&c);
        comma = take(&c, ',');
        skip_space(&c);
    }
    skip_space(&c);
    if (c.at < length)
        return expected(&c, "nothing but spaces after '}'");
    for (size_t i = 0; i < FIELDS; i++)
        if (!seen[i])
            return cla_error(CLATTN_E_FORMAT, "%s: the npy header lacks the key '%s'", path, fields[i].key);
    return CLATTN_OK;
}
