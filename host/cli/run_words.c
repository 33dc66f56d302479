/* SPDX-License-Identifier: Apache-2.0 */
#include "run_words.h"

#include "args.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { TENSORS = 3, FIELDS = 36 };

typedef struct field {
    const char *name, *option; /* option NULL: a tensor, which keeps its name */
    const char *value;         /* file, list or NULL */
    bool plain;                /* an English word too: only in front of a text and between `` */
} field;

/* The one table: fields of clattn_attention_args, and how they were given. */
static void list_fields(const cla_run_options *o, field fields[FIELDS]) {
    const char *slopes = o->alibi ? "alibi" : "alibi-slopes";
    const field all[] = {{"q", NULL, o->q, false},
                         {"k", NULL, o->k, false},
                         {"v", NULL, o->v, false},
                         {"keep", "keep", o->keep, true},
                         {"drop", "drop", o->drop, true},
                         {"bias", "bias", o->bias, true},
                         {"sinks", "sinks", o->sinks, true},
                         {"scale", "scale", NULL, true},
                         {"has_scale", "scale", NULL, false},
                         {"softcap", "softcap", NULL, true},
                         {"causal", "causal", NULL, true},
                         {"align", "align", NULL, true},
                         {"offsets", o->offsets_option, o->offsets, true},
                         {"window", "window", NULL, true},
                         {"has_window", "window", NULL, false},
                         {"alibi_slopes", slopes, o->slopes, false},
                         {"key_lengths", o->lengths_option, o->lengths, false},
                         {"query_lengths", "query-lengths", o->query_lengths, false},
                         {"prefix_lengths", "prefix-lengths", o->prefix_lengths, false},
                         {"query_segments", "query-segments", o->query_segments, false},
                         {"key_segments", "key-segments", o->key_segments, false},
                         {"sequences", "cu-queries", o->cu_queries, true},
                         {"cu_queries", "cu-queries", o->cu_queries, false},
                         {"cu_keys", "cu-keys", o->cu_keys, false},
                         {"block_table", "block-table", o->block_table, false},
                         {"table_pages", "block-table", o->block_table, false},
                         {"short_masks", "short-masks", NULL, false},
                         {"batch_invariant", "batch-invariant", NULL, false},
                         {"max_workspace", "max-workspace", NULL, false},
                         {"lse", "lse", o->lse, true},
                         {"weights", "weights", o->weights, true},
                         {"weights_form", "weights-form", NULL, false},
                         {"weights_mean", "weights-mean", NULL, false},
                         {"weights_queries", "weights-rows", o->weights_rows, false},
                         {"weights_heads", "weights-heads", o->weights_heads, false},
                         {"column_sums", "column-sums", o->column_sums, false}};
    _Static_assert(sizeof all / sizeof *all == FIELDS, "a field is missing");
    memcpy(fields, all, sizeof all);
}

static const field *find(const field *fields, const char *word, size_t length) {
    for (int i = 0; i < FIELDS; i++)
        if (strlen(fields[i].name) == length && strncmp(fields[i].name, word, length) == 0)
            return &fields[i];
    return NULL;
}

static bool is_of_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* What stands for a word of the text; "" when it stays. */
static void translate(const field *fields, const char *text, const char *word, size_t length, bool *named, char *out,
                      size_t size) {
    const field *f = find(fields, word, length);
    const char end = word[length];
    const bool front = word == text && (end == ':' || strncmp(word + length, " [", 2) == 0);
    const bool quoted = word > text && word[-1] == '`' && end == '`';
    out[0] = '\0';
    if (f && !f->option && f->value && !named[f - fields])
        snprintf(out, size, "%s (%.300s)", f->name, f->value);
    else if (f && f->option && (front || quoted || !f->plain))
        snprintf(out, size, front && f->value ? "--%s %.300s" : "--%s", f->option, f->value);
    if (f && f - fields < TENSORS)
        named[f - fields] = true;
}

const char *cla_run_words(const cla_run_options *o, const char *text, char *out, size_t size) {
    field fields[FIELDS];
    bool named[TENSORS] = {false};
    size_t at = 0;
    list_fields(o, fields);
    for (const char *c = text; *c && at + 1 < size;) {
        char other[400];
        size_t length = 0;
        while (is_of_word(c[length]))
            length++;
        translate(fields, text, c, length, named, other, sizeof other);
        const size_t taken = length > 0 ? length : 1;
        const int written = other[0] ? snprintf(out + at, size - at, "%s", other)
                                     : snprintf(out + at, size - at, "%.*s", (int)taken, c);
        at += written > 0 ? (size_t)written : 0;
        c += taken;
    }
    out[at < size ? at : size - 1] = '\0';
    return out;
}

int cla_run_fail(const cla_run_options *o, clattn_status status, const char *what) {
    char text[2000];
    const char *said = clattn_last_error();
    return cla_fail(cla_exit_of(status), "%s%s%s", what ? what : "", what ? ": " : "",
                    cla_run_words(o, said[0] ? said : clattn_status_text(status), text, sizeof text));
}
