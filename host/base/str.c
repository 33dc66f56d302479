/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"

#include "base/mem.h"
#include <stdarg.h>
#include <stdio.h>

void cla_str_append(cla_str *s, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (n < 0)
        s->failed = true;
    if (!s->failed && s->length + (size_t)n + 1 > s->capacity) {
        const size_t capacity = (s->length + (size_t)n + 1) * 2;
        if (cla_realloc(&s->text, capacity, 1, "text") == CLATTN_OK)
            s->capacity = capacity;
        else
            s->failed = true;
    }
    if (!s->failed) {
        vsnprintf(s->text + s->length, s->capacity - s->length, format, args);
        s->length += (size_t)n;
    }
    va_end(args);
}

const char *cla_str_text(const cla_str *s) { return s->text ? s->text : ""; }

clattn_status cla_str_status(const cla_str *s) {
    return s->failed ? cla_error(CLATTN_E_MEMORY, "text: out of memory at %zu bytes", s->length) : CLATTN_OK;
}

void cla_str_free(cla_str *s) {
    cla_free(s->text);
    *s = (cla_str){0};
}

size_t cla_utf8_bytes(const unsigned char *p, size_t left) {
    const size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (n == 1)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4 || left < n)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    const bool longer_than_needed = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    const bool surrogate = p[0] == 0xed && p[1] > 0x9f, above_unicode = p[0] == 0xf4 && p[1] > 0x8f;
    return longer_than_needed || surrogate || above_unicode ? 0 : n;
}
