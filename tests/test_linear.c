/* SPDX-License-Identifier: Apache-2.0 */
/* Linear layers: every algorithm against plain loops, over sizes, layouts, types and activations; what lies around the
 * tensors is NaN, and stays. */
#include "linear_cases.h"
#include "runtime/state.h"
#include "testing.h"
#include <stdlib.h>

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

typedef struct {
    long double z, terms; /* a sum, and that of its terms' sizes */
} exact_sum;

/* Row `row` of x times row j of w, and bias. */
static exact_sum sum_of(const linear_case *t, const operand all[4], int64_t row, int64_t j) {
    exact_sum s = {0, 0};
    for (int64_t k = 0; k < t->K; k++) {
        const long double p = (long double)all[0].values[row * t->K + k] * all[1].values[j * t->K + k];
        s.z += p;
        s.terms += fabsl(p);
    }
    if (t->bias)
        s.z += all[2].values[j], s.terms += fabs(all[2].values[j]);
    return s;
}

static void check_values(const linear_case *t, const char *algorithm, clattn_dtype sums, const operand all[4]) {
    const operand *y = &all[3];
    const int64_t rows = t->N ? y->count / t->N : 0;
    int wrong = 0;
    for (int64_t i = 0; i < rows * t->N && wrong < 3; i++) {
        const int64_t row = i / t->N, n = i % t->N;
        const exact_sum s = sum_of(t, all, row, n);
        double want = (double)exact_activation(t->activation, s.z);
        double most = allowed(t, sums, (double)s.terms, (double)s.z, want);
        if (t->gated) {
            const exact_sum up = sum_of(t, all, row, t->N + n);
            linear_case plain = *t;
            plain.activation = CLATTN_ACTIVATION_NONE;
            most = 1.01 * most * fabs((double)up.z) +
                   1.01 * allowed(&plain, sums, (double)up.terms, (double)up.z, (double)up.z) * fabs(want);
            want *= (double)up.z;
        }
        const double got = oracle_decode(t->y_type, y->array, place_of(&y->t, i));
        const bool right = fabs(got - want) <= most;
        wrong += !right;
        cr_expect(right,
                  "%s: [%d %d %d] x [%d, %d] %s %s%s%s layouts %d %d %d: row %d column %d: %.9g, expected %.9g +- %.2g",
                  algorithm, (int)t->n0, (int)t->n1, (int)t->n2, (int)t->N, (int)t->K, clattn_dtype_name(t->w_type),
                  clattn_activation_name(t->activation), t->bias ? " bias" : "", t->gated ? " gated" : "", (int)t->x,
                  (int)t->w, (int)t->y, (int)row, (int)n, got, want, most);
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
    const int64_t all_rows = t->N * (t->gated ? 2 : 1);
    make(&all[1], t->w_type, 2, (const int64_t[]){all_rows, t->K}, t->w, false, &random);
    make(&all[2], t->bias_type, 1, (const int64_t[]){all_rows}, t->w == SPREAD ? SPREAD : DENSE, false, &random);
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
        args.gated = t->gated;
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

Test(linear, gated_by_the_first_half_of_its_rows) {
    static const linear_case cases[] = {
        {.n2 = 1, .N = 1, .K = 1, .gated = true},
        {.n2 = 1, .N = 50, .K = 40, .gated = true, .activation = CLATTN_ACTIVATION_SILU},
        {.n2 = 3, .N = 17, .K = 33, .gated = true, .bias = true, .activation = CLATTN_ACTIVATION_GELU},
        {.n2 = 21, .N = 17, .K = 33, .gated = true, .bias = true, .activation = CLATTN_ACTIVATION_SILU, .y = PADDED},
        {.n0 = 2, .n1 = 3, .n2 = 5, .N = 16, .K = 7, .gated = true, .bias = true, .x = TURNED, .y = TURNED},
        {.n2 = 2, .N = 20, .K = 1120, .gated = true, .w_type = CLATTN_Q4_1, .activation = CLATTN_ACTIVATION_SILU},
        {.n2 = 9, .N = 20, .K = 64, .gated = true, .w_type = CLATTN_Q8_0, .y_type = CLATTN_F16, .bias = true},
        {.n2 = 5, .N = 6, .K = 12, .gated = true, .y_type = CLATTN_F64, .activation = CLATTN_ACTIVATION_RELU},
        {.n2 = 2, .N = 9, .K = 0, .gated = true, .bias = true},
        {.n2 = 0, .N = 9, .K = 3, .gated = true},
        {.n2 = 2, .N = 0, .K = 3, .gated = true},
    };
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
    static const clattn_dtype weights[] = {CLATTN_F16, CLATTN_BF16, CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_F32, CLATTN_Q4_1};
    static const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16, CLATTN_BF16};
    static const int64_t rows[] = {1, 2, 4, 7, 37};
    linear_case cases[5 * 6 * 3] = {{0}};
    for (int i = 0; i < 90; i++)
        cases[i] = (linear_case){.n2 = rows[i % 5],
                                 .N = 29,
                                 .K = i % 2 ? 96 : 64,
                                 .bias = true,
                                 .activation = i % 7 ? CLATTN_ACTIVATION_NONE : CLATTN_ACTIVATION_GELU,
                                 .w = i % 4 == 1 ? PADDED : DENSE,
                                 .x_type = types[i / 30],
                                 .w_type = weights[i / 5 % 6],
                                 .bias_type = types[i % 3],
                                 .y_type = types[(i / 5 + i / 30) % 3]};
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
        {.n2 = 9, .N = 21, .K = 4096, .w_type = CLATTN_Q4_1, .bias = true},
        {.n2 = 40, .N = 50, .K = 96, .w_type = CLATTN_Q4_1, .w = PADDED, .x_type = CLATTN_F16},
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
        {.n2 = 3, .N = 12, .K = 64, .x_type = CLATTN_F64, .w_type = CLATTN_Q4_1},
        {.n2 = 12, .N = 12, .K = 64, .y_type = CLATTN_F64, .w_type = CLATTN_Q4_1},
        {.n2 = 3, .N = 12, .K = 2500, .y_type = CLATTN_F64, .x_type = CLATTN_F16},
        {.n2 = 12, .N = 12, .K = 2500, .w_type = CLATTN_F64, .x_type = CLATTN_F32, .y_type = CLATTN_F16},
    };
    CHECK_TABLE(cases);
}

/* Blocks of registers for vectors that this CPU may not have: the context is told that its device has them. */
Test(linear, every_width_of_vectors) {
    static const linear_case cases[] = {
        {.n2 = 37, .N = 53, .K = 70, .bias = true, .activation = CLATTN_ACTIVATION_GELU},
        {.n2 = 3, .N = 29, .K = 64, .w_type = CLATTN_Q8_0, .activation = CLATTN_ACTIVATION_SILU},
        {.n2 = 21, .N = 29, .K = 64, .w_type = CLATTN_Q4_1, .bias = true},
        {.n2 = 8, .N = 29, .K = 64, .w_type = CLATTN_Q4_0, .y_type = CLATTN_BF16},
    };
    static const uint32_t widths[] = {4, 8, 16};
    clattn_context *context = NULL;
    if (clattn_context_create("opencl", NULL, &context) != CLATTN_OK)
        cr_skip_test("no OpenCL device");
    for (int i = 0; i < 3; i++) {
        context->info.vector_floats = widths[i];
        for (size_t j = 0; j < sizeof cases / sizeof *cases; j++)
            cr_expect_geq(check(context, &cases[j]), 1);
    }
    clattn_context_destroy(context);
}
