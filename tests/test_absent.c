/* SPDX-License-Identifier: Apache-2.0 */
/* Operations without what is optional, and on tensors without elements: what is asked for is right, and nothing else is
 * written. */
#include "errors.h"
#include "op_arrays.h"
#include <clattn/clattn.h>

#define F32 CLATTN_F32

static clattn_context *contexts[2]; /* an OpenCL device, cpu */

static void begin(void) {
    fill_slots();
    contexts[0] = op_open("opencl");
    contexts[1] = op_open("cpu");
}
static void end(void) {
    clattn_context_destroy(contexts[0]);
    clattn_context_destroy(contexts[1]);
}
TestSuite(absent, .init = begin, .fini = end);

static const int64_t no_rows[] = {0, 4}, no_columns[] = {3, 0}, nobody[] = {0};

static clattn_tensor of_shape(int slot, int rank, const int64_t *shape) {
    return clattn_tensor_host(slots[slot], F32, rank, shape);
}

static void expect_near(const char *what, float got, double want) {
    cr_expect_float_eq((double)got, want, 4 * oracle_floor(F32, 1), "%s: %g, not %g", what, (double)got, want);
}

/* Calls that have nothing to write: of shapes without rows, and without columns. */
Test(absent, tensors_without_elements_leave_all_as_it_is) {
    for (int d = 0; d < 2; d++)
        for (int way = 0; way < 2; way++) {
            clattn_context *context = contexts[d];
            const int64_t *shape = way ? no_columns : no_rows;
            const clattn_tensor x = of_shape(0, 2, shape), y = of_shape(1, 2, shape);
            SUCCEEDS(clattn_activate_backward(context, &(clattn_activate_backward_args){.x = x, .d_y = x, .d_x = y}));
            SUCCEEDS(clattn_softmax_backward(context, &(clattn_softmax_backward_args){.y = x, .d_y = x, .d_x = y}));
            SUCCEEDS(clattn_norm_backward(context, &(clattn_norm_backward_args){.x = x, .d_y = x, .d_x = y}));
            SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = x, .y = y}));
            SUCCEEDS(clattn_adam_step(
                context,
                &(clattn_adam_args){
                    .parameter = x, .gradient = y, .moment1 = of_shape(2, 2, shape), .moment2 = y, .step = 1}));
            SUCCEEDS(clattn_sgd_step(context, &(clattn_sgd_args){.parameter = x, .gradient = y, .step = 1}));
        }
    for (int d = 0; d < 2; d++) {
        clattn_context *context = contexts[d];
        const clattn_tensor thin = of_shape(0, 2, no_columns), none = of_shape(1, 2, no_rows);
        const clattn_tensor no_ids = clattn_tensor_host(some_ids, CLATTN_I32, 1, nobody);
        SUCCEEDS(
            clattn_embed(context, &(clattn_embed_args){.table = thin, .ids = ids(3), .y = of_shape(2, 2, no_columns)}));
        SUCCEEDS(clattn_embed_backward(
            context, &(clattn_embed_backward_args){.ids = ids(3), .d_y = thin, .d_table = of_shape(2, 2, no_columns)}));
        SUCCEEDS(clattn_embed_backward(
            context, &(clattn_embed_backward_args){.ids = no_ids, .d_y = of_shape(2, 2, no_rows), .d_table = none}));
        SUCCEEDS(clattn_linear_backward(context,
                                        &(clattn_linear_backward_args){.d_y = thin, .d_bias = of_shape(2, 1, nobody)}));
        SUCCEEDS(clattn_norm_backward(
            context, &(clattn_norm_backward_args){.x = thin, .d_y = thin, .d_bias = of_shape(2, 1, nobody)}));
        SUCCEEDS(clattn_cache_append(
            context, &(clattn_cache_append_args){.k = four(0, 0, 1, 1, 4), .k_cache = four(1, 0, 1, 2, 4)}));
    }
    expect_unwritten();
}

Test(absent, rows_of_no_elements_have_a_mean) {
    static const int64_t many[] = {2, 0}, lengths[] = {0, 0};
    for (int d = 0; d < 2; d++) {
        clattn_context *context = contexts[d];
        const clattn_tensor x = of_shape(0, 2, many), y = of_shape(1, 2, many);
        fill_slots();
        SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.x = x, .y = y}));
        SUCCEEDS(clattn_pool(
            context, &(clattn_pool_args){.x = cube(0, 2, 3, 0), .y = of_shape(1, 2, many), .lengths = lengths}));
        SUCCEEDS(clattn_pool(context, &(clattn_pool_args){.x = cube(0, 2, 3, 0), .y = of_shape(1, 2, many)}));
        for (int rank = 2; rank < 4; rank++) {
            const clattn_tensor table = rank == 3 ? cube(2, 2, 3, 2) : mat(2, 3, 2);
            SUCCEEDS(clattn_rotary(
                context,
                &(clattn_rotary_args){.x = four(0, 2, 0, 3, 4), .y = four(1, 2, 0, 3, 4), .cos = table, .sin = table}));
        }
        SUCCEEDS(clattn_rotary(context, &(clattn_rotary_args){.x = four(0, 2, 0, 3, 4), .y = four(1, 2, 0, 3, 4)}));
        expect_unwritten();
        SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.x = x, .y = y, .mean = vec(2, 2)}));
        SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.x = x, .y = y, .inv_std = vec(3, 2), .epsilon = 4}));
        for (int i = 0; i < 2; i++) {
            expect_near("mean", slots[2][i], 0);
            expect_near("inv_std", slots[3][i], 0.5);
            slots[2][i] = 0.5F;
        }
        expect_unwritten();
    }
}

Test(absent, gradients_of_norms_one_by_one) {
    for (int d = 0; d < 2; d++) {
        const clattn_tensor x = mat(0, 2, 4), d_y = mat(1, 2, 4);
        for (int i = 0; i < 4; i++)
            slots[0][i] = slots[0][4 + i] = (float)i;
        /* The gradient by the bias alone is a sum of rows. */
        SUCCEEDS(
            clattn_norm_backward(contexts[d], &(clattn_norm_backward_args){.x = x, .d_y = d_y, .d_bias = vec(2, 4)}));
        /* With an epsilon that dwarfs the variance of 1.25: n = (x - 1.5) / 1e3, and d_weight its sum times 0.5. */
        SUCCEEDS(clattn_norm_backward(
            contexts[d], &(clattn_norm_backward_args){
                             .x = x, .weight = vec(3, 4), .d_y = d_y, .d_weight = vec(4, 4), .epsilon = 1e6}));
        for (int i = 0; i < 4; i++) {
            expect_near("d_bias", slots[2][i], 1);
            expect_near("d_weight", slots[4][i], (i - 1.5) / sqrt(1e6 + 1.25));
            slots[2][i] = slots[4][i] = 7;
        }
        /* Neither weight nor its gradient. */
        SUCCEEDS(clattn_norm_backward(
            contexts[d], &(clattn_norm_backward_args){.x = x, .weight = vec(3, 4), .d_y = d_y, .d_x = mat(5, 2, 4)}));
        for (int i = 0; i < 8; i++)
            expect_near("d_x of equal gradients", slots[5][i], 0);
        expect_near("d_bias that is not asked for", slots[2][0], 7);
    }
}

Test(absent, gradients_of_activations_one_by_one) {
    for (int d = 0; d < 2; d++) {
        clattn_activate_backward_args a = {.x = vec(0, 3), .up = vec(1, 3), .d_y = vec(2, 3)};
        SUCCEEDS(clattn_activate_backward(contexts[d], &a)); /* nothing is asked for */
        a.d_up = vec(3, 3);
        SUCCEEDS(clattn_activate_backward(contexts[d], &a));
        expect_near("d_up", slots[3][2], 0.25);
        expect_near("what lies behind", slots[3][3], 0.5);
        slots[3][0] = slots[3][1] = slots[3][2] = 0.5F;
    }
    expect_unwritten();
}

Test(absent, losses_one_by_one) {
    const double each = log(4);
    for (int d = 0; d < 2; d++)
        for (int way = 0; way < 3; way++) {
            fill_slots();
            SUCCEEDS(clattn_cross_entropy(
                contexts[d], &(clattn_cross_entropy_args){.logits = mat(0, 3, 4),
                                                          .targets = ids(3),
                                                          .loss = way == 0 ? vec(1, 1) : (clattn_tensor){0},
                                                          .row_losses = way == 1 ? vec(2, 3) : (clattn_tensor){0},
                                                          .d_logits = way == 2 ? mat(3, 3, 4) : (clattn_tensor){0},
                                                          .reduction = CLATTN_LOSS_SUM,
                                                          .has_scale = true,
                                                          .scale = 2}));
            expect_near("loss", slots[1][0], way == 0 ? 2 * 3 * each : 0.5);
            expect_near("row_losses", slots[2][1], way == 1 ? each : 0.5);
            expect_near("d_logits", slots[3][1], way == 2 ? 0.5 : 0.5); /* 2 * (1 / 4), and what was there */
            expect_near("d_logits of the target", slots[3][0], way == 2 ? -1.5 : 0.5);
        }
}

Test(absent, norms_of_gradients_and_their_factor_one_by_one) {
    const clattn_tensor two[] = {mat(0, 3, 4), as_type(vec(1, 4), CLATTN_F64)};
    for (int d = 0; d < 2; d++)
        for (int way = 0; way < 8; way++) {
            clattn_device_info info;
            const size_t count = way & 4 ? 2 : 1;
            SUCCEEDS(clattn_context_info(contexts[d], &info));
            if (count == 2 && !info.has_f64)
                continue;
            fill_slots();
            for (int i = 0; i < 4; i++)
                ((double *)(void *)slots[1])[i] = 2;
            const double norm = sqrt(12 * 0.25 + (count == 2 ? 16 : 0));
            SUCCEEDS(clattn_gradient_norm(
                contexts[d], &(clattn_gradient_norm_args){.gradients = two,
                                                          .count = count,
                                                          .max_norm = 0.25,
                                                          .norm = way & 1 ? vec(2, 1) : (clattn_tensor){0},
                                                          .factor = way & 2 ? vec(3, 1) : (clattn_tensor){0}}));
            expect_near("norm", slots[2][0], way & 1 ? norm : 0.5);
            expect_near("factor", slots[3][0], way & 2 ? 0.25 / (norm + 1e-6) : 0.5);
        }
}

/* Caches in pages: a batch that appends nothing, one page alone, batches that are alike, and no new rows. */
Test(absent, new_rows_of_caches) {
    for (int d = 0; d < 2; d++) {
        static const int64_t from[] = {0, 0}, one_alone[] = {2, 0};
        static const int32_t table[] = {1, 0};
        clattn_cache_append_args a = {.k = four(0, 2, 1, 2, 4),
                                      .k_cache = four(1, 2, 1, 3, 4),
                                      .cache_lengths = from,
                                      .new_lengths = one_alone,
                                      .block_table = table,
                                      .table_pages = 1};
        fill_slots();
        for (int i = 0; i < 16; i++)
            slots[0][i] = (float)i;
        SUCCEEDS(clattn_cache_append(contexts[d], &a));
        for (int i = 0; i < 8; i++) { /* page 1, and page 0 as it was */
            expect_near("page 1", slots[1][12 + i], i);
            expect_near("page 0", slots[1][i], 0.5);
        }
        a.new_lengths = NULL;
        SUCCEEDS(clattn_cache_append(contexts[d], &a));
        for (int i = 0; i < 8; i++)
            expect_near("page 0", slots[1][i], 8 + i);
        /* None, by tables that reach to no position. */
        fill_slots();
        const clattn_cache_append_args none = {.k = four(0, 2, 1, 0, 4),
                                               .k_cache = four(1, 2, 1, 3, 4),
                                               .cache_lengths = from,
                                               .rotate = true,
                                               .cos = mat(2, 0, 2),
                                               .sin = mat(3, 0, 2)};
        SUCCEEDS(clattn_cache_append(contexts[d], &none));
        expect_unwritten();
    }
}

/* Tables of cosines and sines in buffers, one of them in f64: the angles are those of the wider. */
Test(absent, tables_of_either_type_in_buffers) {
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(contexts[0], &info));
    for (int wide = 0; wide < (info.has_f64 ? 3 : 1); wide++) { /* none, cos, sin */
        const double table[] = {0.5, 0.25, 0.125, 1};
        const float narrow[] = {0.5F, 0.25F, 0.125F, 1};
        clattn_buffer *buffers[2] = {NULL, NULL};
        clattn_tensor t[2];
        for (int i = 0; i < 2; i++) {
            const bool f64 = wide == i + 1;
            SUCCEEDS(clattn_buffer_create(contexts[0], sizeof table, &buffers[i]));
            SUCCEEDS(clattn_buffer_upload(buffers[i], 0, f64 ? (const void *)table : narrow,
                                          f64 ? sizeof table : sizeof narrow));
            t[i] = clattn_tensor_buffer(buffers[i], f64 ? CLATTN_F64 : F32, 2, (const int64_t[]){2, 2});
        }
        fill_slots();
        SUCCEEDS(clattn_rotary(contexts[0],
                               &(clattn_rotary_args){.x = mat(0, 2, 4), .y = mat(1, 2, 4), .cos = t[0], .sin = t[1]}));
        for (int i = 0; i < 4; i++) { /* x1 = x2 = 0.5: cos is sin, so that y1 = 0 and y2 = cos */
            expect_near("y1", slots[1][i / 2 * 4 + i % 2], 0);
            expect_near("y2", slots[1][i / 2 * 4 + 2 + i % 2], table[i]);
        }
        clattn_buffer_destroy(buffers[0]);
        clattn_buffer_destroy(buffers[1]);
    }
}

/* A layer's single row: the gradient by its weights is a product of two vectors. */
Test(absent, all_rows_but_one) {
    for (int d = 0; d < 2; d++)
        for (int rank = 1; rank < 4; rank++) {
            fill_slots();
            clattn_tensor x = cube(0, 1, 1, 3), d_y = cube(1, 1, 1, 2);
            for (int i = 0; i < 3; i++)
                slots[0][i] = (float)(i + 1);
            x = rank == 1 ? vec(0, 3) : rank == 2 ? mat(0, 1, 3) : x;
            d_y = rank == 1 ? vec(1, 2) : rank == 2 ? mat(1, 1, 2) : d_y;
            SUCCEEDS(clattn_linear_backward(contexts[d],
                                            &(clattn_linear_backward_args){.x = x, .d_y = d_y, .d_w = mat(2, 2, 3)}));
            for (int i = 0; i < 6; i++)
                expect_near("d_w", slots[2][i], 0.5 * (i % 3 + 1));
        }
}
