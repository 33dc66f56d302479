/* SPDX-License-Identifier: Apache-2.0 */
/* clattn_merge: partial results over parts of the keys become the whole (semantics.md, R14; case A11). */
#include "algo_checks.h"

enum { B = 2, H = 3, N = 5, M = 97, D = 8, DV = 70, MOST = 11 };
enum { O = B * H * N * DV, ROWS = B * H * N };

/* Results of any type as doubles, and the tensors that hold them. */
typedef struct {
    clattn_dtype o_type, sums;
    bool transposed; /* o as [B, N, Dv, H] in memory, lse as [N, H, B] */
    void *o, *lse;
    clattn_buffer *o_buffer, *lse_buffer; /* NULL: host arrays */
    clattn_partial view;
} result;

static void open_both(clattn_context *contexts[2]) {
    SUCCEEDS(clattn_context_create("cpu", NULL, &contexts[0]));
    if (clattn_context_create("opencl", NULL, &contexts[1]) != CLATTN_OK)
        contexts[1] = NULL;
}

static void close_both(clattn_context *contexts[2]) {
    clattn_context_destroy(contexts[0]);
    clattn_context_destroy(contexts[1]);
}

static int64_t o_place(const clattn_tensor *t, int64_t row, int64_t d) {
    const int64_t b = row / (H * N), h = row / N % H, i = row % N;
    return b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + d * t->stride[3];
}

static int64_t lse_place(const clattn_tensor *t, int64_t row) {
    return row / (H * N) * t->stride[0] + row / N % H * t->stride[1] + row % N * t->stride[2];
}

static result make(clattn_context *context, clattn_dtype o_type, clattn_dtype sums, bool transposed, bool buffers) {
    const int64_t shape[] = {B, H, N, DV};
    result r = {.o_type = o_type, .sums = sums, .transposed = transposed};
    r.o = malloc(O * clattn_dtype_size(o_type));
    r.lse = malloc(ROWS * clattn_dtype_size(sums));
    memset(r.o, 0xff, O * clattn_dtype_size(o_type)); /* NaN */
    memset(r.lse, 0xff, ROWS * clattn_dtype_size(sums));
    r.view.o = clattn_tensor_host(r.o, o_type, 4, shape);
    r.view.lse = clattn_tensor_host(r.lse, sums, 3, shape);
    if (transposed) {
        const int64_t o[] = {N * DV * H, 1, DV * H, H}, lse[] = {1, B, B * H};
        memcpy(r.view.o.stride, o, sizeof o);
        memcpy(r.view.lse.stride, lse, sizeof lse);
    }
    if (buffers) {
        SUCCEEDS(clattn_buffer_create(context, O * clattn_dtype_size(o_type), &r.o_buffer));
        SUCCEEDS(clattn_buffer_create(context, ROWS * clattn_dtype_size(sums), &r.lse_buffer));
        r.view.o.host = r.view.lse.host = NULL;
        r.view.o.buffer = r.o_buffer;
        r.view.lse.buffer = r.lse_buffer;
    }
    return r;
}

static void discard(result *r) {
    clattn_buffer_destroy(r->o_buffer);
    clattn_buffer_destroy(r->lse_buffer);
    free(r->o);
    free(r->lse);
}

/* Dense doubles into the result's memory. */
static void put(result *r, const double *o, const double *lse) {
    const size_t o_size = clattn_dtype_size(r->o_type), lse_size = clattn_dtype_size(r->sums);
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t d = 0; d < DV; d++)
            SUCCEEDS(clattn_convert((char *)r->o + (size_t)o_place(&r->view.o, row, d) * o_size, r->o_type,
                                    o + row * DV + d, CLATTN_F64, 1));
        SUCCEEDS(clattn_convert((char *)r->lse + (size_t)lse_place(&r->view.lse, row) * lse_size, r->sums, lse + row,
                                CLATTN_F64, 1));
    }
    if (r->o_buffer) {
        SUCCEEDS(clattn_buffer_upload(r->o_buffer, 0, r->o, O * o_size));
        SUCCEEDS(clattn_buffer_upload(r->lse_buffer, 0, r->lse, ROWS * lse_size));
    }
}

static void get(result *r, double *o, double *lse) {
    const size_t o_size = clattn_dtype_size(r->o_type), lse_size = clattn_dtype_size(r->sums);
    if (r->o_buffer) {
        SUCCEEDS(clattn_buffer_download(r->o_buffer, 0, r->o, O * o_size));
        SUCCEEDS(clattn_buffer_download(r->lse_buffer, 0, r->lse, ROWS * lse_size));
    }
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t d = 0; d < DV; d++)
            SUCCEEDS(clattn_convert(o + row * DV + d, CLATTN_F64,
                                    (char *)r->o + (size_t)o_place(&r->view.o, row, d) * o_size, r->o_type, 1));
        SUCCEEDS(clattn_convert(lse + row, CLATTN_F64, (char *)r->lse + (size_t)lse_place(&r->view.lse, row) * lse_size,
                                r->sums, 1));
    }
}

/* Attention in double over the keys [j0, j1), by `reference`; row 3 sees nothing of the first part. */
typedef struct {
    double q[B * H * N * D], k[B * H * M * D], v[B * H * M * DV];
    unsigned char keep[N * M];
} inputs;

static inputs *make_inputs(void) {
    inputs *x = malloc(sizeof *x);
    oracle_random random = {5};
    for (int i = 0; i < B * H * N * D; i++)
        x->q[i] = 2 * oracle_normal(&random);
    for (int i = 0; i < B * H * M * D; i++)
        x->k[i] = oracle_normal(&random);
    for (int i = 0; i < B * H * M * DV; i++)
        x->v[i] = oracle_normal(&random);
    for (int i = 0; i < N * M; i++)
        x->keep[i] = i / M != 3 || i % M > 60;
    return x;
}

static void attend(clattn_context *cpu, const inputs *x, int64_t j0, int64_t j1, double *o, double *lse) {
    const int64_t q[] = {B, H, N, D}, k[] = {B, H, M, D}, v[] = {B, H, M, DV}, out[] = {B, H, N, DV}, mask[] = {N, M};
    clattn_attention_args a = {.q = clattn_tensor_host(x->q, CLATTN_F64, 4, q),
                               .k = clattn_tensor_host(x->k, CLATTN_F64, 4, k),
                               .v = clattn_tensor_host(x->v, CLATTN_F64, 4, v),
                               .o = clattn_tensor_host(o, CLATTN_F64, 4, out),
                               .lse = clattn_tensor_host(lse, CLATTN_F64, 3, out),
                               .keep = clattn_tensor_host(x->keep, CLATTN_BOOL, 2, mask),
                               .algorithm = "reference"};
    a.k = clattn_tensor_slice(a.k, 2, j0, j1 - j0);
    a.v = clattn_tensor_slice(a.v, 2, j0, j1 - j0);
    a.keep = clattn_tensor_slice(a.keep, 1, j0, j1 - j0);
    SUCCEEDS(clattn_attention(cpu, &a));
}

typedef struct {
    double o[O], lse[ROWS];
} values;

static void expect_near(const values *got, const values *exact, double o_allowed, double lse_allowed,
                        const char *what) {
    double worst = 0, worst_lse = 0;
    for (int i = 0; i < O; i++)
        worst = fmax(worst, fabs(got->o[i] - exact->o[i]));
    for (int i = 0; i < ROWS; i++)
        if (got->lse[i] != exact->lse[i])
            worst_lse = fmax(worst_lse, fabs(got->lse[i] - exact->lse[i]));
    for (int i = 0; i < O; i++)
        cr_assert(isfinite(got->o[i]), "%s: element %d is %g", what, i, got->o[i]);
    cr_expect(worst <= o_allowed && worst_lse <= lse_allowed, "%s: o off by %g (%g allowed), lse by %g (%g)", what,
              worst, o_allowed, worst_lse, lse_allowed);
}

/* The keys in `count` parts; parts of no key are empty. */
static void merge_parts(clattn_context *context, clattn_context *cpu, const inputs *x, int count, int way) {
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F64, CLATTN_F16, CLATTN_BF16};
    const clattn_dtype out_type = types[way % 4], sums = out_type == CLATTN_F64 ? CLATTN_F64 : CLATTN_F32;
    values whole, got, part;
    result parts[MOST], out = make(context, out_type, sums, way % 3 == 1, way % 2 == 1);
    clattn_partial views[MOST];
    char what[100];
    attend(cpu, x, 0, M, whole.o, whole.lse);
    for (int i = 0; i < count; i++) {
        const int64_t j0 = count == 5 && i == 2 ? M / 5 : M * i / count;
        const int64_t j1 = count == 5 && i == 1 ? M / 5 : M * (i + 1) / count;
        parts[i] = make(context, sums, sums, (way + i) % 2 == 1, (way + i) % 3 == 1);
        views[i] = parts[i].view;
        attend(cpu, x, j0, j1, part.o, part.lse);
        for (int e = 0; e < O; e++) /* not to be read */
            part.o[e] = part.lse[e / DV] == -INFINITY ? NAN : part.o[e];
        put(&parts[i], part.o, part.lse);
    }
    const clattn_merge_args a = {.parts = views, .count = count, .o = out.view.o, .lse = out.view.lse};
    SUCCEEDS(clattn_merge(context, &a));
    get(&out, got.o, got.lse);
    snprintf(what, sizeof what, "%d parts, way %d, %s", count, way, clattn_dtype_name(out_type));
    const double unit = out_type == CLATTN_F16 ? 0x1p-9 : out_type == CLATTN_BF16 ? 0x1p-6 : 0;
    expect_near(&got, &whole, oracle_floor(sums, 4) + unit, oracle_floor(sums, 8), what);
    for (int i = 0; i < count; i++)
        discard(&parts[i]);
    discard(&out);
}

Test(merge, any_number_of_parts_is_the_whole) {
    clattn_context *contexts[2];
    inputs *x = make_inputs();
    open_both(contexts);
    for (int c = 0; c < 2; c++)
        for (int count = 1; contexts[c] && count <= MOST; count += count < 5 ? 1 : 3)
            for (int way = 0; way < 6; way++) {
                clattn_device_info info;
                SUCCEEDS(clattn_context_info(contexts[c], &info));
                if (way % 4 != 1 || info.has_f64 || !info.is_opencl)
                    merge_parts(contexts[c], contexts[0], x, count, way);
            }
    close_both(contexts);
    free(x);
}

/* ---- exact answers ---- */

typedef struct {
    float o[2], lse[1];
} row;

static clattn_status merge_rows(clattn_context *context, const row *parts, int count, row *out) {
    const int64_t shape[] = {1, 2};
    clattn_partial views[8];
    for (int i = 0; i < count; i++)
        views[i] = (clattn_partial){clattn_tensor_host(parts[i].o, CLATTN_F32, 2, shape),
                                    clattn_tensor_host(parts[i].lse, CLATTN_F32, 1, shape)};
    const clattn_merge_args a = {.parts = views,
                                 .count = count,
                                 .o = clattn_tensor_host(out->o, CLATTN_F32, 2, shape),
                                 .lse = clattn_tensor_host(out->lse, CLATTN_F32, 1, shape)};
    return clattn_merge(context, &a);
}

static bool same_bits(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

Test(merge, A11_empty_parts_and_special_numbers) {
    const float none = -INFINITY, nan = NAN, inf = INFINITY;
    const struct {
        row parts[6];
        int count;
        row out;
    } cases[] = {
        {{{{nan, 1}, {none}}, {{2, nan}, {none}}}, 2, {{0, 0}, {none}}}, /* R14 */
        {{{{nan, nan}, {none}}, {{3, 4}, {5}}}, 2, {{3, 4}, {5}}},
        {{{{3, 4}, {5}}, {{nan, nan}, {none}}}, 2, {{3, 4}, {5}}},
        {{{{3, 4}, {-300}}}, 1, {{3, 4}, {-300}}},
        {{{{nan, nan}, {none}}}, 1, {{0, 0}, {none}}},
        {{{{nan, 4}, {1}}, {{2, 8}, {1}}}, 2, {{nan, 6}, {1 + 0.693147182F}}}, /* R3 */
        {{{{1, 4}, {nan}}, {{2, 8}, {1}}}, 2, {{nan, nan}, {nan}}},
        {{{{1, 4}, {nan}}, {{2, 8}, {none}}}, 2, {{nan, nan}, {nan}}},
        {{{{inf, 4}, {1}}, {{2, 8}, {1}}}, 2, {{inf, 6}, {1 + 0.693147182F}}},
        {{{{1, 1}, {none}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{nan, 1}, {none}}, {{7, 8}, {-9}}},
         6,
         {{7, 8}, {-9}}},
        {{{{7, 8}, {9}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{nan, 1}, {none}}}, 5, {{7, 8}, {9}}},
        {{{{1, 1}, {none}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{1, 1}, {none}}, {{nan, 1}, {none}}},
         5,
         {{0, 0}, {none}}},
    };
    clattn_context *contexts[2];
    open_both(contexts);
    for (int c = 0; c < 2; c++)
        for (size_t i = 0; contexts[c] && i < sizeof cases / sizeof *cases; i++) {
            row out = {{5, 5}, {5}};
            SUCCEEDS(merge_rows(contexts[c], cases[i].parts, cases[i].count, &out));
            cr_expect(
                same_bits(out.o[0], cases[i].out.o[0]) && same_bits(out.o[1], cases[i].out.o[1]) &&
                    (same_bits(out.lse[0], cases[i].out.lse[0]) || fabsf(out.lse[0] - cases[i].out.lse[0]) < 1e-6),
                "context %d, case %d: %g %g, lse %g", c, (int)i, out.o[0], out.o[1], out.lse[0]);
        }
    close_both(contexts);
}

Test(merge, works_in_place) {
    clattn_context *contexts[2];
    open_both(contexts);
    for (int c = 0; c < 2; c++)
        for (int into = 0; contexts[c] && into < 5; into++) {
            row parts[5], out;
            for (int i = 0; i < 5; i++)
                parts[i] = (row){{(float)i, (float)(i * i)}, {(float)i / 2}};
            SUCCEEDS(merge_rows(contexts[c], parts, 5, &out));
            const int64_t shape[] = {1, 2};
            clattn_partial views[5];
            for (int i = 0; i < 5; i++)
                views[i] = (clattn_partial){clattn_tensor_host(parts[i].o, CLATTN_F32, 2, shape),
                                            clattn_tensor_host(parts[i].lse, CLATTN_F32, 1, shape)};
            const clattn_merge_args a = {.parts = views, .count = 5, .o = views[into].o, .lse = views[into].lse};
            SUCCEEDS(clattn_merge(contexts[c], &a));
            cr_expect_eq(memcmp(&parts[into], &out, sizeof out), 0, "context %d, into part %d", c, into);
        }
    close_both(contexts);
}

Test(merge, zero_sizes_write_nothing) {
    clattn_context *contexts[2];
    open_both(contexts);
    for (int c = 0; c < 2; c++)
        for (int axis = 0; contexts[c] && axis < 4; axis++) {
            int64_t shape[] = {1, 2, 1, 2};
            float o[4] = {1, 2, 3, 4}, lse[2] = {5, 6}, x[4] = {0};
            shape[axis] = 0;
            const clattn_partial part = {clattn_tensor_host(x, CLATTN_F32, 4, shape),
                                         clattn_tensor_host(x, CLATTN_F32, 3, shape)};
            const clattn_merge_args a = {.parts = &part,
                                         .count = 1,
                                         .o = clattn_tensor_host(o, CLATTN_F32, 4, shape),
                                         .lse = clattn_tensor_host(lse, CLATTN_F32, 3, shape)};
            SUCCEEDS(clattn_merge(contexts[c], &a));
            cr_expect_eq(o[0], 1);
            cr_expect_eq(lse[1], axis == 3 ? 0 : 6, "Dv = 0 still has an LSE");
        }
    close_both(contexts);
}

Test(merge, errors_carry_names_and_numbers) {
    clattn_context *context = checks_open("cpu");
    const int64_t shape[] = {1, 2, 3, 4}, other[] = {1, 2, 3, 5}, rows[] = {1, 2, 4};
    float x[24] = {0}, y[24] = {0}, l[6] = {0}, k[6] = {0};
    double wide[6] = {0};
    const clattn_partial good = {clattn_tensor_host(x, CLATTN_F32, 4, shape),
                                 clattn_tensor_host(l, CLATTN_F32, 3, shape)};
    const clattn_merge_args fine = {.parts = &good,
                                    .count = 1,
                                    .o = clattn_tensor_host(y, CLATTN_F32, 4, shape),
                                    .lse = clattn_tensor_host(k, CLATTN_F32, 3, shape)};
    SUCCEEDS(clattn_merge(context, &fine));
    clattn_merge_args a = fine;
    clattn_partial part = good;
    FAILS(clattn_merge(NULL, &fine), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_merge(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    a.count = 0;
    FAILS(clattn_merge(context, &a), CLATTN_E_ARGUMENT, "0 parts");
    a = fine;
    a.parts = NULL;
    FAILS(clattn_merge(context, &a), CLATTN_E_ARGUMENT, "NULL");
    a.parts = &part;
    part.o = clattn_tensor_host(x, CLATTN_F32, 4, other);
    FAILS(clattn_merge(context, &a), CLATTN_E_SHAPE, "parts[0].o");
    part = good;
    part.lse = clattn_tensor_host(l, CLATTN_F32, 3, rows);
    FAILS(clattn_merge(context, &a), CLATTN_E_SHAPE, "parts[0].lse");
    part.lse = clattn_tensor_host(wide, CLATTN_F64, 3, shape);
    FAILS(clattn_merge(context, &a), CLATTN_E_DTYPE, "parts[0].lse: is f64");
    part.lse = (clattn_tensor){.rank = 0};
    FAILS(clattn_merge(context, &a), CLATTN_E_ARGUMENT, "parts[0].lse: is missing");
    part = good;
    a.o.stride[3] = 0;
    FAILS(clattn_merge(context, &a), CLATTN_E_SHAPE, "o: its strides");
    a.o = clattn_tensor_host(x + 4, CLATTN_F32, 4, shape);
    a.o.shape[2] = part.o.shape[2] = part.lse.shape[2] = a.lse.shape[2] = 1;
    FAILS(clattn_merge(context, &a), CLATTN_E_ARGUMENT, "shares memory");
    part = good;
    a = fine;
    a.parts = &part;
    a.lse.rank = 0;
    part.lse.host = y; /* where o goes */
    FAILS(clattn_merge(context, &a), CLATTN_E_ARGUMENT, "o: shares memory with parts[0].lse");
    clattn_context_destroy(context);
}

Test(merge, base_2_of_an_lse) {
    cr_expect_float_eq(clattn_lse_to_base2(1), 1.4426950408889634, 1e-15);
    cr_expect_float_eq(clattn_lse_from_base2(clattn_lse_to_base2(-7.5)), -7.5, 1e-14);
    cr_expect_eq(clattn_lse_to_base2(-INFINITY), -INFINITY);
    cr_expect_eq(clattn_lse_from_base2(-INFINITY), -INFINITY);
}
