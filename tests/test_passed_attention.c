/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of what attention calls, forward and backward, on an OpenCL device that is asked for buffers alone: no
 * kernel is built, so that results are never looked at, and self-tests find every kernel wrong. */
#include "attention/plan.h"
#include "ops/gemm.h"
#include "passed_on.h"
#include "tensor/view.h"
#include <clattn/lint.h>
#include <clattn/verify.h>

/* ---- what is wrapped beside ---- */

clattn_status __real_cla_plan_scratch(clattn_plan *plan, int64_t bytes, const char *what, size_t *offset_bytes);
clattn_status __wrap_cla_plan_scratch(clattn_plan *plan, int64_t bytes, const char *what, size_t *offset_bytes) {
    return fails() ? failed() : __real_cla_plan_scratch(plan, bytes, what, offset_bytes);
}
clattn_status __real_cla_gemm_check(const cla_gemm *gemm);
clattn_status __wrap_cla_gemm_check(const cla_gemm *gemm) { return fails() ? failed() : __real_cla_gemm_check(gemm); }
clattn_status __real_cla_queue_end(clattn_context *context, cl_event *event);
clattn_status __wrap_cla_queue_end(clattn_context *context, cl_event *event) {
    return fails() ? failed() : __real_cla_queue_end(context, event);
}
clattn_status __wrap_cla_profile_counts(clattn_context *context, const cla_kernel *kernel, clattn_buffer **counts) {
    (void)context, (void)kernel;
    *counts = NULL;
    return fails() ? failed() : CLATTN_OK;
}
clattn_status __real_clattn_plan_info_get(const clattn_plan *plan, clattn_plan_info *info);
clattn_status __wrap_clattn_plan_info_get(const clattn_plan *plan, clattn_plan_info *info) {
    return fails() ? failed() : __real_clattn_plan_info_get(plan, info);
}
static bool views; /* these fail too; algorithms would not apply then */
clattn_status __real_cla_view_range(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
clattn_status __wrap_cla_view_range(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end) {
    return views && fails() ? failed() : __real_cla_view_range(t, name, first, end);
}
clattn_status __real_cla_view_bytes(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end);
clattn_status __wrap_cla_view_bytes(const clattn_tensor *t, const char *name, int64_t *first, int64_t *end) {
    return views && fails() ? failed() : __real_cla_view_bytes(t, name, first, end);
}

/* ---- problems of the tests' oracle ---- */

typedef struct {
    const char *name, *algorithm;
    oracle_config config;
    bool backward, gpu;
} problem;

static struct {
    const problem *x;
    oracle_case *c;
    oracle_backward *g;
} asked;

static clattn_status run_asked(clattn_context *context) {
    char text[ORACLE_TEXT] = "";
    const char *algorithm = asked.x->algorithm;
    const bool right = asked.g ? oracle_backward_run(asked.g, context, algorithm, algorithm, text)
                               : oracle_run(asked.c, context, algorithm, text);
    if (right)
        return CLATTN_OK;
    for (int s = 1; s <= CLATTN_E_DEVICE_LOST; s++)
        if (strstr(text, clattn_status_name((clattn_status)s)))
            return cla_error((clattn_status)s, "%s", text);
    return cla_error(CLATTN_E_VERIFY, "%s", text);
}

static void sweep_problem(clattn_context *context, const problem *x) {
    asked.x = x;
    asked.c = oracle_make(&x->config);
    asked.g = x->backward ? oracle_backward_make(asked.c) : NULL;
    context->info.device_class = x->gpu ? CLATTN_DEVICE_GPU : CLATTN_DEVICE_CPU;
    sweep(x->name, context, run_asked);
    oracle_backward_free(asked.g);
    oracle_free(asked.c);
}

#define MASKS .keep = {2, 3}, .drop = {3, 7}, .bias = {4, 15}, .sinks = true
#define BLOCKS                                                                                                         \
    .typed = true, .q_type = CLATTN_F16, .k_type = CLATTN_Q8_0, .v_type = CLATTN_Q4_0, .o_type = CLATTN_BF16, .H = 2,  \
    .Hk = 1, .N = 3, .M = 20, .D = 32, .page_size = 8
static const problem problems[] = {
    {"lanes", "fused_lanes", .config = {.H = 64, .N = 16, .M = 64, .D = 1, .keep = {2, 3}, .lse = true}},
    {"lanes of segments", "fused_lanes",
     .config =
         {.H = 2, .N = 5, .M = 9, .D = 8, MASKS, .alibi = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .segments = true}},
    {"lanes of sequences", "fused_lanes",
     .config = {.B = 2, .H = 2, .N = 5, .M = 9, .D = 8, .sequences = true, .lse = true}},
    {"split", "fused_split", .config = {.H = 2, .Hk = 1, .N = 2, .M = 300, .D = 8, .lse = true, .variant = "splits=2"}},
    {"split, pages of blocks", "fused_split", .config = {BLOCKS}},
    {"materialised", "materialised", .config = {.H = 2, .N = 5, .M = 9, .D = 8, MASKS, .weights = true, .lse = true}},
    {"materialised, pages", "materialised", .config = {.H = 2, .N = 3, .M = 20, .D = 8, .page_size = 8}},
    {"materialised, turned", "materialised", .config = {.H = 2, .N = 5, .M = 9, .D = 8, .layout = ORACLE_TRANSPOSED}},
    {"materialised, short", "materialised",
     .config = {.H = 2, .N = 5, .M = 9, .D = 8, .keep = {2, 3}, .short_masks = true}},
    {"materialised, dropout", "materialised", .config = {.H = 2, .N = 5, .M = 9, .D = 8, .dropout = 0.3}},
    {"materialised, sequences", "materialised", .config = {.B = 2, .H = 2, .N = 5, .M = 9, .D = 8, .sequences = true}},
    {"materialised over buffers", "materialised",
     .config = {.N = 5, .M = 9, .D = 8, .buffers = true, .caller_workspace = true}},
    {"lanes back", "fused_lanes", .config = {.H = 4, .Hk = 2, .N = 5, .M = 40, .D = 8, MASKS}, .backward = true},
    {"lanes back, bias of all", "fused_lanes", .config = {.H = 4, .N = 5, .M = 40, .D = 8, .bias = {2, 3}},
     .backward = true},
    {"lanes back, sequences", "fused_lanes", .config = {.B = 2, .H = 2, .N = 5, .M = 9, .D = 8, .sequences = true},
     .backward = true},
    {"lanes back, few rows", "fused_lanes", .config = {.H = 1, .N = 3, .M = 500, .D = 8}, .backward = true},
    {"materialised back", "materialised", .config = {.H = 4, .Hk = 2, .N = 5, .M = 9, .D = 8, MASKS}, .backward = true},
    {"materialised back, bias of all", "materialised", .config = {.H = 4, .N = 5, .M = 9, .D = 8, .bias = {2, 3}},
     .backward = true},
    {"materialised back, turned", "materialised",
     .config = {.H = 2, .N = 5, .M = 9, .D = 8, .layout = ORACLE_TRANSPOSED, .bias = {4, 15}}, .backward = true},
    {"materialised back, dropout", "materialised", .config = {.H = 2, .N = 5, .M = 9, .D = 8, .dropout = 0.3},
     .backward = true},
    {"materialised back, sequences", "materialised",
     .config = {.B = 2, .H = 2, .N = 5, .M = 9, .D = 8, .sequences = true}, .backward = true},
};

static clattn_context *opened(const clattn_context_options *options) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", options, &context));
    context->info.device_class = CLATTN_DEVICE_CPU;
    now.kernels = true;
    fill_slots();
    return context;
}

Test(passed_attention, failures_of_what_algorithms_call_are_theirs) {
    clattn_context *context = opened(NULL);
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++)
        sweep_problem(context, &problems[i]);
    clattn_context_destroy(context);
}

/* A kernel for which there is no memory has other tiles: each failure is told, or leads to those. */
static const problem tiled[] = {
    {"tiles", "fused_tiles", .config = {.H = 2, .N = 5, .M = 9, .D = 8, .lse = true}, .gpu = true},
    {"tiles, masks", "fused_tiles", .config = {.H = 2, .N = 5, .M = 9, .D = 6, MASKS, .dropout = 0.3}},
    {"tiles of a variant", "fused_tiles",
     .config = {.N = 5,
                .M = 9,
                .D = 8,
                .buffers = true,
                .variant = "tr=8 tc=16 nr=8 nc=4 dc=32 jc=32 nv=1 sliced=0 ahead=1"}},
    {"tiles back", "fused_tiles", .config = {.H = 2, .Hk = 1, .N = 5, .M = 9, .D = 8, .buffers = true},
     .backward = true, .gpu = true},
    {"tiles back, masks", "fused_tiles", .config = {.H = 2, .N = 5, .M = 9, .D = 8, MASKS}, .backward = true},
};

Test(passed_attention, failures_of_what_tiles_call_are_theirs) {
    clattn_context *context = opened(NULL);
    now.others = true;
    for (size_t i = 0; i < sizeof tiled / sizeof *tiled; i++)
        sweep_problem(context, &tiled[i]);
    clattn_context_destroy(context);
}

/* ---- weights of their own pass, sums of columns, entropy ---- */

static clattn_attention_args small(int64_t queries) {
    return (clattn_attention_args){.q = four(0, 1, 2, queries, 4),
                                   .k = four(1, 1, 2, 3, 4),
                                   .v = four(2, 1, 2, 3, 4),
                                   .o = four(3, 1, 2, queries, 4)};
}
static clattn_status weigh(clattn_context *context) {
    clattn_attention_args a = small(5);
    a.weights = four(4, 1, 1, 2, 3);
    a.weights_queries = (const int64_t[]){0, 3}, a.weights_query_count = 2;
    a.weights_heads = (const int64_t[]){1}, a.weights_head_count = 1;
    a.column_sums = cube(5, 1, 2, 3);
    a.entropy = cube(6, 1, 2, 5);
    a.lse = cube(7, 1, 2, 5);
    return clattn_attention(context, &a);
}
static clattn_status weigh_scores(clattn_context *context) {
    clattn_attention_args a = small(5);
    a.weights = four(4, 1, 2, 5, 3);
    a.weights_form = CLATTN_WEIGHTS_SCALED;
    a.entropy = cube(6, 1, 2, 5);
    a.algorithm = "fused_lanes";
    return clattn_attention(context, &a);
}
/* In chunks of queries. */
static clattn_status sum_columns(clattn_context *context) {
    clattn_attention_args a = small(100);
    a.column_sums = cube(5, 1, 2, 3);
    a.batch_invariant = true;
    a.algorithm = "fused_lanes";
    return clattn_attention(context, &a);
}
/* No key: nothing but fills and a copy of the sinks. */
static clattn_status fill(clattn_context *context) {
    clattn_attention_args a = small(5);
    a.k = four(1, 1, 2, 0, 4), a.v = four(2, 1, 2, 0, 4);
    a.lse = cube(4, 1, 2, 5);
    a.state = four(5, 1, 2, 5, 2);
    a.entropy = cube(6, 1, 2, 5);
    a.sinks = vec(7, 2);
    return clattn_attention(context, &a);
}
static clattn_status fill_back(clattn_context *context) {
    clattn_attention_backward_args a = {.forward = small(5), .d_o = four(4, 1, 2, 5, 4)};
    a.forward.k = four(1, 1, 2, 0, 4), a.forward.v = four(2, 1, 2, 0, 4);
    a.forward.state = four(5, 1, 2, 5, 2);
    a.d_q = four(6, 1, 2, 5, 4);
    return clattn_attention_backward(context, &a);
}
static clattn_status join(clattn_context *context) {
    const clattn_partial parts[] = {{.o = four(0, 1, 2, 5, 4), .lse = cube(1, 1, 2, 5)},
                                    {.o = four(2, 1, 2, 5, 4), .lse = cube(3, 1, 2, 5)}};
    return clattn_merge(
        context, &(clattn_merge_args){.parts = parts, .count = 2, .o = four(4, 1, 2, 5, 4), .lse = cube(5, 1, 2, 5)});
}

Test(passed_attention, failures_of_what_passes_beside_call_are_theirs) {
    static const struct {
        const char *name;
        clattn_status (*run)(clattn_context *context);
    } runs[] = {{"weights of some rows", weigh},  {"scores", weigh_scores},
                {"sums of columns", sum_columns}, {"no key", fill},
                {"no key, backward", fill_back},  {"merge", join}};
    clattn_context *context = opened(NULL);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++)
        sweep(runs[i].name, context, runs[i].run);
    clattn_context_destroy(context);
}

/* ---- self-tests ---- */

/* As the device computes nothing, each test that is not kept from it ends in a verdict; so do products that fail. */
static clattn_status (*tested_call)(clattn_context *context);
static clattn_status run_tested(clattn_context *context) {
    cla_verdicts_destroy(context);
    const clattn_status status = tested_call(context);
    if (status != CLATTN_E_VERIFY || !strstr(clattn_last_error(), "self-test of"))
        return status;
    if (now.calls <= now.at || now.memory)
        return CLATTN_OK;
    return strstr(clattn_last_error(), "expected") ? status : CLATTN_E_CLBLAST;
}

Test(passed_attention, failures_of_what_self_tests_call_are_no_verdicts) {
    static const problem tested[] = {
        {"tested lanes", "fused_lanes",
         .config = {.H = 2, .N = 5, .M = 9, .D = 8, MASKS, .lse = true, .weights = true}},
        {"tested split", "fused_split", .config = {BLOCKS}},
        {"tested products", "materialised", .config = {.H = 2, .N = 5, .M = 9, .D = 8}},
    };
    clattn_context *context = opened(&(clattn_context_options){.self_test = 1});
    for (size_t i = 0; i < sizeof tested / sizeof *tested; i++) {
        asked.x = &tested[i];
        asked.c = oracle_make(&tested[i].config);
        asked.g = NULL;
        tested_call = run_asked;
        sweep(tested[i].name, context, run_tested);
        oracle_free(asked.c);
    }
    tested_call = weigh_scores;
    sweep("tested scores", context, run_tested);
    tested_call = sum_columns;
    sweep("tested sums of columns", context, run_tested);
    tested_call = fill; /* there is nothing to test */
    sweep("tested fills", context, run_tested);
    clattn_context_destroy(context);
}

/* ---- rows computed again, and warnings, of what lies in buffers ---- */

static clattn_attention_args placed;
static clattn_status verify(clattn_context *context) {
    clattn_verification result;
    (void)context;
    return clattn_verify(&placed, CLATTN_ALL_ROWS, NULL, &result);
}
static void ignore(void *user, const clattn_warning *warning) { (void)user, (void)warning; }
static clattn_status lint(clattn_context *context) {
    (void)context;
    return clattn_lint(&placed, ignore, NULL);
}
static clattn_status place(clattn_context *context, clattn_tensor *t, clattn_buffer **buffer) {
    const clattn_status status = cla_buffer_create_from(context, t->host, sizeof slots[0], buffer);
    t->host = NULL;
    t->buffer = *buffer;
    return status;
}

Test(passed_attention, failures_of_what_verify_and_lint_call_are_theirs) {
    clattn_context *context = opened(NULL);
    placed = small(5);
    placed.lse = cube(4, 1, 2, 5);
    placed.weights = four(5, 1, 2, 5, 3);
    placed.column_sums = cube(6, 1, 2, 3);
    placed.bias = mat(7, 5, 3);
    placed.keep = as_type(mat(8, 5, 3), CLATTN_U8);
    placed.drop = as_type(mat(9, 5, 3), CLATTN_U8);
    clattn_tensor *all[] = {&placed.q,       &placed.k,           &placed.v,    &placed.o,    &placed.lse,
                            &placed.weights, &placed.column_sums, &placed.bias, &placed.keep, &placed.drop};
    clattn_buffer *buffers[sizeof all / sizeof *all] = {0};
    memset(slots[8], 1, sizeof slots[8]);
    memset(slots[9], 0, sizeof slots[9]);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        SUCCEEDS(place(context, all[i], &buffers[i]));
    views = true;
    sweep("verify", context, verify);
    sweep("lint", context, lint);
    placed.q.dtype = placed.k.dtype = placed.v.dtype = CLATTN_F16;
    sweep("lint of f16", context, lint);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        clattn_buffer_destroy(buffers[i]);
    clattn_context_destroy(context);
}
