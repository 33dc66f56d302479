/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass of `fused_lanes`: problems of several tiles and splits, which the grid's are too small for; NaN
 * inside the tiles that masks cut; the same bits in each run. */
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <string.h>

static const char name[] = "fused_lanes";

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

static void check(clattn_context *context, const oracle_config *config) {
    clattn_device_info info;
    char text[ORACLE_TEXT] = "";
    SUCCEEDS(clattn_context_info(context, &info));
    if (config->dtype == CLATTN_F64 && !info.has_f64)
        return;
    oracle_case *c = oracle_make(config);
    oracle_backward *g = oracle_backward_make(c);
    cr_expect(oracle_backward_exact(g, text) && oracle_backward_run(g, context, name, name, text) &&
                  oracle_backward_compare(g, name, text),
              "%s", text);
    oracle_backward_free(g);
    oracle_free(c);
}

static void check_all(const oracle_config *list, size_t count) {
    clattn_context *context = open_device();
    for (size_t i = 0; i < count; i++)
        check(context, &list[i]);
    clattn_context_destroy(context);
}
#define CHECK_ALL(list) check_all(list, sizeof list / sizeof *list)

/* ---- results ---- */

Test(backward_lanes, tiles_and_splits_give_what_the_oracle_says, .timeout = 600) {
    const oracle_config list[] = {{.N = 151, .M = 397, .D = 40, .Dv = 24, .guard = 13},
                                  {.B = 2, .H = 4, .N = 130, .M = 129, .D = 64, .layout = ORACLE_BSHD},
                                  {.H = 6, .Hk = 3, .N = 1, .M = 200, .D = 33, .buffers = true},
                                  {.H = 2, .N = 200, .M = 1, .D = 7, .Dv = 61},
                                  {.H = 2, .N = 101, .M = 290, .D = 100, .Dv = 128}};
    CHECK_ALL(list);
}

Test(backward_lanes, intervals_cut_tiles, .timeout = 600) {
    const oracle_config list[] = {
        {.H = 4, .Hk = 2, .N = 170, .M = 290, .D = 20, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {.H = 2, .N = 170, .M = 290, .D = 20, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
        {.B = 2,
         .N = 210,
         .D = 16,
         .causal = true,
         .has_window = true,
         .window_left = 70,
         .window_right = 9,
         .lengths = true,
         .query_lengths = true,
         .align = CLATTN_ALIGN_TOP_LEFT},
        {.B = 3,
         .H = 2,
         .N = 90,
         .M = 170,
         .D = 24,
         .causal = true,
         .prefix = true,
         .lengths = true,
         .align = CLATTN_ALIGN_OFFSET},
        {.B = 4, .H = 2, .Hk = 1, .N = 120, .M = 140, .D = 9, .sequences = true, .buffers = true, .guard = 7}};
    CHECK_ALL(list);
}

Test(backward_lanes, score_masks_and_dropout_reach_all_gradients, .timeout = 600) {
    const oracle_config list[] = {
        {.B = 2,
         .H = 4,
         .Hk = 2,
         .N = 110,
         .M = 170,
         .D = 32,
         .keep = {4, 11},
         .bias = {2, 3},
         .softcap = 3,
         .sinks = true},
        {.B = 2, .H = 2, .N = 70, .M = 150, .D = 16, .bias = {4, 9}, .alibi = true, .align = CLATTN_ALIGN_TOP_LEFT},
        {.B = 2, .H = 2, .N = 130, .M = 70, .D = 16, .bias = {3, 6}, .segments = true, .sinks = true},
        {.H = 2, .N = 130, .M = 170, .D = 16, .bias = {4, 4}, .drop = {2, 3}, .dropout = 0.3},
        {.B = 2,
         .H = 2,
         .N = 90,
         .M = 150,
         .D = 24,
         .dropout = 0.1,
         .causal = true,
         .align = CLATTN_ALIGN_BOTTOM_RIGHT}};
    CHECK_ALL(list);
}

/* Inputs so large that weights are peaked: S needs the bits of the forward pass. */
Test(backward_lanes, peaked_weights_are_the_forward_pass_s, .timeout = 600) {
    const oracle_config list[] = {{.H = 2, .N = 150, .M = 150, .D = 64, .has_scale = true, .scale = 1.2},
                                  {.H = 2, .N = 150, .M = 150, .D = 64, .has_scale = true, .scale = 12}};
    CHECK_ALL(list);
}

Test(backward_lanes, any_type_and_any_head_dim, .timeout = 600) {
    const oracle_config list[] = {{.H = 2,
                                   .N = 60,
                                   .M = 90,
                                   .D = 100,
                                   .Dv = 130,
                                   .typed = true,
                                   .q_type = CLATTN_F16,
                                   .k_type = CLATTN_BF16,
                                   .v_type = CLATTN_F16,
                                   .o_type = CLATTN_F32},
                                  {.H = 2, .N = 30, .M = 40, .D = 300, .Dv = 20, .lengths = true},
                                  {.H = 2, .N = 30, .M = 40, .D = 520, .Dv = 30, .lengths = true},
                                  {.dtype = CLATTN_F64, .H = 2, .N = 30, .M = 40, .D = 300, .Dv = 20, .lengths = true}};
    CHECK_ALL(list);
}

/* Whose m may be another number near the maximum, and whose sums have another order. */
Test(backward_lanes, takes_the_state_of_any_forward_algorithm, .timeout = 600) {
    static const char *const others[] = {"fused_split", "fused_tiles", "materialised"};
    const oracle_config config = {.B = 2, .H = 4, .Hk = 2, .N = 60, .M = 150, .D = 24, .sinks = true, .lengths = true};
    clattn_context *context = open_device();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        char text[ORACLE_TEXT] = "";
        oracle_case *c = oracle_make(&config);
        oracle_backward *g = oracle_backward_make(c);
        cr_expect(oracle_backward_exact(g, text) && oracle_backward_run(g, context, others[i], name, text) &&
                      oracle_backward_compare(g, name, text),
                  "%s: %s", others[i], text);
        oracle_backward_free(g);
        oracle_free(c);
    }
    clattn_context_destroy(context);
}

/* ---- bits ---- */

Test(backward_lanes, each_run_has_the_same_bits, .timeout = 600) {
    clattn_context *context = open_device();
    const oracle_config config = {.H = 3, .Hk = 1, .N = 150, .M = 300, .D = 24};
    const int64_t count[] = {3 * 150 * 24, 300 * 24, 300 * 24};
    char text[ORACLE_TEXT] = "";
    double *kept[3];
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
    for (int i = 0; i < 3; i++) {
        kept[i] = malloc((size_t)count[i] * sizeof(double));
        memcpy(kept[i], g->got.of[i], (size_t)count[i] * sizeof(double));
    }
    for (int run = 0; run < 5; run++) {
        cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
        for (int i = 0; i < 3; i++)
            cr_expect_arr_eq(g->got.of[i], kept[i], (size_t)count[i] * sizeof(double), "gradient %d", i);
    }
    for (int i = 0; i < 3; i++)
        free(kept[i]);
    oracle_backward_free(g);
    oracle_free(c);
    clattn_context_destroy(context);
}

Test(backward_lanes, a_query_with_one_key_has_a_gradient_of_exactly_0) {
    clattn_context *context = open_device();
    const oracle_config config = {.H = 2, .N = 70, .M = 70, .D = 30, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT};
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(&config);
    oracle_backward *g = oracle_backward_make(c);
    cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
    for (int64_t h = 0; h < 2; h++)
        for (int64_t d = 0; d < 30; d++)
            cr_expect_eq(g->got.of[ORACLE_DQ][h * 70 * 30 + d], 0);
    oracle_backward_free(g);
    oracle_free(c);
    clattn_context_destroy(context);
}

/* ---- NaN ---- */

enum { N = 100, D = 18, BAD = 57 };

/* Whether row i of a gradient [1, 2, N, D] is NaN, all of it. */
static bool is_nan_row(const double *x, int64_t h, int64_t i) {
    int count = 0;
    for (int64_t d = 0; d < D; d++)
        count += isnan(x[(h * N + i) * D + d]);
    cr_expect(count == 0 || count == D, "row %lld: %d of %d are NaN", (long long)i, count, D);
    return count > 0;
}

/* Causal: key j is seen by the queries j .. N. A row of head 0 is NaN; which gradients are? */
static void poison(clattn_context *context, double *(*row)(oracle_backward *g), bool keep_mask) {
    const oracle_config causal = {.H = 2, .N = N, .M = N, .D = D, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
                        mask = {.H = 2, .N = N, .M = N, .D = D, .keep = {2, 3}};
    char text[ORACLE_TEXT] = "";
    oracle_case *c = oracle_make(keep_mask ? &mask : &causal);
    oracle_backward *g = oracle_backward_make(c);
    double *bad = row(g) + BAD * D;
    for (int d = 0; d < D; d++)
        bad[d] = d % 2 ? NAN : INFINITY;
    cr_assert(oracle_backward_run(g, context, name, name, text), "%s", text);
    const bool of_query = row(g) == c->q || row(g) == g->d_o;
    for (int64_t i = 0; i < N; i++) {
        const bool q_sees = oracle_sees(c, 0, 0, i, BAD), k_seen = oracle_sees(c, 0, 0, BAD, i);
        /* A bad query row reaches itself and the keys that it sees; a bad key row the queries that see it and, by
         * their weights, all keys that those see. */
        bool key_reached = k_seen;
        for (int64_t x = 0; !of_query && x < N; x++)
            key_reached = x == 0 ? oracle_sees(c, 0, 0, 0, BAD) && oracle_sees(c, 0, 0, 0, i)
                                 : key_reached || (oracle_sees(c, 0, 0, x, BAD) && oracle_sees(c, 0, 0, x, i));
        cr_expect_eq(is_nan_row(g->got.of[ORACLE_DQ], 0, i), of_query ? i == BAD : q_sees, "dQ %lld", (long long)i);
        cr_expect_eq(is_nan_row(g->got.of[ORACLE_DK], 0, i), key_reached, "dK %lld", (long long)i);
        if (row(g) != g->d_o && row(g) != c->v)
            cr_expect_eq(is_nan_row(g->got.of[ORACLE_DV], 0, i), key_reached, "dV %lld", (long long)i);
        cr_expect(!is_nan_row(g->got.of[ORACLE_DQ], 1, i) && !is_nan_row(g->got.of[ORACLE_DK], 1, i));
    }
    oracle_backward_free(g);
    oracle_free(c);
}

static double *q_rows(oracle_backward *g) { return g->c->q; }
static double *k_rows(oracle_backward *g) { return g->c->k; }
static double *v_rows(oracle_backward *g) { return g->c->v; }
static double *o_rows(oracle_backward *g) { return g->d_o; }

Test(backward_lanes, nan_reaches_what_sees_it_and_nothing_else, .timeout = 600) {
    clattn_context *context = open_device();
    double *(*const rows[])(oracle_backward *) = {q_rows, k_rows, v_rows, o_rows};
    for (int i = 0; i < 4; i++)
        for (int mask = 0; mask < 2; mask++)
            poison(context, rows[i], mask == 1);
    clattn_context_destroy(context);
}
