/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a plan, its workspace and other tensors; the one call on host arrays, buffers and both; ranks; and the
 * table of algorithms. */
#include "cases.h"
#include "oracle_internal.h"
#include "runtime/buffer.h"

/* A problem with every kind of input and output that all algorithms take. */
static const oracle_config usual = {.B = 2,
                                    .H = 4,
                                    .Hk = 2,
                                    .N = 21,
                                    .M = 35,
                                    .D = 20,
                                    .Dv = 12,
                                    .guard = 8,
                                    .lse = true,
                                    .causal = true,
                                    .align = CLATTN_ALIGN_OFFSET,
                                    .lengths = true,
                                    .keep = {3, ORACLE_HEAD | ORACLE_KEY},
                                    .bias = {2, ORACLE_QUERY | ORACLE_KEY},
                                    .seed = 11};

/* The arrays of a case as buffers, and arguments over them. */
typedef struct {
    oracle_arrays arrays;
    clattn_attention_args args;
} bound;

static bound bind(const oracle_case *c, const oracle_runner *r) {
    bound b;
    oracle_arrays_make(c, &b.arrays);
    b.args = b.arrays.args;
    b.args.algorithm = r->algorithm;
    for (int i = 0; i < b.arrays.count; i++) {
        oracle_array *a = &b.arrays.list[i];
        SUCCEEDS(clattn_buffer_create(r->context, a->bytes, &a->buffer));
        SUCCEEDS(clattn_buffer_upload(a->buffer, 0, a->data, a->bytes));
    }
    for (int t = 0; t < ORACLE_TENSORS; t++)
        if (b.arrays.view[t].rank) {
            oracle_args_tensor(&b.args, t)->host = NULL;
            oracle_args_tensor(&b.args, t)->buffer = b.arrays.list[b.arrays.of[t]].buffer;
        }
    return b;
}

/* Takes the results and judges them; then spoils the outputs for a next run. */
static void judge(oracle_case *c, const oracle_runner *r, bound *b) {
    char text[ORACLE_TEXT] = "";
    for (int i = 0; i < b->arrays.count; i++) {
        oracle_array *a = &b->arrays.list[i];
        SUCCEEDS(clattn_buffer_download(a->buffer, 0, a->data, a->bytes));
    }
    oracle_arrays_take(c, &b->arrays, &c->got);
    cr_expect(oracle_compare(c, r->algorithm, text), "%s", text);
    for (int i = 0; i < b->arrays.count; i++) {
        oracle_array *a = &b->arrays.list[i];
        SUCCEEDS(clattn_buffer_upload(a->buffer, 0, a->before, a->bytes));
    }
}

static oracle_case *exact_case(const oracle_config *config, clattn_dtype dtype, uint64_t seed) {
    char text[ORACLE_TEXT] = "";
    oracle_config typed = *config;
    typed.dtype = dtype;
    typed.seed = seed;
    oracle_case *c = oracle_make(&typed);
    cr_assert(oracle_exact(c, text), "%s", text);
    return c;
}

/* ---- plans ---- */

static void executes_often(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = exact_case(&usual, dtype, 11);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    for (int n = 0; n < 3; n++) {
        SUCCEEDS(clattn_plan_execute(plan, NULL));
        judge(c, r, &b);
    }
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_is_executed_as_often_as_one_likes) { on_each(executes_often); }

/* Lengths and offsets are the plan's, so the second case has those of the first. */
static void other_tensors(const oracle_runner *r, clattn_dtype dtype) {
    char text[ORACLE_TEXT] = "";
    oracle_config plain = usual;
    plain.lengths = false;
    oracle_case *one = exact_case(&plain, dtype, 21), *two = exact_case(&plain, dtype, 22);
    memcpy(two->offsets, one->offsets, 2 * sizeof *one->offsets);
    cr_assert(oracle_exact(two, text), "%s", text);
    two->config.guard = 31;
    bound first = bind(one, r), second = bind(two, r);
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_plan_create(r->context, &first.args, &plan));
    SUCCEEDS(clattn_plan_execute(plan, &second.args));
    judge(two, r, &second);
    SUCCEEDS(clattn_plan_execute(plan, &first.args));
    judge(one, r, &first);
    clattn_attention_args only_tensors = second.args;
    only_tensors.causal = false; /* not read */
    only_tensors.has_scale = true;
    only_tensors.scale = NAN;
    only_tensors.algorithm = "no such";
    SUCCEEDS(clattn_plan_execute(plan, &only_tensors));
    judge(two, r, &second);
    clattn_plan_destroy(plan);
    oracle_arrays_free(&first.arrays);
    oracle_arrays_free(&second.arrays);
    oracle_free(one);
    oracle_free(two);
}
Test(attention_api, a_plan_takes_other_tensors_of_its_layout) { on_each(other_tensors); }

static void other_layouts(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = exact_case(&usual, dtype, 31);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    clattn_attention_args args = b.args;
    args.k.stride[1]--;
    FAILS(clattn_plan_execute(plan, &args), CLATTN_E_SHAPE, "k: has another type, shape or strides than when the plan");
    args = b.args;
    args.lse = (clattn_tensor){0};
    FAILS(clattn_plan_execute(plan, &args), CLATTN_E_SHAPE, "lse: has another type, shape or strides");
    args = b.args;
    args.bias = (clattn_tensor){0};
    FAILS(clattn_plan_execute(plan, &args), CLATTN_E_SHAPE, "bias: has another type, shape or strides");
    args = b.args;
    args.o.offset = 1 << 20;
    FAILS(clattn_plan_execute(plan, &args), CLATTN_E_SHAPE, "o: reaches to byte");
    SUCCEEDS(clattn_plan_execute(plan, NULL)); /* a refusal changes nothing */
    judge(c, r, &b);
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_refuses_tensors_of_another_layout) { on_each(other_layouts); }

static void copies_arrays(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = exact_case(&usual, dtype, 41);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    int64_t lengths[2], offsets[2];
    memcpy(lengths, c->key_lengths, sizeof lengths);
    memcpy(offsets, c->offsets, sizeof offsets);
    b.args.key_lengths = lengths;
    b.args.offsets = offsets;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    memset(lengths, 0x55, sizeof lengths);
    memset(offsets, 0x55, sizeof offsets);
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    judge(c, r, &b);
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_keeps_its_own_lengths_and_offsets) { on_each(copies_arrays); }

/* ---- asking ---- */

static void explains(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .B = 2, .H = 4, .Hk = 2, .N = 5, .M = 7, .D = 8, .Dv = 6};
    oracle_case *c = oracle_make(&config);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    cr_expect(strstr(clattn_plan_explain(plan), r->algorithm), "%s", clattn_plan_explain(plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_str_eq(info.algorithm, r->algorithm);
    cr_expect_eq(info.operations, 2.0 * 2 * 4 * 5 * 7 * (8 + 6));
    cr_expect_eq(info.moved_bytes, (2.0 * 4 * 5 + 2.0 * 2 * 7) * (8 + 6) * (double)clattn_dtype_size(dtype));
    cr_expect_leq(info.largest_bytes, info.workspace_bytes);
    clattn_plan_destroy(plan);
    plan = NULL;
    b.args.causal = true;
    b.args.align = CLATTN_ALIGN_BOTTOM_RIGHT; /* 3 4 5 6 7 keys */
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_eq(info.operations, 2.0 * 2 * 4 * (3 + 4 + 5 + 6 + 7) * (8 + 6));
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_tells_its_algorithm_and_its_costs) { on_each(explains); }

static void chooses(const oracle_runner *r, clattn_dtype dtype) {
    const oracle_config config = {.dtype = dtype, .N = 3, .D = 4};
    oracle_case *c = oracle_make(&config);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    b.args.algorithm = NULL;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    for (size_t i = 0; i < clattn_algorithm_count(); i++) {
        char line[100];
        const bool chosen = strcmp(clattn_algorithm_name(i), info.algorithm) == 0;
        snprintf(line, sizeof line, "%s %s: ", chosen ? "algorithm" : "not", clattn_algorithm_name(i));
        const char *at = strstr(clattn_plan_explain(plan), line);
        cr_expect(at && at[strlen(line)] != '\n', "no \"%s\" with a reason in:\n%s", line, clattn_plan_explain(plan));
    }
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_without_a_name_says_why_not_the_others) { on_each(chooses); }

Test(attention_api, the_table_of_algorithms_ends_with_null) {
    const size_t n = clattn_algorithm_count();
    cr_assert_geq(n, 5);
    for (size_t i = 0; i < n; i++) {
        cr_expect_gt(strlen(clattn_algorithm_name(i)), 0);
        cr_expect_gt(strlen(clattn_algorithm_summary(i)), 0);
        for (size_t j = 0; j < i; j++)
            cr_expect_str_neq(clattn_algorithm_name(i), clattn_algorithm_name(j));
    }
    cr_expect_null(clattn_algorithm_name(n));
    cr_expect_null(clattn_algorithm_summary(n));
}

/* ---- workspace ---- */

/* Transposed tensors need copies wherever a kernel wants a last stride of 1. */
static void own_workspace(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = usual;
    config.layout = ORACLE_TRANSPOSED;
    oracle_case *c = exact_case(&config, dtype, 51);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    clattn_buffer *workspace = NULL, *small = NULL, *foreign = NULL;
    clattn_context *other = NULL;
    clattn_plan_info info;
    b.args.caller_workspace = true;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    FAILS(clattn_attention(r->context, &b.args), CLATTN_E_ARGUMENT, "caller_workspace: is for plans");
    SUCCEEDS(clattn_context_create("cpu", NULL, &other));
    SUCCEEDS(clattn_buffer_create(other, info.workspace_bytes, &foreign));
    FAILS(clattn_plan_set_workspace(plan, foreign), CLATTN_E_ARGUMENT, "belongs to another context");
    if (strstr(clattn_plan_explain(plan), "scratch:")) {
        FAILS(clattn_plan_execute(plan, NULL), CLATTN_E_ARGUMENT, "made with caller_workspace and has none; give");
        SUCCEEDS(clattn_buffer_create(r->context, 16, &small));
        FAILS(clattn_plan_set_workspace(plan, small), CLATTN_E_LIMIT, "a buffer of 16 bytes, and the plan needs");
    }
    SUCCEEDS(clattn_buffer_create(r->context, info.workspace_bytes, &workspace));
    SUCCEEDS(clattn_plan_set_workspace(plan, workspace));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    judge(c, r, &b);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(workspace);
    clattn_buffer_destroy(small);
    clattn_buffer_destroy(foreign);
    clattn_context_destroy(other);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_works_in_the_callers_workspace) { on_each(own_workspace); }

static void limited_workspace(const oracle_runner *r, clattn_dtype dtype) {
    oracle_config config = usual;
    config.layout = ORACLE_TRANSPOSED;
    config.lengths = config.causal = false; /* no small buffers beside */
    config.align = CLATTN_ALIGN_UNSET;
    oracle_case *c = exact_case(&config, dtype, 61);
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    clattn_plan_destroy(plan);
    plan = NULL;
    if (info.workspace_bytes == 0)
        goto done;
    b.args.max_workspace = 100;
    FAILS(clattn_plan_create(r->context, &b.args, &plan), CLATTN_E_LIMIT, "above the limit of 100");
    cr_expect_null(plan);
    b.args.max_workspace = info.workspace_bytes;
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_leq(info.workspace_bytes, b.args.max_workspace);
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    judge(c, r, &b);
done:
    clattn_plan_destroy(plan);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_limit_of_the_workspace_is_kept_or_refused) { on_each(limited_workspace); }

static void gives_back(const oracle_runner *r, clattn_dtype dtype) {
    oracle_case *c = exact_case(&usual, dtype, 71);
    uint64_t before, during, after, peak;
    bound b = bind(c, r);
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    clattn_context_memory_reset(r->context);
    clattn_context_memory(r->context, &before, &peak);
    SUCCEEDS(clattn_plan_create(r->context, &b.args, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    clattn_context_memory(r->context, &during, &peak);
    cr_expect_leq(during - before, info.workspace_bytes, "%s", r->algorithm);
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    clattn_plan_destroy(plan);
    clattn_context_memory(r->context, &after, &peak);
    cr_expect_eq(after, before, "%s", r->algorithm);
    cr_expect_leq(peak - before, info.workspace_bytes, "%s", r->algorithm);
    oracle_arrays_free(&b.arrays);
    oracle_free(c);
}
Test(attention_api, a_plan_takes_what_it_says_and_gives_it_back) { on_each(gives_back); }
