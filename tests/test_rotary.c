/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary embedding on both kinds of contexts, against loops in long double. */
#include "kv_arrays.h"

static const char *const devices[] = {"opencl", "cpu"};
enum { DEVICES = 2 };

typedef struct {
    int64_t shape[4], dims;
    clattn_rotary_pairs pairs;
    double base;
    clattn_dtype x, y;
    kv_layout layout;
    bool buffers;
} rotary_case;

/* The angle of pair d at a position, by the definition. */
static long double angle_of(double base, int64_t dims, int64_t d, int64_t position) {
    return (long double)position * powl(base > 0 ? base : 10000, -2 * (long double)d / (long double)dims);
}

/* out[B, H, N, D] of x, with position [B, N]. */
static void turn(const rotary_case *c, const double *x, const int64_t *position, double *out) {
    const int64_t H = c->shape[1], N = c->shape[2], D = c->shape[3], dims = c->dims ? c->dims : D;
    for (int64_t row = 0; row < c->shape[0] * H * N; row++) {
        const int64_t at = position[row / (H * N) * N + row % N];
        memcpy(out + row * D, x + row * D, (size_t)D * sizeof *out);
        for (int64_t d = 0; d < dims / 2; d++) {
            const int64_t i = c->pairs ? 2 * d : d, j = c->pairs ? 2 * d + 1 : d + dims / 2;
            const long double angle = angle_of(c->base, dims, d, at), a = x[row * D + i], b = x[row * D + j];
            out[row * D + i] = (double)(a * cosl(angle) - b * sinl(angle));
            out[row * D + j] = (double)(a * sinl(angle) + b * cosl(angle));
        }
    }
}

/* What the type of y and the sums may err. */
static double allowed(const rotary_case *c, const double *want, int64_t count) {
    const double largest = kv_largest(want, count);
    const bool wide = c->x == CLATTN_F64 || c->y == CLATTN_F64;
    return oracle_floor(c->y, largest) + (wide ? 0 : oracle_floor(CLATTN_F32, largest));
}

static void expect_near(const rotary_case *c, kv_array *y, const double *want, const char *device) {
    const int64_t count = kv_count(c->shape);
    double *got = kv_read(y);
    const double most = allowed(c, want, count);
    for (int64_t i = 0; i < count; i++)
        cr_assert(fabs(got[i] - want[i]) <= most, "%s %s to %s: element %lld is %.17g, not %.17g, allowed %g", device,
                  clattn_dtype_name(c->x), clattn_dtype_name(c->y), (long long)i, got[i], want[i], most);
    free(got);
}

/* offsets [B] or positions [B, N], or neither. */
static void check(clattn_context *context, const rotary_case *c, const int64_t *offsets, const int64_t *positions) {
    clattn_device_info info;
    SUCCEEDS(clattn_context_info(context, &info));
    const int64_t count = kv_count(c->shape), N = c->shape[2];
    double *values = kv_random(11, count), *want = malloc((size_t)(count + 1) * sizeof *want);
    int64_t *at = malloc((size_t)(c->shape[0] * N + 1) * sizeof *at);
    kv_round(values, c->x, count);
    for (int64_t i = 0; i < c->shape[0] * N; i++)
        at[i] = positions ? positions[i] : i % N + (offsets ? offsets[i / N] : 0);
    turn(c, values, at, want);
    if (info.has_f64 || (c->x != CLATTN_F64 && c->y != CLATTN_F64)) {
        clattn_context *owner = c->buffers ? context : NULL;
        kv_array x = kv_make(owner, c->x, c->shape, c->layout, values),
                 y = kv_make(owner, c->y, c->shape, c->layout, NULL);
        const clattn_rotary_args args = {.x = x.view,
                                         .y = y.view,
                                         .options = {.dims = c->dims, .pairs = c->pairs, .base = c->base},
                                         .offsets = offsets,
                                         .positions = positions};
        SUCCEEDS(clattn_rotary(context, &args));
        expect_near(c, &y, want, info.spec);
        kv_free(&x);
        kv_free(&y);
    }
    free(values);
    free(want);
    free(at);
}

Test(rotary, each_pair_turns_by_its_position_times_its_frequency) {
    static const rotary_case cases[] = {
        {{2, 3, 5, 16}, 0, CLATTN_ROTARY_HALVES, 0, CLATTN_F32, CLATTN_F32, KV_DENSE, true},
        {{2, 3, 5, 16}, 0, CLATTN_ROTARY_ADJACENT, 0, CLATTN_F32, CLATTN_F32, KV_DENSE, false},
        {{1, 2, 70, 10}, 6, CLATTN_ROTARY_HALVES, 500, CLATTN_F32, CLATTN_F32, KV_ROWS, false},
        {{3, 1, 7, 11}, 4, CLATTN_ROTARY_ADJACENT, 0, CLATTN_F32, CLATTN_F32, KV_PADDED, true},
        {{2, 2, 9, 64}, 32, CLATTN_ROTARY_HALVES, 5e5, CLATTN_F16, CLATTN_F16, KV_ROWS, true},
        {{2, 2, 9, 64}, 0, CLATTN_ROTARY_ADJACENT, 0, CLATTN_BF16, CLATTN_F32, KV_DENSE, true},
        {{2, 2, 9, 8}, 0, CLATTN_ROTARY_HALVES, 0, CLATTN_F32, CLATTN_BF16, KV_DENSE, false},
        {{2, 2, 9, 8}, 2, CLATTN_ROTARY_HALVES, 0, CLATTN_F64, CLATTN_F64, KV_PADDED, true},
        {{1, 2, 9, 8}, 0, CLATTN_ROTARY_ADJACENT, 0, CLATTN_F16, CLATTN_F64, KV_DENSE, false},
        {{1, 1, 1, 2}, 0, CLATTN_ROTARY_ADJACENT, 0, CLATTN_F64, CLATTN_F32, KV_DENSE, true},
    };
    for (int d = 0; d < DEVICES; d++) {
        clattn_context *context = kv_open(devices[d], NULL);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            check(context, &cases[i], NULL, NULL);
        clattn_context_destroy(context);
    }
}

Test(rotary, positions_are_counted_from_offsets_or_given_one_by_one) {
    const rotary_case c = {{3, 2, 4, 12}, 8, CLATTN_ROTARY_HALVES, 0, CLATTN_F32, CLATTN_F32, KV_ROWS, true};
    const int64_t far[] = {5, 0, 1000}, same[] = {77, 77, 77}, behind[] = {-3, 2, -1};
    const int64_t each[12] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, -8};
    for (int d = 0; d < DEVICES; d++) {
        clattn_context *context = kv_open(devices[d], NULL);
        check(context, &c, far, NULL);
        check(context, &c, same, NULL);
        check(context, &c, behind, NULL);
        check(context, &c, NULL, each);
        clattn_context_destroy(context);
    }
}

Test(rotary, positions_of_a_million_keep_their_digits) {
    const int64_t far[] = {999998}, near[] = {99998}; /* for f64, as far as long double can judge */
    const clattn_dtype types[] = {CLATTN_F32, CLATTN_F64};
    for (int d = 0; d < DEVICES; d++) {
        clattn_context *context = kv_open(devices[d], NULL);
        for (int t = 0; t < 2; t++) {
            const rotary_case c = {{1, 1, 4, 128}, 0, CLATTN_ROTARY_HALVES, 0, types[t], types[t], KV_DENSE, true};
            check(context, &c, t ? near : far, NULL);
        }
        clattn_context_destroy(context);
    }
}

Test(rotary, y_may_be_x) {
    const int64_t shape[4] = {2, 3, 5, 24}, offsets[] = {9, 2};
    const clattn_dtype types[] = {CLATTN_F32, CLATTN_F16};
    double *values = kv_random(3, kv_count(shape));
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        for (int way = 0; way < 8; way++) {
            clattn_context *owner = way & 4 ? context : NULL;
            const clattn_dtype dtype = types[way & 1];
            kv_array x = kv_make(owner, dtype, shape, KV_ROWS, values), y = kv_make(owner, dtype, shape, KV_ROWS, NULL);
            clattn_rotary_args args = {.x = x.view,
                                       .y = y.view,
                                       .options = {.dims = 20, .pairs = (clattn_rotary_pairs)(way >> 1 & 1)},
                                       .offsets = offsets};
            SUCCEEDS(clattn_rotary(context, &args));
            args.y = x.view;
            SUCCEEDS(clattn_rotary(context, &args));
            kv_fetch(&x);
            kv_fetch(&y);
            cr_expect_arr_eq(x.data, y.data, x.bytes, "%s %s", devices[n], clattn_dtype_name(dtype));
            kv_free(&x);
            kv_free(&y);
        }
        clattn_context_destroy(context);
    }
    free(values);
}

/* Cosines and sines of the definition, [rows, pairs], for positions from 0. */
static kv_array make_table(clattn_context *owner, clattn_dtype dtype, int64_t rows, int64_t pairs, bool sines) {
    double *x = malloc((size_t)(rows * pairs) * sizeof *x);
    for (int64_t i = 0; i < rows * pairs; i++) {
        const long double angle = angle_of(0, 2 * pairs, i % pairs, i / pairs);
        x[i] = (double)(sines ? sinl(angle) : cosl(angle));
    }
    const int64_t shape[4] = {1, 1, rows, pairs};
    kv_array a = kv_make(owner, dtype, shape, KV_DENSE, x);
    free(x);
    return a;
}

/* The view of a table [1, 1, rows, pairs] as ONNX has it: rank 2, or 3 with a batch. */
static clattn_tensor of_rank(clattn_tensor t, int rank) {
    for (int i = 0; i < rank; i++) {
        t.shape[i] = t.shape[4 - rank + i];
        t.stride[i] = t.stride[4 - rank + i];
    }
    t.rank = rank;
    return t;
}

Test(rotary, tables_are_looked_up_by_position_or_row_by_row) {
    const rotary_case c = {{2, 3, 4, 16}, 12, CLATTN_ROTARY_ADJACENT, 0, CLATTN_F32, CLATTN_F32, KV_DENSE, true};
    const int64_t positions[8] = {7, 0, 3, 3, 1, 2, 6, 5}, rows[8] = {0, 1, 2, 3, 0, 1, 2, 3}, offsets[] = {4, 2};
    const int64_t shifted[8] = {4, 5, 6, 7, 2, 3, 4, 5}, count = kv_count(c.shape);
    double *values = kv_random(5, count), *want = malloc((size_t)count * sizeof *want);
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL), *owner = n ? context : NULL;
        kv_array x = kv_make(owner, CLATTN_F32, c.shape, KV_DENSE, values),
                 y = kv_make(owner, CLATTN_F32, c.shape, KV_DENSE, NULL);
        kv_array cos = make_table(owner, CLATTN_F32, 8, 6, false), sin = make_table(owner, CLATTN_F32, 8, 6, true);
        clattn_rotary_args args = {.x = x.view, .y = y.view, .options = {.dims = 12, .pairs = c.pairs}};
        args.cos = of_rank(cos.view, 2);
        args.sin = of_rank(sin.view, 2);
        args.positions = positions;
        SUCCEEDS(clattn_rotary(context, &args));
        turn(&c, values, positions, want);
        expect_near(&c, &y, want, devices[n]);
        args.positions = NULL;
        args.offsets = offsets;
        SUCCEEDS(clattn_rotary(context, &args));
        turn(&c, values, shifted, want);
        expect_near(&c, &y, want, devices[n]);
        args.offsets = NULL; /* rank 3, of one batch or of two: [2, 4, 6] of the 8 rows */
        args.cos = clattn_tensor_slice(of_rank(cos.view, 3), 1, 0, 4);
        args.sin = clattn_tensor_slice(of_rank(sin.view, 3), 1, 0, 4);
        SUCCEEDS(clattn_rotary(context, &args));
        turn(&c, values, rows, want);
        expect_near(&c, &y, want, devices[n]);
        args.cos = clattn_tensor_split(of_rank(cos.view, 2), 0, 2);
        args.sin = clattn_tensor_split(of_rank(sin.view, 2), 0, 2);
        SUCCEEDS(clattn_rotary(context, &args));
        turn(&c, values, (const int64_t[]){0, 1, 2, 3, 4, 5, 6, 7}, want);
        expect_near(&c, &y, want, devices[n]);
        kv_free(&x);
        kv_free(&y);
        kv_free(&cos);
        kv_free(&sin);
        clattn_context_destroy(context);
    }
    free(values);
    free(want);
}

Test(rotary, heads_in_the_last_axis_are_a_view) {
    const rotary_case c = {{2, 3, 4, 8}, 0, CLATTN_ROTARY_HALVES, 0, CLATTN_F32, CLATTN_F32, KV_DENSE, false};
    enum { COUNT = 2 * 3 * 4 * 8 };
    const int64_t shape[] = {2, 4, 24}, at[8] = {0, 1, 2, 3, 0, 1, 2, 3};
    float x[COUNT], y[COUNT];
    double values[COUNT], want[COUNT];
    for (int i = 0; i < COUNT; i++) { /* [B, N, H, D] to [B, H, N, D] */
        const int b = i / 96, n = i / 24 % 4, h = i / 8 % 3, d = i % 8;
        x[i] = (float)(i % 17) - 8;
        values[((b * 3 + h) * 4 + n) * 8 + d] = (double)x[i];
    }
    turn(&c, values, at, want);
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        const int axes[] = {0, 2, 1, 3};
        const clattn_rotary_args args = {
            .x = clattn_tensor_permute(clattn_tensor_split(clattn_tensor_host(x, CLATTN_F32, 3, shape), 2, 3), axes),
            .y = clattn_tensor_permute(clattn_tensor_split(clattn_tensor_host(y, CLATTN_F32, 3, shape), 2, 3), axes)};
        SUCCEEDS(clattn_rotary(context, &args));
        for (int i = 0; i < COUNT; i++) {
            const int b = i / 96, k = i / 24 % 4, h = i / 8 % 3, d = i % 8;
            cr_expect_float_eq((double)y[i], want[((b * 3 + h) * 4 + k) * 8 + d], oracle_floor(CLATTN_F32, 8));
        }
        clattn_context_destroy(context);
    }
}

Test(rotary, dims_past_the_rotated_ones_keep_their_bits) {
    const uint32_t odd[4] = {0x7fc01234, 0xff800000, 0x80000000, 0x00000001};
    float x[8] = {1, 2, 3, 4}, y[8];
    const int64_t shape[] = {1, 8};
    memcpy(x + 4, odd, sizeof odd);
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        const clattn_rotary_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                         .y = clattn_tensor_host(y, CLATTN_F32, 2, shape),
                                         .options = {.dims = 4}};
        SUCCEEDS(clattn_rotary(context, &args));
        cr_expect_arr_eq(y, x, sizeof x, "%s: position 0 turns nothing", devices[n]);
        clattn_context_destroy(context);
    }
}

/* q . k depends on the distance of their positions alone. */
Test(rotary, products_depend_on_the_distance_alone) {
    enum { D = 32 };
    const int64_t shape[] = {1, 1, 2, D};
    clattn_context *context = kv_open("opencl", NULL);
    double *values = kv_random(8, 2 * D), products[3];
    for (int i = 0; i < 3; i++) {
        const int64_t positions[] = {10 + 500 * i, 3 + 500 * i};
        kv_array x = kv_make(NULL, CLATTN_F32, shape, KV_DENSE, values);
        const clattn_rotary_args args = {.x = x.view, .y = x.view, .positions = positions};
        SUCCEEDS(clattn_rotary(context, &args));
        double *y = kv_read(&x);
        products[i] = 0;
        for (int d = 0; d < D; d++)
            products[i] += y[d] * y[D + d];
        cr_expect_float_eq(products[i], products[0], oracle_floor(CLATTN_F32, D));
        free(y);
        kv_free(&x);
    }
    free(values);
    clattn_context_destroy(context);
}

Test(rotary, frequencies_may_be_given) {
    const double frequencies[2] = {0.5, 3};
    float x[4] = {1, 1, 0, 0}, y[4];
    const int64_t shape[] = {1, 4}, offsets[] = {3};
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        const clattn_rotary_args args = {.x = clattn_tensor_host(x, CLATTN_F32, 2, shape),
                                         .y = clattn_tensor_host(y, CLATTN_F32, 2, shape),
                                         .options = {.frequencies = frequencies},
                                         .offsets = offsets};
        SUCCEEDS(clattn_rotary(context, &args));
        const double want[4] = {cos(1.5), cos(9), sin(1.5), sin(9)};
        for (int i = 0; i < 4; i++)
            cr_expect_float_eq((double)y[i], want[i], oracle_floor(CLATTN_F32, 1));
        clattn_context_destroy(context);
    }
}

Test(rotary, nothing_to_turn_is_no_error) {
    const int64_t shapes[][4] = {{0, 2, 3, 4}, {2, 0, 3, 4}, {2, 2, 0, 4}};
    for (int n = 0; n < DEVICES; n++) {
        clattn_context *context = kv_open(devices[n], NULL);
        for (int i = 0; i < 3; i++) {
            const clattn_tensor t = clattn_tensor_host(NULL, CLATTN_F32, 4, shapes[i]);
            const clattn_rotary_args args = {.x = t, .y = t};
            SUCCEEDS(clattn_rotary(context, &args));
        }
        clattn_context_destroy(context);
    }
}

Test(rotary, what_does_not_fit_is_refused) {
    float x[64] = {0}, y[64];
    const int64_t shape[] = {2, 1, 4, 8}, other[] = {2, 1, 8, 4}, table[] = {6, 4}, rows[] = {2, 5, 4};
    const int64_t positions[8] = {0, 1, 2, 3, 4, 5, 6, 0}, offsets[2] = {0}, far[2] = {0, INT64_MAX};
    const double bad[4] = {1, 1, NAN, 1};
    clattn_context *context = kv_open("cpu", NULL);
    const clattn_rotary_args good = {.x = clattn_tensor_host(x, CLATTN_F32, 4, shape),
                                     .y = clattn_tensor_host(y, CLATTN_F32, 4, shape)};
    clattn_rotary_args a = good;
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_rotary(context, &a), code, part)
    memset(y, 0x55, sizeof y);
    REFUSED(a.options.dims = 3, CLATTN_E_SHAPE, "3 dims of a head dim of 8");
    REFUSED(a.options.dims = 10, CLATTN_E_SHAPE, "10 dims of a head dim of 8");
    REFUSED(a.options.dims = -2, CLATTN_E_SHAPE, "-2 dims");
    REFUSED(a.options.base = -1, CLATTN_E_ARGUMENT, "base -1");
    REFUSED(a.options.pairs = (clattn_rotary_pairs)2, CLATTN_E_ARGUMENT, "2 is no way");
    REFUSED(a.options.frequencies = bad, CLATTN_E_ARGUMENT, "frequency 2 is nan");
    REFUSED(a.x.rank = 0, CLATTN_E_ARGUMENT, "x: is missing");
    REFUSED(a.x.dtype = CLATTN_I32, CLATTN_E_DTYPE, "x: is i32");
    REFUSED(a.x = clattn_tensor_host(x, CLATTN_F32, 4, other), CLATTN_E_SHAPE, "differs from x [2, 1, 8, 4]");
    REFUSED(a.y.stride[0] = 0, CLATTN_E_SHAPE, "y: its strides make elements share a place");
    REFUSED(a.y = good.x; a.y.offset = 8, CLATTN_E_ARGUMENT, "y: shares memory with x");
    REFUSED(a.offsets = far, CLATTN_E_ARGUMENT, "offsets: number 1 is 9223372036854775807, beyond the 2^53");
    REFUSED(a.positions = positions; a.offsets = offsets, CLATTN_E_ARGUMENT, "offsets and positions");
    REFUSED(a.cos = a.sin = clattn_tensor_host(x, CLATTN_F32, 2, table);
            a.positions = positions, CLATTN_E_ARGUMENT, "row 2 of batch 1 stands at 6, and the tables have 6");
    REFUSED(a.cos = clattn_tensor_host(x, CLATTN_F32, 2, table), CLATTN_E_ARGUMENT, "sin: is missing");
    REFUSED(a.cos = a.sin = clattn_tensor_host(x, CLATTN_F32, 3, rows), CLATTN_E_SHAPE, "should be [2 or 1, 4, 4]");
    REFUSED(a.options.dims = 4;
            a.cos = a.sin = clattn_tensor_host(x, CLATTN_F32, 2, table), CLATTN_E_SHAPE, "[positions, 2]");
#undef REFUSED
    FAILS(clattn_rotary(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    for (int i = 0; i < 64; i++)
        cr_expect_eq(((const unsigned char *)y)[i], 0x55, "something was written");
    clattn_context_destroy(context);
}
