/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of very many numbers: how exact, in which order, and of nothing. */
#include "op_arrays.h"
#include <clattn/train.h>
#include <omp.h>

#define F32 CLATTN_F32

/* A plain chain of so many f32 sums, which a block of rows would be, is off by 1e-4. */
Test(sums, long_columns_are_added_in_parts) {
    enum { ROWS = 1 << 22, COLUMNS = 3 };
    const int64_t shape[] = {ROWS, COLUMNS}, one[] = {COLUMNS};
    const float row[COLUMNS] = {0.1F, 0.3F, 0.7F};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        float y[COLUMNS];
        clattn_tensor x = clattn_tensor_host(row, F32, 2, shape);
        x.stride[0] = 0; /* one row, all the time */
        SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = x, .y = clattn_tensor_host(y, F32, 1, one)}));
        for (int i = 0; i < COLUMNS; i++) {
            const double want = (double)row[i] * ROWS;
            cr_expect_float_eq((double)y[i], want, 20 * oracle_floor(F32, want), "%s: %.9g, not %.9g", op_devices[d],
                               (double)y[i], want);
        }
        clattn_context_destroy(context);
    }
}

/* Whatever the strides of a result without elements are, nothing is written. */
Test(sums, results_without_elements_are_left_alone) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        float guard[] = {5, 5};
        const int64_t none[] = {0}, rows[] = {3, 0}, n[] = {2}, x_shape[] = {0, 2};
        clattn_tensor y = clattn_tensor_host(guard, F32, 1, none);
        y.stride[0] = 0;
        SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = clattn_tensor_host(NULL, F32, 1, none), .y = y}));
        SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = clattn_tensor_host(NULL, F32, 2, rows), .y = y}));
        SUCCEEDS(
            clattn_norm_backward(context, &(clattn_norm_backward_args){.x = clattn_tensor_host(NULL, F32, 2, rows),
                                                                       .d_y = clattn_tensor_host(NULL, F32, 2, rows),
                                                                       .d_weight = y}));
        cr_expect(guard[0] == 5.0F && guard[1] == 5.0F, "%s: was written", op_devices[d]);
        SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = clattn_tensor_host(NULL, F32, 2, x_shape),
                                                        .y = clattn_tensor_host(guard, F32, 1, n)}));
        cr_expect(guard[0] == 0.0F && guard[1] == 0.0F, "%s: a sum of no rows is 0", op_devices[d]);
        clattn_context_destroy(context);
    }
}

static double norm_by(int threads, const clattn_tensor *x) {
    const int64_t one[] = {1};
    double norm = NAN;
    clattn_context *context = op_open("cpu");
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    SUCCEEDS(clattn_gradient_norm(
        context, &(clattn_gradient_norm_args){
                     .gradients = x, .count = 1, .norm = clattn_tensor_host(&norm, CLATTN_F64, 1, one)}));
    omp_set_num_threads(before);
    clattn_context_destroy(context);
    return norm;
}

/* Rows that no part holds whole, whose lengths no part is a multiple of, and fewer elements than parts. */
Test(sums, the_norm_of_gradients_has_the_same_bits_for_any_number_of_threads) {
    static const int64_t shapes[][2] = {{3, 70001}, {7001, 37}, {5, 17}, {70000, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        oracle_random random = {7};
        long double sum = 0;
        op_array x = op_make(NULL, F32, 2, shapes[i], OP_PADDED, NULL, &random);
        for (int64_t k = 0; k < x.count; k++)
            sum += (long double)x.values[k] * (long double)x.values[k];
        const double want = (double)sqrtl(sum), one = norm_by(1, &x.t);
        cr_expect_float_eq(one, want, oracle_floor(CLATTN_F64, 1e2 * want), "%.17g, not %.17g", one, want);
        for (int threads = 2; threads <= 5; threads++)
            cr_expect_eq(norm_by(threads, &x.t), one, "%d threads", threads);
        op_free(&x);
    }
}

/* Views of one element have more elements than there are bytes: what would take scratch for each is refused. */
Test(sums, scratch_beyond_all_memory_is_a_named_error) {
    static const char *const on[] = {"opencl", "cpu"};
    for (int d = 0; d < 2; d++) {
        clattn_context *context = op_open(on[d]);
        const int64_t shape[] = {(int64_t)1 << 30, (int64_t)1 << 30, 2}, one[] = {1};
        double d_weight;
        clattn_buffer *buffer = NULL;
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        SUCCEEDS(clattn_buffer_create(context, 64, &buffer));
        clattn_tensor x = clattn_tensor_buffer(buffer, CLATTN_BF16, 3, shape);
        clattn_tensor ids = clattn_tensor_buffer(buffer, CLATTN_I32, 2, shape);
        for (int i = 0; i < 3; i++)
            x.stride[i] = ids.stride[i] = 0;
        const clattn_norm_backward_args norm = {
            .x = x, .d_y = x, .d_weight = clattn_tensor_host(&d_weight, CLATTN_F64, 1, one)};
        if (info.has_f64)
            FAILS(clattn_norm_backward(context, &norm), CLATTN_E_LIMIT, "more than memory can be");
        const clattn_tensor loss = clattn_tensor_host(&d_weight, CLATTN_F32, 1, one);
        const clattn_status status =
            clattn_cross_entropy(context, &(clattn_cross_entropy_args){.logits = x, .targets = ids, .loss = loss});
        cr_expect(status == CLATTN_E_LIMIT || status == CLATTN_E_MEMORY, "%s: %d", on[d], (int)status);
        clattn_buffer_destroy(buffer);
        clattn_context_destroy(context);
    }
}
