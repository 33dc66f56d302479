/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head attention on both kinds of contexts, against loops in double: weights, masks and layouts of every kind. */
#include "modules_oracle.h"
#include <float.h>

typedef enum { NO_MASK = 0, BOOL_2, BOOL_3, BOOL_4, FLOAT_2, FLOAT_3 } attn_kind;
typedef enum { NO_PADDING = 0, BOOL_PADDING, FLOAT_PADDING } padding_kind;
typedef enum { NO_WEIGHTS = 0, EACH_HEAD, MEAN } weights_kind;

typedef struct {
    const char *name;
    int64_t B, N, M, E, H; /* M 0: self-attention */
    heads_kind heads;
    bool batch_second, unbatched, value_apart;
    attn_kind attn;
    padding_kind padding;
    bool keep, lengths, causal, scale;
    weights_kind weights;
} heads_case;

/* ---- masks, kept as doubles: what is added to a score ---- */

typedef struct {
    const heads_case *t;
    int64_t M;
    double *attn, *padding; /* [B, H, N, M] in full, [B, M]; NULL: none */
    int64_t lengths[8];
} masks;

static double mask_of(const void *data, int64_t b, int64_t h, int64_t i, int64_t j) {
    const masks *m = data;
    const heads_case *t = m->t;
    double sum = 0;
    if (m->attn)
        sum += m->attn[((b * t->H + h) * t->N + i) * m->M + j];
    if (m->padding)
        sum += m->padding[b * m->M + j];
    if ((t->lengths && j >= m->lengths[b]) || (t->causal && j > i))
        sum = -INFINITY;
    return sum;
}

static double hidden(const heads_case *t) { return t->keep ? 0 : 1; }

/* A third is hidden; what is added is as large as scores are. */
static double draw(pool *p, bool boolean) {
    const bool hides = oracle_below(&p->random, 3) == 0;
    return hides ? -INFINITY : boolean ? 0 : oracle_normal(&p->random);
}

static clattn_tensor send(pool *p, const heads_case *t, double *values, bool boolean, int rank, const int64_t *shape) {
    const int64_t count = product(rank, shape);
    if (!boolean) {
        oracle_round(p->dtype, values, count);
        return pool_tensor(p, values, rank, shape);
    }
    double *flags = pool_block(p, (size_t)count * sizeof *flags);
    for (int64_t i = 0; i < count; i++)
        flags[i] = values[i] < 0 ? hidden(t) : 1 - hidden(t);
    return pool_typed(p, CLATTN_BOOL, flags, rank, shape);
}

static void make_attn(pool *p, masks *m, clattn_module_masks *out) {
    const heads_case *t = m->t;
    const bool boolean = t->attn <= BOOL_4, each = t->attn == BOOL_3 || t->attn == FLOAT_3;
    const int64_t B = each ? t->B : 1, H = each || t->attn == BOOL_4 ? t->H : 1;
    double *values = pool_block(p, (size_t)(B * H * t->N * m->M) * sizeof *values);
    for (int64_t i = 0; i < B * H * t->N * m->M; i++)
        values[i] = draw(p, boolean);
    const int64_t shape2[] = {t->N, m->M}, shape3[] = {B * H, t->N, m->M}, shape4[] = {1, H, t->N, m->M};
    const int rank = t->attn == BOOL_4 ? 4 : each ? 3 : 2;
    out->attn = send(p, t, values, boolean, rank, rank == 4 ? shape4 : rank == 3 ? shape3 : shape2);
    m->attn = pool_block(p, (size_t)(t->B * t->H * t->N * m->M) * sizeof *m->attn);
    for (int64_t row = 0; row < t->B * t->H; row++)
        memcpy(m->attn + row * t->N * m->M, values + ((row / t->H % B) * H + row % t->H % H) * t->N * m->M,
               (size_t)(t->N * m->M) * sizeof *values);
}

static void make_masks(pool *p, const heads_case *t, int64_t M, masks *m, clattn_module_masks *out) {
    *m = (masks){.t = t, .M = M};
    *out = (clattn_module_masks){.keep = t->keep, .causal = t->causal, .align = CLATTN_ALIGN_TOP_LEFT};
    if (t->attn)
        make_attn(p, m, out);
    if (t->padding) {
        const int64_t shape[] = {t->B, M};
        m->padding = pool_block(p, (size_t)(t->B * M) * sizeof *m->padding);
        for (int64_t i = 0; i < t->B * M; i++)
            m->padding[i] = draw(p, t->padding == BOOL_PADDING);
        out->key_padding =
            send(p, t, m->padding, t->padding == BOOL_PADDING, t->unbatched ? 1 : 2, t->unbatched ? shape + 1 : shape);
    }
    for (int64_t b = 0; b < t->B; b++)
        m->lengths[b] = (b * 3 + 1) % (M + 1);
    out->key_lengths = t->lengths ? m->lengths : NULL;
}

/* ---- a case ---- */

/* [B, rows, columns], as the case lays it out. */
static clattn_tensor rows_tensor(pool *p, const heads_case *t, const double *values, int64_t rows, int64_t columns) {
    const int64_t shape[] = {t->B, rows, columns}, second[] = {rows, t->B, columns};
    if (t->unbatched)
        return pool_tensor(p, values, 2, shape + 1);
    if (!t->batch_second || !values)
        return pool_tensor(p, values, 3, t->batch_second ? second : shape);
    double *turned = pool_block(p, (size_t)product(3, shape) * sizeof *turned);
    for (int64_t b = 0; b < t->B; b++)
        for (int64_t i = 0; i < rows; i++)
            memcpy(turned + (i * t->B + b) * columns, values + (b * rows + i) * columns,
                   (size_t)columns * sizeof *turned);
    return pool_tensor(p, turned, 3, second);
}

static void expect_rows(pool *p, const heads_case *t, const clattn_tensor *y, const double *want, int64_t columns) {
    const int64_t count = t->B * t->N * columns;
    double *laid = pool_block(p, (size_t)count * sizeof *laid);
    for (int64_t i = 0; i < t->B * t->N; i++) {
        const int64_t at = t->batch_second && !t->unbatched ? i % t->N * t->B + i / t->N : i;
        memcpy(laid + at * columns, want + i * columns, (size_t)columns * sizeof *laid);
    }
    expect_values(p, y, laid, t->name);
}

static void expect_weights(pool *p, const heads_case *t, const clattn_tensor *got, const double *want, int64_t keys) {
    const int64_t heads = t->weights == MEAN ? 1 : t->H, count = t->B * heads * t->N * keys;
    double *mean = pool_block(p, (size_t)count * sizeof *mean);
    for (int64_t b = 0; b < t->B; b++)
        for (int64_t h = 0; h < t->H; h++)
            for (int64_t i = 0; i < t->N * keys; i++)
                mean[(b * heads + h % heads) * t->N * keys + i] +=
                    want[(b * t->H + h) * t->N * keys + i] * (double)heads / (double)t->H;
    expect_values(p, got, mean, t->name);
}

static void run_case(pool *p, const heads_case *t) {
    plain_heads plain;
    clattn_multihead_weights weights;
    clattn_multihead *multihead = NULL;
    masks m;
    make_heads(p, t->E, t->H, &t->heads, &plain, &weights);
    const int64_t M = t->M ? t->M : t->N, keys = M + t->heads.bias_kv + t->heads.zeros;
    const clattn_multihead_options options = {.heads = t->H,
                                              .key_heads = t->heads.Hk,
                                              .add_zero_attn = t->heads.zeros,
                                              .batch_second = t->batch_second,
                                              .has_scale = t->scale,
                                              .scale = 0.3};
    plain.scale = t->scale ? 0.3 : 0;
    SUCCEEDS(clattn_multihead_create(p->context, &weights, &options, &multihead));

    plain_call call = {.B = t->B, .N = t->N, .M = M, .mask = mask_of, .mask_data = &m};
    call.query = pool_random(p, t->B * t->N * t->E, 1);
    call.key = t->M ? pool_random(p, t->B * M * plain.kdim, 1) : call.query;
    call.value = t->value_apart ? pool_random(p, t->B * M * plain.vdim, 1) : call.key;
    clattn_multihead_args args = {.query = rows_tensor(p, t, call.query, t->N, t->E),
                                  .y = rows_tensor(p, t, NULL, t->N, t->E)};
    if (t->M)
        args.key = rows_tensor(p, t, call.key, M, plain.kdim);
    if (t->value_apart)
        args.value = rows_tensor(p, t, call.value, M, plain.vdim);
    make_masks(p, t, M, &m, &args.masks);
    const int64_t each[] = {t->B, t->H, t->N, keys}, mean[] = {t->B, t->N, keys};
    args.weights_mean = t->weights == MEAN;
    if (t->weights)
        args.weights = t->weights == MEAN ? pool_tensor(p, NULL, 3 - t->unbatched, mean + t->unbatched)
                                          : pool_tensor(p, NULL, 4 - t->unbatched, each + t->unbatched);
    SUCCEEDS(clattn_multihead_run(multihead, &args));

    double *want = pool_block(p, (size_t)(t->B * t->N * t->E) * sizeof *want);
    double *want_weights = pool_block(p, (size_t)(t->B * t->H * t->N * keys) * sizeof *want_weights);
    plain_attend(p, &plain, &call, want, want_weights);
    expect_rows(p, t, &args.y, want, t->E);
    if (t->weights)
        expect_weights(p, t, &args.weights, want_weights, keys);
    clattn_multihead_destroy(multihead);
}

static void run_all(pool *p, const heads_case *cases, size_t count) {
    for (size_t i = 0; i < count; i++) {
        pool one = *p;
        one.random.state += i;
        run_case(&one, &cases[i]);
        pool_free(&one);
    }
}

#define RUN_ALL(cases) run_all(p, cases, sizeof(cases) / sizeof *(cases))

static void projections(pool *p) {
    static const heads_case cases[] = {
        {.name = "packed", .B = 2, .N = 5, .E = 12, .H = 3},
        {.name = "packed cross", .B = 2, .N = 5, .M = 7, .E = 12, .H = 3},
        {.name = "packed, value apart", .B = 1, .N = 3, .M = 4, .E = 12, .H = 2, .value_apart = true},
        {.name = "separate", .B = 2, .N = 5, .E = 12, .H = 3, .heads = {.separate = true}},
        {.name = "separate, kdim and vdim",
         .B = 2,
         .N = 5,
         .M = 6,
         .E = 12,
         .H = 3,
         .value_apart = true,
         .heads = {.separate = true, .kdim = 7, .vdim = 10}},
        {.name = "no bias", .B = 2, .N = 4, .E = 8, .H = 8, .heads = {.no_bias = true}},
        {.name = "transposed", .B = 2, .N = 5, .E = 12, .H = 3, .heads = {.transposed = true}},
        {.name = "transposed cross, separate",
         .B = 2,
         .N = 5,
         .M = 3,
         .E = 12,
         .H = 3,
         .heads = {.transposed = true, .separate = true}},
        {.name = "grouped", .B = 2, .N = 5, .E = 24, .H = 6, .heads = {.Hk = 2}},
        {.name = "one key head, value dim",
         .B = 1,
         .N = 5,
         .M = 9,
         .E = 24,
         .H = 6,
         .heads = {.Hk = 1, .Dv = 7, .separate = true}},
        {.name = "scale", .B = 2, .N = 5, .E = 12, .H = 3, .scale = true},
        {.name = "odd sizes", .B = 3, .N = 17, .M = 31, .E = 35, .H = 5, .weights = EACH_HEAD},
    };
    RUN_ALL(cases);
}

Test(multihead, projections_packed_separate_and_transposed) { on_devices(projections); }

static void layouts(pool *p) {
    static const heads_case cases[] = {
        {.name = "weights of heads", .B = 2, .N = 5, .E = 12, .H = 3, .weights = EACH_HEAD},
        {.name = "mean weights", .B = 2, .N = 5, .M = 6, .E = 12, .H = 3, .weights = MEAN},
        {.name = "unbatched", .B = 1, .N = 5, .E = 12, .H = 3, .unbatched = true, .weights = EACH_HEAD},
        {.name = "unbatched cross", .B = 1, .N = 5, .M = 4, .E = 12, .H = 3, .unbatched = true, .weights = MEAN},
        {.name = "batch second", .B = 3, .N = 5, .E = 12, .H = 3, .batch_second = true, .weights = EACH_HEAD},
        {.name = "batch second cross", .B = 3, .N = 5, .M = 4, .E = 12, .H = 3, .batch_second = true, .weights = MEAN},
    };
    RUN_ALL(cases);
}

Test(multihead, weights_and_layouts) { on_devices(layouts); }

static void all_masks(pool *p) {
    heads_case cases[6 * 3 * 2] = {{0}};
    for (int i = 0; i < 36; i++)
        cases[i] = (heads_case){.name = "masks",
                                .B = 2,
                                .N = 5,
                                .M = i % 4 ? 6 : 0,
                                .E = 8,
                                .H = 2,
                                .attn = (attn_kind)(i / 6),
                                .padding = (padding_kind)(i / 2 % 3),
                                .keep = i % 2,
                                .lengths = i % 5 == 1,
                                .causal = i % 7 == 3,
                                .batch_second = i % 11 == 5,
                                .weights = i % 9 == 4 ? EACH_HEAD : NO_WEIGHTS};
    RUN_ALL(cases);
}

Test(multihead, masks_of_both_polarities_and_kinds) { on_devices(all_masks); }

static void keys_behind(pool *p) {
    static const heads_case cases[] = {
        {.name = "bias_k", .B = 2, .N = 5, .E = 8, .H = 2, .heads = {.bias_kv = true}, .weights = EACH_HEAD},
        {.name = "zero", .B = 2, .N = 5, .M = 4, .E = 8, .H = 2, .heads = {.zeros = true}, .weights = MEAN},
        {.name = "both, bool",
         .B = 2,
         .N = 5,
         .M = 6,
         .E = 8,
         .H = 2,
         .heads = {.bias_kv = true, .zeros = true},
         .attn = BOOL_3,
         .padding = BOOL_PADDING,
         .weights = EACH_HEAD},
        {.name = "both, float",
         .B = 2,
         .N = 5,
         .E = 8,
         .H = 2,
         .heads = {.bias_kv = true, .zeros = true},
         .attn = FLOAT_2},
        {.name = "both, lengths and causal",
         .B = 3,
         .N = 5,
         .E = 8,
         .H = 2,
         .heads = {.bias_kv = true, .zeros = true},
         .lengths = true,
         .causal = true,
         .padding = FLOAT_PADDING},
        {.name = "unbatched, keep",
         .B = 1,
         .N = 5,
         .E = 8,
         .H = 2,
         .unbatched = true,
         .keep = true,
         .heads = {.zeros = true, .separate = true},
         .attn = BOOL_2,
         .padding = BOOL_PADDING},
    };
    RUN_ALL(cases);
}

Test(multihead, keys_behind_the_others_are_seen_by_all) { on_devices(keys_behind); }

/* ---- what is special ---- */

typedef struct {
    clattn_multihead *multihead;
    clattn_multihead_args args;
    plain_heads plain;
    clattn_multihead_weights weights;
} plain_module;

static plain_module make_plain(pool *p, int64_t B, int64_t N, int64_t E, int64_t H) {
    plain_module m = {0};
    const clattn_multihead_options options = {.heads = H};
    const int64_t shape[] = {B, N, E};
    make_heads(p, E, H, &(heads_kind){0}, &m.plain, &m.weights);
    SUCCEEDS(clattn_multihead_create(p->context, &m.weights, &options, &m.multihead));
    m.args.query = pool_tensor(p, pool_random(p, B * N * E, 1), 3, shape);
    m.args.y = pool_tensor(p, NULL, 3, shape);
    return m;
}

static void dead_batch(pool *p) {
    const int64_t B = 2, N = 3, E = 8, padding_shape[] = {B, N}, weights_shape[] = {B, 2, N, N};
    const double padding[] = {0, 1, 0, 1, 1, 1};
    plain_module m = make_plain(p, B, N, E, 2);
    m.args.masks.key_padding = pool_typed(p, CLATTN_BOOL, padding, 2, padding_shape);
    m.args.weights = pool_tensor(p, NULL, 4, weights_shape);
    SUCCEEDS(clattn_multihead_run(m.multihead, &m.args));
    const double *y = pool_values(p, &m.args.y), *w = pool_values(p, &m.args.weights);
    for (int64_t i = N * E; i < B * N * E; i++)
        cr_expect_eq(y[i], m.plain.out_bias[i % E], "a dead batch is the last bias: %g, not %g", y[i],
                     m.plain.out_bias[i % E]);
    for (int64_t i = 2 * N * N; i < 4 * N * N; i++)
        cr_expect_eq(w[i], 0);
    cr_expect(w[0] > 0 && w[1] == 0);
    clattn_multihead_destroy(m.multihead);
}

Test(multihead, a_dead_batch_is_zeros_through_attention) { on_devices(dead_batch); }

static void zero_sizes(pool *p) {
    const int64_t E = 8, none[] = {0, 3, E}, no_rows[] = {2, 0, E}, rows[] = {2, 3, E};
    plain_module m = make_plain(p, 1, 1, E, 2);
    clattn_multihead_args args = {.query = pool_tensor(p, NULL, 3, none), .y = pool_tensor(p, NULL, 3, none)};
    SUCCEEDS(clattn_multihead_run(m.multihead, &args));
    args.query = args.y = pool_tensor(p, NULL, 3, no_rows);
    SUCCEEDS(clattn_multihead_run(m.multihead, &args));
    args.query = pool_tensor(p, pool_random(p, 6 * E, 1), 3, rows); /* no keys: the last bias */
    args.key = pool_tensor(p, NULL, 3, no_rows);
    args.y = pool_tensor(p, NULL, 3, rows);
    SUCCEEDS(clattn_multihead_run(m.multihead, &args));
    const double *y = pool_values(p, &args.y);
    for (int64_t i = 0; i < 6 * E; i++)
        cr_expect_eq(y[i], m.plain.out_bias[i % E]);
    clattn_multihead_destroy(m.multihead);
}

Test(multihead, no_batch_no_rows_and_no_keys) { on_devices(zero_sizes); }

static void in_place(pool *p) {
    plain_module m = make_plain(p, 2, 9, 12, 3);
    uint64_t before, after;
    SUCCEEDS(clattn_multihead_run(m.multihead, &m.args));
    const double *want = pool_values(p, &m.args.y);
    clattn_context_memory(p->context, &before, NULL);
    m.args.y = m.args.query;
    SUCCEEDS(clattn_multihead_run(m.multihead, &m.args));
    clattn_context_memory(p->context, &after, NULL);
    const double *got = pool_values(p, &m.args.y);
    for (int64_t i = 0; i < clattn_tensor_elements(&m.args.y); i++)
        cr_expect_eq(got[i], want[i], "y over the query: %g, not %g", got[i], want[i]);
    cr_expect_eq(before, after, "scratch is used again");
    clattn_multihead_destroy(m.multihead);
}

Test(multihead, y_may_be_the_query_and_scratch_is_used_again) { on_devices(in_place); }

Test(multihead, parameters_are_counted) {
    clattn_context *cpu = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    for (int64_t H = 1; H <= 16; H *= 4) {
        pool p = {.context = cpu};
        plain_module m = make_plain(&p, 1, 1, 16, H);
        cr_expect_eq(clattn_multihead_parameter_count(m.multihead), 1088);
        clattn_multihead_destroy(m.multihead);
        pool_free(&p);
    }
    cr_expect_eq(clattn_multihead_parameter_count(NULL), 0);
    clattn_context_destroy(cpu);
}

/* Sums stay f32, so weights are; and a finite number stays one: a row of the lowest f64 is even, one of -inf dead. */
static void masks_in_f64(pool *p) {
    const int64_t B = 2, N = 3, E = 8, attn_shape[] = {N, N}, padding_shape[] = {B, N}, shape[] = {B, 2, N, N};
    const double out = -INFINITY, padding[] = {0, 0, 0, 0, out, 0};
    if (p->dtype == CLATTN_F64)
        return;
    plain_module m = make_plain(p, B, N, E, 2);
    double *got[3];
    for (int i = 0; i < 3; i++) {
        const double low = i == 0 ? -FLT_MAX : -1.7e308;
        const double attn[] = {0, 1, -0.5, low, low, low, out, out, out};
        m.args.masks.attn = pool_typed(p, i == 0 ? CLATTN_F32 : CLATTN_F64, attn, 2, attn_shape);
        m.args.masks.key_padding = (clattn_tensor){0};
        if (i < 2)
            m.args.masks.key_padding = pool_typed(p, CLATTN_F32, padding, 2, padding_shape);
        m.args.weights = pool_typed(p, CLATTN_F32, NULL, 4, shape);
        SUCCEEDS(clattn_multihead_run(m.multihead, &m.args));
        got[i] = pool_values(p, &m.args.weights);
    }
    for (int64_t i = 0; i < B * 2 * N * N; i++) {
        const int64_t row = i / N % N;
        cr_expect_eq(got[1][i], got[0][i], "an f64 mask is %g, one of f32 %g", got[1][i], got[0][i]);
        if (i < 2 * N * N)
            cr_expect_float_eq(got[2][i], got[0][i], 1e-6, "alone, an f64 mask is %g, one of f32 %g", got[2][i],
                               got[0][i]);
        cr_expect(row != 1 || fabs(got[2][i] - 1.0 / (double)N) < 1e-6, "the lowest number is %g", got[2][i]);
        cr_expect((got[2][i] > 0) == (row < 2));
    }
    clattn_multihead_destroy(m.multihead);
}

Test(multihead, masks_in_f64_leave_sums_in_f32) { on_devices(masks_in_f64); }

/* ---- errors ---- */

static void bad_weights(pool *p) {
    clattn_multihead *out = NULL;
    clattn_multihead_options options = {.heads = 3};
    plain_heads plain;
    clattn_multihead_weights good, w;
    make_heads(p, 12, 3, &(heads_kind){0}, &plain, &good);
    w = good;
    options.heads = 5;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "in_proj [36, 12]");
    options.heads = 0;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "0 heads");
    options = (clattn_multihead_options){.heads = 4, .key_heads = 3};
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "4 heads and 3 key heads");
    options = (clattn_multihead_options){.heads = 3};
    w.in_proj = (clattn_tensor){0};
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_ARGUMENT, "are missing");
    w = good;
    w.q = good.out;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_ARGUMENT, "both in_proj and q");
    w = good;
    w.out_bias = good.in_bias;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "out_bias [36]: should be [12]");
    w = good;
    w.out = good.in_proj;
    w.transposed = true;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "in_proj [36, 12]");
    w = good;
    w.bias_k = good.out_bias;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_ARGUMENT, "bias_k and bias_v");
    w.bias_v = good.in_bias;
    FAILS(clattn_multihead_create(p->context, &w, &options, &out), CLATTN_E_SHAPE, "bias_v [36]");
    FAILS(clattn_multihead_create(p->context, NULL, &options, &out), CLATTN_E_ARGUMENT, "weights is NULL");
    FAILS(clattn_multihead_create(p->context, &good, &options, NULL), CLATTN_E_ARGUMENT, "multihead is NULL");
    cr_expect_null(out);
    clattn_multihead_destroy(NULL);
}

static void bad_calls(pool *p) {
    plain_module m = make_plain(p, 2, 3, 12, 3);
    const int64_t narrow[] = {2, 3, 11}, other_batch[] = {3, 3, 12}, flat[] = {12}, mask[] = {3, 4}, padding[] = {3, 2};
    clattn_multihead_args args = m.args;
    args.query = pool_tensor(p, NULL, 3, narrow);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "query [2, 3, 11]: its last axis should be 12");
    args = m.args;
    args.key = pool_tensor(p, NULL, 3, other_batch);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "key [3, 3, 12]: a batch of 3");
    args.key = pool_tensor(p, NULL, 1, flat);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "key [12]: rank 1");
    args = m.args;
    args.y = (clattn_tensor){0};
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_ARGUMENT, "y is missing");
    args = m.args;
    args.masks.attn = pool_typed(p, CLATTN_BOOL, NULL, 2, mask);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "attn mask [3, 4]");
    args = m.args;
    args.masks.key_padding = pool_typed(p, CLATTN_BOOL, NULL, 2, padding);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "key_padding mask [3, 2]");
    args.masks.key_padding = pool_typed(p, CLATTN_I32, NULL, 2, (const int64_t[]){2, 3});
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_DTYPE, "is i32");
    args = m.args;
    args.masks.key_lengths = (const int64_t[]){3, 4};
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_ARGUMENT, "key_lengths[1] is 4");
    args = m.args;
    args.weights = pool_tensor(p, NULL, 3, narrow);
    FAILS(clattn_multihead_run(m.multihead, &args), CLATTN_E_SHAPE, "weights [2, 3, 11]: should be [B, H, 3, 3]");
    FAILS(clattn_multihead_run(NULL, &args), CLATTN_E_ARGUMENT, "multihead is NULL");
    FAILS(clattn_multihead_run(m.multihead, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    clattn_multihead_destroy(m.multihead);
}

/* Masks that attention never sees, because they are joined, are refused as it refuses them. */
static void expect_refused(clattn_context *context, const plain_module *m, bool padding) {
    clattn_multihead_args args;
    clattn_buffer *small = NULL;
    clattn_tensor *t = padding ? &args.masks.key_padding : &args.masks.attn;
    const char *const name = padding ? "multihead: key_padding mask" : "multihead: attn mask";
    char bytes[32];
    SUCCEEDS(clattn_buffer_create(context, 5, &small));
#define REFUSED(change, code, text)                                                                                    \
    do {                                                                                                               \
        args = m->args;                                                                                                \
        change;                                                                                                        \
        FAILS(clattn_multihead_run(m->multihead, &args), code, text);                                                  \
        FAILS(clattn_multihead_run(m->multihead, &args), code, name);                                                  \
    } while (0)
    REFUSED(t->stride[0] = -3, CLATTN_E_SHAPE, "axis 0 has size 3 and stride -3; neither may be negative");
    REFUSED(t->offset = -1, CLATTN_E_SHAPE, "offset -1 is negative");
    REFUSED(t->stride[1] = INT64_MAX, CLATTN_E_SHAPE, "strides reach past 64 bits");
    REFUSED(t->rank = -1, CLATTN_E_SHAPE, "rank -1 is not from 1 to 8");
    REFUSED(t->host = NULL, CLATTN_E_ARGUMENT, "has neither a buffer nor a host array");
    REFUSED(t->buffer = small, CLATTN_E_ARGUMENT, "has both a buffer and a host array");
    REFUSED((t->buffer = small, t->host = NULL), CLATTN_E_SHAPE, "reaches to byte 9 of a buffer of 5");
    REFUSED((t->dtype = CLATTN_F32, t->host = bytes + ((uintptr_t)bytes % 2 == 0)), CLATTN_E_ARGUMENT,
            "begins at an address that is no multiple of 4");
#undef REFUSED
    clattn_buffer_destroy(small);
}

Test(multihead, masks_that_are_joined_are_checked) {
    const int64_t shape[] = {3, 3};
    const double all[9] = {0};
    clattn_context *cpu = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    pool p = {.context = cpu};
    plain_module m = make_plain(&p, 3, 3, 8, 2);
    m.args.masks.attn = pool_typed(&p, CLATTN_BOOL, all, 2, shape);
    m.args.masks.key_padding = pool_typed(&p, CLATTN_BOOL, all, 2, shape);
    SUCCEEDS(clattn_multihead_run(m.multihead, &m.args));
    expect_refused(cpu, &m, false);
    expect_refused(cpu, &m, true);
    clattn_multihead_destroy(m.multihead);
    pool_free(&p);
    clattn_context_destroy(cpu);
}

Test(multihead, errors_name_the_tensor_and_the_numbers) {
    clattn_context *cpu = NULL;
    SUCCEEDS(clattn_context_create("cpu", NULL, &cpu));
    pool p = {.context = cpu};
    bad_weights(&p);
    bad_calls(&p);
    pool_free(&p);
    clattn_context_destroy(cpu);
}
