/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of ref_attention.h, for one type of sums. Included by the two files that define
 *   SUM       double or long double
 *   EXP, LOG, TANH  of that type
 *   CLA_REF_ATTENTION   the function's full name */
#include "base/error.h"
#include "base/mem.h"
#include "ref/ref_attention.h"
#include "tensor/dtype.h"
#include <math.h>

static int64_t place(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t d) {
    return t->offset + b * t->stride[0] + h * t->stride[1] + i * t->stride[2] + d * t->stride[3];
}

static SUM load(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t d) {
    return (SUM)cla_load_element(t->host, t->dtype, place(t, b, h, i, d));
}

static void store(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t d, SUM x) {
    cla_store_element(t->host, t->dtype, place(t, b, h, i, d), (double)x);
}

/* Row j of the keys or values of a batch, in one piece or in pages. */
static SUM load_key(const cla_ref_attention *a, const clattn_tensor *t, int64_t b, int64_t h, int64_t j, int64_t d) {
    const int64_t hk = h / (a->H / a->Hk);
    return a->page_size ? load(t, a->table[b * a->table_pages + j / a->page_size], hk, j % a->page_size, d)
                        : load(t, b, hk, j, d);
}

static bool is_set(const clattn_tensor *t, int64_t b, int64_t h, int64_t i, int64_t j) {
    return ((const uint8_t *)t->host)[place(t, b, h, i, j)] != 0;
}

static bool sees(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, int64_t j) {
    const int64_t p = i + batch->offset;
    if (i >= batch->queries || j >= batch->keys)
        return false;
    if (a->causal && j > p && j >= batch->prefix)
        return false;
    if (a->windowed && (j < p - a->left || j > p + a->right))
        return false;
    if (a->keep.rank && !is_set(&a->keep, b, h, i, j))
        return false;
    if (a->q_segments && a->q_segments[b * a->N + i] != a->k_segments[b * a->M + j])
        return false;
    return !(a->drop.rank && is_set(&a->drop, b, h, i, j));
}

/* A score in one of the forms: scaled, after the cap, or with ALiBi and bias (-inf excludes), whether kept or not. */
static SUM score(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, int64_t j,
                 int form) {
    SUM s = 0;
    for (int64_t d = 0; d < a->D; d++)
        s += load(&a->q, b, h, batch->q_row + i, d) * load_key(a, &a->k, b, h, batch->k_row + j, d);
    s *= (SUM)a->scale;
    if (a->softcap > 0 && form != CLA_REF_SCALED)
        s = (SUM)a->softcap * TANH(s / (SUM)a->softcap);
    if (form != CLA_REF_MASKED)
        return s;
    if (a->slopes) {
        const int64_t distance = i + batch->offset - j;
        s -= (SUM)a->slopes[h] * (SUM)(distance < 0 ? -distance : distance);
    }
    if (a->bias.rank) {
        const SUM bias = load(&a->bias, b, h, i, j);
        s = bias == (SUM)-INFINITY ? bias : s + bias;
    }
    return s;
}

/* The score that the softmax gets, -inf where excluded. */
static SUM masked_score(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i,
                        int64_t j) {
    return sees(a, batch, b, h, i, j) ? score(a, batch, b, h, i, j, CLA_REF_MASKED) : (SUM)-INFINITY;
}

/* What a row of weights is divided by, and its logarithm. */
typedef struct {
    SUM m, l;
    SUM sink;  /* -inf: none */
    bool seen; /* a key */
} row_sum;

/* s[j] = exp(score - m), -1 where excluded, for the keys of the batch; entropy may be NULL. */
static row_sum weigh(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, SUM *s,
                     SUM *entropy) {
    const SUM sink = a->sinks.rank ? load(&a->sinks, 0, 0, 0, h) : (SUM)-INFINITY;
    row_sum r = {.m = sink, .sink = sink};
    if (!(sink > (SUM)-INFINITY)) /* NaN too */
        r.m = (SUM)-INFINITY;
    for (int64_t j = 0; j < batch->keys; j++) {
        s[j] = masked_score(a, batch, b, h, i, j);
        if (s[j] > r.m)
            r.m = s[j];
    }
    if (sink != (SUM)-INFINITY)
        r.l = EXP(sink - r.m);
    SUM spread = 0, sum = 0; /* of exp(s - m) (m - s), and of exp(s - m) */
    for (int64_t j = 0; j < batch->keys; j++)
        if (s[j] == (SUM)-INFINITY) {
            s[j] = -1;
        } else {
            const SUM e = EXP(s[j] - r.m);
            r.seen = true;
            spread += e == 0 ? 0 : e * (r.m - s[j]);
            sum += e;
            s[j] = e;
            r.l += e;
        }
    if (entropy)
        *entropy = !r.seen ? 0 : (sum * LOG(r.l) + spread) / r.l;
    return r;
}

/* What dropout multiplies a weight by. */
static SUM kept(const cla_ref_attention *a, int64_t b, int64_t h, int64_t i, int64_t j) {
    return a->dropout.bound ? (SUM)cla_dropout_factor(&a->dropout, b, h, i, j) : 1;
}

/* One query: its weights, then O, LSE and entropy. */
static void one_query(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, SUM *s,
                      SUM *o) {
    SUM entropy;
    const row_sum r = weigh(a, batch, b, h, i, s, &entropy);
    for (int64_t d = 0; d < a->Dv; d++)
        o[d] = 0;
    for (int64_t j = 0; j < batch->keys; j++)
        if (s[j] != -1) {
            const SUM weight = s[j] / r.l * kept(a, b, h, i, j);
            for (int64_t d = 0; d < a->Dv; d++)
                o[d] += weight * load_key(a, &a->v, b, h, batch->k_row + j, d);
        }
    for (int64_t d = 0; d < a->Dv; d++)
        store(&a->o, b, h, batch->q_row + i, d, o[d]);
    if (a->lse.rank) /* where no key is seen, the sink as it is, infinite or NaN too */
        store(&a->lse, 0, b, h, batch->q_row + i, r.seen ? r.m + LOG(r.l) : r.sink);
    for (int64_t d = 0; d < 2 && a->state.rank; d++)
        store(&a->state, b, h, batch->q_row + i, d, !r.seen ? 0 : d == 0 ? r.m : 1 / r.l);
    if (a->entropy.rank)
        store(&a->entropy, 0, b, h, batch->q_row + i, entropy);
}

static cla_ref_batch batch_at(const cla_ref_attention *a, int64_t b) {
    return a->batches ? a->batches[b] : (cla_ref_batch){.queries = a->N, .keys = a->M};
}

static void one_row(const cla_ref_attention *a, int64_t row, SUM *s, SUM *o) {
    const int64_t b = row / (a->H * a->N), h = row / a->N % a->H, i = row % a->N;
    const cla_ref_batch batch = batch_at(a, b);
    if (!a->ragged || i < batch.queries)
        one_query(a, &batch, b, h, i, s, o);
}

/* ---- weights, and what is made of them: the rows again ---- */

/* Row x of the weights of batch b and head h, in its form. */
static void form_row(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, SUM *s) {
    if (a->form == CLA_REF_SOFTMAX) {
        const row_sum r = weigh(a, batch, b, h, i, s, NULL);
        for (int64_t j = 0; j < a->M; j++)
            s[j] = j >= batch->keys || s[j] == -1 ? 0 : s[j] / r.l;
        return;
    }
    for (int64_t j = 0; j < a->M; j++)
        if (a->form == CLA_REF_MASKED)
            s[j] = masked_score(a, batch, b, h, i, j);
        else
            s[j] = a->page_size && j >= batch->keys ? (SUM)-INFINITY : score(a, batch, b, h, i, j, a->form);
}

/* Row n of weights, counted over batches, heads (one with the mean) and queries. */
static void one_weights_row(const cla_ref_attention *a, int64_t n, SUM *s, SUM *sum) {
    const int64_t heads = a->mean ? 1 : a->head_count, x = n / a->row_count, row = n % a->row_count;
    const int64_t b = x / heads, i = a->rows ? a->rows[row] : row;
    const cla_ref_batch batch = batch_at(a, b);
    for (int64_t j = 0; j < a->M; j++)
        sum[j] = 0;
    for (int64_t slot = a->mean ? 0 : x % heads; slot < (a->mean ? a->head_count : x % heads + 1); slot++) {
        form_row(a, &batch, b, a->heads ? a->heads[slot] : slot, i, s);
        for (int64_t j = 0; j < a->M; j++)
            sum[j] += s[j];
    }
    for (int64_t j = 0; j < a->M; j++)
        store(&a->weights, b, x % heads, row, j, a->mean ? sum[j] / (SUM)a->head_count : sum[j]);
}

/* Column sums of head n, counted over batches. */
static void one_column_sum(const cla_ref_attention *a, int64_t n, SUM *s, SUM *sum) {
    const int64_t b = n / a->H, h = n % a->H;
    const cla_ref_batch batch = batch_at(a, b);
    const int64_t keys = a->ragged ? batch.keys : a->M;
    for (int64_t j = 0; j < keys; j++)
        sum[j] = 0;
    for (int64_t i = 0; i < (a->ragged ? batch.queries : a->N); i++) {
        const row_sum r = weigh(a, &batch, b, h, i, s, NULL);
        for (int64_t j = 0; j < batch.keys; j++)
            sum[j] += s[j] == -1 ? 0 : s[j] / r.l;
    }
    for (int64_t j = 0; j < keys; j++)
        store(&a->column_sums, 0, b, h, batch.k_row + j, sum[j]);
}

clattn_status CLA_REF_ATTENTION(const cla_ref_attention *a) {
    const int64_t rows = a->B * a->H * a->N;
    const int64_t weights = a->weights.rank ? a->B * (a->mean ? 1 : a->head_count) * a->row_count : 0;
    const int64_t columns = a->column_sums.rank ? a->B * a->H : 0;
    bool failed = false;
#pragma omp parallel
    {
        SUM *s = NULL, *o = NULL, *sum = NULL;
        bool mine = cla_alloc((size_t)a->M, sizeof *s, "scores", &s) == CLATTN_OK &&
                    cla_alloc((size_t)a->M, sizeof *sum, "sums of weights", &sum) == CLATTN_OK &&
                    cla_alloc((size_t)a->Dv, sizeof *o, "sums", &o) == CLATTN_OK;
        if (!mine) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(dynamic, 4)
        for (int64_t row = 0; row < rows; row++)
            if (mine)
                one_row(a, row, s, o);
#pragma omp for schedule(dynamic, 4)
        for (int64_t row = 0; row < weights; row++)
            if (mine)
                one_weights_row(a, row, s, sum);
#pragma omp for schedule(dynamic, 1)
        for (int64_t head = 0; head < columns; head++)
            if (mine)
                one_column_sum(a, head, s, sum);
        cla_free(s);
        cla_free(sum);
        cla_free(o);
    }
    return failed ? cla_error(CLATTN_E_MEMORY, "reference: out of memory for a row of %lld scores", (long long)a->M)
                  : CLATTN_OK;
}
