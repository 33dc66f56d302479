/* SPDX-License-Identifier: Apache-2.0 */
/* Known failures, group B: causal masks and windows. */
#include "cases.h"

/* All scores 0 and V = identity, so that O is the weights. */
static oracle_case *even(clattn_dtype dtype, int64_t N, int64_t M, clattn_align align) {
    const oracle_config config = {.dtype = dtype, .N = N, .M = M, .D = 4, .Dv = M, .causal = true, .align = align};
    oracle_case *c = oracle_make(&config);
    set_all(c->q, N * 4, 0);
    set_identity(c->v, M, M);
    return c;
}

static void b01(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = even(dtype, 2, 5, CLATTN_ALIGN_TOP_LEFT);
    agrees(c, r);
    EXPECT(r, c->got.o, 1e-7, 1, 0, 0, 0, 0, .5, .5, 0, 0, 0);
    oracle_free(c);
    c = even(dtype, 2, 5, CLATTN_ALIGN_BOTTOM_RIGHT);
    agrees(c, r);
    EXPECT(r, c->got.o, 1e-7, .25, .25, .25, .25, 0, .2, .2, .2, .2, .2);
    oracle_free(c);
}
Test(cases, B01_causal_with_more_keys_follows_its_alignment) { on_each(b01); }

static void b02(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = even(dtype, 5, 2, CLATTN_ALIGN_BOTTOM_RIGHT);
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 0, 0, 0, 0, 0, 0, 1, 0, .5, .5);
    oracle_free(c);
    c = even(dtype, 5, 2, CLATTN_ALIGN_TOP_LEFT);
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 1, 0, .5, .5, .5, .5, .5, .5, .5, .5);
    oracle_free(c);
}
Test(cases, B02_causal_with_more_queries_leaves_rows_empty_only_bottom_right) { on_each(b02); }

static void b03(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = even(dtype, 2, 5, CLATTN_ALIGN_OFFSET);
    c->offsets[0] = 3;
    agrees(c, r);
    EXPECT(r, c->got.o, dtype == CLATTN_F64 ? 1e-16 : 1e-8, .25, .25, .25, .25, 0, .2, .2, .2, .2, .2);
    oracle_free(c);
}
Test(cases, B03_an_offset_is_the_number_of_keys_before_the_queries) { on_each(b03); }

static void b05(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = even(dtype, 1, 5, CLATTN_ALIGN_TOP_LEFT);
    agrees(c, r);
    EXPECT(r, c->got.o, 0, 1, 0, 0, 0, 0);
    oracle_free(c);
}
Test(cases, B05_one_query_and_many_keys_is_the_same_everywhere) { on_each(b05); }

/* O[i, j] is the weight of key j. */
static void expect_pattern(const oracle_case *c, const oracle_runner *r) {
    const oracle_config *f = &c->config;
    for (int64_t i = 0; i < f->N; i++)
        for (int64_t j = 0; j < f->M; j++) {
            const bool seen = oracle_sees(c, 0, 0, i, j), got = c->got.o[i * f->M + j] > 0;
            cr_assert_eq(got, seen, "%s: %lld queries, %lld keys: query %lld %s key %lld", r->algorithm,
                         (long long)f->N, (long long)f->M, (long long)i, got ? "sees" : "does not see", (long long)j);
        }
}

/* One tile edge is enough for f64, which runs the same masks. */
static void b06(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t sizes[] = {1, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129};
    for (size_t n = 0; n < 11; n++)
        for (size_t m = 0; m < 11; m++)
            for (int align = CLATTN_ALIGN_TOP_LEFT; align <= CLATTN_ALIGN_BOTTOM_RIGHT; align++) {
                if (dtype == CLATTN_F64 && (n + m) % 5 != 0)
                    continue;
                oracle_case *c = even(dtype, sizes[n], sizes[m], (clattn_align)align);
                runs(c, r);
                expect_pattern(c, r);
                oracle_free(c);
            }
}
Test(cases, B06_every_tile_that_the_diagonal_crosses_is_masked) { on_each(b06); }

static void window(const oracle_runner *r, clattn_dtype dtype) {
    static const int64_t sides[] = {0, 1, 15, 16, 17, 64, CLATTN_UNLIMITED};
    for (size_t left = 0; left < 7; left++)
        for (size_t right = 0; right < 7; right++)
            for (int align = CLATTN_ALIGN_TOP_LEFT; align <= CLATTN_ALIGN_BOTTOM_RIGHT; align++) {
                oracle_case *c = even(dtype, 65, 131, (clattn_align)align);
                c->config.causal = false;
                c->config.has_window = true;
                c->config.window_left = sides[left];
                c->config.window_right = sides[right];
                runs(c, r);
                expect_pattern(c, r);
                oracle_free(c);
            }
}
Test(cases, B06_every_tile_that_a_window_crosses_is_masked) { on_each(window); }
