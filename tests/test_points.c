/* SPDX-License-Identifier: Apache-2.0 */
/* Activations, gates, sums and softmax on any axis, on both kinds of contexts, against long double. */
#include "linear_cases.h"
#include "op_arrays.h"

#define F32 CLATTN_F32
#define F64 CLATTN_F64
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16

typedef struct {
    int rank;
    int64_t shape[8], other[8]; /* other: of b, or of the gate where it is there */
    int other_rank;             /* 0: none */
    clattn_dtype x, o, y;
    op_layout layout, y_layout;
    bool buffers;
} point_case;

static const point_case cases[] = {
    {3, {2, 3, 100}, {2, 3, 100}, 3, F32, F32, F32, OP_DENSE, OP_DENSE, true},
    {2, {7, 37}, {37}, 1, F32, F32, F32, OP_DENSE, OP_DENSE, false},
    {3, {4, 5, 11}, {5, 11}, 2, F32, F32, F32, OP_PADDED, OP_DENSE, true},
    {3, {4, 5, 11}, {4, 1, 1}, 3, F32, F32, F32, OP_TURNED, OP_PADDED, true},
    {2, {64, 70}, {64, 70}, 2, F16, F16, F16, OP_DENSE, OP_DENSE, true},
    {2, {9, 70}, {1, 70}, 2, BF16, F32, BF16, OP_DENSE, OP_DENSE, false},
    {2, {9, 70}, {9, 70}, 2, F64, F32, F64, OP_SPREAD, OP_DENSE, true},
    {8, {2, 1, 2, 3, 1, 2, 2, 3}, {3, 1, 2, 1, 3}, 5, F32, F16, F32, OP_PADDED, OP_SPREAD, false},
    {1, {1}, {1}, 1, F32, F32, F32, OP_DENSE, OP_DENSE, true},
    {1, {9000}, {1}, 1, F32, F32, F32, OP_DENSE, OP_DENSE, true},
};
enum { CASES = sizeof cases / sizeof *cases };

/* The element of b that meets element i of a. */
static int64_t met_by(const point_case *c, int64_t i) {
    int64_t at = 0, step = 1;
    for (int k = 0; k < c->other_rank; k++) {
        const int64_t size = c->shape[c->rank - 1 - k], own = c->other[c->other_rank - 1 - k];
        at += own == 1 ? 0 : i % size * step;
        step *= own;
        i /= size;
    }
    return at;
}

static bool is_wide(const point_case *c) { return c->x == F64 || c->o == F64 || c->y == F64; }

/* A call, by activation and gate, or as a sum. */
static void check(clattn_context *context, const char *device, size_t i, int activation, bool gated, bool sum) {
    const point_case *c = &cases[i];
    oracle_random random = {3};
    clattn_context *owner = c->buffers ? context : NULL;
    char what[100];
    snprintf(what, sizeof what, "%s, case %zu, activation %d%s%s", device, i, activation, gated ? ", gated" : "",
             sum ? ", sum" : "");
    op_array x = op_make(owner, c->x, c->rank, c->shape, c->layout, NULL, &random);
    op_array o =
        op_make(owner, c->o, sum ? c->other_rank : c->rank, sum ? c->other : c->shape, c->y_layout, NULL, &random);
    op_array y = op_make(owner, c->y, c->rank, c->shape, c->y_layout, NULL, NULL);
    if (sum)
        SUCCEEDS(clattn_add(context, &(clattn_add_args){.a = x.t, .b = o.t, .y = y.t}));
    else
        SUCCEEDS(clattn_activate(context, &(clattn_activate_args){.x = x.t,
                                                                  .up = gated ? o.t : (clattn_tensor){0},
                                                                  .y = y.t,
                                                                  .activation = (clattn_activation)activation}));
    op_fetch(&y, what);
    op_fetch(&x, what);
    op_fetch(&o, what);
    const clattn_dtype sums = is_wide(c) ? F64 : F32;
    for (int64_t k = 0; k < x.count; k++) {
        const double a = x.values[k];
        const long double other = o.values[sum ? met_by(c, k) : k];
        long double want = exact_activation((clattn_activation)activation, a);
        want = sum ? want + other : gated ? want * other : want;
        const double size = (fabs(a) + 1) * (gated ? fabs((double)other) : 1);
        op_expect(&y, k, (double)want, activation == 0 && !gated && !sum ? 0 : oracle_floor(sums, size), what);
    }
    op_free(&x);
    op_free(&o);
    op_free(&y);
}

Test(points, activations_gates_and_sums_of_every_shape_type_and_layout) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < CASES; i++) {
            if (is_wide(&cases[i]) && !info.has_f64)
                continue;
            check(context, op_devices[d], i, 0, false, true);
            for (int activation = 0; activation < 5; activation++) {
                check(context, op_devices[d], i, activation, false, false);
                check(context, op_devices[d], i, activation, true, false);
            }
        }
        clattn_context_destroy(context);
    }
}

Test(points, in_place_gives_the_same_bits) {
    enum { N = 3, E = 21 };
    const int64_t shape[] = {N, E};
    float x[N * E], up[N * E], y[N * E], z[N * E];
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int way = 0; way < 4; way++) {
            for (int i = 0; i < N * E; i++) {
                x[i] = (float)(i % 9) - 4;
                up[i] = (float)(i % 5) * 0.5F;
            }
            const clattn_tensor tx = clattn_tensor_host(x, F32, 2, shape), tu = clattn_tensor_host(up, F32, 2, shape);
            clattn_activate_args a = {.x = tx, .up = tu, .activation = CLATTN_ACTIVATION_SILU};
            clattn_add_args s = {.a = tx, .b = tu};
            a.y = s.y = clattn_tensor_host(y, F32, 2, shape);
            SUCCEEDS(way & 1 ? clattn_add(context, &s) : clattn_activate(context, &a));
            a.y = s.y = way & 2 ? tu : tx;
            SUCCEEDS(way & 1 ? clattn_add(context, &s) : clattn_activate(context, &a));
            memcpy(z, way & 2 ? up : x, sizeof z);
            cr_expect_eq(memcmp(y, z, sizeof z), 0, "%s, way %d", op_devices[d], way);
        }
        clattn_context_destroy(context);
    }
}

Test(points, infinity_and_nan_are_as_the_header_says) {
    const float none = NAN, x[] = {INFINITY, -INFINITY, none, 0};
    const int64_t shape[] = {4};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int i = 0; i < 5; i++) {
            float y[4];
            const clattn_activation activation = (clattn_activation)i;
            SUCCEEDS(clattn_activate(context, &(clattn_activate_args){.x = clattn_tensor_host(x, F32, 1, shape),
                                                                      .y = clattn_tensor_host(y, F32, 1, shape),
                                                                      .activation = activation}));
            const char *name = clattn_activation_name(activation);
            cr_expect_eq(y[0], INFINITY, "%s %s: %g", op_devices[d], name, (double)y[0]);
            cr_expect(isnan(y[2]), "%s %s: %g", op_devices[d], name, (double)y[2]);
            cr_expect_eq(y[3], 0);
            if (activation == CLATTN_ACTIVATION_NONE)
                cr_expect_eq(y[1], -INFINITY);
            else if (activation == CLATTN_ACTIVATION_RELU)
                cr_expect_eq(y[1], 0);
            else
                cr_expect(isnan(y[1]), "%s %s: %g", op_devices[d], name, (double)y[1]);
        }
        clattn_context_destroy(context);
    }
}

Test(points, zero_sizes_and_what_does_not_fit) {
    float x[12] = {0}, y[12], more[12];
    const int64_t shape[] = {3, 4}, other[] = {4, 3}, none[] = {0, 4}, row[] = {3};
    clattn_context *context = op_open("cpu");
    const clattn_tensor tx = clattn_tensor_host(x, F32, 2, shape), ty = clattn_tensor_host(y, F32, 2, shape);
    const clattn_tensor to = clattn_tensor_host(more, F32, 2, other), tr = clattn_tensor_host(more, F32, 1, row);
    const clattn_tensor empty = clattn_tensor_host(NULL, F32, 2, none);
    SUCCEEDS(clattn_activate(context, &(clattn_activate_args){.x = empty, .y = empty}));
    SUCCEEDS(clattn_add(context, &(clattn_add_args){.a = empty, .b = empty, .y = empty}));
    memset(y, 0x55, sizeof y);
#define ACTIVATE(code, part, ...) FAILS(clattn_activate(context, &(clattn_activate_args){__VA_ARGS__}), code, part)
#define ADD(code, part, ...) FAILS(clattn_add(context, &(clattn_add_args){__VA_ARGS__}), code, part)
    ACTIVATE(CLATTN_E_ARGUMENT, "5 is no activation", .x = tx, .y = ty, .activation = (clattn_activation)5);
    ACTIVATE(CLATTN_E_ARGUMENT, "x: is missing", .y = ty);
    ACTIVATE(CLATTN_E_SHAPE, "y [3, 4]: differs from x [4, 3]", .x = to, .y = ty);
    ACTIVATE(CLATTN_E_SHAPE, "up [4, 3]: differs from x", .x = tx, .y = ty, .up = to);
    ACTIVATE(CLATTN_E_SHAPE, "y: its strides make elements share", .x = tx,
             .y = {.dtype = F32, .rank = 2, .shape = {3, 4}, .host = y});
    ACTIVATE(CLATTN_E_DTYPE, "up: is i32", .x = tx, .y = ty, .up = clattn_tensor_host(more, CLATTN_I32, 2, shape));
    ADD(CLATTN_E_SHAPE, "b [3]: does not broadcast from the right to a [3, 4]", .a = tx, .b = tr, .y = ty);
    ADD(CLATTN_E_SHAPE, "b [3, 4]: does not broadcast", .a = tr, .b = tx, .y = clattn_tensor_host(y, F32, 1, row));
    ADD(CLATTN_E_ARGUMENT, "b: is missing", .a = tx, .y = ty);
    ADD(CLATTN_E_ARGUMENT, "y: shares memory with b", .a = tx, .b = clattn_tensor_host(y, F32, 1, shape + 1), .y = ty);
    FAILS(clattn_add(NULL, NULL), CLATTN_E_ARGUMENT, "context is NULL");
    FAILS(clattn_activate(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    for (size_t i = 0; i < sizeof y; i++)
        cr_expect_eq(((const unsigned char *)y)[i], 0x55, "something was written");
    clattn_context_destroy(context);
}

/* ---- softmax ---- */

static void check_softmax(clattn_context *context, const char *device, const point_case *c, int axis, bool negative) {
    oracle_random random = {8};
    clattn_context *owner = c->buffers ? context : NULL;
    char what[80];
    int64_t n = c->shape[axis], inner = 1;
    for (int i = axis + 1; i < c->rank; i++)
        inner *= c->shape[i];
    snprintf(what, sizeof what, "%s, rank %d, axis %d", device, c->rank, axis);
    op_array x = op_make(owner, c->x, c->rank, c->shape, c->layout, NULL, &random);
    op_array y = op_make(owner, c->y, c->rank, c->shape, c->y_layout, NULL, NULL);
    const clattn_softmax_args args = {.x = x.t, .y = y.t, .has_axis = true, .axis = negative ? axis - c->rank : axis};
    SUCCEEDS(clattn_softmax(context, &args));
    op_fetch(&x, what);
    op_fetch(&y, what);
    for (int64_t i = 0; i < x.count; i++) {
        const int64_t first = i / (n * inner) * n * inner + i % inner;
        long double sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += expl((long double)x.values[first + k * inner] - (long double)x.values[i]);
        op_expect(&y, i, (double)(1 / sum), oracle_floor(is_wide(c) ? F64 : F32, (double)(1 / sum)), what);
    }
    op_free(&x);
    op_free(&y);
}

Test(points, softmax_on_every_axis) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < CASES; i++)
            for (int axis = 0; axis < cases[i].rank; axis++)
                if (!is_wide(&cases[i]) || info.has_f64)
                    check_softmax(context, op_devices[d], &cases[i], axis, i % 2);
        clattn_context_destroy(context);
    }
}

Test(points, softmax_of_infinities_far_numbers_and_in_place) {
    enum { N = 6, E = 11 };
    const int64_t shape[] = {N, E};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        float x[N * E];
        for (int i = 0; i < N * E; i++)
            x[i] = (float)(i % E);
        for (int i = 0; i < E; i++) {
            x[i] = -INFINITY;                        /* zeros */
            x[E + i] = i == 10 ? 7 : -INFINITY;      /* one */
            x[2 * E + i] = i == 4 ? NAN : -INFINITY; /* NaN */
            x[4 * E + i] = i == 10 ? 3e38F : -3e38F; /* one */
        }
        x[3 * E + 2] = INFINITY; /* NaN */
        const clattn_tensor t = clattn_tensor_host(x, F32, 2, shape);
        SUCCEEDS(clattn_softmax(context, &(clattn_softmax_args){.x = t, .y = t}));
        double sum = 0;
        for (int i = 0; i < E; i++) {
            cr_expect_eq(x[i], 0, "%s: %g", op_devices[d], (double)x[i]);
            cr_expect_eq(x[E + i], i == 10 ? 1.0F : 0, "%s: %g", op_devices[d], (double)x[E + i]);
            cr_expect(isnan(x[2 * E + i]), "%s: %g", op_devices[d], (double)x[2 * E + i]);
            cr_expect(isnan(x[3 * E + i]), "%s: %g", op_devices[d], (double)x[3 * E + i]);
            cr_expect_eq(x[4 * E + i], i == 10 ? 1.0F : 0, "%s: %g", op_devices[d], (double)x[4 * E + i]);
            sum += (double)x[5 * E + i];
        }
        cr_expect_float_eq(sum, 1, oracle_floor(F32, 1));
        clattn_context_destroy(context);
    }
}

Test(points, softmax_refuses_what_does_not_fit) {
    float x[12] = {0}, y[12];
    const int64_t shape[] = {3, 4}, other[] = {4, 3}, none[] = {3, 0};
    clattn_context *context = op_open("cpu");
    const clattn_tensor tx = clattn_tensor_host(x, F32, 2, shape), ty = clattn_tensor_host(y, F32, 2, shape);
    const clattn_tensor empty = clattn_tensor_host(NULL, F32, 2, none);
    SUCCEEDS(clattn_softmax(context, &(clattn_softmax_args){.x = empty, .y = empty}));
    SUCCEEDS(clattn_softmax(context, &(clattn_softmax_args){.x = empty, .y = empty, .has_axis = true}));
#define SOFTMAX(code, part, ...) FAILS(clattn_softmax(context, &(clattn_softmax_args){__VA_ARGS__}), code, part)
    SOFTMAX(CLATTN_E_SHAPE, "axis 2 of x [3, 4]; it is from -2 to 1", .x = tx, .y = ty, .has_axis = true, .axis = 2);
    SOFTMAX(CLATTN_E_SHAPE, "axis -3 of x [3, 4]", .x = tx, .y = ty, .has_axis = true, .axis = -3);
    SOFTMAX(CLATTN_E_SHAPE, "y [4, 3]: differs from x", .x = tx, .y = clattn_tensor_host(y, F32, 2, other));
    SOFTMAX(CLATTN_E_DTYPE, "x: is bool", .x = clattn_tensor_host(x, CLATTN_BOOL, 2, shape), .y = ty);
    SOFTMAX(CLATTN_E_ARGUMENT, "y: shares memory with x", .x = tx, .y = clattn_tensor_host(x + 1, F32, 2, shape));
    FAILS(clattn_softmax(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    clattn_context_destroy(context);
}
