/* SPDX-License-Identifier: Apache-2.0 */
/* Attention descriptors on `cpu`. The first byte says how many things to change in a valid one:
 *   none   forward, and backward where bit 3 is set, by `reference` and `blas`, against plain loops of the tests' own
 *   some   refused with a text and nothing written; or a result that verification finds right, in the outputs alone.
 *          What reaches outside its array is given as a buffer, which has a size, and is refused. */
#include "descriptor.h"
#include "oracle_internal.h"

#include <float.h>
#include <math.h>

static clattn_context *cpu;
static const char *const algorithms[] = {"reference", "blas"};

/* ---- valid ---- */

static void run_forward(oracle_case *c) {
    char text[ORACLE_TEXT] = "";
    FUZZ_CHECK(oracle_exact(c, text), "%s", text);
    for (int i = 0; i < 2; i++) {
        const oracle_runner runner = {.context = cpu, .algorithm = algorithms[i]};
        if (i > 0 && !oracle_applies(c, &runner, NULL))
            continue;
        FUZZ_CHECK(oracle_run(c, cpu, algorithms[i], text), "%s", text);
        FUZZ_CHECK(oracle_compare(c, algorithms[i], text), "%s", text);
    }
}

static void run_backward(oracle_case *c) {
    char text[ORACLE_TEXT] = "";
    if (c->config.page_size) /* not supported there */
        return;
    oracle_backward *g = oracle_backward_make(c);
    bool any = false;
    for (int i = 0; i < ORACLE_GRADIENTS; i++)
        any = any || g->exact.of[i];
    if (any)
        FUZZ_CHECK(oracle_backward_exact(g, text), "%s", text);
    for (int i = 0; any && i < 2; i++) {
        const oracle_runner runner = {.context = cpu, .algorithm = algorithms[i]};
        if (i > 0 && !oracle_backward_applies(g, &runner, NULL))
            continue;
        FUZZ_CHECK(oracle_backward_run(g, cpu, algorithms[i], algorithms[i], text), "%s", text);
        FUZZ_CHECK(oracle_backward_compare(g, algorithms[i], text), "%s", text);
    }
    oracle_backward_free(g);
}

/* ---- changes ---- */

enum { OPTION_LENGTH = 4096, SMALL = 40 }; /* entries of host arrays of options, and sizes that need no more */

typedef struct changed {
    oracle_arrays arrays;
    clattn_attention_args args;
    int64_t numbers[6][OPTION_LENGTH]; /* options of 64 bits, longer than any that is read */
    int32_t table[3][OPTION_LENGTH];
    float slopes[OPTION_LENGTH];
} changed;

static int64_t odd_number(fuzz_input *in, int64_t old) {
    static const int64_t odd[] = {
        -1, 0, 1, 2, 3, 7, 8, INT32_MAX, INT64_MAX, INT64_MIN, INT64_MAX / 2 + 1, (INT64_C(1) << 32) + 1};
    const int64_t which = fuzz_below(in, 16);
    return which < 12                           ? odd[which]
           : which == 12 && old < INT64_MAX     ? old + 1
           : which == 13 && old > INT64_MIN     ? old - 1
           : which == 14 && old < INT64_MAX / 2 ? old * 2
                                                : old / 2;
}

static double odd_real(fuzz_input *in) {
    static const double odd[] = {NAN, INFINITY, -INFINITY, -1, 0, 1e-300, 1e300, DBL_MAX, 1e-46, 0.5};
    return odd[fuzz_below(in, 10)];
}

static void change_tensor(fuzz_input *in, changed *x) {
    clattn_tensor *t = oracle_args_tensor(&x->args, (int)fuzz_below(in, ORACLE_TENSORS));
    const int64_t axis = fuzz_below(in, CLATTN_MAX_RANK);
    switch (fuzz_below(in, 7)) {
    case 0:
        t->rank = (int)fuzz_below(in, 12) - 1;
        break;
    case 1:
        t->dtype = (clattn_dtype)fuzz_below(in, 14);
        break;
    case 2:
        t->offset = odd_number(in, t->offset);
        break;
    case 3:
        t->stride[axis % 4] = odd_number(in, t->stride[axis % 4]);
        break;
    case 4:
        t->host = fuzz_flag(in) ? NULL : oracle_args_tensor(&x->args, (int)fuzz_below(in, ORACLE_TENSORS))->host;
        break;
    case 5:
        *t = (clattn_tensor){0};
        break;
    default:
        t->shape[axis % 4] = odd_number(in, t->shape[axis % 4]);
    }
}

/* An axis of all tensors that have it, made shorter: B, H, Hk, N, M, D, Dv. */
static void shrink(fuzz_input *in, changed *x) {
    static const signed char axes[7][ORACLE_TENSORS] = {
        {0, 0, 0, 0, 0, 0, 0, 0, 0, -1},        {1, -1, -1, 1, 1, 1, 1, 1, 1, 0},
        {-1, 1, 1, -1, -1, -1, -1, -1, -1, -1}, {2, -1, -1, 2, 2, 2, 2, 2, 2, -1},
        {-1, 2, 2, -1, -1, 3, 3, 3, 3, -1},     {3, 3, -1, -1, -1, -1, -1, -1, -1, -1},
        {-1, -1, 3, 3, -1, -1, -1, -1, -1, -1}};
    const int64_t which = fuzz_below(in, 7), to = fuzz_below(in, 4);
    for (int t = 0; t < ORACLE_TENSORS; t++) {
        clattn_tensor *tensor = oracle_args_tensor(&x->args, t);
        const int full = t == ORACLE_SINKS ? 1 : t == ORACLE_LSE ? 3 : 4, axis = axes[which][t] - (full - tensor->rank);
        if (axes[which][t] >= 0 && axis >= 0 && axis < tensor->rank && axis < CLATTN_MAX_RANK &&
            tensor->shape[axis] > to && !(t >= ORACLE_KEEP && t < ORACLE_SINKS && tensor->shape[axis] == 1))
            tensor->shape[axis] = to;
    }
}

static void change_numbers(fuzz_input *in, changed *x) {
    clattn_attention_args *a = &x->args;
    const int64_t which = fuzz_below(in, 12), at = fuzz_below(in, 6);
    if (which < 6)
        x->numbers[which][at] = odd_number(in, x->numbers[which][at]);
    else if (which < 9)
        x->table[which - 6][at] = (int32_t)odd_number(in, x->table[which - 6][at]);
    else if (which == 9)
        x->slopes[at] = (float)odd_real(in);
    else if (which == 10)
        a->sequences = odd_number(in, a->sequences);
    else
        a->table_pages = odd_number(in, a->table_pages);
}

/* Options there that were not, or the other way about. */
static void change_presence(fuzz_input *in, changed *x) {
    clattn_attention_args *a = &x->args;
    const int64_t *const none = NULL, **numbers[] = {&a->key_lengths,    &a->offsets,    &a->query_lengths,
                                                     &a->prefix_lengths, &a->cu_queries, &a->cu_keys};
    const int32_t **table[] = {&a->query_segments, &a->key_segments, &a->block_table};
    const int64_t which = fuzz_below(in, 12);
    if (which < 6)
        *numbers[which] = *numbers[which] ? none : x->numbers[which];
    else if (which < 9)
        *table[which - 6] = *table[which - 6] ? NULL : x->table[which - 6];
    else if (which == 9)
        a->alibi_slopes = a->alibi_slopes ? NULL : x->slopes;
    else if (which == 10)
        a->short_masks = !a->short_masks;
    else
        a->weights_mean = !a->weights_mean;
}

static void change_option(fuzz_input *in, changed *x) {
    static const char *const names[] = {"reference", "blas", "materialised", "fused_lanes", "", "x", NULL};
    clattn_attention_args *a = &x->args;
    switch (fuzz_below(in, 14)) {
    case 0:
        a->has_scale = true;
        a->scale = odd_real(in);
        break;
    case 1:
        a->softcap = odd_real(in);
        break;
    case 2:
        a->align = (clattn_align)((int)fuzz_below(in, 7) - 1);
        break;
    case 3:
        a->has_window = true;
        a->window_left = odd_number(in, a->window_left);
        break;
    case 4:
        a->window_right = odd_number(in, a->window_right);
        break;
    case 5:
        a->causal = !a->causal;
        break;
    case 6:
        a->weights_form = (clattn_weights_form)((int)fuzz_below(in, 7) - 1);
        break;
    case 7:
        a->algorithm = names[fuzz_below(in, 7)];
        break;
    case 8:
        a->variant = names[fuzz_below(in, 7)];
        break;
    case 9:
        a->max_workspace = (size_t)fuzz_byte(in) * 16;
        break;
    case 10:
        a->dropout = odd_real(in);
        break;
    case 11:
        a->self_check = odd_number(in, 3);
        break;
    case 12:
        a->weights_queries = x->numbers[0];
        a->weights_query_count = odd_number(in, 1);
        break;
    default:
        a->weights_heads = x->numbers[0];
        a->weights_head_count = odd_number(in, 1);
    }
}

/* ---- what lies where ---- */

/* The bytes that a view takes up, from its pointer on; false: none, or it is no view. */
static bool extent(const clattn_tensor *t, double *end) {
    double first = (double)t->offset, last = first;
    const double length = (double)clattn_dtype_length(t->dtype);
    *end = 0;
    if (t->rank < 1 || t->rank > CLATTN_MAX_RANK || length == 0 || (!t->host && !t->buffer))
        return false;
    for (int i = 0; i < t->rank; i++) {
        if (t->shape[i] <= 0)
            return false;
        const double step = (double)(t->shape[i] - 1) * (double)t->stride[i];
        first += step < 0 ? step : 0;
        last += step > 0 ? step : 0;
    }
    *end = first < 0 ? INFINITY : ceil((last + 1) / length) * (double)clattn_dtype_size(t->dtype);
    return true;
}

static oracle_array *array_of(changed *x, const void *host) {
    for (int i = 0; i < x->arrays.count; i++)
        if (x->arrays.list[i].data == host)
            return &x->arrays.list[i];
    return NULL;
}

/* Marks in `owned` what the outputs may write. Returns whether something reaches outside; that is then a buffer. */
static bool place(changed *x) {
    bool outside = false;
    for (int i = 0; i < x->arrays.count; i++)
        memset(x->arrays.list[i].owned, 0, x->arrays.list[i].bytes);
    for (int i = 0; i < ORACLE_TENSORS; i++) {
        clattn_tensor *t = oracle_args_tensor(&x->args, i);
        oracle_array *a = array_of(x, t->host);
        double end;
        if (!a || !extent(t, &end))
            continue;
        if (end > (double)a->bytes) {
            outside = true;
            if (!a->buffer)
                FUZZ_CHECK(clattn_buffer_create(cpu, a->bytes, &a->buffer) == CLATTN_OK, "%s", clattn_last_error());
            t->host = NULL;
            t->buffer = a->buffer;
        } else if (i >= ORACLE_O && i <= ORACLE_WEIGHTS) {
            const size_t begin = (size_t)t->offset * clattn_dtype_size(t->dtype) / clattn_dtype_length(t->dtype);
            memset(a->owned + begin, 1, (size_t)end - begin);
        }
    }
    return outside;
}

static bool is_small(int64_t n) { return n <= SMALL; }

/* Whether the arrays of options are long enough for what the descriptor says. */
static bool options_suffice(changed *x) {
    bool small = is_small(x->args.sequences) && is_small(x->args.table_pages) &&
                 is_small(x->args.weights_query_count) && is_small(x->args.weights_head_count);
    for (int i = 0; i < ORACLE_TENSORS; i++) {
        const clattn_tensor *t = oracle_args_tensor(&x->args, i);
        for (int axis = 0; axis < CLATTN_MAX_RANK; axis++)
            small = small && is_small(t->shape[axis]);
    }
    return small;
}

static void drop_options(clattn_attention_args *a) {
    a->key_lengths = a->offsets = a->query_lengths = a->prefix_lengths = a->cu_queries = a->cu_keys = NULL;
    a->query_segments = a->key_segments = a->block_table = NULL;
    a->alibi_slopes = NULL;
    a->weights_queries = a->weights_heads = NULL;
    a->weights_query_count = a->weights_head_count = 0;
}

static void copy_options(const oracle_case *c, changed *x) {
    const int64_t B = c->config.B, entries = B * c->table_pages;
    const int64_t *const numbers[] = {c->key_lengths,    c->offsets,    c->query_lengths,
                                      c->prefix_lengths, c->cu_queries, c->cu_keys};
    const int64_t counts[] = {B, B, B, B, B + 1, B + 1};
    const int32_t *const table[] = {c->query_segments, c->key_segments, c->block_table};
    const int64_t table_counts[] = {B * c->config.N, B * c->config.M, entries};
    clattn_attention_args *a = &x->args;
    const int64_t **given[] = {&a->key_lengths,    &a->offsets,    &a->query_lengths,
                               &a->prefix_lengths, &a->cu_queries, &a->cu_keys};
    const int32_t **given_table[] = {&a->query_segments, &a->key_segments, &a->block_table};
    for (int i = 0; i < 6; i++)
        if (numbers[i] && *given[i]) {
            memcpy(x->numbers[i], numbers[i], (size_t)counts[i] * sizeof(int64_t));
            *given[i] = x->numbers[i];
        }
    for (int i = 0; i < 3; i++)
        if (table[i]) {
            memcpy(x->table[i], table[i], (size_t)table_counts[i] * sizeof(int32_t));
            *given_table[i] = x->table[i];
        }
    if (c->slopes) {
        memcpy(x->slopes, c->slopes, (size_t)c->config.H * sizeof(float));
        a->alibi_slopes = x->slopes;
    }
}

/* ---- one changed descriptor ---- */

static void sink(void *user, const clattn_warning *warning) {
    FUZZ_CHECK(warning->text[0] && warning->tensor[0], "a warning without a text");
    ++*(int *)user;
}

/* What the descriptor says, before a finding ends the program. */
static void tell(changed *x) {
    static const char names[ORACLE_TENSORS][8] = {"q",       "k",    "v",    "o",    "lse",
                                                  "weights", "keep", "drop", "bias", "sinks"};
    const clattn_attention_args *a = &x->args;
    for (int i = 0; i < ORACLE_TENSORS; i++) {
        const clattn_tensor *t = oracle_args_tensor(&x->args, i);
        if (t->rank != 0)
            fprintf(stderr, "%s %s rank %d at %p + %lld:", names[i], clattn_dtype_name(t->dtype), t->rank, t->host,
                    (long long)t->offset);
        for (int axis = 0; axis < t->rank && axis < CLATTN_MAX_RANK; axis++)
            fprintf(stderr, " %lld (%lld)", (long long)t->shape[axis], (long long)t->stride[axis]);
        if (t->rank != 0)
            fputc('\n', stderr);
    }
    fprintf(stderr, "scale %d %g cap %g causal %d align %d window %d %lld %lld dropout %g form %d mean %d\n",
            a->has_scale, a->scale, a->softcap, a->causal, (int)a->align, a->has_window, (long long)a->window_left,
            (long long)a->window_right, a->dropout, (int)a->weights_form, a->weights_mean);
    fprintf(stderr,
            "lengths %d %d %d offsets %d segments %d sequences %lld pages %lld short %d invariant %d rows %lld %s\n",
            !!a->key_lengths, !!a->query_lengths, !!a->prefix_lengths, !!a->offsets, !!a->query_segments,
            (long long)a->sequences, (long long)a->table_pages, a->short_masks, a->batch_invariant,
            (long long)a->self_check, a->algorithm ? a->algorithm : "");
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < 5; j++)
            fprintf(stderr, "%lld%s", (long long)x->numbers[i][j], j < 4 ? " " : i < 5 ? " | " : "\n");
}

static void check_result(changed *x, clattn_status status, bool outside) {
    size_t at = 0;
    if (status != CLATTN_OK) {
        fuzz_check_error(status);
        for (int i = 0; i < x->arrays.count; i++)
            memset(x->arrays.list[i].owned, 0, x->arrays.list[i].bytes);
    } else {
        if (outside)
            tell(x);
        FUZZ_CHECK(!outside, "what reaches outside its buffer was not refused");
    }
    const int array = oracle_arrays_damage(&x->arrays, &at);
    if (array >= 0)
        tell(x);
    FUZZ_CHECK(array < 0, "byte %zu of array %d has changed, status %s: %s", at, array, clattn_status_name(status),
               status ? clattn_last_error() : "");
}

/* Whether the bytes mean what they meant: read as another type they may be numbers whose products overflow. */
static bool keeps_values(changed *x) {
    bool same = true;
    for (int i = 0; i < ORACLE_TENSORS; i++) {
        const clattn_tensor *now = oracle_args_tensor(&x->args, i), *then = oracle_args_tensor(&x->arrays.args, i);
        same = same && (now->rank == 0 || (now->dtype == then->dtype && now->host == then->host));
    }
    return same;
}

static void check_right(changed *x) {
    clattn_verification found;
    char text[400];
    if (x->args.dropout != 0 || !keeps_values(x) || (x->args.has_scale && fabs(x->args.scale) > 1e6)) /* overflow */
        return;
    const clattn_status status = clattn_verify(&x->args, CLATTN_ALL_ROWS, NULL, &found);
    FUZZ_CHECK(status == CLATTN_OK, "%s", clattn_last_error());
    if (!found.ok)
        tell(x);
    FUZZ_CHECK(found.ok, "%s", clattn_verification_text(&found, text, sizeof text));
}

static void run_changed(oracle_case *c, fuzz_input *in, unsigned changes) {
    static void (*const change[])(fuzz_input * in, changed * x) = {change_tensor, change_tensor,  change_tensor,
                                                                   shrink,        change_numbers, change_presence,
                                                                   change_option, change_option};
    static changed x;
    int warnings = 0;
    memset(&x, 0, sizeof x);
    oracle_arrays_make(c, &x.arrays);
    x.args = x.arrays.args;
    x.args.caller_workspace = false;
    copy_options(c, &x);
    for (; changes > 0; changes--)
        change[fuzz_below(in, 8)](in, &x);
    if (!options_suffice(&x))
        drop_options(&x.args);
    const bool outside = place(&x);
    clattn_status status = clattn_lint(&x.args, sink, &warnings);
    if (status != CLATTN_OK)
        fuzz_check_error(status);
    status = clattn_attention(cpu, &x.args);
    check_result(&x, status, outside);
    if (status == CLATTN_OK)
        check_right(&x);
    oracle_arrays_free(&x.arrays);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input in = {data, data + size};
    static const unsigned char counts[8] = {0, 1, 2, 0, 1, 2, 3, 1};
    const unsigned first = fuzz_byte(&in), changes = counts[first % 8];
    const oracle_config config = descriptor_make(&in);
    if (!cpu)
        FUZZ_CHECK(clattn_context_create("cpu", NULL, &cpu) == CLATTN_OK, "%s", clattn_last_error());
    oracle_case *c = oracle_make(&config);
    if (changes > 0) {
        run_changed(c, &in, changes);
    } else {
        run_forward(c);
        if (first & 8)
            run_backward(c);
    }
    oracle_free(c);
    return 0;
}
