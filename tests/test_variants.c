/* SPDX-License-Identifier: Apache-2.0 */
/* Every variant that the tuner may choose gives right results: forced through the arguments, for every algorithm of
 * this machine, at odd shapes with every kind of mask, against the oracle. And what is said of wrong ones. */
#include "algo_checks.h"

#define COUNT(x) (sizeof(x) / sizeof *(x))

/* Sizes that divide no block, so that every tail and every mask is met; few kinds of kernels, for the builds' sake. */
static const oracle_config problems[] = {
    {.B = 2,
     .H = 4,
     .Hk = 2,
     .N = 37,
     .M = 133,
     .D = 40,
     .Dv = 24,
     .causal = true,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .keep = {4, 14},
     .bias = {3, 7},
     .lse = true,
     .layout = ORACLE_BSHD},
    {.H = 2, .N = 131, .M = 71, .D = 64, .lse = true},
    {.B = 3,
     .H = 2,
     .N = 70,
     .M = 90,
     .D = 33,
     .sequences = true,
     .has_window = true,
     .window_left = 31,
     .window_right = 5,
     .align = CLATTN_ALIGN_BOTTOM_RIGHT,
     .softcap = 9,
     .alibi = true,
     .lse = true},
    {.H = 4,
     .Hk = 2,
     .N = 3,
     .M = 600,
     .D = 132,
     .Dv = 200,
     .page_size = 16,
     .lengths = true,
     .sinks = true,
     .lse = true,
     .buffers = true,
     .typed = true,
     .q_type = CLATTN_F16,
     .k_type = CLATTN_BF16,
     .v_type = CLATTN_BF16,
     .o_type = CLATTN_F32,
     .keep = {2, 3}},
};

/* One problem on the variants of an algorithm from `first` in steps; returns how many those are. */
static size_t check_variants(const oracle_runner *runner, const oracle_config *problem, clattn_dtype dtype,
                             size_t first, size_t step) {
    char variants[ORACLE_VARIANTS][ORACLE_VARIANT], text[ORACLE_TEXT] = "";
    oracle_config config = *problem;
    config.dtype = dtype;
    config.seed = 11;
    oracle_case *c = oracle_make(&config);
    const size_t count =
        oracle_applies(c, runner, NULL) ? oracle_variants(c, runner->context, runner->algorithm, variants, text) : 0;
    cr_expect_str_eq(text, "");
    size_t checked = 0;
    for (size_t i = first; i < count; i += step, checked++) {
        c->config.variant = variants[i];
        cr_expect(oracle_check(c, runner->context, runner->algorithm, text), "%s", text);
    }
    oracle_free(c);
    return checked;
}

/* step: each problem meets every step-th variant, from another one on than the problem before. Kernels take long to
 * build; test_algo_fused_tiles_table.c runs every row of the table at least once. */
static void check_algorithm(const char *algorithm, size_t step) {
    oracle_runner runners[ORACLE_RUNNERS];
    size_t checked = 0;
    const size_t n = oracle_open(runners);
    for (size_t i = 0; i < n; i++)
        for (size_t p = 0; p < COUNT(problems) && strcmp(runners[i].algorithm, algorithm) == 0; p++) {
            checked += check_variants(&runners[i], &problems[p], CLATTN_F32, p % step, step);
            if (runners[i].has_f64 && p == 0)
                checked += check_variants(&runners[i], &problems[p], CLATTN_F64, step / 2, step);
        }
    oracle_close(runners, n);
    cr_assert_gt(checked, COUNT(problems), "%s was run on %zu variants only", algorithm, checked);
}

Test(variants, all_of_fused_tiles_are_right, .timeout = 1200) { check_algorithm("fused_tiles", 6); }
Test(variants, all_of_fused_lanes_are_right, .timeout = 1200) { check_algorithm("fused_lanes", 1); }
Test(variants, all_of_fused_split_are_right, .timeout = 1200) { check_algorithm("fused_split", 1); }

/* ---- what is said ---- */

static const int64_t shape[] = {1, 2, 5, 8};
static float x[80], y[80];

static clattn_attention_args tiny(const char *algorithm, const char *variant) {
    const clattn_tensor t = clattn_tensor_host(x, CLATTN_F32, 4, shape);
    return (clattn_attention_args){.q = t,
                                   .k = t,
                                   .v = t,
                                   .o = clattn_tensor_host(y, CLATTN_F32, 4, shape),
                                   .algorithm = algorithm,
                                   .variant = variant};
}

Test(variants, an_unknown_one_is_named_with_those_there_are) {
    clattn_context *context = checks_open("opencl");
    clattn_attention_args a = tiny("fused_tiles", "tr=3");
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT,
          "variant \"tr=3\": fused_tiles has none such; for this "
          "call it has \"tr=");
    a = tiny(NULL, "tr=3");
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "name the algorithm too");
    a = tiny("materialised", "tr=3");
    FAILS(clattn_attention(context, &a), CLATTN_E_ARGUMENT, "one way only");
    a = tiny(NULL, "default");
    SUCCEEDS(clattn_attention(context, &a));
    clattn_context_destroy(context);
}

Test(variants, a_plan_lists_them_and_explain_says_which) {
    clattn_context *cpu = checks_open("cpu"), *context = checks_open("opencl");
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    char second[100], line[160];
    SUCCEEDS(clattn_buffer_create(context, sizeof x, &buffer));
    clattn_attention_args a = tiny("fused_tiles", NULL);
    a.q = a.k = a.v = clattn_tensor_buffer(buffer, CLATTN_F32, 4, shape);
    clattn_buffer *out = NULL;
    SUCCEEDS(clattn_buffer_create(context, sizeof y, &out));
    a.o = clattn_tensor_buffer(out, CLATTN_F32, 4, shape);
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_str_eq(info.variant, clattn_plan_variant(plan, 0));
    cr_expect(strstr(clattn_plan_explain(plan), ": the default; "));
    cr_assert_not_null(clattn_plan_variant(plan, 1));
    snprintf(second, sizeof second, "%s", clattn_plan_variant(plan, 1));
    size_t count = 0;
    while (clattn_plan_variant(plan, count))
        count++;
    clattn_plan_destroy(plan);
    a.variant = second;
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_str_eq(info.variant, second);
    snprintf(line, sizeof line, "variant %s: asked for; %zu in all\n", second, count);
    cr_expect(strstr(clattn_plan_explain(plan), line), "%s", clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_buffer_destroy(out);
    a = tiny("reference", NULL);
    SUCCEEDS(clattn_plan_create(cpu, &a, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_str_eq(info.variant, "");
    cr_expect_null(clattn_plan_variant(plan, 0));
    clattn_plan_destroy(plan);
    cr_expect_null(clattn_plan_variant(NULL, 0));
    clattn_context_destroy(context);
    clattn_context_destroy(cpu);
}
