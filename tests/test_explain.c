/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan tells: lines for every option, pairs that are counted without counting, and bytes that are those that the
 * runtime has counted. */
#include "attention/plan.h"
#include "oracle.h"
#include "testing.h"

#include "../host/cli/problem_data.c" /* NOLINT(bugprone-suspicious-include) */
#include "../host/cli/problem_text.c" /* NOLINT(bugprone-suspicious-include) */

/* ---- pairs ---- */

Test(explain, pairs_are_those_that_counting_gives) {
    oracle_random random = {7};
    for (int trial = 0; trial < 20000; trial++) {
        const int64_t N = 1 + oracle_below(&random, 12), M = oracle_below(&random, 14);
        cla_batch batch = {.queries = oracle_below(&random, N + 1),
                           .keys = oracle_below(&random, M + 1),
                           .offset = oracle_below(&random, 30) - 15};
        cla_problem p = {.B = 1, .H = 3, .N = N, .M = M, .interval = true, .batches = &batch};
        p.causal = oracle_below(&random, 2) != 0;
        batch.prefix = p.causal && oracle_below(&random, 2) ? oracle_below(&random, M + 1) : 0;
        p.windowed = oracle_below(&random, 2) != 0;
        p.left = oracle_below(&random, 4) ? oracle_below(&random, 10) : (int64_t)UINT32_MAX + 1;
        p.right = oracle_below(&random, 4) ? oracle_below(&random, 10) : (int64_t)UINT32_MAX + 1;
        double counted = 0;
        for (int64_t i = 0; i < N; i++) {
            int64_t lo, hi;
            cla_problem_keys(&p, 0, i, &lo, &hi);
            counted += (double)(hi - lo);
        }
        cr_assert_eq(cla_problem_pairs(&p), 3 * counted,
                     "%g, not %g: N %d M %d queries %d keys %d offset %d prefix %d causal %d window %d %lld %lld",
                     cla_problem_pairs(&p), 3 * counted, (int)N, (int)M, (int)batch.queries, (int)batch.keys,
                     (int)batch.offset, (int)batch.prefix, p.causal, p.windowed, (long long)p.left, (long long)p.right);
    }
}

Test(explain, pairs_of_billions_of_queries_take_no_time) {
    cla_batch batch = {.queries = INT32_MAX, .keys = INT32_MAX};
    const cla_problem p = {
        .B = 1, .H = 1, .N = INT32_MAX, .M = INT32_MAX, .interval = true, .causal = true, .batches = &batch};
    cr_assert_float_eq(cla_problem_pairs(&p), 0.5 * 2147483647.0 * 2147483648.0, 1e4);
}

/* ---- plans over buffers ---- */

typedef struct placed {
    cla_problem_data data;
    clattn_attention_args args;
    clattn_buffer *buffers[7], *results[4];
} placed;

/* Every output, weights of two queries. */
static void ask_for_results(clattn_context *context, placed *p) {
    static const int64_t queries[] = {2, 0};
    const clattn_tensor *q = &p->args.q;
    const int64_t row[] = {q->shape[0], q->shape[1], q->shape[2]};
    const int64_t column[] = {q->shape[0], q->shape[1], p->args.k.shape[2]};
    const int64_t weights[] = {q->shape[0], q->shape[1], 2, p->args.k.shape[2]};
    const struct {
        clattn_tensor *t;
        int rank;
        const int64_t *shape;
    } outputs[] = {{&p->args.lse, 3, row},
                   {&p->args.entropy, 3, row},
                   {&p->args.column_sums, 3, column},
                   {&p->args.weights, 4, weights}};
    for (int i = 0; i < 4; i++) {
        *outputs[i].t = clattn_tensor_buffer(NULL, CLATTN_F32, outputs[i].rank, outputs[i].shape);
        SUCCEEDS(clattn_buffer_create(context, (size_t)clattn_tensor_elements(outputs[i].t) * sizeof(float),
                                      &p->results[i]));
        outputs[i].t->buffer = p->results[i];
    }
    p->args.weights_queries = queries;
    p->args.weights_query_count = 2;
}

static void place(clattn_context *context, const char *text, placed *p) {
    cla_problem_text t;
    char error[300];
    cr_assert(cla_problem_text_parse(text, &t, error, sizeof error), "%s", error);
    cr_assert_eq(cla_problem_data_create(&t, 1, &p->data), CLATTN_OK);
    p->args = p->data.args;
    clattn_tensor *const tensors[] = {&p->args.q,    &p->args.k,    &p->args.v,    &p->args.o,
                                      &p->args.keep, &p->args.bias, &p->args.sinks};
    for (int i = 0; i < 7; i++) {
        if (tensors[i]->rank == 0)
            continue;
        const size_t bytes = clattn_dtype_bytes(tensors[i]->dtype, (size_t)clattn_tensor_elements(tensors[i]));
        SUCCEEDS(clattn_buffer_create(context, bytes, &p->buffers[i]));
        SUCCEEDS(clattn_buffer_upload(p->buffers[i], 0, tensors[i]->host, bytes));
        tensors[i]->host = NULL;
        tensors[i]->buffer = p->buffers[i];
    }
}

static void remove_all(placed *p) {
    for (int i = 0; i < 7; i++)
        clattn_buffer_destroy(p->buffers[i]);
    for (int i = 0; i < 4; i++)
        clattn_buffer_destroy(p->results[i]);
    cla_problem_data_free(&p->data);
}

static const char *const problems[] = {
    "b2 h4/2 n9 d8 v5 causal softcap=3 alibi sinks",
    "b2 h2 q5 k70 d32 bf16 kv=q8_0,q4_0 align=3 window=40,1 pages=16 lengths segments",
    "b3 h2 n20 d16 f16 varlen causal prefix sinks",
    "b3 h2 q7 k40 d16 f16 o=f32 causal=bottom-right varlen pages=8",
    "b2 h2 n33 d8 qlengths lengths keep bias",
    "b1 h1 q1 k700 d16",
    "b1 h1 q1 k700 d16 f16 lengths invariant",
    "b1 h1 n3 d4",
    NULL,
};
static const char *const with_results[] = {"b2 h4/2 n9 d8 v5 causal sinks", "b1 h2 n5 d32 f16 kv=q8_0 o=f32 keep bias",
                                           NULL};

/* Creates, executes; *peak is what lived at most beside the tensors. */
static clattn_status measure(clattn_context *context, const clattn_attention_args *args, uint64_t *peak,
                             clattn_plan_info *info, bool *grew) {
    uint64_t before, made, after;
    clattn_plan *plan = NULL;
    clattn_context_memory_reset(context);
    clattn_context_memory(context, &before, peak);
    clattn_status status = clattn_plan_create(context, args, &plan);
    clattn_context_memory(context, &made, peak);
    if (status == CLATTN_OK)
        status = clattn_plan_info_get(plan, info);
    for (int i = 0; i < 2 && status == CLATTN_OK; i++)
        status = clattn_plan_execute(plan, NULL);
    if (status == CLATTN_OK)
        status = clattn_context_sync(context);
    clattn_context_memory(context, &after, peak);
    *grew = after != made;
    *peak -= before;
    clattn_plan_destroy(plan);
    clattn_context_memory(context, &after, &made);
    cr_expect_eq(after, before, "a plan leaves %lld bytes behind", (long long)after - (long long)before);
    return status;
}

/* What the plan says is what the runtime has counted; as much is enough, and less is refused or kept. */
static void count_one(clattn_context *context, const char *text, size_t algorithm, bool results, int *ran) {
    placed p = {0};
    clattn_plan_info info, tight;
    uint64_t peak, bounded;
    bool applies, grew;
    const char *reason;
    place(context, text, &p);
    if (results)
        ask_for_results(context, &p);
    p.args.algorithm = clattn_algorithm_name(algorithm);
    SUCCEEDS(clattn_algorithm_applies(context, &p.args, algorithm, &applies, &reason));
    if (applies) {
        ++*ran;
        SUCCEEDS(measure(context, &p.args, &peak, &info, &grew));
        cr_expect_eq(peak, info.workspace_bytes, "%s on %s: %llu bytes were taken, %zu told", p.args.algorithm, text,
                     (unsigned long long)peak, info.workspace_bytes);
        cr_expect_not(grew, "%s on %s", p.args.algorithm, text);
        cr_expect_leq(info.largest_bytes, info.workspace_bytes);
        cr_expect((info.largest_bytes == 0) == (info.workspace_bytes == 0));
        const size_t bounds[] = {info.workspace_bytes, info.workspace_bytes - 1, info.workspace_bytes / 2, 1};
        for (int i = 0; i < 4; i++) {
            p.args.max_workspace = bounds[i];
            if (info.workspace_bytes == 0 || bounds[i] == 0)
                continue;
            const clattn_status status = measure(context, &p.args, &bounded, &tight, &grew);
            if (status == CLATTN_OK) {
                cr_expect_leq(bounded, bounds[i], "%s on %s: %llu bytes, above %zu", p.args.algorithm, text,
                              (unsigned long long)bounded, bounds[i]);
                cr_expect_eq(bounded, tight.workspace_bytes);
            } else {
                cr_expect_eq(status, CLATTN_E_LIMIT, "%s on %s: %s", p.args.algorithm, text, clattn_last_error());
                cr_expect(strstr(clattn_last_error(), "workspace: ") && strstr(clattn_last_error(), "max_workspace"),
                          "%s", clattn_last_error());
                cr_expect_neq(i, 0, "%s on %s: %s", p.args.algorithm, text, clattn_last_error());
            }
        }
    }
    remove_all(&p);
}

static void count_all(const char *device, bool results) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create(device, NULL, &context));
    const char *const *list = results ? with_results : problems;
    for (int i = 0; list[i]; i++) {
        int ran = 0;
        for (size_t a = 0; a < clattn_algorithm_count(); a++)
            count_one(context, list[i], a, results, &ran);
        cr_expect_geq(ran, results ? 1 : 2);
    }
    clattn_context_destroy(context);
}

Test(explain, workspace_is_what_plans_take_on_a_device) { count_all("opencl", false); }
Test(explain, workspace_is_what_plans_take_on_the_cpu) { count_all("cpu", false); }
Test(explain, workspace_is_what_plans_with_every_result_take_on_a_device) { count_all("opencl", true); }
Test(explain, workspace_is_what_plans_with_every_result_take_on_the_cpu) { count_all("cpu", true); }

/* ---- lines ---- */

static char *explained(clattn_context *context, const char *text, const char *algorithm) {
    static char copy[4000];
    placed p = {0};
    clattn_plan *plan = NULL;
    place(context, text, &p);
    p.args.algorithm = algorithm;
    SUCCEEDS(clattn_plan_create(context, &p.args, &plan));
    cr_assert_lt(strlen(clattn_plan_explain(plan)), sizeof copy);
    strcpy(copy, clattn_plan_explain(plan));
    clattn_plan_destroy(plan);
    remove_all(&p);
    return copy;
}

#define SAYS(text, part) cr_expect(strstr(text, part), "no \"%s\" in:\n%s", part, text)

Test(explain, options_are_named_with_what_they_do) {
    clattn_context *cpu = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    const char *text =
        explained(cpu,
                  "b2 h2 n9 d32 causal prefix softcap=3 alibi sinks window=2,inf lengths qlengths segments keep bias "
                  "f16 kv=q8_0 o=f32 scale=0.5 invariant",
                  "reference");
    SAYS(text,
         "keys seen: causal, prefixes, a window of 2, inf, key lengths, query lengths, segments, keep; the intervals");
    SAYS(text, " of 324 pairs through\n");
    SAYS(text,
         "scores: times 0.5, soft cap 3, ALiBi, bias, sinks in the sum; sums in f32; bits independent of the batch\n");
    SAYS(text,
         "storage: q f16 read as it lies, k q8_0 read as it lies, v q8_0 read as it lies, keep bool read as it lies, "
         "bias f16 read as it lies, o f32 written as it lies\n");
    SAYS(text, "algorithm reference: asked for by name\nnot fused_split: runs on OpenCL devices");
    SAYS(text, "not blas: it was not asked for\n");
    text = explained(cpu, "b2 h2 n9 d32 f16 kv=q8_0 pages=4 lengths", "blas");
    SAYS(text, "keys seen: key lengths; the intervals");
    SAYS(text, "storage: q f16 converted beforehand, k q8_0 gathered beforehand, v q8_0 gathered beforehand, o f16 "
               "converted afterwards\n");
    SAYS(text, "workspace: ");
    SAYS(text, ", the largest allocation ");
    text = explained(cpu, "n4 d2", NULL);
    SAYS(text, "keys seen: all; the intervals among them let 16 of 16 pairs through\n");
    SAYS(text, "least traffic: 128 bytes; operations: 128\n");
    clattn_context_destroy(cpu);
}

Test(explain, tiles_of_fused_lanes_have_the_keys_of_its_kernel) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    SAYS(explained(context, "n8 d128", "fused_lanes"), " queries x 128 keys, ");
    SAYS(explained(context, "n8 d128 f16", "fused_lanes"), " queries x 64 keys, ");
    clattn_context_destroy(context);
}

Test(explain, results_are_named) {
    clattn_context *cpu = NULL;
    placed p = {0};
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    place(cpu, "b2 h3 n5 d4", &p);
    ask_for_results(cpu, &p);
    p.args.weights_form = CLATTN_WEIGHTS_MASKED;
    SUCCEEDS(clattn_plan_create(cpu, &p.args, &plan));
    SAYS(clattn_plan_explain(plan),
         "results: o, lse, weights after the masks of 2 queries and 3 heads, entropy, column sums\n");
    clattn_plan_destroy(plan);
    remove_all(&p);
    clattn_context_destroy(cpu);
}

/* Masks and results count, what broadcasts once. */
Test(explain, traffic_counts_every_tensor_once) {
    clattn_context *cpu = NULL;
    placed p = {0};
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    float lse[2 * 3 * 5];
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    place(cpu, "b2 h3 n5 d4 keep bias sinks", &p);
    p.args.lse = clattn_tensor_host(lse, CLATTN_F32, 3, (const int64_t[]){2, 3, 5});
    SUCCEEDS(clattn_plan_create(cpu, &p.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    SAYS(clattn_plan_explain(plan), "results: o, lse\n");
    cr_expect_eq(info.moved_bytes, 4 * (4.0 * 2 * 3 * 5 * 4 + 5 * 5 + 3 + 2 * 3 * 5) + 5 * 5);
    clattn_plan_destroy(plan);
    remove_all(&p);
    clattn_context_destroy(cpu);
}
