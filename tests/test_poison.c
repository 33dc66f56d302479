/* SPDX-License-Identifier: Apache-2.0 */
/* What is excluded is never computed with (semantics.md, R2): NaN and infinities there give the same bits as zeros, on
 * every algorithm. Excluded are keys that masks hide, the bias of such scores, queries that see no key, keys beyond
 * lengths, pages and slots not in use, rows of no sequence, what lies around tensors, scratch, and outputs before the
 * call. One key of each head that some queries see is poisoned too: the others must not notice. */
#include "identities.h"

#define COUNT(x) (sizeof(x) / sizeof *(x))
#define SIZES .B = 2, .H = 4, .Hk = 2, .N = 21, .M = 70, .D = 32, .Dv = 64, .guard = 13, .lse = true
#define WORKSPACE .buffers = true, .caller_workspace = true
#define BOTTOM_RIGHT .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT

static bool kept(const oracle_case *c, int64_t b, int64_t h, int64_t i, int64_t j) {
    return oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) > -INFINITY;
}

static bool seen_by_any(const oracle_case *c, int64_t b, int64_t hk, int64_t j) {
    const oracle_config *f = &c->config;
    const int64_t group = f->H / f->Hk;
    for (int64_t h = hk * group; h < (hk + 1) * group; h++)
        for (int64_t i = 0; i < f->N; i++)
            if (kept(c, b, h, i, j))
                return true;
    return false;
}

static int64_t chosen_key(const oracle_case *c) { return c->config.M - 1 - c->config.N / 2; }

static bool sees_any(const oracle_case *c, int64_t b, int64_t h, int64_t i) {
    for (int64_t j = 0; j < c->config.M; j++)
        if (kept(c, b, h, i, j))
            return true;
    return false;
}

static void spoil(double *x, int64_t count, double filler) {
    for (int64_t i = 0; i < count; i++)
        x[i] = filler;
}

static void spoil_keys(oracle_case *c, double filler) {
    const oracle_config *f = &c->config;
    for (int64_t row = 0; row < f->B * f->Hk * f->M; row++) {
        const int64_t b = row / (f->Hk * f->M), hk = row / f->M % f->Hk, j = row % f->M;
        if (j != chosen_key(c) && seen_by_any(c, b, hk, j))
            continue;
        spoil(c->k + row * f->D, f->D, filler);
        spoil(c->v + row * f->Dv, f->Dv, filler);
    }
}

/* The bias has all its axes. */
static void spoil_scores(oracle_case *c, double filler) {
    const oracle_config *f = &c->config;
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
        if (!sees_any(c, b, h, i))
            spoil(c->q + row * f->D, f->D, filler);
        for (int64_t j = 0; c->bias && j < f->M; j++)
            if (!oracle_sees(c, b, h, i, j))
                c->bias[row * f->M + j] = filler;
    }
}

static oracle_case *spoiled(const oracle_config *config, oracle_filler filler) {
    oracle_config f = *config;
    f.filler = filler;
    oracle_case *c = oracle_make(&f);
    spoil_scores(c, oracle_filler_value(filler));
    spoil_keys(c, oracle_filler_value(filler));
    return c;
}

/* Rows that do not see the chosen key have the same bits. */
static int expect_untouched(const oracle_runner *r, const oracle_case *clean, const oracle_case *c) {
    const oracle_config *f = &c->config;
    char text[ORACLE_TEXT];
    int compared = 0, wrong = 0;
    for (int64_t row = 0; row < f->B * f->H * f->N; row++) {
        const int64_t b = row / (f->H * f->N), h = row / f->N % f->H, i = row % f->N;
        if (kept(c, b, h, i, chosen_key(c)))
            continue;
        bool same = c->got.lse[row] == clean->got.lse[row] || (isnan(c->got.lse[row]) && isnan(clean->got.lse[row]));
        for (int64_t d = 0; d < f->Dv; d++) {
            const double got = c->got.o[row * f->Dv + d], was = clean->got.o[row * f->Dv + d];
            same = same && ((got == was && signbit(got) == signbit(was)) || (isnan(got) && isnan(was)));
        }
        for (int64_t j = 0; f->weights && j < f->M; j++)
            same = same && c->got.weights[row * f->M + j] == clean->got.weights[row * f->M + j];
        wrong += !same;
        compared++;
    }
    cr_expect_eq(wrong, 0, "%s with %g in excluded places: %d of %d rows changed in %s", r->algorithm,
                 oracle_filler_value(f->filler), wrong, compared, oracle_text(f, text));
    return compared;
}

static void check(const oracle_runner *r, const oracle_config *config) {
    static const oracle_filler fillers[] = {ORACLE_NAN, ORACLE_INFINITY, ORACLE_MINUS_INFINITY};
    oracle_case *clean = spoiled(config, ORACLE_ZERO);
    char text[ORACLE_TEXT] = "";
    solve(clean, r);
    for (size_t n = 0; n < COUNT(fillers); n++) {
        oracle_case *c = spoiled(config, fillers[n]);
        cr_assert(oracle_run(c, r->context, r->algorithm, text), "%s", text);
        cr_expect_gt(expect_untouched(r, clean, c), 0, "%s: no row is without the chosen key",
                     oracle_text(config, text));
        oracle_free(c);
    }
    oracle_free(clean);
}

static void check_all(const oracle_runner *r, clattn_dtype dtype, const oracle_config *configs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        oracle_config config = configs[i];
        config.seed = i + 1;
        config.dtype = dtype;
        if (config.typed && dtype == CLATTN_F64)
            config.o_type = CLATTN_F64;
        check(r, &config);
    }
}

#define ON_EACH(name, ...)                                                                                             \
    static void name(const oracle_runner *r, clattn_dtype dtype) {                                                     \
        static const oracle_config configs[] = {__VA_ARGS__};                                                          \
        check_all(r, dtype, configs, COUNT(configs));                                                                  \
    }

ON_EACH(masks, {SIZES, BOTTOM_RIGHT}, {SIZES, .keep = {4, 15}, .layout = ORACLE_PADDED},
        {SIZES, .drop = {2, 3}, .sinks = true, .weights = true}, {SIZES, .bias = {4, 15}, BOTTOM_RIGHT},
        {SIZES, .has_window = true, .window_left = 5, .window_right = 2, .align = CLATTN_ALIGN_OFFSET,
         .layout = ORACLE_TRANSPOSED},
        {SIZES, .segments = true, .weights = true}, {SIZES, BOTTOM_RIGHT, .prefix = true, .lengths = true})
Test(poison, masked_keys_and_values) { on_each(masks); }

ON_EACH(lengths, {SIZES, .lengths = true, .query_lengths = true, WORKSPACE},
        {SIZES, .lengths = true, .keep = {4, 15}, .bias = {4, 15}, .layout = ORACLE_BSHD},
        {.B = 3, .H = 2, .N = 1, .M = 1500, .D = 16, .guard = 64, .lse = true, .lengths = true, WORKSPACE})
Test(poison, cache_padding) { on_each(lengths); }

ON_EACH(pages, {SIZES, .page_size = 16, WORKSPACE}, {SIZES, .page_size = 7, BOTTOM_RIGHT, .layout = ORACLE_BSHD},
        {SIZES, .page_size = 1, .drop = {4, 15}},
        {SIZES, .page_size = 33, .typed = true, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q4_0, WORKSPACE},
        {SIZES, .page_size = 64, .typed = true, .k_type = CLATTN_F16, .v_type = CLATTN_BF16, .sinks = true})
Test(poison, unused_pages) { on_each(pages); }

ON_EACH(sequences, {SIZES, .sequences = true, BOTTOM_RIGHT, WORKSPACE},
        {SIZES, .sequences = true, .lengths = true, .layout = ORACLE_TRANSPOSED, WORKSPACE},
        {SIZES, .sequences = true, .page_size = 5, .segments = true},
        {SIZES, .sequences = true, .typed = true, .k_type = CLATTN_Q4_0, .v_type = CLATTN_F16, .o_type = CLATTN_BF16,
         .segments = true})
Test(poison, rows_of_no_sequence) { on_each(sequences); }

ON_EACH(scores, {SIZES, BOTTOM_RIGHT, .softcap = 3, WORKSPACE}, {SIZES, BOTTOM_RIGHT, .alibi = true, .sinks = true},
        {SIZES, BOTTOM_RIGHT, .batch_invariant = true, .keep = {2, 3}, WORKSPACE},
        {SIZES, .typed = true, .q_type = CLATTN_F16, .k_type = CLATTN_F16, .v_type = CLATTN_F16, .o_type = CLATTN_F16,
         .bias_type = CLATTN_F16, .bias = {4, 15}, .keep = {4, 15}, WORKSPACE},
        {SIZES, .typed = true, .q_type = CLATTN_BF16, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q8_0, BOTTOM_RIGHT,
         .layout = ORACLE_PADDED, WORKSPACE})
Test(poison, other_options_scratch_and_types) { on_each(scores); }
