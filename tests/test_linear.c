/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: every algorithm against plain loops, over sizes, layouts, types and activations; what lies around the
 * tensors is NaN, and stays. */
#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

typedef enum { DENSE = 0, PADDED, TURNED, SPREAD, SHARED } layout;

typedef struct {
    int64_t n0, n1, n2, N, K; /* n0, n1 0: 1 */
    clattn_activation activation;
    bool bias;
    layout x, w, y;
    clattn_dtype x_type, w_type, bias_type, y_type;
} linear_case;

/* A tensor with its values, dense, and the array that it lies in. */
typedef struct {
    clattn_tensor t;
    double *values;
    int64_t count;
    double *image; /* of the whole array, NaN where the tensor is not */
    int64_t size;
    void *array;
} operand;

enum { GUARD = 64 };

/* Strides of a shape, last axis first in `order`; gap elements after each run of the first. */
static void lay_out(operand *o, clattn_dtype dtype, int rank, const int64_t *shape, layout how, bool rows_turn) {
    const int64_t gap = how == PADDED ? (int64_t)(clattn_dtype_length(dtype) == 1 ? 3 : 32) : 0;
    int64_t step = how == SPREAD ? 2 : 1;
    o->t = (clattn_tensor){.dtype = dtype, .rank = rank, .offset = GUARD};
    for (int i = 0; i < rank; i++)
        o->t.shape[i] = shape[i];
    int order[4];
    for (int i = 0; i < rank; i++)
        order[i] = rank - 1 - i;
    if (how == TURNED && rank > 1) { /* the last two axes, or for rows the middle ones, change places */
        const int at = rows_turn && rank > 2 ? 1 : 0;
        const int other = order[at];
        order[at] = order[at + 1];
        order[at + 1] = other;
    }
    for (int i = 0; i < rank; i++) {
        o->t.stride[order[i]] = step;
        step *= shape[order[i]] > 0 ? shape[order[i]] : 1;
        step += i == 0 ? gap : 0;
    }
    if (how == SHARED)
        for (int i = 0; i + 1 < rank; i++)
            o->t.stride[i] = 0;
    o->size = 2 * GUARD + (step + 31) / 32 * 32;
}

static int64_t place_of(const clattn_tensor *t, int64_t element) {
    int64_t at = t->offset;
    for (int i = t->rank - 1; i >= 0; i--) {
        at += element % t->shape[i] * t->stride[i];
        element /= t->shape[i];
    }
    return at;
}

static void make(operand *o, clattn_dtype dtype, int rank, const int64_t *shape, layout how, bool rows_turn,
                 oracle_random *random) {
    lay_out(o, dtype, rank, shape, how, rows_turn);
    o->count = clattn_tensor_elements(&o->t);
    o->values = calloc((size_t)o->count + 1, sizeof *o->values);
    o->image = calloc((size_t)o->size, sizeof *o->image);
    o->array = calloc((size_t)o->size, 8);
    for (int64_t i = 0; i < o->size; i++)
        o->image[i] = NAN;
    for (int64_t i = 0; i < o->count; i++)
        o->image[place_of(&o->t, i)] = random ? oracle_normal(random) : NAN;
    SUCCEEDS(clattn_convert(o->array, dtype, o->image, CLATTN_F64, (size_t)o->size));
    for (int64_t i = 0; i < o->count; i++)
        o->values[i] = oracle_decode(dtype, o->array, place_of(&o->t, i));
    o->t.host = o->array;
}

static void drop(operand *o) {
    free(o->values);
    free(o->image);
    free(o->array);
}

static long double exact_activation(clattn_activation activation, long double x) {
    switch (activation) {
    case CLATTN_ACTIVATION_NONE:
        break;
    case CLATTN_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CLATTN_ACTIVATION_GELU:
        return x / 2 * (1 + erfl(x / sqrtl(2)));
    case CLATTN_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
    case CLATTN_ACTIVATION_SILU:
        return x / (1 + expl(-x));
    }
    return x;
}

/* The header's bound of a sum, and half an erf's times x, or what the exponential and the division round away. */
static double allowed(const linear_case *t, clattn_dtype sums, double terms, double z, double y) {
    const double unit = sums == CLATTN_F64 ? 0x1p-53 : 0x1p-24;
    const double erf_error = sums == CLATTN_F64 ? 4 * unit : 1.6e-7 + 4 * unit;
    double most = 4 * (double)(t->K + 1) * unit * terms;
    if (t->activation != CLATTN_ACTIVATION_NONE)
        most = 1.2 * most + fabs(z) * (t->activation == CLATTN_ACTIVATION_GELU ? erf_error / 2 + unit : 8 * unit);
    return most + (t->y_type == sums ? 2 * unit * fabs(y) : oracle_floor(t->y_type, fabs(y)));
}

static void check_values(const linear_case *t, const char *algorithm, clattn_dtype sums, const operand all[4]) {
    const operand *x = &all[0], *w = &all[1], *b = &all[2], *y = &all[3];
    const int64_t rows = t->N ? y->count / t->N : 0;
    int wrong = 0;
    for (int64_t i = 0; i < rows * t->N && wrong < 3; i++) {
        const int64_t row = i / t->N, n = i % t->N;
        long double z = 0, terms = 0;
        for (int64_t k = 0; k < t->K; k++) {
            const long double p = (long double)x->values[row * t->K + k] * w->values[n * t->K + k];
            z += p;
            terms += fabsl(p);
        }
        if (t->bias)
            z += b->values[n], terms += fabs(b->values[n]);
        const double want = (double)exact_activation(t->activation, z);
        const double got = oracle_decode(t->y_type, y->array, place_of(&y->t, i));
        const double most = allowed(t, sums, (double)terms, (double)z, want);
        const bool right = fabs(got - want) <= most;
        wrong += !right;
        cr_expect(right,
                  "%s: [%d %d %d] x [%d, %d] %s %s%s layouts %d %d %d: row %d column %d: %.9g, expected %.9g +- %.2g",
                  algorithm, (int)t->n0, (int)t->n1, (int)t->n2, (int)t->N, (int)t->K, clattn_dtype_name(t->w_type),
                  clattn_activation_name(t->activation), t->bias ? " bias" : "", (int)t->x, (int)t->w, (int)t->y,
                  (int)row, (int)n, got, want, most);
    }
}

/* Bytes of y's array outside of y are as they were. */
static void check_around(const char *algorithm, const operand *y, const unsigned char *before) {
    const size_t size = clattn_dtype_size(y->t.dtype), bytes = (size_t)y->size * size;
    unsigned char *now = malloc(bytes);
    memcpy(now, y->array, bytes);
    for (int64_t i = 0; i < y->count; i++) {
        const size_t at = (size_t)place_of(&y->t, i) * size;
        memcpy(now + at, before + at, size);
    }
    cr_expect_eq(memcmp(now, before, bytes), 0, "%s wrote outside of y", algorithm);
    free(now);
}

static void make_all(const linear_case *t, operand all[4], uint64_t seed) {
    oracle_random random = {seed};
    const int64_t n0 = t->n0 ? t->n0 : 1, n1 = t->n1 ? t->n1 : 1;
    make(&all[0], t->x_type, 4, (const int64_t[]){n0, n1, t->n2, t->K}, t->x, t->x == TURNED && n1 > 1, &random);
    make(&all[1], t->w_type, 2, (const int64_t[]){t->N, t->K}, t->w, false, &random);
    make(&all[2], t->bias_type, 1, (const int64_t[]){t->N}, t->w == SPREAD ? SPREAD : DENSE, false, &random);
    make(&all[3], t->y_type, 4, (const int64_t[]){n0, n1, t->n2, t->N}, t->y, t->y == TURNED && n1 > 1, NULL);
}

static clattn_dtype sums_of(const linear_case *t) {
    const clattn_dtype all[] = {t->x_type, t->w_type, t->y_type, t->bias ? t->bias_type : CLATTN_F32};
    for (int i = 0; i < 4; i++)
        if (all[i] == CLATTN_F64)
            return CLATTN_F64;
    return CLATTN_F32;
}

/* Every algorithm that applies on the context. Returns how many. */
static int check(clattn_context *context, const linear_case *t) {
    int count = 0;
    for (size_t i = 0; clattn_linear_algorithm(i); i++) {
        operand all[4];
        bool yes;
        const char *name = clattn_linear_algorithm(i);
        make_all(t, all, 7);
        clattn_linear_args args = {.x = all[0].t, .w = all[1].t, .y = all[3].t, .activation = t->activation};
        args.algorithm = name;
        if (t->bias)
            args.bias = all[2].t;
        const size_t bytes = (size_t)all[3].size * clattn_dtype_size(t->y_type);
        unsigned char *before = malloc(bytes);
        memcpy(before, all[3].array, bytes);
        SUCCEEDS(clattn_linear_applies(context, &args, i, &yes, NULL));
        if (yes) {
            SUCCEEDS(clattn_linear(context, &args));
            check_values(t, name, sums_of(t), all);
            check_around(name, &all[3], before);
            count++;
        }
        free(before);
        for (int j = 0; j < 4; j++)
            drop(&all[j]);
    }
    return count;
}

static void check_table(const linear_case *cases, size_t count) {
    static const char *const devices[] = {"opencl", "cpu"};
    int checked = 0;
    for (int d = 0; d < 2; d++) {
        clattn_context *context = NULL;
        clattn_device_info info;
        if (clattn_context_create(devices[d], NULL, &context) != CLATTN_OK)
            continue; /* no OpenCL here: `cpu` is checked */
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < count; i++)
            if (info.has_f64 || sums_of(&cases[i]) != CLATTN_F64)
                checked += check(context, &cases[i]);
        clattn_context_destroy(context);
    }
    cr_assert_geq(checked, 2 * (int)count, "blas and reference at least");
}

#define CHECK_TABLE(cases) check_table(cases, sizeof(cases) / sizeof *(cases))

Test(linear, sizes_from_one_to_beyond_every_block) {
    static const linear_case cases[] = {
        {.n2 = 1, .N = 1, .K = 1},
        {.n2 = 1, .N = 1, .K = 1, .bias = true},
        {.n2 = 5, .N = 7, .K = 3, .bias = true},
        {.n2 = 2, .N = 17, .K = 16},
        {.n2 = 3, .N = 24, .K = 31, .bias = true},
        {.n2 = 4, .N = 25, .K = 8},
        {.n2 = 8, .N = 47, .K = 65, .bias = true},
        {.n2 = 9, .N = 48, .K = 33},
        {.n2 = 33, .N = 50, .K = 70, .bias = true},
        {.n0 = 2, .n1 = 3, .n2 = 11, .N = 9, .K = 40, .bias = true},
        {.n2 = 601, .N = 26, .K = 12, .bias = true},
        {.n2 = 40, .N = 400, .K = 5},
        {.n2 = 6, .N = 3, .K = 5000, .bias = true}, /* more terms than a panel holds */
        {.n2 = 1, .N = 300, .K = 129},
    };
    CHECK_TABLE(cases);
}

Test(linear, nothing_to_sum_is_the_activation_of_the_bias) {
    static const linear_case cases[] = {
        {.n2 = 3, .N = 5, .K = 0},
        {.n2 = 3, .N = 5, .K = 0, .bias = true, .activation = CLATTN_ACTIVATION_GELU},
        {.n2 = 20, .N = 30, .K = 0, .bias = true, .activation = CLATTN_ACTIVATION_SILU, .y = PADDED},
        {.n2 = 0, .N = 5, .K = 4, .bias = true},
        {.n2 = 4, .N = 0, .K = 4, .bias = true},
        {.n0 = 0, .n1 = 2, .n2 = 0, .N = 0, .K = 0},
    };
    CHECK_TABLE(cases);
}

Test(linear, activations_with_and_without_bias) {
    linear_case cases[20] = {{0}};
    for (int i = 0; i < 20; i++)
        cases[i] = (linear_case){
            .n2 = i % 2 ? 3 : 21, .N = 27, .K = 18, .bias = i / 2 % 2, .activation = (clattn_activation)(i / 4)};
    CHECK_TABLE(cases);
}

Test(linear, any_strides) {
    linear_case cases[4 * 4 * 4] = {{0}};
    static const layout xs[] = {PADDED, TURNED, SPREAD, SHARED}, ws[] = {DENSE, PADDED, TURNED, SPREAD},
                        ys[] = {DENSE, PADDED, TURNED, SPREAD};
    for (int i = 0; i < 64; i++)
        cases[i] = (linear_case){.n0 = 2,
                                 .n1 = i % 3 ? 3 : 1,
                                 .n2 = i % 2 ? 5 : 1,
                                 .N = 19,
                                 .K = 35,
                                 .bias = i % 5 == 0,
                                 .x = xs[i % 4],
                                 .w = ws[i / 4 % 4],
                                 .y = ys[i / 16]};
    CHECK_TABLE(cases);
}

Test(linear, storage_types) {
    static const clattn_dtype weights[] = {CLATTN_F16, CLATTN_BF16, CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_F32};
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16};
    static const int64_t rows[] = {1, 2, 4, 7, 37};
    linear_case cases[5 * 5 * 3] = {{0}};
    for (int i = 0; i < 75; i++)
        cases[i] = (linear_case){.n2 = rows[i % 5],
                                 .N = 29,
                                 .K = i % 2 ? 96 : 64,
                                 .bias = true,
                                 .activation = i % 7 ? CLATTN_ACTIVATION_NONE : CLATTN_ACTIVATION_GELU,
                                 .w = i % 4 == 1 ? PADDED : DENSE,
                                 .x_type = types[i / 25],
                                 .w_type = weights[i / 5 % 5],
                                 .bias_type = types[i % 3],
                                 .y_type = types[(i / 5 + i / 25) % 3]};
    CHECK_TABLE(cases);
}

Test(linear, odd_terms_and_turned_weights_of_half_types) {
    static const linear_case cases[] = {
        {.n2 = 3, .N = 9, .K = 37, .w_type = CLATTN_F16},
        {.n2 = 3, .N = 9, .K = 37, .w_type = CLATTN_BF16, .x_type = CLATTN_BF16, .y_type = CLATTN_BF16},
        {.n2 = 13, .N = 50, .K = 37, .w_type = CLATTN_F16, .x_type = CLATTN_F16, .x = TURNED},
        {.n2 = 13, .N = 50, .K = 37, .w_type = CLATTN_F16, .w = TURNED},
        {.n2 = 2, .N = 50, .K = 37, .w_type = CLATTN_BF16, .w = TURNED, .y_type = CLATTN_F16, .y = PADDED},
        {.n2 = 13, .N = 21, .K = 7, .w_type = CLATTN_BF16, .w = SPREAD, .y_type = CLATTN_F16, .y = SPREAD},
        {.n2 = 9, .N = 21, .K = 4096, .w_type = CLATTN_Q8_0, .bias = true}, /* blocks over two panels */
        {.n2 = 9, .N = 21, .K = 4096, .w_type = CLATTN_Q4_0},
    };
    CHECK_TABLE(cases);
}

Test(linear, f64_and_mixed_sums) {
    static const linear_case cases[] = {
        {.n2 = 1, .N = 1, .K = 1, .x_type = CLATTN_F64, .w_type = CLATTN_F64, .y_type = CLATTN_F64},
        {.n2 = 30,
         .N = 31,
         .K = 33,
         .bias = true,
         .x_type = CLATTN_F64,
         .w_type = CLATTN_F64,
         .bias_type = CLATTN_F64,
         .y_type = CLATTN_F64,
         .activation = CLATTN_ACTIVATION_GELU},
        {.n2 = 30,
         .N = 31,
         .K = 33,
         .x_type = CLATTN_F64,
         .w_type = CLATTN_F64,
         .y_type = CLATTN_F64,
         .w = TURNED,
         .activation = CLATTN_ACTIVATION_SILU},
        {.n2 = 7,
         .N = 31,
         .K = 33,
         .x_type = CLATTN_F64,
         .w_type = CLATTN_F64,
         .y_type = CLATTN_F64,
         .x = TURNED,
         .activation = CLATTN_ACTIVATION_GELU_TANH},
        {.n2 = 5, .N = 12, .K = 64, .bias = true, .bias_type = CLATTN_F64, .w_type = CLATTN_Q8_0},
        {.n2 = 12, .N = 12, .K = 64, .y_type = CLATTN_F64, .w_type = CLATTN_Q4_0},
        {.n2 = 3, .N = 12, .K = 2500, .y_type = CLATTN_F64, .x_type = CLATTN_F16},
        {.n2 = 12, .N = 12, .K = 2500, .w_type = CLATTN_F64, .x_type = CLATTN_F32, .y_type = CLATTN_F16},
    };
    CHECK_TABLE(cases);
}

/* ---- numbers that are none, and bits ---- */

static clattn_context *open_device(const char *device) {
    clattn_context *context = NULL;
    if (clattn_context_create(device, NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    return context;
}

/* A NaN in a row of x, and an infinity in a row of w. */
static void check_poison(clattn_context *context, const char *algorithm, int rows, clattn_activation activation) {
    enum { N = 30, K = 37, BAD_ROW = 1, BAD_COLUMN = 25 };
    float x[40 * K], w[N * K], clean[40 * N], y[40 * N];
    const int64_t xs[] = {rows, K}, ws[] = {N, K}, ys[] = {rows, N};
    for (int i = 0; i < rows * K; i++)
        x[i] = (float)(i % 11) * 0.125F - 0.5F;
    for (int i = 0; i < N * K; i++)
        w[i] = (float)(i % 7) * 0.25F - 0.6F;
    clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, xs),
                               .w = clattn_tensor_host(w, CLATTN_F32, 2, ws),
                               .y = clattn_tensor_host(clean, CLATTN_F32, 2, ys),
                               .activation = activation,
                               .algorithm = algorithm};
    SUCCEEDS(clattn_linear(context, &args));
    x[BAD_ROW * K + K - 1] = NAN;
    w[BAD_COLUMN * K + 3] = INFINITY;
    args.y.host = y;
    SUCCEEDS(clattn_linear(context, &args));
    for (int i = 0; i < rows * N; i++) {
        const int row = i / N, column = i % N;
        if (row == BAD_ROW)
            cr_expect(isnan(y[i]), "%s: row %d column %d: %g", algorithm, row, column, (double)y[i]);
        else if (column == BAD_COLUMN)
            cr_expect(!isfinite(y[i]) || (y[i] == 0 && activation == CLATTN_ACTIVATION_RELU), "%s: row %d: %g",
                      algorithm, row, (double)y[i]);
        else
            cr_expect_eq(memcmp(&y[i], &clean[i], sizeof y[i]), 0, "%s: row %d column %d: %g, was %g", algorithm, row,
                         column, (double)y[i], (double)clean[i]);
    }
}

Test(linear, nan_and_infinity_reach_their_row_and_column_alone) {
    clattn_context *context = open_device("opencl");
    static const char *const names[] = {"gemv", "linear", "clblast"};
    for (int i = 0; i < 3; i++)
        for (int a = 0; a < 5; a++) {
            check_poison(context, names[i], 3, (clattn_activation)a);
            check_poison(context, names[i], 40, (clattn_activation)a);
        }
    clattn_context_destroy(context);
}

/* The activation of a column of numbers, as f32 kernels compute it: w is 1. */
static void activate(clattn_context *context, const char *algorithm, clattn_activation activation, const float *x,
                     float *y, int64_t n) {
    const float one = 1;
    const int64_t shape[] = {n, 1}, ws[] = {1, 1};
    const clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                     .w = clattn_tensor_host(&one, CLATTN_F32, 2, ws),
                                     .y = clattn_tensor_host(y, CLATTN_F32, 2, shape),
                                     .activation = activation,
                                     .algorithm = algorithm};
    SUCCEEDS(clattn_linear(context, &args));
}

Test(linear, activations_over_the_whole_line) {
    enum { COUNT = 4096 };
    static const char *const names[] = {"gemv", "linear", "clblast"};
    static float x[COUNT], y[COUNT];
    clattn_context *context = open_device("opencl");
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)((i % 2 ? 1 : -1) * exp(i * 0.006 - 18)); /* 1.5e-8 to 700 */
    for (int i = 0; i < 3; i++)
        for (int a = 1; a < 5; a++) {
            activate(context, names[i], (clattn_activation)a, x, y, COUNT);
            const linear_case t = {.activation = (clattn_activation)a};
            for (int j = 0; j < COUNT; j++) {
                const double want = (double)exact_activation((clattn_activation)a, (long double)x[j]);
                const double most = allowed(&t, CLATTN_F32, 0, (double)x[j], want);
                cr_assert(fabs((double)y[j] - want) <= most, "%s %s(%.9g) = %.9g, expected %.9g +- %.2g", names[i],
                          clattn_activation_name((clattn_activation)a), (double)x[j], (double)y[j], want, most);
            }
        }
    clattn_context_destroy(context);
}

/* A row's bits do not depend on the others, nor a column's. */
Test(linear, bits_of_an_element_depend_on_its_row_and_column_alone) {
    enum { M = 70, N = 75, K = 83 };
    static float x[M * K], w[N * K], all[M * N], part[M * N], again[M * N];
    clattn_context *context = open_device("opencl");
    oracle_random random = {3};
    for (int i = 0; i < M * K; i++)
        x[i] = (float)oracle_normal(&random);
    for (int i = 0; i < N * K; i++)
        w[i] = (float)oracle_normal(&random);
    const int64_t xs[] = {M, K}, ws[] = {N, K}, ys[] = {M, N};
    static const char *const names[] = {"gemv", "linear"};
    for (int i = 0; i < 2; i++) {
        clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, xs),
                                   .w = clattn_tensor_host(w, CLATTN_F32, 2, ws),
                                   .y = clattn_tensor_host(all, CLATTN_F32, 2, ys),
                                   .activation = CLATTN_ACTIVATION_GELU,
                                   .algorithm = names[i]};
        SUCCEEDS(clattn_linear(context, &args));
        args.y.host = again;
        SUCCEEDS(clattn_linear(context, &args));
        cr_expect_eq(memcmp(all, again, sizeof all), 0, "%s: other bits in another run", names[i]);
        for (int rows = 1; rows < 24; rows += 3) { /* from a row in the middle, and columns of its own */
            clattn_linear_args some = args;
            some.x = clattn_tensor_slice(args.x, 0, 11, rows);
            some.w = clattn_tensor_slice(args.w, 0, 5, N - 5 - rows);
            some.y = clattn_tensor_host(part, CLATTN_F32, 2, (const int64_t[]){rows, N - 5 - rows});
            SUCCEEDS(clattn_linear(context, &some));
            for (int r = 0; r < rows; r++)
                cr_expect_eq(
                    memcmp(part + r * (N - 5 - rows), all + (11 + r) * N + 5, (size_t)(N - 5 - rows) * sizeof *part), 0,
                    "%s: row %d of %d", names[i], r, rows);
        }
    }
    clattn_context_destroy(context);
}

/* ---- buffers, ranks, choice, errors ---- */

typedef struct {
    clattn_context *context;
    clattn_buffer *buffers[3];
    clattn_linear_args args;
    float x[4 * 6], w[5 * 6], y[4 * 5];
} small;

static void open_small(small *s, const char *device) {
    const int64_t xs[] = {4, 6}, ws[] = {5, 6}, ys[] = {4, 5};
    void *const data[] = {s->x, s->w, s->y};
    const size_t bytes[] = {sizeof s->x, sizeof s->w, sizeof s->y};
    s->context = open_device(device);
    for (int i = 0; i < 24; i++)
        s->x[i] = (float)i;
    for (int i = 0; i < 30; i++)
        s->w[i] = (float)(i % 4);
    for (int i = 0; i < 3; i++) {
        SUCCEEDS(clattn_buffer_create(s->context, bytes[i], &s->buffers[i]));
        SUCCEEDS(clattn_buffer_upload(s->buffers[i], 0, data[i], bytes[i]));
    }
    s->args = (clattn_linear_args){.x = clattn_tensor_buffer(s->buffers[0], CLATTN_F32, 2, xs),
                                   .w = clattn_tensor_buffer(s->buffers[1], CLATTN_F32, 2, ws),
                                   .y = clattn_tensor_buffer(s->buffers[2], CLATTN_F32, 2, ys)};
}

static void close_small(small *s) {
    for (int i = 0; i < 3; i++)
        clattn_buffer_destroy(s->buffers[i]);
    clattn_context_destroy(s->context);
}

static void check_small(small *s) {
    float y[20];
    SUCCEEDS(clattn_linear(s->context, &s->args));
    SUCCEEDS(clattn_buffer_download(s->buffers[2], 0, y, sizeof y));
    for (int i = 0; i < 20; i++) {
        float sum = 0;
        for (int k = 0; k < 6; k++)
            sum += s->x[i / 5 * 6 + k] * s->w[i % 5 * 6 + k];
        cr_expect_eq(y[i], sum, "%d: %g, expected %g", i, (double)y[i], (double)sum);
    }
}

Test(linear, buffers_on_every_device_and_algorithm) {
    static const char *const devices[] = {"opencl", "cpu"};
    for (int d = 0; d < 2; d++) {
        small s;
        open_small(&s, devices[d]);
        check_small(&s);
        for (size_t i = 0; clattn_linear_algorithm(i); i++) {
            bool yes;
            const char *reason;
            SUCCEEDS(clattn_linear_applies(s.context, &s.args, i, &yes, &reason));
            s.args.algorithm = clattn_linear_algorithm(i);
            if (yes)
                check_small(&s);
            else
                FAILS(clattn_linear(s.context, &s.args), CLATTN_E_UNSUPPORTED, reason);
            s.args.algorithm = NULL;
        }
        close_small(&s);
    }
}

Test(linear, a_row_of_rank_one) {
    clattn_context *context = open_device("cpu");
    const float x[] = {1, 2}, w[] = {3, 4, 5, 6, 7, 8}, b[] = {1, 0, -50};
    float y[3];
    const clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 1, (const int64_t[]){2}),
                                     .w = clattn_tensor_host(w, CLATTN_F32, 2, (const int64_t[]){3, 2}),
                                     .bias = clattn_tensor_host(b, CLATTN_F32, 1, (const int64_t[]){3}),
                                     .y = clattn_tensor_host(y, CLATTN_F32, 1, (const int64_t[]){3}),
                                     .activation = CLATTN_ACTIVATION_RELU};
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect(y[0] == 12 && y[1] == 17 && y[2] == 0, "%g %g %g", (double)y[0], (double)y[1], (double)y[2]);
    clattn_context_destroy(context);
}

static size_t runs_of(clattn_context *context, const char *kernel) {
    clattn_profile_entry entries[8];
    size_t count = 0, runs = 0;
    SUCCEEDS(clattn_context_profile(context, entries, 8, &count));
    for (size_t i = 0; i < count && i < 8; i++)
        if (strcmp(entries[i].name, kernel) == 0)
            runs = entries[i].count;
    clattn_context_profile_reset(context);
    return runs;
}

Test(linear, cpus_take_our_kernels_and_few_rows_gemv) {
    static float x[40 * 8], w[8 * 8], y[40 * 8];
    clattn_context *context = NULL;
    clattn_device_info info;
    if (clattn_context_create("opencl", &(clattn_context_options){.profile = true}, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    SUCCEEDS(clattn_context_info(context, &info));
    const bool own = info.device_class == CLATTN_DEVICE_CPU;
    clattn_linear_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, (const int64_t[]){40, 8}),
                               .w = clattn_tensor_host(w, CLATTN_F32, 2, (const int64_t[]){8, 8}),
                               .y = clattn_tensor_host(y, CLATTN_F32, 2, (const int64_t[]){40, 8})};
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "linear" : "clblast_gemm"), 1);
    args.x.shape[0] = args.y.shape[0] = 8;
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "gemv" : "clblast_gemm"), 1);
    args.w.stride[0] = 1, args.w.stride[1] = 8;
    SUCCEEDS(clattn_linear(context, &args));
    cr_expect_eq(runs_of(context, own ? "linear" : "clblast_gemm"), 1);
    clattn_context_destroy(context);
}

Test(linear, errors_name_tensors_and_numbers) {
    small s;
    float b[5] = {0};
    open_small(&s, "cpu");
    const clattn_linear_args good = s.args;
    clattn_linear_args a = good;
    FAILS(clattn_linear(NULL, &a), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_linear(s.context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    a.w = (clattn_tensor){0};
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "w: is missing");
    a = good, a.w.shape[1] = 5;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "x [4, 6]: its last axis should be 5, as w [5, 5] has it");
    a = good, a.y.shape[1] = 6;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y: reaches to byte");
    a = good, a.y.shape[1] = 4;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y [4, 4]: should be x [4, 6] with a last axis of 5");
    a = good, a.y.shape[0] = 3;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y [3, 5]: should be x [4, 6]");
    a = good, a.w.rank = 3, a.w.shape[2] = 1, a.w.stride[2] = 1;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "w [5, 6, 1]: should be [N, K]");
    a = good, a.x.dtype = CLATTN_I32;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_DTYPE, "x: is i32");
    a = good, a.bias = clattn_tensor_host(b, CLATTN_F32, 1, (const int64_t[]){4});
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "bias [4]: should be [5]");
    a.bias = clattn_tensor_host(b, CLATTN_F32, 2, (const int64_t[]){1, 5});
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "bias [1, 5]: should be [5]");
    a = good, a.y.stride[0] = 0;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_SHAPE, "y: its strides make elements share a place");
    a = good, a.y.buffer = a.x.buffer;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with x");
    a = good, a.y.buffer = a.w.buffer;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with w");
    a = good, a.bias = a.y, a.bias.rank = 1, a.bias.shape[0] = 5, a.bias.stride[0] = 1;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "y: shares memory with bias");
    a = good, a.activation = (clattn_activation)9;
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT, "9 is no activation");
    a = good, a.algorithm = "gemm";
    FAILS(clattn_linear(s.context, &a), CLATTN_E_ARGUMENT,
          "algorithm \"gemm\": there are gemv, linear, clblast, blas, reference");
    a = good, a.algorithm = "linear";
    FAILS(clattn_linear(s.context, &a), CLATTN_E_UNSUPPORTED, "algorithm linear: runs on OpenCL devices");
    bool yes;
    FAILS(clattn_linear_applies(s.context, &good, 99, &yes, NULL), CLATTN_E_ARGUMENT, "not so many");
    FAILS(clattn_linear_applies(s.context, &good, 0, NULL, NULL), CLATTN_E_ARGUMENT, "applies is NULL");
    cr_expect_str_eq(clattn_activation_name(CLATTN_ACTIVATION_GELU_TANH), "gelu_tanh");
    cr_expect_str_eq(clattn_activation_name((clattn_activation)-1), "?");
    close_small(&s);
}
