/* SPDX-License-Identifier: Apache-2.0 */
/* fused_tiles against the oracle: sizes around the edges of tiles, every kind of key, special values. To meet the keys
 * of GPUs and of small devices on any machine, a context is told that its device is another. On Oclgrind's simulator it
 * runs a few small cases of everything: oclgrind --data-races test_algo_fused_tiles. */
#include "attention/tiles.h"
#include "oracle.h"
#include "runtime/state.h"
#include "testing.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(x) ((int)(sizeof(x) / sizeof *(x)))
#define ALL                                                                                                            \
    { 4, ORACLE_BATCH | ORACLE_HEAD | ORACLE_QUERY | ORACLE_KEY }
#define BY_KEY                                                                                                         \
    { 2, ORACLE_KEY }
#define BY_ROW                                                                                                         \
    { 4, ORACLE_BATCH | ORACLE_QUERY | ORACLE_KEY }

/* ---- what a context is told to be ---- */

typedef struct {
    const char *vendor, *name; /* NULL: the device as it is */
    uint64_t local_bytes, work_group;
} device;
enum { AS_IS, WARP32, WAVE64, XE, SMALL, GROUP_32, GROUP_16, DEVICES };
static const device devices[DEVICES] = {
    [AS_IS] = {NULL, "this device", 0, 0},
    [WARP32] = {"NVIDIA Corporation", "a GPU", 49152, 1024},
    [WAVE64] = {"Advanced Micro Devices, Inc.", "gfx90a", 65536, 1024},
    [XE] = {"Intel(R) Corporation", "a GPU", 65536, 512},
    [SMALL] = {"someone", "a GPU with 16 KiB of local memory", 16384, 256},
    [GROUP_32] = {"someone", "a GPU with work-groups of 32", 32768, 32},
    [GROUP_16] = {"someone", "a GPU with work-groups of 16", 8192, 16},
};

static void pretend(clattn_device_info *info, int which) {
    const device *d = &devices[which];
    if (!d->vendor)
        return;
    info->device_class = CLATTN_DEVICE_GPU;
    info->unified_memory = false;
    snprintf(info->vendor, sizeof info->vendor, "%s", d->vendor);
    snprintf(info->name, sizeof info->name, "%s", d->name);
    info->local_bytes = d->local_bytes;
    info->max_work_group = d->work_group;
}

static clattn_context *open_as(int which) {
    clattn_context *context = NULL;
    SUCCEEDS(clattn_context_create("opencl", NULL, &context));
    pretend(&context->info, which);
    return context;
}

/* ---- modes, by kind of key ---- */

enum { NONE, INTERVAL, TENSOR, BOTH, KINDS };
static const oracle_config modes[KINDS][4] = {
    {{.lse = true}, {.has_scale = true, .scale = -0.4}, {.lse = true}, {.has_scale = true, .scale = 0, .lse = true}},
    {{.causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true},
     {.has_window = true, .window_left = 9, .window_right = 2, .align = CLATTN_ALIGN_TOP_LEFT, .lse = true},
     {.lengths = true, .causal = true, .align = CLATTN_ALIGN_OFFSET, .lse = true},
     {.has_window = true, .window_left = 40, .window_right = CLATTN_UNLIMITED, .align = CLATTN_ALIGN_OFFSET}},
    {{.keep = ALL, .lse = true},
     {.bias = ALL, .lse = true},
     {.drop = BY_KEY},
     {.bias = BY_KEY, .keep = ALL, .drop = BY_ROW}},
    {{.causal = true, .align = CLATTN_ALIGN_TOP_LEFT, .bias = BY_ROW, .keep = BY_KEY, .lse = true},
     {.lengths = true, .drop = ALL, .lse = true},
     {.has_window = true, .window_right = 70, .align = CLATTN_ALIGN_TOP_LEFT, .bias = ALL},
     {.lengths = true, .bias = ALL, .keep = BY_ROW, .causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT, .lse = true}},
};
static const struct { int64_t H, Hk; } heads[] = {{1, 1}, {2, 1}, {6, 2}, {8, 1}, {2, 2}};

typedef struct {
    clattn_context *context;
    clattn_dtype dtype;
    bool simulated;
    int cases;
} runner;

static int64_t at_most(int64_t x, int64_t limit) { return x < limit ? x : limit; }

/* One case of a kind; the mode, heads, batch and the way to call follow from its number. */
static void check(runner *r, int kind, int64_t N, int64_t M, int64_t D, int64_t Dv, oracle_layout layout) {
    char text[ORACLE_TEXT];
    const int n = r->cases++;
    if (r->simulated && n % 5 != 0)
        return;
    oracle_config c = modes[kind][n % 4];
    c.dtype = r->dtype;
    const double work = (double)(N * M * (D + Dv)); /* the oracle is slow */
    c.B = work < 2e5 ? 1 + n / 4 % 2 : 1;
    c.H = work < 8e5 ? heads[n % COUNT(heads)].H : 1 + n % 2;
    c.Hk = work < 8e5 ? heads[n % COUNT(heads)].Hk : 1;
    c.N = N, c.M = M, c.D = D, c.Dv = Dv;
    if (r->simulated)
        c.N = at_most(N, 35), c.M = at_most(M, 67), c.H = c.H > 1 ? 2 : 1, c.Hk = 1, c.B = 1;
    c.layout = layout;
    c.guard = 16;
    c.buffers = n % 3 != 0;
    c.seed = 1000 + (uint64_t)n;
    oracle_case *made = oracle_make(&c);
    cr_expect(oracle_check(made, r->context, "fused_tiles", text), "%s", text);
    oracle_free(made);
}

static runner start(int which, clattn_dtype dtype) {
    runner r = {.context = open_as(AS_IS), .dtype = dtype};
    r.simulated = strstr(r.context->info.name, "Oclgrind");
    pretend(&r.context->info, which);
    return r;
}

static void finish(runner *r, const char *what) {
    fprintf(stderr, "fused_tiles, %s: %d cases, %zu builds\n", what, r->cases, r->context->builds);
    clattn_context_destroy(r->context);
}

/* ---- sizes and dims ---- */

static const int64_t sizes[] = {1, 3, 31, 32, 33, 64, 65, 127};

Test(fused_tiles, every_pair_of_sizes_with_every_kind_of_mask) {
    runner r = start(AS_IS, CLATTN_F32);
    for (int n = 0; n < COUNT(sizes); n++)
        for (int m = 0; m < COUNT(sizes); m++)
            for (int kind = 0; kind < KINDS; kind++)
                check(&r, kind, sizes[n], sizes[m], 40, 64, (n + m) % 2 ? ORACLE_BSHD : ORACLE_BHSD);
    finish(&r, "sizes");
}

Test(fused_tiles, every_width_of_values) {
    static const struct {
        int64_t D, Dv;
        int kind;
    } dims[] = {{32, 32, NONE},    {16, 8, NONE},    {80, 80, INTERVAL}, {96, 96, INTERVAL},
                {128, 128, BOTH},  {192, 128, BOTH}, {256, 256, BOTH},   {320, 320, TENSOR},
                {64, 192, TENSOR}, {576, 512, BOTH}, {1, 1, NONE},       {5, 5, INTERVAL},
                {45, 33, BOTH},    {33, 45, TENSOR}, {40, 20, NONE},     {512, 20, NONE}};
    runner r = start(AS_IS, CLATTN_F32);
    for (int i = 0; i < COUNT(dims); i++)
        for (int n = 0; n < 6; n++)
            check(&r, dims[i].kind, sizes[(n * 3 + i) % 8], sizes[7 - n], dims[i].D, dims[i].Dv,
                  n % 2 ? ORACLE_BHSD : ORACLE_BSHD);
    finish(&r, "dims");
}

Test(fused_tiles, every_layout) {
    runner r = start(AS_IS, CLATTN_F32);
    for (int layout = 0; layout < ORACLE_LAYOUTS; layout++)
        for (int n = 0; n < 4; n++) {
            check(&r, layout == ORACLE_PADDED ? BOTH : NONE, sizes[n + 2], sizes[n + 2], 64, 64, (oracle_layout)layout);
            check(&r, layout == ORACLE_PADDED ? TENSOR : BOTH, sizes[n + 1], sizes[6 - n], 64, 64,
                  (oracle_layout)layout);
        }
    finish(&r, "layouts");
}

/* ---- tiles of other devices ---- */

static void check_device(int which, clattn_dtype dtype, int kind, int64_t D, int64_t Dv) {
    runner r = start(which, dtype);
    for (int n = 0; n < 6; n++)
        check(&r, kind, sizes[(n * 3 + 1) % 8], sizes[7 - n], D, Dv, n % 2 ? ORACLE_BHSD : ORACLE_BSHD);
    fprintf(stderr, "%s, %s d%lld v%lld: ", devices[which].name, clattn_dtype_name(dtype), (long long)D, (long long)Dv);
    finish(&r, "device");
}

Test(fused_tiles, tiles_of_groups_of_32_at_64) { check_device(WARP32, CLATTN_F32, INTERVAL, 64, 64); }
Test(fused_tiles, tiles_of_groups_of_32_at_128) { check_device(WARP32, CLATTN_F32, BOTH, 128, 128); }
Test(fused_tiles, tiles_of_groups_of_32_at_32) { check_device(WARP32, CLATTN_F32, TENSOR, 80, 32); }
Test(fused_tiles, tiles_of_groups_of_64) { check_device(WAVE64, CLATTN_F32, NONE, 128, 128); }
Test(fused_tiles, tiles_of_little_local_memory) { check_device(SMALL, CLATTN_F32, BOTH, 80, 80); }
Test(fused_tiles, tiles_of_work_groups_of_32) { check_device(GROUP_32, CLATTN_F32, INTERVAL, 48, 72); }
Test(fused_tiles, tiles_of_work_groups_of_16) { check_device(GROUP_16, CLATTN_F32, TENSOR, 20, 100); }
Test(fused_tiles, f64) { check_device(AS_IS, CLATTN_F64, BOTH, 64, 64); }
Test(fused_tiles, f64_in_chunks) { check_device(AS_IS, CLATTN_F64, NONE, 80, 256); }
Test(fused_tiles, f64_of_little_local_memory) { check_device(SMALL, CLATTN_F64, INTERVAL, 40, 40); }
Test(fused_tiles, f64_of_work_groups_of_16) { check_device(GROUP_16, CLATTN_F64, BOTH, 21, 33); }

/* ---- special values ---- */

static oracle_case *make(const oracle_config *config) {
    oracle_case *c = oracle_make(config);
    cr_assert_not_null(c);
    return c;
}

static bool seen_by_all(const oracle_case *c, int64_t b, int64_t j, bool want) {
    for (int64_t h = 0; h < c->config.H; h++)
        for (int64_t i = 0; i < c->config.N; i++)
            if ((oracle_sees(c, b, h, i, j) && oracle_bias(c, b, h, i, j) != -INFINITY) != want)
                return false;
    return true;
}

/* NaN and infinities in K and V at keys that no query sees, and in V at keys that only some see. */
static void poison(oracle_case *c) {
    const oracle_config *f = &c->config;
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int64_t b = 0; b < f->B; b++)
        for (int64_t j = 0; j < f->M; j++) {
            const bool hidden = seen_by_all(c, b, j, false), partly = !hidden && !seen_by_all(c, b, j, true);
            for (int64_t h = 0; h < f->Hk; h++) {
                double *k = c->k + ((b * f->Hk + h) * f->M + j) * f->D,
                       *v = c->v + ((b * f->Hk + h) * f->M + j) * f->Dv;
                for (int64_t d = 0; hidden && d < f->D; d++)
                    k[d] = bad[(j + d) % 3];
                for (int64_t d = 0; hidden && d < f->Dv; d++)
                    v[d] = bad[(j + d + 1) % 3];
                if (partly && j % 5 == 0)
                    v[j % f->Dv] = NAN;
            }
        }
}

static void check_poisoned(clattn_context *context, oracle_config c) {
    char text[ORACLE_TEXT];
    for (int n = 0; n < 3; n++) {
        const int64_t N[] = {5, 33, 70}, M[] = {9, 40, 67};
        c.N = N[n], c.M = M[n], c.D = 40, c.Dv = 64;
        c.B = 2, c.H = 2, c.Hk = 1, c.lse = true, c.seed = (uint64_t)n, c.guard = 16;
        oracle_case *made = make(&c);
        poison(made);
        cr_expect(oracle_check(made, context, "fused_tiles", text), "%s", text);
        oracle_free(made);
    }
}

Test(fused_tiles, poison_at_excluded_keys_stays_there) {
    clattn_context *context = open_as(AS_IS);
    check_poisoned(context, (oracle_config){.causal = true, .align = CLATTN_ALIGN_BOTTOM_RIGHT});
    check_poisoned(context, (oracle_config){.has_window = true, .window_left = 3, .align = CLATTN_ALIGN_BOTTOM_RIGHT});
    check_poisoned(context, (oracle_config){.keep = BY_ROW});
    check_poisoned(context, (oracle_config){.bias = BY_ROW, .drop = BY_KEY});
    check_poisoned(context, (oracle_config){.keep = BY_KEY, .lengths = true});
    clattn_context_destroy(context);
}

/* A row of NaN, a key of infinity (scores of both signs, and the negative ones count as excluded), NaN in one lane. */
Test(fused_tiles, kept_nan_and_infinity_are_not_swallowed) {
    clattn_context *context = open_as(AS_IS);
    char text[ORACLE_TEXT];
    for (int causal = 0; causal < 2; causal++) {
        const oracle_config c = {.B = 1,
                                 .H = 2,
                                 .N = 37,
                                 .M = 70,
                                 .D = 40,
                                 .Dv = 64,
                                 .lse = true,
                                 .guard = 16,
                                 .causal = causal,
                                 .align = causal ? CLATTN_ALIGN_BOTTOM_RIGHT : CLATTN_ALIGN_UNSET};
        oracle_case *made = make(&c);
        made->q[5 * c.D + 2] = NAN;
        made->k[33 * c.D] = INFINITY;
        made->v[33 * c.Dv + 3] = NAN;
        made->v[(c.M + 60) * c.Dv + 7] = NAN;
        made->v[(c.M + 2) * c.Dv + 9] = -INFINITY;
        cr_expect(oracle_check(made, context, "fused_tiles", text), "%s", text);
        int64_t nans = 0;
        for (int64_t x = 0; x < c.H * c.N * c.Dv; x++)
            nans += isnan(made->got.o[x]);
        cr_expect(nans > c.Dv && nans < c.H * c.N * c.Dv / 2, "%lld NaN", (long long)nans);
        oracle_free(made);
    }
    clattn_context_destroy(context);
}

/* ---- one call on small host arrays: B = H = 1 ---- */

static clattn_attention_args small_args(int64_t N, int64_t M, int64_t D, int64_t Dv, const float *q, const float *k,
                                        const float *v, float *o, float *lse) {
    const int64_t qs[] = {N, D}, ks[] = {M, D}, vs[] = {M, Dv}, os[] = {N, Dv}, ls[] = {1, N};
    clattn_attention_args a = {.algorithm = "fused_tiles", .has_scale = true, .scale = 1};
    a.q = clattn_tensor_host(q, CLATTN_F32, 2, qs);
    a.k = clattn_tensor_host(k, CLATTN_F32, 2, ks);
    a.v = clattn_tensor_host(v, CLATTN_F32, 2, vs);
    a.o = clattn_tensor_host(o, CLATTN_F32, 2, os);
    if (lse)
        a.lse = clattn_tensor_host(lse, CLATTN_F32, 2, ls);
    return a;
}

Test(fused_tiles, two_keys_pin_the_exponential_to_2e_7) {
    clattn_context *context = open_as(AS_IS);
    enum { N = 200 };
    float q[N], o[N], lse[N], k[] = {1, 0}, v[] = {0, 1};
    for (int i = 0; i < N; i++)
        q[i] = (float)(i * i) * 0.0025f;
    const clattn_attention_args a = small_args(N, 2, 1, 1, q, k, v, o, lse);
    SUCCEEDS(clattn_attention(context, &a));
    for (int i = 0; i < N; i++) {
        const double exact = 1 / (1 + exp(q[i]));
        cr_expect(fabs(o[i] - exact) <= exact * 1e-7 * (2 + q[i]) + 1e-38, "q %g: %.9g, exact %.9g", q[i], o[i], exact);
    }
    clattn_context_destroy(context);
}

Test(fused_tiles, finite_scores_are_only_numbers) {
    clattn_context *context = open_as(AS_IS);
    float q[] = {3e38f, 1, 1}, k[] = {1, -1, 1}, v[] = {4, 5, 9}, o[3], lse[3];
    const float bias[] = {0, 0, -INFINITY, -FLT_MAX, -FLT_MAX, -FLT_MAX, -INFINITY, -INFINITY, -INFINITY};
    const int64_t shape[] = {3, 3};
    clattn_attention_args a = small_args(3, 3, 1, 1, q, k, v, o, lse);
    a.bias = clattn_tensor_host(bias, CLATTN_F32, 2, shape);
    SUCCEEDS(clattn_attention(context, &a));
    cr_expect_eq(o[0], 4, "%g", o[0]);
    cr_expect_eq(lse[0], 3e38f, "%g", lse[0]);
    cr_expect(fabsf(o[1] - 6) <= 1e-6f, "the mean, %g", o[1]);
    cr_expect_eq(lse[1], -FLT_MAX, "%g", lse[1]);
    cr_expect_eq(o[2], 0);
    cr_expect_eq(lse[2], -INFINITY);
    clattn_context_destroy(context);
}

Test(fused_tiles, without_value_columns_there_is_still_an_lse) {
    clattn_context *context = open_as(AS_IS);
    float q[] = {1, 2}, k[] = {0, 0, 0, 0}, lse[] = {-7, -7};
    clattn_attention_args a = small_args(2, 4, 1, 0, q, k, NULL, NULL, lse);
    SUCCEEDS(clattn_attention(context, &a));
    cr_expect(fabs(lse[0] - log(4)) < 1e-6 && fabs(lse[1] - log(4)) < 1e-6, "%g, %g", lse[0], lse[1]);
    a.lse.rank = 0;
    SUCCEEDS(clattn_attention(context, &a));
    clattn_context_destroy(context);
}

/* ---- plans ---- */

Test(fused_tiles, tensors_bound_later_may_begin_anywhere) {
    enum { N = 40, D = 8, SIZE = N * D };
    clattn_context *context = open_as(WARP32);
    clattn_buffer *in = NULL, *out = NULL;
    clattn_plan *plan = NULL;
    float x[SIZE + 8], first[SIZE + 8], got[SIZE + 8];
    const int64_t shape[] = {N, D};
    for (int i = 0; i < SIZE + 8; i++)
        x[i] = (float)sin(i * 0.37);
    SUCCEEDS(clattn_buffer_create(context, sizeof x, &in));
    SUCCEEDS(clattn_buffer_create(context, sizeof x, &out));
    clattn_attention_args a = {.algorithm = "fused_tiles", .causal = true};
    a.k = a.v = a.q = clattn_tensor_buffer(in, CLATTN_F32, 2, shape);
    a.o = clattn_tensor_buffer(out, CLATTN_F32, 2, shape);
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    for (int offset = 0; offset < 8; offset++) {
        SUCCEEDS(clattn_buffer_upload(in, (size_t)offset * sizeof *x, x, SIZE * sizeof *x));
        a.q.offset = a.k.offset = a.v.offset = offset;
        a.o.offset = 7 - offset;
        SUCCEEDS(clattn_plan_execute(plan, &a));
        SUCCEEDS(clattn_buffer_download(out, (size_t)(7 - offset) * sizeof *x, got, SIZE * sizeof *x));
        for (int i = 0; i < SIZE; i++) {
            first[i] = offset == 0 ? got[i] : first[i];
            cr_expect(fabsf(got[i] - first[i]) <= 1e-6f, "offset %d, element %d: %g, %g", offset, i, got[i], first[i]);
        }
    }
    cr_expect_eq(context->builds, 2, "%zu", context->builds);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(in);
    clattn_buffer_destroy(out);
    clattn_context_destroy(context);
}

Test(fused_tiles, refusals_say_why) {
    clattn_context *context = open_as(AS_IS), *cpu = NULL;
    float x[4] = {1, 2, 3, 4}, o[4];
    clattn_attention_args a = small_args(2, 2, 2, 2, x, x, x, o, NULL);
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    FAILS(clattn_attention(cpu, &a), CLATTN_E_UNSUPPORTED, "fused_tiles: runs on OpenCL devices");
    context->info.max_work_group = 8;
    FAILS(clattn_attention(context, &a), CLATTN_E_UNSUPPORTED, "needs work-groups of 16");
    pretend(&context->info, GROUP_16);
    context->info.local_bytes = 2048;
    FAILS(clattn_attention(context, &a), CLATTN_E_UNSUPPORTED, "bytes of local memory");
    clattn_context_destroy(context);
    clattn_context_destroy(cpu);
}

Test(fused_tiles, explain_names_the_tiles) {
    clattn_context *context = open_as(AS_IS);
    clattn_buffer *buffer = NULL;
    clattn_plan *plan = NULL;
    const int64_t q[] = {2, 64}, v[] = {2, 64};
    SUCCEEDS(clattn_buffer_create(context, 1024, &buffer));
    clattn_attention_args a = {.algorithm = "fused_tiles"};
    a.q = a.k = clattn_tensor_buffer(buffer, CLATTN_F32, 2, q);
    a.o = a.v = clattn_tensor_buffer(buffer, CLATTN_F32, 2, v);
    a.o.offset = 128;
    SUCCEEDS(clattn_plan_create(context, &a, &plan));
    const char *text = clattn_plan_explain(plan);
    cr_expect(strstr(text, "tiles: 32 queries x 64 keys") && strstr(text, "work-group 8 x 16"), "%s", text);
    cr_expect(strstr(text, "local memory: at most 22816 bytes"), "%s", text);
    cr_expect(strstr(text, "value columns: 1 chunk of 64"), "%s", text);
    clattn_plan_destroy(plan);
    clattn_buffer_destroy(buffer);
    clattn_context_destroy(context);
}

/* ---- the table ---- */

static void check_tiling(const clattn_device_info *d, const cla_tiling *t, int64_t size, int64_t D, int64_t Dv) {
    const cla_tile *x = &t->tile;
    const int wg = t->work_group, step = wg / (x->dc / 4);
    cr_assert(t->columns % 4 == 0 && t->columns <= 4 * x->tc * x->nv && (int64_t)t->columns * t->chunks >= Dv);
    cr_assert(t->chunks == 1 || (int64_t)t->columns * (t->chunks - 1) < Dv);
    cr_assert(t->local_bytes <= (int64_t)d->local_bytes && wg <= (int)d->max_work_group && wg == x->tr * x->tc);
    cr_assert(x->sliced || D <= 64);
    cr_assert(x->nc % 4 == 0 && x->tc % 4 == 0 && x->jc % 4 == 0 && 4 * x->tc % x->jc == 0 && t->keys % x->jc == 0);
    cr_assert(x->jc * x->tc * x->nv % wg == 0 && x->dc % 8 == 0 && wg % (x->dc / 4) == 0);
    cr_assert(t->keys % step == 0 && t->rows % step == 0 && size > 0);
}

/* Different tiles of all problems, and however many the device refuses. */
static int count_tiles(const clattn_device_info *d, clattn_dtype dtype, bool lean) {
    cla_tile found[100];
    cla_tiling t;
    int count = 0;
    for (int64_t D = 1; D < 130; D += 3)
        for (int64_t Dv = 0; Dv < 600; Dv++)
            for (int rank = 0;; rank++) {
                const cla_tiles_problem p = {.dtype = dtype, .lean = lean, .D = D, .Dv = Dv};
                int i = 0;
                if (!cla_tiles_choose(d, &p, rank, &t))
                    break;
                check_tiling(d, &t, (int64_t)clattn_dtype_size(dtype), D, Dv);
                while (i < count && memcmp(&found[i], &t.tile, sizeof t.tile) != 0)
                    i++;
                cr_assert_lt(i, COUNT(found));
                found[i] = t.tile;
                count = i == count ? count + 1 : count;
            }
    return count;
}

/* 2 kinds of masks that are not lean; 2 that are, and 2 with storage of any type; with dropout one more. */
Test(fused_tiles, a_device_meets_few_tiles) {
    for (int which = AS_IS; which < DEVICES; which++)
        for (int type = 0; type < 2; type++) {
            clattn_device_info d = {.device_class = CLATTN_DEVICE_CPU, .local_bytes = 1 << 21, .max_work_group = 4096};
            pretend(&d, which);
            const clattn_dtype dtype = type ? CLATTN_F64 : CLATTN_F32;
            const int plain = count_tiles(&d, dtype, false), lean = count_tiles(&d, dtype, true);
            cr_expect(plain > 0 && lean > 0 && 2 * plain + 4 * lean <= 60, "device %d, %s: %d and %d tiles", which,
                      clattn_dtype_name(dtype), plain, lean);
        }
}
