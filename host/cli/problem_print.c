/* SPDX-License-Identifier: Apache-2.0 */
/* A problem as text: the words of problem_text.h, in their order. */
#include "problem_text.h"
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct printer {
    char *buffer;
    size_t size, used;
} printer;

#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
static void
put(printer *out, const char *format, ...) {
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(out->buffer + out->used, out->size - out->used, format, list);
    va_end(list);
    if (n > 0)
        out->used = out->used + (size_t)n < out->size ? out->used + (size_t)n : out->size - 1;
}

static void put_side(printer *out, int64_t side) {
    if (side == CLATTN_UNLIMITED)
        put(out, "inf");
    else
        put(out, "%" PRId64, side);
}

/* The shortest digits that give the same number back; whole numbers without an exponent. */
static void put_number(printer *out, double x) {
    char digits[40];
    if (x == floor(x) && fabs(x) < 1e6) {
        put(out, "%.0f", x);
        return;
    }
    for (int precision = 1; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
        if (strtod(digits, NULL) == x)
            break;
    }
    put(out, "%s", digits);
}

static void put_types(printer *out, const cla_problem_text *t) {
    put(out, " %s", clattn_dtype_name(t->dtype));
    if (t->k_dtype != t->dtype || t->v_dtype != t->dtype)
        put(out, " kv=%s", clattn_dtype_name(t->k_dtype));
    if (t->v_dtype != t->k_dtype)
        put(out, ",%s", clattn_dtype_name(t->v_dtype));
    if (t->o_dtype != t->dtype)
        put(out, " o=%s", clattn_dtype_name(t->o_dtype));
}

static void put_align(printer *out, const char *word, const cla_problem_text *t) {
    if (t->align == CLATTN_ALIGN_OFFSET)
        put(out, "%s=%" PRId64, word, t->offset);
    else if (t->align != CLATTN_ALIGN_UNSET)
        put(out, "%s=%s", word, t->align == CLATTN_ALIGN_BOTTOM_RIGHT ? "bottom-right" : "top-left");
}

static void put_restrictions(printer *out, const cla_problem_text *t) {
    if (t->causal && t->align == CLATTN_ALIGN_UNSET)
        put(out, " causal");
    else if (t->causal)
        put_align(out, " causal", t);
    if (t->has_window) {
        put(out, " window=");
        put_side(out, t->window_left);
        put(out, ",");
        put_side(out, t->window_right);
    }
    if (!t->causal)
        put_align(out, " align", t);
    put(out, "%s", t->prefix ? " prefix" : "");
}

static void put_named(printer *out, const char *word, double x) {
    put(out, " %s=", word);
    put_number(out, x);
}

char *cla_problem_text_print(const cla_problem_text *problem, char *buffer, size_t size) {
    const cla_problem_text *t = problem;
    if (size == 0)
        return buffer;
    printer out = {buffer, size, 0};
    put(&out, "b%" PRId64 " h%" PRId64, t->batch, t->heads);
    if (t->key_heads != t->heads)
        put(&out, "/%" PRId64, t->key_heads);
    if (t->queries == t->keys)
        put(&out, " n%" PRId64, t->queries);
    else
        put(&out, " q%" PRId64 " k%" PRId64, t->queries, t->keys);
    put(&out, " d%" PRId64, t->dim);
    if (t->value_dim != t->dim)
        put(&out, " v%" PRId64, t->value_dim);
    put_types(&out, t);
    put_restrictions(&out, t);
    if (t->softcap > 0)
        put_named(&out, "softcap", t->softcap);
    put(&out, "%s%s%s%s%s%s", t->alibi ? " alibi" : "", t->keep ? " keep" : "", t->bias ? " bias" : "",
        t->sinks ? " sinks" : "", t->lengths ? " lengths" : "", t->query_lengths ? " qlengths" : "");
    put(&out, "%s%s", t->segments ? " segments" : "", t->varlen ? " varlen" : "");
    if (t->page_size > 0)
        put(&out, " pages=%" PRId64, t->page_size);
    put(&out, "%s", t->invariant ? " invariant" : "");
    if (t->has_scale)
        put_named(&out, "scale", t->scale);
    return buffer;
}
