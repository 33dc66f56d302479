/* SPDX-License-Identifier: Apache-2.0 */
/* `sdpa`: five tokens, d_k = 8, d_v = 4. Rows of weights sum to one; all of it equals what the article's code gave. */
#include "args.h"
#include "study.h"
#include <math.h>
#include <stdio.h>

enum { N = 5, D = 8, DV = 4 };

/* The row whose sum is furthest from 1. */
static double worst_sum(const clattn_array *weights) {
    double worst = 1;
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t j = 0; j < N; j++)
            sum += cla_study_at(weights, i * N + j);
        if (!(fabs(sum - 1) <= fabs(worst - 1)))
            worst = sum;
    }
    return worst;
}

int cla_study_sdpa(cla_study *s) {
    static const char *const first_row[N] = {".367", ".063", ".113", ".115", ".342"};
    const clattn_array *q = cla_study_input(s, "s000_sdpa/Q"), *k = cla_study_input(s, "s000_sdpa/K"),
                       *v = cla_study_input(s, "s000_sdpa/V"), *y = cla_study_stored(s, "s000_sdpa/Y"),
                       *y_torch = cla_study_stored(s, "s000_sdpa/Y_torch"),
                       *stored = cla_study_stored(s, "s000_sdpa/weights");
    const clattn_array *o = cla_study_new(s, s->dtype, 2, (const int64_t[]){N, DV}),
                       *weights = cla_study_new(s, s->dtype, 2, (const int64_t[]){N, N});
    if (!q || !k || !v || !y || !y_torch || !stored || !o || !weights)
        return CLA_EXIT_FAILED;
    const clattn_attention_args args = {.q = cla_study_view(q),
                                        .k = cla_study_view(k),
                                        .v = cla_study_view(v),
                                        .o = cla_study_view(o),
                                        .weights = cla_study_view(weights)};
    const clattn_status status = clattn_attention(s->context, &args);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    for (size_t j = 0; j < N; j++) {
        char name[32];
        snprintf(name, sizeof name, "weights[0][%zu]", j);
        cla_study_figure(s, name, first_row[j], cla_study_at(stored, j), cla_study_at(weights, j),
                         cla_study_bound(s, 4e-15, 1e-6));
    }
    cla_study_figure(s, "sum of a row of weights, the worst", "1.", 1, worst_sum(weights),
                     cla_study_bound(s, 1e-12, 1e-6));
    cla_study_figure(s, "max |weights - stored|", NULL, 0, cla_study_difference(weights, stored),
                     cla_study_bound(s, 4e-15, 1e-6));
    cla_study_figure(s, "max |Y - stored|", NULL, 0, cla_study_difference(o, y), cla_study_bound(s, 4e-15, 2e-6));
    cla_study_figure(s, "max |Y - stored, PyTorch|", NULL, 0, cla_study_difference(o, y_torch),
                     cla_study_bound(s, 4e-15, 2e-6));
    return CLA_EXIT_OK;
}
