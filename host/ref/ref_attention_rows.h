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

/* A kept score: cap, then ALiBi, then bias; -inf excludes. */
static SUM score(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, int64_t j) {
    SUM s = 0;
    for (int64_t d = 0; d < a->D; d++)
        s += load(&a->q, b, h, batch->q_row + i, d) * load_key(a, &a->k, b, h, batch->k_row + j, d);
    s *= (SUM)a->scale;
    if (a->softcap > 0)
        s = (SUM)a->softcap * TANH(s / (SUM)a->softcap);
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

/* One query: scores (-inf where excluded), then weights (-1 where excluded), then O. */
static void one_query(const cla_ref_attention *a, const cla_ref_batch *batch, int64_t b, int64_t h, int64_t i, SUM *s,
                      SUM *o) {
    const int64_t keys = batch->keys;
    const SUM sink = a->sinks.rank ? load(&a->sinks, 0, 0, 0, h) : (SUM)-INFINITY;
    const bool has_sink = sink != (SUM)-INFINITY;
    SUM m = has_sink ? sink : (SUM)-INFINITY, l = 0;
    bool any = false;
    for (int64_t j = 0; j < keys; j++) {
        s[j] = sees(a, batch, b, h, i, j) ? score(a, batch, b, h, i, j) : (SUM)-INFINITY;
        any = any || s[j] != (SUM)-INFINITY;
        if (s[j] > m)
            m = s[j];
    }
    for (int64_t d = 0; d < a->Dv; d++)
        o[d] = 0;
    if (has_sink)
        l = EXP(sink - m);
    for (int64_t j = 0; j < keys; j++)
        if (s[j] == (SUM)-INFINITY) {
            s[j] = -1;
        } else {
            s[j] = EXP(s[j] - m);
            l += s[j];
        }
    for (int64_t j = 0; j < keys; j++)
        if (s[j] != -1)
            for (int64_t d = 0; d < a->Dv; d++)
                o[d] += s[j] / l * load_key(a, &a->v, b, h, batch->k_row + j, d);
    for (int64_t d = 0; d < a->Dv; d++)
        store(&a->o, b, h, batch->q_row + i, d, o[d]);
    for (int64_t j = 0; a->weights.rank && j < a->M; j++)
        store(&a->weights, b, h, i, j, j >= keys || s[j] == -1 ? 0 : s[j] / l);
    if (a->lse.rank) /* -inf where no key is seen and there is no sink */
        store(&a->lse, 0, b, h, batch->q_row + i, any || has_sink ? m + LOG(l) : (SUM)-INFINITY);
}

static void one_row(const cla_ref_attention *a, int64_t row, SUM *s, SUM *o) {
    const int64_t b = row / (a->H * a->N), h = row / a->N % a->H, i = row % a->N;
    const cla_ref_batch whole = {.queries = a->N, .keys = a->M};
    const cla_ref_batch *batch = a->batches ? &a->batches[b] : &whole;
    if (!a->ragged || i < batch->queries)
        one_query(a, batch, b, h, i, s, o);
}

clattn_status CLA_REF_ATTENTION(const cla_ref_attention *a) {
    const int64_t rows = a->B * a->H * a->N;
    bool failed = false;
#pragma omp parallel
    {
        SUM *s = NULL, *o = NULL;
        bool mine = cla_alloc((size_t)a->M, sizeof *s, "scores", &s) == CLATTN_OK &&
                    cla_alloc((size_t)a->Dv, sizeof *o, "sums", &o) == CLATTN_OK;
        if (!mine) {
#pragma omp atomic write
            failed = true;
        }
#pragma omp for schedule(dynamic, 4)
        for (int64_t row = 0; row < rows; row++)
            if (mine)
                one_row(a, row, s, o);
        cla_free(s);
        cla_free(o);
    }
    return failed ? cla_error(CLATTN_E_MEMORY, "reference: out of memory for a row of %lld scores", (long long)a->M)
                  : CLATTN_OK;
}
