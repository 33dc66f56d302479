/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures that concern the types of storage, and soft caps: groups A, D and F. On every algorithm. */
#include "cases.h"
#include "mixed.h"
#include <float.h>

static const clattn_dtype types[] = {CLATTN_F16, CLATTN_BF16, CLATTN_F32, CLATTN_F64};
enum { TYPES = sizeof types / sizeof *types };

/* On every algorithm of both devices, in all types that it has. */
static void on_types(void (*check)(const oracle_runner *runner, clattn_dtype dtype)) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_open(runners);
    cr_assert_gt(n, 0);
    for (size_t i = 0; i < n; i++)
        for (int t = 0; t < TYPES; t++)
            if (types[t] != CLATTN_F64 || runners[i].has_f64)
                check(&runners[i], types[t]);
    oracle_close(runners, n);
}

static void run(mixed *m, const oracle_runner *r) { SUCCEEDS(mixed_run(m, r->context, r->algorithm)); }

/* ---- A01: a row that sees nothing ---- */

static void a01(const oracle_runner *r, clattn_dtype dtype) {
    enum { H = 2, N = 6, M = 10, D = 8 };
    const int64_t shape[] = {N, M};
    unsigned char keep[N * M] = {0};
    double open_o[H * N * D], open_lse[H * N];
    mixed m = mixed_typed(dtype);
    m.H = H, m.N = N, m.M = M, m.D = D;
    m.args.has_scale = true;
    m.args.scale = 0.125;
    m.args.keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, shape);
    mixed_fill(&m, 1);
    for (int last = 1; last >= 0; last--) {
        for (int i = 0; i < N * M; i++)
            keep[i] = i / M < 5 ? i % M <= i / M : last == 1;
        run(&m, r);
        if (last) {
            memcpy(open_o, m.o, sizeof open_o);
            memcpy(open_lse, m.lse, sizeof open_lse);
        }
    }
    for (int h = 0; h < H; h++) {
        EXPECT(r, m.o + (h * N + 5) * D, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        EXPECT(r, m.lse + h * N + 5, 0, -INFINITY);
        expect_same(r, m.o + h * N * D, open_o + h * N * D, 5 * D);
        expect_same(r, m.lse + h * N, open_lse + h * N, 5);
    }
    mixed_free(&m);
}
Test(cases, A01_a_fully_masked_row_is_zero_in_every_type) { on_types(a01); }

/* ---- A05: a constant in place of -infinity ---- */

/* Every score gets the same number, which leaves the weights alone but for the rounding of sums in f32. */
static void a05(const oracle_runner *r, clattn_dtype dtype) {
    static const struct {
        clattn_dtype dtype;
        double value;
    } masks[] = {{CLATTN_F16, -65504}, {CLATTN_F32, -65504}, {CLATTN_BF16, -65280}};
    enum { N = 3, M = 4 };
    const int64_t shape[] = {N, M};
    for (size_t n = 0; n < sizeof masks / sizeof *masks; n++) {
        double values[N * M], exact[N * M];
        unsigned char bias[N * M * sizeof(float)];
        mixed m = mixed_typed(dtype);
        m.N = N, m.M = M, m.D = 8, m.Dv = M;
        mixed_fill(&m, 50);
        set_identity(m.v, M, M);
        mixed_exact(&m); /* without the constant */
        memcpy(exact, m.o, sizeof exact);
        set_all(values, N * M, masks[n].value);
        SUCCEEDS(clattn_convert(bias, masks[n].dtype, values, CLATTN_F64, N * M));
        m.args.bias = clattn_tensor_host(bias, masks[n].dtype, 2, shape);
        run(&m, r);
        /* A sum near 65504 is rounded to 2^-8 in f32; the weights are those of scores that are off by half of it. */
        expect_values(r, m.o, exact, N * M, 2e-3 + oracle_floor(dtype, 1));
        mixed_free(&m);
    }
}
Test(cases, A05_the_least_number_of_f16_as_a_mask_is_added_in_f32) { on_types(a05); }

/* ---- A07: unused slots of a cache ---- */

static void a07(const oracle_runner *r, clattn_dtype dtype) {
    enum { B = 4, M = 128, D = 64 };
    static const int64_t lengths[B] = {32, 64, 96, 48};
    double clean[B * D], lse[B];
    mixed m = mixed_typed(dtype);
    m.B = B, m.N = 1, m.M = M, m.D = D;
    m.args.key_lengths = lengths;
    mixed_fill(&m, 70);
    run(&m, r);
    memcpy(clean, m.o, sizeof clean);
    memcpy(lse, m.lse, sizeof lse);
    for (m.padding = 0x7f; m.padding <= 0xff; m.padding += 0x80) { /* 0x7f7f: a large number in f32; NaN in f16 */
        run(&m, r);
        expect_same(r, m.o, clean, B * D);
        expect_same(r, m.lse, lse, B);
    }
    mixed_free(&m);
}
Test(cases, A07_any_byte_may_stand_in_unused_slots_of_every_type) { on_types(a07); }

/* ---- D01: large scores ---- */

static void d01(const oracle_runner *r, clattn_dtype dtype) {
    static const double sizes[] = {256, 65280};
    for (int n = 0; n < 2; n++) {
        mixed m = mixed_typed(dtype);
        m.N = m.M = 2, m.D = 128, m.Dv = 1;
        mixed_fill(&m, 1);
        set_all(m.q, 2 * 128, sizes[n]);
        set_all(m.k, 128, sizes[n]);
        set_all(m.k + 128, 128, -sizes[n]);
        SET(m.v, 1, 3);
        run(&m, r);
        EXPECT(r, m.o, 0, 1, 1);
        for (int i = 0; i < 2; i++)
            cr_expect(isfinite(m.lse[i]), "%s: %g", r->algorithm, m.lse[i]);
        mixed_free(&m);
    }
}
Test(cases, D01_scores_above_the_largest_f16_are_kept_in_f32) { on_types(d01); }

/* ---- D03: the cap comes before every mask ---- */

static void d03(const oracle_runner *r, clattn_dtype dtype) {
    enum { BIAS, KEEP, DROP, LENGTHS, CAUSAL, WINDOW, SEGMENTS, WAYS };
    static const double caps[] = {1, 30, 50};
    static const float bias[] = {0, -INFINITY};
    static const unsigned char first[] = {1, 0}, second[] = {0, 1};
    static const int64_t one = 1, shape[] = {1, 2};
    static const int32_t segments[] = {7, 8};
    for (int n = 0; n < 3; n++)
        for (int way = 0; way < WAYS; way++) {
            mixed m = mixed_typed(dtype);
            m.N = 1, m.M = 2, m.D = 4, m.Dv = 1;
            mixed_fill(&m, 1);
            set_all(m.q, 4, 0);
            SET(m.v, 1, 100);
            m.args.softcap = caps[n];
            m.args.align = CLATTN_ALIGN_TOP_LEFT;
            if (way == BIAS)
                m.args.bias = clattn_tensor_host(bias, CLATTN_F32, 2, shape);
            if (way == KEEP)
                m.args.keep = clattn_tensor_host(first, CLATTN_BOOL, 2, shape);
            if (way == DROP)
                m.args.drop = clattn_tensor_host(second, CLATTN_BOOL, 2, shape);
            if (way == SEGMENTS) {
                m.args.query_segments = segments;
                m.args.key_segments = segments;
            }
            m.args.key_lengths = way == LENGTHS ? &one : NULL;
            m.args.causal = way == CAUSAL;
            m.args.has_window = way == WINDOW;
            run(&m, r);
            cr_expect_eq(m.o[0], 1, "%s, cap %g, mask %d: %.17g", r->algorithm, caps[n], way, m.o[0]);
            cr_expect_eq(m.lse[0], 0, "%s, cap %g, mask %d: lse %g", r->algorithm, caps[n], way, m.lse[0]);
            mixed_free(&m);
        }
}
Test(cases, D03_a_soft_cap_before_the_mask_lets_nothing_through) { on_types(d03); }

/* ---- D06, D07: sums and rounding ---- */

static void d06(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t keys[] = {7, 300};
    const double most = dtype == CLATTN_BF16 ? 65280 : 65504;
    for (int n = 0; n < 2; n++) {
        mixed m = mixed_typed(dtype);
        m.N = 5, m.M = keys[n], m.D = 8;
        mixed_fill(&m, 60);
        set_all(m.v, m.M * m.D, most);
        run(&m, r);
        for (int64_t i = 0; i < m.N * m.D; i++)
            cr_expect(dtype == CLATTN_F16 || dtype == CLATTN_BF16 ? m.o[i] == most
                                                                  : fabs(m.o[i] - most) <= oracle_floor(dtype, most),
                      "%s: %.17g", r->algorithm, m.o[i]);
        mixed_free(&m);
    }
}
Test(cases, D06_the_mean_of_the_largest_f16_is_the_largest_f16) { on_types(d06); }

static void d07(const oracle_runner *r, clattn_dtype dtype) {
    if (dtype != CLATTN_F16 && dtype != CLATTN_BF16)
        return; /* in test_cases_numbers.c */
    mixed m = mixed_typed(dtype);
    m.N = 1, m.M = 70000, m.D = 4;
    mixed_fill(&m, 1);
    set_all(m.q, 4, 0);
    set_all(m.v, m.M * 4, 1);
    run(&m, r);
    EXPECT(r, m.o, 0, 1, 1, 1, 1);
    cr_expect_float_eq(m.lse[0], log(70000), oracle_floor(CLATTN_F32, log(70000)));
    mixed_free(&m);
}
Test(cases, D07_seventy_thousand_equal_weights_sum_to_one_in_16_bits) { on_types(d07); }

/* ---- F08: 16-bit storage without cl_khr_fp16 ---- */

/* The result is V, which is f32, stored in 16 bits. */
static void f08(const oracle_runner *r, clattn_dtype dtype) {
    static const double half[][2] = {{65519, 65504},
                                     {65520, INFINITY},
                                     {2049, 2048},
                                     {2051, 2052},
                                     {0x1p-24, 0x1p-24},
                                     {0x1p-25, 0},
                                     {0x1.8p-25, 0x1p-24},
                                     {-0x1.ff8p-15, -0x1.ff8p-15},
                                     {0x1.ffcp-15, 0x1p-14},
                                     {-65520, -INFINITY},
                                     {1e-30, 0}};
    static const double brain[][2] = {{257, 256},
                                      {259, 260},
                                      {0x1p-133, 0x1p-133},
                                      {FLT_MAX, INFINITY},
                                      {-0x1.fep127, -0x1.fep127},
                                      {1 + 0x1p-8, 1},
                                      {1 + 0x1.8p-7, 1 + 0x1p-6}};
    const double(*table)[2] = dtype == CLATTN_F16 ? half : brain;
    const int count = dtype == CLATTN_F16 ? (int)(sizeof half / sizeof *half) : (int)(sizeof brain / sizeof *brain);
    mixed m = mixed_typed(dtype);
    if (dtype != CLATTN_F16 && dtype != CLATTN_BF16)
        return;
    m.N = m.M = 1, m.D = 3, m.Dv = count;
    m.v_type = CLATTN_F32;
    mixed_fill(&m, 80);
    for (int i = 0; i < count; i++)
        m.v[i] = table[i][0];
    run(&m, r);
    for (int i = 0; i < count; i++)
        cr_expect_eq(m.o[i], table[i][1], "%s: %a in %s is %a, not %a", r->algorithm, table[i][0],
                     clattn_dtype_name(dtype), m.o[i], table[i][1]);
    mixed_free(&m);
}
Test(cases, F08_results_in_16_bits_round_to_nearest_even_without_the_extension) { on_types(f08); }

/* Reading: every class of numbers comes back as it was stored. */
static void f08_reads(const oracle_runner *r, clattn_dtype dtype) {
    static const double numbers[] = {65504, -65504, 0x1p-24, 0x1.ffcp-15, 0x1p-14, 2048, 1 + 0x1p-10, 0, INFINITY, NAN};
    enum { COUNT = sizeof numbers / sizeof *numbers };
    double want[COUNT];
    mixed m = mixed_typed(CLATTN_F32);
    m.v_type = dtype;
    m.N = m.M = 1, m.D = 3, m.Dv = COUNT;
    mixed_fill(&m, 81);
    memcpy(m.v, numbers, sizeof numbers);
    memcpy(want, numbers, sizeof numbers);
    kv_round(want, dtype, COUNT);
    run(&m, r);
    expect_values(r, m.o, want, COUNT, 0);
    mixed_free(&m);
}
Test(cases, F08_every_16_bit_number_is_read_exactly) { on_types(f08_reads); }

/* Products in 16 bits, of every type with every other. */
static void f08_oracle(const oracle_runner *r, clattn_dtype dtype) {
    for (int t = 0; t < TYPES; t++) {
        if (types[t] == CLATTN_F64 && !r->has_f64)
            continue;
        mixed m = {.q_type = dtype, .k_type = types[t], .v_type = dtype, .o_type = types[(t + 1) % 3], .padding = -1};
        m.B = 2, m.H = 4, m.Hk = 2, m.N = 9, m.M = 37, m.D = 24, m.Dv = 20;
        m.args.causal = true;
        m.args.align = CLATTN_ALIGN_BOTTOM_RIGHT;
        mixed_fill(&m, 82);
        mixed_exact(&m);
        const int64_t count = m.B * m.H * m.N * m.Dv, rows = m.B * m.H * m.N;
        double *o = m.o, *lse = m.lse;
        m.o = m.lse = NULL;
        run(&m, r);
        expect_values(r, m.o, o, count, mixed_allowed(&m));
        expect_values(r, m.lse, lse, rows, 2 * oracle_floor(CLATTN_F32, kv_largest(lse, rows)));
        free(o);
        free(lse);
        mixed_free(&m);
    }
}
Test(cases, F08_types_mix_and_sums_are_in_f32) { on_types(f08_oracle); }
