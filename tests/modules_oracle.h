/* SPDX-License-Identifier: Apache-2.0 */
/* Modules in tests: arrays on a device or the host from doubles, and the parts of the Transformer by plain loops in
 * double, which share no code with the library. */
#ifndef MODULES_ORACLE_H
#define MODULES_ORACLE_H

#include "oracle.h"
#include "testing.h"
#include <math.h>
#include <stdlib.h>

/* ---- arrays ---- */

enum { POOL = 2048 };

/* Everything that a test makes, given back at its end. */
typedef struct {
    clattn_context *context;
    clattn_dtype dtype;
    bool buffers; /* else host arrays */
    oracle_random random;
    void *blocks[POOL];
    clattn_buffer *made[POOL];
    int block_count, made_count;
} pool;

static inline void *pool_block(pool *p, size_t bytes) {
    cr_assert_lt(p->block_count, POOL);
    void *block = calloc(1, bytes + 64);
    cr_assert_not_null(block);
    return p->blocks[p->block_count++] = block;
}

static inline void pool_free(pool *p) {
    for (int i = 0; i < p->made_count; i++)
        clattn_buffer_destroy(p->made[i]);
    for (int i = 0; i < p->block_count; i++)
        free(p->blocks[i]);
    p->block_count = p->made_count = 0;
}

static inline int64_t product(int rank, const int64_t *shape) {
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return n;
}

/* A dense tensor of a type, of these values; NULL: NaN everywhere. */
static inline clattn_tensor pool_typed(pool *p, clattn_dtype dtype, const double *values, int rank,
                                       const int64_t *shape) {
    const size_t count = (size_t)product(rank, shape), bytes = clattn_dtype_bytes(dtype, count);
    void *array = pool_block(p, bytes);
    if (values)
        SUCCEEDS(clattn_convert(array, dtype, values, CLATTN_F64, count));
    else
        memset(array, 0xff, bytes);
    if (!p->buffers)
        return clattn_tensor_host(array, dtype, rank, shape);
    cr_assert_lt(p->made_count, POOL);
    clattn_buffer **buffer = &p->made[p->made_count++];
    SUCCEEDS(clattn_buffer_create(p->context, bytes, buffer));
    SUCCEEDS(clattn_buffer_upload(*buffer, 0, array, bytes));
    return clattn_tensor_buffer(*buffer, dtype, rank, shape);
}

static inline clattn_tensor pool_tensor(pool *p, const double *values, int rank, const int64_t *shape) {
    return pool_typed(p, p->dtype, values, rank, shape);
}

/* The values of a dense tensor. */
static inline double *pool_values(pool *p, const clattn_tensor *t) {
    const size_t count = (size_t)clattn_tensor_elements(t);
    double *values = pool_block(p, count * sizeof *values);
    void *array = t->host;
    if (t->buffer) {
        array = pool_block(p, clattn_dtype_bytes(t->dtype, count));
        SUCCEEDS(clattn_buffer_download(t->buffer, 0, array, clattn_dtype_bytes(t->dtype, count)));
    }
    for (size_t i = 0; i < count; i++)
        values[i] = oracle_decode(t->dtype, array, (int64_t)i);
    return values;
}

/* Normal numbers times a factor, as they are after storage in the pool's type. */
static inline double *pool_random(pool *p, int64_t count, double factor) {
    double *values = pool_block(p, (size_t)count * sizeof *values);
    for (int64_t i = 0; i < count; i++)
        values[i] = factor * oracle_normal(&p->random);
    oracle_round(p->dtype, values, count);
    return values;
}

/* Some sums one after another: what a single rounding of the largest value may be off, times 16. */
static inline double module_allowed(clattn_dtype dtype, const double *want, int64_t count) {
    double largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(want[i]));
    return 16 * oracle_floor(dtype, fmax(largest, 0.25));
}

static inline void expect_values(pool *p, const clattn_tensor *t, const double *want, const char *name) {
    const int64_t count = clattn_tensor_elements(t);
    const double *got = pool_values(p, t), most = module_allowed(t->dtype, want, count);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= most)) {
            cr_expect(false, "%s in %s: element %lld of %lld is %.9g, not %.9g, allowed %.2g", name,
                      clattn_dtype_name(t->dtype), (long long)i, (long long)count, got[i], want[i], most);
            return;
        }
}

/* ---- the parts, in double; everything dense and batch first ---- */

/* y[rows, out] = x[rows, in] w[out, in]^T + bias */
static inline void plain_linear(const double *x, const double *w, const double *bias, double *y, int64_t rows,
                                int64_t in, int64_t out) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t o = 0; o < out; o++) {
            double sum = bias ? bias[o] : 0;
            for (int64_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
}

typedef struct {
    int64_t E, H, Hk, D, Dv, kdim, vdim;
    double *q, *k, *v, *out;                     /* [out, in] */
    double *q_bias, *k_bias, *v_bias, *out_bias; /* or NULL */
    double *last_k, *last_v;                     /* [Hk D], [Hk Dv], or NULL */
    bool zeros;
    double scale; /* 0: 1 / sqrt(D) */
} plain_heads;

/* What is added to the score; -INFINITY hides. M + n stands for keys behind the others. */
typedef double (*plain_mask)(const void *mask, int64_t b, int64_t h, int64_t i, int64_t j);

typedef struct {
    int64_t B, N, M;
    const double *query, *key, *value;
    plain_mask mask; /* of the first M keys; NULL: none */
    const void *mask_data;
} plain_call;

static inline int64_t plain_keys(const plain_heads *h, const plain_call *c) {
    return c->M + (h->last_k != NULL) + h->zeros;
}

/* Rows of keys or values with what stands behind them: [B, keys, columns]. */
static inline double *plain_rows(pool *p, const plain_heads *h, const plain_call *c, const double *x, const double *w,
                                 const double *bias, const double *last, int64_t in, int64_t columns) {
    const int64_t keys = plain_keys(h, c);
    double *rows = pool_block(p, (size_t)(c->B * keys * columns) * sizeof *rows);
    for (int64_t b = 0; b < c->B; b++) {
        plain_linear(x + b * c->M * in, w, bias, rows + b * keys * columns, c->M, in, columns);
        if (last)
            memcpy(rows + (b * keys + c->M) * columns, last, (size_t)columns * sizeof *rows);
    }
    return rows;
}

/* y [B, N, E]; weights [B, H, N, keys]. */
static inline void plain_attend(pool *p, const plain_heads *h, const plain_call *c, double *y, double *weights) {
    const int64_t keys = plain_keys(h, c), group = h->H / h->Hk, rows = c->B * c->N;
    double *q = pool_block(p, (size_t)(rows * h->H * h->D) * sizeof *q);
    double *o = pool_block(p, (size_t)(rows * h->H * h->Dv) * sizeof *o);
    plain_linear(c->query, h->q, h->q_bias, q, rows, h->E, h->H * h->D);
    const double *k = plain_rows(p, h, c, c->key, h->k, h->k_bias, h->last_k, h->kdim, h->Hk * h->D);
    const double *v = plain_rows(p, h, c, c->value, h->v, h->v_bias, h->last_v, h->vdim, h->Hk * h->Dv);
    const double scale = h->scale != 0 ? h->scale : 1 / sqrt((double)h->D);
    for (int64_t row = 0; row < rows * h->H; row++) {
        const int64_t b = row / (h->H * c->N), head = row / c->N % h->H, i = row % c->N;
        double *w = weights + row * keys, largest = -INFINITY, sum = 0;
        for (int64_t j = 0; j < keys; j++) {
            w[j] = j < c->M && c->mask ? c->mask(c->mask_data, b, head, i, j) : 0;
            for (int64_t d = 0; d < h->D && w[j] > -INFINITY; d++)
                w[j] += scale * q[((b * c->N + i) * h->H + head) * h->D + d] *
                        k[((b * keys + j) * h->Hk + head / group) * h->D + d];
            largest = fmax(largest, w[j]);
        }
        for (int64_t j = 0; j < keys; j++)
            sum += w[j] = w[j] > -INFINITY ? exp(w[j] - largest) : 0;
        for (int64_t j = 0; j < keys && sum > 0; j++)
            w[j] /= sum;
        for (int64_t d = 0; d < h->Dv; d++) {
            double z = 0;
            for (int64_t j = 0; j < keys; j++)
                z += w[j] * v[((b * keys + j) * h->Hk + head / group) * h->Dv + d];
            o[((b * c->N + i) * h->H + head) * h->Dv + d] = z;
        }
    }
    plain_linear(o, h->out, h->out_bias, y, rows, h->H * h->Dv, h->E);
}

/* ---- weights of attention, for the library and for the loops ---- */

typedef struct {
    bool separate, transposed, no_bias, bias_kv, zeros;
    int64_t Hk, kdim, vdim, Dv; /* 0: as in PyTorch without them */
} heads_kind;

static inline double *turn(pool *p, const double *w, int64_t rows, int64_t columns) {
    double *t = pool_block(p, (size_t)(rows * columns) * sizeof *t);
    for (int64_t i = 0; i < rows * columns; i++)
        t[i % columns * rows + i / columns] = w[i];
    return t;
}

static inline clattn_tensor matrix(pool *p, const double *w, int64_t out, int64_t in, bool transposed) {
    const int64_t shape[] = {transposed ? in : out, transposed ? out : in};
    return pool_tensor(p, transposed ? turn(p, w, out, in) : w, 2, shape);
}

static inline clattn_tensor vector(pool *p, const double *x, int64_t n) {
    return x ? pool_tensor(p, x, 1, &n) : (clattn_tensor){0};
}

/* Values of q, k and v lie one after another, so that they are packed too. */
static inline void make_heads(pool *p, int64_t E, int64_t H, const heads_kind *kind, plain_heads *h,
                              clattn_multihead_weights *w) {
    *h = (plain_heads){.E = E, .H = H, .Hk = kind->Hk ? kind->Hk : H, .D = E / H, .zeros = kind->zeros};
    h->Dv = kind->Dv ? kind->Dv : h->D;
    h->kdim = kind->kdim ? kind->kdim : E;
    h->vdim = kind->vdim ? kind->vdim : E;
    const int64_t q = h->H * h->D, k = h->Hk * h->D, v = h->Hk * h->Dv, o = h->H * h->Dv;
    h->q = pool_random(p, q * E + k * h->kdim + v * h->vdim, 1 / sqrt((double)E));
    h->k = h->q + q * E;
    h->v = h->k + k * h->kdim;
    h->out = pool_random(p, E * o, 1 / sqrt((double)o));
    if (!kind->no_bias) {
        h->q_bias = pool_random(p, q + k + v, 1);
        h->k_bias = h->q_bias + q;
        h->v_bias = h->k_bias + k;
        h->out_bias = pool_random(p, E, 1);
    }
    if (kind->bias_kv) {
        h->last_k = pool_random(p, k, 1);
        h->last_v = pool_random(p, v, 1);
    }
    *w = (clattn_multihead_weights){.transposed = kind->transposed,
                                    .out = matrix(p, h->out, E, o, kind->transposed),
                                    .out_bias = vector(p, h->out_bias, E),
                                    .bias_k = vector(p, h->last_k, k),
                                    .bias_v = vector(p, h->last_v, v)};
    if (kind->separate) {
        w->q = matrix(p, h->q, q, E, kind->transposed);
        w->k = matrix(p, h->k, k, h->kdim, kind->transposed);
        w->v = matrix(p, h->v, v, h->vdim, kind->transposed);
        w->q_bias = vector(p, h->q_bias, q);
        w->k_bias = vector(p, h->k_bias, k);
        w->v_bias = vector(p, h->v_bias, v);
    } else {
        w->in_proj = matrix(p, h->q, q + k + v, E, kind->transposed);
        w->in_bias = vector(p, h->q_bias, q + k + v);
    }
}

/* ---- devices ---- */

/* f(pool) on `opencl` (where there is one) and `cpu`, in f32 and f64, with buffers and host arrays. */
static inline void on_devices(void (*check)(pool *p)) {
    static const char *const devices[] = {"opencl", "cpu"};
    int checked = 0;
    for (int d = 0; d < 2; d++) {
        clattn_context *context = NULL;
        clattn_device_info info;
        if (clattn_context_create(devices[d], NULL, &context) != CLATTN_OK)
            continue; /* no OpenCL here: `cpu` is checked */
        SUCCEEDS(clattn_context_info(context, &info));
        for (int i = 0; i < 4; i++) {
            pool p = {.context = context,
                      .dtype = i / 2 ? CLATTN_F64 : CLATTN_F32,
                      .buffers = i % 2 == 0,
                      .random = {(uint64_t)(17 + i)}};
            if (p.dtype == CLATTN_F64 && !info.has_f64)
                continue;
            check(&p);
            pool_free(&p);
            checked++;
        }
        clattn_context_destroy(context);
    }
    cr_assert_geq(checked, 4, "`cpu` at least");
}

#endif
