/* SPDX-License-Identifier: Apache-2.0 */
/* `batched`: a batch of 1, four tokens, d = 8, without and with a binary mask in which 0 forbids. The article replaces
 * a forbidden score by -1e9, so that a row without any key is uniform; here such a row is zero. Both are computed, the
 * article's from single operations. */
#include "args.h"
#include "study.h"
#include <clattn/ops.h>
#include <stdio.h>
#include <string.h>

enum { N = 4, D = 8, EMPTY_ROW = 1 };

typedef struct batched {
    const clattn_array *q, *k, *v, *mask, *keep; /* keep: nonzero = may be seen */
    clattn_array *o, *weights;
} batched;

static bool load(cla_study *s, const char *set, batched *b) {
    const int64_t square[] = {1, N, N}, rows[] = {1, N, D};
    const clattn_array **const inputs[] = {&b->q, &b->k, &b->v};
    const char *const names[] = {"Q", "K", "V"};
    char name[32];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "%s/%s", set, names[i]);
        if (!(*inputs[i] = cla_study_input(s, name)))
            return false;
    }
    b->o = cla_study_new(s, s->dtype, 3, rows);
    b->weights = cla_study_new(s, s->dtype, 3, square);
    return b->o && b->weights;
}

static bool load_mask(cla_study *s, batched *b) {
    b->mask = cla_study_input(s, "s001_mask/mask");
    clattn_array *keep = b->mask ? cla_study_new(s, CLATTN_BOOL, 3, b->mask->shape) : NULL;
    for (size_t i = 0; keep && i < keep->bytes; i++)
        ((unsigned char *)keep->data)[i] = cla_study_at(b->mask, i) != 0;
    b->keep = keep;
    return keep != NULL;
}

/* By the call. */
static clattn_status attend(const cla_study *s, const batched *b) {
    clattn_attention_args args = {.q = cla_study_view(b->q),
                                  .k = cla_study_view(b->k),
                                  .v = cla_study_view(b->v),
                                  .o = cla_study_view(b->o),
                                  .weights = cla_study_view(b->weights)};
    if (b->keep)
        args.keep = cla_study_view(b->keep);
    return clattn_attention(s->context, &args);
}

static void replace_forbidden(const batched *b, double by) {
    for (size_t i = 0; i < (size_t)N * N; i++)
        if (cla_study_at(b->mask, i) == 0 && b->weights->dtype == CLATTN_F64)
            ((double *)b->weights->data)[i] = by;
        else if (cla_study_at(b->mask, i) == 0)
            ((float *)b->weights->data)[i] = (float)by;
}

/* As the article does it: scores, forbidden ones replaced, softmax, product with V. */
static clattn_status compose(const cla_study *s, const batched *b) {
    const int64_t square[] = {N, N}, rows[] = {N, D};
    const clattn_tensor scores = clattn_tensor_host(b->weights->data, s->dtype, 2, square),
                        v = clattn_tensor_host(b->v->data, s->dtype, 2, rows);
    const clattn_attention_args scaled = {.q = cla_study_view(b->q),
                                          .k = cla_study_view(b->k),
                                          .v = cla_study_view(b->v),
                                          .o = cla_study_view(b->o),
                                          .weights = cla_study_view(b->weights),
                                          .weights_form = CLATTN_WEIGHTS_SCALED};
    clattn_status status = clattn_attention(s->context, &scaled);
    if (status != CLATTN_OK)
        return status;
    replace_forbidden(b, -1e9);
    status = clattn_softmax(s->context, &(clattn_softmax_args){.x = scores, .y = scores});
    if (status != CLATTN_OK)
        return status;
    const clattn_linear_args product = {.x = scores,
                                        .w = clattn_tensor_permute(v, (const int[]){1, 0}),
                                        .y = clattn_tensor_host(b->o->data, s->dtype, 2, rows)};
    return clattn_linear(s->context, &product);
}

/* Against stored tensors "SET/Y..." and "SET/weights...". */
static bool judge(cla_study *s, const batched *b, const char *set, const char *suffix, const char *what) {
    char name[72];
    snprintf(name, sizeof name, "%s/weights%s", set, suffix);
    const clattn_array *weights = cla_study_stored(s, name);
    snprintf(name, sizeof name, "%s/Y%s", set, suffix);
    const clattn_array *y = cla_study_stored(s, name);
    if (!weights || !y)
        return false;
    snprintf(name, sizeof name, "%s: max |weights - stored|", what);
    cla_study_figure(s, name, NULL, 0, cla_study_difference(b->weights, weights), cla_study_bound(s, 1e-12, 1e-6));
    snprintf(name, sizeof name, "%s: max |Y - stored|", what);
    cla_study_figure(s, name, NULL, 0, cla_study_difference(b->o, y), cla_study_bound(s, 1e-12, 2e-6));
    return true;
}

static void judge_empty_row(cla_study *s, const batched *b, const char *what, const char *article, double wanted) {
    for (size_t j = 0; j < N; j++) {
        char name[72];
        snprintf(name, sizeof name, "%s: weights[%d][%zu], a row that sees no key", what, EMPTY_ROW, j);
        cla_study_figure(s, name, article, wanted, cla_study_at(b->weights, (size_t)EMPTY_ROW * N + j), 0);
    }
}

int cla_study_batched(cla_study *s) {
    batched plain = {0}, masked = {0};
    if (!load(s, "s001_sdpa", &plain) || !load(s, "s001_mask", &masked) || !load_mask(s, &masked))
        return CLA_EXIT_FAILED;
    clattn_status status = attend(s, &plain);
    if (status != CLATTN_OK)
        return cla_study_fail(s, status);
    if (!judge(s, &plain, "s001_sdpa", "", "no mask"))
        return CLA_EXIT_FAILED;
    if ((status = compose(s, &masked)) != CLATTN_OK)
        return cla_study_fail(s, status);
    if (!judge(s, &masked, "s001_mask", "_1e9", "-1e9 as a score"))
        return CLA_EXIT_FAILED;
    judge_empty_row(s, &masked, "-1e9 as a score", ".25", .25);
    if ((status = attend(s, &masked)) != CLATTN_OK)
        return cla_study_fail(s, status);
    if (!judge(s, &masked, "s001_mask", "_inf", "excluded"))
        return CLA_EXIT_FAILED;
    judge_empty_row(s, &masked, "excluded", NULL, 0);
    return CLA_EXIT_OK;
}
