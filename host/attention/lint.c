/* SPDX-License-Identifier: Apache-2.0 */
/* Usual mistakes. Each check looks at a checked problem and says at most one warning a tensor. */
#include <clattn/lint.h>

#include "attention/lint_read.h"
#include "attention/self_check.h"
#include "base/error.h"
#include "tensor/dtype.h"
#include "tensor/view.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { TEXT = 400, ROOM = 1 << 28 };
enum { KEEP, DROP, BIAS, MASKS };
static const char *const names[MASKS] = {"keep", "drop", "bias"};

typedef struct {
    const cla_problem *p;
    cla_reader masks[MASKS];
    bool hides_all, lengths_zero; /* said already */
    void (*sink)(void *user, const clattn_warning *warning);
    void *user;
} linter;

#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
static void
warn(const linter *l, clattn_lint_kind kind, const char *tensor, const char *format, ...) {
    char text[TEXT];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    l->sink(l->user, &(clattn_warning){.kind = kind, .tensor = tensor, .text = text});
}

const char *clattn_lint_name(clattn_lint_kind kind) {
    switch (kind) {
#define LINT_NAME(name, value, text)                                                                                   \
    case name:                                                                                                         \
        return text;
        CLATTN_LINT_LIST(LINT_NAME)
#undef LINT_NAME
    }
    return "?";
}

/* ---- numbers without tensors ---- */

static bool is_side(int64_t x) { return x != 0 && x != CLATTN_UNLIMITED; }

static void check_numbers(linter *l, const clattn_attention_args *args) {
    const cla_problem *p = l->p;
    if (args->has_scale && args->scale == 0)
        warn(
            l, CLATTN_LINT_SCALE_ZERO, "scale",
            "scale: is 0, so that every key that is seen has the same weight; leave has_scale unset for 1 / sqrt(%lld)",
            (long long)p->D);
    if (!args->has_scale && args->scale != 0)
        warn(l, CLATTN_LINT_UNSET, "scale", "scale: is %g, and 1 / sqrt(%lld) counts, since has_scale is not set",
             args->scale, (long long)p->D);
    if (!args->has_window && (is_side(args->window_left) || is_side(args->window_right)))
        warn(l, CLATTN_LINT_UNSET, "window",
             "window: is %lld to the left and %lld to the right, and there is none, since has_window is not set",
             (long long)args->window_left, (long long)args->window_right);
    int64_t most = 0;
    for (int64_t b = 0; args->key_lengths && b < p->B; b++)
        most = args->key_lengths[b] > most ? args->key_lengths[b] : most;
    l->lengths_zero = args->key_lengths && p->B > 0 && most == 0;
    if (l->lengths_zero)
        warn(l, CLATTN_LINT_LENGTHS_ZERO, "key_lengths",
             "key_lengths: are 0 in all %lld batches, so that no query sees a key; give the number of keys that count, "
             "up to %lld, or none",
             (long long)p->B, (long long)p->M);
}

/* ---- masks of yes and no ---- */

typedef struct {
    int64_t count, nonzero, odd; /* odd: neither 0 nor 1 */
    int64_t odd_at[4];
    int odd_value;
    bool upper[2]; /* so far nonzero exactly where j > i + offset */
    bool lower[2]; /* so far nonzero exactly where j <= i + offset */
    int64_t offsets[2];
} byte_counts;

static bool count_byte(void *user, const void *element, const int64_t at[4]) {
    byte_counts *c = user;
    const unsigned char x = *(const unsigned char *)element;
    c->count++;
    c->nonzero += x != 0;
    if (x > 1 && c->odd++ == 0) {
        c->odd_value = x;
        for (int i = 0; i < 4; i++)
            c->odd_at[i] = at[i];
    }
    for (int i = 0; i < 2; i++) {
        const bool later = at[3] > at[2] + c->offsets[i];
        c->upper[i] = c->upper[i] && later == (x != 0);
        c->lower[i] = c->lower[i] && later == (x == 0);
    }
    return true;
}

static void check_yes_no(linter *l, int which) {
    const cla_problem *p = l->p;
    const clattn_tensor *t = &l->masks[which].t;
    const bool keep = which == KEEP, square = t->rank && t->stride[2] && t->stride[3] && p->N > 1 && p->M > 1;
    byte_counts c = {.upper = {square, square}, .lower = {square, square}, .offsets = {0, p->M - p->N}};
    cla_reader_scan(&l->masks[which], count_byte, &c);
    if (c.count == 0)
        return;
    const long long count = (long long)c.count;
    const bool inverted = keep ? c.upper[0] || c.upper[1] : c.lower[0] || c.lower[1];
    if (c.nonzero == (keep ? 0 : c.count)) {
        l->hides_all = true;
        warn(l, CLATTN_LINT_HIDES_ALL, names[which],
             "%s: all %lld are %s, so that no query sees a key; nonzero means that a key may%s be seen: give it as "
             "`%s`, "
             "or inverted",
             names[which], count, keep ? "0" : "nonzero", keep ? "" : " NOT", keep ? "drop" : "keep");
    } else if (inverted) {
        warn(l, CLATTN_LINT_INVERTED, names[which],
             "%s: hides keys up to each query and shows those after it, the opposite of causal; nonzero means that a "
             "key may%s be seen: give it as `%s`, or say `causal`",
             names[which], keep ? "" : " NOT", keep ? "drop" : "keep");
    }
    if (t->dtype == CLATTN_BOOL && c.odd > 0)
        warn(l, CLATTN_LINT_BOOL_BYTES, names[which],
             "%s: %lld of %lld bytes are neither 0 nor 1, first %d at [%lld,%lld,%lld,%lld]; each counts as true: is "
             "this "
             "an array of another type?",
             names[which], (long long)c.odd, count, c.odd_value, (long long)c.odd_at[0], (long long)c.odd_at[1],
             (long long)c.odd_at[2], (long long)c.odd_at[3]);
}

/* ---- additive masks ---- */

typedef struct {
    clattn_dtype dtype;
    int64_t count, nonzero, huge;
    int64_t at[4];
    double value; /* the first huge one */
} bias_counts;

/* Numbers that are written to hide a key: -1e4, -65504, -1e9 and below. */
static bool count_bias(void *user, const void *element, const int64_t at[4]) {
    bias_counts *c = user;
    const double x = cla_load_element(element, c->dtype, 0);
    c->count++;
    c->nonzero += x != 0;
    if (isfinite(x) && (x <= -65504 || x == -10000) && c->huge++ == 0) {
        c->value = x;
        for (int i = 0; i < 4; i++)
            c->at[i] = at[i];
    }
    return true;
}

static void check_bias(linter *l) {
    bias_counts c = {.dtype = l->p->bias.dtype};
    cla_reader_scan(&l->masks[BIAS], count_bias, &c);
    if (c.count > 0 && c.nonzero == 0)
        warn(l, CLATTN_LINT_BIAS_ZERO, "bias",
             "bias: all %lld numbers are 0 and change nothing; leave it out, which is faster", (long long)c.count);
    if (c.huge > 0)
        warn(l, CLATTN_LINT_FINITE_MASK, "bias",
             "bias: %lld of %lld numbers are %.8g or so, first at [%lld,%lld,%lld,%lld]; a finite number hides no key, "
             "and a row with nothing else becomes uniform: write -inf, or give a keep mask",
             (long long)c.huge, (long long)c.count, c.value, (long long)c.at[0], (long long)c.at[1], (long long)c.at[2],
             (long long)c.at[3]);
}

/* ---- rows that see nothing ---- */

typedef struct {
    int64_t rows, hidden, tries;
    int64_t at[3]; /* the first hidden one */
} row_counts;

static int64_t place(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + j * t->stride[3];
}

static bool hidden_by(linter *l, int which, int64_t b, int64_t h, int64_t i, int64_t j) {
    cla_reader *r = &l->masks[which];
    if (!cla_present(&r->t))
        return false;
    const void *element = cla_reader_at(r, place(&r->t, b, h, i, j));
    if (which == BIAS)
        return cla_load_element(element, r->t.dtype, 0) == -INFINITY;
    return (*(const unsigned char *)element != 0) == (which == DROP);
}

/* Whether the row sees a key; most find one at once. */
static bool sees_any(linter *l, int64_t b, int64_t h, int64_t i, int64_t *tries) {
    const cla_problem *p = l->p;
    int64_t lo, hi;
    cla_problem_keys(p, b, i, &lo, &hi);
    for (int which = 0; which < MASKS; which++)
        if (cla_present(&l->masks[which].t) && l->masks[which].t.shape[3] < hi)
            hi = l->masks[which].t.shape[3];
    for (int64_t j = lo; j < hi; j++) {
        ++*tries;
        if (p->q_segments && p->q_segments[b * p->N + i] != p->k_segments[b * p->M + j])
            continue;
        if (!hidden_by(l, KEEP, b, h, i, j) && !hidden_by(l, DROP, b, h, i, j) && !hidden_by(l, BIAS, b, h, i, j))
            return true;
    }
    return false;
}

/* Whether rows differ along an axis of the masks. */
static bool differ(const linter *l, int axis) {
    for (int which = 0; which < MASKS; which++)
        if (cla_present(&l->masks[which].t) && l->masks[which].t.stride[axis] != 0)
            return true;
    return false;
}

static void count_rows(linter *l, row_counts *c) {
    const cla_problem *p = l->p;
    const int64_t batches = p->interval || p->q_segments || differ(l, 0) ? p->B : 1, heads = differ(l, 1) ? p->H : 1;
    const int64_t times = (batches == p->B ? 1 : p->B) * (heads == p->H ? 1 : p->H);
    for (int64_t b = 0; b < batches; b++)
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < (p->batches ? p->batches[b].queries : p->N) && c->tries < ROOM; i++) {
                c->rows += times;
                if (sees_any(l, b, h, i, &c->tries))
                    continue;
                if (c->hidden == 0) {
                    c->at[0] = b;
                    c->at[1] = h;
                    c->at[2] = i;
                }
                c->hidden += times;
            }
}

static void check_rows(linter *l) {
    const cla_problem *p = l->p;
    const bool masked = cla_present(&p->keep) || cla_present(&p->drop) || cla_present(&p->bias);
    row_counts c = {0};
    if (l->hides_all || l->lengths_zero || cla_problem_no_rows(p) || cla_problem_no_keys(p) ||
        !(masked || p->interval || p->q_segments))
        return;
    count_rows(l, &c);
    if (c.hidden == 0 || c.tries >= ROOM)
        return;
    const char *remedy = c.hidden == c.rows && masked ? "is a polarity the other way round? `keep` shows where it "
                                                        "is nonzero, `drop` hides"
                         : masked                     ? "if they are padding, query_lengths says so"
                                                      : "check the alignment, the window, lengths and segments";
    warn(l, CLATTN_LINT_ROWS_MASKED, "rows",
         "rows: %s%lld of %lld see no key, first [%lld,%lld,%lld]; O is 0 and LSE -inf (or the sink) there: %s",
         c.hidden == c.rows ? "all, " : "", (long long)c.hidden, (long long)c.rows, (long long)c.at[0],
         (long long)c.at[1], (long long)c.at[2], remedy);
}

/* ---- infinities in f16 ---- */

typedef struct {
    int64_t count, infinite, at[4];
} f16_counts;

static void count_row(cla_reader *r, int64_t first, int64_t columns, const int64_t at[3], f16_counts *c) {
    for (int64_t d = 0; d < columns; d++) {
        const double x = cla_load_element(cla_reader_at(r, first + d * r->t.stride[3]), CLATTN_F16, 0);
        c->count++;
        if (isinf(x) && c->infinite++ == 0) {
            for (int i = 0; i < 3; i++)
                c->at[i] = at[i];
            c->at[3] = d;
        }
    }
}

/* Rows in use: what lies past a length or in unused pages may be anything. */
static clattn_status check_f16(linter *l, const clattn_tensor *t, const char *name) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = l->p;
    const bool query = t == &p->q, shared = t->stride[0] == 0 && !p->ragged && !p->page_size;
    cla_reader r = {0};
    f16_counts c = {0};
    if (t->dtype != CLATTN_F16 || cla_problem_no_rows(p) || cla_problem_no_keys(p))
        return CLATTN_OK;
    CLA_TRY(cla_reader_init(&r, t));
    for (int64_t b = 0; b < (shared ? 1 : p->B); b++)
        for (int64_t h = 0; h < (query ? p->H : p->Hk); h++) {
            const int64_t rows =
                query ? (p->batches ? p->batches[b].queries : p->N) : (p->batches ? p->batches[b].keys : p->M);
            for (int64_t i = 0; i < rows; i++) {
                const int64_t at[3] = {b, h, i}, q_row = p->batches ? p->batches[b].q_row + i : i;
                count_row(&r, query ? place(t, b, h, q_row, 0) : cla_key_element(p, t, b, h, i), t->shape[3], at, &c);
            }
        }
    CLA_TRY(r.status);
    if (c.infinite > 0)
        warn(l, CLATTN_LINT_F16_INFINITE, name,
             "%s: %lld of %lld numbers are infinite, first at [%lld,%lld,%lld,%lld]; f16 ends at 65504: give bf16 or "
             "f32, "
             "or smaller numbers",
             name, (long long)c.infinite, (long long)c.count, (long long)c.at[0], (long long)c.at[1],
             (long long)c.at[2], (long long)c.at[3]);
done:
    cla_reader_free(&r);
    return status;
}

/* ---- all ---- */

static clattn_status check_all(linter *l, const clattn_attention_args *args) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = l->p;
    const clattn_tensor *const masks[MASKS] = {&p->keep, &p->drop, &p->bias};
    for (int i = 0; i < MASKS; i++)
        CLA_TRY(cla_reader_init(&l->masks[i], masks[i]));
    check_numbers(l, args);
    check_yes_no(l, KEEP);
    check_yes_no(l, DROP);
    check_bias(l);
    check_rows(l);
    for (int i = 0; i < MASKS; i++)
        CLA_TRY(l->masks[i].status);
    CLA_TRY(check_f16(l, &p->q, "q"));
    CLA_TRY(check_f16(l, &p->k, "k"));
    CLA_TRY(check_f16(l, &p->v, "v"));
done:
    for (int i = 0; i < MASKS; i++)
        cla_reader_free(&l->masks[i]);
    return status;
}

clattn_status clattn_lint(const clattn_attention_args *args, void (*sink)(void *user, const clattn_warning *warning),
                          void *user) {
    clattn_status status = CLATTN_OK;
    cla_problem p = {0};
    linter l = {.p = &p, .sink = sink, .user = user};
    CLA_CHECK(args && sink, CLATTN_E_ARGUMENT, "lint: %s is NULL", args ? "sink" : "args");
    CLA_TRY(cla_problem_init(&p, args));
    CLA_TRY(check_all(&l, args));
done:
    cla_problem_free(&p);
    return status;
}
