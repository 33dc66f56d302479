/* SPDX-License-Identifier: Apache-2.0 */
/* Problems that are the same said in two ways give the same result on every algorithm: the same bits where the
 * algorithm promises them, else within the tolerances. */
#include "identities.h"
#include <stdlib.h>

#define COUNT(x) (sizeof(x) / sizeof *(x))
#define SIZES .B = 2, .H = 4, .Hk = 2, .N = 9, .M = 70, .D = 32, .Dv = 64, .guard = 7, .lse = true
#define BOTTOM_RIGHT .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT

static bool is(const oracle_runner *r, const char *name) { return strcmp(r->algorithm, name) == 0; }

/* BLAS sums a row's products in an order that may follow the number of rows. */
static bool keeps_bits_of_rows(const oracle_runner *r) { return !is(r, "blas") && !is(r, "materialised"); }

static oracle_case *make(const oracle_config *config, clattn_dtype dtype, uint64_t seed) {
    oracle_config c = *config;
    c.seed = seed;
    c.dtype = dtype;
    if (c.typed && dtype == CLATTN_F64) /* the same storage, with wide sums */
        c.o_type = CLATTN_F64;
    return oracle_make(&c);
}

/* ---- k-way merge of parts = whole ---- */

enum { PARTS = 5 };

typedef struct {
    void *o, *lse;
} result;

/* In arrays of the sums' type. */
static result result_of(const oracle_case *c) {
    const size_t rows = (size_t)(c->config.B * c->config.H * c->config.N), size = clattn_dtype_size(c->config.dtype);
    const result r = {malloc(rows * (size_t)c->config.Dv * size), malloc(rows * size)};
    SUCCEEDS(clattn_convert(r.o, c->config.dtype, c->got.o, CLATTN_F64, rows * (size_t)c->config.Dv));
    SUCCEEDS(clattn_convert(r.lse, c->config.dtype, c->got.lse, CLATTN_F64, rows));
    return r;
}

static clattn_partial view_of(const oracle_case *c, const result *r) {
    const int64_t o[] = {c->config.B, c->config.H, c->config.N, c->config.Dv};
    return (clattn_partial){clattn_tensor_host(r->o, c->config.dtype, 4, o),
                            clattn_tensor_host(r->lse, c->config.dtype, 3, o)};
}

/* What a part without a key gives. */
static void set_empty(oracle_case *c) {
    for (int64_t row = 0; row < c->config.B * c->config.H * c->config.N; row++) {
        c->got.lse[row] = -INFINITY;
        for (int64_t d = 0; d < c->config.Dv; d++)
            c->got.o[row * c->config.Dv + d] = 0;
    }
}

/* With five parts the third has no key. */
static int64_t cut(const oracle_case *whole, int count, int part) {
    return count == PARTS && part == 3 ? whole->config.M * 2 / count : whole->config.M * part / count;
}

static void merge_parts(const oracle_runner *r, const oracle_case *whole, int count) {
    result parts[PARTS], out = result_of(whole);
    clattn_partial views[PARTS];
    const size_t rows = (size_t)(whole->config.B * whole->config.H * whole->config.N), Dv = (size_t)whole->config.Dv;
    for (int x = 0; x < count; x++) {
        const int64_t j0 = cut(whole, count, x), j1 = cut(whole, count, x + 1);
        oracle_case *part = keys_between(whole, j0, j1 > j0 ? j1 : j0 + 1);
        if (j1 > j0)
            solve(part, r);
        else
            set_empty(part);
        parts[x] = result_of(part);
        views[x] = view_of(whole, &parts[x]);
        oracle_free(part);
    }
    const clattn_partial to = view_of(whole, &out);
    const clattn_merge_args args = {.parts = views, .count = count, .o = to.o, .lse = to.lse};
    SUCCEEDS(clattn_merge(r->context, &args));
    double *o = malloc(rows * Dv * sizeof *o), *lse = malloc(rows * sizeof *lse);
    SUCCEEDS(clattn_convert(o, CLATTN_F64, out.o, whole->config.dtype, rows * Dv));
    SUCCEEDS(clattn_convert(lse, CLATTN_F64, out.lse, whole->config.dtype, rows));
    const double share = count == 1 ? 0 : 2; /* one part is the whole */
    expect_near(r, "o of merged parts", o, whole->got.o, (int64_t)(rows * Dv), share * whole->allowed.o);
    expect_near(r, "lse of merged parts", lse, whole->got.lse, (int64_t)rows, share * whole->allowed.lse);
    for (int x = 0; x < count; x++) {
        free(parts[x].o);
        free(parts[x].lse);
    }
    free(out.o);
    free(out.lse);
    free(o);
    free(lse);
}

static void parts_are_the_whole(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, .sinks = true, .softcap = 3, .align = CLATTN_ALIGN_OFFSET, .batch_invariant = true},
        {SIZES, .lengths = true, .align = CLATTN_ALIGN_OFFSET, .causal = true, .batch_invariant = true},
        {SIZES, .keep = {4, 15}, .bias = {4, 15}, .align = CLATTN_ALIGN_OFFSET, .batch_invariant = true},
        {SIZES, .alibi = true, .align = CLATTN_ALIGN_OFFSET, .causal = true, .batch_invariant = true},
    };
    static const int counts[] = {1, 2, 3, PARTS};
    for (size_t i = 0; i < COUNT(configs); i++)
        for (size_t n = 0; n < COUNT(counts); n++) {
            oracle_case *whole = make(&configs[i], dtype, i);
            solve(whole, r);
            merge_parts(r, whole, counts[n]);
            oracle_free(whole);
        }
}

Test(identities, attention_over_parts_of_the_keys_merged_is_the_whole) { on_each(parts_are_the_whole); }

/* ---- sequences one after another = a loop over them ---- */

static void expect_nothing_seen(const oracle_runner *r, const oracle_case *all, int64_t s) {
    const oracle_config *f = &all->config;
    for (int64_t h = 0; h < f->H; h++)
        for (int64_t i = 0; i < all->cu_queries[s + 1] - all->cu_queries[s]; i++) {
            const int64_t row = (s * f->H + h) * f->N + i;
            cr_expect_eq(all->got.lse[row], all->sinks ? all->sinks[h] : -INFINITY, "%s", r->algorithm);
            for (int64_t d = 0; d < f->Dv; d++)
                cr_expect_eq(all->got.o[row * f->Dv + d], 0, "%s", r->algorithm);
        }
}

static void sequences_are_a_loop(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, .sequences = true, BOTTOM_RIGHT},
        {SIZES, .sequences = true, .sinks = true, .softcap = 2, .lengths = true},
        {SIZES, .sequences = true, .segments = true, .alibi = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {SIZES, .sequences = true, .typed = true, .k_type = CLATTN_Q8_0, .v_type = CLATTN_F16, BOTTOM_RIGHT},
    };
    for (size_t i = 0; i < 2 * COUNT(configs); i++) {
        oracle_config config = configs[i / 2];
        config.B = 4;
        config.batch_invariant = i % 2 == 1; /* a promise of the same bits */
        oracle_case *all = make(&config, dtype, i / 2);
        solve(all, r);
        for (int64_t s = 0; s < config.B; s++) {
            const int64_t queries = all->cu_queries[s + 1] - all->cu_queries[s];
            if (queries > 0 && all->cu_keys[s + 1] == all->cu_keys[s])
                expect_nothing_seen(r, all, s);
            if (queries == 0 || all->cu_keys[s + 1] == all->cu_keys[s])
                continue;
            oracle_case *one = sequence_of(all, s);
            solve(one, r);
            for (int64_t h = 0; h < config.H; h++)
                expect_rows(r, "a sequence", one, h, all, s * config.H + h, 0, config.batch_invariant);
            oracle_free(one);
        }
        oracle_free(all);
    }
}

Test(identities, sequences_one_after_another_are_a_loop_over_them) { on_each(sequences_are_a_loop); }

/* ---- pages in random order = one piece ---- */

static void pages_are_one_piece(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, .page_size = 16, BOTTOM_RIGHT},
        {SIZES, .page_size = 1, .sinks = true, .bias = {4, 15}},
        {SIZES, .page_size = 7, .segments = true, .layout = ORACLE_BSHD},
        {SIZES, .page_size = 33, .typed = true, .k_type = CLATTN_Q4_0, .v_type = CLATTN_Q8_0, .q_type = CLATTN_F16},
        {SIZES, .page_size = 128, .typed = true, .k_type = CLATTN_BF16, .v_type = CLATTN_BF16, .layout = ORACLE_PADDED},
    };
    for (size_t i = 0; i < COUNT(configs); i++) {
        oracle_case *paged = make(&configs[i], dtype, i);
        oracle_config piece = paged->config;
        piece.page_size = 0; /* the table is made last: all else stays as it is */
        oracle_case *one = oracle_make(&piece);
        solve(paged, r);
        solve(one, r);
        expect_all(r, "pages", paged, one, is(r, "blas") || is(r, "materialised") || is(r, "reference"));
        oracle_free(paged);
        oracle_free(one);
    }
}

Test(identities, pages_in_random_order_are_one_piece) { on_each(pages_are_one_piece); }

/* ---- grouped heads = replicated heads ---- */

static void groups_are_replicas(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, BOTTOM_RIGHT},
        {SIZES, .sinks = true, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT},
        {SIZES, .typed = true, .q_type = CLATTN_BF16, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q8_0, .softcap = 4},
    };
    for (size_t i = 0; i < 2 * COUNT(configs); i++) {
        oracle_config config = configs[i / 2];
        config.H = 6;
        config.batch_invariant = i % 2 == 1; /* a promise of the same bits, whatever the number of heads */
        oracle_case *grouped = make(&config, dtype, i / 2), *replicated = with_replicated_heads(grouped);
        solve(grouped, r);
        solve(replicated, r);
        expect_all(r, "replicated heads", replicated, grouped, config.batch_invariant && keeps_bits_of_rows(r));
        oracle_free(grouped);
        oracle_free(replicated);
    }
}

Test(identities, grouped_heads_are_replicated_heads) { on_each(groups_are_replicas); }

/* ---- the last row of a bottom-right prompt = a step of decoding ---- */

static void last_row_is_a_step(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, BOTTOM_RIGHT},
        {SIZES, BOTTOM_RIGHT, .alibi = true, .sinks = true},
        {SIZES, BOTTOM_RIGHT, .has_window = true, .window_left = 20, .window_right = 0, .softcap = 3},
        {SIZES, BOTTOM_RIGHT, .typed = true, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q8_0, .q_type = CLATTN_F16},
    };
    for (size_t i = 0; i < 2 * COUNT(configs); i++) {
        oracle_config config = configs[i / 2];
        config.M = 600;
        config.batch_invariant = i % 2 == 1;
        oracle_case *prompt = make(&config, dtype, i / 2), *step = last_query_of(prompt);
        solve(prompt, r);
        solve(step, r);
        for (int64_t h = 0; h < config.B * config.H; h++)
            expect_rows(r, "a step", step, h, prompt, h, config.N - 1, config.batch_invariant && keeps_bits_of_rows(r));
        oracle_free(prompt);
        oracle_free(step);
    }
}

Test(identities, the_last_row_of_a_bottom_right_prompt_is_a_step_of_decoding) { on_each(last_row_is_a_step); }

/* ---- a window as wide as the keys = causal ---- */

static void wide_windows_are_causal(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {
        {SIZES, BOTTOM_RIGHT},
        {SIZES, BOTTOM_RIGHT, .lengths = true, .query_lengths = true},
        {SIZES, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT, .sequences = true},
        {SIZES, .causal = true, .align = CLATTN_ALIGN_OFFSET, .bias = {2, 3}},
    };
    for (size_t i = 0; i < COUNT(configs); i++) {
        oracle_case *causal = make(&configs[i], dtype, i);
        solve(causal, r);
        for (int both = 0; both < 2; both++) {
            oracle_config config = causal->config;
            config.has_window = true;
            config.causal = both == 1;
            config.window_left = config.N + config.M;
            config.window_right = both ? CLATTN_UNLIMITED : 0;
            oracle_case *windowed = oracle_make(&config);
            solve(windowed, r);
            expect_all(r, "a window of all keys", windowed, causal, true);
            oracle_free(windowed);
        }
        oracle_free(causal);
    }
}

Test(identities, a_window_as_wide_as_the_keys_is_causal) { on_each(wide_windows_are_causal); }

/* ---- a sink of 0 = a key of zeros with a value of 0, which all queries see ---- */

static void a_sink_is_a_logit(const oracle_runner *r, clattn_dtype dtype) {
    static const oracle_config configs[] = {{SIZES, .sinks = true},
                                            {SIZES, .sinks = true, .keep = {4, 15}, .softcap = 2},
                                            {SIZES, .sinks = true, .bias = {4, 15}}};
    for (size_t i = 0; i < COUNT(configs); i++) {
        oracle_config config = configs[i];
        config.M++;
        config.sinks = false;
        oracle_case *more = make(&config, dtype, i);
        const oracle_config *f = &more->config;
        for (int64_t h = 0; h < f->B * f->Hk; h++) {
            for (int64_t d = 0; d < f->D; d++)
                more->k[((h + 1) * f->M - 1) * f->D + d] = 0;
            for (int64_t d = 0; d < f->Dv; d++)
                more->v[((h + 1) * f->M - 1) * f->Dv + d] = 0;
        }
        for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
            if (more->keep)
                more->keep[(row + 1) * f->M - 1] = 1;
            if (more->bias)
                more->bias[(row + 1) * f->M - 1] = 0;
        }
        oracle_case *sink = keys_between(more, 0, f->M - 1);
        sink->config.sinks = true;
        sink->config.align = CLATTN_ALIGN_UNSET;
        sink->sinks = calloc((size_t)f->H, sizeof *sink->sinks);
        solve(more, r);
        solve(sink, r);
        expect_all(r, "a sink", sink, more, false);
        oracle_free(more);
        oracle_free(sink);
    }
}

Test(identities, a_sink_of_0_is_one_zero_logit) { on_each(a_sink_is_a_logit); }
