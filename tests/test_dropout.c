/* SPDX-License-Identifier: Apache-2.0 */
/* Dropout: its random words, its rate, and that nothing but seed, offset and place decide. */
#include "base/dropout.h"
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

Test(dropout, bounds_are_those_of_the_probability) {
    cr_expect_eq(cla_dropout_of(0, 1).bound, 0);
    cr_expect_eq(cla_dropout_of(0.5, 1).bound, 0x80000000u);
    cr_expect_eq(cla_dropout_of(nextafter(1, 0), 1).bound, UINT32_MAX);
    cr_expect_eq(cla_dropout_of(0.75, 1).kept, 4);
}

/* A weight is what it was, on average: kept times the share that is kept. */
Test(dropout, what_is_kept_makes_up_for_what_is_dropped) {
    const double list[] = {0, 0x1p-34, 0x1p-33, 1e-9, 0.1, 0.3, 0.999, 1 - 0x1p-32, 1 - 0x1p-34, nextafter(1, 0)};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const cla_dropout d = cla_dropout_of(list[i], 1);
        cr_expect_float_eq(d.kept * (1 - d.bound * 0x1p-32), 1, 1e-15, "p %g", list[i]);
        cr_expect(fabs(d.bound * 0x1p-32 - list[i]) <= 0x1p-32, "p %g", list[i]);
    }
}

/* ---- calls whose values are 1: a row of O is then what is left of its weights ---- */

enum { B = 2, H = 3, N = 40, M = 50, ROWS = B * H * N };
typedef struct {
    float q[ROWS * 4], k[B * H * M * 4], v[B * H * M * M], o[ROWS * M];
    clattn_attention_args args;
} call;

/* Uniform weights, and V the unit matrix: O is P with dropout. */
static call *start(void) {
    const int64_t q[] = {B, H, N, 4}, k[] = {B, H, M, 4}, v[] = {B, H, M, M}, o[] = {B, H, N, M};
    call *x = calloc(1, sizeof *x);
    cr_assert(x);
    for (int i = 0; i < B * H * M; i++)
        x->v[i * M + i % M] = 1;
    x->args = (clattn_attention_args){.q = clattn_tensor_host(x->q, CLATTN_F32, 4, q),
                                      .k = clattn_tensor_host(x->k, CLATTN_F32, 4, k),
                                      .v = clattn_tensor_host(x->v, CLATTN_F32, 4, v),
                                      .o = clattn_tensor_host(x->o, CLATTN_F32, 4, o)};
    return x;
}

typedef void (*check)(clattn_context *context, const char *algorithm);

/* On each algorithm: all of them drop weights. */
static void on_each_dropping(check run) {
    oracle_runner runners[ORACLE_RUNNERS];
    const oracle_config tiny = {.N = 1, .D = 1, .dropout = 0.5};
    const size_t n = oracle_open(runners);
    oracle_case *c = oracle_make(&tiny);
    for (size_t r = 0; r < n; r++) {
        cr_expect(oracle_applies(c, &runners[r], NULL), "%s", runners[r].algorithm);
        run(runners[r].context, runners[r].algorithm);
    }
    oracle_free(c);
    oracle_close(runners, n);
}

static void places(clattn_context *context, const char *algorithm) {
    call *x = start();
    x->args.algorithm = algorithm;
    x->args.dropout = 0.3;
    x->args.dropout_seed = 12345;
    x->args.dropout_offset = 7;
    SUCCEEDS(clattn_attention(context, &x->args));
    const cla_dropout d = cla_dropout_of(0.3, 12345 + 7 * UINT64_C(0x9E3779B97F4A7C15));
    int64_t dropped = 0, wrong = 0;
    for (int64_t at = 0; at < ROWS * M; at++) {
        const int64_t row = at / M;
        const double factor = cla_dropout_factor(&d, row / (H * N), row / N % H, row % N, at % M);
        dropped += x->o[at] == 0;
        wrong += fabs(x->o[at] - factor / M) > 1e-7;
    }
    cr_expect_eq(wrong, 0, "%s", algorithm);
    const double total = ROWS * M, error = sqrt(total * 0.3 * 0.7);
    cr_expect(fabs((double)dropped - 0.3 * total) <= 4 * error, "%s: %lld of %.0f", algorithm, (long long)dropped,
              total);
    free(x);
}

Test(dropout, drops_by_place_seed_and_offset_at_the_rate_asked_for) { on_each_dropping(places); }

static void seeds(clattn_context *context, const char *algorithm) {
    static float first[ROWS * M];
    call *x = start();
    x->args.algorithm = algorithm;
    x->args.dropout = 0.5;
    SUCCEEDS(clattn_attention(context, &x->args));
    memcpy(first, x->o, sizeof first);
    SUCCEEDS(clattn_attention(context, &x->args));
    cr_expect_arr_eq(first, x->o, sizeof first);
    for (int i = 0; i < 2; i++) { /* the plan is kept, the key is not */
        x->args.dropout_seed = i == 0 ? 1 : 0;
        x->args.dropout_offset = i == 0 ? 0 : 1;
        SUCCEEDS(clattn_attention(context, &x->args));
        int same = 0;
        for (int at = 0; at < ROWS * M; at++)
            same += (first[at] == 0) == (x->o[at] == 0);
        cr_expect(abs(2 * same - ROWS * M) < 4 * (int)sqrt(ROWS * M), "%s: %d of %d", algorithm, same, ROWS * M);
    }
    free(x);
}

Test(dropout, other_seeds_and_offsets_drop_other_weights) { on_each_dropping(seeds); }

/* One plan, a step of training after another: as calls with the seed and offset of the step. */
static void steps(clattn_context *context, const char *algorithm) {
    static float wanted[ROWS * M];
    clattn_plan *plan = NULL;
    call *x = start();
    x->args.algorithm = algorithm;
    x->args.dropout = 0.5;
    const clattn_tensor *const tensors[] = {&x->args.q, &x->args.k, &x->args.v, &x->args.o};
    clattn_attention_args bound = x->args;
    clattn_tensor *const own[] = {&bound.q, &bound.k, &bound.v, &bound.o};
    for (int i = 0; i < 4; i++) {
        const size_t bytes = (size_t)clattn_tensor_elements(tensors[i]) * sizeof(float);
        SUCCEEDS(clattn_buffer_create(context, bytes, &own[i]->buffer));
        SUCCEEDS(clattn_buffer_upload(own[i]->buffer, 0, tensors[i]->host, bytes));
        own[i]->host = NULL;
    }
    SUCCEEDS(clattn_plan_create(context, &bound, &plan));
    for (int step = 0; step < 3; step++) {
        x->args.dropout_seed = bound.dropout_seed = step > 0 ? 5 : 0;
        x->args.dropout_offset = bound.dropout_offset = step > 1 ? 9 : 0;
        bound.dropout = 0.25; /* is the plan's */
        SUCCEEDS(clattn_attention(context, &x->args));
        memcpy(wanted, x->o, sizeof wanted);
        SUCCEEDS(clattn_plan_execute(plan, &bound));
        SUCCEEDS(clattn_buffer_download(bound.o.buffer, 0, x->o, sizeof x->o));
        cr_expect_arr_eq(x->o, wanted, sizeof wanted, "%s, step %d", algorithm, step);
        SUCCEEDS(clattn_plan_execute(plan, NULL)); /* those of the last execution */
        SUCCEEDS(clattn_buffer_download(bound.o.buffer, 0, x->o, sizeof x->o));
        cr_expect_arr_eq(x->o, wanted, sizeof wanted, "%s, step %d again", algorithm, step);
    }
    clattn_plan_destroy(plan);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(own[i]->buffer);
    free(x);
}

Test(dropout, a_plan_takes_seed_and_offset_of_each_execution) { on_each_dropping(steps); }

/* The smallest p that is none, in f64, where 1 / (1 - p) is not 1; and the largest, by which all is dropped. */
static void edges(clattn_context *context, const char *algorithm) {
    static double q[B * H * N * 4], o[2][ROWS * M];
    clattn_device_info info;
    const int64_t q_shape[] = {B, H, N, 4}, o_shape[] = {B, H, N, M};
    SUCCEEDS(clattn_context_info(context, &info));
    call *x = start();
    x->args.algorithm = algorithm;
    x->args.dropout = nextafter(1, 0);
    SUCCEEDS(clattn_attention(context, &x->args));
    for (int at = 0; at < ROWS * M; at++)
        cr_assert_eq(x->o[at], 0, "%s: %g", algorithm, x->o[at]);
    for (int i = 0; i < B * H * N * 4; i++)
        q[i] = (i % 7) - 3;
    x->args.q = clattn_tensor_host(q, CLATTN_F64, 4, q_shape);
    for (int i = 0; i < 2 && info.has_f64; i++) {
        x->args.o = clattn_tensor_host(o[i], CLATTN_F64, 4, o_shape);
        x->args.dropout = i == 0 ? 0 : 0x0.ffp-33;
        SUCCEEDS(clattn_attention(context, &x->args));
    }
    cr_expect_arr_eq(o[0], o[1], sizeof o[0], "%s", algorithm);
    free(x);
}

Test(dropout, of_the_smallest_p_is_none_and_of_the_largest_all) { on_each_dropping(edges); }

/* Keys in splits of 64, and chunks of a few rows of one head. */
Test(dropout, splits_and_chunks_drop_the_same_weights) {
    const struct {
        const char *algorithm, *variant;
        size_t max_workspace;
    } list[] = {{"fused_split", "splits=1", 0},
                {"fused_split", "splits=2", 0},
                {"fused_split", "splits=4", 0},
                {"materialised", NULL, 0},
                {"materialised", NULL, 9000}};
    clattn_context *context = NULL;
    char text[ORACLE_TEXT] = "";
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const oracle_config config = {.B = 2,
                                      .H = 4,
                                      .Hk = 2,
                                      .N = 3,
                                      .M = 203,
                                      .D = 9,
                                      .causal = true,
                                      .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                      .keep = {2, 3},
                                      .dropout = 0.4,
                                      .variant = list[i].variant,
                                      .max_workspace = list[i].max_workspace};
        oracle_case *c = oracle_make(&config);
        cr_expect(oracle_check(c, context, list[i].algorithm, text), "%s", text);
        oracle_free(c);
    }
    clattn_context_destroy(context);
}

Test(dropout, of_nothing_is_none_bit_for_bit) {
    clattn_context *context;
    static float without[ROWS * M];
    call *x = start();
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    for (int i = 0; i < ROWS * 4; i++)
        x->q[i] = (float)(i % 7) - 3;
    for (int i = 0; i < B * H * M * 4; i++)
        x->k[i] = (float)(i % 5) - 2;
    SUCCEEDS(clattn_attention(context, &x->args));
    memcpy(without, x->o, sizeof without);
    x->args.dropout_seed = 99;
    SUCCEEDS(clattn_attention(context, &x->args));
    cr_expect_arr_eq(without, x->o, sizeof without);
    clattn_context_destroy(context);
    free(x);
}

Test(dropout, outside_zero_to_one_is_an_error_by_name) {
    const double bad[] = {-0.1, 1, 1.5, NAN};
    clattn_context *context;
    call *x = start();
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x->args.dropout = bad[i];
        FAILS(clattn_attention(context, &x->args), CLATTN_E_ARGUMENT, "dropout: ");
    }
    x->args.dropout = 0.5;
    x->args.self_check = 1;
    FAILS(clattn_attention(context, &x->args), CLATTN_E_UNSUPPORTED, "self_check: ");
    clattn_context_destroy(context);
    free(x);
}

Test(dropout, weights_that_are_asked_for_are_those_before) {
    const int64_t shape[] = {B, H, N, M};
    clattn_context *context;
    static float weights[ROWS * M];
    call *x = start();
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    x->args.dropout = 0.5;
    x->args.weights = clattn_tensor_host(weights, CLATTN_F32, 4, shape);
    SUCCEEDS(clattn_attention(context, &x->args));
    for (int i = 0; i < ROWS * M; i++)
        cr_expect_float_eq(weights[i], 1.0 / M, 1e-7);
    x->args.algorithm = "blas";
    FAILS(clattn_attention(context, &x->args), CLATTN_E_UNSUPPORTED, "algorithm blas: drops weights where they lie");
    clattn_context_destroy(context);
    free(x);
}
