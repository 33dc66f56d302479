/* SPDX-License-Identifier: Apache-2.0 */
/* The backward pass beside its grid: errors, sizes of 0, plans, and what the forward pass saves for it. */
#include "each_runner.h"
#include "oracle_internal.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

/* ---- a call with everything in it, on `cpu` ---- */

enum { B = 2, H = 4, HK = 2, N = 3, M = 5, D = 4, DV = 6 };
typedef struct {
    clattn_context *context;
    float q[B * H * N * D], k[B * HK * M * D], v[B * HK * M * DV], o[B * H * N * DV], state[B * H * N * 2];
    float d_o[B * H * N * DV], d_q[B * H * N * D], d_k[B * HK * M * D], d_v[B * HK * M * DV];
    float bias[H * N * M], d_bias[H * N * M], sinks[H], d_sinks[H];
    clattn_attention_backward_args args;
} call;

static clattn_tensor tensor(const float *data, int64_t b, int64_t h, int64_t n, int64_t d) {
    const int64_t shape[4] = {b, h, n, d};
    return clattn_tensor_host(data, CLATTN_F32, 4, shape);
}

static void fill(float *x, int count, unsigned seed) {
    oracle_random random = {seed};
    for (int i = 0; i < count; i++)
        x[i] = (float)oracle_normal(&random);
}

static call *start(void) {
    const int64_t heads[] = {H};
    call *x = calloc(1, sizeof *x);
    cr_assert(x);
    SUCCEEDS(clattn_context_create("cpu", NULL, &x->context));
    fill(x->q, B * H * N * D, 1);
    fill(x->k, B * HK * M * D, 2);
    fill(x->v, B * HK * M * DV, 3);
    fill(x->d_o, B * H * N * DV, 4);
    fill(x->bias, H * N * M, 5);
    fill(x->sinks, H, 6);
    x->args = (clattn_attention_backward_args){.forward = {.q = tensor(x->q, B, H, N, D),
                                                           .k = tensor(x->k, B, HK, M, D),
                                                           .v = tensor(x->v, B, HK, M, DV),
                                                           .o = tensor(x->o, B, H, N, DV),
                                                           .state = tensor(x->state, B, H, N, 2),
                                                           .bias = tensor(x->bias, 1, H, N, M),
                                                           .sinks = clattn_tensor_host(x->sinks, CLATTN_F32, 1, heads)},
                                               .d_o = tensor(x->d_o, B, H, N, DV),
                                               .d_q = tensor(x->d_q, B, H, N, D),
                                               .d_k = tensor(x->d_k, B, HK, M, D),
                                               .d_v = tensor(x->d_v, B, HK, M, DV),
                                               .d_bias = tensor(x->d_bias, 1, H, N, M),
                                               .d_sinks = clattn_tensor_host(x->d_sinks, CLATTN_F32, 1, heads)};
    SUCCEEDS(clattn_attention(x->context, &x->args.forward));
    SUCCEEDS(clattn_attention_backward(x->context, &x->args));
    return x;
}

static void stop(call *x) {
    clattn_context_destroy(x->context);
    free(x);
}

#define REFUSED(change, code, part)                                                                                    \
    do {                                                                                                               \
        clattn_attention_backward_args args = x->args;                                                                 \
        change;                                                                                                        \
        FAILS(clattn_attention_backward(x->context, &args), code, part);                                               \
    } while (0)

Test(backward, what_the_forward_pass_saves_is_needed_and_checked) {
    call *x = start();
    REFUSED(args.forward.state = (clattn_tensor){0}, CLATTN_E_ARGUMENT, "state: is missing");
    REFUSED(args.forward.state.shape[3] = 1, CLATTN_E_SHAPE, "state [2, 4, 3, 1]: should be [2, 4, 3, 2]");
    REFUSED(args.forward.state.dtype = CLATTN_F16, CLATTN_E_DTYPE, "state: is f16, but the sums here are f32");
    REFUSED(args.forward.state.stride[3] = 2, CLATTN_E_SHAPE, "state: ");
    REFUSED(args.forward.state.host = NULL, CLATTN_E_ARGUMENT, "state: has neither a buffer nor a host array");
    REFUSED(args.forward.o = (clattn_tensor){0}, CLATTN_E_ARGUMENT, "o: is missing");
    FAILS(clattn_attention_backward(x->context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    FAILS(clattn_attention_backward(NULL, &x->args), CLATTN_E_ARGUMENT, "context is NULL");
    stop(x);
}

Test(backward, gradients_are_checked_by_name) {
    call *x = start();
    REFUSED(args.d_o = (clattn_tensor){0}, CLATTN_E_ARGUMENT, "d_o: is missing");
    REFUSED(args.d_o.shape[3] = 5, CLATTN_E_SHAPE, "d_o [2, 4, 3, 5]: should be [2, 4, 3, 6], as o");
    REFUSED(args.d_q.shape[2] = 2, CLATTN_E_SHAPE, "d_q [2, 4, 2, 4]: should be [2, 4, 3, 4], as q");
    REFUSED(args.d_k.rank = 3, CLATTN_E_SHAPE, "d_k [2, 2, 5]: should be");
    REFUSED(args.d_q.dtype = CLATTN_I32, CLATTN_E_DTYPE, "d_q: is i32; gradients are f32, f64, f16 or bf16");
    REFUSED(args.d_v.dtype = CLATTN_F64, CLATTN_E_DTYPE, "d_v: is f64, but the sums here are f32");
    REFUSED(args.d_q.stride[1] = 0, CLATTN_E_SHAPE, "d_q: its strides make elements share a place");
    REFUSED(args.d_bias = tensor(x->d_bias, 1, 1, N, M), CLATTN_E_SHAPE, "d_bias [1, 1, 3, 5]: should be [1, 4, 3, 5]");
    REFUSED(args.forward.bias.rank = 0, CLATTN_E_ARGUMENT, "d_bias: there is no bias");
    REFUSED(args.forward.sinks.rank = 0, CLATTN_E_ARGUMENT, "d_sinks: there is no sinks");
    REFUSED(args.d_sinks.dtype = CLATTN_F16, CLATTN_E_DTYPE, "d_sinks: is f16");
    REFUSED(args.d_q.rank = args.d_k.rank = args.d_v.rank = args.d_bias.rank = args.d_sinks.rank = 0, CLATTN_E_ARGUMENT,
            "none is wanted");
    stop(x);
}

Test(backward, gradients_lie_over_nothing_else) {
    call *x = start();
    REFUSED(args.d_q.host = x->q, CLATTN_E_ARGUMENT, "d_q: lies over q");
    REFUSED(args.d_k.host = x->d_v, CLATTN_E_ARGUMENT, "d_k: lies over d_v");
    REFUSED(args.d_v.host = x->v, CLATTN_E_ARGUMENT, "d_v: lies over v");
    REFUSED(args.d_sinks.host = x->sinks, CLATTN_E_ARGUMENT, "d_sinks: lies over sinks");
    REFUSED(args.d_q.host = x->state, CLATTN_E_ARGUMENT, "d_q: lies over state");
    REFUSED(args.d_sinks.host = x->bias + 3, CLATTN_E_ARGUMENT, "d_sinks: lies over bias"); /* which is one for all b */
    clattn_attention_args forward = x->args.forward;
    forward.state.host = x->o;
    FAILS(clattn_attention(x->context, &forward), CLATTN_E_ARGUMENT, "o: lies over state");
    stop(x);
}

Test(backward, blocks_and_pages_have_no_gradient) {
    const int64_t shape[] = {1, 1, 4, 32};
    const int64_t lengths[] = {4};
    const int32_t table[] = {0};
    static float q[128], o[128], state[8], d_o[128], d_q[128], d_k[128];
    static unsigned char blocks[4 * 34];
    clattn_context *context;
    clattn_attention_backward_args args = {.forward = {.q = clattn_tensor_host(q, CLATTN_F32, 4, shape),
                                                       .k = clattn_tensor_host(blocks, CLATTN_Q8_0, 4, shape),
                                                       .v = clattn_tensor_host(q, CLATTN_F32, 4, shape),
                                                       .o = clattn_tensor_host(o, CLATTN_F32, 4, shape),
                                                       .state = tensor(state, 1, 1, 4, 2)},
                                           .d_o = clattn_tensor_host(d_o, CLATTN_F32, 4, shape),
                                           .d_k = clattn_tensor_host(d_k, CLATTN_F32, 4, shape)};
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    FAILS(clattn_attention_backward(context, &args), CLATTN_E_DTYPE,
          "d_k: k is stored as q8_0, which has no gradient; leave d_k out");
    args.d_q = clattn_tensor_host(d_q, CLATTN_F32, 4, shape);
    args.d_k = (clattn_tensor){0};
    SUCCEEDS(clattn_attention(context, &args.forward));
    SUCCEEDS(clattn_attention_backward(context, &args));
    args.forward.block_table = table;
    args.forward.table_pages = 1;
    args.forward.key_lengths = lengths;
    FAILS(clattn_attention_backward(context, &args), CLATTN_E_UNSUPPORTED, "block_table: ");
    clattn_context_destroy(context);
}

Test(backward, results_of_the_forward_call_are_not_looked_at) {
    call *x = start();
    x->args.forward.weights_form = CLATTN_WEIGHTS_MASKED;
    x->args.forward.lse.rank = 7;
    x->args.forward.self_check = 3;
    x->args.forward.algorithm = "none such";
    SUCCEEDS(clattn_attention_backward(x->context, &x->args));
    x->args.algorithm = "fused_split";
    FAILS(clattn_attention_backward(x->context, &x->args), CLATTN_E_ARGUMENT,
          "there is none; the algorithms of the backward pass are ");
    stop(x);
}

/* ---- plans ---- */

Test(backward, a_plan_does_what_the_call_does_and_no_other_pass) {
    call *x = start();
    clattn_plan *plan = NULL, *forward = NULL;
    clattn_plan_info info;
    static float second[B * H * N * D];
    SUCCEEDS(clattn_backward_plan_create(x->context, &x->args, &plan));
    SUCCEEDS(clattn_plan_create(x->context, &x->args.forward, &forward));
    clattn_attention_backward_args args = x->args;
    args.d_q.host = second;
    SUCCEEDS(clattn_backward_plan_execute(plan, &args));
    cr_expect_arr_eq(second, x->d_q, sizeof second);
    SUCCEEDS(clattn_backward_plan_execute(plan, NULL));
    FAILS(clattn_plan_execute(plan, &x->args.forward), CLATTN_E_ARGUMENT, "the plan is one of the backward pass");
    FAILS(clattn_backward_plan_execute(forward, &x->args), CLATTN_E_ARGUMENT, "the plan is one of the forward pass");
    FAILS(clattn_backward_plan_execute(NULL, &x->args), CLATTN_E_ARGUMENT, "plan is NULL");
    args.d_q.stride[0] *= 2;
    FAILS(clattn_backward_plan_execute(plan, &args), CLATTN_E_SHAPE, "d_q: ");
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_float_eq(info.operations, 2.0 * B * H * N * M * (3 * D + 2 * DV), 1e-6);
    cr_expect(strstr(clattn_plan_explain(plan), "results: d_q, d_k, d_v, d_bias, d_sinks\n"), "%s",
              clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    clattn_plan_destroy(forward);
    stop(x);
}

/* ---- sizes of 0 ---- */

static void expect_zeros(const float *x, int count) {
    for (int i = 0; i < count; i++)
        cr_expect_eq(x[i], 0);
}

Test(backward, without_queries_or_keys_gradients_are_zeros) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t n = oracle_backward_open(runners);
    for (size_t r = 0; r < n; r++) {
        call *x = start();
        clattn_attention_backward_args args = x->args;
        args.algorithm = runners[r].algorithm;
        args.forward.bias.rank = args.d_bias.rank = args.forward.sinks.rank = args.d_sinks.rank = 0;
        args.forward.q.shape[2] = args.forward.o.shape[2] = args.forward.state.shape[2] = 0;
        args.d_o.shape[2] = args.d_q.shape[2] = 0;
        memset(x->d_k, 0xff, sizeof x->d_k);
        SUCCEEDS(clattn_attention_backward(runners[r].context, &args));
        expect_zeros(x->d_k, B * HK * M * D);
        args = x->args;
        args.algorithm = runners[r].algorithm;
        args.forward.bias.rank = args.d_bias.rank = 0;
        args.forward.k.shape[2] = args.forward.v.shape[2] = args.d_k.shape[2] = args.d_v.shape[2] = 0;
        SUCCEEDS(clattn_attention(runners[r].context, &args.forward));
        memset(x->d_q, 0xff, sizeof x->d_q);
        SUCCEEDS(clattn_attention_backward(runners[r].context, &args));
        expect_zeros(x->d_q, B * H * N * D);
        expect_zeros(x->d_sinks, H);
        expect_zeros(x->state, B * H * N * 2);
        stop(x);
    }
    oracle_close(runners, n);
}

/* ---- state ---- */

static void expect_state(const oracle_runner *r, const oracle_config *config) {
    oracle_case *c = oracle_make(config);
    const oracle_config *f = &c->config;
    const int64_t rows = f->B * f->H * f->N, shape[] = {f->B, f->H, f->N, 2}, lse_shape[] = {f->B, f->H, f->N};
    const int64_t out[] = {f->B, f->H, f->N, f->Dv};
    char text[ORACLE_TEXT];
    double *state = calloc((size_t)rows * 2, sizeof *state), *lse = calloc((size_t)rows, sizeof *lse);
    double *o = calloc((size_t)(rows * f->Dv), sizeof *o);
    oracle_arrays arrays;
    oracle_arrays_make(c, &arrays);
    clattn_attention_args args = arrays.args;
    cr_assert(state && lse && o);
    args.o = clattn_tensor_host(o, f->dtype, 4, out);
    args.lse = clattn_tensor_host(lse, f->dtype, 3, lse_shape);
    args.state = clattn_tensor_host(state, f->dtype, 4, shape);
    args.algorithm = r->algorithm;
    SUCCEEDS(clattn_attention(r->context, &args));
    for (int64_t row = 0; row < rows; row++) {
        const double m = oracle_decode(f->dtype, state, 2 * row), inverse = oracle_decode(f->dtype, state, 2 * row + 1);
        const double sum = oracle_decode(f->dtype, lse, row);
        bool seen = false;
        for (int64_t j = 0; j < f->M; j++)
            seen = seen || oracle_sees(c, row / (f->H * f->N), row / f->N % f->H, row % f->N, j);
        if (seen) {
            cr_expect_float_eq(m - log(inverse), sum, f->dtype == CLATTN_F64 ? 1e-13 : 4e-6, "%s: %s", r->algorithm,
                               oracle_text(f, text));
            cr_expect(m < sum + 1e-5 && m > sum - log((double)f->M + 1) - 5.51, "%s: m %g, LSE %g: %s", r->algorithm, m,
                      sum, oracle_text(f, text));
        } else
            cr_expect(m == 0 && inverse == 0, "%s: %g %g: %s", r->algorithm, m, inverse, oracle_text(f, text));
    }
    oracle_arrays_free(&arrays);
    free(state);
    free(lse);
    free(o);
    oracle_free(c);
}

static void states(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config list[] = {
        {.dtype = dtype, .B = 2, .H = 4, .Hk = 2, .N = 50, .M = 70, .D = 24, .seed = 1},
        {.dtype = dtype, .N = 33, .M = 20, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .seed = 2},
        {.dtype = dtype,
         .B = 3,
         .H = 2,
         .N = 5,
         .D = 8,
         .lengths = true,
         .query_lengths = true,
         .sinks = true,
         .seed = 3},
        {.dtype = dtype, .H = 2, .N = 2, .M = 700, .D = 16, .keep = {2, ORACLE_QUERY}, .seed = 4},
        {.dtype = dtype, .N = 40, .M = 9, .D = 8, .Dv = 600, .sinks = true, .seed = 5}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        expect_state(r, &list[i]);
}

Test(state, is_a_number_near_the_maximum_of_each_row_and_the_inverse_sum_that_belongs_to_it) { on_each(states); }

/* Beside such a sink the weights of all keys are 0, but the row has keys: its state is not that of a row without. */
static void beside_large_sinks(const oracle_runner *r, clattn_dtype dtype) {
    enum { ROWS = 2 };
    const int64_t q[] = {1, 1, ROWS, D}, k[] = {1, 1, M, D}, lse[] = {1, 1, ROWS, 2}, one[] = {1};
    const double large = dtype == CLATTN_F64 ? 2000 : 200;
    double zeros[M * D] = {0}, state[ROWS * 2], o[ROWS * D];
    const double sink_f64 = large;
    const float sink_f32 = (float)large;
    const clattn_attention_args args = {
        .q = clattn_tensor_host(zeros, dtype, 4, q),
        .k = clattn_tensor_host(zeros, dtype, 4, k),
        .v = clattn_tensor_host(zeros, dtype, 4, k),
        .o = clattn_tensor_host(o, dtype, 4, q),
        .state = clattn_tensor_host(state, dtype, 4, lse),
        .sinks = clattn_tensor_host(dtype == CLATTN_F64 ? (const void *)&sink_f64 : &sink_f32, dtype, 1, one),
        .algorithm = r->algorithm};
    SUCCEEDS(clattn_attention(r->context, &args));
    for (int64_t row = 0; row < ROWS; row++) {
        const double inverse = oracle_decode(dtype, state, 2 * row + 1);
        cr_expect(inverse > 0, "%s", r->algorithm);
        cr_expect_float_eq(oracle_decode(dtype, state, 2 * row) - log(inverse), large, 1e-4, "%s", r->algorithm);
    }
}

Test(state, beside_a_large_sink_is_not_that_of_a_row_without_keys) { on_each(beside_large_sinks); }
