/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of `clattn study`: what counts as off, and what the files and the tensors that lie in the program hold. */
#include "study_reference.h"
#include "study_weights.h"
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

/* Of study_cost.c, which is not linked. */
void cla_cost_free(struct cla_cost *cost) { cr_assert_null(cost); }

Test(study, a_figure_is_off_beyond_its_bound) {
    cla_study s = {.name = "test"};
    cla_study_figure(&s, "exact", "1", 1, 1, 0);
    cla_study_figure(&s, "at the bound", NULL, 1, 1.5, 0.5);
    cr_expect_eq(cla_study_off(&s), 0);
    cla_study_figure(&s, "beyond", NULL, 1, 1.5001, 0.5);
    cla_study_figure(&s, "below", NULL, 1, 0.4999, 0.5);
    cla_study_figure(&s, "not a number", NULL, 1, (double)NAN, 1e9);
    cla_study_figure(&s, "infinite", NULL, 1, (double)INFINITY, 1e9);
    cr_expect_eq(cla_study_off(&s), 4);
    cla_study_free(&s);
}

Test(study, json_says_which_figure_is_off) {
    cla_study s = {.name = "test"};
    cla_study_figure(&s, "right", "2.0", 2, 2.25, 0.5);
    cla_study_figure(&s, "wrong", NULL, 2, (double)NAN, 0.5);
    cla_study_row(&s, "n,ms", (const double[]){512, (double)NAN});
    cJSON *json = cla_study_json(&s);
    cr_assert_not_null(json);
    const cJSON *figures = cJSON_GetObjectItem(json, "figures"), *right = cJSON_GetArrayItem(figures, 0),
                *wrong = cJSON_GetArrayItem(figures, 1),
                *row = cJSON_GetArrayItem(cJSON_GetObjectItem(json, "rows"), 0);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(json, "agrees")));
    cr_expect(cJSON_IsTrue(cJSON_GetObjectItem(right, "agrees")));
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(right, "article")), "2.0");
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(right, "ours")), 2.25);
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItem(wrong, "agrees")));
    cr_expect(cJSON_IsNull(cJSON_GetObjectItem(wrong, "article")));
    cr_expect(cJSON_IsNull(cJSON_GetObjectItem(wrong, "ours")));
    cr_expect_eq(cJSON_GetNumberValue(cJSON_GetObjectItem(row, "n")), 512);
    cr_expect(cJSON_IsNull(cJSON_GetObjectItem(row, "ms")));
    cJSON_Delete(json);
    cla_study_free(&s);
}

Test(study, tensors_lie_in_the_program) {
    cla_study s = {.name = "test", .dtype = CLATTN_F32};
    const clattn_array *weights = cla_study_stored(&s, "s000_sdpa/weights"), *q = cla_study_input(&s, "s000_sdpa/Q"),
                       *perm = cla_study_input(&s, "s000_permutation_pe/perm");
    cr_assert(weights && q && perm);
    cr_expect_eq(weights->dtype, CLATTN_F64);
    cr_expect_eq(q->dtype, CLATTN_F32);
    cr_expect_eq(perm->dtype, CLATTN_I64);
    cr_expect_float_eq(cla_study_at(weights, 0), 0.36726983817699677, 1e-16);
    cr_expect_eq(cla_study_difference(weights, weights), 0);
    cr_expect_eq(cla_study_difference(weights, q), (double)INFINITY);
    const clattn_tensor view = cla_study_view(q);
    cr_expect(view.rank == 4 && view.shape[0] == 1 && view.shape[1] == 1 && view.shape[2] == 5 && view.shape[3] == 8);
    cr_expect_null(cla_study_stored(&s, "no/such"));
    cla_study_free(&s);
}

enum { E = 16, HEADS = 4, INNER = 24, BATCH = 2, ROWS = 5, MEMORY = 7 };

/* Both layers of a batch of two against what PyTorch gave in f64, of which the reference knows nothing. */
static void reference_is(bool decoder, const char *set, const char *x_name, const char *y_name) {
    cla_study s = {.name = "test"};
    cla_weights *w = calloc(1, sizeof *w);
    cr_assert(w && cla_weights_stored(&s, set, "layer.", decoder, w));
    const cla_reference r = {.weights = w->named, .count = w->count, .E = E, .H = HEADS, .F = INNER};
    const clattn_array *x = cla_study_stored(&s, x_name), *y = cla_study_stored(&s, y_name),
                       *memory = decoder ? cla_study_stored(&s, "dec_post_relu/memory") : NULL;
    cr_assert(x && y && (!decoder || memory));
    for (size_t b = 0; b < BATCH; b++) {
        double *rows = (double *)x->data + b * ROWS * E;
        cr_assert(decoder ? cla_reference_decoder_layer(&r, "layer.", rows, ROWS,
                                                        (const double *)memory->data + b * MEMORY * E, MEMORY)
                          : cla_reference_encoder_layer(&r, "layer.", rows, ROWS));
    }
    cr_expect_lt(cla_study_difference(x, y), 1e-13);
    cla_study_free(&s);
    free(w);
}

Test(study, the_reference_encoder_layer_is_pytorchs) {
    reference_is(false, "enc_post_relu", "enc_post_relu/src", "enc_post_relu/out_f64");
}

Test(study, the_reference_decoder_layer_is_pytorchs) {
    reference_is(true, "dec_post_relu", "dec_post_relu/tgt", "dec_post_relu/out_f64");
}

Test(study, a_missing_weight_is_said) {
    const cla_reference r = {.E = E, .H = HEADS, .F = INNER};
    double x[E] = {0};
    cr_expect_not(cla_reference_encoder_layer(&r, "layer.", x, 1));
}
