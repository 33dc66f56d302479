/* SPDX-License-Identifier: Apache-2.0 */
/* Status names and texts, and the thread's message. */
#include "base/error.h"

#include <clattn/version.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char message[1024];

static void one_line(void) {
    for (char *c = message; *c; c++)
        if (*c == '\n' || *c == '\r')
            *c = ' ';
}

clattn_status cla_error(clattn_status status, const char *format, ...) {
    char text[sizeof message]; /* apart, since an argument may be the old message */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(message, text, sizeof message);
    one_line();
    return status;
}

void cla_error_prefix(const char *format, ...) {
    char prefix[256], text[sizeof message];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);
    snprintf(text, sizeof text, "%s", message);
    snprintf(message, sizeof message, "%s%.*s", prefix, (int)(sizeof message - sizeof prefix), text);
}

const char *clattn_last_error(void) { return message; }

clattn_status cla_reserved_zero(const uint64_t *words, size_t count, const char *type) {
    for (size_t i = 0; i < count; i++)
        if (words[i] != 0)
            return cla_error(
                CLATTN_E_UNSUPPORTED,
                "%s: reserved[%zu] is not 0: a field that clattn %s does not know is set, or the struct was not "
                "set to zero",
                type, i, clattn_version());
    return CLATTN_OK;
}

typedef struct {
    const char *name, *text;
} status_words;

static const status_words *words_of(clattn_status status) {
#define WORDS(name, value, text) [value] = {#name, text},
    static const status_words words[] = {CLATTN_STATUS_LIST(WORDS)};
#undef WORDS
    static const status_words unknown = {"CLATTN_E_?", "unknown status"};
    return (size_t)status < sizeof words / sizeof *words ? &words[status] : &unknown;
}

const char *clattn_status_name(clattn_status status) { return words_of(status)->name; }
const char *clattn_status_text(clattn_status status) { return words_of(status)->text; }

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
const char *clattn_version(void) {
    return TEXT(CLATTN_VERSION_MAJOR) "." TEXT(CLATTN_VERSION_MINOR) "." TEXT(CLATTN_VERSION_PATCH);
}
