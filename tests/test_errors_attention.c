/* SPDX-License-Identifier: Apache-2.0 */
/* What calls of attention, backward pass, merging and verification refuse, beside the tests of each: a line a case, on
 * `cpu`. */
#include "testing.h"
#include <clattn/clattn.h>
#include <clattn/tune.h>
#include <stdlib.h>

enum { B = 2, H = 4, HK = 2, N = 3, M = 5, D = 4, DV = 6, LARGE = INT32_MAX - 65536 };
#define TOO_LARGE (INT64_C(1) + LARGE)

typedef struct {
    clattn_context *context;
    float q[B * H * N * D], k[B * HK * M * D], v[B * HK * M * DV], o[B * H * N * DV], state[B * H * N * 2],
        lse[B * H * N];
    float d_o[B * H * N * DV], d_q[B * H * N * D], d_k[B * HK * M * D], d_v[B * HK * M * DV];
    float bias[H * N * M], d_bias[H * N * M], sinks[2 * H], d_sinks[H], weights[B * H * N * M], more[64];
    double exact[B * H * N * DV];
    clattn_attention_args args;
    clattn_attention_backward_args back;
} call;

static clattn_tensor tensor(const float *data, int64_t b, int64_t h, int64_t n, int64_t d) {
    return clattn_tensor_host(data, CLATTN_F32, 4, (const int64_t[]){b, h, n, d});
}

static clattn_tensor vector(const float *data, int64_t n) { return clattn_tensor_host(data, CLATTN_F32, 1, &n); }

/* A tensor as large as its shape says in no more memory than the one element. */
static clattn_tensor one_element(const float *data, int64_t b, int64_t h, int64_t n, int64_t d) {
    clattn_tensor t = tensor(data, b, h, n, d);
    for (int i = 0; i < 4; i++)
        t.stride[i] = 0;
    return t;
}

static call *start(void) {
    call *x = calloc(1, sizeof *x);
    cr_assert(x);
    SUCCEEDS(clattn_context_create("cpu", NULL, &x->context));
    x->args = (clattn_attention_args){.q = tensor(x->q, B, H, N, D),
                                      .k = tensor(x->k, B, HK, M, D),
                                      .v = tensor(x->v, B, HK, M, DV),
                                      .o = tensor(x->o, B, H, N, DV)};
    x->back = (clattn_attention_backward_args){.forward = x->args,
                                               .d_o = tensor(x->d_o, B, H, N, DV),
                                               .d_q = tensor(x->d_q, B, H, N, D),
                                               .d_k = tensor(x->d_k, B, HK, M, D),
                                               .d_v = tensor(x->d_v, B, HK, M, DV),
                                               .d_bias = tensor(x->d_bias, 1, H, N, M),
                                               .d_sinks = vector(x->d_sinks, H)};
    x->back.forward.state = tensor(x->state, B, H, N, 2);
    x->back.forward.bias = tensor(x->bias, 1, H, N, M);
    x->back.forward.sinks = vector(x->sinks, H);
    return x;
}

static void stop(call *x) {
    clattn_context_destroy(x->context);
    free(x);
}

/* `change` is of a, a copy of the valid arguments. */
#define REFUSED(change, code, part)                                                                                    \
    do {                                                                                                               \
        clattn_attention_args a = x->args;                                                                             \
        change;                                                                                                        \
        FAILS(clattn_attention(x->context, &a), code, part);                                                           \
    } while (0)
#define TAKEN(change)                                                                                                  \
    do {                                                                                                               \
        clattn_attention_args a = x->args;                                                                             \
        change;                                                                                                        \
        SUCCEEDS(clattn_attention(x->context, &a));                                                                    \
    } while (0)
#define BACK_REFUSED(change, code, part)                                                                               \
    do {                                                                                                               \
        clattn_attention_backward_args a = x->back;                                                                    \
        change;                                                                                                        \
        FAILS(clattn_attention_backward(x->context, &a), code, part);                                                  \
    } while (0)

Test(errors_attention, each_axis_of_o_is_that_of_q_or_v) {
    call *x = start();
    static const char *const texts[] = {"o [1, 4, 3, 6]: should be [2, 4, 3, 6]", "o [2, 3, 3, 6]: should be",
                                        "o [2, 4, 2, 6]: should be", "o [2, 4, 3, 5]: should be"};
    for (int axis = 0; axis < 4; axis++)
        REFUSED(a.o.shape[axis]--, CLATTN_E_SHAPE, texts[axis]);
    REFUSED(a.v.shape[0] = 1, CLATTN_E_SHAPE, "k, v: batch 2 and 1, but q has 2");
    REFUSED(a.v.shape[1] = 1, CLATTN_E_SHAPE, "and v [2, 1, 5, 6]: heads or keys differ");
    REFUSED(a.v.shape[2] = 4, CLATTN_E_SHAPE, "and v [2, 2, 4, 6]: heads or keys differ");
    stop(x);
}

Test(errors_attention, sizes_beyond_what_kernels_count_are_named) {
    call *x = start();
#define OF(b, h, hk, n, m, d, dv)                                                                                      \
    a.q = one_element(x->q, b, h, n, d), a.k = one_element(x->k, b, hk, m, d), a.v = one_element(x->v, b, hk, m, dv),  \
    a.o = one_element(x->o, b, h, n, dv)
    REFUSED(OF(1, 1, 1, TOO_LARGE, 1, 1, 1), CLATTN_E_SHAPE,
            "sizes above 2147418111 are not supported: N 2147418112, M 1");
    REFUSED(OF(1, 1, 1, 1, TOO_LARGE, 1, 1), CLATTN_E_SHAPE, "N 1, M 2147418112");
    REFUSED(OF(1, 1, 1, 1, 1, TOO_LARGE, 1), CLATTN_E_SHAPE, "D 2147418112, Dv 1");
    REFUSED(OF(1, 1, 1, 1, 1, 1, TOO_LARGE), CLATTN_E_SHAPE, "D 1, Dv 2147418112");
    REFUSED(OF(TOO_LARGE, 1, 1, 1, 1, 1, 1), CLATTN_E_SHAPE,
            "q: sizes above 2147418111 are not supported: B 2147418112");
    REFUSED(OF(1, TOO_LARGE, 1, 1, 1, 1, 1), CLATTN_E_SHAPE, "B 1, H 2147418112");
#undef OF
    stop(x);
}

Test(errors_attention, outputs_have_the_rank_and_shape_that_they_should) {
    call *x = start();
    const int64_t five[5] = {1, B, H, N, M}, none[1] = {0}, list[2] = {0, 2};
    REFUSED(a.weights = clattn_tensor_host(x->weights, CLATTN_F32, 5, five), CLATTN_E_SHAPE,
            "weights [1, 2, 4, 3, 5]: should be [2, 4, 3, 5]");
    REFUSED(a.weights = vector(x->weights, M), CLATTN_E_SHAPE, "weights [5]: should be");
    REFUSED(a.lse = clattn_tensor_host(x->lse, CLATTN_F32, 5, five), CLATTN_E_SHAPE,
            "lse [1, 2, 4, 3, 5]: should be [2, 4, 3]");
    REFUSED(a.lse = vector(x->lse, N), CLATTN_E_SHAPE, "lse [3]: should be [2, 4, 3]");
    REFUSED(a.lse.rank = -1, CLATTN_E_SHAPE, "lse: rank -1");
    REFUSED(a.entropy = vector(x->lse, N), CLATTN_E_SHAPE, "entropy [3]: should be");
    REFUSED(a.column_sums = vector(x->lse, N), CLATTN_E_SHAPE, "column_sums [3]: should be [2, 4, 5]");
    REFUSED(a.state = tensor(x->state, B, H, N, 1), CLATTN_E_SHAPE, "state [2, 4, 3, 1]: should be [2, 4, 3, 2]");
    REFUSED((a.state = tensor(x->weights, B, H, N, 2), a.state.stride[3] = 2, a.state.stride[2] = 4), CLATTN_E_SHAPE,
            "state: ");
    REFUSED(a.weights_form = CLATTN_WEIGHTS_SCALED, CLATTN_E_ARGUMENT, "weights: are missing, and weights_form");
    REFUSED(a.weights_mean = true, CLATTN_E_ARGUMENT, "weights: are missing");
    REFUSED((a.weights_queries = list, a.weights_query_count = 2), CLATTN_E_ARGUMENT, "weights: are missing");
    REFUSED((a.weights_heads = list, a.weights_head_count = 2), CLATTN_E_ARGUMENT, "weights: are missing");
    REFUSED((a.weights = tensor(x->weights, B, 1, N, M), a.weights_mean = true, a.weights_heads = none),
            CLATTN_E_ARGUMENT, "weights_heads: lists no head, and weights_mean needs one");
    REFUSED((a.weights = tensor(x->weights, B, H, N, M), a.weights_queries = list, a.weights_query_count = -1),
            CLATTN_E_ARGUMENT, "weights_queries: a count of -1 is negative");
    TAKEN((a.q.shape[1] = a.o.shape[1] = 0, a.weights = tensor(x->weights, B, 1, N, M), a.weights_mean = true));
    stop(x);
}

Test(errors_attention, sinks_lie_one_after_another_where_there_are_several) {
    call *x = start();
    REFUSED((a.sinks = vector(x->sinks, H), a.sinks.stride[0] = 2), CLATTN_E_SHAPE, "sinks: have stride 2");
    REFUSED(a.sinks = tensor(x->sinks, 1, 1, 1, H), CLATTN_E_SHAPE, "sinks [1, 1, 1, 4]: should be [4]");
    TAKEN((a.q.shape[1] = a.k.shape[1] = a.v.shape[1] = a.o.shape[1] = 1, a.sinks = vector(x->sinks, 1),
           a.sinks.stride[0] = 2));
    stop(x);
}

/* Sequences: B 2 of them in tensors of batch 1. */
Test(errors_attention, sequences_and_pages_are_checked) {
    call *x = start();
    const int64_t queries[] = {0, 1, 3}, keys[] = {0, 1, 5}, same[] = {0, 1, 3}, lengths[] = {1, 1}, far[] = {1};
    const int32_t table[] = {0, 0, 0, 0};
    x->args.q = tensor(x->q, 1, H, N, D), x->args.k = tensor(x->k, 1, HK, M, D);
    x->args.v = tensor(x->v, 1, HK, M, DV), x->args.o = tensor(x->o, 1, H, N, DV);
    x->args.sequences = 2, x->args.cu_queries = queries, x->args.cu_keys = keys;
    TAKEN((void)a);
    REFUSED(a.weights = tensor(x->weights, 1, H, N, M), CLATTN_E_UNSUPPORTED, "sequences: cannot be combined");
    REFUSED(a.keep = tensor(x->weights, 1, 1, N, M), CLATTN_E_UNSUPPORTED, "sequences: cannot be combined");
    REFUSED(a.drop = tensor(x->weights, 1, 1, N, M), CLATTN_E_UNSUPPORTED, "sequences: cannot be combined");
    REFUSED(a.bias = tensor(x->weights, 1, 1, N, M), CLATTN_E_UNSUPPORTED, "sequences: cannot be combined");
    REFUSED(a.sequences = LARGE + INT64_C(1), CLATTN_E_SHAPE, "sequences: 2147418112; more than 2147418111");
    REFUSED(a.causal = true, CLATTN_E_ARGUMENT, "align: causal with 2 queries and 4 keys needs an alignment");
    TAKEN((a.causal = true, a.cu_keys = same)); /* the same lengths: top-left and bottom-right agree */
    TAKEN(a.column_sums = clattn_tensor_host(x->weights, CLATTN_F32, 3, (const int64_t[]){1, H, M}));
    x->args.cu_keys = NULL, x->args.key_lengths = lengths, x->args.block_table = table, x->args.table_pages = 1;
    TAKEN((void)a);
    REFUSED(a.column_sums = clattn_tensor_host(x->weights, CLATTN_F32, 3, (const int64_t[]){1, H, M}),
            CLATTN_E_UNSUPPORTED, "column_sums: of sequences whose keys lie in pages");
    x->args.sequences = 0, x->args.cu_queries = NULL, x->args.key_lengths = far;
    TAKEN((void)a);
    REFUSED((a.k = one_element(x->k, 2, HK, M, D)), CLATTN_E_SHAPE, "k, v: 2 and 1 pages; both have the same");
    REFUSED((a.k = one_element(x->k, INT64_C(1) << 31, HK, M, D), a.v = one_element(x->v, INT64_C(1) << 31, HK, M, DV)),
            CLATTN_E_SHAPE, "k, v: 2147483648 and 2147483648 pages");
    REFUSED(a.table_pages = INT64_MAX, CLATTN_E_SHAPE, "block_table: 9223372036854775807 pages of 5 keys are too many");
    REFUSED(a.table_pages = -1, CLATTN_E_ARGUMENT, "table_pages: -1 is negative");
    stop(x);
}

Test(errors_attention, offsets_and_windows_far_away) {
    call *x = start();
    const int64_t far = INT64_C(1) << 31;
    const float slopes[H] = {1, 1, 1, 1};
    static const struct {
        int64_t offset, left, right;
        bool alibi;
        const char *part; /* NULL: it is taken */
    } table[] = {{0, 0, 0, false, NULL},
                 {1, INT32_MAX, INT32_MAX, true, NULL},
                 {1, CLATTN_UNLIMITED, INT32_MAX, false, NULL},
                 {INT64_C(1) << 31, 2, 2, false, NULL},
                 {INT64_C(1) << 31, CLATTN_UNLIMITED, 2, false, NULL},
                 {-(INT64_C(1) << 31), 2, CLATTN_UNLIMITED, false, NULL},
                 {INT64_C(1) << 31, INT32_MAX, 2, false, "a side of the window is 2147483647; beyond"},
                 {-(INT64_C(1) << 31), 2, INT32_MAX, false, "batch 0 has -2147483648, and a side of the window"},
                 {INT64_C(1) << 31, 2, 2, true, "with ALiBi they go from"},
                 {-(INT64_C(1) << 31), 2, 2, true, "with ALiBi they go from"},
                 {0, -1, 2, false, "window: -1,2; a side is 0 or more"},
                 {0, 2, -1, false, "window: 2,-1; a side is 0 or more"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const int64_t offsets[B] = {table[i].offset, 0};
        clattn_attention_args a = x->args;
        a.align = CLATTN_ALIGN_OFFSET;
        a.offsets = offsets;
        a.has_window = true;
        a.window_left = table[i].left;
        a.window_right = table[i].right;
        a.alibi_slopes = table[i].alibi ? slopes : NULL;
        if (table[i].part)
            FAILS(clattn_attention(x->context, &a), CLATTN_E_ARGUMENT, table[i].part);
        else
            SUCCEEDS(clattn_attention(x->context, &a));
    }
    const int64_t offsets[B] = {far, -far};
    TAKEN((a.align = CLATTN_ALIGN_OFFSET, a.offsets = offsets, a.causal = true));
    stop(x);
}

Test(errors_attention, of_the_backward_pass) {
    call *x = start();
    const int64_t five[5] = {1, B, H, N, 2}, heads[1] = {H};
    SUCCEEDS(clattn_attention(x->context, &x->back.forward));
    SUCCEEDS(clattn_attention_backward(x->context, &x->back));
    BACK_REFUSED(a.forward.state.rank = 9, CLATTN_E_SHAPE, "state: rank 9");
    BACK_REFUSED(a.forward.state = clattn_tensor_host(x->state, CLATTN_F32, 5, five), CLATTN_E_SHAPE,
                 "state [1, 2, 4, 3, 2]: should be [2, 4, 3, 2]");
    BACK_REFUSED(a.forward.state = vector(x->state, 2), CLATTN_E_SHAPE, "state [2]: should be");
    BACK_REFUSED(a.d_o.rank = 9, CLATTN_E_SHAPE, "d_o: rank 9");
    BACK_REFUSED(a.d_q.dtype = (clattn_dtype)31, CLATTN_E_DTYPE, "d_q: 31 is no dtype");
    BACK_REFUSED(a.d_q.host = NULL, CLATTN_E_ARGUMENT, "d_q: has neither a buffer nor a host array");
    BACK_REFUSED((a.d_sinks = clattn_tensor_host(x->weights, CLATTN_F32, 1, heads), a.d_sinks.stride[0] = 2),
                 CLATTN_E_DTYPE, "d_sinks: is f32 with stride 2; it should be f32, one after another");
    BACK_REFUSED((a.d_sinks.dtype = CLATTN_F64, a.d_sinks.host = x->exact), CLATTN_E_DTYPE, "d_sinks: is f64");
    BACK_REFUSED(a.algorithm = "none_such", CLATTN_E_ARGUMENT, "none_such");
    stop(x);
}

/* Sizes of 1 take any stride, and short masks a column of their own. */
Test(errors_attention, gradients_of_one_head_and_of_short_masks) {
    call *x = start();
    const int64_t one[1] = {1};
    clattn_attention_backward_args a = x->back;
    a.forward.q.shape[1] = a.forward.k.shape[1] = a.forward.v.shape[1] = a.forward.o.shape[1] = 1;
    a.forward.state.shape[1] = a.d_o.shape[1] = a.d_q.shape[1] = a.d_k.shape[1] = a.d_v.shape[1] = 1;
    a.forward.bias = tensor(x->bias, 1, 1, N, 1), a.d_bias = tensor(x->d_bias, 1, 1, N, 1);
    a.forward.sinks = clattn_tensor_host(x->sinks, CLATTN_F32, 1, one);
    a.d_sinks = clattn_tensor_host(x->d_sinks, CLATTN_F32, 1, one);
    a.d_sinks.stride[0] = 2;
    x->sinks[0] = -1000; /* its weight is 0 */
    for (int is_short = 0; is_short < 2; is_short++) {
        a.forward.short_masks = is_short;
        x->d_q[0] = x->d_bias[0] = 77;
        for (int i = 0; i < B * H * N * DV; i++)
            x->d_o[i] = (float)(i % 7), x->v[i % (B * HK * M * DV)] = (float)(i % 5);
        SUCCEEDS(clattn_attention(x->context, &a.forward));
        SUCCEEDS(clattn_attention_backward(x->context, &a));
        cr_expect_neq(x->d_bias[0], 77);
        if (is_short) /* one key is seen, so its weight is 1 whatever its score */
            cr_expect_eq(x->d_bias[0], 0);
    }
    stop(x);
}

Test(errors_attention, null_where_something_is_needed) {
    call *x = start();
    clattn_plan *plan = NULL, *back = NULL;
    clattn_plan_info info;
    clattn_verification v;
    const char *reason;
    char text[8] = "before";
    bool applies;
    size_t count;
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    SUCCEEDS(clattn_backward_plan_create(x->context, &x->back, &back));
    FAILS(clattn_plan_set_workspace(plan, NULL), CLATTN_E_ARGUMENT, "plan_set_workspace: workspace is NULL");
    FAILS(clattn_plan_info_get(plan, NULL), CLATTN_E_ARGUMENT, "plan_info_get: info is NULL");
    FAILS(clattn_plan_info_get(NULL, &info), CLATTN_E_ARGUMENT, "plan_info_get: plan is NULL");
    FAILS(clattn_plan_execute(back, &x->args), CLATTN_E_ARGUMENT,
          "one of the backward pass; use clattn_backward_plan_execute");
    FAILS(clattn_backward_plan_execute(plan, &x->back), CLATTN_E_ARGUMENT,
          "one of the forward pass; use clattn_plan_execute");
    FAILS(clattn_backward_plan_execute(NULL, &x->back), CLATTN_E_ARGUMENT, "backward_plan_execute: plan is NULL");
    FAILS(clattn_backward_plan_create(x->context, &x->back, NULL), CLATTN_E_ARGUMENT, "plan is NULL");
    cr_expect_str_eq(clattn_plan_variant_key(NULL), "");
    cr_expect_str_eq(clattn_plan_variant_key(plan), ""); /* algorithms of `cpu` have one way */
    cr_expect_str_eq(clattn_plan_algorithm_key(NULL), "");
    cr_expect_null(clattn_plan_variant(NULL, 0));
    cr_expect_null(clattn_plan_variant(plan, 0));
    FAILS(clattn_algorithm_applies(NULL, &x->args, 0, &applies, &reason), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_algorithm_applies(x->context, NULL, 0, &applies, &reason), CLATTN_E_ARGUMENT, "an argument is NULL");
    FAILS(clattn_backward_algorithm_applies(NULL, &x->back, 0, &applies, &reason), CLATTN_E_ARGUMENT,
          "an argument is NULL");
    FAILS(clattn_backward_algorithm_applies(x->context, NULL, 0, &applies, &reason), CLATTN_E_ARGUMENT, "is NULL");
    FAILS(clattn_backward_algorithm_applies(x->context, &x->back, 0, NULL, NULL), CLATTN_E_ARGUMENT, "is NULL");
    FAILS(clattn_backward_algorithm_applies(x->context, &x->back, 99, &applies, NULL), CLATTN_E_ARGUMENT,
          "no algorithm 99");
    x->back.d_o.rank = 0;
    FAILS(clattn_backward_algorithm_applies(x->context, &x->back, 0, &applies, NULL), CLATTN_E_ARGUMENT,
          "d_o: is missing");
    FAILS(clattn_verify(NULL, 1, NULL, &v), CLATTN_E_ARGUMENT, "verify: args is NULL");
    FAILS(clattn_verify(&x->args, 1, NULL, NULL), CLATTN_E_ARGUMENT, "verify: result is NULL");
    cr_expect_str_eq(clattn_verification_text(NULL, text, sizeof text), "");
    text[0] = 'x';
    SUCCEEDS(clattn_attention(x->context, &x->args));
    SUCCEEDS(clattn_verify(&x->args, 1, NULL, &v));
    cr_expect_eq(clattn_verification_text(&v, text, 0)[0], 'x');
    FAILS(clattn_devices(NULL, 0, NULL), CLATTN_E_ARGUMENT, "devices: count");
    FAILS(clattn_devices(NULL, 1, &count), CLATTN_E_ARGUMENT, "devices: count, or devices, is NULL");
    clattn_plan_destroy(plan);
    clattn_plan_destroy(back);
    stop(x);
}

/* An empty text is none. */
Test(errors_attention, empty_names_choose_as_none_do) {
    call *x = start();
    clattn_plan *plan;
    x->args.algorithm = x->args.variant = "";
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    clattn_plan_destroy(plan);
    x->args.algorithm = "reference";
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    clattn_plan_destroy(plan);
    x->args.variant = "splits=4";
    FAILS(clattn_plan_create(x->context, &x->args, &plan), CLATTN_E_ARGUMENT,
          "reference has none such, and one way only");
    x->args.algorithm = "";
    FAILS(clattn_plan_create(x->context, &x->args, &plan), CLATTN_E_ARGUMENT, "so name the algorithm too");
    cr_expect_null(plan);
    stop(x);
}

/* Other tensors for a plan: of the wrong context, with the plan's own lists of rows, and of the wrong pass. */
Test(errors_attention, tensors_bound_later) {
    call *x = start();
    clattn_plan *plan;
    clattn_context *other;
    clattn_buffer *buffer;
    const int64_t list[2] = {2, 0};
    SUCCEEDS(clattn_context_create("cpu", NULL, &other));
    SUCCEEDS(clattn_buffer_create(other, sizeof x->q, &buffer));
    SUCCEEDS(clattn_plan_create(x->context, &x->args, &plan));
    clattn_attention_args a = x->args;
    a.q.host = NULL;
    a.q.buffer = buffer;
    FAILS(clattn_plan_execute(plan, &a), CLATTN_E_ARGUMENT, "q: its buffer belongs to another context than the plan");
    a = x->args;
    a.q.shape[3] = 0;
    FAILS(clattn_plan_execute(plan, &a), CLATTN_E_SHAPE, "");
    clattn_plan_destroy(plan);
    a = x->args;
    a.weights = tensor(x->weights, B, 1, N, M);
    a.weights_mean = true;
    a.weights_heads = list;
    a.weights_head_count = 2;
    SUCCEEDS(clattn_plan_create(x->context, &a, &plan));
    x->weights[0] = 7;
    SUCCEEDS(clattn_plan_execute(plan, &a));
    cr_expect_float_eq(x->weights[0], 1.0f / M, 1e-6f);
    clattn_plan_destroy(plan);
    a.weights = tensor(x->weights, B, 2, N, M);
    a.weights_mean = false;
    SUCCEEDS(clattn_plan_create(x->context, &a, &plan));
    SUCCEEDS(clattn_plan_execute(plan, &a));
    FAILS(clattn_plan_execute(plan, &x->args), CLATTN_E_SHAPE, "weights: has another type, shape or strides");
    clattn_plan_destroy(plan);
    SUCCEEDS(clattn_backward_plan_create(x->context, &x->back, &plan));
    clattn_attention_backward_args b = x->back;
    b.d_o.rank = 0;
    FAILS(clattn_backward_plan_execute(plan, &b), CLATTN_E_ARGUMENT, "d_o: is missing");
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(other);
    stop(x);
}

Test(errors_attention, of_merging) {
    call *x = start();
    const int64_t rows[3] = {B, H, N};
    clattn_partial part = {tensor(x->v, B, H, N, 2), clattn_tensor_host(x->sinks, CLATTN_F32, 3, rows)};
    part.lse.host = x->state;
    const clattn_merge_args fine = {.parts = &part,
                                    .count = 1,
                                    .o = tensor(x->q, B, H, N, 2),
                                    .lse = clattn_tensor_host(x->lse, CLATTN_F32, 3, rows)};
    const clattn_partial good = part;
    SUCCEEDS(clattn_merge(x->context, &fine));
#define MERGE_REFUSED(change, code, text)                                                                              \
    do {                                                                                                               \
        clattn_merge_args a = fine;                                                                                    \
        change;                                                                                                        \
        FAILS(clattn_merge(x->context, &a), code, text);                                                               \
        part = good;                                                                                                   \
    } while (0)
    MERGE_REFUSED(a.lse = tensor(x->lse, 2, 1, H, N), CLATTN_E_SHAPE, "lse [2, 1, 4, 3]: does not go with o");
    MERGE_REFUSED(a.lse.shape[2] = 2, CLATTN_E_SHAPE, "lse ");
    MERGE_REFUSED((a.lse.dtype = CLATTN_F64, a.lse.host = x->exact), CLATTN_E_DTYPE,
                  "lse: is f64, but the sums here are f32");
    MERGE_REFUSED(a.lse.host = x->q, CLATTN_E_ARGUMENT, "shares memory with");
    MERGE_REFUSED(part.o.rank = 9, CLATTN_E_SHAPE, "parts[0].o");
    MERGE_REFUSED(part.lse.host = x->lse + 1, CLATTN_E_ARGUMENT, "shares memory with");
    MERGE_REFUSED(part.o.host = x->lse, CLATTN_E_ARGUMENT, "shares memory with");
    MERGE_REFUSED(a.count = -1, CLATTN_E_ARGUMENT, "merge: -1 parts");
#undef MERGE_REFUSED
    stop(x);
}

Test(errors_attention, exact_results_that_verify_cannot_write) {
    call *x = start();
    clattn_verification v;
    clattn_buffer *buffer;
    const int64_t five[5] = {1, B, H, N, DV};
    SUCCEEDS(clattn_buffer_create(x->context, sizeof x->exact, &buffer));
    SUCCEEDS(clattn_attention(x->context, &x->args));
    clattn_tensor exact[CLATTN_VERDICTS] = {clattn_tensor_host(x->exact, CLATTN_F64, 5, five)};
    FAILS(clattn_verify(&x->args, CLATTN_ALL_ROWS, exact, &v), CLATTN_E_SHAPE, "exact o [1, 2, 4, 3, 6]: it is dense");
    exact[0] = clattn_tensor_buffer(buffer, CLATTN_F64, 4, five + 1);
    FAILS(clattn_verify(&x->args, CLATTN_ALL_ROWS, exact, &v), CLATTN_E_ARGUMENT, "exact o: is no host array");
    exact[0] = clattn_tensor_host(x->exact, CLATTN_F64, 4, five + 1);
    SUCCEEDS(clattn_verify(&x->args, CLATTN_ALL_ROWS, exact, &v));
    cr_expect(v.ok);
    x->args.q.shape[2] = x->args.o.shape[2] = 0; /* nothing to write */
    exact[0] = clattn_tensor_host(NULL, CLATTN_F64, 4, x->args.o.shape);
    SUCCEEDS(clattn_verify(&x->args, CLATTN_ALL_ROWS, exact, &v));
    cr_expect_eq(v.rows, 0);
    clattn_buffer_destroy(buffer);
    stop(x);
}
