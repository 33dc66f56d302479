/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of clattn/train.h: valid descriptors, and what is right, by plain loops in double. */
#include "calls.h"

#include "linear_cases.h"

static double slope(clattn_activation activation, double x) {
    const long double h = 1e-6L;
    if (activation == CLATTN_ACTIVATION_RELU)
        return x > 0;
    return (double)((exact_activation(activation, x + h) - exact_activation(activation, x - h)) / (2 * h));
}

/* ---- linear ---- */

static bool ignores_of_linear(const fuzz_call *c, const clattn_tensor *t) {
    const clattn_linear_backward_args *a = &c->args.linear_backward;
    return (t == &a->x && a->d_w.rank == 0) || (t == &a->w && a->d_x.rank == 0) || (t == &a->z && a->activation == 0);
}

static void make_linear(fuzz_call *c) {
    clattn_linear_backward_args *a = &c->args.linear_backward;
    int64_t x[4], y[4], w[2];
    const int rank = call_shape(c, 1, 4, x);
    memcpy(y, x, sizeof y);
    y[rank - 1] = w[0] = 1 + fuzz_below(c->in, 5), w[1] = x[rank - 1];
    a->activation = (clattn_activation)fuzz_below(c->in, 5);
    a->accumulate = fuzz_flag(c->in);
    c->ignores = ignores_of_linear;
    const call_use use = a->accumulate ? CALL_INOUT : CALL_OUT;
    call_real(c, &a->x, "x", CALL_IN, rank, x);
    call_real(c, &a->w, "w", CALL_IN, 2, w);
    call_real(c, &a->z, "z", CALL_IN, rank, y);
    call_real(c, &a->d_y, "d_y", CALL_IN, rank, y);
    call_maybe(c, &a->d_x, "d_x", CALL_OUT, rank, x);
    call_maybe(c, &a->d_w, "d_w", use, 2, w);
    call_maybe(c, &a->d_bias, "d_bias", use, 1, w);
    call_option(c, CALL_ENUM, &a->activation);
    call_option(c, CALL_FLAG, &a->accumulate);
    call_option(c, CALL_NAME, &a->algorithm);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_linear(fuzz_call *c) { return clattn_linear_backward(c->context, &c->args.linear_backward); }

static double d_z(const fuzz_call *c, int64_t i) {
    const clattn_linear_backward_args *a = &c->args.linear_backward;
    return call_at(c, &a->d_y, i) * (a->activation ? slope(a->activation, call_at(c, &a->z, i)) : 1);
}

static void expect_linear(fuzz_call *c) {
    const clattn_linear_backward_args *a = &c->args.linear_backward;
    const int64_t N = a->d_y.shape[a->d_y.rank - 1], count = clattn_tensor_elements(&a->d_y);
    const int64_t rows = N > 0 ? count / N : 0;
    const int64_t K = a->d_x.rank ? a->d_x.shape[a->d_x.rank - 1] : a->d_w.rank ? a->d_w.shape[1] : 0;
    for (int64_t i = 0; i < rows * K && a->d_x.rank > 0; i++) {
        double sum = 0, terms = 0;
        for (int64_t n = 0; n < N; n++) {
            sum += d_z(c, i / K * N + n) * call_at(c, &a->w, n * K + i % K);
            terms += fabs(1.2 * call_at(c, &a->d_y, i / K * N + n) * call_at(c, &a->w, n * K + i % K));
        }
        call_expect(c, &a->d_x, i, sum, call_off(c, terms));
    }
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = -1; k < K; k++) { /* -1: the bias */
            const clattn_tensor *const d = k < 0 ? &a->d_bias : &a->d_w;
            const int64_t element = k < 0 ? n : n * K + k;
            double sum = a->accumulate ? call_at(c, d, element) : 0, terms = fabs(sum);
            for (int64_t r = 0; r < rows; r++) {
                const double x = k < 0 ? 1 : call_at(c, &a->x, r * K + k);
                sum += d_z(c, r * N + n) * x;
                terms += fabs(1.2 * call_at(c, &a->d_y, r * N + n) * x);
            }
            call_expect(c, d, element, sum, call_off(c, terms));
        }
}

/* ---- norm ---- */

static void make_norm(fuzz_call *c) {
    clattn_norm_backward_args *a = &c->args.norm_backward;
    int64_t shape[8], part[8];
    const int rank = call_shape(c, 1, 5, shape);
    a->axes = (int)fuzz_below(c->in, rank + 1);
    a->kind = fuzz_flag(c->in) ? CLATTN_NORM_RMS : CLATTN_NORM_LAYER;
    a->epsilon = fuzz_flag(c->in) ? 0.1 : 0;
    a->accumulate = fuzz_flag(c->in);
    const call_use use = a->accumulate ? CALL_INOUT : CALL_OUT;
    call_real(c, &a->x, "x", CALL_IN, rank, shape);
    call_maybe(c, &a->residual, "residual", CALL_IN, rank, shape);
    int r = call_broadcast(c, rank, shape, part);
    const bool weight = call_maybe(c, &a->weight, "weight", CALL_IN, r, part);
    call_real(c, &a->d_y, "d_y", CALL_IN, rank, shape);
    const int more = c->count;
    const bool has_more = call_maybe(c, &a->d_sum, "d_sum", CALL_IN, rank, shape);
    const int d_x = c->count;
    if (call_maybe(c, &a->d_x, "d_x", CALL_OUT, rank, shape) && has_more && fuzz_flag(c->in))
        call_alias(c, d_x, more);
    if (!weight)
        r = call_broadcast(c, rank, shape, part);
    call_maybe(c, &a->d_weight, "d_weight", use, r, part);
    r = call_broadcast(c, rank, shape, part);
    call_maybe(c, &a->d_bias, "d_bias", use, r, part);
    call_option(c, CALL_ENUM, &a->kind);
    call_option(c, CALL_ENUM, &a->axes);
    call_option(c, CALL_REAL, &a->epsilon);
    call_option(c, CALL_FLAG, &a->accumulate);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_norm(fuzz_call *c) { return clattn_norm_backward(c->context, &c->args.norm_backward); }

/* The row's mean and inverse deviation. */
static double norm_row(const fuzz_call *c, int64_t row, int64_t length, double *mean) {
    const clattn_norm_backward_args *a = &c->args.norm_backward;
    double squares = 0;
    *mean = 0;
    for (int64_t i = row * length; i < (row + 1) * length && a->kind == CLATTN_NORM_LAYER; i++)
        *mean += (call_at(c, &a->x, i) + call_at(c, &a->residual, i)) / (double)length;
    for (int64_t i = row * length; i < (row + 1) * length; i++)
        squares += pow(call_at(c, &a->x, i) + call_at(c, &a->residual, i) - *mean, 2) / (double)length;
    return 1 / sqrt(squares + (a->epsilon > 0 ? a->epsilon : 1e-5));
}

/* Whether element i of x belongs to element `of` of what broadcasts to it. */
static bool belongs(const clattn_tensor *t, const clattn_tensor *x, int64_t i, int64_t of) {
    int64_t element = 0, step = 1;
    for (int k = t->rank - 1, axis = x->rank - 1; k >= 0; k--, axis--) {
        element += t->shape[k] == 1 ? 0 : i % x->shape[axis] * step;
        step *= t->shape[k];
        i /= x->shape[axis];
    }
    return element == of;
}

static void expect_sums_of(const fuzz_call *c, const clattn_tensor *d, const clattn_tensor *x, const double *values,
                           bool accumulate, double size) {
    for (int64_t of = 0; d->rank > 0 && of < clattn_tensor_elements(d); of++) {
        double sum = accumulate ? call_at(c, d, of) : 0, terms = fabs(sum) + size;
        for (int64_t i = 0; i < clattn_tensor_elements(x); i++)
            if (belongs(d, x, i, of)) {
                sum += values[i];
                terms += fabs(values[i]);
            }
        call_expect(c, d, of, sum, call_off(c, terms));
    }
}

static void expect_norm(fuzz_call *c) {
    const clattn_norm_backward_args *a = &c->args.norm_backward;
    const int64_t count = clattn_tensor_elements(&a->x);
    int64_t length = 1;
    double *normal = calloc((size_t)count + 1, sizeof *normal), *d_y = calloc((size_t)count + 1, sizeof *d_y);
    double largest = 1;
    FUZZ_CHECK(normal && d_y, "no memory");
    for (int i = a->x.rank - (a->axes ? a->axes : 1); i < a->x.rank; i++)
        length *= a->x.shape[i];
    for (int64_t i = 0; i < count; i++) {
        double mean, of_g = 0, of_gn = 0, size = 0;
        const int64_t row = i / length;
        const double inverse = norm_row(c, row, length, &mean);
        for (int64_t k = row * length; k < (row + 1) * length; k++) {
            const double w = a->weight.rank ? call_value(c, &a->weight, a->x.rank, a->x.shape, k) : 1;
            const double g = call_at(c, &a->d_y, k) * w;
            const double n = (call_at(c, &a->x, k) + call_at(c, &a->residual, k) - mean) * inverse;
            of_g += g / (double)length;
            of_gn += g * n / (double)length;
            size = fmax(size, fabs(g)) * (1 + fabs(n));
            normal[k] = n;
        }
        const double w = a->weight.rank ? call_value(c, &a->weight, a->x.rank, a->x.shape, i) : 1;
        const double g = call_at(c, &a->d_y, i) * w, more = call_at(c, &a->d_sum, i);
        const double d = g - (a->kind == CLATTN_NORM_LAYER ? of_g : 0) - normal[i] * of_gn;
        largest = fmax(largest, inverse * (1 + fabs(call_at(c, &a->x, i)) + fabs(call_at(c, &a->residual, i))));
        d_y[i] = call_at(c, &a->d_y, i);
        call_expect(c, &a->d_x, i, inverse * d + more,
                    call_off(c, inverse * (size + 1) * (1 + fabs(normal[i])) * largest + fabs(more)));
    }
    expect_sums_of(c, &a->d_bias, &a->x, d_y, a->accumulate, 0);
    for (int64_t i = 0; i < count; i++)
        normal[i] *= d_y[i];
    expect_sums_of(c, &a->d_weight, &a->x, normal, a->accumulate, largest);
    free(normal);
    free(d_y);
}

/* ---- elements ---- */

static void make_activate(fuzz_call *c) {
    clattn_activate_backward_args *a = &c->args.activate_backward;
    int64_t shape[8];
    const int rank = call_shape(c, 1, 6, shape);
    const int x = call_real(c, &a->x, "x", CALL_IN, rank, shape);
    const bool gated = call_maybe(c, &a->up, "up", CALL_IN, rank, shape);
    const int d_y = call_real(c, &a->d_y, "d_y", CALL_IN, rank, shape);
    const int d_x = c->count;
    const bool has = call_maybe(c, &a->d_x, "d_x", CALL_OUT, rank, shape);
    const int64_t same = fuzz_below(c->in, 8);
    if (has && same < 3)
        call_alias(c, d_x, same == 0 ? x : same == 1 && gated ? 1 : d_y);
    if (gated)
        call_maybe(c, &a->d_up, "d_up", CALL_OUT, rank, shape);
    else
        call_none(c, &a->d_up, "d_up", CALL_OUT);
    a->activation = (clattn_activation)fuzz_below(c->in, 5);
    call_option(c, CALL_ENUM, &a->activation);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_activate(fuzz_call *c) {
    return clattn_activate_backward(c->context, &c->args.activate_backward);
}

static void expect_activate(fuzz_call *c) {
    const clattn_activate_backward_args *a = &c->args.activate_backward;
    for (int64_t i = 0; i < clattn_tensor_elements(&a->x); i++) {
        const double x = call_at(c, &a->x, i), up = a->up.rank ? call_at(c, &a->up, i) : 1, d = call_at(c, &a->d_y, i);
        call_expect(c, &a->d_x, i, d * up * slope(a->activation, x), call_off(c, 1.2 * fabs(d * up)));
        call_expect(c, &a->d_up, i, d * (double)exact_activation(a->activation, x), call_off(c, fabs(d * x)));
    }
}

static void make_softmax(fuzz_call *c) {
    clattn_softmax_backward_args *a = &c->args.softmax_backward;
    int64_t shape[8];
    const int rank = call_shape(c, 1, 6, shape), y = call_real(c, &a->y, "y", CALL_IN, rank, shape);
    const int d_y = call_real(c, &a->d_y, "d_y", CALL_IN, rank, shape);
    const int d_x = call_real(c, &a->d_x, "d_x", CALL_OUT, rank, shape);
    const int64_t same = fuzz_below(c->in, 6);
    if (same < 2)
        call_alias(c, d_x, same ? y : d_y);
    a->has_axis = fuzz_flag(c->in);
    a->axis = (int)fuzz_below(c->in, 2 * rank) - rank;
    call_option(c, CALL_FLAG, &a->has_axis);
    call_option(c, CALL_ENUM, &a->axis);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_softmax(fuzz_call *c) {
    return clattn_softmax_backward(c->context, &c->args.softmax_backward);
}

static void expect_softmax(fuzz_call *c) {
    const clattn_softmax_backward_args *a = &c->args.softmax_backward;
    const int axis = !a->has_axis ? a->y.rank - 1 : a->axis < 0 ? a->axis + a->y.rank : a->axis;
    const int64_t size = a->y.shape[axis];
    int64_t inner = 1;
    for (int i = axis + 1; i < a->y.rank; i++)
        inner *= a->y.shape[i];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->y); i++) {
        const int64_t first = i / (inner * size) * inner * size + i % inner;
        const double y = call_at(c, &a->y, i), d = call_at(c, &a->d_y, i);
        double sum = 0, terms = fabs(d);
        for (int64_t k = 0; k < size; k++) {
            const double term = call_at(c, &a->y, first + k * inner) * call_at(c, &a->d_y, first + k * inner);
            sum += term;
            terms += fabs(term);
        }
        call_expect(c, &a->d_x, i, y * (d - sum), call_off(c, fabs(y) * terms));
    }
}

static void make_sum(fuzz_call *c) {
    clattn_sum_args *a = &c->args.sum;
    int64_t shape[8], part[8];
    const int rank = call_shape(c, 1, 6, shape), r = call_broadcast(c, rank, shape, part);
    a->accumulate = fuzz_flag(c->in);
    call_real(c, &a->x, "x", CALL_IN, rank, shape);
    call_real(c, &a->y, "y", a->accumulate ? CALL_INOUT : CALL_OUT, r, part);
    call_option(c, CALL_FLAG, &a->accumulate);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_sum(fuzz_call *c) { return clattn_sum(c->context, &c->args.sum); }

static void expect_sum(fuzz_call *c) {
    const clattn_sum_args *a = &c->args.sum;
    double x[CALL_ELEMENTS];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->x); i++)
        x[i] = call_at(c, &a->x, i);
    expect_sums_of(c, &a->y, &a->x, x, a->accumulate, 0);
}

/* ---- tokens ---- */

static void make_embed(fuzz_call *c) {
    clattn_embed_backward_args *a = &c->args.embed_backward;
    int64_t shape[8], table[2];
    const int rank = call_shape(c, 2, 5, shape);
    table[0] = 1 + fuzz_below(c->in, 6), table[1] = shape[rank - 1];
    a->accumulate = fuzz_flag(c->in);
    call_add(c, &a->ids, "ids", CALL_IN, fuzz_flag(c->in) ? CLATTN_I32 : CLATTN_I64, rank - 1, shape, table[0]);
    call_real(c, &a->d_y, "d_y", CALL_IN, rank, shape);
    call_real(c, &a->d_table, "d_table", a->accumulate ? CALL_INOUT : CALL_OUT, 2, table);
    a->has_scale = fuzz_flag(c->in);
    a->scale = fuzz_flag(c->in) ? -1.5 : 0;
    a->has_padding = fuzz_flag(c->in);
    a->padding = fuzz_below(c->in, 8) - 2;
    call_option(c, CALL_FLAG, &a->has_scale);
    call_option(c, CALL_REAL, &a->scale);
    call_option(c, CALL_FLAG, &a->has_padding);
    call_option(c, CALL_INT, &a->padding);
    call_option(c, CALL_FLAG, &a->accumulate);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_embed(fuzz_call *c) { return clattn_embed_backward(c->context, &c->args.embed_backward); }

static void expect_embed(fuzz_call *c) {
    const clattn_embed_backward_args *a = &c->args.embed_backward;
    const int64_t E = a->d_table.shape[1];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->d_table); i++) {
        double sum = a->accumulate ? call_at(c, &a->d_table, i) : 0, terms = fabs(sum);
        for (int64_t k = 0; k < clattn_tensor_elements(&a->ids); k++) {
            const double id = call_at(c, &a->ids, k);
            const bool is_row = id >= 0 && id < (double)a->d_table.shape[0];
            const bool counts = !a->has_padding || id != (double)a->padding;
            FUZZ_CHECK(is_row || !counts || a->ids.buffer, "id %g was not refused", id);
            if (!counts || (int64_t)id != i / E || !is_row)
                continue;
            const double term = call_at(c, &a->d_y, k * E + i % E) * (a->has_scale ? a->scale : 1);
            sum += term;
            terms += fabs(term);
        }
        call_expect(c, &a->d_table, i, sum, call_off(c, terms));
    }
}

static void make_loss(fuzz_call *c) {
    clattn_cross_entropy_args *a = &c->args.loss;
    int64_t shape[8];
    const int64_t one = 1;
    const int rank = call_shape(c, 2, 5, shape);
    const int x = call_real(c, &a->logits, "logits", CALL_IN, rank, shape);
    call_add(c, &a->targets, "targets", CALL_IN, fuzz_flag(c->in) ? CLATTN_I32 : CLATTN_I64, rank - 1, shape,
             shape[rank - 1]);
    call_maybe(c, &a->row_losses, "row_losses", CALL_OUT, rank - 1, shape);
    call_maybe(c, &a->loss, "loss", CALL_OUT, 1, &one);
    const int d = call_real(c, &a->d_logits, "d_logits", CALL_OUT, rank, shape);
    if (fuzz_below(c->in, 4) == 1)
        call_alias(c, d, x);
    a->reduction = fuzz_flag(c->in) ? CLATTN_LOSS_SUM : CLATTN_LOSS_MEAN;
    a->has_ignore = fuzz_flag(c->in);
    a->ignore = fuzz_below(c->in, 8) - 2;
    a->smoothing = fuzz_flag(c->in) ? 0.25 : 0;
    a->has_scale = fuzz_flag(c->in);
    a->scale = fuzz_flag(c->in) ? -1.5 : 0;
    call_option(c, CALL_ENUM, &a->reduction);
    call_option(c, CALL_FLAG, &a->has_ignore);
    call_option(c, CALL_INT, &a->ignore);
    call_option(c, CALL_REAL, &a->smoothing);
    call_option(c, CALL_FLAG, &a->has_scale);
    call_option(c, CALL_REAL, &a->scale);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_loss(fuzz_call *c) { return clattn_cross_entropy(c->context, &c->args.loss); }

static void expect_loss(fuzz_call *c) {
    const clattn_cross_entropy_args *a = &c->args.loss;
    const int64_t C = a->logits.shape[a->logits.rank - 1], count = clattn_tensor_elements(&a->logits);
    const int64_t rows = clattn_tensor_elements(&a->targets);
    const double smoothing = a->smoothing, scale = a->has_scale ? a->scale : 1;
    double total = 0, size = 1, counted = 0;
    for (int64_t r = 0; r < rows; r++)
        counted += !a->has_ignore || call_at(c, &a->targets, r) != (double)a->ignore;
    const double share = a->reduction == CLATTN_LOSS_MEAN ? (counted > 0 ? 1 / counted : 0) : 1;
    for (int64_t r = 0; r < rows && count > 0; r++) {
        const double target = call_at(c, &a->targets, r);
        const bool is_class = target >= 0 && target < (double)C;
        const bool counts = !a->has_ignore || target != (double)a->ignore;
        double largest = -INFINITY, sum = 0, mean = 0;
        FUZZ_CHECK(is_class || !counts || a->targets.buffer, "target %g was not refused", target);
        for (int64_t k = 0; k < C; k++)
            largest = fmax(largest, call_at(c, &a->logits, r * C + k));
        for (int64_t k = 0; k < C; k++) {
            sum += exp(call_at(c, &a->logits, r * C + k) - largest);
            mean += call_at(c, &a->logits, r * C + k) / (double)C;
            size = fmax(size, fabs(call_at(c, &a->logits, r * C + k)));
        }
        const double chosen = is_class ? call_at(c, &a->logits, r * C + (int64_t)target) : NAN;
        const double loss = counts ? largest + log(sum) - (1 - smoothing) * chosen - smoothing * mean : 0;
        total += loss;
        call_expect(c, &a->row_losses, r, loss, call_off(c, size));
        for (int64_t k = 0; k < C; k++) {
            const double p = exp(call_at(c, &a->logits, r * C + k) - largest) / sum;
            const double hit = (double)k == target ? 1 - smoothing : 0;
            const double d = !is_class ? NAN : (p - hit - smoothing / (double)C) * scale * share;
            call_expect(c, &a->d_logits, r * C + k, counts ? d : 0, call_off(c, fabs(scale)));
        }
    }
    if (count > 0)
        call_expect(c, &a->loss, 0, total * share * scale, call_off(c, size * (double)(rows + 1) * fabs(scale)));
}

const call_type call_trains[] = {{"linear_backward", make_linear, run_linear, expect_linear},
                                 {"norm_backward", make_norm, run_norm, expect_norm},
                                 {"activate_backward", make_activate, run_activate, expect_activate},
                                 {"softmax_backward", make_softmax, run_softmax, expect_softmax},
                                 {"embed_backward", make_embed, run_embed, expect_embed},
                                 {"sum", make_sum, run_sum, expect_sum},
                                 {"cross_entropy", make_loss, run_loss, expect_loss}};
const int call_trains_count = (int)(sizeof call_trains / sizeof *call_trains);
