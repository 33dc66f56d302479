/* SPDX-License-Identifier: Apache-2.0 */
/* Embedding lookup, mean pooling and sinusoidal positions on both kinds of contexts, against loops in long double. */
#include "op_arrays.h"

#define F32 CLATTN_F32
#define F64 CLATTN_F64
#define F16 CLATTN_F16
#define BF16 CLATTN_BF16

/* ---- embed ---- */

enum { V = 9, B = 2, N = 3 };
static const int64_t ids_of_rows[B * N] = {4, 0, 8, 8, 3, 1};

typedef struct {
    int64_t E;
    clattn_dtype table, y, add;
    op_layout table_layout, y_layout;
    int add_rank; /* 0: none; 1 [E], 2 [N, E], 3 [B, 1, E] */
    bool wide_ids, buffers;
    double scale; /* 0: none */
} embed_case;

static const embed_case embed_cases[] = {
    {384, F32, F32, F32, OP_DENSE, OP_DENSE, 0, true, true, 0},
    {37, F32, F32, F32, OP_DENSE, OP_DENSE, 2, false, false, 4.5},
    {20, F32, F32, F16, OP_PADDED, OP_PADDED, 1, true, true, 0},
    {20, F32, F32, F32, OP_TURNED, OP_SPREAD, 3, false, true, -2},
    {70, F16, F32, F32, OP_DENSE, OP_DENSE, 3, true, false, 0},
    {70, BF16, BF16, BF16, OP_PADDED, OP_DENSE, 2, false, true, 0.5},
    {11, F64, F64, F64, OP_DENSE, OP_TURNED, 1, true, true, 3},
    {64, CLATTN_Q8_0, F32, F32, OP_DENSE, OP_DENSE, 1, true, true, 0},
    {96, CLATTN_Q4_0, F32, F32, OP_DENSE, OP_PADDED, 0, false, true, 8},
    {32, CLATTN_Q8_0, F16, F32, OP_DENSE, OP_DENSE, 0, false, false, 0},
    {1, F32, F32, F32, OP_DENSE, OP_DENSE, 3, true, true, 0},
};

/* Tables of blocks are converted whole. */
static op_array make_table(clattn_context *owner, const embed_case *c, oracle_random *random) {
    const int64_t shape[] = {V, c->E};
    if (clattn_dtype_length(c->table) == 1)
        return op_make(owner, c->table, 2, shape, c->table_layout, NULL, random);
    op_array a = op_make(NULL, F64, 2, shape, OP_DENSE, NULL, random);
    void *blocks = calloc((size_t)a.count, 2);
    a.bytes = clattn_dtype_bytes(c->table, (size_t)a.count);
    SUCCEEDS(clattn_convert(blocks, c->table, a.values, F64, (size_t)a.count));
    SUCCEEDS(clattn_convert(a.values, F64, blocks, c->table, (size_t)a.count));
    free(a.data);
    a.data = blocks;
    a.t = clattn_tensor_host(owner ? NULL : blocks, c->table, 2, shape);
    if (owner) {
        SUCCEEDS(clattn_buffer_create(owner, a.bytes, &a.buffer));
        SUCCEEDS(clattn_buffer_upload(a.buffer, 0, a.data, a.bytes));
        a.t.buffer = a.buffer;
    }
    return a;
}

/* [B, N] of i64 or i32, every second number. */
static clattn_tensor make_ids(clattn_context *owner, bool wide, const int64_t *ids, clattn_buffer **buffer,
                              void *array) {
    const size_t size = wide ? 8 : 4;
    for (int i = 0; i < B * N; i++) {
        const int32_t narrow = (int32_t)ids[i];
        memcpy((char *)array + 2 * (size_t)i * size, wide ? (const void *)&ids[i] : (const void *)&narrow, size);
    }
    clattn_tensor t = clattn_tensor_host(array, wide ? CLATTN_I64 : CLATTN_I32, 2, (const int64_t[]){B, N});
    t.stride[0] *= 2, t.stride[1] *= 2;
    if (owner) {
        SUCCEEDS(clattn_buffer_create(owner, 2 * B * N * size, buffer));
        SUCCEEDS(clattn_buffer_upload(*buffer, 0, array, 2 * B * N * size));
        t.buffer = *buffer;
        t.host = NULL;
    }
    return t;
}

static void check_embed(clattn_context *context, const char *what, const embed_case *c) {
    oracle_random random = {21};
    int64_t array[2 * B * N] = {0};
    clattn_context *owner = c->buffers ? context : NULL;
    clattn_buffer *buffer = NULL;
    const int64_t shape[] = {B, N, c->E}, of_add[] = {c->add_rank == 3 ? B : 0, c->add_rank == 3 ? 1 : N, c->E};
    op_array table = make_table(owner, c, &random), add = {0};
    op_array y = op_make(owner, c->y, 3, shape, c->y_layout, NULL, NULL);
    if (c->add_rank)
        add = op_make(owner, c->add, c->add_rank, of_add + 3 - c->add_rank, c->y_layout, NULL, &random);
    const clattn_embed_args args = {.table = table.t,
                                    .ids = make_ids(owner, c->wide_ids, ids_of_rows, &buffer, array),
                                    .add = add.t,
                                    .y = y.t,
                                    .has_scale = c->scale != 0,
                                    .scale = c->scale};
    SUCCEEDS(clattn_embed(context, &args));
    op_fetch(&y, what);
    const bool wide = c->table == F64 || c->y == F64 || (c->add_rank && c->add == F64);
    for (int64_t i = 0; i < y.count; i++) {
        const int64_t row = i / c->E, e = i % c->E, b = row / N, n = row % N;
        const double x = table.values[ids_of_rows[row] * c->E + e] * (c->scale != 0 ? c->scale : 1);
        const int64_t at = (c->add_rank == 3 ? b : c->add_rank == 2 ? n : 0) * c->E + e;
        const double more = c->add_rank ? add.values[at] : 0;
        op_expect(&y, i, x + more,
                  c->scale != 0 || c->add_rank ? oracle_floor(wide ? F64 : F32, fabs(x) + fabs(more)) : 0, what);
    }
    op_free(&table);
    op_free(&y);
    if (c->add_rank)
        op_free(&add);
    clattn_buffer_destroy(buffer);
}

Test(tokens, embed_takes_rows_of_every_type_and_layout) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < sizeof embed_cases / sizeof *embed_cases; i++) {
            char what[60];
            snprintf(what, sizeof what, "%s, case %zu", op_devices[d], i);
            if (info.has_f64 || embed_cases[i].table != F64)
                check_embed(context, what, &embed_cases[i]);
        }
        clattn_context_destroy(context);
    }
}

Test(tokens, ids_outside_the_table_are_an_error_on_the_host_and_nan_on_the_device) {
    const int64_t bad[2][B * N] = {{0, 1, V, 2, 3, 4}, {0, 1, 2, 3, -1, 4}}, shape[] = {B, N, 5}, rows[] = {V, 5};
    float table[V * 5], y[B * N * 5];
    for (int i = 0; i < V * 5; i++)
        table[i] = (float)i;
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int k = 0; k < 4; k++) {
            int64_t array[2 * B * N] = {0};
            clattn_buffer *buffer = NULL;
            clattn_embed_args args = {.table = clattn_tensor_host(table, F32, 2, rows),
                                      .y = clattn_tensor_host(y, F32, 3, shape)};
            args.ids = make_ids(NULL, k & 1, bad[k / 2], NULL, array);
            memset(y, 0x55, sizeof y);
            FAILS(clattn_embed(context, &args), CLATTN_E_ARGUMENT,
                  k / 2 ? "ids: number 4 is -1, and the table has 9 rows" : "ids: number 2 is 9");
            for (size_t i = 0; i < sizeof y; i++)
                cr_assert_eq(((const unsigned char *)y)[i], 0x55, "something was written");
            args.ids = make_ids(context, k & 1, bad[k / 2], &buffer, array);
            SUCCEEDS(clattn_embed(context, &args));
            for (int i = 0; i < B * N * 5; i++) {
                const int64_t id = bad[k / 2][i / 5];
                cr_expect(id < 0 || id >= V ? isnan(y[i]) : y[i] == (float)(id * 5 + i % 5), "%s: %d: %g",
                          op_devices[d], i, (double)y[i]);
            }
            clattn_buffer_destroy(buffer);
        }
        clattn_context_destroy(context);
    }
}

Test(tokens, embed_adds_in_place_and_refuses_what_does_not_fit) {
    float table[V * 4], y[N * 4];
    const int64_t rows[] = {V, 4}, shape[] = {N, 4}, one[] = {N}, none[] = {0}, empty[] = {0, 4}, other[] = {N, 5};
    int32_t ids[] = {5, 0, 8};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        for (int i = 0; i < V * 4; i++)
            table[i] = (float)i;
        for (int i = 0; i < N * 4; i++)
            y[i] = 0.5F;
        const clattn_tensor ty = clattn_tensor_host(y, F32, 2, shape);
        const clattn_embed_args good = {.table = clattn_tensor_host(table, F32, 2, rows),
                                        .ids = clattn_tensor_host(ids, CLATTN_I32, 1, one),
                                        .add = ty,
                                        .y = ty};
        SUCCEEDS(clattn_embed(context, &good));
        for (int i = 0; i < N * 4; i++)
            cr_expect_eq(y[i], (float)(ids[i / 4] * 4 + i % 4) + 0.5F);
        clattn_embed_args a = good;
        a.ids = clattn_tensor_host(NULL, CLATTN_I32, 1, none);
        a.y = a.add = clattn_tensor_host(NULL, F32, 2, empty);
        SUCCEEDS(clattn_embed(context, &a));
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_embed(context, &a), code, part)
        REFUSED(a.ids.dtype = CLATTN_F32, CLATTN_E_DTYPE, "ids: is f32; here it is i32 or i64");
        REFUSED(a.ids.rank = 0, CLATTN_E_ARGUMENT, "ids: is missing");
        REFUSED(a.table = clattn_tensor_host(table, F32, 1, one), CLATTN_E_SHAPE, "table [3]: should be [V, E]");
        REFUSED(a.table.dtype = CLATTN_U8, CLATTN_E_DTYPE, "table: is u8");
        REFUSED(a.y = clattn_tensor_host(y, F32, 2, other), CLATTN_E_SHAPE, "y [3, 5]: should be ids [3] and then 4");
        REFUSED(a.add = clattn_tensor_host(table, F32, 1, one), CLATTN_E_SHAPE, "add [3]: does not broadcast");
        REFUSED(a.add = clattn_tensor_host(y, F32, 1, one), CLATTN_E_ARGUMENT, "y: shares memory with add");
        REFUSED(a.y = clattn_tensor_host(table, F32, 2, shape), CLATTN_E_ARGUMENT, "y: shares memory with table");
        REFUSED(a.has_scale = true; a.scale = NAN, CLATTN_E_ARGUMENT, "scale nan");
#undef REFUSED
        FAILS(clattn_embed(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
        clattn_context_destroy(context);
    }
}

/* ---- pool ---- */

typedef struct {
    int64_t shape[3];
    clattn_dtype x, y;
    op_layout x_layout, y_layout;
    bool lengths, normalise, buffers;
} pool_case;

static const pool_case pool_cases[] = {
    {{3, 7, 40}, F32, F32, OP_DENSE, OP_DENSE, true, true, true},
    {{2, 200, 37}, F32, F32, OP_PADDED, OP_PADDED, false, false, false},
    {{2, 9, 11}, F32, F32, OP_TURNED, OP_SPREAD, true, true, true},
    {{3, 5, 16}, F16, F16, OP_DENSE, OP_DENSE, true, false, true},
    {{3, 5, 20}, BF16, F32, OP_SPREAD, OP_DENSE, true, true, false},
    {{2, 6, 12}, F64, F64, OP_DENSE, OP_DENSE, true, true, true},
    {{1, 1, 1}, F32, F32, OP_DENSE, OP_DENSE, false, true, true},
    {{2, 0, 6}, F32, F32, OP_DENSE, OP_DENSE, false, true, true},
};

static void check_pool(clattn_context *context, const char *what, const pool_case *c) {
    oracle_random random = {4};
    clattn_context *owner = c->buffers ? context : NULL;
    const int64_t n_b = c->shape[0], n = c->shape[1], E = c->shape[2], shape[] = {n_b, E}, lengths[] = {n / 2, 0, n};
    op_array x = op_make(owner, c->x, 3, c->shape, c->x_layout, NULL, &random);
    op_array y = op_make(owner, c->y, 2, shape, c->y_layout, NULL, NULL);
    SUCCEEDS(clattn_pool(
        context,
        &(clattn_pool_args){.x = x.t, .y = y.t, .lengths = c->lengths ? lengths : NULL, .normalise = c->normalise}));
    op_fetch(&y, what);
    for (int64_t b = 0; b < n_b; b++) {
        const int64_t rows = c->lengths ? lengths[b] : n;
        long double *mean = calloc((size_t)E, sizeof *mean), norm = 0;
        for (int64_t e = 0; e < E; e++) {
            for (int64_t i = 0; i < rows; i++)
                mean[e] += (long double)x.values[(b * n + i) * E + e] / rows;
            norm += mean[e] * mean[e];
        }
        norm = c->normalise && norm > 0 ? sqrtl(norm) : 1;
        for (int64_t e = 0; e < E; e++)
            op_expect(&y, b * E + e, (double)(mean[e] / norm), oracle_floor(c->x == F64 ? F64 : F32, 1), what);
        free(mean);
    }
    op_free(&x);
    op_free(&y);
}

Test(tokens, pool_is_the_mean_of_the_first_rows) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        for (size_t i = 0; i < sizeof pool_cases / sizeof *pool_cases; i++) {
            char what[60];
            snprintf(what, sizeof what, "%s, case %zu", op_devices[d], i);
            if (info.has_f64 || pool_cases[i].x != F64)
                check_pool(context, what, &pool_cases[i]);
        }
        clattn_context_destroy(context);
    }
}

Test(tokens, pool_reads_no_row_behind_and_refuses_what_does_not_fit) {
    float x[2 * 3 * 2] = {1, 2, 3, 4, NAN, INFINITY, NAN, NAN, NAN, NAN, NAN, NAN}, y[4];
    const int64_t shape[] = {2, 3, 2}, of_y[] = {2, 2}, wrong[] = {2, 3}, lengths[] = {2, 0}, far[] = {2, 4};
    const int64_t none[] = {0, 3, 2}, no_y[] = {0, 2};
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        const clattn_pool_args good = {
            .x = clattn_tensor_host(x, F32, 3, shape), .y = clattn_tensor_host(y, F32, 2, of_y), .lengths = lengths};
        SUCCEEDS(clattn_pool(context, &good));
        cr_expect(y[0] == 2 && y[1] == 3 && y[2] == 0 && y[3] == 0);
        clattn_pool_args a = good;
        a.x = clattn_tensor_host(NULL, F32, 3, none);
        a.y = clattn_tensor_host(NULL, F32, 2, no_y);
        SUCCEEDS(clattn_pool(context, &a));
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_pool(context, &a), code, part)
        REFUSED(a.lengths = far, CLATTN_E_ARGUMENT, "lengths: number 1 is 4; x has 3 rows");
        REFUSED(a.x = a.y, CLATTN_E_SHAPE, "x [2, 2]: should be [B, N, E]");
        REFUSED(a.y = clattn_tensor_host(y, F32, 2, wrong), CLATTN_E_SHAPE, "y [2, 3]: should be [2, 2]");
        REFUSED(a.y = clattn_tensor_host(x, F32, 2, of_y), CLATTN_E_ARGUMENT, "y: shares memory with x");
        REFUSED(a.x.dtype = CLATTN_I32, CLATTN_E_DTYPE, "x: is i32");
#undef REFUSED
        FAILS(clattn_pool(NULL, &good), CLATTN_E_ARGUMENT, "context is NULL");
        clattn_context_destroy(context);
    }
}

/* ---- positions ---- */

static void check_positions(clattn_context *context, const char *what, clattn_dtype dtype, int64_t n, int64_t E,
                            int64_t start, double base, op_layout layout, bool buffers) {
    const int64_t shape[] = {n, E};
    op_array y = op_make(buffers ? context : NULL, dtype, 2, shape, layout, NULL, NULL);
    SUCCEEDS(clattn_positions(context, &(clattn_positions_args){.y = y.t, .start = start, .base = base}));
    op_fetch(&y, what);
    for (int64_t i = 0; i < y.count; i++) {
        const int64_t e = i % E, c = e / 2;
        const long double angle = (start + i / E) * powl(base > 0 ? base : 10000, -2 * (long double)c / E);
        op_expect(&y, i, (double)(e % 2 ? cosl(angle) : sinl(angle)), oracle_floor(dtype, 1), what);
    }
    op_free(&y);
}

Test(tokens, positions_are_sines_and_cosines) {
    for (int d = 0; d < OP_DEVICES; d++) {
        clattn_context *context = op_open(op_devices[d]);
        clattn_device_info info;
        SUCCEEDS(clattn_context_info(context, &info));
        check_positions(context, op_devices[d], F32, 50, 64, 0, 0, OP_DENSE, true);
        check_positions(context, op_devices[d], F32, 5, 7, 1000, 0, OP_PADDED, true);
        check_positions(context, op_devices[d], F32, 3, 8, -2, 500, OP_TURNED, false);
        check_positions(context, op_devices[d], F16, 3, 8, 77, 0, OP_DENSE, false);
        check_positions(context, op_devices[d], BF16, 3, 8, 999999, 0, OP_SPREAD, true);
        check_positions(context, op_devices[d], F32, 1, 1, 3, 0, OP_DENSE, true);
        if (info.has_f64)
            check_positions(context, op_devices[d], F64, 4, 6, 9, 0, OP_DENSE, true);
        clattn_context_destroy(context);
    }
}

Test(tokens, positions_refuse_what_does_not_fit) {
    float y[8];
    const int64_t shape[] = {2, 4}, none[] = {0, 4}, cube[] = {2, 2, 2};
    clattn_context *context = op_open("cpu");
    const clattn_positions_args good = {.y = clattn_tensor_host(y, F32, 2, shape)};
    clattn_positions_args a = {.y = clattn_tensor_host(NULL, F32, 2, none)};
    SUCCEEDS(clattn_positions(context, &a));
#define REFUSED(change, code, part)                                                                                    \
    a = good;                                                                                                          \
    change;                                                                                                            \
    FAILS(clattn_positions(context, &a), code, part)
    REFUSED(a.base = -1, CLATTN_E_ARGUMENT, "base -1");
    REFUSED(a.start = ((int64_t)1 << 53) - 1, CLATTN_E_ARGUMENT, "reach beyond the 2^53");
    REFUSED(a.start = INT64_MIN, CLATTN_E_ARGUMENT, "reach beyond the 2^53");
    REFUSED(a.y = clattn_tensor_host(y, F32, 3, cube), CLATTN_E_SHAPE, "y [2, 2, 2]: should be [N, E]");
    REFUSED(a.y.dtype = CLATTN_I64, CLATTN_E_DTYPE, "y: is i64");
    REFUSED(a.y.stride[1] = 0, CLATTN_E_SHAPE, "y: its strides make elements share");
#undef REFUSED
    FAILS(clattn_positions(context, NULL), CLATTN_E_ARGUMENT, "args is NULL");
    clattn_context_destroy(context);
}
