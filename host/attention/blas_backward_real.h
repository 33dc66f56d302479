/* SPDX-License-Identifier: Apache-2.0 */
/* The body of blas_backward.h for one type. Included after blas_task_real.h by the two files that define its macros and
 * the full names of these functions.
 *
 * Rows are computed whole, maximum and sum again: BLAS gives other bits of S for other shapes, and weights must add up
 * to 1 to keep dS small where it should be. Excluded weights are -0.0 as in the forward pass; the gradients of their
 * scores are 0. Products get rows of Q, K and dO without what is not finite: a row that a query does not see must not
 * turn 0 into NaN (semantics.md, R2). Where a kept weight meets such a number, it is added by itself (R3). */

/* One block of pairs: queries [i0, i1) of head h against keys [j0, j1), the hull of what they see. */
typedef struct {
    int64_t b, h, i0, i1, j0, j1;
} pairs;

/* ---- loops ---- */

/* Weights over their sum; an excluded one stays -0.0. */
CLONES static void divide_row(REAL *s, int64_t n, REAL inverse) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const REAL x = s[j] * inverse;
        s[j] = is_excluded(s[j]) ? excluded_weight : x;
    }
}

/* Gradients by weights become those by scores. */
CLONES static void gradient_row(REAL *ds, const REAL *s, int64_t n, REAL delta) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const REAL x = s[j] * (ds[j] - delta);
        ds[j] = is_excluded(s[j]) ? 0 : x;
    }
}

/* An excluded weight stays -0.0. */
CLONES static void multiply_row(REAL *x, const REAL *y, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        x[j] *= y[j];
}

/* What the soft cap leaves of gradients; the slope at an excluded score may be NaN. */
CLONES static void multiply_slopes(REAL *ds, const REAL *slope, int64_t n) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const REAL x = ds[j] * slope[j];
        ds[j] = ds[j] == 0 ? 0 : x;
    }
}

/* sum_j P dP, short sums first. */
CLONES static REAL sum_of_products(const REAL *s, const REAL *dp, int64_t n) {
    REAL all = 0;
    for (int64_t from = 0; from < n; from += 512) {
        const int64_t to = n - from < 512 ? n : from + 512;
        REAL sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = from; j < to; j++) {
            const REAL x = s[j] * dp[j];
            sum += is_excluded(s[j]) ? 0 : x;
        }
        all += sum;
    }
    return all;
}

/* 1 - tanh(scale s / cap)^2. */
static void slope_row(const cla_problem *p, const REAL *s, int64_t n, REAL *slope) {
    const REAL scale = (REAL)p->scale, cap = (REAL)p->softcap;
    for (int64_t j = 0; j < n; j++) {
        const REAL t = TANH(scale * s[j] / cap);
        slope[j] = 1 - t * t;
    }
}

/* Numbers that are not finite become 0. Whether there were any. */
static bool clear_special(REAL *x, int64_t count) {
    if (all_finite(x, count))
        return false;
    for (int64_t i = 0; i < count; i++)
        x[i] = isfinite(x[i]) ? x[i] : 0;
    return true;
}

/* ---- one block ---- */

static int64_t queries_of(const cla_problem *p, int64_t b) { return p->ragged ? p->batches[b].queries : p->N; }

static int64_t keys_of(const cla_problem *p, int64_t b) { return p->ragged ? p->batches[b].keys : p->M; }

/* The hull of the keys that the block's queries see; false where there are none. */
static bool take_hull(const cla_problem *p, pairs *x) {
    x->j0 = p->M;
    x->j1 = 0;
    for (int64_t i = x->i0; i < x->i1; i++) {
        int64_t lo, hi;
        cla_problem_keys(p, x->b, i, &lo, &hi);
        if (lo < hi) {
            x->j0 = lo < x->j0 ? lo : x->j0;
            x->j1 = hi > x->j1 ? hi : x->j1;
        }
    }
    return x->j0 < x->j1;
}

static void kept_row(const cla_blas_blocks *a, const pairs *x, int64_t i, REAL *kept) {
    for (int64_t j = x->j0; j < x->j1; j++)
        kept[j - x->j0] = 1;
    drop_row(&a->dropout, x->b, x->h, i, x->j0, x->j1, kept);
}

/* All keys of the head's key head. Whether some number of K is not finite. */
static bool load_keys(const cla_problem *p, const cla_blas_blocks *a, int64_t b, int64_t hk, REAL *scratch) {
    const int64_t row = first_key(p, b), n = keys_of(p, b);
    copy_rows(scratch + a->k, at(&p->k, b, hk, row), p->k.stride[2], n, p->D);
    copy_rows(scratch + a->v, at(&p->v, b, hk, row), p->v.stride[2], n, p->Dv);
    copy_rows(scratch + a->clean_k, scratch + a->k, p->D, n, p->D);
    return clear_special(scratch + a->clean_k, n * p->D);
}

static void load_queries(const cla_problem *p, const cla_blas_blocks *a, const pairs *x, REAL *scratch) {
    const int64_t row = first_query(p, x->b) + x->i0, n = x->i1 - x->i0;
    copy_rows(scratch + a->q, at(&p->q, x->b, x->h, row), p->q.stride[2], n, p->D);
    copy_rows(scratch + a->o, at(&p->d_o, x->b, x->h, row), p->d_o.stride[2], n, p->Dv);
}

static bool any_kept(const REAL *s, int64_t n) {
    for (int64_t j = 0; j < n; j++)
        if (!is_excluded(s[j]))
            return true;
    return false;
}

/* Scores of one row become weights, without dropout. What a sink's weight is, 0 in a row that sees no key. */
static REAL weigh_row(const cla_problem *p, const pairs *x, int64_t i, REAL *s) {
    const int64_t n = x->j1 - x->j0;
    const REAL sink = p->sinks.rank ? ((const REAL *)cla_tensor_data(&p->sinks))[x->h] : excluded_score;
    int64_t lo, hi;
    REAL m, l = 0, by_sink = 0;
    cla_problem_keys(p, x->b, i, &lo, &hi);
    lo = lo < hi ? lo - x->j0 : n;
    hi = lo < n ? hi - x->j0 : n;
    for (int64_t j = 0; j < lo; j++)
        s[j] = excluded_score;
    for (int64_t j = hi; j < n; j++)
        s[j] = excluded_score;
    if (p->score) {
        mask_row(p, x->b, x->h, i, x->j0 + lo, hi - lo, s + lo);
        m = max_of_row(s + lo, hi - lo);
    } else {
        m = scale_row(s + lo, hi - lo, (REAL)p->scale);
    }
    m = sink > m ? sink : m;
    for (int64_t j = 0; j < n; j += 512) /* short sums first */
        l += exp_row(s + j, n - j < 512 ? n - j : 512, m, 0);
    if (l == 0 && !(m == (REAL)INFINITY && any_kept(s, n))) /* no key, or none beside a sink, unless that is infinite */
        return 0;
    if (sink != excluded_score) {
        by_sink = exp_shifted(sink - m, 0);
        l += by_sink;
    }
    divide_row(s, n, 1 / l);
    return sink == excluded_score ? 0 : by_sink / l; /* l may be NaN */
}

/* Weights, with dropout, and the gradients of scores before the soft cap. Q, dO, K and V are loaded. */
static void weigh_block(const cla_problem *p, const cla_blas_blocks *a, const pairs *x, REAL *scratch, REAL *by_sink) {
    const int64_t n = x->j1 - x->j0;
    const int rows = (int)(x->i1 - x->i0), keys = (int)n, D = (int)p->D, Dv = (int)p->Dv;
    GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, D, 1, scratch + a->q, D, scratch + a->k + x->j0 * D, D, 0,
         scratch + a->s, keys);
    if (a->by_scores && Dv > 0)
        GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, keys, Dv, 1, scratch + a->o, Dv,
             scratch + a->v + x->j0 * Dv, Dv, 0, scratch + a->ds, keys);
    else if (a->by_scores)
        memset(scratch + a->ds, 0, (size_t)(rows * n) * sizeof *scratch);
    for (int64_t i = x->i0; i < x->i1; i++) {
        REAL *s = scratch + a->s + (i - x->i0) * n, *ds = scratch + a->ds + (i - x->i0) * n, *kept = scratch + a->kept;
        if (p->softcap > 0)
            slope_row(p, s, n, scratch + a->slope + (i - x->i0) * n);
        const REAL sink = weigh_row(p, x, i, s);
        if (a->dropout.bound > 0) {
            kept_row(a, x, i, kept);
            multiply_row(ds, kept, a->by_scores ? n : 0);
        }
        if (a->by_scores) {
            const REAL delta = sum_of_products(s, ds, n);
            gradient_row(ds, s, n, delta);
            *by_sink -= sink == 0 ? 0 : sink * delta;
        }
        if (a->dropout.bound > 0)
            multiply_row(s, kept, n);
    }
}

/* What a product lacks: rows of `raw` are its inner index, of stride `inner` in the coefficients; rows of `out` the
 * other, of stride `outer`. */
typedef struct {
    const REAL *raw;
    int64_t raw_stride, raw_rows, inner;
    REAL *out;
    int64_t out_rows, outer, width;
    const REAL *coefficients, *weights;
    REAL factor;
} special_rows;

static void add_special(const special_rows *x) {
    for (int64_t r = 0; r < x->raw_rows; r++) {
        const REAL *row = x->raw + r * x->raw_stride;
        if (all_finite(row, x->width))
            continue;
        for (int64_t y = 0; y < x->out_rows; y++) {
            const int64_t where = r * x->inner + y * x->outer;
            for (int64_t d = 0; d < x->width && !is_excluded(x->weights[where]); d++)
                if (!isfinite(row[d]))
                    x->out[y * x->width + d] += x->factor * x->coefficients[where] * row[d];
        }
    }
}

/* sums[keys, width] += factor C^T rows, rows being those of t from the block's first on, which lie in `loaded`. */
static void add_to_keys(const cla_problem *p, const pairs *x, const clattn_tensor *t, REAL *loaded, const REAL *c,
                        const REAL *weights, REAL factor, REAL *sums) {
    const int64_t n = x->j1 - x->j0, rows = x->i1 - x->i0, width = t->shape[3];
    if (width == 0)
        return;
    const bool special = clear_special(loaded, rows * width);
    GEMM(CblasRowMajor, CblasTrans, CblasNoTrans, (int)n, (int)width, (int)rows, factor, c, (int)n, loaded, (int)width,
         1, sums, (int)width);
    const special_rows rest = {.raw = at(t, x->b, x->h, first_query(p, x->b) + x->i0),
                               .raw_stride = t->stride[2],
                               .raw_rows = rows,
                               .inner = n,
                               .out = sums,
                               .out_rows = n,
                               .outer = 1,
                               .width = width,
                               .coefficients = c,
                               .weights = weights,
                               .factor = factor};
    if (special)
        add_special(&rest);
}

static REAL *dq_row(const cla_problem *p, int64_t b, int64_t h, int64_t i) {
    return (REAL *)cla_tensor_data(&p->d_q) + b * p->d_q.stride[0] + h * p->d_q.stride[1] +
           (first_query(p, b) + i) * p->d_q.stride[2];
}

static void store_queries(const cla_problem *p, const cla_blas_blocks *a, const pairs *x, REAL *scratch, bool special) {
    const int64_t n = x->j1 - x->j0, rows = x->i1 - x->i0;
    REAL *t = scratch + a->t;
    GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)p->D, (int)n, (REAL)p->scale, scratch + a->ds,
         (int)n, scratch + a->clean_k + x->j0 * p->D, (int)p->D, 0, t, (int)p->D);
    const special_rows rest = {.raw = scratch + a->k + x->j0 * p->D,
                               .raw_stride = p->D,
                               .raw_rows = n,
                               .inner = 1,
                               .out = t,
                               .out_rows = rows,
                               .outer = n,
                               .width = p->D,
                               .coefficients = scratch + a->ds,
                               .weights = scratch + a->s,
                               .factor = (REAL)p->scale};
    if (special)
        add_special(&rest);
    for (int64_t r = 0; r < rows; r++)
        memcpy(dq_row(p, x->b, x->h, x->i0 + r), t + r * p->D, (size_t)p->D * sizeof *t);
}

/* ---- tasks ---- */

static void clear_queries(const cla_problem *p, const pairs *x) {
    for (int64_t i = x->i0; i < x->i1; i++)
        memset(dq_row(p, x->b, x->h, i), 0, (size_t)p->D * sizeof(REAL));
}

static void run_block(const cla_problem *p, const cla_blas_blocks *a, const pairs *x, REAL *scratch, bool special,
                      REAL *sums) {
    const int64_t keys = keys_of(p, x->b), n = x->j1 - x->j0;
    REAL *dk = sums + x->j0 * p->D, *dv = sums + keys * p->D + x->j0 * p->Dv;
    load_queries(p, a, x, scratch);
    weigh_block(p, a, x, scratch, sums + a->sums - p->group + x->h % p->group);
    if (a->by_scores && p->softcap > 0)
        multiply_slopes(scratch + a->ds, scratch + a->slope, (x->i1 - x->i0) * n);
    if (cla_present(&p->d_v))
        add_to_keys(p, x, &p->d_o, scratch + a->o, scratch + a->s, scratch + a->s, 1, dv);
    if (cla_present(&p->d_k))
        add_to_keys(p, x, &p->q, scratch + a->q, scratch + a->ds, scratch + a->s, (REAL)p->scale, dk);
    if (cla_present(&p->d_q))
        store_queries(p, a, x, scratch, special);
}

void CLA_BLAS_GRADIENTS(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_queries *task, REAL *scratch,
                        REAL *sums) {
    const int64_t queries = queries_of(p, task->b), blocks = (queries + a->rows - 1) / a->rows;
    memset(sums, 0, (size_t)a->sums * sizeof *sums);
    const bool special = load_keys(p, a, task->b, task->hk, scratch);
    for (int64_t n = task->first; n < p->group * blocks; n += task->step) {
        const int64_t i = n % blocks * a->rows;
        pairs x = {.b = task->b, .h = task->hk * p->group + n / blocks, .i0 = i};
        x.i1 = i + a->rows < queries ? i + a->rows : queries;
        if (take_hull(p, &x))
            run_block(p, a, &x, scratch, special, sums);
        else if (cla_present(&p->d_q))
            clear_queries(p, &x);
    }
}

static void store_keys(const clattn_tensor *t, int64_t b, int64_t hk, int64_t row, int64_t n, const REAL *sums) {
    const int64_t width = t->shape[3];
    for (int64_t j = 0; j < n && cla_present(t); j++)
        memcpy((REAL *)cla_tensor_data(t) + b * t->stride[0] + hk * t->stride[1] + (row + j) * t->stride[2],
               sums + j * width, (size_t)width * sizeof *sums);
}

void CLA_BLAS_KEYS(const cla_problem *p, const cla_blas_blocks *a, int64_t b, int64_t hk, int64_t parts, REAL *sums) {
    const int64_t keys = keys_of(p, b), row = first_key(p, b);
    for (int64_t part = 1; part < parts; part++)
        accumulate(sums, sums + part * a->sums, a->sums);
    store_keys(&p->d_k, b, hk, row, keys, sums);
    store_keys(&p->d_v, b, hk, row, keys, sums + keys * p->D);
}

void CLA_BLAS_SINKS(const cla_problem *p, const cla_blas_blocks *a, int64_t stride, const REAL *sums) {
    for (int64_t h = 0; h < p->H; h++) {
        REAL sum = 0;
        for (int64_t b = 0; b < p->B; b++)
            sum += sums[(b * p->Hk + h / p->group) * stride + a->sums - p->group + h % p->group];
        ((REAL *)cla_tensor_data(&p->d_sinks))[h] = sum;
    }
}

static void add_block_to_bias(const cla_problem *p, const cla_blas_blocks *a, const pairs *x, const REAL *scratch,
                              REAL *to) {
    const clattn_tensor *t = &p->d_bias;
    const int64_t n = x->j1 - x->j0, b = t->stride[0] ? x->b : 0, h = t->stride[1] ? x->h : 0;
    for (int64_t i = x->i0; i < x->i1; i++) {
        const REAL *ds = scratch + a->ds + (i - x->i0) * n;
        REAL *row = to + ((b * t->shape[1] + h) * t->shape[2] + (t->stride[2] ? i : 0)) * t->shape[3];
        for (int64_t j = 0; j < n; j++)
            if (t->stride[3] == 0)
                row[0] += ds[j];
            else if (x->j0 + j < t->shape[3])
                row[x->j0 + j] += ds[j];
    }
}

void CLA_BLAS_BIAS(const cla_problem *p, const cla_blas_blocks *a, const cla_blas_pairs *task, REAL *scratch,
                   REAL *to) {
    for (int64_t b = task->b0; b < task->b1; b++)
        for (int64_t h = task->h0; h < task->h1; h++) {
            REAL ignored = 0;
            load_keys(p, a, b, h / p->group, scratch);
            for (int64_t i = task->i0; i < task->i1; i += a->rows) {
                pairs x = {.b = b, .h = h, .i0 = i, .i1 = i + a->rows < task->i1 ? i + a->rows : task->i1};
                if (!take_hull(p, &x))
                    continue;
                load_queries(p, a, &x, scratch);
                weigh_block(p, a, &x, scratch, &ignored);
                add_block_to_bias(p, a, &x, scratch, to);
            }
        }
}
