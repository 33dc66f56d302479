/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json_scan.h"

#include "clattn/tensor.h"
#include <string.h>

enum {
    MAX_MEMBERS = 1 << 20, /* bounds what the parser allocates: up to some 300 bytes each, from 6 in the file */
    MAX_DIGITS = 16        /* 2^53 has 16 */
};

typedef struct {
    const unsigned char *text;
    size_t length, at, members;
    const char *expected; /* what was not found at `at` */
} scanner;

static bool fail(scanner *s, const char *expected) {
    s->expected = expected;
    return false;
}

static bool peek(const scanner *s, char wanted) { return s->at < s->length && s->text[s->at] == (unsigned char)wanted; }

static bool take(scanner *s, char wanted) {
    const bool there = peek(s, wanted);
    s->at += there;
    return there;
}

static void skip_space(scanner *s) {
    while (take(s, ' ') || take(s, '\t') || take(s, '\n') || take(s, '\r'))
        ;
}

static bool scan_hex(scanner *s, unsigned *code) {
    *code = 0;
    for (int i = 0; i < 4; i++, s->at++) {
        const int c = s->at < s->length ? s->text[s->at] : 0;
        if (c >= '0' && c <= '9')
            *code = *code * 16 + (unsigned)(c - '0');
        else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'))
            *code = *code * 16 + (unsigned)((c | 0x20) - 'a' + 10);
        else
            return fail(s, "four hexadecimal digits after \\u");
    }
    return true;
}

static bool scan_escape(scanner *s) {
    unsigned code, low;
    if (s->at < s->length && s->text[s->at] && strchr("\"\\/bfnrt", s->text[s->at])) {
        s->at++;
        return true;
    }
    if (!take(s, 'u'))
        return fail(s, "an escape of JSON");
    if (!scan_hex(s, &code))
        return false;
    if (code == 0 || (code >= 0xdc00 && code < 0xe000))
        return fail(s, "a character before here (neither \\u0000 nor half a pair)");
    if (code < 0xd800 || code >= 0xe000)
        return true;
    if (!take(s, '\\') || !take(s, 'u'))
        return fail(s, "the second half of a \\u pair");
    if (!scan_hex(s, &low))
        return false;
    return (low >= 0xdc00 && low < 0xe000) || fail(s, "the second half of a \\u pair before here");
}

static bool scan_string(scanner *s) {
    if (!take(s, '"'))
        return fail(s, "a string");
    while (!take(s, '"')) {
        if (s->at >= s->length)
            return fail(s, "the end of a string");
        if (s->text[s->at] < 0x20)
            return fail(s, "no bare control character in a string");
        if (take(s, '\\')) {
            if (!scan_escape(s))
                return false;
            continue;
        }
        const size_t n = cla_utf8_bytes(s->text + s->at, s->length - s->at);
        if (n == 0)
            return fail(s, "UTF-8");
        s->at += n;
    }
    return true;
}

static bool scan_number(scanner *s) {
    const size_t start = s->at;
    while (s->at < s->length && s->text[s->at] >= '0' && s->text[s->at] <= '9')
        s->at++;
    if (s->at == start)
        return fail(s, "a whole number (nothing negative, nothing nested here)");
    if (s->at - start > MAX_DIGITS || (s->text[start] == '0' && s->at - start > 1)) {
        s->at = start;
        return fail(s, "a number of at most 16 digits without leading zeros");
    }
    return true;
}

static bool scan_numbers(scanner *s) {
    int count = 0;
    if (!take(s, '['))
        return fail(s, "a string, or a list of numbers");
    skip_space(s);
    if (take(s, ']'))
        return true;
    do {
        if (count++ == CLATTN_MAX_RANK)
            return fail(s, "the end of a list, since tensors of more than 8 axes are not supported");
        skip_space(s);
        if (!scan_number(s))
            return false;
        skip_space(s);
    } while (take(s, ','));
    return take(s, ']') || fail(s, "',' or ']'");
}

/* Recursion ends at depth 2: values of the outer object are objects, theirs are strings and lists. */
static bool scan_object(scanner *s, int depth) {
    if (!take(s, '{'))
        return fail(s, "'{'");
    skip_space(s);
    if (take(s, '}'))
        return true;
    do {
        if (s->members++ == MAX_MEMBERS)
            return fail(s, "the end, since more than 1048576 entries are refused");
        skip_space(s);
        if (!scan_string(s))
            return false;
        skip_space(s);
        if (!take(s, ':'))
            return fail(s, "':'");
        skip_space(s);
        if (depth == 1 ? !scan_object(s, 2) : peek(s, '"') ? !scan_string(s) : !scan_numbers(s))
            return false;
        skip_space(s);
    } while (take(s, ','));
    return take(s, '}') || fail(s, "',' or '}'");
}

clattn_status cla_json_scan(const char *path, const char *text, size_t length) {
    scanner s = {.text = (const unsigned char *)text, .length = length};
    if (scan_object(&s, 1)) {
        skip_space(&s);
        if (s.at < length)
            s.expected = "nothing but spaces after the object";
    }
    if (!s.expected)
        return CLATTN_OK;
    if (s.at >= length)
        return cla_error(CLATTN_E_FORMAT, "%s: the header's JSON ends after %zu bytes, where %s is expected", path,
                         length, s.expected);
    return cla_error(CLATTN_E_FORMAT, "%s: byte %zu of the header's JSON is 0x%02x, where %s is expected", path, s.at,
                     s.text[s.at], s.expected);
}

bool cla_json_append(cla_str *s, const char *text) {
    const size_t length = strlen(text);
    for (size_t i = 0, n; i < length; i += n) {
        n = cla_utf8_bytes((const unsigned char *)text + i, length - i);
        if (n == 0)
            return false;
    }
    cla_str_append(s, "\"");
    for (size_t i = 0; i < length;) {
        size_t plain = 0;
        while (i + plain < length && (unsigned char)text[i + plain] >= 0x20 && !strchr("\"\\", text[i + plain]))
            plain++;
        cla_str_append(s, "%.*s", (int)plain, text + i);
        i += plain;
        if (i < length) {
            const unsigned char c = (unsigned char)text[i++];
            const char *letter = strchr("\bb\ff\nn\rr\tt\"\"\\\\", c); /* pairs: what, and its letter */
            if (letter)
                cla_str_append(s, "\\%c", letter[1]);
            else
                cla_str_append(s, "\\u%04x", c);
        }
    }
    cla_str_append(s, "\"");
    return true;
}
