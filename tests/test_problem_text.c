/* SPDX-License-Identifier: Apache-2.0 */
/* The problem grammar: values, defaults, printing back, and errors that name the word. */
#include "../host/cli/problem_text.c" /* NOLINT(bugprone-suspicious-include) */

#include "../host/cli/problem_data.c"  /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/problem_print.c" /* NOLINT(bugprone-suspicious-include) */
#include <criterion/criterion.h>

static cla_problem_text parsed(const char *text) {
    cla_problem_text t;
    char error[512] = "";
    cr_assert(cla_problem_text_parse(text, &t, error, sizeof error), "%s", error);
    return t;
}

Test(problem_text, every_size_is_read) {
    const cla_problem_text t = parsed("b2 h8/2 q5 k9 d64 v80 f64");
    cr_assert_eq(t.batch, 2);
    cr_assert_eq(t.heads, 8);
    cr_assert_eq(t.key_heads, 2);
    cr_assert_eq(t.queries, 5);
    cr_assert_eq(t.keys, 9);
    cr_assert_eq(t.dim, 64);
    cr_assert_eq(t.value_dim, 80);
    cr_assert_eq(t.dtype, CLATTN_F64);
    cr_assert_not(t.causal || t.has_window || t.keep || t.bias || t.lengths || t.has_scale);
}

Test(problem_text, what_is_not_said_has_defaults) {
    const cla_problem_text t = parsed("  d16\tn1024\n");
    cr_assert_eq(t.batch, 1);
    cr_assert_eq(t.heads, 1);
    cr_assert_eq(t.key_heads, 1);
    cr_assert_eq(t.queries, 1024);
    cr_assert_eq(t.keys, 1024);
    cr_assert_eq(t.value_dim, 16);
    cr_assert_eq(t.dtype, CLATTN_F32);
    cr_assert_eq(t.align, CLATTN_ALIGN_UNSET);
}

Test(problem_text, restrictions_and_options_are_read) {
    const cla_problem_text t = parsed("keep n7 window=3,inf scale=-0.5 bias d8 causal lengths bf16");
    cr_assert(t.causal && t.has_window && t.keep && t.bias && t.lengths && t.has_scale);
    cr_assert_eq(t.window_left, 3);
    cr_assert_eq(t.window_right, CLATTN_UNLIMITED);
    cr_assert_eq(t.scale, -0.5);
    cr_assert_eq(t.dtype, CLATTN_BF16);
    cr_assert_eq(parsed("q1 k9 d8 causal=bottom-right").align, CLATTN_ALIGN_BOTTOM_RIGHT);
    cr_assert_eq(parsed("q1 k9 d8 align=top-left window=0,0").align, CLATTN_ALIGN_TOP_LEFT);
}

Test(problem_text, types_of_keys_values_and_results_are_their_own) {
    cla_problem_text t = parsed("n4 d32 f16");
    cr_assert(t.dtype == CLATTN_F16 && t.k_dtype == CLATTN_F16 && t.v_dtype == CLATTN_F16 && t.o_dtype == CLATTN_F16);
    t = parsed("n4 d64 kv=q8_0,q4_0 f16 o=f32");
    cr_assert(t.dtype == CLATTN_F16 && t.k_dtype == CLATTN_Q8_0 && t.v_dtype == CLATTN_Q4_0 && t.o_dtype == CLATTN_F32);
    t = parsed("kv=bf16 n4 d3");
    cr_assert(t.dtype == CLATTN_F32 && t.k_dtype == CLATTN_BF16 && t.v_dtype == CLATTN_BF16);
}

Test(problem_text, every_option_of_the_struct_has_a_word) {
    const cla_problem_text t =
        parsed("b2 h4 q3 k9 d8 causal=-2 prefix softcap=2.5 alibi sinks lengths qlengths segments pages=4 invariant");
    cr_assert(t.causal && t.prefix && t.alibi && t.sinks && t.lengths && t.query_lengths && t.segments && t.invariant);
    cr_assert_eq(t.align, CLATTN_ALIGN_OFFSET);
    cr_assert_eq(t.offset, -2);
    cr_assert_eq(t.softcap, 2.5);
    cr_assert_eq(t.page_size, 4);
    cr_assert(parsed("b3 n5 d8 varlen causal").varlen);
}

/* The grammar's data is a problem that the library takes, with each word. */
Test(problem_text, data_of_each_word_is_a_problem) {
    static const char *const texts[] = {"b2 h2 n6 d4 causal alibi prefix softcap=3 sinks",
                                        "b2 h2 q3 k9 d32 kv=q8_0,q4_0 pages=4 lengths segments",
                                        "b3 h2 n5 d4 varlen causal f16 o=f32",
                                        "b3 h2 q2 k7 d4 varlen pages=3 align=1 window=2,0",
                                        "b2 h2 n6 d4 f64 qlengths lengths keep bias sinks",
                                        "b1 h1 q3 k9 d4 bf16 causal=-2 invariant"};
    clattn_context *cpu = NULL;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const cla_problem_text t = parsed(texts[i]);
        cla_problem_data data;
        cr_assert_eq(cla_problem_data_create(&t, 1, &data), CLATTN_OK, "%s", texts[i]);
        cr_expect_eq(clattn_attention(cpu, &data.args), CLATTN_OK, "%s: %s", texts[i], clattn_last_error());
        cla_problem_data_free(&data);
    }
    clattn_context_destroy(cpu);
}

Test(problem_text, sequences_have_random_lengths_up_to_the_size) {
    cla_problem_data data;
    const cla_problem_text t = parsed("b9 h1 q6 k4 d2 varlen");
    cr_assert_eq(cla_problem_data_create(&t, 1, &data), CLATTN_OK);
    int64_t shortest = 6;
    for (int b = 0; b < 9; b++) {
        const int64_t n = data.args.cu_queries[b + 1] - data.args.cu_queries[b];
        cr_assert(n >= 1 && n <= 6 && (b > 0 || n == 6));
        shortest = n < shortest ? n : shortest;
    }
    cr_assert_lt(shortest, 6);
    cr_assert_eq(data.args.q.shape[2], data.args.cu_queries[9]);
    cr_assert_eq(data.args.k.shape[2], data.args.cu_keys[9]);
    cla_problem_data_free(&data);
}

Test(problem_text, printed_text_is_canonical_and_parses_back) {
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"d64 n1024", "b1 h1 n1024 d64 f32"},
        {"b2 h8/2 q1024 k1024 d64 v64 f32 causal", "b2 h8/2 n1024 d64 f32 causal"},
        {"h4/4 k9 q5 v3 d8 f16", "b1 h4 q5 k9 d8 v3 f16"},
        {"n3 d1 scale=0.1 lengths bias keep", "b1 h1 n3 d1 f32 keep bias lengths scale=0.1"},
        {"q3 k4 d1 align=bottom-right window=inf,2", "b1 h1 q3 k4 d1 f32 window=inf,2 align=bottom-right"},
        {"q3 k4 d1 window=1,2 align=top-left causal", "b1 h1 q3 k4 d1 f32 causal=top-left window=1,2"},
        {"n4 d32 f16 kv=q8_0", "b1 h1 n4 d32 f16 kv=q8_0"},
        {"n4 d32 kv=f16,q4_0 o=f64", "b1 h1 n4 d32 f32 kv=f16,q4_0 o=f64"},
        {"q2 k4 d1 sinks alibi align=7 softcap=30", "b1 h1 q2 k4 d1 f32 align=7 softcap=30 alibi sinks"},
        {"invariant pages=8 segments qlengths lengths sinks d1 n2 prefix causal=-1",
         "b1 h1 n2 d1 f32 causal=-1 prefix sinks lengths qlengths segments pages=8 invariant"},
        {"varlen b2 n2 d1", "b2 h1 n2 d1 f32 varlen"},
        {"n3 d1 scale=0.33333333333333331", "b1 h1 n3 d1 f32 scale=0.3333333333333333"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[CLA_PROBLEM_TEXT_MAX], again[CLA_PROBLEM_TEXT_MAX];
        const cla_problem_text t = parsed(cases[i].text);
        cr_assert_str_eq(cla_problem_text_print(&t, text, sizeof text), cases[i].canonical);
        const cla_problem_text u = parsed(text);
        cr_assert_str_eq(cla_problem_text_print(&u, again, sizeof again), text);
        cr_assert_eq(u.scale, t.scale);
    }
}

Test(problem_text, the_longest_text_fits_its_buffer) {
    char text[CLA_PROBLEM_TEXT_MAX], small[8];
    const cla_problem_text t = {.batch = CLA_PROBLEM_SIZE_MAX,
                                .heads = CLA_PROBLEM_SIZE_MAX,
                                .key_heads = 1,
                                .queries = CLA_PROBLEM_SIZE_MAX,
                                .keys = CLA_PROBLEM_SIZE_MAX - 1,
                                .dim = CLA_PROBLEM_SIZE_MAX,
                                .value_dim = CLA_PROBLEM_SIZE_MAX - 1,
                                .dtype = CLATTN_BF16,
                                .k_dtype = CLATTN_Q8_0,
                                .v_dtype = CLATTN_Q4_0,
                                .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                .softcap = 1.234567890123457e-300,
                                .prefix = true,
                                .alibi = true,
                                .sinks = true,
                                .query_lengths = true,
                                .segments = true,
                                .varlen = true,
                                .invariant = true,
                                .page_size = CLA_PROBLEM_SIZE_MAX,
                                .has_window = true,
                                .window_left = CLA_PROBLEM_SIZE_MAX,
                                .window_right = CLA_PROBLEM_SIZE_MAX,
                                .keep = true,
                                .bias = true,
                                .lengths = true,
                                .has_scale = true,
                                .scale = -1.234567890123457e-300};
    cla_problem_text_print(&t, text, sizeof text);
    cr_assert_lt(strlen(text), sizeof text - 1);
    cr_assert_not_null(strstr(text, "scale=-1.234567890123457e-300"));
    cla_problem_text_print(&t, small, sizeof small);
    cr_assert_str_eq(small, "b214748");
}

Test(problem_text, errors_name_the_word) {
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"", "the number of queries is missing"},
        {"n5", "the head dim is missing"},
        {"q5 d8", "the number of keys is missing: k5 beside q5, or n5"},
        {"n5 d8 frobnicate", "frobnicate: no such word"},
        {"n5 d8 x7", "x7: sizes are"},
        {"n5 d8 b0", "b0: sizes go from 1"},
        {"n5 d8 b-1", "b-1: no such word"},
        {"n99999999999999999999 d8", "n99999999999999999999: sizes go from 1"},
        {"n2147483648 d8", "n2147483648: sizes go from 1"},
        {"n5x d8", "n5x: \"x\" behind the number"},
        {"n d8", "n: a number is missing"},
        {"n5 d8 n5", "n5: n5 has said it already"},
        {"n5 d8 k6", "k6: n5 has said it already"},
        {"n5 d8 f32 f64", "f64: f32 has said it already"},
        {"n5 d8 causal causal", "causal: causal has said it already"},
        {"n5 d8 causal=top-left align=top-left", "align=top-left: causal=top-left has said it already"},
        {"n5 d8 h8/3", "h8/3: 8 query heads are no multiple of 3 key heads"},
        {"n5 d8 h8/", "h8/: a number is missing"},
        {"n5 d8 h8/2/1", "h8/2/1: heads are"},
        {"n5 d8 causal=left", "causal=left: an alignment is"},
        {"q5 k6 d8 causal", "causal: with 5 queries and 6 keys say where the queries stand"},
        {"q5 k6 d8 window=1,1", "window=1,1: with 5 queries and 6 keys say where the queries stand: align="},
        {"n5 d8 align=top-left", "align=top-left: an alignment without causal, a window or alibi"},
        {"q5 k6 d8 alibi", "alibi: with 5 queries and 6 keys say where the queries stand: align="},
        {"n5 d8 causal pages=4", "causal: with pages say where the queries stand"},
        {"n5 d8 align=1x causal", "align=1x: an alignment is"},
        {"n5 d8 align=9999999999 causal", "align=9999999999: an alignment is"},
        {"n5 d8 softcap=0", "softcap=0: the soft cap is a finite number above 0"},
        {"n5 d8 softcap", "softcap: a value is missing"},
        {"n5 d8 prefix", "prefix: loosens causal"},
        {"n5 d8 varlen keep", "varlen: sequences one after another go without"},
        {"n5 d8 kv=q8_0", "kv=q8_0: head dim 8 is not made of whole blocks of 32"},
        {"n5 d32 v8 kv=q8_0", "kv=q8_0: value dim 8 is not made of whole blocks of 32"},
        {"n5 d8 kv=i32", "kv=i32: types of k and v are"},
        {"n5 d8 kv=f16,", "kv=f16,: types of k and v are"},
        {"n5 d8 o=q8_0", "o=q8_0: types of o are"},
        {"n5 d8 pages=0", "pages=0: sizes go from 1"},
        {"n5 d8 pages=4x", "pages=4x: \"x\" behind the number"},
        {"n5 d8 window=3", "window=3: a window has two sides"},
        {"n5 d8 window=3,-1", "window=3,-1: a window is"},
        {"n5 d8 window=,1", "window=,1: a window is"},
        {"n5 d8 window", "window: a value is missing"},
        {"n5 d8 scale=nan", "scale=nan: the scale is a finite number"},
        {"n5 d8 scale=1x", "scale=1x: the scale is a finite number"},
        {"n5 d8 scale=1e-400", "scale=1e-400: the scale is a finite number that a double holds"},
        {"n5 d8 keep=3", "keep=3: keep takes no value"},
        {"n2147483647 d8 h2147483647", "more elements than 64 bits count"},
        {"n5 d8 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "too long for a word"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cla_problem_text t;
        char error[512] = "";
        cr_expect_not(cla_problem_text_parse(cases[i].text, &t, error, sizeof error), "%s", cases[i].text);
        cr_expect_not_null(strstr(error, cases[i].error), "%s\n  gives  %s\n  not    %s", cases[i].text, error,
                           cases[i].error);
        cr_expect_null(strchr(error, '\n'));
    }
}

Test(problem_text, a_short_error_buffer_is_not_overrun) {
    cla_problem_text t;
    char error[12];
    memset(error, 'x', sizeof error);
    cr_assert_not(cla_problem_text_parse("n5 d8 frobnicate", &t, error, 8));
    cr_assert_eq(strlen(error), 7);
    cr_assert_eq(error[8], 'x');
}

Test(problem_text, words_at_the_ends_of_what_they_take) {
    static const struct {
        const char *text, *says;
    } lines[] = {
        {"h0 n8 d8", "h0"},
        {"h2 h2 n8 d8", "h2"},
        {"n8 d8 causal=", "causal="},
        {"n8 d8 causal=x", "an alignment is"},
        {"n8 d8 causal=5x", "an alignment is"},
        {"n8 d8 causal=-", "an alignment is"},
        {"n8 d8 causal=99999999999999999999", "an alignment is"},
        {"n8 d8 causal=9999999999999999", "an alignment is"},
        {"n8 d8 causal=-9999999999999999", "an alignment is"},
        {"n8 d8 causal causal=top-left", "causal"},
        {"n8 d8 align=1 causal=top-left", "causal=top-left"},
        {"n8 d8 causal align=1 align=2", "align=2"},
        {"n8 d8 window=x,1", "a window is"},
        {"n8 d8 window=1x,1", "a window is"},
        {"n8 d8 window=1,x", "a window is"},
        {"n8 d8 window=1", "window"},
        {"n8 d8 window=99999999999999999999,1", "a window is"},
        {"n8 d8 window=9999999999999999,1", "a window is"},
        {"n8 d8 window=inx,1", "a window is"},
        {"n8 d8 window=1,1 window=2,2", "window=2,2"},
        {"n8 d8 scale=", "scale"},
        {"n8 d8 scale=1x", "scale"},
        {"n8 d8 scale=inf", "scale"},
        {"n8 d8 scale=1e-999", "scale"},
        {"n8 d8 scale=1e999", "scale"},
        {"n8 d8 softcap=0", "softcap"},
        {"n8 d8 softcap=x", "softcap"},
        {"n8 d8 varlen keep", "varlen"},
        {"n8 d8 varlen bias", "varlen"},
        {"n8 d8 varlen qlengths", "varlen"},
        {"b2147483647 h2147483647 q2147483647 k1 d2147483647 v1", "64 bits"},
        {"b2147483647 h2147483647 q2147483647 k2147483647 d1", "64 bits"},
        {"b2147483647 h2147483647 q1 k2147483647 d2147483647 v1", "64 bits"},
        {"b2147483647 h2147483647 q2147483647 k1 d1 v2147483647", "64 bits"},
        {"b2147483647 h2147483647 q1 k2147483647 d1 v2147483647", "64 bits"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        cla_problem_text t;
        char error[512] = "", few[8] = "";
        cr_expect_not(cla_problem_text_parse(lines[i].text, &t, error, sizeof error), "%s", lines[i].text);
        cr_expect(strstr(error, lines[i].says), "%s: %s", lines[i].text, error);
        cr_expect_not(cla_problem_text_parse(lines[i].text, &t, few, sizeof few), "%s", lines[i].text);
        cr_expect_eq(strncmp(few, error, sizeof few - 1), 0, "%s: %s", lines[i].text, few);
    }
    const cla_problem_text t = parsed("q4 k8 d8 causal=-2 scale=1e-300 window=0,inf");
    cr_expect_eq(t.offset, -2);
}
