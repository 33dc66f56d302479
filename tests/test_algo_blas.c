/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `blas` against the oracle: block edges, parts of keys, limits, poison. */
#include "algo_checks.h"
#include <omp.h>

static const int64_t edges[] = {1, 2, 15, 31, 64, 127, 129, 260};

Test(algo_blas, agrees_with_the_oracle_around_block_edges) {
    clattn_context *context = checks_open("cpu");
    for (uint64_t seed = 1; seed <= 3; seed++)
        checks_spread(context, "blas", edges, sizeof edges / sizeof *edges, seed);
    clattn_context_destroy(context);
}

Test(algo_blas, agrees_when_keys_pass_a_block) {
    clattn_context *context = checks_open("cpu");
    const oracle_config configs[] = {
        {.H = 2, .N = 130, .M = 1030, .D = 16, .lse = true},
        {.H = 2, .N = 130, .M = 1030, .D = 16, .lse = true, .weights = true},
        {.N = 600, .M = 1500, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
        {.N = 700, .M = 700, .D = 8, .has_window = true, .window_left = 30, .window_right = 5, .lse = true},
        {.B = 3, .N = 20, .M = 2000, .D = 8, .lengths = true, .lse = true, .keep = {4, 9}},
        {.H = 8, .Hk = 2, .N = 3, .M = 1600, .D = 24, .bias = {4, 6}, .lse = true},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        checks_problem(context, "blas", configs[i]);
    clattn_context_destroy(context);
}

Test(algo_blas, splits_the_keys_of_a_decode_over_the_threads) {
    clattn_context *context = checks_open("cpu");
    const oracle_config configs[] = {
        {.N = 1, .M = 4096, .D = 64, .lse = true},
        {.N = 1, .M = 3000, .D = 5, .lse = true, .keep = {4, 9}},
        {.H = 4, .Hk = 1, .N = 1, .M = 2048, .D = 32, .lse = true, .lengths = true},
        {.N = 2, .M = 900, .D = 16, .lse = true, .causal = true, .align = CLATTN_ALIGN_TOP_LEFT},
        {.N = 1, .M = 4096, .D = 8, .weights = true, .layout = ORACLE_BSHD},
    };
    for (int threads = 1; threads <= 5; threads++) {
        omp_set_num_threads(threads);
        for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
            checks_problem(context, "blas", configs[i]);
    }
    omp_set_num_threads(3);
    checks_poison_value(context, "blas", &configs[1], NAN);
    checks_poison_key(context, "blas", &configs[1]);
    clattn_context_destroy(context);
}

Test(algo_blas, poison_under_masks_changes_nothing) {
    clattn_context *context = checks_open("cpu");
    checks_poison(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, follows_the_rules_for_empty_rows_and_infinities) {
    clattn_context *context = checks_open("cpu");
    checks_rules(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, exponential_is_within_two_ulps) {
    clattn_context *context = checks_open("cpu");
    checks_exponential(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, long_uniform_row_is_exact) {
    clattn_context *context = checks_open("cpu");
    checks_long_row(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, rows_that_share_their_place_are_copied) {
    clattn_context *context = checks_open("cpu");
    checks_shared_rows(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, keeps_below_the_callers_limit) {
    enum { N = 200, D = 16 };
    clattn_context *context = checks_open("cpu");
    static float x[N * D], o[N * D], full[N * D];
    const checks_call c = {N, N, D, D, x, x, x, NULL, NULL, o, NULL, NULL};
    clattn_attention_args a = checks_args(&c);
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    for (int i = 0; i < N * D; i++)
        x[i] = (float)(i * 7919 % 101) / 50 - 1;
    a.algorithm = "blas";
    SUCCEEDS(clattn_attention(context, &a));
    memcpy(full, o, sizeof o);
    for (size_t limit = 200000; limit >= 25000; limit /= 2) {
        a.max_workspace = limit;
        SUCCEEDS(clattn_plan_create(context, &a, &plan));
        SUCCEEDS(clattn_plan_info_get(plan, &info));
        cr_expect_leq(info.workspace_bytes, limit);
        SUCCEEDS(clattn_plan_execute(plan, NULL));
        for (int i = 0; i < N * D; i++)
            cr_expect_float_eq(o[i], full[i], oracle_floor(CLATTN_F32, 1));
        clattn_plan_destroy(plan);
    }
    a.max_workspace = 100;
    FAILS(clattn_plan_create(context, &a, &plan), CLATTN_E_LIMIT, "100");
    cr_expect_null(plan);
    clattn_context_destroy(context);
}

Test(algo_blas, computes_weights_and_lse_without_values) {
    clattn_context *context = checks_open("cpu");
    checks_without_values(context, "blas");
    clattn_context_destroy(context);
}

Test(algo_blas, refuses_opencl_devices) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        return;
    float x[1] = {1}, o[1];
    const checks_call c = {1, 1, 1, 1, x, x, x, NULL, NULL, o, NULL, NULL};
    clattn_attention_args a = checks_args(&c);
    a.algorithm = "blas";
    FAILS(clattn_attention(context, &a), CLATTN_E_UNSUPPORTED, "cpu context");
    clattn_context_destroy(context);
}
