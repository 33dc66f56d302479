/* SPDX-License-Identifier: Apache-2.0 */
/* Ways of plans and of single operations on `cpu` that tests of one part pass by: judged by clattn_verify, or by
 * numbers that are known. */
#include "base/openmp.h"
#include "testing.h"
#include <clattn/clattn.h>
#include <math.h>
#include <stdlib.h>

enum { B = 2, H = 2, N = 4, D = 4, LONG = 1100, ROOM = B * H * LONG * D };
typedef struct {
    clattn_context *context;
    float q[B * H * N * D], k[ROOM], v[ROOM], o[B * H * N * D], lse[B * H * N], entropy[B * H * N], sums[B * H * LONG];
    float weights[B * H * N * N], state[B * H * N * 2], d_o[B * H * N * D], d_q[B * H * N * D];
    clattn_attention_args args;
} call;

static clattn_tensor tensor(const float *data, int64_t b, int64_t h, int64_t n, int64_t d) {
    return clattn_tensor_host(data, CLATTN_F32, 4, (const int64_t[]){b, h, n, d});
}

static clattn_tensor rows(const float *data, int64_t b, int64_t n) {
    return clattn_tensor_host(data, CLATTN_F32, 3, (const int64_t[]){b, H, n});
}

static call *start(int64_t b, int64_t m) {
    call *x = calloc(1, sizeof *x);
    cr_assert(x);
    SUCCEEDS(clattn_context_create("cpu", NULL, &x->context));
    for (int i = 0; i < ROOM; i++) {
        x->q[i % (B * H * N * D)] = (float)sin(i * 1.7);
        x->k[i] = (float)sin(i * 2.3 + 1);
        x->v[i] = (float)sin(i * 0.9 + 2);
    }
    x->args = (clattn_attention_args){.q = tensor(x->q, b, H, N, D),
                                      .k = tensor(x->k, b, H, m, D),
                                      .v = tensor(x->v, b, H, m, D),
                                      .o = tensor(x->o, b, H, N, D),
                                      .algorithm = "blas"};
    return x;
}

static void stop(call *x) {
    clattn_context_destroy(x->context);
    free(x);
}

/* Runs, and judges every row, and some. */
static void right(call *x, const char *what) {
    clattn_verification v;
    char text[300];
    SUCCEEDS(clattn_attention(x->context, &x->args));
    for (int some = 0; some < 2; some++) {
        SUCCEEDS(clattn_verify(&x->args, some ? 3 : CLATTN_ALL_ROWS, NULL, &v));
        cr_expect(v.ok, "%s: %s", what, clattn_verification_text(&v, text, sizeof text));
    }
}

/* More threads than tasks split the keys, fewer do not; all add up in one order where bits may not depend on sizes. */
Test(cpu_paths, blas_with_long_rows_and_any_number_of_threads) {
#ifdef _OPENMP
    omp_set_num_threads(7);
#endif
    static const int64_t lengths[] = {3, LONG};
    for (int turn = 0; turn < 8; turn++) {
        call *x = start(turn & 1 ? 2 : 1, LONG);
        if (turn & 2) {
            x->args.lse = rows(x->lse, turn & 1 ? 2 : 1, N);
            x->args.entropy = rows(x->entropy, turn & 1 ? 2 : 1, N);
            x->args.column_sums = rows(x->sums, turn & 1 ? 2 : 1, LONG);
            x->args.key_lengths = lengths;
            x->k[0] = 60; /* weights below the least float */
        }
        x->args.batch_invariant = turn & 4;
        x->args.q.stride[2] = turn & 1 ? 2 : D; /* rows that share numbers */
        right(x, turn & 4 ? "batch_invariant" : "plain");
        stop(x);
    }
}

Test(cpu_paths, blas_backward_with_more_threads_than_heads) {
    call *x = start(1, 40);
    float alone[B * H * N * D];
    clattn_attention_backward_args a = {
        .forward = x->args, .d_o = tensor(x->d_o, 1, H, N, D), .d_q = tensor(x->d_q, 1, H, N, D)};
    a.forward.state = tensor(x->state, 1, H, N, 2);
    for (int i = 0; i < B * H * N * D; i++)
        x->d_o[i] = (float)(i % 7) - 3;
    SUCCEEDS(clattn_attention(x->context, &a.forward));
    a.algorithm = "reference";
    SUCCEEDS(clattn_attention_backward(x->context, &a));
    memcpy(alone, x->d_q, sizeof alone);
    a.algorithm = "blas";
    a.forward.batch_invariant = true;
    FAILS(clattn_attention_backward(x->context, &a), CLATTN_E_UNSUPPORTED, "and batch_invariant forbids that");
    a.forward.batch_invariant = false;
#ifdef _OPENMP
    omp_set_num_threads(5);
#endif
    for (size_t bytes = 1 << 20; bytes > 1 << 12; bytes /= 2) { /* fewer threads and rows where scratch is short */
        a.forward.max_workspace = bytes;
        const clattn_status status = clattn_attention_backward(x->context, &a);
        cr_expect(status == CLATTN_OK || status == CLATTN_E_LIMIT, "%zu bytes: %s", bytes, clattn_last_error());
        for (int i = 0; i < H * N * D && status == CLATTN_OK; i++)
            cr_expect_float_eq(x->d_q[i], alone[i], 1e-5f, "%zu bytes: %g for %g", bytes, (double)x->d_q[i],
                               (double)alone[i]);
    }
    stop(x);
}

/* A plan for sequences whose keys lie in pages takes other tensors; a caller's workspace another. */
Test(cpu_paths, plans_of_sequences_in_pages_take_other_tensors) {
    call *x = start(1, N), *other = start(1, N);
    static const int64_t queries[] = {0, 1, 4}, lengths[] = {2, 4};
    static const int32_t table[] = {0, 0};
    clattn_plan *plan;
    x->args.sequences = 2, x->args.cu_queries = queries, x->args.key_lengths = lengths;
    x->args.block_table = table, x->args.table_pages = 1;
    x->args.lse = rows(x->lse, 1, N);
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    clattn_attention_args a = x->args;
    a.k.host = other->v;
    a.o.host = other->o;
    SUCCEEDS(clattn_plan_execute(plan, &a));
    clattn_verification v;
    SUCCEEDS(clattn_verify(&a, CLATTN_ALL_ROWS, NULL, &v));
    cr_expect(v.ok);
    clattn_plan_destroy(plan);
    stop(x);
    stop(other);
}

Test(cpu_paths, workspaces_one_after_another) {
    call *x = start(1, N);
    clattn_plan *plan;
    clattn_plan_info info;
    clattn_buffer *buffers[2];
    x->args.max_workspace = SIZE_MAX; /* more than there is: what there is */
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    for (int i = 0; i < 2; i++) {
        SUCCEEDS(clattn_buffer_create(x->context, info.workspace_bytes + 1, &buffers[i]));
        SUCCEEDS(clattn_plan_set_workspace(plan, buffers[i]));
        SUCCEEDS(clattn_plan_execute(plan, NULL));
    }
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffers[0]);
    clattn_buffer_destroy(buffers[1]);
    stop(x);
}

/* No key: O is 0, LSE -inf or the sink, and all of that is right. */
Test(cpu_paths, calls_without_keys_are_checked_too) {
    call *x = start(B, 0);
    static const int64_t zero[] = {0, 0};
    const int64_t heads[] = {H};
    float sinks[H] = {2, 3};
    x->args.self_check = 2;
    x->args.sinks = clattn_tensor_host(sinks, CLATTN_F32, 1, heads);
    right(x, "sinks without lse");
    x->args.lse = rows(x->lse, B, N);
    right(x, "sinks");
    cr_expect_eq(x->lse[0], 2);
    x->args.k.stride[2] = 0;
    x->args.column_sums = rows(x->sums, B, 0);
    right(x, "keys of stride 0");
    x->args.k.shape[2] = x->args.v.shape[2] = 4;
    x->args.column_sums = rows(x->sums, B, 4);
    x->args.k.stride[2] = D;
    x->args.key_lengths = zero;
    right(x, "lengths of 0");
    x->args.lse.host = NULL;
    FAILS(clattn_attention(x->context, &x->args), CLATTN_E_ARGUMENT, "lse: has neither a buffer nor a host array");
    stop(x);
}

/* Of weights of some rows or heads, or before the softmax, all rows are judged, and of fewer none. */
Test(cpu_paths, weights_of_every_kind_are_judged) {
    static const int64_t list[] = {1, 0};
    for (int kind = 0; kind < 5; kind++) {
        call *x = start(B, N);
        x->args.weights = tensor(x->weights, B, kind == 1 ? 1 : H, kind == 2 ? 2 : N, N);
        x->args.weights_mean = kind == 1;
        x->args.weights_queries = kind == 2 ? list : NULL;
        x->args.weights_query_count = kind == 2 ? 2 : 0;
        x->args.weights_heads = kind == 3 ? list : NULL;
        x->args.weights_head_count = kind == 3 ? 2 : 0;
        x->args.weights_form = kind == 4 ? CLATTN_WEIGHTS_MASKED : CLATTN_WEIGHTS_SOFTMAX;
        right(x, "weights");
        x->weights[1] += 1;
        clattn_verification v;
        SUCCEEDS(clattn_verify(&x->args, CLATTN_ALL_ROWS, NULL, &v));
        cr_expect_not(v.ok, "kind %d: a weight that is wrong", kind);
        stop(x);
    }
}

Test(cpu_paths, infinite_keys_and_values_are_judged) {
    call *x = start(1, N);
    x->args.lse = rows(x->lse, 1, N);
    x->k[2] = INFINITY;
    right(x, "a key");
    x->k[2] = 1;
    x->v[3] = INFINITY;
    right(x, "a value");
    for (int i = 0; i < N * D; i++)
        x->k[i] = i < D ? 500 * x->q[i] : -500 * x->q[i % D]; /* others' weights underflow in row 0 */
    x->v[3] = 1;
    x->v[D + 3] = INFINITY;
    right(x, "a value without weight");
    stop(x);
}

static int warnings;

static void count(void *user, const clattn_warning *warning) {
    (void)user;
    warnings += warning->kind == CLATTN_LINT_HIDES_ALL;
}

/* Masks of every shape that broadcasts: all hidden is told, one place that is seen is enough. */
Test(cpu_paths, lint_of_masks_of_every_shape) {
    static const int64_t shapes[][4] = {{1, 1, N, N}, {1, 1, N, 1}, {1, 1, 1, N},
                                        {1, 1, 1, 1}, {B, H, N, N}, {0, 0, 0, 0}};
    for (int i = 0; i < 6; i++)
        for (int drop = 0; drop < 2; drop++)
            for (int size = 0; size < 3; size++)
                for (int seen = 0; seen < 2; seen++) {
                    unsigned char mask[B * H * N * N];
                    int64_t shape[4];
                    call *x = start(B, N);
                    memcpy(shape, shapes[i], sizeof shape);
                    if (size == 1)
                        x->args.q.shape[2] = x->args.o.shape[2] = 1, shape[2] = shape[2] ? 1 : 0;
                    if (size == 2)
                        x->args.k.shape[2] = x->args.v.shape[2] = 1, shape[3] = shape[3] ? 1 : 0;
                    memset(mask, drop, sizeof mask);
                    mask[0] = (unsigned char)(drop ^ seen);
                    clattn_tensor *t = drop ? &x->args.drop : &x->args.keep;
                    *t = clattn_tensor_host(mask, CLATTN_BOOL, shape[0] ? 4 : 0, shape);
                    warnings = 0;
                    SUCCEEDS(clattn_lint(&x->args, count, NULL));
                    cr_expect_eq(warnings, !seen && shape[0] > 0, "shape %d, drop %d, size %d, seen %d", i, drop, size,
                                 seen);
                    stop(x);
                }
}

/* ---- gradients of operations at the ends ---- */

Test(cpu_paths, slopes_of_activations_far_out) {
    static const clattn_activation all[] = {CLATTN_ACTIVATION_NONE, CLATTN_ACTIVATION_RELU, CLATTN_ACTIVATION_GELU,
                                            CLATTN_ACTIVATION_GELU_TANH, CLATTN_ACTIVATION_SILU};
    const int64_t n = 4;
    clattn_context *cpu;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    for (int i = 0; i < 5; i++) {
        const double x[] = {-1000, 1000, -0.0, 0.5}, d_y[] = {2, 2, 2, 2}, half = i == 0 ? 2 : i == 1 ? 0 : 1;
        double d_x[4], y[4];
        const clattn_tensor tx = clattn_tensor_host(x, CLATTN_F64, 1, &n),
                            td = clattn_tensor_host(d_y, CLATTN_F64, 1, &n);
        const clattn_activate_backward_args a = {
            .x = tx, .d_y = td, .d_x = clattn_tensor_host(d_x, CLATTN_F64, 1, &n), .activation = all[i]};
        SUCCEEDS(clattn_activate_backward(cpu, &a));
        const clattn_activate_args forward = {
            .x = tx, .y = clattn_tensor_host(y, CLATTN_F64, 1, &n), .activation = all[i]};
        SUCCEEDS(clattn_activate(cpu, &forward));
        cr_expect_float_eq(d_x[0], i == 0 ? 2 : 0, 1e-12, "activation %d at -1000: %g", i, d_x[0]);
        cr_expect_float_eq(d_x[1], 2, 1e-12, "activation %d at 1000: %g", i, d_x[1]);
        cr_expect_float_eq(d_x[2], half, 1e-12, "activation %d at 0: %g", i, d_x[2]);
        cr_expect(d_x[3] > 1 && d_x[3] <= 2);
        cr_expect_eq(y[0], i == 0 ? -1000 : 0, "activation %d of -1000: %g", i, y[0]);
        cr_expect_eq(y[1], 1000);
    }
    clattn_context_destroy(cpu);
}

/* In a buffer an id that is none adds nothing, and a target that is none makes its row NaN. */
Test(cpu_paths, ids_and_targets_that_are_none_in_buffers) {
    const int32_t ids[] = {1, -1, 3, 2, 1};
    const float d_y[5] = {1, 2, 4, 8, 16};
    float table[3] = {0}, losses[5], logits[5 * 3] = {0}, loss = 0;
    clattn_context *cpu;
    clattn_buffer *buffer;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    SUCCEEDS(clattn_buffer_create(cpu, sizeof ids, &buffer));
    SUCCEEDS(clattn_buffer_upload(buffer, 0, ids, sizeof ids));
    const int64_t five[] = {5, 1}, three[] = {3, 1}, rows_of[] = {5, 3}, one[] = {1};
    clattn_embed_backward_args a = {.ids = clattn_tensor_buffer(buffer, CLATTN_I32, 1, five),
                                    .d_y = clattn_tensor_host(d_y, CLATTN_F32, 2, five),
                                    .d_table = clattn_tensor_host(table, CLATTN_F32, 2, three)};
    SUCCEEDS(clattn_embed_backward(cpu, &a));
    cr_expect(table[0] == 0 && table[1] == 17 && table[2] == 8);
    a.has_padding = true;
    a.padding = 1;
    SUCCEEDS(clattn_embed_backward(cpu, &a));
    cr_expect(table[0] == 0 && table[1] == 0 && table[2] == 8);
    clattn_cross_entropy_args c = {.logits = clattn_tensor_host(logits, CLATTN_F32, 2, rows_of),
                                   .targets = a.ids,
                                   .row_losses = clattn_tensor_host(losses, CLATTN_F32, 1, five),
                                   .has_ignore = true,
                                   .ignore = -1};
    SUCCEEDS(clattn_cross_entropy(cpu, &c));
    cr_expect_float_eq(losses[0], logf(3), 1e-6f);
    cr_expect_eq(losses[1], 0);
    cr_expect(isnan(losses[2]) && !isnan(losses[3]));
    c.has_ignore = false;
    c.loss = clattn_tensor_host(&loss, CLATTN_F32, 1, one);
    SUCCEEDS(clattn_cross_entropy(cpu, &c));
    cr_expect(isnan(losses[1]) && isnan(loss));
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(cpu);
}

/* Rows of no numbers have no gradient; d_x may be left out. */
Test(cpu_paths, norms_of_nothing_and_without_d_x) {
    float x[6] = {1, 2, 3, 4, 5, 6}, d_weight[3] = {7, 7, 7};
    const int64_t shape[] = {2, 3}, none[] = {2, 0}, three[] = {3};
    clattn_context *cpu;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    clattn_norm_backward_args a = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                   .d_y = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                   .d_weight = clattn_tensor_host(d_weight, CLATTN_F32, 1, three)};
    SUCCEEDS(clattn_norm_backward(cpu, &a));
    const double n = 1 / sqrt(2.0 / 3 + 1e-5); /* rows are -n, 0, n */
    cr_expect_float_eq(d_weight[0], -5 * n, 1e-5);
    cr_expect_float_eq(d_weight[1], 0, 1e-5);
    cr_expect_float_eq(d_weight[2], 9 * n, 1e-5);
    a = (clattn_norm_backward_args){.x = clattn_tensor_host(x, CLATTN_F32, 2, none),
                                    .d_y = clattn_tensor_host(x, CLATTN_F32, 2, none),
                                    .d_x = clattn_tensor_host(d_weight, CLATTN_F32, 2, none)};
    SUCCEEDS(clattn_norm_backward(cpu, &a));
    cr_expect_float_eq(d_weight[2], 9 * n, 1e-5);
    clattn_context_destroy(cpu);
}
