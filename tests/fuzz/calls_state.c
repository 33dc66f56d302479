/* SPDX-License-Identifier: Apache-2.0 */
/* What changes a state: rotation, caches, merged parts, optimizers; valid descriptors, and what is right, by plain
 * loops in double. */
#include "calls.h"

#include "optimizer_steps.h"

/* ---- rotary ---- */

static void rotary_options(fuzz_call *c, clattn_rotary_options *o, int64_t D) {
    o->dims = fuzz_flag(c->in) ? 2 * (1 + fuzz_below(c->in, D / 2)) : 0;
    o->pairs = fuzz_flag(c->in) ? CLATTN_ROTARY_ADJACENT : CLATTN_ROTARY_HALVES;
    o->base = fuzz_flag(c->in) ? 500 : 0;
    o->frequencies = fuzz_flag(c->in) ? c->reals : NULL;
    call_option(c, CALL_INT, &o->dims);
    call_option(c, CALL_ENUM, &o->pairs);
    call_option(c, CALL_REAL, &o->base);
    call_option(c, CALL_REALS, &o->frequencies);
    call_option(c, CALL_RESERVED, o->reserved);
}

/* Dim d of a row whose dims begin at element `first` of x, at a position, or with cosine and sine of a table's row. */
static double turned(const fuzz_call *c, const clattn_rotary_options *o, const clattn_tensor *x, int64_t first,
                     int64_t d, int64_t position, const clattn_tensor *cos, const clattn_tensor *sin,
                     int64_t table_row) {
    const int64_t D = x->shape[x->rank - 1], dims = o->dims ? o->dims : D, pairs = dims / 2;
    if (d >= dims)
        return call_at(c, x, first + d);
    const bool adjacent = o->pairs == CLATTN_ROTARY_ADJACENT;
    const int64_t pair = adjacent ? d / 2 : d % pairs, one = adjacent ? 2 * pair : pair;
    const int64_t other = adjacent ? one + 1 : one + pairs;
    const long double base = o->base > 0 ? o->base : 10000;
    const long double f = o->frequencies ? o->frequencies[pair] : powl(base, -(long double)pair / pairs);
    const double co = cos->rank ? call_at(c, cos, table_row * pairs + pair) : (double)cosl(position * f);
    const double si = cos->rank ? call_at(c, sin, table_row * pairs + pair) : (double)sinl(position * f);
    const double a = call_at(c, x, first + one), b = call_at(c, x, first + other);
    return d == one ? a * co - b * si : a * si + b * co;
}

static void make_rotary(fuzz_call *c) {
    clattn_rotary_args *a = &c->args.rotary;
    int64_t shape[4], table[3];
    const int rank = call_shape(c, 2, 4, shape);
    shape[rank - 1] = 2 + fuzz_below(c->in, 7);
    const int64_t B = rank == 4 ? shape[0] : 1, N = shape[rank - 2];
    const int x = call_real(c, &a->x, "x", CALL_IN, rank, shape);
    const int y = call_real(c, &a->y, "y", CALL_OUT, rank, shape);
    if (fuzz_below(c->in, 4) == 1)
        call_alias(c, y, x);
    rotary_options(c, &a->options, shape[rank - 1]);
    const int64_t pairs = (a->options.dims ? a->options.dims : shape[rank - 1]) / 2, where = fuzz_below(c->in, 3);
    if (!a->options.dims && shape[rank - 1] % 2 == 1)
        a->options.dims = 2 * pairs;
    a->offsets = where == 1 ? c->numbers[0] : NULL;
    a->positions = where == 2 ? c->numbers[1] : NULL;
    const int64_t tables = fuzz_below(c->in, 4);
    table[0] = tables == 1 ? (fuzz_flag(c->in) ? B : 1) : 8, table[1] = tables == 1 ? N : pairs, table[2] = pairs;
    if (tables == 2 || (tables == 1 && where == 0)) {
        call_real(c, &a->cos, "cos", CALL_IN, tables == 1 ? 3 : 2, table);
        call_real(c, &a->sin, "sin", CALL_IN, tables == 1 ? 3 : 2, table);
    } else {
        call_none(c, &a->cos, "cos", CALL_IN);
        call_none(c, &a->sin, "sin", CALL_IN);
    }
    call_option(c, CALL_ARRAY, &a->offsets);
    call_option(c, CALL_ARRAY, &a->positions);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_rotary(fuzz_call *c) { return clattn_rotary(c->context, &c->args.rotary); }

static void expect_rotary(fuzz_call *c) {
    const clattn_rotary_args *a = &c->args.rotary;
    const int rank = a->x.rank;
    const int64_t D = a->x.shape[rank - 1], N = a->x.shape[rank - 2], count = clattn_tensor_elements(&a->x);
    const int64_t H = rank > 2 ? a->x.shape[rank - 3] : 1;
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = i / D % N, b = i / (D * N * H);
        const int64_t p = a->positions ? a->positions[b * N + row] : row + (a->offsets ? a->offsets[b] : 0);
        const int64_t table = a->cos.rank == 3 ? (a->cos.shape[0] == 1 ? 0 : b) * N + row : p;
        if (a->cos.rank == 0 && llabs(p) > 1000)
            continue;
        double size = 1;
        for (int64_t d = 0; d < D; d++)
            size += fabs(call_at(c, &a->x, i / D * D + d));
        if (a->cos.rank == 3 && a->sin.shape[0] != a->cos.shape[0]) /* each has rows of its own */
            continue;
        call_expect(c, &a->y, i, turned(c, &a->options, &a->x, i / D * D, i % D, p, &a->cos, &a->sin, table),
                    call_off(c, size));
    }
}

/* ---- caches ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static void make_append(fuzz_call *c) {
    static const clattn_dtype blocks[] = {CLATTN_Q8_0, CLATTN_Q4_0};
    clattn_cache_append_args *a = &c->args.append;
    const int64_t B = 1 + fuzz_below(c->in, 3), Hk = 1 + fuzz_below(c->in, 2), L = fuzz_below(c->in, 4);
    const int64_t kind = fuzz_below(c->in, 6), pages = fuzz_below(c->in, 3) == 1 ? 1 + fuzz_below(c->in, 3) : 0;
    const int64_t D = kind < 2 ? 32 : 2 + fuzz_below(c->in, 6), Dv = kind < 2 ? 32 : 1 + fuzz_below(c->in, 6);
    const int64_t slots = pages ? 1 + fuzz_below(c->in, 4) : 2 + L + fuzz_below(c->in, 3);
    const int64_t capacity = pages ? pages * slots : slots, which = fuzz_below(c->in, 4);
    const int64_t k[] = {B, Hk, L, D}, v[] = {B, Hk, L, Dv};
    const int64_t k_cache[] = {pages ? B * pages + 1 : B, Hk, slots, D}, v_cache[] = {k_cache[0], Hk, slots, Dv};
    if (which != 1) {
        call_real(c, &a->k, "k", CALL_IN, 4, k);
        call_add(c, &a->k_cache, "k_cache", CALL_OUT, kind < 2 ? blocks[kind] : call_dtype(c), 4, k_cache, 0);
    }
    if (which != 2) {
        call_real(c, &a->v, "v", CALL_IN, 4, v);
        call_add(c, &a->v_cache, "v_cache", CALL_OUT, kind < 2 ? blocks[kind] : call_dtype(c), 4, v_cache, 0);
    }
    a->cache_lengths = c->numbers[0];
    a->new_lengths = fuzz_flag(c->in) ? c->numbers[1] : NULL;
    for (int64_t b = 0; b < B; b++) {
        c->numbers[1][b] = oracle_below(&c->random, L + 1);
        const int64_t rows = a->new_lengths ? c->numbers[1][b] : L;
        c->numbers[1][b] = least(rows, capacity);
        c->numbers[0][b] = oracle_below(&c->random, capacity - least(rows, capacity) + 1);
        if (!a->new_lengths && L > capacity)
            a->new_lengths = c->numbers[1];
    }
    for (int64_t b = 0; b < B && a->new_lengths; b++)
        c->numbers[1][b] = least(c->numbers[1][b], capacity - c->numbers[0][b]);
    if (pages) {
        a->block_table = c->table;
        a->table_pages = pages;
        for (int64_t e = 0; e < B * pages; e++)
            c->table[e] = (int32_t)(B * pages - e);
    }
    a->rotate = which != 1 && D % 2 == 0 && fuzz_flag(c->in);
    rotary_options(c, &a->rotary, D);
    a->offsets = fuzz_flag(c->in) ? c->numbers[2] : NULL;
    const int64_t q[] = {B, Hk * 2, L, D}, table[] = {capacity + 8, (a->rotary.dims ? a->rotary.dims : D) / 2};
    if (a->rotate && fuzz_flag(c->in))
        call_real(c, &a->q, "q", CALL_INOUT, 4, q);
    if (a->rotate && fuzz_flag(c->in)) {
        call_real(c, &a->cos, "cos", CALL_IN, 2, table);
        call_real(c, &a->sin, "sin", CALL_IN, 2, table);
    }
    call_option(c, CALL_ARRAY, &a->cache_lengths);
    call_option(c, CALL_ARRAY, &a->new_lengths);
    call_option(c, CALL_ARRAY, &a->offsets);
    call_option(c, CALL_ARRAY32, &a->block_table);
    call_option(c, CALL_INT, &a->table_pages);
    call_option(c, CALL_FLAG, &a->rotate);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_append(fuzz_call *c) { return clattn_cache_append(c->context, &c->args.append); }

/* A row of numbers, through the type of the cache. */
static void expect_row(const fuzz_call *c, const clattn_tensor *cache, int64_t slot, double *row, int64_t D,
                       double most) {
    if (clattn_dtype_length(cache->dtype) > 1) { /* a number on an edge goes either way: by one step of the block */
        for (int64_t d = 0; d < D; d += 32) {
            double largest = 0;
            for (int64_t i = d; i < d + 32; i++)
                largest = fmax(largest, fabs(row[i]));
            for (int64_t i = d; i < d + 32; i++) {
                const double got = call_got(c, cache, slot * D + i);
                FUZZ_CHECK(fabs(got - row[i]) <= largest / (cache->dtype == CLATTN_Q8_0 ? 200 : 7) + most,
                           "%g for %g in a block of up to %g", got, row[i], largest);
            }
        }
        return;
    }
    for (int64_t d = 0; d < D; d++)
        call_expect(c, cache, slot * D + d, row[d], most);
}

static void expect_appended(const fuzz_call *c, const clattn_tensor *x, const clattn_tensor *cache, bool rotate) {
    const clattn_cache_append_args *a = &c->args.append;
    const int rank = x->rank;
    const int64_t D = x->shape[rank - 1], L = x->shape[rank - 2], Hk = rank > 2 ? x->shape[rank - 3] : 1;
    const int64_t slots = cache->shape[rank - 2];
    for (int64_t r = 0; D > 0 && D <= 64 && r < clattn_tensor_elements(x) / D; r++) {
        const int64_t i = r % L, h = r / L % Hk, b = r / (L * Hk), slot = a->cache_lengths[b] + i;
        const int64_t position = slot + (a->offsets ? a->offsets[b] : 0);
        double row[64];
        if ((a->new_lengths && i >= a->new_lengths[b]) || (rotate && a->cos.rank == 0 && llabs(position) > 1000))
            continue;
        for (int64_t d = 0; d < D; d++)
            row[d] = !rotate ? call_at(c, x, r * D + d)
                             : turned(c, &a->rotary, x, r * D, d, position, &a->cos, &a->sin, position);
        const int64_t page = a->block_table ? a->block_table[b * a->table_pages + slot / slots] : b;
        expect_row(c, cache, (page * Hk + h) * slots + slot % slots, row, D, rotate ? call_off(c, 16) : 0);
    }
}

static void expect_append(fuzz_call *c) {
    const clattn_cache_append_args *a = &c->args.append;
    if (a->k.rank > 0)
        expect_appended(c, &a->k, &a->k_cache, a->rotate);
    if (a->v.rank > 0)
        expect_appended(c, &a->v, &a->v_cache, false);
    const int64_t D = a->q.rank ? a->q.shape[a->q.rank - 1] : 0, L = a->q.rank ? a->q.shape[a->q.rank - 2] : 0;
    const int64_t H = a->q.rank > 2 ? a->q.shape[a->q.rank - 3] : 1;
    for (int64_t e = 0; a->q.rank > 0 && e < clattn_tensor_elements(&a->q); e++) {
        const int64_t i = e / D % L, b = e / (D * L * H);
        const bool beyond = a->new_lengths && i >= a->new_lengths[b];
        const int64_t p = beyond ? 0 : a->cache_lengths[b] + i + (a->offsets ? a->offsets[b] : 0);
        if (llabs(p) <= 1000)
            call_expect(c, &a->q, e, turned(c, &a->rotary, &a->q, e / D * D, e % D, p, &a->cos, &a->sin, p),
                        call_off(c, 16));
    }
}

/* ---- merge ---- */

static void make_merge(fuzz_call *c) {
    clattn_merge_args *a = &c->args.merge.args;
    int64_t shape[4];
    const int rank = call_shape(c, 2, 4, shape);
    const bool wide = fuzz_flag(c->in);
    a->count = 1 + fuzz_below(c->in, 3);
    a->parts = c->args.merge.parts;
    c->type = wide ? CLATTN_F64 : c->type == CLATTN_F64 ? CLATTN_F32 : c->type;
    c->mixed = false;
    for (int64_t i = 0; i < a->count; i++) {
        call_real(c, &c->args.merge.parts[i].o, "parts.o", CALL_IN, rank, shape);
        call_add(c, &c->args.merge.parts[i].lse, "parts.lse", CALL_IN, wide ? CLATTN_F64 : CLATTN_F32, rank - 1, shape,
                 0);
    }
    const int o = call_real(c, &a->o, "o", CALL_OUT, rank, shape);
    if (fuzz_below(c->in, 4) == 1)
        call_alias(c, o, 0);
    if (fuzz_flag(c->in)) {
        const int lse = call_add(c, &a->lse, "lse", CALL_OUT, wide ? CLATTN_F64 : CLATTN_F32, rank - 1, shape, 0);
        if (fuzz_below(c->in, 4) == 1)
            call_alias(c, lse, 1);
    } else {
        call_none(c, &a->lse, "lse", CALL_OUT);
    }
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_merge(fuzz_call *c) { return clattn_merge(c->context, &c->args.merge.args); }

static void expect_merge(fuzz_call *c) {
    const clattn_merge_args *a = &c->args.merge.args;
    const int64_t Dv = a->o.shape[a->o.rank - 1];
    for (int64_t i = 0; i < clattn_tensor_elements(&a->o); i++) {
        double largest = -INFINITY, sum = 0, o = 0, size = 0;
        for (int64_t x = 0; x < a->count; x++)
            largest = fmax(largest, call_at(c, &a->parts[x].lse, i / Dv));
        for (int64_t x = 0; x < a->count; x++) {
            const double w = exp(call_at(c, &a->parts[x].lse, i / Dv) - largest);
            sum += w;
            o += w * call_at(c, &a->parts[x].o, i);
            size += w * fabs(call_at(c, &a->parts[x].o, i));
        }
        call_expect(c, &a->o, i, o / sum, call_off(c, size / sum));
        call_expect(c, &a->lse, i / Dv, largest + log(sum), call_off(c, fabs(largest) + 2));
    }
}

/* ---- optimizers ---- */

static void make_gradient_norm(fuzz_call *c) {
    clattn_gradient_norm_args *a = &c->args.gradient_norm.args;
    const int64_t one = 1;
    a->count = (size_t)fuzz_below(c->in, 4);
    a->gradients = c->args.gradient_norm.gradients;
    for (size_t i = 0; i < a->count; i++) {
        int64_t shape[8];
        const int rank = call_shape(c, 1, 4, shape);
        call_real(c, &c->args.gradient_norm.gradients[i], "gradient", CALL_IN, rank, shape);
    }
    call_maybe(c, &a->norm, "norm", CALL_OUT, 1, &one);
    call_real(c, &a->factor, "factor", CALL_OUT, 1, &one);
    a->max_norm = fuzz_flag(c->in) ? 1.5 : 0;
    call_option(c, CALL_REAL, &a->max_norm);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_gradient_norm(fuzz_call *c) {
    return clattn_gradient_norm(c->context, &c->args.gradient_norm.args);
}

static void expect_gradient_norm(fuzz_call *c) {
    const clattn_gradient_norm_args *a = &c->args.gradient_norm.args;
    double squares = 0;
    for (size_t i = 0; i < a->count; i++)
        for (int64_t e = 0; e < clattn_tensor_elements(&a->gradients[i]); e++)
            squares += pow(call_at(c, &a->gradients[i], e), 2);
    const double norm = sqrt(squares);
    call_expect(c, &a->norm, 0, norm, call_off(c, norm));
    call_expect(c, &a->factor, 0, a->max_norm > 0 ? fmin(1, a->max_norm / (norm + 1e-6)) : 1, call_off(c, 1));
}

static void make_adam(fuzz_call *c) {
    clattn_adam_args *a = &c->args.adam;
    int64_t shape[8];
    const int64_t one = 1;
    const int rank = call_shape(c, 1, 5, shape);
    a->step = 1 + fuzz_below(c->in, 3);
    call_real(c, &a->parameter, "parameter", CALL_INOUT, rank, shape);
    call_real(c, &a->gradient, "gradient", CALL_IN, rank, shape);
    call_real(c, &a->moment1, "moment1", a->step > 1 ? CALL_INOUT : CALL_OUT, rank, shape);
    call_add(c, &a->moment2, "moment2", a->step > 1 ? CALL_INOUT : CALL_OUT, call_dtype(c), rank, shape, 5);
    call_maybe(c, &a->gradient_factor, "gradient_factor", CALL_IN, 1, &one);
    a->rate = fuzz_flag(c->in) ? 0.1 : 0;
    a->has_betas = fuzz_flag(c->in);
    a->beta1 = 0.5, a->beta2 = 0.75;
    a->epsilon = fuzz_flag(c->in) ? 0.01 : 0;
    a->decay = fuzz_flag(c->in) ? 0.125 : 0;
    a->decay_gradient = fuzz_flag(c->in);
    double *const reals[] = {&a->rate, &a->beta1, &a->beta2, &a->epsilon, &a->decay};
    for (int i = 0; i < 5; i++)
        call_option(c, CALL_REAL, reals[i]);
    call_option(c, CALL_INT, &a->step);
    call_option(c, CALL_FLAG, &a->has_betas);
    call_option(c, CALL_FLAG, &a->decay_gradient);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_adam(fuzz_call *c) { return clattn_adam_step(c->context, &c->args.adam); }

static void expect_step(fuzz_call *c, const step_case *how, int64_t step, const clattn_tensor *const t[4],
                        const clattn_tensor *factor) {
    for (int64_t i = 0; i < clattn_tensor_elements(t[0]) && step <= 10; i++) {
        const bool first = step == 1;
        const double g = call_at(c, t[1], i) * (factor->rank ? call_at(c, factor, 0) : 1);
        const state before = {call_at(c, t[0], i), first ? 0 : call_at(c, t[2], i),
                              first || !how->adam ? 0 : call_at(c, t[3], i)};
        const state s = step_of(how, (int)step, before, g);
        const double size = fabs(before.parameter) + fabs(before.first) + fabs(g) + 1;
        if (how->adam && before.second < 0) /* no sum of squares */
            continue;
        call_expect(c, t[0], i, s.parameter, call_off(c, size + fabs(s.parameter - before.parameter)));
        if (how->adam || how->momentum > 0)
            call_expect(c, t[2], i, s.first, call_off(c, size + fabs(s.first)));
        if (how->adam)
            call_expect(c, t[3], i, s.second, call_off(c, size * size + s.second));
    }
}

static void expect_adam(fuzz_call *c) {
    const clattn_adam_args *a = &c->args.adam;
    const step_case how = {.adam = true,
                           .rate = a->rate,
                           .has_betas = a->has_betas,
                           .beta1 = a->beta1,
                           .beta2 = a->beta2,
                           .epsilon = a->epsilon,
                           .decay = a->decay,
                           .decay_gradient = a->decay_gradient};
    const clattn_tensor *const tensors[] = {&a->parameter, &a->gradient, &a->moment1, &a->moment2};
    expect_step(c, &how, a->step, tensors, &a->gradient_factor);
}

static void make_sgd(fuzz_call *c) {
    clattn_sgd_args *a = &c->args.sgd;
    int64_t shape[8];
    const int64_t one = 1;
    const int rank = call_shape(c, 1, 5, shape);
    a->step = 1 + fuzz_below(c->in, 3);
    a->momentum = fuzz_flag(c->in) ? 0.5 : 0;
    call_real(c, &a->parameter, "parameter", CALL_INOUT, rank, shape);
    call_real(c, &a->gradient, "gradient", CALL_IN, rank, shape);
    if (a->momentum > 0)
        call_real(c, &a->velocity, "velocity", a->step > 1 ? CALL_INOUT : CALL_OUT, rank, shape);
    else
        call_none(c, &a->velocity, "velocity", CALL_INOUT);
    call_maybe(c, &a->gradient_factor, "gradient_factor", CALL_IN, 1, &one);
    a->rate = fuzz_flag(c->in) ? 0.1 : 0;
    a->nesterov = a->momentum > 0 && fuzz_flag(c->in);
    a->dampening = !a->nesterov && fuzz_flag(c->in) ? 0.25 : 0;
    a->decay = fuzz_flag(c->in) ? 0.125 : 0;
    double *const reals[] = {&a->rate, &a->momentum, &a->dampening, &a->decay};
    for (int i = 0; i < 4; i++)
        call_option(c, CALL_REAL, reals[i]);
    call_option(c, CALL_INT, &a->step);
    call_option(c, CALL_FLAG, &a->nesterov);
    call_option(c, CALL_RESERVED, a->reserved);
}

static clattn_status run_sgd(fuzz_call *c) { return clattn_sgd_step(c->context, &c->args.sgd); }

static void expect_sgd(fuzz_call *c) {
    const clattn_sgd_args *a = &c->args.sgd;
    const step_case how = {.rate = a->rate,
                           .momentum = a->momentum,
                           .dampening = a->dampening,
                           .nesterov = a->nesterov,
                           .decay = a->decay};
    const clattn_tensor *const tensors[] = {&a->parameter, &a->gradient, &a->velocity, &a->velocity};
    expect_step(c, &how, a->step, tensors, &a->gradient_factor);
}

const call_type call_states[] = {{"rotary", make_rotary, run_rotary, expect_rotary},
                                 {"cache_append", make_append, run_append, expect_append},
                                 {"merge", make_merge, run_merge, expect_merge},
                                 {"gradient_norm", make_gradient_norm, run_gradient_norm, expect_gradient_norm},
                                 {"adam_step", make_adam, run_adam, expect_adam},
                                 {"sgd_step", make_sgd, run_sgd, expect_sgd}};
const int call_states_count = (int)(sizeof call_states / sizeof *call_states);
