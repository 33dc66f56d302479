/* SPDX-License-Identifier: Apache-2.0 */
/* Algorithm `materialised` against the oracle: chunks of every kind, limits, poison, the caller's queue. */
#include "algo_checks.h"
#include <clattn/opencl.h>

static const char name[] = "materialised";

/* A context on OpenCL; NULL where there is none, and the test then has nothing to say. */
static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

Test(algo_materialised, agrees_with_the_oracle_around_block_edges) {
    static const int64_t edges[] = {1, 3, 8, 33, 65, 127};
    clattn_context *context = open_device();
    for (uint64_t seed = 1; seed <= 2; seed++)
        checks_spread(context, name, edges, sizeof edges / sizeof *edges, seed);
    clattn_context_destroy(context);
}

Test(algo_materialised, agrees_on_every_layout_and_kind_of_mask) {
    clattn_context *context = open_device();
    const oracle_config configs[] = {
        {.B = 2, .H = 6, .Hk = 2, .N = 9, .M = 300, .D = 20, .lse = true},
        {.B = 2, .H = 6, .Hk = 2, .N = 9, .M = 17, .D = 20, .Dv = 5, .lse = true, .weights = true, .keep = {4, 15}},
        {.H = 2, .N = 70, .M = 530, .D = 8, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
        {.B = 3, .N = 12, .M = 40, .D = 8, .lengths = true, .lse = true, .bias = {3, 7}, .weights = true},
        {.B = 2, .H = 4, .Hk = 1, .N = 1, .M = 65, .D = 16, .has_window = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT},
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        for (int layout = 0; layout < ORACLE_LAYOUTS; layout++) {
            oracle_config c = configs[i];
            c.layout = (oracle_layout)layout;
            c.buffers = layout % 2 == 0;
            c.guard = 16;
            checks_problem(context, name, c);
        }
    clattn_context_destroy(context);
}

Test(algo_materialised, poison_under_masks_changes_nothing) {
    clattn_context *context = open_device();
    checks_poison(context, name);
    clattn_context_destroy(context);
}

Test(algo_materialised, follows_the_rules_for_empty_rows_and_infinities) {
    clattn_context *context = open_device();
    checks_rules(context, name);
    clattn_context_destroy(context);
}

Test(algo_materialised, exponential_is_within_two_ulps) {
    clattn_context *context = open_device();
    checks_exponential(context, name);
    clattn_context_destroy(context);
}

Test(algo_materialised, long_uniform_row_is_exact) {
    clattn_context *context = open_device();
    checks_long_row(context, name);
    clattn_context_destroy(context);
}

Test(algo_materialised, rows_that_share_their_place_are_copied) {
    clattn_context *context = open_device();
    checks_shared_rows(context, name);
    clattn_context_destroy(context);
}

/* ---- chunks ---- */

enum { B = 2, H = 4, HK = 2, N = 6, M = 33, D = 8 };
enum { Q_FLOATS = B * H * N * D, K_FLOATS = B * HK * M * D, W_FLOATS = B * H * N * M };

typedef struct {
    float q[Q_FLOATS], k[K_FLOATS], v[K_FLOATS], o[Q_FLOATS], lse[B * H * N], w[W_FLOATS];
} arrays;

static clattn_attention_args args_of(arrays *x) {
    const int64_t q[] = {B, H, N, D}, k[] = {B, HK, M, D}, w[] = {B, H, N, M};
    return (clattn_attention_args){.q = clattn_tensor_host(x->q, CLATTN_F32, 4, q),
                                   .k = clattn_tensor_host(x->k, CLATTN_F32, 4, k),
                                   .v = clattn_tensor_host(x->v, CLATTN_F32, 4, k),
                                   .o = clattn_tensor_host(x->o, CLATTN_F32, 4, q),
                                   .lse = clattn_tensor_host(x->lse, CLATTN_F32, 3, q),
                                   .weights = clattn_tensor_host(x->w, CLATTN_F32, 4, w),
                                   .causal = true,
                                   .align = CLATTN_ALIGN_BOTTOM_RIGHT,
                                   .algorithm = name};
}

static void fill(arrays *x) {
    oracle_random random = {11};
    float *all = x->q;
    memset(x, 0, sizeof *x);
    for (int i = 0; i < Q_FLOATS + 2 * K_FLOATS; i++)
        all[i] = (float)oracle_normal(&random);
    x->v[5] = INFINITY;
    x->v[K_FLOATS - 2] = NAN; /* the last key, which only the last queries see */
}

/* From all at once down to one row and one column of V at a time: the same bits. */
Test(algo_materialised, every_size_of_chunk_gives_the_same_bits) {
    clattn_context *context = open_device();
    static arrays whole, parts;
    clattn_attention_args a;
    fill(&whole);
    a = args_of(&whole);
    SUCCEEDS(clattn_attention(context, &a));
    cr_assert(isnan(whole.o[Q_FLOATS - 2]) && isfinite(whole.o[Q_FLOATS - 1]) && isinf(whole.o[5]));
    int runs = 0;
    for (size_t limit = 60000; limit > 1400; limit = limit * 4 / 5, runs++) {
        clattn_context_memory_reset(context);
        fill(&parts);
        a = args_of(&parts);
        a.max_workspace = limit;
        SUCCEEDS(clattn_attention(context, &a));
        uint64_t peak = 0;
        clattn_context_memory(context, NULL, &peak);
        cr_expect_leq(peak, limit + sizeof parts);
        cr_expect_eq(memcmp(&whole, &parts, sizeof parts), 0, "max_workspace %zu", limit);
    }
    cr_expect_gt(runs, 10);
    clattn_context_destroy(context);
}

Test(algo_materialised, limit_below_one_row_is_an_error_with_numbers) {
    clattn_context *context = open_device();
    static arrays x;
    fill(&x);
    clattn_attention_args a = args_of(&x);
    a.max_workspace = 700;
    FAILS(clattn_attention(context, &a), CLATTN_E_LIMIT, "limit of 700");
    cr_expect(strstr(clattn_last_error(), "1 rows of 33 scores"), "%s", clattn_last_error());
    clattn_context_destroy(context);
}

Test(algo_materialised, scratch_stays_small_without_a_limit) {
    clattn_context *context = open_device();
    const int64_t shape[] = {1, 4, 100000, 64};
    clattn_tensor t = {.dtype = CLATTN_F32, .rank = 4, .shape = {1, 4, 100000, 64}};
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    clattn_plan_info info;
    SUCCEEDS(clattn_buffer_create(context, (size_t)(4 * 100000 * 64 * 4), &buffer));
    t = clattn_tensor_buffer(buffer, CLATTN_F32, 4, shape);
    const clattn_attention_args a = {.q = t, .k = t, .v = t, .o = t, .algorithm = name};
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    SUCCEEDS(clattn_plan_info_get(plan, &info));
    cr_expect_leq(info.workspace_bytes, 256 << 20);
    cr_expect_geq(info.workspace_bytes, 128 << 20);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

Test(algo_materialised, computes_weights_and_lse_without_values) {
    clattn_context *context = open_device();
    checks_without_values(context, name);
    clattn_context_destroy(context);
}

/* ---- the caller's queue ---- */

static void run_on_queue(cl_command_queue_properties properties, bool profile) {
    clattn_context *opened = open_device(), *context = NULL;
    clattn_buffer *probe = NULL;
    cl_context cl = NULL;
    cl_device_id device = NULL;
    cl_int code;
    SUCCEEDS(clattn_buffer_create(opened, 4, &probe));
    clGetMemObjectInfo(clattn_buffer_opencl(probe), CL_MEM_CONTEXT, sizeof cl, &cl, NULL);
    clGetContextInfo(cl, CL_CONTEXT_DEVICES, sizeof device, &device, NULL);
    cl_command_queue queue = clCreateCommandQueue(cl, device, properties, &code);
    cr_assert_eq(code, CL_SUCCESS);
    SUCCEEDS(clattn_context_from_opencl(cl, queue, &(clattn_context_options){.profile = profile}, &context));
    static arrays first, again;
    fill(&first);
    clattn_attention_args a = args_of(&first);
    SUCCEEDS(clattn_attention(opened, &a));
    for (int run = 0; run < 5; run++) {
        fill(&again);
        a = args_of(&again);
        a.max_workspace = run % 2 ? 3000 : 0;
        SUCCEEDS(clattn_attention(context, &a));
        cr_expect_eq(memcmp(&first, &again, sizeof again), 0, "run %d", run);
    }
    if (profile) {
        clattn_profile_entry entries[16];
        size_t count = 0, gemms = 0;
        SUCCEEDS(clattn_context_profile(context, entries, 16, &count));
        for (size_t i = 0; i < count; i++)
            gemms += strcmp(entries[i].name, "clblast_gemm") == 0 && entries[i].count >= 10;
        cr_expect_eq(gemms, 1);
    }
    clattn_context_destroy(context);
    clReleaseCommandQueue(queue);
    clattn_buffer_destroy(probe);
    clattn_context_destroy(opened);
}

Test(algo_materialised, out_of_order_queue_gives_the_same_bits) {
    run_on_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, false);
}

Test(algo_materialised, profile_names_the_products) { run_on_queue(CL_QUEUE_PROFILING_ENABLE, true); }

Test(algo_materialised, refuses_the_cpu_context) {
    clattn_context *context = checks_open("cpu");
    float x[1] = {1}, o[1];
    const checks_call c = {1, 1, 1, 1, x, x, x, NULL, NULL, o, NULL, NULL};
    clattn_attention_args a = checks_args(&c);
    a.algorithm = name;
    FAILS(clattn_attention(context, &a), CLATTN_E_UNSUPPORTED, "OpenCL devices");
    clattn_context_destroy(context);
}
