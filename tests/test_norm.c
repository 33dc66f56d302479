/* SPDX-License-Identifier: Apache-2.0 */
/* LayerNorm and RMSNorm on both kinds of contexts, against loops in long double. */
#include "op_arrays.h"

typedef struct {
    clattn_norm_kind kind;
    int axes, rank;
    int64_t shape[5];
    clattn_dtype x, y, weights;
    op_layout layout, y_layout;
    bool residual, weight, bias, sum, of_rows, keep_axes, buffers;
    double epsilon;
} norm_case;

#define F32 CLATTN_F32
#define F64 CLATTN_F64
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16
#define LAYER CLATTN_NORM_LAYER
#define RMS CLATTN_NORM_RMS

static const norm_case cases[] = {
    {LAYER, 0, 2, {5, 384}, F32, F32, F32, OP_DENSE, OP_DENSE, .weight = true, .bias = true, .buffers = true},
    {LAYER,
     1,
     3,
     {2, 3, 37},
     F32,
     F32,
     F32,
     OP_DENSE,
     OP_DENSE,
     .residual = true,
     .weight = true,
     .bias = true,
     .sum = true,
     .of_rows = true,
     .epsilon = 1e-12},
    {RMS, 1, 2, {7, 576}, F32, F32, F32, OP_DENSE, OP_DENSE, .weight = true, .epsilon = 1e-5, .buffers = true},
    {RMS,
     1,
     3,
     {2, 3, 19},
     F32,
     F32,
     F32,
     OP_PADDED,
     OP_PADDED,
     .residual = true,
     .weight = true,
     .sum = true,
     .buffers = true},
    {LAYER,
     2,
     4,
     {2, 3, 4, 5},
     F32,
     F32,
     F32,
     OP_DENSE,
     OP_TURNED,
     .weight = true,
     .bias = true,
     .of_rows = true,
     .keep_axes = true,
     .epsilon = 0.1},
    {LAYER,
     4,
     4,
     {2, 3, 4, 5},
     F32,
     F32,
     F32,
     OP_TURNED,
     OP_PADDED,
     .weight = true,
     .bias = true,
     .of_rows = true,
     .keep_axes = true},
    {RMS, 3, 3, {2, 3, 4}, F32, F32, F32, OP_SPREAD, OP_DENSE, .weight = true, .bias = true, .buffers = true},
    {LAYER, 1, 1, {33}, F32, F32, F32, OP_DENSE, OP_DENSE, .of_rows = true, .keep_axes = true},
    {LAYER, 1, 2, {6, 1}, F32, F32, F32, OP_DENSE, OP_DENSE, .weight = true, .of_rows = true},
    {LAYER,
     1,
     2,
     {9, 70},
     F16,
     F16,
     F32,
     OP_DENSE,
     OP_DENSE,
     .residual = true,
     .weight = true,
     .bias = true,
     .sum = true,
     .buffers = true},
    {RMS, 1, 2, {9, 70}, BF16, BF16, BF16, OP_PADDED, OP_DENSE, .residual = true, .weight = true, .sum = true},
    {LAYER,
     1,
     2,
     {4, 29},
     F64,
     F64,
     F64,
     OP_DENSE,
     OP_DENSE,
     .residual = true,
     .weight = true,
     .bias = true,
     .sum = true,
     .of_rows = true,
     .buffers = true},
    {RMS, 2, 3, {3, 4, 5}, F16, F64, F32, OP_TURNED, OP_SPREAD, .weight = true},
    {LAYER, 1, 5, {2, 1, 3, 2, 40}, F32, BF16, F16, OP_SPREAD, OP_PADDED, .weight = true, .bias = true},
};

enum { X, RESIDUAL, WEIGHT, BIAS, Y, SUM, MEAN, INV, ARRAYS };

static void make_all(clattn_context *owner, const norm_case *c, op_array all[ARRAYS]) {
    oracle_random random = {17};
    const int axes = c->axes ? c->axes : 1, outer = c->rank - axes;
    int64_t rows[5];
    for (int i = 0; i < c->rank; i++)
        rows[i] = i < outer ? c->shape[i] : 1;
    const int row_rank = c->keep_axes ? c->rank : outer;
    all[X] = op_make(owner, c->x, c->rank, c->shape, c->layout, NULL, &random);
    if (c->residual)
        all[RESIDUAL] = op_make(owner, c->x, c->rank, c->shape, c->y_layout, NULL, &random);
    if (c->weight)
        all[WEIGHT] = op_make(owner, c->weights, axes, c->shape + outer, c->layout, NULL, &random);
    if (c->bias)
        all[BIAS] = op_make(owner, c->weights, axes, c->shape + outer, OP_DENSE, NULL, &random);
    all[Y] = op_make(owner, c->y, c->rank, c->shape, c->y_layout, NULL, NULL);
    if (c->sum)
        all[SUM] = op_make(owner, c->x, c->rank, c->shape, c->layout, NULL, NULL);
    if (c->of_rows) {
        all[INV] = op_make(owner, c->y, row_rank, rows, OP_DENSE, NULL, NULL);
        all[MEAN] = c->kind == RMS ? (op_array){0} : op_make(owner, c->y, row_rank, rows, OP_SPREAD, NULL, NULL);
    }
}

static bool is_wide(const norm_case *c) { return c->x == CLATTN_F64 || c->y == CLATTN_F64 || c->weights == CLATTN_F64; }

static void check_values(const norm_case *c, const op_array *all, const char *device) {
    const int axes = c->axes ? c->axes : 1;
    int64_t length = 1;
    for (int i = c->rank - axes; i < c->rank; i++)
        length *= c->shape[i];
    const clattn_dtype sums = is_wide(c) ? CLATTN_F64 : CLATTN_F32;
    for (int64_t row = 0; row < all[X].count / length; row++) {
        const double *x = all[X].values + row * length;
        const double *r = c->residual ? all[RESIDUAL].values + row * length : NULL;
        long double mean = 0, squares = 0;
        for (int64_t i = 0; i < length && c->kind == LAYER; i++)
            mean += ((long double)x[i] + (r ? r[i] : 0)) / length;
        for (int64_t i = 0; i < length; i++)
            squares += powl(x[i] + (r ? (long double)r[i] : 0) - mean, 2) / length;
        const long double inverse = 1 / sqrtl(squares + (c->epsilon > 0 ? c->epsilon : 1e-5));
        for (int64_t i = 0; i < length; i++) {
            const double z = x[i] + (r ? r[i] : 0), w = c->weight ? all[WEIGHT].values[i] : 1;
            const double y = (double)((z - mean) * inverse * w) + (c->bias ? all[BIAS].values[i] : 0);
            const double size = (fabs(z) + 1) * (double)inverse * fabs(w) + 1;
            op_expect(&all[Y], row * length + i, y, oracle_floor(sums, size), device);
            if (c->sum)
                op_expect(&all[SUM], row * length + i, z, 0, device);
        }
        if (c->of_rows && c->kind == LAYER)
            op_expect(&all[MEAN], row, (double)mean, oracle_floor(sums, 1), device);
        if (c->of_rows)
            op_expect(&all[INV], row, (double)inverse, oracle_floor(sums, (double)inverse), device);
    }
}

Test(norm, rows_of_every_shape_type_and_layout) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const norm_case *c = &cases[i];
            op_array all[ARRAYS] = {0};
            char what[80];
            if (is_wide(c) && !info.has_f64)
                continue;
            snprintf(what, sizeof what, "%s, case %zu", op_devices[d], i);
            make_all(c->buffers ? context : NULL, c, all);
            const clattn_norm_args args = {.kind = c->kind,
                                           .x = all[X].t,
                                           .residual = all[RESIDUAL].t,
                                           .weight = all[WEIGHT].t,
                                           .bias = all[BIAS].t,
                                           .y = all[Y].t,
                                           .sum = all[SUM].t,
                                           .mean = all[MEAN].t,
                                           .inv_std = all[INV].t,
                                           .axes = c->axes,
                                           .epsilon = c->epsilon};
            SUCCEEDS(clattn_norm(context, &args));
            for (int k = 0; k < ARRAYS; k++)
                if (all[k].data)
                    op_fetch(&all[k], what);
            check_values(c, all, what);
            for (int k = 0; k < ARRAYS; k++)
                op_free(&all[k]);
        }
        clattn_context_destroy(context);
    }
}

/* y in place of x and the sum in place of the residual, or the other way round: the bits of a call apart. */
Test(norm, in_place_gives_the_same_bits) {
    const int64_t shape[] = {5, 41};
    for (int d = 0; d < OP_DEVICES; d++)
        for (int way = 0; way < 4; way++) {
            const clattn_dtype dtype = way & 1 ? CLATTN_F16 : CLATTN_F32;
            clattn_context *context = op_open(op_devices[d]), *owner = way & 2 ? context : NULL;
            oracle_random random = {5};
            op_array x = op_make(owner, dtype, 2, shape, OP_PADDED, NULL, &random);
            op_array r = op_make(owner, dtype, 2, shape, OP_PADDED, NULL, &random);
            op_array y = op_make(owner, dtype, 2, shape, OP_PADDED, NULL, NULL);
            op_array sum = op_make(owner, dtype, 2, shape, OP_PADDED, NULL, NULL);
            clattn_norm_args args = {.x = x.t, .residual = r.t, .y = y.t, .sum = sum.t};
            SUCCEEDS(clattn_norm(context, &args));
            args.y = way & 2 ? x.t : r.t;
            args.sum = way & 2 ? r.t : x.t;
            SUCCEEDS(clattn_norm(context, &args));
            op_array *const all[] = {&x, &r, &y, &sum};
            for (int i = 0; i < 4; i++)
                op_fetch(all[i], op_devices[d]);
            const op_array *in_place = way & 2 ? &x : &r, *sum_in_place = way & 2 ? &r : &x;
            cr_expect_eq(memcmp(in_place->data, y.data, y.bytes), 0, "%s, way %d: y", op_devices[d], way);
            cr_expect_eq(memcmp(sum_in_place->data, sum.data, sum.bytes), 0, "%s, way %d: sum", op_devices[d], way);
            for (int i = 0; i < 4; i++)
                op_free(all[i]);
            clattn_context_destroy(context);
        }
}

/* A weight for each row, or each place of all axes, as ONNX allows. */
Test(norm, weights_broadcast_from_the_right) {
    enum { B = 2, N = 3, E = 5 };
    const int64_t shape[] = {B, N, E}, shapes[][3] = {{B, N, E}, {B, 1, E}, {N, 1, 0}, {1, 1, 1}, {1, 0, 0}};
    const int ranks[] = {3, 3, 2, 3, 1};
    float x[B * N * E], w[B * N * E], y[B * N * E], plain[B * N * E];
    for (int i = 0; i < B * N * E; i++) {
        x[i] = (float)(i * i % 13);
        w[i] = (float)(i + 1) * 0.25F;
    }
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_norm_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 3, shape),
                                 .y = clattn_tensor_host(plain, CLATTN_F32, 3, shape)};
        SUCCEEDS(clattn_norm(context, &args));
        for (int k = 0; k < 5; k++) {
            args.weight = clattn_tensor_host(w, CLATTN_F32, ranks[k], shapes[k]);
            args.y.host = y;
            SUCCEEDS(clattn_norm(context, &args));
            for (int i = 0; i < B * N * E; i++) {
                const int b = i / (N * E), n = i / E % N, e = i % E;
                const int at[] = {i, b * E + e, n, 0, 0};
                cr_expect_float_eq((double)y[i], (double)plain[i] * (double)w[at[k]], oracle_floor(CLATTN_F32, 20),
                                   "%s, weights %d of rank %d", op_devices[d], k, ranks[k]);
            }
        }
        clattn_context_destroy(context);
    }
}

Test(norm, numbers_far_from_zero_keep_their_digits) {
    enum { E = 1000 };
    static float x[E], y[E];
    const int64_t shape[] = {1, E};
    long double mean = 0, squares = 0;
    for (int i = 0; i < E; i++)
        x[i] = 30000 + (float)(i * 7 % 64) / 64; /* exact in f32 */
    for (int i = 0; i < E; i++)
        mean += (long double)x[i] / E;
    for (int i = 0; i < E; i++)
        squares += (x[i] - mean) * (x[i] - mean) / E;
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        const clattn_norm_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                       .y = clattn_tensor_host(y, CLATTN_F32, 2, shape)};
        SUCCEEDS(clattn_norm(context, &args));
        for (int i = 0; i < E; i++)
            cr_expect_float_eq((double)y[i], (double)((x[i] - mean) / sqrtl(squares + 1e-5L)),
                               oracle_floor(CLATTN_F32, 4), "%s: %d", op_devices[d], i);
        clattn_context_destroy(context);
    }
}

Test(norm, nan_and_infinity_stay_in_their_row) {
    enum { N = 4, E = 21 };
    float x[N * E], y[N * E], clean[N * E];
    const int64_t shape[] = {N, E};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int kind = 0; kind < 2; kind++) {
            for (int i = 0; i < N * E; i++)
                x[i] = (float)(i % 8);
            clattn_norm_args args = {.kind = (clattn_norm_kind)kind,
                                     .x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                     .y = clattn_tensor_host(clean, CLATTN_F32, 2, shape)};
            SUCCEEDS(clattn_norm(context, &args));
            x[E + 20] = NAN;
            x[2 * E + 1] = INFINITY;
            args.y.host = y;
            SUCCEEDS(clattn_norm(context, &args));
            for (int i = 0; i < E; i++) {
                cr_expect_eq(y[i], clean[i]);
                cr_expect(isnan(y[E + i]), "%s, kind %d: %g", op_devices[d], kind, (double)y[E + i]);
                cr_expect(isnan(y[2 * E + i]) || (kind == RMS && i != 1 && y[2 * E + i] == 0), "%s, kind %d: %g",
                          op_devices[d], kind, (double)y[2 * E + i]);
                cr_expect_eq(y[3 * E + i], clean[3 * E + i]);
            }
        }
        clattn_context_destroy(context);
    }
}

Test(norm, equal_numbers_give_the_bias_and_no_epsilon_is_possible) {
    float x[] = {3e15F, 3e15F, 3e15F, 1, 1, 1, 1, 2, 3}, b[] = {5, 6, 7}, y[9];
    const int64_t shape[] = {3, 3};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_norm_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                 .bias = clattn_tensor_host(b, CLATTN_F32, 1, shape),
                                 .y = clattn_tensor_host(y, CLATTN_F32, 2, shape)};
        SUCCEEDS(clattn_norm(context, &args));
        for (int i = 0; i < 3; i++) {
            cr_expect_eq(y[i], b[i], "%s: %g", op_devices[d], (double)y[i]);
            cr_expect_eq(y[3 + i], b[i], "%s: %g", op_devices[d], (double)y[3 + i]);
        }
        args.epsilon = 2.2250738585072014e-308;
        SUCCEEDS(clattn_norm(context, &args));
        cr_expect_float_eq((double)y[6], 5 - sqrt(1.5), oracle_floor(CLATTN_F32, 5));
        clattn_context_destroy(context);
    }
}

Test(norm, zero_sizes) {
    const int64_t none[] = {0, 4}, empty[] = {3, 0}, rows[] = {3};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 2, none);
        float mean[3] = {9, 9, 9}, inverse[3];
        SUCCEEDS(clattn_norm(context, &(clattn_norm_args){.x = t, .y = t}));
        const clattn_tensor e = clattn_tensor_host(NULL, CLATTN_F32, 2, empty);
        const clattn_norm_args args = {.x = e,
                                       .y = e,
                                       .mean = clattn_tensor_host(mean, CLATTN_F32, 1, rows),
                                       .inv_std = clattn_tensor_host(inverse, CLATTN_F32, 1, rows),
                                       .epsilon = 0.25};
        SUCCEEDS(clattn_norm(context, &args));
        for (int i = 0; i < 3; i++) {
            cr_expect_eq(mean[i], 0);
            cr_expect_eq(inverse[i], 2);
        }
        clattn_context_destroy(context);
    }
}

Test(norm, what_does_not_fit_is_refused) {
    float x[24] = {0}, y[24], more[24];
    const int64_t shape[] = {2, 3, 4}, other[] = {2, 4, 3}, row[] = {4}, three[] = {3}, rows[] = {2, 3},
                  one[] = {2, 3, 2};
    clattn_context *context = op_open("cpu");
    const clattn_norm_args good = {.x = clattn_tensor_host(x, CLATTN_F32, 3, shape),
                                   .y = clattn_tensor_host(y, CLATTN_F32, 3, shape)};
    clattn_norm_args a = good;
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_norm(context, &a), code, part)
    memset(y, 0x55, sizeof y);
    REFUSED(a.kind = (clattn_norm_kind)2, CLATTN_E_ARGUMENT, "2 is no kind of norm");
    REFUSED(a.epsilon = -1, CLATTN_E_ARGUMENT, "epsilon -1");
    REFUSED(a.epsilon = NAN, CLATTN_E_ARGUMENT, "epsilon nan");
    REFUSED(a.axes = 4, CLATTN_E_SHAPE, "4 axes of x [2, 3, 4]; there are 3");
    REFUSED(a.axes = -1, CLATTN_E_SHAPE, "-1 axes");
    REFUSED(a.x.rank = 0, CLATTN_E_ARGUMENT, "x: is missing");
    REFUSED(a.x.rank = -1, CLATTN_E_SHAPE, "x: rank -1");
    REFUSED(a.x.dtype = CLATTN_I32, CLATTN_E_DTYPE, "x: is i32");
    REFUSED(a.weight = clattn_tensor_host(more, CLATTN_Q8_0, 1, (const int64_t[]){32}), CLATTN_E_DTYPE,
            "weight: is q8_0");
    REFUSED(a.x = clattn_tensor_host(x, CLATTN_F32, 3, other), CLATTN_E_SHAPE, "y [2, 3, 4]: differs from x [2, 4, 3]");
    REFUSED(a.residual = clattn_tensor_host(more, CLATTN_F32, 3, other), CLATTN_E_SHAPE, "residual [2, 4, 3]: differs");
    REFUSED(a.sum = clattn_tensor_host(more, CLATTN_F32, 3, shape), CLATTN_E_ARGUMENT, "residual, which is missing");
    REFUSED(a.weight = clattn_tensor_host(more, CLATTN_F32, 1, three), CLATTN_E_SHAPE,
            "weight [3]: does not broadcast");
    REFUSED(a.bias = clattn_tensor_host(more, CLATTN_F32, 3, other), CLATTN_E_SHAPE, "bias [2, 4, 3]: does not");
    REFUSED(a.mean = clattn_tensor_host(more, CLATTN_F32, 1, row), CLATTN_E_SHAPE,
            "mean [4]: should be x [2, 3, 4] with 1 for the last 1 axes");
    REFUSED(a.inv_std = clattn_tensor_host(more, CLATTN_F32, 3, one), CLATTN_E_SHAPE, "inv_std [2, 3, 2]: should be");
    REFUSED(a.kind = CLATTN_NORM_RMS;
            a.mean = clattn_tensor_host(more, CLATTN_F32, 2, rows), CLATTN_E_ARGUMENT, "mean: RMSNorm has none");
    REFUSED(a.y.stride[0] = 0, CLATTN_E_SHAPE, "y: its strides make elements share a place");
    REFUSED(a.y.host = x; a.y.offset = 1, CLATTN_E_ARGUMENT, "y: shares memory with x; it may be the same view");
    REFUSED(a.weight = clattn_tensor_host(y, CLATTN_F32, 1, row), CLATTN_E_ARGUMENT, "y: shares memory with weight");
    REFUSED(a.residual = good.x; a.sum = good.y, CLATTN_E_ARGUMENT, "sum: shares memory with y");
    REFUSED(a.x.host = NULL, CLATTN_E_ARGUMENT, "x: has neither a buffer nor a host array");
#undef REFUSED
    FAILS(clattn_norm(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    FAILS(clattn_norm(NULL, &good), CLATTN_E_ARGUMENT, "context is NULL");
    for (size_t i = 0; i < sizeof y; i++)
        cr_expect_eq(((const unsigned char *)y)[i], 0x55, "something was written");
    clattn_context_destroy(context);
}
