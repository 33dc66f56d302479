/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of softmax.cl, one at a time, against loops on the host; and how a problem is cut into chunks. */
#include "attention/chunks.h"
#include "ops/softmax.h"
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

/* ---- rows ---- */

typedef struct {
    int64_t B, H, N, M;
    bool f64, causal, tensor;
} rows_case;

static clattn_context *open_device(void) {
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

static clattn_buffer *upload(clattn_context *context, const void *data, size_t bytes) {
    clattn_buffer *buffer = NULL;
    SUCCEEDS(clattn_buffer_create(context, bytes, &buffer));
    SUCCEEDS(clattn_buffer_upload(buffer, 0, data, bytes));
    return buffer;
}

/* Values in the type of the case, from or to double. */
static void narrow(const double *from, void *to, int64_t n, bool f64) {
    for (int64_t i = 0; i < n; i++)
        if (f64)
            ((double *)to)[i] = from[i];
        else
            ((float *)to)[i] = (float)from[i];
}

static void widen(const void *from, double *to, int64_t n, bool f64) {
    for (int64_t i = 0; i < n; i++)
        to[i] = f64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
}

static clattn_buffer *upload_reals(clattn_context *context, const double *x, int64_t n, bool f64) {
    void *data = malloc((size_t)n * (f64 ? 8 : 4));
    narrow(x, data, n, f64);
    clattn_buffer *buffer = upload(context, data, (size_t)n * (f64 ? 8 : 4));
    free(data);
    return buffer;
}

static void download_reals(clattn_buffer *buffer, double *x, int64_t n, bool f64) {
    void *data = malloc((size_t)n * (f64 ? 8 : 4));
    SUCCEEDS(clattn_buffer_download(buffer, 0, data, (size_t)n * (f64 ? 8 : 4)));
    widen(data, x, n, f64);
    free(data);
}

#define SCALE 0.25
#define POWER 0.125

/* Arrays of a case on the host, and what the kernel gave. */
typedef struct {
    int64_t rows, n;
    double *scores, *bias;       /* [B, H, N, M], [N, M] */
    double *got, *weights, *lse; /* powers and behind them the sums; weights; log-sum-exp */
    unsigned char *keep;         /* [N, M] */
    cla_span spans[2];
} rows_data;

/* Scores, a bias with -inf, a keep mask [N, M]; every third query sees nothing, a row holds NaN. */
static rows_data make_rows(const rows_case *t) {
    rows_data d = {.rows = t->B * t->H * t->N,
                   .n = t->B * t->H * t->N * t->M,
                   .spans = {{.keys = (cl_int)t->M - 1, .queries = (cl_int)t->N, .offset = 1},
                             {.keys = (cl_int)t->M, .queries = (cl_int)t->N}}};
    oracle_random random = {3};
    d.scores = calloc((size_t)(d.n + d.rows), sizeof *d.scores);
    d.got = calloc((size_t)(d.n + d.rows), sizeof *d.got);
    d.bias = calloc((size_t)(t->N * t->M), sizeof *d.bias);
    d.weights = calloc((size_t)d.n, sizeof *d.weights);
    d.lse = calloc((size_t)d.rows, sizeof *d.lse);
    d.keep = calloc((size_t)(t->N * t->M), 1);
    for (int64_t i = 0; i < d.n; i++)
        d.scores[i] = 4 * oracle_normal(&random);
    for (int64_t i = 0; i < t->N * t->M; i++) {
        d.bias[i] = oracle_below(&random, 5) == 0 ? -INFINITY : (double)(float)oracle_normal(&random);
        d.keep[i] = i / t->M % 3 != 2 && oracle_below(&random, 4) != 0;
    }
    if (t->M > 2)
        d.scores[2] = NAN;
    return d;
}

static void free_rows(rows_data *d) {
    free(d->scores), free(d->got), free(d->bias), free(d->weights), free(d->lse), free(d->keep);
}

static cla_softmax_args rows_args(const rows_case *t, int64_t n) {
    const double scale = SCALE;
    cla_softmax_args a = {.s_b = t->H * t->N * t->M,
                          .s_h = t->N * t->M,
                          .s_i = t->M,
                          .w_b = t->H * t->N * t->M,
                          .w_h = t->N * t->M,
                          .w_i = t->M,
                          .w_j = 1,
                          .lse_b = t->H * t->N,
                          .lse_h = t->N,
                          .lse_i = 1,
                          .sum_0 = n,
                          .mask = {.M = (cl_int)t->M,
                                   .causal = t->causal,
                                   .keep_i = t->M,
                                   .keep_j = 1,
                                   .bias_i = t->M,
                                   .bias_j = 1,
                                   .bias_type = t->f64 ? CLA_F64 : CLA_F32,
                                   .has_keep = t->tensor,
                                   .has_bias = t->tensor},
                          .H = (cl_int)t->H,
                          .N = (cl_int)t->N,
                          .M = (cl_int)t->M,
                          .has_weights = 1,
                          .has_lse = 1,
                          .scale = (float)scale,
                          .power = (float)POWER};
    memcpy(&a.scale_bits, &scale, sizeof scale);
    return a;
}

static void run_rows(clattn_context *context, const rows_case *t, rows_data *d) {
    const int masks = (t->causal ? CLA_SOFTMAX_INTERVAL : 0) | (t->tensor ? CLA_SOFTMAX_SCORE : 0);
    const cla_softmax_args args = rows_args(t, d->n);
    cla_softmax softmax;
    clattn_buffer *scratch = upload_reals(context, d->scores, d->n + d->rows, t->f64);
    clattn_buffer *weights = upload_reals(context, d->weights, d->n, t->f64);
    clattn_buffer *lse = upload_reals(context, d->lse, d->rows, t->f64);
    clattn_buffer *spans = upload(context, d->spans, sizeof d->spans);
    clattn_buffer *keep = upload(context, d->keep, (size_t)(t->N * t->M));
    clattn_buffer *bias = upload_reals(context, d->bias, t->N * t->M, t->f64);
    const cla_softmax_key key = {.dtype = t->f64 ? CLATTN_F64 : CLATTN_F32, .masks = masks, .keys = t->M};
    SUCCEEDS(cla_softmax_create(context, &key, &softmax));
    const cla_softmax_buffers buffers = {.scratch = scratch,
                                         .spans = spans,
                                         .keep = t->tensor ? keep : NULL,
                                         .bias = t->tensor ? bias : NULL,
                                         .lse = lse,
                                         .weights = weights};
    SUCCEEDS(cla_softmax_rows(context, &softmax, &buffers, &args, d->rows));
    download_reals(scratch, d->got, d->n + d->rows, t->f64);
    download_reals(weights, d->weights, d->n, t->f64);
    download_reals(lse, d->lse, d->rows, t->f64);
    cla_softmax_destroy(&softmax);
    clattn_buffer *const all[] = {scratch, weights, lse, spans, keep, bias};
    for (int i = 0; i < 6; i++)
        clattn_buffer_destroy(all[i]);
}

/* The score of a row with a key; false: it is excluded. */
static bool score_of(const rows_case *t, const rows_data *d, int64_t row, int64_t j, double *score) {
    const int64_t i = row % t->N;
    const cla_span *span = &d->spans[row / t->N / t->H];
    const double s = d->scores[row * t->M + j];
    *score = SCALE * (t->f64 ? s : (double)(float)s);
    if (t->tensor)
        *score += d->bias[i * t->M + j];
    return (!t->causal || (j < span->keys && j <= i + span->offset)) &&
           (!t->tensor || (d->keep[i * t->M + j] && d->bias[i * t->M + j] > -INFINITY));
}

static void expect_row(const rows_case *t, const rows_data *d, int64_t row) {
    const double floor = oracle_floor(t->f64 ? CLATTN_F64 : CLATTN_F32, 1);
    double m = -INFINITY, l = 0, x;
    for (int64_t j = 0; j < t->M; j++)
        if (score_of(t, d, row, j, &x) && x > m)
            m = x;
    for (int64_t j = 0; j < t->M; j++) {
        const bool kept = score_of(t, d, row, j, &x);
        const double e = d->got[row * t->M + j], w = d->weights[row * t->M + j];
        if (!kept)
            cr_expect(e == 0 && signbit(e) && w == 0 && !signbit(w), "row %d key %d is excluded, and %g", (int)row,
                      (int)j, e);
        else if (isnan(x))
            cr_expect(isnan(e) && isnan(w));
        else
            cr_expect(fabs(e / POWER - exp(x - m)) <= 8 * floor && !signbit(e), "row %d key %d: %g, %g", (int)row,
                      (int)j, e / POWER, exp(x - m));
        l += kept ? exp(x - m) : 0;
    }
    const double sum = d->got[d->n + row], lse = d->lse[row];
    cr_expect(isnan(l) ? isnan(sum) : fabs(sum / POWER - l) <= 8 * floor * (l + 1));
    cr_expect(isnan(l) ? isnan(lse)
              : l == 0 ? lse == -INFINITY
                       : fabs(lse - m - log(l)) <= 8 * floor,
              "row %d: LSE %g, expected %g", (int)row, lse, m + log(l));
}

static void check_rows(clattn_context *context, const rows_case *t) {
    rows_data d = make_rows(t);
    run_rows(context, t, &d);
    for (int64_t row = 0; row < d.rows; row++)
        expect_row(t, &d, row);
    free_rows(&d);
}

Test(softmax, rows_become_weights_and_excluded_keys_minus_zero) {
    clattn_context *context = open_device();
    clattn_device_info info;
    const int64_t keys[] = {1, 2, 31, 33, 64};
    SUCCEEDS(clattn_context_info(context, &info));
    for (int i = 0; i < 5; i++)
        for (int kind = 0; kind < 8; kind++) {
            const rows_case t = {2, 2, 4, keys[i], kind & 4, kind & 1, kind & 2};
            if (!t.f64 || info.has_f64)
                check_rows(context, &t);
        }
    clattn_context_destroy(context);
}

Test(softmax, long_rows_are_summed_in_short_sums) {
    clattn_context *context = open_device();
    const int64_t keys[] = {2047, 2049, 5000};
    for (int i = 0; i < 3; i++) {
        const rows_case t = {1, 1, 3, keys[i], false, i == 1, true};
        check_rows(context, &t);
    }
    clattn_context_destroy(context);
}

/* ---- values and outputs ---- */

/* Two batches of two key heads with two heads each; columns 2 to 4 of values [b, j, h, 7]. */
static void check_values(clattn_context *context, int M) {
    enum { B = 2, HK = 2, GROUP = 2, N = 3, WIDE = 7, FIRST = 2, COLUMNS = 3 };
    const int blocks = (M + CLA_SOFTMAX_KEYS - 1) / CLA_SOFTMAX_KEYS, rows = B * HK * GROUP * N;
    const int values = B * M * HK * WIDE, clean = B * HK * M * COLUMNS, flags = B * HK * blocks;
    const int s_0 = clean, sum_0 = s_0 + rows * M, flag_0 = sum_0 + rows, all = flag_0 + flags;
    float *v = calloc((size_t)values, sizeof *v), *x = calloc((size_t)all, sizeof *x);
    float *got = calloc((size_t)all, sizeof *got), *o = calloc((size_t)rows * COLUMNS, sizeof *o);
    oracle_random random = {9};
    cla_softmax softmax;
    for (int i = 0; i < values; i++)
        v[i] = (float)oracle_normal(&random);
    for (int i = 0; i < rows * M; i++)
        x[s_0 + i] = oracle_below(&random, 3) ? (float)oracle_uniform(&random) : -0.0F;
    for (int i = 0; i < rows; i++)
        x[sum_0 + i] = i == 4 ? 0 : 2;
    for (int j = 0; j < M; j++)
        x[s_0 + 4 * M + j] = -0.0F; /* a query that sees nothing */
#define V(b, hk, j, d) v[(((b)*M + (j)) * HK + (hk)) * WIDE + FIRST + (d)]
    V(0, 0, M - 1, 1) = NAN;
    V(1, 1, 0, 0) = INFINITY;
    V(1, 1, M / 2, 2) = -INFINITY;
    V(0, 1, 0, COLUMNS) = NAN; /* not among the columns */
    clattn_buffer *vb = upload(context, v, (size_t)values * sizeof *v),
                  *xb = upload(context, x, (size_t)all * sizeof *x);
    clattn_buffer *ob = upload(context, o, (size_t)rows * COLUMNS * sizeof *o);
    const cla_softmax_buffers buffers = {.scratch = xb, .v = vb, .o = ob};
    const cla_values_args a = {M * HK * WIDE, WIDE, HK * WIDE, FIRST, 0, flag_0, HK, M, COLUMNS, blocks};
    SUCCEEDS(cla_softmax_create(context, &(cla_softmax_key){.keys = M}, &softmax));
    SUCCEEDS(cla_softmax_values(context, &softmax, vb, xb, &a, B * HK));
    SUCCEEDS(clattn_buffer_download(xb, 0, got, (size_t)all * sizeof *got));
    for (int i = 0; i < clean; i++) {
        const float value = V(i / COLUMNS / M / HK, i / COLUMNS / M % HK, i / COLUMNS % M, i % COLUMNS);
        cr_expect_eq(got[i], isfinite(value) ? value : 0, "%d", i);
    }
    for (int i = 0; i < flags; i++) {
        int found = 0, flag;
        for (int j = i % blocks * CLA_SOFTMAX_KEYS; j < M && j < (i % blocks + 1) * CLA_SOFTMAX_KEYS; j++)
            for (int d = 0; d < COLUMNS; d++)
                found |= !isfinite(V(i / blocks / HK, i / blocks % HK, j, d));
        memcpy(&flag, &got[flag_0 + i], sizeof flag);
        cr_expect_eq(flag, found, "flag %d", i);
    }
    /* O starts as if the product had left 1 everywhere. */
    for (int i = 0; i < rows * COLUMNS; i++)
        o[i] = 1;
    SUCCEEDS(clattn_buffer_upload(ob, 0, o, (size_t)rows * COLUMNS * sizeof *o));
    const cla_outputs_args c = {s_0,         M * HK * WIDE,
                                WIDE,        HK * WIDE,
                                FIRST,       HK * GROUP * N * COLUMNS,
                                N * COLUMNS, COLUMNS,
                                0,           sum_0,
                                flag_0,      B,
                                HK * GROUP,  N,
                                M,           HK,
                                GROUP,       COLUMNS,
                                blocks};
    SUCCEEDS(cla_softmax_outputs(context, &softmax, &buffers, &c));
    SUCCEEDS(clattn_buffer_download(ob, 0, o, (size_t)rows * COLUMNS * sizeof *o));
    for (int i = 0; i < rows * COLUMNS; i++) {
        const int row = i / COLUMNS, hk = row / N / GROUP % HK, b = row / N / GROUP / HK;
        float expected = 1;
        for (int j = 0; j < M; j++)
            if (!isfinite(V(b, hk, j, i % COLUMNS)) && !signbit(x[s_0 + row * M + j]))
                expected += x[s_0 + row * M + j] * V(b, hk, j, i % COLUMNS);
        expected = row == 4 ? 0 : expected / 2;
        cr_expect(isnan(expected) ? isnan(o[i]) : o[i] == expected, "%d: %g, expected %g", i, o[i], expected);
    }
#undef V
    cla_softmax_destroy(&softmax);
    clattn_buffer_destroy(vb);
    clattn_buffer_destroy(xb);
    clattn_buffer_destroy(ob);
    free(v), free(x), free(got), free(o);
}

Test(softmax, values_that_are_not_finite_meet_kept_weights_only) {
    clattn_context *context = open_device();
    const int keys[] = {1, 3, 40, 255, 256, 257, 600};
    for (int i = 0; i < 7; i++)
        check_values(context, keys[i]);
    clattn_context_destroy(context);
}

/* ---- chunks ---- */

static cla_problem sized(int64_t B, int64_t H, int64_t Hk, int64_t N, int64_t M, int64_t Dv) {
    return (cla_problem){.B = B, .H = H, .Hk = Hk, .group = H / Hk, .N = N, .M = M, .D = 4, .Dv = Dv};
}

Test(softmax, chunks_are_the_largest_that_fit) {
    const cla_problem p = sized(3, 8, 4, 10, 100, 16);
    /* bytes of a key head: scores 8000, values 6400, sums 80, a flag of 4 */
    const struct {
        int64_t limit, batches, heads, members, queries, columns;
    } cases[] = {
        {1000000, 3, 4, 2, 10, 16},
        {3 * 4 * 14484 + 1024, 3, 4, 2, 10, 16},
        {3 * 4 * 14484 + 1023, 2, 4, 2, 10, 16},
        {4 * 14484 + 1024, 1, 4, 2, 10, 16},
        {4 * 14484 + 1023, 1, 2, 2, 10, 16},
        {14484 + 1024, 1, 1, 2, 10, 16},
        {14484 + 1023, 1, 1, 1, 10, 16},
        {1024 + 4 + 1600, 1, 1, 1, 1, 2},
        {1024 + 4 + 400 + 404, 1, 1, 1, 1, 1},
        {0, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const cla_chunks c = cla_chunks_choose(&p, cases[i].limit);
        cr_expect(c.of.batches == cases[i].batches && c.of.heads == cases[i].heads &&
                      c.of.members == cases[i].members && c.of.queries == cases[i].queries &&
                      c.columns == cases[i].columns,
                  "limit %d: %d %d %d %d %d", (int)cases[i].limit, (int)c.of.batches, (int)c.of.heads,
                  (int)c.of.members, (int)c.of.queries, (int)c.columns);
        cr_expect(cla_chunks_bytes(&c) <= cases[i].limit || cases[i].limit < 1024 + 4 + 400 + 404);
    }
}

Test(softmax, chunks_never_pass_their_limit) {
    oracle_random random = {1};
    for (int i = 0; i < 20000; i++) {
        const int64_t hk = 1 + oracle_below(&random, 5);
        const cla_problem p =
            sized(1 + oracle_below(&random, 4), hk * (1 + oracle_below(&random, 5)), hk, 1 + oracle_below(&random, 300),
                  1 + oracle_below(&random, 3000), oracle_below(&random, 100));
        const int64_t least = 1024 + 8 * p.M + 4 + 4 * ((p.M + 255) / 256);
        const int64_t limit = least + oracle_below(&random, (int64_t)1 << oracle_below(&random, 30));
        const cla_chunks c = cla_chunks_choose(&p, limit);
        cr_assert(cla_chunks_bytes(&c) <= limit, "B %d H %d Hk %d N %d M %d Dv %d limit %ld: %ld", (int)p.B, (int)p.H,
                  (int)p.Hk, (int)p.N, (int)p.M, (int)p.Dv, (long)limit, (long)cla_chunks_bytes(&c));
        cr_assert(c.of.batches >= 1 && c.of.heads >= 1 && c.of.members >= 1 && c.of.queries >= 1 &&
                  (p.Dv == 0 || c.columns >= 1));
        cr_assert(c.of.batches <= p.B && c.of.heads <= p.Hk && c.of.members <= p.group && c.of.queries <= p.N &&
                  c.columns <= p.Dv);
    }
    const cla_problem huge = sized(1000000, 2000000, 1000, 2000000000, 2000000000, 2000000000);
    const cla_chunks c = cla_chunks_choose(&huge, (int64_t)1 << 40);
    cr_expect_leq(cla_chunks_bytes(&c), (int64_t)1 << 40);
}
