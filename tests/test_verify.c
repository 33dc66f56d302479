/* SPDX-License-Identifier: Apache-2.0 */
/* Verification: right results pass, and a wrong number, a NaN too many and one too few are found where they are; all
 * rows and some; self_check. */
#include "attention/self_check.h"
#include "testing.h"

#include "../host/cli/problem_data.c" /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/problem_text.c" /* NOLINT(bugprone-suspicious-include) */

enum { N = 3, M = 4, D = 2 };

/* One head: [1, 1, N, D] queries, M keys; o computed by "reference" in the inputs' type. */
typedef struct fixture {
    float q[N * D], k[M * D], v[M * D], o[N * D], lse[N], weights[N * M];
    clattn_attention_args args;
} fixture;

static clattn_tensor view(float *data, int64_t rows, int64_t columns) {
    return clattn_tensor_host(data, CLATTN_F32, 4, (const int64_t[]){1, 1, rows, columns});
}

static void run(fixture *f) {
    clattn_context *cpu = NULL;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    cr_assert_eq(clattn_attention(cpu, &f->args), CLATTN_OK, "%s", clattn_last_error());
    clattn_context_destroy(cpu);
}

static void make(fixture *f) {
    *f = (fixture){.lse = {0}};
    for (int i = 0; i < M * D; i++) {
        f->k[i] = (float)(i % 3) - 1.0f;
        f->v[i] = (float)(i % 5) - 2.0f;
        if (i < N * D)
            f->q[i] = 0.25f * (float)i;
    }
    f->args = (clattn_attention_args){.q = view(f->q, N, D),
                                      .k = view(f->k, M, D),
                                      .v = view(f->v, M, D),
                                      .o = view(f->o, N, D),
                                      .lse = clattn_tensor_host(f->lse, CLATTN_F32, 3, (const int64_t[]){1, 1, N}),
                                      .weights = view(f->weights, N, M),
                                      .algorithm = "reference"};
    run(f);
}

static clattn_verification verified(const fixture *f, int64_t rows) {
    clattn_verification v;
    cr_assert_eq(clattn_verify(&f->args, rows, NULL, &v), CLATTN_OK, "%s", clattn_last_error());
    return v;
}

Test(verify, right_results_pass_below_a_bound_of_the_size_of_the_values) {
    fixture f;
    char text[200] = "?";
    make(&f);
    const clattn_verification v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert(v.ok && v.verdicts[0].ok && v.verdicts[1].ok && v.verdicts[2].ok);
    cr_assert_eq(v.rows, N);
    cr_assert_str_eq(v.verdicts[0].tensor, "o");
    cr_assert_str_eq(v.verdicts[1].tensor, "lse");
    cr_assert_str_eq(v.verdicts[2].tensor, "weights");
    cr_assert_geq(v.verdicts[0].allowed, 2e-6, "1e-6 of the largest |V|, which is 2");
    cr_assert_lt(v.verdicts[0].allowed, 2e-5);
    cr_assert_str_eq(clattn_verification_text(&v, text, sizeof text), "");
}

Test(verify, a_wrong_number_is_found_where_it_is) {
    fixture f;
    char text[200], small[12];
    make(&f);
    f.o[2 * D + 1] += 1e-3f;
    const clattn_verification v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert_not(v.ok);
    cr_assert(v.verdicts[0].same_kinds && v.verdicts[1].ok && v.verdicts[2].ok);
    cr_assert_eq(v.verdicts[0].at[2], 2);
    cr_assert_eq(v.verdicts[0].at[3], 1);
    cr_assert_float_eq(v.verdicts[0].error, 1e-3, 1e-5);
    clattn_verification_text(&v, text, sizeof text);
    cr_assert_not_null(strstr(text, "o is wrong: "), "%s", text);
    cr_assert_not_null(strstr(text, " at [0,0,2,1], expected "), "%s", text);
    cr_assert_not_null(strstr(text, ": error 0.001, allowed "), "%s", text);
    cr_assert_eq(strlen(clattn_verification_text(&v, small, sizeof small)), sizeof small - 1);
}

Test(verify, a_wrong_lse_and_a_wrong_weight_are_found_too) {
    fixture f;
    make(&f);
    f.lse[1] += 1e-3f;
    clattn_verification v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert(v.verdicts[0].ok && !v.verdicts[1].ok && v.verdicts[1].at[2] == 1);
    make(&f);
    f.weights[2 * M + 3] += 1e-3f;
    v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert(v.verdicts[1].ok && !v.verdicts[2].ok && v.verdicts[2].at[2] == 2 && v.verdicts[2].at[3] == 3);
}

Test(verify, a_nan_too_many_is_found_where_it_is) {
    fixture f;
    char text[200];
    make(&f);
    f.o[1 * D] = NAN;
    f.o[2 * D] += 1;
    const clattn_verification v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert_not(v.ok);
    cr_assert_not(v.verdicts[0].same_kinds);
    cr_assert_eq(v.verdicts[0].at[2], 1);
    cr_assert_eq(v.verdicts[0].at[3], 0);
    cr_assert_not_null(strstr(clattn_verification_text(&v, text, sizeof text), "nan at [0,0,1,0]"), "%s", text);
}

Test(verify, a_nan_or_an_infinity_that_should_be_there_is_missed) {
    fixture f;
    make(&f);
    f.v[0] = INFINITY; /* every query sees key 0, so that lane 0 is infinite */
    clattn_verification v = verified(&f, CLATTN_ALL_ROWS);
    cr_assert_not(v.ok);
    cr_assert_not(v.verdicts[0].same_kinds);
    for (int i = 0; i < N; i++)
        f.o[i * D] = INFINITY;
    cr_assert(verified(&f, CLATTN_ALL_ROWS).ok);
    f.o[0] = NAN; /* no weight underflows here */
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok);
    f.o[0] = -INFINITY;
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok);
}

/* 0 times infinity is NaN, and a tiny number times infinity is infinite: both are right, a number is not. */
Test(verify, infinity_behind_a_weight_that_underflows_may_be_nan) {
    fixture f;
    make(&f);
    for (int i = 0; i < M * D; i++)
        f.k[i] = i < D ? 0 : 300;
    for (int i = 0; i < N * D; i++)
        f.q[i] = 1;
    f.v[1] = INFINITY; /* key 0, whose weight is about e^-424 */
    f.args.algorithm = "blas";
    run(&f);
    cr_assert_not(isfinite(f.o[1]));
    static const float right[] = {INFINITY, NAN};
    for (int r = 0; r < 2; r++) {
        for (int i = 0; i < N; i++)
            f.o[i * D + 1] = right[r];
        cr_assert(verified(&f, CLATTN_ALL_ROWS).ok);
        cr_assert(verified(&f, 2).ok);
    }
    f.o[1] = 1;
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok);
    f.o[1] = NAN;
    f.o[0] = NAN; /* a column without infinity */
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok);
}

Test(verify, a_view_with_strides_is_read_by_its_strides) {
    fixture f;
    float wide[N * 2 * D] = {0}; /* o in every second row */
    make(&f);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++)
            wide[2 * i * D + d] = f.o[i * D + d];
    f.args.o.host = wide;
    f.args.o.stride[2] = 2 * D;
    cr_assert(verified(&f, CLATTN_ALL_ROWS).ok);
    wide[2 * D] += 1;
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok);
}

/* Weights of chosen rows and heads, their mean, sums of columns, entropy: each is judged. */
Test(verify, every_output_and_form_is_judged) {
    enum { H = 2 };
    static const int64_t queries[] = {2, 0}, heads[] = {1};
    fixture f;
    float q[H * N * D], k[H * M * D], v[H * M * D], o[H * N * D], entropy[H * N], sums[H * M], weights[H * N * M];
    make(&f);
    for (int i = 0; i < H * M * D; i++) {
        k[i] = (float)(i % 7) * 0.3f;
        v[i] = (float)(i % 5);
        if (i < H * N * D)
            q[i] = (float)(i % 3);
    }
    for (int form = 0; form < 5; form++) {
        clattn_attention_args *a = &f.args;
        *a = (clattn_attention_args){.q = clattn_tensor_host(q, CLATTN_F32, 4, (const int64_t[]){1, H, N, D}),
                                     .k = clattn_tensor_host(k, CLATTN_F32, 4, (const int64_t[]){1, H, M, D}),
                                     .v = clattn_tensor_host(v, CLATTN_F32, 4, (const int64_t[]){1, H, M, D}),
                                     .o = clattn_tensor_host(o, CLATTN_F32, 4, (const int64_t[]){1, H, N, D})};
        a->entropy = clattn_tensor_host(entropy, CLATTN_F32, 3, (const int64_t[]){1, H, N});
        a->column_sums = clattn_tensor_host(sums, CLATTN_F32, 3, (const int64_t[]){1, H, M});
        a->weights = clattn_tensor_host(weights, CLATTN_F32, 4, (const int64_t[]){1, form == 4 ? 1 : H, N, M});
        a->weights_form = form < 4 ? (clattn_weights_form)form : CLATTN_WEIGHTS_SOFTMAX;
        a->weights_mean = form == 4;
        if (form == 3) {
            a->weights.shape[1] = 1, a->weights.shape[2] = 2;
            a->weights_queries = queries, a->weights_query_count = 2;
            a->weights_heads = heads, a->weights_head_count = 1;
        }
        run(&f);
        clattn_verification found = verified(&f, CLATTN_ALL_ROWS);
        for (int i = 0; i < CLATTN_VERDICTS; i++)
            cr_expect(i == 1 ? !found.verdicts[i].tensor : found.verdicts[i].ok, "form %d, %d", form, i);
        weights[3] += 1e-3f, sums[2] += 1e-3f, entropy[4] += 1e-3f;
        found = verified(&f, CLATTN_ALL_ROWS);
        for (int i = 2; i < CLATTN_VERDICTS; i++)
            cr_expect_not(found.verdicts[i].ok, "form %d, %d", form, i);
        cr_expect(found.verdicts[2].at[3] == 3 && found.verdicts[3].at[1] == 1 && found.verdicts[4].at[2] == 2);
        found = verified(&f, 1000);
        cr_expect_eq(found.verdicts[2].tensor != NULL, form == 0);
        cr_expect(found.verdicts[3].tensor && !found.verdicts[3].ok && !found.verdicts[4].tensor);
    }
}

Test(verify, keys_after_a_short_mask_are_not_expected) {
    fixture f;
    make(&f);
    const unsigned char keep[] = {1, 1, 1};
    f.args.keep = clattn_tensor_host(keep, CLATTN_BOOL, 2, (const int64_t[]){1, 3});
    f.args.short_masks = true;
    cr_assert_not(verified(&f, CLATTN_ALL_ROWS).ok, "that of all keys is wrong now");
    run(&f);
    cr_assert(verified(&f, CLATTN_ALL_ROWS).ok);
    cr_assert(verified(&f, 2).ok);
}

Test(verify, expected_results_come_out_where_they_are_asked_for) {
    fixture f;
    double o[N * D], lse[N];
    clattn_verification v;
    make(&f);
    const clattn_tensor exact[CLATTN_VERDICTS] = {clattn_tensor_host(o, CLATTN_F64, 4, f.args.o.shape),
                                                  clattn_tensor_host(lse, CLATTN_F64, 3, f.args.lse.shape),
                                                  {0}};
    const float right = f.o[3];
    f.o[3] = 17;
    cr_assert_eq(clattn_verify(&f.args, CLATTN_ALL_ROWS, exact, &v), CLATTN_OK);
    cr_assert_float_eq(o[3], right, 1e-6);
    cr_assert_float_eq(lse[2], f.lse[2], 1e-6);
}

Test(verify, expected_results_fit_the_outputs) {
    fixture f;
    double room[N * D];
    clattn_verification v;
    make(&f);
    clattn_tensor good = clattn_tensor_host(room, CLATTN_F64, 4, f.args.o.shape), exact[CLATTN_VERDICTS] = {good};
    FAILS(clattn_verify(&f.args, 2, exact, &v), CLATTN_E_ARGUMENT, "exact o: is given with 2 rows");
#define REFUSED(change, code, part)                                                                                    \
    exact[0] = good;                                                                                                   \
    change;                                                                                                            \
    FAILS(clattn_verify(&f.args, CLATTN_ALL_ROWS, exact, &v), code, part)
    REFUSED(exact[0].dtype = CLATTN_F32, CLATTN_E_DTYPE, "exact o: is f32; expected results are f64");
    REFUSED(exact[0].shape[2]--, CLATTN_E_SHAPE, "it is dense and has the shape of the output, [1, 1, ");
    REFUSED(exact[0].stride[2] *= 2, CLATTN_E_SHAPE, "it is dense");
    REFUSED(exact[0].host = NULL, CLATTN_E_ARGUMENT, "exact o: is no host array");
    REFUSED(exact[0].offset = -1, CLATTN_E_SHAPE, "exact o: offset -1 is negative");
    REFUSED(exact[4] = good, CLATTN_E_SHAPE, "exact column_sums ");
#undef REFUSED
    exact[4] = (clattn_tensor){0};
    SUCCEEDS(clattn_verify(&f.args, CLATTN_ALL_ROWS, exact, &v));
}

Test(verify, a_row_that_is_wrong_is_found_among_some_when_it_is_one_of_them) {
    fixture f;
    make(&f);
    cr_assert(verified(&f, 1).ok && verified(&f, 1).rows == 1);
    cr_assert_eq(verified(&f, 1000).rows, N, "no row is taken twice");
    f.o[(N - 1) * D] += 1e-3f; /* the last row is always one */
    cr_assert_not(verified(&f, 1).ok);
    cr_assert_not(verified(&f, 2).ok);
    make(&f);
    f.o[0] += 1e-3f;
    cr_assert(verified(&f, 1).ok);
    cr_assert_not(verified(&f, N).ok);
}

Test(verify, rows_below_one_and_absent_arguments_are_refused) {
    fixture f;
    clattn_verification v;
    make(&f);
    cr_assert_eq(clattn_verify(&f.args, 0, NULL, &v), CLATTN_E_ARGUMENT);
    cr_assert_eq(clattn_verify(NULL, 1, NULL, &v), CLATTN_E_ARGUMENT);
    cr_assert_eq(clattn_verify(&f.args, 1, NULL, NULL), CLATTN_E_ARGUMENT);
    f.args.o.shape[3] = D + 1;
    cr_assert_eq(clattn_verify(&f.args, 1, NULL, &v), CLATTN_E_SHAPE);
}

Test(verify, dropout_is_refused) {
    fixture f;
    clattn_verification v;
    make(&f);
    f.args.weights = (clattn_tensor){0};
    f.args.dropout = 0.5;
    run(&f);
    FAILS(clattn_verify(&f.args, 1, NULL, &v), CLATTN_E_UNSUPPORTED,
          "verify: rows are not computed again with dropout");
    FAILS(clattn_verify(&f.args, CLATTN_ALL_ROWS, NULL, &v), CLATTN_E_UNSUPPORTED, "verify: ");
}

/* ---- every option, on every device ---- */

static const char *const problems[] = {
    "b2 h4/2 n9 d8 v5 causal=top-left softcap=3 alibi sinks",
    "b2 h2 q5 k70 d32 bf16 kv=q8_0,q4_0 align=3 window=40,1 pages=16 lengths segments",
    "b3 h2 n20 d16 f16 varlen causal prefix sinks",
    "b3 h2 q7 k40 d16 f16 o=f32 causal=bottom-right varlen pages=8",
    "b2 h2 n33 d8 qlengths lengths keep bias",
    "b2 h2 n17 d8 f64 bias sinks scale=-0.3",
    "b1 h1 q3 k5 d4 o=bf16 scale=60",
};

/* One call with self_check; `lse` where it can be. */
static void check_one(clattn_context *context, const char *text, size_t algorithm, int64_t rows, int *ran) {
    cla_problem_text t;
    cla_problem_data data;
    char error[300];
    bool applies;
    const char *reason;
    cr_assert(cla_problem_text_parse(text, &t, error, sizeof error), "%s", error);
    cr_assert_eq(cla_problem_data_create(&t, 1, &data), CLATTN_OK);
    clattn_attention_args *a = &data.args;
    clattn_array lse;
    const clattn_dtype type = t.dtype == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    SUCCEEDS(clattn_array_create(type, 3, a->o.shape, &lse));
    a->lse = clattn_array_tensor(&lse);
    a->self_check = rows;
    SUCCEEDS(clattn_algorithm_applies(context, a, algorithm, &applies, &reason));
    if (applies) {
        a->algorithm = clattn_algorithm_name(algorithm);
        const clattn_status status = clattn_attention(context, a);
        cr_expect_eq(status, CLATTN_OK, "%s on %s: %s", a->algorithm, text, clattn_last_error());
        ++*ran;
        /* It does look: the same results of other values are wrong. */
        clattn_verification v;
        a->has_scale = true;
        a->scale += 3;
        SUCCEEDS(clattn_verify(a, rows, NULL, &v));
        cr_expect_not(v.ok, "%s on %s", a->algorithm, text);
    }
    clattn_array_free(&lse);
    cla_problem_data_free(&data);
}

static void check_all(const char *device, int64_t rows) {
    clattn_context *context = NULL;
    cr_assert_eq(clattn_context_create(device, NULL, &context), CLATTN_OK);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        int ran = 0;
        for (size_t a = 0; a < clattn_algorithm_count(); a++)
            check_one(context, problems[i], a, rows, &ran);
        cr_expect_geq(ran, 2, "%s", problems[i]);
    }
    clattn_context_destroy(context);
}

Test(self_check, every_algorithm_passes_all_rows_with_every_option_on_the_cpu) { check_all("cpu", CLATTN_ALL_ROWS); }
Test(self_check, every_algorithm_passes_some_rows_with_every_option_on_the_cpu) { check_all("cpu", 5); }
Test(self_check, every_algorithm_passes_all_rows_with_every_option_on_a_device) {
    check_all("opencl", CLATTN_ALL_ROWS);
}
Test(self_check, every_algorithm_passes_some_rows_with_every_option_on_a_device) { check_all("opencl", 5); }

/* Each row of o but the first begins within the row of q before its own: the result is right, and cannot be seen to be.
 * Too many rows for their elements to be compared one by one, and neither view ends in the other. */
enum { LONG = 2100 };

typedef struct {
    float q[2 * (LONG + 1) * D], o[2 * (LONG + 1) * D], k[M * D];
} long_rows;

static clattn_attention_args apart(long_rows *x) {
    for (int i = 0; i < 2 * (LONG + 1) * D; i++)
        x->q[i] = 0.1f * (float)(i % 7);
    for (int i = 0; i < M * D; i++)
        x->k[i] = (float)(i + 1);
    clattn_attention_args a = {
        .q = view(x->q + 2 * D, LONG, D), .k = view(x->k, M, D), .v = view(x->k, M, D), .o = view(x->o, LONG, D)};
    a.q.stride[2] = a.o.stride[2] = 2 * D;
    return a;
}

static void overwrite(clattn_context *context, int64_t rows) {
    static long_rows x;
    clattn_attention_args a = apart(&x);
    a.o.host = x.q + D / 2;
    a.self_check = rows;
    if (rows > 0)
        FAILS(clattn_attention(context, &a), CLATTN_E_VERIFY, "o is wrong: ");
    else
        SUCCEEDS(clattn_attention(context, &a));
}

Test(self_check, a_wrong_result_ends_in_a_status_of_its_own) {
    clattn_context *cpu = NULL;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    overwrite(cpu, CLATTN_ALL_ROWS);
    cr_assert_not_null(strstr(clattn_last_error(), " expected "), "%s", clattn_last_error());
    cr_assert_not_null(strstr(clattn_last_error(), " allowed "), "%s", clattn_last_error());
    overwrite(cpu, 2);
    overwrite(cpu, 0);
    clattn_context_destroy(cpu);
}

Test(self_check, a_plan_checks_every_execution) {
    static long_rows x;
    clattn_context *cpu = NULL;
    clattn_plan *plan = NULL;
    clattn_attention_args args = apart(&x);
    args.self_check = 2;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    SUCCEEDS(clattn_plan_create(cpu, &args, &plan));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    clattn_attention_args other = args;
    other.o.host = x.q + D / 2;
    other.self_check = -1; /* is not looked at */
    FAILS(clattn_plan_execute(plan, &other), CLATTN_E_VERIFY, "o is wrong: ");
    other.o.host = x.o;
    SUCCEEDS(clattn_plan_execute(plan, &other));
    clattn_plan_destroy(plan);
    clattn_context_destroy(cpu);
}

/* Whatever checks: state is what the call alone wrote. */
Test(self_check, leaves_state_as_it_is) {
    const int64_t rows[] = {1, CLATTN_ALL_ROWS};
    clattn_context *cpu = NULL;
    fixture f;
    float state[N * 2], wanted[N * 2];
    make(&f);
    f.args.algorithm = NULL;
    f.args.state = view(state, N, 2);
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    SUCCEEDS(clattn_attention(cpu, &f.args));
    memcpy(wanted, state, sizeof state);
    for (int i = 0; i < 2; i++) {
        f.args.self_check = rows[i];
        memset(state, 0, sizeof state);
        SUCCEEDS(clattn_attention(cpu, &f.args));
        cr_expect_arr_eq(state, wanted, sizeof state, "%lld rows", (long long)rows[i]);
        f.args.self_check = 0;
        memset(state, 0xff, sizeof state);
        cr_expect(verified(&f, rows[i]).ok);
        for (int e = 0; e < N * 2; e++)
            cr_expect(isnan(state[e]));
    }
    clattn_context_destroy(cpu);
}

Test(self_check, negative_rows_are_refused) {
    fixture f;
    clattn_context *cpu = NULL;
    make(&f);
    f.args.self_check = -1;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    FAILS(clattn_attention(cpu, &f.args), CLATTN_E_ARGUMENT, "self_check: -1 rows");
    clattn_context_destroy(cpu);
}
