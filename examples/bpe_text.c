/* SPDX-License-Identifier: Apache-2.0 */
#include "bpe_text.h"

#include "complain.h"
#include <string.h>
#include <utf8proc.h>

/* ---- cutting ---- */

typedef enum { LETTER, NUMBER, SPACE, OTHER } kind;

static kind kind_of(utf8proc_int32_t c) {
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return NUMBER;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return SPACE;
    default:
        return (c >= '\t' && c <= '\r') || c == 0x85 ? SPACE : OTHER;
    }
}

/* The kind of the character at `at`, of so many bytes; 0 at the end. */
static kind look(const char *text, size_t at, size_t length, size_t *bytes) {
    utf8proc_int32_t c = 0;
    *bytes = 0;
    if (at < length)
        *bytes = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(length - at), &c);
    return kind_of(c);
}

/* The end of the characters of a kind from `at` on; *last is where the last of them begins. */
static size_t run_of(const char *text, size_t at, size_t length, kind wanted, size_t *last) {
    size_t bytes;
    for (*last = at; look(text, at, length, &bytes) == wanted && bytes > 0; at += bytes)
        *last = at;
    return at;
}

size_t bpe_piece(const char *text, size_t length) {
    static const char *const endings[] = {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"};
    size_t bytes, last;
    const kind first = look(text, 0, length, &bytes);
    if (first == NUMBER)
        return bytes;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (strlen(endings[i]) <= length && memcmp(text, endings[i], strlen(endings[i])) == 0)
            return strlen(endings[i]);
    const size_t space = text[0] == ' ';
    const kind next = look(text, space, length, &bytes);
    if (bytes > 0 && (next == LETTER || next == OTHER))
        return run_of(text, space, length, next, &last);
    const size_t end = run_of(text, 0, length, SPACE, &last);
    const kind after = look(text, end, length, &bytes);
    return bytes == 0 || after == NUMBER || last == 0 ? end : last; /* the last space goes with what follows */
}

bool bpe_is_utf8(const char *text, size_t length) {
    utf8proc_int32_t c;
    for (size_t at = 0; at < length;) {
        const utf8proc_ssize_t bytes =
            utf8proc_iterate((const utf8proc_uint8_t *)text + at, (utf8proc_ssize_t)(length - at), &c);
        if (bytes <= 0)
            return complain("the text is not UTF-8: byte %zu of %zu is 0x%02x", at, length, (unsigned char)text[at]);
        at += (size_t)bytes;
    }
    return true;
}

/* ---- whole characters ---- */

void bpe_stream_put(bpe_stream *s, const char *bytes, size_t length, FILE *to) {
    for (size_t i = 0; i < length; i++) {
        utf8proc_int32_t c;
        s->kept[s->count++] = (unsigned char)bytes[i];
        while (s->count > 0) {
            const unsigned char lead = s->kept[0];
            const size_t wanted = lead < 0x80   ? 1
                                  : lead < 0xc2 ? 0
                                  : lead < 0xe0 ? 2
                                  : lead < 0xf0 ? 3
                                  : lead < 0xf5 ? 4
                                                : 0;
            bool more = s->count < wanted; /* so far what is there may begin one */
            for (size_t k = 1; k < s->count; k++)
                more = more && (s->kept[k] & 0xc0) == 0x80;
            if (more)
                break;
            const utf8proc_ssize_t n = utf8proc_iterate(s->kept, (utf8proc_ssize_t)s->count, &c);
            const size_t used = n > 0 ? (size_t)n : 1;
            if (n > 0)
                fwrite(s->kept, 1, used, to);
            else
                fputs("\xef\xbf\xbd", to);
            s->count -= used;
            memmove(s->kept, s->kept + used, s->count);
        }
    }
}

void bpe_stream_end(bpe_stream *s, FILE *to) {
    if (s->count > 0)
        fputs("\xef\xbf\xbd", to);
    s->count = 0;
}
