/* SPDX-License-Identifier: Apache-2.0 */
/* The body of blas_task.h for one type. Included by the two files that define REAL, LOG, TANH, GEMM, GEMV, exp_shifted,
 * weight_of and the three functions' full names.
 *
 * A score of -inf is an excluded key; its weight is -0.0, which no kept key has, so that what a weight of 0 times NaN
 * or infinity should be is still known after the product (semantics.md, R2 and R3). */

/* Several versions of the loops, chosen at run time: the library itself is built for the plain processor. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__linux__) &&                           \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CLONES
#endif

static const REAL excluded_score = (REAL)-INFINITY, excluded_weight = (REAL)-0.0;

static inline bool is_excluded(REAL weight) { return weight == 0 && signbit(weight); }

/* ---- loops ---- */

CLONES static REAL scale_row(REAL *s, int64_t n, REAL scale) {
    REAL m = excluded_score;
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++) {
        const REAL x = scale * s[j];
        s[j] = x;
        m = x > m ? x : m;
    }
    return m;
}

CLONES static REAL max_of_row(const REAL *s, int64_t n) {
    REAL m = excluded_score;
#pragma omp simd reduction(max : m)
    for (int64_t j = 0; j < n; j++)
        m = s[j] > m ? s[j] : m;
    return m;
}

/* Scores become weights; their sum. The largest score m is -inf when all are excluded or NaN. */
CLONES static REAL exp_row(REAL *s, int64_t n, REAL m, uint32_t shift) {
    REAL l = 0;
#pragma omp simd reduction(+ : l)
    for (int64_t j = 0; j < n; j++) {
        s[j] = weight_of(s[j], m, shift);
        l += s[j];
    }
    return l;
}

CLONES static void add_bias(REAL *s, const REAL *bias, int64_t stride, int64_t n, REAL scale) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++) {
        const REAL x = bias[j * stride];
        s[j] = x == excluded_score ? x : scale * s[j] + x;
    }
}

CLONES static void exclude_where(REAL *s, const uint8_t *mask, int64_t stride, int64_t n, bool value) {
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        s[j] = (mask[j * stride] != 0) == value ? excluded_score : s[j];
}

CLONES static void accumulate(REAL *o, const REAL *t, int64_t n) {
#pragma omp simd
    for (int64_t d = 0; d < n; d++)
        o[d] += t[d];
}

CLONES static bool all_finite(const REAL *x, int64_t n) {
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < n; d++)
        sum += x[d] - x[d];
    return sum == 0;
}

/* Weights of keys [j0, j1), some of which are dropped; an excluded one stays -0.0. */
static void drop_row(const cla_dropout *dropout, int64_t b, int64_t h, int64_t i, int64_t j0, int64_t j1, REAL *s) {
    for (int64_t j = j0; j < j1;) {
        uint32_t words[4];
        cla_dropout_words(dropout, b, h, i, j, words);
        for (int64_t last = j - j % 4 + 4; j < last && j < j1; j++)
            s[j - j0] *= words[j % 4] < dropout->bound ? 0 : (REAL)dropout->kept;
    }
}

/* ---- tensors ---- */

/* The first row of batch b: sequences may lie one after another. */
static inline int64_t first_query(const cla_problem *p, int64_t b) { return p->ragged ? p->batches[b].q_row : 0; }
static inline int64_t first_key(const cla_problem *p, int64_t b) { return p->ragged ? p->batches[b].k_row : 0; }

static inline const REAL *at(const clattn_tensor *t, int64_t b, int64_t h, int64_t i) {
    return (const REAL *)cla_tensor_data(t) + b * t->stride[0] + h * t->stride[1] + i * t->stride[2];
}

static inline int64_t head_of(const cla_problem *p, const cla_blas_task *t, int64_t row) {
    return t->hk * p->group + t->m0 + row / (t->i1 - t->i0);
}

static inline int64_t query_of(const cla_blas_task *t, int64_t row) { return t->i0 + row % (t->i1 - t->i0); }

static void copy_rows(REAL *to, const REAL *from, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        memcpy(to + r * columns, from + r * stride, (size_t)columns * sizeof *to);
}

/* The block of k or v from key j on, as BLAS can read it: where it lies, or copied to `room`. */
static const REAL *block_of(const cla_problem *p, const clattn_tensor *x, const cla_blas_task *t, int64_t j, int64_t n,
                            REAL *room, int *ld) {
    const REAL *from = at(x, t->b, t->hk, first_key(p, t->b) + j);
    *ld = (int)x->shape[3];
    if (room)
        copy_rows(room, from, x->stride[2], n, x->shape[3]);
    else if (n > 1)
        *ld = (int)x->stride[2];
    return room ? room : from;
}

/* ---- one block of keys ---- */

/* S[rows, n] = Q K^T, unscaled. */
static void scores(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t j, int64_t n,
                   REAL *scratch) {
    const int rows = (int)cla_blas_task_rows(t), columns = (int)n, depth = (int)p->D;
    int ld;
    const REAL *q = scratch + a->q, *k = block_of(p, &p->k, t, j, n, a->copy_keys ? scratch + a->k : NULL, &ld);
    REAL *s = scratch + a->s;
    if (rows == 1) {
        memset(s, 0, (size_t)n * sizeof *s); /* some versions of gemv multiply what is there by 0 */
        GEMV(CblasRowMajor, CblasNoTrans, columns, depth, 1, k, ld, q, 1, 0, s, 1);
    } else {
        GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, columns, depth, 1, q, depth, k, ld, 0, s, columns);
    }
}

/* T[rows, Dv] = S V. */
static void product(const cla_problem *p, const cla_blas_task *t, int64_t n, const REAL *s, const REAL *v, int ld,
                    REAL *out) {
    const int rows = (int)cla_blas_task_rows(t), columns = (int)p->Dv, depth = (int)n;
    if (rows == 1) {
        memset(out, 0, (size_t)p->Dv * sizeof *out);
        GEMV(CblasRowMajor, CblasTrans, depth, columns, 1, v, ld, s, 1, 0, out, 1);
    } else {
        GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, depth, 1, s, depth, v, ld, 0, out, columns);
    }
}

/* BLAS chooses kernels by shape, and with them the order of sums. Here the shape is always the same: keys in pieces of
 * CLA_BLAS_FIXED, rows and keys that do not exist are zeros. */
static void pad_rows(REAL *to, int64_t rows, int64_t all, int64_t columns) {
    memset(to + rows * columns, 0, (size_t)((all - rows) * columns) * sizeof *to);
}

static void fixed_scores(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t j, int64_t n,
                         REAL *scratch) {
    const int rows = (int)a->rows, depth = (int)p->D;
    REAL *piece = scratch + a->x, *k = scratch + a->y;
    for (int64_t x = 0; x < n; x += CLA_BLAS_FIXED) {
        const int64_t keys = n - x < CLA_BLAS_FIXED ? n - x : CLA_BLAS_FIXED;
        copy_rows(k, at(&p->k, t->b, t->hk, first_key(p, t->b) + j + x), p->k.stride[2], keys, p->D);
        pad_rows(k, keys, CLA_BLAS_FIXED, p->D);
        GEMM(CblasRowMajor, CblasNoTrans, CblasTrans, rows, CLA_BLAS_FIXED, depth, 1, scratch + a->q, depth, k, depth,
             0, piece, CLA_BLAS_FIXED);
        for (int64_t r = 0; r < cla_blas_task_rows(t); r++)
            copy_rows(scratch + a->s + r * n + x, piece + r * CLA_BLAS_FIXED, 0, 1, keys);
    }
}

static void fixed_product(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t n,
                          REAL *scratch, const REAL *values, int64_t ld) {
    const int rows = (int)a->rows, columns = (int)p->Dv;
    REAL *piece = scratch + a->x, *v = scratch + a->y;
    memset(piece, 0, (size_t)(a->rows * CLA_BLAS_FIXED) * sizeof *piece);
    for (int64_t x = 0; x < n; x += CLA_BLAS_FIXED) {
        const int64_t keys = n - x < CLA_BLAS_FIXED ? n - x : CLA_BLAS_FIXED;
        for (int64_t r = 0; r < cla_blas_task_rows(t); r++) {
            copy_rows(piece + r * CLA_BLAS_FIXED, scratch + a->s + r * n + x, 0, 1, keys);
            pad_rows(piece + r * CLA_BLAS_FIXED, keys, CLA_BLAS_FIXED, 1);
        }
        copy_rows(v, values + x * ld, ld, keys, p->Dv);
        pad_rows(v, keys, CLA_BLAS_FIXED, p->Dv);
        GEMM(CblasRowMajor, CblasNoTrans, CblasNoTrans, rows, columns, CLA_BLAS_FIXED, 1, piece, CLA_BLAS_FIXED, v,
             columns, x > 0, scratch + a->t, columns);
    }
}

/* Soft cap, then ALiBi: key j + x of a row whose position is `at`. The scores are scaled after it. */
static void cap_and_slope(const cla_problem *p, int64_t b, int64_t h, int64_t i, int64_t j, int64_t n, REAL *s) {
    const REAL cap = (REAL)p->softcap, slope = p->slopes ? (REAL)p->slopes[h] : 0;
    const int64_t position = p->slopes ? i + p->batches[b].offset : 0;
    scale_row(s, n, (REAL)p->scale);
    for (int64_t x = 0; x < n && cap > 0; x++)
        s[x] = cap * TANH(s[x] / cap);
    for (int64_t x = 0; x < n && p->slopes; x++)
        s[x] -= slope * (REAL)(position < j + x ? j + x - position : position - (j + x));
}

/* What score masks do to a row's scores for keys from j on; the scores are unscaled before. */
static void mask_row(const cla_problem *p, int64_t b, int64_t h, int64_t i, int64_t j, int64_t n, REAL *s) {
    REAL scale = (REAL)p->scale;
    if (p->softcap > 0 || p->slopes || !p->bias.rank) {
        cap_and_slope(p, b, h, i, j, n, s);
        scale = 1;
    }
    if (p->bias.rank) {
        const int64_t stride = p->bias.stride[3];
        add_bias(s, at(&p->bias, b, h, i) + j * stride, stride, n, scale);
    }
    for (int64_t x = 0; x < n && p->q_segments; x++)
        if (p->q_segments[b * p->N + i] != p->k_segments[b * p->M + j + x])
            s[x] = excluded_score;
    const clattn_tensor *const masks[] = {&p->keep, &p->drop};
    for (int k = 0; k < 2; k++)
        if (masks[k]->rank) {
            const clattn_tensor *x = masks[k];
            const uint8_t *from = (const uint8_t *)cla_tensor_data(x) + b * x->stride[0] + h * x->stride[1] +
                                  i * x->stride[2] + j * x->stride[3];
            exclude_where(s, from, x->stride[3], n, k == 1);
        }
}

/* ---- weights for the caller ---- */

/* Where the weights of a row go; NULL when they are not asked for. */
static REAL *weights_row(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t row) {
    const clattn_tensor *w = &p->weights;
    const int64_t h = head_of(p, t, row), i = query_of(t, row);
    const int64_t y = a->row_of ? a->row_of[i] : i, x = a->head_of ? a->head_of[h] : h;
    return !w->rank || y < 0 || x < 0
               ? NULL
               : (REAL *)cla_tensor_data(w) + t->b * w->stride[0] + (p->mean ? 0 : x * w->stride[1]) + y * w->stride[2];
}

/* Scores as they are before masks: `form` is scaled or capped. All keys are in s, unscaled. */
static void store_raw(const cla_problem *p, const cla_blas_task *t, const REAL *s, REAL *to) {
    const int64_t stride = p->weights.stride[3], keys = p->table ? p->batches[t->b].keys : p->M;
    const REAL cap = p->form == CLATTN_WEIGHTS_CAPPED ? (REAL)p->softcap : 0, scale = (REAL)p->scale;
    for (int64_t j = 0; j < p->M; j++) {
        const REAL x = scale * s[j];
        to[j * stride] = j >= keys ? excluded_score : cap > 0 ? cap * TANH(x / cap) : x;
    }
}

/* Scores after masks, of the keys [j + lo, j + hi). */
static void store_masked(const cla_problem *p, const REAL *s, int64_t j, int64_t lo, int64_t hi, REAL *to) {
    const int64_t stride = p->weights.stride[3];
    for (int64_t x = 0; x < p->M; x++)
        to[x * stride] = x >= j + lo && x < j + hi ? s[x - j] : excluded_score;
}

/* Scores of one row to weights. Raises *m, adds to *l; what the sums so far are to be multiplied by. */
static REAL softmax_row(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t row, int64_t j,
                        int64_t n, REAL *s, REAL *m, REAL *l) {
    REAL *form = p->form != CLATTN_WEIGHTS_SOFTMAX && t->pass == CLA_BLAS_ROWS ? weights_row(p, a, t, row) : NULL;
    const int64_t h = head_of(p, t, row), i = query_of(t, row);
    REAL block, factor = 1;
    int64_t lo, hi;
    cla_problem_keys(p, t->b, i, &lo, &hi);
    lo = lo < j ? 0 : lo - j < n ? lo - j : n;
    hi = hi < j + lo ? lo : hi - j < n ? hi - j : n;
    if (form && p->form != CLATTN_WEIGHTS_MASKED)
        store_raw(p, t, s, form);
    for (int64_t x = 0; x < lo; x++)
        s[x] = excluded_weight;
    for (int64_t x = hi; x < n; x++)
        s[x] = excluded_weight;
    if (p->score) {
        mask_row(p, t->b, h, i, j + lo, hi - lo, s + lo);
        block = max_of_row(s + lo, hi - lo);
    } else {
        block = scale_row(s + lo, hi - lo, (REAL)p->scale);
    }
    if (form && p->form == CLATTN_WEIGHTS_MASKED)
        store_masked(p, s, j, lo, hi, form);
    if (block > *m) {
        factor = exp_shifted(*m - block, 0);
        *m = block;
    }
    *l *= factor;
    for (int64_t x = lo; x < hi; x += 512) /* short sums first */
        *l += exp_row(s + x, hi - x < 512 ? hi - x : 512, *m, (uint32_t)a->shift);
    if (a->dropout.bound > 0)
        drop_row(&a->dropout, t->b, h, i, j + lo, j + hi, s + lo);
    return factor;
}

/* Some of the product is not finite, which is right only where a kept weight meets a value that is not. The product is
 * taken again without those values, and they are added one at a time. */
static void repair(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t j, int64_t n,
                   REAL *scratch) {
    const int64_t rows = cla_blas_task_rows(t), Dv = p->Dv;
    REAL *v = scratch + a->v, *s = scratch + a->s, *out = scratch + a->t;
    int64_t found = 0;
    copy_rows(v, at(&p->v, t->b, t->hk, first_key(p, t->b) + j), p->v.stride[2], n, Dv);
    for (int64_t x = 0; x < n * Dv; x++)
        if (!isfinite(v[x])) {
            v[x] = 0;
            found++;
        }
    if (found == 0)
        return;
    if (a->fixed)
        fixed_product(p, a, t, n, scratch, v, Dv);
    else
        product(p, t, n, s, v, (int)Dv, out);
    for (int64_t x = 0; x < n; x++) {
        const REAL *from = at(&p->v, t->b, t->hk, first_key(p, t->b) + j + x);
        if (all_finite(from, Dv))
            continue;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t d = 0; d < Dv && !is_excluded(s[r * n + x]); d++)
                if (!isfinite(from[d]))
                    out[r * Dv + d] += s[r * n + x] * from[d];
    }
}

void CLA_BLAS_RUN(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, REAL *scratch, REAL *state) {
    const int64_t rows = cla_blas_task_rows(t), Dv = p->Dv;
    REAL *o = state + a->o, *m = state + a->m, *l = state + a->l, *s = scratch + a->s, *sums = scratch + a->t;
    int ld;
    for (int64_t r = 0; r < rows; r++) {
        copy_rows(scratch + a->q + r * p->D, at(&p->q, t->b, head_of(p, t, r), first_query(p, t->b) + query_of(t, r)),
                  0, 1, p->D);
        m[r] = excluded_score;
        l[r] = 0;
    }
    if (a->fixed)
        pad_rows(scratch + a->q, rows, a->rows, p->D);
    memset(o, 0, (size_t)(rows * Dv) * sizeof *o);
    for (int64_t j = t->j0; j < t->j1; j += a->keys) {
        const int64_t n = t->j1 - j < a->keys ? t->j1 - j : a->keys;
        if (a->fixed)
            fixed_scores(p, a, t, j, n, scratch);
        else
            scores(p, a, t, j, n, scratch);
        for (int64_t r = 0; r < rows; r++) {
            const REAL factor = softmax_row(p, a, t, r, j, n, s + r * n, m + r, l + r);
            if (factor != 1)
                scale_row(o + r * Dv, Dv, factor);
        }
        if (Dv == 0 || t->pass != CLA_BLAS_ROWS)
            continue;
        const REAL *v = block_of(p, &p->v, t, j, n, a->copy_values ? scratch + a->v : NULL, &ld);
        if (a->fixed)
            fixed_product(p, a, t, n, scratch, v, a->copy_values ? Dv : p->v.stride[2]);
        else
            product(p, t, n, s, v, ld, sums);
        if (!all_finite(sums, rows * Dv))
            repair(p, a, t, j, n, scratch);
        accumulate(o, sums, rows * Dv);
    }
}

void CLA_BLAS_MERGE(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t parts,
                    REAL *states) {
    const int64_t Dv = p->Dv;
    for (int64_t r = 0; r < cla_blas_task_rows(t); r++) {
        REAL *o = states + a->o + r * Dv, *m = states + a->m + r, *l = states + a->l + r;
        for (int64_t x = 1; x < parts; x++) {
            const REAL *other = states + x * a->state;
            const REAL top = other[a->m + r] > *m ? other[a->m + r] : *m;
            const REAL mine = *m == top ? 1 : exp_shifted(*m - top, 0);
            const REAL theirs = other[a->m + r] == top ? 1 : exp_shifted(other[a->m + r] - top, 0);
            for (int64_t d = 0; d < Dv; d++)
                o[d] = o[d] * mine + other[a->o + r * Dv + d] * theirs;
            *l = *l * mine + other[a->l + r] * theirs;
            *m = top;
        }
    }
}

static void store_weights(const cla_problem *p, const cla_blas_task *t, const REAL *s, REAL l, REAL *to) {
    const int64_t stride = p->weights.stride[3];
    for (int64_t j = 0; j < t->j0; j++)
        to[j * stride] = 0;
    for (int64_t j = t->j0; j < t->j1; j++)
        to[j * stride] = is_excluded(s[j - t->j0]) ? 0 : s[j - t->j0] / l;
    for (int64_t j = t->j1; j < p->M; j++)
        to[j * stride] = 0;
}

/* to[j] += P of the keys of the task. */
static void add_weights(const cla_blas_task *t, const REAL *s, REAL l, int64_t stride, REAL *to) {
    for (int64_t j = t->j0; j < t->j1; j++)
        to[j * stride] += is_excluded(s[j - t->j0]) ? 0 : s[j - t->j0] / l;
}

static REAL entropy_of(const cla_blas_task *t, const REAL *s, REAL l) {
    const int64_t keys = t->j1 - t->j0;
    REAL sum = 0;
    for (int64_t from = 0; from < keys; from += 512) { /* short sums first */
        REAL part = 0;
        for (int64_t j = from; j < keys && j < from + 512; j++)
            if (s[j] != 0) { /* 0: excluded, or P ln P = 0; NaN stays */
                const REAL x = s[j] / l;
                part -= x == 0 ? 0 : x * LOG(x);
            }
        sum += part;
    }
    return sum;
}

/* A sink is a logit without a value: it raises the maximum and the sum. What O, the weights and l shrink by. */
static REAL add_sink(const cla_problem *p, const cla_blas_layout *a, int64_t h, REAL *m, REAL *l) {
    const REAL sink = p->sinks.rank ? ((const REAL *)cla_tensor_data(&p->sinks))[h] : excluded_score;
    if (sink == excluded_score)
        return 1;
    const bool seen = *l != 0; /* else LSE is the sink as it is, infinite or NaN too */
    const REAL top = sink > *m || !seen ? sink : *m, shrink = *m == top || !seen ? 1 : exp_shifted(*m - top, 0);
    *l = *l * shrink + exp_shifted(seen ? sink - top : 0, (uint32_t)a->shift);
    *m = top;
    return shrink;
}

static void store_row(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t row,
                      const REAL *s, const REAL *state) {
    const int64_t h = head_of(p, t, row), i = first_query(p, t->b) + query_of(t, row), Dv = p->Dv;
    const REAL unshift = (REAL)((int64_t)1 << a->shift), *o = state + a->o + row * Dv;
    REAL m = state[a->m + row], l = state[a->l + row];
    const bool seen = l != 0;
    const REAL shrink = add_sink(p, a, h, &m, &l), divisor = l / shrink;
    REAL *to = (REAL *)cla_tensor_data(&p->o) + t->b * p->o.stride[0] + h * p->o.stride[1] + i * p->o.stride[2];
    for (int64_t d = 0; d < Dv; d++)
        to[d] = seen ? o[d] / divisor : 0;
    if (p->lse.rank)
        ((REAL *)cla_tensor_data(&p->lse))[t->b * p->lse.stride[1] + h * p->lse.stride[2] + i * p->lse.stride[3]] =
            m + LOG(l * unshift);
    if (p->state.rank) {
        REAL *state_to = (REAL *)cla_tensor_data(&p->state) + t->b * p->state.stride[0] + h * p->state.stride[1] +
                         i * p->state.stride[2];
        state_to[0] = seen ? m : 0;
        state_to[1] = seen ? 1 / (l * unshift) : 0;
    }
    if (p->entropy.rank)
        ((REAL *)cla_tensor_data(
            &p->entropy))[t->b * p->entropy.stride[1] + h * p->entropy.stride[2] + i * p->entropy.stride[3]] =
            entropy_of(t, s, divisor);
    REAL *w = p->mean || (p->form && t->j0 < t->j1) ? NULL : weights_row(p, a, t, row);
    if (w && p->form)
        store_masked(p, s, 0, 0, 0, w); /* no key is seen, and none was looked at */
    else if (w)
        store_weights(p, t, s, divisor, w);
}

/* The row's share of the mean over heads, or of the column sums of its head. */
static void add_row(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, int64_t row, const REAL *s,
                    const REAL *state) {
    const clattn_tensor *c = &p->column_sums;
    const int64_t h = head_of(p, t, row);
    REAL m = state[a->m + row], l = state[a->l + row];
    const REAL shrink = add_sink(p, a, h, &m, &l), divisor = l / shrink;
    if (t->pass == CLA_BLAS_MEAN) {
        REAL *to = weights_row(p, a, t, row);
        if (to)
            add_weights(t, s, divisor, p->weights.stride[3], to);
    } else {
        add_weights(t, s, divisor, c->stride[3],
                    (REAL *)cla_tensor_data(c) + t->b * c->stride[1] + h * c->stride[2] +
                        first_key(p, t->b) * c->stride[3]);
    }
}

void CLA_BLAS_STORE(const cla_problem *p, const cla_blas_layout *a, const cla_blas_task *t, const REAL *scratch,
                    const REAL *state) {
    const int64_t rows = cla_blas_task_rows(t), keys = t->j1 - t->j0;
    for (int64_t r = 0; r < rows; r++)
        if (t->pass == CLA_BLAS_ROWS)
            store_row(p, a, t, r, scratch + a->s + r * keys, state);
        else
            add_row(p, a, t, r, scratch + a->s + r * keys, state);
}
