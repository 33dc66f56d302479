/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors of no elements whose other axes are as long as axes may be: no call counts, or takes memory for, rows of
 * nothing. */
#include "op_arrays.h"
#include <clattn/train.h>

enum { LONGEST = INT32_MAX - 65536 };

/* [LONGEST, LONGEST, LONGEST, 0] of a rank, without storage. */
static clattn_tensor none(clattn_dtype dtype, int rank) {
    const int64_t shape[] = {LONGEST, LONGEST, LONGEST, 0};
    return clattn_tensor_host(NULL, dtype, rank, shape + 4 - rank);
}

/* [LONGEST, 2^20], all of them one number. */
static clattn_tensor same_number(int64_t *number) {
    clattn_tensor t = clattn_tensor_host(number, CLATTN_I64, 2, (const int64_t[]){LONGEST, 1 << 20});
    t.stride[0] = t.stride[1] = 0;
    return t;
}

static void run_all(clattn_context *context) {
    int64_t id = 0;
    const int64_t heads[] = {1, 0, LONGEST, 4}, rows[] = {LONGEST, 0, 0}, table[] = {3, 0}, lengths[] = {0};
    const int64_t flat[] = {LONGEST, LONGEST, LONGEST, 0, 2}, two[] = {2};
    const int64_t embedded[] = {LONGEST, 1 << 20, 0};
    const clattn_tensor ids = same_number(&id), of_ids = clattn_tensor_host(NULL, CLATTN_F32, 3, embedded);
    const clattn_tensor x = none(CLATTN_F32, 4), empty = clattn_tensor_host(NULL, CLATTN_F32, 4, heads);
    const clattn_tensor of_table = clattn_tensor_host(NULL, CLATTN_F32, 2, table);
    SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.x = x, .y = x}));
    SUCCEEDS(clattn_norm_backward(context, &(clattn_norm_backward_args){.x = x, .d_y = x, .d_x = x}));
    SUCCEEDS(clattn_softmax(context, &(clattn_softmax_args){.x = x, .y = x}));
    SUCCEEDS(clattn_activate(context, &(clattn_activate_args){.x = x, .y = x}));
    SUCCEEDS(clattn_random(context, &(clattn_random_args){.y = x}));
    SUCCEEDS(clattn_embed(context, &(clattn_embed_args){.table = of_table, .ids = ids, .y = of_ids}));
    SUCCEEDS(clattn_pool(
        context, &(clattn_pool_args){.x = clattn_tensor_host(NULL, CLATTN_F32, 3, rows), .y = none(CLATTN_F32, 2)}));
    SUCCEEDS(clattn_rotary(context, &(clattn_rotary_args){.x = empty, .y = empty}));
    SUCCEEDS(clattn_cache_append(
        context, &(clattn_cache_append_args){.k = empty, .k_cache = empty, .cache_lengths = lengths, .rotate = true}));
    float sums[2] = {5, 5};
    SUCCEEDS(clattn_sum(context, &(clattn_sum_args){.x = clattn_tensor_host(NULL, CLATTN_F32, 5, flat),
                                                    .y = clattn_tensor_host(sums, CLATTN_F32, 1, two)}));
    cr_expect(sums[0] == 0 && sums[1] == 0, "sums of nothing are %g and %g", (double)sums[0], (double)sums[1]);
}

Test(empty, other_axes_cost_neither_time_nor_memory) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        run_all(context);
        clattn_context_destroy(context);
    }
}

/* Rows of no classes, all of them ignored. */
Test(empty, more_rows_than_are_counted_are_an_error) {
    int64_t id = 7;
    float loss;
    const int64_t one[] = {1};
    const int64_t logits[] = {LONGEST, 1 << 20, 0};
    clattn_context *cpu = op_open("cpu");
    FAILS(clattn_cross_entropy(cpu,
                               &(clattn_cross_entropy_args){.logits = clattn_tensor_host(NULL, CLATTN_F32, 3, logits),
                                                            .targets = same_number(&id),
                                                            .loss = clattn_tensor_host(&loss, CLATTN_F32, 1, one),
                                                            .has_ignore = true,
                                                            .ignore = 7}),
          CLATTN_E_LIMIT, "rows");
    clattn_context_destroy(cpu);
}
