/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `fused_split` against the oracle and `reference`: sizes around its blocks, splits without keys, options,
 * types, poison, and when it is chosen. */
#include "algo_checks.h"

static const char name[] = "fused_split";

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("there is no OpenCL device");
    return context;
}

/* ---- sizes and masks ---- */

static oracle_config random_config(oracle_random *random, int64_t N, int64_t M) {
    static const int64_t heads[][2] = {{1, 1}, {4, 2}, {6, 2}, {8, 1}}, dims[] = {1, 5, 8, 16, 33, 64, 100};
    static const oracle_mask masks[] = {{2, 3}, {3, 5}, {4, 9}, {4, 15}, {2, 1}, {4, 14}};
    const int64_t *h = heads[oracle_below(random, 4)];
    oracle_config c = {.B = 1 + oracle_below(random, 2),
                       .H = h[0],
                       .Hk = h[1],
                       .N = N,
                       .M = M,
                       .D = dims[oracle_below(random, 7)],
                       .Dv = dims[oracle_below(random, 7)],
                       .layout = (oracle_layout)oracle_below(random, ORACLE_LAYOUTS),
                       .guard = 13,
                       .lse = true,
                       .buffers = oracle_below(random, 2) == 1,
                       .seed = oracle_next(random)};
    c.causal = oracle_below(random, 3) == 0;
    c.has_window = oracle_below(random, 4) == 0;
    c.window_left = oracle_below(random, 90);
    c.window_right = oracle_below(random, 90);
    c.align = (clattn_align)(CLATTN_ALIGN_TOP_LEFT + oracle_below(random, 3));
    c.lengths = oracle_below(random, 3) == 0;
    if (oracle_below(random, 4) == 0)
        c.keep = masks[oracle_below(random, 6)];
    if (oracle_below(random, 5) == 0)
        c.drop = masks[oracle_below(random, 6)];
    if (oracle_below(random, 4) == 0)
        c.bias = masks[oracle_below(random, 6)];
    return c;
}

Test(algo_fused_split, sizes_around_every_block_with_every_mask) {
    static const int64_t queries[] = {1, 2, 3, 4, 5, 7, 16, 17},
                         keys[] = {1, 7, 8, 15, 16, 17, 63, 64, 65, 130, 600, 2049};
    clattn_context *context = open_device();
    oracle_random random = {3};
    for (size_t n = 0; n < sizeof queries / sizeof *queries; n++)
        for (size_t m = 0; m < sizeof keys / sizeof *keys; m++)
            checks_problem(context, name, random_config(&random, queries[n], keys[m]));
    clattn_context_destroy(context);
}

Test(algo_fused_split, head_dims_above_what_a_work_item_holds) {
    clattn_context *context = open_device();
    const oracle_config configs[] = {
        {.N = 3, .M = 70, .D = 9000, .lse = true},
        {.N = 2, .M = 600, .D = 3, .Dv = 8200, .lse = true, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
        {.H = 8, .Hk = 1, .N = 3, .M = 90, .D = 1000, .Dv = 513, .lse = true}};
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        checks_problem(context, name, configs[i]);
    clattn_context_destroy(context);
}

/* ---- poison and rules ---- */

Test(algo_fused_split, poison_under_masks_stays_there) {
    clattn_context *context = open_device();
    const oracle_config configs[] = {
        {.N = 5, .M = 9, .D = 4, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
        {.B = 2, .H = 4, .Hk = 2, .N = 7, .M = 41, .D = 8, .Dv = 20, .keep = {4, 15}, .lse = true},
        {.H = 2, .N = 19, .M = 600, .D = 16, .bias = {3, 7}, .lse = true, .layout = ORACLE_BSHD},
        {.H = 3, .Hk = 1, .N = 1, .M = 2100, .D = 8, .drop = {3, 5}, .lse = true},
        {.N = 2, .M = 3, .D = 1, .drop = {2, 3}},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++) {
        checks_poison_value(context, name, &configs[i], NAN);
        checks_poison_value(context, name, &configs[i], INFINITY);
        checks_poison_value(context, name, &configs[i], -INFINITY);
        checks_poison_key(context, name, &configs[i]);
    }
    clattn_context_destroy(context);
}

Test(algo_fused_split, infinite_scores_and_rows_without_a_key) {
    clattn_context *context = open_device();
    const float two[2] = {10, 20}, one[1] = {1}, top = -3.4028235e38f;
    const struct {
        float keys[2], bias[2], o;
    } cases[] = {
        {{-INFINITY, 1}, {0, 0}, 20},   {{INFINITY, 1}, {0, 0}, NAN}, {{-INFINITY, -INFINITY}, {0, 0}, 0},
        {{NAN, 1}, {-INFINITY, 0}, 20}, {{NAN, 1}, {0, 0}, NAN},      {{1, 1}, {-INFINITY, -INFINITY}, 0},
        {{1, 1}, {top, 0}, 20},         {{1, 1}, {top, top}, 15},     {{INFINITY, 1}, {-INFINITY, 0}, 20},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float o[1], lse[1];
        const checks_call c = {1, 2, 1, 1, one, cases[i].keys, two, NULL, cases[i].bias, o, lse, NULL};
        clattn_attention_args a = checks_args(&c);
        a.algorithm = name;
        SUCCEEDS(clattn_attention(context, &a));
        cr_expect(checks_equal(o[0], cases[i].o), "case %d: %g, expected %g", (int)i, o[0], cases[i].o);
        cr_expect(cases[i].o != 0 || lse[0] == -INFINITY);
    }
    clattn_context_destroy(context);
}

Test(algo_fused_split, the_exponential_is_exact_enough_for_two_keys) {
    clattn_context *context = open_device();
    checks_exponential(context, name);
    clattn_context_destroy(context);
}

Test(algo_fused_split, rows_that_overlap) {
    clattn_context *context = open_device();
    checks_shared_rows(context, name);
    clattn_context_destroy(context);
}

/* ---- splits ---- */

enum { KEYS = 2048, D = 16 };

typedef struct {
    float q[2 * D], k[KEYS * D], v[KEYS * D], o[2 * D], lse[2];
} arrays;

/* Two heads of one query and `rows` rows of keys, of which `keys` count. */
static void run(clattn_context *context, arrays *x, int64_t rows, int64_t keys, bool invariant) {
    const int64_t q[] = {1, 2, 1, D}, k[] = {1, 1, rows, D};
    const clattn_attention_args a = {.q = clattn_tensor_host(x->q, CLATTN_F32, 4, q),
                                     .k = clattn_tensor_host(x->k, CLATTN_F32, 4, k),
                                     .v = clattn_tensor_host(x->v, CLATTN_F32, 4, k),
                                     .o = clattn_tensor_host(x->o, CLATTN_F32, 4, q),
                                     .lse = clattn_tensor_host(x->lse, CLATTN_F32, 3, q),
                                     .key_lengths = &keys,
                                     .batch_invariant = invariant,
                                     .algorithm = name};
    memset(x->o, 0xff, sizeof x->o);
    memset(x->lse, 0xff, sizeof x->lse);
    SUCCEEDS(clattn_attention(context, &a));
}

static void fill(arrays *x, int keys) {
    oracle_random random = {9};
    for (int i = 0; i < 2 * D; i++)
        x->q[i] = (float)oracle_normal(&random);
    for (int i = 0; i < KEYS * D; i++) {
        x->k[i] = i < keys * D ? (float)oracle_normal(&random) : NAN;
        x->v[i] = i < keys * D ? (float)oracle_normal(&random) : NAN;
    }
}

/* 4 splits of 512 keys with batch_invariant, else as many as the device has cores for. */
Test(algo_fused_split, A11_splits_without_keys_change_nothing) {
    static const int lengths[] = {1, 5, 511, 512, 513, 1100, 2047};
    clattn_context *context = open_device();
    arrays *one = malloc(sizeof *one), *many = malloc(sizeof *many);
    for (int invariant = 0; invariant < 2; invariant++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            fill(one, lengths[i]);
            fill(many, lengths[i]);
            run(context, one, lengths[i], lengths[i], invariant);
            run(context, many, KEYS, lengths[i], invariant);
            for (int d = 0; d < 2 * D; d++)
                cr_expect(fabsf(one->o[d] - many->o[d]) <= (lengths[i] > 256 ? 1e-6f : 2.4e-7f * fabsf(one->o[d])),
                          "%d keys, lane %d: %.9g and %.9g", lengths[i], d, one->o[d], many->o[d]);
            cr_expect(fabsf(one->lse[1] - many->lse[1]) <=
                      2.4e-7f * fabsf(one->lse[1]) + (lengths[i] > 256 ? 1e-6f : 0));
            if (invariant)
                cr_expect(memcmp(one->o, many->o, sizeof one->o) == 0 && one->lse[0] == many->lse[0]);
        }
    free(one);
    free(many);
    clattn_context_destroy(context);
}

static bool is_minus_infinity(float x) {
    const uint32_t expected = 0xff800000U;
    return memcmp(&x, &expected, sizeof x) == 0;
}

Test(algo_fused_split, A11_no_key_at_all_is_zero_and_minus_infinity) {
    clattn_context *context = open_device();
    arrays *x = malloc(sizeof *x);
    const uint32_t zero[2 * D] = {0};
    for (int invariant = 0; invariant < 2; invariant++) {
        fill(x, 0);
        run(context, x, KEYS, 0, invariant);
        cr_expect_eq(memcmp(x->o, zero, sizeof x->o), 0);
        cr_expect(is_minus_infinity(x->lse[0]) && is_minus_infinity(x->lse[1]));
    }
    free(x);
    clattn_context_destroy(context);
}

Test(algo_fused_split, A12_rows_before_the_first_key) {
    clattn_context *context = open_device();
    const float x[20] = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};
    float o[20], lse[5];
    const uint32_t zero[12] = {0};
    const checks_call c = {5, 2, 4, 4, x, x, x, NULL, NULL, o, lse, NULL};
    clattn_attention_args a = checks_args(&c);
    a.causal = true;
    a.align = CLATTN_ALIGN_BOTTOM_RIGHT;
    a.algorithm = name;
    SUCCEEDS(clattn_attention(context, &a));
    cr_expect_eq(memcmp(o, zero, sizeof zero), 0);
    for (int i = 0; i < 3; i++)
        cr_expect(is_minus_infinity(lse[i]));
    cr_expect(isfinite(lse[3]) && isfinite(lse[4]));
    clattn_context_destroy(context);
}

/* ---- types and options, against `reference` ---- */

typedef struct {
    clattn_dtype q, k, v, o;
    bool cap, slopes, sinks, segments, prefix, ragged, invariant;
} option;

enum { B = 3, H = 6, HK = 2, N = 3, M = 700, DIM = 32 };

static void *random_tensor(clattn_dtype dtype, int64_t count, uint64_t seed) {
    oracle_random random = {seed};
    double *x = malloc((size_t)count * sizeof *x);
    void *to = malloc(clattn_dtype_bytes(dtype, (size_t)count));
    for (int64_t i = 0; i < count; i++)
        x[i] = oracle_normal(&random);
    SUCCEEDS(clattn_convert(to, dtype, x, CLATTN_F64, (size_t)count));
    free(x);
    return to;
}

static void set_options(clattn_attention_args *a, const option *x, const float *sinks) {
    static const int64_t cu_queries[] = {0, 1, 3, 6}, cu_keys[] = {0, 30, 30, 650}, prefix[] = {3, 600, 0};
    static int32_t query_segments[B * N], key_segments[B * M];
    static float slopes[H];
    const int64_t heads[] = {H};
    a->causal = x->prefix;
    a->align = CLATTN_ALIGN_BOTTOM_RIGHT;
    a->prefix_lengths = x->prefix ? prefix : NULL;
    a->softcap = x->cap ? 1.5 : 0;
    a->batch_invariant = x->invariant;
    clattn_alibi_slopes(H, slopes);
    a->alibi_slopes = x->slopes ? slopes : NULL;
    if (x->sinks)
        a->sinks = clattn_tensor_host(sinks, CLATTN_F32, 1, heads);
    for (int i = 0; i < B * N; i++)
        query_segments[i] = i % 3;
    for (int i = 0; i < B * M; i++)
        key_segments[i] = i / 5 % 3;
    if (x->segments) {
        a->query_segments = query_segments;
        a->key_segments = key_segments;
    }
    if (x->ragged) {
        a->sequences = B;
        a->cu_queries = cu_queries;
        a->cu_keys = cu_keys;
    }
}

static void expect_as_reference(clattn_context *context, clattn_context *cpu, const option *x) {
    const int64_t batch = x->ragged ? 1 : B, queries = x->ragged ? 6 : N;
    const int64_t q[] = {batch, H, queries, DIM}, k[] = {batch, HK, M, DIM};
    const int64_t count = batch * H * queries * DIM, rows = count / DIM, keys = batch * HK * M * DIM;
    const float sinks[H] = {1, -INFINITY, 3, 0, -2, 8};
    void *data[3] = {random_tensor(x->q, count, 1), random_tensor(x->k, keys, 2), random_tensor(x->v, keys, 3)};
    void *o[2] = {calloc((size_t)count, 4), calloc((size_t)count, 4)};
    float *lse[2] = {calloc((size_t)rows, 4), calloc((size_t)rows, 4)};
    double *got = malloc((size_t)count * sizeof *got), *exact = malloc((size_t)count * sizeof *exact), worst = 0;
    clattn_attention_args a = {.q = clattn_tensor_host(data[0], x->q, 4, q),
                               .k = clattn_tensor_host(data[1], x->k, 4, k),
                               .v = clattn_tensor_host(data[2], x->v, 4, k)};
    set_options(&a, x, sinks);
    for (int i = 0; i < 2; i++) {
        a.o = clattn_tensor_host(o[i], x->o, 4, q);
        a.lse = clattn_tensor_host(lse[i], CLATTN_F32, 3, q);
        a.algorithm = i ? "reference" : name;
        SUCCEEDS(clattn_attention(i ? cpu : context, &a));
    }
    SUCCEEDS(clattn_convert(got, CLATTN_F64, o[0], x->o, (size_t)count));
    SUCCEEDS(clattn_convert(exact, CLATTN_F64, o[1], x->o, (size_t)count));
    for (int64_t i = 0; i < count; i++)
        worst = fmax(worst, isnan(got[i]) ? INFINITY : fabs(got[i] - exact[i]));
    const double allowed = x->o == CLATTN_F16 ? 2e-3 : x->o == CLATTN_BF16 ? 1.6e-2 : 3e-6;
    cr_expect(worst <= allowed, "types %d %d %d %d, cap %d slopes %d sinks %d segments %d prefix %d ragged %d: %g",
              x->q, x->k, x->v, x->o, x->cap, x->slopes, x->sinks, x->segments, x->prefix, x->ragged, worst);
    for (int64_t i = 0; i < rows; i++)
        cr_expect(lse[0][i] == lse[1][i] || fabsf(lse[0][i] - lse[1][i]) <= 1e-5f, "lse %d: %g and %g", (int)i,
                  lse[0][i], lse[1][i]);
    for (int i = 0; i < 3; i++)
        free(data[i]);
    for (int i = 0; i < 2; i++) {
        free(o[i]);
        free(lse[i]);
    }
    free(got);
    free(exact);
}

Test(algo_fused_split, types_and_options_as_in_the_reference) {
    static const option options[] = {
        {.q = CLATTN_F16, .k = CLATTN_F16, .v = CLATTN_F16, .o = CLATTN_F16},
        {.q = CLATTN_BF16, .k = CLATTN_BF16, .v = CLATTN_BF16, .o = CLATTN_BF16, .slopes = true},
        {.q = CLATTN_F32, .k = CLATTN_F16, .v = CLATTN_BF16, .o = CLATTN_F32, .ragged = true, .prefix = true},
        {.k = CLATTN_Q8_0, .v = CLATTN_Q8_0},
        {.k = CLATTN_Q4_0, .v = CLATTN_Q4_0, .prefix = true},
        {.k = CLATTN_Q8_0, .v = CLATTN_F32, .cap = true, .o = CLATTN_BF16},
        {.cap = true, .slopes = true, .sinks = true},
        {.sinks = true, .prefix = true, .invariant = true},
        {.segments = true, .prefix = true},
        {.ragged = true, .segments = true, .sinks = true},
        {.ragged = true, .slopes = true, .invariant = true},
        {.ragged = true, .prefix = true, .cap = true},
    };
    clattn_context *context = open_device(), *cpu = checks_open("cpu");
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        expect_as_reference(context, cpu, &options[i]);
    clattn_context_destroy(context);
    clattn_context_destroy(cpu);
}

/* ---- plans ---- */

/* A plan over one buffer for everything; the caller destroys both. */
static clattn_plan *plan_for(clattn_context *context, int64_t queries, int64_t keys, const char *algorithm,
                             size_t max_workspace, clattn_buffer **buffer) {
    const int64_t q[] = {1, 2, queries, D}, k[] = {1, 1, keys, D};
    clattn_plan *plan = NULL;
    SUCCEEDS(clattn_buffer_create(context, (size_t)(4 * queries + keys) * D * 4, buffer));
    clattn_attention_args a = {.q = clattn_tensor_buffer(*buffer, CLATTN_F32, 4, q),
                               .k = clattn_tensor_buffer(*buffer, CLATTN_F32, 4, k),
                               .v = clattn_tensor_buffer(*buffer, CLATTN_F32, 4, k),
                               .o = clattn_tensor_buffer(*buffer, CLATTN_F32, 4, q),
                               .max_workspace = max_workspace,
                               .algorithm = algorithm};
    a.o.offset = (2 * queries + keys) * D;
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    return plan;
}

static void expect_plan(clattn_context *context, int64_t queries, int64_t keys, const char *algorithm, size_t limit,
                        const char *text) {
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = plan_for(context, queries, keys, algorithm, limit, &buffer);
    cr_expect(strstr(clattn_plan_explain(plan), text), "%d queries, %d keys: no \"%s\" in %s", (int)queries, (int)keys,
              text, clattn_plan_explain(plan));
    SUCCEEDS(clattn_plan_execute(plan, NULL));
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
}

Test(algo_fused_split, is_chosen_for_few_queries_on_cpus) {
    clattn_context *context = open_device();
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(context, &info));
    if (info.device_class == CLATTN_DEVICE_CPU) {
        expect_plan(context, 1, 64, NULL, 0, "algorithm fused_split");
        expect_plan(context, 8, 4096, NULL, 0, "algorithm fused_split");
        expect_plan(context, 9, 4096, NULL, 0, "not fused_split: is for up to 16 rows a key head; here are 18");
        expect_plan(context, 1, 16, NULL, 0, "not fused_split: is for 32 keys or more; here are 16");
    } else {
        expect_plan(context, 1, 4096, NULL, 0, "not fused_split: is written for CPUs");
    }
    expect_plan(context, 9, 4096, name, 0, "algorithm fused_split: asked for by name");
    clattn_context_destroy(context);
}

Test(algo_fused_split, without_room_for_splits_there_is_one) {
    clattn_context *context = open_device();
    expect_plan(context, 1, 8192, name, 0, "scratch:");
    expect_plan(context, 1, 8192, name, 100, "no room for");
    expect_plan(context, 1, 8192, name, 100, "1 split(s)");
    clattn_context_destroy(context);
}

Test(algo_fused_split, refuses_the_cpu_context) {
    clattn_context *cpu = checks_open("cpu");
    float x[1] = {1}, o[1];
    const checks_call plain = {1, 1, 1, 1, x, x, x, NULL, NULL, o, NULL, NULL};
    clattn_attention_args a = checks_args(&plain);
    a.algorithm = name;
    FAILS(clattn_attention(cpu, &a), CLATTN_E_UNSUPPORTED, "OpenCL devices");
    clattn_context_destroy(cpu);
}
