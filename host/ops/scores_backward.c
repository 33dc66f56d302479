/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/scores_backward.h"

#include "base/error.h"
#include "base/mem.h"
#include "ops/softmax.h"
#include "runtime/buffer.h"
#include "runtime/launch.h"

static clattn_status make(clattn_context *context, const cla_scores_key *k, const cla_scores *scores, const char *name,
                          cla_kernel **kernel) {
    cla_key key = cla_key_make("scores_backward.cl", name);
    key.helper = "scores.clh";
    cla_key_define(&key, "REAL", k->dtype == CLATTN_F64 ? 64 : 32);
    cla_key_define(&key, "WG", scores->work_group);
    cla_key_define(&key, "KEYS", CLA_SOFTMAX_KEYS);
    cla_key_define(&key, "MASKS", k->masks);
    cla_key_define_hint(&key, cla_context_device(context));
    return cla_kernel_create(context, &key, (size_t)scores->work_group, kernel);
}

clattn_status cla_scores_create(clattn_context *context, const cla_scores_key *key, cla_scores *scores) {
    clattn_status status = CLATTN_OK;
    *scores = (cla_scores){.work_group = cla_softmax_work_group(cla_context_device(context), key->keys)};
    CLA_TRY(make(context, key, scores, "scores_sums", &scores->sums));
    CLA_TRY(make(context, key, scores, "scores_gradients", &scores->gradients));
    CLA_TRY(make(context, key, scores, "scores_special", &scores->special));
    if (key->bias)
        CLA_TRY(make(context, key, scores, "scores_bias", &scores->bias));
    if (key->rest)
        CLA_TRY(make(context, key, scores, "scores_rest", &scores->rest));
done:
    if (status != CLATTN_OK)
        cla_scores_destroy(scores);
    return status;
}

void cla_scores_destroy(cla_scores *scores) {
    cla_kernel_destroy(scores->sums);
    cla_kernel_destroy(scores->gradients);
    cla_kernel_destroy(scores->bias);
    cla_kernel_destroy(scores->rest);
    cla_kernel_destroy(scores->special);
    *scores = (cla_scores){0};
}

/* The chunk, and what masks are made of, in one order; then up to MORE others. */
enum { SHARED = 8, MORE = 3 };
static clattn_status launch(clattn_context *context, cla_kernel *kernel, int64_t groups, const cla_scores_buffers *b,
                            const cla_arg *more, int count) {
    cla_arg args[SHARED + MORE] = {CLA_ARG_BUFFER(b->scratch),    CLA_ARG_BUFFER(b->spans),
                                   CLA_ARG_BUFFER(b->keep),       CLA_ARG_BUFFER(b->drop),
                                   CLA_ARG_BUFFER(b->bias),       CLA_ARG_BUFFER(b->slopes),
                                   CLA_ARG_BUFFER(b->q_segments), CLA_ARG_BUFFER(b->k_segments)};
    for (int i = 0; i < count; i++)
        args[SHARED + i] = more[i];
    return cla_launch(context, kernel, groups, args, SHARED + count);
}

static int64_t rows_of(const cla_scores_args *a) { return (int64_t)a->B * a->H * a->N; }

clattn_status cla_scores_sums(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *b,
                              const cla_scores_args *a) {
    const cla_arg more[] = {CLA_ARG_BUFFER(b->sinks), CLA_ARG_VALUE(*a)};
    return launch(context, scores->sums, rows_of(a), b, more, 2);
}

clattn_status cla_scores_gradients(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *b,
                                   const cla_scores_args *a) {
    const cla_arg more[] = {CLA_ARG_VALUE(*a)};
    return launch(context, scores->gradients, rows_of(a), b, more, 1);
}

static int64_t groups_of(const cla_scores *scores, const cla_scores_sum_args *to) {
    return cla_ceil_div((int64_t)to->batches * to->heads * to->rows * to->columns, scores->work_group);
}

clattn_status cla_scores_bias(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *b,
                              clattn_buffer *sums, const cla_scores_args *a, const cla_scores_sum_args *to) {
    const cla_arg more[] = {CLA_ARG_BUFFER(sums), CLA_ARG_VALUE(*a), CLA_ARG_VALUE(*to)};
    return launch(context, scores->bias, groups_of(scores, to), b, more, 3);
}

clattn_status cla_scores_rest(clattn_context *context, const cla_scores *scores, const cla_scores_buffers *b,
                              clattn_buffer *sums, const cla_scores_args *a, const cla_scores_sum_args *to) {
    const cla_arg args[] = {CLA_ARG_BUFFER(b->scratch), CLA_ARG_BUFFER(sums), CLA_ARG_VALUE(*a), CLA_ARG_VALUE(*to)};
    return cla_launch(context, scores->rest, groups_of(scores, to), args, 4);
}

clattn_status cla_scores_special(clattn_context *context, const cla_scores *scores, const clattn_buffer *scratch,
                                 const clattn_buffer *rows, clattn_buffer *y, const cla_special_args *a) {
    const int64_t elements = (int64_t)a->B * a->H * a->N * a->columns;
    const cla_arg args[] = {CLA_ARG_BUFFER(scratch), CLA_ARG_BUFFER(scratch), CLA_ARG_BUFFER(rows), CLA_ARG_BUFFER(y),
                            CLA_ARG_VALUE(*a)};
    return cla_launch(context, scores->special, cla_ceil_div(elements, scores->work_group), args, 5);
}
