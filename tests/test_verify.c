/* SPDX-License-Identifier: Apache-2.0 */
/* `--verify`: right results pass, and a wrong number, a NaN too many and one too few are found where they are. */
#include "../host/cli/progress.c" /* first: it asks for POSIX */

#include "../host/cli/args.c"
#include "../host/cli/args_text.c"
#include "../host/cli/job.c"
#include "../host/cli/verify.c"
#include <clattn/clattn.h>
#include <criterion/criterion.h>
#include <criterion/redirect.h>

enum { N = 3, M = 4, D = 2 };

/* One head: [1, 1, N, D] queries, M keys; o computed by "reference" in the inputs' type. */
typedef struct fixture {
    float q[N * D], k[M * D], v[M * D], o[N * D], lse[N];
    clattn_attention_args args;
} fixture;

static clattn_tensor view(float *data, int64_t rows, int64_t columns) {
    return clattn_tensor_host(data, CLATTN_F32, 4, (const int64_t[]){1, 1, rows, columns});
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
                                      .algorithm = "reference"};
    clattn_context *cpu = NULL;
    cr_assert_eq(clattn_context_create("cpu", NULL, &cpu), CLATTN_OK);
    cr_assert_eq(cla_job_run(cpu, &f->args, false, NULL), CLATTN_OK, "%s", clattn_last_error());
    clattn_context_destroy(cpu);
}

Test(verify, right_results_pass_below_a_bound_of_the_size_of_the_values) {
    fixture f;
    cla_verification v;
    make(&f);
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert(v.ok);
    cr_assert_str_eq(v.verdicts[0].name, "o");
    cr_assert_str_eq(v.verdicts[1].name, "lse");
    cr_assert_null(v.verdicts[2].name);
    cr_assert_geq(v.verdicts[0].bound, 2e-6, "1e-6 of the largest |V|, which is 2");
    cr_assert_lt(v.verdicts[0].bound, 2e-5);
    cla_verify_free(&v);
}

Test(verify, a_wrong_number_is_found_where_it_is, .init = cr_redirect_stderr) {
    fixture f;
    cla_verification v;
    make(&f);
    f.o[2 * D + 1] += 1e-3f;
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert_not(v.ok);
    cr_assert(v.verdicts[0].same_kinds);
    cr_assert_eq(v.verdicts[0].at[2], 2);
    cr_assert_eq(v.verdicts[0].at[3], 1);
    cr_assert_float_eq(v.verdicts[0].error, 1e-3, 1e-5);
    cr_assert_eq(cla_verify_report(&v), CLA_EXIT_FAILED);
    cla_verify_free(&v);
}

Test(verify, a_nan_too_many_is_found_where_it_is) {
    fixture f;
    cla_verification v;
    make(&f);
    f.o[1 * D] = NAN;
    f.o[2 * D] += 1;
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert_not(v.ok);
    cr_assert_not(v.verdicts[0].same_kinds);
    cr_assert_eq(v.verdicts[0].at[2], 1);
    cr_assert_eq(v.verdicts[0].at[3], 0);
    cla_verify_free(&v);
}

Test(verify, a_nan_or_an_infinity_that_should_be_there_is_missed) {
    fixture f;
    cla_verification v;
    make(&f);
    f.v[0] = INFINITY; /* every query sees key 0, so that lane 0 is infinite */
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert_not(v.ok);
    cr_assert_not(v.verdicts[0].same_kinds);
    cla_verify_free(&v);
    for (int i = 0; i < N; i++)
        f.o[i * D] = INFINITY;
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert(v.ok);
    cla_verify_free(&v);
}

Test(verify, a_view_with_strides_is_read_by_its_strides) {
    fixture f;
    cla_verification v;
    float wide[N * 2 * D] = {0}; /* o in every second row */
    make(&f);
    for (int i = 0; i < N; i++)
        for (int d = 0; d < D; d++)
            wide[2 * i * D + d] = f.o[i * D + d];
    f.args.o.host = wide;
    f.args.o.stride[2] = 2 * D;
    cr_assert_eq(cla_verify(&f.args, &v), CLA_EXIT_OK);
    cr_assert(v.ok);
    cla_verify_free(&v);
}
