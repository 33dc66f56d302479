/* SPDX-License-Identifier: Apache-2.0 */
/* `heads`: four heads over six tokens, d = 16, with the weights of every head; and that the number of parameters,
 * 4 d^2 + 4 d, does not depend on the number of heads. */
#include "args.h"
#include "study_multihead.h"
#include <stdio.h>

enum { HEADS = 4, N = 6, E = 16 };
#define SET "s000_mha"

static int run_heads(cla_study *s) {
    clattn_multihead *multihead;
    const clattn_array *x = cla_study_input(s, SET "/query"), *wanted = cla_study_stored(s, SET "/out"),
                       *stored = cla_study_stored(s, SET "/attn_weights");
    const clattn_array *y = cla_study_new(s, s->dtype, 3, (const int64_t[]){1, N, E}),
                       *weights = cla_study_new(s, s->dtype, 4, (const int64_t[]){1, HEADS, N, N});
    if (!x || !wanted || !stored || !y || !weights)
        return CLA_EXIT_FAILED;
    const int exit_status = cla_study_multihead(s, SET, HEADS, &multihead);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    const clattn_multihead_args args = {
        .query = clattn_array_tensor(x), .y = clattn_array_tensor(y), .weights = clattn_array_tensor(weights)};
    const clattn_status status = clattn_multihead_run(multihead, &args);
    clattn_multihead_destroy(multihead);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    cla_study_figure(s, "max |output - stored|", NULL, 0, cla_study_difference(y, wanted),
                     cla_study_bound(s, 4e-15, 5e-6));
    for (size_t h = 0; h < HEADS; h++) {
        char name[96];
        snprintf(name, sizeof name, "head %zu: max |weights - stored|", h);
        cla_study_figure(s, name, NULL, 0, cla_study_part_difference(weights, h * N * N, stored, h * N * N, N * N),
                         cla_study_bound(s, 4e-15, 2e-6));
    }
    return CLA_EXIT_OK;
}

static int count_parameters(cla_study *s, int64_t heads) {
    clattn_multihead *multihead;
    char name[96];
    const int exit_status = cla_study_multihead(s, SET, heads, &multihead);
    if (exit_status != CLA_EXIT_OK)
        return exit_status;
    snprintf(name, sizeof name, "parameters with %lld head%s", (long long)heads, heads == 1 ? "" : "s");
    cla_study_figure(s, name, "1088", 4 * E * E + 4 * E, (double)clattn_multihead_parameter_count(multihead), 0);
    clattn_multihead_destroy(multihead);
    return CLA_EXIT_OK;
}

int cla_study_heads(cla_study *s) {
    static const int64_t heads[] = {1, 4, 16};
    int exit_status = run_heads(s);
    for (size_t i = 0; i < 3 && exit_status == CLA_EXIT_OK; i++)
        exit_status = count_parameters(s, heads[i]);
    return exit_status;
}
