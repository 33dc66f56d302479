/* SPDX-License-Identifier: Apache-2.0 */
/* Weights in pages and sequences, in plans, of nothing, and in calls that are wrong. */
#include "weights_cases.h"

/* ---- errors ---- */

typedef struct {
    float q[2 * 4 * 5 * 3], k[2 * 2 * 7 * 3], v[2 * 2 * 7 * 3], o[2 * 4 * 5 * 3], w[2 * 4 * 5 * 7];
    clattn_attention_args args;
} small;

static clattn_tensor host(void *data, int rank, const int64_t *shape) {
    return clattn_tensor_host(data, CLATTN_F32, rank, shape);
}

/* b2 h4/2 n5 m7 d3 with all weights. */
static small *make_small(void) {
    static const int64_t q[4] = {2, 4, 5, 3}, k[4] = {2, 2, 7, 3}, w[4] = {2, 4, 5, 7};
    small *s = weights_room(1, sizeof *s);
    for (int i = 0; i < 2 * 4 * 5 * 3; i++)
        s->q[i] = 0.1f * (float)(i % 7);
    for (int i = 0; i < 2 * 2 * 7 * 3; i++)
        s->k[i] = s->v[i] = 0.2f * (float)(i % 11);
    s->args = (clattn_attention_args){
        .q = host(s->q, 4, q), .k = host(s->k, 4, k), .v = host(s->v, 4, k), .o = host(s->o, 4, q)};
    s->args.weights = host(s->w, 4, w);
    return s;
}

static void fails(const clattn_attention_args *a, clattn_status code, const char *part) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &context));
    FAILS(clattn_attention(context, a), code, part);
    clattn_context_destroy(context);
}

Test(weights_calls, options_that_do_not_fit_are_named_with_the_remedy) {
    small *s = make_small();
    const int64_t twice[3] = {1, 3, 1}, far[2] = {0, 5}, below[1] = {-1}, row[3] = {2, 4, 6}, mean[4] = {2, 1, 5, 7};
    float sums[2 * 4 * 7];
    clattn_attention_args a = s->args;
    a.weights_form = (clattn_weights_form)4;
    fails(&a, CLATTN_E_ARGUMENT, "weights_form: 4 is none of the forms, 0 to 3");
    a = s->args;
    a.weights_mean = true;
    fails(&a, CLATTN_E_SHAPE, "weights [2, 4, 5, 7]: should be [2, 1, 5, 7]");
    a.weights_form = CLATTN_WEIGHTS_SCALED;
    a.weights = host(s->w, 4, mean);
    fails(&a, CLATTN_E_ARGUMENT, "weights_mean: with weights_form 1; only weights after the softmax (form 0)");
    a = s->args;
    a.weights_queries = twice;
    a.weights_query_count = 3;
    fails(&a, CLATTN_E_ARGUMENT, "weights_queries: 1 is there twice, the second time at entry 2; list each once");
    a.weights_query_count = 2;
    fails(&a, CLATTN_E_SHAPE, "weights [2, 4, 5, 7]: should be [2, 4, 2, 7]");
    a.weights_queries = far;
    fails(&a, CLATTN_E_SHAPE, "weights_queries: entry 1 is 5, outside 0 to 4");
    a.weights_queries = NULL;
    fails(&a, CLATTN_E_ARGUMENT, "weights_queries: is NULL, and its count 2");
    a = s->args;
    a.weights_heads = below;
    a.weights_head_count = 1;
    fails(&a, CLATTN_E_SHAPE, "weights_heads: entry 0 is -1, outside 0 to 3");
    a.weights_head_count = -1;
    fails(&a, CLATTN_E_ARGUMENT, "weights_heads: a count of -1 is negative");
    a.weights_head_count = 0;
    a.weights_mean = true;
    fails(&a, CLATTN_E_ARGUMENT, "weights_heads: lists no head, and weights_mean needs one");
    a = s->args;
    a.weights = (clattn_tensor){0};
    a.weights_form = CLATTN_WEIGHTS_MASKED;
    fails(&a, CLATTN_E_ARGUMENT, "weights: are missing, and weights_form");
    a = s->args;
    a.column_sums = host(sums, 3, row);
    fails(&a, CLATTN_E_SHAPE, "column_sums [2, 4, 6]: should be [2, 4, 7]");
    a.column_sums = (clattn_tensor){0};
    a.entropy = host(sums, 3, row);
    fails(&a, CLATTN_E_SHAPE, "entropy [2, 4, 6]: should be [2, 4, 5]");
    a.entropy = host(s->w, 3, (const int64_t[3]){2, 4, 5});
    fails(&a, CLATTN_E_ARGUMENT, "weights: lies over entropy");
    a.weights = (clattn_tensor){0};
    a.entropy.dtype = CLATTN_F64;
    fails(&a, CLATTN_E_DTYPE, "entropy: is f64, but the sums here are f32");
    free(s);
}

/* ---- nothing to see ---- */

Test(weights_calls, without_keys_sums_are_empty_and_entropy_is_zero) {
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    const int64_t k[4] = {1, 2, 0, 3}, q[4] = {1, 2, 4, 3}, none[3] = {1, 2, 0}, rows[3] = {1, 2, 4};
    const int64_t lengths[1] = {0}, some[4] = {1, 2, 5, 3}, columns[3] = {1, 2, 5}, w[4] = {1, 2, 4, 5};
    float x[64] = {0}, o[24], entropy[8], sums[10], weights[40];
    for (size_t r = 0; r < count; r++) {
        clattn_attention_args a = {.q = host(x, 4, q),
                                   .k = host(x, 4, k),
                                   .v = host(x, 4, k),
                                   .o = host(o, 4, q),
                                   .column_sums = host(sums, 3, none),
                                   .entropy = host(entropy, 3, rows),
                                   .algorithm = runners[r].algorithm};
        memset(entropy, 0xff, sizeof entropy);
        SUCCEEDS(clattn_attention(runners[r].context, &a));
        for (int i = 0; i < 8; i++)
            cr_expect_eq(entropy[i], 0, "%s", a.algorithm);
        /* Keys that no query sees: everything is 0, and -inf before the softmax. */
        a.k = a.v = host(x, 4, some);
        a.key_lengths = lengths;
        a.column_sums = host(sums, 3, columns);
        a.weights = host(weights, 4, w);
        for (int form = 0; form < 4; form += 3) {
            memset(sums, 0xff, sizeof sums);
            memset(entropy, 0xff, sizeof entropy);
            a.weights_form = (clattn_weights_form)form;
            SUCCEEDS(clattn_attention(runners[r].context, &a));
            for (int i = 0; i < 40; i++)
                cr_expect_eq(weights[i], form ? -INFINITY : 0, "%s: %g", a.algorithm, (double)weights[i]);
            for (int i = 0; i < 10; i++)
                cr_expect_eq(sums[i], 0, "%s: %g", a.algorithm, (double)sums[i]);
            for (int i = 0; i < 8; i++)
                cr_expect_eq(entropy[i], 0, "%s: %g", a.algorithm, (double)entropy[i]);
        }
    }
    cr_expect_geq(count, 2);
    oracle_close(runners, count);
}

/* ---- pages ---- */

static float noise(oracle_random *random) { return (float)oracle_normal(random); }

Test(weights_calls, pages_give_what_one_piece_gives) {
    enum { B = 2, H = 2, N = 3, M = 12, D = 8, PAGE = 4, PAGES = 9, TABLE = 3 };
    static float q[B * H * N * D], k[B * M * D], pages[PAGES * PAGE * D], o[B * H * N * D], sums[2][B * H * M];
    static float w[2][B * H * N * M], entropy[2][B * H * N];
    const int64_t lengths[B] = {11, 5}, qs[4] = {B, H, N, D}, ks[4] = {B, 1, M, D}, ps[4] = {PAGES, 1, PAGE, D};
    const int64_t ws[4] = {B, H, N, M}, cs[3] = {B, H, M}, es[3] = {B, H, N};
    const int32_t table[B * TABLE] = {7, 2, 5, 0, 8, -1};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    oracle_random random = {77};
    for (int i = 0; i < B * H * N * D; i++)
        q[i] = noise(&random);
    memset(pages, 0xff, sizeof pages); /* NaN */
    for (int x = 0; x < B * M * D; x++) {
        const int b = x / (M * D), j = x / D % M;
        k[x] = noise(&random);
        if (j < lengths[b])
            pages[(table[b * TABLE + j / PAGE] * PAGE + j % PAGE) * D + x % D] = k[x];
    }
    for (size_t r = 0; r < count; r++)
        for (int form = 0; form < 4; form++) {
            for (int paged = 0; paged < 2; paged++) {
                const clattn_tensor keys = paged ? host(pages, 4, ps) : host(k, 4, ks);
                const clattn_attention_args a = {.q = host(q, 4, qs),
                                                 .k = keys,
                                                 .v = keys,
                                                 .o = host(o, 4, qs),
                                                 .weights = host(w[paged], 4, ws),
                                                 .weights_form = (clattn_weights_form)form,
                                                 .column_sums = host(sums[paged], 3, cs),
                                                 .entropy = host(entropy[paged], 3, es),
                                                 .key_lengths = lengths,
                                                 .block_table = paged ? table : NULL,
                                                 .table_pages = paged ? TABLE : 0,
                                                 .softcap = 2,
                                                 .algorithm = runners[r].algorithm};
                SUCCEEDS(clattn_attention(runners[r].context, &a));
            }
            for (int x = 0; x < B * H * N * M; x++) {
                const bool past = x % M >= lengths[x / (H * N * M)];
                const float right = past ? (form ? -INFINITY : 0) : w[0][x];
                cr_expect(right == w[1][x] || fabsf(right - w[1][x]) < 1e-6f, "%s, form %d, element %d: %g, not %g",
                          runners[r].algorithm, form, x, (double)w[1][x], (double)right);
            }
            for (int x = 0; x < B * H * M; x++)
                cr_expect_float_eq(sums[0][x], sums[1][x], 2e-6, "%s: column %d", runners[r].algorithm, x);
            for (int x = 0; x < B * H * N; x++)
                cr_expect_float_eq(entropy[0][x], entropy[1][x], 2e-6, "%s: row %d", runners[r].algorithm, x);
        }
    cr_expect_geq(count, 2);
    oracle_close(runners, count);
}

/* ---- sequences ---- */

Test(weights_calls, sums_of_sequences_are_those_of_each_alone) {
    enum { H = 2, Q = 130, K = 171, D = 8, SEQUENCES = 3 };
    static float q[H * Q * D], k[K * D], o[H * Q * D], sums[H * K], entropy[H * Q], s[H * K], e[H * Q];
    const int64_t cu_q[SEQUENCES + 1] = {0, 60, 60, 120}, cu_k[SEQUENCES + 1] = {0, 70, 80, 170};
    const int64_t lengths[SEQUENCES] = {61, 10, 90};
    const int64_t qs[4] = {1, H, Q, D}, ks[4] = {1, 1, K, D}, cs[3] = {1, H, K}, es[3] = {1, H, Q};
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    oracle_random random = {78};
    for (int i = 0; i < H * Q * D; i++)
        q[i] = noise(&random);
    for (int i = 0; i < K * D; i++)
        k[i] = noise(&random);
    for (size_t r = 0; r < count; r++) {
        clattn_attention_args a = {.q = host(q, 4, qs),
                                   .k = host(k, 4, ks),
                                   .v = host(k, 4, ks),
                                   .o = host(o, 4, qs),
                                   .column_sums = host(sums, 3, cs),
                                   .entropy = host(entropy, 3, es),
                                   .sequences = SEQUENCES,
                                   .cu_queries = cu_q,
                                   .cu_keys = cu_k,
                                   .key_lengths = lengths,
                                   .causal = true,
                                   .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                   .algorithm = runners[r].algorithm};
        for (int i = 0; i < H * K; i++)
            sums[i] = 77;
        for (int i = 0; i < H * Q; i++)
            entropy[i] = 77;
        SUCCEEDS(clattn_attention(runners[r].context, &a));
        for (int x = 0; x < SEQUENCES; x++) {
            const int64_t n = cu_q[x + 1] - cu_q[x], m = cu_k[x + 1] - cu_k[x];
            clattn_attention_args one = a;
            one.sequences = 0;
            one.cu_queries = one.cu_keys = NULL;
            one.key_lengths = &lengths[x];
            one.q = clattn_tensor_slice(a.q, 2, cu_q[x], n);
            one.o = clattn_tensor_slice(a.o, 2, cu_q[x], n);
            one.k = one.v = clattn_tensor_slice(a.k, 2, cu_k[x], m);
            one.column_sums = host(s, 3, (const int64_t[3]){1, H, m});
            one.entropy = host(e, 3, (const int64_t[3]){1, H, n});
            memset(s, 0, sizeof s); /* no query: the sums are 0, and nothing is written */
            SUCCEEDS(clattn_attention(runners[r].context, &one));
            for (int64_t h = 0; h < H; h++) {
                for (int64_t j = 0; j < m; j++)
                    cr_expect_float_eq(sums[h * K + cu_k[x] + j], s[h * m + j], 1e-5, "%s: key %lld of sequence %d",
                                       a.algorithm, (long long)j, x);
                for (int64_t i = 0; i < n; i++)
                    cr_expect_float_eq(entropy[h * Q + cu_q[x] + i], e[h * n + i], 5e-6,
                                       "%s: query %lld of sequence %d", a.algorithm, (long long)i, x);
            }
        }
        for (int64_t h = 0; h < H; h++) /* rows of no sequence stay */
            cr_expect(sums[h * K + K - 1] == 77 && entropy[h * Q + Q - 1] == 77, "%s", a.algorithm);
    }
    cr_expect_geq(count, 2);
    oracle_close(runners, count);
}

/* ---- plans ---- */

Test(weights_calls, a_plan_names_the_pass_and_needs_no_scores) {
    enum { H = 2, N = 900, M = 1000, D = 8 };
    const int64_t shapes[4][4] = {{1, H, N, D}, {1, H, M, D}, {1, H, 1, M}, {1, 1, H, M}};
    const int64_t query = 5;
    oracle_runner runners[ORACLE_RUNNERS];
    const size_t count = oracle_open(runners);
    int passes = 0;
    for (size_t r = 0; r < count; r++) {
        if (strncmp(runners[r].algorithm, "fused", 5) != 0)
            continue;
        clattn_buffer *buffers[4] = {NULL}, *o = NULL;
        clattn_tensor views[4];
        for (int i = 0; i < 4; i++) {
            SUCCEEDS(clattn_buffer_create(runners[r].context, sizeof(float) * H * M * D, &buffers[i]));
            views[i] = clattn_tensor_buffer(buffers[i], CLATTN_F32, 4, shapes[i]);
        }
        SUCCEEDS(clattn_buffer_create(runners[r].context, sizeof(float) * H * N * D, &o));
        const clattn_attention_args a = {.q = views[0],
                                         .k = views[1],
                                         .v = views[1],
                                         .o = clattn_tensor_buffer(o, CLATTN_F32, 4, shapes[0]),
                                         .weights = views[2],
                                         .weights_queries = &query,
                                         .weights_query_count = 1,
                                         .column_sums = clattn_tensor_buffer(buffers[3], CLATTN_F32, 3, shapes[3] + 1),
                                         .algorithm = runners[r].algorithm};
        clattn_plan *plan = NULL;
        clattn_plan_info info;
        SUCCEEDS(clattn_plan_create(runners[r].context, &a, &plan));
        SUCCEEDS(clattn_plan_info_get(plan, &info));
        cr_expect(strstr(clattn_plan_explain(plan), "weights: a pass of their own over q and k"), "%s",
                  clattn_plan_explain(plan));
        cr_expect(strstr(clattn_plan_explain(plan), "bytes for the maximum and sum of each row of weights"), "%s",
                  clattn_plan_explain(plan));
        cr_expect(strstr(clattn_plan_explain(plan), "column sums of chunks of queries"), "%s",
                  clattn_plan_explain(plan));
        cr_expect_lt(info.workspace_bytes, sizeof(float) * H * N * M / 10, "%s: %zu", a.algorithm,
                     info.workspace_bytes);
        clattn_plan_destroy(plan);
        for (int i = 0; i < 4; i++)
            clattn_buffer_destroy(buffers[i]);
        clattn_buffer_destroy(o);
        passes++;
    }
    cr_expect_geq(passes, 1);
    oracle_close(runners, count);
}

/* What a plan computes: the row `query` of weights, and column sums. */
typedef struct {
    clattn_context *context;
    clattn_buffer *q, *k, *o, *weights[2], *sums;
    clattn_attention_args args;
} planned;

enum { PLAN_H = 2, PLAN_N = 900, PLAN_M = 40, PLAN_D = 8 };
static const int64_t planned_query = 5;

static planned make_planned(const char *algorithm) {
    const int64_t q[4] = {1, PLAN_H, PLAN_N, PLAN_D}, k[4] = {1, PLAN_H, PLAN_M, PLAN_D}, w[4] = {1, PLAN_H, 1, PLAN_M};
    const int64_t sums[3] = {1, PLAN_H, PLAN_M};
    static float numbers[PLAN_H * PLAN_N * PLAN_D];
    planned p = {0};
    oracle_random random = {79};
    for (int i = 0; i < PLAN_H * PLAN_N * PLAN_D; i++)
        numbers[i] = noise(&random);
    SUCCEEDS(clattn_context_create("opencl", NULL, &p.context));
    SUCCEEDS(clattn_buffer_create(p.context, sizeof numbers, &p.q));
    SUCCEEDS(clattn_buffer_upload(p.q, 0, numbers, sizeof numbers));
    SUCCEEDS(clattn_buffer_create(p.context, sizeof numbers, &p.o));
    SUCCEEDS(clattn_buffer_create(p.context, sizeof(float) * PLAN_H * PLAN_M * PLAN_D, &p.k));
    SUCCEEDS(clattn_buffer_upload(p.k, 0, numbers, sizeof(float) * PLAN_H * PLAN_M * PLAN_D));
    for (int i = 0; i < 2; i++)
        SUCCEEDS(clattn_buffer_create(p.context, sizeof(float) * PLAN_H * PLAN_M, &p.weights[i]));
    SUCCEEDS(clattn_buffer_create(p.context, sizeof(float) * PLAN_H * PLAN_M, &p.sums));
    p.args = (clattn_attention_args){.q = clattn_tensor_buffer(p.q, CLATTN_F32, 4, q),
                                     .k = clattn_tensor_buffer(p.k, CLATTN_F32, 4, k),
                                     .o = clattn_tensor_buffer(p.o, CLATTN_F32, 4, q),
                                     .weights = clattn_tensor_buffer(p.weights[0], CLATTN_F32, 4, w),
                                     .weights_queries = &planned_query,
                                     .weights_query_count = 1,
                                     .column_sums = clattn_tensor_buffer(p.sums, CLATTN_F32, 3, sums),
                                     .algorithm = algorithm};
    p.args.v = p.args.k;
    return p;
}

static void free_planned(planned *p) {
    clattn_buffer *const all[] = {p->q, p->k, p->o, p->weights[0], p->weights[1], p->sums};
    for (int i = 0; i < 6; i++)
        clattn_buffer_destroy(all[i]);
    clattn_context_destroy(p->context);
}

static void execute(planned *p, const clattn_attention_args *tensors, bool small_scratch, int into, float *numbers) {
    clattn_attention_args a = p->args;
    clattn_plan *plan = NULL;
    if (small_scratch) /* the rows' maxima and sums, and little else */
        a.max_workspace = sizeof(float) * 2 * PLAN_H * PLAN_N + 600;
    SUCCEEDS(clattn_plan_create(p->context, &a, &plan));
    cr_expect_eq(strstr(clattn_plan_explain(plan), "chunks of queries") == NULL, small_scratch, "%s",
                 clattn_plan_explain(plan));
    SUCCEEDS(clattn_plan_execute(plan, tensors));
    SUCCEEDS(clattn_buffer_download(p->weights[into], 0, numbers, sizeof(float) * PLAN_H * PLAN_M));
    SUCCEEDS(clattn_buffer_download(p->sums, 0, numbers + PLAN_H * PLAN_M, sizeof(float) * PLAN_H * PLAN_M));
    clattn_plan_destroy(plan);
}

Test(weights_calls, a_plan_takes_other_buffers_and_little_scratch) {
    static const char *const names[] = {"fused_lanes", "fused_split", "fused_tiles"};
    enum { COUNT = 2 * PLAN_H * PLAN_M };
    for (int n = 0; n < 3; n++) {
        float first[COUNT], other[COUNT], little[COUNT];
        planned p = make_planned(names[n]);
        clattn_attention_args tensors = p.args;
        tensors.weights.buffer = p.weights[1];
        execute(&p, NULL, false, 0, first);
        execute(&p, &tensors, false, 1, other);
        execute(&p, NULL, true, 0, little);
        cr_expect_arr_eq(first, other, sizeof first, "%s", names[n]);
        for (int h = 0; h < PLAN_H; h++) {
            float row = 0, all = 0;
            for (int j = 0; j < PLAN_M; j++) {
                row += first[h * PLAN_M + j];
                all += first[(PLAN_H + h) * PLAN_M + j];
                cr_expect_float_eq(first[(PLAN_H + h) * PLAN_M + j], little[(PLAN_H + h) * PLAN_M + j], 1e-4);
            }
            cr_expect_float_eq(row, 1, 1e-6, "%s: %g", names[n], (double)row);
            cr_expect_float_eq(all, PLAN_N, 1e-3, "%s: %g", names[n], (double)all);
        }
        free_planned(&p);
    }
}
