/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of clattn/ops.h: valid descriptors, and what is right, by plain loops in double. */
#include "calls.h"

#include "linear_cases.h"

/* ---- linear ---- */

static void make_linear(fuzz_call *c) {
    static const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_Q4_1};
    clattn_linear_args *a = &c->args.linear;
    int64_t x[4], y[4], w[2];
    const int rank = call_shape(c, 1, 4, x);
    const int64_t blocks = fuzz_below(c->in, 6);
    const int64_t N = 1 + fuzz_below(c->in, 5);
    a->gated = fuzz_flag(c->in);
    a->activation = (clattn_activation)fuzz_below(c->in, 5);
    x[rank - 1] = blocks < 3 ? 32 : x[rank - 1];
    memcpy(y, x, sizeof y);
    y[rank - 1] = N;
    w[0] = a->gated ? 2 * N : N, w[1] = x[rank - 1];
    call_real(c, &a->x, "x", CALL_IN, rank, x);
    call_add(c, &a->w, "w", CALL_IN, blocks < 3 ? types[blocks] : call_dtype(c), 2, w, 0);
    call_maybe(c, &a->bias, "bias", CALL_IN, 1, w);
    call_real(c, &a->y, "y", CALL_OUT, rank, y);
    call_option(c, CALL_ENUM, &a->activation);
    call_option(c, CALL_FLAG, &a->gated);
    call_option(c, CALL_NAME, &a->algorithm);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_linear(fuzz_call *c) {
    bool applies;
    const char *reason;
    const clattn_status status = clattn_linear(c->context, &c->args.linear);
    for (size_t i = 0; clattn_linear_algorithm(i); i++)
        if (clattn_linear_applies(c->context, &c->args.linear, i, &applies, &reason) == CLATTN_OK)
            FUZZ_CHECK(applies || reason[0], "no reason");
    return status == CLATTN_OK ? status : clattn_linear(c->context, &c->args.linear); /* its text again */
}

/* A sum with its bias, and the sum of the magnitudes. */
static double linear_sum(const fuzz_call *c, int64_t row, int64_t n, double *terms) {
    const clattn_linear_args *a = &c->args.linear;
    const int64_t K = a->w.shape[1];
    double z = call_at(c, &a->bias, n);
    *terms = fabs(z);
    for (int64_t k = 0; k < K; k++) {
        const double x = call_at(c, &a->x, row * K + k), w = call_at(c, &a->w, n * K + k);
        z += x * w;
        *terms += fabs(x) * (fabs(w) + (a->w.dtype == CLATTN_Q4_1 ? 8 : 0)); /* of a block, |q d| + |m| */
    }
    return z;
}

static void expect_linear(fuzz_call *c) {
    const clattn_linear_args *a = &c->args.linear;
    const clattn_dtype sums = call_sums(c);
    const int64_t N = a->y.shape[a->y.rank - 1];
    const linear_case with = {.K = a->w.shape[1], .activation = a->activation, .y_type = sums};
    const linear_case without = {.K = a->w.shape[1], .y_type = sums};
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        double terms, more;
        const double z = linear_sum(c, i / N, i % N, &terms);
        double y = (double)exact_activation(a->activation, z), most = allowed(&with, sums, terms, z, y);
        if (a->gated) {
            const double up = linear_sum(c, i / N, N + i % N, &more);
            most = most * fabs(up) + (fabs(y) + most) * allowed(&without, sums, more, up, up);
            y *= up;
        }
        call_expect(c, &a->y, i, y, most);
    }
}

/* ---- norm ---- */

static void make_norm(fuzz_call *c) {
    clattn_norm_args *a = &c->args.norm;
    int64_t shape[8], part[8], rows[8];
    const int rank = call_shape(c, 1, 5, shape);
    a->axes = (int)fuzz_below(c->in, rank + 1);
    a->kind = fuzz_flag(c->in) ? CLATTN_NORM_RMS : CLATTN_NORM_LAYER;
    a->epsilon = fuzz_flag(c->in) ? 0.1 : 0;
    const int outer = rank - (a->axes ? a->axes : 1);
    for (int i = 0; i < rank; i++)
        rows[i] = i < outer ? shape[i] : 1;
    const int rows_rank = outer > 0 && fuzz_flag(c->in) ? outer : rank;
    const int x = call_real(c, &a->x, "x", CALL_IN, rank, shape), residual = c->count;
    const bool more = call_maybe(c, &a->residual, "residual", CALL_IN, rank, shape);
    int r = call_broadcast(c, rank, shape, part);
    call_maybe(c, &a->weight, "weight", CALL_IN, r, part);
    r = call_broadcast(c, rank, shape, part);
    call_maybe(c, &a->bias, "bias", CALL_IN, r, part);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape), sum = c->count;
    if (more)
        call_maybe(c, &a->sum, "sum", CALL_OUT, rank, shape);
    else
        call_none(c, &a->sum, "sum", CALL_OUT);
    if (a->kind == CLATTN_NORM_LAYER)
        call_maybe(c, &a->mean, "mean", CALL_OUT, rows_rank, rows);
    else
        call_none(c, &a->mean, "mean", CALL_OUT);
    call_maybe(c, &a->inv_std, "inv_std", CALL_OUT, rows_rank, rows);
    const int64_t same = fuzz_below(c->in, 6);
    if (same < 2)
        call_alias(c, y, same == 1 && more ? residual : x);
    if (same == 2 && a->sum.rank > 0)
        call_alias(c, sum, x);
    call_option(c, CALL_ENUM, &a->kind);
    call_option(c, CALL_ENUM, &a->axes);
    call_option(c, CALL_REAL, &a->epsilon);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_norm(fuzz_call *c) { return clattn_norm(c->context, &c->args.norm); }

static void expect_norm(fuzz_call *c) {
    const clattn_norm_args *a = &c->args.norm;
    const clattn_dtype sums = call_sums(c);
    int64_t length = 1;
    for (int i = a->x.rank - (a->axes ? a->axes : 1); i < a->x.rank; i++)
        length *= a->x.shape[i];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->x); i++) {
        const int64_t row = i / length;
        long double mean = 0, squares = 0;
        for (int64_t k = row * length; k < (row + 1) * length && a->kind == CLATTN_NORM_LAYER; k++)
            mean += ((long double)call_at(c, &a->x, k) + call_at(c, &a->residual, k)) / length;
        for (int64_t k = row * length; k < (row + 1) * length; k++)
            squares += powl((long double)call_at(c, &a->x, k) + call_at(c, &a->residual, k) - mean, 2) / length;
        const double inverse = (double)(1 / sqrtl(squares + (a->epsilon > 0 ? a->epsilon : 1e-5)));
        const double x = call_at(c, &a->x, i), r = call_at(c, &a->residual, i), z = x + r, most = fabs(x) + fabs(r);
        const double w = a->weight.rank ? call_value(c, &a->weight, a->x.rank, a->x.shape, i) : 1;
        const double b = call_value(c, &a->bias, a->x.rank, a->x.shape, i);
        call_expect(c, &a->y, i, (z - (double)mean) * inverse * w + b,
                    oracle_floor(sums, (most + 4) * inverse * fabs(w) + fabs(b)));
        call_expect(c, &a->sum, i, z, oracle_floor(sums, most));
        call_expect(c, &a->mean, row, (double)mean, oracle_floor(sums, most + 4));
        call_expect(c, &a->inv_std, row, inverse, oracle_floor(sums, inverse * (1 + inverse)));
    }
}

/* ---- elements ---- */

static void make_add(fuzz_call *c) {
    clattn_add_args *a = &c->args.add;
    int64_t shape[8], part[8];
    const int rank = call_shape(c, 1, 6, shape), r = call_broadcast(c, rank, shape, part);
    const int x = call_real(c, &a->a, "a", CALL_IN, rank, shape);
    call_real(c, &a->b, "b", CALL_IN, r, part);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    if (fuzz_below(c->in, 4) == 1)
        call_alias(c, y, x);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_add(fuzz_call *c) { return clattn_add(c->context, &c->args.add); }

static void expect_add(fuzz_call *c) {
    const clattn_add_args *a = &c->args.add;
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        const double x = call_at(c, &a->a, i), b = call_value(c, &a->b, a->y.rank, a->y.shape, i);
        call_expect(c, &a->y, i, x + b, oracle_floor(call_sums(c), fabs(x) + fabs(b)));
    }
}

static void make_activate(fuzz_call *c) {
    clattn_activate_args *a = &c->args.activate;
    int64_t shape[8];
    const int rank = call_shape(c, 1, 6, shape), x = call_real(c, &a->x, "x", CALL_IN, rank, shape), up = c->count;
    const bool gated = call_maybe(c, &a->up, "up", CALL_IN, rank, shape);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    const int64_t same = fuzz_below(c->in, 6);
    if (same < 2)
        call_alias(c, y, same == 1 && gated ? up : x);
    a->activation = (clattn_activation)fuzz_below(c->in, 5);
    call_option(c, CALL_ENUM, &a->activation);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_activate(fuzz_call *c) { return clattn_activate(c->context, &c->args.activate); }

static void expect_activate(fuzz_call *c) {
    const clattn_activate_args *a = &c->args.activate;
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        const double x = call_at(c, &a->x, i), up = a->up.rank ? call_at(c, &a->up, i) : 1;
        call_expect(c, &a->y, i, (double)exact_activation(a->activation, x) * up,
                    oracle_floor(call_sums(c), 2 * fabs(x * up)));
    }
}

/* The number of the axis that `has` and `axis` say, elements behind it, and its size. */
static int64_t inner_of(const clattn_tensor *t, bool has, int axis, int64_t *size) {
    const int at = !has ? t->rank - 1 : axis < 0 ? axis + t->rank : axis;
    int64_t inner = 1;
    for (int i = at + 1; i < t->rank; i++)
        inner *= t->shape[i];
    *size = t->shape[at];
    return inner;
}

static void make_softmax(fuzz_call *c) {
    clattn_softmax_args *a = &c->args.softmax;
    int64_t shape[8];
    const int rank = call_shape(c, 1, 6, shape), x = call_real(c, &a->x, "x", CALL_IN, rank, shape);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    if (fuzz_below(c->in, 4) == 1)
        call_alias(c, y, x);
    a->has_axis = fuzz_flag(c->in);
    a->axis = (int)fuzz_below(c->in, 2 * rank) - rank;
    call_option(c, CALL_FLAG, &a->has_axis);
    call_option(c, CALL_ENUM, &a->axis);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_softmax(fuzz_call *c) { return clattn_softmax(c->context, &c->args.softmax); }

static void expect_softmax(fuzz_call *c) {
    const clattn_softmax_args *a = &c->args.softmax;
    int64_t size;
    const int64_t count = clattn_tensor_elements(&a->x);
    const int64_t inner = count > 0 ? inner_of(&a->x, a->has_axis, a->axis, &size) : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = i / (inner * size) * inner * size + i % inner;
        double sum = 0;
        for (int64_t k = 0; k < size; k++)
            sum += exp(call_at(c, &a->x, first + k * inner) - call_at(c, &a->x, i));
        call_expect(c, &a->y, i, 1 / sum, oracle_floor(call_sums(c), 1));
    }
}

/* ---- tokens ---- */

static void make_embed(fuzz_call *c) {
    static const clattn_dtype types[] = {CLATTN_Q8_0, CLATTN_Q4_0, CLATTN_Q4_1};
    clattn_embed_args *a = &c->args.embed;
    int64_t shape[8], table[2], part[8];
    const int rank = call_shape(c, 2, 5, shape);
    const int64_t blocks = fuzz_below(c->in, 8);
    shape[rank - 1] = blocks < 3 ? 32 : shape[rank - 1];
    table[0] = 1 + fuzz_below(c->in, 6), table[1] = shape[rank - 1];
    call_add(c, &a->table, "table", CALL_IN, blocks < 3 ? types[blocks] : call_dtype(c), 2, table, 0);
    call_add(c, &a->ids, "ids", CALL_IN, fuzz_flag(c->in) ? CLATTN_I32 : CLATTN_I64, rank - 1, shape, table[0]);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    const int r = call_broadcast(c, rank, shape, part), add = c->count;
    if (call_maybe(c, &a->add, "add", CALL_IN, r, part) && a->add.rank == rank && fuzz_below(c->in, 4) == 1 &&
        memcmp(part, shape, (size_t)rank * sizeof *part) == 0)
        call_alias(c, y, add);
    a->has_scale = fuzz_flag(c->in);
    a->scale = fuzz_flag(c->in) ? -1.5 : 0;
    call_option(c, CALL_FLAG, &a->has_scale);
    call_option(c, CALL_REAL, &a->scale);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_embed(fuzz_call *c) { return clattn_embed(c->context, &c->args.embed); }

static void expect_embed(fuzz_call *c) {
    const clattn_embed_args *a = &c->args.embed;
    const int64_t E = a->table.shape[1];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        const double id = call_at(c, &a->ids, i / E), add = call_value(c, &a->add, a->y.rank, a->y.shape, i);
        const bool is_row = id >= 0 && id < (double)a->table.shape[0];
        FUZZ_CHECK(is_row || a->ids.buffer, "id %g was not refused", id);
        const double x = is_row ? call_at(c, &a->table, (int64_t)id * E + i % E) * (a->has_scale ? a->scale : 1) : NAN;
        call_expect(c, &a->y, i, x + add, oracle_floor(call_sums(c), fabs(x) + fabs(add)));
    }
}

static void make_pool(fuzz_call *c) {
    clattn_pool_args *a = &c->args.pool;
    int64_t x[3], y[2];
    call_shape(c, 3, 3, x);
    y[0] = x[0], y[1] = x[2];
    call_real(c, &a->x, "x", CALL_IN, 3, x);
    call_real(c, &a->y, "y", CALL_OUT, 2, y);
    a->lengths = fuzz_flag(c->in) ? c->numbers[0] : NULL;
    for (int b = 0; b < 5; b++)
        c->numbers[0][b] = oracle_below(&c->random, x[1] + 1);
    a->normalise = fuzz_flag(c->in);
    call_option(c, CALL_ARRAY, &a->lengths);
    call_option(c, CALL_FLAG, &a->normalise);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_pool(fuzz_call *c) { return clattn_pool(c->context, &c->args.pool); }

static double pool_mean(const fuzz_call *c, int64_t b, int64_t e) {
    const clattn_pool_args *a = &c->args.pool;
    const int64_t N = a->x.shape[1], n = a->lengths ? a->lengths[b] : N;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += call_at(c, &a->x, (b * N + i) * a->x.shape[2] + e);
    return n > 0 ? sum / (double)n : 0;
}

static void expect_pool(fuzz_call *c) {
    const clattn_pool_args *a = &c->args.pool;
    const int64_t E = a->y.shape[1];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        double squares = 0;
        for (int64_t e = 0; e < E && a->normalise; e++)
            squares += pow(pool_mean(c, i / E, e), 2);
        const double length = a->normalise ? fmax(sqrt(squares), 1e-12) : 1;
        if (length > 1e-3 || squares == 0)
            call_expect(c, &a->y, i, pool_mean(c, i / E, i % E) / length, oracle_floor(call_sums(c), 8 / length));
    }
}

static void make_positions(fuzz_call *c) {
    clattn_positions_args *a = &c->args.positions;
    int64_t shape[2];
    call_shape(c, 2, 2, shape);
    call_real(c, &a->y, "y", CALL_OUT, 2, shape);
    a->start = fuzz_below(c->in, 200) - 100;
    a->base = fuzz_flag(c->in) ? 500 : 0;
    call_option(c, CALL_INT, &a->start);
    call_option(c, CALL_REAL, &a->base);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_positions(fuzz_call *c) { return clattn_positions(c->context, &c->args.positions); }

static void expect_positions(fuzz_call *c) {
    const clattn_positions_args *a = &c->args.positions;
    const int64_t E = a->y.shape[1];
    const long double base = a->base > 0 ? a->base : 10000;
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y) && llabs(a->start) < 10000 && base >= 1; i++) {
        const int64_t e = i % E;
        const long double angle = (a->start + i / E) * powl(base, -(long double)(e / 2 * 2) / E);
        call_expect(c, &a->y, i, (double)(e % 2 ? cosl(angle) : sinl(angle)), 1e-14);
    }
}

static void make_random(fuzz_call *c) {
    clattn_random_args *a = &c->args.random;
    int64_t shape[8];
    const int rank = call_shape(c, 1, 6, shape);
    call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    a->distribution = fuzz_flag(c->in) ? CLATTN_DISTRIBUTION_UNIFORM : CLATTN_DISTRIBUTION_NORMAL;
    a->seed = fuzz_byte(c->in) * UINT64_C(0x9e3779b97f4a7c15);
    a->stream = fuzz_byte(c->in) * UINT64_C(0x9e3779b97f4a7c15);
    a->first = fuzz_byte(c->in) - UINT64_C(40);
    call_option(c, CALL_ENUM, &a->distribution);
    call_option(c, CALL_INT, &a->first);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_random(fuzz_call *c) { return clattn_random(c->context, &c->args.random); }

/* Each number by itself, from its place alone. */
static void expect_random(fuzz_call *c) {
    const clattn_random_args *a = &c->args.random;
    const int64_t one = 1, count = clattn_tensor_elements(&a->y);
    for (int64_t i = 0; i < count; i += 1 + count / 8) {
        float x = NAN;
        clattn_random_args alone = *a;
        alone.y = clattn_tensor_host(&x, CLATTN_F32, 1, &one);
        alone.first += (uint64_t)i;
        SUCCEEDS(clattn_random(c->context, &alone));
        FUZZ_CHECK(fabsf(x) < 10 && (a->distribution == CLATTN_DISTRIBUTION_NORMAL || (x >= 0 && x < 1)), "%g",
                   (double)x);
        call_expect(c, &a->y, i, (double)x, 0);
    }
}

const call_type call_ops[] = {{"linear", make_linear, run_linear, expect_linear},
                              {"norm", make_norm, run_norm, expect_norm},
                              {"add", make_add, run_add, expect_add},
                              {"activate", make_activate, run_activate, expect_activate},
                              {"softmax", make_softmax, run_softmax, expect_softmax},
                              {"embed", make_embed, run_embed, expect_embed},
                              {"pool", make_pool, run_pool, expect_pool},
                              {"positions", make_positions, run_positions, expect_positions},
                              {"random", make_random, run_random, expect_random}};
const int call_ops_count = (int)(sizeof call_ops / sizeof *call_ops);
