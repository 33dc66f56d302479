/* SPDX-License-Identifier: Apache-2.0 */
/* The self-test of a plan's kernels: a small problem that takes the same ones, all of whose rows are computed again on
 * the CPU. */
#include "attention/plan.h"
#include "attention/self_check.h"
#include "attention/tiles_key.h"
#include "base/mem.h"
#include "base/mix.h"
#include "runtime/self_tests.h"
#include "tensor/dtype.h"

/* Sizes that divide no tile; with long rows fewer of them. */
enum { H = 2, MANY = 69, FEW = 21, SHORT = 150, LONG = 1056, LONG_ROW = 1024, PAGE = 16, UNSEEN = 3 };
enum { BUFFERS = 16 };

typedef struct {
    const clattn_plan *plan;
    bool by_four; /* the plan's tensors, as its algorithm gets them */
    const char *variant;
} probe;

typedef struct {
    clattn_context *context;
    clattn_attention_args args;
    clattn_buffer *buffers[BUFFERS];
    int count;
    uint64_t seed;
    int64_t length;
    float slopes[H];
    int32_t table[LONG / PAGE], q_segments[MANY], k_segments[LONG];
} small;

/* ---- numbers ---- */

/* From 0 to 1. */
static double uniform(small *s) { return (double)(cla_mix_next(&s->seed) >> 11) * 0x1p-53; }

/* A tensor in a buffer of its own, of numbers between -2 and 2, a mask of one zero in three; rows are `pad` elements
 * longer. Outputs begin with them too: what a kernel leaves out is wrong. */
static clattn_status add(small *s, clattn_dtype dtype, int rank, const int64_t *shape, int64_t pad, clattn_tensor *t) {
    clattn_status status = CLATTN_OK;
    int64_t stored[4], n = 1;
    double *numbers = NULL;
    void *data = NULL;
    for (int i = 0; i < rank; i++) {
        stored[i] = shape[i] + (i == rank - 1 ? pad : 0);
        n *= stored[i];
    }
    const size_t bytes = clattn_dtype_bytes(dtype, (size_t)n);
    CLA_TRY(cla_alloc((size_t)n, sizeof *numbers, "numbers of a self-test", &numbers));
    CLA_TRY(cla_alloc(bytes, 1, "tensor of a self-test", &data));
    for (int64_t i = 0; i < n; i++)
        numbers[i] = cla_is_float(dtype) || cla_is_quantised(dtype) ? 4 * uniform(s) - 2 : uniform(s) > 1.0 / 3;
    CLA_TRY(clattn_convert(data, dtype, numbers, CLATTN_F64, (size_t)n));
    clattn_buffer **buffer = &s->buffers[s->count];
    CLA_TRY(clattn_buffer_create(s->context, bytes, buffer));
    s->count++;
    CLA_TRY(clattn_buffer_upload(*buffer, 0, data, bytes));
    *t = clattn_tensor_slice(clattn_tensor_buffer(*buffer, dtype, rank, stored), rank - 1, 0, shape[rank - 1]);
done:
    cla_free(numbers);
    cla_free(data);
    return status;
}

/* ---- the problem ---- */

static bool is_long(const clattn_plan *plan) {
    return plan->algorithm->long_rows && (plan->problem.M >= LONG_ROW || plan->problem.batch_invariant);
}
static int64_t keys_of(const clattn_plan *plan) { return is_long(plan) ? LONG : SHORT; }
static int64_t queries_of(const clattn_plan *plan) { return is_long(plan) ? FEW : MANY; }

/* q, k, v, o; keys in pages take whole ones. Returns how many keys masks are for. */
static clattn_status add_main(small *s, const probe *x, int64_t *keys) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &x->plan->problem;
    const int64_t N = queries_of(x->plan);
    const int64_t Hk = p->group > 1 ? 1 : H, pages = cla_ceil_div(keys_of(x->plan), PAGE), pad = x->by_four ? 0 : 1;
    const int64_t stacks = p->page_size ? pages : 1, rows = p->page_size ? PAGE : keys_of(x->plan);
    const int64_t q[4] = {1, H, N, p->D}, o[4] = {1, H, N, p->Dv};
    const int64_t k[4] = {stacks, Hk, rows, p->D}, v[4] = {stacks, Hk, rows, p->Dv};
    CLA_TRY(add(s, p->q.dtype, 4, q, pad, &s->args.q));
    CLA_TRY(add(s, p->k.dtype, 4, k, cla_is_quantised(p->k.dtype) ? 0 : pad, &s->args.k));
    CLA_TRY(add(s, p->v.dtype, 4, v, cla_is_quantised(p->v.dtype) ? 0 : pad, &s->args.v));
    CLA_TRY(add(s, p->o.dtype, 4, o, pad, &s->args.o));
    *keys = stacks * rows;
    if (p->page_size) {
        for (int64_t i = 0; i < pages; i++)
            s->table[i] = (int32_t)(pages - 1 - i);
        s->args.block_table = s->table;
        s->args.table_pages = pages;
    }
done:
    return status;
}

static clattn_status add_masks(small *s, const clattn_plan *plan, int64_t keys) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t N = queries_of(plan);
    const int64_t mask[2] = {N, keys}, bias[3] = {H, N, keys}, sinks[1] = {H};
    clattn_attention_args *a = &s->args;
    a->align = CLATTN_ALIGN_BOTTOM_RIGHT;
    a->causal = p->causal;
    a->has_window = p->windowed;
    a->window_left = 2 * N;
    a->window_right = N / 2;
    a->softcap = p->softcap > 0 ? 5 : 0;
    s->length = keys - UNSEEN;
    if (p->interval || p->page_size)
        a->key_lengths = &s->length;
    if (cla_present(&p->keep))
        CLA_TRY(add(s, p->keep.dtype, 2, mask, 0, &a->keep));
    if (cla_present(&p->drop))
        CLA_TRY(add(s, p->drop.dtype, 2, mask, 0, &a->drop));
    if (cla_present(&p->bias))
        CLA_TRY(add(s, p->bias.dtype, 3, bias, 0, &a->bias));
    if (cla_present(&p->sinks))
        CLA_TRY(add(s, p->dtype, 1, sinks, 0, &a->sinks));
    if (p->slopes) {
        clattn_alibi_slopes(H, s->slopes);
        a->alibi_slopes = s->slopes;
    }
    for (int i = 0; i < N; i++)
        s->q_segments[i] = 2 * i / (int)N;
    for (int j = 0; j < LONG; j++)
        s->k_segments[j] = 2 * j / (int)keys;
    if (p->q_segments) {
        a->query_segments = s->q_segments;
        a->key_segments = s->k_segments;
    }
done:
    return status;
}

static clattn_status add_results(small *s, const clattn_plan *plan, int64_t keys) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    const int64_t N = queries_of(plan);
    const int64_t rows[3] = {1, H, N}, columns[3] = {1, H, keys}, weights[4] = {1, p->mean ? 1 : H, N, keys};
    clattn_attention_args *a = &s->args;
    if (cla_present(&p->lse))
        CLA_TRY(add(s, p->dtype, 3, rows, 0, &a->lse));
    if (cla_present(&p->entropy))
        CLA_TRY(add(s, p->dtype, 3, rows, 0, &a->entropy));
    if (cla_present(&p->column_sums))
        CLA_TRY(add(s, p->dtype, 3, columns, 0, &a->column_sums));
    if (cla_present(&p->weights)) {
        a->weights_form = p->form;
        a->weights_mean = p->mean;
        CLA_TRY(add(s, p->dtype, 4, weights, 0, &a->weights));
    }
done:
    return status;
}

static clattn_status test(clattn_context *context, const void *data) {
    clattn_status status = CLATTN_OK;
    const probe *x = data;
    const cla_problem *p = &x->plan->problem;
    const cla_asked asked = {x->plan->algorithm->name, x->variant};
    cla_problem problem = {0};
    small *s = NULL;
    int64_t keys = 0;
    CLA_TRY(cla_alloc(1, sizeof *s, "self-test", &s));
    s->context = context;
    s->args.self_check = CLATTN_ALL_ROWS;
    s->args.batch_invariant = p->batch_invariant;
    CLA_TRY(add_main(s, x, &keys));
    CLA_TRY(add_masks(s, x->plan, keys));
    CLA_TRY(add_results(s, x->plan, keys));
    CLA_TRY(cla_problem_init(&problem, &s->args));
    CLA_TRY(cla_plan_run_once(context, &problem, &asked));
done:
    cla_problem_free(&problem);
    for (int i = 0; s && i < s->count; i++)
        clattn_buffer_destroy(s->buffers[i]);
    cla_free(s);
    return status;
}

/* ---- what is tested ---- */

/* Variants that differ in sizes alone, not in kernels, are one. */
static const char *variant_of(const clattn_plan *plan) {
    if (plan->variant_count == 0)
        return "default";
    if (plan->algorithm->all_kernels)
        return plan->algorithm->all_kernels;
    return plan->variant == 0 ? "default" : plan->variants[plan->variant].text;
}

/* All that may choose a kernel. */
static void describe(const probe *x, cla_str *what) {
    const cla_problem *p = &x->plan->problem;
    const struct {
        bool is;
        const char *word;
    } words[] = {{p->group > 1, "grouped"},
                 {!x->by_four, "any-layout"},
                 {is_long(x->plan), "long-rows"},
                 {p->page_size > 0, "pages"},
                 {p->causal, "causal"},
                 {p->windowed, "window"},
                 {p->interval, "lengths"},
                 {cla_present(&p->keep), "keep"},
                 {cla_present(&p->drop), "drop"},
                 {cla_present(&p->bias), "bias"},
                 {p->slopes != NULL, "alibi"},
                 {p->q_segments != NULL, "segments"},
                 {p->softcap > 0, "softcap"},
                 {cla_present(&p->sinks), "sinks"},
                 {cla_present(&p->lse), "lse"},
                 {cla_present(&p->entropy), "entropy"},
                 {cla_present(&p->column_sums), "column-sums"},
                 {cla_present(&p->weights), "weights"},
                 {p->mean, "mean"},
                 {p->batch_invariant, "batch-invariant"}};
    cla_str_append(what, "%s (%s) %s/%s/%s/%s d%lld v%lld", x->plan->algorithm->name, x->variant,
                   clattn_dtype_name(p->q.dtype), clattn_dtype_name(p->k.dtype), clattn_dtype_name(p->v.dtype),
                   clattn_dtype_name(p->o.dtype), (long long)p->D, (long long)p->Dv);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].is)
            cla_str_append(what, " %s", words[i].word);
    if (cla_present(&p->bias))
        cla_str_append(what, " bias-%s", clattn_dtype_name(p->bias.dtype));
    if (p->form != CLATTN_WEIGHTS_SOFTMAX)
        cla_str_append(what, " form-%d", (int)p->form);
}

clattn_status cla_plan_self_test(clattn_plan *plan) {
    clattn_status status = CLATTN_OK;
    const cla_problem *p = &plan->problem;
    cla_str what = {0};
    if (!cla_self_tests_on(plan->context) || !plan->algorithm)
        return CLATTN_OK;
    if (p->backward || p->dropout > 0) {
        cla_str_append(&plan->text, "self-test: there is none %s\n", p->backward ? "of gradients" : "with dropout");
        return CLATTN_OK;
    }
    probe x = {.plan = plan, .variant = variant_of(plan)};
    cla_pack_bind(plan);
    x.by_four = cla_tiles_by_four(p);
    cla_pack_unbind(plan);
    describe(&x, &what);
    CLA_TRY(cla_str_status(&what));
    CLA_TRY(cla_self_test_once(plan->context, cla_str_text(&what), test, &x));
    cla_str_append(&plan->text, "self-test: right on this device, %s\n", cla_str_text(&what));
done:
    cla_str_free(&what);
    return status;
}
